//! The provider and the fake, with a proxy between them that knows the vendor's own description of the API.
//!
//! * `CCM_TEST_OCI_PROXY`: the URL of the proxy; `CCM_TEST_OCI_UPSTREAM`: the address that it forwards to.
//! * `CCM_TEST_CONTRACT_KEYS`: the directory with the key that may sign, and its ID.

use cloud_provider::{Caches, CloudProvider, LookupRequest, MetadataLevel, Severity};
use oci_fake::{Fault, Port};
use provider_kit::transport::{Call, Tls, Transport, network};
use serde_json::{Value, json};

use crate::harness::{Harness, api_key, configuration, service};

const KIND: &str = "oci.oraclecloud.com/load-balancer-type";

#[tokio::test]
#[ignore = "needs a validating proxy"]
async fn every_request_and_answer_fits_the_description() {
    let variable =
        |name: &str| std::env::var(format!("CCM_TEST_{name}")).expect("the variables of this test");
    let proxy = variable("OCI_PROXY");
    let upstream = variable("OCI_UPSTREAM");
    let keys = variable("CONTRACT_KEYS");
    let read = |name: &str| {
        std::fs::read_to_string(format!("{keys}/{name}"))
            .unwrap()
            .trim()
            .to_owned()
    };
    let key = read("oci.pem");
    let id = read("oci.keyid");
    let [tenancy, user, fingerprint] = id.split('/').collect::<Vec<_>>()[..] else {
        panic!("{id}")
    };
    let auth = api_key(tenancy, &key)
        .replace(oci_fake::USER, user)
        .replace(oci_fake::FINGERPRINT, fingerprint);
    let harness = Harness::new();
    // The proxy checks the signatures.
    harness.fake.lock().keys = None;
    harness.fake.lock().work_time = std::time::Duration::from_millis(100);
    let _served = Port::open(&upstream)
        .await
        .unwrap()
        .serve(harness.fake.router());
    let check = Transport::builder(proxy.clone()).build().unwrap();
    let connector = network(&Tls::default(), &proxy).unwrap();
    harness.set_openshift_with_pod_ranges();
    let text = configuration(&auth, &proxy);
    let provider = harness
        .started_with(text, &[("ENABLE_FLEX_CIDR_CONTROLLER", "true")], &connector)
        .await;
    let backend = harness.fake.lock().add_group("nodes");
    harness.fake.lock().add_public_ip("192.0.2.7", "AVAILABLE");
    harness.set_certificate(&certificate("AAEC"));
    for (kind, steps) in [
        ("lb", load_balancers(&backend)),
        ("nlb", network_load_balancers(&backend)),
    ] {
        let mut before = service(&[], json!({}));
        for (annotations, spec) in steps {
            let annotations: Vec<_> = annotations
                .iter()
                .map(|(key, value)| (&**key, &**value))
                .chain([(KIND, kind)])
                .collect();
            let mut now = service(&annotations, spec);
            now.status.clone_from(&before.status);
            harness.ensure(&provider, &mut now).await.unwrap();
            harness.set_certificate(&certificate("AAED"));
            before = now;
        }
        let described = harness.describe(&provider, &before).await;
        assert!(described.contains("critical"), "{described}");
        if kind == "lb" {
            harness.fake.fault_injector().fail(Fault::ends_in_error(
                "PUT /loadBalancers/{id}/{part}/{name}",
                "odd",
            ));
        } else {
            harness.fake.fault_injector().fail(Fault::ends_in_error(
                "PUT /networkLoadBalancers/{id}/{part}/{name}",
                "odd",
            ));
        }
        harness.add_node(&format!("{kind}-worker"));
        let error = harness.ensure(&provider, &mut before).await.unwrap_err();
        assert!(error.to_string().contains("odd"), "{error}");
        harness.fake.fault_injector().clear_faults();
        harness.delete(&provider, &before).await.unwrap();
    }
    let mut reserved = service(&[], json!({"loadBalancerIP": "192.0.2.7"}));
    reserved.metadata.uid = Some("33333333-3f3e-4c57-a1b5-9f5f2a7d8c11".to_owned());
    harness.ensure(&provider, &mut reserved).await.unwrap();
    let id = harness.fake.lock().add_balancer("theirs");
    let mut adopted = service(
        &[("oci.oraclecloud.com/load-balancer-id", &id)],
        json!({"ports": [port(81, "TCP")]}),
    );
    adopted.metadata.uid = Some("44444444-3f3e-4c57-a1b5-9f5f2a7d8c11".to_owned());
    harness.ensure(&provider, &mut adopted).await.unwrap();
    harness.delete(&provider, &adopted).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(20)).await;
    assert!(
        harness
            .patches()
            .iter()
            .any(|(_, patch)| patch["spec"]["podCIDRs"].is_array()),
        "Pod ranges"
    );
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
    assert!(
        provider
            .diagnose()
            .await
            .iter()
            .all(|finding| finding.severity == Severity::Ok)
    );
    let seen: Value = check.read(Call::get("/__contract", &[])).await.unwrap();
    println!("{:#}", seen["operations"]);
    assert_eq!(seen["violations"], json!([]), "{seen:#}");
}

