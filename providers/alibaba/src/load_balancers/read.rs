//! Load balancers of both kinds, and what is left of one, as they are read.

use std::collections::{BTreeMap, BTreeSet};

use cloud_provider::{Error, Result};
use futures::future::try_join_all;
use futures::try_join;
use provider_kit::inventory::SharedPriority;
use provider_kit::load_balancers::{
    Attributes, Identity, ObservedLoadBalancer, OwnerTags, Port, ResourceGraph, ResourceKey, State, Targets,
};
use provider_kit::paging::ListResult;
use serde_json::{Value, json};

use super::model::{ClassicBalancer, ClassicListener, NetworkBalancer, NetworkGroup, NetworkListener};
use super::names::{CLASSIC, CLUSTER_TAG, NAME_TAG, NETWORK, Part, SHARE_TAG, Share, is_network, kind};
use super::{AlibabaLoadBalancers, ID, OWNER};
use crate::annotations as key;
use crate::api::{NLB, Query, SLB};

/// Prefix of the ID of what is left of an NLB; its name follows.
pub(super) const LEFT: &str = "left of ";
/// CLBs of one request for listeners, or by ID, and NLBs by ID.
const AT_ONCE: [usize; 2] = [10, 20];

pub(super) type Tags = BTreeMap<String, String>;

pub(super) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

pub(super) fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value[key].as_array().into_iter().flatten()
}

/// Returns a port that is written as a number or as a text.
fn port(value: &Value) -> u16 {
    let number = value.as_u64().or_else(|| value.as_str()?.parse().ok());
    number.and_then(|port| u16::try_from(port).ok()).unwrap_or_default()
}

/// Returns the tags of an object; the APIs write their fields differently.
fn tags(it: &Value) -> Tags {
    let all = if it["Tags"].is_array() { &it["Tags"] } else { &it["Tags"]["Tag"] };
    let either = |tag: &Value, keys: [&str; 2]| keys.iter().find_map(|key| tag[*key].as_str().map(str::to_owned));
    let pair =
        |tag: &Value| Some((either(tag, ["Key", "TagKey"])?, either(tag, ["Value", "TagValue"]).unwrap_or_default()));
    all.as_array().into_iter().flatten().filter_map(pair).collect()
}

fn id_of(it: &Value) -> String {
    text(it, "LoadBalancerId").to_owned()
}

/// A load balancer that was found; of one of the user, the share of a Service.
struct Found {
    it: Value,
    share: Option<Share>,
    /// Server groups of the user that the Service names.
    groups: Vec<String>,
}

impl Found {
    /// Returns the load balancer without its resources.
    fn head(&self, is_network: bool) -> ObservedLoadBalancer {
        let (it, mut tags) = (&self.it, tags(&self.it));
        let ingress = match is_network {
            false => Some(text(it, "Address")).filter(|ip| !ip.is_empty()).map(ObservedLoadBalancer::ip),
            true => Some(text(it, "DNSName")).filter(|name| !name.is_empty()).map(ObservedLoadBalancer::host),
        };
        let state = match text(it, "LoadBalancerStatus") {
            "Provisioning" | "Configuring" => State::Busy,
            status @ "CreateFailed" => State::Failed(status.to_owned()),
            _ => State::Ready,
        };
        let head = ObservedLoadBalancer {
            id: id_of(it),
            name: text(it, "LoadBalancerName").to_owned(),
            legacy_owner: tags.get(NAME_TAG).cloned(),
            kind: kind(is_network, self.share.is_some()),
            ingress: ingress.into_iter().collect(),
            created: text(it, "CreateTime").parse().ok(),
            state,
            ..ObservedLoadBalancer::default()
        };
        match &self.share {
            None => ObservedLoadBalancer { owner_tags: OwnerTags::take_from(&mut tags), ..head },
            Some(share) => {
                let user = ResourceKey::created_before(0, "load balancer", head.id.clone());
                ObservedLoadBalancer {
                    owner_tags: share.owner_tags(&tags),
                    legacy_owner: Some(share.default_name()),
                    cloud_name_and_id: Some((head.name.clone(), head.id.clone())),
                    name: share.default_name(),
                    id: share.id(&head.id),
                    // The load balancer of the user stays, whatever happens to the share.
                    foreign: BTreeMap::from([(user, "not created for a Service".to_owned())]),
                    ..head
                }
            }
        }
    }

