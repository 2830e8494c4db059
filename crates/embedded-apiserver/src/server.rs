//! The server: its options, its state, and direct access to objects for tests.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::allocate::Allocators;
use crate::faults::Faults;
use crate::requests::RequestLog;
use crate::resources::{self, Resource};
use crate::schema::{Schema, decode};
use crate::service::ApiService;
use crate::store::{Expect, Store, Stored};

/// Settings of the server.
#[derive(Debug, Clone)]
pub struct Options {
    /// `gitVersion` of `/version`.
    pub version: String,
    /// Number of changes kept per resource. Watches and lists that need older ones are answered 410 Gone.
    pub history: usize,
    /// Number of requests kept in the log.
    pub request_log: usize,
    /// First address of the range of cluster IPs.
    pub service_network: Ipv4Addr,
    /// Prefix length of that range, 12 to 30.
    pub service_prefix: u8,
    /// Time between bookmarks of an idle watch.
    pub bookmark_interval: Duration,
    /// Bearer tokens and their users, for TokenReviews and for the authentication of requests.
    pub tokens: HashMap<String, User>,
    /// If set, requests without a known token are refused with 401; otherwise they are authenticated as an
    /// administrator.
    pub require_token: bool,
    /// Taint new Nodes `node.kubernetes.io/not-ready`, as the real server's admission does.
    pub taint_new_nodes: bool,
}

/// User that a token authenticates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Name of the user.
    pub name: String,
    /// Groups; `system:masters` may do everything.
    pub groups: Vec<String>,
}

impl User {
    /// Returns a member of `system:masters`.
    #[must_use]
    pub fn admin() -> Self {
        Self {
            name: "kubernetes-admin".to_owned(),
            groups: vec![
                "system:masters".to_owned(),
                "system:authenticated".to_owned(),
            ],
        }
    }

    /// Returns `true` if the user may do everything.
    #[must_use]
    pub fn is_admin(&self) -> bool {
        self.groups.iter().any(|group| group == "system:masters")
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            version: "v1.37.2".to_owned(),
            history: 4096,
            request_log: 10_000,
            service_network: Ipv4Addr::new(10, 96, 0, 0),
            service_prefix: 12,
            bookmark_interval: Duration::from_secs(60),
            tokens: HashMap::new(),
            require_token: false,
            taint_new_nodes: true,
        }
    }
}

/// An object that cannot be seeded.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SeedError {
    /// The server does not store this kind.
    #[error(
        "kind {kind:?} of apiVersion {api_version:?} is not served; set both fields to a kind that is"
    )]
    UnknownKind {
        /// `kind` of the object.
        kind: String,
        /// `apiVersion` of the object.
        api_version: String,
    },
    /// `metadata.name` is missing.
    #[error("a {0} to be seeded needs metadata.name")]
    NoName(String),
    /// A field has the wrong type.
    #[error("{object}: {problem}")]
    Malformed {
        /// Kind and name of the object.
        object: String,
        /// Description of the error.
        problem: String,
    },
}

/// The state that all clones share.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) options: Options,
    pub(crate) store: Arc<Store>,
    pub(crate) allocators: Allocators,
    pub(crate) faults: Faults,
    pub(crate) requests: RequestLog,
    /// Issued ServiceAccount tokens and their users.
    issued: Mutex<HashMap<String, Value>>,
    started: Instant,
    started_at: jiff::Timestamp,
}

impl Inner {
    /// Returns the time, which follows tokio's clock.
    pub(crate) fn now(&self) -> jiff::Timestamp {
        let passed = Instant::now().saturating_duration_since(self.started);
        jiff::SignedDuration::try_from(passed)
            .ok()
            .and_then(|passed| self.started_at.checked_add(passed).ok())
            .unwrap_or(self.started_at)
    }

