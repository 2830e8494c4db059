//! The objects of Octavia, with the fields that are read. They are JSON values; only members have a Rust type, because
//! there are thousands of them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use provider_kit::load_balancers::{Attributes, State, Targets};
use provider_kit::streamed;
use provider_kit::transport::Call;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};

/// A kind of objects of Octavia: paths, names, and the fields that are read.
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
             availability_zone tags additional_vips created_at",
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
/// Pools, read without the IDs of their members, of which there are many.
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
/// The members of one pool.
pub(super) const MEMBERS: Kind = Kind {
    all: "/lbaas/pools/{id}/members",
    one: "/lbaas/pools/{id}/members/{member}",
    name: "member",
    names: "members",
    fields: "id name address protocol_port monitor_port subnet_id",
};

impl Kind {
    /// Returns the call that lists them, or those of one pool, with the fields that are needed.
    pub(super) fn list(&self, pool: &str) -> Call {
        self.with_fields(Call::get(
            self.all,
            if pool.is_empty() {
                &[]
            } else {
                std::slice::from_ref(&pool)
            },
        ))
    }

    /// Returns the call that reads one.
    pub(super) fn get(&self, id: &str) -> Call {
        self.with_fields(Call::get(self.one, &[id]))
            .inside(self.name)
    }

    fn with_fields(&self, call: Call) -> Call {
        self.fields
            .split(' ')
            .fold(call, |call, field| call.query("fields", field))
    }

    /// Returns a body: the object under its name.
    pub(super) fn body<T: Serialize>(&self, object: T) -> impl Serialize {
        BTreeMap::from([(self.name, object)])
    }
}

/// VIPs besides the first, each with its subnet and address.
pub(super) const ADDITIONAL_VIPS: &str = "additional_vips";
/// Source ranges that may reach a listener.
pub(super) const ALLOWED_CIDRS: &str = "allowed_cidrs";
/// Settings of a load balancer, which count when it is created. Like all settings they are named by their places in Octavia's
/// objects.
pub(super) const BALANCER_SETTINGS: [&str; 8] = [
    "provider",
    "vip_subnet_id",
    "vip_network_id",
    "vip_port_id",
    "vip_address",
    "flavor_id",
    "availability_zone",
    ADDITIONAL_VIPS,
];
/// Settings of a listener.
pub(super) const LISTENER_SETTINGS: [&str; 10] = [
    "protocol",
    TAGS,
    "connection_limit",
    "default_tls_container_ref",
    ALLOWED_CIDRS,
    "timeout_client_data",
    "timeout_member_connect",
    "timeout_member_data",
    "timeout_tcp_inspect",
    "insert_headers.X-Forwarded-For",
];
/// Settings of a pool itself.
pub(super) const POOL_SETTINGS: [&str; 2] = ["lb_algorithm", "session_persistence.type"];
/// Settings of a pool's health monitor.
pub(super) const MONITOR_SETTINGS: [&str; 8] = [
    MONITOR_TYPE,
    "healthmonitor.delay",
    "healthmonitor.timeout",
    "healthmonitor.max_retries",
    "healthmonitor.max_retries_down",
    "healthmonitor.url_path",
    "healthmonitor.http_method",
    "healthmonitor.expected_codes",
];
pub(super) const MONITOR_TYPE: &str = "healthmonitor.type";
/// Settings of a pool's members.
pub(super) const MEMBER_SETTINGS: [&str; 3] = [MEMBER_PORT, MONITOR_PORT, MEMBER_SUBNET];
pub(super) const MEMBER_PORT: &str = "members.protocol_port";
pub(super) const MONITOR_PORT: &str = "members.monitor_port";
pub(super) const MEMBER_SUBNET: &str = "members.subnet_id";
/// ID of a pool or listener in Octavia.
pub(super) const ID: &str = "id";
pub(super) const MONITOR_ID: &str = "healthmonitor.id";
/// Tags, which are replaced all at once.
pub(super) const TAGS: &str = "tags";
/// If set, the Service's tag is among them.
pub(super) const TAGGED: &str = "tagged";

/// Returns a field that is a text; empty if it is none.
pub(super) fn text<'a>(object: &'a Value, key: &str) -> &'a str {
    object.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the texts of a list field.
