//! Load balancer services as a cloud for the engine of provider-kit: specs of Services, lookup and reads.

pub mod annotations;
mod apply;
mod backends;
mod object;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{AddressType, Cluster, Node, Result, Service, async_trait};
use futures::future::try_join_all;
use parking_lot::Mutex;
use provider_kit::annotations::Parsed;
use provider_kit::cached::Cached;
use provider_kit::cluster::ClusterView;
use provider_kit::events::{EventDeduplicator, PendingEvents};
use provider_kit::inventory::SharedPriority;
use provider_kit::load_balancers::{
    Applied, Attributes, Change, DesiredStateInput, Detail, Identity, LoadBalancerCloud,
    NameUniqueness, Naming, ObservedLoadBalancer, Query, Recovery, ResourceGraph, ResourceKey,
    State, Targets,
};
use provider_kit::paging::ListResult;
use tokio::sync::Notify;

use self::annotations::LoadBalancerSpec;
use self::backends::Backends;
use self::object::{LoadBalancerService, POOL, Settings, is_scheduling_failure, published_port};
use crate::hosts::Source;

/// The type of load balancers.
const BALANCER: &str = "loadBalancerService";
/// The type of their backends.
const EXTERNAL: &str = "externalService";
/// Number of load balancers from which their states are read with one list.
const FEW: usize = 4;
/// Time between two searches for external services that no load balancer uses, and before the first one.
const SWEEPS: (Duration, Duration) = (Duration::from_secs(3600), Duration::from_secs(60));

/// The load balancers of an environment.
#[derive(Clone)]
pub(crate) struct LoadBalancers(Arc<Shared>);

pub(crate) struct Shared {
    source: Source,
    cluster: ClusterView,
    deduplicator: EventDeduplicator,
    backends: Backends,
    stack: Cached<String>,
    image: Cached<String>,
    /// Notified when external services could not be deleted.
    leftovers: Notify,
    /// External services of load balancers that were deleted, by UID of the Service, until it is known that they were
    /// deleted or stay for a reason.
    pending: Mutex<HashMap<String, BTreeSet<String>>>,
}

impl LoadBalancers {
    pub(crate) fn new(source: Source, cluster: ClusterView) -> Self {
        let deduplicator = EventDeduplicator::new(cluster.events().clone());
        let backends = Backends::new(source.api.clone());
        let stack = Cached::default();
        let image = Cached::default();
        let leftovers = Notify::new();
        let pending = Mutex::default();
        Self(Arc::new(Shared {
            source,
            cluster,
            deduplicator,
            backends,
            stack,
            image,
            leftovers,
            pending,
        }))
    }

    /// Returns a task that deletes external services which a process that was killed, or a refused deletion, has left. Without the cluster's ID,
    /// it deletes none: other clusters may have the same name.
    pub(crate) fn sweeper(&self, cluster: &Cluster) -> impl Future<Output = ()> + Send + use<> {
        let shared = Arc::clone(&self.0);
        let cluster = cluster.id.clone();
        async move {
            let Some(cluster) = cluster else { return };
            loop {
                tokio::time::sleep(SWEEPS.1).await;
                let none = BTreeSet::new();
                if let Err(error) = shared.backends.release(&cluster, &none, None, &none).await {
                    tracing::warn!(%error, "unused external services are not deleted");
                }
                // Earlier, if a sync has left some: what the time limit ends is no error.
                _ = tokio::time::timeout(SWEEPS.0, shared.leftovers.notified()).await;
            }
        }
    }
}

impl Shared {
    fn observed(&self, balancer: &LoadBalancerService) -> Result<ObservedLoadBalancer> {
        balancer.observed(|id| self.backends.address(id))
    }

    async fn list(&self, filters: &[(&str, &str)]) -> Result<ListResult<LoadBalancerService>> {
        let filters: Vec<_> = [("removed_null", "1")]
            .iter()
            .chain(filters)
            .copied()
            .collect();
        let key = |service: &LoadBalancerService| service.resource.id().to_owned();
        let shared_priority = SharedPriority::default();
        let list = self.source.api.list(
            BALANCER,
            &filters,
            &shared_priority,
            |service: LoadBalancerService| service,
            key,
        );
        Ok(list.await?.filter(LoadBalancerService::exists))
    }

