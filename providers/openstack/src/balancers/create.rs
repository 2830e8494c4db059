//! A new load balancer, with all that Octavia takes in one request (§3.5). There may be thousands of members in it: nothing
//! holds more of them than a set of targets.

use provider_kit::load_balancers::{Identity, Operation, POOL, Tree};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::octavia::{BALANCER_SETTINGS, BALANCERS, MONITOR_SETTINGS, MONITOR_TYPE, Members, POOL_SETTINGS, TAGS};
use super::read::{Pool, Whole};
use super::requests::{Names, listener, pool};
use super::tags::{cut, full_name, mark};

#[derive(Serialize)]
struct NewBalancer {
    #[serde(flatten)]
    object: Value,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    listeners: Vec<NewListener>,
}

#[derive(Serialize)]
struct NewListener {
    #[serde(flatten)]
    object: Value,
    default_pool: NewPool,
}

#[derive(Serialize)]
struct NewPool {
    #[serde(flatten)]
    object: Value,
    members: Members,
}

/// The request's body. `is_serial`: only the load balancer; what belongs to it is made piece by piece.
pub(super) fn body(
    identity: &Identity<'_>,
    operations: &[Operation],
    names: Names<'_>,
    is_serial: bool,
) -> impl Serialize {
    let tree = Tree::default().after(operations);
    let (namespace, name) = full_name(identity.service);
    let cluster = &identity.cluster.name;
    let mut settings = tree.balancer_attributes().cloned().unwrap_or_default().only(&BALANCER_SETTINGS);
    settings = settings
        .set("name", &identity.name)
        .set("description", cut(format!("Kubernetes external service {namespace}/{name} from cluster {cluster}")));
    if names.tags {
        settings = settings.set(TAGS, [names.sign, &mark(identity)]);
    }
    let mut listeners = Vec::new();
    if !is_serial {
        listeners.extend(tree.listeners().map(|(port, settings)| {
            let default_pool = whole_pool(names, settings.text(POOL).unwrap_or_default(), &tree);
            NewListener { object: listener(names, port, settings).nested(), default_pool }
        }));
    }
    BALANCERS.body(NewBalancer { object: settings.nested(), listeners })
}

fn whole_pool(names: Names<'_>, name: &str, tree: &Tree) -> NewPool {
    let settings = tree.pool_attributes(name).cloned().unwrap_or_default();
    let mut object = pool(names, name, &settings, &[&POOL_SETTINGS[..], &MONITOR_SETTINGS].concat());
    if settings.get(MONITOR_TYPE).is_some() {
        object = object.set("healthmonitor.name", names.of_pool("monitor", name));
    }
    NewPool { object: object.nested(), members: Members { targets: tree.targets_of(name), settings } }
}

/// The answer: all that was made, with ids. What it says twice is read once.
#[derive(Deserialize)]
pub(super) struct Made {
    #[serde(default)]
    listeners: Vec<Listener>,
    #[serde(default)]
    pools: Vec<Pool>,
    #[serde(flatten)]
    object: Value,
}

#[derive(Deserialize)]
struct Listener {
    #[serde(default, rename = "default_pool")]
    _pool: IgnoredAny,
    #[serde(flatten)]
    object: Value,
}

impl Made {
    /// The whole of it.
    pub(super) fn whole(self) -> Whole {
        let listeners = self.listeners.into_iter().map(|it| it.object).collect();
        Whole { balancer: self.object, listeners, pools: self.pools, floating: None }
    }
}
