//! The recorder of requests, which also injects faults into them and their answers.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::response::Response;
use bytes::Bytes;
use futures::{StreamExt, stream};
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use tokio::time::Instant;

use crate::fault::{Effects, Fault, FaultKind};

/// A request that was recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// Time at which the request arrived.
    pub at: Instant,
    /// Method and path template, such as `GET /servers/{id}`.
    pub route: String,
    /// Path, as it was sent.
    pub path: String,
    /// Query, as it was sent.
    pub query: String,
    /// Body; null if there was none, or no valid JSON. May contain a password.
    pub body: Value,
    /// Status of the answer; 0 if there is none, or none yet.
    pub status: u16,
    pub(crate) is_mutation: bool,
}

impl Recorded {
    /// Returns `true` if the request changes something.
    #[must_use]
    pub fn is_mutation(&self) -> bool {
        self.is_mutation
    }
}

/// The record of requests, and the faults that hit them. Clones share both.
#[derive(Clone, Default)]
pub struct FaultInjector(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    requests: Vec<Recorded>,
    faults: Vec<Fault>,
    longest_padding: usize,
}

/// Methods that inject faults.
impl FaultInjector {
    /// Injects a fault, until its count is used up or [`clear_faults`](Self::clear_faults) is called.
    pub fn fail(&self, fault: Fault) {
        self.state().faults.push(fault);
    }

    /// Removes all injected faults.
    pub fn clear_faults(&self) {
        self.state().faults.clear();
    }
}

/// Methods for the record of requests.
impl FaultInjector {
    /// Returns all requests so far that named a service.
    #[must_use]
    pub fn requests(&self) -> Vec<Recorded> {
        self.state().requests.clone()
    }

    /// Returns the number of requests by route.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for request in &self.state().requests {
            *counts.entry(request.route.clone()).or_default() += 1;
        }
        counts
    }

    /// Returns the number of requests on this route, or with this method.
    #[must_use]
    pub fn count(&self, route: &str) -> usize {
        let counts = self.counts().into_iter();
        counts
            .filter(|(text, _)| text == route || text.split(' ').next() == Some(route))
            .map(|(_, count)| count)
            .sum()
    }

    /// Returns the bodies that were sent to this route.
    #[must_use]
    pub fn bodies(&self, route: &str) -> Vec<Value> {
        self.requests()
            .into_iter()
            .filter(|request| request.route == route)
            .map(|request| request.body)
            .collect()
    }

    /// Returns route and body of the requests that change something.
    #[must_use]
    pub fn changes(&self) -> Vec<(String, Value)> {
        self.requests()
            .into_iter()
            .filter(Recorded::is_mutation)
            .map(|request| (request.route, request.body))
            .collect()
    }

    /// Returns the maximum number of bytes that a client read of one answer with [`LongAnswer`](FaultKind::LongAnswer)
    /// or [`EndlessAnswer`](FaultKind::EndlessAnswer), since the requests were forgotten.
    #[must_use]
    pub fn longest_padding(&self) -> usize {
        self.state().longest_padding
    }

    /// Clears the record of requests.
    pub fn forget_requests(&self) {
        let mut state = self.state();
        state.requests.clear();
        state.longest_padding = 0;
    }
}

/// A request that is being answered.
pub(crate) struct Passing {
    fault_injector: FaultInjector,
    at: Instant,
    index: usize,
    pub(crate) effects: Effects,
}

impl FaultInjector {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }

    /// Records a request, and returns it with the faults that hit it.
    pub(crate) fn admit(&self, request: Recorded) -> Passing {
        let mut state = self.state();
        let effects = Effects::take(&mut state.faults, &request.route);
        let passing = Passing {
            fault_injector: self.clone(),
            at: request.at,
            index: state.requests.len(),
            effects,
        };
        state.requests.push(request);
        passing
    }
}

impl Passing {
    /// Applies the faults to the answer.
    pub(crate) async fn answer(self, answer: Response) -> Response {
        if self.effects.has(&FaultKind::LostAnswer) {
            return Response::new(cut(Bytes::new()));
        }
        // The record may have been cleared meanwhile.
        if let Some(record) = self
            .fault_injector
            .state()
            .requests
            .get_mut(self.index)
            .filter(|request| request.at == self.at)
        {
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

/// The number of padding bytes that are sent at once.
const PART: usize = 64 << 10;

impl Passing {
    /// Returns a body with this many spaces before it.
    fn padded(self, bytes: usize, body: Body) -> Body {
        let fault_injector = self.fault_injector;
        let spaces = Bytes::from(vec![b' '; PART]);
        let padding = stream::unfold(0, move |taken| {
            let part = spaces.slice(..PART.min(bytes - taken));
            let taken = taken + part.len();
            let mut state = fault_injector.state();
            state.longest_padding = state.longest_padding.max(taken);
            std::future::ready((!part.is_empty()).then_some((Ok(part), taken)))
        });
        Body::from_stream(padding.chain(body.into_data_stream()))
    }
}

/// Returns a body that breaks off after these bytes, as if the server closed the connection.
fn cut(bytes: Bytes) -> Body {
    let begun = (!bytes.is_empty()).then_some(Ok(bytes));
    let end = [Err(std::io::Error::other("the connection was cut"))];
    Body::from_stream(stream::iter(begun.into_iter().chain(end)))
}
