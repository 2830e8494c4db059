//! Load balancers: what a Service wants here, how the cloud writes it, and its three requests. The rest is the kit's.

use std::collections::{BTreeMap, BTreeSet};

use cloud_provider::{Cluster, Error, LoadBalancerRequest, Result, Service, async_trait};
use provider_kit::health_check::HealthCheck;
use provider_kit::load_balancers::{
    Actual, Applied, Attributes, Backend, Change, Identity, Marks, State, TargetSets, Targets, Tree, machine_ids,
};
use provider_kit::paging::Reading;
use provider_kit::source_ranges::{allows_all, source_ranges};
use provider_kit::transport::Call;
use serde::{Deserialize, Serialize};

use super::{Api, IDS, ListPage};
use crate::cloud::{LoadBalancerStatus as Status, PAGE_SIZE};

const ALL: &str = "/v1/load-balancers";
const ONE: &str = "/v1/load-balancers/{id}";
/// `basic` or `premium`.
const TIER: &str = "simulated.ccm-rs/tier";
/// The sign of the CCM that ran this cloud before us.
const SIGN: &str = "simulated/service-uid";
/// The targets are those of the whole load balancer.
const POOL: &str = "main";

/// A load balancer, as the API reads and writes it.
#[derive(Deserialize, Serialize)]
struct Wire {
    #[serde(skip_serializing)]
    id: String,
    #[serde(skip_serializing)]
    status: Status,
    #[serde(skip_serializing)]
    ip: Option<String>,
    name: String,
    labels: BTreeMap<String, String>,
    listeners: Vec<Listener>,
    targets: Targets,
    #[serde(default = "basic")]
    tier: String,
    #[serde(default)]
    source_ranges: BTreeSet<String>,
    #[serde(default)]
    address: String,
    #[serde(default)]
    health_check: Option<Check>,
    #[serde(default)]
    sticky: bool,
}

#[derive(Deserialize, Serialize)]
struct Listener {
    port: u16,
    protocol: String,
    target_port: u16,
}

#[derive(Deserialize, Serialize)]
struct Check {
    port: u16,
    path: String,
}

fn basic() -> String {
    "basic".to_owned()
}

impl Wire {
    fn into_actual(mut self, sets: &TargetSets) -> Actual {
        let marks = Marks::from_labels(&self.labels);
        Marks::default().write_to(&mut self.labels);
        let balancer = Attributes::default()
            .set("tier", self.tier)
            .set("source_ranges", self.source_ranges)
            .set("address", self.address);
        let pool = Attributes::default().set("health_check", self.health_check).set("sticky", self.sticky);
        let sign = self.labels.get(SIGN).cloned();
        let mut tree = Tree::default()
            // Kept for the next PUT, which replaces all.
            .balancer(balancer.set("labels", self.labels))
            .pool(POOL, pool, Some(sets.shared(self.targets)));
        for Listener { port, protocol, target_port } in self.listeners {
            tree = tree.listener(port, protocol, POOL, Attributes::default().set("target_port", target_port));
        }
        let state = if self.status == Status::Active { State::Ready } else { State::Busy };
        let ingress = self.ip.iter().map(|ip| Actual::ip(ip)).collect();
        let (id, name, tree) = (self.id, self.name, Some(tree));
        Actual { id, name, marks, sign, state, ingress, tree, foreign: BTreeMap::new() }
    }

    fn of(outcome: Actual) -> Result<Self> {
        #[derive(Deserialize)]
        struct Balancer {
            tier: String,
            #[serde(default)]
            source_ranges: BTreeSet<String>,
            #[serde(default)]
            address: String,
            #[serde(default)]
            labels: BTreeMap<String, String>,
        }
        #[derive(Default, Deserialize)]
        struct Pool {
            health_check: Option<Check>,
            sticky: bool,
        }
        let tree = outcome.tree.unwrap_or_default();
        let mut balancer: Balancer = tree.balancer_attributes().cloned().unwrap_or_default().read()?;
        outcome.marks.write_to(&mut balancer.labels);
        let pool: Pool = tree.pool_attributes(POOL).map(Attributes::read).transpose()?.unwrap_or_default();
        let listener = |(port, attributes): (&provider_kit::load_balancers::Port, &Attributes)| Listener {
            port: port.number,
            protocol: port.protocol.to_string(),
            target_port: attributes.number("target_port").unwrap_or_default(),
        };
        Ok(Self {
            id: outcome.id,
            status: Status::Active,
            ip: None,
            name: outcome.name,
            labels: balancer.labels,
            listeners: tree.listeners().map(listener).collect(),
            targets: tree.targets_of(POOL),
            tier: balancer.tier,
            source_ranges: balancer.source_ranges,
            address: balancer.address,
            health_check: pool.health_check,
            sticky: pool.sticky,
        })
    }
}