    /// Returns the default name of the Service's load balancer.
    fn default_name(&self) -> String {
        let named = || tags(&self.it).remove(NAME_TAG).unwrap_or_else(|| text(&self.it, "LoadBalancerName").to_owned());
        self.share.as_ref().map_or_else(named, Share::default_name)
    }
}

/// A server group with its backends.
struct Group {
    id: String,
    name: String,
    settings: Attributes,
    servers: Vec<Value>,
}

/// A listener with the settings that requests have.
struct Listener<'a> {
    it: &'a Value,
    description: &'a str,
    settings: Attributes,
}

impl<'a> Listener<'a> {
    /// Returns the ID of the server group.
    fn group(&self) -> Option<&'a str> {
        ["VServerGroupId", "ServerGroupId"].into_iter().find_map(|key| self.it[key].as_str())
    }
}

/// Returns the name of the pool of a server group. A second group of the same name, which a lost answer to a creation
/// leaves, gets another one, so that it is deleted.
fn pool_name(graph: &ResourceGraph, part: &Part<'_>, id: &str) -> String {
    let is_second = graph.resources.contains_key(&ResourceKey::Pool(part.port.to_owned()));
    if is_second { format!("{} {id}", part.port) } else { part.port.to_owned() }
}

fn servers<'a>(all: impl Iterator<Item = &'a Value>, region: &str) -> Targets {
    let server = |it: &Value| {
        let weight = it["Weight"].as_u64().unwrap_or_default();
        let (kind, id, ip) = (
            it["ServerType"].as_str().or(it["Type"].as_str()).unwrap_or("ecs"),
            text(it, "ServerId"),
            text(it, "ServerIp"),
        );
        let id = match kind {
            "eni" | "Eni" => format!("{id}/{ip}"),
            "Ip" => id.to_owned(),
            _ => format!("{region}.{id}"),
        };
        format!("{weight} {kind} {} {id}", port(&it["Port"]))
    };
    all.filter(|it| text(it, "Status") != "Removing").map(server).collect()
}

/// Returns the settings of a CLB's listener, with the names of requests.
fn classic_listener(it: &Value) -> Value {
    let protocol = text(it, "ListenerProtocol").to_lowercase();
    let mut all = it[format!("{}ListenerConfig", protocol.to_uppercase())].clone();
    for key in ["Scheduler", "AclStatus", "AclType", "AclIds", "Status"] {
        all[key] = it[key].clone();
    }
    if ["tcp", "udp"].contains(&&*protocol) {
        all["HealthCheckSwitch"] = all["HealthCheck"].take();
        all["ProxyProtocolV2Enabled"] =
            json!(all["ProxyProtocolV2Enabled"] == "true" || all["ProxyProtocolV2Enabled"] == true);
    }
    if all["ListenerForward"] != "on" {
        all["ForwardPort"] = Value::Null;
    }
    all["Protocol"] = json!(protocol);
    all
}

/// Returns the settings of an NLB, with the names of requests.
fn network_balancer(it: &Value) -> Value {
    let mut all = it.clone();
    let zone = |zone: &Value| {
        let address = &zone["LoadBalancerAddresses"][0];
        let of_zone = ["ZoneId", "VSwitchId"].map(|key| (key, &zone[key]));
        let fields = of_zone.into_iter().chain(["AllocationId", "PrivateIPv4Address"].map(|key| (key, &address[key])));
        fields.filter(|(_, it)| !it.is_null()).map(|(key, it)| (key.to_owned(), it.clone())).collect::<Value>()
    };
    all["ZoneMappings"] = list(it, "ZoneMappings").map(zone).collect();
    all
}

impl AlibabaLoadBalancers {
    /// Reads load balancers by a parameter.
    async fn balancers(&self, is_network: bool, key: &str, value: Value) -> Result<ListResult<Value>> {
        match is_network {
            true => {
                self.tokens(Query::new(NLB, "ListLoadBalancers").set(key, value), "/LoadBalancers", "LoadBalancerId")
                    .await
            }
            false => {
                let query = Query::new(SLB, "DescribeLoadBalancers").set(key, value);
                self.api.pages(query, 100, "/LoadBalancers/LoadBalancer", id_of).await
            }
        }
    }

