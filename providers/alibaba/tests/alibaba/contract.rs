//! The provider and the fake, with a validating proxy between them that knows the vendor's API description and checks
//! every signature.
//!
//! `CCM_TEST_ALIBABA_PROXY=http://127.0.0.1:4095 CCM_TEST_ALIBABA_UPSTREAM=127.0.0.1:4094`: the proxy, and the address
//! that it forwards to. The proxy refuses requests that violate the description, and turns responses that do into 500;
//! it counts both.

use std::sync::Arc;

use alibaba_fake::{Port, router};
use cloud_provider::{Caches, CloudProvider, Instances, LookupRequest, MetadataLevel, Route};
use provider_kit::transport::{Call, Transport};
use serde_json::{Value, json};

use crate::backends::{add_interface, of_pods, set_pods, set_pods_of_both_families};
use crate::harness::{Harness, annotate, cluster, network, service, service_of};

async fn classic(harness: &Harness, provider: &provider_alibaba::Alibaba) {
    let ports = json!({"ports": [{"name": "a", "port": 80, "nodePort": 30080}, {"name": "b", "port": 443, "nodePort": 30443},
        {"name": "c", "port": 53, "nodePort": 30053, "protocol": "UDP"}]});
    let layer_7 = [
        ("protocol-port", "http:80,https:443"),
        ("cert-id", "cert-1"),
        ("domain-extensions", "a.example.com:cert-2"),
        ("forward-port", "80:443"),
        ("sticky-session", "on"),
        ("sticky-session-type", "insert"),
        ("cookie-timeout", "100"),
        ("health-check-flag", "on"),
        ("health-check-uri", "/up"),
        ("health-check-method", "get"),
        ("health-check-timeout", "3"),
        ("xforwardedfor-proto", "on"),
        ("tls-cipher-policy", "tls_cipher_policy_1_2"),
        ("http2-enabled", "on"),
        ("request-timeout", "30"),
    ];
    let layer_4 = [
        ("address-type", "intranet"),
        ("acl-status", "on"),
        ("acl-id", "acl-1"),
        ("acl-type", "white"),
        ("connection-drain", "on"),
        ("connection-drain-timeout", "30"),
        ("health-check-type", "tcp"),
        ("health-check-connect-timeout", "4"),
        ("established-timeout", "600"),
        ("persistence-timeout", "10"),
        ("proxy-protocol", "on"),
        ("scheduler", "wrr"),
        ("healthy-threshold", "3"),
        ("health-check-interval", "5"),
    ];
    for mut service in [
        service(&[]),
        service_of(&layer_7, ports.clone()),
        service_of(&layer_4, ports),
    ] {
        harness.ensure(provider, &mut service).await.unwrap();
        for (key, value) in [
            ("instance-charge-type", "PayBySpec"),
            ("spec", "slb.s1.small"),
            ("charge-type", "paybybandwidth"),
            ("bandwidth", "10"),
            ("name", "renamed"),
            ("additional-resource-tags", "team=web"),
            ("modification-protection", "NonProtection"),
            ("unhealthy-threshold", "4"),
            ("health-check-interval", "6"),
            ("default-weight", "40"),
            (
                "domain-extensions",
                "a.example.com:cert-3,b.example.com:cert-2",
            ),
            ("cert-id", "cert-2"),
        ] {
            annotate(&mut service, key, value);
        }
        harness.ensure(provider, &mut service).await.unwrap();
        annotate(&mut service, "additional-resource-tags", "");
        annotate(&mut service, "domain-extensions", "");
        harness.ensure(provider, &mut service).await.unwrap();
        harness.delete(provider, &service).await.unwrap();
        assert!(harness.fake.lock().all("classic").is_empty());
    }
}

/// Creates, changes and deletes so many Services with NLBs: each change waits for a job.
async fn networks(harness: &Harness, provider: &provider_alibaba::Alibaba, count: usize) {
    let tls = [
        ("protocol-port", "tcpssl:80"),
        ("cert-id", "cert-1"),
        ("additional-cert-ids", "cert-2"),
        ("tls-cipher-policy", "tls_cipher_policy_1_2"),
        ("alpn", "on"),
        ("alpn-policy", "HTTP2Optional"),
        ("cacert", "on"),
        ("cacert-id", "ca-1"),
    ];
    let services = [
        network(&tls),
        network(&[("server-group-type", "Ip"), ("ip-version", "ipv4")]),
    ];
    for mut service in services.into_iter().take(count) {
        harness.ensure(provider, &mut service).await.unwrap();
        for (key, value) in [
            ("address-type", "intranet"),
            ("security-group-ids", "sg-1"),
            ("bandwidth-package-id", "cbwp-1"),
            ("cross-zone-enabled", "off"),
            ("zone-maps", "cn-hangzhou-b:vsw-b"),
            ("name", "renamed"),
            ("additional-resource-tags", "team=web"),
            ("idle-timeout", "60"),
            ("cps", "100"),
            ("additional-cert-ids", "cert-3"),
            ("proxy-protocol", "on"),
            ("ppv2-pvl-vpc-id-enabled", "on"),
            ("scheduler", "sch"),
            ("connection-drain", "on"),
            ("connection-drain-timeout", "20"),
            ("preserve-client-ip", "off"),
            ("health-check-flag", "on"),
            ("health-check-type", "tcp"),
            ("health-check-interval", "10"),
            ("default-weight", "40"),
        ] {
            annotate(&mut service, key, value);
        }
        harness.ensure(provider, &mut service).await.unwrap();
        annotate(&mut service, "security-group-ids", "");
        annotate(&mut service, "bandwidth-package-id", "");
        harness.ensure(provider, &mut service).await.unwrap();
        harness.delete(provider, &service).await.unwrap();
        assert!(
            harness.fake.lock().all("network").is_empty()
                && harness.fake.lock().all("group").is_empty()
        );
    }
}

