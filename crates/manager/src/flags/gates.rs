//! `--feature-gates` (FLAG-7, FLAG-60, APP-150, APP-151).

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use cloud_provider::names::GATE_WATCH_BASED_ROUTES;
use controllers::options::RouteMode;

use super::values::go_bool;

/// How far a gate has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Off unless asked for; `AllAlpha` asks for it.
    Alpha,
    /// On unless asked otherwise; `AllBeta` asks either way.
    Beta,
    /// Sets all gates of a stage that are not named.
    Bulk,
}

/// A feature gate that acts here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gate {
    /// Its name.
    pub name: &'static str,
    /// How far it has come.
    pub stage: Stage,
    /// Whether it is on if nothing is said.
    pub default: bool,
    /// What it does.
    pub effect: &'static str,
}

/// Admission webhooks may be served (APP-140).
pub const GATE_WEBHOOK: &str = "CloudControllerManagerWebhook";
/// Set to false: the lease is not released at a graceful stop (APP-67).
pub const GATE_RELEASE_LEASE: &str = "ControllerManagerReleaseLeaderElectionLockOnExit";
/// Permits the flags for split log streams.
pub const GATE_LOGGING_ALPHA: &str = "LoggingAlphaOptions";
/// Permits the JSON log.
pub const GATE_LOGGING_BETA: &str = "LoggingBetaOptions";
/// Permits `--requestheader-uid-headers`.
pub const GATE_UID_HEADER: &str = "RemoteRequestHeaderUID";
const ALL_ALPHA: &str = "AllAlpha";
const ALL_BETA: &str = "AllBeta";

const fn gate(name: &'static str, stage: Stage, default: bool, effect: &'static str) -> Gate {
    Gate { name, stage, default, effect }
}

/// The gates that act here.
pub const GATES: [Gate; 8] = [
    gate(ALL_ALPHA, Stage::Bulk, false, "Sets every alpha gate that is not named."),
    gate(ALL_BETA, Stage::Bulk, false, "Sets every beta gate that is not named."),
    gate(
        GATE_WATCH_BASED_ROUTES,
        Stage::Alpha,
        false,
        "true: routes follow the Nodes' events, without a period; false: always at the period. Unset: events, and the \
         period after a change.",
    ),
    gate(GATE_WEBHOOK, Stage::Alpha, false, "Admission webhooks may be served: those of --webhooks."),
    gate(GATE_RELEASE_LEASE, Stage::Alpha, false, "Set to false: the lease is not handed over at a graceful stop."),
    gate(GATE_LOGGING_ALPHA, Stage::Alpha, false, "Permits --log-text-split-stream and its kin."),
    gate(GATE_LOGGING_BETA, Stage::Beta, true, "Permits --logging-format=json."),
    gate(GATE_UID_HEADER, Stage::Beta, true, "Permits --requestheader-uid-headers."),
];

/// Gates that the reference knows and that do nothing here: accepted, so that an existing manifest starts.
pub const INERT: [&str; 36] = [
    "APIResponseCompression",
    "APIServerIdentity",
    "APIServingWithRoutine",
    "AggregatedDiscoveryRemoveBetaType",
    "AllowParsingUserUIDFromCertAuth",
    "AllowUnsafeMalformedObjectDeletion",
    "CBORServingAndStorage",
    "CloudNodeAdditionalLabelsReconciliation",
    "ComponentFlagz",
    "ComponentStatusz",
    "ConcurrentWatchObjectDecode",
    "ConstrainedImpersonation",
    "ContextualLogging",
    "CoordinatedLeaderElection",
    "DeclarativeValidation",
    "DeclarativeValidationBeta",
    "DeclarativeValidationTakeover",
    "DetectCacheInconsistency",
    "KMSv1",
    "ListFromCacheSnapshot",
    "ManifestBasedAdmissionControlConfig",
    "MutatingAdmissionPolicy",
    "NativeHistograms",
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
];
/// The gates among them that cannot be changed, and to what they are locked.
const LOCKED: [(&str, bool); 1] = [("DeclarativeValidation", true)];
/// The gates among them that are on their way out.
const DEPRECATED: [&str; 1] = ["KMSv1"];

/// One occurrence of `--feature-gates`, or all of them together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeatureGates(BTreeMap<String, bool>);