    async fn by_id(&self, id: &str) -> Result<Option<LoadBalancerService>> {
        let found = self
            .source
            .api
            .by_id::<LoadBalancerService>(BALANCER, id)
            .await?;
        Ok(found.filter(LoadBalancerService::exists))
    }

    /// Converts load balancers, whose backends are read if they are not known.
    async fn with_backends(
        &self,
        found: Vec<LoadBalancerService>,
    ) -> Result<ListResult<ObservedLoadBalancer>> {
        self.backends
            .know(found.iter().flat_map(LoadBalancerService::services))
            .await?;
        Ok(ListResult::of(
            found
                .iter()
                .map(|service| self.observed(service))
                .collect::<Result<_>>()?,
        ))
    }

    /// Returns the addresses of Nodes at which they are backends, with the names of the Nodes.
    fn names(&self) -> HashMap<String, String> {
        let nodes = self.cluster.nodes().unwrap_or_default();
        nodes
            .iter()
            .filter_map(|node| Some((address(node)?, node.name.to_string())))
            .collect()
    }
}

/// Returns the address at which a Node is a backend: the first one that its host has.
fn address(node: &Node) -> Option<String> {
    let found = node
        .addresses
        .iter()
        .find(|address| address.kind == AddressType::InternalIP);
    found.map(|address| address.address.to_string())
}

#[async_trait]
impl LoadBalancerCloud for LoadBalancers {
    type Spec = LoadBalancerSpec;

    /// Returns `Unique`: a stack has no two services of the same name.
    fn name_uniqueness(&self) -> NameUniqueness {
        NameUniqueness::Unique
    }

    fn naming(&self, _: &Cluster, service: &Service) -> Naming {
        let naming = Naming::of(service);
        let name = format!("lb-{}", naming.name);
        Naming {
            legacy_owner: Some(name.clone()),
            name,
            ..naming
        }
    }

    fn spec(&self, service: &Service) -> Parsed<LoadBalancerSpec> {
        LoadBalancerSpec::of(service, &self.0.source.config)
    }

    async fn desired(
        &self,
        input: &DesiredStateInput<'_, LoadBalancerSpec>,
    ) -> Result<ResourceGraph> {
        let spec = input.spec;
        let nodes = input.request.nodes;
        let mut pending_events = PendingEvents::default();
        let mut targets = Vec::new();
        for node in nodes {
            match address(node) {
                Some(address) => targets.push(address),
                None if node.is_uninitialized() => {}
                None => {
                    pending_events.warn_node(
                        node,
                        "NoBackendAddress",
                        "this Node is no backend: it has no address",
                    );
                }
            }
        }
        self.0
            .deduplicator
            .record_new(input.request.service, "targets", &pending_events);
        let is_known = nodes.is_empty() || !targets.is_empty();
        let targets = is_known.then(|| targets.into_iter().collect::<Targets>());
        let settings = Settings {
            active: true,
            upgraded: false,
            ports: spec
                .ports
                .iter()
                .map(|port| published_port(port.number))
                .collect(),
            scale: spec.scale,
            certificates: spec.certificates.clone(),
            cookie: spec.cookie.clone(),
        };
        let graph = ResourceGraph::default().balancer(Attributes::desired(&settings)?);
        let graph = graph.pool(POOL, Attributes::default(), targets);
        Ok(with_ports(graph, spec))
    }

