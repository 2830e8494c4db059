//! What every request passes: record, faults, token.

use std::future::pending;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{Method, StatusCode};
use serde_json::Value;
use tokio::time::Instant;

use crate::Fake;
use crate::faults::{Effects, FaultKind};
use crate::model::Model;
use crate::refusal::{Refusal, Service};
use crate::requests::{Asked, Reply};
use crate::routes::Target;

/// A request that arrived.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// When.
    pub at: Instant,
    /// Method and path template, `GET /servers/{id}`.
    pub route: String,
    /// The path, without the service's prefix and with its version.
    pub path: String,
    /// The query as it was sent.
    pub query: String,
    /// `If-Match`, as it was sent.
    pub if_match: Option<String>,
    /// `OpenStack-API-Version`, as it was sent.
    pub api_version: Option<String>,
    /// `User-Agent`, as it was sent.
    pub user_agent: Option<String>,
    /// The body; null if there was none, or no JSON. A password is in it.
    pub body: Value,
    /// The answer's status; 0: not answered, or not yet.
    pub status: u16,
}

impl Recorded {
    /// Whether it asked for a change. Asking for a token is none.
    #[must_use]
    pub fn is_mutation(&self) -> bool {
        !self.route.starts_with("GET ") && self.route != "POST /auth/tokens"
    }
}

/// The most that a body may be: a pool with thousands of members.
const MOST: usize = 8 << 20;

impl Fake {
    /// All services, for any host.
    pub fn router(&self) -> Router {
        Router::new().fallback(serve).with_state(self.clone())
    }
}

async fn serve(State(fake): State<Fake>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let body = to_bytes(body, MOST).await.unwrap_or_default();
    let Some(target) = Target::of(head.method.as_str(), head.uri.path()) else {
        return (StatusCode::NOT_FOUND, "there is no such service").into_response();
    };
    let text = |name: &str| head.headers.get(name).and_then(|it| it.to_str().ok()).map(str::to_owned);
    let query = head.uri.query().unwrap_or_default().to_owned();
    let record = Recorded {
        at: Instant::now(),
        route: target.name.clone(),
        path: target.path.clone(),
        query: query.clone(),
        if_match: text("if-match"),
        api_version: text("openstack-api-version"),
        user_agent: text("user-agent"),
        body: serde_json::from_slice(&body).unwrap_or_default(),
        status: 0,
    };
    let (index, effects) = {
        let mut model = fake.model();
        model.requests.push(record.clone());
        (model.requests.len() - 1, Effects::take(&mut model.faults, &target.name))
    };
    hold(&effects).await;
    let mut asked = Asked {
        service: target.service,
        path: target.path,
        ids: target.ids,
        query: parameters(&query),
        headers: head.headers,
        body: record.body,
        project: String::new(),
        effects: effects.clone(),
        now: Instant::now(),
    };
    let answer = match foreign(&asked) {
        Some(answer) => answer,
        None => {
            let mut model = fake.model();
            model.advance(asked.now);
            let admitted = match target.is_open {
                true => Ok(()),
                false => admit(&model, &mut asked, head.method == Method::GET),
            };
            let is_broken = !body.is_empty() && asked.body.is_null();
            let done = admitted.and_then(|()| match target.handler {
                _ if is_broken => Err(Refusal::bad("Request body is not valid JSON")),
                Some(handler) => handler(&mut model, &asked),
                None if asked.service == Service::Balancer => Err(Refusal::new(404, "Not Found", "")),
                None => Err(Refusal::new(404, "HTTPNotFound", "The resource could not be found.")),
            });
            rendered(asked.service, done)
        }
    };
    if effects.has(&FaultKind::LostAnswer) {
        return cut();
    }
    if let Some(record) = fake.model().requests.get_mut(index) {
        record.status = answer.status().as_u16();
    }
    answer
}

/// The parameters of a query, decoded.
fn parameters(query: &str) -> Vec<(String, String)> {
    let decoded = format!("http://fake/?{query}").parse().ok();
    let decoded = decoded.and_then(|uri| axum::extract::Query::try_from_uri(&uri).ok());
    decoded.map(|axum::extract::Query(it)| it).unwrap_or_default()
}

/// Waits as the faults say.
async fn hold(effects: &Effects) {
    if effects.has(&FaultKind::Hang) {
        pending::<()>().await;
    }
    let latency = |it: &FaultKind| if let FaultKind::Latency(time) = it { Some(*time) } else { None };
    if let Some(time) = effects.find(latency) {
        tokio::time::sleep(time).await;
    }
}

/// What is answered instead, if the faults say so.
fn foreign(asked: &Asked) -> Option<Response> {
    asked.effects.find(|fault| match fault {
        FaultKind::Status(status) => {
            let status = StatusCode::from_u16(*status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            Some((status, "<html>something between you and the API</html>").into_response())
        }
        FaultKind::Refused(status, kind, message) => Some(rendered(
            asked.service,
            Err(Refusal::new(*status, if asked.service == Service::Balancer { "" } else { kind }, message.clone())),
        )),
        FaultKind::RetryAfter(status, seconds) => {
            let mut answer = rendered(
                asked.service,
                Err(Refusal::new(
                    *status,
                    if asked.service == Service::Balancer { "" } else { "overLimit" },
                    "This request was rate-limited.",
                )),
            );
            answer.headers_mut().insert("retry-after", (*seconds).into());
            Some(answer)
        }
        _ => None,
    })
}

/// Whose project this is, and whether it may be asked for.
fn admit(model: &Model, asked: &mut Asked, is_read: bool) -> Result<(), Refusal> {
    let token = asked.header("x-auth-token").unwrap_or_default();
    let project = model.identity.project_of(token, asked.now).ok_or_else(Refusal::unauthorized)?;
    let may_change = model.identity.may_change();
    asked.project = project;
    match asked.service {
        _ if is_read || may_change => {}
        Service::Balancer => return Err(Refusal::new(403, "", "Policy does not allow this request to be performed.")),
        _ => return Err(Refusal::new(403, "PolicyNotAuthorized", "(rule:change) is disallowed by policy")),
    }
    let version = asked.header("openstack-api-version").and_then(|it| it.trim().strip_prefix("compute 2."));
    match version.map(|it| it.parse::<u32>().unwrap_or(u32::MAX)) {
        Some(minor) if asked.service == Service::Compute && minor > model.options.microversion => {
            let most = model.options.microversion;
            let message =
                format!("Version 2.{minor} is not supported by the API. Minimum is 2.1 and maximum is 2.{most}.");
            Err(Refusal::new(406, "computeFault", message))
        }
        _ => Ok(()),
    }
}

fn rendered(service: Service, done: Result<Reply, Refusal>) -> Response {
    let reply = done.unwrap_or_else(|refusal| Reply::new(refusal.status, refusal.body(service)));
    let status = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut answer = match reply.body {
        Some(body) => (status, axum::Json(body)).into_response(),
        None => status.into_response(),
    };
    for (name, value) in reply.headers {
        if let Ok(value) = value.parse() {
            answer.headers_mut().insert(name, value);
        }
    }
    answer
}

/// An answer whose body breaks off before its first byte: the server closes the connection.
fn cut() -> Response {
    let broken = futures::stream::once(async { Err::<Bytes, _>(std::io::Error::other("the connection was cut")) });
    Response::new(Body::from_stream(broken))
}