    /// Returns the service account tokens that were requested.
    pub(crate) fn issued_tokens(&self) -> MutexGuard<'_, HashMap<String, Value>> {
        self.issued.lock()
    }

    /// Returns the time as metadata shows it.
    pub(crate) fn now_text(&self) -> String {
        self.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }

    pub(crate) fn object(&self, resource: &Resource, key: &str) -> Option<Arc<Stored>> {
        self.store.get(resource.storage().plural, key)
    }
}

/// An in-memory Kubernetes API server. Clones are handles to the same server.
#[derive(Debug, Clone)]
pub struct ApiServer {
    pub(crate) inner: Arc<Inner>,
}

/// Revision of an empty server. Real clusters do not start at zero either.
const FIRST_REVISION: u64 = 200;

impl Default for ApiServer {
    fn default() -> Self {
        Self::new()
    }
}

impl ApiServer {
    /// Creates a server with the default options and the four namespaces that every cluster has.
    #[must_use]
    pub fn new() -> Self {
        Self::with_options(Options::default())
    }

    /// Creates a server with these options.
    #[must_use]
    pub fn with_options(options: Options) -> Self {
        let inner = Inner {
            store: Arc::new(Store::new(FIRST_REVISION, options.history)),
            allocators: Allocators::new(options.service_network, options.service_prefix),
            faults: Faults::default(),
            requests: RequestLog::new(options.request_log),
            issued: Mutex::default(),
            started: Instant::now(),
            started_at: jiff::Timestamp::now(),
            options,
        };
        let server = Self {
            inner: Arc::new(inner),
        };
        for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
            let namespace = json!({
                "kind": "Namespace", "apiVersion": "v1",
                "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
                "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"},
            });
            let seeded = server.seed(namespace);
            debug_assert!(seeded.is_ok(), "{seeded:?}");
        }
        server
    }

    /// Returns the server as a router. A lost answer or refused connection shows as an answer whose body breaks off;
    /// through [`service`](Self::service) and over TCP the request itself fails.
    pub fn router(&self) -> axum::Router {
        let service = self.service();
        axum::Router::new().fallback(move |request: axum::extract::Request| {
            let service = service.clone();
            async move { service.answer_or_break(request).await }
        })
    }

    /// Returns the server as a service in the process: `kube::Client::new(server.service(), "default")`.
    #[must_use]
    pub fn service(&self) -> ApiService {
        ApiService::new(self.inner.clone())
    }

    /// Stores an object unchanged: UID, status, finalizers, deletionTimestamp included, without admission or
    /// validation. A missing UID and creationTimestamp are added. An object of the same name is replaced.
    ///
    /// # Errors
    ///
    /// The kind is not served, the name is missing, or a field has the wrong type.
    pub fn seed(&self, object: Value) -> Result<Value, SeedError> {
        let text = |key: &str| object[key].as_str().unwrap_or_default().to_owned();
        let kind = text("kind");
        let api_version = text("apiVersion");
        let resource = resources::by_kind(&api_version, &kind)
            .filter(|resource| !resource.type_name.is_empty())
            .ok_or_else(|| SeedError::UnknownKind {
                kind: kind.clone(),
                api_version: api_version.clone(),
            })?;
        let name = object["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        if name.is_empty() {
            return Err(SeedError::NoName(kind));
        }
        let malformed = |problem| SeedError::Malformed {
            object: format!("{kind} {name:?}"),
            problem,
        };
        let ty = Schema::get().type_of(resource.type_name);
        let mut object = decode::decode(object, &ty, &mut Vec::new()).map_err(malformed)?;
        crate::defaults::apply(resource, &mut object);
        if resource.group == "events.k8s.io" {
            object = crate::events::to_core(&object);
        }
        let metadata = &mut object["metadata"];
        if resource.namespaced && metadata["namespace"].is_null() {
            metadata["namespace"] = json!("default");
        }
        if metadata["uid"].is_null() {
            metadata["uid"] = json!(new_uid());
        }
        if metadata["creationTimestamp"].is_null() {
            metadata["creationTimestamp"] = json!(self.inner.now_text());
        }
        let namespace = metadata["namespace"].as_str().map(str::to_owned);
        let key = crate::store::key(namespace.as_deref().filter(|_| resource.namespaced), &name);
        self.inner.allocators.reserve(resource, &object);
        let storage = resource.storage().plural;
        loop {
            let expect = self
                .inner
                .store
                .get(storage, &key)
                .map_or(Expect::Absent, |stored| Expect::Revision(stored.revision));
            if let Ok(stored) = self.inner.store.put(storage, &key, expect, object.clone()) {
                return Ok(with_kind(&stored, resource));
            }
        }
    }

    /// Removes an object at once, even if it has finalizers. Returns `false` if the object does not exist.
    pub fn remove(&self, resource: &str, namespace: Option<&str>, name: &str) -> bool {
        let Some(resource) = resources::by_plural(resource) else {
            return false;
        };
        let key = crate::store::key(namespace, name);
        while let Some(stored) = self.inner.store.get(resource.plural, &key) {
            if self
                .inner
                .store
                .remove(resource.plural, &key, stored.revision, None)
                .is_ok()
            {
                self.inner.allocators.release(resource, &stored.value());
                return true;
            }
        }
        false
    }

    /// Returns the object `name` of a resource such as `nodes`. Events are returned as core/v1.
    #[must_use]
    pub fn get(&self, resource: &str, namespace: Option<&str>, name: &str) -> Option<Value> {
        let resource = resources::by_plural(resource)?;
        let stored = self
            .inner
            .store
            .get(resource.plural, &crate::store::key(namespace, name))?;
        Some(with_kind(&stored, resource))
    }

    /// Returns all objects of a resource (`nodes`), sorted by namespace and name.
    #[must_use]
    pub fn list(&self, resource: &str) -> Vec<Value> {
        let Some(resource) = resources::by_plural(resource) else {
            return Vec::new();
        };
        let snapshot = self.inner.store.snapshot(resource.plural);
        snapshot
            .objects
            .iter()
            .map(|stored| with_kind(stored, resource))
            .collect()
    }

    /// Returns the revision of the latest write.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.inner.store.revision()
    }

    /// Removes all objects of a resource (`services`), like a server whose storage was lost: lists are empty, reads are
    /// answered 404, and open watches end with 410 in the stream. No deletion is reported.
    pub fn lose_storage(&self, resource: &str) {
        if let Some(resource) = resources::by_plural(resource) {
            self.inner.store.lose_storage(resource.plural);
        }
    }

    /// Restores the objects that [`lose_storage`](Self::lose_storage) removed, with the same UIDs, as after a restore
    /// of the storage. Open watches end with 410. Objects whose names are in use by now are not restored.
    pub fn restore_storage(&self, resource: &str) {
        if let Some(resource) = resources::by_plural(resource) {
            self.inner.store.restore_storage(resource.plural);
        }
    }

    /// Removes the history of changes, so that older watches and continued lists are answered 410 Gone.
    pub fn compact(&self) {
        self.inner.store.compact();
    }

    /// Returns the fault rules.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.inner.faults
    }

    /// Returns the log of requests.
    #[must_use]
    pub fn requests(&self) -> RequestLog {
        self.inner.requests.clone()
    }
}

/// Returns a new UID, from the thread's random numbers, like all generated values of objects: with a seed
/// (`fastrand::seed`) a run can be replayed.
pub(crate) fn new_uid() -> String {
    uuid::Builder::from_random_bytes(fastrand::u128(..).to_be_bytes())
        .into_uuid()
        .to_string()
}

fn with_kind(stored: &Stored, resource: &Resource) -> Value {
    let mut value = stored.value();
    value["kind"] = json!(resource.kind);
    value["apiVersion"] = json!(resource.api_version());
    value
}