    async fn tokens(&self, query: Query, place: &str, key: &'static str) -> Result<ListResult<Value>> {
        let key = move |it: &Value| text(it, key).to_owned();
        self.api.tokens(query, ("MaxResults", 100), place, &SharedPriority::default(), key).await
    }

    async fn all_of(&self, query: Query, place: &str, key: &'static str) -> Result<Vec<Value>> {
        self.tokens(query, place, key).await?.complete().map(|it| it.into_items())
    }

    /// Reads the server groups of NLBs of the cluster with this tag, those of shares among them.
    async fn groups(&self, key: &str, value: &str) -> Result<Vec<Value>> {
        let query = Query::new(NLB, "ListServerGroups").set("Tag", json!([{"Key": key, "Value": value}]));
        let found = self.all_of(query, "/ServerGroups", "ServerGroupId").await?;
        let cluster = &self.api.config.cluster;
        Ok(found.into_iter().filter(|it| Part::of(NETWORK, text(it, "ServerGroupName"), cluster).is_some()).collect())
    }

    async fn whole_classic(&self, found: &[Found]) -> Result<Vec<ObservedLoadBalancer>> {
        let ids: BTreeSet<_> = found.iter().map(|found| id_of(&found.it)).collect();
        let ids: Vec<_> = ids.into_iter().collect();
        let listeners = try_join_all(ids.chunks(AT_ONCE[0]).map(async |ids| {
            let query = Query::new(SLB, "DescribeLoadBalancerListeners").set("LoadBalancerId", ids);
            let key = |it: &Value| [id_of(it), it["ListenerPort"].to_string(), text(it, "ListenerProtocol").to_owned()];
            let found =
                self.api.tokens(query, ("MaxResults", 100), "/Listeners", &SharedPriority::default(), key).await;
            found?.complete().map(|it| it.into_items())
        }));
        let (listeners, groups) = try_join!(listeners, try_join_all(found.iter().map(|it| self.classic_groups(it))))?;
        let (listeners, region) = (listeners.concat(), self.api.metadata.region().await?);
        let whole = |(found, groups): (&Found, Vec<Group>)| {
            let settings = Attributes::observed(&ClassicBalancer(found.it.clone()))?;
            let own = listeners.iter().filter(|it| id_of(it) == id_of(&found.it)).map(|it| {
                let settings = Attributes::observed(&ClassicListener(classic_listener(it)))?;
                Ok(Listener { it, description: text(it, "Description"), settings })
            });
            let own = own.collect::<Result<Vec<_>>>()?;
            Ok(self.assembled(&region, found, settings, own, groups))
        };
        found.iter().zip(groups).map(whole).collect()
    }

    /// Reads server groups of a CLB with their backends: those of the cluster, and those in which a share may be.
    async fn classic_groups(&self, found: &Found) -> Result<Vec<Group>> {
        let query = Query::new(SLB, "DescribeVServerGroups").set("LoadBalancerId", id_of(&found.it));
        let answer: Value = self.api.read(query).await?;
        let is_of_cluster = |name: &str| Part::of(CLASSIC, name, &self.api.config.cluster).is_some();
        let all = list(&answer["VServerGroups"], "VServerGroup");
        let meant = all.filter(|it| found.share.is_some() || is_of_cluster(text(it, "VServerGroupName")));
        let whole = async |it: &Value| {
            let (id, name) = (text(it, "VServerGroupId").to_owned(), text(it, "VServerGroupName").to_owned());
            let query = Query::new(SLB, "DescribeVServerGroupAttribute").set("VServerGroupId", &id);
            let whole: Value = self.api.read(query).await?;
            let servers = list(&whole["BackendServers"], "BackendServer").cloned().collect();
            Ok(Group { id, name, settings: Attributes::default(), servers })
        };
        try_join_all(meant.map(whole)).await
    }

