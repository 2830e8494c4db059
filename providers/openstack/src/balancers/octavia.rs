//! What Octavia shows (§5.3), as far as it is read. Nothing is a type of its own but what there are many of.

use std::collections::BTreeMap;

use provider_kit::load_balancers::{Attributes, Targets};
use provider_kit::transport::Call;
use serde::Deserialize;
use serde_json::{Map, Value};

/// A kind of objects of Octavia: where they are, how they are called, and what is read of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    pub(super) all: &'static str,
    pub(super) one: &'static str,
    pub(super) name: &'static str,
    pub(super) names: &'static str,
    fields: &'static str,
}

pub(super) const BALANCERS: Kind = Kind {
    all: "/lbaas/loadbalancers",
    one: "/lbaas/loadbalancers/{id}",
    name: "loadbalancer",
    names: "loadbalancers",
    fields: "id name provisioning_status vip_address vip_port_id vip_subnet_id vip_network_id provider flavor_id \
             availability_zone tags additional_vips",
};
pub(super) const LISTENERS: Kind = Kind {
    all: "/lbaas/listeners",
    one: "/lbaas/listeners/{id}",
    name: "listener",
    names: "listeners",
    fields: "id name loadbalancers protocol protocol_port default_pool_id insert_headers tags connection_limit \
             default_tls_container_ref allowed_cidrs timeout_client_data timeout_member_connect timeout_member_data \
             timeout_tcp_inspect",
};
/// Not the ids of their members, of which there are many.
pub(super) const POOLS: Kind = Kind {
    all: "/lbaas/pools",
    one: "/lbaas/pools/{id}",
    name: "pool",
    names: "pools",
    fields: "id name loadbalancers listeners protocol lb_algorithm session_persistence healthmonitor_id",
};
pub(super) const MONITORS: Kind = Kind {
    all: "/lbaas/healthmonitors",
    one: "/lbaas/healthmonitors/{id}",
    name: "healthmonitor",
    names: "healthmonitors",
    fields: "id name pools type delay timeout max_retries max_retries_down url_path http_method expected_codes",
};
/// Of one pool.
pub(super) const MEMBERS: Kind = Kind {
    all: "/lbaas/pools/{id}/members",
    one: "/lbaas/pools/{id}/members/{member}",
    name: "member",
    names: "members",
    fields: "id name address protocol_port monitor_port subnet_id",
};

impl Kind {
    /// Reads them, or of one pool, with the fields that are needed.
    pub(super) fn list(&self, pool: &str) -> Call {
        self.with_fields(Call::get(self.all, if pool.is_empty() { &[] } else { std::slice::from_ref(&pool) }))
    }

    /// Reads one.
    pub(super) fn get(&self, id: &str) -> Call {
        self.with_fields(Call::get(self.one, &[id]))
    }

    fn with_fields(&self, call: Call) -> Call {
        self.fields.split(' ').fold(call, |call, field| call.query("fields", field))
    }

    /// A body: the object under its name.
    pub(super) fn body(&self, object: impl Into<Value>) -> Value {
        Map::from_iter([(self.name.to_owned(), object.into())]).into()
    }

    /// The object in an answer.
    pub(super) fn of(&self, mut answer: Value) -> Value {
        answer.get_mut(self.name).map(Value::take).unwrap_or_default()
    }
}

