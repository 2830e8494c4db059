//! Load balancers with ports of two protocols, and with IPv6 addresses.

use cloud_provider::{LoadBalancerStatus, Service};
use gcp_fake::{Fault, PROJECT, REGION};
use serde_json::{Value, json};

use crate::harness::{CLUSTER_ID, Harness, LB, ports, service};

const INTERNAL: (&str, &str) = ("networking.gke.io/load-balancer-type", "Internal");

fn kinds() -> [&'static [(&'static str, &'static str)]; 2] {
    [&[], &[INTERNAL]]
}

/// DNS: the same port of both protocols.
fn dns() -> Value {
    let port = |name: &str, protocol: &str, node: u16| json!({"name": name, "port": 53, "nodePort": node, "protocol": protocol});
    json!([port("t", "TCP", 30053), port("u", "UDP", 30054)])
}

fn dual() -> Value {
    json!({"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv4", "IPv6"]})
}

/// A project whose subnetwork has IPv6 addresses of this type.
pub(crate) fn dual_stack(access: &str) -> Harness {
    let harness = Harness::new().set("stack-type", "IPV4_IPV6");
    let path = format!("{PROJECT}/regions/{REGION}/subnetworks/default");
    harness.fake.lock().objects.get_mut(&path).unwrap()["ipv6AccessType"] = access.into();
    harness
}

fn access(kind: &[(&str, &str)]) -> &'static str {
    if kind.is_empty() {
        "EXTERNAL"
    } else {
        "INTERNAL"
    }
}

fn addresses(status: &LoadBalancerStatus) -> Vec<String> {
    status
        .ingress
        .iter()
        .flatten()
        .filter_map(|ingress| ingress.ip.clone())
        .collect()
}

fn changed(kind: &[(&str, &str)], before: &Service, more: Value) -> Service {
    Service {
        status: before.status.clone(),
        ..service(kind, more)
    }
}

