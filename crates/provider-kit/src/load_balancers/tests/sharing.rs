//! Load balancers that several Services share, in a cloud that replaces all tags at once: a change that starts from an
//! outdated state removes another Service's tag, or its whole load balancer.
//!
//! Rules: P-27, D-201.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{
    Cluster, Error, LoadBalancerRequest, LoadBalancers, Result, Service, async_trait,
};
use futures::future::join_all;
use parking_lot::{Mutex, MutexGuard};
use serde_json::json;

use super::super::{
    Adoption, Applied, Attributes, Auxiliary, Change, DesiredStateInput, Identity,
    LoadBalancerCloud, LoadBalancerEngine, NameUniqueness, Naming, ObservedLoadBalancer, Operation,
    Options, OwnerTags, Port, Query, ResourceGraph, ResourceKey, State,
};
use super::cloud_trait::NoMachines;
use super::small::Cached;
use crate::annotations::{Annotations, Parsed};
use crate::paging::ListResult;

/// The duration of each change.
const TAKES: Duration = Duration::from_millis(40);

#[derive(Default)]
struct Model {
    /// UIDs of the Services that share the load balancer; `None` if there is none.
    tags: Option<BTreeSet<String>>,
    /// Ports, each with the UID of its Service.
    listeners: BTreeMap<u16, String>,
    wanted: BTreeMap<String, Vec<u16>>,
    is_busy: bool,
    violations: Vec<String>,
}

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Model>>);

impl Shared {
    fn model(&self) -> MutexGuard<'_, Model> {
        self.0.lock()
    }

    /// Returns the load balancer as this Service sees it.
    fn view(&self, uid: &str) -> Option<ObservedLoadBalancer> {
        let model = self.model();
        let tags = model.tags.as_ref()?;
        let mut graph = ResourceGraph::default()
            .balancer(Attributes::default())
            .pool("main", Attributes::default(), None);
        let mut foreign = BTreeMap::new();
        for (port, owner) in &model.listeners {
            match owner == uid {
                true => graph = graph.listener(*port, "TCP", "main", Attributes::default()),
                false => _ = foreign.insert(listener(*port), owner.clone()),
            }
        }
        let others = tags.iter().filter(|tag| *tag != uid);
        for tag in others.clone() {
            let resource = ResourceKey::CreatedBefore(Auxiliary {
                rank: 0,
                kind: "tag".into(),
                name: tag.clone(),
            });
            foreign.insert(resource, tag.clone());
        }
        let owner_tags = if tags.contains(uid) {
            owner_tags(uid)
        } else {
            OwnerTags::default()
        };
        let labels = others.map(|tag| (tag.clone(), String::new())).collect();
        let state = if model.is_busy {
            State::Busy
        } else {
            State::Ready
        };
        let id = format!("lb/{uid}");
        let name = format!("shared by {uid}");
        Some(ObservedLoadBalancer {
            id,
            name,
            owner_tags,
            labels,
            foreign,
            state,
            graph: Some(graph),
            ..ObservedLoadBalancer::default()
        })
    }

    fn change(&self, change: Change<'_>) -> Result<Applied> {
        let uid = change.identity.uid().to_owned();
        let operation = &change.operations[0];
        let mut model = self.model();
        if model.is_busy {
            return Err(Error::conflict("immutable"));
        }
        let known: BTreeSet<String> = change
            .actual
            .iter()
            .flat_map(|actual| actual.labels.keys().cloned())
            .collect();
        let replaced = |model: &mut Model, tags: BTreeSet<String>| {
            let lost: Vec<_> = model
                .tags
                .iter()
                .flatten()
                .filter(|tag| **tag != uid && !tags.contains(*tag))
                .collect();
            let lost = (!lost.is_empty()).then(|| format!("{uid} took away {lost:?}"));
            model.violations.extend(lost);
            model.tags = Some(tags);
        };
        match operation {
            Operation::Create {
                resource: ResourceKey::Balancer,
                ..
            } if model.tags.is_some() => {
                return Err(Error::conflict("name taken"));
            }
            Operation::Create {
                resource: ResourceKey::Balancer,
                ..
            } => model.tags = Some([uid.clone()].into()),
            _ if model.tags.is_none() => return Err(Error::not_found("no such load balancer")),
            Operation::Tag => {
                replaced(&mut model, known.into_iter().chain([uid.clone()]).collect());
            }
            Operation::Untag => replaced(&mut model, known),
            Operation::Create {
                resource: ResourceKey::Listener(port),
                ..
            } => {
                let before = model.listeners.insert(port.number, uid.clone());
                model
                    .violations
                    .extend(before.map(|other| format!("{uid} took port {port} of {other}")));
            }
            Operation::Delete {
                resource: ResourceKey::Listener(port),
            } => _ = model.listeners.remove(&port.number),
            Operation::Delete {
                resource: ResourceKey::Balancer,
            } => {
                replaced(&mut model, BTreeSet::new());
                model.tags = None;
                model.listeners.clear();
                return Ok(Applied::Removed);
            }
            _ => {}
        }
        model.is_busy = true;
        drop(model);
        let this = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(TAKES).await;
            this.model().is_busy = false;
        });
        Ok(Applied::Shown(
            1,
            Box::new(self.view(&uid).ok_or_else(|| Error::not_found("gone"))?),
        ))
    }
}

fn listener(number: u16) -> ResourceKey {
    ResourceKey::Listener(Port {
        number,
        protocol: "TCP".into(),
    })
}

