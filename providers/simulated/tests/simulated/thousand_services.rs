//! Cost of a thousand Services in requests (INV-8).

use std::time::Duration;

use cloud_provider::{LoadBalancerRequest, LoadBalancers};
use futures::StreamExt;
use provider_simulated::cloud::{Fault, Options};
use serde_json::json;
use tokio::time::Instant;

use super::load_balancers::service;
use super::*;

const SERVICES: usize = 1000;
/// Value of the flag `--concurrent-service-syncs`.
const WORKERS: usize = 16;

struct Scene {
    cloud: Cloud,
    provider: Simulated,
    nodes: Vec<Arc<Node>>,
    services: Vec<Service>,
    cluster: Cluster,
}

#[derive(Clone, Copy)]
enum Ask {
    Ensure,
    UpdateTargets,
    /// Read and then delete, as the controller does.
    Delete,
}

impl Scene {
    fn new(services: usize, options: Options) -> Self {
        let cloud = Cloud::new(options);
        let nodes = nodes(&cloud.create_machines("w-", 20));
        // Every request takes a moment, so that a thousand of them take longer than what is known stays young.
        cloud.inject(Fault::latency(20));
        let services = (0..services)
            .map(|n| service(&format!("{n:04}"), &json!({})))
            .collect();
        Self {
            provider: provider(&cloud),
            cloud,
            nodes,
            services,
            cluster: cluster(),
        }
    }

    async fn all(&self, ask: Ask, nodes: usize) {
        let balancers: &dyn LoadBalancers = self.provider.load_balancers().unwrap();
        let one = async |service| {
            let nodes = &self.nodes[..nodes];
            let request = LoadBalancerRequest {
                cluster: &self.cluster,
                service,
                nodes,
                callbacks: &(),
            };
            match ask {
                Ask::Ensure => balancers.ensure(request).await.map(drop),
                Ask::UpdateTargets => balancers.update_targets(request).await,
                Ask::Delete => match balancers.get(request).await {
                    Ok(Some(_)) => balancers.delete(request).await,
                    other => other.map(drop),
                },
            }
            .unwrap();
        };
        futures::stream::iter(&self.services)
            .for_each_concurrent(WORKERS, one)
            .await;
    }

    /// Lists and reads by name; other reads; mutations.
    fn cost(&self) -> [u64; 3] {
        let mut cost = [0; 3];
        for (route, count) in self.cloud.requests() {
            let kind = match &*route {
                "GET /v1/load-balancers" => 0,
                route if route.starts_with("GET") => 1,
                _ => 2,
            };
            cost[kind] += count;
        }
        self.cloud.reset_requests();
        cost
    }
}

#[tokio::test(start_paused = true)]
async fn a_thousand_services_cost_one_list_and_one_change_each() {
    let mut scene = Scene::new(SERVICES, Options::default());
    scene.all(Ask::Ensure, 20).await;
    assert_eq!(scene.cost(), [1, 0, 1000], "created");

    scene.all(Ask::Ensure, 20).await;
    scene.all(Ask::UpdateTargets, 20).await;
    assert_eq!(scene.cost(), [0, 0, 0], "steady, or a flap");

    tokio::time::sleep(Duration::from_secs(3600)).await;
    scene.all(Ask::UpdateTargets, 19).await;
    let [reads, others, changes] = scene.cost();
    assert_eq!((others, changes), (0, 1000), "a Node left");
    assert!(
        reads <= 2 * 20,
        "{reads} reads: a list of 20 pages, and at most as many to find out that it is worth it"
    );

    scene.provider = provider(&scene.cloud);
    scene.all(Ask::Ensure, 19).await;
    assert_eq!(scene.cost(), [20, 0, 0], "restarted: one list of 20 pages");

    scene.all(Ask::Delete, 0).await;
    assert_eq!(
        scene.cost(),
        [1000, 0, 1000],
        "each is read by name right before it is deleted"
    );
    assert!(scene.cloud.load_balancers().is_empty());
}

#[tokio::test(start_paused = true)]
async fn those_that_wait_for_the_cloud_are_looked_at_together() {
    let scene = Scene::new(
        160,
        Options {
            operation_milliseconds: 3000,
            ..Options::default()
        },
    );
    let began = Instant::now();
    scene.all(Ask::Ensure, 20).await;
    let [reads, others, changes] = scene.cost();
    let took = began.elapsed();
    println!("160 load balancers, 16 at a time, 3 s each: {took:?}, {reads} reads");
    assert_eq!((others, changes), (0, 160));
    assert!(
        reads < 160,
        "{reads} reads: fewer than one for each, although each is looked at several times"
    );
    assert!(took < Duration::from_secs(45), "{took:?}");
    assert!(
        scene
            .cloud
            .load_balancers()
            .iter()
            .all(|load_balancer| load_balancer.ip.is_some())
    );
}

#[tokio::test(start_paused = true)]
async fn one_service_changed_now_and_then_costs_one_read_and_one_change() {
    let scene = Scene::new(SERVICES, Options::default());
    scene.all(Ask::Ensure, 20).await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let scene = Scene {
        services: scene.services[..1].to_vec(),
        ..scene
    };
    for nodes in 1..5 {
        scene.cost();
        scene.all(Ask::Ensure, nodes).await;
        let [reads, others, changes] = scene.cost();
        assert_eq!((reads + others, changes), (1, 1));
        tokio::time::sleep(Duration::from_secs(600)).await;
    }
}
