//! Searches and checks that Services which are synced at the same time share.

use cloud_provider::{Caches, CloudProvider, LoadBalancerRequest, Service};
use futures::future::join_all;
use serde_json::json;

use crate::harness::{Harness, service};

/// Returns Services that differ in name and UID.
fn services_of(number: usize) -> Vec<Service> {
    let one = |at: usize| {
        let mut service = service(&[]);
        service.metadata.uid = Some(format!("{at:08}-3f3e-4c57-a1b5-9f5f2a7d8c11"));
        service.metadata.name = Some(format!("web-{at}"));
        service
    };
    (0..number).map(one).collect()
}

async fn ensure_all(harness: &Harness, provider: &provider_alibaba::Alibaba, services: &[Service]) {
    harness.cluster.set_services(services.to_vec());
    let nodes = harness.cluster.nodes();
    let cluster = crate::harness::cluster();
    join_all(services.iter().map(async |service| {
        let request = LoadBalancerRequest {
            cluster: &cluster,
            service,
            nodes: &nodes,
            callbacks: &(),
        };
        provider
            .load_balancers()
            .unwrap()
            .ensure(request)
            .await
            .unwrap();
    }))
    .await;
}

#[tokio::test(start_paused = true)]
async fn services_that_are_synced_at_the_same_time_share_searches_and_checks_of_the_account() {
    let harness = Harness::new().with("featureGates", "LoadBalancerTypeAnnotation=true");
    let provider = harness.started().await;
    ensure_all(&harness, &provider, &services_of(20)).await;
    assert_eq!(harness.fake.lock().all("classic").len(), 20);
    let count = |route: &str| harness.fake.fault_injector().count(route);
    assert_eq!(
        count("GET /nlb/ListLoadBalancers"),
        1,
        "the list at the start: new Services have no load balancer of the other kind"
    );
    let searches = count("GET /slb/DescribeLoadBalancers");
    let checks = count("GET /vpc/DescribeVpcs");
    assert!(searches <= 3, "{searches} searches for 20 Services");
    assert!(checks <= 21, "{checks} checks for 20 Services");
}

#[tokio::test(start_paused = true)]
async fn long_list_of_load_balancers_is_not_read_again_for_a_single_service() {
    let harness = Harness::new();
    for number in 0..700 {
        let object = json!({"LoadBalancerId": format!("lb-theirs-{number}"), "LoadBalancerName": "theirs", "Address": "198.19.0.1"});
        harness.fake.lock().add("classic", object);
    }
    let provider = harness.started().await;
    let mut services = services_of(2);
    let count = |route: &str| harness.fake.fault_injector().count(route);
    let requests =
        || count("GET /slb/DescribeLoadBalancers") + count("GET /slb/DescribeLoadBalancers/some");
    harness.ensure(&provider, &mut services[0]).await.unwrap();
    let first = requests();
    assert_eq!(
        first, 8,
        "the list of the cluster, and seven pages of that of the region"
    );
    harness.ensure(&provider, &mut services[1]).await.unwrap();
    assert_eq!(
        requests() - first,
        3,
        "by tag, by name, and by the tag of the share"
    );
}
