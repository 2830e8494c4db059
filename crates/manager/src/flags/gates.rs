//! `--feature-gates` (FLAG-7, FLAG-60, APP-150, APP-151).

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use cloud_provider::names::FEATURE_GATE_WATCH_BASED_ROUTES;
use controllers::options::RouteMode;

use super::values::go_bool;

/// The stage of a feature gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Off by default; `AllAlpha` enables it.
    Alpha,
    /// On by default; `AllBeta` sets it.
    Beta,
    /// Sets all gates of a stage that are not set by name.
    Bulk,
}

/// A feature gate that has an effect in this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gate {
    /// Name of the gate.
    pub name: &'static str,
    /// Stage of the gate.
    pub stage: Stage,
    /// Value of the gate if it is not set.
    pub default: bool,
    /// Effect of the gate.
    pub effect: &'static str,
}

/// Gate that permits admission webhooks (APP-140).
pub const GATE_WEBHOOK: &str = "CloudControllerManagerWebhook";
/// Gate that, if set to false, keeps the lease from being released at a graceful stop (APP-67).
pub const GATE_RELEASE_LEASE: &str = "ControllerManagerReleaseLeaderElectionLockOnExit";
/// Gate that permits the flags for split log streams.
pub const GATE_LOGGING_ALPHA: &str = "LoggingAlphaOptions";
/// Gate that permits the JSON log format.
pub const GATE_LOGGING_BETA: &str = "LoggingBetaOptions";
/// Gate that exposes histograms also as native ones, to scrapers that negotiate the protobuf format (MET-7).
pub const GATE_NATIVE_HISTOGRAMS: &str = "NativeHistograms";
/// Gate that permits the flag `--requestheader-uid-headers`.
pub const GATE_UID_HEADER: &str = "RemoteRequestHeaderUID";
const ALL_ALPHA: &str = "AllAlpha";
/// Gate that sets all beta gates that are not set by name.
pub const ALL_BETA: &str = "AllBeta";

const fn gate(name: &'static str, stage: Stage, default: bool, effect: &'static str) -> Gate {
    Gate {
        name,
        stage,
        default,
        effect,
    }
}

/// Feature gates that have an effect in this program.
pub const GATES: [Gate; 9] = [
    gate(
        ALL_ALPHA,
        Stage::Bulk,
        false,
        "Sets every alpha gate that is not named.",
    ),
    gate(
        ALL_BETA,
        Stage::Bulk,
        false,
        "Sets every beta gate that is not named.",
    ),
    gate(
        FEATURE_GATE_WATCH_BASED_ROUTES,
        Stage::Alpha,
        false,
        "true: routes are compared after Node events only; false: at a fixed interval only. Unset: after Node events, \
         within --route-reconciliation-period.",
    ),
    gate(
        GATE_WEBHOOK,
        Stage::Alpha,
        false,
        "Admission webhooks may be served: those of --webhooks.",
    ),
    gate(
        GATE_RELEASE_LEASE,
        Stage::Alpha,
        false,
        "Set to false: the lease is not handed over at a graceful stop.",
    ),
    gate(
        GATE_LOGGING_ALPHA,
        Stage::Alpha,
        false,
        "Permits the flags --log-{text,json}-split-stream and --log-{text,json}-info-buffer-size.",
    ),
    gate(
        GATE_LOGGING_BETA,
        Stage::Beta,
        true,
        "Permits --logging-format=json.",
    ),
    gate(
        GATE_NATIVE_HISTOGRAMS,
        Stage::Beta,
        true,
        "Scrapers that negotiate the protobuf format get histograms with their declared buckets and as native histograms. \
         Set to false: with their declared buckets only.",
    ),
    gate(
        GATE_UID_HEADER,
        Stage::Beta,
        true,
        "Permits --requestheader-uid-headers.",
    ),
];

