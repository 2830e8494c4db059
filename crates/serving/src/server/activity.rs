//! Activity of a connection, and its deadlines.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::limits::{HTTP2_CONNECTION_BYTES, Limits};

/// Phase of a connection between requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No request has been received yet.
    Fresh,
    /// A request has begun to arrive (HTTP/1.1 only; HTTP/2 mixes them with other frames).
    Header,
    /// Responses to all requests have been sent.
    Idle,
}

/// Phase and pending requests of a connection.
#[derive(Clone, Debug)]
struct ActivityState {
    phase: Phase,
    /// Start of the phase.
    since: Instant,
    /// Requests that are being answered, with their deadlines.
    requests: BTreeMap<u64, Instant>,
    next: u64,
    /// Time since which the peer has not read the written data, if it has not.
    blocked: Option<Instant>,
    lifetime: Lifetime,
}

/// State of a connection with respect to its limit of received bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lifetime {
    /// The connection has sent less than half of the limit.
    Open,
    /// The connection has sent half of the limit and is drained.
    Ending,
    /// The connection has sent the whole limit and is closed.
    Over,
}

impl ActivityState {
    fn new(now: Instant) -> Self {
        Self {
            phase: Phase::Fresh,
            since: now,
            requests: BTreeMap::new(),
            next: 0,
            blocked: None,
            lifetime: Lifetime::Open,
        }
    }

    /// Returns the time at which the connection is closed unless it makes progress.
    fn deadline(&self, limits: &Limits) -> Option<Instant> {
        let blocked = self
            .blocked
            .and_then(|since| since.checked_add(limits.busy));
        // Each request has its own deadline, so that other requests do not extend the time of a stuck one.
        let first_request = match (self.requests.values().min(), self.phase) {
            (Some(first), _) => Some(*first),
            (None, Phase::Fresh | Phase::Header) => self.since.checked_add(limits.header_read),
            (None, Phase::Idle) => self.since.checked_add(limits.idle),
        };
        [first_request, blocked].into_iter().flatten().min()
    }

    fn read(&mut self, now: Instant) {
        // The first header's time runs from the beginning of the connection.
        if self.phase == Phase::Idle && self.requests.is_empty() {
            (self.phase, self.since) = (Phase::Header, now);
        }
    }

    fn begin(&mut self, now: Instant, limit: Duration) -> u64 {
        self.next += 1;
        self.requests
            .insert(self.next, now.checked_add(limit).unwrap_or(now));
        self.next
    }

    fn end(&mut self, request: u64, now: Instant) {
        self.requests.remove(&request);
        (self.phase, self.since) = (Phase::Idle, now);
    }
}

/// The state of a connection, shared by those who change it and the one who watches it.
#[derive(Clone)]
pub(super) struct Activity(Arc<Shared>);

struct Shared {
    state: Mutex<ActivityState>,
    changed: Notify,
}

impl Activity {
    pub(super) fn new() -> Self {
        let state = Mutex::new(ActivityState::new(Instant::now()));
        Self(Arc::new(Shared {
            state,
            changed: Notify::new(),
        }))
    }

    pub(super) async fn changed(&self) {
        self.0.changed.notified().await;
    }

    /// Returns the time at which the connection is closed if it makes no progress.
    pub(super) fn deadline(&self, limits: &Limits) -> Option<Instant> {
        self.state().deadline(limits)
    }

    /// Returns `true` if a request is being answered, or an answer is not taken.
    pub(super) fn is_busy(&self) -> bool {
        let state = self.state();
        !state.requests.is_empty() || state.blocked.is_some()
    }

    /// Returns the state of the connection with respect to its byte limit.
    pub(super) fn lifetime(&self) -> Lifetime {
        self.state().lifetime
    }

    /// Returns the time since when the connection has been idle; `None` while a request is being answered.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        let state = self.state();
        state.requests.is_empty().then_some(state.since)
    }

    /// Begins a request, which may take `limit`; it ends when the result is dropped, with the last byte of the answer.
    pub(super) fn begin(&self, limit: Duration) -> Answering {
        let request = self.change(|state| state.begin(Instant::now(), limit));
        Answering {
            activity: self.clone(),
            request,
        }
    }

    /// Changes the state, and recomputes the deadline.
    fn change<T>(&self, f: impl FnOnce(&mut ActivityState) -> T) -> T {
        let changed = f(&mut self.state());
        self.0.changed.notify_one();
        changed
    }

    fn state(&self) -> MutexGuard<'_, ActivityState> {
        self.0.state.lock()
    }
}

/// A request that is being answered.
pub(super) struct Answering {
    activity: Activity,
    request: u64,
}

