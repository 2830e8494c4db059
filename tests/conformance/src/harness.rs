//! The harness of whole-program tests: a Kubernetes API, a cloud and the program between them, all in one process and under
//! virtual time; the program can be started, killed at any request and started again.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use anyhow::anyhow;
use axum::Router;
use cloud_provider::{
    ClientBuilder, CloudProvider, Cluster, Context, Fence, KubernetesApi, NoEvents, async_trait,
};
use controllers::Options;
use embedded_apiserver::ApiServer;
use jiff::Timestamp;
use kube::Client;
use kube::client::Body;
use manager::explain::{Explanation, Reader, Subject, explain};
use manager::{Clients, Handles, Settings};
use parking_lot::Mutex;
use runtime::client::{Limits, NoRequestMetrics, wrap};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::breaches::Breaches;
use crate::fault_injector::{FaultInjector, Side, Trouble};
use crate::observed_provider::{ObservedProvider, Overlaps};
use crate::profile::CloudProfile;
use crate::settled::unsettled;
use crate::user::User;

/// The time-out of one request to the API server, as the program's default.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Harness of a cluster, a cloud and the program between them.
pub struct Harness {
    /// The embedded Kubernetes API server.
    pub api: ApiServer,
    /// Users of the cluster.
    pub user: User,
    /// The fake cloud's profile.
    pub cloud: Arc<dyn CloudProfile>,
    /// Fault injector that every request of the program passes.
    pub injector: FaultInjector,
    /// Options of the controllers.
    pub options: Options,
    /// Fence that permits writes to the API and to the cloud; open unless a test sets another before the start.
    pub fence: Fence,
    /// Calls for one Service that overlapped.
    pub overlaps: Overlaps,
    /// Requests that must never be sent.
    pub breaches: Breaches,
    provider: MakeProvider,
    hopeless: Mutex<BTreeSet<String>>,
    /// Number of requests that [`Harness::account`] has counted.
    pub(crate) accounted: AtomicUsize,
}

/// The settings of a harness before it is built.
#[must_use]
pub struct Builder {
    cloud: Arc<dyn CloudProfile>,
    options: Options,
    seed: u64,
    provider: MakeProvider,
}

/// Makes the provider of one run of the program.
type MakeProvider =
    Box<dyn Fn(&dyn CloudProfile, &FaultInjector, &Fence) -> Arc<dyn CloudProvider> + Send + Sync>;

impl Builder {
    /// Sets the options of the controllers.
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// Enables routes for the Pods of 10.244.0.0/16, if the cloud has routes.
    ///
    /// # Panics
    /// Never: the range is valid.
    pub fn routes(mut self) -> Self {
        if self.cloud.capabilities().routes {
            self.options.route.cluster_cidrs = vec!["10.244.0.0/16".parse().expect("a range")];
        }
        self
    }

    /// Sets the seed of the random numbers.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Adds a layer between the provider and the cloud.
    pub fn layer(self, layer: impl Fn(Router) -> Router + Send + Sync + 'static) -> Self {
        self.provider(move |cloud, injector, fence| {
            cloud.provider(injector.before(Side::Cloud, layer(cloud.router())), fence)
        })
    }

    /// Replaces the provider by one of the test's own.
    pub fn provider(
        mut self,
        make: impl Fn(&dyn CloudProfile, &FaultInjector, &Fence) -> Arc<dyn CloudProvider>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.provider = Box::new(make);
        self
    }

    /// Makes an empty cluster.
    #[must_use]
    pub fn build(self) -> Harness {
        let Self {
            cloud,
            options,
            seed,
            provider,
        } = self;
        // Networks are not the program's business.
        let server = embedded_apiserver::Options {
            taint_new_nodes: false,
            ..Default::default()
        };
        let api = ApiServer::with_options(server);
        let injector = FaultInjector::new(seed);
        injector.set_list(cloud.api().load_balancers);
        let breaches = Breaches::default();
        let watched = api.clone();
        let machines = Arc::clone(&cloud);
        let noted = breaches.clone();
        injector.watch(move |request, body| noted.look_at(&watched, &*machines, request, body));
        Harness {
            user: User::of(&api).annotating(cloud.service_annotations()),
            api,
            cloud,
            injector,
            options,
            fence: Fence::open(),
            overlaps: Overlaps::default(),
            breaches,
            provider,
            hopeless: Mutex::default(),
            accounted: AtomicUsize::default(),
        }
    }
}

