//! A cluster with an API server of its own, and the provider on it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cloud_provider::scripted::ScriptedCluster;
use cloud_provider::{
    Caches, ClientBuilder, CloudProvider, Cluster, Context, Environment, Error, Fence,
    KubernetesApi, LoadBalancerRequest, LoadBalancers, Node, Result, Service, Setup, async_trait,
};
use embedded_apiserver::ApiServer;
use http_body_util::{BodyExt, Full};
use provider_keepalived::Keepalived;
use serde_json::{Value, json};
use tower::ServiceExt;

/// The moment of a crash, relative to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    Before,
    After,
}

/// The Kubernetes API of one run of the program. At the request of `crash`, the run ends: nothing is answered any more.
#[derive(Clone)]
pub(crate) struct Connection {
    api: ApiServer,
    requests: Arc<AtomicUsize>,
    crash: Option<(usize, Moment)>,
}

impl ClientBuilder for Connection {
    fn client(&self, _component: &str) -> Result<Arc<dyn KubernetesApi>> {
        Ok(Arc::new(self.clone()))
    }
}

#[async_trait]
impl KubernetesApi for Connection {
    async fn send(&self, request: http::Request<Vec<u8>>) -> Result<http::Response<Vec<u8>>> {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        let crash = self.crash.filter(|(at, _)| *at <= number);
        if crash.is_some_and(|(at, moment)| at < number || moment == Moment::Before) {
            return std::future::pending().await;
        }
        // Requests take time, so that others run meanwhile.
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        let answer = self
            .api
            .router()
            .oneshot(request.map(|body| axum::body::Body::new(Full::from(body))))
            .await;
        if crash.is_some() {
            return std::future::pending().await;
        }
        let (head, body) = answer
            .map_err(|error| Error::other(error.to_string()))?
            .into_parts();
        let body = body
            .collect()
            .await
            .map_err(|error| Error::other(error.to_string()))?
            .to_bytes();
        Ok(http::Response::from_parts(head, body.to_vec()))
    }
}

/// The Services of the API server, as caches without any delay.
struct ServiceCache(ApiServer);

impl Caches for ServiceCache {
    fn nodes(&self) -> Vec<Arc<Node>> {
        Vec::new()
    }

    fn node(&self, _name: &str) -> Option<Arc<Node>> {
        None
    }

    fn services(&self) -> Vec<Arc<Service>> {
        let services = self.0.list("services").into_iter();
        services
            .map(|service| Arc::new(serde_json::from_value(service).expect("a Service")))
            .collect()
    }
}

pub(crate) struct Harness {
    pub(crate) api: ApiServer,
    variables: Vec<(String, String)>,
}

/// A run of the program: the provider, and the number of its requests.
pub(crate) struct Run {
    provider: Keepalived,
    pub(crate) requests: Arc<AtomicUsize>,
}

pub(crate) fn cluster() -> Cluster {
    Cluster {
        name: "kubernetes".into(),
        id: None,
    }
}

impl Harness {
    pub(crate) fn new(ranges: &str) -> Self {
        let variables = [
            ("NAMESPACE", "kube-system"),
            ("CONFIG_MAP", "vip"),
            ("SERVICE_CIDR", ranges),
        ];
        let variables =
            variables.map(|(name, value)| (format!("KEEPALIVED_{name}"), value.to_owned()));
        Self {
            api: ApiServer::new(),
            variables: variables.into(),
        }
    }

