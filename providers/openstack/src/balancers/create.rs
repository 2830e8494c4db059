//! The request that creates a load balancer with its listeners, pools and members. Thousands of members are serialized
//! one by one from the set of targets, without a copy in memory.

use std::collections::BTreeMap;

use provider_kit::load_balancers::{Attributes, Identity, Operation, POOL, Port, ResourceGraph};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::octavia::{
    BALANCER_SETTINGS, BALANCERS, MONITOR_SETTINGS, MONITOR_TYPE, Members, POOL_SETTINGS, TAGS,
};
use super::read::{Pool, Whole};
use super::requests::{ObjectNames, listener, pool};
use super::tags::{cut, full_name, owner_tag};

/// An object with a nested object or list in one more field.
#[derive(Serialize)]
struct NestedObject<T> {
    #[serde(flatten)]
    object: Value,
    #[serde(flatten)]
    inside: BTreeMap<&'static str, T>,
}

impl<T> NestedObject<T> {
    fn new(object: &Attributes, field: &'static str, inside: Option<T>) -> Self {
        Self {
            object: object.nested(),
            inside: inside.into_iter().map(|inside| (field, inside)).collect(),
        }
    }
}

/// Returns the body of the request. `is_serial`: only the load balancer; its listeners and pools are created one by one.
pub(super) fn body(
    identity: &Identity<'_>,
    operations: &[Operation],
    names: ObjectNames<'_>,
    is_serial: bool,
) -> impl Serialize {
    let graph = ResourceGraph::default().after(operations);
    let (namespace, name) = full_name(identity.service);
    let cluster = &identity.cluster.name;
    let mut settings = graph
        .balancer_attributes()
        .cloned()
        .unwrap_or_default()
        .only(&BALANCER_SETTINGS);
    settings = settings.set("name", &identity.name).set(
        "description",
        cut(format!(
            "Kubernetes external service {namespace}/{name} from cluster {cluster}"
        )),
    );
    if names.tags {
        settings = settings.set(TAGS, [names.legacy_owner_tag, &owner_tag(identity)]);
    }
    let whole_pool = |name: &str| {
        let settings = graph.pool_attributes(name).cloned().unwrap_or_default();
        let mut object = pool(
            names,
            name,
            &settings,
            &[&POOL_SETTINGS[..], &MONITOR_SETTINGS].concat(),
        );
        if settings.get(MONITOR_TYPE).is_some() {
            object = object.set("healthmonitor.name", names.of_pool("monitor", name));
        }
        NestedObject::new(
            &object,
            "members",
            Some(Members {
                targets: graph.targets_of(name),
                settings,
            }),
        )
    };
    let with_pool = |(port, settings): (&Port, &Attributes)| {
        let pool = whole_pool(settings.text(POOL).unwrap_or_default());
        NestedObject::new(&listener(names, port, settings), "default_pool", Some(pool))
    };
    let listeners: Vec<_> = graph
        .listeners()
        .filter(|_| !is_serial)
        .map(with_pool)
        .collect();
    let listeners = Some(listeners).filter(|all| !all.is_empty());
    BALANCERS.body(NestedObject::new(&settings, "listeners", listeners))
}

/// The answer to a creation: the load balancer with all objects and their IDs. The answer contains each pool twice, at
/// the load balancer and at its listener; one of them is skipped.
#[derive(Deserialize)]
pub(super) struct CreatedResponse {
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

impl From<CreatedResponse> for Whole {
    fn from(made: CreatedResponse) -> Self {
        let listeners = made
            .listeners
            .into_iter()
            .map(|listener| listener.object)
            .collect();
        Self {
            balancer: made.object,
            listeners,
            pools: made.pools,
            floating: None,
        }
    }
}
