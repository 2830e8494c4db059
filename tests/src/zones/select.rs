//! Selection of a new volume's zones, by the StorageClass, the scheduler and the cluster.

use cloud_provider::names::{LABEL_ZONE, LABEL_ZONE_BETA};
use cloud_provider::{Error, Result, StringMap};
use k8s_openapi::api::core::v1::TopologySelectorTerm;

use super::{Zones, choose_zones, choose_zones_including};

/// Inputs of the selection (HELP-87).
#[derive(Clone, Copy, Debug)]
pub struct Selection<'a> {
    /// StorageClass parameter `zone`, if it is there.
    pub zone: Option<&'a str>,
    /// StorageClass parameter `zones`, if it is there.
    pub zones: Option<&'a Zones>,
    /// Zones in which the cluster has Nodes.
    pub zones_with_nodes: &'a Zones,
    /// Labels of the Node that the scheduler chose (`WaitForFirstConsumer`), if it did.
    pub node_labels: Option<&'a StringMap>,
    /// `allowedTopologies` of the StorageClass.
    pub allowed_topologies: &'a [TopologySelectorTerm],
    /// Name of the claim.
    pub claim: &'a str,
}

impl Default for Selection<'_> {
    fn default() -> Self {
        const NONE: &Zones = &Zones::new();
        Self {
            zone: None,
            zones: None,
            zones_with_nodes: NONE,
            node_labels: None,
            allowed_topologies: &[],
            claim: "",
        }
    }
}

/// Returns the zones that `allowedTopologies` names (HELP-83).
///
/// # Errors
/// *Invalid*, if it names anything but zones.
pub fn topology_zones(terms: &[TopologySelectorTerm]) -> Result<Zones> {
    let mut zones = Zones::new();
    for expression in terms
        .iter()
        .flat_map(|term| term.match_label_expressions.iter().flatten())
    {
        if ![LABEL_ZONE, LABEL_ZONE_BETA].contains(&&*expression.key) {
            return Err(Error::invalid(format!(
                "unsupported key found in matchLabelExpressions: {}",
                expression.key
            )));
        }
        zones.extend(expression.values.iter().cloned());
    }
    Ok(zones)
}

/// Selects `count` zones for a new volume (HELP-87, HELP-88).
///
/// # Errors
/// *Invalid*, if the inputs contradict each other or do not suffice; in the words of the Go cloud-controller-manager.
pub fn select_zones(given: &Selection<'_>, count: u32) -> Result<Zones> {
    let has_parameter = given.zone.is_some() || given.zones.is_some();
    if given.zone.is_some() && given.zones.is_some() {
        return Err(Error::invalid(
            "both zone and zones StorageClass parameters must not be used at the same time",
        ));
    }
    let mut node_zone = "";
    if let Some(labels) = given.node_labels {
        if has_parameter {
            return Err(Error::invalid(
                "zone[s] cannot be specified in StorageClass if VolumeBindingMode is set to WaitForFirstConsumer. Please \
                 specify allowedTopologies in StorageClass for constraining zones",
            ));
        }
        node_zone = labels
            .get(LABEL_ZONE)
            .or_else(|| labels.get(LABEL_ZONE_BETA))
            .ok_or_else(|| {
                Error::invalid(format!(
                    "Either {LABEL_ZONE} or {LABEL_ZONE_BETA} Label for node missing"
                ))
            })?;
        if count == 1 {
            return Ok([node_zone.to_owned()].into());
        }
    }
    let allowed = topology_zones(given.allowed_topologies)?;
    if !given.allowed_topologies.is_empty() {
        return from_topologies(given, &allowed, has_parameter, node_zone, count);
    }
    match (given.zone, given.zones) {
        (Some(_), _) if count > 1 => Err(Error::invalid(
            "zone cannot be specified if desired number of replicas for pv is greather than 1. Please specify zones or \
             allowedTopologies to specify desired zones",
        )),
        (Some(zone), _) => Ok([zone.to_owned()].into()),
        (None, Some(zones)) => from_parameter(zones, given.claim, count),
        (None, None) if !given.zones_with_nodes.is_empty() => {
            choose_zones_including(given.zones_with_nodes, given.claim, node_zone, count).map_err(
                |error| {
                    Error::invalid(format!(
                        "cannot process zones where nodes exist in the cluster: {error}"
                    ))
                },
            )
        }
        (None, None) => Err(Error::invalid(
            "cannot determine zones to provision volume in",
        )),
    }
}

fn from_topologies(
    given: &Selection<'_>,
    allowed: &Zones,
    has_parameter: bool,
    node_zone: &str,
    count: u32,
) -> Result<Zones> {
    if allowed.is_empty() {
        return Err(Error::invalid(format!(
            "no matchLabelExpressions with {LABEL_ZONE} key found in allowedTopologies. Please specify \
             matchLabelExpressions with {LABEL_ZONE} key"
        )));
    }
    if has_parameter {
        return Err(Error::invalid(
            "zone[s] cannot be specified in StorageClass if allowedTopologies specified",
        ));
    }
    choose_zones_including(allowed, given.claim, node_zone, count).map_err(|error| {
        Error::invalid(format!(
            "cannot process zones in allowedTopologies: {error}"
        ))
    })
}

fn from_parameter(zones: &Zones, claim: &str, count: u32) -> Result<Zones> {
    if zones.len() < usize::try_from(count).unwrap_or(usize::MAX) {
        return Err(Error::invalid(format!(
            "not enough zones found in zones parameter to provision a volume with {count} replicas. Found {} zones, need \
             {count} zones",
            zones.len()
        )));
    }
    Ok(choose_zones(zones, claim, count))
}

/// Selects a zone for a new volume (HELP-89).
///
/// # Errors
/// Errors of [`select_zones`].
pub fn select_zone(given: &Selection<'_>) -> Result<String> {
    let zone = select_zones(given, 1)?.pop_first();
    zone.ok_or_else(|| Error::invalid("could not determine a zone to provision volume in"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_that_are_listed_as_none_give_none() {
        let zones = Zones::new();
        let given = Selection {
            zones: Some(&zones),
            ..Selection::default()
        };
        let error = select_zone(&given).unwrap_err().to_string();
        assert!(error.ends_with("Found 0 zones, need 1 zones"), "{error}");
        assert!(select_zones(&given, 0).unwrap().is_empty());
        let zones: Zones = ["a".to_owned()].into();
        let given = Selection {
            zones: Some(&zones),
            claim: "web-4294967295",
            ..Selection::default()
        };
        let error = select_zone(&given).unwrap_err().to_string();
        assert_eq!(
            error, "could not determine a zone to provision volume in",
            "the quirk of HELP-85"
        );
    }
}
