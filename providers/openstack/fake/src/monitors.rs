//! Health monitors API of the fake Octavia.

use fake_cloud::Reply;
use serde_json::{Value, json};

use crate::attributes;
use crate::model::{Kind, Model, Object, list as items, set, text};
use crate::octavia::{balancer_of, merge, set_state, sorted_tags, unsupported};
use crate::refusal::Refusal;
use crate::requests::{Answer, ApiRequest, made, object, one};
use crate::{pages, shown};

const FILTERS: &[&str] = &[
    "id",
    "name",
    "project_id",
    "type",
    "pool_id",
    "provisioning_status",
    "operating_status",
    "admin_state_up",
];
const TYPES: [&str; 7] = [
    "HTTP",
    "HTTPS",
    "PING",
    "SCTP",
    "TCP",
    "TLS-HELLO",
    "UDP-CONNECT",
];

fn is_http(kind: &str) -> bool {
    ["HTTP", "HTTPS"].contains(&kind)
}

pub(crate) fn list(model: &mut Model, request: &ApiRequest) -> Answer {
    pages::list(model, request, Kind::Monitor, FILTERS, |_, object| {
        plain(object)
    })
}

/// Returns a monitor without its load balancer, which Octavia does not show.
fn plain(monitor: &Object) -> Object {
    let mut shown = monitor.clone();
    shown.remove("loadbalancers");
    shown
}

pub(crate) fn get(model: &mut Model, request: &ApiRequest) -> Answer {
    one(
        Kind::Monitor,
        plain(model.one(Kind::Monitor, &request.project, request.id())?),
    )
}

fn check(
    model: &Model,
    balancer: &str,
    pool: &str,
    kind: &str,
    wanted: &Object,
) -> Result<(), Refusal> {
    let is_set = |key: &str| wanted.get(key).is_some_and(|key| !key.is_null());
    let of_http = ["http_method", "url_path", "expected_codes"];
    if let Some(key) = of_http
        .into_iter()
        .find(|key| !is_http(kind) && is_set(key))
    {
        return Err(Refusal::invalid(format!(
            "{key} is not a valid option for health monitors of type {kind}"
        )));
    }
    if model.is_ovn(balancer) && !["TCP", "UDP-CONNECT"].contains(&kind) {
        return Err(unsupported(&format!("{kind} health monitors")));
    }
    let protocol = model
        .get(Kind::Pool, pool)
        .map_or("", |pool| text(pool, "protocol"));
    if kind == "UDP-CONNECT" && !["UDP", "SCTP"].contains(&protocol) {
        return Err(Refusal::invalid(
            "Validation failure: The UDP-CONNECT type is only supported for pools of type UDP/SCTP.",
        ));
    }
    let fits = match protocol {
        "UDP" => {
            kind == "UDP-CONNECT"
                || (model.options.octavia >= 16 && (is_http(kind) || kind == "TCP"))
        }
        "SCTP" => ["SCTP", "TCP", "HTTP", "UDP-CONNECT"].contains(&kind),
        _ => kind != "UDP-CONNECT" && kind != "SCTP",
    };
    if !fits {
        let message = format!(
            "Validation failure: The health monitor type '{kind}' is invalid while the pool protocol is '{protocol}'."
        );
        return Err(Refusal::invalid(message));
    }
    for key in ["max_retries", "max_retries_down"] {
        if wanted
            .get(key)
            .and_then(Value::as_u64)
            .is_some_and(|number| !(1..=10).contains(&number))
        {
            return Err(Refusal::invalid(format!(
                "Invalid input for field/attribute {key}. Value should be between 1 and 10"
            )));
        }
    }
    Ok(())
}