/// Creates and deletes an NLB for a range of ports of Pods.
async fn range_of_ports(harness: &Harness, provider: &provider_alibaba::Alibaba) {
    set_pods(harness, &[("10.1.0.1", "worker-1")]);
    add_interface(harness, "10.1.0.1");
    let mut service = of_pods(true);
    annotate(&mut service, "listener-port-range", "1000-2000:80");
    harness.ensure(provider, &mut service).await.unwrap();
    harness.delete(provider, &service).await.unwrap();
    harness
        .fake
        .lock()
        .each("interface")
        .retain(|interface| interface["NetworkInterfaceId"] != "eni-10.1.0.1");
}

/// Creates and deletes an NLB with Pods of both IP families.
async fn dual_stack(harness: &Harness, provider: &provider_alibaba::Alibaba) {
    set_pods_of_both_families(harness);
    let mut service = of_pods(true);
    for (key, value) in [
        ("ip-version", "DualStack"),
        ("backend-ip-version", "ipv6"),
        ("backend-ip-version", "dualstack"),
    ] {
        annotate(&mut service, key, value);
        harness.ensure(provider, &mut service).await.unwrap();
    }
    harness.delete(provider, &service).await.unwrap();
    harness
        .fake
        .lock()
        .each("interface")
        .retain(|interface| interface["InstanceId"].is_string());
}

async fn nodes_and_routes(harness: &Harness, provider: &provider_alibaba::Alibaba) {
    let request = LookupRequest {
        existence: true,
        shutdown: true,
        metadata: MetadataLevel::Full,
        fresh: true,
    };
    let instances: &dyn Instances = provider.instances().unwrap();
    let found = instances.lookup(&harness.cluster.nodes(), request).await;
    assert!(found.iter().all(Result::is_ok), "{found:?}");
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
async fn every_request_answer_and_signature_fits_the_description() {
    let variable = |name: &str| {
        std::env::var(format!("CCM_TEST_ALIBABA_{name}")).expect("the variables of this test")
    };
    let proxy = variable("PROXY");
    let upstream = variable("UPSTREAM");
    let token = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(token.path(), "token").unwrap();
    let check = Transport::builder(&*proxy).build().unwrap();
    let endpoints = [
        "ECS_ENDPOINT",
        "SLB_ENDPOINT",
        "NLB_ENDPOINT",
        "VPC_ENDPOINT",
        "STS_ENDPOINT",
    ];
    let harness = endpoints
        .iter()
        .fold(Harness::new().at_once(), |harness, name| {
            harness.set(name, &proxy)
        });
    let mut harness = harness
        .with("routeTableIDs", "")
        .with("featureGates", "IPv6DualStack=true");
    harness.fake.lock().limit = (1_000_000, 1);
    let _served = Port::open(&upstream)
        .await
        .unwrap()
        .serve(router(&harness.fake));
    for signature in ["3", "1"] {
        harness = harness.set("ALIBABA_CLOUD_SIGNATURE_VERSION", signature);
        let provider = Arc::new(harness.started_with(|builder| builder).await.unwrap());
        classic(&harness, &provider).await;
        networks(&harness, &provider, if signature == "3" { 2 } else { 1 }).await;
        range_of_ports(&harness, &provider).await;
        dual_stack(&harness, &provider).await;
        nodes_and_routes(&harness, &provider).await;
        let findings = provider.diagnose().await;
        assert!(
            findings
                .iter()
                .all(|finding| finding.severity == cloud_provider::Severity::Ok),
            "{findings:?}"
        );
    }
    let seen: Value = check.read(Call::get("/__contract", &[])).await.unwrap();
    println!("{:#}", seen["operations"]);
    assert_eq!(seen["violations"], json!([]), "{:#}", seen["violations"]);
    assert!(seen["requests"].as_u64() > Some(200), "{seen:#}");
}