impl Harness {
    /// Returns a cluster on a clone of this cloud, to be configured.
    pub fn of(cloud: &(impl CloudProfile + Clone)) -> Builder {
        Self::boxed(Box::new(cloud.clone()))
    }

    /// Returns a cluster on this cloud, to be configured.
    pub fn boxed(cloud: Box<dyn CloudProfile>) -> Builder {
        Builder {
            cloud: cloud.into(),
            options: Options::default(),
            seed: 1,
            provider: Box::new(|cloud, injector, fence| {
                cloud.provider(injector.before(Side::Cloud, cloud.router()), fence)
            }),
        }
    }

    /// Creates a cluster on a clone of this cloud, without routes.
    #[must_use]
    pub fn on(cloud: &(impl CloudProfile + Clone)) -> Self {
        Self::of(cloud).build()
    }

    /// Creates a cluster on a clone of this cloud, with routes if it has them.
    #[must_use]
    pub fn with_routes(cloud: &(impl CloudProfile + Clone)) -> Self {
        Self::of(cloud).routes().build()
    }

    /// Lets the cloud refuse every change for this Service of namespace `default`.
    ///
    /// # Panics
    /// If the Service does not exist.
    pub fn make_hopeless(&self, service: &str) {
        let object = self
            .api
            .get("services", Some("default"), service)
            .expect("a Service of that name");
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
        self.injector.single_out(uid, Trouble::Status(422, None));
        self.hopeless.lock().insert(service.to_owned());
    }

    /// Returns `true` if the cloud refuses every change for this Service.
    #[must_use]
    pub fn is_hopeless(&self, service: &str) -> bool {
        self.hopeless.lock().contains(service)
    }

    /// Returns `true` if the cloud refuses every change for any Service.
    #[must_use]
    pub fn has_hopeless(&self) -> bool {
        !self.hopeless.lock().is_empty()
    }

    /// Returns `true` if the program manages routes.
    #[must_use]
    pub fn has_routes(&self) -> bool {
        !self.options.route.cluster_cidrs.is_empty()
    }

    /// Returns the violations of invariants in words; empty if there are none.
    #[must_use]
    pub fn violations(&self) -> Vec<String> {
        [self.breaches.found(), self.overlaps.found()].concat()
    }

    /// Returns the last warnings of the program, of all its runs.
    #[must_use]
    pub fn warnings(&self, count: usize) -> Vec<String> {
        let events = self
            .api
            .list("events")
            .into_iter()
            .filter(|event| event["type"] == "Warning");
        let text = |object: serde_json::Value| {
            format!(
                "{} {}: {}",
                object["involvedObject"]["name"], object["reason"], object["message"]
            )
            .replace('"', "")
        };
        let all: Vec<String> = events.map(text).collect();
        all[all.len().saturating_sub(count)..].to_vec()
    }

