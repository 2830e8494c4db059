//! Validation of the smaller kinds.

use serde_json::{Value, json};

use super::lists::{items, text};
use super::names;
use crate::resources::Resource;
use crate::status::StatusCause;

/// Bytes that a ConfigMap or Secret may hold.
const MAX_DATA: usize = 1024 * 1024;

/// Validates ConfigMaps and Secrets.
pub(super) fn data(resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let mut total = 0;
    for field in ["data", "binaryData"] {
        for (key, value) in new[field].as_object().into_iter().flatten() {
            total += value.as_str().map_or(0, str::len);
            causes.extend(
                names::config_key(key)
                    .iter()
                    .map(|p| StatusCause::invalid(format!("{field}[{key}]"), &json!(key), p)),
            );
        }
    }
    if total > MAX_DATA {
        causes.push(StatusCause::too_long(
            if resource.plural == "secrets" {
                "data"
            } else {
                ""
            },
            MAX_DATA,
        ));
    }
    if let Some(old) = old {
        if resource.plural == "secrets" && new["type"] != old["type"] {
            causes.push(StatusCause::invalid(
                "type",
                &new["type"],
                "field is immutable",
            ));
        }
        if old["immutable"] == true {
            if new["immutable"] != true {
                causes.push(StatusCause::forbidden(
                    "immutable",
                    "field is immutable when `immutable` is set",
                ));
            }
            for field in ["data", "binaryData"] {
                if new[field] != old[field] {
                    causes.push(StatusCause::forbidden(
                        field,
                        "field is immutable when `immutable` is set",
                    ));
                }
            }
        }
    }
    causes
}

pub(super) fn lease(lease: &Value) -> Vec<StatusCause> {
    let spec = &lease["spec"];
    let mut causes = Vec::new();
    if let Some(seconds) = spec["leaseDurationSeconds"]
        .as_i64()
        .filter(|seconds| *seconds <= 0)
    {
        causes.push(StatusCause::invalid(
            "spec.leaseDurationSeconds",
            &json!(seconds),
            "must be greater than 0",
        ));
    }
    if let Some(count) = spec["leaseTransitions"].as_i64().filter(|count| *count < 0) {
        causes.push(StatusCause::invalid(
            "spec.leaseTransitions",
            &json!(count),
            "must be greater than or equal to 0",
        ));
    }
    if spec["preferredHolder"]
        .as_str()
        .is_some_and(|holder| !holder.is_empty())
        && text(spec, "strategy").is_empty()
    {
        causes.push(StatusCause::forbidden(
            "spec.preferredHolder",
            "may only be specified when `strategy` is defined",
        ));
    }
    causes
}

pub(super) fn event(event: &Value) -> Vec<StatusCause> {
    let object = &event["involvedObject"];
    let own_namespace = text(&event["metadata"], "namespace");
    let of = text(object, "namespace");
    // Events about cluster-scoped objects are in the default namespace.
    if (of.is_empty() && own_namespace != "default" && own_namespace != "kube-system")
        || (!of.is_empty() && of != own_namespace)
    {
        return vec![StatusCause::invalid(
            "involvedObject.namespace",
            &json!(of),
            "does not match event.namespace",
        )];
    }
    Vec::new()
}

pub(super) fn endpoint_slice(new: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    const TYPES: [&str; 3] = ["FQDN", "IPv4", "IPv6"];
    let mut causes = Vec::new();
    let kind = text(new, "addressType");
    if let Some(old) = old
        && old["addressType"] != new["addressType"]
    {
        causes.push(StatusCause::invalid(
            "addressType",
            &new["addressType"],
            "field is immutable",
        ));
    }
    if kind.is_empty() {
        causes.push(StatusCause::required("addressType", ""));
    } else if !TYPES.contains(&kind) {
        causes.push(StatusCause::unsupported(
            "addressType",
            &json!(kind),
            &TYPES,
        ));
    }
    for (index, endpoint) in items(new, "endpoints") {
        if items(endpoint, "addresses").next().is_none() {
            causes.push(StatusCause::required(
                format!("endpoints[{index}].addresses"),
                "must contain at least 1 address",
            ));
        }
    }
    causes
}
