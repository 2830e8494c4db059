//! Notices about valid flags: deprecated flags, flags without effect and risky values; and the dump of flags for the
//! log.

use clap::CommandFactory as _;
use runtime::client::shown_url;

use super::controllers::TAGGING;
use super::{Flags, provider_flags, removed};

/// Replacement of a secret value in the dump.
const REDACTED: &str = "REDACTED";

/// A notice about the flags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Severity of the notice.
    pub severity: Severity,
    /// Text of the notice.
    pub text: String,
}

/// The severity of a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The operator should change a flag.
    Warning,
    /// The notice is for information only.
    Information,
}

impl Flags {
    /// Returns one line for each deprecated flag that is set, for standard error (FLAG-11).
    #[must_use]
    pub fn deprecations(&self) -> Vec<String> {
        let removed = removed::REMOVED
            .iter()
            .map(|flag| (flag.name, flag.instead));
        let given = removed
            .chain(removed::DEPRECATED)
            .filter(|(name, _)| self.command_line.has(name));
        given
            .map(|(name, message)| format!("Flag --{name} has been deprecated, {message}"))
            .collect()
    }

    /// Returns all other notices about the flags, for the log.
    #[must_use]
    pub fn notices(&self) -> Vec<Notice> {
        let warnings = [self.inert_flags(), self.vendors_flags(), self.risks()].concat();
        let warning = |text| Notice {
            severity: Severity::Warning,
            text,
        };
        let gates = self.controllers.gates();
        let information = |text| Notice {
            severity: Severity::Information,
            text,
        };
        let inert = gates
            .inert()
            .map(|gate| information(format!("feature gate {gate} has no effect here")));
        let historic = gates.historic().map(|gate| {
            information(format!(
                "feature gate {gate} has no effect here: Kubernetes no longer has it; remove it"
            ))
        });
        let deprecated = gates.deprecated().map(|gate| {
            warning(format!(
                "feature gate {gate} is deprecated and will be removed; do not set it"
            ))
        });
        warnings
            .into_iter()
            .map(warning)
            .chain(deprecated)
            .chain(inert)
            .chain(historic)
            .collect()
    }

    /// Logs deprecations and notices. The log goes to standard error.
    pub(crate) fn log_notices(&self) {
        for text in self.deprecations() {
            tracing::warn!("{text}");
        }
        for notice in self.notices() {
            match notice.severity {
                Severity::Warning => tracing::warn!("{}", notice.text),
                Severity::Information => tracing::info!("{}", notice.text),
            }
        }
    }

    /// Returns notices about flags that are set and have no effect.
    fn inert_flags(&self) -> Vec<String> {
        let ranges = "kube-controller-manager assigns Pod CIDRs to Nodes";
        let table = [
            (
                "allocate-node-cidrs",
                self.route.allocate_node_cidrs && !self.has_node_ipam(),
                ranges,
            ),
            (
                "cidr-allocator-type",
                self.command_line.has("cidr-allocator-type")
                    && !provider_flags::is_shared_with(
                        "cidr-allocator-type",
                        &self.cloud.cloud_provider,
                    ),
                ranges,
            ),
            (
                "external-cloud-volume-plugin",
                !self.cloud.external_cloud_volume_plugin.is_empty(),
                "CSI drivers manage volumes",
            ),
            (
                "contention-profiling",
                self.debugging.contention_profiling,
                "waiting for locks is not recorded; CPU profiles are at /debug/pprof/profile",
            ),
        ];
        table
            .into_iter()
            .filter(|(_, given, _)| *given)
            .map(|(name, _, why)| format!("--{name} has no effect here: {why}"))
            .collect()
    }

    /// Returns notices about vendors' flags that are set.
    fn vendors_flags(&self) -> Vec<String> {
        let is_vendor_flag = |name: &str| self.vendor.iter().any(|flag| flag.name == name);
        let given = provider_flags::all()
            .filter(|flag| self.command_line.has(flag.name) && !is_vendor_flag(flag.name));
        given
            .filter_map(|flag| Some((flag.name, flag.inert_reason(&self.cloud.cloud_provider)?)))
            .map(|(name, reason)| format!("--{name} has no effect here: {reason}"))
            .collect()
    }

    /// Returns notices about values that are probably a mistake.
    fn risks(&self) -> Vec<String> {
        let mut risks = self.authentication.warnings();
        let reserved = self
            .controllers
            .reserved(&self.cloud.cloud_provider)
            .filter(|name| !(*name == TAGGING && self.has_tagging()));
        risks.extend(reserved.map(|name| {
            format!("--controllers: this program has no controller {name}; the name is accepted for existing manifests")
        }));
        if self.secure_serving.secure_port != 0 {
            risks.extend(self.authorization.warnings());
        }
        if self.leader_migration.enable_leader_migration && !self.leader_election.leader_elect {
            risks.push("--enable-leader-migration has no effect without --leader-elect".to_owned());
        }
        risks.extend(self.secure_serving.tls().warnings());
        risks.extend(self.webhook_serving.tls().warnings());
        risks
    }

    /// Returns every flag with its value, including defaults, in alphabetical order (FLAG-12). Flags without effect are
    /// included only if they are set; secret values are redacted.
    #[must_use]
    pub fn dump(&self) -> Vec<(String, String)> {
        let mut values = self.command_line.values().clone();
        for argument in Self::command().get_arguments() {
            if let Some(name) = argument.get_long().filter(|_| !argument.is_hide_set()) {
                values.entry(name.to_owned()).or_default();
            }
        }
        values.remove("arguments");
        values.insert("help".to_owned(), "false".to_owned());
        // No standard flag is secret.
        let secret = |name: &str| {
            self.vendor
                .iter()
                .any(|flag| flag.secret && flag.name == name)
        };
        let shown = |(name, value): (String, String)| {
            let value = match name.as_str() {
                name if secret(name) && !value.is_empty() => REDACTED.to_owned(),
                "master" => shown_url(&value),
                _ => value,
            };
            (name, value)
        };
        values.into_iter().map(shown).collect()
    }
}