/// Feature gates of the Go program, of Kubernetes 1.36, 1.37 or 1.38, that have no effect here. They are accepted so that
/// existing manifests start.
pub const INERT: [&str; 41] = [
    "APIResponseCompression",
    "APIServerIdentity",
    "APIServerWebhookAuthenticationToken",
    "APIServingWithRoutine",
    "AggregatedDiscoveryRemoveBetaType",
    "AllowParsingUserUIDFromCertAuth",
    "AllowUnsafeMalformedObjectDeletion",
    "CBORServingAndStorage",
    "CloudNodeAdditionalLabelsReconciliation",
    "ComponentFlagz",
    "ComponentStatusz",
    "ConcurrentWatchObjectDecode",
    "ConsistentListFromCacheSkipTimeoutFallback",
    "ConstrainedImpersonation",
    "ContextualLogging",
    "CoordinatedLeaderElection",
    "DeclarativeValidation",
    "DeclarativeValidationBeta",
    "DeclarativeValidationTakeover",
    "DetectCacheInconsistency",
    "EtcdRangeStream",
    "ExcludeAdmissionWebhookVirtualResources",
    "KMSv1",
    "ListFromCacheSnapshot",
    "ManifestBasedAdmissionControlConfig",
    "MutatingAdmissionPolicy",
    "OpenAPIEnums",
    "SeparateCacheWatchRPC",
    "ShardedListAndWatch",
    "SizeBasedListCostEstimate",
    "StorageVersionAPI",
    "StorageVersionHash",
    "StructuredAuthenticationConfigurationEgressSelector",
    "StructuredAuthenticationConfigurationJWKSMetrics",
    "TokenRequestServiceAccountUIDValidation",
    "UnauthenticatedHTTP2DOSMitigation",
    "UnknownVersionInteroperabilityProxy",
    "WatchCacheInitializationPostStartHook",
    "WatchList",
    "WatchListCompression",
    "WebhookRoundTripLoadBalancing",
];
/// Feature gates that older versions of Kubernetes had and that published manifests of [`HISTORIC_PROVIDERS`] set. They
/// have no effect here.
pub(super) const HISTORIC: [&str; 24] = [
    "CSIMigration",
    "CSIMigrationAWS",
    "CSIMigrationAWSComplete",
    "CSIMigrationAzureDisk",
    "CSIMigrationAzureDiskComplete",
    "CSIMigrationAzureFile",
    "CSIMigrationAzureFileComplete",
    "CSIMigrationGCE",
    "CSIMigrationGCEComplete",
    "CSIMigrationOpenStack",
    "CSIMigrationOpenStackComplete",
    "CloudDualStackNodeIPs",
    "ControllerManagerLeaderMigration",
    "IPv6DualStack",
    "InTreePluginAWSUnregister",
    "InTreePluginAzureDiskUnregister",
    "InTreePluginAzureFileUnregister",
    "InTreePluginGCEUnregister",
    "InTreePluginOpenStackUnregister",
    "LegacyNodeRoleBehavior",
    "NodeDisruptionExclusion",
    "ServiceLBNodePortControl",
    "ServiceNodeExclusion",
    "StableLoadBalancerNodeSet",
];
/// Values of `--cloud-provider` whose published manifests and charts set historic gates, or pass gates of the user's
/// choice. For all others a historic gate is an unknown gate.
pub(super) const HISTORIC_PROVIDERS: [&str; 6] = [
    "alibabacloud",
    "alicloud",
    "aws",
    "azure",
    "gce",
    "openstack",
];
/// Gates without effect that are locked, with their value.
const LOCKED: [(&str, bool); 1] = [("DeclarativeValidation", true)];
/// Gates without effect that are deprecated.
const DEPRECATED: [&str; 1] = ["KMSv1"];

/// The feature gates of one occurrence of `--feature-gates`, or of all occurrences together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeatureGates(BTreeMap<String, bool>);

impl FromStr for FeatureGates {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut gates = BTreeMap::new();
        for item in text
            .split(',')
            .map(str::trim)
            .filter(|item| !item.is_empty())
        {
            let (name, value) = item.split_once('=').ok_or_else(|| {
                format!("missing bool value for {item}; write {item}=true or {item}=false")
            })?;
            let name = name.trim();
            let value = value.trim();
            // Flags::errors refuses historic gates, unless the provider's manifests set them.
            if find(name).is_none() && !INERT.contains(&name) && !HISTORIC.contains(&name) {
                return Err(unknown(name));
            }
            let on = go_bool(value)
                .map_err(|error| format!("invalid value of {name}={value}, err: {error}"))?;
            if let Some((_, locked)) = LOCKED
                .into_iter()
                .find(|(gate, locked)| *gate == name && *locked != on)
            {
                return Err(format!(
                    "cannot set feature gate {name} to {on}, feature is locked to {locked}"
                ));
            }
            gates.insert(name.to_owned(), on);
        }
        Ok(Self(gates))
    }
}

/// Formats the gates like the flag's value, in alphabetical order.
impl fmt::Display for FeatureGates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, on)) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{name}={on}")?;
        }
        Ok(())
    }
}

fn find(name: &str) -> Option<Gate> {
    GATES.into_iter().find(|gate| gate.name == name)
}

/// Returns the error for an unknown gate.
pub(super) fn unknown(name: &str) -> String {
    let acting = GATES.map(|gate| gate.name).join(", ");
    format!(
        "unrecognized feature gate: {name}; known are {acting}, and without effect here: {}",
        INERT.join(", ")
    )
}

impl FeatureGates {
    /// Merges all occurrences of the flag; later occurrences take precedence.
    pub(super) fn merged(occurrences: &[Self]) -> Self {
        Self(occurrences.iter().flat_map(|one| one.0.clone()).collect())
    }

