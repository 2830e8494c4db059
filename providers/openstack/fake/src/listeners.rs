//! Listeners API of the fake Octavia.

use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::{Value, json};

use crate::attributes;
use crate::model::{Kind, Model, Object, list as items, set, text};
use crate::octavia::{balancer_of, delete_part, merge, set_state, sorted_tags, unsupported};
use crate::refusal::Refusal;
use crate::requests::{Answer, ApiRequest, made, object, one};
use crate::{pages, pools, shown};

const FILTERS: &[&str] = &[
    "id",
    "name",
    "description",
    "project_id",
    "loadbalancer_id",
    "load_balancer_id",
    "protocol",
    "protocol_port",
    "default_pool_id",
    "provisioning_status",
    "operating_status",
    "admin_state_up",
    "connection_limit",
];
const PROTOCOLS: [&str; 7] = [
    "TCP",
    "HTTP",
    "HTTPS",
    "TERMINATED_HTTPS",
    "UDP",
    "SCTP",
    "PROMETHEUS",
];
/// Protocols of which only one may use a port.
const STREAMS: [&str; 5] = ["TCP", "HTTP", "HTTPS", "TERMINATED_HTTPS", "PROMETHEUS"];

pub(crate) fn list(model: &mut Model, request: &ApiRequest) -> Answer {
    pages::list(model, request, Kind::Listener, FILTERS, shown::listener)
}

pub(crate) fn get(model: &mut Model, request: &ApiRequest) -> Answer {
    let listener = model.one(Kind::Listener, &request.project, request.id())?;
    one(Kind::Listener, shown::listener(model, listener))
}

/// Checks the options of a listener against its protocol and Octavia's version.
fn check_options(
    model: &Model,
    balancer: &str,
    protocol: &str,
    wanted: &Object,
) -> Result<(), Refusal> {
    let is_set = |key: &str| wanted.get(key).is_some_and(|key| !key.is_null());
    let has_headers = wanted
        .get("insert_headers")
        .and_then(Value::as_object)
        .is_some_and(|object| !object.is_empty());
    if has_headers && !["HTTP", "TERMINATED_HTTPS"].contains(&protocol) {
        return Err(Refusal::invalid(format!(
            "insert-headers is not a valid option for a {protocol} protocol listener."
        )));
    }
    let timeouts = [
        "timeout_client_data",
        "timeout_member_connect",
        "timeout_member_data",
        "timeout_tcp_inspect",
    ];
    if model.is_ovn(balancer) {
        if !["TCP", "UDP", "SCTP"].contains(&protocol) {
            return Err(unsupported(&format!("{protocol} protocol")));
        }
        if let Some(key) = timeouts
            .into_iter()
            .chain(["allowed_cidrs"])
            .find(|key| is_set(key))
        {
            return Err(unsupported(key));
        }
    }
    if is_set("default_tls_container_ref") && protocol != "TERMINATED_HTTPS" {
        let message = format!(
            "Validation failure: Certificate container references are not allowed on {protocol} protocol listeners."
        );
        return Err(Refusal::invalid(message));
    }
    if let Some(limit) = wanted
        .get("connection_limit")
        .and_then(Value::as_i64)
        .filter(|number| *number < -1)
    {
        let message = format!(
            "Invalid input for field/attribute connection_limit. Value: '{limit}'. Value should be greater or equal to -1"
        );
        return Err(Refusal::invalid(message));
    }
    if let Some(reference) = wanted
        .get("default_tls_container_ref")
        .and_then(Value::as_str)
    {
        let id = reference.rsplit('/').next().unwrap_or_default();
        if model
            .get(Kind::Secret, id)
            .or_else(|| model.get(Kind::Container, id))
            .is_none()
        {
            return Err(Refusal::invalid(format!(
                "Could not retrieve certificate: ['{reference}']"
            )));
        }
    }
    let balancer = model.get(Kind::Balancer, balancer);
    let more = balancer
        .into_iter()
        .flat_map(|balancer| items(balancer, "additional_vips"))
        .map(|vip| &vip["ip_address"]);
    let vips = balancer
        .and_then(|balancer| balancer.get("vip_address"))
        .into_iter()
        .chain(more);
    let vips: Vec<IpAddr> = vips.filter_map(|vip| vip.as_str()?.parse().ok()).collect();
    for range in items(wanted, "allowed_cidrs")
        .iter()
        .filter_map(Value::as_str)
    {
        let parsed: IpNet = range.parse().map_err(|_| {
            Refusal::invalid(format!("Invalid input for field/attribute allowed_cidrs. Value: '{range}'. Value should be IPv4 or IPv6 CIDR format"))
        })?;
        if vips
            .iter()
            .all(|vip| vip.is_ipv6() != parsed.addr().is_ipv6())
        {
            let message = format!(
                "Validation failure: CIDR {range} IP version incompatible with all VIPs {vips:?} IP version."
            );
            return Err(Refusal::invalid(message));
        }
    }
    Ok(())
}

/// Refuses the ID of a pool that does not exist, or whose protocol the listener's does not permit.
fn check_pool(model: &Model, project: &str, protocol: &str, id: &Value) -> Result<(), Refusal> {
    let Some(id) = id.as_str() else { return Ok(()) };
    let pool = model.one(Kind::Pool, project, id)?;
    pools::check_protocols(protocol, text(pool, "protocol"))
}

