//! Load balancers of both kinds, and what is left of one, as they are read.

use std::collections::BTreeMap;

use cloud_provider::Result;
use futures::future::try_join_all;
use futures::try_join;
use provider_kit::inventory::SharedPriority;
use provider_kit::load_balancers::{
    Attributes, Identity, ObservedLoadBalancer, OwnerTags, ResourceGraph, State, Targets,
};
use provider_kit::paging::ListResult;
use serde_json::{Value, json};

use super::model::{ClassicBalancer, ClassicListener, NetworkBalancer, NetworkGroup, NetworkListener};
use super::{AlibabaLoadBalancers, CLASSIC, CLUSTER_TAG, ID, NAME_TAG, NETWORK, backend, part_of};
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

/// Returns a load balancer without its resources.
pub(super) fn head(kind: &'static str, it: &Value) -> ObservedLoadBalancer {
    let tags = tags(it);
    let ingress = match kind {
        CLASSIC => Some(text(it, "Address")).filter(|ip| !ip.is_empty()).map(ObservedLoadBalancer::ip),
        _ => Some(text(it, "DNSName")).filter(|name| !name.is_empty()).map(ObservedLoadBalancer::host),
    };
    let state = match text(it, "LoadBalancerStatus") {
        "Provisioning" | "Configuring" => State::Busy,
        status @ "CreateFailed" => State::Failed(status.to_owned()),
        _ => State::Ready,
    };
    ObservedLoadBalancer {
        id: id_of(it),
        name: text(it, "LoadBalancerName").to_owned(),
        legacy_owner: tags.get(NAME_TAG).cloned(),
        owner_tags: OwnerTags::take_from(&mut tags.clone()),
        kind,
        ingress: ingress.into_iter().collect(),
        created: text(it, "CreateTime").parse().ok(),
        state,
        ..ObservedLoadBalancer::default()
    }
}

fn servers(all: &[Value]) -> Targets {
    let server = |it: &Value| {
        let port = it["Port"].as_u64().and_then(|port| u16::try_from(port).ok()).unwrap_or_default();
        let weight = it["Weight"].as_u64().and_then(|weight| u32::try_from(weight).ok()).unwrap_or_default();
        let kind = it["ServerType"].as_str().or(it["Type"].as_str()).unwrap_or("ecs");
        backend(kind, text(it, "ServerId"), port, weight)
    };
    all.iter().filter(|it| text(it, "Status") != "Removing").map(server).collect()
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
        json!({"ZoneId": zone["ZoneId"], "VSwitchId": zone["VSwitchId"], "AllocationId": address["AllocationId"],
            "PrivateIPv4Address": address["PrivateIPv4Address"]})
    };
    all["ZoneMappings"] = list(it, "ZoneMappings").map(zone).collect();
    all
}

impl AlibabaLoadBalancers {
    /// Reads CLBs by these parameters.
    pub(super) async fn classics(&self, query: Query) -> Result<ListResult<Value>> {
        self.api.pages(query, 100, "/LoadBalancers/LoadBalancer", id_of).await
    }

    async fn tokens(&self, query: Query, place: &str, key: &'static str) -> Result<ListResult<Value>> {
        let key = move |it: &Value| text(it, key).to_owned();
        self.api.tokens(query, ("MaxResults", 100), place, &SharedPriority::default(), key).await
    }

    async fn networks(&self, query: Query) -> Result<ListResult<Value>> {
        self.tokens(query, "/LoadBalancers", "LoadBalancerId").await
    }

    /// Reads the server groups of NLBs of the cluster with this tag.
    async fn groups(&self, key: &str, value: &str) -> Result<Vec<Value>> {
        let query = Query::new(NLB, "ListServerGroups").set("Tag", json!([{"Key": key, "Value": value}]));
        let found = self.tokens(query, "/ServerGroups", "ServerGroupId").await?.complete()?.into_items();
        Ok(found.into_iter().filter(|it| self.is_ours(NETWORK, text(it, "ServerGroupName"))).collect())
    }