    async fn whole_network(&self, found: &[Found]) -> Result<Vec<ObservedLoadBalancer>> {
        if found.is_empty() {
            return Ok(Vec::new());
        }
        let ids: BTreeSet<_> = found.iter().map(|found| id_of(&found.it)).collect();
        let ids: Vec<_> = ids.into_iter().collect();
        let listeners = try_join_all(ids.chunks(AT_ONCE[1]).map(async |ids| {
            let query = Query::new(NLB, "ListListeners").set("LoadBalancerIds", ids);
            self.all_of(query, "/Listeners", "ListenerId").await
        }));
        let groups = async {
            match found {
                [found] => self.groups(NAME_TAG, &found.default_name()).await,
                _ => self.groups(CLUSTER_TAG, &self.api.config.cluster).await,
            }
        };
        let (listeners, groups) = try_join!(listeners, groups)?;
        let (listeners, region) = (listeners.concat(), self.api.metadata.region().await?);
        let whole = async |found: &Found| {
            let name = found.default_name();
            let share = found.share.as_ref();
            let is_own = |it: &&Value| tags(it).get(NAME_TAG) == Some(&name) && is_group_of(it, share);
            let mut own: Vec<_> = groups.iter().filter(is_own).cloned().collect();
            let listeners: Vec<_> = listeners.iter().filter(|it| id_of(it) == id_of(&found.it)).collect();
            if share.is_some() {
                own.extend(self.groups_of_user(found, &listeners).await?);
            }
            let settings = Attributes::observed(&NetworkBalancer(network_balancer(&found.it)))?;
            let listeners = listeners.iter().map(|it| {
                let settings = Attributes::observed(&NetworkListener((*it).clone()))?.set(ID, text(it, "ListenerId"));
                Ok(Listener { it, description: text(it, "ListenerDescription"), settings })
            });
            let listeners = listeners.collect::<Result<Vec<_>>>()?;
            Ok(self.assembled(&region, found, settings, listeners, self.with_servers(&own).await?))
        };
        try_join_all(found.iter().map(whole)).await
    }

    /// Reads the server groups of the user that an NLB or the Service uses.
    async fn groups_of_user(&self, found: &Found, listeners: &[&Value]) -> Result<Vec<Value>> {
        let used = listeners.iter().map(|it| text(it, "ServerGroupId")).chain(found.groups.iter().map(String::as_str));
        let ids: BTreeSet<_> = used.filter(|id| !id.is_empty()).collect();
        let ids: Vec<_> = ids.into_iter().collect();
        let cluster = &self.api.config.cluster;
        let read = async |ids: &[&str]| {
            let query = Query::new(NLB, "ListServerGroups").set("ServerGroupIds", ids);
            self.all_of(query, "/ServerGroups", "ServerGroupId").await
        };
        let found = try_join_all(ids.chunks(AT_ONCE[1]).map(read)).await?.concat();
        Ok(found.into_iter().filter(|it| Part::of(NETWORK, text(it, "ServerGroupName"), cluster).is_none()).collect())
    }

    /// Reads the backends of server groups.
    async fn with_servers(&self, groups: &[Value]) -> Result<Vec<Group>> {
        let whole = async |it: &Value| {
            let query = Query::new(NLB, "ListServerGroupServers").set("ServerGroupId", &it["ServerGroupId"]);
            let key = |it: &Value| [text(it, "ServerId"), text(it, "ServerIp"), &it["Port"].to_string()].join(" ");
            let found = self.api.tokens(query, ("MaxResults", 100), "/Servers", &SharedPriority::default(), key).await;
            let servers = found?.complete()?.into_items();
            let mut group = it.clone();
            group["HealthCheckConfig"] = group["HealthCheck"].take();
            let settings = Attributes::observed(&NetworkGroup(group))?;
            let (id, name) = (text(it, "ServerGroupId").to_owned(), text(it, "ServerGroupName").to_owned());
            Ok(Group { id, name, settings, servers })
        };
        try_join_all(groups.iter().map(whole)).await
    }

