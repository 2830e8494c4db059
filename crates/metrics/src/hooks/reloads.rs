//! Metrics of credentials that are reloaded at runtime (P-39).

use prometheus::IntCounterVec;

use crate::hooks::result;
use crate::registry::Registry;
use crate::series::CREDENTIAL_RELOADS;

/// The credential that is reloaded, shown in the label `credential`.
#[derive(Clone, Copy)]
pub(crate) enum Credential {
    Kubeconfig,
    CloudConfig,
    /// Files that the provider watches itself.
    Cloud,
}

/// Label value for a change that needs a restart, besides success and error.
const RESTART: &str = "restart";

#[derive(Clone)]
pub(crate) struct Reloads(IntCounterVec);

impl Reloads {
    /// Returns the counters, with all of them at zero, so that the first failure shows as an increase.
    pub(crate) fn new(registry: &Registry) -> Self {
        let counts = registry.counters(CREDENTIAL_RELOADS);
        for credential in [
            Credential::Kubeconfig,
            Credential::CloudConfig,
            Credential::Cloud,
        ] {
            for result in [result(true), result(false)] {
                counts.with_label_values(&[credential.label(), result]);
            }
        }
        counts.with_label_values(&[Credential::CloudConfig.label(), RESTART]);
        Self(counts)
    }

    pub(crate) fn count(&self, credential: Credential, is_in_use: bool) {
        self.0
            .with_label_values(&[credential.label(), result(is_in_use)])
            .inc();
    }

    pub(crate) fn count_restart(&self) {
        self.0
            .with_label_values(&[Credential::CloudConfig.label(), RESTART])
            .inc();
    }
}

impl Credential {
    fn label(self) -> &'static str {
        match self {
            Self::Kubeconfig => "kubeconfig",
            Self::CloudConfig => "cloud-config",
            Self::Cloud => "cloud",
        }
    }
}
