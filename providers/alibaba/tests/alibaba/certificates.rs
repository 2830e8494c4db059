//! Further certificates of listeners: domain extensions of a CLB, and additional certificates of an NLB.

use alibaba_fake::Fault;
use serde_json::{Value, json};

use crate::harness::{Harness, annotate, network, service};

fn domains(harness: &Harness) -> Vec<String> {
    let text = |object: &Value, key: &str| object[key].as_str().unwrap().to_owned();
    let pair = |object: &Value| {
        format!(
            "{}:{}",
            text(object, "Domain"),
            text(object, "ServerCertificateId")
        )
    };
    harness.fake.lock().all("domain").iter().map(pair).collect()
}

#[tokio::test(start_paused = true)]
async fn domain_extensions_of_an_https_listener_follow_the_annotation() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let first = (
        "domain-extensions",
        "a.example.com:cert-a, *.example.org:cert-b",
    );
    let mut service = service(&[("protocol-port", "https:80"), ("cert-id", "cert-1"), first]);
    harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!(
        domains(&harness),
        ["*.example.org:cert-b", "a.example.com:cert-a"]
    );
    let created = harness.changes();
    assert_eq!(
        created.last().unwrap(),
        "StartLoadBalancerListener",
        "{created:?}"
    );
    harness
        .ensure(&harness.started().await, &mut service)
        .await
        .unwrap();
    assert_eq!(harness.changes(), [""; 0], "a restart changes nothing");
    for (value, expected) in [
        (
            "a.example.com:cert-c,*.example.org:cert-b",
            &["SetDomainExtensionAttribute"][..],
        ),
        (
            "a.example.com:cert-c,b.example.com:cert-b",
            &["CreateDomainExtension", "DeleteDomainExtension"],
        ),
        ("", &["DeleteDomainExtension", "DeleteDomainExtension"]),
    ] {
        annotate(&mut service, "domain-extensions", value);
        harness.ensure(&provider, &mut service).await.unwrap();
        assert_eq!(harness.changes(), expected, "{value}");
    }
    assert!(domains(&harness).is_empty());
}

#[tokio::test(start_paused = true)]
async fn malformed_domain_extensions_are_reported_before_any_request() {
    let harness = Harness::new();
    let provider = harness.started().await;
    for value in [
        "a.example.com",
        "a.example.com:",
        "a.example.com:c-1,a.example.com:c-2",
        "a:b:c",
    ] {
        let error = harness
            .ensure(&provider, &mut service(&[("domain-extensions", value)]))
            .await
            .unwrap_err();
        assert!(
            error.to_string().contains("domain-extensions")
                && error.to_string().contains("domain:certificate")
        );
    }
    assert!(harness.changes().is_empty());
}

#[tokio::test(start_paused = true)]
async fn additional_certificates_of_a_tcpssl_listener_are_sent_in_batches() {
    let harness = Harness::new().at_once();
    let provider = harness.started().await;
    let many: Vec<_> = (1..=17).map(|number| format!("cert-{number}")).collect();
    let first = ("additional-cert-ids", &*many.join(","));
    let mut service = network(&[("protocol-port", "tcpssl:80"), ("cert-id", "cert-0"), first]);
    harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!(
        harness.changes()[3..],
        ["CreateListener"]
            .iter()
            .chain(&[ASSOCIATE; 2])
            .copied()
            .collect::<Vec<_>>()
    );
    harness
        .ensure(&harness.started().await, &mut service)
        .await
        .unwrap();
    assert_eq!(harness.changes(), [""; 0], "a restart changes nothing");
    for (value, expected) in [
        ("cert-2,cert-1", &[DISASSOCIATE][..]),
        ("cert-1,cert-2", &[]),
        ("cert-1,cert-20", &[ASSOCIATE, DISASSOCIATE]),
        ("", &[DISASSOCIATE]),
    ] {
        annotate(&mut service, "additional-cert-ids", value);
        harness.ensure(&provider, &mut service).await.unwrap();
        assert_eq!(harness.changes(), expected, "{value}");
    }
}

const ASSOCIATE: &str = "AssociateAdditionalCertificatesWithListener";
const DISASSOCIATE: &str = "DisassociateAdditionalCertificatesWithListener";

#[tokio::test(start_paused = true)]
async fn service_without_the_annotation_needs_no_permission_to_read_certificates() {
    let harness = Harness::new().at_once();
    let provider = harness.started().await;
    harness
        .fake
        .fault_injector()
        .fail(Fault::code("GET /slb/DescribeDomainExtensions", "Forbidden.RAM").times(1000));
    harness
        .fake
        .fault_injector()
        .fail(Fault::code("GET /nlb/ListListenerCertificates", "Forbidden.RAM").times(1000));
    for (mut service, key) in [
        (
            service(&[("protocol-port", "https:80"), ("cert-id", "cert-1")]),
            "domain-extensions",
        ),
        (
            network(&[("protocol-port", "tcpssl:80"), ("cert-id", "cert-1")]),
            "additional-cert-ids",
        ),
    ] {
        harness.ensure(&provider, &mut service).await.unwrap();
        annotate(&mut service, "idle-timeout", "30");
        harness.ensure(&provider, &mut service).await.unwrap();
        annotate(&mut service, key, "a.example.com:cert-2");
        let error = harness.ensure(&provider, &mut service).await.unwrap_err();
        assert!(error.is_unauthorized(), "{error}");
        harness.delete(&provider, &service).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn certificate_that_has_expired_is_refused() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut service = service(&[("protocol-port", "https:80"), ("cert-id", "cert-1")]);
    harness.ensure(&provider, &mut service).await.unwrap();
    harness.fake.lock().add(
        "certificate",
        json!({"ServerCertificateId": "cert-old", "ExpireTimeStamp": 1}),
    );
    for (id, expected) in [("cert-old", "has expired"), ("cert-none", "does not exist")] {
        annotate(&mut service, "cert-id", id);
        let error = harness
            .ensure(&provider, &mut service)
            .await
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(expected) && error.contains("cert-id"),
            "{error}"
        );
        assert_eq!(
            harness.only("classic listener")["HTTPSListenerConfig"]["ServerCertificateId"],
            "cert-1"
        );
    }
}