    /// Reads the name of a server group of the user, and the backends of a Service in it.
    pub(super) async fn group_of_user(
        &self,
        is_network: bool,
        id: &str,
        share: &Share,
    ) -> Result<Option<(String, Targets)>> {
        let found = match is_network {
            true => {
                let query = Query::new(NLB, "ListServerGroups").set("ServerGroupIds", [id]);
                let found = self.all_of(query, "/ServerGroups", "ServerGroupId").await?;
                self.with_servers(&found).await?.pop().map(|group| (group.name, group.servers))
            }
            false => {
                let query = Query::new(SLB, "DescribeVServerGroupAttribute").set("VServerGroupId", id);
                match self.api.read::<Value>(query).await {
                    Err(error) if error.is_not_found() => None,
                    answer => {
                        let answer = answer?;
                        let servers = list(&answer["BackendServers"], "BackendServer").cloned().collect();
                        Some((text(&answer, "VServerGroupName").to_owned(), servers))
                    }
                }
            }
        };
        let kind = kind(is_network, true);
        let is_own = |it: &&Value| {
            Part::of(kind, text(it, "Description"), &self.api.config.cluster).is_some_and(|part| share.has(&part))
        };
        let region = self.api.metadata.region().await?;
        Ok(found.map(|(name, all)| (name, servers(all.iter().filter(is_own), &region))))
    }

    /// Returns a load balancer with its resources: all that belong to the cluster, or to the Service of the share.
    fn assembled(
        &self,
        region: &str,
        found: &Found,
        settings: Attributes,
        listeners: Vec<Listener<'_>>,
        mut groups: Vec<Group>,
    ) -> ObservedLoadBalancer {
        groups.sort_by_key(|group| !listeners.iter().any(|it| it.group() == Some(&group.id)));
        let mut observed = found.head(is_network_id(&id_of(&found.it)));
        let (kind, cluster) = (observed.kind, &*self.api.config.cluster);
        let share = found.share.as_ref();
        let is_own = |part: &Part<'_>| share.is_none_or(|share| share.has(part));
        let mut graph = ResourceGraph::default().balancer(settings.tagged(&tags(&found.it)));
        let mut pools = BTreeMap::new();
        for group in groups {
            let settings = group.settings.set(ID, &group.id);
            match (Part::of(kind, &group.name, cluster), share) {
                (Some(part), _) if is_own(&part) => {
                    let (pool, targets) = (pool_name(&graph, &part, &group.id), servers(group.servers.iter(), region));
                    graph = graph.pool(&pool, settings.set(OWNER, owner(&part)), Some(targets));
                    pools.insert(group.id, pool);
                }
                (None, Some(share)) => {
                    let is_own = |it: &&Value| {
                        Part::of(kind, text(it, "Description"), cluster).is_some_and(|part| share.has(&part))
                    };
                    let own = servers(group.servers.iter().filter(is_own), region);
                    if !own.is_empty() || found.groups.contains(&group.id) {
                        graph = graph.pool(&group.id, settings, Some(own));
                    }
                }
                _ => {}
            }
        }
        let mut foreign = BTreeMap::new();
        for listener in listeners {
            let group = listener.group();
            let Listener { it, description, settings } = listener;
            let transport = if text(it, "ListenerProtocol").eq_ignore_ascii_case("udp") { "UDP" } else { "TCP" };
            let number = port(&it["ListenerPort"]);
            match Part::of(kind, description, cluster) {
                Some(part) if is_own(&part) => {
                    let pool = group.map_or("", |id| pools.get(id).map_or(id, |pool| pool));
                    graph = graph.listener(number, transport, pool, settings.set(OWNER, owner(&part)));
                }
                _ if share.is_some() && description.starts_with("k8s") => {
                    let port = Port { number, protocol: transport.into() };
                    foreign.insert(ResourceKey::Listener(port), format!("of another Service ({description})"));
                }
                _ => {}
            }
        }
        observed.foreign.extend(foreign);
        ObservedLoadBalancer { graph: Some(graph), ..observed }
    }

    /// Returns what is left of the NLB of this name, or of a share too if its load balancer is gone.
    async fn left_of(&self, name: &str, has_shares: bool) -> Result<Option<ObservedLoadBalancer>> {
        let mut groups = self.groups(NAME_TAG, name).await?;
        groups.retain(|it| has_shares || is_group_of(it, None));
        let Some(first) = groups.first() else { return Ok(None) };
        let (mut graph, region) = (ResourceGraph::default(), self.api.metadata.region().await?);
        for group in self.with_servers(&groups).await? {
            let Some(part) = Part::of(NETWORK, &group.name, &self.api.config.cluster) else { continue };
            let targets = servers(group.servers.iter(), &region);
            let pool = pool_name(&graph, &part, &group.id);
            graph = graph.pool(&pool, group.settings.set(ID, &group.id), Some(targets));
        }
        Ok(Some(ObservedLoadBalancer { graph: Some(graph), ..left(name, first) }))
    }

