//! Network security groups: one for each load balancer in mode `NSG`, and rules in those of the Nodes.

use std::collections::{BTreeMap, BTreeSet};

use cloud_provider::{Error, Result};
use provider_kit::load_balancers::{
    Attributes, Identity, ObservedLoadBalancer, ResourceGraph, ResourceKey, State,
};
use provider_kit::transport::Call;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::spec::LoadBalancerSpec;
use crate::api::{Api, created};

const ALL: &str = "/20160918/networkSecurityGroups";
const ONE: &str = "/20160918/networkSecurityGroups/{id}";
/// Rules in one request.
const BATCH: usize = 25;
/// A label that the cloud does not have: the OCID of the load balancer's own group.
pub(super) const OWN: &str = "ccm-rs/network-security-group";
/// The stand-in for the OCID of the load balancer's own group in the text of a rule.
const FRONTEND: &str = "frontend";

/// A network security group, as the API shows it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Group {
    id: String,
    display_name: Option<String>,
    lifecycle_state: String,
    #[serde(default)]
    freeform_tags: BTreeMap<String, String>,
}

impl Group {
    /// Returns `true` if the group was created for the Service with this UID.
    fn is_of(&self, uid: &str) -> bool {
        let tag = |key: &str| self.freeform_tags.get(key).map(String::as_str);
        tag("CreatedBy") == Some("CCM") && tag("ServiceUid") == Some(uid)
    }
}

/// Returns the resource of the group, with its rules. It is created before the load balancer, which refers to it.
pub(super) fn resource() -> ResourceKey {
    ResourceKey::created_before(0, "network security group", "")
}

/// Returns the OCID of the load balancer's own group.
pub(super) fn own(balancer: &ObservedLoadBalancer) -> Option<&str> {
    balancer.labels.get(OWN).map(String::as_str)
}

/// Returns `true` if the load balancer is in groups, of its own or of users.
pub(super) fn has_any(balancer: &ObservedLoadBalancer) -> bool {
    let settings = balancer
        .graph
        .as_ref()
        .and_then(ResourceGraph::balancer_attributes);
    let ids = settings
        .and_then(|settings| settings.get("networkSecurityGroupIds"))
        .and_then(Value::as_array);
    ids.is_some_and(|ids| !ids.is_empty())
}

/// Returns the rules that a Service needs: `<group> <direction> <protocol> <peer> <port>`.
pub(super) fn desired(spec: &LoadBalancerSpec) -> Attributes {
    let mut rules = BTreeSet::new();
    for port in &spec.ports {
        let protocols: &[&str] = match port.transport {
            "TCP_AND_UDP" => &["6", "17"],
            "UDP" => &["17"],
            _ => &["6"],
        };
        for protocol in protocols {
            for source in &spec.sources {
                rules.insert(format!(
                    "{FRONTEND} INGRESS {protocol} {source} {}",
                    port.number
                ));
            }
            for group in &spec.backend_groups {
                rules.insert(format!(
                    "{FRONTEND} EGRESS {protocol} {group} {}",
                    port.node_port
                ));
                rules.insert(format!(
                    "{group} INGRESS {protocol} {FRONTEND} {}",
                    port.node_port
                ));
                for source in spec.sources.iter().filter(|_| spec.preserves_source) {
                    rules.insert(format!(
                        "{group} INGRESS {protocol} {source} {}",
                        port.node_port
                    ));
                }
            }
        }
    }
    for group in &spec.backend_groups {
        rules.insert(format!("{FRONTEND} EGRESS 6 {group} {}", spec.health_port));
        rules.insert(format!("{group} INGRESS 6 {FRONTEND} {}", spec.health_port));
    }
    Attributes::default().set("rules", rules)
}

fn texts(settings: Option<&Attributes>) -> BTreeSet<String> {
    let rules = settings
        .and_then(|settings| settings.get("rules"))
        .and_then(Value::as_array);
    rules
        .into_iter()
        .flatten()
        .filter_map(|rule| rule.as_str().map(str::to_owned))
        .collect()
}

