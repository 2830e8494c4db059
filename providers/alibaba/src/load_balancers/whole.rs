//! Load balancers with their listeners, server groups and backends.

use std::collections::{BTreeMap, BTreeSet};

use cloud_provider::{CompleteListing, Result};
use futures::future::try_join_all;
use futures::try_join;
use provider_kit::inventory::SharedPriority;
use provider_kit::load_balancers::{
    Attributes, ObservedLoadBalancer, Port, ResourceGraph, ResourceKey, Targets,
};
use serde_json::{Value, json};

use super::certificates::{ADDITIONAL, DOMAINS};
use super::model::{
    ClassicBalancer, ClassicListener, NetworkBalancer, NetworkGroup, NetworkListener,
};
use super::names::{CLASSIC, CLUSTER_TAG, NAME_TAG, NETWORK, Part, Share, is_of_kubernetes, kind};
use super::read::{
    AT_ONCE, Found, id_of, is_group_of, is_network_id, list, port, span, tags, text,
};
use super::settings_shown::{classic_balancer, classic_listener, fields, network_balancer};
use super::source_ranges::{ATTACHED, GROUP, RANGES, UNKNOWN, is_dual_stack};
use super::{AlibabaLoadBalancers, ID, OF_USERS, OWNER};
use crate::api::{NLB, Query, SLB};

/// A server group with its backends.
pub(super) struct Group {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) settings: Attributes,
    pub(super) servers: Vec<Value>,
}

/// A server group that a user names, with the backends of a Service in it.
pub(super) struct UserGroup {
    pub(super) name: String,
    /// IDs of the load balancers that have the group. A group of NLBs may have none.
    pub(super) balancers: Vec<String>,
    pub(super) targets: Targets,
}

/// A listener with the settings that requests have.
struct Listener<'a> {
    object: &'a Value,
    description: &'a str,
    settings: Attributes,
}

impl<'a> Listener<'a> {
    /// Returns the ID of the server group.
    fn group(&self) -> Option<&'a str> {
        ["VServerGroupId", "ServerGroupId"]
            .into_iter()
            .find_map(|key| self.object[key].as_str())
    }
}

fn texts(value: &Value) -> Vec<String> {
    value
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

/// Returns the name of the pool of a server group. A second group of the same name, which a lost answer to a creation
/// leaves, gets another one, so that it is deleted.
pub(super) fn pool_name(graph: &ResourceGraph, part: &Part<'_>, id: &str) -> String {
    let is_second = graph
        .resources
        .contains_key(&ResourceKey::Pool(part.port.to_owned()));
    if is_second {
        format!("{} {id}", part.port)
    } else {
        part.port.to_owned()
    }
}

pub(super) fn servers<'a>(all: impl Iterator<Item = &'a Value>, region: &str) -> Targets {
    let server = |object: &Value| {
        let weight = object["Weight"].as_u64().unwrap_or_default();
        let kind = object["ServerType"]
            .as_str()
            .or(object["Type"].as_str())
            .unwrap_or("ecs");
        let id = text(object, "ServerId");
        let ip = text(object, "ServerIp");
        let id = match kind {
            "eni" | "Eni" => format!("{id}/{ip}"),
            "Ip" => id.to_owned(),
            _ => format!("{region}.{id}"),
        };
        format!("{weight} {kind} {} {id}", port(&object["Port"]))
    };
    all.filter(|entry| text(entry, "Status") != "Removing")
        .map(server)
        .collect()
}

/// Returns `true` if a backend in a server group of a Service was added for the Service. Old versions of the Go program
/// wrote no description; their backends have the port that the name of the server group contains.
fn has_sign_of(server: &Value, group: &Part<'_>, kind: &str, cluster: &str) -> bool {
    match text(server, "Description") {
        "" => group.port.split('.').next() == Some(&*port(&server["Port"]).to_string()),
        description => Part::of(kind, description, cluster)
            .is_some_and(|part| (part.namespace, part.service) == (group.namespace, group.service)),
    }
}

impl AlibabaLoadBalancers {
    /// Returns `true` if a part belongs to a Service of the cluster.
    fn is_of_cluster(&self, kind: &str, name: &str) -> bool {
        Part::of(kind, name, &self.api.config.cluster).is_some()
    }

