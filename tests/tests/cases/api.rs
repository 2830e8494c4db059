//! A Kubernetes API for Nodes (get, patch, delete) and the status of Services (patch) only; it records the requests,
//! and refuses those that a case names.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Collected, Full};
use kube::client::Body;
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Map, Value, json};

use super::schema::ApiErrorKind;

/// Version of an object without a version of its own.
const VERSION: u64 = 41;

/// The API. Clones share everything.
#[derive(Debug, Clone, Default)]
pub(crate) struct Api {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    nodes: BTreeMap<String, Value>,
    /// Services by `<namespace>/<name>`.
    services: BTreeMap<String, Value>,
    writes: u64,
    faults: Vec<Fault>,
    requests: Vec<ApiRequest>,
}

/// A request as it came.
#[derive(Debug, Clone)]
pub(crate) struct ApiRequest {
    /// Verb and resource: `get nodes`, `patch nodes/status`.
    pub(crate) what: String,
    /// `<name>`, or `<namespace>/<name>`; empty if it is about no single object.
    pub(crate) name: String,
    /// Body of the request; null without a body.
    pub(crate) body: Value,
    /// Value of `Content-Type`; empty if the header is missing.
    pub(crate) content_type: String,
}

impl ApiRequest {
    /// Returns `true` for a write of a Node's main resource that changes its taints.
    pub(crate) fn changes_taints(&self) -> bool {
        self.what == "patch nodes" && self.body.pointer("/spec/taints").is_some()
    }

    /// Returns `true` for a write of a Service that changes its finalizers.
    pub(crate) fn changes_finalizers(&self) -> bool {
        self.what == "patch services/status" && self.body.get("metadata").is_some()
    }

    /// Returns `true` for a write of a Service that changes its status.
    pub(crate) fn changes_status(&self) -> bool {
        self.what == "patch services/status" && self.body.get("status").is_some()
    }

    /// Returns `true` for any patch.
    pub(crate) fn is_patch(&self) -> bool {
        self.what.starts_with("patch ")
    }

    /// Returns `true` for a delete.
    pub(crate) fn is_delete(&self) -> bool {
        self.what.starts_with("delete ")
    }
}

/// Requests that are refused.
#[derive(Debug, Clone, Copy)]
struct Fault {
    on: fn(&ApiRequest) -> bool,
    kind: ApiErrorKind,
    /// Number of refusals; `None`: no limit.
    times: Option<u32>,
}

impl Api {
    /// Stores a Node, as if a user had created it, and returns it as the API has it.
    pub(crate) fn seed(&self, node: Value) -> Value {
        let node = stored(node, "Node");
        let name = node["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        self.state().nodes.insert(name, node.clone());
        node
    }

    /// Stores a Service, as if a user had created it, and returns it as the API has it.
    pub(crate) fn seed_service(&self, service: Value) -> Value {
        let service = stored(service, "Service");
        let text = |field: &str| service["metadata"][field].as_str().unwrap_or_default();
        self.state().services.insert(
            format!("{}/{}", text("namespace"), text("name")),
            service.clone(),
        );
        service
    }

    /// Returns the Service `<namespace>/<name>` as it is now, if it is there.
    pub(crate) fn service(&self, key: &str) -> Option<Value> {
        self.state().services.get(key).cloned()
    }

    /// Refuses these requests, for a number of times or always. Earlier rules are used up first.
    pub(crate) fn refuse(
        &self,
        on: fn(&ApiRequest) -> bool,
        kind: ApiErrorKind,
        times: Option<u32>,
    ) {
        self.state().faults.push(Fault { on, kind, times });
    }

    /// Returns the Node as it is now, if it is there.
    pub(crate) fn node(&self, name: &str) -> Option<Value> {
        self.state().nodes.get(name).cloned()
    }

    /// Returns the requests in order.
    pub(crate) fn requests(&self) -> Vec<ApiRequest> {
        self.state().requests.clone()
    }

    /// Returns a client of this API.
    pub(crate) fn client(&self) -> kube::Client {
        let api = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let api = api.clone();
            async move {
                let (head, body) = request.into_parts();
                // The client's own bodies are in memory; reading them cannot fail.
                let body = body
                    .collect()
                    .await
                    .map(Collected::to_bytes)
                    .unwrap_or_default();
                let content_type = head
                    .headers
                    .get(CONTENT_TYPE)
                    .and_then(|value| value.to_str().ok());
                let content_type = content_type.unwrap_or_default();
                Ok::<_, Infallible>(api.answer(&head.method, head.uri.path(), content_type, &body))
            }
        });
        kube::Client::new(service, "default")
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn answer(
        &self,
        method: &Method,
        path: &str,
        content_type: &str,
        body: &Bytes,
    ) -> Response<Full<Bytes>> {
        let answer = self.state().handle(method, path, content_type, body);
        let (code, answer) = answer.unwrap_or_else(|refusal| refusal);
        let mut response = Response::new(Full::from(answer.to_string()));
        *response.status_mut() = code;
        response
    }
}

