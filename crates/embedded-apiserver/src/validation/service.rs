//! Services: ports, type, addresses, traffic policies, and what may not change.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::lists::{items, text};
use super::names;
use crate::status::StatusCause;

const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
const PORT_RANGE: &str = "must be between 1 and 65535, inclusive";
const NOT_AN_IP: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";

pub(super) fn check(new: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    let mut causes = old.map(|old| immutable(new, old)).unwrap_or_default();
    let spec = &new["spec"];
    let kind = text(spec, "type");
    let headless = text(spec, "clusterIP") == "None" || spec["clusterIPs"][0] == "None";
    if items(spec, "ports").next().is_none() && !headless && kind != "ExternalName" {
        causes.push(StatusCause::required("spec.ports", ""));
    }
    match kind {
        "LoadBalancer" if headless => {
            causes.push(StatusCause::invalid(
                "spec.clusterIPs[0]",
                &json!("None"),
                "may not be set to 'None' for LoadBalancer services",
            ));
        }
        "NodePort" if headless => {
            causes.push(StatusCause::invalid(
                "spec.clusterIPs[0]",
                &json!("None"),
                "may not be set to 'None' for NodePort services",
            ));
        }
        "ExternalName" => causes.extend(external_name(spec)),
        _ => {}
    }
    causes.extend(ports(spec));
    causes.extend(selector(spec));
    choice(spec, "sessionAffinity", &["ClientIP", "None"], &mut causes);
    for (index, address) in items(spec, "externalIPs") {
        if address
            .as_str()
            .is_none_or(|text| text.parse::<IpAddr>().is_err())
        {
            causes.push(StatusCause::invalid(
                format!("spec.externalIPs[{index}]"),
                address,
                NOT_AN_IP,
            ));
        }
    }
    if kind.is_empty() {
        causes.push(StatusCause::required("spec.type", ""));
    } else {
        choice(spec, "type", &TYPES, &mut causes);
    }
    causes.extend(load_balancer(spec, kind));
    causes.extend(policies(spec, kind));
    causes.extend(cluster_address(spec));
    causes
}

fn choice(spec: &Value, field: &str, supported: &[&str], causes: &mut Vec<StatusCause>) {
    let value = text(spec, field);
    if !value.is_empty() && !supported.contains(&value) {
        causes.push(StatusCause::unsupported(
            format!("spec.{field}"),
            &spec[field],
            supported,
        ));
    }
}

/// Validates that immutable fields do not change.
fn immutable(new: &Value, old: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let spec = &new["spec"];
    let before = &old["spec"];
    let external = text(spec, "type") == "ExternalName" || text(before, "type") == "ExternalName";
    let had = &before["clusterIPs"];
    let has = &spec["clusterIPs"];
    // Clients that know the single field only write that one; the list follows it.
    let wanted = if spec["clusterIP"] == before["clusterIP"] {
        has.clone()
    } else {
        json!([spec["clusterIP"]])
    };
    if !external && had.is_array() && !wanted[0].is_null() && wanted[0] != had[0] {
        causes.push(StatusCause::invalid(
            "spec.clusterIPs[0]",
            &wanted,
            "may not change once set",
        ));
    }
    let class = &before["loadBalancerClass"];
    if text(spec, "type") == "LoadBalancer"
        && text(before, "type") == "LoadBalancer"
        && spec["loadBalancerClass"] != *class
    {
        causes.push(StatusCause::invalid(
            "spec.loadBalancerClass",
            &spec["loadBalancerClass"],
            "may not change once set",
        ));
    }
    causes
}

fn external_name(spec: &Value) -> Vec<StatusCause> {
    let name = text(spec, "externalName").trim_end_matches('.');
    let mut causes = Vec::new();
    if !text(spec, "clusterIP").is_empty() {
        causes.push(StatusCause::forbidden(
            "spec.clusterIPs",
            "may not be set for ExternalName services",
        ));
    }
    if name.is_empty() {
        causes.push(StatusCause::required("spec.externalName", ""));
    } else {
        causes.extend(
            names::subdomain_1123(name)
                .iter()
                .map(|p| StatusCause::invalid("spec.externalName", &json!(name), p)),
        );
    }
    causes
}

