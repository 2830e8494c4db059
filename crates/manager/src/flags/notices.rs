//! What is to be said of flags that can be used: deprecated ones, those without effect, risky ones; and the dump for the log.

use clap::CommandFactory as _;
use runtime::client::shown_url;

use super::provider_flags::ProviderFlag;
use super::{Flags, historic, provider_flags};

/// Stands in the dump for a value that is secret.
const REDACTED: &str = "REDACTED";

/// Something to be said of the flags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// How much it matters.
    pub severity: Severity,
    /// What is said.
    pub text: String,
}

/// How much a notice matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Something to change.
    Warning,
    /// Something to know.
    Information,
}

impl Flags {
    /// FLAG-11: one line for each deprecated flag that was given, for standard error.
    #[must_use]
    pub fn deprecations(&self) -> Vec<String> {
        let removed = historic::HISTORIC.iter().map(|flag| (flag.name, flag.instead));
        let given = removed.chain(historic::DEPRECATED).filter(|(name, _)| self.given.has(name));
        given.map(|(name, message)| format!("Flag --{name} has been deprecated, {message}")).collect()
    }

    /// What else is to be said of the flags, for the log.
    #[must_use]
    pub fn notices(&self) -> Vec<Notice> {
        let warnings = [self.inert_flags(), self.vendors_flags(), self.risks()].concat();
        let warning = |text| Notice { severity: Severity::Warning, text };
        let gates = self.gates();
        let inert = gates.inert().map(|gate| Notice {
            severity: Severity::Information,
            text: format!("feature gate {gate} has no effect here"),
        });
        let deprecated = gates
            .deprecated()
            .map(|gate| warning(format!("feature gate {gate} is deprecated and will be removed; do not set it")));
        warnings.into_iter().map(warning).chain(deprecated).chain(inert).collect()
    }

    /// Says the deprecations and the notices in the log, which goes to standard error.
    pub(crate) fn log_inert(&self) {
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

    /// Flags that were given for nothing.
    fn inert_flags(&self) -> Vec<String> {
        let ranges = "kube-controller-manager gives Nodes their Pod ranges";
        let table = [
            ("allocate-node-cidrs", self.route.allocate_node_cidrs && !self.has_node_ipam(), ranges),
            ("cidr-allocator-type", self.given.has("cidr-allocator-type") && !self.has_node_ipam(), ranges),
            (
                "external-cloud-volume-plugin",
                !self.cloud.external_cloud_volume_plugin.is_empty(),
                "volumes are the CSI drivers' work",
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

    /// Flags of vendors' programs that were given.
    fn vendors_flags(&self) -> Vec<String> {
        let own = |name: &str| self.vendor.iter().any(|flag| flag.name == name);
        let effective = |flag: &ProviderFlag| flag.is_read_by(&self.cloud.cloud_provider);
        let given =
            provider_flags::all().filter(|flag| self.given.has(flag.name) && !own(flag.name) && !effective(flag));
        given
            .map(|flag| {
                let providers = flag.providers.join(", ");
                format!("--{} has no effect here; it is accepted for manifests of {providers}", flag.name)
            })
            .collect()
    }

    /// Values that may not be meant.
    fn risks(&self) -> Vec<String> {
        let mut risks = self.authentication.warnings();
        risks.extend(self.controllers.reserved().map(|name| {
            format!("--controllers: {name} is no controller of this program; it is accepted for existing manifests")
        }));
        if self.serving().port != 0 {
            risks.extend(self.authorization.warnings());
        }
        if self.leader_migration.enable_leader_migration && !self.leader_election.leader_elect {
            risks.push("--enable-leader-migration has no effect without --leader-elect".to_owned());
        }
        risks.extend(self.secure_serving.tls().warnings());
        risks.extend(self.webhook_serving.tls().warnings());
        risks
    }

    /// FLAG-12: every flag and its value, in alphabetical order, defaults included. Flags that are accepted for nothing
    /// stand there only if they were given; secret values never do.
    #[must_use]
    pub fn dump(&self) -> Vec<(String, String)> {
        let mut values = self.given.values().clone();
        for argument in Self::command().get_arguments() {
            if let Some(name) = argument.get_long().filter(|_| !argument.is_hide_set()) {
                values.entry(name.to_owned()).or_default();
            }
        }
        values.remove("arguments");
        values.insert("help".to_owned(), "false".to_owned());
        // None of the standard flags is.
        let secret = |name: &str| self.vendor.iter().any(|flag| flag.secret && flag.name == name);
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