/// Returns the text of a rule in a group.
fn text(rule: &Value, group: &str, own_group: &str) -> String {
    let name = |id: &str| {
        if id == own_group {
            FRONTEND.to_owned()
        } else {
            id.to_owned()
        }
    };
    let direction = rule["direction"].as_str().unwrap_or_default();
    let peer = rule[if direction == "EGRESS" {
        "destination"
    } else {
        "source"
    }]
    .as_str()
    .unwrap_or_default();
    let options = if rule["protocol"] == "17" {
        "udpOptions"
    } else {
        "tcpOptions"
    };
    let port = &rule[options]["destinationPortRange"]["min"];
    let protocol = rule["protocol"].as_str().unwrap_or_default();
    format!(
        "{} {direction} {protocol} {} {port}",
        name(group),
        name(peer)
    )
}

/// Returns a rule in the form of the API.
fn written(text: &str, own_group: &str, uid: &str) -> Option<(String, Value)> {
    let [group, direction, protocol, peer, port] = text.split(' ').collect::<Vec<_>>()[..] else {
        return None;
    };
    let id = |name: &str| {
        if name == FRONTEND {
            own_group.to_owned()
        } else {
            name.to_owned()
        }
    };
    let port: u16 = port.parse().ok()?;
    let kind = if peer.contains('/') {
        "CIDR_BLOCK"
    } else {
        "NETWORK_SECURITY_GROUP"
    };
    let side = if direction == "EGRESS" {
        "destination"
    } else {
        "source"
    };
    let options = if protocol == "17" {
        "udpOptions"
    } else {
        "tcpOptions"
    };
    let mut rule = json!({"direction": direction, "protocol": protocol, "isStateless": false, "description": format!("service-uid-{uid}")});
    rule[side] = id(peer).into();
    rule[format!("{side}Type")] = kind.into();
    rule[options] = json!({"destinationPortRange": {"min": port, "max": port}});
    Some((id(group), rule))
}

/// The network security groups of a compartment.
pub(super) struct Groups(Api);

impl Groups {
    pub(super) fn new(api: Api) -> Self {
        Self(api)
    }

    fn name(identity: &Identity<'_>) -> String {
        let metadata = &identity.service.metadata;
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        format!(
            "{}/{}/{}/nsg",
            text(&metadata.namespace),
            text(&metadata.name),
            identity.uid()
        )
    }

    /// Returns the OCID of the group of a Service of any name, by its tags.
    pub(super) async fn id_of(&self, uid: &str, compartment: &str) -> Result<Option<String>> {
        let call = Call::get(ALL, &[]).query("compartmentId", compartment);
        match self.0.all(call, |group: &Group| group.id.clone()).await {
            // The policy may not allow to list groups, if no Service has the mode.
            Err(error) if error.is_not_found() => Ok(None),
            all => Ok(all?
                .into_iter()
                .find(|group: &Group| group.is_of(uid))
                .map(|group| group.id)),
        }
    }

    async fn find(&self, identity: &Identity<'_>, compartment: &str) -> Result<Option<Group>> {
        let call = Call::get(ALL, &[])
            .query("compartmentId", compartment)
            .query("displayName", Self::name(identity));
        let call = self
            .0
            .config
            .vcn
            .iter()
            .fold(call, |call, vcn| call.query("vcnId", vcn));
        let all: Vec<Group> = self.0.all(call, |group: &Group| group.id.clone()).await?;
        let is_its_group =
            |group: &Group| group.is_of(identity.uid()) && group.lifecycle_state == "AVAILABLE";
        Ok(all.into_iter().find(is_its_group))
    }

    /// Returns the group that is left of a load balancer that no longer exists.
    pub(super) async fn leftover(
        &self,
        identity: &Identity<'_>,
        compartment: &str,
    ) -> Result<Option<ObservedLoadBalancer>> {
        let Some(group) = self.find(identity, compartment).await? else {
            return Ok(None);
        };
        let rules = self.rules(&group.id, identity.uid()).await?;
        Ok(Some(ObservedLoadBalancer {
            id: group.id.clone(),
            name: group.display_name.unwrap_or_default(),
            kind: identity.kind,
            legacy_owner: Some(identity.uid().to_owned()),
            labels: [(OWN.to_owned(), group.id)].into(),
            state: State::Ready,
            graph: Some(ResourceGraph::default().resource(resource(), rules)),
            ..ObservedLoadBalancer::default()
        }))
    }

