//! The fault injector that all requests of the program under test pass on their way to the Kubernetes API and to the cloud:
//! it counts them, disturbs them, and can kill the program at any of them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::Instant;
use tower::{Service, ServiceExt};

/// To whom a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The API of Kubernetes.
    Kubernetes,
    /// The API of the cloud.
    Cloud,
}

/// A request, as the injector records it.
#[derive(Clone, PartialEq, Eq)]
pub struct Passed {
    /// Destination of the request.
    pub side: Side,
    /// Method of the request.
    pub method: Method,
    /// Path and query of the request.
    pub target: String,
}

impl Passed {
    /// Returns `true` if the request asks for a change. Reviews only ask for a decision, and a request for a token or a
    /// list changes nothing.
    #[must_use]
    pub fn is_mutation(&self) -> bool {
        let reads = ["/auth/tokens", "/token", "/listInstances", "/getHealth"];
        let path = self.target.split('?').next().unwrap_or_default();
        !self.method.is_safe()
            && !path.contains("reviews")
            && !reads.iter().any(|end| path.ends_with(end))
    }

    /// Returns `true` if this is a request on `route` (`GET /servers/{id}`). A prefix of the path, such as a version, is not
    /// part of the route.
    #[must_use]
    pub fn is_on(&self, route: &str) -> bool {
        let Some((method, template)) = route.split_once(' ') else {
            return self.method == route;
        };
        let path = self.target.split('?').next().unwrap_or_default();
        let wanted: Vec<&str> = template.trim_matches('/').split('/').collect();
        let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
        let given = segments
            .get(segments.len().saturating_sub(wanted.len())..)
            .unwrap_or_default();
        self.method == method
            && given.len() == wanted.len()
            && wanted
                .iter()
                .zip(given)
                .all(|(wanted, given)| wanted.starts_with('{') || wanted == given)
    }

    /// Events are written in the background and decide nothing: they are not counted.
    fn is_event(&self) -> bool {
        let path = self.target.split('?').next().unwrap_or_default();
        self.side == Side::Kubernetes && path.split('/').any(|segment| segment == "events")
    }
}

impl fmt::Display for Passed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {} {}", self.side, self.method, self.target)
    }
}

impl fmt::Debug for Passed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Moment of a crash, relative to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The request is never sent.
    Before,
    /// The request is carried out, and the response lost.
    After,
    /// The request is delayed, and carried out only after the next run of the program has listed the load balancers.
    /// For changes in the cloud.
    AfterNextRead,
}

/// A fault of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Not carried out, and answered with this status code; `Retry-After` in seconds where stated.
    Status(u16, Option<u32>),
    /// Carried out, after this time.
    Slow(Duration),
    /// Carried out, but the connection breaks before the answer.
    AnswerLost,
    /// The connection breaks before anything is carried out.
    Refused,
    /// The request is neither carried out nor answered.
    Hang,
}

/// A disturbance: which requests it may hit, how likely, how long.
#[derive(Clone, Debug)]
pub struct Disturbance {
    /// Requests to this side.
    pub side: Side,
    /// If set, only requests that ask for a change are disturbed.
    pub only_mutations: bool,
    /// Percentage of the requests that are disturbed.
    pub percent: u8,
    /// Fault of the disturbed requests.
    pub trouble: Trouble,
    /// End of the disturbance.
    pub until: Instant,
}

/// The fault injector. Clones are the same.
#[derive(Clone)]
pub struct FaultInjector {
    state: Arc<Mutex<State>>,
    died: Arc<Notify>,
}

struct State {
    passed: Vec<Passed>,
    journal: Vec<(Instant, String)>,
    mutations: usize,
    kill: Option<(usize, Moment)>,
    chooser: Option<Chooser>,
    interruption: Option<(usize, Interruption)>,
    is_dead: bool,
    disturbances: Vec<Disturbance>,
    hits: usize,
    singled_out: Vec<(String, Trouble)>,
    dice: fastrand::Rng,
    witness: Option<Witness>,
    list: String,
    late: Option<BoxFuture<'static, ()>>,
    lag: Duration,
    lists: BTreeMap<String, (Instant, StatusCode, HeaderMap, Bytes)>,
}

/// Sees each request, with its body, right before it is carried out.
type Witness = Arc<dyn Fn(&Passed, &[u8]) + Send + Sync>;

/// Function that selects the request at which a run ends, and the moment.
type Chooser = Box<dyn FnMut(&Passed) -> Option<Moment> + Send>;

