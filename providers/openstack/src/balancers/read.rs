//! From what Octavia and Neutron show to a tree (§3.4).

use std::collections::BTreeMap;

use provider_kit::load_balancers::{Actual, Aside, Attributes, POOL, Part, Port, Tree};
use serde::Deserialize;
use serde_json::Value;

use super::floating_ip::FloatingIp;
use super::octavia::{
    ADDITIONAL_VIPS, BALANCER_SETTINGS, ID, LISTENER_SETTINGS, MONITOR_ID, MONITOR_SETTINGS, Members, POOL_SETTINGS,
    TAGGED, TAGS, ids, state, text, texts,
};
use super::security_group::Parts;
use super::status::lead_by;
use super::tags::{SIGN, View, cut};

/// A load balancer with its parts, as they were read.
#[derive(Default)]
pub(super) struct Whole {
    pub(super) balancer: Value,
    pub(super) listeners: Vec<Value>,
    pub(super) pools: Vec<Pool>,
    /// On the port of its VIP.
    pub(super) floating: Option<FloatingIp>,
}

/// A pool with its members; its health monitor stands in it.
#[derive(Deserialize)]
pub(super) struct Pool {
    #[serde(default)]
    pub(super) members: Members,
    #[serde(flatten)]
    pub(super) object: Value,
}

impl From<Value> for Pool {
    fn from(object: Value) -> Self {
        Self { members: Members::default(), object }
    }
}

/// A view of it without its parts.
pub(super) fn cheap(view: View, balancer: &Value) -> Option<Actual> {
    let state = state(balancer)?;
    let more = balancer.get(ADDITIONAL_VIPS).and_then(Value::as_array).into_iter().flatten();
    let addresses = std::iter::once(text(balancer, "vip_address")).chain(more.map(|vip| text(vip, "ip_address")));
    let ingress = addresses.filter(|it| !it.is_empty()).map(Actual::ip).collect();
    let View { id, name, sign, marks, .. } = view;
    let cloud = (text(balancer, "name").to_owned(), text(balancer, ID).to_owned());
    let shown_as = (cloud.0 != name || cloud.1 != id).then_some(cloud);
    Some(Actual { id, name, shown_as, marks, sign, state, ingress, ..Actual::default() })
}

impl Whole {
    /// A view of it. `group`: the Service's security group.
    pub(super) fn seen(&self, view: View, group: Parts) -> Option<Actual> {
        let mut seen = Seen { whole: self, view: &view, tree: Tree::default(), foreign: BTreeMap::new() };
        seen.balancer();
        for listener in &self.listeners {
            seen.listener(listener);
        }
        for pool in self.unused_pools() {
            seen.unused_pool(pool);
        }
        for (part, attributes, targets) in group {
            if let (Part::Pool(name), Some(targets)) = (&part, targets) {
                seen.tree.targets.insert(name.clone(), targets);
            }
            seen.tree = seen.tree.part(part, attributes);
        }
        let (tree, foreign, sharers) = (seen.tree, seen.foreign, self.sharers(&view));
        let mut actual = Actual { tree: Some(tree), foreign, sharers, ..cheap(view, &self.balancer)? };
        if let Some(floating) = &self.floating {
            lead_by(&mut actual, &floating.address);
        }
        Some(actual)
    }

    /// Those without a listener.
    pub(super) fn unused_pools(&self) -> impl Iterator<Item = &Value> {
        let pools = self.pools.iter().map(|pool| &pool.object);
        pools.filter(|pool| ids(pool, "listeners").next().is_none())
    }

    /// The pool of a listener.
    pub(super) fn pool_of(&self, listener: &Value) -> Option<&Pool> {
        self.pools.iter().find(|pool| text(&pool.object, ID) == text(listener, "default_pool_id"))
    }
}

struct Seen<'a> {
    whole: &'a Whole,
    view: &'a View,
    tree: Tree,
    foreign: BTreeMap<Part, String>,
}

impl Seen<'_> {
    fn balancer(&mut self) {
        let Self { whole: Whole { balancer, floating, .. }, view, .. } = *self;
        self.tree = Tree::default().balancer(Attributes::at(&BALANCER_SETTINGS, balancer));
        let user = |name: &str| Part::Support(Aside { rank: 0, kind: "user".into(), name: name.to_owned() });
        for other in &view.others {
            self.foreign.insert(user(other), format!("used by {other}"));
        }
        let name = text(balancer, "name");
        if !view.is_owner && !name.starts_with(SIGN) {
            self.foreign.insert(user(name), "not made for a Service".to_owned());
        }
        let Some((part, settings)) = floating.as_ref().map(FloatingIp::part) else { return };
        if view.is_owner || self.foreign.is_empty() {
            self.tree.parts.insert(part, settings);
        } else {
            self.foreign.insert(part, format!("of {name}"));
        }
    }

    /// Whether a tag is this view's. While it is renamed it has two.
    fn is_ours(&self, tag: &str) -> bool {
        self.view.sign.as_deref().is_some_and(|sign| tag == sign || tag == self.view.name)
    }

    /// Whose a listener is; `None`: this view's.
    fn owner(&self, listener: &Value) -> Option<String> {
        let mut tags = texts(listener, TAGS);
        match tags.find(|tag| tag.starts_with(SIGN) && !self.is_ours(tag)) {
            Some(other) => Some(format!("used by {other}")),
            None if texts(listener, TAGS).any(|tag| self.is_ours(tag)) => None,
            // What the Go program made without tags, it named.
            None if self.view.is_owner
                && texts(listener, TAGS).next().is_none()
                && text(listener, "name").starts_with("listener_") =>
            {
                None
            }
            None => Some("not made for this Service".to_owned()),
        }
    }

    fn listener(&mut self, listener: &Value) {
        let number = listener.get("protocol_port").and_then(Value::as_u64).and_then(|it| u16::try_from(it).ok());
        let transport = match text(listener, "protocol") {
            "UDP" => "UDP",
            "SCTP" => "SCTP",
            _ => "TCP",
        };
        let port = Port { number: number.unwrap_or_default(), protocol: transport.into() };
        if let Some(whose) = self.owner(listener) {
            self.foreign.insert(Part::Listener(port), whose);
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
            self.tree.targets.insert(name.clone(), members.targets.clone());
            self.tree.parts.insert(Part::Pool(name.clone()), settings);
        }
        self.tree.parts.insert(Part::Listener(port), settings.set(POOL, name));
    }

    /// One that is left of a change that was broken off, or somebody else's.
    fn unused_pool(&mut self, pool: &Value) {
        let name = format!("unused {}", text(pool, ID));
        // While it is renamed it has two names.
        let is_of = |sign: &str| is_pool_of(pool, sign) || is_pool_of(pool, &self.view.name);
        if self.view.sign.as_deref().is_some_and(is_of) {
            self.tree.parts.insert(Part::Pool(name), Attributes::at(&[ID], pool));
        } else if !self.view.others.iter().any(|other| is_pool_of(pool, other)) {
            self.foreign.insert(Part::Pool(name), "not made for this Service".to_owned());
        }
    }
}

/// Whether a pool is named for the Service with this sign.
pub(super) fn is_pool_of(pool: &Value, sign: &str) -> bool {
    let name = text(pool, "name");
    let place = name.strip_prefix("pool_").and_then(|it| it.split('_').next()).unwrap_or_default();
    name == cut(format!("pool_{place}_{sign}"))
}
