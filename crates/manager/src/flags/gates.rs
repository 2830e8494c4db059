//! `--feature-gates` (FLAG-7, FLAG-60).

use std::collections::BTreeMap;
use std::str::FromStr;

use cloud_provider::names::GATE_WATCH_BASED_ROUTES;
use controllers::options::RouteMode;

use super::values::go_bool;

/// Sets every alpha gate that is not named.
const ALL_ALPHA: &str = "AllAlpha";
/// Sets every beta gate that is not named; none of them acts here.
const ALL_BETA: &str = "AllBeta";
/// Gates that the reference knows and that do nothing here (APP-151): accepted, so that an existing manifest starts.
const INERT: [&str; 40] = [
    "APIResponseCompression",
    "APIServerIdentity",
    "APIServingWithRoutine",
    "AggregatedDiscoveryRemoveBetaType",
    "AllowParsingUserUIDFromCertAuth",
    "AllowUnsafeMalformedObjectDeletion",
    "CBORServingAndStorage",
    "CloudControllerManagerWebhook",
    "ComponentFlagz",
    "ComponentStatusz",
    "ConcurrentWatchObjectDecode",
    "ConstrainedImpersonation",
    "ContextualLogging",
    "ControllerManagerReleaseLeaderElectionLockOnExit",
    "CoordinatedLeaderElection",
    "DeclarativeValidation",
    "DeclarativeValidationBeta",
    "DeclarativeValidationTakeover",
    "DetectCacheInconsistency",
    "KMSv1",
    "ListFromCacheSnapshot",
    "LoggingAlphaOptions",
    "LoggingBetaOptions",
    "ManifestBasedAdmissionControlConfig",
    "MutatingAdmissionPolicy",
    "NativeHistograms",
    "OpenAPIEnums",
    "RemoteRequestHeaderUID",
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

/// One occurrence of `--feature-gates`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeatureGates(BTreeMap<String, bool>);

impl FromStr for FeatureGates {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut gates = BTreeMap::new();
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            let (name, value) = item.split_once('=').ok_or_else(|| format!("missing bool value for {item}"))?;
            let (name, value) = (name.trim(), value.trim());
            if ![GATE_WATCH_BASED_ROUTES, ALL_ALPHA, ALL_BETA].contains(&name) && !INERT.contains(&name) {
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

fn unknown(name: &str) -> String {
    format!(
        "unrecognized feature gate: {name}; known are {GATE_WATCH_BASED_ROUTES}, {ALL_ALPHA}, {ALL_BETA}, and without \
         effect here: {}",
        INERT.join(", ")
    )
}

impl FeatureGates {
    /// All occurrences of the flag together; later ones win.
    pub(super) fn merged(occurrences: &[Self]) -> Self {
        Self(occurrences.iter().flat_map(|one| one.0.clone()).collect())
    }

    fn get(&self, name: &str) -> Option<bool> {
        self.0.get(name).copied()
    }

    /// What makes the route controller reconcile (D-5).
    pub(super) fn route_mode(&self) -> RouteMode {
        match self.get(GATE_WATCH_BASED_ROUTES).or_else(|| self.get(ALL_ALPHA)) {
            Some(true) => RouteMode::Watch,
            Some(false) => RouteMode::Periodic,
            None => RouteMode::Adaptive,
        }
    }

    /// The gates that were set and do nothing here.
    pub(super) fn inert(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str).filter(|name| INERT.contains(name))
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
            ("Foo=true", "unrecognized feature gate: Foo; known are CloudControllerManagerWatchBased"),
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