    async fn own_rules(&self, group: &str, uid: &str) -> Result<Vec<Value>> {
        let call = Call::get(
            "/20160918/networkSecurityGroups/{id}/securityRules",
            &[group],
        );
        let all: Vec<Value> = self
            .0
            .all(call, |object: &Value| object["id"].to_string())
            .await?;
        let description = format!("service-uid-{uid}");
        Ok(all
            .into_iter()
            .filter(|object| object["description"] == description.as_str())
            .collect())
    }

    /// Reads the rules of a Service in its own group, and in the groups of the Nodes that those lead to.
    async fn rules(&self, own_group: &str, uid: &str) -> Result<Attributes> {
        let frontend = self.own_rules(own_group, uid).await?;
        let peers = frontend
            .iter()
            .filter(|frontend| frontend["direction"] == "EGRESS")
            .filter_map(|frontend| frontend["destination"].as_str());
        let backends: BTreeSet<_> = peers
            .filter(|peer| !peer.contains('/'))
            .map(str::to_owned)
            .collect();
        let mut rules: BTreeSet<_> = frontend
            .iter()
            .map(|rule| text(rule, own_group, own_group))
            .collect();
        for group in backends {
            rules.extend(
                self.own_rules(&group, uid)
                    .await?
                    .iter()
                    .map(|rule| text(rule, &group, own_group)),
            );
        }
        Ok(Attributes::default().set("rules", rules))
    }

    /// Adds the load balancer's own group to its graph, and leaves it out of the groups that a user chose.
    pub(super) async fn observed(
        &self,
        graph: ResourceGraph,
        balancer: &mut ObservedLoadBalancer,
    ) -> Result<ResourceGraph> {
        let Some(settings) = graph.balancer_attributes().cloned() else {
            return Ok(graph);
        };
        let ids = settings
            .get("networkSecurityGroupIds")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        let uid = balancer
            .owner_tags
            .service
            .clone()
            .or(balancer.legacy_owner.clone())
            .unwrap_or_default();
        for id in ids.iter().filter_map(Value::as_str) {
            let group: Option<Group> = self.0.iaas.find(Call::get(ONE, &[id])).await?;
            if group.is_some_and(|group| group.is_of(&uid)) {
                balancer.labels.insert(OWN.to_owned(), id.to_owned());
                let others: Vec<_> = ids.iter().filter(|other_id| *other_id != id).collect();
                let rules = self.rules(id, &uid).await?;
                let graph = graph.balancer(settings.set("networkSecurityGroupIds", others));
                return Ok(graph.resource(resource(), rules));
            }
        }
        Ok(graph)
    }

    /// Returns the OCID of the load balancer's own group, which is created if it does not exist, and its rules.
    pub(super) async fn ensure(
        &self,
        identity: &Identity<'_>,
        compartment: &str,
        vcn: &str,
    ) -> Result<(String, Attributes)> {
        if let Some(group) = self.find(identity, compartment).await? {
            let rules = self.rules(&group.id, identity.uid()).await?;
            return Ok((group.id, rules));
        }
        let tags = json!({"CreatedBy": "CCM", "ServiceUid": identity.uid()});
        let body = json!({"compartmentId": compartment, "vcnId": vcn, "displayName": Self::name(identity), "freeformTags": tags});
        let begun = Instant::now();
        let create = |token| {
            self.0.iaas.read(
                Call::post(ALL, &[])
                    .json(&body)
                    .header("opc-retry-token", token)
                    .repeatable(),
            )
        };
        let group: Group = created(identity.uid(), create).await?;
        self.0
            .monitoring
            .push("NSG_PROVISION", begun.elapsed(), &group.id, true);
        Ok((group.id, Attributes::default()))
    }

