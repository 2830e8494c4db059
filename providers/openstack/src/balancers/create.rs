//! A new load balancer, with all that Octavia takes in one request (§3.5).

use std::collections::BTreeMap;

use cloud_provider::{Error, Result};
use provider_kit::load_balancers::{Identity, Operation, POOL, Tree};
use serde_json::{Map, Value, json};

use super::octavia::{BALANCERS, ID, Member, Members, TAGS, text};
use super::read::Whole;
use super::requests::{Names, listener_body, whole_pool};
use super::tags::{full_name, mark};

/// Settings of a load balancer that are chosen when it is made.
const SETTINGS: &[&str] =
    &["provider", "vip_subnet_id", "vip_network_id", "vip_port_id", "vip_address", "flavor_id", "availability_zone"];

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

/// What the answer shows: the whole of it, with the ids of what was made.
///
/// # Errors
/// If a member cannot be read.
pub(super) fn made(mut balancer: Value) -> Result<Whole> {
    let mut take = |key: &str| match balancer.get_mut(key).map(Value::take) {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    };
    let (listeners, mut pools) = (take("listeners"), take("pools"));
    let (mut monitors, mut members) = (BTreeMap::new(), BTreeMap::new());
    for pool in &mut pools {
        let id = text(pool, ID).to_owned();
        let of_pool = pool.get_mut("members").map(Value::take).unwrap_or_default();
        let of_pool: Option<Vec<Member>> = serde_json::from_value(of_pool)
            .map_err(|err| Error::other(format!("members of the new pool {id} cannot be read: {err}")))?;
        members.insert(id.clone(), Members::from_iter(of_pool.unwrap_or_default()));
        let monitor = pool.get_mut("healthmonitor").map(Value::take).filter(|it| !it.is_null());
        monitors.extend(monitor.map(|monitor| (id, monitor)));
    }
    Ok(Whole { balancer, listeners, pools, monitors, members, floating: None })
}
