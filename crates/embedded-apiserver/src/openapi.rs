//! `/openapi/v3` and `/openapi/v2`: enough for kubectl to validate, to merge and to explain: the fields with their
//! types and merge rules, and which query options each resource takes.

use std::sync::Arc;

use axum::body::Body;
use http::{HeaderValue, Response, header};
use serde_json::{Map, Value, json};

use crate::negotiate::{json_response, to_bytes};
use crate::request::Request;
use crate::resources::{GROUPS, RESOURCES, Resource, Verbs};
use crate::schema::{ListKind, ObjectType, Schema, Type};
use crate::server::Inner;
use crate::status::ApiError;

/// Answers a path under `/openapi`.
pub(crate) fn answer(
    inner: &Arc<Inner>,
    request: &Request,
) -> Option<Result<Response<Body>, ApiError>> {
    let path = request.path.trim_end_matches('/');
    if path == "/openapi/v3" {
        return Some(Ok(json_response(200, to_bytes(&index()))));
    }
    if path == "/openapi/v2" {
        return Some(Ok(version_2(inner, request)));
    }
    let of = path.strip_prefix("/openapi/v3/")?;
    let (group, version) = match of {
        "api/v1" => ("", "v1"),
        other => {
            let (group, version) = other.strip_prefix("apis/")?.split_once('/')?;
            GROUPS
                .iter()
                .find(|known| **known == (group, version))
                .copied()?
        }
    };
    Some(Ok(json_response(
        200,
        to_bytes(&document(inner, group, version)),
    )))
}

fn index() -> Value {
    let mut paths = Map::new();
    let mut add = |path: &str| {
        // The hash only has to change with the document, which never changes while the server runs.
        paths.insert(
            path.to_owned(),
            json!({"serverRelativeURL": format!("/openapi/v3/{path}?hash=1")}),
        );
    };
    add("api/v1");
    for (group, version) in GROUPS {
        add(&format!("apis/{group}/{version}"));
    }
    json!({"paths": paths})
}

fn document(inner: &Inner, group: &str, version: &str) -> Value {
    let resources = || {
        RESOURCES
            .iter()
            .filter(move |r| r.group == group && r.version == version)
    };
    let mut paths = Map::new();
    for resource in resources() {
        add_paths(resource, &mut paths);
    }
    json!({
        "openapi": "3.0.0", "info": {"title": "Kubernetes", "version": inner.options.version},
        "paths": paths, "components": {"schemas": schemas()},
    })
}

fn add_paths(resource: &Resource, paths: &mut Map<String, Value>) {
    let base = if resource.group.is_empty() {
        "/api/v1".to_owned()
    } else {
        format!("/apis/{}/{}", resource.group, resource.version)
    };
    let scope = if resource.namespaced {
        "/namespaces/{namespace}"
    } else {
        ""
    };
    let collection = format!("{base}{scope}/{}", resource.plural);
    let mut many = Map::new();
    let mut one = Map::new();
    if resource.verbs != Verbs::CreateOnly {
        many.insert("get".to_owned(), operation(resource, "list", &[]));
        one.insert("get".to_owned(), operation(resource, "get", &[]));
    }
    if resource.verbs != Verbs::ReadOnly {
        let write = ["dryRun", "fieldManager", "fieldValidation"];
        many.insert("post".to_owned(), operation(resource, "post", &write));
        if resource.verbs != Verbs::CreateOnly {
            one.insert("put".to_owned(), operation(resource, "put", &write));
            one.insert(
                "patch".to_owned(),
                operation(
                    resource,
                    "patch",
                    &["dryRun", "fieldManager", "fieldValidation", "force"],
                ),
            );
            one.insert(
                "delete".to_owned(),
                operation(resource, "delete", &["dryRun", "propagationPolicy"]),
            );
        }
    }
    paths.insert(collection.clone(), Value::Object(many));
    if !one.is_empty() {
        paths.insert(format!("{collection}/{{name}}"), Value::Object(one));
    }
}

fn operation(resource: &Resource, action: &str, options: &[&str]) -> Value {
    let parameters: Vec<Value> = options
        .iter()
        .map(|name| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}}))
        .collect();
    json!({
        "x-kubernetes-action": action, "x-kubernetes-group-version-kind": gvk(resource),
        "parameters": parameters, "responses": {"200": {"description": "OK"}},
    })
}

fn gvk(resource: &Resource) -> Value {
    json!({"group": resource.group, "version": resource.version, "kind": resource.kind})
}

