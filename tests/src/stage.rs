//! A Kubernetes API, a cloud and the program between them, all in one process and under virtual time; the program can be
//! started, killed at any request and started again.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::anyhow;
use cloud_provider::{ClientBuilder, CloudProvider, Cluster, Context, Fence, KubernetesApi, NoEvents};
use controllers::Options;
use embedded_apiserver::ApiServer;
use kube::Client;
use manager::{Clients, Handles, Settings};
use runtime::client::{Limits, NoRequestMetrics, wrap};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::breaches::Breaches;
use crate::cloud_under_test::CloudUnderTest;
use crate::gate::{Gate, Side, Trouble};
use crate::observed_provider::{ObservedProvider, Overlaps};
use crate::settled::unsettled;
use crate::user::User;

/// The time-out of one request to the API server, as the program's default.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// The stage.
pub struct Stage {
    /// The Kubernetes API.
    pub api: ApiServer,
    /// Those who use it.
    pub user: User,
    /// The cloud.
    pub cloud: Arc<dyn CloudUnderTest>,
    /// What every request of the program passes.
    pub gate: Gate,
    /// How the controllers behave.
    pub options: Options,
    /// Whether the program may write, to the API and to the cloud; open unless a test sets another before the start.
    pub fence: Fence,
    /// Calls for one Service that overlapped.
    pub overlaps: Overlaps,
    /// Requests that must never be sent.
    pub breaches: Breaches,
    hopeless: Mutex<BTreeSet<String>>,
}

impl Stage {
    /// An empty cluster on this cloud.
    #[must_use]
    pub fn new(cloud: Box<dyn CloudUnderTest>, options: Options, seed: u64) -> Self {
        // Networks are somebody else's business.
        let server = embedded_apiserver::Options { taint_new_nodes: false, ..Default::default() };
        let (api, cloud, gate) =
            (ApiServer::with_options(server), Arc::<dyn CloudUnderTest>::from(cloud), Gate::new(seed));
        let breaches = Breaches::default();
        let (watched, machines, noted) = (api.clone(), Arc::clone(&cloud), breaches.clone());
        gate.watch(move |request, body| noted.look_at(&watched, &*machines, request, body));
        Self {
            user: User::of(&api),
            api,
            cloud,
            gate,
            options,
            fence: Fence::open(),
            overlaps: Overlaps::default(),
            breaches,
            hopeless: Mutex::default(),
        }
    }

    /// From now on the cloud refuses every change for this Service of namespace `default`.
    ///
    /// # Panics
    /// If there is no such Service.
    pub fn make_hopeless(&self, service: &str) {
        let object = self.api.get("services", Some("default"), service).expect("a Service of that name");
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
        self.gate.single_out(uid, Trouble::Status(422, None));
        self.hopeless.lock().unwrap_or_else(PoisonError::into_inner).insert(service.to_owned());
    }

    /// Whether the cloud refuses every change for this Service.
    #[must_use]
    pub fn is_hopeless(&self, service: &str) -> bool {
        self.hopeless.lock().unwrap_or_else(PoisonError::into_inner).contains(service)
    }

    /// Whether the cloud refuses every change for some Service.
    #[must_use]
    pub fn has_hopeless(&self) -> bool {
        !self.hopeless.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Whether routes are the program's business here.
    #[must_use]
    pub fn has_routes(&self) -> bool {
        !self.options.route.cluster_cidrs.is_empty()
    }

    /// What must never have happened, in words; empty if it did not.
    #[must_use]
    pub fn violations(&self) -> Vec<String> {
        [self.breaches.found(), self.overlaps.found()].concat()
    }

    /// The last so many warnings of the program, of all its lives.
    #[must_use]
    pub fn warnings(&self, count: usize) -> Vec<String> {
        let events = self.api.list("events").into_iter().filter(|it| it["type"] == "Warning");
        let text = |it: serde_json::Value| {
            format!("{} {}: {}", it["involvedObject"]["name"], it["reason"], it["message"]).replace('"', "")
        };
        let all: Vec<String> = events.map(text).collect();
        all[all.len().saturating_sub(count)..].to_vec()
    }

    /// Returns when everything is settled.
    ///
    /// # Errors
    /// What is unsettled after `limit` of virtual time.
    pub async fn settle(&self, limit: Duration) -> Result<(), Vec<String>> {
        const PAUSE: Duration = Duration::from_millis(500);
        let end = Instant::now() + limit;
        let mut judged = None;
        loop {
            // Judging reads every object: only when something may have happened, and before giving up.
            let now = (self.api.revision(), self.gate.count());
            let is_over = Instant::now() >= end;
            if is_over || judged.replace(now) != Some(now) {
                let unsettled = unsettled(self);
                if unsettled.is_empty() {
                    return Ok(());
                }
                if is_over {
                    return Err(unsettled);
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// A client of the program, behind the gate.
    #[must_use]
    pub fn client(&self) -> Client {
        let below = Client::new(self.gate.before(Side::Kubernetes, self.api.service()), "default");
        let limits = Limits { request_timeout: Some(REQUEST_TIMEOUT), fence: self.fence.clone(), ..Limits::default() };
        wrap(&below, "embedded", "ccm-tests", &limits, Arc::new(NoRequestMetrics))
    }

    /// What the program is started with.
    #[must_use]
    pub fn settings(&self) -> Settings {
        let mut settings = Settings::new(self.options.clone(), Clients::Shared(self.client()));
        settings.configure_cloud_routes = self.has_routes();
        settings
    }

    /// The cluster, as the program knows it.
    ///
    /// # Panics
    /// If namespace `kube-system` is gone.
    #[must_use]
    pub fn cluster(&self) -> Cluster {
        let namespace = self.api.get("namespaces", None, "kube-system").expect("every cluster has it");
        let id = namespace["metadata"]["uid"].as_str().map(str::to_owned);
        Cluster { name: "kubernetes".to_owned(), id }
    }

    /// Starts the program in the runtime that this runs in.
    ///
    /// # Errors
    /// It cannot start: one of its first requests failed.
    pub async fn start(&self) -> anyhow::Result<Program> {
        let (cluster, shutdown) = (self.cluster(), CancellationToken::new());
        let mut settings = self.settings();
        let fence = settings.identity.fence(self.fence.clone());
        settings.fence = Some(fence.clone());
        let provider = self.cloud.fenced_provider(&self.gate, &fence);
        let provider: Arc<dyn CloudProvider> = Arc::new(ObservedProvider::new(provider, self.overlaps.clone()));
        let clients = Arc::new(NoClients);
        let context = Context {
            cluster: cluster.clone(),
            cluster_cidrs: self.options.route.cluster_cidrs.iter().map(ToString::to_string).collect(),
            clients,
            events: Arc::new(NoEvents),
            shutdown: shutdown.clone(),
        };
        provider.initialize(&context).await.map_err(|error| anyhow!("{error}"))?;
        let handles = manager::start_controllers(&settings, provider, cluster, shutdown.clone()).await?;
        Ok(Program { shutdown, handles })
    }
}

/// No provider under test needs the Kubernetes API itself.
struct NoClients;

impl ClientBuilder for NoClients {
    fn client(&self, component: &str) -> cloud_provider::Result<Arc<dyn KubernetesApi>> {
        Err(cloud_provider::Error::other(format!("no client for {component:?} on this stage")))
    }
}

/// The running program.
pub struct Program {
    shutdown: CancellationToken,
    handles: Handles,
}

impl Program {
    /// Stops it as an operator does: what is in work is finished.
    pub async fn stop(self) {
        self.shutdown.cancel();
        self.handles.wait().await;
    }
}
