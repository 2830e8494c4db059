//! The chart, rendered.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::documents::{deploy, parse};

/// Names helm; without it the one in the `PATH` is taken.
const VARIABLE: &str = "CCM_TEST_HELM";

/// Helm.
pub(crate) struct Helm(PathBuf);

impl Helm {
    /// Finds it; none if there is none.
    ///
    /// # Errors
    /// The variable names something that does not run.
    pub(crate) fn find() -> Result<Option<Self>> {
        let named = std::env::var_os(VARIABLE).filter(|path| !path.is_empty());
        let program = PathBuf::from(named.clone().unwrap_or_else(|| "helm".into()));
        let ran = Command::new(&program).arg("version").output();
        match ran {
            Ok(output) if output.status.success() => Ok(Some(Self(program))),
            _ if named.is_none() => Ok(None),
            Ok(output) => anyhow::bail!("{VARIABLE} names {}, which fails: {}", program.display(), output.status),
            Err(error) => Err(error).with_context(|| format!("{VARIABLE} names {}", program.display())),
        }
    }

    /// What `helm template` makes of these values (`name=value`, as `--set` wants them), or what it complains about.
    pub(crate) fn text(&self, values: &[String]) -> Result<String> {
        let mut command = Command::new(&self.0);
        command.args(["template", "cloud-controller-manager"]).arg(deploy().join("helm/ccm-rs"));
        command.args(["--namespace", "kube-system", "--kube-version", "1.35.0"]);
        for value in values {
            command.args(["--set", value]);
        }
        let output = command.output().with_context(|| format!("running {}", self.0.display()))?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "helm template with {values:?}: {complaint}");
        Ok(String::from_utf8(output.stdout)?)
    }

    /// The same as documents.
    pub(crate) fn render(&self, values: &[String]) -> Result<Vec<Value>> {
        parse(&self.text(values)?).with_context(|| format!("what helm makes of {values:?}"))
    }
}