    /// Returns the value that is set for this gate by name, if any.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<bool> {
        self.0.get(name).copied()
    }

    /// Returns `true` if a gate is enabled: by name, by stage or by default. A gate without effect counts as disabled.
    ///
    /// ```
    /// use manager::flags::{FeatureGates, GATE_WEBHOOK};
    ///
    /// let gates: FeatureGates = "AllAlpha=true".parse().unwrap();
    /// assert!(gates.enabled(GATE_WEBHOOK) && !FeatureGates::default().enabled(GATE_WEBHOOK));
    /// ```
    #[must_use]
    pub fn enabled(&self, name: &str) -> bool {
        self.said(name)
            .unwrap_or_else(|| find(name).is_some_and(|gate| gate.default))
    }

    /// Returns the value that is set for this gate by name or by stage, if any.
    fn said(&self, name: &str) -> Option<bool> {
        let bulk = match find(name)?.stage {
            Stage::Alpha => self.named(ALL_ALPHA),
            Stage::Beta => self.named(ALL_BETA),
            Stage::Bulk => None,
        };
        self.named(name).or(bulk)
    }

    /// Returns the trigger of the route controller's reconciliation (D-5).
    pub(super) fn route_mode(&self) -> RouteMode {
        match self.said(FEATURE_GATE_WATCH_BASED_ROUTES) {
            Some(true) => RouteMode::Watch,
            Some(false) => RouteMode::Periodic,
            None => RouteMode::Adaptive,
        }
    }

    /// Returns `true` if the lease is released at a graceful stop, which only an explicit `false` prevents (APP-67).
    #[must_use]
    pub fn release_lease(&self) -> bool {
        self.named(GATE_RELEASE_LEASE) != Some(false)
    }

    /// Returns the gates that are set and have no effect.
    pub(super) fn inert(&self) -> impl Iterator<Item = &str> {
        self.0
            .keys()
            .map(String::as_str)
            .filter(|name| INERT.contains(name))
    }

    /// Returns the gates that are set and that only older versions of Kubernetes had.
    pub(super) fn historic(&self) -> impl Iterator<Item = &str> {
        self.0
            .keys()
            .map(String::as_str)
            .filter(|name| HISTORIC.contains(name))
    }

    /// Returns the gates that are set and deprecated.
    pub(super) fn deprecated(&self) -> impl Iterator<Item = &str> {
        self.0
            .keys()
            .map(String::as_str)
            .filter(|name| DEPRECATED.contains(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<FeatureGates, String> {
        text.parse()
    }

    #[test]
    fn the_routes_gate_has_three_states() {
        let mode = |texts: &[&str]| {
            FeatureGates::merged(
                &texts
                    .iter()
                    .map(|text| parse(text).unwrap())
                    .collect::<Vec<_>>(),
            )
            .route_mode()
        };
        let gate = |value: &str| format!(" {FEATURE_GATE_WATCH_BASED_ROUTES} = {value} ");
        assert_eq!(mode(&[]), RouteMode::Adaptive);
        assert_eq!(mode(&["", "WatchList=true,"]), RouteMode::Adaptive);
        assert_eq!(mode(&[&gate("true")]), RouteMode::Watch);
        assert_eq!(
            mode(&[&gate("T"), &gate("0")]),
            RouteMode::Periodic,
            "the last one counts"
        );
        assert_eq!(mode(&["AllAlpha=true"]), RouteMode::Watch);
        assert_eq!(
            mode(&["AllAlpha=true", &gate("false")]),
            RouteMode::Periodic,
            "named explicitly"
        );
        assert_eq!(mode(&["AllBeta=true"]), RouteMode::Adaptive);
    }

    #[test]
    fn invalid_gate_has_the_error_of_the_go_program() {
        let table = [
            (
                "Foo=true",
                "unrecognized feature gate: Foo; known are AllAlpha",
            ),
            ("WatchList", "missing bool value for WatchList"),
            (
                "WatchList=maybe",
                "invalid value of WatchList=maybe, err: strconv.ParseBool: parsing \"maybe\": invalid syntax",
            ),
            (
                "DeclarativeValidation=false",
                "cannot set feature gate DeclarativeValidation to false, feature is locked to true",
            ),
        ];
        for (text, error) in table {
            assert!(
                parse(text).unwrap_err().starts_with(error),
                "{:?}",
                parse(text)
            );
        }
        assert_eq!(
            parse("DeclarativeValidation=true,AllBeta=1")
                .unwrap()
                .inert()
                .collect::<Vec<_>>(),
            ["DeclarativeValidation"]
        );
        assert!(INERT.is_sorted() && HISTORIC.is_sorted());
    }
}
