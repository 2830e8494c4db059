//! Requests that one program sends to an API server, classified like in kube-apiserver's metrics.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::{Method, Uri};
use parking_lot::{Mutex, MutexGuard};

/// A request to the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiRequest {
    /// `GET`, `LIST`, `WATCH`, `POST`, `PUT`, `PATCH`, `DELETE` …
    pub verb: &'static str,
    /// `nodes`, `nodes/status`, `events` …; the path of what is no resource.
    pub resource: String,
    /// The object's name; empty for a collection.
    pub name: String,
    /// Status code of the response; 0 until then.
    pub status: u16,
}

impl ApiRequest {
    /// Reads a request line.
    ///
    /// ```
    /// use ccm_tests::api_requests::ApiRequest;
    ///
    /// let request = ApiRequest::read(&http::Method::PATCH, &"/api/v1/nodes/a/status".parse()?);
    /// assert_eq!((request.verb, &*request.resource, &*request.name), ("PATCH", "nodes/status", "a"));
    /// let request = ApiRequest::read(&http::Method::GET, &"/api/v1/nodes?watch=true".parse()?);
    /// assert_eq!((request.verb, &*request.resource), ("WATCH", "nodes"));
    /// # Ok::<(), http::uri::InvalidUri>(())
    /// ```
    #[must_use]
    pub fn read(method: &Method, uri: &Uri) -> Self {
        let segments: Vec<&str> = uri
            .path()
            .split('/')
            .filter(|segment| !segment.is_empty())
            .collect();
        let below = match segments.as_slice() {
            ["api", _, below @ ..] | ["apis", _, _, below @ ..] => below,
            _ => &[],
        };
        let below = match below {
            ["namespaces", _, below @ ..] if !below.is_empty() => below,
            below => below,
        };
        let (resource, name) = match below {
            [] => (uri.path().to_owned(), ""),
            [resource] => ((*resource).to_owned(), ""),
            [resource, name] => ((*resource).to_owned(), *name),
            [resource, name, subresource, ..] => (format!("{resource}/{subresource}"), *name),
        };
        let watches = uri.query().is_some_and(|query| {
            query
                .split('&')
                .any(|pair| matches!(pair, "watch=true" | "watch=1"))
        });
        let verb = match *method {
            Method::GET if watches => "WATCH",
            Method::GET if name.is_empty() && !below.is_empty() => "LIST",
            Method::GET => "GET",
            Method::POST => "POST",
            Method::PUT => "PUT",
            Method::PATCH => "PATCH",
            Method::DELETE => "DELETE",
            _ => "OTHER",
        };
        Self {
            verb,
            resource,
            name: name.to_owned(),
            status: 0,
        }
    }

    /// Returns `true` if the request asks for a change.
    #[must_use]
    pub fn is_write(&self) -> bool {
        is_write(self.verb, &self.resource)
    }

    /// Returns `true` if the response has a status of success.
    #[must_use]
    pub fn succeeded(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

/// Returns `true` if a request with this verb, of this resource, asks for a change. A review is a query although it is
/// posted: about permissions, or about the identity of a token. Nothing is stored.
///
/// ```
/// use ccm_tests::api_requests::is_write;
///
/// assert!(is_write("PATCH", "nodes/status") && is_write("POST", "events") && !is_write("WATCH", "nodes"));
/// assert!(!is_write("POST", "selfsubjectaccessreviews") && !is_write("POST", "tokenreviews"));
/// ```
#[must_use]
pub fn is_write(verb: &str, resource: &str) -> bool {
    !matches!(verb, "GET" | "LIST" | "WATCH") && !resource.ends_with("reviews")
}

/// The requests since the start or the last [`clear`](Self::clear). Clones share them.
#[derive(Clone, Debug, Default)]
pub struct ApiRequests(Arc<Mutex<Log>>);

#[derive(Debug, Default)]
struct Log {
    requests: Vec<ApiRequest>,
    counts: BTreeMap<(String, String), u64>,
    keeps_only_counts: bool,
}

impl ApiRequests {
    /// Creates a log that keeps no single requests, only their number.
    #[must_use]
    pub fn counts_only() -> Self {
        let this = Self::default();
        this.log().keeps_only_counts = true;
        this
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.0.lock()
    }

    /// Notes a request that was answered.
    pub fn push(&self, request: ApiRequest) {
        let mut log = self.log();
        *log.counts
            .entry((request.verb.to_owned(), request.resource.clone()))
            .or_default() += 1;
        if !log.keeps_only_counts {
            log.requests.push(request);
        }
    }

    /// Returns the requests in the order of their responses.
    #[must_use]
    pub fn all(&self) -> Vec<ApiRequest> {
        self.log().requests.clone()
    }

    /// Returns the successful writes.
    #[must_use]
    pub fn changes(&self) -> Vec<ApiRequest> {
        let log = self.log();
        log.requests
            .iter()
            .filter(|request| request.is_write() && request.succeeded())
            .cloned()
            .collect()
    }

    /// Returns the number of requests by verb and resource.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<(String, String), u64> {
        self.log().counts.clone()
    }

    /// Removes all requests and counts.
    pub fn clear(&self) {
        let mut log = self.log();
        log.requests.clear();
        log.counts.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_told_apart() {
        let table = [
            (Method::GET, "/version", "GET", "/version", ""),
            (Method::GET, "/api/v1/nodes?limit=500", "LIST", "nodes", ""),
            (
                Method::GET,
                "/api/v1/nodes?sendInitialEvents=true&watch=1",
                "WATCH",
                "nodes",
                "",
            ),
            (
                Method::GET,
                "/api/v1/namespaces/kube-system",
                "GET",
                "namespaces",
                "kube-system",
            ),
            (
                Method::POST,
                "/api/v1/namespaces/default/events",
                "POST",
                "events",
                "",
            ),
            (
                Method::PATCH,
                "/api/v1/namespaces/default/events/a.1",
                "PATCH",
                "events",
                "a.1",
            ),
            (
                Method::PUT,
                "/apis/coordination.k8s.io/v1/namespaces/n/leases/l",
                "PUT",
                "leases",
                "l",
            ),
            (Method::DELETE, "/api/v1/nodes/a", "DELETE", "nodes", "a"),
        ];
        for (method, path, verb, resource, name) in table {
            let request = ApiRequest::read(&method, &path.parse().unwrap());
            assert_eq!(
                (request.verb, &*request.resource, &*request.name),
                (verb, resource, name),
                "{method} {path}"
            );
        }
    }
}
