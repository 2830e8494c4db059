//! The provider and the fake, with a validating proxy between them that knows the vendor's API description.
//!
//! `CCM_TEST_LINODE_PROXY=http://127.0.0.1:4041 CCM_TEST_LINODE_UPSTREAM=127.0.0.1:4040`: the proxy, and the address
//! that it forwards to. The proxy refuses requests that violate the description, and turns responses that do into 500;
//! it counts both.

use std::sync::Arc;

use cloud_provider::{Caches, CloudProvider, Instances, LookupRequest, MetadataLevel, Route};
use linode_fake::{ACCOUNT, Port};
use provider_kit::transport::{Call, Transport};
use serde_json::{Value, json};

use crate::harness::{Harness, annotate, cluster, service, service_of};
use crate::load_balancers::PEM;

async fn load_balancers(harness: &Harness, provider: &provider_linode::Linode) {
    let firewall = {
        let mut cloud = harness.fake.lock();
        let id = cloud.number();
        let rules = json!({"inbound_policy": "DROP", "outbound_policy": "ACCEPT", "inbound": [], "outbound": []});
        cloud
            .firewalls
            .push(json!({"id": id, "account": ACCOUNT, "label": "mine", "tags": [], "rules": rules, "devices": []}));
        id.to_string()
    };
    let tls = r#"{"protocol": "https", "tls-secret-name": "web-tls", "stickiness": "http_cookie", "algorithm": "source"}"#;
    let udp = json!({"ports": [{"name": "u", "port": 53, "nodePort": 30053, "protocol": "UDP"}]});
    let ranges = json!({"loadBalancerSourceRanges": ["192.0.2.0/24", "2001:db8::/32"]});
    for mut service in [
        service(&[]),
        service(&[
            ("port-443", tls),
            ("check-type", "http_body"),
            ("check-body", "ok"),
            ("check-path", "/up"),
            ("throttle", "5"),
        ]),
        service(&[
            ("default-proxy-protocol", "v2"),
            ("check-passive", "false"),
            ("nodebalancer-type", "premium"),
        ]),
        service_of(
            &[
                ("udp-check-port", "8080"),
                ("default-algorithm", "ring_hash"),
            ],
            udp,
        ),
        service_of(&[], ranges),
        service(&[("firewall-id", &firewall)]),
        service(&[
            ("reserved-ipv4", "203.0.113.99"),
            ("retain-reserved-ipv4", "false"),
        ]),
        service(&[
            ("frontend-subnet-id", "71"),
            ("frontend-ipv4-range", "172.16.0.0/28"),
            ("backend-ipv4-range", "10.0.9.0/30"),
        ]),
    ] {
        harness.ensure(provider, &mut service).await.unwrap();
        annotate(&mut service, "check-interval", "7");
        annotate(&mut service, "tags", "more");
        annotate(
            &mut service,
            "firewall-acl",
            r#"{"denyList": {"ipv4": ["198.51.100.0/24"]}}"#,
        );
        harness.ensure(provider, &mut service).await.unwrap();
        service
            .metadata
            .annotations
            .as_mut()
            .unwrap()
            .retain(|key, _| !key.ends_with("firewall-acl"));
        harness.ensure(provider, &mut service).await.unwrap();
        harness.delete(provider, &service).await.unwrap();
        assert!(harness.fake.lock().nodebalancers.is_empty());
    }
}

async fn nodes_and_routes(harness: &Harness, provider: &provider_linode::Linode) {
    let request = LookupRequest {
        existence: true,
        shutdown: true,
        metadata: MetadataLevel::Full,
        fresh: true,
    };
    let instances: &dyn Instances = provider.instances().unwrap();
    let nodes = harness.cluster.nodes();
    let found = instances.lookup(&nodes, request).await;
    assert!(found.iter().all(Result::is_ok), "{found:?}");
    for generation in ["legacy_config", "linode"] {
        harness
            .fake
            .lock()
            .linodes
            .iter_mut()
            .for_each(|linode| linode["interface_generation"] = generation.into());
        let routes = provider.routes().unwrap();
        let route = Route {
            target_node: "worker-1".into(),
            destination_cidr: "10.244.0.0/24".into(),
            ..Route::default()
        };
        routes.create(&cluster(), "", &route).await.unwrap();
        let listed = routes.list(&cluster()).await.unwrap();
        routes.delete(&cluster(), &listed[0]).await.unwrap();
    }
}

#[tokio::test]
#[ignore = "needs a validating proxy"]
async fn every_request_and_answer_fits_the_description() {
    let variable = |name: &str| {
        std::env::var(format!("CCM_TEST_LINODE_{name}")).expect("the variables of this test")
    };
    let proxy = variable("PROXY");
    let upstream = variable("UPSTREAM");
    let harness = Harness::new()
        .set("LINODE_URL", &proxy)
        .set("--vpc-names", "pods")
        .set("--enable-route-controller", "true")
        .set("--linode-tag-filter", "prod");
    harness.set_certificate(Some(PEM));
    harness.fake.lock().limits = [1_000_000, 1_000_000];
    let _served = Port::open(&upstream)
        .await
        .unwrap()
        .serve(harness.fake.router());
    let check = Transport::builder(proxy).build().unwrap();
    let provider = Arc::new(harness.started_with(|builder| builder).await);
    load_balancers(&harness, &provider).await;
    nodes_and_routes(&harness, &provider).await;
    assert!(
        provider
            .diagnose()
            .await
            .iter()
            .all(|finding| finding.severity == cloud_provider::Severity::Ok)
    );
    let seen: Value = check.read(Call::get("/__check", &[])).await.unwrap();
    println!("{:#}", seen["operations"]);
    assert_eq!(
        (&seen["refused"], &seen["wrong_answers"]),
        (&json!(0), &json!(0)),
        "{:#}",
        seen["violations"]
    );
    assert!(seen["passed"].as_u64() > Some(100), "{seen:#}");
}