pub(super) fn texts<'a>(object: &'a Value, key: &str) -> impl Iterator<Item = &'a str> {
    object
        .get(key)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}

/// Returns the IDs in a field such as `"listeners": [{"id": …}]`.
pub(super) fn ids<'a>(object: &'a Value, key: &str) -> impl Iterator<Item = &'a str> {
    object
        .get(key)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .map(|object| text(object, ID))
}

/// Returns an object's ID.
pub(super) fn id(object: &Value) -> String {
    text(object, ID).to_owned()
}

/// Text of a failure, for which Octavia gives no reason.
const FAILED: &str = "its provisioning status is ERROR, in which Octavia refuses to change it";

/// Returns the state of a load balancer; `None` if it is deleted.
pub(super) fn state(balancer: &Value) -> Option<State> {
    Some(match text(balancer, "provisioning_status") {
        "DELETED" => return None,
        "ACTIVE" => State::Ready,
        "ERROR" => State::Failed(FAILED.to_owned()),
        _ => State::Busy,
    })
}

/// A member, as it is created and read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Member<'a> {
    #[serde(default, skip_serializing)]
    pub(super) id: String,
    pub(super) name: Option<Cow<'a, str>>,
    pub(super) address: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) protocol_port: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) monitor_port: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) subnet_id: Option<Cow<'a, str>>,
}

impl Member<'_> {
    /// Returns the target: the Node's name and the address. Without ports, so that pools of the same Nodes have one set.
    pub(super) fn target(&self) -> String {
        let name = self.name.as_deref().unwrap_or_default();
        let address = &self.address;
        let serial = self.protocol_port.and_then(|port| {
            let rest = name.strip_prefix("member_")?;
            rest.strip_suffix(&format!("_{address}_{port}"))
        });
        format!("{} {address}", serial.unwrap_or(name))
    }

    /// Returns the name of a member that is created by a request of its own.
    pub(super) fn serial_name(&self) -> String {
        let name = self.name.as_deref().unwrap_or_default();
        let address = &self.address;
        format!(
            "member_{name}_{address}_{}",
            self.protocol_port.unwrap_or_default()
        )
    }
}

/// The members of a pool: the targets, and the settings that they share. The JSON is a list, which is written and read member by
/// member: there are thousands.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Members {
    pub(super) targets: Targets,
    /// The settings of members. A setting that is not the same for all is the list of all values, so that it differs from any
    /// wanted one.
    pub(super) settings: Attributes,
}

impl Members {
    pub(super) fn iter(&self) -> impl Iterator<Item = Member<'_>> {
        let Self { targets, settings } = self;
        targets.iter().map(|target| {
            let (name, address) = target.rsplit_once(' ').unwrap_or(("", target));
            Member {
                id: String::new(),
                name: Some(name.into()),
                address: address.into(),
                protocol_port: settings.number(MEMBER_PORT),
                monitor_port: settings.number(MONITOR_PORT),
                subnet_id: settings.text(MEMBER_SUBNET).map(Cow::from),
            }
        })
    }
}

impl<'a> FromIterator<Member<'a>> for Members {
    fn from_iter<I: IntoIterator<Item = Member<'a>>>(members: I) -> Self {
        let mut seen = MEMBER_SETTINGS.map(|key| (key, Vec::new()));
        let target = |member: Member<'_>| {
            let values = [
                json!(member.protocol_port),
                json!(member.monitor_port),
                json!(member.subnet_id),
            ];
            for ((_, seen), value) in seen.iter_mut().zip(values) {
                if !seen.contains(&value) {
                    seen.push(value);
                }
            }
            member.target()
        };
        let targets = members.into_iter().map(target).collect();
        let settings = seen.into_iter().fold(
            Attributes::default(),
            |settings, (key, mut values)| match values.len() {
                0 | 1 => settings.set(key, values.pop()),
                _ => settings.set(key, values),
            },
        );
        Self {
            targets,
            settings: settings.for_creation(),
        }
    }
}

impl Serialize for Members {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        streamed::collect::<_, Member<'_>, _>(deserializer)
    }
}
