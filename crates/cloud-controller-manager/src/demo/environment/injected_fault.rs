//! Faults that stop the controllers at an inconvenient moment, so that they can be killed there.

use embedded_apiserver::{Action, Faults, Matcher};
use provider_simulated::cloud::{Cloud, Fault, FaultKind};

use super::super::scenario::Moment;

const CREATE: &str = "POST /v1/load-balancers";
const DELETE: &str = "DELETE /v1/load-balancers/{id}";

/// A fault that waits for the controllers.
#[derive(Debug)]
pub(super) enum InjectedFault {
    /// A fault of the cloud. After the fault, the cloud has more load balancers than this number, if one is set.
    Cloud { more_than: Option<usize> },
    /// A fault of the Kubernetes API, with the ID of its rule.
    Kubernetes { rule: u64 },
}

impl InjectedFault {
    /// Injects a fault that applies once.
    pub(super) fn arm(moment: &Moment, cloud: &Cloud, kubernetes: &Faults) -> Self {
        match moment {
            Moment::Created => {
                cloud.inject(Fault::new(FaultKind::LostAnswer).on(CREATE).times(1));
                Self::Cloud {
                    more_than: Some(cloud.load_balancers().len()),
                }
            }
            Moment::Deleting => {
                cloud.inject(Fault::new(FaultKind::Hang).on(DELETE).times(1));
                Self::Cloud { more_than: None }
            }
            Moment::Deleted(service) => {
                // The first patch removes the finalizer. It is neither answered nor carried out.
                let patch = Matcher::any()
                    .verb("patch")
                    .resource("services/status")
                    .name(service);
                Self::Kubernetes {
                    rule: kubernetes.add(patch, Action::Hang),
                }
            }
        }
    }

    /// Returns `true` if the fault has been applied.
    pub(super) fn is_applied(&self, cloud: &Cloud, kubernetes: &Faults) -> bool {
        match self {
            Self::Cloud { more_than } => {
                cloud.faults().is_empty()
                    && more_than.is_none_or(|count| cloud.load_balancers().len() > count)
            }
            Self::Kubernetes { rule } => kubernetes
                .list()
                .iter()
                .any(|listed| listed.id == *rule && listed.applied > 0),
        }
    }
}