    /// Creates a Service, and returns it as the controller has it.
    pub(crate) fn service(&self, name: &str) -> Service {
        let object = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "default"},
            "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}});
        serde_json::from_value(self.api.seed(object).expect("a valid Service")).expect("a Service")
    }

    /// Writes the addresses into the status of a Service, and returns the Service as the controller has it then.
    pub(crate) fn show(&self, name: &str, addresses: &[String]) -> Service {
        let mut object = self
            .api
            .get("services", Some("default"), name)
            .expect("a Service");
        let ingress: Vec<_> = addresses.iter().map(|ip| json!({"ip": ip})).collect();
        object["status"]["loadBalancer"]["ingress"] = json!(ingress);
        self.api.remove("services", Some("default"), name);
        serde_json::from_value(self.api.seed(object).expect("a valid Service")).expect("a Service")
    }

    /// Starts the program, which is killed at this request if there is one.
    pub(crate) async fn start(&self, crash: Option<(usize, Moment)>) -> Run {
        let environment = Environment::of(
            self.variables
                .iter()
                .map(|(name, value)| (&**name, &**value)),
        );
        let setup = Setup {
            environment,
            fence: Fence::open(),
            ..Setup::default()
        };
        let provider = Keepalived::new(&setup).expect("valid variables");
        let requests = Arc::new(AtomicUsize::new(0));
        provider.set_caches(Arc::new(ServiceCache(self.api.clone())));
        let connection = Connection {
            api: self.api.clone(),
            requests: Arc::clone(&requests),
            crash,
        };
        let context = ScriptedCluster::default().context(cluster());
        let context = Context {
            clients: Arc::new(connection),
            ..context
        };
        // A run that is killed here never gets further.
        tokio::select! {
            started = provider.initialize(&context) => started.expect("a start"),
            () = settled() => {}
        }
        Run { provider, requests }
    }

    /// Returns the ConfigMap of the provider.
    pub(crate) fn config_map(&self) -> Value {
        self.api
            .get("configmaps", Some("kube-system"), "vip")
            .unwrap_or_default()
    }

    /// Returns the addresses and their users, as kube-keepalived-vip reads them, after a check that each is given out once.
    pub(crate) fn addresses(&self) -> Vec<(String, String)> {
        let map = self.config_map();
        let text = map["metadata"]["annotations"]["k8s.co/cloud-provider-config"]
            .as_str()
            .unwrap_or("{}");
        let entries: Value = serde_json::from_str(text).expect("JSON");
        let entries = entries["services"].as_array().cloned().unwrap_or_default();
        let distinct: BTreeSet<_> = entries
            .iter()
            .map(|entry| entry["ip"].to_string())
            .collect();
        assert_eq!(
            distinct.len(),
            entries.len(),
            "an address is given out twice: {text}"
        );
        let data = map["data"].as_object().cloned().unwrap_or_default();
        assert_eq!(
            data.len(),
            entries.len(),
            "the data does not follow from the annotation: {map}"
        );
        data.into_iter()
            .map(|(ip, value)| (ip, value.as_str().unwrap_or_default().to_owned()))
            .collect()
    }
}

/// Virtual time that is longer than any run needs.
async fn settled() {
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
}

impl Run {
    pub(crate) fn balancers(&self) -> &dyn LoadBalancers {
        self.provider.load_balancers().expect("load balancers")
    }

    /// Returns the addresses of the Service after a sync; `None` if the run was killed.
    pub(crate) async fn ensure(&self, service: &Service) -> Option<Result<Vec<String>>> {
        let cluster = cluster();
        let request = LoadBalancerRequest {
            cluster: &cluster,
            service,
            nodes: &[],
            callbacks: &(),
        };
        let status = tokio::select! {
            status = self.balancers().ensure(request) => status,
            () = settled() => return None,
        };
        let addresses = |status: Option<cloud_provider::LoadBalancerStatus>| {
            let ingress = status.and_then(|status| status.ingress).unwrap_or_default();
            ingress
                .into_iter()
                .filter_map(|ingress| ingress.ip)
                .collect()
        };
        Some(status.map(addresses))
    }

    /// Deletes the addresses of the Service; `None` if the run was killed.
    pub(crate) async fn delete(&self, service: &Service) -> Option<Result<()>> {
        let cluster = cluster();
        let request = LoadBalancerRequest {
            cluster: &cluster,
            service,
            nodes: &[],
            callbacks: &(),
        };
        tokio::select! {
            outcome = self.balancers().delete(request) => Some(outcome),
            () = settled() => None,
        }
    }
}