    async fn whole_classic(&self, found: &[Value]) -> Result<Vec<ObservedLoadBalancer>> {
        let ids: Vec<_> = found.iter().map(id_of).collect();
        let listeners = try_join_all(ids.chunks(AT_ONCE[0]).map(async |ids| {
            let query = Query::new(SLB, "DescribeLoadBalancerListeners").set("LoadBalancerId", ids);
            let key = |it: &Value| [id_of(it), it["ListenerPort"].to_string(), text(it, "ListenerProtocol").to_owned()];
            let found =
                self.api.tokens(query, ("MaxResults", 100), "/Listeners", &SharedPriority::default(), key).await;
            found?.complete().map(|it| it.into_items())
        }));
        let groups = try_join_all(ids.iter().map(|id| self.classic_groups(id)));
        let (listeners, groups) = try_join!(listeners, groups)?;
        let listeners = listeners.concat();
        found.iter().zip(groups).map(|(it, groups)| self.classic_graph(it, &listeners, groups)).collect()
    }

    /// Reads our server groups of a CLB with their backends.
    async fn classic_groups(&self, id: &str) -> Result<Vec<(String, Value)>> {
        let query = Query::new(SLB, "DescribeVServerGroups").set("LoadBalancerId", id);
        let answer: Value = self.api.read(query).await?;
        let cluster = &self.api.config.cluster;
        let all = list(&answer["VServerGroups"], "VServerGroup");
        let ours = all.filter_map(|it| {
            Some((part_of(CLASSIC, text(it, "VServerGroupName"), cluster)?, text(it, "VServerGroupId")))
        });
        let whole = async |(pool, id): (&str, &str)| {
            let query = Query::new(SLB, "DescribeVServerGroupAttribute").set("VServerGroupId", id);
            Ok((pool.to_owned(), self.api.read::<Value>(query).await?))
        };
        try_join_all(ours.map(whole)).await
    }

    fn classic_graph(
        &self,
        it: &Value,
        listeners: &[Value],
        groups: Vec<(String, Value)>,
    ) -> Result<ObservedLoadBalancer> {
        let settings = Attributes::observed(&ClassicBalancer(it.clone()))?;
        let mut graph = ResourceGraph::default().balancer(settings.tagged(&tags(it)));
        let mut pools = BTreeMap::new();
        for (pool, group) in groups {
            let backends: Vec<_> = list(&group["BackendServers"], "BackendServer").cloned().collect();
            let id = text(&group, "VServerGroupId").to_owned();
            graph = graph.pool(&pool, Attributes::default().set(ID, &id), Some(servers(&backends)));
            pools.insert(id, pool);
        }
        let own = listeners.iter().filter(|listener| id_of(listener) == id_of(it));
        for listener in own.filter(|it| self.is_ours(CLASSIC, text(it, "Description"))) {
            let settings = Attributes::observed(&ClassicListener(classic_listener(listener)))?;
            let group = text(listener, "VServerGroupId");
            let pool = pools.get(group).map_or(group, |pool| pool);
            let transport = if text(listener, "ListenerProtocol") == "udp" { "UDP" } else { "TCP" };
            graph = graph.listener(port(&listener["ListenerPort"]), transport, pool, settings);
        }
        Ok(ObservedLoadBalancer { graph: Some(graph), ..head(CLASSIC, it) })
    }

