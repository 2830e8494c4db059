//! Members API of the fake Octavia.

use std::net::IpAddr;

use fake_cloud::Reply;
use serde_json::{Value, json};

use crate::attributes;
use crate::model::{Kind, Model, Object, list as items, set, text};
use crate::octavia::{balancer_of, merge, set_state, sorted_tags};
use crate::refusal::Refusal;
use crate::requests::{Answer, ApiRequest};

/// Returns the pool of a request about members. For these, Octavia words the error about a missing pool differently.
fn pool<'a>(model: &'a Model, request: &ApiRequest) -> Result<&'a Object, Refusal> {
    let missing = |_| {
        Refusal::new(
            404,
            "Bad Request",
            format!("Pool {} not found.", request.id()),
        )
    };
    model
        .one(Kind::Pool, &request.project, request.id())
        .map_err(missing)
}

fn missing(id: &str) -> Refusal {
    Refusal::new(404, "", format!("Member {id} not found."))
}

fn key(member: &Object) -> (String, u64) {
    (
        text(member, "address").to_owned(),
        member
            .get("protocol_port")
            .and_then(Value::as_u64)
            .unwrap_or_default(),
    )
}

fn check(model: &Model, wanted: &Object) -> Result<(), Refusal> {
    model.check_attributes(wanted, "member_.member", attributes::MEMBER, false)?;
    let (address, port) = key(wanted);
    if address.parse::<IpAddr>().is_err() {
        let message = format!(
            "Invalid input for field/attribute address. Value: '{address}'. Value should be IPv4 or IPv6 format"
        );
        return Err(Refusal::invalid(message));
    }
    if !(1..=65_535).contains(&port) {
        return Err(Refusal::invalid(format!(
            "Invalid input for field/attribute protocol_port. Value: '{port}'."
        )));
    }
    match wanted.get("subnet_id").and_then(Value::as_str) {
        Some(subnet) if model.get(Kind::Subnet, subnet).is_none() => {
            Err(Refusal::invalid(format!("Subnet {subnet} not found.")))
        }
        _ => Ok(()),
    }
}

fn taken(address: &str, port: u64) -> Refusal {
    Refusal::conflict(format!(
        "Another member on this pool is already using ip {address} on protocol_port {port}"
    ))
}

/// Adds a member, `PENDING_CREATE`.
pub(crate) fn add(
    model: &mut Model,
    project: &str,
    pool: &str,
    wanted: &Object,
) -> Result<Object, Refusal> {
    check(model, wanted)?;
    let (address, port) = key(wanted);
    let is_there = |object: &Object| {
        key(object) == (address.clone(), port)
            && text(object, "provisioning_status") != "PENDING_DELETE"
    };
    if model.members.get(pool).into_iter().flatten().any(is_there) {
        return Err(taken(&address, port));
    }
    let or_null = |key: &str| wanted.get(key).cloned().unwrap_or_default();
    let member = json!({
        "id": model.new_id(), "name": or_null("name"), "operating_status": "NO_MONITOR",
        "provisioning_status": "PENDING_CREATE", "admin_state_up": true, "address": address, "protocol_port": port,
        "weight": wanted.get("weight").cloned().unwrap_or_else(|| 1.into()), "backup": false,
        "subnet_id": or_null("subnet_id"), "project_id": project, "tenant_id": project, "created_at": model.clock.local(),
        "updated_at": null, "monitor_address": or_null("monitor_address"), "monitor_port": or_null("monitor_port"),
        "tags": sorted_tags(items(wanted, "tags")), "vnic_type": "normal",
    });
    let member = member.as_object().cloned().unwrap_or_default();
    model
        .members
        .entry(pool.to_owned())
        .or_default()
        .push(member.clone());
    Ok(member)
}

pub(crate) fn list(model: &mut Model, request: &ApiRequest) -> Answer {
    pool(model, request)?;
    let members = model.members.get(request.id()).cloned().unwrap_or_default();
    crate::pages::page_of(model, request, "members", None, members)
}

pub(crate) fn get(model: &mut Model, request: &ApiRequest) -> Answer {
    pool(model, request)?;
    let id = request.nth_id(1);
    let found = model
        .members
        .get(request.id())
        .into_iter()
        .flatten()
        .find(|other_id| text(other_id, "id") == id);
    let member = found.ok_or_else(|| missing(id))?;
    Ok(Reply::new(200, json!({"member": member})))
}