    /// Reads the load balancers of one kind that a Service may have: by tag, by name, and those of the user.
    async fn candidates(&self, is_network: bool, identity: &Identity<'_>) -> Result<Vec<Found>> {
        let (name, share) = (default_name(identity), Share::of(identity));
        let (name_key, names) = match is_network {
            true => ("LoadBalancerNames", json!([name])),
            false => ("LoadBalancerName", json!(name)),
        };
        let requested = identity.requested_id.as_deref().filter(|id| is_network_id(id) == is_network);
        let by_id = async {
            match requested {
                Some(id) => self.some_by_id(is_network, &[id]).await,
                None => Ok(Vec::new()),
            }
        };
        let (tagged, named, shared, requested) = try_join!(
            self.balancers(is_network, "Tag", json!([{"Key": NAME_TAG, "Value": name}])),
            self.balancers(is_network, name_key, names),
            self.balancers(is_network, "Tag", json!([{"Key": share.tag()}])),
            by_id,
        )?;
        let mut found: Vec<Found> = Vec::new();
        let mut add = |it: Value, share: Option<&Share>, groups: &[String]| {
            if !found.iter().any(|known| id_of(&known.it) == id_of(&it)) {
                found.push(Found { it, share: share.cloned(), groups: groups.into() });
            }
        };
        for it in tagged.complete()?.into_items().into_iter().chain(named.complete()?.into_items()) {
            add(it, None, &[]);
        }
        let groups: Vec<_> = key::groups_of(identity.service).into_values().collect();
        for it in requested {
            let is_created = [NAME_TAG, CLUSTER_TAG].iter().any(|key| tags(&it).contains_key(*key));
            match (is_created, identity.is_leaving()) {
                (false, _) => add(it, Some(&share), &groups),
                (true, true) => {}
                (true, false) => {
                    return Err(Error::invalid(format!(
                        "annotation {}: load balancer {} was created by Kubernetes (tag {NAME_TAG} or {CLUSTER_TAG}); \
                         name one that you created",
                        key::ID.key(),
                        id_of(&it)
                    )));
                }
            }
        }
        for it in shared.complete()?.into_items() {
            add(it, Some(&share), &groups);
        }
        Ok(found)
    }

    /// Reads what a Service has: of both kinds if it can change the kind, and what is left of an NLB.
    pub(super) async fn of_service(&self, identity: &Identity<'_>) -> Result<Vec<ObservedLoadBalancer>> {
        let is_network = is_network(identity.kind);
        let of = async |is_meant: bool, is_network: bool| match is_meant {
            true => self.candidates(is_network, identity).await,
            false => Ok(Vec::new()),
        };
        // The class of a Service, which decides about the kind without this feature, does not change.
        let moves = self.api.config.has_type_annotation;
        let (classic, network) = try_join!(of(moves || !is_network, false), of(moves || is_network, true))?;
        let left = async {
            // The server groups of a share are read with it.
            let is_meant = network.is_empty() && (is_network || moves && identity.is_leaving());
            if is_meant { self.left_of(&default_name(identity), true).await } else { Ok(None) }
        };
        let (classic, network, left) = try_join!(self.whole_classic(&classic), self.whole_network(&network), left)?;
        Ok(classic.into_iter().chain(network).chain(left).collect())
    }

    /// Reads load balancers of one kind by their IDs.
    async fn some_by_id(&self, is_network: bool, ids: &[&str]) -> Result<Vec<Value>> {
        let [size, other] = AT_ONCE;
        let read = async |ids: &[&str]| {
            let (key, value) = match is_network {
                true => ("LoadBalancerIds", json!(ids)),
                false => ("LoadBalancerId", json!(ids.join(","))),
            };
            self.balancers(is_network, key, value).await?.complete().map(|it| it.into_items())
        };
        let chunks = ids.chunks(if is_network { other } else { size });
        try_join_all(chunks.map(read)).await.map(|all| all.concat())
    }

