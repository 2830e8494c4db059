//! Load balancers: what a Service wants here, how the cloud writes it, and its requests. The rest is the kit's.

use std::collections::{BTreeMap, BTreeSet};

use cloud_provider::{Cluster, Error, LoadBalancerRequest, Node, Result, Service, async_trait};
use provider_kit::annotations::{Annotation, Annotations};
use provider_kit::declared::Kind;
use provider_kit::health_check::HealthCheck;
use provider_kit::inventory::{Machine, MachineSource, Urgency};
use provider_kit::load_balancers::{
    Actual, Applied, Attributes, Backend, Change, Identity, Marks, State, TargetSets, Targets, Tree, machine_ids,
    service_ports,
};
use provider_kit::paging::Reading;
use provider_kit::source_ranges::{allows_all, source_ranges};
use provider_kit::transport::{Call, Priority};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Api, IDS, ListPage};
use crate::cloud::{Listener, LoadBalancerStatus as Status, PAGE_SIZE};

const ALL: &str = "/v1/load-balancers";
const ONE: &str = "/v1/load-balancers/{id}";
const TIER: Annotation<&str> = Annotation::new(
    "simulated.ccm-rs/tier",
    Kind::one_of(&[("basic", "basic"), ("premium", "premium")]),
    "How large the load balancer is.",
)
.default("basic");
/// The sign of the CCM that ran this cloud before us.
const SIGN: &str = "simulated/service-uid";
/// Targets are those of the whole load balancer.
const POOL: &str = "main";
const TARGET_PORT: &str = "target_port";
const SETTINGS: [&str; 5] = ["tier", "source_ranges", "address", "health_check", "sticky"];

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
    #[serde(flatten)]
    settings: Attributes,
}

impl From<Wire> for Actual {
    fn from(mut wire: Wire) -> Self {
        let marks = Marks::take_from(&mut wire.labels);
        let mut tree = Tree::default().balancer(wire.settings.only(&SETTINGS));
        tree = tree.pool(POOL, Attributes::default(), Some(wire.targets));
        for Listener { port, protocol, target_port } in wire.listeners {
            tree = tree.listener(port, protocol, POOL, Attributes::default().set(TARGET_PORT, target_port));
        }
        Actual {
            id: wire.id,
            name: wire.name,
            marks,
            sign: wire.labels.get(SIGN).cloned(),
            labels: wire.labels,
            state: if wire.status == Status::Active { State::Ready } else { State::Busy },
            ingress: wire.ip.iter().map(|ip| Actual::ip(ip)).collect(),
            tree: Some(tree),
            ..Actual::default()
        }
    }
}

impl From<Actual> for Wire {
    fn from(actual: Actual) -> Self {
        let tree = actual.tree.unwrap_or_default();
        let listeners = tree.listeners().map(|(port, settings)| Listener {
            port: port.number,
            protocol: port.protocol.to_string(),
            target_port: settings.number(TARGET_PORT).unwrap_or_default(),
        });
        Self {
            listeners: listeners.collect(),
            targets: tree.targets_of(POOL),
            settings: tree.balancer_attributes().cloned().unwrap_or_default(),
            id: actual.id,
            status: Status::Active,
            ip: None,
            name: actual.name,
            labels: actual.marks.among(actual.labels),
        }
    }
}

#[async_trait]
impl Backend for Api {
    fn sign(&self, _cluster: &Cluster, service: &Service) -> Option<String> {
        service.metadata.uid.clone()
    }