/// VIPs besides the first, each with its subnet and address.
pub(super) const ADDITIONAL_VIPS: &str = "additional_vips";
/// Who may reach a listener.
pub(super) const ALLOWED_CIDRS: &str = "allowed_cidrs";
/// Settings of a pool that are its health monitor's; what is after the dot is what they are called there.
pub(super) const MONITOR_SETTINGS: [&str; 8] = [
    "monitor.type",
    "monitor.delay",
    "monitor.timeout",
    "monitor.max_retries",
    "monitor.max_retries_down",
    "monitor.url_path",
    "monitor.http_method",
    "monitor.expected_codes",
];
/// Settings of a pool that are its own.
pub(super) const POOL_SETTINGS: [&str; 2] = ["lb_algorithm", "persistence"];
/// Settings of a listener that are called the same in Octavia, and can be changed.
pub(super) const LISTENER_SETTINGS: [&str; 7] = [
    "connection_limit",
    "default_tls_container_ref",
    ALLOWED_CIDRS,
    "timeout_client_data",
    "timeout_member_connect",
    "timeout_member_data",
    "timeout_tcp_inspect",
];
/// Settings of a pool that are its members'.
pub(super) const MEMBER_PORT: &str = "member_port";
pub(super) const MONITOR_PORT: &str = "monitor_port";
pub(super) const MEMBER_SUBNET: &str = "member_subnet";
/// Which pool, listener or monitor it is in Octavia.
pub(super) const ID: &str = "id";
pub(super) const MONITOR_ID: &str = "monitor.id";
/// Its tags, which are replaced all at once.
pub(super) const TAGS: &str = "tags";
/// Whether its Service's tag is among them.
pub(super) const TAGGED: &str = "tagged";
/// The header of HTTP that tells the client's address.
pub(super) const X_FORWARDED_FOR: &str = "x_forwarded_for";

/// A field that is a text; empty if it is none.
pub(super) fn text<'a>(object: &'a Value, key: &str) -> &'a str {
    object.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The texts of a field that is a list of such.
pub(super) fn texts<'a>(object: &'a Value, key: &str) -> impl Iterator<Item = &'a str> {
    object.get(key).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// The ids in a field such as `"listeners": [{"id": …}]`.
pub(super) fn ids<'a>(object: &'a Value, key: &str) -> impl Iterator<Item = &'a str> {
    object.get(key).and_then(Value::as_array).into_iter().flatten().map(|it| text(it, ID))
}

/// A member, as it is read.
#[derive(Deserialize)]
pub(super) struct Member {
    #[serde(default)]
    pub(super) id: String,
    #[serde(default)]
    name: Option<String>,
    pub(super) address: String,
    protocol_port: u16,
    #[serde(default)]
    pub(super) monitor_port: Option<u16>,
    #[serde(default)]
    subnet_id: Option<String>,
}

impl Member {
    /// Whether it has this address and port.
    pub(super) fn is(&self, address: &str, port: &Value) -> bool {
        self.address == address && *port == self.protocol_port
    }

    /// As a target: the Node's name and the address. Ports are not in it, so that pools of the same Nodes have one set.
    pub(super) fn target(&self) -> String {
        let Self { name, address, protocol_port, .. } = self;
        let name = name.as_deref().unwrap_or_default();
        // So they are named where they are made one by one.
        let serial =
            name.strip_prefix("member_").and_then(|it| it.strip_suffix(&format!("_{address}_{protocol_port}")));
        format!("{} {address}", serial.unwrap_or(name))
    }
}

/// All members of a pool: who they are, and what they have in common.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Members {
    pub(super) targets: Targets,
    /// Of those settings that are the members'. What is not the same for all is a text that tells them all, so that it
    /// differs from anything that is wanted.
    pub(super) settings: Attributes,
}

impl FromIterator<Member> for Members {
    fn from_iter<I: IntoIterator<Item = Member>>(members: I) -> Self {
        let mut seen: BTreeMap<&'static str, Vec<Value>> = BTreeMap::new();
        let mut note = |key, value: Value| {
            let values = seen.entry(key).or_default();
            if !values.contains(&value) {
                values.push(value);
            }
        };
        let target = |member: Member| {
            note(MEMBER_PORT, member.protocol_port.into());
            note(MONITOR_PORT, member.monitor_port.into());
            let target = member.target();
            note(MEMBER_SUBNET, member.subnet_id.into());
            target
        };
        let targets = members.into_iter().map(target).collect();
        let settings = seen.into_iter().fold(Attributes::default(), |settings, (key, mut values)| match values.len() {
            1 => values.pop().filter(|it| !it.is_null()).map_or(settings.clone(), |value| settings.set(key, value)),
            _ => settings.set(key, Value::from(values).to_string()),
        });
        Self { targets, settings }
    }
}