    /// Reads load balancers by their IDs, or what is left of them.
    pub(super) async fn by_ids(&self, ids: &[String], is_whole: bool) -> Result<Vec<ObservedLoadBalancer>> {
        let of = async |is_network: bool| {
            let meant = ids.iter().filter(|id| !id.starts_with(LEFT)).map(|id| Share::read(id));
            let meant: Vec<_> = meant.filter(|(id, _)| is_network_id(id) == is_network).collect();
            let unique: BTreeSet<_> = meant.iter().map(|(id, _)| *id).collect();
            let read = self.some_by_id(is_network, &unique.into_iter().collect::<Vec<_>>()).await?;
            let found = meant.into_iter().filter_map(|(id, share)| {
                let it = read.iter().find(|it| id_of(it) == id)?.clone();
                Some(Found { it, share, groups: Vec::new() })
            });
            let found: Vec<_> = found.collect();
            match (is_whole, is_network) {
                (false, _) => Ok(found.iter().map(|it| it.head(is_network)).collect()),
                (true, false) => self.whole_classic(&found).await,
                (true, true) => self.whole_network(&found).await,
            }
        };
        let left =
            try_join_all(ids.iter().filter_map(|id| id.strip_prefix(LEFT)).map(|name| self.left_of(name, false)));
        let (classic, network, left) = try_join!(of(false), of(true), left)?;
        Ok(classic.into_iter().chain(network).chain(left.into_iter().flatten()).collect())
    }

    /// Reads all load balancers of the cluster without their resources, and what is left of others. Shares in load
    /// balancers of the user are read for their Services.
    pub(super) async fn all(&self) -> Result<ListResult<ObservedLoadBalancer>> {
        let cluster = &self.api.config.cluster;
        let tag = json!([{"Key": CLUSTER_TAG, "Value": cluster}]);
        // Read first: a server group is created after its load balancer.
        let groups = self.groups(CLUSTER_TAG, cluster).await?;
        let (classic, network) =
            try_join!(self.balancers(false, "Tag", tag.clone()), self.balancers(true, "Tag", tag))?;
        let (mut all, mut reason) = (Vec::new(), None);
        for (is_network, list) in [(false, classic), (true, network)] {
            if let ListResult::Partial { reason: it, .. } = &list {
                reason = Some(it.clone());
            }
            let head = |it: &Value| Found { it: it.clone(), share: None, groups: Vec::new() }.head(is_network);
            all.extend(list.items().iter().map(head));
        }
        // A partial list does not prove that an NLB is gone.
        let is_left = |it: &&Value| reason.is_none() && tags(it).contains_key(OwnerTags::SERVICE);
        for group in groups.iter().filter(is_left) {
            let name = tags(group).remove(NAME_TAG).unwrap_or_default();
            let is_known = |it: &ObservedLoadBalancer| it.kind == NETWORK && it.legacy_owner.as_ref() == Some(&name);
            if !all.iter().any(is_known) {
                all.push(left(&name, group));
            }
        }
        Ok(match reason {
            Some(reason) => ListResult::Partial { items: all, pages: 1, reason },
            None => ListResult::of(all),
        })
    }
}

/// Returns the head of what is left of an NLB, with the owner tags of one of its server groups.
fn left(name: &str, group: &Value) -> ObservedLoadBalancer {
    let mut tags = tags(group);
    ObservedLoadBalancer {
        id: format!("{LEFT}{name}"),
        name: name.to_owned(),
        legacy_owner: tags.get(NAME_TAG).cloned(),
        owner_tags: OwnerTags::take_from(&mut tags),
        kind: NETWORK,
        ..ObservedLoadBalancer::default()
    }
}

/// Returns `true` if a server group can be that of the share, or of no share. The Go program's tags do not tell.
fn is_group_of(group: &Value, share: Option<&Share>) -> bool {
    let tags = tags(group);
    let is_shared = tags.keys().any(|key| key.starts_with(SHARE_TAG));
    match share {
        None => !is_shared,
        Some(share) => tags.contains_key(&share.tag()) || !is_shared && !tags.contains_key(OwnerTags::SERVICE),
    }
}

fn is_network_id(id: &str) -> bool {
    id.starts_with("nlb-")
}

fn owner(part: &Part<'_>) -> String {
    format!("{}/{}", part.namespace, part.service)
}

fn default_name(identity: &Identity<'_>) -> String {
    identity.legacy_owner.clone().unwrap_or_else(|| identity.name.clone())
}
