//! The calls of the engine to a [`LoadBalancerCloud`]: the Service is parsed once, and a mistake stops only the changes
//! that it concerns.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cloud_provider::{
    Cluster, Error, LoadBalancerRequest, LoadBalancers, Node, Result, Service, async_trait,
};
use parking_lot::Mutex;
use serde_json::json;

use super::super::{
    Applied, Attributes, Change, DesiredStateInput, LoadBalancerCloud, LoadBalancerEngine,
    Machines, NameUniqueness, ObservedLoadBalancer, Operation, Options, Query, ResourceGraph,
    ResourceKey, Scope, Targets,
};
use crate::annotations::{Annotation, Annotations, Parsed};
use crate::declared::Value;
use crate::paging::ListResult;

const PORT: Annotation<u16> =
    Annotation::new("acme/check-port", u16::KIND, "Where targets are checked.");
const ONLY: Annotation<u16> =
    Annotation::new("acme/only", u16::KIND, "The only target.").decides_targets();

/// A cloud with one load balancer, which it stores as written.
#[derive(Clone, Default)]
struct Acme(Arc<Model>);

#[derive(Default)]
struct Model {
    parsed: AtomicUsize,
    load_balancer: Mutex<Option<ObservedLoadBalancer>>,
    list_is_flawed: Mutex<bool>,
}

#[async_trait]
impl LoadBalancerCloud for Acme {
    type Spec = (Option<u16>, Option<u16>);

    fn name_uniqueness(&self) -> NameUniqueness {
        NameUniqueness::NotUnique
    }

    fn spec(&self, service: &Service) -> Parsed<Self::Spec> {
        self.0.parsed.fetch_add(1, Ordering::Relaxed);
        let mut annotations = Annotations::of(service);
        let spec = (annotations.get(&PORT), annotations.get(&ONLY));
        annotations.parsed(spec)
    }

    async fn desired(&self, input: &DesiredStateInput<'_, Self::Spec>) -> Result<ResourceGraph> {
        let (port, only) = input.spec;
        let targets: Targets = [only.unwrap_or_default().to_string()].iter().collect();
        let pool = ResourceGraph::default().pool("main", Attributes::default(), Some(targets));
        Ok(match input.scope {
            Scope::Everything => pool.balancer(Attributes::default().set("check_port", port)),
            Scope::Targets => pool,
        })
    }

    async fn read(&self, query: Query<'_>) -> Result<ListResult<ObservedLoadBalancer>> {
        let found = Vec::from_iter(self.0.load_balancer.lock().clone());
        Ok(match query {
            Query::Owner(_) if *self.0.list_is_flawed.lock() => ListResult::Partial {
                items: found,
                pages: 1,
                reason: Error::other("a page is missing"),
            },
            _ => ListResult::of(found),
        })
    }

    async fn apply(&self, change: Change<'_>, _spec: &Self::Spec) -> Result<Applied> {
        let removed = change
            .operations
            .iter()
            .any(|operation| operation.deletes(|resource| *resource == ResourceKey::Balancer));
        let outcome = change
            .outcome_of_all()
            .filter(|_| !removed && !change.operations.contains(&Operation::Untag));
        let outcome = outcome.map(|outcome| ObservedLoadBalancer {
            id: "lb-1".into(),
            ..outcome
        });
        self.0.load_balancer.lock().clone_from(&outcome);
        Ok(outcome.map_or(Applied::Removed, |outcome| Applied::all(change, outcome)))
    }
}

pub(super) struct NoMachines;

#[async_trait]
impl Machines for NoMachines {
    async fn has(&self, _node: &Node) -> Result<Option<bool>> {
        Ok(Some(true))
    }

    async fn ids(&self) -> Result<Targets> {
        Ok(Targets::default())
    }
}

fn service(annotations: &[(&str, &str)]) -> Service {
    let annotations: serde_json::Map<_, _> = annotations
        .iter()
        .map(|(key, value)| ((*key).into(), json!(value)))
        .collect();
    serde_json::from_value(
        json!({"metadata": {"name": "web", "uid": "u1", "annotations": annotations}}),
    )
    .unwrap()
}

fn cluster() -> Cluster {
    Cluster {
        name: "kubernetes".into(),
        id: Some("c1".into()),
    }
}

#[tokio::test(start_paused = true)]
async fn the_service_is_parsed_once_in_a_sync() {
    let cloud = Acme::default();
    let cluster = cluster();
    let service = service(&[(PORT.key(), "80")]);
    let balancers = LoadBalancerEngine::of(cloud.clone(), Arc::new(NoMachines), Options::default());
    let request = LoadBalancerRequest {
        cluster: &cluster,
        service: &service,
        nodes: &[],
        callbacks: &(),
    };
    balancers.ensure(request).await.unwrap();
    assert_eq!(cloud.0.parsed.swap(0, Ordering::Relaxed), 1);
    balancers.update_targets(request).await.unwrap();
    assert_eq!(cloud.0.parsed.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn a_mistake_that_does_not_decide_about_targets_does_not_stop_them() {
    let cloud = Acme::default();
    let cluster = cluster();
    let balancers = LoadBalancerEngine::of(cloud.clone(), Arc::new(NoMachines), Options::default());
    let good = service(&[]);
    balancers
        .ensure(LoadBalancerRequest {
            cluster: &cluster,
            service: &good,
            nodes: &[],
            callbacks: &(),
        })
        .await
        .unwrap();
    let wrong = service(&[(PORT.key(), "http"), (ONLY.key(), "7")]);
    let request = LoadBalancerRequest {
        cluster: &cluster,
        service: &wrong,
        nodes: &[],
        callbacks: &(),
    };
    let refused = balancers.ensure(request).await.unwrap_err();
    assert!(
        refused.is_invalid() && refused.to_string().contains(PORT.key()),
        "{refused}"
    );
    balancers.update_targets(request).await.unwrap();
    let graph = cloud.0.load_balancer.lock().clone().unwrap().graph.unwrap();
    assert_eq!(graph.targets_of("main").iter().collect::<Vec<_>>(), ["7"]);
    let wrong = service(&[(ONLY.key(), "none")]);
    let request = LoadBalancerRequest {
        service: &wrong,
        ..request
    };
    assert!(
        balancers
            .update_targets(request)
            .await
            .unwrap_err()
            .to_string()
            .contains(ONLY.key())
    );
}

#[tokio::test(start_paused = true)]
async fn partial_list_is_never_taken_for_all_load_balancers_of_a_service() {
    let cloud = Acme::default();
    let cluster = cluster();
    let service = service(&[]);
    *cloud.0.list_is_flawed.lock() = true;
    let balancers = LoadBalancerEngine::of(cloud.clone(), Arc::new(NoMachines), Options::default());
    let request = LoadBalancerRequest {
        cluster: &cluster,
        service: &service,
        nodes: &[],
        callbacks: &(),
    };
    let refused = balancers.delete(request).await.unwrap_err();
    assert_eq!(refused.to_string(), "a page is missing");
}
