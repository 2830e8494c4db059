//! Load balancers and listeners of others beside those of the program, and signs of ownership that are not enough.

use cloud_provider::{CloudProvider, LookupRequest, Node};
use serde_json::json;
use tencent_fake::Fault;

use crate::harness::{Harness, annotate, service, service_of};
use crate::load_balancers::{PROTOCOLS, TYPE};

/// Adds a listener without a name, as a user creates it in the console.
fn add_listener(harness: &Harness, port: u16) {
    let id = harness.only("balancer")["LoadBalancerId"].clone();
    harness.fake.lock().add(
        "listener",
        json!({"ListenerId": format!("lbl-mine{port}"), "_balancer": id, "Protocol": "TCP", "Port": port,
            "ListenerName": "", "Targets": [], "HealthCheck": {}}),
    );
}

fn ports(harness: &Harness) -> Vec<String> {
    harness.texts("listener", &["Port"])
}

#[tokio::test(start_paused = true)]
async fn listener_that_a_user_added_without_a_name_stays_and_is_reported() {
    let harness = Harness::new();
    let mut service = service(&[]);
    harness
        .ensure(&harness.started().await, &mut service)
        .await
        .unwrap();
    add_listener(&harness, 443);
    let provider = harness.started().await;
    annotate(
        &mut service,
        crate::load_balancers::LISTENER,
        r#"{"Scheduler": "LEAST_CONN"}"#,
    );
    harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!(ports(&harness), ["443", "80"]);
    let events = harness.events().join("\n");
    assert!(
        events.contains("ListenerOfUser") && events.contains("443/TCP"),
        "{events}"
    );
    harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!(
        (ports(&harness).len(), harness.events().len()),
        (2, 0),
        "one event for each listener"
    );
    harness
        .delete(&harness.started().await, &service)
        .await
        .unwrap();
    let events = harness.events().join("\n");
    assert!(
        events.contains("is deleted with") && events.contains("443/TCP"),
        "{events}"
    );
}

#[tokio::test(start_paused = true)]
async fn port_that_gets_the_listener_of_a_user_is_served_and_given_up_again() {
    let harness = Harness::new();
    let mut service = service(&[]);
    let provider = harness.started().await;
    harness.ensure(&provider, &mut service).await.unwrap();
    add_listener(&harness, 443);
    let provider = harness.started().await;
    let two = json!([{"name": "a", "port": 80, "nodePort": 30080}, {"name": "b", "port": 443, "nodePort": 30443}]);
    service.spec = service_of(&[], json!({"ports": two})).spec;
    harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!(
        harness.targets().len(),
        4,
        "listeners of the Go program have no name either"
    );
    service.spec = service_of(&[], json!({})).spec;
    harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!(ports(&harness), ["80"]);
}

#[tokio::test(start_paused = true)]
async fn load_balancer_that_serves_counts_when_a_twin_is_empty() {
    let harness = Harness::new();
    let mut service = service(&[]);
    let shown = harness
        .ensure(&harness.started().await, &mut service)
        .await
        .unwrap();
    let serving = harness.only("balancer");
    let mut twin = serving.clone();
    twin["LoadBalancerId"] = "lb-a0000000".into();
    twin["LoadBalancerVips"] = json!(["198.19.0.99"]);
    harness.fake.lock().add("balancer", twin);
    (service.status, service.metadata.annotations) = (None, None);
    harness.changes();
    let status = harness
        .ensure(&harness.started().await, &mut service)
        .await
        .unwrap();
    assert_eq!(status, shown);
    assert_eq!(
        (harness.changes(), harness.fake.lock().all("balancer").len()),
        (Vec::new(), 2)
    );
}

#[tokio::test(start_paused = true)]
async fn load_balancer_that_the_annotation_records_counts_when_both_are_empty() {
    let harness = Harness::new();
    let mut service = service(&[]);
    harness
        .ensure(&harness.started().await, &mut service)
        .await
        .unwrap();
    let mut twin = harness.only("balancer");
    twin["LoadBalancerId"] = "lb-a0000000".into();
    twin["LoadBalancerVips"] = json!(["198.19.0.99"]);
    harness.fake.lock().add("balancer", twin);
    harness.fake.lock().each("listener").clear();
    service.status = None;
    let recorded =
        service.metadata.annotations.clone().unwrap()["service.kubernetes.io/loadbalance-id"]
            .clone();
    harness
        .ensure(&harness.started().await, &mut service)
        .await
        .unwrap();
    assert_eq!(harness.texts("listener", &["_balancer"]), [recorded]);
}

