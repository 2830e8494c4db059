//! Rendering of the Helm chart.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use parking_lot::Mutex;
use runtime::kubernetes::OLDEST;
use serde_json::Value;

use crate::documents::{deploy, parse};

/// Names helm; without it the one in the `PATH` is taken.
const VARIABLE: &str = "CCM_TEST_HELM";

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
            Ok(output) if output.status.success() => Ok(Some(Self { program, made: Mutex::default() })),
            _ if named.is_none() => Ok(None),
            Ok(output) => anyhow::bail!("{VARIABLE} names {}, which fails: {}", program.display(), output.status),
            Err(error) => Err(error).with_context(|| format!("{VARIABLE} names {}", program.display())),
        }
    }

    /// Returns the output of `helm template` for these values (`name=value`, as for `--set`), or its error.
    pub(crate) fn text(&self, values: &[String]) -> Result<String> {
        let made = || self.made.lock();
        if let Some(text) = made().get(values) {
            return Ok(text.clone());
        }
        let mut command = Command::new(&self.program);
        command.args(["template", "cloud-controller-manager"]).arg(deploy().join("helm/ccm-rs"));
        // Helm's default depends on how helm was built; from source it is older than the chart accepts.
        let (major, minor) = OLDEST;
        command.args(["--namespace", "kube-system", "--kube-version", &format!("{major}.{minor}.0")]);
        command.args(["--set", "image.repository=registry.example.com/cloud-controller-manager"]);
        for value in values {
            command.args(["--set", value]);
        }
        let output = command.output().with_context(|| format!("running {}", self.program.display()))?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "helm template with {values:?}: {complaint}");
        let text = String::from_utf8(output.stdout)?;
        made().insert(values.to_vec(), text.clone());
        Ok(text)
    }

    /// Renders the chart, and returns its documents.
    pub(crate) fn render(&self, values: &[String]) -> Result<Vec<Value>> {
        parse(&self.text(values)?).with_context(|| format!("what helm makes of {values:?}"))
    }
}
