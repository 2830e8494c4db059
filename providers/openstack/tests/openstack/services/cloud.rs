//! A fake Keystone that issues tokens, and services that accept them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use cloud_provider::{ConfigFile, Setup};
use http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use parking_lot::Mutex;
use provider_kit::transport::{Call, in_process};
use provider_openstack::config::Config;
use provider_openstack::services::Services;
use serde_json::{Value, json};
use tokio::time::Instant;

/// Responses of a service; without one, it returns the request's path.
type Answers = dyn Fn(&str, &HeaderMap) -> Option<Response> + Send + Sync;

/// The cloud. Its token lives for 20 minutes.
#[derive(Clone)]
pub(crate) struct Cloud(Arc<Mutex<Inner>>);

struct Inner {
    began: Instant,
    lifetime: u64,
    /// Project of requests that name none.
    project: &'static str,
    roles: &'static [&'static str],
    regions: &'static [&'static str],
    password: &'static str,
    /// Every request: method, path and query, and the token that it had.
    seen: Vec<String>,
    /// Bodies of the requests to Keystone.
    asked: Vec<Value>,
    good: BTreeSet<String>,
    /// Keystone gives no answer; or takes this long for one.
    is_down: bool,
    takes: Duration,
    answers: Arc<Answers>,
}

impl Cloud {
    pub(crate) fn new() -> Self {
        Self::answering(|_, _| None)
    }

    pub(crate) fn answering(
        answers: impl Fn(&str, &HeaderMap) -> Option<Response> + Send + Sync + 'static,
    ) -> Self {
        let answers: Arc<Answers> = Arc::new(answers);
        let (seen, asked, good, takes) = Default::default();
        let began = Instant::now();
        let lifetime = 1200;
        let project = "p1";
        let password = "right";
        let roles = &["member", "reader"];
        let regions = &["One"];
        Self(Arc::new(Mutex::new(Inner {
            began,
            lifetime,
            project,
            roles,
            regions,
            password,
            seen,
            asked,
            good,
            is_down: false,
            takes,
            answers,
        })))
    }

    fn with<T>(&self, act: impl FnOnce(&mut Inner) -> T) -> T {
        act(&mut self.0.lock())
    }

    pub(crate) fn set_password(&self, password: &'static str) {
        self.with(|cloud| cloud.password = password);
    }
    pub(crate) fn move_to(&self, project: &'static str) {
        self.with(|cloud| cloud.project = project);
    }
    pub(crate) fn set_regions(&self, regions: &'static [&'static str]) {
        self.with(|cloud| cloud.regions = regions);
    }
    pub(crate) fn set_roles(&self, roles: &'static [&'static str]) {
        self.with(|cloud| cloud.roles = roles);
    }
    pub(crate) fn set_lifetime(&self, seconds: u64) {
        self.with(|cloud| cloud.lifetime = seconds);
    }
    pub(crate) fn stop_keystone(&self, is_down: bool) {
        self.with(|cloud| cloud.is_down = is_down);
    }
    pub(crate) fn slow_keystone(&self, takes: Duration) {
        self.with(|cloud| cloud.takes = takes);
    }
    pub(crate) fn revoke_all(&self) {
        self.with(|cloud| cloud.good.clear());
    }
    /// Returns the number of issued tokens.
    pub(crate) fn tokens(&self) -> usize {
        self.with(|cloud| cloud.asked.len())
    }
    /// Returns the bodies of the requests to Keystone since the last call.
    pub(crate) fn asked(&self) -> Vec<Value> {
        self.with(|cloud| std::mem::take(&mut cloud.asked))
    }
    /// Returns the requests since the last call, except those to Keystone.
    pub(crate) fn seen(&self) -> Vec<String> {
        self.with(|cloud| std::mem::take(&mut cloud.seen))
    }

    /// Returns the services, reached with this `[Global]`.
    pub(crate) fn services_of(&self, global: &str) -> Services {
        Services::over(
            &config(global),
            &Setup::default(),
            in_process(self.router()),
        )
        .unwrap()
    }
    pub(crate) fn services(&self) -> Services {
        self.services_of(GLOBAL)
    }

    pub(crate) fn router(&self) -> Router {
        let cloud = self.clone();
        Router::new().fallback(any(move |request: Request| async move {
            cloud.answer(request).await
        }))
    }

    async fn answer(&self, request: Request) -> Response {
        let (parts, body) = request.into_parts();
        assert_eq!(parts.headers["accept"], "application/json");
        if parts.uri.path() == "/identity/v3/auth/tokens" {
            let body = axum::body::to_bytes(body, 10_000).await.unwrap();
            let takes = self.with(|cloud| cloud.takes);
            tokio::time::sleep(takes).await;
            return self.with(|cloud| cloud.authenticate(&serde_json::from_slice(&body).unwrap()));
        }
        self.with(|cloud| {
            let token = parts.headers["x-auth-token"].to_str().unwrap().to_owned();
            cloud.seen.push(format!("{} {} {token}", parts.method, parts.uri.path_and_query().unwrap()));
            if !cloud.good.contains(&token) || token.ends_with("ended") {
                let said =
                    json!({"error": {"code": 401, "title": "Unauthorized", "message": format!("{token}: who?")}});
                return (StatusCode::UNAUTHORIZED, said.to_string()).into_response();
            }
            let path = parts.uri.path_and_query().unwrap().as_str();
            (cloud.answers)(path, &parts.headers).unwrap_or_else(|| "{}".into_response())
        })
    }
}