type Step = (Vec<(String, String)>, Value);

fn certificate(body: &str) -> String {
    format!("-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n")
}

fn step(prefix: &str, annotations: &[(&str, &str)], spec: Value) -> Step {
    let full = |key: &str| {
        if key.contains('/') {
            key.to_owned()
        } else {
            format!("{prefix}{key}")
        }
    };
    (
        annotations
            .iter()
            .map(|(key, value)| (full(key), (*value).to_owned()))
            .collect(),
        spec,
    )
}

fn port(number: u16, protocol: &str) -> Value {
    json!({"name": format!("{number}-{}", protocol.to_lowercase()), "port": number, "nodePort": 30000 + number, "protocol": protocol})
}

/// Returns what Services ask of a load balancer, one after the other.
fn load_balancers(backend: &str) -> Vec<Step> {
    let step = |annotations: &[(&str, &str)], spec| {
        step(
            "service.beta.kubernetes.io/oci-load-balancer-",
            annotations,
            spec,
        )
    };
    let tls = [
        ("ssl-ports", "443"),
        ("tls-secret", "web-tls"),
        ("tls-backendset-secret", "web-tls"),
    ];
    let ports = json!({"ports": [port(80, "TCP"), port(443, "TCP")]});
    let more = [
        ("backend-protocol", "HTTP"),
        ("connection-proxy-protocol-version", "2"),
        (
            "oci.oraclecloud.com/oci-load-balancer-listener-ssl-config",
            r#"{"CipherSuiteName":"oci-default-ssl-cipher-suite-v1","Protocols":["TLSv1.2"]}"#,
        ),
        (
            "oci.oraclecloud.com/oci-load-balancer-rule-sets",
            r#"{"headers": {"items": [{"action": "ADD_HTTP_REQUEST_HEADER", "header": "a", "value": "b"}]}}"#,
        ),
        (
            "oci.oraclecloud.com/initial-defined-tags-override",
            r#"{"cost": {"center": "7"}}"#,
        ),
    ];
    let groups = [
        ("oci.oraclecloud.com/security-rule-management-mode", "NSG"),
        (
            "oci.oraclecloud.com/oci-backend-network-security-group",
            backend,
        ),
    ];
    let shape = [
        ("shape", "flexible"),
        ("shape-flex-min", "20"),
        ("shape-flex-max", "400"),
    ];
    vec![
        step(&[], json!({})),
        step(
            &[],
            json!({"externalTrafficPolicy": "Local", "healthCheckNodePort": 30012}),
        ),
        step(&[tls.as_slice(), &more].concat(), ports.clone()),
        step(&[tls.as_slice(), &more].concat(), ports.clone()),
        step(&[tls.as_slice(), &groups, &shape].concat(), ports),
        step(
            &[("oci.oraclecloud.com/loadbalancer-policy", "IP_HASH")],
            json!({"loadBalancerSourceRanges": ["192.0.2.0/24"]}),
        ),
    ]
}

/// Returns what Services ask of a network load balancer, one after the other.
fn network_load_balancers(backend: &str) -> Vec<Step> {
    let step = |annotations: &[(&str, &str)], spec| {
        step(
            "oci-network-load-balancer.oraclecloud.com/",
            annotations,
            spec,
        )
    };
    let groups = [
        ("oci.oraclecloud.com/security-rule-management-mode", "NSG"),
        (
            "oci.oraclecloud.com/oci-backend-network-security-group",
            backend,
        ),
    ];
    let ports = json!([port(53, "TCP"), port(53, "UDP"), port(80, "TCP")]);
    let local =
        json!({"ports": ports, "externalTrafficPolicy": "Local", "healthCheckNodePort": 30012});
    let dual = json!({"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv4", "IPv6"]});
    vec![
        step(&[], json!({})),
        step(&groups, local),
        step(
            &[
                ("is-ppv2-enabled", "true"),
                ("backend-policy", "TWO_TUPLE"),
                ("security-list-management-mode", "All"),
            ],
            dual,
        ),
        step(&[], json!({})),
    ]
}
