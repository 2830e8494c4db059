//! From what Octavia and Neutron show to a tree (§3.4).

use std::collections::BTreeMap;

use provider_kit::load_balancers::{Actual, Aside, Attributes, Part, Port, State, Tree};
use serde_json::Value;

use super::floating_ip::FloatingIp;
use super::octavia::{
    ADDITIONAL_VIPS, ID, LISTENER_SETTINGS, MONITOR_ID, MONITOR_SETTINGS, Members, TAGGED, TAGS, X_FORWARDED_FOR, ids,
    text, texts,
};
use super::security_group::Parts;
use super::status::lead_by;
use super::tags::{SIGN, View, cut};

/// A load balancer with its parts, as they were read.
#[derive(Default)]
pub(super) struct Whole {
    pub(super) balancer: Value,
    pub(super) listeners: Vec<Value>,
    pub(super) pools: Vec<Value>,
    /// By pool.
    pub(super) monitors: BTreeMap<String, Value>,
    /// By pool.
    pub(super) members: BTreeMap<String, Members>,
    /// On the port of its VIP.
    pub(super) floating: Option<FloatingIp>,
}

/// What a load balancer is doing; `None`: it is gone.
pub(super) fn state(balancer: &Value) -> Option<State> {
    Some(match text(balancer, "provisioning_status") {
        "DELETED" => return None,
        "ACTIVE" => State::Ready,
        "ERROR" => State::Failed(format!(
            "its provisioning status is ERROR, and Octavia refuses to change it. An administrator may repair it with \
             `openstack loadbalancer failover {}`; or delete it, and a new one is made",
            text(balancer, ID)
        )),
        _ => State::Busy,
    })
}

/// A view of it without its parts.
pub(super) fn cheap(view: View, balancer: &Value) -> Option<Actual> {
    let state = state(balancer)?;
    let more = balancer.get(ADDITIONAL_VIPS).and_then(Value::as_array).into_iter().flatten();
    let addresses = std::iter::once(text(balancer, "vip_address")).chain(more.map(|vip| text(vip, "ip_address")));
    let ingress = addresses.filter(|it| !it.is_empty()).map(Actual::ip).collect();
    let View { id, name, sign, marks, .. } = view;
    Some(Actual { id, name, marks, sign, state, ingress, ..Actual::default() })
}

impl Whole {
    /// A view of it. `group`: the Service's security group.
    pub(super) fn seen(&self, view: View, group: Parts) -> Option<Actual> {
        let mut seen = Seen { whole: self, view: &view, tree: Tree::default(), foreign: BTreeMap::new() };
        seen.balancer();
        for listener in &self.listeners {
            seen.listener(listener);
        }
        for pool in self.pools.iter().filter(|pool| ids(pool, "listeners").next().is_none()) {
            seen.unused_pool(pool);
        }
        for (part, attributes, targets) in group {
            if let (Part::Pool(name), Some(targets)) = (&part, targets) {
                seen.tree.targets.insert(name.clone(), targets);
            }
            seen.tree = seen.tree.part(part, attributes);
        }
        let (tree, foreign) = (seen.tree, seen.foreign);
        let mut actual = Actual { tree: Some(tree), foreign, ..cheap(view, &self.balancer)? };
        if let Some(floating) = &self.floating {
            lead_by(&mut actual, &floating.address);
        }
        Some(actual)
    }

    pub(super) fn pool(&self, id: &str) -> Option<&Value> {
        self.pools.iter().find(|pool| text(pool, ID) == id)
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
        let settings = ["vip_subnet_id", "vip_network_id", "vip_port_id", "vip_address", "provider", "flavor_id"];
        let settings = Attributes::at(&settings, balancer);
        let more = Attributes::at(&["availability_zone", ADDITIONAL_VIPS], balancer);
        self.tree = Tree::default().balancer(settings.overlaid_with(&more));
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
        let pool = self.whole.pool(text(listener, "default_pool_id"));
        let pool_name = pool.map(|pool| format!("{port} {}", text(pool, "protocol"))).unwrap_or_default();
        let mut settings = listener_settings(listener);
        if texts(listener, TAGS).any(|tag| self.is_ours(tag)) {
            settings = settings.set(TAGGED, true);
        }
        let Port { number, protocol } = port;
        self.tree = std::mem::take(&mut self.tree).listener(number, protocol, &pool_name, settings);
        if let Some(pool) = pool {
            self.pool(&pool_name, pool);
        }
    }

    fn pool(&mut self, name: &str, pool: &Value) {
        let id = text(pool, ID);
        let mut settings = Attributes::at(&[ID, "lb_algorithm"], pool);
        if let Some(kind) = pool.pointer("/session_persistence/type").and_then(Value::as_str) {
            settings = settings.set("persistence", kind);
        }
        if let Some(monitor) = self.whole.monitors.get(id) {
            settings = settings.set(MONITOR_ID, text(monitor, ID));
            for key in MONITOR_SETTINGS {
                if let Some(value) = monitor.get(&key["monitor.".len()..]).filter(|it| !it.is_null()) {
                    settings = settings.set(key, value);
                }
            }
        }
        let members = self.whole.members.get(id).cloned().unwrap_or_default();
        let settings = settings.overlaid_with(&members.settings);
        self.tree = std::mem::take(&mut self.tree).pool(name, settings, Some(members.targets));
    }

    /// One that is left of a change that was broken off, or somebody else's.
    fn unused_pool(&mut self, pool: &Value) {
        let name = format!("unused {}", text(pool, ID));
        let called = text(pool, "name");
        let place = called.strip_prefix("pool_").and_then(|it| it.split('_').next()).unwrap_or_default();
        let is_of = |sign: &str| called == cut(format!("pool_{place}_{sign}"));
        if self.view.sign.as_deref().is_some_and(is_of) {
            self.tree.parts.insert(Part::Pool(name), Attributes::at(&[ID], pool));
        } else if !self.view.others.iter().any(|other| is_of(other)) {
            self.foreign.insert(Part::Pool(name), "not made for this Service".to_owned());
        }
    }
}

fn listener_settings(listener: &Value) -> Attributes {
    let header = listener.pointer("/insert_headers/X-Forwarded-For").and_then(Value::as_str);
    let own = Attributes::at(&[ID, TAGS, "protocol"], listener);
    own.overlaid_with(&Attributes::at(&LISTENER_SETTINGS, listener)).set(X_FORWARDED_FOR, header == Some("true"))
}