/// Returns the types of all kinds. Kinds whose objects are never stored are objects without fields.
fn schemas() -> Value {
    let schema = Schema::get();
    let mut out = Map::new();
    for object in schema.objects() {
        out.insert(long_name(&object.name), object_schema(object, schema));
    }
    for resource in RESOURCES
        .iter()
        .filter(|resource| resource.type_name.is_empty())
    {
        let group = if resource.group.is_empty() {
            "core"
        } else {
            resource.group
        };
        let name = format!("io.k8s.api.{group}.{}.{}", resource.version, resource.kind);
        out.insert(
            name,
            json!({"type": "object", "x-kubernetes-group-version-kind": [gvk(resource)]}),
        );
    }
    Value::Object(out)
}

fn long_name(name: &str) -> String {
    if name.starts_with("meta.") {
        format!("io.k8s.apimachinery.pkg.apis.{name}")
    } else {
        format!("io.k8s.api.{name}")
    }
}

fn object_schema(object: &ObjectType, schema: &Schema) -> Value {
    let mut properties = Map::new();
    for (name, field) in &object.fields {
        let mut property = type_schema(&field.ty, schema);
        if field.atomic {
            property["x-kubernetes-map-type"] = json!("atomic");
        }
        properties.insert(name.clone(), property);
    }
    let mut out = json!({"type": "object", "properties": properties});
    if object.atomic {
        out["x-kubernetes-map-type"] = json!("atomic");
    }
    if let Some(resource) = RESOURCES
        .iter()
        .find(|resource| resource.type_name == object.name)
    {
        out["x-kubernetes-group-version-kind"] = json!([gvk(resource)]);
    }
    out
}

fn type_schema(ty: &Type, schema: &Schema) -> Value {
    match ty {
        Type::String | Type::Quantity => json!({"type": "string"}),
        Type::Bool => json!({"type": "boolean"}),
        Type::Int32 => json!({"type": "integer", "format": "int32"}),
        Type::Int64 => json!({"type": "integer", "format": "int64"}),
        Type::Number => json!({"type": "number", "format": "double"}),
        Type::Time | Type::MicroTime => json!({"type": "string", "format": "date-time"}),
        Type::Bytes => json!({"type": "string", "format": "byte"}),
        Type::IntOrString => {
            json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]})
        }
        Type::Any => json!({"type": "object"}),
        Type::Object(index) => {
            let name = long_name(&schema.object(*index).name);
            json!({"allOf": [{"$ref": format!("#/components/schemas/{name}")}]})
        }
        Type::Map { value, atomic } => {
            let mut out =
                json!({"type": "object", "additionalProperties": type_schema(value, schema)});
            if *atomic {
                out["x-kubernetes-map-type"] = json!("atomic");
            }
            out
        }
        Type::List {
            item,
            kind,
            merge_key,
            merge,
        } => {
            let mut out = json!({"type": "array", "items": type_schema(item, schema)});
            out["x-kubernetes-list-type"] = json!(match kind {
                ListKind::Atomic => "atomic",
                ListKind::Set => "set",
                ListKind::Map(_) => "map",
            });
            if let ListKind::Map(keys) = kind {
                out["x-kubernetes-list-map-keys"] = json!(keys);
            }
            if let Some(key) = merge_key {
                out["x-kubernetes-patch-merge-key"] = json!(key);
            }
            if *merge {
                out["x-kubernetes-patch-strategy"] = json!("merge");
            }
            out
        }
    }
}

/// Returns an empty document of version 2: kubectl reads that version only as protobuf, and works without its content.
fn version_2(inner: &Inner, request: &Request) -> Response<Body> {
    const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
    let version = inner.options.version.trim_start_matches('v');
    if !request.header(header::ACCEPT).contains("protobuf") {
        let document = json!({
            "swagger": "2.0", "info": {"title": "Kubernetes", "version": inner.options.version}, "paths": {}, "definitions": {},
        });
        return json_response(200, to_bytes(&document));
    }
    let info = [field(1, b"Kubernetes"), field(2, version.as_bytes())].concat();
    // Document: swagger = 1, info = 2, paths = 8, definitions = 9.
    let document = [
        field(1, b"2.0"),
        field(2, &info),
        field(8, &[]),
        field(9, &[]),
    ]
    .concat();
    let mut response = json_response(200, document.into());
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(PROTOBUF));
    response
}

/// Encodes a length-delimited protobuf field. The lengths here are below 128 bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let length = u8::try_from(bytes.len()).unwrap_or(127).min(127);
    let mut out = vec![(number << 3) | 2, length];
    out.extend_from_slice(&bytes[..usize::from(length)]);
    out
}
