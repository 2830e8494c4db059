//! Changes of load balancers of both kinds: one operation after the other.

use std::collections::BTreeMap;

use cloud_provider::{Error, Result};
use provider_kit::load_balancers::{
    Applied, Attributes, Change, Difference, ObservedLoadBalancer, Operation, POOL, Port, ResourceGraph, ResourceKey,
    State, Targets, changed_tags, tag_key,
};
use serde_json::{Value, json};

use super::backends::{is_unresolved, server_of};
use super::names::{CLUSTER_TAG, NAME_TAG, Part, REUSED_TAG, Share, is_network, is_reused};
use super::read::{LEFT, Tags, list, text};
use super::spec::Spec;
use super::{AlibabaLoadBalancers, ID, OWNER, is_leaving};
use crate::api::{ECS, NLB, Product, Query, SLB, VPC, tag_list};
use crate::instances::AT_ONCE;

/// Settings of the PROXY protocol, which are sent together.
const PROXY: &str = "ProxyProtocolV2Config";
/// Backends that a CLB takes in one request.
const CLASSIC_BACKENDS: usize = 20;

/// An operation, with the load balancer before and after it.
struct Work<'a> {
    cloud: &'a AlibabaLoadBalancers,
    change: Change<'a>,
    spec: &'a Spec,
    kind: &'static str,
    is_network: bool,
    /// Of a load balancer of the user.
    share: Option<Share>,
    id: &'a str,
    before: ResourceGraph,
    after: ResourceGraph,
}