#[async_trait]
impl Backend for Api {
    fn sign(&self, _cluster: &Cluster, service: &Service) -> Option<String> {
        service.metadata.uid.clone()
    }

    async fn wanted(&self, request: &LoadBalancerRequest<'_>) -> Result<Tree> {
        let (service, spec) = (request.service, request.service.spec.clone().unwrap_or_default());
        let annotation = |key| service.metadata.annotations.as_ref().and_then(|all| all.get(key)).map(String::as_str);
        let tier = match annotation(TIER).unwrap_or("basic") {
            tier @ ("basic" | "premium") => tier,
            other => return Err(Error::invalid(format!("annotation {TIER}: {other:?} is not one of basic, premium"))),
        };
        let ranges = source_ranges(service)?;
        let ranges: BTreeSet<_> = ranges.iter().filter(|_| !allows_all(&ranges)).map(ToString::to_string).collect();
        let balancer = Attributes::default().set("tier", tier).set("source_ranges", ranges);
        let balancer = balancer.set("address", spec.load_balancer_ip.unwrap_or_default()).fixed(&["address"]);
        let check = HealthCheck::of(service).map(|check| Check { port: number(check.port), path: check.path.into() });
        let sticky = spec.session_affinity.as_deref() == Some("ClientIP");
        let pool = Attributes::default().set("health_check", check).set("sticky", sticky);
        let mut tree = Tree::default().balancer(balancer).pool(POOL, pool, machine_ids(request.nodes, &IDS));
        for port in spec.ports.unwrap_or_default() {
            let protocol = port.protocol.unwrap_or_else(|| "TCP".to_owned());
            if !["TCP", "UDP"].contains(&&*protocol) {
                let text = format!("port {}: protocol {protocol} is not one of TCP, UDP", port.port);
                return Err(Error::invalid(text));
            }
            let Some(node_port) = port.node_port.filter(|port| *port > 0) else {
                let text = format!("port {} has no node port; set allocateLoadBalancerNodePorts", port.port);
                return Err(Error::invalid(text));
            };
            let settings = Attributes::default().set("target_port", node_port);
            tree = tree.listener(number(port.port), protocol, POOL, settings);
        }
        Ok(tree)
    }

    async fn list(&self, sets: &TargetSets) -> Result<Reading<Actual>> {
        self.read_list(ALL, |wire: Wire| wire.into_actual(sets), |actual| actual.id.clone()).await
    }

    async fn find(&self, identity: &Identity<'_>) -> Result<Vec<Actual>> {
        self.some(Call::get(ALL, &[]).query("name", &identity.name)).await
    }

    async fn read(&self, id: &str) -> Result<Option<Actual>> {
        let found: Option<Wire> = self.http.find(Call::get(ONE, &[id])).await?;
        Ok(found.map(|wire| wire.into_actual(&TargetSets::default())))
    }

    async fn read_many(&self, ids: &[String]) -> Result<Vec<Actual>> {
        let mut found = Vec::new();
        for ids in ids.chunks(PAGE_SIZE) {
            found.extend(self.some(Call::get(ALL, &[]).query("ids", ids.join(","))).await?);
        }
        Ok(found)
    }

    async fn apply(&self, change: Change<'_>) -> Result<Applied> {
        let id = change.actual.map(|actual| &*actual.id);
        let call = match (id, change.outcome_of_all()) {
            (None, Some(outcome)) => Call::post(ALL, &[]).json(&Wire::of(outcome)?),
            (Some(id), Some(outcome)) => Call::put(ONE, &[id]).json(&Wire::of(outcome)?),
            (id, None) => {
                self.http.remove(Call::delete(ONE, &[id.unwrap_or_default()])).await?;
                return Ok(Applied::Gone);
            }
        };
        let shown: Wire = self.http.read(call).await?;
        Ok(Applied::all(change, shown.into_actual(&TargetSets::default())))
    }
}

impl Api {
    async fn some(&self, call: Call) -> Result<Vec<Actual>> {
        let page: ListPage<Wire> = self.http.read(call.query("per_page", PAGE_SIZE)).await?;
        Ok(page.items.into_iter().map(|wire| wire.into_actual(&TargetSets::default())).collect())
    }
}

fn number(port: i32) -> u16 {
    u16::try_from(port).unwrap_or_default()
}