/// Starts an operation of the worker on this request's pool.
fn begin(model: &mut Model, request: &ApiRequest, balancer: &str) {
    if let Some(pool) = model.get_mut(Kind::Pool, request.id()) {
        set_state(pool, "PENDING_UPDATE");
    }
    model.begin(balancer, "PENDING_UPDATE", &request.effects);
}

fn wanted(request: &ApiRequest) -> Result<&Object, Refusal> {
    request
        .body
        .get("member")
        .and_then(Value::as_object)
        .ok_or_else(|| Refusal::invalid("Missing argument: \"member_\""))
}

pub(crate) fn create(model: &mut Model, request: &ApiRequest) -> Answer {
    let balancer = balancer_of(pool(model, request)?);
    model.may_change_pool(&balancer, request.id(), &request.project)?;
    let member = add(model, &request.project, request.id(), wanted(request)?)?;
    begin(model, request, &balancer);
    Ok(Reply::new(201, json!({"member": member})))
}

/// Replaces all members, or only adds some; those with the same address and port stay.
pub(crate) fn replace(model: &mut Model, request: &ApiRequest) -> Answer {
    let balancer = balancer_of(pool(model, request)?);
    if !model.options.bulk {
        return Err(Refusal::new(
            501,
            "",
            "Provider does not support a requested action: batch member update",
        ));
    }
    let wanted: Vec<&Object> = request
        .body
        .get("members")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_object)
        .collect();
    wanted.iter().try_for_each(|object| check(model, object))?;
    model.may_change_pool(&balancer, request.id(), &request.project)?;
    let mut keys = std::collections::BTreeSet::new();
    if let Some((address, port)) = wanted
        .iter()
        .map(|object| key(object))
        .find(|key| !keys.insert(key.clone()))
    {
        return Err(taken(&address, port));
    }
    let is_additive = request
        .query("additive_only")
        .is_some_and(|query| query.eq_ignore_ascii_case("true"));
    let updated = model.clock.local();
    let members = model.members.entry(request.id().to_owned()).or_default();
    let by_key: std::collections::BTreeMap<_, _> =
        wanted.iter().map(|object| (key(object), *object)).collect();
    let mut known = std::collections::BTreeSet::new();
    for member in members.iter_mut() {
        match by_key.get(&key(member)) {
            Some(wanted) => {
                known.insert(key(member));
                for key in ["name", "monitor_port", "monitor_address"]
                    .into_iter()
                    .filter(|monitor_address| !wanted.contains_key(*monitor_address))
                {
                    set(
                        member,
                        key,
                        if key == "name" {
                            "".into()
                        } else {
                            Value::Null
                        },
                    );
                }
                merge(member, wanted, &updated);
                set_state(member, "PENDING_UPDATE");
            }
            None if !is_additive => set_state(member, "PENDING_DELETE"),
            None => {}
        }
    }
    for new in wanted
        .into_iter()
        .filter(|object| !known.contains(&key(object)))
    {
        add(model, &request.project, request.id(), new)?;
    }
    begin(model, request, &balancer);
    Ok(Reply::empty(202))
}

/// Returns the member that the path names.
fn member_mut<'a>(model: &'a mut Model, request: &ApiRequest) -> Result<&'a mut Object, Refusal> {
    let id = request.nth_id(1);
    let found = model
        .members
        .get_mut(request.id())
        .into_iter()
        .flatten()
        .find(|member| text(member, "id") == id);
    found.ok_or_else(|| missing(id))
}

pub(crate) fn change(model: &mut Model, request: &ApiRequest) -> Answer {
    let balancer = balancer_of(pool(model, request)?);
    let change = wanted(request)?;
    model.check_attributes(change, "member_.member", attributes::MEMBER, true)?;
    member_mut(model, request)?;
    model.may_change_pool(&balancer, request.id(), &request.project)?;
    let updated = model.clock.local();
    let member = member_mut(model, request)?;
    merge(member, change, &updated);
    set_state(member, "PENDING_UPDATE");
    let member = member.clone();
    begin(model, request, &balancer);
    Ok(Reply::new(200, json!({"member": member})))
}

pub(crate) fn delete(model: &mut Model, request: &ApiRequest) -> Answer {
    let balancer = balancer_of(pool(model, request)?);
    member_mut(model, request)?;
    model.may_change_pool(&balancer, request.id(), &request.project)?;
    set_state(member_mut(model, request)?, "PENDING_DELETE");
    begin(model, request, &balancer);
    Ok(Reply::empty(204))
}
