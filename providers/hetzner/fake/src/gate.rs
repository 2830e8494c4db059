//! What every request passes: record, faults, token, limit, correlation id.

use std::future::pending;

use axum::body::{Body, to_bytes};
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use bytes::Bytes;
use http::{Method, StatusCode, header};
use serde_json::Value;
use tokio::time::Instant;

use crate::faults::{Effects, FaultKind};
use crate::refusal::Refusal;
use crate::robot::RobotRefusal;
use crate::{Fake, ROBOT_PASSWORD, ROBOT_USER};

/// A request that arrived.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// When.
    pub at: Instant,
    /// Method and path template, `GET /servers/{id}`.
    pub route: String,
    /// The path, without `/v1`.
    pub path: String,
    /// The query as it was sent.
    pub query: String,
    /// The body; null if there was none, or no JSON.
    pub body: Value,
    /// The answer's status; 0: not answered, or not yet.
    pub status: u16,
}

impl Recorded {
    /// Whether it asked for a change.
    #[must_use]
    pub fn is_mutation(&self) -> bool {
        !self.route.starts_with("GET ")
    }
}

/// The project that a request is for, by its token.
#[derive(Clone, Debug)]
pub(crate) struct Project(pub(crate) String);

/// The most that a body may be.
const MOST: usize = 1 << 20;

struct Admission {
    index: usize,
    route: String,
    effects: Effects,
}

/// Records a request and says which faults hit it.
async fn admit(fake: &Fake, matched: &MatchedPath, request: Request) -> (Admission, Request) {
    let (head, body) = request.into_parts();
    let body = to_bytes(body, MOST).await.unwrap_or_default();
    // One handler takes all actions of load balancers; each is a route of its own here.
    let template = match matched.as_str().strip_suffix("{action}") {
        Some(before) => format!("{before}{}", head.uri.path().rsplit('/').next().unwrap_or_default()),
        None => matched.as_str().to_owned(),
    };
    let without_version = |path: &str| path.strip_prefix("/v1").unwrap_or(path).to_owned();
    let record = Recorded {
        at: Instant::now(),
        route: format!("{} {}", head.method, without_version(&template)),
        path: without_version(head.uri.path()),
        query: head.uri.query().unwrap_or_default().to_owned(),
        body: serde_json::from_slice(&body).unwrap_or_default(),
        status: 0,
    };
    let mut model = fake.model();
    let effects = Effects::take(&mut model.faults, &record.route);
    let admission = Admission { index: model.requests.len(), route: record.route.clone(), effects };
    model.requests.push(record);
    (admission, Request::from_parts(head, Body::from(body)))
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

/// An answer in nobody's words, if the faults say so.
fn foreign(effects: &Effects) -> Option<Response> {
    let status = effects.find(|it| if let FaultKind::Status(status) = it { Some(*status) } else { None })?;
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    Some((status, "<html>something between you and the API</html>").into_response())
}

fn finish(fake: &Fake, admission: &Admission, answer: Response) -> Response {
    let is_lost = admission.effects.has(&FaultKind::LostAnswer);
    let mut model = fake.model();
    if let Some(record) = model.requests.get_mut(admission.index).filter(|_| !is_lost) {
        record.status = answer.status().as_u16();
    }
    if is_lost { cut() } else { answer }
}

/// An answer whose body breaks off before its first byte: the server closes the connection.
fn cut() -> Response {
    let broken = futures::stream::once(async { Err::<Bytes, _>(std::io::Error::other("the connection was cut")) });
    Response::new(Body::from_stream(broken))
}

/// Before the cloud's API.
pub(crate) async fn cloud(State(fake): State<Fake>, matched: MatchedPath, request: Request, next: Next) -> Response {
    let (admission, mut request) = admit(&fake, &matched, request).await;
    let effects = &admission.effects;
    hold(effects).await;
    let correlation = format!("{:016x}", admission.index + 1);
    let token = request.headers().get(header::AUTHORIZATION).and_then(|it| it.to_str().ok());
    let token = token.and_then(|it| it.strip_prefix("Bearer ")).unwrap_or_default();
    let (project, allowance) = {
        let mut model = fake.model();
        let project = model.tokens.get(token).cloned();
        let allowance = project.as_ref().map(|project| model.bucket(project).take());
        (project, allowance)
    };
    let code = effects.find(|it| if let FaultKind::Code(code) = it { Some(code.clone()) } else { None });
    let is_read_only = fake.model().read_only.contains(token);
    let mut answer = match (project, allowance) {
        (Some(_), Some(allowance)) if allowance.is_exceeded => {
            Refusal::new("rate_limit_exceeded", "limit of requests per hour reached").into_response()
        }
        (Some(_), _) if is_read_only && request.method() != Method::GET => {
            Refusal::new("token_readonly", "the token may only read").into_response()
        }
        (Some(project), _) => match (foreign(effects), code) {
            (Some(answer), _) => answer,
            (None, Some(code)) => Refusal::new(&code, "on purpose").into_response(),
            (None, None) => {
                request.extensions_mut().insert(Project(project));
                request.extensions_mut().insert(effects.clone());
                next.run(request).await
            }
        },
        (None, _) => Refusal::new("unauthorized", "unable to authenticate").into_response(),
    };
    if let Some(allowance) = allowance {
        allowance.tell(answer.headers_mut());
    }
    if let Ok(value) = correlation.parse() {
        answer.headers_mut().insert("x-correlation-id", value);
    }
    finish(&fake, &admission, answer)
}

/// Before Robot's.
pub(crate) async fn robot(State(fake): State<Fake>, matched: MatchedPath, request: Request, next: Next) -> Response {
    let (admission, request) = admit(&fake, &matched, request).await;
    let effects = &admission.effects;
    hold(effects).await;
    let wanted = base64::engine::general_purpose::STANDARD.encode(format!("{ROBOT_USER}:{ROBOT_PASSWORD}"));
    let given = request.headers().get(header::AUTHORIZATION).and_then(|it| it.to_str().ok());
    let is_known = given.and_then(|it| it.strip_prefix("Basic ")).is_some_and(|it| it == wanted);
    let is_limited = fake.model().is_robot_limited(&admission.route);
    let code = effects.find(|it| if let FaultKind::Code(code) = it { Some(code.clone()) } else { None });
    let answer = if !is_known {
        RobotRefusal::new("UNAUTHORIZED").into_response()
    } else if let Some(answer) = foreign(effects) {
        answer
    } else if let Some(code) = code {
        RobotRefusal::new(&code).into_response()
    } else if is_limited {
        RobotRefusal::new("RATE_LIMIT_EXCEEDED").into_response()
    } else {
        next.run(request).await
    };
    finish(&fake, &admission, answer)
}

/// Before the metadata service.
pub(crate) async fn open(State(fake): State<Fake>, matched: MatchedPath, request: Request, next: Next) -> Response {
    let (admission, request) = admit(&fake, &matched, request).await;
    hold(&admission.effects).await;
    let answer = match foreign(&admission.effects) {
        Some(answer) => answer,
        None => next.run(request).await,
    };
    finish(&fake, &admission, answer)
}
