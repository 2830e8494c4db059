//! A cluster and a cloud in this process, with a fixed time of day, and the doctor's eyes on them.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cloud_provider::{
    CloudProvider, Finding, Instances, LoadBalancers, Routes, Setup, async_trait,
};
use controllers::Options;
use embedded_apiserver::{ApiServer, Matcher};
use http::{HeaderValue, Request, Response, header};
use http_body_util::BodyExt as _;
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use kube::client::Body;
use manager::diagnosis::{Origin, Situation};
use manager::doctor::{ElectedBy, Names, Report, Subject, examine};
use manager::permissions::Features;
use manager::{Clients, Settings};
use provider_kit::transport::{Credential, Transport};
use provider_simulated::cloud::{Cloud, DEFAULT_TOKEN, LoadBalancerSpec, NewMachine};
use provider_simulated::provider::Simulated;
use runtime::clock::ManualClock;
use serde_json::{Value, json};
use tower::{ServiceExt as _, service_fn};

/// The time of day.
const NOW: &str = "2026-01-15T12:00:00Z";

/// Longest time of a request: the default of `--timeout`.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(10);

/// A cluster and a cloud, and what is wrong with them.
pub(crate) struct World {
    pub(crate) api: ApiServer,
    pub(crate) cloud: Cloud,
    pub(crate) situation: Situation,
    /// Seconds that the API server's clock is ahead.
    pub(crate) skew_seconds: i64,
    /// Reason for which there is no provider, if any.
    pub(crate) no_provider: Option<String>,
    /// Reason why the manager would not start, if it would not.
    pub(crate) refusal: Option<String>,
    /// If set, the provider panics in its checks.
    pub(crate) panics: bool,
    /// If set, the provider's checks need the context of its initialization.
    pub(crate) needs_context: bool,
    denied: Vec<(String, String)>,
}

impl World {
    /// Creates a healthy cluster: two Nodes with machines, a Service with its address, a leader.
    pub(crate) fn well() -> Self {
        Self::of_version("v1.37.2")
    }