/// An answer: status and object.
type Answer = (StatusCode, Value);

impl State {
    fn handle(
        &mut self,
        method: &Method,
        path: &str,
        content_type: &str,
        body: &Bytes,
    ) -> Result<Answer, Answer> {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let verb = match *method {
            Method::PUT => "update".to_owned(),
            Method::POST => "create".to_owned(),
            ref other => other.as_str().to_lowercase(),
        };
        let (resource, name) = parts(path);
        let request = ApiRequest {
            what: format!("{verb} {resource}"),
            name: name.clone(),
            body,
            content_type: content_type.to_owned(),
        };
        self.requests.push(request.clone());
        self.refuse(&request)?;
        match request.what.as_str() {
            "get nodes" => Ok((
                StatusCode::OK,
                find(&mut self.nodes, "nodes", &name)?.clone(),
            )),
            "patch nodes" => self.patch_node(&name, &request.body, &["metadata", "spec"]),
            "patch nodes/status" => self.patch_node(&name, &request.body, &["metadata", "status"]),
            "delete nodes" => self.delete(&name, &request.body),
            "patch services/status" => self.patch_service(&name, &request.body),
            what => Err(status(
                StatusCode::METHOD_NOT_ALLOWED,
                "MethodNotAllowed",
                &format!("no case needs {what}"),
            )),
        }
    }

    fn refuse(&mut self, request: &ApiRequest) -> Result<(), Answer> {
        let Some(fault) = self
            .faults
            .iter_mut()
            .find(|fault| fault.times != Some(0) && (fault.on)(request))
        else {
            return Ok(());
        };
        if let Some(times) = &mut fault.times {
            *times -= 1;
        }
        Err(match fault.kind {
            ApiErrorKind::Conflict => {
                conflict(r#"Operation cannot be fulfilled on things "x": object was modified"#)
            }
            ApiErrorKind::NotFound => not_found(r#"things "x" not found"#),
            ApiErrorKind::Forbidden => status(
                StatusCode::FORBIDDEN,
                "Forbidden",
                r#"things "x" is forbidden: not allowed"#,
            ),
        })
    }

    fn patch_node(&mut self, name: &str, patch: &Value, parts: &[&str]) -> Result<Answer, Answer> {
        let node = find(&mut self.nodes, "nodes", name)?;
        self.writes += 1;
        apply(node, patch, parts, VERSION + self.writes)
    }

    fn patch_service(&mut self, key: &str, patch: &Value) -> Result<Answer, Answer> {
        let service = find(&mut self.services, "services", key)?;
        self.writes += 1;
        apply(
            service,
            patch,
            &["metadata", "status"],
            VERSION + self.writes,
        )
    }

    /// Deletes an object with the UID as a precondition; a Node with finalizers is only marked for deletion.
    fn delete(&mut self, name: &str, options: &Value) -> Result<Answer, Answer> {
        let node = find(&mut self.nodes, "nodes", name)?;
        let expected = &options["preconditions"]["uid"];
        let uid = &node["metadata"]["uid"];
        if !expected.is_null() && expected != uid {
            return Err(conflict(&format!(
                "Operation cannot be fulfilled on nodes {name:?}: Precondition failed: UID in precondition: {expected}, UID in object meta: {uid}"
            )));
        }
        if node["metadata"]["finalizers"]
            .as_array()
            .is_some_and(|finalizers| !finalizers.is_empty())
        {
            node["metadata"]["deletionTimestamp"] = json!("2024-01-01T00:00:00Z");
        } else {
            self.nodes.remove(name);
        }
        Ok((
            StatusCode::OK,
            json!({"apiVersion": "v1", "kind": "Status", "status": "Success"}),
        ))
    }
}

/// Returns an object as the API has it.
fn stored(mut object: Value, kind: &str) -> Value {
    object["apiVersion"] = json!("v1");
    object["kind"] = json!(kind);
    if object["metadata"]["resourceVersion"].is_null() {
        object["metadata"]["resourceVersion"] = json!(VERSION.to_string());
    }
    object
}

/// Returns resource (`nodes`, `services/status`) and key (`<name>` or `<namespace>/<name>`) of a path.
fn parts(path: &str) -> (String, String) {
    let words: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    match words[..] {
        ["api", "v1", "nodes", name] => ("nodes".to_owned(), name.to_owned()),
        ["api", "v1", "nodes", name, subresource] => {
            (format!("nodes/{subresource}"), name.to_owned())
        }
        ["api", "v1", "namespaces", namespace, resource, name] => {
            (resource.to_owned(), format!("{namespace}/{name}"))
        }
        [
            "api",
            "v1",
            "namespaces",
            namespace,
            resource,
            name,
            subresource,
        ] => (
            format!("{resource}/{subresource}"),
            format!("{namespace}/{name}"),
        ),
        _ => (path.to_owned(), String::new()),
    }
}

fn find<'a>(
    objects: &'a mut BTreeMap<String, Value>,
    resource: &str,
    key: &str,
) -> Result<&'a mut Value, Answer> {
    let name = key.rsplit('/').next().unwrap_or(key);
    objects
        .get_mut(key)
        .ok_or_else(|| not_found(&format!("{resource} {name:?} not found")))
}