    /// Writes the rules of a Service. Rules are added before others are removed. Those of its own group, which lead to the
    /// groups of the Nodes, are the first to be added and the last to be removed: rules in other groups are found by them.
    pub(super) async fn write(
        &self,
        own: &str,
        uid: &str,
        wanted: &Attributes,
        seen: Option<&Attributes>,
    ) -> Result<()> {
        let wanted = texts(Some(wanted));
        let seen = texts(seen);
        let mut added: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for (group, rule) in wanted
            .difference(&seen)
            .filter_map(|text| written(text, own, uid))
        {
            added.entry(group).or_default().push(rule);
        }
        let mut added: Vec<_> = added.iter().collect();
        added.sort_by_key(|(group, _)| *group != own);
        for (group, rules) in added {
            if group != own {
                self.mark(group).await?;
            }
            for rules in rules.chunks(BATCH) {
                let path = "/20160918/networkSecurityGroups/{id}/actions/addSecurityRules";
                self.0
                    .iaas
                    .send(Call::post(path, &[group]).json(&json!({ "securityRules": rules })))
                    .await?;
            }
        }
        let surplus: BTreeSet<_> = seen.difference(&wanted).collect();
        let groups: BTreeSet<_> = surplus
            .iter()
            .filter_map(|text| Some(written(text, own, uid)?.0))
            .collect();
        let mut groups: Vec<_> = groups.into_iter().collect();
        groups.sort_by_key(|group| *group == own);
        for group in groups {
            let existing_rules = self.own_rules(&group, uid).await?;
            let ids: Vec<_> = existing_rules
                .iter()
                .filter(|rule| surplus.contains(&text(rule, &group, own)))
                .map(|object| &object["id"])
                .collect();
            for ids in ids.chunks(BATCH) {
                let path = "/20160918/networkSecurityGroups/{id}/actions/removeSecurityRules";
                self.0
                    .iaas
                    .send(Call::post(path, &[&group]).json(&json!({ "securityRuleIds": ids })))
                    .await?;
            }
        }
        Ok(())
    }

    /// Marks a group of the Nodes, as the Go cloud controller manager does.
    async fn mark(&self, group: &str) -> Result<()> {
        let answer =
            self.0
                .iaas
                .send(Call::get(ONE, &[group]))
                .await
                .map_err(|error| match error.is_not_found() {
                    true => Error::invalid(format!(
                        "network security group {group} does not exist, or may not be used"
                    )),
                    false => error,
                })?;
        let object: Group = answer.json()?;
        if object.freeform_tags.get("ManagedBy").map(String::as_str) == Some("CCM") {
            return Ok(());
        }
        let mut tags = object.freeform_tags;
        tags.insert("ManagedBy".to_owned(), "CCM".to_owned());
        let call = Call::put(ONE, &[group]).json(&json!({ "freeformTags": tags }));
        let etag = answer
            .headers
            .get("etag")
            .and_then(|header| header.to_str().ok());
        self.0
            .iaas
            .send(
                etag.iter()
                    .fold(call, |call, etag| call.header("if-match", etag)),
            )
            .await
            .map(drop)
    }

    /// Deletes the load balancer's own group, and the rules that lead to it. Returns `false` if the cloud does not show the
    /// group, which may also mean that the credential is for another tenancy.
    pub(super) async fn delete(&self, own_group: &str, uid: &str) -> Result<bool> {
        let begun = Instant::now();
        let group: Option<Group> = self.0.iaas.find(Call::get(ONE, &[own_group])).await?;
        // A group that was not created for the Service stays, whatever leads to it.
        if group.is_some_and(|group| !group.is_of(uid)) {
            return Ok(false);
        }
        let seen = self.rules(own_group, uid).await?;
        self.write(own_group, uid, &Attributes::default(), Some(&seen))
            .await?;
        match self.0.iaas.send(Call::delete(ONE, &[own_group])).await {
            Err(error) if error.is_not_found() => {
                return match self
                    .0
                    .iaas
                    .find::<Group>(Call::get(ONE, &[own_group]))
                    .await?
                {
                    Some(group) if group.lifecycle_state == "AVAILABLE" => {
                        Err(Error::unauthorized(format!(
                            "network security group {own_group} exists, and may not be deleted: allow the principal to manage \
                         network-security-groups"
                        )))
                    }
                    _ => Ok(false),
                };
            }
            answer => drop(answer?),
        }
        self.0
            .monitoring
            .push("NSG_DELETE", begun.elapsed(), own_group, true);
        Ok(true)
    }
}