#[tokio::test(start_paused = true)]
async fn tcp_and_udp_ports_share_one_rule_and_one_address() {
    for kind in kinds() {
        let harness = Harness::new();
        let mut web = service(kind, json!({"ports": dns()}));
        let provider = harness.started().await;
        let status = harness.ensure(&provider, &mut web).await.unwrap();
        let rule = harness.object(&format!("forwardingRules/{LB}"));
        let pool = harness.object(&format!("backendServices/{LB}"));
        assert_eq!(
            (&rule["IPProtocol"], &rule["allPorts"]),
            (&json!("L3_DEFAULT"), &json!(true))
        );
        assert_eq!(
            (&pool["protocol"], &pool["loadBalancingScheme"]),
            (&json!("UNSPECIFIED"), &json!(access(kind)))
        );
        let allowed =
            json!([{"IPProtocol": "tcp", "ports": ["53"]}, {"IPProtocol": "udp", "ports": ["53"]}]);
        assert_eq!(
            harness.object(&format!("global/firewalls/k8s-fw-{LB}"))["allowed"],
            allowed
        );
        harness.fake.fault_injector().forget_requests();
        harness.ensure(&provider, &mut web).await.unwrap();
        assert_eq!(harness.changes(), [""; 0]);
        // With one protocol left, an external load balancer is the one of the Go program again.
        let mut single = changed(kind, &web, json!({"ports": ports(&[53])}));
        let after = harness.ensure(&provider, &mut single).await.unwrap();
        assert_eq!(
            harness.object(&format!("forwardingRules/{LB}"))["IPProtocol"],
            "TCP"
        );
        assert_eq!(
            harness.object(&format!("targetPools/{LB}")) != Value::Null,
            kind.is_empty()
        );
        assert_eq!(
            addresses(&after),
            addresses(&status),
            "{kind:?}: the address stays"
        );
        harness.delete(&provider, &single).await.unwrap();
        assert_eq!(harness.leftovers(), [""; 0], "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn mixed_external_service_becomes_internal_and_back() {
    let harness = Harness::new();
    let mut web = service(&[], json!({"ports": dns()}));
    let provider = harness.started().await;
    harness.ensure(&provider, &mut web).await.unwrap();
    // Kind and ports change together.
    for (kind, ports) in [
        (&[INTERNAL][..], ports(&[80])),
        (&[], ports(&[443])),
        (&[INTERNAL], dns()),
        (&[], dns()),
    ] {
        web = changed(kind, &web, json!({ "ports": ports }));
        let status = harness.ensure(&provider, &mut web).await.unwrap();
        assert_eq!(
            harness.object(&format!("forwardingRules/{LB}"))["loadBalancingScheme"],
            access(kind)
        );
        assert_eq!(addresses(&status)[0].starts_with("10."), !kind.is_empty());
        assert_eq!(harness.object(&format!("addresses/{LB}")), Value::Null);
    }
    harness.delete(&provider, &web).await.unwrap();
    assert_eq!(harness.leftovers(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn dual_stack_service_has_an_address_of_each_family() {
    for kind in kinds() {
        let harness = dual_stack(access(kind));
        let mut web = service(kind, dual());
        let provider = harness.started().await;
        let status = harness.ensure(&provider, &mut web).await.unwrap();
        let found = addresses(&status);
        assert!(
            found.len() == 2 && found[0].contains('.') && found[1].contains(':'),
            "{found:?}"
        );
        // The objects of the Go program stay as they are; those for IPv6 are added.
        assert_eq!(
            harness.object(&format!("targetPools/{LB}")) != Value::Null,
            kind.is_empty()
        );
        let rule = harness.object(&format!("forwardingRules/{LB}-ipv6"));
        assert_eq!(
            (&rule["ipVersion"], &rule["ports"]),
            (&json!("IPV6"), &json!(["80"]))
        );
        let firewall = harness.object(&format!("global/firewalls/k8s-fw-{LB}-ipv6"));
        assert_eq!(
            (&firewall["sourceRanges"], &firewall["destinationRanges"]),
            (&json!(["::/0"]), &json!([rule["IPAddress"]]))
        );
        let check = harness.object(&format!("global/firewalls/k8s-{CLUSTER_ID}-node-hc-ipv6"));
        assert_eq!(check["sourceRanges"].as_array().map(Vec::len), Some(2));
        harness.fake.fault_injector().forget_requests();
        harness.ensure(&provider, &mut web).await.unwrap();
        assert_eq!(harness.changes(), [""; 0]);
        let mut more = changed(kind, &web, dual());
        more.spec.as_mut().unwrap().ports = serde_json::from_value(ports(&[8080])).unwrap();
        let after = harness.ensure(&provider, &mut more).await.unwrap();
        assert_eq!(addresses(&after), found, "{kind:?}: the addresses stay");
        let mut single = changed(kind, &more, json!({"ipFamilies": ["IPv4"]}));
        let after = harness.ensure(&provider, &mut single).await.unwrap();
        assert_eq!(addresses(&after), found[..1]);
        assert!(
            !harness
                .leftovers()
                .iter()
                .any(|leftover| leftover.ends_with(&format!("{LB}-ipv6"))),
            "{:?}",
            harness.leftovers()
        );
        harness.delete(&provider, &single).await.unwrap();
        assert_eq!(harness.leftovers(), [""; 0], "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn ipv6_only_service_has_only_an_ipv6_address() {
    for kind in kinds() {
        let harness = dual_stack(access(kind));
        let mut web = service(kind, json!({"ipFamilies": ["IPv6"]}));
        let provider = harness.started().await;
        let found = addresses(&harness.ensure(&provider, &mut web).await.unwrap());
        assert!(found.len() == 1 && found[0].contains(':'), "{found:?}");
        harness.delete(&provider, &web).await.unwrap();
        assert_eq!(harness.leftovers(), [""; 0], "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn service_gets_ipv6_only_where_the_cluster_and_its_subnetwork_have_it() {
    let preferred = json!({"ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv4", "IPv6"]});
    let restricted = json!({"ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv4", "IPv6"], "loadBalancerSourceRanges": ["10.0.0.0/8"]});
    let rows = [
        (Harness::new(), preferred.clone(), Ok(1)),
        (Harness::new(), dual(), Ok(1)),
        (dual_stack("INTERNAL"), preferred.clone(), Ok(1)),
        (
            dual_stack("INTERNAL"),
            dual(),
            Err("has no external IPv6 addresses"),
        ),
        (dual_stack("EXTERNAL"), preferred, Ok(2)),
        (dual_stack("EXTERNAL"), restricted, Ok(1)),
    ];
    for (number, (harness, more, expected)) in rows.into_iter().enumerate() {
        let mut web = service(&[], more);
        let outcome = harness.ensure(&harness.started().await, &mut web).await;
        match expected {
            Ok(count) => assert_eq!(addresses(&outcome.unwrap()).len(), count, "row {number}"),
            Err(text) => assert!(
                outcome.unwrap_err().to_string().contains(text),
                "row {number}"
            ),
        }
    }
}

/// Interrupts a creation, a change of the kind or a deletion after each of its changes, and goes on with another run of the
/// program.
#[tokio::test(start_paused = true)]
async fn interrupted_change_of_both_families_is_completed_by_the_next_run() {
    for (kind, mode) in [
        (&[][..], "create"),
        (&[], "delete"),
        (&[], "change"),
        (&[INTERNAL], "create"),
        (&[INTERNAL], "delete"),
        (&[INTERNAL], "change"),
    ] {
        for spared in 0..40 {
            let (harness, more) = match mode {
                "change" => (Harness::new(), json!({"ports": dns()})),
                _ => (
                    dual_stack(access(kind)),
                    json!({"ports": dns(), "ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv4", "IPv6"]}),
                ),
            };
            let mut web = service(kind, more.clone());
            let provider = harness.started().await;
            if mode != "create" {
                harness.ensure(&provider, &mut web).await.unwrap();
            }
            if mode == "change" {
                web = changed(if kind.is_empty() { &[INTERNAL] } else { &[] }, &web, more);
            }
            for method in ["POST", "PATCH", "DELETE"] {
                harness
                    .fake
                    .fault_injector()
                    .fail(Fault::refused(method, 403).after(spared));
            }
            let is_over = match mode {
                "delete" => harness.delete(&provider, &web).await.is_ok(),
                _ => harness.ensure(&provider, &mut web).await.is_ok(),
            };
            harness.fake.fault_injector().clear_faults();
            let provider = harness.started().await;
            if mode != "delete" {
                let found = addresses(&harness.ensure(&provider, &mut web).await.unwrap());
                assert_eq!(
                    found.len(),
                    if mode == "create" { 2 } else { 1 },
                    "after {spared}"
                );
            }
            harness.delete(&provider, &web).await.unwrap();
            assert_eq!(
                harness.leftovers(),
                [""; 0],
                "{kind:?}: {mode} interrupted after {spared}"
            );
            if is_over {
                break;
            }
        }
    }
}