    pub(crate) fn of_version(version: &str) -> Self {
        let options = embedded_apiserver::Options {
            version: version.into(),
            ..embedded_apiserver::Options::default()
        };
        let situation = Situation {
            server: "https://10.0.0.1:6443".into(),
            origin: Origin::Kubeconfig("/etc/kubeconfig".into()),
            resolvers: vec!["10.96.0.10".into()],
            tried_for: Duration::ZERO,
        };
        let world = Self {
            api: ApiServer::with_options(options),
            cloud: Cloud::default(),
            situation,
            skew_seconds: 0,
            no_provider: None,
            refusal: None,
            panics: false,
            needs_context: false,
            denied: Vec::new(),
        };
        for name in ["worker-1", "worker-2"] {
            let id = world.add_machine(name);
            world.seed_node(name, 600, false, &format!("simulated://{id}"));
        }
        world.seed_service("web", 600, None);
        let mut web = world
            .api
            .get("services", Some("default"), "web")
            .expect("it was seeded");
        web["status"] = json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}});
        world.api.seed(web).expect("a Service");
        world.add_balancer("web");
        world.seed_lease("kube-system", "cloud-controller-manager", "ccm-1_5f0e", 2);
        world
    }

    pub(crate) fn any() -> Matcher {
        Matcher::any()
    }

    pub(crate) fn add_machine(&self, name: &str) -> String {
        self.cloud
            .add_machine(NewMachine {
                name: name.into(),
                ..NewMachine::default()
            })
            .id
    }

    /// Adds the load balancer of a Service to the cloud.
    pub(crate) fn add_balancer(&self, service: &str) {
        let uid = |kind: &str, namespace: Option<&str>, name: &str| {
            let object = self.api.get(kind, namespace, name).expect("an object");
            object["metadata"]["uid"]
                .as_str()
                .expect("a UID")
                .to_owned()
        };
        let owner = uid("services", Some("default"), service);
        let name = format!(
            "a{}",
            owner.replace('-', "").chars().take(31).collect::<String>()
        );
        let cluster = uid("namespaces", None, "kube-system");
        let labels = [
            ("ccm-rs/cluster".to_owned(), cluster),
            ("ccm-rs/service".to_owned(), owner),
        ]
        .into();
        self.cloud.add_load_balancer(LoadBalancerSpec {
            name,
            labels,
            ..LoadBalancerSpec::default()
        });
    }

    pub(crate) fn seed_node(
        &self,
        name: &str,
        minutes_old: i64,
        uninitialized: bool,
        provider_id: &str,
    ) {
        let taint = json!({"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"});
        self.seed(json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "creationTimestamp": ago(minutes_old * 60)},
            "spec": {"providerID": provider_id, "taints": if uninitialized { json!([taint]) } else { json!([]) }},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        }));
    }

    /// Adds a Service of type `LoadBalancer` without an address; with the program's condition if a reason and its
    /// message are given.
    pub(crate) fn seed_service(&self, name: &str, minutes_old: i64, reason: Option<(&str, &str)>) {
        let condition = |(reason, message)| {
            json!({"type": "ccm-rs/LoadBalancerReady", "status": "False", "reason": reason, "message": message,
                "lastTransitionTime": ago(60)})
        };
        self.seed(json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": name, "namespace": "default", "creationTimestamp": ago(minutes_old * 60),
                "finalizers": ["service.kubernetes.io/load-balancer-cleanup"]},
            "spec": {"type": "LoadBalancer", "ports": [{"port": 80, "nodePort": 30080}]},
            "status": {"conditions": reason.map(condition).into_iter().collect::<Vec<_>>()},
        }));
    }

    pub(crate) fn seed_lease(&self, namespace: &str, name: &str, holder: &str, seconds_old: i64) {
        let renewed = ago(seconds_old).replace('Z', ".000000Z");
        self.seed(json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name, "namespace": namespace},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed},
        }));
    }

    fn seed(&self, object: Value) {
        self.api.seed(object).expect("an object that is served");
    }

    /// Denies a permission to the identity.
    pub(crate) fn deny(&mut self, verb: &str, resource: &str) -> &mut Self {
        self.denied.push((verb.to_owned(), resource.to_owned()));
        self
    }

    pub(crate) async fn examine(&self) -> Report {
        let mut told = Vec::new();
        let report = self
            .examine_telling(&mut |finding| told.push(finding.clone()))
            .await;
        assert_eq!(
            report.findings, told,
            "each finding is told when it is there"
        );
        report
    }

    pub(crate) async fn examine_telling(&self, told: &mut (dyn FnMut(&Finding) + Send)) -> Report {
        let settings = Settings::new(Options::default(), Clients::Shared(self.client()));
        let builder =
            Transport::builder("http://cloud").credential(Credential::token(DEFAULT_TOKEN));
        let setup = Setup {
            call_timeout: Some(TIMEOUT),
            ..Setup::default()
        };
        let transport = builder.setup(&setup).service(self.cloud.router());
        let provider = Provider {
            simulated: Simulated::new(transport.build().expect("a URL"), None),
            panics: self.panics,
            lacks_context: self.needs_context.into(),
        };
        let provider: Arc<dyn CloudProvider> = Arc::new(provider);
        let lease = ElectedBy {
            namespace: "kube-system".into(),
            name: "cloud-controller-manager".into(),
            duration: Duration::from_secs(15),
        };
        let subject = Subject {
            settings: &settings,
            cluster_name: "kubernetes",
            features: Features::default(),
            lease: Some(lease),
            refusal: self.refusal.clone(),
            timeout: TIMEOUT,
            provider: self.no_provider.clone().map_or(Ok(provider), Err),
            situation: self.situation.clone(),
            names: &NoNames,
            clock: &ManualClock::new(now()),
        };
        examine(&subject, told).await
    }

    /// Returns a client of the API server, with a clock and permissions as configured.
    fn client(&self) -> Client {
        let api = self.api.clone();
        let denied = self.denied.clone();
        // `Date` has whole seconds; so has the skew.
        let at = now()
            .checked_add(SignedDuration::from_secs(self.skew_seconds))
            .expect("a time");
        let date = at.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
        let service = service_fn(move |request: Request<Body>| {
            let api = api.clone();
            let denied = denied.clone();
            let date = date.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect_bytes().await.expect("a body in memory");
                if let Some(answer) = refused_review(head.uri.path(), &body, &denied) {
                    return Ok::<_, tower::BoxError>(Response::new(Body::from(answer)));
                }
                let request = Request::from_parts(head, http_body_util::Full::new(body));
                let (mut head, body) = api.service().oneshot(request).await?.into_parts();
                head.headers
                    .insert(header::DATE, HeaderValue::from_str(&date)?);
                let body = body.collect().await?.to_bytes();
                Ok(Response::from_parts(head, Body::from(body)))
            }
        });
        Client::new(service, "default")
    }
}

