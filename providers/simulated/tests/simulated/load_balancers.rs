//! Load balancers of the provider: idempotent, marked, and nobody else's touched (INV-2, INV-3, INV-7).

use std::sync::Mutex;

use cloud_provider::{
    Goal, LoadBalancerRequest, LoadBalancerStatus, LoadBalancers, Plan, PlanObserver, default_load_balancer_name,
};
use provider_simulated::cloud::{Fault, FaultKind, LoadBalancerSpec, Options};

use super::*;

#[derive(Default)]
struct Seen(Mutex<Vec<String>>);

impl PlanObserver for Seen {
    fn planned(&self, plan: &Plan) {
        self.0.lock().unwrap().extend(plan.steps.iter().map(ToString::to_string));
    }
}

struct Scene {
    cloud: Cloud,
    provider: Simulated,
    nodes: Vec<Arc<Node>>,
    service: Service,
    cluster: Cluster,
    seen: Seen,
}

const NAME: &str = "a17c0";

impl Scene {
    fn new() -> Self {
        let cloud = Cloud::new(Options { operation_milliseconds: 3000, ..Options::default() });
        let nodes = nodes(&cloud.create_machines("w-", 3));
        let service = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "web", "namespace": "default", "uid": "17-c0"},
            "spec": {"ports": [{"port": 80, "nodePort": 30080}, {"port": 53, "nodePort": 30053, "protocol": "UDP"}]}
        }));
        let (provider, seen) = (provider(&cloud), Seen::default());
        Self { cloud, provider, nodes, service: service.unwrap(), cluster: cluster(), seen }
    }

    fn request(&self, nodes: usize) -> LoadBalancerRequest<'_> {
        let Self { cluster, service, seen, .. } = self;
        LoadBalancerRequest { cluster, service, nodes: &self.nodes[..nodes], observer: seen }
    }

    async fn ensure(&self, nodes: usize) -> Result<Option<LoadBalancerStatus>> {
        self.provider.ensure(self.request(nodes)).await
    }

    fn requests(&self) -> Vec<String> {
        let requests = self.cloud.requests().into_iter().map(|(route, count)| format!("{count} {route}")).collect();
        self.cloud.reset_requests();
        requests
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_gets_an_address_and_what_is_well_is_left_alone() {
    let scene = Scene::new();
    assert_eq!(default_load_balancer_name(&scene.service), NAME);
    assert_eq!(scene.provider.get(scene.request(0)).await.unwrap(), None);
    let status = scene.ensure(2).await.unwrap().unwrap();
    let ingress = status.ingress.as_deref().unwrap();
    assert_eq!(ingress[0].ip, scene.cloud.load_balancers()[0].ip);
    assert_eq!(*scene.seen.0.lock().unwrap(), ["create load balancer \"a17c0\": 2 listeners, 2 targets"]);
    let made = &scene.cloud.load_balancers()[0].spec;
    assert_eq!((made.listeners.first().unwrap().port, made.targets.len()), (53, 2));
    scene.requests();
    assert_eq!(scene.ensure(2).await.unwrap().unwrap(), status);
    scene.provider.update_targets(scene.request(2)).await.unwrap();
    assert_eq!(scene.provider.get(scene.request(0)).await.unwrap(), Some(status));
    assert_eq!(scene.requests(), ["3 GET /v1/load-balancers"]);
    assert_eq!(scene.seen.0.lock().unwrap().len(), 1, "an empty plan is not told");
}

#[tokio::test(start_paused = true)]
async fn targets_follow_and_a_change_waits_for_the_one_before() {
    let scene = Scene::new();
    scene.ensure(2).await.unwrap();
    scene.provider.update_targets(scene.request(3)).await.unwrap();
    scene.provider.update_targets(scene.request(1)).await.unwrap();
    assert_eq!(scene.cloud.load_balancers()[0].spec.targets.len(), 1);
    let plan = scene.provider.plan(scene.request(3), Goal::Ensured).await.unwrap();
    let detail = "update load balancer \"a17c0\": 2 listeners, 1 targets → 2 listeners, 3 targets";
    assert_eq!(plan.steps[0].to_string(), detail);
}

#[tokio::test(start_paused = true)]
async fn a_delete_is_done_once_and_is_well_with_nothing_to_do() {
    let scene = Scene::new();
    scene.provider.delete(scene.request(0)).await.unwrap();
    scene.ensure(1).await.unwrap();
    scene.cloud.inject(Fault::new(FaultKind::LostAnswer).on("DELETE /v1/load-balancers/{id}").times(1));
    scene.provider.delete(scene.request(0)).await.unwrap();
    assert!(scene.cloud.load_balancers().is_empty());
    scene.provider.delete(scene.request(0)).await.unwrap();
    assert!(scene.provider.update_targets(scene.request(1)).await.unwrap_err().is_not_found());
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_doubles_nothing() {
    let scene = Scene::new();
    scene.cloud.inject(Fault::new(FaultKind::LostAnswer).on("POST /v1/load-balancers").times(1));
    scene.ensure(1).await.unwrap_err();
    scene.ensure(1).await.unwrap().unwrap();
    assert_eq!(scene.cloud.load_balancers().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn somebody_elses_load_balancer_is_refused_and_left_alone() {
    let scene = Scene::new();
    let marks: [&[(&str, &str)]; 3] = [
        &[],
        &[("ccm-rs/cluster", "another"), ("ccm-rs/service", "17-c0")],
        &[("ccm-rs/cluster", "5c1d"), ("ccm-rs/service", "another")],
    ];
    for marks in marks {
        let cloud = &scene.cloud;
        cloud.reset(Options::default());
        let labels = marks.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        cloud.add_load_balancer(LoadBalancerSpec { name: NAME.into(), labels, ..LoadBalancerSpec::default() });
        let before = cloud.load_balancers();
        let err = scene.ensure(0).await.unwrap_err();
        assert!(err.is_invalid() && err.to_string().contains("does not carry the marks"), "{err:?}");
        assert!(scene.provider.update_targets(scene.request(0)).await.unwrap_err().is_invalid());
        assert_eq!(scene.provider.get(scene.request(0)).await.unwrap(), None);
        scene.provider.delete(scene.request(0)).await.unwrap();
        assert_eq!(cloud.load_balancers(), before);
    }
}

#[tokio::test(start_paused = true)]
async fn an_operation_that_takes_long_is_looked_at_again_later() {
    let scene = Scene::new();
    scene.cloud.set_options(Options { operation_milliseconds: 60_000, ..Options::default() });
    let err = scene.ensure(1).await.unwrap_err();
    assert!(err.retry_after().is_some(), "{err:?}");
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    assert!(scene.ensure(1).await.unwrap().unwrap().ingress.is_some());
    assert_eq!(scene.cloud.load_balancers().len(), 1);
}