    async fn read(&self, query: Query<'_>) -> Result<ListResult<ObservedLoadBalancer>> {
        match query {
            Query::All(sets) => {
                self.0.backends.refresh().await?;
                let observed = |service| {
                    self.0
                        .observed(&service)
                        .ok()
                        .map(|load_balancer| load_balancer.sharing(sets))
                };
                Ok(self.0.list(&[]).await?.flat_map(observed))
            }
            Query::Owner(identity) => {
                // A deletion also finds a load balancer that was renamed: nothing looks for it afterwards.
                let is_leaving = identity.is_leaving();
                if is_leaving {
                    self.0.finish_deletion(identity).await?;
                }
                let filters: &[_] = if is_leaving {
                    &[]
                } else {
                    &[("name", &*identity.name)]
                };
                let mut found = self.0.list(filters).await?.complete()?.into_items();
                found.retain(|service| {
                    service.is_named(&identity.name)
                        || is_leaving && service.service() == Some(identity.uid())
                });
                let read = self.0.with_backends(found).await?;
                Ok(read.flat_map(|load_balancer| Some(deletable(load_balancer, identity))))
            }
            Query::Ids(ids, detail) => {
                let found = match detail == Detail::State && ids.len() >= FEW {
                    true => self.0.list(&[]).await?.into_items(),
                    false => Vec::new(),
                };
                let is_missing =
                    |id: &&String| !found.iter().any(|service| service.resource.id() == **id);
                let missing =
                    try_join_all(ids.iter().filter(is_missing).map(|id| self.0.by_id(id))).await?;
                let is_wanted = |service: &LoadBalancerService| {
                    ids.iter().any(|id| service.resource.id() == id)
                };
                let all = found
                    .into_iter()
                    .filter(is_wanted)
                    .chain(missing.into_iter().flatten())
                    .collect();
                self.0.with_backends(all).await
            }
        }
    }

    /// Leaves out ports without backends: Rancher's rules name a backend each.
    fn fit(
        &self,
        mut desired: ResourceGraph,
        observed: &ObservedLoadBalancer,
        _: &Identity<'_>,
        _: &LoadBalancerSpec,
    ) -> Result<ResourceGraph> {
        let has_none =
            |graph: &ResourceGraph| graph.targets.get(POOL).is_none_or(Targets::is_empty);
        if has_none(&desired) && observed.graph.as_ref().is_none_or(has_none) {
            desired
                .resources
                .retain(|resource, _| !matches!(resource, ResourceKey::Listener(_)));
        }
        Ok(desired)
    }

    /// Returns what the user can do: Rancher leaves no failed state by itself. A load balancer without a host that
    /// should publish other ports by now is replaced, because Rancher upgrades only an active one.
    fn recovery(&self, observed: &ObservedLoadBalancer, service: &Service) -> Recovery {
        match &observed.state {
            State::Failed(text) if is_scheduling_failure(text) => {
                let ports = observed
                    .graph
                    .as_ref()
                    .and_then(|graph| graph.balancer_attributes()?.get("ports").cloned());
                let has = |port: &String| {
                    ports
                        .iter()
                        .flat_map(|port| port.as_array().into_iter().flatten())
                        .any(|object| *object == **port)
                };
                let spec = service
                    .spec
                    .iter()
                    .flat_map(|spec| spec.ports.iter().flatten());
                let mut wanted =
                    spec.filter_map(|port| Some(published_port(u16::try_from(port.port).ok()?)));
                match observed.ingress.is_empty() && !wanted.all(|port| has(&port)) {
                    true => Recovery::Replace,
                    false => Recovery::ByHand(
                        "Free the port on the hosts, or change the port of the Service".to_owned(),
                    ),
                }
            }
            State::Failed(text) if text.contains("canceled-") => {
                Recovery::ByHand("Finish the upgrade or roll it back in Rancher".to_owned())
            }
            _ => Recovery::ByHand(
                "Restart the load balancer in Rancher, or delete it there to get a new one"
                    .to_owned(),
            ),
        }
    }

    async fn apply(&self, change: Change<'_>, spec: &LoadBalancerSpec) -> Result<Applied> {
        self.0.carry_out(change, spec).await
    }
}

/// Returns the graph with the ports of a Service.
fn with_ports(graph: ResourceGraph, spec: &LoadBalancerSpec) -> ResourceGraph {
    spec.ports.iter().fold(graph, |graph, port| {
        let settings = Attributes::default()
            .set("node_port", port.node_port)
            .set("protocol", port.protocol.name());
        graph.listener(port.number, "TCP", POOL, settings)
    })
}

/// Returns the load balancer in a state in which the engine deletes it at once, if its Service is leaving: Rancher also
/// deletes a load balancer that never becomes active, for example for lack of a host with a free port.
fn deletable(observed: ObservedLoadBalancer, identity: &Identity<'_>) -> ObservedLoadBalancer {
    let is_waited_for = observed.state == State::Busy && identity.is_leaving();
    ObservedLoadBalancer {
        state: if is_waited_for {
            State::Ready
        } else {
            observed.state.clone()
        },
        ..observed
    }
}