fn owner_tags(uid: &str) -> OwnerTags {
    OwnerTags {
        cluster: Some("c1".into()),
        service: Some(uid.into()),
    }
}

fn service(uid: &str) -> Service {
    serde_json::from_value(json!({"metadata": {"name": uid, "namespace": "shop", "uid": uid}}))
        .unwrap()
}

#[async_trait]
impl LoadBalancerCloud for Shared {
    type Spec = ();

    fn name_uniqueness(&self) -> NameUniqueness {
        NameUniqueness::Unique
    }

    fn spec(&self, service: &Service) -> Parsed<()> {
        Annotations::of(service).parsed(())
    }

    fn naming(&self, _cluster: &Cluster, service: &Service) -> Naming {
        let name = format!("shared by {}", service.metadata.uid.as_deref().unwrap());
        Naming {
            name,
            ..Naming::of(service)
        }
    }

    fn adopts(&self, _actual: &ObservedLoadBalancer, identity: &Identity<'_>) -> Adoption {
        if identity.is_leaving() {
            Adoption::Refuse
        } else {
            Adoption::Adopt
        }
    }

    fn lock(&self, _actual: &ObservedLoadBalancer) -> Option<String> {
        Some("lb".into())
    }

    async fn desired(&self, input: &DesiredStateInput<'_, ()>) -> Result<ResourceGraph> {
        let ports = self
            .model()
            .wanted
            .get(input.request.service.metadata.uid.as_deref().unwrap())
            .cloned();
        let graph = ResourceGraph::default()
            .balancer(Attributes::default())
            .pool("main", Attributes::default(), None);
        Ok(ports
            .unwrap_or_default()
            .into_iter()
            .fold(graph, |graph, port| {
                graph.listener(port, "TCP", "main", Attributes::default())
            }))
    }

    async fn read(&self, query: Query<'_>) -> Result<ListResult<ObservedLoadBalancer>> {
        let found: Vec<ObservedLoadBalancer> = match query {
            Query::All(_) => {
                let tags: Vec<_> = self.model().tags.iter().flatten().cloned().collect();
                tags.iter().filter_map(|uid| self.view(uid)).collect()
            }
            Query::Owner(identity) => {
                let found = self.view(identity.uid());
                tokio::time::sleep(TAKES / 4).await;
                found.into_iter().collect()
            }
            Query::Ids(ids, _) => ids
                .iter()
                .filter_map(|id| self.view(id.trim_start_matches("lb/")))
                .collect(),
        };
        Ok(ListResult::of(found))
    }

    async fn apply(&self, change: Change<'_>, (): &()) -> Result<Applied> {
        self.change(change)
    }
}

const SERVICES: [&str; 3] = ["s1", "s2", "s3"];

/// Simulates a Service that is created, changed and deleted at random, and exists at the end.
async fn life(
    cloud: &Shared,
    balancers: &LoadBalancerEngine,
    cluster: &Cluster,
    number: usize,
    seed: u64,
) {
    let uid = SERVICES[number];
    let mut random = fastrand::Rng::with_seed(seed * 10 + number as u64);
    let service = service(uid);
    let request = LoadBalancerRequest {
        cluster,
        service: &service,
        nodes: &[],
        callbacks: &(),
    };
    let port = 100 * (u16::try_from(number).unwrap() + 1);
    for step in 0..12 {
        tokio::time::sleep(TAKES * random.u32(0..8)).await;
        if step < 11 && random.u8(0..3) == 0 {
            let mut leaving = service.clone();
            leaving.metadata.deletion_timestamp =
                Some(serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap());
            let _ = balancers
                .delete(LoadBalancerRequest {
                    service: &leaving,
                    ..request
                })
                .await;
        } else {
            cloud
                .model()
                .wanted
                .insert(uid.into(), (port..port + random.u16(0..3)).collect());
            let _ = balancers.ensure(request).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn concurrent_services_of_a_shared_load_balancer_do_not_interfere() {
    for seed in 0..40 {
        let cloud = Shared::default();
        let balancers =
            LoadBalancerEngine::of(cloud.clone(), Arc::new(NoMachines), Options::default());
        let cached = Cached::default();
        *cached.services.lock() = SERVICES.map(|uid| Arc::new(service(uid))).into();
        balancers.set_caches(Arc::new(cached));
        let cluster = Cluster {
            name: "kubernetes".into(),
            id: Some("c1".into()),
        };
        join_all(
            (0..SERVICES.len()).map(|number| life(&cloud, &balancers, &cluster, number, seed)),
        )
        .await;
        // A failed sync is tried again.
        for uid in SERVICES {
            let service = service(uid);
            let request = LoadBalancerRequest {
                cluster: &cluster,
                service: &service,
                nodes: &[],
                callbacks: &(),
            };
            balancers
                .ensure(request)
                .await
                .unwrap_or_else(|error| panic!("seed {seed}, {uid}: {error}"));
        }
        let model = cloud.model();
        assert_eq!(model.violations, [""; 0], "seed {seed}");
        assert_eq!(
            model.tags,
            Some(SERVICES.map(str::to_owned).into()),
            "seed {seed}"
        );
        for uid in SERVICES {
            let ports: Vec<u16> = model
                .listeners
                .iter()
                .filter(|(_, listener)| *listener == uid)
                .map(|(port, _)| *port)
                .collect();
            assert_eq!(ports, model.wanted[uid], "seed {seed}, {uid}");
        }
    }
}
