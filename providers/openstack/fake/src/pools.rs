//! Pools API of the fake Octavia.

use serde_json::{Value, json};

use crate::attributes;
use crate::model::{Kind, Model, Object, list as items, set, text};
use crate::octavia::{balancer_of, delete_part, merge, set_state, sorted_tags, unsupported};
use crate::refusal::Refusal;
use crate::requests::{Answer, ApiRequest, made, object, one};
use crate::{members, monitors, pages, shown};

const FILTERS: &[&str] = &[
    "id",
    "name",
    "description",
    "project_id",
    "loadbalancer_id",
    "load_balancer_id",
    "protocol",
    "lb_algorithm",
    "provisioning_status",
    "operating_status",
    "admin_state_up",
    "healthmonitor_id",
];
const ALGORITHMS: [&str; 4] = [
    "ROUND_ROBIN",
    "LEAST_CONNECTIONS",
    "SOURCE_IP",
    "SOURCE_IP_PORT",
];

pub(crate) fn list(model: &mut Model, request: &ApiRequest) -> Answer {
    pages::list(model, request, Kind::Pool, FILTERS, shown::pool)
}

pub(crate) fn get(model: &mut Model, request: &ApiRequest) -> Answer {
    let pool = model.one(Kind::Pool, &request.project, request.id())?;
    one(Kind::Pool, shown::pool(model, pool))
}

fn check_algorithm(model: &Model, balancer: &str, algorithm: &str) -> Result<(), Refusal> {
    if !ALGORITHMS.contains(&algorithm) {
        let message = format!(
            "Invalid input for field/attribute lb_algorithm. Value: '{algorithm}'. Value should be one of: {}",
            ALGORITHMS.join(", ")
        );
        return Err(Refusal::invalid(message));
    }
    if model.is_ovn(balancer) != (algorithm == "SOURCE_IP_PORT") {
        return Err(match model.is_ovn(balancer) {
            true => unsupported(&format!("{algorithm} algorithm")),
            false => Refusal::new(
                501,
                "",
                format!("Provider 'amphora' does not support a requested option: {algorithm}"),
            ),
        });
    }
    Ok(())
}

/// Returns `session_persistence` with all its keys.
fn persistence(wanted: &Value) -> Value {
    match wanted {
        Value::Object(wanted) => {
            let mut all = json!({"type": null, "cookie_name": null, "persistence_timeout": null, "persistence_granularity": null});
            wanted
                .iter()
                .for_each(|(key, value)| all[key] = value.clone());
            all
        }
        _ => Value::Null,
    }
}

/// Adds a pool, with its members and monitor, `PENDING_CREATE`.
pub(crate) fn add(
    model: &mut Model,
    project: &str,
    balancer: &str,
    wanted: &Object,
) -> Result<String, Refusal> {
    model.check_attributes(wanted, "pool_.pool", attributes::POOL, false)?;
    let protocol = text(wanted, "protocol");
    if !["TCP", "HTTP", "HTTPS", "PROXY", "PROXYV2", "UDP", "SCTP"].contains(&protocol) {
        return Err(Refusal::invalid(format!(
            "Invalid input for field/attribute protocol. Value: '{protocol}'."
        )));
    }
    check_algorithm(model, balancer, text(wanted, "lb_algorithm"))?;
    model.has_room(Kind::Pool, project)?;
    let id = model.new_id();
    let now = model.clock.local();
    let pool = json!({
        "id": id, "name": text(wanted, "name"), "description": text(wanted, "description"),
        "provisioning_status": "PENDING_CREATE", "operating_status": "OFFLINE", "admin_state_up": true, "protocol": protocol,
        "lb_algorithm": text(wanted, "lb_algorithm"),
        "session_persistence": persistence(wanted.get("session_persistence").unwrap_or(&Value::Null)),
        "project_id": project, "tenant_id": project, "loadbalancers": [{"id": balancer}], "created_at": now,
        "updated_at": null, "tags": sorted_tags(items(wanted, "tags")), "tls_container_ref": null, "ca_tls_container_ref": null,
        "crl_container_ref": null, "tls_enabled": false, "tls_ciphers": null, "tls_versions": null, "alpn_protocols": null,
    });
    model.insert(Kind::Pool, pool.as_object().cloned().unwrap_or_default());
    model.members.insert(id.clone(), Vec::new());
    for member in items(wanted, "members").iter().filter_map(Value::as_object) {
        members::add(model, project, &id, member)?;
    }
    if let Some(monitor) = wanted.get("healthmonitor").and_then(Value::as_object) {
        monitors::add(model, project, balancer, &id, monitor)?;
    }
    Ok(id)
}

