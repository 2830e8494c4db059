//! Test bed that the environment variables name.

use std::path::PathBuf;

use anyhow::{Context, Result};
use ccm_tests::real;

const KUBECONFIG: &str = "CCM_TEST_KUBECONFIG";
const FAULTS: &str = "CCM_TEST_FAULTS";

/// Requirement of a scenario.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// A cluster without faults.
    Cluster,
    /// A cluster whose API server can be broken.
    Faults,
}

/// Paths of the test bed.
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
        let kubeconfig = real::path(KUBECONFIG)?;
        let faults = real::path(FAULTS)?;
        let binary = real::binary(kubeconfig.is_some())?;
        ccm_tests::install_crypto();
        Ok(Self {
            kubeconfig,
            faults,
            binary,
        })
    }

    /// Returns the reason for which a scenario cannot run, if any.
    pub(crate) fn lacks(&self, need: Need) -> Option<&'static str> {
        match need {
            _ if self.kubeconfig.is_none() => {
                Some("CCM_TEST_KUBECONFIG is not set: there is no real kube-apiserver")
            }
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

    /// Disturbs the API server: runs the test bed's script with these arguments to its end.
    pub(crate) async fn fault(&self, words: &[&str]) -> Result<()> {
        real::run(self.faults.as_ref().context(FAULTS)?, words, &[]).await
    }
}
