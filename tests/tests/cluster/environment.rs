//! Test bed, image and programs that the environment variables name.

use std::path::PathBuf;

use anyhow::{Context, Result};
use ccm_tests::real;
use parking_lot::Mutex;

use crate::bed::Bed;
use crate::image::Images;

const BED: &str = "CCM_TEST_NODE_BED";
const BINARY: &str = "CCM_TEST_IMAGE_BINARY";
const HELM: &str = "CCM_TEST_HELM";
const GO_PROGRAM: &str = "CCM_TEST_HCLOUD_GO";
const SPECS: &str = "CCM_TEST_E2E";
const PROBES: &str = "CCM_TEST_PROBES_OF_CHART";

/// Requirement of a scenario.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// A Node with a kubelet, the binary of the image, and helm.
    Node,
    /// A Node, and Hetzner's own cloud controller manager.
    GoProgram,
    /// A Node, and specs of Kubernetes' own end-to-end tests.
    Specs,
}

/// Paths of the test bed and of the programs, and what is made of them once for all scenarios.
pub(crate) struct Environment {
    bed: Option<PathBuf>,
    binary: Option<PathBuf>,
    helm: Option<PathBuf>,
    go_program: Option<PathBuf>,
    specs: Option<PathBuf>,
    images: Mutex<Option<&'static Images>>,
}

impl Environment {
    /// Reads the environment variables of these tests.
    ///
    /// # Errors
    /// A variable names no file.
    pub(crate) fn from_variables() -> Result<Self> {
        ccm_tests::install_crypto();
        Ok(Self {
            bed: real::path(BED)?,
            binary: real::path(BINARY)?,
            helm: real::path(HELM)?,
            go_program: real::path(GO_PROGRAM)?,
            specs: real::path(SPECS)?,
            images: Mutex::default(),
        })
    }

    /// Returns the reason for which a scenario cannot run, if any.
    pub(crate) fn lacks(&self, need: Need) -> Option<&'static str> {
        match need {
            _ if self.bed.is_none() => {
                Some("CCM_TEST_NODE_BED is not set: there is no Node with a kubelet")
            }
            _ if self.binary.is_none() => {
                Some("CCM_TEST_IMAGE_BINARY is not set: there is no binary for the image")
            }
            _ if self.helm.is_none() => {
                Some("CCM_TEST_HELM is not set: nothing installs the chart")
            }
            Need::GoProgram if self.go_program.is_none() => {
                Some("CCM_TEST_HCLOUD_GO is not set: there is no program to replace")
            }
            Need::Specs if self.specs.is_none() => {
                Some("CCM_TEST_E2E is not set: there are no specs of Kubernetes")
            }
            Need::Node | Need::GoProgram | Need::Specs => None,
        }
    }

    /// Returns the test bed.
    pub(crate) fn bed(&self) -> Result<Bed> {
        Ok(Bed::of(self.bed.as_ref().context(BED)?))
    }

    pub(crate) fn helm(&self) -> Result<&PathBuf> {
        self.helm.as_ref().context(HELM)
    }

    pub(crate) fn go_program(&self) -> Result<&PathBuf> {
        self.go_program.as_ref().context(GO_PROGRAM)
    }

    pub(crate) fn specs(&self) -> Result<&PathBuf> {
        self.specs.as_ref().context(SPECS)
    }

    /// Returns `true` if the probes of the chart are tested instead of faster ones.
    pub(crate) fn uses_probes_of_chart() -> bool {
        std::env::var_os(PROBES).is_some_and(|value| !value.is_empty())
    }

    /// Starts the test bed and makes the images and the packages of the chart, the first time. Returns `true` if it is,
    /// so that the Node is fresh.
    pub(crate) async fn images(&self) -> Result<(&'static Images, bool)> {
        let made = *self.images.lock();
        if let Some(images) = made {
            return Ok((images, false));
        }
        let bed = self.bed()?;
        bed.start_again().await?;
        let images =
            Images::make(&bed, self.binary.as_ref().context(BINARY)?, self.helm()?).await?;
        let images: &'static Images = Box::leak(Box::new(images));
        *self.images.lock() = Some(images);
        Ok((images, true))
    }

    /// Removes the test bed, if a scenario started it.
    pub(crate) fn end(&self) {
        let images = self.images.lock().take();
        if let (Some(images), Some(bed)) = (images, &self.bed) {
            images.remove();
            // The bed's own script reports what it cannot remove.
            _ = std::process::Command::new(bed.join("down.sh"))
                .arg("--purge")
                .status();
        }
    }
}
