//! What every request passes: the account, the faults, and what becomes of the answer.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::{Body, to_bytes};
use axum::response::Response;
use bytes::Bytes;
use futures::{StreamExt, stream};
use serde_json::Value;
use tokio::time::Instant;

use crate::fault::{Effects, Fault, FaultKind};

/// A request that arrived.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// When.
    pub at: Instant,
    /// Method and path template, `GET /servers/{id}`.
    pub route: String,
    /// The path as it was sent.
    pub path: String,
    /// The query as it was sent.
    pub query: String,
    /// The body; null if there was none, or no JSON. A password may be in it.
    pub body: Value,
    /// The answer's status; 0: not answered, or not yet.
    pub status: u16,
    pub(crate) is_mutation: bool,
}

impl Recorded {
    /// Whether it asked for a change.
    #[must_use]
    pub fn is_mutation(&self) -> bool {
        self.is_mutation
    }
}

/// The account of requests, and the faults that hit them. Clones share both.
#[derive(Clone, Default)]
pub struct Gate(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    requests: Vec<Recorded>,
    faults: Vec<Fault>,
    longest_padding: usize,
}

/// Faults.
impl Gate {
    /// Breaks something, until its count is used up or [`clear_faults`](Self::clear_faults).
    pub fn fail(&self, fault: Fault) {
        self.state().faults.push(fault);
    }

    /// Mends everything.
    pub fn clear_faults(&self) {
        self.state().faults.clear();
    }
}

/// The account.
impl Gate {
    /// All requests so far that named a service.
    #[must_use]
    pub fn requests(&self) -> Vec<Recorded> {
        self.state().requests.clone()
    }

    /// Their number by route.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for request in &self.state().requests {
            *counts.entry(request.route.clone()).or_default() += 1;
        }
        counts
    }

    /// The number on this route; a method alone: with this method.
    #[must_use]
    pub fn count(&self, route: &str) -> usize {
        let counts = self.counts().into_iter();
        counts.filter(|(it, _)| it == route || it.split(' ').next() == Some(route)).map(|(_, count)| count).sum()
    }

    /// The bodies that were sent to this route.
    #[must_use]
    pub fn bodies(&self, route: &str) -> Vec<Value> {
        self.requests().into_iter().filter(|it| it.route == route).map(|it| it.body).collect()
    }

    /// Those that asked for a change: route and body.
    #[must_use]
    pub fn changes(&self) -> Vec<(String, Value)> {
        self.requests().into_iter().filter(Recorded::is_mutation).map(|it| (it.route, it.body)).collect()
    }

    /// The most bytes that a client took of one answer of [`LongAnswer`](FaultKind::LongAnswer) or
    /// [`EndlessAnswer`](FaultKind::EndlessAnswer), since the requests were forgotten.
    #[must_use]
    pub fn longest_padding(&self) -> usize {
        self.state().longest_padding
    }

    /// Forgets the requests so far.
    pub fn forget_requests(&self) {
        let mut state = self.state();
        state.requests.clear();
        state.longest_padding = 0;
    }
}

/// A request on its way.
pub(crate) struct Passing {
    gate: Gate,
    at: Instant,
    index: usize,
    pub(crate) effects: Effects,
}

impl Gate {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a request into the account, and says which faults hit it.
    pub(crate) fn admit(&self, request: Recorded) -> Passing {
        let mut state = self.state();
        let effects = Effects::take(&mut state.faults, &request.route);
        let passing = Passing { gate: self.clone(), at: request.at, index: state.requests.len(), effects };
        state.requests.push(request);
        passing
    }
}

impl Passing {
    /// What is left of the answer when the faults are through with it.
    pub(crate) async fn answer(self, answer: Response) -> Response {
        if self.effects.has(&FaultKind::LostAnswer) {
            return Response::new(cut(Bytes::new()));
        }
        // The account may have been begun anew meanwhile.
        if let Some(record) = self.gate.state().requests.get_mut(self.index).filter(|it| it.at == self.at) {
            record.status = answer.status().as_u16();
        }
        let is_cut = self.effects.has(&FaultKind::CutAnswer);
        let padding = self.effects.padding();
        if !is_cut && padding.is_none() {
            return answer;
        }
        let (mut head, body) = answer.into_parts();
        head.headers.remove(http::header::CONTENT_LENGTH);
        if let Some(bytes) = padding {
            return Response::from_parts(head, self.padded(bytes, body));
        }
        let mut body = to_bytes(body, usize::MAX).await.unwrap_or_default();
        body.truncate(body.len() / 2);
        Response::from_parts(head, cut(body))
    }
}

/// Bytes of padding that are sent at once.
const PART: usize = 64 << 10;

impl Passing {
    /// A body with so many spaces before it.
    fn padded(self, bytes: usize, body: Body) -> Body {
        let (gate, spaces) = (self.gate, Bytes::from(vec![b' '; PART]));
        let padding = stream::unfold(0, move |taken| {
            let part = spaces.slice(..PART.min(bytes - taken));
            let taken = taken + part.len();
            let mut state = gate.state();
            state.longest_padding = state.longest_padding.max(taken);
            std::future::ready((!part.is_empty()).then_some((Ok(part), taken)))
        });
        Body::from_stream(padding.chain(body.into_data_stream()))
    }
}

/// A body that breaks off after these bytes: the server closes the connection.
fn cut(bytes: Bytes) -> Body {
    let begun = (!bytes.is_empty()).then_some(Ok(bytes));
    let end = [Err(std::io::Error::other("the connection was cut"))];
    Body::from_stream(stream::iter(begun.into_iter().chain(end)))
}