/// Refuses a pool whose protocol the listener's protocol does not permit.
pub(crate) fn check_protocols(listener: &str, pool: &str) -> Result<(), Refusal> {
    match fits(listener, pool) {
        true => Ok(()),
        false => Err(Refusal::invalid(format!(
            "Validation failure: The pool protocol '{pool}' is invalid while the listener protocol is '{listener}'."
        ))),
    }
}

/// Returns `true` if a listener's protocol permits the pool's protocol.
fn fits(listener: &str, pool: &str) -> bool {
    match listener {
        "TCP" => ["HTTP", "HTTPS", "PROXY", "PROXYV2", "TCP"].contains(&pool),
        "HTTP" | "TERMINATED_HTTPS" => ["HTTP", "PROXY", "PROXYV2"].contains(&pool),
        "HTTPS" => ["HTTPS", "PROXY", "PROXYV2", "TCP"].contains(&pool),
        other => other == pool,
    }
}

pub(crate) fn create(model: &mut Model, request: &ApiRequest) -> Answer {
    let wanted = object(request, Kind::Pool)?;
    model.check_attributes(wanted, "pool_.pool", attributes::POOL, false)?;
    let listener = text(wanted, "listener_id").to_owned();
    let balancer = match listener.as_str() {
        "" => text(wanted, "loadbalancer_id").to_owned(),
        id => {
            let found = model.one(Kind::Listener, &request.project, id)?;
            check_protocols(text(found, "protocol"), text(wanted, "protocol"))?;
            if !text(found, "default_pool_id").is_empty() {
                return Err(Refusal::conflict(
                    "This listener already has a default pool",
                ));
            }
            balancer_of(found)
        }
    };
    model.may_change(&balancer, &request.project)?;
    let id = add(model, &request.project, &balancer, wanted)?;
    if let Some(listener) = model.get_mut(Kind::Listener, &listener) {
        set(listener, "default_pool_id", id.clone());
        set_state(listener, "PENDING_UPDATE");
    }
    model.begin(&balancer, "PENDING_UPDATE", &request.effects);
    let pool = model.one(Kind::Pool, &request.project, &id)?;
    made(Kind::Pool, shown::pool(model, pool))
}

pub(crate) fn change(model: &mut Model, request: &ApiRequest) -> Answer {
    let change = object(request, Kind::Pool)?;
    model.check_attributes(change, "pool_.pool", attributes::POOL, true)?;
    let balancer = balancer_of(model.one(Kind::Pool, &request.project, request.id())?);
    if let Some(algorithm) = change.get("lb_algorithm").and_then(Value::as_str) {
        check_algorithm(model, &balancer, algorithm)?;
    }
    model.may_change(&balancer, &request.project)?;
    let updated = model.clock.local();
    let pool = model.owned(Kind::Pool, &request.project, request.id())?;
    let before = pool["session_persistence"].clone();
    merge(pool, change, &updated);
    if pool["session_persistence"]
        .as_object()
        .is_some_and(serde_json::Map::is_empty)
    {
        set(pool, "session_persistence", before);
    }
    let kept = persistence(&pool["session_persistence"]);
    set(pool, "session_persistence", kept);
    set_state(pool, "PENDING_UPDATE");
    model.begin(&balancer, "PENDING_UPDATE", &request.effects);
    get(model, request)
}

pub(crate) fn delete(model: &mut Model, request: &ApiRequest) -> Answer {
    delete_part(model, request, Kind::Pool)
}
