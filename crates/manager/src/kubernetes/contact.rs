//! The time of the API server's last answer, for `/readyz` (APP-104 *ours*).

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use parking_lot::Mutex;
use runtime::client::{RequestInfo, RequestMetrics};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Maximum age of the API server's last answer.
const MAX_AGE: Duration = Duration::from_secs(60);
/// Interval of probes while no other request is answered.
const PROBE_INTERVAL: Duration = Duration::from_secs(20);
/// Timeout of a probe.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);

/// The time of the API server's last answer to any client of this process. Clones share the time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Contact {
    last: Arc<Mutex<Option<Instant>>>,
}

impl Contact {
    /// Records that the API server has just answered an authenticated request.
    pub(crate) fn note(&self) {
        *self.last.lock() = Some(Instant::now());
    }

    /// Returns the time since the last answer; `None` if there was none yet.
    fn age(&self) -> Option<Duration> {
        self.last.lock().map(|last| last.elapsed())
    }

    /// Checks that the API server answered within the last minute.
    ///
    /// # Errors
    /// If it did not, with the time since its last answer.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self.age() {
            Some(age) if age <= MAX_AGE => Ok(()),
            Some(age) => Err(format!(
                "the Kubernetes API server has not answered for {} s",
                age.as_secs()
            )),
            None => Err("the Kubernetes API server has not answered yet".to_owned()),
        }
    }

    /// Returns request metrics that record answers here and pass each request on to `then`.
    pub(crate) fn noting(&self, then: Arc<dyn RequestMetrics>) -> Arc<dyn RequestMetrics> {
        Arc::new(Noting {
            contact: self.clone(),
            then,
        })
    }

    /// Probes the API server if no other request was answered recently, until `stop`. Controllers that only watch may
    /// send no request for hours.
    pub(crate) async fn keep(self, client: Client, stop: CancellationToken) {
        loop {
            if self.age().is_none_or(|age| age >= PROBE_INTERVAL) && is_answered(&client).await {
                self.note();
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(PROBE_INTERVAL / 2) => {}
            }
        }
    }
}

/// Returns `true` if the API server accepts the credential. `/version` is refused only to callers whose credential is
/// invalid.
async fn is_answered(client: &Client) -> bool {
    let Ok(request) = http::Request::get("/version").body(Vec::new()) else {
        return false;
    };
    let answer = tokio::time::timeout(PROBE_TIMEOUT, client.request_text(request)).await;
    matches!(answer, Ok(Ok(_)))
}

struct Noting {
    contact: Contact,
    then: Arc<dyn RequestMetrics>,
}

impl RequestMetrics for Noting {
    fn answered(&self, request: &RequestInfo, status: Option<u16>, time: Duration) {
        if status.is_some_and(|status| status != 401 && status < 500) {
            self.contact.note();
        }
        self.then.answered(request, status, time);
    }
    fn limited(&self, request: &RequestInfo, time: Duration) {
        self.then.limited(request, time);
    }
    fn retried(&self, request: &RequestInfo, status: u16) {
        self.then.retried(request, status);
    }
    fn transferred(&self, request: &RequestInfo, sent: usize, received: usize) {
        self.then.transferred(request, sent, received);
    }
    fn kubeconfig_changed(&self, is_in_use: bool) {
        self.then.kubeconfig_changed(is_in_use);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Method;
    use runtime::client::NoRequestMetrics;

    #[tokio::test(start_paused = true)]
    async fn contact_counts_an_authenticated_answer_for_a_minute() {
        let contact = Contact::default();
        let metrics = contact.noting(Arc::new(NoRequestMetrics));
        let request = RequestInfo::new(
            &Method::GET,
            &http::Uri::from_static("/api/v1/nodes"),
            "h".into(),
        );
        for nothing in [None, Some(401), Some(503)] {
            metrics.answered(&request, nothing, Duration::ZERO);
            assert!(
                contact.check().unwrap_err().contains("not answered yet"),
                "{nothing:?}"
            );
        }
        metrics.answered(&request, Some(403), Duration::ZERO);
        assert_eq!(contact.check(), Ok(()), "refused, but known");
        tokio::time::sleep(Duration::from_secs(61)).await;
        assert!(contact.check().unwrap_err().contains("for 61 s"));
    }
}