    /// Returns a listener of a CLB, with the further certificates of one of the cluster.
    async fn classic_listener<'a>(&self, entry: &'a Value) -> Result<Listener<'a>> {
        let mut all = classic_listener(entry);
        let description = text(entry, "Description");
        if all["Protocol"] == "https"
            && self.is_of_cluster(CLASSIC, description)
            && let Some(all) = all.as_object_mut()
        {
            all.insert(DOMAINS.to_owned(), self.domains_of(entry).await?);
        }
        Ok(Listener {
            object: entry,
            description,
            settings: Attributes::observed(&ClassicListener(all))?,
        })
    }

    /// Returns a listener of an NLB, with the further certificates of one of the cluster.
    async fn network_listener<'a>(&self, entry: &'a Value) -> Result<Listener<'a>> {
        let mut all = fields(entry);
        let description = text(entry, "ListenerDescription");
        let [first, last] = span(entry);
        let port = |port| {
            if first == last {
                Value::Null
            } else {
                json!(port)
            }
        };
        all.extend([
            ("StartPort".to_owned(), port(first)),
            ("EndPort".to_owned(), port(last)),
        ]);
        if entry["ListenerProtocol"] == "TCPSSL" && self.is_of_cluster(NETWORK, description) {
            all.insert(ADDITIONAL.to_owned(), self.additional_of(entry).await?);
        }
        let settings =
            Attributes::observed(&NetworkListener(all.into()))?.set(ID, text(entry, "ListenerId"));
        Ok(Listener {
            object: entry,
            description,
            settings,
        })
    }

    pub(super) async fn whole_classic(&self, found: &[Found]) -> Result<Vec<ObservedLoadBalancer>> {
        let ids: BTreeSet<_> = found.iter().map(|found| id_of(&found.object)).collect();
        let ids: Vec<_> = ids.into_iter().collect();
        let listeners = try_join_all(ids.chunks(AT_ONCE[0]).map(async |ids| {
            let query = Query::new(SLB, "DescribeLoadBalancerListeners").set("LoadBalancerId", ids);
            let key = |object: &Value| {
                [
                    id_of(object),
                    object["ListenerPort"].to_string(),
                    text(object, "ListenerProtocol").to_owned(),
                ]
            };
            let found = self
                .api
                .tokens(
                    query,
                    ("MaxResults", 100),
                    "/Listeners",
                    &SharedPriority::default(),
                    key,
                )
                .await;
            found?.complete().map(CompleteListing::into_items)
        }));
        let (listeners, groups) = try_join!(
            listeners,
            try_join_all(found.iter().map(|entry| self.classic_groups(entry)))
        )?;
        let listeners = listeners.concat();
        let region = self.api.metadata.region().await?;
        let whole = async |(found, groups): (&Found, Vec<Group>)| {
            let settings = Attributes::observed(&ClassicBalancer(classic_balancer(&found.object)))?;
            let own_listeners = listeners
                .iter()
                .filter(|listener| id_of(listener) == id_of(&found.object))
                .map(|listener| self.classic_listener(listener));
            Ok(self.assembled(
                &region,
                found,
                settings,
                try_join_all(own_listeners).await?,
                groups,
            ))
        };
        try_join_all(found.iter().zip(groups).map(whole)).await
    }

    /// Reads server groups of a CLB with their backends: those of the cluster, and those in which a share may be.
    async fn classic_groups(&self, found: &Found) -> Result<Vec<Group>> {
        let query =
            Query::new(SLB, "DescribeVServerGroups").set("LoadBalancerId", id_of(&found.object));
        let answer: Value = self.api.read(query).await?;
        let all = list(&answer["VServerGroups"], "VServerGroup");
        let meant = all.filter(|object| {
            found.share.is_some() || self.is_of_cluster(CLASSIC, text(object, "VServerGroupName"))
        });
        let whole = async |object: &Value| {
            let id = text(object, "VServerGroupId").to_owned();
            let name = text(object, "VServerGroupName").to_owned();
            let query = Query::new(SLB, "DescribeVServerGroupAttribute").set("VServerGroupId", &id);
            let whole: Value = self.api.read(query).await?;
            let servers = list(&whole["BackendServers"], "BackendServer")
                .cloned()
                .collect();
            Ok(Group {
                id,
                name,
                settings: Attributes::default(),
                servers,
            })
        };
        try_join_all(meant.map(whole)).await
    }

    pub(super) async fn whole_network(&self, found: &[Found]) -> Result<Vec<ObservedLoadBalancer>> {
        if found.is_empty() {
            return Ok(Vec::new());
        }
        let ids: BTreeSet<_> = found.iter().map(|found| id_of(&found.object)).collect();
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
        let listeners = listeners.concat();
        let region = self.api.metadata.region().await?;
        let whole = async |found: &Found| {
            let name = found.default_name();
            let share = found.share.as_ref();
            let is_own = |object: &&Value| {
                tags(object).get(NAME_TAG) == Some(&name) && is_group_of(object, share)
            };
            let mut own_groups: Vec<_> = groups.iter().filter(is_own).cloned().collect();
            let listeners: Vec<_> = listeners
                .iter()
                .filter(|listener| id_of(listener) == id_of(&found.object))
                .collect();
            if share.is_some() {
                own_groups.extend(self.groups_of_user(found, &listeners).await?);
            }
            let settings = self.network_settings(found, &name).await?;
            let listeners = try_join_all(
                listeners
                    .into_iter()
                    .map(|listener| self.network_listener(listener)),
            )
            .await?;
            Ok(self.assembled(
                &region,
                found,
                settings,
                listeners,
                self.with_servers(&own_groups).await?,
            ))
        };
        try_join_all(found.iter().map(whole)).await
    }

    /// Returns the settings of an NLB, with the source ranges that its security group admits.
    async fn network_settings(&self, found: &Found, name: &str) -> Result<Attributes> {
        let mut all = network_balancer(&found.object);
        let attached = found.object["SecurityGroupIds"].clone();
        let has_groups = attached.as_array().is_some_and(|ids| !ids.is_empty());
        let group = match has_groups && found.share.is_none() {
            true => match self.ranges_group(name).await {
                // A policy without security groups is enough for Services without source ranges.
                Err(error) if error.is_unauthorized() => {
                    return Ok(Attributes::observed(&NetworkBalancer(all.into()))?
                        .set(UNKNOWN, error.to_string()));
                }
                group => group?,
            },
            false => None,
        };
        let Some(group) = group else {
            return Attributes::observed(&NetworkBalancer(all.into()));
        };
        let is_attached = attached
            .as_array()
            .is_some_and(|ids| ids.contains(&json!(group.id)));
        if let Some(ranges) = group
            .ranges(is_dual_stack(&found.object))
            .filter(|_| is_attached)
        {
            all.insert(RANGES.to_owned(), json!(ranges));
        }
        if let Some(ids) = all
            .get_mut("SecurityGroupIds")
            .and_then(Value::as_array_mut)
        {
            ids.retain(|id| *id != *group.id);
        }
        Ok(Attributes::observed(&NetworkBalancer(all.into()))?
            .set(GROUP, &group.id)
            .set(ATTACHED, attached))
    }

    /// Reads the server groups of the user that an NLB or the Service uses.
    async fn groups_of_user(&self, of: &Found, listeners: &[&Value]) -> Result<Vec<Value>> {
        let used = listeners
            .iter()
            .map(|listener| text(listener, "ServerGroupId"))
            .chain(of.groups.iter().map(String::as_str));
        let ids: BTreeSet<_> = used.filter(|id| !id.is_empty()).collect();
        let ids: Vec<_> = ids.into_iter().collect();
        let cluster = &self.api.config.cluster;
        let read = async |ids: &[&str]| {
            let query = Query::new(NLB, "ListServerGroups").set("ServerGroupIds", ids);
            self.all_of(query, "/ServerGroups", "ServerGroupId").await
        };
        let found = try_join_all(ids.chunks(AT_ONCE[1]).map(read))
            .await?
            .concat();
        let balancer = id_of(&of.object);
        // A group of another NLB is not read, so that its use is refused.
        let is_meant = |object: &Value| {
            let related = texts(&object["RelatedLoadBalancerIds"]);
            let is_of_cluster =
                Part::of(NETWORK, text(object, "ServerGroupName"), cluster).is_some();
            !is_of_cluster && (related.is_empty() || related.contains(&balancer))
        };
        Ok(found.into_iter().filter(is_meant).collect())
    }

    /// Reads the backends of server groups.
    pub(super) async fn with_servers(&self, groups: &[Value]) -> Result<Vec<Group>> {
        let whole = async |object: &Value| {
            let query = Query::new(NLB, "ListServerGroupServers")
                .set("ServerGroupId", &object["ServerGroupId"]);
            let key = |object: &Value| {
                [
                    text(object, "ServerId"),
                    text(object, "ServerIp"),
                    &object["Port"].to_string(),
                ]
                .join(" ")
            };
            let found = self
                .api
                .tokens(
                    query,
                    ("MaxResults", 100),
                    "/Servers",
                    &SharedPriority::default(),
                    key,
                )
                .await;
            let servers = found?.complete()?.into_items();
            let mut group = fields(object);
            let check = group.remove("HealthCheck").unwrap_or_default();
            group.insert("HealthCheckConfig".to_owned(), check);
            let settings = Attributes::observed(&NetworkGroup(group.into()))?;
            let id = text(object, "ServerGroupId").to_owned();
            let name = text(object, "ServerGroupName").to_owned();
            Ok(Group {
                id,
                name,
                settings,
                servers,
            })
        };
        try_join_all(groups.iter().map(whole)).await
    }

    /// Reads a server group that the user names, with the backends of a Service in it.
    pub(super) async fn group_of_user(
        &self,
        is_network: bool,
        id: &str,
        share: &Share,
    ) -> Result<Option<UserGroup>> {
        let found = match is_network {
            true => {
                let query = Query::new(NLB, "ListServerGroups").set("ServerGroupIds", [id]);
                let found = self.all_of(query, "/ServerGroups", "ServerGroupId").await?;
                let balancers = found
                    .last()
                    .map(|object| texts(&object["RelatedLoadBalancerIds"]))
                    .unwrap_or_default();
                self.with_servers(&found)
                    .await?
                    .pop()
                    .map(|group| (group.name, group.servers, balancers))
            }
            false => {
                let query =
                    Query::new(SLB, "DescribeVServerGroupAttribute").set("VServerGroupId", id);
                match self.api.read::<Value>(query).await {
                    Err(error) if error.is_not_found() => None,
                    answer => {
                        let answer = answer?;
                        let servers = list(&answer["BackendServers"], "BackendServer")
                            .cloned()
                            .collect();
                        Some((
                            text(&answer, "VServerGroupName").to_owned(),
                            servers,
                            vec![id_of(&answer)],
                        ))
                    }
                }
            }
        };
        let kind = kind(is_network, true);
        let is_own = |object: &&Value| {
            Part::of(kind, text(object, "Description"), &self.api.config.cluster)
                .is_some_and(|part| share.has(&part))
        };
        let region = self.api.metadata.region().await?;
        Ok(found.map(|(name, all, balancers)| {
            let targets = servers(all.iter().filter(is_own), &region);
            UserGroup {
                name,
                balancers,
                targets,
            }
        }))
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
        groups.sort_by_key(|group| {
            !listeners
                .iter()
                .any(|listener| listener.group() == Some(&group.id))
        });
        let mut observed = found.head(is_network_id(&id_of(&found.object)));
        let kind = observed.kind;
        let cluster = &*self.api.config.cluster;
        let share = found.share.as_ref();
        let is_own = |part: &Part<'_>| share.is_none_or(|share| share.has(part));
        let mut graph = ResourceGraph::default().balancer(settings.tagged(&tags(&found.object)));
        let mut pools = BTreeMap::new();
        for group in groups {
            let settings = group.settings.set(ID, &group.id);
            match (Part::of(kind, &group.name, cluster), share) {
                (Some(part), _) if is_own(&part) => {
                    let pool = pool_name(&graph, &part, &group.id);
                    let (own_servers, others): (Vec<_>, Vec<_>) = group
                        .servers
                        .iter()
                        .partition(|server| has_sign_of(server, &part, kind, cluster));
                    let mut settings = settings.set(OWNER, owner(&part));
                    if !others.is_empty() {
                        settings = settings.set(
                            OF_USERS,
                            servers(others.into_iter(), region)
                                .iter()
                                .collect::<Vec<_>>(),
                        );
                    }
                    graph = graph.pool(
                        &pool,
                        settings,
                        Some(servers(own_servers.into_iter(), region)),
                    );
                    pools.insert(group.id, pool);
                }
                (None, Some(share)) => {
                    let is_own = |object: &&Value| {
                        Part::of(kind, text(object, "Description"), cluster)
                            .is_some_and(|part| share.has(&part))
                    };
                    let own_targets = servers(group.servers.iter().filter(is_own), region);
                    let is_named =
                        found.groups.contains(&group.id) && !is_of_kubernetes(kind, &group.name);
                    if !own_targets.is_empty() || is_named {
                        graph = graph.pool(&group.id, settings, Some(own_targets));
                    }
                }
                _ => {}
            }
        }
        let mut foreign = BTreeMap::new();
        let mut of_users = Vec::new();
        for listener in listeners {
            let group = listener.group();
            let Listener {
                object: entry,
                description,
                settings,
            } = listener;
            let transport = if text(entry, "ListenerProtocol").eq_ignore_ascii_case("udp") {
                "UDP"
            } else {
                "TCP"
            };
            let number = span(entry)[0];
            match Part::of(kind, description, cluster) {
                Some(part) if is_own(&part) => {
                    let pool = group.map_or("", |id| pools.get(id).map_or(id, |pool| pool));
                    graph =
                        graph.listener(number, transport, pool, settings.set(OWNER, owner(&part)));
                }
                _ if share.is_some() && description.starts_with("k8s") => {
                    let port = Port {
                        number,
                        protocol: transport.into(),
                    };
                    foreign.insert(
                        ResourceKey::Listener(port),
                        format!("of another Service ({description})"),
                    );
                }
                _ if share.is_none() => of_users.push(format!("{number}/{transport}")),
                _ => {}
            }
        }
        if !of_users.is_empty()
            && let Some(settings) = graph.balancer_attributes().cloned()
        {
            graph = graph.balancer(settings.set(OF_USERS, of_users));
        }
        observed.foreign.extend(foreign);
        ObservedLoadBalancer {
            graph: Some(graph),
            ..observed
        }
    }
}

fn owner(part: &Part<'_>) -> String {
    format!("{}/{}", part.namespace, part.service)
}