    async fn whole_network(&self, found: &[Value]) -> Result<Vec<ObservedLoadBalancer>> {
        if found.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<_> = found.iter().map(id_of).collect();
        let listeners = try_join_all(ids.chunks(AT_ONCE[1]).map(async |ids| {
            let query = Query::new(NLB, "ListListeners").set("LoadBalancerIds", ids);
            self.tokens(query, "/Listeners", "ListenerId").await?.complete().map(|it| it.into_items())
        }));
        let names: Vec<_> = found
            .iter()
            .map(|it| tags(it).remove(NAME_TAG).unwrap_or_else(|| text(it, "LoadBalancerName").to_owned()))
            .collect();
        let groups = async {
            match &names[..] {
                [name] => self.groups(NAME_TAG, name).await,
                _ => self.groups(CLUSTER_TAG, &self.api.config.cluster).await,
            }
        };
        let (listeners, groups) = try_join!(listeners, groups)?;
        let listeners = listeners.concat();
        let whole = async |(it, name): (&Value, &String)| {
            let own: Vec<_> = groups.iter().filter(|group| tags(group).get(NAME_TAG) == Some(name)).collect();
            let settings = Attributes::observed(&NetworkBalancer(network_balancer(it)))?;
            let graph = ResourceGraph::default().balancer(settings.tagged(&tags(it)));
            let (mut graph, pools) = self.with_groups(graph, &own).await?;
            for listener in listeners.iter().filter(|listener| id_of(listener) == id_of(it)) {
                if !self.is_ours(NETWORK, text(listener, "ListenerDescription")) {
                    continue;
                }
                let settings =
                    Attributes::observed(&NetworkListener(listener.clone()))?.set(ID, text(listener, "ListenerId"));
                let group = text(listener, "ServerGroupId");
                let pool = pools.get(group).map_or(group, |pool| pool);
                let transport = if text(listener, "ListenerProtocol") == "UDP" { "UDP" } else { "TCP" };
                graph = graph.listener(port(&listener["ListenerPort"]), transport, pool, settings);
            }
            Ok(ObservedLoadBalancer { graph: Some(graph), ..head(NETWORK, it) })
        };
        try_join_all(found.iter().zip(&names).map(whole)).await
    }

    /// Adds server groups with their backends to a graph, and returns the pools by the IDs of their groups.
    async fn with_groups(
        &self,
        mut graph: ResourceGraph,
        groups: &[&Value],
    ) -> Result<(ResourceGraph, BTreeMap<String, String>)> {
        let backends = try_join_all(groups.iter().map(async |it| {
            let query = Query::new(NLB, "ListServerGroupServers").set("ServerGroupId", &it["ServerGroupId"]);
            let key = |it: &Value| [text(it, "ServerId").to_owned(), it["Port"].to_string()];
            let found = self.api.tokens(query, ("MaxResults", 100), "/Servers", &SharedPriority::default(), key).await;
            found?.complete().map(|it| it.into_items())
        }));
        let mut pools = BTreeMap::new();
        for (it, backends) in groups.iter().zip(backends.await?) {
            let mut group = (*it).clone();
            group["HealthCheckConfig"] = group["HealthCheck"].take();
            let id = text(it, "ServerGroupId");
            let pool = part_of(NETWORK, text(it, "ServerGroupName"), &self.api.config.cluster).unwrap_or_default();
            let settings = Attributes::observed(&NetworkGroup(group))?.set(ID, id);
            graph = graph.pool(pool, settings, Some(servers(&backends)));
            pools.insert(id.to_owned(), pool.to_owned());
        }
        Ok((graph, pools))
    }

    /// Returns what is left of the NLB of this name.
    async fn left_of(&self, name: &str, groups: &[&Value]) -> Result<Option<ObservedLoadBalancer>> {
        let Some(first) = groups.first() else { return Ok(None) };
        let (graph, _) = self.with_groups(ResourceGraph::default(), groups).await?;
        Ok(Some(ObservedLoadBalancer { graph: Some(graph), ..left(name, first) }))
    }

    /// Reads what a Service has: by tag and by name, of both kinds, or what is left of an NLB.
    pub(super) async fn of_service(&self, identity: &Identity<'_>) -> Result<Vec<ObservedLoadBalancer>> {
        let name = default_name(identity);
        let tag = json!([{"Key": NAME_TAG, "Value": name}]);
        let classic = |key: &str, value: Value| self.classics(Query::new(SLB, "DescribeLoadBalancers").set(key, value));
        let network = |key: &str, value: Value| self.networks(Query::new(NLB, "ListLoadBalancers").set(key, value));
        let found = try_join!(
            classic("Tag", tag.clone()),
            classic("LoadBalancerName", json!(name)),
            network("Tag", tag),
            network("LoadBalancerNames", json!([name])),
        )?;
        let merged = |one: ListResult<Value>, other: ListResult<Value>| -> Result<Vec<Value>> {
            let mut all = one.complete()?.into_items();
            for it in other.complete()?.into_items() {
                if !all.iter().any(|known| id_of(known) == id_of(&it)) {
                    all.push(it);
                }
            }
            Ok(all)
        };
        let (mut classic, mut network) = (merged(found.0, found.1)?, merged(found.2, found.3)?);
        if let Some(id) = &identity.requested_id {
            let is_known = classic.iter().chain(&network).any(|it| id_of(it) == *id);
            match id.starts_with("nlb-") {
                _ if is_known => {}
                true => network.extend(
                    self.networks(Query::new(NLB, "ListLoadBalancers").set("LoadBalancerIds", [id]))
                        .await?
                        .into_items(),
                ),
                false => classic.extend(
                    self.classics(Query::new(SLB, "DescribeLoadBalancers").set("LoadBalancerId", id))
                        .await?
                        .into_items(),
                ),
            }
        }
        let (mut seen, others) = try_join!(self.whole_classic(&classic), self.whole_network(&network))?;
        seen.extend(others);
        if network.is_empty() && (identity.kind == NETWORK || identity.is_leaving()) {
            let groups = self.groups(NAME_TAG, &name).await?;
            seen.extend(self.left_of(&name, &groups.iter().collect::<Vec<_>>()).await?);
        }
        Ok(seen)
    }