impl Inner {
    fn authenticate(&mut self, asked: &Value) -> Response {
        self.asked.push(asked.clone());
        if self.is_down {
            return StatusCode::BAD_GATEWAY.into_response();
        }
        let password = asked
            .pointer("/auth/identity/password/user/password")
            .and_then(Value::as_str);
        if password.is_some_and(|password| password != self.password) {
            let said = json!({"error": {"code": 401, "title": "Unauthorized",
                "message": format!("The request you have made requires authentication; {} is wrong.", password.unwrap())}});
            return (StatusCode::UNAUTHORIZED, said.to_string()).into_response();
        }
        let token = format!("t{}", self.asked.len() + self.seen.len() * 1000);
        self.good.insert(token.clone());
        // Keystone's clock differs from ours.
        let now = Timestamp::UNIX_EPOCH + Duration::from_secs(77) + self.began.elapsed();
        let endpoint = |region: &str, interface: &str, path: &str| json!({"interface": interface, "region": region, "region_id": region, "url": format!("http://cloud/{interface}/{path}")});
        let of_region = |region: &str, path: &str| {
            ["internal", "public"].map(|public| endpoint(region, public, path))
        };
        let endpoints = |path: &str| {
            self.regions
                .iter()
                .flat_map(|region| of_region(region, path))
                .collect::<Vec<_>>()
        };
        let service = |kind: &str, path: &str| json!({"type": kind, "endpoints": endpoints(path)});
        let body = json!({"token": {
            "issued_at": now, "expires_at": now + Duration::from_secs(self.lifetime),
            "project": {"id": asked.pointer("/auth/scope/project/id").and_then(Value::as_str).unwrap_or(self.project)}, "roles": self.roles.iter().map(|role| json!({"name": role})).collect::<Vec<_>>(),
            "catalog": [service("compute", "compute/v2.1"), service("network", "network"), service("load-balancer", "lb")],
        }});
        (
            StatusCode::CREATED,
            [("x-subject-token", token)],
            body.to_string(),
        )
            .into_response()
    }
}

pub(crate) const GLOBAL: &str = "auth-url = http://cloud/identity/v3\nuser-id = u1\npassword = right\ntenant-id = p1\nregion = One\n";

pub(crate) fn config(global: &str) -> Config {
    let text = format!("[Global]\n{global}");
    Config::read(&Setup::of(ConfigFile {
        path: "cloud.conf".into(),
        text,
    }))
    .unwrap()
}

/// Returns an arbitrary request for tests.
pub(crate) fn ports() -> Call {
    Call::get("/ports", &[])
}
