//! What the environment variables lead to.

use std::ffi::OsStr;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use ccm_tests::binary;

const KUBECONFIG: &str = "CCM_TEST_KUBECONFIG";
const FAULTS: &str = "CCM_TEST_FAULTS";

/// What a scenario cannot do without.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// A cluster.
    Cluster,
    /// A cluster whose API server can be broken.
    Faults,
}

/// Where things are.
pub(crate) struct Environment {
    kubeconfig: Option<PathBuf>,
    faults: Option<PathBuf>,
    binary: Option<PathBuf>,
}

impl Environment {
    /// Reads the variables.
    ///
    /// # Errors
    /// There is a cluster, but no binary to test; or a variable names no file.
    pub(crate) fn from_variables() -> Result<Self> {
        let file = |name: &str| -> Result<Option<PathBuf>> {
            let Some(path) = std::env::var_os(name).filter(|path| !path.is_empty()) else { return Ok(None) };
            let path = PathBuf::from(path);
            ensure!(path.is_file(), "{name} names {}, which is no file", path.display());
            Ok(Some(path))
        };
        let lists = std::env::args_os().any(|argument| argument == OsStr::new("--list"));
        let (kubeconfig, faults) = (file(KUBECONFIG)?, file(FAULTS)?);
        let binary = kubeconfig.is_some().then(binary::path);
        let binary = if lists { None } else { binary.transpose()? };
        ccm_tests::install_crypto();
        Ok(Self { kubeconfig, faults, binary })
    }

    /// Why a scenario cannot run, if it cannot.
    pub(crate) fn lacks(&self, need: Need) -> Option<&'static str> {
        match need {
            _ if self.kubeconfig.is_none() => Some("CCM_TEST_KUBECONFIG is not set: there is no real kube-apiserver"),
            Need::Faults if self.faults.is_none() => {
                Some("CCM_TEST_FAULTS is not set: nothing can break the API server")
            }
            Need::Cluster | Need::Faults => None,
        }
    }

    pub(crate) fn kubeconfig(&self) -> Result<&PathBuf> {
        self.kubeconfig.as_ref().context(KUBECONFIG)
    }

    pub(crate) fn binary(&self) -> Result<&PathBuf> {
        self.binary.as_ref().context("no binary")
    }

    /// Breaks the API server: runs the test bed's script with these words, to its end.
    pub(crate) async fn fault(&self, words: &[&str]) -> Result<()> {
        let script = self.faults.as_ref().context(FAULTS)?;
        let output = tokio::process::Command::new(script)
            .args(words)
            .stdin(std::process::Stdio::null())
            .output()
            .await
            .with_context(|| format!("running {}", script.display()))?;
        ensure!(
            output.status.success(),
            "{} {}: {}: {}",
            script.display(),
            words.join(" "),
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(())
    }
}