    /// Returns when everything is settled.
    ///
    /// # Errors
    /// The unsettled work after `limit` of virtual time.
    pub async fn settle_within(&self, limit: Duration) -> Result<(), Vec<String>> {
        const PAUSE: Duration = Duration::from_millis(500);
        let end = Instant::now() + limit;
        let mut judged = None;
        loop {
            // Judging reads every object: only when something may have happened, and before giving up.
            let now = (self.api.revision(), self.injector.count());
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

    /// Returns a client of the program, behind the fence and the fault injector.
    #[must_use]
    pub fn client(&self) -> Client {
        let below = Client::new(
            self.injector.before(Side::Kubernetes, self.api.service()),
            "default",
        );
        let limits = Limits {
            request_timeout: Some(REQUEST_TIMEOUT),
            fence: self.fence.clone(),
            ..Limits::default()
        };
        wrap(
            &below,
            "embedded",
            "ccm-tests",
            &limits,
            Arc::new(NoRequestMetrics),
        )
    }

    /// Returns the provider, behind the fault injector.
    #[must_use]
    pub fn provider(&self, fence: &Fence) -> Arc<dyn CloudProvider> {
        (self.provider)(&*self.cloud, &self.injector, fence)
    }

    /// Returns the settings of the program.
    #[must_use]
    pub fn settings(&self) -> Settings {
        let mut settings = Settings::new(self.options.clone(), Clients::Shared(self.client()));
        settings.configure_cloud_routes = self.has_routes();
        settings
    }

    /// Returns the cluster, as the program knows it.
    ///
    /// # Panics
    /// If namespace `kube-system` does not exist.
    #[must_use]
    pub fn cluster(&self) -> Cluster {
        let namespace = self
            .api
            .get("namespaces", None, "kube-system")
            .expect("every cluster has it");
        let id = namespace["metadata"]["uid"].as_str().map(str::to_owned);
        Cluster {
            name: "kubernetes".to_owned(),
            id,
        }
    }

    /// Initialises a provider, as the program does.
    ///
    /// # Errors
    /// The provider cannot start.
    pub async fn initialize(
        &self,
        provider: &dyn CloudProvider,
        shutdown: &CancellationToken,
    ) -> anyhow::Result<()> {
        self.initialize_with(provider, self.cloud.uses_kubernetes(), shutdown)
            .await
    }

    /// Initialises a provider as a subcommand does: without caches, and with a client.
    ///
    /// # Errors
    /// The provider cannot start.
    pub async fn initialize_for_command(
        &self,
        provider: &dyn CloudProvider,
        shutdown: &CancellationToken,
    ) -> anyhow::Result<()> {
        self.initialize_with(provider, true, shutdown).await
    }

    async fn initialize_with(
        &self,
        provider: &dyn CloudProvider,
        has_client: bool,
        shutdown: &CancellationToken,
    ) -> anyhow::Result<()> {
        let context = Context {
            cluster: self.cluster(),
            cluster_cidrs: self
                .options
                .route
                .cluster_cidrs
                .iter()
                .map(ToString::to_string)
                .collect(),
            clients: if has_client {
                Arc::new(ProviderClient(self.client()))
            } else {
                Arc::new(NoClients)
            },
            events: Arc::new(NoEvents),
            shutdown: shutdown.clone(),
        };
        provider
            .initialize(&context)
            .await
            .map_err(|error| anyhow!("{error}"))
    }

    /// Starts the program in the runtime that this runs in.
    ///
    /// # Errors
    /// The program cannot start: one of its first requests failed.
    pub async fn start(&self) -> anyhow::Result<Program> {
        let cluster = self.cluster();
        let shutdown = CancellationToken::new();
        let mut settings = self.settings();
        let fence = settings.identity.fence(self.fence.clone());
        settings.fence = Some(fence.clone());
        let provider = self.provider(&fence);
        let provider: Arc<dyn CloudProvider> =
            Arc::new(ObservedProvider::new(provider, self.overlaps.clone()));
        self.initialize(&*provider, &shutdown).await?;
        let handles =
            manager::start_controllers(&settings, provider, cluster, shutdown.clone()).await?;
        Ok(Program { shutdown, handles })
    }
}

impl Harness {
    /// Explains an object, as `explain` does next to a running program.
    ///
    /// # Panics
    /// If Nodes or Services cannot be read.
    pub async fn explain(&self, subject: &Subject) -> Explanation {
        let settings = self.settings();
        let cluster = self.cluster();
        let provider = self.provider(&Fence::open());
        let initialized = self.initialize(&*provider, &CancellationToken::new()).await;
        let provider = initialized
            .map(|()| provider)
            .map_err(|error| error.to_string());
        let client = self.client();
        let now = Timestamp::now();
        let reader = Reader {
            settings: &settings,
            client,
            provider,
            cluster,
            lease: None,
            now,
        };
        explain(&reader, subject).await.expect("an explanation")
    }
}

/// The client of providers that need no Kubernetes API.
struct NoClients;

impl ClientBuilder for NoClients {
    fn client(&self, component: &str) -> cloud_provider::Result<Arc<dyn KubernetesApi>> {
        Err(cloud_provider::Error::other(format!(
            "no client for {component:?} on this harness"
        )))
    }
}

/// The client of the program, for providers that keep Kubernetes objects of their own.
#[derive(Clone)]
struct ProviderClient(Client);

impl ClientBuilder for ProviderClient {
    fn client(&self, _component: &str) -> cloud_provider::Result<Arc<dyn KubernetesApi>> {
        Ok(Arc::new(self.clone()))
    }
}

#[async_trait]
impl KubernetesApi for ProviderClient {
    async fn send(
        &self,
        request: http::Request<Vec<u8>>,
    ) -> cloud_provider::Result<http::Response<Vec<u8>>> {
        let failed = |error: kube::Error| cloud_provider::Error::other(error.to_string());
        let (head, body) = self
            .0
            .send(request.map(Body::from))
            .await
            .map_err(failed)?
            .into_parts();
        Ok(http::Response::from_parts(
            head,
            body.collect_bytes().await.map_err(failed)?.to_vec(),
        ))
    }
}

/// A running instance of the program.
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
