//! Parsing of requests: verb, resource, namespace, name and options, read from method and path.

use axum::extract::Query;
use http::{HeaderMap, Method, Uri};

use crate::resources::{self, Resource};
use crate::status::ApiError;

/// The API verb of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
    /// Anything that is no resource request.
    Other,
}

impl Verb {
    /// Returns the verb's name in the request log and the fault rules.
    pub(crate) fn name(self) -> &'static str {
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

/// Resource, object and subresource that a path names.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) resource: &'static Resource,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
}

impl Target {
    /// Returns the key of the named object in the store.
    pub(crate) fn key(&self) -> String {
        crate::store::key(self.namespace.as_deref(), self.name())
    }

    pub(crate) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }
}

/// Options of the query string.
#[derive(Debug, Clone, Default)]
pub(crate) struct Options(Vec<(String, String)>);

impl Options {
    pub(crate) fn parse(uri: &Uri) -> Self {
        Query::<Vec<(String, String)>>::try_from_uri(uri)
            .map(|Query(pairs)| Self(pairs))
            .unwrap_or_default()
    }

    /// Returns the value of `name`; an empty one counts as missing.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(key, value)| key == name && !value.is_empty())
            .map(|(_, value)| value.as_str())
    }

    /// Returns the values of all options called `name`.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0
            .iter()
            .filter(move |(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// Returns a flag as Go parses it: `true` without a value, or with anything but `0` and `false`.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.0
            .iter()
            .any(|(key, value)| key == name && !matches!(value.as_str(), "0" | "false"))
    }

    /// Parses an option as a number.
    pub(crate) fn number(&self, name: &str) -> Result<Option<i64>, ApiError> {
        let Some(text) = self.get(name) else {
            return Ok(None);
        };
        text.parse().map(Some).map_err(|_| {
            ApiError::bad_request(format!(
                "strconv.ParseInt: parsing {text:?}: invalid syntax"
            ))
        })
    }

    pub(crate) fn dry_run(&self) -> bool {
        self.all("dryRun").any(|value| value == "All")
    }
}

/// A parsed API request.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) verb: Verb,
    pub(crate) target: Option<Target>,
    pub(crate) path: String,
    pub(crate) options: Options,
    pub(crate) headers: HeaderMap,
}

impl Request {
    pub(crate) fn new(method: &Method, uri: &Uri, headers: HeaderMap) -> Self {
        let options = Options::parse(uri);
        let target = target(uri.path());
        let verb = target
            .as_ref()
            .map_or(Verb::Other, |target| verb(method, target, &options));
        Self {
            verb,
            target,
            path: uri.path().to_owned(),
            options,
            headers,
        }
    }

    pub(crate) fn header(&self, name: http::header::HeaderName) -> &str {
        self.headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    }

    /// Returns the field manager for `managedFields`: the `fieldManager` option, or the program's name in `User-Agent`.
    pub(crate) fn field_manager(&self) -> String {
        if let Some(manager) = self.options.get("fieldManager") {
            return manager.to_owned();
        }
        let agent = self.header(http::header::USER_AGENT);
        let name = agent.split('/').next().unwrap_or_default();
        if name.is_empty() {
            "unknown".to_owned()
        } else {
            name.to_owned()
        }
    }
}

fn verb(method: &Method, target: &Target, options: &Options) -> Verb {
    let named = target.name.is_some();
    match method.as_str() {
        "GET" | "HEAD" if named && !options.flag("watch") => Verb::Get,
        "GET" | "HEAD" if options.flag("watch") => Verb::Watch,
        "GET" | "HEAD" => Verb::List,
        "POST" => Verb::Create,
        "PUT" => Verb::Update,
        "PATCH" => Verb::Patch,
        "DELETE" if named => Verb::Delete,
        "DELETE" => Verb::DeleteCollection,
        _ => Verb::Other,
    }
}

/// Parses `/api/v1/…` and `/apis/GROUP/VERSION/…`
fn target(path: &str) -> Option<Target> {
    let mut parts: Vec<String> = path
        .split('/')
        .filter(|part| !part.is_empty())
        .map(percent_decode)
        .collect();
    let (group, version) = match parts.first().map(String::as_str)? {
        "api" if parts.len() >= 3 => (String::new(), parts[1].clone()),
        "apis" if parts.len() >= 4 => (parts[1].clone(), parts[2].clone()),
        _ => return None,
    };
    parts.drain(..if group.is_empty() { 2 } else { 3 });
    let mut namespace = None;
    let is_scope = parts.len() >= 3 && !matches!(parts[2].as_str(), "status" | "finalize");
    if parts[0] == "namespaces" && is_scope {
        namespace = Some(parts[1].clone());
        parts.drain(..2);
    }
    let resource = resources::by_path(&group, &version, &parts[0])?;
    if namespace.is_some() && !resource.namespaced {
        return None;
    }
    let mut rest = parts.into_iter().skip(1);
    let name = rest.next();
    let subresource = rest.next();
    if name.is_some() && resource.namespaced && namespace.is_none() {
        return None;
    }
    if let Some(subresource) = &subresource {
        let known = (subresource == "status" && resource.has_status)
            || (subresource == "finalize" && resource.plural == "namespaces")
            || (subresource == "token" && resource.plural == "serviceaccounts");
        if !known {
            return None;
        }
    }
    Some(Target {
        resource,
        namespace,
        name,
        subresource,
    })
}

fn percent_decode(text: &str) -> String {
    percent_encoding::percent_decode_str(text)
        .decode_utf8_lossy()
        .into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(method: &Method, uri: &str) -> Request {
        Request::new(method, &uri.parse().unwrap(), HeaderMap::new())
    }

    #[test]
    fn paths_lead_to_resources() {
        let request = parse(
            &Method::GET,
            "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/a?x=1",
        );
        let target = request.target.unwrap();
        assert_eq!(
            (target.resource.plural, target.key()),
            ("leases", "kube-system/a".to_owned())
        );
        let request = parse(&Method::PATCH, "/api/v1/nodes/n%2D1/status");
        let target = request.target.unwrap();
        assert_eq!(
            (target.name(), target.subresource.as_deref()),
            ("n-1", Some("status"))
        );
        let request = parse(&Method::DELETE, "/api/v1/namespaces/x");
        assert_eq!(
            (request.verb, request.target.unwrap().key()),
            (Verb::Delete, "x".to_owned())
        );
    }

    #[test]
    fn a_list_with_the_watch_option_is_a_watch() {
        assert_eq!(
            parse(&Method::GET, "/api/v1/nodes?watch=1").verb,
            Verb::Watch
        );
        assert_eq!(parse(&Method::GET, "/api/v1/nodes?watch").verb, Verb::Watch);
        assert_eq!(
            parse(&Method::GET, "/api/v1/nodes?watch=false").verb,
            Verb::List
        );
        assert_eq!(parse(&Method::GET, "/api/v1/foos").verb, Verb::Other);
    }
}