/// Adds a listener, with its pool, `PENDING_CREATE`.
pub(crate) fn add(
    model: &mut Model,
    project: &str,
    balancer: &str,
    wanted: &Object,
) -> Result<String, Refusal> {
    model.check_attributes(wanted, "listener_.listener", attributes::LISTENER, false)?;
    let protocol = text(wanted, "protocol");
    if !PROTOCOLS.contains(&protocol) {
        let message = format!(
            "Invalid input for field/attribute protocol. Value: '{protocol}'. Value should be one of: {}",
            PROTOCOLS.join(", ")
        );
        return Err(Refusal::invalid(message));
    }
    let port = wanted
        .get("protocol_port")
        .and_then(Value::as_u64)
        .filter(|number| (1..=65_535).contains(number));
    let port =
        port.ok_or_else(|| Refusal::invalid("Invalid input for field/attribute protocol_port."))?;
    if protocol == "TERMINATED_HTTPS" && text(wanted, "default_tls_container_ref").is_empty() {
        return Err(Refusal::invalid(
            "Validation failure: An SNI or default certificate container reference must be provided for TERMINATED_HTTPS protocol listeners.",
        ));
    }
    check_options(model, balancer, protocol, wanted)?;
    let streams = |text: &str| STREAMS.contains(&text);
    let clashes = |object: &Object| {
        let other = text(object, "protocol");
        object["protocol_port"] == port
            && (other == protocol || (streams(other) && streams(protocol)))
    };
    if model.parts(Kind::Listener, balancer).any(clashes) {
        let message = format!(
            "Another Listener on this Load Balancer is already using protocol {protocol} and protocol_port {port}"
        );
        return Err(Refusal::conflict(message));
    }
    model.has_room(Kind::Listener, project)?;
    let pool = match (
        wanted.get("default_pool").and_then(Value::as_object),
        wanted.get("default_pool_id"),
    ) {
        (Some(pool), _) => {
            pools::check_protocols(protocol, text(pool, "protocol"))?;
            Value::from(pools::add(model, project, balancer, pool)?)
        }
        (None, id) => {
            let id = id.cloned().unwrap_or_default();
            check_pool(model, project, protocol, &id)?;
            id
        }
    };
    let id = model.new_id();
    let now = model.clock.local();
    let number =
        |key: &str, default: i64| wanted.get(key).and_then(Value::as_i64).unwrap_or(default);
    let or_null = |key: &str| wanted.get(key).cloned().unwrap_or_default();
    let listener = json!({
        "id": id, "name": text(wanted, "name"), "description": text(wanted, "description"),
        "provisioning_status": "PENDING_CREATE", "operating_status": "OFFLINE", "admin_state_up": true, "protocol": protocol,
        "protocol_port": port, "connection_limit": number("connection_limit", -1),
        "default_tls_container_ref": or_null("default_tls_container_ref"), "sni_container_refs": [], "project_id": project,
        "tenant_id": project, "default_pool_id": pool, "l7policies": [],
        "insert_headers": wanted.get("insert_headers").cloned().unwrap_or_else(|| json!({})), "created_at": now,
        "updated_at": null, "loadbalancers": [{"id": balancer}], "timeout_client_data": number("timeout_client_data", 50_000),
        "timeout_member_connect": number("timeout_member_connect", 5000),
        "timeout_member_data": number("timeout_member_data", 50_000),
        "timeout_tcp_inspect": number("timeout_tcp_inspect", 0), "tags": sorted_tags(items(wanted, "tags")),
        "allowed_cidrs": or_null("allowed_cidrs"), "client_ca_tls_container_ref": null, "client_authentication": "NONE",
        "client_crl_container_ref": null, "tls_ciphers": null, "tls_versions": null, "alpn_protocols": null,
        "hsts_max_age": null, "hsts_include_subdomains": false, "hsts_preload": false,
    });
    model.insert(
        Kind::Listener,
        listener.as_object().cloned().unwrap_or_default(),
    );
    Ok(id)
}

pub(crate) fn create(model: &mut Model, request: &ApiRequest) -> Answer {
    let wanted = object(request, Kind::Listener)?;
    let balancer = text(wanted, "loadbalancer_id").to_owned();
    model.check_attributes(wanted, "listener_.listener", attributes::LISTENER, false)?;
    model.may_change(&balancer, &request.project)?;
    let id = add(model, &request.project, &balancer, wanted)?;
    model.begin(&balancer, "PENDING_UPDATE", &request.effects);
    let listener = model.one(Kind::Listener, &request.project, &id)?;
    made(Kind::Listener, shown::listener(model, listener))
}

pub(crate) fn change(model: &mut Model, request: &ApiRequest) -> Answer {
    let change = object(request, Kind::Listener)?;
    model.check_attributes(change, "listener_.listener", attributes::LISTENER, true)?;
    let found = model.one(Kind::Listener, &request.project, request.id())?;
    let balancer = balancer_of(found);
    let protocol = text(found, "protocol").to_owned();
    check_options(model, &balancer, &protocol, change)?;
    check_pool(
        model,
        &request.project,
        &protocol,
        &change.get("default_pool_id").cloned().unwrap_or_default(),
    )?;
    model.may_change(&balancer, &request.project)?;
    let updated = model.clock.local();
    let listener = model.owned(Kind::Listener, &request.project, request.id())?;
    merge(listener, change, &updated);
    if listener["insert_headers"].is_null() {
        set(listener, "insert_headers", json!({}));
    }
    set_state(listener, "PENDING_UPDATE");
    model.begin(&balancer, "PENDING_UPDATE", &request.effects);
    get(model, request)
}

pub(crate) fn delete(model: &mut Model, request: &ApiRequest) -> Answer {
    delete_part(model, request, Kind::Listener)
}