/// A change in the cloud between two requests of the program.
type Interruption = Box<dyn FnOnce() + Send>;

impl Default for FaultInjector {
    fn default() -> Self {
        Self::new(0)
    }
}

/// Decision about a request.
enum Verdict {
    Forward,
    Die(Moment),
    Trouble(Trouble),
}

impl FaultInjector {
    /// Creates a fault injector that lets all requests pass; `seed` determines its random numbers.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let state = State {
            passed: Vec::new(),
            journal: Vec::new(),
            mutations: 0,
            kill: None,
            chooser: None,
            interruption: None,
            is_dead: false,
            disturbances: Vec::new(),
            hits: 0,
            singled_out: Vec::new(),
            dice: fastrand::Rng::with_seed(seed),
            witness: None,
            list: String::new(),
            late: None,
            lag: Duration::ZERO,
            lists: BTreeMap::new(),
        };
        Self {
            state: Arc::new(Mutex::new(state)),
            died: Arc::new(Notify::new()),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Ends the life at the request that is the `number`th from now, from 1.
    pub fn kill_at(&self, number: usize, moment: Moment) {
        let mut state = self.state();
        let number = state.passed.len() + number;
        state.kill = Some((number, moment));
    }

    /// Ends the run at the first request for which `choose` returns a moment.
    pub fn kill_when(&self, choose: impl FnMut(&Passed) -> Option<Moment> + Send + 'static) {
        self.state().chooser = Some(Box::new(choose));
    }

    /// Runs `action` right before the request to the cloud that is the `number`th from now, from 1.
    pub fn interrupt_at(&self, number: usize, action: impl FnOnce() + Send + 'static) {
        self.state().interruption = Some((number, Box::new(action)));
    }

    /// Names the route of the list of load balancers, for [`Moment::AfterNextRead`] and [`delay_lists`](Self::delay_lists).
    pub fn set_list(&self, route: &str) {
        route.clone_into(&mut self.state().list);
    }

    /// Delays lists of load balancers: they show the state of up to `lag` ago. Queries for a name are answered at once.
    pub fn delay_lists(&self, lag: Duration) {
        let mut state = self.state();
        state.lag = lag;
        state.lists.clear();
    }

    /// Lets a new life pass; what was to end the last one is forgotten.
    pub fn revive(&self) {
        let mut state = self.state();
        state.is_dead = false;
        state.kill = None;
        state.chooser = None;
    }

    /// Returns when the life has ended at a request.
    pub async fn died(&self) {
        loop {
            let died = self.died.notified();
            if self.is_dead() {
                return;
            }
            died.await;
        }
    }

    /// Returns `true` if the run was ended at a request.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.state().is_dead
    }

    fn die(&self) {
        self.state().is_dead = true;
        self.died.notify_waiters();
    }

    /// Adds a disturbance of requests.
    pub fn disturb(&self, disturbance: Disturbance) {
        self.state().disturbances.push(disturbance);
    }

    /// Ends all disturbances at once.
    pub fn calm(&self) {
        self.state().disturbances.clear();
    }

    /// Returns the number of requests that were disturbed so far.
    #[must_use]
    pub fn hits(&self) -> usize {
        self.state().hits
    }

    /// Injects this fault into every change in the cloud whose path or body contains `text`.
    pub fn single_out(&self, text: &str, trouble: Trouble) {
        self.state().singled_out.push((text.to_owned(), trouble));
    }

    /// Ends the faults of [`single_out`](Self::single_out).
    pub fn pardon(&self) {
        self.state().singled_out.clear();
    }

    /// Shows each request, with its body, to `witness` right before it is carried out.
    pub fn watch(&self, witness: impl Fn(&Passed, &[u8]) + Send + Sync + 'static) {
        self.state().witness = Some(Arc::new(witness));
    }

    /// Returns the requests so far, events aside, in their order.
    #[must_use]
    pub fn passed(&self) -> Vec<Passed> {
        self.state().passed.clone()
    }

    /// Puts a line between the requests of the [`journal`](Self::journal).
    pub fn note(&self, what: &str) {
        self.state()
            .journal
            .push((Instant::now(), format!("-- {what}")));
    }

    /// Returns every request with its outcome, and every note, with the seconds since the first: to analyse one run.
    #[must_use]
    pub fn journal(&self) -> Vec<String> {
        let state = self.state();
        let first = state.journal.first().map(|(at, _)| *at);
        let seconds = |at: Instant| {
            first.map_or(0.0, |first| {
                at.saturating_duration_since(first).as_secs_f64()
            })
        };
        state
            .journal
            .iter()
            .map(|(at, what)| format!("{:>8.1} s  {what}", seconds(*at)))
            .collect()
    }

    fn answered(&self, passed: &Passed, how: &str) {
        if !passed.is_event() {
            self.state()
                .journal
                .push((Instant::now(), format!("{passed} → {how}")));
        }
    }

    /// Returns the number of requests so far.
    #[must_use]
    pub fn count(&self) -> usize {
        self.state().passed.len()
    }

    /// Returns the number of requests that asked for a change.
    #[must_use]
    pub fn mutations(&self) -> usize {
        self.state().mutations
    }

    /// Returns the last `count` requests.
    #[must_use]
    pub fn last(&self, count: usize) -> Vec<Passed> {
        let state = self.state();
        state.passed[state.passed.len().saturating_sub(count)..].to_vec()
    }

    fn judge(&self, passed: Passed, body: &[u8]) -> Option<Verdict> {
        let mut state = self.state();
        if state.is_dead {
            return None;
        }
        if passed.is_event() {
            return Some(Verdict::Forward);
        }
        let now = Instant::now();
        let side = passed.side;
        let is_mutation = passed.is_mutation();
        let contains = |text: &str| {
            passed.target.contains(text) || String::from_utf8_lossy(body).contains(text)
        };
        let is_changed_cloud = side == Side::Cloud && is_mutation;
        let mut singled_out = state.singled_out.iter().filter(|_| is_changed_cloud);
        let fate = singled_out
            .find(|(text, _)| contains(text))
            .map(|(_, trouble)| *trouble);
        state.mutations += usize::from(is_mutation);
        let chosen = state.chooser.as_mut().and_then(|choose| choose(&passed));
        state.passed.push(passed);
        let at_number = state
            .kill
            .filter(|(number, _)| *number == state.passed.len());
        if let Some(moment) = at_number.map(|(_, moment)| moment).or(chosen) {
            // A refused request is never carried out, whichever run ends.
            return Some(Verdict::Die(if fate.is_some() {
                Moment::Before
            } else {
                moment
            }));
        }
        if let Some(trouble) = fate {
            return Some(Verdict::Trouble(trouble));
        }
        state
            .disturbances
            .retain(|disturbance| disturbance.until > now);
        let State {
            disturbances, dice, ..
        } = &mut *state;
        let hit = disturbances.iter().find(|disturbance| {
            disturbance.side == side
                && (is_mutation || !disturbance.only_mutations)
                && dice.u8(0..100) < disturbance.percent
        });
        let Some(trouble) = hit.map(|disturbance| disturbance.trouble) else {
            return Some(Verdict::Forward);
        };
        state.hits += 1;
        Some(Verdict::Trouble(trouble))
    }

    /// Runs the action of [`interrupt_at`](Self::interrupt_at) if this request to the cloud is its number.
    fn interrupt(&self) {
        let mut state = self.state();
        let Some((number, action)) = state.interruption.take() else {
            return;
        };
        if number > 1 {
            state.interruption = Some((number - 1, action));
            return;
        }
        drop(state);
        action();
    }

    fn is_list(&self, passed: &Passed) -> bool {
        let list = self.state().list.clone();
        !list.is_empty() && passed.is_on(&list) && !passed.target.contains("name=")
    }

    /// Returns the answer to a list of load balancers, which may be older than it should.
    async fn list(
        &self,
        target: &str,
        fresh: impl Future<Output = Result<Response<Body>, NoAnswer>>,
    ) -> Result<Response<Body>, NoAnswer> {
        let lag = self.state().lag;
        if lag.is_zero() {
            return fresh.await;
        }
        let of = |(status, headers, body): (StatusCode, HeaderMap, Bytes)| {
            let mut answer = Response::new(Body::from(body));
            (*answer.status_mut(), *answer.headers_mut()) = (status, headers);
            answer
        };
        let shown = self.state().lists.get(target).cloned();
        if let Some((_, status, headers, body)) = shown.filter(|(at, ..)| at.elapsed() < lag) {
            return Ok(of((status, headers, body)));
        }
        let (head, body) = fresh.await?.into_parts();
        let body = body.collect().await.map_err(|_| NoAnswer)?.to_bytes();
        let kept = (
            Instant::now(),
            head.status,
            head.headers.clone(),
            body.clone(),
        );
        self.state().lists.insert(target.to_owned(), kept);
        Ok(of((head.status, head.headers, body)))
    }

    /// Wraps a service with the fault injector.
    pub fn before<S>(&self, side: Side, service: S) -> Intercepted<S> {
        Intercepted {
            injector: self.clone(),
            side,
            service,
        }
    }
}

