//! Conversion from the objects of Octavia and Neutron to a resource graph.

use std::collections::BTreeMap;

use provider_kit::load_balancers::{
    Attributes, ObservedLoadBalancer, OwnerTags, POOL, Port, ResourceGraph, ResourceKey, State,
};
use serde::Deserialize;
use serde_json::Value;

use super::floating_ip::FloatingIp;
use super::octavia::{
    ADDITIONAL_VIPS, BALANCER_SETTINGS, ID, LISTENER_SETTINGS, MONITOR_ID, MONITOR_SETTINGS,
    Members, POOL_SETTINGS, TAGGED, TAGS, ids, state, text, texts,
};
use super::published::lead_by;
use super::security_group::ResourceList;
use super::tags::{LEGACY, Share, cut};

/// Owner in messages of an object without a tag or name of a Service.
const UNKNOWN: &str = "not made for this Service";

/// A load balancer with its listeners and pools, as they were read.
#[derive(Default)]
pub(super) struct Whole {
    pub(super) balancer: Value,
    pub(super) listeners: Vec<Value>,
    pub(super) pools: Vec<Pool>,
    /// The floating IP on the port of its VIP.
    pub(super) floating: Option<FloatingIp>,
}

/// A pool with its health monitor and its members.
#[derive(Deserialize)]
pub(super) struct Pool {
    #[serde(default)]
    pub(super) members: Members,
    #[serde(flatten)]
    pub(super) object: Value,
}

impl From<Value> for Pool {
    fn from(object: Value) -> Self {
        Self {
            members: Members::default(),
            object,
        }
    }
}

/// Converts a view of a load balancer without its listeners and pools.
pub(super) fn cheap(view: Share, balancer: &Value) -> Option<ObservedLoadBalancer> {
    let state = state(balancer)?;
    let more = balancer
        .get(ADDITIONAL_VIPS)
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let addresses = std::iter::once(text(balancer, "vip_address"))
        .chain(more.map(|vip| text(vip, "ip_address")));
    let ingress = addresses
        .filter(|address| !address.is_empty())
        .map(ObservedLoadBalancer::ip)
        .collect();
    let Share {
        id,
        name,
        legacy_owner_tag: legacy_owner,
        owner_tags,
        ..
    } = view;
    let cloud = (
        text(balancer, "name").to_owned(),
        text(balancer, ID).to_owned(),
    );
    let cloud_name_and_id = (cloud.0 != name || cloud.1 != id).then_some(cloud);
    // Octavia's times are in UTC, without a zone.
    let created = format!("{}Z", text(balancer, "created_at").trim_end_matches('Z'))
        .parse()
        .ok();
    Some(ObservedLoadBalancer {
        id,
        name,
        cloud_name_and_id,
        owner_tags,
        legacy_owner,
        labels: texts(balancer, TAGS)
            .map(|tag| (tag.to_owned(), String::new()))
            .collect(),
        state,
        ingress,
        created,
        ..ObservedLoadBalancer::default()
    })
}

impl Whole {
    /// Converts a view of it. `group`: the Service's security group.
    pub(super) fn seen(&self, view: Share, group: ResourceList) -> Option<ObservedLoadBalancer> {
        let graph =
            ResourceGraph::default().balancer(Attributes::at(&BALANCER_SETTINGS, &self.balancer));
        let mut seen = Seen {
            whole: self,
            view: &view,
            graph,
            foreign: BTreeMap::new(),
        };
        seen.users();
        self.listeners
            .iter()
            .for_each(|listener| seen.listener(listener));
        self.unused_pools().for_each(|pool| seen.unused_pool(pool));
        for (resource, attributes, targets) in group {
            if let (ResourceKey::Pool(name), Some(targets)) = (&resource, targets) {
                seen.graph.targets.insert(name.clone(), targets);
            }
            seen.graph.resources.insert(resource, attributes);
        }
        let graph = seen.graph;
        let foreign = seen.foreign;
        let sharers = self.sharers(&view);
        let mut actual = ObservedLoadBalancer {
            graph: Some(graph),
            foreign,
            sharers,
            ..cheap(view, &self.balancer)?
        };
        if let Some(floating) = &self.floating {
            lead_by(&mut actual, &floating.address);
        }
        Some(actual)
    }

    /// Returns the pools without a listener.
    pub(super) fn unused_pools(&self) -> impl Iterator<Item = &Value> {
        let pools = self.pools.iter().map(|pool| &pool.object);
        pools.filter(|pool| ids(pool, "listeners").next().is_none())
    }

    /// Returns the pool of a listener.
    pub(super) fn pool_of(&self, listener: &Value) -> Option<&Pool> {
        self.pools
            .iter()
            .find(|pool| text(&pool.object, ID) == text(listener, "default_pool_id"))
    }

    /// Returns the owner tags of the other Services that share a load balancer in ERROR, which cannot be left; `None`
    /// if any of its objects may not belong to a tagged Service, or if it was not created for a Service.
    fn sharers(&self, view: &Share) -> Option<Vec<OwnerTags>> {
        let is_failed = matches!(state(&self.balancer), Some(State::Failed(_)));
        if !is_failed || !text(&self.balancer, "name").starts_with(LEGACY) {
            return None;
        }
        let all = Share::all(&self.balancer);
        let legacy_owner_tags: Vec<&str> = all
            .iter()
            .filter_map(|share| share.legacy_owner_tag.as_deref())
            .collect();
        let has_user = |listener: &Value| {
            let mut tags = texts(listener, TAGS)
                .filter(|tag| tag.starts_with(LEGACY))
                .peekable();
            tags.peek().is_some() && tags.all(|tag| legacy_owner_tags.contains(&tag))
        };
        let is_left = |pool: &Value| {
            legacy_owner_tags
                .iter()
                .any(|legacy_owner_tag| is_pool_of(pool, legacy_owner_tag))
        };
        if !self.listeners.iter().all(has_user) || !self.unused_pools().all(is_left) {
            return None;
        }
        let others = all.iter().filter(|share| share.id != view.id);
        others
            .map(|share| {
                share
                    .owner_tags
                    .service
                    .is_some()
                    .then(|| share.owner_tags.clone())
            })
            .collect()
    }
}

