//! Tests with one bad Node, a refusal of the cloud or a leftover: everything else is served, and nothing is lost.

use std::sync::Arc;

use cloud_provider::{CloudProvider, LookupRequest, MetadataLevel, Node, Service};
use gcp_fake::{Fault, PROJECT, REGION, ZONE};
use serde_json::{Value, json};

use crate::harness::{CLUSTER_ID, Harness, LB, ports, service};

const INTERNAL: (&str, &str) = ("networking.gke.io/load-balancer-type", "Internal");
const RULES: &str = "POST /projects/{project}/regions/{region}/forwardingRules";
const DENY: [&str; 2] = [
    "--enable-l4-deny-firewall",
    "--enable-l4-deny-firewall-rollback-cleanup",
];

fn changed(kind: &[(&str, &str)], before: &Service, more: Value) -> Service {
    Service {
        status: before.status.clone(),
        ..service(kind, more)
    }
}

#[tokio::test(start_paused = true)]
async fn deny_firewall_cuts_no_traffic_when_its_flag_changes() {
    let mut harness = Harness::new().set(DENY[1], "true");
    let mut web = service(&[], json!({}));
    for (denies, priority) in [("false", 1000), ("true", 999), ("false", 1000)] {
        harness = harness.set(DENY[0], denies);
        harness
            .ensure(&harness.started().await, &mut web)
            .await
            .unwrap();
        assert_eq!(
            harness.object(&format!("global/firewalls/k8s-fw-{LB}"))["priority"],
            priority,
            "{denies}"
        );
        let denial = harness.object(&format!("global/firewalls/k8s-fw-{LB}-deny"));
        assert_eq!(denial != Value::Null, denies == "true");
        assert_eq!(harness.fake.lock().cuts, [].into(), "denies: {denies}");
    }
}

#[tokio::test(start_paused = true)]
async fn failed_first_half_of_a_deny_firewall_ends_the_sync() {
    let mut harness = Harness::new().set(DENY[1], "true");
    let mut web = service(&[], json!({}));
    harness
        .ensure(&harness.started().await, &mut web)
        .await
        .unwrap();
    for (denies, route) in [
        ("true", "PATCH /projects/{project}/global/firewalls/{name}"),
        (
            "false",
            "DELETE /projects/{project}/global/firewalls/{name}",
        ),
    ] {
        harness = harness.set(DENY[0], denies);
        let provider = harness.started().await;
        harness
            .fake
            .fault_injector()
            .fail(Fault::ends_in_error(route, "INTERNAL_ERROR").times(1));
        harness.ensure(&provider, &mut web).await.unwrap_err();
        assert_eq!(harness.fake.lock().cuts, [].into(), "{route}");
        harness.ensure(&provider, &mut web).await.unwrap();
        assert_eq!(harness.fake.lock().cuts, [].into(), "{route}");
    }
}

#[tokio::test(start_paused = true)]
async fn firewall_keeps_its_priority_while_a_deny_firewall_is_not_removed() {
    let harness = Harness::new().set(DENY[0], "true").set(DENY[1], "true");
    let mut web = service(&[], json!({}));
    harness
        .ensure(&harness.started().await, &mut web)
        .await
        .unwrap();
    let harness = harness.set(DENY[0], "false").set(DENY[1], "false");
    harness
        .ensure(&harness.started().await, &mut web)
        .await
        .unwrap();
    assert_eq!(
        harness.object(&format!("global/firewalls/k8s-fw-{LB}"))["priority"],
        999
    );
    assert_eq!(harness.fake.lock().cuts, [].into());
}

