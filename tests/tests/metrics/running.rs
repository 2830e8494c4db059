//! The program itself, in this process and in virtual time: a cluster, a cloud, flags, and a scrape.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use ccm_tests::in_process::start_up_taint;
use cloud_provider::{CloudProvider, Registry, Setup};
use embedded_apiserver::ApiServer;
use http::Request;
use http_body_util::BodyExt;
use kube::Client;
use manager::flags::{Flags, Parsed};
use manager::{Clients, Manager};
use provider_kit::transport::{Credential, Transport};
use provider_simulated::cloud::{Cloud, DEFAULT_TOKEN};
use provider_simulated::provider::{NAME, Simulated};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// A factory is a plain function; this is the cloud that its provider talks to.
static CLOUD: OnceLock<Cloud> = OnceLock::new();

/// A running program in this process.
pub(crate) struct Running {
    pub(crate) api: ApiServer,
    pub(crate) cloud: Cloud,
    router: Router,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

fn simulated(setup: &Setup) -> cloud_provider::Result<Arc<dyn CloudProvider>> {
    let transport = Transport::builder("http://simulated")
        .credential(Credential::token(DEFAULT_TOKEN))
        .fence(setup.fence.clone())
        .metrics(Arc::clone(&setup.metrics))
        .service(CLOUD.get().expect("a cloud").router())
        .build()?;
    Ok(Arc::new(Simulated::new(transport, None)))
}

impl Running {
    /// Starts the program over a cluster with one new Node and one Service; called once in a process, in a `LocalSet`.
    pub(crate) async fn start() -> Self {
        let api = ApiServer::new();
        let cloud = CLOUD.get_or_init(Cloud::default).clone();
        cloud.create_machines("worker-", 3);
        for object in [node(1, "True"), service("web")] {
            api.seed(object).unwrap();
        }
        let arguments = [
            "ccm",
            "--cloud-provider=simulated",
            "--secure-port=0",
            "--cluster-cidr=10.244.0.0/16",
            "--kube-api-qps=50",
        ];
        let flags = match Flags::parse(arguments.map(Into::into)) {
            Parsed::Flags(flags) => flags,
            Parsed::Say(text) | Parsed::Wrong(text) => panic!("{text}"),
        };
        let mut registry = Registry::new();
        registry.register(NAME, simulated);
        let stop = CancellationToken::new();
        let manager =
            Manager::new(&registry).clients(Clients::Shared(Client::new(api.service(), "default")));
        let prepared = manager.prepare(&flags, &stop).await.unwrap();
        let router = prepared.router();
        let task = tokio::task::spawn_local(async move { prepared.run().await.unwrap() });
        Self {
            api,
            cloud,
            router,
            stop,
            task,
        }
    }

    /// Returns the response body of a path.
    pub(crate) async fn get(&self, path: &str) -> String {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let body = self
            .router
            .clone()
            .oneshot(request)
            .await
            .unwrap()
            .into_body();
        String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap()
    }

    /// Lets virtual time pass.
    pub(crate) async fn wait(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap();
    }
}

/// Returns the new Node of this number, ready or not.
pub(crate) fn node(number: usize, ready: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("worker-{number}")},
        "spec": {"taints": [start_up_taint()], "podCIDRs": [format!("10.244.{number}.0/24")]},
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    })
}

fn service(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "default"},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80, "nodePort": 30080}]},
    })
}