/// A view while it is converted.
struct Seen<'a> {
    whole: &'a Whole,
    view: &'a Share,
    graph: ResourceGraph,
    foreign: BTreeMap<ResourceKey, String>,
}

impl Seen<'_> {
    /// Adds the other users of the load balancer, and the floating IP.
    fn users(&mut self) {
        let Self {
            whole: Whole {
                balancer, floating, ..
            },
            view,
            ..
        } = *self;
        let others = view.others.iter().map(|other| {
            (
                ResourceKey::created_before(0, "user", other),
                format!("used by {other}"),
            )
        });
        self.foreign.extend(others);
        let name = text(balancer, "name");
        if !view.is_owner && !name.starts_with(LEGACY) {
            self.foreign.insert(
                ResourceKey::created_before(0, "user", name),
                "not made for a Service".to_owned(),
            );
        }
        let Some((resource, settings)) = floating.as_ref().map(FloatingIp::resource) else {
            return;
        };
        if view.is_owner || self.foreign.is_empty() {
            self.graph.resources.insert(resource, settings);
        } else {
            self.foreign.insert(resource, format!("of {name}"));
        }
    }

    /// Returns `true` if a tag belongs to this view; during a rename, the view has two tags.
    fn is_ours(&self, tag: &str) -> bool {
        self.view
            .legacy_owner_tag
            .as_deref()
            .is_some_and(|legacy_owner_tag| tag == legacy_owner_tag || tag == self.view.name)
    }

    /// Returns the owner of a listener; `None` if that is this view.
    fn owner(&self, listener: &Value) -> Option<String> {
        let other = texts(listener, TAGS).find(|tag| tag.starts_with(LEGACY) && !self.is_ours(tag));
        if let Some(other) = other {
            return Some(format!("used by {other}"));
        }
        // Listeners that the Go program created without tags have its name.
        let is_named = text(listener, "name").starts_with("listener_")
            && texts(listener, TAGS).next().is_none();
        let is_ours =
            texts(listener, TAGS).any(|tag| self.is_ours(tag)) || self.view.is_owner && is_named;
        (!is_ours).then(|| UNKNOWN.to_owned())
    }

    fn listener(&mut self, listener: &Value) {
        let number = listener
            .get("protocol_port")
            .and_then(Value::as_u64)
            .and_then(|number| u16::try_from(number).ok());
        let transport = match text(listener, "protocol") {
            "UDP" => "UDP",
            "SCTP" => "SCTP",
            _ => "TCP",
        };
        let port = Port {
            number: number.unwrap_or_default(),
            protocol: transport.into(),
        };
        if let Some(owner) = self.owner(listener) {
            self.foreign.insert(ResourceKey::Listener(port), owner);
            return;
        }
        let mut settings = Attributes::at(&[&[ID][..], &LISTENER_SETTINGS].concat(), listener);
        if texts(listener, TAGS).any(|tag| self.is_ours(tag)) {
            settings = settings.set(TAGGED, true);
        }
        let mut name = String::new();
        if let Some(Pool { object, members }) = self.whole.pool_of(listener) {
            name = format!("{port} {}", text(object, "protocol"));
            let places = [&[ID, MONITOR_ID][..], &POOL_SETTINGS, &MONITOR_SETTINGS].concat();
            let settings = Attributes::at(&places, object).overlaid_with(&members.settings);
            self.graph
                .targets
                .insert(name.clone(), members.targets.clone());
            self.graph
                .resources
                .insert(ResourceKey::Pool(name.clone()), settings);
        }
        self.graph
            .resources
            .insert(ResourceKey::Listener(port), settings.set(POOL, name));
    }

    /// Adds a pool without a listener: the Service's own one after an interrupted change, or one of another owner.
    fn unused_pool(&mut self, pool: &Value) {
        let resource = ResourceKey::Pool(format!("unused {}", text(pool, ID)));
        // During a rename, parts of the Service have the old or the new name.
        let is_of = |legacy_owner_tag: &str| {
            is_pool_of(pool, legacy_owner_tag) || is_pool_of(pool, &self.view.name)
        };
        if self.view.legacy_owner_tag.as_deref().is_some_and(is_of) {
            self.graph
                .resources
                .insert(resource, Attributes::at(&[ID], pool));
        } else if !self.view.others.iter().any(|other| is_pool_of(pool, other)) {
            self.foreign.insert(resource, UNKNOWN.to_owned());
        }
    }
}

/// Returns `true` if a pool is named for the Service with this legacy owner tag.
pub(super) fn is_pool_of(pool: &Value, legacy_owner_tag: &str) -> bool {
    let name = text(pool, "name");
    let place = name
        .strip_prefix("pool_")
        .and_then(|text| text.split('_').next())
        .unwrap_or_default();
    name == cut(format!("pool_{place}_{legacy_owner_tag}"))
}
