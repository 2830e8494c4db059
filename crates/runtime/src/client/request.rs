//! Description of a request, and the metrics that each request reports.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Uri};

/// The RBAC verb of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
    Other,
}

impl Verb {
    /// Returns the verb in lower case.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
            Self::Other => "other",
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Description of a request without names and namespaces, so that it can label a metric.
///
/// ```
/// use http::Method;
/// use runtime::client::{RequestInfo, Verb};
///
/// let uri = "/api/v1/nodes/worker-1/status".parse()?;
/// let request = RequestInfo::new(&Method::PATCH, &uri, "10.0.0.1:443".into());
/// assert_eq!((request.verb, request.route.as_str()), (Verb::Patch, "nodes/status"));
/// # Ok::<(), http::uri::InvalidUri>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestInfo {
    /// The request's HTTP method.
    pub method: Method,
    /// The request's RBAC verb.
    pub verb: Verb,
    /// Resource and subresource (`nodes/status`), with the API group unless it is the core
    /// (`leases.coordination.k8s.io`); the path itself if it is no resource (`/healthz`).
    pub route: String,
    /// Host and port of the API server.
    pub host: Arc<str>,
}

/// Returns `true` if the URI is that of a watch, whose response is a stream.
pub(super) fn is_watch(uri: &Uri) -> bool {
    uri.query()
        .is_some_and(|q| q.split('&').any(|p| matches!(p, "watch=true" | "watch=1")))
}

impl RequestInfo {
    /// Reads method and path.
    #[must_use]
    pub fn new(method: &Method, uri: &Uri, host: Arc<str>) -> Self {
        let path = Path::parse(uri.path());
        let verb = match (method.as_str(), path.named) {
            ("GET", _) if is_watch(uri) => Verb::Watch,
            ("GET", false) if path.is_resource => Verb::List,
            ("GET", _) => Verb::Get,
            ("POST", _) => Verb::Create,
            ("PUT", _) => Verb::Update,
            ("PATCH", _) => Verb::Patch,
            ("DELETE", false) => Verb::DeleteCollection,
            ("DELETE", true) => Verb::Delete,
            _ => Verb::Other,
        };
        Self {
            method: method.clone(),
            verb,
            route: path.route,
            host,
        }
    }

    /// Returns `true` if the response is a stream without an end.
    #[must_use]
    pub fn is_watch(&self) -> bool {
        self.verb == Verb::Watch
    }
}

struct Path {
    route: String,
    is_resource: bool,
    named: bool,
}

impl Path {
    fn parse(path: &str) -> Self {
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let (group, rest) = match parts.as_slice() {
            ["api", _version, rest @ ..] => ("", rest),
            ["apis", group, _version, rest @ ..] => (*group, rest),
            _ => ("", [].as_slice()),
        };
        let rest = match rest {
            // `namespaces/NAME/RESOURCE…` is in a namespace; `namespaces[/NAME[/status|finalize]]` is one.
            ["namespaces", _, sub, ..] if !matches!(*sub, "status" | "finalize") => &rest[2..],
            _ => rest,
        };
        let Some(resource) = rest.first() else {
            return Self {
                route: path.to_owned(),
                is_resource: false,
                named: true,
            };
        };
        let dot = if group.is_empty() { "" } else { "." };
        let subresource = rest.get(2).map(|s| format!("/{s}")).unwrap_or_default();
        Self {
            route: format!("{resource}{dot}{group}{subresource}"),
            is_resource: true,
            named: rest.len() > 1,
        }
    }
}

/// The hook for the metrics of the API client. All methods do nothing by default.
pub trait RequestMetrics: Send + Sync {
    /// Records an attempt with its HTTP status (`None` without a response), `time` after the request was sent. For a
    /// watch, `time` ends when it begins.
    fn answered(&self, _request: &RequestInfo, _status: Option<u16>, _time: Duration) {}
    /// Records that the client's own rate limit delayed the request for that long.
    fn limited(&self, _request: &RequestInfo, _time: Duration) {}
    /// Records a retry after a response with that status.
    fn retried(&self, _request: &RequestInfo, _status: u16) {}
    /// Sizes of the bodies in bytes; not for watches.
    fn transferred(&self, _request: &RequestInfo, _sent: usize, _received: usize) {}
    /// Called with `true` when a changed kubeconfig, or a file that it names, is applied, and with `false` at each
    /// attempt at which it cannot be used.
    fn kubeconfig_changed(&self, _is_in_use: bool) {}
}

/// A [`RequestMetrics`] that records nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoRequestMetrics;

impl RequestMetrics for NoRequestMetrics {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_become_routes() {
        let table = [
            ("GET", "/api/v1/nodes", Verb::List, "nodes"),
            (
                "GET",
                "/api/v1/nodes?limit=5&watch=true",
                Verb::Watch,
                "nodes",
            ),
            ("GET", "/api/v1/nodes/a", Verb::Get, "nodes"),
            ("DELETE", "/api/v1/nodes/a", Verb::Delete, "nodes"),
            ("DELETE", "/api/v1/nodes", Verb::DeleteCollection, "nodes"),
            (
                "PATCH",
                "/api/v1/namespaces/x/services/y/status",
                Verb::Patch,
                "services/status",
            ),
            (
                "GET",
                "/api/v1/namespaces/x/services",
                Verb::List,
                "services",
            ),
            (
                "GET",
                "/api/v1/namespaces/kube-system",
                Verb::Get,
                "namespaces",
            ),
            ("GET", "/api/v1/namespaces", Verb::List, "namespaces"),
            (
                "PUT",
                "/api/v1/namespaces/x/finalize",
                Verb::Update,
                "namespaces/finalize",
            ),
            (
                "POST",
                "/api/v1/namespaces/x/serviceaccounts/y/token",
                Verb::Create,
                "serviceaccounts/token",
            ),
            (
                "PUT",
                "/apis/coordination.k8s.io/v1/namespaces/x/leases/y",
                Verb::Update,
                "leases.coordination.k8s.io",
            ),
            ("GET", "/healthz", Verb::Get, "/healthz"),
            ("GET", "/apis", Verb::Get, "/apis"),
            ("HEAD", "/api/v1/nodes/a", Verb::Other, "nodes"),
        ];
        for (method, uri, verb, route) in table {
            let info =
                RequestInfo::new(&method.parse().unwrap(), &uri.parse().unwrap(), "h".into());
            assert_eq!(
                (info.verb, info.route.as_str()),
                (verb, route),
                "{method} {uri}"
            );
        }
    }
}
