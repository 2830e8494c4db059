//! The provider and the fake, with a validating proxy between them that knows the vendor's API description and checks
//! every signature.
//!
//! `CCM_TEST_TENCENT_PROXY=http://127.0.0.1:4091 CCM_TEST_TENCENT_UPSTREAM=127.0.0.1:4090`: the proxy, and the address
//! that it forwards to. The proxy refuses requests that violate the description, and turns answers that do into 500; it
//! counts both.

use cloud_provider::{
    AddressType, Caches, CloudProvider, LookupRequest, MetadataLevel, NodeAddress, Route, Severity,
};
use provider_kit::transport::{Call, Tls, Transport, network};
use provider_tencent::Tencent;
use serde_json::{Value, json};
use tencent_fake::{Port, TEMPORARY, router};

use crate::harness::{Harness, annotate, cluster, service, service_of};
use crate::load_balancers::{
    BANDWIDTH, EXISTING, EXTENSIVE, GROUPS, LISTENER, NAME, PROTOCOLS, SUBNET, TYPE,
};
use crate::profile::add_balancer;

async fn load_balancers(harness: &Harness, provider: &Tencent) {
    let existing = add_balancer(&mut harness.fake.lock(), "mine");
    harness.set_endpoints(&[
        ("10.1.0.1", true, false, "worker-1"),
        ("10.1.0.2", false, true, "worker-2"),
    ]);
    let secret = json!({"data": {"qcloud_cert_id": "Y2VydC0x"}}).to_string();
    harness
        .cluster
        .set_document("/api/v1/namespaces/default/secrets/web-tls", secret);
    let direct = [
        ("service.cloud.tencent.com/direct-access", "true"),
        ("service.cloud.tencent.com/enable-grace-shutdown", "true"),
    ];
    let ports = json!({"ports": [{"name": "a", "port": 80, "nodePort": 30080}, {"name": "b", "port": 443, "nodePort": 30443},
        {"name": "c", "port": 53, "nodePort": 30053, "protocol": "UDP"}]});
    let local = json!({"externalTrafficPolicy": "Local", "healthCheckNodePort": 32000, "sessionAffinity": "ClientIP"});
    let ranges = json!({"loadBalancerSourceRanges": ["192.0.2.0/24", "2001:db8::/32"]});
    for mut service in [
        service(&[]),
        service_of(
            &[
                (NAME, "web"),
                ("service.cloud.tencent.com/modification-protection", "true"),
            ],
            ports,
        ),
        service_of(&[(TYPE, "private"), (SUBNET, "subnet-1")], local),
        service_of(
            &[
                (BANDWIDTH, "20"),
                (
                    "service.kubernetes.io/qcloud-loadbalancer-internet-charge-type",
                    "TRAFFIC_POSTPAID_BY_HOUR",
                ),
            ],
            ranges,
        ),
        service(&[
            (
                EXTENSIVE,
                r#"{"SlaType": "clb.c2.medium", "Tags": [{"TagKey": "team", "TagValue": "shop"}]}"#,
            ),
            (LISTENER, r#"{"Scheduler": "LEAST_CONN"}"#),
        ]),
        service(&[(
            PROTOCOLS,
            r#"{"80": {"protocol": ["TCP_SSL", "UDP"], "tls": "web-tls"}}"#,
        )]),
        service(&direct),
        service(&[(EXISTING, &existing)]),
    ] {
        harness.ensure(provider, &mut service).await.unwrap();
        annotate(&mut service, BANDWIDTH, "30");
        let is_existing = service
            .metadata
            .annotations
            .iter()
            .flatten()
            .any(|(key, _)| key == EXISTING);
        if !is_existing {
            annotate(&mut service, GROUPS, "sg-mine1");
        }
        annotate(
            &mut service,
            LISTENER,
            r#"{"IdleConnectTimeout": 60, "HealthCheck": {"IntervalTime": 7}}"#,
        );
        harness.ensure(provider, &mut service).await.unwrap();
        harness.set_endpoints(&[
            ("10.1.0.1", false, true, "worker-1"),
            ("10.1.0.3", true, false, "worker-2"),
        ]);
        let ports = json!([{"port": 80, "nodePort": 31080}, {"port": 81, "nodePort": 30081}]);
        service.spec = service_of(
            &[],
            json!({"ports": ports, "loadBalancerSourceRanges": ["198.51.100.0/24"]}),
        )
        .spec;
        service
            .spec
            .as_mut()
            .unwrap()
            .ports
            .iter_mut()
            .flatten()
            .for_each(|port| port.name = Some(format!("p{}", port.port)));
        harness.ensure(provider, &mut service).await.unwrap();
        service.spec = service_of(&[], json!({})).spec;
        harness.ensure(provider, &mut service).await.unwrap();
        let request = cloud_provider::LoadBalancerRequest {
            cluster: &cluster(),
            service: &service,
            nodes: &harness.cluster.nodes(),
            callbacks: &(),
        };
        provider
            .load_balancers()
            .unwrap()
            .describe(request)
            .await
            .unwrap();
        harness.delete(provider, &service).await.unwrap();
        assert_eq!(harness.texts("balancer", &["LoadBalancerName"]), ["mine"]);
    }
}

async fn nodes_and_routes(harness: &Harness, provider: &Tencent) {
    let request = LookupRequest {
        existence: true,
        shutdown: true,
        metadata: MetadataLevel::Full,
        fresh: true,
    };
    let found = provider
        .instances()
        .unwrap()
        .lookup(&harness.cluster.nodes(), request)
        .await;
    assert!(found.iter().all(Result::is_ok), "{found:?}");
    let unknown: Vec<_> = ["10.0.0.1", "worker-2", "10.9.9.9"]
        .map(|name| {
            std::sync::Arc::new(cloud_provider::Node {
                name: name.into(),
                ..Default::default()
            })
        })
        .into();
    let found = provider
        .instances()
        .unwrap()
        .lookup(&unknown, request)
        .await;
    assert!(found.iter().all(Result::is_ok), "{found:?}");
    let routes = provider.routes().unwrap();
    for ip in ["10.0.0.1", "10.0.0.2"] {
        let addresses = vec![NodeAddress::new(AddressType::InternalIP, ip)];
        let node = if ip.ends_with('1') {
            "worker-1"
        } else {
            "worker-2"
        };
        let route = Route {
            target_node: node.into(),
            destination_cidr: "10.244.0.0/24".into(),
            target_node_addresses: addresses,
            ..Route::default()
        };
        routes.create(&cluster(), "", &route).await.unwrap();
    }
    let listed = routes.list(&cluster()).await.unwrap();
    routes.delete(&cluster(), &listed[0]).await.unwrap();
}

#[tokio::test]
#[ignore = "needs a validating proxy"]
async fn every_request_answer_and_signature_fits_the_description() {
    let variable = |name: &str| {
        std::env::var(format!("CCM_TEST_TENCENT_{name}")).expect("the variables of this test")
    };
    let proxy = variable("PROXY");
    let upstream = variable("UPSTREAM");
    let token = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(token.path(), "token").unwrap();
    let [id, key, session] = TEMPORARY;
    let fake = Harness::new().fake;
    let _served = Port::open(&upstream).await.unwrap().serve(router(&fake));
    for kind in ["key", "temporary", "oidc"] {
        let mut harness = Harness::new()
            .with("endpoint_domain", &*proxy)
            .with("cluster_route_table_cidr", "10.244.0.0/16");
        harness = harness.with("cluster_route_table", format!("of-{kind}"));
        if kind != "key" {
            harness = harness
                .with("secret_id", Value::Null)
                .with("secret_key", Value::Null);
        }
        if kind == "temporary" {
            harness = harness
                .set("TENCENTCLOUD_SECRET_ID", id)
                .set("TENCENTCLOUD_SECRET_KEY", key);
            harness = harness.set("TENCENTCLOUD_SESSION_TOKEN", session);
        }
        if kind == "oidc" {
            harness = harness
                .set("TKE_REGION", "ap-guangzhou")
                .set("TKE_PROVIDER_ID", "cls-1-oidc");
            harness = harness.set(
                "TKE_WEB_IDENTITY_TOKEN_FILE",
                token.path().to_str().unwrap(),
            );
            harness = harness.set("TKE_ROLE_ARN", "qcs::cam::uin/1:roleName/ccm");
        }
        *fake.lock() = std::mem::take(&mut *harness.fake.lock());
        harness.fake = fake.clone();
        let provider = harness
            .started_with(network(&Tls::default(), &proxy).unwrap())
            .await
            .unwrap();
        if kind == "key" {
            load_balancers(&harness, &provider).await;
        }
        nodes_and_routes(&harness, &provider).await;
        let findings = provider.diagnose().await;
        assert!(
            findings
                .iter()
                .all(|finding| finding.severity == Severity::Ok),
            "{findings:?}"
        );
    }
    let check = Transport::builder(&*proxy).build().unwrap();
    let seen: Value = check.read(Call::get("/__contract", &[])).await.unwrap();
    println!("{:#}", seen["operations"]);
    assert_eq!(seen["violations"], json!([]), "{:#}", seen["violations"]);
    assert!(seen["requests"].as_u64() > Some(200), "{seen:#}");
}
