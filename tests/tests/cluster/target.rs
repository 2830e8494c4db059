//! The fake of a cloud, on two ports of this machine, with a record of the writes to each.

use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use axum::extract::{Request, State};
use axum::http::Method;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use ccm_conformance::{CloudProfile, LoadBalancerFacts};
use hetzner_fake::{Port, Served};
use parking_lot::Mutex;

/// Cloud of one scenario.
pub(crate) struct Target {
    /// The fake cloud's profile.
    pub(crate) cloud: Arc<dyn CloudProfile>,
    ports: Vec<Served>,
    writes: Writes,
}

/// Writes of all ports, in the order of their arrival.
type Writes = Arc<Mutex<Vec<Write>>>;

/// A request that is no `GET`.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    /// Index of the port, which tells one manager from another one.
    pub(crate) port: usize,
    /// Time at which the request arrived.
    pub(crate) at: Instant,
    /// Method and path of the request.
    pub(crate) what: String,
}

async fn record(
    State((port, writes)): State<(usize, Writes)>,
    request: Request,
    next: Next,
) -> Response {
    if request.method() != Method::GET {
        let what = format!("{} {}", request.method(), request.uri().path());
        writes.lock().push(Write {
            port,
            at: Instant::now(),
            what,
        });
    }
    next.run(request).await
}

impl Target {
    /// Serves the fake of this profile on two free ports, until it is dropped.
    pub(crate) async fn serve(cloud: impl CloudProfile) -> Result<Self> {
        let cloud: Arc<dyn CloudProfile> = Arc::new(cloud);
        let mut ports = Vec::new();
        let writes = Writes::default();
        for index in 0..2 {
            let port = Port::open("127.0.0.1:0").await?;
            ports.push(
                port.serve(
                    cloud
                        .router()
                        .layer(from_fn_with_state((index, Arc::clone(&writes)), record)),
                ),
            );
        }
        Ok(Self {
            cloud,
            ports,
            writes,
        })
    }

    /// Returns the URL of a port.
    pub(crate) fn url(&self, port: usize) -> &str {
        self.ports[port].url()
    }

    /// Returns the requests so far that asked for a change, by method and path template.
    pub(crate) fn changes(&self) -> Vec<String> {
        let changes = self
            .cloud
            .fault_injector()
            .map(ccm_conformance::FaultInjector::changes)
            .unwrap_or_default();
        changes.into_iter().map(|(route, _)| route).collect()
    }

    /// Returns the writes so far, each with its port. Only for a cloud that reads by `GET` alone.
    pub(crate) fn writes(&self) -> Vec<Write> {
        self.writes.lock().clone()
    }

    /// Returns the load balancers of a Service.
    pub(crate) fn balancers_of(&self, uid: &str) -> Vec<LoadBalancerFacts> {
        let all = self.cloud.load_balancers().into_iter();
        all.filter(|balancer| balancer.service_uid.as_deref() == Some(uid))
            .collect()
    }
}
