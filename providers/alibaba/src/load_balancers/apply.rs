//! Changes of load balancers of both kinds: one operation after the other.

use std::collections::BTreeMap;

use cloud_provider::{Error, Result};
use provider_kit::load_balancers::{
    Applied, Attributes, Change, Difference, ObservedLoadBalancer, Operation, ResourceGraph, ResourceKey, State,
    changed_tags, tag_key,
};
use serde_json::{Value, json};

use super::groups::is_of_user;
use super::names::{CLUSTER_TAG, NAME_TAG, Part, REUSED_TAG, Share, is_network, is_reused};
use super::read::{LEFT, Tags, created_id, list, text};
use super::spec::Spec;
use super::{AlibabaLoadBalancers, ID, is_leaving};
use crate::api::{NLB, Product, Query, SLB, VPC, tag_list};

/// Tags of a load balancer of the user beyond which the tag for the reuse is left out.
const TAGS: usize = 10;
/// Server groups that are untagged with one request.
const GROUPS: usize = 20;

/// An operation, with the load balancer before and after it.
pub(super) struct Work<'a> {
    pub(super) cloud: &'a AlibabaLoadBalancers,
    pub(super) change: Change<'a>,
    pub(super) spec: &'a Spec,
    pub(super) kind: &'static str,
    pub(super) is_network: bool,
    /// Of a load balancer of the user.
    pub(super) share: Option<Share>,
    pub(super) id: &'a str,
    pub(super) before: ResourceGraph,
    pub(super) after: ResourceGraph,
}

/// ID of a resource that was created, if one was.
pub(super) type Made = Result<Option<String>>;

impl AlibabaLoadBalancers {
    /// Carries out the first operation.
    pub(super) async fn carry_out(&self, change: Change<'_>, spec: &Spec) -> Result<Applied> {
        let (kind, id) = change.actual.map_or((change.identity.kind, ""), |it| (it.kind, &*it.id));
        let (id, share) = Share::read(id);
        let before = change.actual.and_then(|it| it.graph.clone()).unwrap_or_default();
        let after = change.outcome(1).and_then(|it| it.graph).unwrap_or_default();
        let is_network = is_network(kind);
        let work = Work { cloud: self, change, spec, kind, is_network, share, id, before, after };
        if is_leaving(&change) && work.before.balancer_attributes().is_some() {
            return work.leave().await;
        }
        if let Some(operation) = due_first(change.operations, &work.before) {
            return work.carry_out_first(operation).await;
        }
        let made = match &change.operations[0] {
            Operation::Tag => {
                let has_room = work.before.balancer_attributes().is_none_or(|it| it.tags().len() < TAGS);
                let reused = work.share.iter().filter(|_| has_room);
                let reused = reused.map(|_| (REUSED_TAG.0.to_owned(), REUSED_TAG.1.to_owned()));
                work.set_tags(&work.owner_tags().into_iter().chain(reused).map(|(k, v)| (k, Some(v))).collect()).await
            }
            Operation::Untag => work.set_tags(&work.owner_tags().into_keys().map(|key| (key, None)).collect()).await,
            Operation::Create { resource: ResourceKey::Balancer, attributes } => return work.create(attributes).await,
            Operation::Update { resource: ResourceKey::Balancer, attributes, changes } => {
                work.update(attributes, changes).await
            }
            Operation::AddTargets { pool, targets } => match work.add(pool, targets).await {
                Err(error) if error.code() == "InstanceBackendServerNumberOverLimit" => {
                    return work.remove_first(pool, error).await;
                }
                outcome => outcome,
            },
            Operation::RemoveTargets { pool, targets } => work.remove(pool, targets).await,
            Operation::Create { resource: ResourceKey::Pool(pool), attributes } => {
                return work.create_pool(pool, attributes).await;
            }
            Operation::Update { resource: ResourceKey::Pool(pool), attributes, changes } => {
                work.update_pool(pool, attributes, changes).await
            }
            Operation::Create { resource: ResourceKey::Listener(port), attributes } => {
                work.create_listener(port, attributes).await
            }
            Operation::Update { resource: ResourceKey::Listener(port), attributes, changes } => {
                work.update_listener(port, attributes, changes).await
            }
            Operation::Delete { resource } => work.delete(resource).await,
            _ => Ok(None),
        };
        Ok(work.shown(1, made?))
    }
}

