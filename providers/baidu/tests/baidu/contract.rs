//! The provider and the fake, with a validating proxy between them that knows the vendor's own description.
//!
//! `CCM_TEST_BAIDU_PROXY=http://127.0.0.1:4093 CCM_TEST_BAIDU_UPSTREAM=127.0.0.1:4092`: the proxy, and the address that it
//! forwards to. The proxy checks signatures, refuses requests that violate the description, and turns answers that do
//! into 500.

use std::sync::Arc;

use baidu_fake::{ACCOUNT, Port, TEMPORARY};
use cloud_provider::{Caches, CloudProvider, Route, Severity};
use provider_kit::transport::{Call, Transport};
use serde_json::{Value, json};

use crate::harness::{Harness, annotate, blb, cluster, eip, service, service_of};
use crate::nodes::EVERYTHING;

async fn load_balancers(harness: &Harness) {
    let (lent, fixed) = {
        let mut cloud = harness.fake.lock();
        (
            cloud.add_blb(ACCOUNT, "mine", "mine"),
            cloud.add_eip(ACCOUNT, "mine"),
        )
    };
    let dns = json!({"ports": [{"name": "u", "port": 53, "nodePort": 30053, "protocol": "UDP"}, {"name": "t", "port": 53, "nodePort": 30053}]});
    let prepaid = [
        (eip("payment-timing"), "Prepaid"),
        (eip("reservation-length"), "1"),
    ];
    for mut service in [
        service(&[]),
        service(&[
            (blb("internal-vpc"), "true"),
            (blb("scheduler"), "LeastConnection"),
        ]),
        service_of(
            &[
                (blb("health-check-string"), "ping"),
                (blb("subnet-id"), "sbn-1"),
            ],
            dns,
        ),
        service_of(
            &[],
            json!({"loadBalancerIP": fixed, "sessionAffinity": "ClientIP"}),
        ),
        service_of(&[], json!({"ipFamilies": ["IPv4", "IPv6"]})),
        service(&[(blb("exist-id"), &lent)]),
        service(&[(blb("reserve-lb"), "true"), (blb("lb-name"), "kept")]),
        service(&[
            (eip("billing-method"), "ByBandwidth"),
            (eip("bandwidth-in-mbps"), "5"),
        ]),
        service(&prepaid),
    ] {
        let provider = harness.started_with(|builder| builder).await;
        harness.ensure(&provider, &mut service).await.unwrap();
        annotate(&mut service, blb("health-check-interval"), "7");
        annotate(&mut service, eip("bandwidth-in-mbps"), "77");
        service
            .spec
            .as_mut()
            .unwrap()
            .ports
            .as_mut()
            .unwrap()
            .truncate(1);
        harness.add_node(&format!("worker-{}", harness.fake.lock().number()));
        harness.ensure(&provider, &mut service).await.unwrap();
        for blb in &mut harness.fake.lock().blbs {
            blb["backends"]
                .as_array_mut()
                .into_iter()
                .flatten()
                .for_each(|backend| backend["weight"] = 7.into());
        }
        let provider = harness.started_with(|builder| builder).await;
        harness.ensure(&provider, &mut service).await.unwrap();
        let gone = harness.instance("worker-2")["id"]
            .as_str()
            .unwrap()
            .to_owned();
        harness.cluster.remove_node("worker-2");
        harness.ensure(&provider, &mut service).await.unwrap();
        let node = cloud_provider::Node {
            name: "worker-2".into(),
            provider_id: format!("cce://{gone}").into(),
            ..Default::default()
        };
        harness.cluster.set_node(node);
        harness.delete(&provider, &service).await.unwrap();
        let is_left =
            |object: &Value| object["tags"] != json!([]) && object["paymentTiming"] != "Prepaid";
        let left: Vec<_> = harness.eips().into_iter().filter(is_left).collect();
        assert_eq!(left, [Value::Null; 0], "{:?}", service.metadata.annotations);
    }
}

async fn nodes_and_routes(harness: &Harness, provider: &provider_baidu::Baidu) {
    let found = provider
        .instances()
        .unwrap()
        .lookup(&harness.cluster.nodes(), EVERYTHING)
        .await;
    assert!(found.iter().all(Result::is_ok), "{found:?}");
    let routes = provider.routes().unwrap();
    for range in ["10.244.0.0/24", "fd00::/64"] {
        let route = Route {
            target_node: "worker-1".into(),
            destination_cidr: range.into(),
            ..Route::default()
        };
        routes.create(&cluster(), "", &route).await.unwrap();
    }
    for route in routes.list(&cluster()).await.unwrap() {
        routes.delete(&cluster(), &route).await.unwrap();
    }
}

#[tokio::test]
#[ignore = "needs a validating proxy"]
async fn every_request_and_answer_fits_the_description() {
    let variable = |name: &str| {
        std::env::var(format!("CCM_TEST_BAIDU_{name}")).expect("the variables of this test")
    };
    let proxy = variable("PROXY");
    let upstream = variable("UPSTREAM");
    let harness = Harness::new().set("BCE_ENDPOINT", proxy.clone());
    let _served = Port::open(&upstream)
        .await
        .unwrap()
        .serve(harness.fake.router());
    let provider = Arc::new(harness.started_with(|builder| builder).await);
    load_balancers(&harness).await;
    nodes_and_routes(&harness, &provider).await;
    assert!(
        provider
            .diagnose()
            .await
            .iter()
            .all(|finding| finding.severity == Severity::Ok)
    );
    let harness = harness
        .set("AccessKeyID", Value::Null)
        .set("SecretAccessKey", Value::Null)
        .set("BCE_ACCESS_KEY_ID", TEMPORARY[0])
        .set("BCE_SECRET_ACCESS_KEY", TEMPORARY[1])
        .set("BCE_SESSION_TOKEN", TEMPORARY[2]);
    let temporary = harness.started_with(|builder| builder).await;
    assert!(
        temporary
            .diagnose()
            .await
            .iter()
            .all(|finding| finding.severity == Severity::Ok)
    );
    let check = Transport::builder(proxy).build().unwrap();
    let seen: Value = check.read(Call::get("/__contract", &[])).await.unwrap();
    println!("{:#}", seen["operations"]);
    assert_eq!(seen["violations"], json!([]), "{seen:#}");
    assert!(seen["requests"].as_u64() > Some(100), "{seen:#}");
}
