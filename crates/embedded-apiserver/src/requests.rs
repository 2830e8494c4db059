//! The request log: requests, their senders and their outcomes.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};

/// Bytes of a written body that are kept.
const MAX_BODY: usize = 16 * 1024;

/// A request in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedRequest {
    /// Verb: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`, or `other` for
    /// non-resource requests.
    pub verb: &'static str,
    /// Plural name (`nodes`); empty for what is no resource.
    pub resource: String,
    /// Subresource of the request, such as `status`, or empty.
    pub subresource: String,
    /// Namespace of the path, or empty.
    pub namespace: String,
    /// Name of the path, or empty.
    pub name: String,
    /// The path, without the query.
    pub path: String,
    /// The query, as sent.
    pub query: String,
    /// `Content-Type` of the body, or empty.
    pub content_type: String,
    /// The request's `User-Agent`, or empty.
    pub user_agent: String,
    /// The body of a write, at most 16 KiB of it; Secrets and reviews are left out.
    pub body: Bytes,
    /// Status code of the answer; 0 if the connection was cut.
    pub status: u16,
}

impl LoggedRequest {
    /// Returns `true` if the request asks for a change.
    #[must_use]
    pub fn is_write(&self) -> bool {
        matches!(
            self.verb,
            "create" | "update" | "patch" | "delete" | "deletecollection"
        )
    }

    /// Returns the body as JSON, if it is.
    #[must_use]
    pub fn json(&self) -> Option<serde_json::Value> {
        serde_json::from_slice(&self.body).ok()
    }
}

/// The requests since the start or the last [`clear`](RequestLog::clear). Clones share one log.
#[derive(Debug, Clone)]
pub struct RequestLog {
    inner: Arc<Mutex<Log>>,
    capacity: usize,
}

#[derive(Debug, Default)]
struct Log {
    requests: VecDeque<LoggedRequest>,
    counts: BTreeMap<(String, String), u64>,
    counts_by_agent: BTreeMap<(String, String, String), u64>,
}

impl RequestLog {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            inner: Arc::default(),
            capacity,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Log> {
        self.inner.lock()
    }

    pub(crate) fn push(&self, mut request: LoggedRequest) {
        if request.body.len() > MAX_BODY {
            request.body = Bytes::copy_from_slice(&request.body[..MAX_BODY]);
        }
        let resource = if request.subresource.is_empty() {
            request.resource.clone()
        } else {
            format!("{}/{}", request.resource, request.subresource)
        };
        let sender = sender(&request.user_agent);
        let mut log = self.lock();
        *log.counts_by_agent
            .entry((sender, request.verb.to_owned(), resource.clone()))
            .or_default() += 1;
        *log.counts
            .entry((request.verb.to_owned(), resource))
            .or_default() += 1;
        log.requests.push_back(request);
        while log.requests.len() > self.capacity {
            log.requests.pop_front();
        }
    }

    /// Returns the last requests, oldest first, at most [`Options::request_log`](crate::Options::request_log).
    #[must_use]
    pub fn all(&self) -> Vec<LoggedRequest> {
        self.lock().requests.iter().cloned().collect()
    }

    /// Returns the requests that ask for a change.
    #[must_use]
    pub fn writes(&self) -> Vec<LoggedRequest> {
        self.lock()
            .requests
            .iter()
            .filter(|request| request.is_write())
            .cloned()
            .collect()
    }

    /// Returns the number of all requests by verb and resource (`nodes`, `nodes/status`), also those no longer in
    /// [`all`](Self::all).
    #[must_use]
    pub fn counts(&self) -> BTreeMap<(String, String), u64> {
        self.lock().counts.clone()
    }

    /// Returns [`counts`](Self::counts) by sender, verb and resource. The sender is the program's name in its
    /// `User-Agent`, with the component if present: `kubectl`, `cloud-controller-manager/node-controller`.
    #[must_use]
    pub fn counts_by_agent(&self) -> BTreeMap<(String, String, String), u64> {
        self.lock().counts_by_agent.clone()
    }

    /// Returns the number of requests with this verb for this resource (`nodes`, `nodes/status`).
    #[must_use]
    pub fn count(&self, verb: &str, resource: &str) -> u64 {
        self.lock()
            .counts
            .get(&(verb.to_owned(), resource.to_owned()))
            .copied()
            .unwrap_or(0)
    }

    /// Forgets all requests and counts.
    pub fn clear(&self) {
        *self.lock() = Log::default();
    }
}

/// Returns `PROGRAM` or `PROGRAM/COMPONENT` of `PROGRAM/VERSION (OS/ARCH) kubernetes/COMMIT/COMPONENT`.
fn sender(user_agent: &str) -> String {
    let program = user_agent.split('/').next().unwrap_or_default();
    let commit = user_agent
        .split_once(" kubernetes/")
        .map_or("", |(_, rest)| rest);
    match commit.split_once('/') {
        Some((_, component)) => format!("{program}/{component}"),
        None => program.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::sender;

    #[test]
    fn senders_are_programs_and_their_components() {
        let system = "v1.37.2 (linux/amd64) kubernetes/0123456";
        assert_eq!(sender(&format!("kubectl/{system}")), "kubectl");
        assert_eq!(
            sender(&format!("ccm/{system}/node-controller")),
            "ccm/node-controller"
        );
        assert_eq!(sender("curl/8.5.0"), "curl");
        assert_eq!(sender(""), "");
    }
}
