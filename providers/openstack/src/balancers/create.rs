//! A new load balancer, with all that Octavia takes in one request (§3.5).

use std::collections::BTreeMap;

use provider_kit::load_balancers::{Identity, Operation, POOL, Tree};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use super::octavia::{ADDITIONAL_VIPS, BALANCERS, ID, Member, Members, TAGS};
use super::read::Whole;
use super::requests::{Names, listener_body, whole_pool};
use super::tags::{full_name, mark};

/// Settings of a load balancer that are chosen when it is made.
const SETTINGS: &[&str] = &[
    "provider",
    "vip_subnet_id",
    "vip_network_id",
    "vip_port_id",
    "vip_address",
    "flavor_id",
    "availability_zone",
    ADDITIONAL_VIPS,
];

/// The request's body. `is_serial`: only the load balancer; what belongs to it is made piece by piece.
pub(super) fn body(identity: &Identity<'_>, operations: &[Operation], names: Names<'_>, is_serial: bool) -> Value {
    let tree = Tree::default().after(operations);
    let (namespace, name) = full_name(identity.service);
    let mut body = Map::new();
    let mut put = |key: &str, value: Value| drop(body.insert(key.to_owned(), value));
    put("name", identity.name.clone().into());
    let cluster = &identity.cluster.name;
    put("description", format!("Kubernetes external service {namespace}/{name} from cluster {cluster}").into());
    if names.tags {
        put(TAGS, json!([names.sign, mark(identity)]));
    }
    for key in SETTINGS {
        let setting = tree.balancer_attributes().and_then(|settings| settings.get(key));
        setting.filter(|it| !it.is_null()).into_iter().for_each(|it| put(key, it.clone()));
    }
    if !is_serial {
        put("listeners", listeners(&tree, names).into());
    }
    BALANCERS.body(body)
}

fn listeners(tree: &Tree, names: Names<'_>) -> Vec<Value> {
    let whole = tree.listeners().map(|(port, settings)| {
        let mut listener = listener_body(names, port, settings);
        let pool = settings.text(POOL).unwrap_or_default();
        listener.insert("default_pool".to_owned(), whole_pool(names, pool, tree).into());
        listener.into()
    });
    whole.collect()
}

/// The answer: all that was made, with ids. What it says twice is read once, and of members only what is needed: a load
/// balancer of thousands of Nodes is an answer of megabytes.
#[derive(Deserialize)]
pub(super) struct Made {
    loadbalancer: Balancer,
}

#[derive(Deserialize)]
struct Balancer {
    #[serde(default)]
    listeners: Vec<Listener>,
    #[serde(default)]
    pools: Vec<Pool>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

#[derive(Deserialize)]
struct Listener {
    #[serde(default, rename = "default_pool")]
    _pool: IgnoredAny,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

#[derive(Deserialize)]
struct Pool {
    #[serde(default)]
    id: String,
    #[serde(default)]
    members: Vec<Member>,
    #[serde(default)]
    healthmonitor: Value,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

impl Made {
    /// The whole of it.
    pub(super) fn whole(self) -> Whole {
        let Balancer { listeners, pools: made, rest } = self.loadbalancer;
        let (mut pools, mut monitors, mut members) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        for Pool { id, members: of_pool, healthmonitor, mut rest } in made {
            members.insert(id.clone(), Members::from_iter(of_pool));
            if !healthmonitor.is_null() {
                monitors.insert(id.clone(), healthmonitor);
            }
            rest.insert(ID.to_owned(), id.into());
            pools.push(rest.into());
        }
        let listeners = listeners.into_iter().map(|it| it.rest.into()).collect();
        Whole { balancer: rest.into(), listeners, pools, monitors, members, floating: None }
    }
}