impl FromStr for FeatureGates {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut gates = BTreeMap::new();
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            let (name, value) = item
                .split_once('=')
                .ok_or_else(|| format!("missing bool value for {item}; write {item}=true or {item}=false"))?;
            let (name, value) = (name.trim(), value.trim());
            if find(name).is_none() && !INERT.contains(&name) {
                return Err(unknown(name));
            }
            let on = go_bool(value).map_err(|error| format!("invalid value of {name}={value}, err: {error}"))?;
            if let Some((_, locked)) = LOCKED.into_iter().find(|(gate, locked)| *gate == name && *locked != on) {
                return Err(format!("cannot set feature gate {name} to {on}, feature is locked to {locked}"));
            }
            gates.insert(name.to_owned(), on);
        }
        Ok(Self(gates))
    }
}

/// As the flag is written, in alphabetical order.
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

fn unknown(name: &str) -> String {
    let acting = GATES.map(|gate| gate.name).join(", ");
    format!("unrecognized feature gate: {name}; known are {acting}, and without effect here: {}", INERT.join(", "))
}

impl FeatureGates {
    /// All occurrences of the flag together; later ones win.
    pub(super) fn merged(occurrences: &[Self]) -> Self {
        Self(occurrences.iter().flat_map(|one| one.0.clone()).collect())
    }

    /// What was said of this gate by its name, if anything.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<bool> {
        self.0.get(name).copied()
    }

    /// Whether a gate is on: by its name, by its stage, or by default. One that does nothing here is off.
    ///
    /// ```
    /// use manager::flags::{FeatureGates, GATE_WEBHOOK};
    ///
    /// let gates: FeatureGates = "AllAlpha=true".parse().unwrap();
    /// assert!(gates.enabled(GATE_WEBHOOK) && !FeatureGates::default().enabled(GATE_WEBHOOK));
    /// ```
    #[must_use]
    pub fn enabled(&self, name: &str) -> bool {
        self.said(name).unwrap_or_else(|| find(name).is_some_and(|gate| gate.default))
    }

    /// What was said of this gate, by its name or by its stage.
    fn said(&self, name: &str) -> Option<bool> {
        let bulk = match find(name)?.stage {
            Stage::Alpha => self.named(ALL_ALPHA),
            Stage::Beta => self.named(ALL_BETA),
            Stage::Bulk => None,
        };
        self.named(name).or(bulk)
    }

    /// What makes the route controller reconcile (D-5).
    pub(super) fn route_mode(&self) -> RouteMode {
        match self.said(GATE_WATCH_BASED_ROUTES) {
            Some(true) => RouteMode::Watch,
            Some(false) => RouteMode::Periodic,
            None => RouteMode::Adaptive,
        }
    }

    /// Whether the lease is handed over at a graceful stop: unless the gate is set to false by its name (APP-67).
    #[must_use]
    pub fn release_lease(&self) -> bool {
        self.named(GATE_RELEASE_LEASE) != Some(false)
    }

    /// The gates that were set and do nothing here.
    pub(super) fn inert(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str).filter(|name| INERT.contains(name))
    }

    /// The gates that were set and are on their way out.
    pub(super) fn deprecated(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str).filter(|name| DEPRECATED.contains(name))
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
            FeatureGates::merged(&texts.iter().map(|text| parse(text).unwrap()).collect::<Vec<_>>()).route_mode()
        };
        let gate = |value: &str| format!(" {GATE_WATCH_BASED_ROUTES} = {value} ");
        assert_eq!(mode(&[]), RouteMode::Adaptive);
        assert_eq!(mode(&["", "WatchList=true,"]), RouteMode::Adaptive);
        assert_eq!(mode(&[&gate("true")]), RouteMode::Watch);
        assert_eq!(mode(&[&gate("T"), &gate("0")]), RouteMode::Periodic, "the last one counts");
        assert_eq!(mode(&["AllAlpha=true"]), RouteMode::Watch);
        assert_eq!(mode(&["AllAlpha=true", &gate("false")]), RouteMode::Periodic, "named explicitly");
        assert_eq!(mode(&["AllBeta=true"]), RouteMode::Adaptive);
    }

    #[test]
    fn what_is_wrong_with_a_gate_is_said_as_the_reference_does() {
        let table = [
            ("Foo=true", "unrecognized feature gate: Foo; known are AllAlpha"),
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
            assert!(parse(text).unwrap_err().starts_with(error), "{:?}", parse(text));
        }
        assert_eq!(
            parse("DeclarativeValidation=true,AllBeta=1").unwrap().inert().collect::<Vec<_>>(),
            ["DeclarativeValidation"]
        );
        assert!(INERT.is_sorted());
    }
}