#[tokio::test(start_paused = true)]
async fn address_is_held_until_the_forwarding_rule_is_there_again() {
    for (kind, more) in [
        (&[][..], json!({"ports": ports(&[8080])})),
        (&[], json!({"sessionAffinity": "ClientIP"})),
        (&[INTERNAL], json!({"ports": ports(&[8080])})),
    ] {
        let harness = Harness::new();
        let mut web = service(kind, json!({}));
        let provider = harness.started().await;
        let before = harness.ensure(&provider, &mut web).await.unwrap();
        harness
            .fake
            .fault_injector()
            .fail(Fault::ends_in_error(RULES, "QUOTA_EXCEEDED").times(2));
        let mut web = changed(kind, &web, more);
        while let Err(refused) = harness.ensure(&provider, &mut web.clone()).await {
            assert!(refused.is_quota(), "{refused}");
        }
        let after = harness.ensure(&provider, &mut web).await.unwrap();
        assert_eq!(after, before, "{kind:?}");
        assert_eq!(
            harness.object(&format!("addresses/{LB}")),
            Value::Null,
            "{kind:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn orphan_address_does_not_block_the_replacement_of_a_forwarding_rule() {
    let harness = Harness::new();
    let mut web = service(&[], json!({}));
    let provider = harness.started().await;
    let before = harness.ensure(&provider, &mut web).await.unwrap();
    let orphan =
        json!({"address": "203.0.113.200", "addressType": "EXTERNAL", "networkTier": "PREMIUM"});
    harness.fake.lock().insert(
        &format!("{PROJECT}/regions/{REGION}/addresses/{LB}"),
        orphan,
    );
    let mut web = changed(&[], &web, json!({"ports": ports(&[8080])}));
    let after = harness.ensure(&provider, &mut web).await.unwrap();
    assert_eq!(
        (after, harness.object(&format!("addresses/{LB}"))),
        (before, Value::Null)
    );
}

/// Adds a Node that no instance is: with another provider ID.
fn add_bad_node(harness: &Harness, provider_id: &str) {
    let name = "bad".into();
    let uid = "uid-bad".into();
    let node = Node {
        name,
        uid,
        provider_id: provider_id.into(),
        ..Node::default()
    };
    harness.objects.nodes.lock().push(Arc::new(node));
}

#[tokio::test(start_paused = true)]
async fn node_that_cannot_be_a_target_is_left_out_of_a_new_load_balancer_with_one_event() {
    let elsewhere = format!("gce://elsewhere/{ZONE}/worker-1");
    let missing = format!("gce://{PROJECT}/{ZONE}/missing");
    for kind in [&[][..], &[INTERNAL]] {
        for (provider_id, is_reported) in
            [(&*missing, true), (&*elsewhere, true), ("aws:///i-1", true)]
        {
            let harness = Harness::new().without("node-tags");
            let mut web = service(kind, json!({}));
            for name in ["worker-1", "worker-2"] {
                harness.fake.lock().change_instance(name, |instance| {
                    instance["tags"]["items"] = json!(["worker"]);
                });
            }
            add_bad_node(&harness, provider_id);
            let provider = harness.started().await;
            harness.ensure(&provider, &mut web).await.unwrap();
            harness.ensure(&provider, &mut web).await.unwrap();
            let group = harness
                .object(&format!("zones/{ZONE}/instanceGroups/k8s-ig--{CLUSTER_ID}"))["members"]
                .clone();
            let pool = harness.object(&format!("targetPools/{LB}"))["instances"].clone();
            let members = [group, pool]
                .iter()
                .filter_map(|object| object.as_array().map(Vec::len))
                .sum::<usize>();
            assert_eq!(members, 2, "{provider_id} {kind:?}");
            let events = harness.events();
            let count = events
                .iter()
                .filter(|event| event.starts_with("LoadBalancerNodeLeftOut: "))
                .count();
            assert_eq!(
                count >= 1,
                is_reported,
                "{provider_id} {kind:?}: {events:?}"
            );
            let unique: std::collections::BTreeSet<_> = events.iter().collect();
            assert_eq!(
                unique.len(),
                events.len(),
                "each event is written once: {events:?}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn node_without_a_network_tag_is_left_out_of_firewalls_until_it_has_one() {
    let harness = Harness::new().without("node-tags");
    let mut web = service(&[], json!({}));
    harness.fake.lock().change_instance("worker-1", |instance| {
        instance["tags"]["items"] = json!(["worker"]);
    });
    let provider = harness.started().await;
    harness.ensure(&provider, &mut web).await.unwrap();
    let tags =
        |name: &str| harness.object(&format!("global/firewalls/{name}"))["targetTags"].clone();
    assert_eq!(tags(&format!("k8s-fw-{LB}")), json!(["worker"]));
    let events = harness.events();
    assert!(
        events
            .iter()
            .any(|event| event.contains("worker-2 has no network tag")),
        "{events:?}"
    );
    // A Node of another kind joins: the firewalls follow in the same sync.
    harness.add_node("edge-1", ZONE);
    harness.fake.lock().change_instance("edge-1", |instance| {
        instance["tags"]["items"] = json!(["edge"]);
    });
    harness.update(&provider, &web).await.unwrap();
    assert_eq!(tags(&format!("k8s-fw-{LB}")), json!(["edge", "worker"]));
    assert_eq!(
        tags(&format!("k8s-{CLUSTER_ID}-node-http-hc")),
        json!(["edge", "worker"])
    );
    // Without Nodes, the tags stay: a firewall without tags would be for the whole network.
    harness.objects.nodes.lock().clear();
    harness.ensure(&provider, &mut web).await.unwrap();
    harness.update(&provider, &web).await.unwrap();
    assert_eq!(tags(&format!("k8s-fw-{LB}")), json!(["edge", "worker"]));
    assert_eq!(
        tags(&format!("k8s-{CLUSTER_ID}-node-http-hc")),
        json!(["edge", "worker"])
    );
}

#[tokio::test(start_paused = true)]
async fn kind_of_another_spelling_is_a_mistake_and_targets_still_follow_the_nodes() {
    let key = "networking.gke.io/load-balancer-type";
    for text in ["INTERNAL", "Intern", "true", ""] {
        let harness = Harness::new();
        let mut web = service(&[(key, text)], json!({}));
        let error = harness
            .ensure(&harness.started().await, &mut web)
            .await
            .unwrap_err();
        assert!(
            error.is_invalid() && error.to_string().contains(key),
            "{text:?}: {error}"
        );
        assert_eq!(harness.changes(), [""; 0]);
    }
    let harness = Harness::new();
    let mut web = service(&[INTERNAL], json!({}));
    let provider = harness.started().await;
    harness.ensure(&provider, &mut web).await.unwrap();
    harness.add_node("worker-3", ZONE);
    harness
        .update(&provider, &changed(&[(key, "INTERNAL")], &web, json!({})))
        .await
        .unwrap();
    let group = harness.object(&format!("zones/{ZONE}/instanceGroups/k8s-ig--{CLUSTER_ID}"));
    assert_eq!(group["members"].as_array().map(Vec::len), Some(3));
    for text in ["External", "external"] {
        let harness = Harness::new();
        let mut web = service(&[(key, text)], json!({}));
        harness
            .ensure(&harness.started().await, &mut web)
            .await
            .unwrap();
        assert_eq!(
            harness.object(&format!("forwardingRules/{LB}"))["loadBalancingScheme"],
            "EXTERNAL"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn service_without_node_ports_is_served() {
    for kind in [&[][..], &[INTERNAL]] {
        let ports = json!([{"port": 80, "protocol": "TCP"}]);
        let more = json!({"allocateLoadBalancerNodePorts": false, "ports": ports});
        let harness = Harness::new();
        let mut web = service(kind, more);
        harness
            .ensure(&harness.started().await, &mut web)
            .await
            .unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn service_whose_forwarding_rule_another_controller_made_gets_nothing() {
    let harness = Harness::new();
    let mut web = service(&[], json!({}));
    let rule = json!({"IPAddress": "203.0.113.9", "IPProtocol": "TCP", "loadBalancingScheme": "EXTERNAL",
        "backendService": "https://www.googleapis.com/compute/v1/projects/demo/regions/us-central1/backendServices/theirs"});
    harness.fake.lock().insert(
        &format!("{PROJECT}/regions/{REGION}/forwardingRules/{LB}"),
        rule,
    );
    let error = harness
        .ensure(&harness.started().await, &mut web)
        .await
        .unwrap_err();
    assert!(error.is_implemented_elsewhere(), "{error}");
    assert_eq!(
        (harness.changes(), harness.objects.patches.lock().len()),
        (Vec::new(), 0)
    );
}

#[tokio::test(start_paused = true)]
async fn instance_of_another_project_is_unknown_and_never_a_namesake() {
    let harness = Harness::new();
    let provider = harness.started().await;
    for name in ["worker-1", "missing"] {
        let provider_id = format!("gce://elsewhere/{ZONE}/{name}");
        let node = Node {
            name: name.into(),
            provider_id: provider_id.into(),
            ..Node::default()
        };
        let request = LookupRequest {
            existence: true,
            shutdown: false,
            metadata: MetadataLevel::No,
            fresh: true,
        };
        let error = provider
            .instances()
            .unwrap()
            .lookup(&[Arc::new(node)], request)
            .await
            .remove(0)
            .unwrap_err();
        assert!(error.to_string().contains("project elsewhere"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn sources_of_health_checks_over_ipv6_are_those_of_the_flag() {
    let harness = crate::families::dual_stack("EXTERNAL")
        .set("--cloud-provider-gce-lb-ipv6-src-cidrs", "fd00::/8");
    let mut web = service(
        &[],
        json!({"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv4", "IPv6"]}),
    );
    harness
        .ensure(&harness.started().await, &mut web)
        .await
        .unwrap();
    let firewall = harness.object(&format!("global/firewalls/k8s-{CLUSTER_ID}-node-hc-ipv6"));
    assert_eq!(
        firewall["sourceRanges"],
        json!(["fd00::/8"]),
        "{:?}",
        harness.leftovers()
    );
}
