//! Octavia's objects as they are shown: with what is worked out from others.

use serde_json::{Value, json};

use crate::model::{Kind, Model, Object, list as items, set, text};

fn ids<'a>(objects: impl Iterator<Item = &'a Object>) -> Value {
    objects.map(|a_map| json!({"id": a_map["id"]})).collect()
}

/// Returns a load balancer as lists and reads show it.
pub(crate) fn balancer(model: &Model, balancer: &Object) -> Object {
    let mut shown = balancer.clone();
    let id = text(balancer, "id");
    set(
        &mut shown,
        "listeners",
        ids(model.parts(Kind::Listener, id)),
    );
    set(&mut shown, "pools", ids(model.parts(Kind::Pool, id)));
    for (key, _, _) in crate::attributes::BALANCER
        .iter()
        .filter(|(_, since, _)| *since > model.options.octavia)
    {
        shown.remove(*key);
    }
    shown
}

/// Returns a listener as the API shows it.
pub(crate) fn listener(model: &Model, listener: &Object) -> Object {
    let mut shown = listener.clone();
    for (key, _, _) in crate::attributes::LISTENER
        .iter()
        .filter(|(_, since, _)| *since > model.options.octavia)
    {
        shown.remove(*key);
    }
    shown
}

/// Returns the monitor of a pool.
pub(crate) fn monitor_of<'a>(model: &'a Model, pool: &str) -> Option<&'a Object> {
    model.all(Kind::Monitor).find(|object| {
        items(object, "pools")
            .iter()
            .any(|other_pool| other_pool["id"] == pool)
    })
}

/// Returns a pool as the API shows it.
pub(crate) fn pool(model: &Model, pool: &Object) -> Object {
    let mut shown = pool.clone();
    let id = text(pool, "id");
    set(
        &mut shown,
        "listeners",
        ids(model
            .all(Kind::Listener)
            .filter(|object| text(object, "default_pool_id") == id)),
    );
    set(
        &mut shown,
        "members",
        ids(model.members.get(id).into_iter().flatten()),
    );
    if let Some(monitor) = monitor_of(model, id) {
        set(&mut shown, "healthmonitor_id", text(monitor, "id"));
    }
    shown
}

/// Returns a new load balancer with all its objects, as the response to its creation shows it.
pub(crate) fn whole(model: &Model, balancer: &Object) -> Object {
    let id = text(balancer, "id");
    let mut shown = self::balancer(model, balancer);
    let listeners = model.parts(Kind::Listener, id).map(|part| {
        let mut part = listener(model, part);
        part.remove("loadbalancers");
        Value::Object(part)
    });
    let pools = model.parts(Kind::Pool, id).map(|part| {
        let mut shown = pool(model, part);
        ["loadbalancers", "healthmonitor_id"]
            .into_iter()
            .for_each(|key| _ = shown.remove(key));
        let members = model
            .members
            .get(text(part, "id"))
            .cloned()
            .unwrap_or_default();
        set(
            &mut shown,
            "members",
            members.into_iter().map(Value::Object).collect::<Vec<_>>(),
        );
        if let Some(monitor) = monitor_of(model, text(part, "id")) {
            let mut monitor = monitor.clone();
            ["pools", "loadbalancers"]
                .into_iter()
                .for_each(|key| _ = monitor.remove(key));
            set(&mut shown, "healthmonitor", monitor);
        }
        Value::Object(shown)
    });
    let (listeners, pools): (Vec<_>, Vec<_>) = (listeners.collect(), pools.collect());
    set(&mut shown, "listeners", listeners);
    set(&mut shown, "pools", pools);
    shown
}

/// Returns a few attributes of an object.
fn some(object: &Object, keys: &[&str]) -> Object {
    keys.iter()
        .map(|key| {
            (
                (*key).to_owned(),
                object.get(*key).cloned().unwrap_or_default(),
            )
        })
        .collect()
}

/// Returns the status tree: `GET …/status`.
pub(crate) fn statuses(model: &Model, balancer: &Object) -> Value {
    let states = ["id", "name", "operating_status", "provisioning_status"];
    let pool = |object: &Object| {
        let mut shown = some(object, &states);
        let members = model.members.get(text(object, "id")).into_iter().flatten();
        let member_keys = [&states[..], &["address", "protocol_port"]].concat();
        set(
            &mut shown,
            "members",
            members
                .map(|members| Value::Object(some(members, &member_keys)))
                .collect::<Vec<_>>(),
        );
        if let Some(monitor) = monitor_of(model, text(object, "id")) {
            set(
                &mut shown,
                "health_monitor",
                some(monitor, &[&states[..], &["type"]].concat()),
            );
        }
        Value::Object(shown)
    };
    let listener = |object: &Object| {
        let mut shown = some(object, &states);
        let pools = model
            .get(Kind::Pool, text(object, "default_pool_id"))
            .map(pool);
        set(&mut shown, "pools", pools.into_iter().collect::<Vec<_>>());
        Value::Object(shown)
    };
    let mut shown = some(balancer, &states);
    let listeners = model
        .parts(Kind::Listener, text(balancer, "id"))
        .map(listener);
    set(&mut shown, "listeners", listeners.collect::<Vec<_>>());
    json!({"statuses": {"loadbalancer": shown}})
}
