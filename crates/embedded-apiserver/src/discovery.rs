//! Discovery: versions, groups, resources and health; the legacy and the aggregated form.

use axum::body::Body;
use http::{HeaderValue, Method, Response, header};
use serde_json::{Map, Value, json};

use crate::negotiate::{Form, json_response, respond, to_bytes};
use crate::request::Request;
use crate::resources::{GROUPS, RESOURCES, Resource};
use crate::server::Inner;
use crate::status::ApiError;

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Answers a path that is no resource; none if it is not one of discovery's.
pub(crate) fn answer(
    inner: &Inner,
    request: &Request,
    method: &Method,
) -> Option<Result<Response<Body>, ApiError>> {
    let path = request.path.trim_end_matches('/');
    if !matches!(method.as_str(), "GET" | "HEAD") {
        return None;
    }
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    let value = match parts[..] {
        ["healthz" | "livez" | "readyz", ..] => return Some(Ok(text("ok"))),
        ["version"] => version(inner),
        ["api" | "apis"] if wants_aggregated(request) => {
            return Some(Ok(aggregated(parts[0] == "api")));
        }
        ["api"] => api_versions(request),
        ["api", "v1"] => resource_list("", "v1"),
        ["apis"] => {
            json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": GROUPS.iter().map(|(name, version)| group(name, version)).collect::<Vec<_>>()})
        }
        ["apis", name] => {
            let (name, version) = GROUPS.iter().find(|(group, _)| *group == name)?;
            let mut group = group(name, version);
            group["kind"] = json!("APIGroup");
            group["apiVersion"] = json!("v1");
            group
        }
        ["apis", name, version] if GROUPS.contains(&(name, version)) => {
            resource_list(name, version)
        }
        [""] => json!({"paths": paths()}),
        _ => return None,
    };
    Some(Form::of(&request.headers).map(|form| respond(form, 200, to_bytes(&value))))
}

fn text(body: &'static str) -> Response<Body> {
    let mut response = json_response(200, body.into());
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    response
}

fn version(inner: &Inner) -> Value {
    let version = &inner.options.version;
    let mut numbers = version.trim_start_matches('v').split('.');
    let major = numbers.next().unwrap_or("1");
    let minor = numbers.next().unwrap_or("36");
    let previous = minor
        .parse::<u32>()
        .map_or(0, |minor| minor.saturating_sub(1))
        .to_string();
    json!({
        "major": major, "minor": minor, "emulationMajor": major, "emulationMinor": minor,
        "minCompatibilityMajor": major, "minCompatibilityMinor": previous, "gitVersion": version,
        "gitCommit": "$Format:%H$", "gitTreeState": "", "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none", "compiler": "rustc", "platform": format!("linux/{}", platform()),
    })
}

fn platform() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn api_versions(request: &Request) -> Value {
    let host = request.header(header::HOST);
    json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": host}]})
}

fn group(name: &str, version: &str) -> Value {
    let version = json!({"groupVersion": format!("{name}/{version}"), "version": version});
    json!({"name": name, "versions": [version], "preferredVersion": version})
}

fn of_group<'a>(group: &'a str, version: &'a str) -> impl Iterator<Item = &'static Resource> + 'a {
    RESOURCES
        .iter()
        .filter(move |resource| resource.group == group && resource.version == version)
}

fn paths() -> Vec<String> {
    let mut out = vec!["/api".to_owned(), "/api/v1".to_owned(), "/apis".to_owned()];
    for (group, version) in GROUPS {
        out.push(format!("/apis/{group}"));
        out.push(format!("/apis/{group}/{version}"));
    }
    out.extend(
        [
            "/healthz",
            "/livez",
            "/openapi/v2",
            "/openapi/v3",
            "/readyz",
            "/version",
        ]
        .map(str::to_owned),
    );
    out
}

fn resource_list(group: &str, version: &str) -> Value {
    let mut resources = Vec::new();
    for resource in of_group(group, version) {
        resources.push(legacy(resource));
        for (name, kind, verbs) in subresources(resource) {
            let mut entry = json!({
                "name": format!("{}/{name}", resource.plural), "singularName": "", "namespaced": resource.namespaced,
                "kind": kind, "verbs": verbs,
            });
            if name == "token" {
                entry["group"] = json!("authentication.k8s.io");
                entry["version"] = json!("v1");
            }
            resources.push(entry);
        }
    }
    resources.sort_by_key(|resource| resource["name"].as_str().unwrap_or_default().to_owned());
    let mut out =
        json!({"kind": "APIResourceList", "groupVersion": version, "resources": resources});
    if !group.is_empty() {
        out["apiVersion"] = json!("v1");
        out["groupVersion"] = json!(format!("{group}/{version}"));
    }
    out
}

/// Returns name, kind and verbs of a resource's subresources.
fn subresources(resource: &Resource) -> Vec<(&'static str, &'static str, Vec<&'static str>)> {
    let mut out = Vec::new();
    if resource.plural == "namespaces" {
        out.push(("finalize", resource.kind, vec!["update"]));
    }
    if resource.has_status {
        out.push(("status", resource.kind, vec!["get", "patch", "update"]));
    }
    if resource.plural == "serviceaccounts" {
        out.push(("token", "TokenRequest", vec!["create"]));
    }
    out
}

fn legacy(resource: &Resource) -> Value {
    let mut out = json!({
        "name": resource.plural, "singularName": resource.singular, "namespaced": resource.namespaced,
        "kind": resource.kind, "verbs": resource.verbs.names(),
    });
    add_names(resource, &mut out);
    out
}

fn add_names(resource: &Resource, out: &mut Value) {
    if !resource.short_names.is_empty() {
        out["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        out["categories"] = json!(resource.categories);
    }
}

fn wants_aggregated(request: &Request) -> bool {
    let accept = request.header(header::ACCEPT);
    accept.split(',').any(|clause| {
        let parts: Vec<&str> = clause.split(';').map(str::trim).collect();
        ["as=APIGroupDiscoveryList", "v=v2", "g=apidiscovery.k8s.io"]
            .iter()
            .all(|wanted| parts.contains(wanted))
    })
}

fn aggregated(core: bool) -> Response<Body> {
    let groups: Vec<(&str, &str)> = if core {
        vec![("", "v1")]
    } else {
        GROUPS.to_vec()
    };
    let items: Vec<Value> = groups
        .into_iter()
        .map(|(group, version)| {
            let resources: Vec<Value> = of_group(group, version).map(discovered).collect();
            let mut metadata = Map::new();
            if !group.is_empty() {
                metadata.insert("name".to_owned(), json!(group));
            }
            json!({"metadata": metadata, "versions": [{"version": version, "resources": resources, "freshness": "Current"}]})
        })
        .collect();
    let value = json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items});
    let mut response = json_response(200, to_bytes(&value));
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(AGGREGATED));
    response
}

fn discovered(resource: &'static Resource) -> Value {
    let kind = json!({"group": "", "version": "", "kind": resource.kind});
    let mut out = json!({
        "resource": resource.plural, "responseKind": kind, "singularResource": resource.singular,
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" }, "verbs": resource.verbs.names(),
    });
    add_names(resource, &mut out);
    let subresources: Vec<Value> = subresources(resource)
        .into_iter()
        .map(|(name, kind, verbs)| {
            let (group, version) = if name == "token" { ("authentication.k8s.io", "v1") } else { ("", "") };
            json!({"subresource": name, "responseKind": {"group": group, "version": version, "kind": kind}, "verbs": verbs})
        })
        .collect();
    if !subresources.is_empty() {
        out["subresources"] = Value::Array(subresources);
    }
    out
}
