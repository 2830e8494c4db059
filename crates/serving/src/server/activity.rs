//! What a connection is doing, and until when it may.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::limits::Limits;

/// What a connection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nothing has been asked yet.
    Fresh { since: Instant },
    /// A request has begun to arrive (HTTP/1.1 only; HTTP/2 mixes them with other frames).
    Header { since: Instant },
    /// So many requests are being answered, since the last of them began or another ended.
    Busy { requests: usize, since: Instant },
    /// Everything asked is answered.
    Idle { since: Instant },
}

impl Phase {
    /// When the connection is closed if nothing changes.
    pub(super) fn deadline(self, limits: &Limits) -> Option<Instant> {
        match self {
            Self::Fresh { since } | Self::Header { since } => since.checked_add(limits.header_read),
            Self::Idle { since } => since.checked_add(limits.idle),
            Self::Busy { since, .. } => since.checked_add(limits.busy),
        }
    }

    fn read(self, now: Instant) -> Self {
        match self {
            Self::Idle { .. } => Self::Header { since: now },
            // The first header's time runs from the beginning of the connection.
            same => same,
        }
    }

    fn begun(self, now: Instant) -> Self {
        match self {
            Self::Busy { requests, .. } => Self::Busy { requests: requests + 1, since: now },
            _ => Self::Busy { requests: 1, since: now },
        }
    }

    fn ended(self, now: Instant) -> Self {
        match self {
            Self::Busy { requests, .. } if requests > 1 => Self::Busy { requests: requests - 1, since: now },
            _ => Self::Idle { since: now },
        }
    }
}

/// The phase of a connection, shared by those who change it and the one who watches it.
#[derive(Clone)]
pub(super) struct Activity(Arc<Shared>);

struct Shared {
    phase: Mutex<Phase>,
    changed: Notify,
}

impl Activity {
    pub(super) fn new() -> Self {
        let phase = Mutex::new(Phase::Fresh { since: Instant::now() });
        Self(Arc::new(Shared { phase, changed: Notify::new() }))
    }

    pub(super) fn phase(&self) -> Phase {
        *self.lock()
    }

    pub(super) async fn changed(&self) {
        self.0.changed.notified().await;
    }

    /// A request begins; it ends when the result is dropped, with the last byte of the answer.
    pub(super) fn begin(&self) -> Answering {
        self.change(|phase| phase.begun(Instant::now()));
        Answering(self.clone())
    }

    fn change(&self, f: impl FnOnce(Phase) -> Phase) {
        let mut phase = self.lock();
        let next = f(*phase);
        let same = *phase == next;
        *phase = next;
        drop(phase);
        if !same {
            self.0.changed.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Phase> {
        self.0.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that is being answered.
pub(super) struct Answering(Activity);

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.change(|phase| phase.ended(Instant::now()));
    }
}

/// A stream that says when something arrives.
pub(super) struct Watched<S> {
    pub(super) stream: S,
    /// `None` where arriving bytes need not be a request.
    pub(super) activity: Option<Activity>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if buffer.filled().len() > before
            && let Some(activity) = &self.activity
        {
            activity.change(|phase| phase.read(Instant::now()));
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
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
        let (start, limits) = (Instant::now(), Limits::standard(0));
        let at = |n| start + Duration::from_secs(n);
        let fresh = Phase::Fresh { since: start };
        assert_eq!(fresh.deadline(&limits), Some(at(32)));
        assert_eq!(fresh.read(at(31)).deadline(&limits), Some(at(32)), "a byte now and then gains nothing");
        let busy = fresh.begun(at(2)).begun(at(10));
        assert_eq!((busy.deadline(&limits), busy.read(at(40))), (Some(at(910)), busy), "an answer may take long");
        assert_eq!(busy.ended(at(50)), Phase::Busy { requests: 1, since: at(50) });
        let idle = busy.ended(at(50)).ended(at(60));
        assert_eq!(idle.deadline(&limits), Some(at(150)));
        let header = idle.read(at(100)).read(at(110));
        assert_eq!(header.deadline(&limits), Some(at(132)));
    }
}