/// ID of a resource that was created, if one was.
type Made = Result<Option<String>>;

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
        let made = match &change.operations[0] {
            Operation::Tag => {
                let reused = work.share.iter().map(|_| (REUSED_TAG.0.to_owned(), REUSED_TAG.1.to_owned()));
                work.set_tags(&work.owner_tags().into_iter().chain(reused).map(|(k, v)| (k, Some(v))).collect()).await
            }
            Operation::Untag => work.set_tags(&work.owner_tags().into_keys().map(|key| (key, None)).collect()).await,
            Operation::Create { resource: ResourceKey::Balancer, attributes } => return work.create(attributes).await,
            Operation::Update { resource: ResourceKey::Balancer, attributes, changes } => {
                work.update(attributes, changes).await
            }
            Operation::AddTargets { pool, targets } => work.add(pool, targets).await,
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

impl Work<'_> {
    fn product(&self) -> Product {
        if self.is_network { NLB } else { SLB }
    }

    /// Returns an action about the load balancer.
    fn query(&self, action: &'static str) -> Query {
        Query::new(self.product(), action).set("LoadBalancerId", self.id)
    }

    /// Sends a change, and lets others use the worker while its job runs.
    async fn send(&self, query: Query) -> Made {
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
    fn shown(&self, count: usize, made: Option<String>) -> Applied {
        let resource = self.change.operations[0].resource();
        let Some(mut outcome) = self.change.outcome(count) else { return Applied::Gone };
        if let (Some(graph), Some(resource), Some(id)) = (&mut outcome.graph, resource, made) {
            let attributes = graph.resources.get(resource).cloned().unwrap_or_default();
            graph.resources.insert(resource.clone(), attributes.set(ID, id));
        }
        Applied::Shown(count, Box::new(outcome))
    }

    fn id_of(&self, resource: &ResourceKey) -> Option<&str> {
        self.before.resources.get(resource)?.text(ID)
    }

    fn pool_id<'p>(&'p self, pool: &'p str) -> &'p str {
        self.id_of(&ResourceKey::Pool(pool.to_owned())).unwrap_or(pool)
    }

    fn part_name(&self, part: &str) -> String {
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
    fn group_tags(&self) -> Tags {
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
        let (mut outcome, created) = if !self.is_network {
            let defaults = json!({"DeleteProtection": "on", "ModificationProtectionStatus": "ConsoleProtection",
                "ModificationProtectionReason": "managed.by.ack", "InstanceChargeType": "PayByCLCU"});
            let query = query.fields(defaults).fields(&plain).set("LoadBalancerName", &name);
            self.check_account().await?;
            let answer = self.create_classic(query, &plain).await?;
            let ingress = vec![ObservedLoadBalancer::ip(text(&answer, "Address"))];
            let id = text(&answer, "LoadBalancerId").to_owned();
            (ObservedLoadBalancer { id, ingress, ..self.change.outcome(1).unwrap_or_default() }, plain)
        } else {
            let of_creation =
                ["AddressType", "AddressIpVersion", "ResourceGroupId", "ZoneMappings", "BandwidthPackageId"];
            let plain = plain.only(&of_creation);
            let protection = json!({"Status": "ConsoleProtection", "Reason": "managed.by.ack"});
            let query = query.fields(&plain).set("LoadBalancerName", &name);
            let query = query.set("VpcId", self.cloud.api.metadata.vpc().await?);
            let query = query.set("DeletionProtectionConfig", json!({"Enabled": true}));
            let answer = self.cloud.api.create(query.set("ModificationProtectionConfig", protection)).await?;
            let id = text(&answer, "LoadbalancerId").to_owned();
            (ObservedLoadBalancer { id, state: State::Busy, ..self.change.outcome(1).unwrap_or_default() }, plain)
        };
        let graph = outcome.graph.take().unwrap_or_default();
        outcome.graph = Some(graph.balancer(created.set("LoadBalancerName", name).tagged(&tags)));
        Ok(Applied::Shown(1, Box::new(outcome)))
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

    /// Creates a CLB; an internal one in a vSwitch that has an address left.
    async fn create_classic(&self, query: Query, settings: &Attributes) -> Result<Value> {
        let api = &self.cloud.api;
        if settings.text("AddressType") != Some("intranet") || settings.text("VSwitchId").is_some() {
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
            for (action, ids) in [("LoadBalancerJoinSecurityGroup", new), ("LoadBalancerLeaveSecurityGroup", gone)] {
                if !ids.is_empty() {
                    self.send(self.query(action).set("SecurityGroupIds", ids)).await?;
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

    /// Returns backends as the API takes them.
    fn servers<'t>(&self, pool: &str, targets: impl Iterator<Item = &'t str>, is_whole: bool) -> Vec<Value> {
        let part = self.spec.ports.iter().find(|port| port.pool == pool).map_or(pool, |port| &*port.part);
        let description = self.part_name(part);
        let server = |target: &str| {
            let mut parts = target.split(' ');
            let [weight, kind, port, id] = std::array::from_fn(|_| parts.next().unwrap_or_default());
            let (id, ip) = match kind {
                "eni" | "Eni" => id.split_once('/').map_or((id, None), |(id, ip)| (id, Some(ip))),
                "Ip" => (id, Some(id)),
                _ => (id.split_once('.').map_or(id, |(_, id)| id), None),
            };
            let [port, weight] = [port, weight].map(|it| it.parse::<u32>().unwrap_or_default());
            let key = if self.is_network { "ServerType" } else { "Type" };
            let mut it = json!({"ServerId": id, key: kind, "Port": port});
            if let Some(ip) = ip {
                it["ServerIp"] = json!(ip);
            }
            if is_whole {
                (it["Weight"], it["Description"]) = (json!(weight), json!(description));
            }
            it
        };
        targets.filter(|target| !is_unresolved(target)).map(server).collect()
    }

    async fn send_servers(&self, action: &'static str, pool_id: &str, parameter: &str, servers: &[Value]) -> Made {
        let (key, size) = match self.is_network {
            false => ("VServerGroupId", CLASSIC_BACKENDS),
            true => ("ServerGroupId", self.cloud.api.config.batch),
        };
        for servers in servers.chunks(size.min(self.cloud.api.config.batch)) {
            let query = |servers: &[Value]| {
                let query = Query::new(self.product(), action).set(key, pool_id);
                match self.is_network {
                    false => query.set(parameter, json!(servers).to_string()),
                    true => query.set(parameter, servers),
                }
            };
            match self.send(query(servers)).await {
                Err(error) if is_missing_server(&error) => {
                    // An instance that no longer exists is left out, so that the others are still added.
                    let existing = self.existing(servers).await?;
                    if existing.len() == servers.len() {
                        return Err(error);
                    }
                    if !existing.is_empty() {
                        self.send(query(&existing)).await?;
                    }
                }
                outcome => drop(outcome?),
            }
        }
        Ok(None)
    }

    /// Returns the backends whose instances exist, and those that are no instances.
    async fn existing(&self, servers: &[Value]) -> Result<Vec<Value>> {
        let is_instance =
            |it: &Value| ["Type", "ServerType"].iter().any(|key| text(it, key).eq_ignore_ascii_case("ecs"));
        let ids: Vec<_> = servers.iter().filter(|it| is_instance(it)).map(|it| text(it, "ServerId")).collect();
        let query = Query::new(ECS, "DescribeInstances").set("InstanceIds", json!(ids).to_string());
        let answer: Value = self.cloud.api.read(query.set("MaxResults", AT_ONCE)).await?;
        let known: Vec<_> = list(&answer["Instances"], "Instance").map(|it| text(it, "InstanceId")).collect();
        let exists = |it: &&Value| !is_instance(it) || known.contains(&text(it, "ServerId"));
        Ok(servers.iter().filter(exists).cloned().collect())
    }

    /// Adds backends, and changes the weights of those that are there.
    async fn add(&self, pool: &str, targets: &Targets) -> Made {
        let there = self.before.targets_of(pool);
        let old = |target: &str| there.iter().find(|it| server_of(it) == server_of(target)).map(str::to_owned);
        let (changed, new): (Vec<&str>, Vec<&str>) = targets.iter().partition(|target| old(target).is_some());
        let id = self.pool_id(pool).to_owned();
        let new = self.servers(pool, new.into_iter(), true);
        let actions = match self.is_network {
            false => ["AddVServerGroupBackendServers", "BackendServers"],
            true => ["AddServersToServerGroup", "Servers"],
        };
        self.send_servers(actions[0], &id, actions[1], &new).await?;
        if changed.is_empty() {
            return Ok(None);
        }
        let whole = self.servers(pool, changed.into_iter(), true);
        match self.is_network {
            false => self.send_servers("SetVServerGroupAttribute", &id, "BackendServers", &whole).await,
            true => self.send_servers("UpdateServerGroupServersAttribute", &id, "Servers", &whole).await,
        }
    }

    /// Removes backends; one whose weight was changed stays.
    async fn remove(&self, pool: &str, targets: &Targets) -> Made {
        let stay = self.after.targets_of(pool);
        let is_gone = |target: &&str| !stay.iter().any(|it| server_of(it) == server_of(target));
        let servers = self.servers(pool, targets.iter().filter(is_gone), false);
        let id = self.pool_id(pool).to_owned();
        match self.is_network {
            false => self.send_servers("RemoveVServerGroupBackendServers", &id, "BackendServers", &servers).await,
            true => self.send_servers("RemoveServersFromServerGroup", &id, "Servers", &servers).await,
        }
    }

    /// Creates a server group; that of a CLB with its first backends.
    async fn create_pool(&self, pool: &str, settings: &Attributes) -> Result<Applied> {
        if is_of_user(pool) {
            return self.use_pool(pool).await;
        }
        if !self.is_network {
            let first = match self.change.operations.get(1) {
                Some(Operation::AddTargets { pool: of, targets })
                    if of == pool && targets.len() <= CLASSIC_BACKENDS =>
                {
                    Some(targets)
                }
                _ => None,
            };
            let query = self.query("CreateVServerGroup").set("VServerGroupName", self.part_name(pool));
            let servers = first.map(|targets| json!(self.servers(pool, targets.iter(), true)).to_string());
            let (answer, first) = match self.cloud.api.create(query.clone().set("BackendServers", servers)).await {
                // The backends are added afterwards, without the one that no longer exists.
                Err(error) if is_missing_server(&error) => (self.cloud.api.create(query).await?, None),
                answer => (answer?, first),
            };
            let id = text(&answer, "VServerGroupId").to_owned();
            return Ok(self.shown(1 + usize::from(first.is_some()), Some(id)));
        }
        let tags = self.group_tags();
        let query = Query::new(NLB, "CreateServerGroup").set("ServerGroupName", self.part_name(pool));
        let query = query.fields(settings.nested()).set("VpcId", self.cloud.api.metadata.vpc().await?);
        let query = query.set("ResourceGroupId", &self.cloud.api.config.resource_group).set("Tag", tag_list(&tags));
        let answer = self.cloud.api.create(query).await?;
        let answer = self.cloud.api.wait(answer).await?;
        Ok(self.shown(1, Some(text(&answer, "ServerGroupId").to_owned())))
    }

    async fn update_pool(&self, pool: &str, settings: &Attributes, changes: &[Difference]) -> Made {
        if !self.is_network {
            return Ok(None);
        }
        let is_sent = |key: &str| {
            changes.iter().any(|it| {
                it.key == key || key.starts_with("HealthCheckConfig") && it.key.starts_with("HealthCheckConfig")
            })
        };
        let query = Query::new(NLB, "UpdateServerGroupAttribute").set("ServerGroupId", self.pool_id(pool));
        self.send(query.fields(settings.clone().matching(is_sent).nested())).await
    }

    /// Returns the settings of a CLB's listener as parameters of a request.
    fn classic_listener(&self, settings: &Attributes, is_new: bool) -> (String, Value) {
        let protocol = settings.text("Protocol").unwrap_or("tcp").to_owned();
        let mut all = serde_json::to_value(settings).unwrap_or_default();
        if let Some(all) = all.as_object_mut() {
            ["Protocol", "Status", "AclIds", POOL, ID, OWNER].into_iter().for_each(|key| drop(all.remove(key)));
        }
        if let Some(ids) = settings.get("AclIds").and_then(Value::as_array) {
            all["AclId"] = json!(ids.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(","));
        }
        if is_new && ["tcp", "udp"].contains(&&*protocol) && all["HealthCheckInterval"].is_number() {
            all["healthCheckInterval"] = all["HealthCheckInterval"].take();
        }
        (protocol, all)
    }

    async fn create_listener(&self, port: &Port, settings: &Attributes) -> Made {
        let pool = settings.text(POOL).unwrap_or_default();
        if self.is_network {
            return self.create_network_listener(port, settings).await;
        }
        let (protocol, all) = self.classic_listener(settings, true);
        let action = match &*protocol {
            "udp" => "CreateLoadBalancerUDPListener",
            "http" => "CreateLoadBalancerHTTPListener",
            "https" => "CreateLoadBalancerHTTPSListener",
            _ => "CreateLoadBalancerTCPListener",
        };
        let is_http = protocol.starts_with("http");
        let off = is_http.then(|| json!({"HealthCheck": "off", "StickySession": "off"}));
        let query = self.query(action).fields(off).set("Bandwidth", -1).fields(all).set("ListenerPort", port.number);
        let query = query.set("Description", self.part_name(&port.number.to_string()));
        let query = match settings.get("ForwardPort") {
            Some(_) => query.set("ListenerForward", "on"),
            None => query.set("VServerGroupId", self.pool_id(pool)),
        };
        match self.cloud.api.create(query).await {
            // A listener that is not named for a Service: that of the user, which the annotation lets us change, or one
            // with a name of an old version.
            Err(error) if error.is_conflict() && error.code().contains("AlreadyExist") => {
                let query = self.query(set_action(&protocol)).fields(self.classic_listener(settings, false).1);
                let query = query.set("ListenerPort", port.number).set("VServerGroup", "on");
                let query = query.set("VServerGroupId", self.pool_id(pool));
                self.send(query.set("Description", self.part_name(&port.number.to_string()))).await?;
            }
            outcome => drop(outcome?),
        }
        self.start(port, &protocol).await
    }

    async fn create_network_listener(&self, port: &Port, settings: &Attributes) -> Made {
        let pool = settings.text(POOL).unwrap_or_default();
        let plain = settings.clone().matching(|key| ![POOL, ID, OWNER, "ListenerStatus"].contains(&key));
        let protocol = settings.text("ListenerProtocol").unwrap_or("TCP");
        let description = self.part_name(&format!("{}.{protocol}", port.number));
        let query = Query::new(NLB, "CreateListener").set("LoadBalancerId", self.id).fields(listener_fields(&plain));
        let query = query.set("ListenerPort", port.number).set("ListenerDescription", &description);
        let answer = match self.cloud.api.create(query.set("ServerGroupId", self.pool_id(pool))).await {
            Err(error) if error.is_conflict() && error.code().contains("AlreadyExist") => {
                let query = Query::new(NLB, "ListListeners").set("LoadBalancerIds", [self.id]);
                let answer: Value = self.cloud.api.read(query.set("MaxResults", 100)).await?;
                let is_it = |it: &&Value| it["ListenerPort"] == port.number && it["ListenerProtocol"] == *protocol;
                let Some(it) = list(&answer, "Listeners").find(is_it) else { return Err(error) };
                let plain = plain.matching(|key| key != "ListenerProtocol");
                let query = Query::new(NLB, "UpdateListenerAttribute").set("ListenerId", &it["ListenerId"]);
                let query = query.fields(listener_fields(&plain)).set("ServerGroupId", self.pool_id(pool));
                self.send(query.set("ListenerDescription", description)).await?;
                return Ok(Some(text(it, "ListenerId").to_owned()));
            }
            answer => self.cloud.api.wait(answer?).await?,
        };
        Ok(Some(text(&answer, "ListenerId").to_owned()))
    }

    /// Finds a server group of the user. Its backends of the Service are planned next.
    async fn use_pool(&self, pool: &str) -> Result<Applied> {
        let wrong = |text: &str| {
            let key = crate::annotations::GROUPS.key();
            Error::invalid(format!("annotation {key}: server group {pool} {text}; name a server group of yours"))
        };
        let Some(share) = &self.share else { return Err(wrong("needs a load balancer of yours")) };
        let found = self.cloud.group_of_user(self.is_network, pool, share).await?;
        let (name, targets) = found.ok_or_else(|| wrong("does not exist"))?;
        if Part::of(self.kind, &name, &self.cloud.api.config.cluster).is_some() {
            return Err(wrong("was created by Kubernetes"));
        }
        let mut observed = self.change.actual.cloned().unwrap_or_default();
        let graph = observed.graph.take().unwrap_or_default();
        observed.graph = Some(graph.pool(pool, Attributes::default().set(ID, pool), Some(targets)));
        Ok(Applied::PlanAgain(Box::new(observed)))
    }

    async fn start(&self, port: &Port, protocol: &str) -> Made {
        let query = self.query("StartLoadBalancerListener").set("ListenerPort", port.number);
        self.send(query.set("ListenerProtocol", protocol)).await
    }

    async fn update_listener(&self, port: &Port, settings: &Attributes, changes: &[Difference]) -> Made {
        let is_changed = |key: &str| changes.iter().any(|it| it.key == key);
        let pool = settings.text(POOL).unwrap_or_default();
        let is_other = changes.iter().any(|it| !["Status", "ListenerStatus"].contains(&&*it.key));
        if self.is_network {
            let id = self.id_of(&ResourceKey::Listener(port.clone())).unwrap_or_default();
            if is_other {
                let is_sent = |key: &str| {
                    let of_proxy = key.starts_with(PROXY) && changes.iter().any(|it| it.key.starts_with(PROXY));
                    key != POOL && key != "ListenerStatus" && (of_proxy || is_changed(key))
                };
                let plain = listener_fields(&settings.clone().matching(is_sent));
                let query = Query::new(NLB, "UpdateListenerAttribute").set("ListenerId", id).fields(plain);
                let group = is_changed(POOL).then(|| self.pool_id(pool));
                self.send(query.set("ServerGroupId", group)).await?;
            }
            return match is_changed("ListenerStatus") {
                true => self.send(Query::new(NLB, "StartListener").set("ListenerId", id)).await,
                false => Ok(None),
            };
        }
        let (protocol, mut all) = self.classic_listener(settings, false);
        if is_other {
            if let Some(all) = all.as_object_mut() {
                all.retain(|key, _| {
                    is_changed(key)
                        || key.starts_with("Acl") && ["AclIds", "AclStatus", "AclType"].into_iter().any(is_changed)
                });
            }
            let query = self.query(set_action(&protocol)).fields(all).set("ListenerPort", port.number);
            let query = query.set("VServerGroup", "on").set("VServerGroupId", self.pool_id(pool));
            self.send(query).await?;
        }
        if is_changed("Status") { self.start(port, &protocol).await } else { Ok(None) }
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

/// Returns the settings of an NLB's listener as parameters; one of them is JSON in a text.
fn listener_fields(settings: &Attributes) -> Value {
    let mut all = settings.nested();
    if all[PROXY].is_object() {
        all[PROXY] = json!(all[PROXY].to_string());
    }
    all
}

/// Returns `true` if a backend was refused because its instance does not exist.
fn is_missing_server(error: &Error) -> bool {
    ["ObtainIpFail", "ResourceNotFound.server", "InvalidInstanceId.NotFound"].contains(&&*error.code())
}

/// Returns `true` for the ID of a server group of the user; pools of the cluster are named for their port.
fn is_of_user(pool: &str) -> bool {
    pool.starts_with("rsp-") || pool.starts_with("sgp-")
}

fn set_action(protocol: &str) -> &'static str {
    match protocol {
        "udp" => "SetLoadBalancerUDPListenerAttribute",
        "http" => "SetLoadBalancerHTTPListenerAttribute",
        "https" => "SetLoadBalancerHTTPSListenerAttribute",
        _ => "SetLoadBalancerTCPListenerAttribute",
    }
}
