//! A cluster and a cloud in this process, and managers between them.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use ccm_tests::in_process::start_up_taint;
use cloud_provider::{
    CloudProvider, ConfigFile, Context, Instances, LoadBalancerRequest, LoadBalancerStatus,
    LoadBalancers, Registry, Reload, Result, Setup, Volumes, async_trait,
};
use embedded_apiserver::ApiServer;
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt;
use kube::Client;
use manager::flags::{Flags, Parsed, Program};
use manager::{Clients, Failure, Manager, Process};
use parking_lot::Mutex;
use provider_kit::transport::{Credential, Transport};
use provider_simulated::cloud::{Cloud, DEFAULT_TOKEN, Options};
use provider_simulated::provider::Simulated;
use serde_json::{Value, json};
use serving::webhook::{AdmissionRequest, Handler, Webhook};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// The simulated cloud, whose load balancers may hang.
struct Slow {
    inner: Simulated,
    balancers: Option<Hanging>,
    reloads: Arc<Mutex<Vec<String>>>,
}

/// Load balancers whose creation never ends.
struct Hanging;

#[async_trait]
impl LoadBalancers for Hanging {
    async fn get(&self, _: LoadBalancerRequest<'_>) -> Result<Option<LoadBalancerStatus>> {
        Ok(None)
    }
    async fn ensure(&self, _: LoadBalancerRequest<'_>) -> Result<Option<LoadBalancerStatus>> {
        std::future::pending().await
    }
    async fn update_targets(&self, _: LoadBalancerRequest<'_>) -> Result<()> {
        Ok(())
    }
    async fn delete(&self, _: LoadBalancerRequest<'_>) -> Result<()> {
        Ok(())
    }
}

#[async_trait]
impl CloudProvider for Slow {
    fn name(&self) -> &str {
        self.inner.name()
    }
    async fn initialize(&self, context: &Context) -> Result<()> {
        self.inner.initialize(context).await
    }
    async fn reload(&self, config: &ConfigFile) -> Result<Reload> {
        self.reloads.lock().push(config.text.clone());
        Ok(Reload::Done)
    }
    fn instances(&self) -> Option<&dyn Instances> {
        self.inner.instances()
    }
    fn load_balancers(&self) -> Option<&dyn LoadBalancers> {
        match &self.balancers {
            Some(hanging) => Some(hanging),
            None => self.inner.load_balancers(),
        }
    }
    fn volumes(&self) -> Option<&dyn Volumes> {
        self.inner.volumes()
    }
}

pub(crate) struct World {
    pub(crate) api: ApiServer,
    pub(crate) cloud: Cloud,
    /// Name of a Lease; a request for this Lease panics.
    pub(crate) poisoned: Arc<Mutex<Option<&'static str>>>,
}

impl World {
    /// Creates a machine, its new Node, and a Service.
    pub(crate) fn new() -> Self {
        Self::at(ApiServer::new())
    }

    /// Creates the objects at an API server with options.
    pub(crate) fn at(api: ApiServer) -> Self {
        let cloud = Cloud::default();
        cloud.create_machines("worker-", 1);
        let node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": "worker-1"},
            "spec": {"taints": [start_up_taint()]},
        });
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default"},
            "spec": {"type": "LoadBalancer", "ports": [{"port": 80, "nodePort": 30080}]},
        });
        for object in [node, service] {
            api.seed(object).expect("an object that the API takes");
        }
        Self {
            api,
            cloud,
            poisoned: Arc::default(),
        }
    }

    /// Gives the Lease to another holder, who just renewed it.
    pub(crate) fn hold_the_lease(&self) {
        self.api
            .seed(lease("somebody-else"))
            .expect("a Lease that the API takes");
    }

    pub(crate) fn lease(&self) -> Option<Value> {
        self.api
            .get("leases", Some("kube-system"), "cloud-controller-manager")
    }

    pub(crate) fn holder(&self) -> String {
        self.lease()
            .and_then(|lease| lease["spec"]["holderIdentity"].as_str().map(str::to_owned))
            .unwrap_or_default()
    }

    /// Returns a client of the API server in this process.
    fn client(&self) -> Client {
        let server = self.api.service();
        let poisoned = Arc::clone(&self.poisoned);
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let name = *poisoned.lock();
            let panics =
                name.is_some_and(|name| request.uri().path().ends_with(&format!("/leases/{name}")));
            let answer = server.clone().oneshot(request);
            async move {
                assert!(!panics, "a defect");
                answer.await
            }
        });
        Client::new(service, "default")
    }

    /// Prepares a process with these flags, up to serving and electing.
    pub(crate) async fn prepare(
        &self,
        flags: &[&str],
        hangs: bool,
    ) -> (std::result::Result<Process, Failure>, CancellationToken) {
        let own = [
            "ccm",
            "--cloud-provider=simulated",
            "--secure-port=0",
            "--configure-cloud-routes=false",
        ];
        let arguments = own
            .into_iter()
            .chain(flags.iter().copied())
            .map(OsString::from);
        let program = Program::new("ccm").with_webhook("acme");
        let Parsed::Flags(flags) = Flags::parse_as(&program, arguments) else {
            panic!("flags that cannot be used")
        };
        let stop = CancellationToken::new();
        let registry = registry();
        let clients = Clients::Shared(self.client());
        let manager = Manager::new(&registry)
            .clients(clients)
            .wedged_after(Duration::from_secs(60));
        let manager = manager.webhook("acme", vendors_webhook);
        self.offer(hangs);
        let process = manager.prepare(&flags, &stop).await;
        (process, stop)
    }

    /// Registers this cloud for the providers that this thread creates.
    pub(crate) fn offer(&self, hangs: bool) {
        CLOUD.with(|cloud| *cloud.borrow_mut() = Some((self.cloud.clone(), hangs)));
    }

    /// Returns the configurations with which the providers of this thread were reloaded.
    pub(crate) fn reloads(&self) -> Vec<String> {
        RELOADS.with(|reloads| reloads.lock().clone())
    }

    /// Starts the process and returns it.
    pub(crate) async fn start(&self, flags: &[&str]) -> Running {
        self.start_with(flags, false).await
    }

    pub(crate) async fn start_with(&self, flags: &[&str], hangs: bool) -> Running {
        let (process, stop) = self.prepare(flags, hangs).await;
        let process = match process {
            Ok(process) => process,
            Err(failure) => panic!("{failure}"),
        };
        let router = process.router();
        let webhooks = process.webhook_router();
        let task = tokio::spawn(process.run());
        Running {
            router,
            webhooks,
            stop,
            task,
        }
    }

    pub(crate) fn is_initialised(&self) -> bool {
        self.api.get("nodes", None, "worker-1").expect("the Node")["spec"]["providerID"].is_string()
    }

    /// Delays the cloud's operations on load balancers.
    pub(crate) fn slow_down(&self, milliseconds: u64) {
        self.cloud.set_options(Options {
            operation_milliseconds: milliseconds,
            ..Options::default()
        });
    }
}

