//! Validation of flags that could be parsed (FLAG-10).

use runtime::go_duration::GoDuration;

use super::gates::{HISTORIC_PROVIDERS, unknown};
use super::provider_flags::{ALIBABA, DRY_RUN};
use super::{Flags, GATE_UID_HEADER, PROVIDER_VARIABLE};

impl Flags {
    /// Returns all validation errors.
    pub(super) fn errors(&self) -> Vec<String> {
        let mut errors = Vec::new();
        if self.cloud.cloud_provider.is_empty() {
            errors.push(format!(
                "--cloud-provider cannot be empty: name the cloud with this flag, with the variable {PROVIDER_VARIABLE}, or by \
                 the name of the program, such as hcloud-cloud-controller-manager"
            ));
        }
        if self.command_line.has(DRY_RUN) && !ALIBABA.contains(&&*self.cloud.cloud_provider) {
            errors.push(format!("unknown flag: --{DRY_RUN}; the subcommand plan prints each change without making it"));
        }
        errors.extend(
            self.controllers
                .selection(&self.cloud.cloud_provider)
                .err()
                .unwrap_or_default(),
        );
        if !HISTORIC_PROVIDERS.contains(&&*self.cloud.cloud_provider) {
            let gates = self.controllers.gates();
            errors.extend(
                gates
                    .historic()
                    .map(|name| format!("--feature-gates: {}", unknown(name))),
            );
        }
        errors.extend(self.configuration().options.validate());
        errors.extend(self.period_errors());
        errors.extend(self.leader_election.validate());
        errors.extend(self.webhook.validate(&self.vendor_webhooks));
        errors.extend(
            self.webhook_serving
                .validate(self.secure_serving.secure_port),
        );
        errors.extend(self.secure_serving.validate());
        errors.extend(
            self.authentication
                .validate(self.controllers.gates().enabled(GATE_UID_HEADER)),
        );
        errors.extend(self.authorization.validate());
        errors.extend(self.logging.validate(&self.controllers.gates()));
        errors
    }

    fn period_errors(&self) -> Vec<String> {
        let mut errors = Vec::new();
        // Passes without a pause would only use up the cloud's quota.
        for (name, period) in [
            ("node-monitor-period", self.lifecycle.node_monitor_period),
            (
                "node-status-update-frequency",
                self.misc.node_status_update_frequency,
            ),
            (
                "route-reconciliation-period",
                self.route.route_reconciliation_period,
            ),
        ] {
            if !period.is_positive() {
                errors.push(format!("{name} is {period}, it must be longer than 0s"));
            }
        }
        for (name, period) in [
            (
                "node-deletion-guard-delay",
                self.lifecycle.node_deletion_guard_delay,
            ),
            (
                "load-balancer-drift-check-period",
                self.service.load_balancer_drift_check_period,
            ),
            ("shutdown-timeout", self.controllers.shutdown_timeout),
        ] {
            if !(period.is_positive() || period == GoDuration::ZERO) {
                errors.push(format!("{name} is {period}, it must not be negative"));
            }
        }
        errors
    }
}
