//! The provider and its fake, with a proxy between them that knows the published description of the API.
//!
//! * `CCM_TEST_GCP_PROXY`: the URL of the proxy; without it the test is ignored.
//! * `CCM_TEST_GCP_UPSTREAM`: the address that the proxy forwards to; the fake listens there.

use cloud_provider::{CloudProvider, LookupRequest, MetadataLevel, Node, Route, Severity};
use gcp_fake::Port;
use provider_gcp::Gce;
use provider_kit::transport::{Call, Tls, Transport, network};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

use crate::harness::{Harness, cluster, ports, service};

const INTERNAL: (&str, &str) = ("networking.gke.io/load-balancer-type", "Internal");

async fn load_balancers(harness: &Harness, provider: &Gce) {
    for kind in [&[][..], &[INTERNAL]] {
        let mut web = service(kind, json!({"ports": ports(&[80])}));
        // Only the first changes are waited for: each poll is a second after the one before.
        harness.fake.lock().delay = Duration::from_millis(50);
        harness.ensure(provider, &mut web).await.unwrap();
        harness.fake.lock().delay = Duration::ZERO;
        let sticky = json!({"ports": ports(&[80, 443]), "sessionAffinity": "ClientIP"});
        let local = json!({"externalTrafficPolicy": "Local", "healthCheckNodePort": 30012, "loadBalancerSourceRanges": ["10.0.0.0/8"]});
        for more in [sticky, local, json!({"ports": ports(&[1, 2, 3, 4, 5, 6])})] {
            let mut changed = service(kind, more);
            changed.status.clone_from(&web.status);
            harness.ensure(provider, &mut changed).await.unwrap();
            web = changed;
        }
        // A load balancer of the Go program has no owner tags, and a health check that somebody changed is repaired.
        for (path, object) in &mut harness.fake.lock().objects {
            if path.contains("/forwardingRules/") {
                object["description"] = r#"{"kubernetes.io/service-name":"default/web"}"#.into();
            }
            if path.to_lowercase().contains("healthchecks/") {
                object["unhealthyThreshold"] = 1.into();
            }
        }
        harness.ensure(provider, &mut web).await.unwrap();
        harness.add_node("worker-9", "us-central1-b");
        harness.update(provider, &web).await.unwrap();
        harness.objects.nodes.lock().pop();
        harness.update(provider, &web).await.unwrap();
        harness.delete(provider, &web).await.unwrap();
        harness.fake.lock().remove_instance("worker-9");
    }
}

/// Ports of both protocols, external and internal, and an external address of each family.
async fn families(harness: &Harness, provider: &Gce) {
    let port = |name: &str, protocol: &str, node: u16| json!({"name": name, "port": 53, "nodePort": node, "protocol": protocol});
    let both = json!([port("t", "TCP", 30053), port("u", "UDP", 30054)]);
    let dual = json!({"ports": both, "ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv4", "IPv6"]});
    for (kind, more) in [(&[][..], dual), (&[INTERNAL], json!({ "ports": both }))] {
        let mut dns = service(kind, more.clone());
        harness.ensure(provider, &mut dns).await.unwrap();
        let mut changed = service(kind, more);
        changed.spec.as_mut().unwrap().ports = serde_json::from_value(ports(&[80])).unwrap();
        changed.status.clone_from(&dns.status);
        harness.ensure(provider, &mut changed).await.unwrap();
        harness.delete(provider, &changed).await.unwrap();
    }
}

async fn nodes_and_routes(provider: &Gce) {
    let request = LookupRequest {
        existence: true,
        shutdown: true,
        metadata: MetadataLevel::Full,
        fresh: true,
    };
    let node = |name: &str, id: &str| {
        Arc::new(Node {
            name: name.into(),
            provider_id: id.into(),
            ..Node::default()
        })
    };
    let nodes = [
        node("worker-1", ""),
        node("worker-1", "gce://demo/us-central1-a/worker-1"),
        node("x", "gce://demo/us-central1-a/gone"),
    ];
    provider.instances().unwrap().lookup(&nodes, request).await;
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

#[tokio::test]
#[ignore = "needs a validating proxy"]
async fn every_request_and_answer_fits_the_description() {
    let variable = |name: &str| {
        std::env::var(format!("CCM_TEST_GCP_{name}")).expect("the variables of this test")
    };
    let proxy = variable("PROXY");
    let upstream = variable("UPSTREAM");
    let harness = crate::families::dual_stack("EXTERNAL")
        .set("api-endpoint", &format!("{proxy}/compute/v1/"))
        .set("GCE_METADATA_HOST", &upstream);
    harness.fake.lock().page = 2;
    let _served = Port::open(&upstream)
        .await
        .unwrap()
        .serve(harness.fake.router());
    let check = Transport::builder(proxy.clone()).build().unwrap();
    let provider = harness
        .started_with(network(&Tls::default(), &proxy).unwrap())
        .await;
    load_balancers(&harness, &provider).await;
    families(&harness, &provider).await;
    nodes_and_routes(&provider).await;
    assert!(
        provider
            .diagnose()
            .await
            .iter()
            .all(|finding| finding.severity == Severity::Ok)
    );
    let seen: Value = check.read(Call::get("/__check", &[])).await.unwrap();
    println!("{:#}", seen["operations"]);
    assert_eq!(
        (&seen["refused"], &seen["wrong_answers"]),
        (&json!(0), &json!(0)),
        "{:#}",
        seen["violations"]
    );
    assert!(seen["passed"].as_u64() > Some(200), "{seen:#}");
}
