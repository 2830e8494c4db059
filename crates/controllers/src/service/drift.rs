//! Load balancers that were changed behind our back (P-23).

use std::time::Duration;

use cloud_provider::Plan;

use crate::options::Drift;
use crate::service::controller::ServiceController;
use crate::service::events::News;
use crate::service::needs_update::needs_update;
use crate::service::wants::{Operation, has_finalizer};

/// Steps that an event names at most.
const SHOWN: usize = 10;

impl ServiceController {
    /// The pause before the next look at a load balancer; `None` if nobody looks. The first one comes anywhere within the
    /// period, later ones a tenth earlier or later, so that not all come together.
    pub(super) fn drift_pause(&self, is_first: bool) -> Option<Duration> {
        let period = self.options.drift_check_period;
        if period.is_zero() || !self.cloud.has_plans() {
            return None;
        }
        Some(period.mul_f64(if is_first { fastrand::f64() } else { 0.9 + 0.2 * fastrand::f64() }))
    }

    /// Looks whether the load balancer is as the Service wants it, and says what is not. Whether it is to be put right.
    ///
    /// A Service in the middle of a change is left alone, also one that only waits because the cloud asked for it: that is
    /// no failure to the queue.
    pub(super) async fn check_drift(&self, key: &str) -> bool {
        let Some(known) = self.ledger.service(key) else { return false };
        let Some(service) = self.services.get(key) else { return false };
        let is_settled = Operation::of(&service, &self.options) == Operation::Ensure
            && has_finalizer(&service)
            && !self.ledger.has_failed(key)
            && service.metadata.uid == known.metadata.uid
            && !needs_update(&known, &service, &self.options);
        let Ok(targets) = self.targets.current() else { return false };
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
            self.say(&service, &News::Drift { steps: finding.clone().unwrap_or_default(), is_repaired });
        }
        is_repaired && finding.is_some()
    }
}

/// As many as people read.
fn steps(plan: &Plan) -> String {
    let mut text = plan.steps.iter().take(SHOWN).map(ToString::to_string).collect::<Vec<_>>().join("; ");
    if plan.steps.len() > SHOWN {
        text += &format!("; and {} more", plan.steps.len() - SHOWN);
    }
    text
}