thread_local! {
    /// Cloud and behaviour of the factory's providers: a factory is a plain function, and each test has a thread of its
    /// own.
    static CLOUD: std::cell::RefCell<Option<(Cloud, bool)>> = const { std::cell::RefCell::new(None) };
    /// Configurations with which the providers were reloaded.
    static RELOADS: Arc<Mutex<Vec<String>>> = Arc::default();
}

pub(crate) fn registry() -> Registry {
    let mut registry = Registry::new();
    registry.register("simulated", |setup: &Setup| {
        let (cloud, hangs) = CLOUD.with(|cloud| cloud.borrow().clone()).expect("a cloud");
        let transport = Transport::builder("http://simulated")
            .credential(Credential::token(DEFAULT_TOKEN))
            .service(cloud.router())
            .setup(setup)
            .build()
            .expect("the address is an address");
        let inner = Simulated::new(transport, None);
        let reloads = RELOADS.with(Arc::clone);
        Ok(Arc::new(Slow {
            inner,
            balancers: hangs.then_some(Hanging),
            reloads,
        }))
    });
    registry
}

/// Returns a webhook of a vendor that allows everything.
fn vendors_webhook(_: Arc<dyn CloudProvider>) -> Webhook {
    struct Allow;
    #[async_trait]
    impl Handler for Allow {
        async fn handle(&self, request: AdmissionRequest) -> std::result::Result<Value, String> {
            Ok(json!({"uid": request.uid, "allowed": true}))
        }
    }
    Webhook {
        name: "acme".to_owned(),
        path: "/acme".to_owned(),
        handler: Arc::new(Allow),
    }
}

pub(crate) fn lease(holder: &str) -> Value {
    lease_of("cloud-controller-manager", holder)
}

/// Returns a Lease of this name that was just renewed.
pub(crate) fn lease_of(name: &str, holder: &str) -> Value {
    let now = jiff::Timestamp::now()
        .strftime("%Y-%m-%dT%H:%M:%S.%6fZ")
        .to_string();
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": name, "namespace": "kube-system"},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "acquireTime": now, "renewTime": now,
            "leaseTransitions": 1},
    })
}

/// A process that runs.
pub(crate) struct Running {
    router: Router,
    webhooks: Router,
    pub(crate) stop: CancellationToken,
    pub(crate) task: JoinHandle<std::result::Result<(), Failure>>,
}

impl Running {
    /// Sends a request to the secure port, as a user with all permissions.
    pub(crate) async fn get(&self, path: &str) -> (StatusCode, String) {
        let request = Request::get(path).body(Body::empty()).expect("a request");
        answer(self.router.clone(), request).await
    }

    /// Sends a review to the port of the webhooks.
    pub(crate) async fn review(&self, path: &str, review: &Value) -> (StatusCode, String) {
        let request = Request::builder()
            .method(Method::POST)
            .uri(path)
            .header("content-type", "application/json");
        answer(
            self.webhooks.clone(),
            request
                .body(Body::from(review.to_string()))
                .expect("a request"),
        )
        .await
    }

    /// Returns the names of the checks of a probe, in order, each with `true` if it passes.
    pub(crate) async fn checks(&self, probe: &str) -> Vec<(String, bool)> {
        let (_, text) = self.get(&format!("/{probe}?verbose")).await;
        let line = |line: &str| {
            let name = line.get(3..)?.split(' ').next()?.to_owned();
            (line.starts_with("[+]") || line.starts_with("[-]"))
                .then(|| (name, line.starts_with("[+]")))
        };
        text.lines().filter_map(line).collect()
    }

    /// Ends it in order.
    pub(crate) async fn end(self) -> std::result::Result<(), Failure> {
        self.stop.cancel();
        self.task.await.expect("no panic")
    }
}

async fn answer(router: Router, request: Request<Body>) -> (StatusCode, String) {
    let answer = router
        .oneshot(request)
        .await
        .expect("a router always answers");
    let (head, body) = answer.into_parts();
    let body = body.collect().await.expect("a body").to_bytes();
    (head.status, String::from_utf8_lossy(&body).into_owned())
}

/// Waits for this many seconds of virtual time.
pub(crate) async fn seconds(count: u64) {
    tokio::time::sleep(Duration::from_secs(count)).await;
}