#[tokio::test(start_paused = true)]
async fn protected_load_balancer_keeps_its_listeners_and_its_security_group() {
    let harness = Harness::new();
    let ranges = json!({"loadBalancerSourceRanges": ["192.0.2.0/24"]});
    let mut service = service_of(&[], ranges);
    harness
        .ensure(&harness.started().await, &mut service)
        .await
        .unwrap();
    harness.fake.lock().each("balancer")[0]["AttributeFlags"] = json!(["DeleteProtect"]);
    harness.changes();
    let error = harness
        .delete(&harness.started().await, &service)
        .await
        .unwrap_err();
    assert!(error.is_protected(), "{error}");
    assert_eq!((harness.changes(), ports(&harness).len()), (Vec::new(), 1));
}

#[tokio::test(start_paused = true)]
async fn network_that_is_neither_public_nor_private_is_refused_before_any_request() {
    for value in ["internal", "PRIVATE", "true"] {
        let harness = Harness::new();
        let error = harness
            .ensure(&harness.started().await, &mut service(&[(TYPE, value)]))
            .await
            .unwrap_err();
        assert!(
            error.is_invalid() && error.to_string().contains(value),
            "{error}"
        );
        assert!(harness.changes().is_empty());
    }
}

async fn state_of(
    harness: &Harness,
    node: Node,
) -> cloud_provider::Result<cloud_provider::InstanceState> {
    let request = LookupRequest {
        existence: true,
        shutdown: false,
        metadata: cloud_provider::MetadataLevel::Full,
        fresh: true,
    };
    let provider = harness.started().await;
    provider
        .instances()
        .unwrap()
        .lookup(&[node.into()], request)
        .await
        .remove(0)
}

