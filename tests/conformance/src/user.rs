//! Changes by people, kubelets and the rest of the control plane, through the cluster's API. These requests are neither
//! counted nor disturbed.

use bytes::Bytes;
use embedded_apiserver::ApiServer;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::node_object;

/// A user of the API. Each call is one request, carried out at once, before other tasks run.
#[derive(Clone, Debug)]
pub struct User {
    api: ApiServer,
    annotations: Value,
}

/// The path of the Services of namespace `default`.
const SERVICES: &str = "/api/v1/namespaces/default/services";
/// The path of the Nodes.
const NODES: &str = "/api/v1/nodes";

impl User {
    /// Returns a user of this cluster.
    #[must_use]
    pub fn of(api: &ApiServer) -> Self {
        Self {
            api: api.clone(),
            annotations: Value::Null,
        }
    }

    /// Gives these annotations to all Services from now on.
    #[must_use]
    pub fn annotating(self, annotations: Value) -> Self {
        Self {
            annotations,
            ..self
        }
    }

    /// Sends a request; the answer's status code and body.
    ///
    /// # Panics
    /// If there is no answer.
    pub async fn request(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: &Value,
    ) -> (u16, Value) {
        self.request_as("", method, path, content_type, body).await
    }

    /// Sends a request like [`request`](Self::request), with a token.
    ///
    /// # Panics
    /// If there is no answer.
    pub async fn request_as(
        &self,
        token: &str,
        method: Method,
        path: &str,
        content_type: &str,
        body: &Value,
    ) -> (u16, Value) {
        let body = if body.is_null() {
            Bytes::new()
        } else {
            Bytes::from(body.to_string())
        };
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(http::header::CONTENT_TYPE, content_type);
        if !token.is_empty() {
            request = request.header(http::header::AUTHORIZATION, format!("Bearer {token}"));
        }
        let request = request.body(Full::new(body)).expect("a request");
        let answer = self
            .api
            .service()
            .oneshot(request)
            .await
            .expect("an answer");
        let status = answer.status().as_u16();
        let body = answer
            .into_body()
            .collect()
            .await
            .expect("a whole answer")
            .to_bytes();
        (status, serde_json::from_slice(&body).unwrap_or_default())
    }

    /// Creates an object, and returns it as the API stored it.
    ///
    /// # Panics
    /// If the API refuses it.
    pub async fn create(&self, path: &str, object: &Value) -> Value {
        let (status, answer) = self
            .request(Method::POST, path, "application/json", object)
            .await;
        assert_eq!(status, 201, "{object} was refused: {answer}");
        answer
    }

    /// Changes an object by a strategic merge patch; `false` if it does not exist.
    ///
    /// # Panics
    /// If the API refuses it for another reason.
    pub async fn patch(&self, path: &str, patch: &Value) -> bool {
        let (status, answer) = self
            .request(
                Method::PATCH,
                path,
                "application/strategic-merge-patch+json",
                patch,
            )
            .await;
        assert!(
            status == 200 || status == 404,
            "{patch} on {path} was refused: {answer}"
        );
        status == 200
    }

    /// Deletes an object; `false` if it does not exist.
    ///
    /// # Panics
    /// If the API refuses it for another reason.
    pub async fn delete(&self, path: &str) -> bool {
        let (status, answer) = self
            .request(Method::DELETE, path, "application/json", &Value::Null)
            .await;
        assert!(
            (200..300).contains(&status) || status == 404,
            "deleting {path} was refused: {answer}"
        );
        status != 404
    }

    /// Creates a Service of type LoadBalancer with these ports, TCP; the object.
    ///
    /// # Panics
    /// If the API refuses it.
    pub async fn create_service(&self, name: &str, ports: &[u16]) -> Value {
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "annotations": self.annotations},
            "spec": {"type": "LoadBalancer", "selector": {"app": name}, "ports": port_list(ports)},
        });
        self.create(SERVICES, &service).await
    }

    /// Patches a Service of namespace `default`.
    pub async fn patch_service(&self, name: &str, patch: &Value) -> bool {
        self.patch(&format!("{SERVICES}/{name}"), patch).await
    }

    /// Replaces the ports of a Service.
    pub async fn set_ports(&self, name: &str, ports: &[u16]) -> bool {
        let mut list = port_list(ports);
        if let Some(list) = list.as_array_mut() {
            list.insert(0, json!({"$patch": "replace"}));
        }
        self.patch_service(name, &json!({"spec": {"ports": list}}))
            .await
    }

    /// Deletes a Service of namespace `default`.
    pub async fn delete_service(&self, name: &str) -> bool {
        self.delete(&format!("{SERVICES}/{name}")).await
    }

    /// Registers a Node as its kubelet does, with these Pod CIDRs.
    pub async fn register_node(&self, name: &str, pod_cidrs: &[String]) {
        let mut node = node_object::registration(name, 0, true);
        if let Some(first) = pod_cidrs.first() {
            node["spec"]["podCIDR"] = json!(first);
            node["spec"]["podCIDRs"] = json!(pod_cidrs);
        }
        self.create(NODES, &node).await;
        self.set_ready(name, true).await;
    }

    /// Patches a Node of the cluster.
    pub async fn patch_node(&self, name: &str, patch: &Value) -> bool {
        self.patch(&format!("{NODES}/{name}"), patch).await
    }

    /// Says whether a Node is ready, as its kubelet or the control plane for it.
    pub async fn set_ready(&self, name: &str, is_ready: bool) -> bool {
        self.patch(
            &format!("{NODES}/{name}/status"),
            &node_object::readiness(is_ready),
        )
        .await
    }

    /// Deletes a Node of the cluster.
    pub async fn delete_node(&self, name: &str) -> bool {
        self.delete(&format!("{NODES}/{name}")).await
    }
}

fn port_list(ports: &[u16]) -> Value {
    let port = |port: &u16| json!({"name": format!("p{port}"), "port": port, "protocol": "TCP", "targetPort": 8080});
    ports.iter().map(port).collect()
}