    /// Reads load balancers by their IDs, or what is left of them.
    pub(super) async fn by_ids(&self, ids: &[String], is_whole: bool) -> Result<Vec<ObservedLoadBalancer>> {
        let (left, there): (Vec<_>, Vec<_>) = ids.iter().partition(|id| id.starts_with(LEFT));
        let (network, classic): (Vec<_>, Vec<_>) = there.into_iter().partition(|id| id.starts_with("nlb-"));
        let classic = try_join_all(classic.chunks(AT_ONCE[0]).map(async |ids| {
            let ids: Vec<_> = ids.iter().map(|id| id.as_str()).collect();
            let found =
                self.classics(Query::new(SLB, "DescribeLoadBalancers").set("LoadBalancerId", ids.join(","))).await;
            found?.complete().map(|it| it.into_items())
        }));
        let network = try_join_all(network.chunks(AT_ONCE[1]).map(async |ids| {
            let found = self.networks(Query::new(NLB, "ListLoadBalancers").set("LoadBalancerIds", ids)).await;
            found?.complete().map(|it| it.into_items())
        }));
        let (classic, network) = try_join!(classic, network)?;
        let (classic, network) = (classic.concat(), network.concat());
        let heads = || {
            let heads = classic.iter().map(|it| head(CLASSIC, it));
            heads.chain(network.iter().map(|it| head(NETWORK, it)))
        };
        let left = try_join_all(left.iter().filter_map(|id| id.strip_prefix(LEFT)).map(async |name| {
            let groups = self.groups(NAME_TAG, name).await?;
            self.left_of(name, &groups.iter().collect::<Vec<_>>()).await
        }));
        if !is_whole {
            return Ok(heads().chain(left.await?.into_iter().flatten()).collect());
        }
        let (classic, network, left) = try_join!(self.whole_classic(&classic), self.whole_network(&network), left)?;
        Ok(classic.into_iter().chain(network).chain(left.into_iter().flatten()).collect())
    }

    /// Reads all load balancers of the cluster without their resources, and what is left of others.
    pub(super) async fn all(&self) -> Result<ListResult<ObservedLoadBalancer>> {
        let cluster = &self.api.config.cluster;
        let tag = json!([{"Key": CLUSTER_TAG, "Value": cluster}]);
        // Read first: a server group is created after its load balancer.
        let groups = self.groups(CLUSTER_TAG, cluster).await?;
        let classic = self.classics(Query::new(SLB, "DescribeLoadBalancers").set("Tag", tag.clone()));
        let network = self.networks(Query::new(NLB, "ListLoadBalancers").set("Tag", tag));
        let (classic, network) = try_join!(classic, network)?;
        let (mut all, mut reason) = (Vec::new(), None);
        for (kind, found) in [(CLASSIC, classic), (NETWORK, network)] {
            if let ListResult::Partial { reason: it, .. } = &found {
                reason = Some(it.clone());
            }
            all.extend(found.items().iter().map(|it| head(kind, it)));
        }
        for group in &groups {
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

fn default_name(identity: &Identity<'_>) -> String {
    identity.legacy_owner.clone().unwrap_or_else(|| identity.name.clone())
}

fn port(value: &Value) -> u16 {
    value.as_u64().and_then(|port| u16::try_from(port).ok()).unwrap_or_default()
}