/// Returns the answer to a question about a permission that is denied.
fn refused_review(path: &str, body: &[u8], denied: &[(String, String)]) -> Option<Vec<u8>> {
    if !path.ends_with("selfsubjectaccessreviews") {
        return None;
    }
    let mut review: Value = serde_json::from_slice(body).ok()?;
    let of = &review["spec"]["resourceAttributes"];
    if !denied
        .iter()
        .any(|(verb, resource)| of["verb"] == **verb && of["resource"] == **resource)
    {
        return None;
    }
    review["status"] = json!({"allowed": false});
    serde_json::to_vec(&review).ok()
}

fn now() -> Timestamp {
    NOW.parse().expect("a time")
}

/// Returns the time `seconds` ago, in the format of API objects.
fn ago(seconds: i64) -> String {
    now()
        .checked_sub(SignedDuration::from_secs(seconds))
        .expect("a time")
        .to_string()
}

/// Removes the one number that differs between runs.
pub(crate) fn rounded(text: &str) -> String {
    let number = regex_lite::Regex::new(r"answers in \d+ ms").expect("a pattern");
    number.replace_all(text, "answers in N ms").into_owned()
}

struct NoNames;

#[async_trait]
impl Names for NoNames {
    async fn resolve(&self, _name: &str) -> io::Result<Vec<IpAddr>> {
        Err(io::Error::other(
            "failed to lookup address information: Name or service not known",
        ))
    }
}

/// Provider of the simulated cloud, which can be made to panic.
struct Provider {
    simulated: Simulated,
    panics: bool,
    /// Set until the initialization, if the checks need its context.
    lacks_context: AtomicBool,
}

#[async_trait]
impl CloudProvider for Provider {
    fn name(&self) -> &str {
        self.simulated.name()
    }
    async fn initialize(&self, context: &cloud_provider::Context) -> cloud_provider::Result<()> {
        self.lacks_context.store(false, Ordering::Relaxed);
        self.simulated.initialize(context).await
    }
    async fn diagnose(&self) -> Vec<Finding> {
        assert!(!self.panics, "a defect of the provider");
        if self.lacks_context.load(Ordering::Relaxed) {
            return vec![Finding::failure(
                "context",
                "no access to the Kubernetes API yet",
                "initialize the provider",
            )];
        }
        self.simulated.diagnose().await
    }
    fn instances(&self) -> Option<&dyn Instances> {
        self.simulated.instances()
    }
    fn load_balancers(&self) -> Option<&dyn LoadBalancers> {
        self.simulated.load_balancers()
    }
    fn routes(&self) -> Option<&dyn Routes> {
        self.simulated.routes()
    }
}
