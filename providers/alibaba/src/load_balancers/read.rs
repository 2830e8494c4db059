//! Load balancers of both kinds, and what is left of one, as they are read.

use std::collections::{BTreeMap, BTreeSet};

use cloud_provider::names::FINALIZER_LOAD_BALANCER;
use cloud_provider::{CompleteListing, Error, Result, Service};
use futures::future::try_join_all;
use futures::try_join;
use provider_kit::load_balancers::{
    Attributes, Identity, ObservedLoadBalancer, OwnerTags, ResourceGraph, ResourceKey, State,
    check_adoptable_tag, tag_text,
};
use provider_kit::paging::ListResult;
use provider_kit::source_ranges::{allows_all, configured_source_ranges};
use provider_kit::status::shown;
use serde_json::{Value, json};

use super::names::{CLUSTER_TAG, NAME_TAG, NETWORK, Part, SHARE_TAG, Share, is_network, kind};
use super::search::{self, Wanted, balancers};
use super::source_ranges::group_key;
use super::whole::{pool_name, servers};
use super::{AlibabaLoadBalancers, ID};
use crate::annotations as key;
use crate::api::{NLB, Query};
use crate::services::has_finalizer;

/// Prefix of the ID of what is left of an NLB; its name follows.
pub(super) const LEFT: &str = "left of ";
/// The label with the ID of the security group, which the Go program writes to Services.
const SECURITY_GROUP_LABEL: &str = "service.k8s.alibaba/security-group-id";
/// CLBs of one request for listeners, or by ID, and NLBs by ID.
pub(super) const AT_ONCE: [usize; 2] = [10, 20];

pub(super) type Tags = BTreeMap<String, String>;

pub(super) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// Returns the ID of a created resource.
///
/// # Errors
/// *Other* without one: requests with an empty ID would follow. The next sync finds the resource by its tags or name.
pub(super) fn created_id(answer: &Value, key: &str) -> Result<String> {
    match text(answer, key) {
        "" => Err(Error::other(format!(
            "the cloud accepted the creation, and answered no {key}"
        ))),
        id => Ok(id.to_owned()),
    }
}

pub(super) fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value[key].as_array().into_iter().flatten()
}

/// Returns a port that is written as a number or as a text.
pub(super) fn port(value: &Value) -> u16 {
    let number = value.as_u64().or_else(|| value.as_str()?.parse().ok());
    number
        .and_then(|port| u16::try_from(port).ok())
        .unwrap_or_default()
}

/// Returns the first and the last port of an NLB's listener.
pub(super) fn span(listener: &Value) -> [u16; 2] {
    match port(&listener["ListenerPort"]) {
        0 => ["StartPort", "EndPort"].map(|key| port(&listener[key])),
        number => [number; 2],
    }
}

/// Returns the tags of an object; the APIs write their fields differently.
pub(super) fn tags(object: &Value) -> Tags {
    let all = if object["Tags"].is_array() {
        &object["Tags"]
    } else {
        &object["Tags"]["Tag"]
    };
    let either = |tag: &Value, keys: [&str; 2]| {
        keys.iter()
            .find_map(|key| tag[*key].as_str().map(str::to_owned))
    };
    let pair = |tag: &Value| {
        Some((
            either(tag, ["Key", "TagKey"])?,
            either(tag, ["Value", "TagValue"]).unwrap_or_default(),
        ))
    };
    all.as_array()
        .into_iter()
        .flatten()
        .filter_map(pair)
        .collect()
}

pub(super) fn id_of(object: &Value) -> String {
    text(object, "LoadBalancerId").to_owned()
}

/// A load balancer that was found; of one of the user, the share of a Service.
pub(super) struct Found {
    pub(super) object: Value,
    pub(super) share: Option<Share>,
    /// Server groups of the user that the Service names.
    pub(super) groups: Vec<String>,
}

