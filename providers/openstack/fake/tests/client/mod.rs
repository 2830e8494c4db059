//! A client of the fake, without a port.

use axum::Router;
use axum::body::Body;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use openstack_fake::Fake;
use serde_json::{Value, json};
use tower::ServiceExt;

/// A client with a token of the project.
pub(crate) struct Client {
    service: Router,
    token: String,
}

/// A response of the fake.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) body: Value,
}

async fn exchange(service: &Router, request: Request<Body>) -> (http::HeaderMap, Answer) {
    let answer = service.clone().oneshot(request).await.unwrap();
    let (head, body) = answer.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (
        head.headers,
        Answer {
            status: head.status,
            body: serde_json::from_slice(&body).unwrap_or_default(),
        },
    )
}

impl Client {
    pub(crate) async fn new(fake: &Fake) -> Self {
        let user = json!({"name": "k8s", "domain": {"name": "Default"}, "password": openstack_fake::PASSWORD});
        let auth = json!({"auth": {"identity": {"methods": ["password"], "password": {"user": user}},
            "scope": {"project": {"name": "k8s", "domain": {"name": "Default"}}}}});
        let service = fake.router();
        let request = Request::post("http://openstack/identity/v3/auth/tokens")
            .body(auth.to_string().into())
            .unwrap();
        let (headers, answer) = exchange(&service, request).await;
        assert_eq!(answer.status, StatusCode::CREATED, "{}", answer.body);
        Self {
            service,
            token: headers["x-subject-token"].to_str().unwrap().to_owned(),
        }
    }

    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        body: Option<Value>,
        headers: &[(&str, &str)],
    ) -> Answer {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("http://openstack{path}"));
        request = request.header("x-auth-token", &self.token);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = body.map_or_else(Body::empty, |body| body.to_string().into());
        exchange(&self.service, request.body(body).unwrap()).await.1
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, None, &[]).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.send("POST", path, Some(body), &[]).await
    }

    pub(crate) async fn put(&self, path: &str, body: Value) -> Answer {
        self.send("PUT", path, Some(body), &[]).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.send("DELETE", path, None, &[]).await
    }
}