/// Applies a strategic-merge patch; fields that do not belong to the (sub)resource stay unchanged.
fn apply(
    object: &mut Value,
    patch: &Value,
    parts: &[&str],
    version: u64,
) -> Result<Answer, Answer> {
    let expected = &patch["metadata"]["resourceVersion"];
    if !expected.is_null() && *expected != object["metadata"]["resourceVersion"] {
        let name = &object["metadata"]["name"];
        return Err(conflict(&format!(
            "Operation cannot be fulfilled on nodes {name}: the object has been modified"
        )));
    }
    for (part, change) in patch
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(part, _)| parts.contains(&&***part))
    {
        merge(&mut object[part.as_str()], change, part);
    }
    object["metadata"]["resourceVersion"] = json!(version.to_string());
    Ok((StatusCode::OK, object.clone()))
}

/// Merges as the API does it for Nodes and Services: maps by key, lists as a whole, except addresses, which are merged by
/// their type, and finalizers, which are a set.
fn merge(target: &mut Value, change: &Value, path: &str) {
    match change {
        Value::Object(fields) => {
            if !target.is_object() {
                *target = Value::Object(Map::new());
            }
            for (key, value) in fields {
                if let Some(list) = key.strip_prefix("$deleteFromPrimitiveList/") {
                    let gone = value.as_array().cloned().unwrap_or_default();
                    if let Some(Value::Array(items)) = target.get_mut(list) {
                        items.retain(|item| !gone.contains(item));
                    }
                } else if key.starts_with("$setElementOrder/") {
                    // New elements are appended, in the order that our patches expect.
                } else if value.is_null() {
                    target.as_object_mut().and_then(|object| object.remove(key));
                } else {
                    merge(&mut target[key.as_str()], value, &format!("{path}.{key}"));
                }
            }
        }
        Value::Array(items) if path == "metadata.finalizers" => {
            let mut list = target.as_array().cloned().unwrap_or_default();
            list.extend(
                items
                    .iter()
                    .filter(|item| !list.contains(item))
                    .cloned()
                    .collect::<Vec<_>>(),
            );
            *target = Value::Array(list);
        }
        Value::Array(items) if path == "status.addresses" => *target = merge_by_type(target, items),
        other => *target = other.clone(),
    }
}

fn merge_by_type(current: &Value, items: &[Value]) -> Value {
    let replace = items.iter().any(|item| item["$patch"] == "replace");
    let mut list = if replace {
        Vec::new()
    } else {
        current.as_array().cloned().unwrap_or_default()
    };
    for item in items.iter().filter(|item| item.get("$patch").is_none()) {
        match list
            .iter_mut()
            .find(|old| !replace && !current.is_null() && old["type"] == item["type"])
        {
            Some(old) => old.clone_from(item),
            None => list.push(item.clone()),
        }
    }
    Value::Array(list)
}

fn conflict(message: &str) -> Answer {
    status(StatusCode::CONFLICT, "Conflict", message)
}

fn not_found(message: &str) -> Answer {
    status(StatusCode::NOT_FOUND, "NotFound", message)
}

fn status(code: StatusCode, reason: &str, message: &str) -> Answer {
    let body = json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code.as_u16(),
    });
    (code, body)
}