fn ports(spec: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let count = items(spec, "ports").count();
    let mut seen_names: Vec<&str> = Vec::new();
    let mut seen: Vec<(&Value, &str)> = Vec::new();
    for (index, port) in items(spec, "ports") {
        let field = format!("spec.ports[{index}]");
        let name = text(port, "name");
        if name.is_empty() && count > 1 {
            causes.push(StatusCause::required(format!("{field}.name"), ""));
        } else if !name.is_empty() {
            causes.extend(
                names::label_1123(name)
                    .iter()
                    .map(|p| StatusCause::invalid(format!("{field}.name"), &json!(name), p)),
            );
            if seen_names.contains(&name) {
                causes.push(StatusCause::duplicate(
                    format!("{field}.name"),
                    &format!("{name:?}"),
                ));
            }
            seen_names.push(name);
        }
        let number = |field: &str| port[field].as_i64();
        if !number("port").is_some_and(|port| (1..=65535).contains(&port)) {
            causes.push(StatusCause::invalid(
                format!("{field}.port"),
                &json!(number("port").unwrap_or(0)),
                PORT_RANGE,
            ));
        }
        let protocol = text(port, "protocol");
        if !PROTOCOLS.contains(&protocol) {
            causes.push(StatusCause::unsupported(
                format!("{field}.protocol"),
                &json!(protocol),
                &PROTOCOLS,
            ));
        }
        causes.extend(target_port(port, &field));
        if seen.contains(&(&port["port"], protocol)) {
            let shown = json!({"port": port["port"], "protocol": protocol});
            let shown = format!(
                "{{\"Name\":\"\",\"Protocol\":{:?},\"AppProtocol\":null,\"Port\":{},\"TargetPort\":0,\"NodePort\":0}}",
                protocol, shown["port"]
            );
            causes.push(StatusCause::duplicate(field, &shown));
        }
        seen.push((&port["port"], protocol));
    }
    let kind = text(spec, "type");
    if kind == "ClusterIP" || kind == "ExternalName" {
        for (index, port) in items(spec, "ports") {
            if port["nodePort"].as_i64().is_some_and(|port| port != 0) {
                let detail = "may not be used when `type` is 'ClusterIP'";
                causes.push(StatusCause::forbidden(
                    format!("spec.ports[{index}].nodePort"),
                    detail,
                ));
            }
        }
    }
    causes
}

fn target_port(port: &Value, field: &str) -> Vec<StatusCause> {
    let target = &port["targetPort"];
    let field = format!("{field}.targetPort");
    if let Some(number) = target.as_i64() {
        if (1..=65535).contains(&number) {
            return Vec::new();
        }
        return vec![StatusCause::invalid(field, target, PORT_RANGE)];
    }
    let name = target.as_str().unwrap_or_default();
    port_name(name)
        .into_iter()
        .map(|problem| StatusCause::invalid(field.clone(), &json!(name), &problem))
        .collect()
}

/// Validates the name of a port: an IANA service name.
fn port_name(name: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if name.len() > 15 {
        problems.push("must be no more than 15 characters".to_owned());
    }
    if !name
        .chars()
        .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
    {
        problems.push(
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned(),
        );
    }
    if !name.chars().any(|c| c.is_ascii_lowercase()) {
        problems.push("must contain at least one letter (a-z)".to_owned());
    }
    if name.contains("--") {
        problems.push("must not contain consecutive hyphens".to_owned());
    }
    if name.starts_with('-') || name.ends_with('-') {
        problems.push("must not begin or end with a hyphen".to_owned());
    }
    problems
}

fn selector(spec: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    for (key, value) in spec["selector"].as_object().into_iter().flatten() {
        let value = value.as_str().unwrap_or_default();
        causes.extend(
            names::qualified_name(key)
                .iter()
                .map(|p| StatusCause::invalid("spec.selector", &json!(key), p)),
        );
        causes.extend(
            names::label_value(value)
                .iter()
                .map(|p| StatusCause::invalid("spec.selector", &json!(value), p)),
        );
    }
    causes
}

fn load_balancer(spec: &Value, kind: &str) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let ranges: Vec<_> = items(spec, "loadBalancerSourceRanges").collect();
    if !ranges.is_empty() && kind != "LoadBalancer" {
        let detail = "may only be used when `type` is 'LoadBalancer'";
        causes.push(StatusCause::forbidden(
            "spec.LoadBalancerSourceRanges",
            detail,
        ));
    }
    for (index, range) in ranges {
        if !super::node::is_cidr(range.as_str().unwrap_or_default().trim()) {
            let detail = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
            causes.push(StatusCause::invalid(
                format!("spec.LoadBalancerSourceRanges[{index}]"),
                range,
                detail,
            ));
        }
    }
    if kind == "LoadBalancer" {
        if spec["allocateLoadBalancerNodePorts"].is_null() {
            causes.push(StatusCause::required(
                "spec.allocateLoadBalancerNodePorts",
                "",
            ));
        }
        if let Some(class) = spec["loadBalancerClass"].as_str() {
            causes.extend(
                names::qualified_name(class)
                    .iter()
                    .map(|p| StatusCause::invalid("spec.loadBalancerClass", &json!(class), p)),
            );
        }
    } else {
        if !spec["allocateLoadBalancerNodePorts"].is_null() {
            let detail = "may only be used when `type` is 'LoadBalancer'";
            causes.push(StatusCause::forbidden(
                "spec.allocateLoadBalancerNodePorts",
                detail,
            ));
        }
        if !spec["loadBalancerClass"].is_null() {
            let detail = "may only be used when `type` is 'LoadBalancer'";
            causes.push(StatusCause::forbidden("spec.loadBalancerClass", detail));
        }
    }
    causes
}

