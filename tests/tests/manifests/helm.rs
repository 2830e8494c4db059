//! Rendering of the Helm chart.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use parking_lot::Mutex;
use runtime::kubernetes::OLDEST;
use serde_json::{Map, Value};
use tempfile::TempDir;

use crate::documents::{deploy, parse};

/// Names helm; without it the one in the `PATH` is taken.
const VARIABLE: &str = "CCM_TEST_HELM";

/// Returns the oldest supported version. Helm's default depends on how helm was built; from source it is older than the
/// chart accepts.
fn oldest() -> String {
    let (major, minor) = OLDEST;
    format!("{major}.{minor}.0")
}

/// Helm with its cached output: several tests use the same installations, and each takes a while to render.
pub(crate) struct Helm {
    program: PathBuf,
    made: Mutex<BTreeMap<Vec<String>, String>>,
}

impl Helm {
    /// Finds Helm; `None` if it is not installed.
    ///
    /// # Errors
    /// The variable names something that does not run.
    pub(crate) fn find() -> Result<Option<Self>> {
        let named = std::env::var_os(VARIABLE).filter(|path| !path.is_empty());
        let program = PathBuf::from(named.clone().unwrap_or_else(|| "helm".into()));
        let ran = Command::new(&program).arg("version").output();
        match ran {
            Ok(output) if output.status.success() => Ok(Some(Self {
                program,
                made: Mutex::default(),
            })),
            _ if named.is_none() => Ok(None),
            Ok(output) => anyhow::bail!(
                "{VARIABLE} names {}, which fails: {}",
                program.display(),
                output.status
            ),
            Err(error) => {
                Err(error).with_context(|| format!("{VARIABLE} names {}", program.display()))
            }
        }
    }

    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    /// Returns the output of `helm template` for these values (`name=value`, as for `--set`), or its error.
    pub(crate) fn text(&self, values: &[String]) -> Result<String> {
        let made = || self.made.lock();
        if let Some(text) = made().get(values) {
            return Ok(text.clone());
        }
        let mut command = Command::new(&self.program);
        command
            .args(["template", "cloud-controller-manager"])
            .arg(deploy().join("helm/ccm-rs"));
        command.args(["--namespace", "kube-system", "--kube-version", &oldest()]);
        command.args([
            "--set",
            "image.repository=registry.example.com/cloud-controller-manager",
        ]);
        for value in values {
            command.args(["--set", value]);
        }
        let output = command
            .output()
            .with_context(|| format!("running {}", self.program.display()))?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "helm template with {values:?}: {complaint}"
        );
        let text = String::from_utf8(output.stdout)?;
        made().insert(values.to_vec(), text.clone());
        Ok(text)
    }

    /// Returns the output of `helm template` of a chart for these values, as in a values file, or its error.
    pub(crate) fn rendered(&self, chart: &Path, values: &Map<String, Value>) -> Result<String> {
        self.rendered_as(("ccm", "kube-system"), chart, values)
    }

    /// Returns the same for a release with this name in this namespace.
    pub(crate) fn rendered_as(
        &self,
        (release, namespace): (&str, &str),
        chart: &Path,
        values: &Map<String, Value>,
    ) -> Result<String> {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("values.yaml");
        std::fs::write(&file, serde_json::to_string(values)?)?;
        let mut command = Command::new(&self.program);
        command.args(["template", release]).arg(chart);
        command.args(["--namespace", namespace, "--kube-version", &oldest()]);
        if values.get("image").is_none() {
            command.args([
                "--set",
                "image.repository=registry.example.com/cloud-controller-manager",
            ]);
        }
        let output = command.arg("--values").arg(file).output()?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{complaint}");
        // Helm only warns of a value whose type is not that of its default, and may ignore the value.
        ensure!(!complaint.contains("warning"), "{complaint}");
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Returns the text that `helm install` prints. Helm shows it with a cluster only, so a copy of the chart has the text
    /// as a template of its own.
    pub(crate) fn notes(&self, values: &Map<String, Value>) -> Result<String> {
        self.notes_as(("ccm", "kube-system"), values, &Map::new())
    }

    /// Returns the same for a release with this name in this namespace, in a cluster with these objects: `KIND/NAMESPACE/NAME`
    /// and the object.
    pub(crate) fn notes_as(
        &self,
        release: (&str, &str),
        values: &Map<String, Value>,
        objects: &Map<String, Value>,
    ) -> Result<String> {
        let folder = tempfile::tempdir()?;
        let chart = folder.path().join("ccm-rs");
        let copied = Command::new("cp")
            .arg("-R")
            .arg(deploy().join("helm/ccm-rs"))
            .arg(&chart)
            .status()?;
        ensure!(copied.success(), "cp -R: {copied}");
        let notes = chart.join("templates/NOTES.txt");
        let text = std::fs::read_to_string(&notes)?;
        std::fs::remove_file(&notes)?;
        std::fs::write(
            chart.join("templates/_notes.tpl"),
            format!("{{{{- define \"notes\" -}}}}\n{text}{{{{- end }}}}\n"),
        )?;
        let document = "kind: Notes\ntext: {{ include \"notes\" . | quote }}\n";
        std::fs::write(chart.join("templates/notes.yaml"), document)?;
        let found = "index . (printf \"%s/%s/%s\" (index $ 1) (index $ 2) (index $ 3))";
        let find = format!(
            "{{{{ define \"ccm.find\" }}}}{{{{ with fromJson `{}` }}}}{{{{ with {found} }}}}{{{{ toJson . }}}}{{{{ end }}}}{{{{ end }}}}{{{{ end }}}}",
            serde_json::to_string(objects)?
        );
        std::fs::write(chart.join("templates/_find.tpl"), find)?;
        let documents = parse(&self.rendered_as(release, &chart, values)?)?;
        let notes = documents
            .iter()
            .find(|document| document["kind"] == "Notes")
            .context("no notes")?;
        Ok(notes["text"].as_str().unwrap_or_default().to_owned())
    }

    /// Returns a folder that holds the packaged chart, and the path of the package.
    pub(crate) fn package(&self) -> Result<Package> {
        let folder = tempfile::tempdir()?;
        let mut command = Command::new(&self.program);
        command
            .arg("package")
            .arg(deploy().join("helm/ccm-rs"))
            .arg("--destination")
            .arg(folder.path());
        let output = command.output()?;
        ensure!(
            output.status.success(),
            "helm package: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let entry = std::fs::read_dir(folder.path())?
            .next()
            .context("helm package made nothing")?;
        Ok(Package {
            path: entry?.path(),
            _folder: folder,
        })
    }

    /// Renders the chart, and returns its documents.
    pub(crate) fn render(&self, values: &[String]) -> Result<Vec<Value>> {
        parse(&self.text(values)?).with_context(|| format!("what helm makes of {values:?}"))
    }
}

/// A packaged chart in a folder of its own, which is removed with it.
pub(crate) struct Package {
    path: PathBuf,
    _folder: TempDir,
}

impl Package {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}