    async fn wanted(&self, request: &LoadBalancerRequest<'_>) -> Result<Tree> {
        let spec = request.service.spec.clone().unwrap_or_default();
        let mut asked = Annotations::of(request.service);
        let tier = asked.get(&TIER);
        asked.finish()?;
        let ranges = source_ranges(request.service)?;
        let ranges: BTreeSet<_> = ranges.iter().filter(|_| !allows_all(&ranges)).map(ToString::to_string).collect();
        let check = HealthCheck::of(request.service).map(|check| json!({"port": check.port, "path": check.path}));
        let settings = Attributes::default()
            .set("tier", tier)
            .set("source_ranges", ranges)
            .set("address", spec.load_balancer_ip.unwrap_or_default())
            .set("health_check", check)
            .set("sticky", spec.session_affinity.as_deref() == Some("ClientIP"))
            .fixed(&["address"]);
        let targets = machine_ids(request.nodes, &IDS);
        let mut tree = Tree::default().balancer(settings).pool(POOL, Attributes::default(), targets);
        for port in service_ports(request.service, &["TCP", "UDP"])? {
            let settings = Attributes::default().set(TARGET_PORT, port.node_port);
            tree = tree.listener(port.number, port.protocol, POOL, settings);
        }
        Ok(tree)
    }

    async fn list(&self, sets: &TargetSets) -> Result<Reading<Actual>> {
        self.read_list(
            ALL,
            &Urgency::of(Priority::Ordinary),
            |wire: Wire| Actual::from(wire).sharing(sets),
            |actual| actual.id.clone(),
        )
        .await
    }

    async fn find(&self, identity: &Identity<'_>) -> Result<Vec<Actual>> {
        self.some(Call::get(ALL, &[]).query("name", &identity.name)).await
    }

    async fn read(&self, id: &str) -> Result<Option<Actual>> {
        let found: Option<Wire> = self.http.find(Call::get(ONE, &[id])).await?;
        Ok(found.map(Actual::from))
    }

    async fn read_many(&self, ids: &[String]) -> Result<Vec<Actual>> {
        let mut found = Vec::new();
        for ids in ids.chunks(PAGE_SIZE) {
            found.extend(self.some(Call::get(ALL, &[]).query("ids", ids.join(","))).await?);
        }
        Ok(found)
    }

    async fn has_machine(&self, node: &Node) -> Result<bool> {
        Ok(self.by_id(IDS.read(&node.provider_id)?, Priority::Urgent).await?.is_some())
    }

    /// The cloud takes the whole state in one request.
    async fn apply(&self, change: Change<'_>) -> Result<Applied> {
        let id = change.actual.map_or("", |actual| &actual.id);
        let Some(outcome) = change.outcome_of_all() else {
            return self.http.remove(Call::delete(ONE, &[id])).await.map(|()| Applied::Gone);
        };
        let shown = match self.write(id, outcome.clone()).await {
            Err(err) if err.is_invalid() => self.write_without_unknown_targets(id, outcome, err).await?,
            shown => shown?,
        };
        Ok(Applied::all(change, shown))
    }
}

impl Api {
    async fn write(&self, id: &str, wanted: Actual) -> Result<Actual> {
        let call = if id.is_empty() { Call::post(ALL, &[]) } else { Call::put(ONE, &[id]) };
        Ok(self.http.read::<Wire>(call.json(&Wire::from(wanted))).await?.into())
    }

    /// A machine that is gone is no target; its Node will go, too. It must not keep the others from being served.
    async fn write_without_unknown_targets(&self, id: &str, mut wanted: Actual, refused: Error) -> Result<Actual> {
        let machines = MachineSource::list(self, &Urgency::of(Priority::Ordinary)).await?.complete()?;
        let known: Targets = machines.items().iter().map(|machine| machine.id().to_owned()).collect();
        let tree = wanted.tree.get_or_insert_default();
        let unknown = tree.targets_of(POOL).without(&known);
        let rest = tree.targets_of(POOL).without(&unknown);
        // If none is known, the credential may be another project's: a load balancer without targets would be made there.
        if unknown.is_empty() || rest.is_empty() {
            return Err(refused);
        }
        tracing::warn!(load_balancer = wanted.name, %unknown, "machines that do not exist are left out of the targets");
        tree.targets.insert(POOL.to_owned(), rest);
        self.write(id, wanted).await
    }

    async fn some(&self, call: Call) -> Result<Vec<Actual>> {
        let page: ListPage<Wire> = self.http.read(call.list()).await?;
        Ok(page.items.into_iter().map(Actual::from).collect())
    }
}