/// A service behind a [`FaultInjector`].
#[derive(Clone)]
pub struct Intercepted<S> {
    injector: FaultInjector,
    side: Side,
    service: S,
}

/// There is no answer.
#[derive(Debug, thiserror::Error)]
#[error("connection reset by peer")]
pub struct NoAnswer;

impl<S, B> Service<Request<B>> for Intercepted<S>
where
    S: Service<Request<Full<Bytes>>, Response = Response<Body>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Send,
{
    type Response = Response<Body>;
    type Error = NoAnswer;
    type Future = BoxFuture<'static, Result<Response<Body>, NoAnswer>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), NoAnswer>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let Self {
            injector,
            side,
            service,
        } = self.clone();
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.map_err(|_| NoAnswer)?.to_bytes();
            let target = head
                .uri
                .path_and_query()
                .map_or_else(String::new, ToString::to_string);
            let passed = Passed {
                side,
                method: head.method.clone(),
                target,
            };
            if side == Side::Cloud {
                injector.interrupt();
            }
            let Some(verdict) = injector.judge(passed.clone(), &body) else {
                return std::future::pending().await;
            };
            let late = (
                service.clone(),
                Request::from_parts(head.clone(), Full::new(body.clone())),
            );
            let forward = {
                let injector = injector.clone();
                let passed = passed.clone();
                async move {
                    let witness = injector.state().witness.clone();
                    if let Some(witness) = witness {
                        witness(&passed, &body);
                    }
                    let answer = service
                        .oneshot(Request::from_parts(head, Full::new(body)))
                        .await;
                    let answer = answer.map_err(|_| NoAnswer);
                    let how = answer.as_ref().map_or("no answer".to_owned(), |response| {
                        response.status().to_string()
                    });
                    injector.answered(&passed, &how);
                    answer
                }
            };
            let is_list = side == Side::Cloud && injector.is_list(&passed);
            let trouble = match verdict {
                Verdict::Forward if is_list => {
                    let answer = injector.list(&passed.target, forward).await;
                    let late = injector.state().late.take();
                    if let Some(late) = late {
                        late.await;
                        injector.note("the last change of the killed program is carried out");
                    }
                    return answer;
                }
                Verdict::Forward => return forward.await,
                Verdict::Die(moment) => {
                    match moment {
                        Moment::Before => {}
                        Moment::After => _ = forward.await,
                        Moment::AfterNextRead => {
                            let (service, request) = late;
                            injector.state().late =
                                Some(service.oneshot(request).map(drop).boxed());
                        }
                    }
                    injector.answered(&passed, "killed");
                    injector.die();
                    return std::future::pending().await;
                }
                Verdict::Trouble(trouble) => trouble,
            };
            injector.answered(&passed, &format!("{trouble:?}"));
            match trouble {
                Trouble::Status(code, retry_after) => Ok(refusal(side, code, retry_after)),
                Trouble::Slow(time) => {
                    tokio::time::sleep(time).await;
                    forward.await
                }
                Trouble::AnswerLost => {
                    _ = forward.await;
                    Err(NoAnswer)
                }
                Trouble::Refused => Err(NoAnswer),
                Trouble::Hang => std::future::pending().await,
            }
        }
        .boxed()
    }
}

/// Returns a refusal in the form of each API.
fn refusal(side: Side, code: u16, retry_after: Option<u32>) -> Response<Body> {
    let reason = match code {
        401 => "Unauthorized",
        409 => "Conflict",
        422 => "Invalid",
        429 => "TooManyRequests",
        _ => "InternalError",
    };
    let message = "refused on purpose";
    let body = match side {
        Side::Kubernetes => {
            serde_json::json!({"kind": "Status", "apiVersion": "v1", "metadata": {},
            "status": "Failure", "message": message, "reason": reason, "code": code})
        }
        Side::Cloud => serde_json::json!({"error": {"code": reason, "message": message}}),
    };
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() =
        StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(
        http::header::CONTENT_TYPE,
        http::HeaderValue::from_static("application/json"),
    );
    if let Some(seconds) = retry_after {
        response
            .headers_mut()
            .insert(http::header::RETRY_AFTER, seconds.into());
    }
    response
}