#[tokio::test(start_paused = true)]
async fn instance_of_another_region_is_no_proof_that_it_does_not_exist() {
    let harness = Harness::new();
    let with_id = |id: &str| Node {
        name: "other".into(),
        provider_id: id.into(),
        ..Node::default()
    };
    let other = state_of(
        &harness,
        with_id("tencentcloud:///eu-frankfurt-1/ins-abc12345"),
    )
    .await;
    let error = other.unwrap_err().to_string();
    assert!(error.contains("eu-frankfurt"), "{error}");
    for own in [
        "tencentcloud:///ap-guangzhou-3/ins-abc12345",
        "qcloud:///100003/ins-abc12345",
    ] {
        let found = state_of(&harness, with_id(own)).await.unwrap();
        assert!(
            matches!(found, cloud_provider::InstanceState::Gone(_)),
            "{own}: {found:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn node_is_found_by_the_host_name_of_its_instance() {
    let harness = Harness::new();
    harness.fake.lock().each("instance")[0]["HostName"] = "host-1".into();
    let node = Node {
        name: "host-1".into(),
        ..Node::default()
    };
    let found = state_of(&harness, node).await.unwrap();
    assert!(
        matches!(found, cloud_provider::InstanceState::Present { .. }),
        "{found:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn token_of_a_creation_that_failed_is_not_used_again() {
    let harness = Harness::new();
    harness.fake.lock().task = std::time::Duration::from_secs(2);
    let provider = harness.started().await;
    harness
        .fake
        .fault_injector()
        .fail(Fault::ends_in_error("POST /clb/CreateLoadBalancer", "sold out").times(1));
    let mut service = service(&[]);
    for _ in 0..3 {
        let _ = harness.ensure(&provider, &mut service).await;
    }
    let bodies = harness
        .fake
        .fault_injector()
        .bodies("POST /clb/CreateLoadBalancer");
    let tokens: std::collections::BTreeSet<_> = bodies
        .iter()
        .map(|body| body["ClientToken"].to_string())
        .collect();
    assert_eq!(
        (tokens.len(), harness.targets().len()),
        (2, 2),
        "{bodies:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn udp_port_with_the_policy_local_leads_to_nodes_with_pods() {
    let harness = Harness::new();
    harness.set_endpoints(&[("10.1.0.1", true, false, "worker-2")]);
    let provider = harness.started().await;
    let ports = json!([{"name": "t", "port": 80, "nodePort": 30080}, {"name": "u", "port": 53, "nodePort": 30053, "protocol": "UDP"}]);
    let local =
        json!({"externalTrafficPolicy": "Local", "healthCheckNodePort": 32000, "ports": ports});
    harness
        .ensure(&provider, &mut service_of(&[], local))
        .await
        .unwrap();
    let expected = [
        "53 ins-t0000002 30053 10",
        "80 ins-t0000001 30080 10",
        "80 ins-t0000002 30080 10",
    ];
    assert_eq!(
        harness.targets(),
        expected,
        "the health check of TCP finds Nodes without Pods, and that of UDP does not"
    );
}

#[tokio::test(start_paused = true)]
async fn port_whose_http_listener_is_not_supported_is_named_when_nodes_change() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut service = service(&[]);
    harness.ensure(&provider, &mut service).await.unwrap();
    annotate(
        &mut service,
        PROTOCOLS,
        r#"{"443": {"protocol": ["HTTPS"], "tls": "web-tls"}}"#,
    );
    let ports = json!([{"name": "a", "port": 80, "nodePort": 30080}, {"name": "b", "port": 443, "nodePort": 30443}]);
    service.spec = service_of(&[], json!({"ports": ports})).spec;
    harness.add_node("worker-3");
    harness.events();
    harness.update(&provider, &service).await.unwrap();
    assert_eq!(harness.targets().len(), 3, "{:?}", harness.targets());
    let events = harness.events().join("\n");
    assert!(
        events.contains("StaleTargets") && events.contains("port 443"),
        "{events}"
    );
}

#[tokio::test(start_paused = true)]
async fn setting_that_has_no_effect_is_reported() {
    let subnet = (
        "service.beta.kubernetes.io/tencentcloud-loadbalancer-type-internal-subnet-id",
        "subnet-1",
    );
    for (annotations, key) in [
        (
            vec![(
                "service.cloud.tencent.com/local-svc-weighted-balance",
                "true",
            )],
            "local-svc-weighted-balance",
        ),
        (
            vec![(
                "service.kubernetes.io/local-svc-only-bind-node-with-pod",
                "true",
            )],
            "local-svc-only-bind-node-with-pod",
        ),
        (
            vec![("service.cloud.tencent.com/enable-grace-shutdown", "true")],
            "enable-grace-shutdown",
        ),
        (vec![subnet], "internal-subnet-id"),
        (
            vec![
                (TYPE, "private"),
                subnet,
                (crate::load_balancers::BANDWIDTH, "10"),
            ],
            "qcloud-loadbalancer-internet-max-bandwidth-out",
        ),
    ] {
        let harness = Harness::new();
        harness
            .ensure(&harness.started().await, &mut service(&annotations))
            .await
            .unwrap();
        let events = harness.events().join("\n");
        assert!(
            events.contains("SettingIgnored") && events.contains(key),
            "{key}: {events}"
        );
    }
    for (timeout, is_reported) in [(7200, true), (10, true), (10_800, false), (600, false)] {
        let affinity = json!({"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": timeout}}});
        let harness = Harness::new();
        harness
            .ensure(&harness.started().await, &mut service_of(&[], affinity))
            .await
            .unwrap();
        assert_eq!(
            harness.events().join("\n").contains("timeoutSeconds"),
            is_reported,
            "{timeout}"
        );
    }
    let harness = Harness::new();
    harness
        .ensure(&harness.started().await, &mut service(&[]))
        .await
        .unwrap();
    assert_eq!(harness.events(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn target_that_the_cloud_refuses_keeps_no_other_one_out() {
    for is_new in [true, false] {
        let harness = Harness::new();
        let mut service = service(&[]);
        if !is_new {
            harness
                .ensure(&harness.started().await, &mut service)
                .await
                .unwrap();
        }
        harness.add_node("worker-3");
        harness.fake.lock().each("instance")[2]["VirtualPrivateCloud"]["VpcId"] =
            "vpc-other".into();
        let provider = harness.started().await;
        harness.ensure(&provider, &mut service).await.unwrap();
        assert_eq!(harness.targets().len(), 2, "{is_new}");
        let events = harness.events().join("\n");
        assert!(
            events.contains("TargetRefused") && events.contains("is not in the VPC"),
            "{events}"
        );
        harness.ensure(&provider, &mut service).await.unwrap();
        assert_eq!(harness.events(), [""; 0], "once");
    }
}