impl Answering {
    /// Returns the handle with which a handler extends its deadline.
    pub(super) fn timeout(&self) -> RequestTimeout {
        RequestTimeout {
            activity: self.activity.clone(),
            request: self.request,
        }
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.activity
            .change(|state| state.end(self.request, Instant::now()));
    }
}

/// Time limit of a request; an extension of each request, for handlers whose answers take long by their nature.
#[derive(Clone)]
pub struct RequestTimeout {
    activity: Activity,
    request: u64,
}

impl RequestTimeout {
    /// Moves the end of the request's time.
    pub fn extend(&self, by: Duration) {
        self.activity.change(|state| {
            if let Some(deadline) = state.requests.get_mut(&self.request) {
                *deadline = deadline.checked_add(by).unwrap_or(*deadline);
            }
        });
    }
}

/// A stream that reports when something arrives, and when the peer takes nothing.
pub(super) struct Watched<S> {
    stream: S,
    activity: Activity,
    /// If set, arriving bytes belong to requests.
    reads: bool,
    /// Bytes that may arrive.
    remaining: usize,
    is_blocked: bool,
}

impl<S> Watched<S> {
    pub(super) fn http1(stream: S, activity: Activity) -> Self {
        Self {
            stream,
            activity,
            reads: true,
            remaining: usize::MAX,
            is_blocked: false,
        }
    }

    pub(super) fn http2(stream: S, activity: Activity) -> Self {
        Self {
            stream,
            activity,
            reads: false,
            remaining: HTTP2_CONNECTION_BYTES,
            is_blocked: false,
        }
    }

    fn arrived(&mut self, bytes: usize) -> std::io::Result<()> {
        // A poll without bytes must change nothing: each change has the connection polled again.
        if bytes == 0 {
            return Ok(());
        }
        if self.reads {
            self.activity.change(|state| state.read(Instant::now()));
            return Ok(());
        }
        self.remaining = self.remaining.saturating_sub(bytes);
        if self.remaining == 0 {
            self.activity
                .change(|state| state.lifetime = Lifetime::Over);
            return Err(std::io::Error::other(
                "the connection exceeded its byte limit",
            ));
        }
        if self.remaining <= HTTP2_CONNECTION_BYTES / 2 {
            self.activity
                .change(|state| state.lifetime = Lifetime::Ending);
        }
        Ok(())
    }

    /// Notes the outcome of a write (which may go to a buffer only) or a flush (after which the peer's machine has it
    /// all).
    fn note(&mut self, is_pending: bool, is_flushed: bool) {
        if is_pending && !self.is_blocked {
            self.is_blocked = true;
            self.activity
                .change(|state| state.blocked = Some(Instant::now()));
        } else if is_flushed && self.is_blocked {
            self.is_blocked = false;
            self.activity.change(|state| state.blocked = None);
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if let Err(error) = self.arrived(buffer.filled().len() - before) {
            return Poll::Ready(Err(error));
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.note(polled.is_pending(), false);
        polled
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, buffers);
        self.note(polled.is_pending(), false);
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(cx);
        self.note(polled.is_pending(), polled.is_ready());
        polled
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn a_connection_has_time_for_headers_and_between_requests_but_not_for_both() {
        let start = Instant::now();
        let limits = Limits::standard(0);
        let at = |n| start + Duration::from_secs(n);
        let mut state = ActivityState::new(start);
        assert_eq!(state.deadline(&limits), Some(at(32)));
        state.read(at(31));
        assert_eq!(
            state.deadline(&limits),
            Some(at(32)),
            "a byte now and then gains nothing"
        );
        let first = state.begin(at(2), limits.busy);
        let second = state.begin(at(10), limits.busy);
        state.read(at(20));
        assert_eq!(state.deadline(&limits), Some(at(32)), "30 s for the first");
        state.end(first, at(20));
        assert_eq!(
            state.deadline(&limits),
            Some(at(40)),
            "30 s for the second, which another's end does not extend"
        );
        state.end(second, at(30));
        assert_eq!(state.deadline(&limits), Some(at(120)));
        state.read(at(100));
        state.read(at(110));
        assert_eq!(state.deadline(&limits), Some(at(132)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_takes_nothing_has_as_long_as_a_request() {
        let start = Instant::now();
        let limits = Limits::standard(0);
        let at = |n| start + Duration::from_secs(n);
        let mut state = ActivityState::new(start);
        let request = state.begin(start, limits.busy);
        state.end(request, at(1));
        state.blocked = Some(at(1));
        assert_eq!(
            state.deadline(&limits),
            Some(at(31)),
            "the request is over, its answer is not taken"
        );
        state.blocked = None;
        assert_eq!(state.deadline(&limits), Some(at(91)));
    }
}