fn policies(spec: &Value, kind: &str) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let external =
        matches!(kind, "NodePort" | "LoadBalancer") || items(spec, "externalIPs").next().is_some();
    match spec["externalTrafficPolicy"].as_str() {
        Some(_) if !external => {
            let detail = "may only be set for externally-accessible services";
            causes.push(StatusCause::invalid(
                "spec.externalTrafficPolicy",
                &spec["externalTrafficPolicy"],
                detail,
            ));
        }
        Some(_) => choice(
            spec,
            "externalTrafficPolicy",
            &["Cluster", "Local"],
            &mut causes,
        ),
        None => {}
    }
    let needs_check = kind == "LoadBalancer" && spec["externalTrafficPolicy"] == "Local";
    if !needs_check
        && spec["healthCheckNodePort"]
            .as_i64()
            .is_some_and(|port| port != 0)
    {
        let detail =
            "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        causes.push(StatusCause::invalid(
            "spec.healthCheckNodePort",
            &spec["healthCheckNodePort"],
            detail,
        ));
    }
    choice(
        spec,
        "internalTrafficPolicy",
        &["Cluster", "Local"],
        &mut causes,
    );
    causes
}

fn cluster_address(spec: &Value) -> Vec<StatusCause> {
    let wanted = if spec["clusterIPs"][0].is_null() {
        &spec["clusterIP"]
    } else {
        &spec["clusterIPs"][0]
    };
    let Some(address) = wanted.as_str() else {
        return Vec::new();
    };
    if !address.is_empty() && address != "None" && address.parse::<IpAddr>().is_err() {
        return vec![StatusCause::invalid(
            "spec.clusterIPs[0]",
            wanted,
            NOT_AN_IP,
        )];
    }
    Vec::new()
}

/// Validates the status of a Service.
pub(super) fn status(new: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let balancer = &new["status"]["loadBalancer"];
    let ingress: Vec<_> = items(balancer, "ingress").collect();
    if !ingress.is_empty() && text(&new["spec"], "type") != "LoadBalancer" {
        let detail = "may only be used when `spec.type` is \"LoadBalancer\"";
        causes.push(StatusCause::forbidden(
            "status.loadBalancer.ingress",
            detail,
        ));
        return causes;
    }
    for (index, entry) in ingress {
        let field = format!("status.loadBalancer.ingress[{index}]");
        if let Some(address) = entry["ip"].as_str() {
            if address.parse::<IpAddr>().is_err() {
                causes.push(StatusCause::invalid(
                    format!("{field}.ip"),
                    &entry["ip"],
                    NOT_AN_IP,
                ));
            }
            if entry["ipMode"].is_null() {
                causes.push(StatusCause::required(format!("{field}.ipMode"), ""));
            }
        } else if !entry["ipMode"].is_null() {
            causes.push(StatusCause::forbidden(
                format!("{field}.ipMode"),
                "may not be specified when `ip` is not set",
            ));
        }
        if let Some(mode) = entry["ipMode"]
            .as_str()
            .filter(|mode| !["VIP", "Proxy"].contains(mode))
        {
            causes.push(StatusCause::unsupported(
                format!("{field}.ipMode"),
                &json!(mode),
                &["Proxy", "VIP"],
            ));
        }
        if let Some(name) = entry["hostname"].as_str() {
            causes.extend(
                names::subdomain_1123(name)
                    .iter()
                    .map(|p| StatusCause::invalid(format!("{field}.hostname"), &json!(name), p)),
            );
            if name.parse::<IpAddr>().is_ok() {
                causes.push(StatusCause::invalid(
                    format!("{field}.hostname"),
                    &json!(name),
                    "must be a DNS name, not an IP address",
                ));
            }
        }
    }
    causes
}