/// Adds a monitor, `PENDING_CREATE`.
pub(crate) fn add(
    model: &mut Model,
    project: &str,
    balancer: &str,
    pool: &str,
    wanted: &Object,
) -> Result<String, Refusal> {
    model.check_attributes(
        wanted,
        "health_monitor_.healthmonitor",
        attributes::MONITOR,
        false,
    )?;
    let kind = text(wanted, "type");
    if !TYPES.contains(&kind) {
        return Err(Refusal::invalid(format!(
            "Invalid input for field/attribute type. Value: '{kind}'."
        )));
    }
    if let Some(key) = ["delay", "timeout", "max_retries"]
        .into_iter()
        .find(|key| !wanted.contains_key(*key))
    {
        return Err(Refusal::invalid(format!(
            "Invalid input for field/attribute {key}. Value: 'None'. Mandatory field missing."
        )));
    }
    check(model, balancer, pool, kind, wanted)?;
    if shown::monitor_of(model, pool).is_some() {
        return Err(Refusal::conflict("This pool already has a health monitor"));
    }
    model.has_room(Kind::Monitor, project)?;
    let id = model.new_id();
    let now = model.clock.local();
    let or = |key: &str, default: Value| wanted.get(key).cloned().unwrap_or(default);
    let http = |key: &str, default: &str| {
        or(
            key,
            if is_http(kind) {
                default.into()
            } else {
                Value::Null
            },
        )
    };
    let monitor = json!({
        "id": id, "name": text(wanted, "name"), "type": kind, "delay": wanted["delay"], "timeout": wanted["timeout"],
        "max_retries": wanted["max_retries"], "max_retries_down": or("max_retries_down", 3.into()),
        "http_method": http("http_method", "GET"), "url_path": http("url_path", "/"),
        "expected_codes": http("expected_codes", "200"), "admin_state_up": true, "project_id": project, "tenant_id": project,
        "pools": [{"id": pool}], "loadbalancers": [{"id": balancer}], "provisioning_status": "PENDING_CREATE",
        "operating_status": "OFFLINE", "created_at": now, "updated_at": null, "tags": sorted_tags(items(wanted, "tags")),
        "http_version": or("http_version", Value::Null), "domain_name": or("domain_name", Value::Null),
    });
    model.insert(
        Kind::Monitor,
        monitor.as_object().cloned().unwrap_or_default(),
    );
    Ok(id)
}

/// Starts an operation of the worker on a monitor of this pool.
fn begin(model: &mut Model, request: &ApiRequest, balancer: &str, pool: &str) {
    if let Some(pool) = model.get_mut(Kind::Pool, pool) {
        set_state(pool, "PENDING_UPDATE");
    }
    model.begin(balancer, "PENDING_UPDATE", &request.effects);
}

fn pool_of(monitor: &Object) -> String {
    items(monitor, "pools")
        .first()
        .and_then(|pool| pool["id"].as_str())
        .unwrap_or_default()
        .to_owned()
}

pub(crate) fn create(model: &mut Model, request: &ApiRequest) -> Answer {
    let wanted = object(request, Kind::Monitor)?;
    let pool = text(wanted, "pool_id");
    let balancer = balancer_of(model.one(Kind::Pool, &request.project, pool)?);
    model.may_change_pool(&balancer, pool, &request.project)?;
    let id = add(model, &request.project, &balancer, pool, wanted)?;
    begin(model, request, &balancer, pool);
    made(
        Kind::Monitor,
        plain(model.one(Kind::Monitor, &request.project, &id)?),
    )
}

pub(crate) fn change(model: &mut Model, request: &ApiRequest) -> Answer {
    let change = object(request, Kind::Monitor)?;
    model.check_attributes(
        change,
        "health_monitor_.healthmonitor",
        attributes::MONITOR,
        true,
    )?;
    let found = model.one(Kind::Monitor, &request.project, request.id())?;
    let balancer = balancer_of(found);
    let pool = pool_of(found);
    check(model, &balancer, &pool, text(found, "type"), change)?;
    model.may_change_pool(&balancer, &pool, &request.project)?;
    let updated = model.clock.local();
    let monitor = model.owned(Kind::Monitor, &request.project, request.id())?;
    merge(monitor, change, &updated);
    set_state(monitor, "PENDING_UPDATE");
    begin(model, request, &balancer, &pool);
    get(model, request)
}

pub(crate) fn delete(model: &mut Model, request: &ApiRequest) -> Answer {
    let found = model.one(Kind::Monitor, &request.project, request.id())?;
    let balancer = balancer_of(found);
    let pool = pool_of(found);
    model.may_change_pool(&balancer, &pool, &request.project)?;
    let monitor = model.owned(Kind::Monitor, &request.project, request.id())?;
    set_state(monitor, "PENDING_DELETE");
    set(monitor, "operating_status", "OFFLINE");
    begin(model, request, &balancer, &pool);
    Ok(Reply::empty(204))
}
