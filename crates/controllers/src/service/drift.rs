//! Detection of load balancers that were changed by others (P-23).

use std::time::Duration;

use cloud_provider::Plan;

use crate::options::Drift;
use crate::service::controller::ServiceController;
use crate::service::events::ServiceEvent;
use crate::service::needs_update::needs_update;
use crate::service::wants::{Operation, has_finalizer};

/// Maximum number of steps that an event names.
const SHOWN: usize = 10;

impl ServiceController {
    /// Returns the pause before the next check of a load balancer; `None` if checks are disabled. The first check is at
    /// a random time within the period, later ones vary by a tenth, so that not all checks coincide.
    pub(super) fn drift_pause(&self, is_first: bool) -> Option<Duration> {
        let period = self.options.drift_check_period;
        if period.is_zero() || !self.cloud.has_plans() {
            return None;
        }
        Some(period.mul_f64(if is_first {
            fastrand::f64()
        } else {
            0.9 + 0.2 * fastrand::f64()
        }))
    }

    /// Checks whether the load balancer matches its Service, and reports differences. Returns `true` if they are to be
    /// repaired.
    ///
    /// A Service in the middle of a change is skipped, including one that only waits because the cloud asked for a
    /// pause, which is no failure to the queue.
    pub(super) async fn check_drift(&self, key: &str) -> bool {
        let Some(known) = self.ledger.service(key) else {
            return false;
        };
        let Some(service) = self.services.get(key) else {
            return false;
        };
        let is_settled = Operation::of(&service, &self.options) == Operation::Ensure
            && has_finalizer(&service)
            && !self.ledger.has_failed(key)
            && service.metadata.uid == known.metadata.uid
            && !needs_update(&known, &service, &self.options);
        let Ok(targets) = self.targets.current() else {
            return false;
        };
        let given = targets.given(self.cloud.follows(&service));
        if !is_settled || !self.ledger.targets(key).is_some_and(|then| then.is(&given)) {
            return false;
        }
        let plan = match self.cloud.plan(&service, &targets.nodes).await {
            Ok(plan) => plan,
            Err(error) => {
                tracing::debug!(service = key, %error, "cannot compare the load balancer with its service");
                return false;
            }
        };
        let finding = (!plan.is_empty()).then(|| steps(&plan));
        let is_repaired = self.options.drift == Drift::Repair;
        if self.ledger.remember_drift(key, finding.clone()) {
            self.metrics.drift_found();
            self.record_event(
                &service,
                &ServiceEvent::Drift {
                    steps: finding.clone().unwrap_or_default(),
                    is_repaired,
                },
            );
        }
        is_repaired && finding.is_some()
    }
}

/// Formats the first steps of a plan.
fn steps(plan: &Plan) -> String {
    let mut text = plan
        .steps
        .iter()
        .take(SHOWN)
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("; ");
    if plan.steps.len() > SHOWN {
        text += &format!("; and {} more", plan.steps.len() - SHOWN);
    }
    text
}