impl Found {
    /// Returns the load balancer without its resources.
    pub(super) fn head(&self, is_network: bool) -> ObservedLoadBalancer {
        let object = &self.object;
        let mut tags = tags(&self.object);
        let ingress = match is_network {
            false => Some(text(object, "Address"))
                .filter(|ip| !ip.is_empty())
                .map(ObservedLoadBalancer::ip),
            true => Some(text(object, "DNSName"))
                .filter(|name| !name.is_empty())
                .map(ObservedLoadBalancer::host),
        };
        let state = match text(object, "LoadBalancerStatus") {
            "Provisioning" | "Configuring" => State::Busy,
            status @ "CreateFailed" => State::Failed(status.to_owned()),
            _ => State::Ready,
        };
        let head = ObservedLoadBalancer {
            id: id_of(object),
            name: text(object, "LoadBalancerName").to_owned(),
            legacy_owner: tags.get(NAME_TAG).cloned(),
            kind: kind(is_network, self.share.is_some()),
            ingress: ingress.into_iter().collect(),
            created: text(object, "CreateTime").parse().ok(),
            state,
            ..ObservedLoadBalancer::default()
        };
        match &self.share {
            None => ObservedLoadBalancer {
                owner_tags: OwnerTags::take_from(&mut tags),
                ..head
            },
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
    pub(super) fn default_name(&self) -> String {
        let named = || {
            tags(&self.object)
                .remove(NAME_TAG)
                .unwrap_or_else(|| text(&self.object, "LoadBalancerName").to_owned())
        };
        self.share.as_ref().map_or_else(named, Share::default_name)
    }
}

impl AlibabaLoadBalancers {
    pub(super) async fn all_of(
        &self,
        query: Query,
        place: &str,
        key: &'static str,
    ) -> Result<Vec<Value>> {
        search::all_of(&self.api, query, place, key).await
    }

    /// Reads the server groups of NLBs of the cluster with this tag, those of shares among them.
    pub(super) async fn groups(&self, key: &str, value: &str) -> Result<Vec<Value>> {
        let query =
            Query::new(NLB, "ListServerGroups").set("Tag", json!([{"Key": key, "Value": value}]));
        let found = self.all_of(query, "/ServerGroups", "ServerGroupId").await?;
        let cluster = &self.api.config.cluster;
        Ok(found
            .into_iter()
            .filter(|object| Part::of(NETWORK, text(object, "ServerGroupName"), cluster).is_some())
            .collect())
    }

    /// Returns what is left of the NLB of this name, or of a share too if its load balancer is gone.
    /// `has_ranges`: a security group for source ranges may be left, too.
    async fn left_of(
        &self,
        name: &str,
        has_shares: bool,
        has_ranges: bool,
    ) -> Result<Option<ObservedLoadBalancer>> {
        let mut groups = self.groups(NAME_TAG, name).await?;
        groups.retain(|group| has_shares || is_group_of(group, None));
        let ranges = if has_ranges {
            self.ranges_group(name).await?
        } else {
            None
        };
        let Some(first) = groups
            .first()
            .or(ranges.as_ref().map(|ranges_group| &ranges_group.object))
        else {
            return Ok(None);
        };
        let mut graph = ResourceGraph::default();
        let region = self.api.metadata.region().await?;
        for group in self.with_servers(&groups).await? {
            let Some(part) = Part::of(NETWORK, &group.name, &self.api.config.cluster) else {
                continue;
            };
            let targets = servers(group.servers.iter(), &region);
            let pool = pool_name(&graph, &part, &group.id);
            graph = graph.pool(&pool, group.settings.set(ID, &group.id), Some(targets));
        }
        if let Some(group) = &ranges {
            graph = graph.resource(group_key(), Attributes::default().set(ID, &group.id));
        }
        Ok(Some(ObservedLoadBalancer {
            graph: Some(graph),
            ..left(name, first)
        }))
    }

    /// Reads the load balancers of one kind that a Service may have: by tag, by name, and those of the user.
    async fn candidates(&self, is_network: bool, identity: &Identity<'_>) -> Result<Vec<Found>> {
        let share = Share::of(identity);
        let wanted = Wanted {
            name: default_name(identity),
            share_tag: share.tag(),
            is_new: is_new(identity.service),
            is_other_kind: self::is_network(identity.kind) != is_network,
        };
        let requested = identity
            .requested_id
            .as_deref()
            .filter(|id| is_network_id(id) == is_network);
        let by_id = async {
            match requested {
                Some(id) => self.some_by_id(is_network, &[id]).await,
                None => Ok(Vec::new()),
            }
        };
        let (searched, requested) =
            try_join!(self.searches.find(is_network, wanted.clone()), by_id)?;
        let (own_objects, shared): (Vec<_>, Vec<_>) = searched
            .into_iter()
            .partition(|object| wanted.is_own(object));
        let mut found: Vec<Found> = Vec::new();
        let mut add = |object: Value, share: Option<&Share>, groups: &[String]| {
            if !found
                .iter()
                .any(|known| id_of(&known.object) == id_of(&object))
            {
                found.push(Found {
                    object,
                    share: share.cloned(),
                    groups: groups.into(),
                });
            }
        };
        for other_object in own_objects {
            add(other_object, None, &[]);
        }
        let groups: Vec<_> = key::groups_of(identity.service).into_values().collect();
        for current in requested {
            let is_created = [NAME_TAG, CLUSTER_TAG]
                .iter()
                .any(|key| tags(&current).contains_key(*key));
            match (is_created, identity.is_leaving()) {
                (false, is_leaving) => {
                    let is_used = shared.iter().any(|known| id_of(known) == id_of(&current));
                    if !is_leaving && !is_used {
                        self.check_tag(&current)?;
                    }
                    add(current, Some(&share), &groups);
                }
                (true, true) => {}
                (true, false) => {
                    return Err(Error::invalid(format!(
                        "annotation {}: load balancer {} was created by Kubernetes (tag {NAME_TAG} or {CLUSTER_TAG}); \
                         name one that you created",
                        key::ID.key(),
                        id_of(&current)
                    )));
                }
            }
        }
        for entry in shared {
            add(entry, Some(&share), &groups);
        }
        Ok(found)
    }

    /// Refuses a load balancer of a user without the tag that an administrator requires.
    fn check_tag(&self, object: &Value) -> Result<()> {
        let tags = tags(object);
        let place = format!(
            "load balancer {} of annotation {}",
            id_of(object),
            key::ID.key()
        );
        let tags = tags.iter().map(|(key, value)| tag_text(key, value));
        check_adoptable_tag(&place, self.api.config.adoptable_tag.as_ref(), tags)
    }

    /// Reads what a Service has: of both kinds if it can have changed the kind, and what is left of an NLB.
    pub(super) async fn of_service(
        &self,
        identity: &Identity<'_>,
    ) -> Result<Vec<ObservedLoadBalancer>> {
        let is_network = is_network(identity.kind);
        let of = async |is_meant: bool, is_network: bool| match is_meant {
            true => self.candidates(is_network, identity).await,
            false => Ok(Vec::new()),
        };
        // The class of a Service, which decides about the kind without this feature, does not change.
        let is_new = is_new(identity.service);
        let moves = self.api.config.has_type_annotation && !is_new;
        let (classic, network) = try_join!(
            of(moves || !is_network, false),
            of(moves || is_network, true)
        )?;
        let left = async {
            // The server groups of a share are read with it.
            let is_meant =
                network.is_empty() && !is_new && (is_network || moves && identity.is_leaving());
            let has_ranges = identity.is_leaving() && has_source_ranges(identity.service);
            if is_meant {
                self.left_of(&default_name(identity), true, has_ranges)
                    .await
            } else {
                Ok(None)
            }
        };
        let (classic, network, left) = try_join!(
            self.whole_classic(&classic),
            self.whole_network(&network),
            left
        )?;
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
            balancers(&self.api, is_network, Some((key, value)))
                .await?
                .complete()
                .map(CompleteListing::into_items)
        };
        let chunks = ids.chunks(if is_network { other } else { size });
        try_join_all(chunks.map(read)).await.map(|all| all.concat())
    }

    /// Reads load balancers by their IDs, or what is left of them.
    pub(super) async fn by_ids(
        &self,
        ids: &[String],
        is_whole: bool,
    ) -> Result<Vec<ObservedLoadBalancer>> {
        let of = async |is_network: bool| {
            let meant = ids
                .iter()
                .filter(|id| !id.starts_with(LEFT))
                .map(|id| Share::read(id));
            let meant: Vec<_> = meant
                .filter(|(id, _)| is_network_id(id) == is_network)
                .collect();
            let unique: BTreeSet<_> = meant.iter().map(|(id, _)| *id).collect();
            let read = self
                .some_by_id(is_network, &unique.into_iter().collect::<Vec<_>>())
                .await?;
            let found = meant.into_iter().filter_map(|(id, share)| {
                let current = read.iter().find(|object| id_of(object) == id)?.clone();
                Some(Found {
                    object: current,
                    share,
                    groups: Vec::new(),
                })
            });
            let found: Vec<_> = found.collect();
            match (is_whole, is_network) {
                (false, _) => Ok(found.iter().map(|entry| entry.head(is_network)).collect()),
                (true, false) => self.whole_classic(&found).await,
                (true, true) => self.whole_network(&found).await,
            }
        };
        let left = try_join_all(
            ids.iter()
                .filter_map(|id| id.strip_prefix(LEFT))
                .map(|name| self.left_of(name, false, true)),
        );
        let (classic, network, left) = try_join!(of(false), of(true), left)?;
        Ok(classic
            .into_iter()
            .chain(network)
            .chain(left.into_iter().flatten())
            .collect())
    }

    /// Reads all load balancers of the cluster without their resources, and what is left of others. Shares in load
    /// balancers of the user are read for their Services.
    pub(super) async fn all(&self) -> Result<ListResult<ObservedLoadBalancer>> {
        let cluster = &self.api.config.cluster;
        let tag = || Some(("Tag", json!([{"Key": CLUSTER_TAG, "Value": cluster}])));
        // Read first: a server group is created after its load balancer.
        let groups = self.groups(CLUSTER_TAG, cluster).await?;
        let (classic, network) = try_join!(
            balancers(&self.api, false, tag()),
            balancers(&self.api, true, tag())
        )?;
        let mut all = Vec::new();
        let mut reason = None;
        for (is_network, list) in [(false, classic), (true, network)] {
            if let ListResult::Partial { reason: it, .. } = &list {
                reason = Some(it.clone());
            }
            let head = |object: &Value| {
                Found {
                    object: object.clone(),
                    share: None,
                    groups: Vec::new(),
                }
                .head(is_network)
            };
            all.extend(list.items().iter().map(head));
        }
        // A partial list does not prove that an NLB is gone.
        let is_left =
            |object: &&Value| reason.is_none() && tags(object).contains_key(OwnerTags::SERVICE);
        for group in groups.iter().filter(is_left) {
            let name = tags(group).remove(NAME_TAG).unwrap_or_default();
            let is_known = |load_balancer: &ObservedLoadBalancer| {
                load_balancer.kind == NETWORK && load_balancer.legacy_owner.as_ref() == Some(&name)
            };
            if !all.iter().any(is_known) {
                all.push(left(&name, group));
            }
        }
        Ok(match reason {
            Some(reason) => ListResult::Partial {
                items: all,
                pages: 1,
                reason,
            },
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
pub(super) fn is_group_of(group: &Value, share: Option<&Share>) -> bool {
    let tags = tags(group);
    let is_shared = tags.keys().any(|key| key.starts_with(SHARE_TAG));
    match share {
        None => !is_shared,
        Some(share) => {
            tags.contains_key(&share.tag()) || !is_shared && !tags.contains_key(OwnerTags::SERVICE)
        }
    }
}

pub(super) fn is_network_id(id: &str) -> bool {
    id.starts_with("nlb-")
}

/// Returns `true` for a Service that never had a load balancer of either kind: this program and the Go program write
/// their finalizers first.
fn is_new(service: &Service) -> bool {
    let has_one = service
        .metadata
        .finalizers
        .iter()
        .flatten()
        .any(|finalizer| finalizer == FINALIZER_LOAD_BALANCER);
    shown(service).is_empty() && !has_one && !has_finalizer(service)
}

/// Returns `true` for a Service whose NLB has a security group for source ranges.
fn has_source_ranges(service: &Service) -> bool {
    let labels = service.metadata.labels.as_ref();
    configured_source_ranges(service).is_ok_and(|ranges| !ranges.is_empty() && !allows_all(&ranges))
        || labels.is_some_and(|labels| labels.contains_key(SECURITY_GROUP_LABEL))
}

fn default_name(identity: &Identity<'_>) -> String {
    identity
        .legacy_owner
        .clone()
        .unwrap_or_else(|| identity.name.clone())
}