/// Returns the port that a listener of a CLB redirects to.
fn redirect(settings: &Attributes) -> Option<u64> {
    settings.get("ForwardPort")?.as_u64()
}

/// Returns a later operation that has to come before the first one: the target of a redirect is created before the
/// redirect, and deleted after it.
fn due_first<'o>(operations: &'o [Operation], before: &ResourceGraph) -> Option<&'o Operation> {
    let (first, later) = operations.split_first()?;
    match first {
        Operation::Create { resource: ResourceKey::Listener(_), attributes } => {
            let to = redirect(attributes)?;
            later.iter().find(|it| {
                matches!(it, Operation::Create { resource: resource @ ResourceKey::Listener(port), .. }
                    if u64::from(port.number) == to && !later.iter().any(|it| it.deletes(|other| other == resource)))
            })
        }
        Operation::Delete { resource: ResourceKey::Listener(port) } => {
            let leads_here = |it: &ResourceKey| {
                before.resources.get(it).and_then(redirect).is_some_and(|to| to == u64::from(port.number))
            };
            later.iter().find(|it| it.deletes(leads_here))
        }
        _ => None,
    }
}

impl Work<'_> {
    /// Carries out the creation or deletion of a listener before its turn.
    async fn carry_out_first(&self, operation: &Operation) -> Result<Applied> {
        let mut graph = self.before.clone();
        match operation {
            Operation::Create { resource: resource @ ResourceKey::Listener(port), attributes } => {
                self.create_listener(port, attributes).await?;
                graph.resources.insert(resource.clone(), attributes.clone());
            }
            Operation::Delete { resource } => {
                self.delete(resource).await?;
                graph.resources.retain(|it, _| it != resource);
            }
            _ => {}
        }
        let observed = self.change.actual.cloned().unwrap_or_default();
        Ok(Applied::PlanAgain(Box::new(ObservedLoadBalancer { graph: Some(graph), ..observed })))
    }

    pub(super) fn product(&self) -> Product {
        if self.is_network { NLB } else { SLB }
    }

    /// Returns an action about the load balancer.
    pub(super) fn query(&self, action: &'static str) -> Query {
        Query::new(self.product(), action).set("LoadBalancerId", self.id)
    }

    /// Sends a change, and lets others use the worker while its job runs.
    pub(super) async fn send(&self, query: Query) -> Made {
        let answer = self.cloud.api.change(query);
        if !self.is_network {
            return answer.await.map(|_| None);
        }
        self.change.callbacks.release_permit();
        let outcome = answer.await;
        self.change.callbacks.reacquire_permit().await;
        outcome.map(|_| None)
    }

    /// Returns the outcome of `count` operations; `made`: the ID of the resource that the first one created.
    pub(super) fn shown(&self, count: usize, made: Option<String>) -> Applied {
        let resource = self.change.operations[0].resource();
        let Some(mut outcome) = self.change.outcome(count) else { return Applied::Gone };
        if let (Some(graph), Some(resource), Some(id)) = (&mut outcome.graph, resource, made) {
            let attributes = graph.resources.get(resource).cloned().unwrap_or_default();
            graph.resources.insert(resource.clone(), attributes.set(ID, id));
        }
        Applied::Shown(count, Box::new(outcome))
    }

    pub(super) fn id_of(&self, resource: &ResourceKey) -> Option<&str> {
        self.before.resources.get(resource)?.text(ID)
    }

    pub(super) fn pool_id<'p>(&'p self, pool: &'p str) -> &'p str {
        self.id_of(&ResourceKey::Pool(pool.to_owned())).unwrap_or(pool)
    }

    pub(super) fn part_name(&self, part: &str) -> String {
        Part::name(self.kind, part, self.change.identity.service, &self.cloud.api.config.cluster)
    }

    fn name_tag(&self) -> String {
        let identity = self.change.identity;
        identity.legacy_owner.clone().unwrap_or_else(|| identity.name.clone())
    }

    /// Returns the tags that show the owner.
    fn owner_tags(&self) -> Tags {
        let cluster = self.cloud.api.config.cluster.clone();
        let legacy = [(NAME_TAG.to_owned(), self.name_tag()), (CLUSTER_TAG.to_owned(), cluster)];
        let identity = self.change.identity;
        match &self.share {
            // The tags of the owner would be those of one Service among several.
            Some(share) => [(share.tag(), identity.owner_tags().cluster.unwrap_or_default())].into(),
            None => identity.owner_tags().among(legacy.into()),
        }
    }

    /// Returns the tags of a server group of an NLB.
    pub(super) fn group_tags(&self) -> Tags {
        let cluster = self.cloud.api.config.cluster.clone();
        let mut tags = self.spec.balancer.tags();
        tags.extend([(NAME_TAG.to_owned(), self.name_tag()), (CLUSTER_TAG.to_owned(), cluster)]);
        tags.extend(self.owner_tags());
        tags
    }

    /// Writes tags of the load balancer, and removes those without a value.
    async fn set_tags(&self, tags: &BTreeMap<String, Option<String>>) -> Made {
        let kind = if self.is_network { "loadbalancer" } else { "instance" };
        let of = |action| Query::new(self.product(), action).set("ResourceType", kind).set("ResourceId", [self.id]);
        let new: Tags = tags.iter().filter_map(|(key, value)| Some((key.clone(), value.clone()?))).collect();
        let gone: Vec<_> = tags.iter().filter(|(_, value)| value.is_none()).map(|(key, _)| key).collect();
        if !new.is_empty() {
            self.send(of("TagResources").set("Tag", tag_list(&new))).await?;
        }
        if !gone.is_empty() {
            self.send(of("UntagResources").set("TagKey", gone)).await?;
        }
        Ok(None)
    }

    async fn create(&self, settings: &Attributes) -> Result<Applied> {
        if let Some(id) = self.spec.requested.as_ref().filter(|_| is_reused(self.kind)) {
            return Err(Error::invalid(format!(
                "annotation {}: load balancer {id} does not exist in the region; name one that exists",
                crate::annotations::ID.key()
            )));
        }
        let mut tags = settings.tags();
        tags.extend(self.owner_tags());
        let plain = settings.clone().matching(|key| tag_key(key).is_none());
        let name = settings.text("LoadBalancerName").unwrap_or(&self.change.identity.name).to_owned();
        let query = Query::new(self.product(), "CreateLoadBalancer").set("Tag", tag_list(&tags));
        let query = query.set("ResourceGroupId", &self.cloud.api.config.resource_group);
        let query = query.set("AddressType", if self.is_network { "Internet" } else { "internet" });
        let (mut outcome, created) = if !self.is_network {
            let defaults = json!({"DeleteProtection": "on", "ModificationProtectionStatus": "ConsoleProtection",
                "ModificationProtectionReason": "managed.by.ack", "InstanceChargeType": "PayByCLCU"});
            let query = query.fields(defaults).fields(plain.clone().matching(|key| key != "NetworkType"));
            let query = query.set("LoadBalancerName", &name);
            self.check_account().await?;
            let answer = self.create_classic(query, &plain).await?;
            let ingress = vec![ObservedLoadBalancer::ip(text(&answer, "Address"))];
            let id = created_id(&answer, "LoadBalancerId")?;
            // The credential may have become another account's since the check, and would not show this CLB again.
            if let Err(error) = self.check_account().await {
                return Err(self.discarded(&id, error).await);
            }
            let head = ObservedLoadBalancer { id, ingress, ..self.change.outcome(1).unwrap_or_default() };
            (head, plain.set("NetworkType", text(&answer, "NetworkType")))
        } else {
            let of_creation =
                ["AddressType", "AddressIpVersion", "ResourceGroupId", "ZoneMappings", "BandwidthPackageId"];
            let plain = plain.only(&of_creation);
            let protection = json!({"Status": "ConsoleProtection", "Reason": "managed.by.ack"});
            let query = query.fields(&plain).set("LoadBalancerName", &name);
            let query = query.set("VpcId", self.cloud.api.metadata.vpc().await?);
            let query = query.set("DeletionProtectionConfig", json!({"Enabled": true}));
            let answer = self.cloud.api.create(query.set("ModificationProtectionConfig", protection)).await?;
            let id = created_id(&answer, "LoadbalancerId")?;
            let head = ObservedLoadBalancer { id, state: State::Busy, ..self.change.outcome(1).unwrap_or_default() };
            // What a creation cannot set is changed from these values afterwards.
            let plain = plain.set("SecurityGroupIds", json!([])).set("CrossZoneEnabled", true);
            (head, plain.set("Ipv6AddressType", "Intranet"))
        };
        let graph = outcome.graph.take().unwrap_or_default();
        outcome.graph = Some(graph.balancer(created.set("LoadBalancerName", name).tagged(&tags)));
        // The creation of an NLB takes a part of the settings only.
        Ok(if self.is_network { Applied::PlanAgain(Box::new(outcome)) } else { Applied::Shown(1, Box::new(outcome)) })
    }

    /// Refuses a credential of another account, where a public CLB could be created all the same.
    async fn check_account(&self) -> Result<()> {
        let vpc = self.cloud.api.metadata.vpc().await?;
        let answer: Value = self.cloud.api.read(Query::new(VPC, "DescribeVpcs").set("VpcId", &vpc)).await?;
        match list(&answer["Vpcs"], "Vpc").any(|it| text(it, "VpcId") == vpc) {
            true => Ok(()),
            false => Err(Error::unauthorized(format!(
                "the account of the credential has no VPC {vpc}; check the credential and Global.vpcid"
            ))),
        }
    }

    /// Deletes a new CLB whose account could not be confirmed, and returns the reason.
    async fn discarded(&self, id: &str, reason: Error) -> Error {
        let query = |action| Query::new(self.product(), action).set("LoadBalancerId", id);
        let deleted = async {
            self.cloud.api.change(query("SetLoadBalancerDeleteProtection").set("DeleteProtection", "off")).await?;
            self.cloud.api.change(query("DeleteLoadBalancer")).await
        };
        match deleted.await {
            Err(error) if !error.is_not_found() => {
                reason.context(format!("CLB {id} could not be deleted again: {error}"))
            }
            _ => reason,
        }
    }

    /// Creates a CLB; an internal one in a vSwitch that has an address left.
    async fn create_classic(&self, query: Query, settings: &Attributes) -> Result<Value> {
        let api = &self.cloud.api;
        let is_in_vpc =
            settings.text("AddressType") == Some("intranet") && settings.text("NetworkType") != Some("classic");
        if !is_in_vpc || settings.text("VSwitchId").is_some() {
            return api.create(query).await;
        }
        let first = match api.config.vswitches.first() {
            Some(id) => id.clone(),
            None => api.metadata.vswitch().await?,
        };
        match api.create(query.clone().set("VSwitchId", &first)).await {
            Err(error) if error.code().contains("VSwitchAvailableIpNotExist") => {
                let all = Query::new(VPC, "DescribeVSwitches").set("VpcId", api.metadata.vpc().await?);
                let id = |it: &Value| text(it, "VSwitchId").to_owned();
                let all = api.pages(all, 50, "/VSwitches/VSwitch", id).await?.complete()?.into_items();
                let has_room = |it: &&Value| id(it) != first && it["AvailableIpAddressCount"].as_u64() > Some(0);
                let Some(other) = all.iter().find(has_room) else { return Err(error) };
                api.create(query.set("VSwitchId", id(other))).await
            }
            answer => answer,
        }
    }

    /// Deletes the load balancer with its listeners; server groups of an NLB remain.
    async fn leave(&self) -> Result<Applied> {
        if self.share.is_some() || is_reused(self.kind) {
            return Err(Error::other(format!("load balancer {} of the user is not deleted", self.id)));
        }
        let is_listener = |it: &&Operation| it.deletes(|resource| matches!(resource, ResourceKey::Listener(_)));
        if self.spec.is_preserved {
            self.unprotect().await?;
            if !self.is_network {
                let query = self.query("SetLoadBalancerModificationProtection");
                self.send(query.set("ModificationProtectionStatus", "NonProtection")).await?;
            }
            self.release_groups().await?;
            self.set_tags(&self.owner_tags().into_keys().map(|key| (key, None)).collect()).await?;
            return Ok(Applied::Protected);
        }
        match self.unprotect().await {
            Err(error) if error.is_not_found() => return Ok(Applied::Gone),
            outcome => drop(outcome?),
        }
        let is_there = match self.send(self.query("DeleteLoadBalancer")).await {
            Err(error) if error.is_not_found() => false,
            outcome => outcome.map(|_| true)?,
        };
        let listeners = self.change.operations.iter().take_while(is_listener).count();
        let pools = self.before.resources.keys().any(|it| matches!(it, ResourceKey::Pool(_)));
        if !self.is_network || !pools || !is_there {
            return Ok(if is_there { Applied::Removed } else { Applied::Gone });
        }
        let mut left = self.change.outcome(listeners).unwrap_or_default();
        left.graph.iter_mut().for_each(|graph| {
            graph.resources.retain(|resource, _| matches!(resource, ResourceKey::Pool(_)));
        });
        left.id = format!("{LEFT}{}", self.name_tag());
        left.ingress.clear();
        Ok(Applied::PlanAgain(Box::new(left)))
    }

    /// Removes our tags from the server groups of an NLB that stays.
    async fn release_groups(&self) -> Made {
        let is_pool = |it: &&ResourceKey| self.is_network && matches!(it, ResourceKey::Pool(_));
        let ids: Vec<_> = self.before.resources.keys().filter(is_pool).filter_map(|it| self.id_of(it)).collect();
        for ids in ids.chunks(GROUPS) {
            let query = Query::new(NLB, "UntagResources").set("ResourceType", "servergroup").set("ResourceId", ids);
            self.send(query.set("TagKey", self.group_tags().into_keys().collect::<Vec<_>>())).await?;
        }
        Ok(None)
    }

    async fn unprotect(&self) -> Made {
        if !self.is_network {
            return self.send(self.query("SetLoadBalancerDeleteProtection").set("DeleteProtection", "off")).await;
        }
        let query = self.query("UpdateLoadBalancerProtection").set("DeletionProtectionEnabled", false);
        self.send(query.set("ModificationProtectionStatus", "NonProtection")).await
    }

    async fn update(&self, settings: &Attributes, changes: &[Difference]) -> Made {
        let tags = changed_tags(changes);
        if !tags.is_empty() {
            self.set_tags(&tags).await?;
        }
        let is_changed = |key: &str| changes.iter().any(|it| it.key == key);
        // Zones are sent as the annotation states them.
        let zones = self.spec.balancer.clone().only(&["ZoneMappings"]);
        let of = |action, keys: &[&str]| {
            let query = self.query(action).fields(settings.clone().only(keys));
            if keys.contains(&"ZoneMappings") { query.fields(&zones) } else { query }
        };
        let table: &[(&'static str, &[&str])] = match self.is_network {
            false => &[
                ("SetLoadBalancerName", &["LoadBalancerName"]),
                ("ModifyLoadBalancerInstanceChargeType", &["InstanceChargeType", "LoadBalancerSpec"]),
                ("ModifyLoadBalancerInstanceSpec", &["LoadBalancerSpec"]),
                ("ModifyLoadBalancerInternetSpec", &["InternetChargeType", "Bandwidth"]),
                ("SetLoadBalancerDeleteProtection", &["DeleteProtection"]),
                ("SetLoadBalancerModificationProtection", &["ModificationProtectionStatus"]),
            ],
            true => &[
                ("UpdateLoadBalancerAddressTypeConfig", &["AddressType", "ZoneMappings"]),
                ("UpdateLoadBalancerZones", &["ZoneMappings"]),
                ("UpdateLoadBalancerAttribute", &["LoadBalancerName", "CrossZoneEnabled"]),
            ],
        };
        for (action, keys) in table {
            // The first key decides where other parameters only go along.
            let goes_along =
                matches!(*action, "ModifyLoadBalancerInstanceChargeType" | "UpdateLoadBalancerAddressTypeConfig");
            let is_due = if goes_along { is_changed(keys[0]) } else { keys.iter().any(|key| is_changed(key)) };
            if is_due {
                self.send(of(action, keys)).await?;
            }
        }
        if self.is_network { self.update_network(settings, &is_changed).await } else { Ok(None) }
    }

    async fn update_network(&self, settings: &Attributes, is_changed: &(impl Fn(&str) -> bool + Sync)) -> Made {
        if is_changed("Ipv6AddressType") {
            let action = match settings.text("Ipv6AddressType") {
                Some("Internet") => "EnableLoadBalancerIpv6Internet",
                _ => "DisableLoadBalancerIpv6Internet",
            };
            self.send(self.query(action)).await?;
        }
        let ids = |it: Option<&Attributes>| -> Vec<String> {
            it.and_then(|it| serde_json::from_value(it.get("SecurityGroupIds")?.clone()).ok()).unwrap_or_default()
        };
        if is_changed("SecurityGroupIds") {
            let (there, wanted) = (ids(self.before.balancer_attributes()), ids(Some(settings)));
            let new: Vec<_> = wanted.iter().filter(|id| !there.contains(id)).collect();
            let gone: Vec<_> = there.iter().filter(|id| !wanted.contains(id)).collect();
            let send = async |action, ids: &[&String]| match ids {
                [] => Ok(None),
                ids => self.send(self.query(action).set("SecurityGroupIds", ids)).await,
            };
            match send("LoadBalancerJoinSecurityGroup", &new).await {
                // There is no room for both the old and the new groups.
                Err(error) if error.is_quota() && !gone.is_empty() => {
                    send("LoadBalancerLeaveSecurityGroup", &gone).await?;
                    send("LoadBalancerJoinSecurityGroup", &new).await?;
                }
                outcome => {
                    outcome?;
                    send("LoadBalancerLeaveSecurityGroup", &gone).await?;
                }
            }
        }
        if is_changed("BandwidthPackageId") {
            let package =
                |it: Option<&Attributes>| Some(it?.text("BandwidthPackageId")?.to_owned()).filter(|id| !id.is_empty());
            if let Some(id) = package(self.before.balancer_attributes()) {
                let query = self.query("DetachCommonBandwidthPackageFromLoadBalancer");
                self.send(query.set("BandwidthPackageId", id)).await?;
            }
            if let Some(id) = package(Some(settings)) {
                self.send(self.query("AttachCommonBandwidthPackageToLoadBalancer").set("BandwidthPackageId", id))
                    .await?;
            }
        }
        Ok(None)
    }

    /// Deletes a resource; what is gone with its load balancer needs no request.
    async fn delete(&self, resource: &ResourceKey) -> Made {
        let there = self.before.resources.get(resource);
        if let ResourceKey::Pool(pool) = resource
            && is_of_user(pool)
        {
            return self.remove(pool, &self.before.targets_of(pool)).await;
        }
        let query = match (self.is_network, resource) {
            (_, ResourceKey::Balancer) => return Ok(None),
            (false, ResourceKey::Pool(pool)) => {
                Query::new(SLB, "DeleteVServerGroup").set("VServerGroupId", self.pool_id(pool))
            }
            (_, ResourceKey::Pool(pool)) => {
                Query::new(NLB, "DeleteServerGroup").set("ServerGroupId", self.pool_id(pool))
            }
            (false, ResourceKey::Listener(port)) => {
                let protocol = there.and_then(|it| it.text("Protocol"));
                let query = self.query("DeleteLoadBalancerListener").set("ListenerPort", port.number);
                query.set("ListenerProtocol", protocol)
            }
            (_, resource) => {
                let id = self.id_of(resource).ok_or_else(|| Error::conflict("the listener has no known ID"))?;
                Query::new(NLB, "DeleteListener").set("ListenerId", id)
            }
        };
        match self.send(query).await {
            Err(error) if error.is_not_found() => Ok(None),
            outcome => outcome,
        }
    }
}
