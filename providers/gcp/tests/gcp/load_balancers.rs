//! Load balancers: what is created, changed and deleted, and how.

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{CloudProvider, LoadBalancerRequest, Plan, Service, SyncCallbacks};
use gcp_fake::{Fault, PROJECT, REGION};
use serde_json::{Value, json};

use crate::harness::{CLUSTER_ID, Harness, LB, ports, service};

const INTERNAL: (&str, &str) = ("networking.gke.io/load-balancer-type", "Internal");

fn ip(service: &Service) -> String {
    let ingress = service
        .status
        .as_ref()
        .and_then(|status| status.load_balancer.as_ref()?.ingress.clone())
        .unwrap_or_default();
    ingress[0].ip.clone().unwrap_or_default()
}

fn names(value: &Value) -> Vec<String> {
    let all = value.as_array().cloned().unwrap_or_default();
    all.iter()
        .map(|object| {
            object
                .as_str()
                .unwrap_or_default()
                .rsplit('/')
                .next()
                .unwrap_or_default()
                .to_owned()
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn external_service_gets_rule_pool_check_and_firewalls_of_the_go_program() {
    let harness = Harness::new();
    let mut web = service(&[], json!({"ports": ports(&[8081, 8082, 8083, 443])}));
    let provider = harness.started().await;
    harness.ensure(&provider, &mut web).await.unwrap();
    let rule = harness.object(&format!("forwardingRules/{LB}"));
    let pool = harness.object(&format!("targetPools/{LB}"));
    assert_eq!(
        (
            &rule["portRange"],
            &rule["IPProtocol"],
            &rule["loadBalancingScheme"]
        ),
        (&json!("443-8083"), &json!("TCP"), &json!("EXTERNAL"))
    );
    assert_eq!(
        (names(&pool["instances"]), names(&pool["healthChecks"])),
        (
            vec!["worker-1".into(), "worker-2".into()],
            vec![format!("k8s-{CLUSTER_ID}-node")]
        )
    );
    let check = harness.object(&format!("global/httpHealthChecks/k8s-{CLUSTER_ID}-node"));
    assert_eq!(
        (
            &check["port"],
            &check["requestPath"],
            &check["checkIntervalSec"]
        ),
        (&json!(10256), &json!("/healthz"), &json!(8))
    );
    let fw = harness.object(&format!("global/firewalls/k8s-fw-{LB}"));
    let ip = ip(&web);
    assert_eq!(
        fw["description"],
        format!(
            r#"{{"kubernetes.io/service-name":"default/web", "kubernetes.io/service-ip":"{ip}"}}"#
        )
    );
    assert_eq!(
        fw["allowed"],
        json!([{"IPProtocol": "tcp", "ports": ["443", "8081-8083"]}])
    );
    assert_eq!(
        (
            &fw["destinationRanges"],
            &fw["sourceRanges"],
            &fw["targetTags"]
        ),
        (&json!([ip]), &json!(["0.0.0.0/0"]), &json!(["node"]))
    );
    let fw = harness.object(&format!("global/firewalls/k8s-{CLUSTER_ID}-node-http-hc"));
    assert_eq!(
        fw["description"],
        format!(r#"{{"kubernetes.io/cluster-id":"{CLUSTER_ID}"}}"#)
    );
    assert_eq!(
        (fw["sourceRanges"].as_array().map(Vec::len), &fw["allowed"]),
        (Some(4), &json!([{"IPProtocol": "tcp", "ports": ["10256"]}]))
    );
    let finalizers = harness.objects.patches.lock()[0].1["metadata"]["finalizers"].clone();
    assert_eq!(finalizers, json!(["gke.networking.io/l4-netlb-v1"]));
    assert_eq!(harness.changes().len(), 5, "{:?}", harness.changes());

    harness.fake.fault_injector().forget_requests();
    harness.ensure(&provider, &mut web).await.unwrap();
    assert_eq!(harness.changes(), [""; 0]);
    harness.delete(&provider, &web).await.unwrap();
    assert_eq!(harness.leftovers(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn internal_service_gets_groups_backend_service_and_rule_of_the_go_program() {
    let harness = Harness::new();
    let mut web = service(&[INTERNAL], json!({"ports": ports(&[80, 443])}));
    harness.add_node("worker-3", "us-central1-b");
    let provider = harness.started().await;
    harness.ensure(&provider, &mut web).await.unwrap();
    let rule = harness.object(&format!("forwardingRules/{LB}"));
    let backend = harness.object(&format!("backendServices/{LB}"));
    assert_eq!(
        (
            &rule["ports"],
            &rule["loadBalancingScheme"],
            &rule["allPorts"]
        ),
        (&json!(["443", "80"]), &json!("INTERNAL"), &Value::Null)
    );
    assert_eq!(backend["backends"].as_array().map(Vec::len), Some(2));
    assert_eq!(
        backend["description"],
        r#"{"kubernetes.io/service-name":"default/web"}"#
    );
    assert_eq!(
        names(&backend["healthChecks"]),
        [format!("k8s-{CLUSTER_ID}-node")]
    );
    let group = |zone: &str| {
        names(
            &harness.object(&format!("zones/{zone}/instanceGroups/k8s-ig--{CLUSTER_ID}"))["members"],
        )
    };
    assert_eq!(
        (group("us-central1-a").len(), group("us-central1-b")),
        (2, vec!["worker-3".to_owned()])
    );
    let fw = harness.object(&format!("global/firewalls/k8s-{CLUSTER_ID}-node-hc"));
    assert_eq!(
        fw["allowed"],
        json!([{"IPProtocol": "tcp", "ports": ["10256"]}])
    );
    assert!(ip(&web).starts_with("10."), "{}", ip(&web));

    harness.fake.fault_injector().forget_requests();
    harness.ensure(&provider, &mut web).await.unwrap();
    assert_eq!(harness.changes(), [""; 0]);
    harness.delete(&provider, &web).await.unwrap();
    assert_eq!(harness.leftovers(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn change_of_ports_keeps_the_address_and_releases_it_again() {
    for kind in [&[][..], &[INTERNAL]] {
        let harness = Harness::new();
        let mut web = service(kind, json!({"ports": ports(&[80])}));
        let provider = harness.started().await;
        harness.ensure(&provider, &mut web).await.unwrap();
        let before = ip(&web);
        for numbers in [&[80, 443][..], &[8080]] {
            let mut changed = service(kind, json!({"ports": ports(numbers)}));
            changed.status.clone_from(&web.status);
            harness.ensure(&provider, &mut changed).await.unwrap();
            assert_eq!(
                (ip(&changed), harness.object(&format!("addresses/{LB}"))),
                (before.clone(), Value::Null)
            );
        }
        let rules = harness.fake.lock().all("forwardingRules").count();
        assert_eq!(rules, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn session_affinity_replaces_a_target_pool_and_changes_a_backend_service() {
    for (kind, path) in [(&[][..], "targetPools"), (&[INTERNAL], "backendServices")] {
        let harness = Harness::new();
        let mut web = service(kind, json!({}));
        let provider = harness.started().await;
        harness.ensure(&provider, &mut web).await.unwrap();
        let before = ip(&web);
        let mut sticky = service(kind, json!({"sessionAffinity": "ClientIP"}));
        sticky.status.clone_from(&web.status);
        harness.ensure(&provider, &mut sticky).await.unwrap();
        assert_eq!(
            harness.object(&format!("{path}/{LB}"))["sessionAffinity"],
            "CLIENT_IP"
        );
        assert_eq!(ip(&sticky), before);
        assert_eq!(harness.object(&format!("addresses/{LB}")), Value::Null);
    }
}

#[tokio::test(start_paused = true)]
async fn external_becomes_internal_and_back() {
    let harness = Harness::new();
    let mut web = service(&[], json!({}));
    let provider = harness.started().await;
    harness.ensure(&provider, &mut web).await.unwrap();
    let mut inside = service(&[INTERNAL], json!({}));
    inside.status.clone_from(&web.status);
    harness.ensure(&provider, &mut inside).await.unwrap();
    assert_eq!(
        harness.object(&format!("forwardingRules/{LB}"))["loadBalancingScheme"],
        "INTERNAL"
    );
    assert_eq!(harness.object(&format!("targetPools/{LB}")), Value::Null);
    assert_ne!(ip(&inside), ip(&web));
    let mut outside = service(&[], json!({}));
    outside.status.clone_from(&inside.status);
    harness.ensure(&provider, &mut outside).await.unwrap();
    assert_eq!(
        harness.object(&format!("forwardingRules/{LB}"))["loadBalancingScheme"],
        "EXTERNAL"
    );
    assert_eq!(
        harness.object(&format!("backendServices/{LB}")),
        Value::Null
    );
    harness.delete(&provider, &outside).await.unwrap();
    assert_eq!(harness.leftovers(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn service_of_local_traffic_has_a_health_check_of_its_own() {
    for (kind, path) in [(&[][..], "httpHealthChecks"), (&[INTERNAL], "healthChecks")] {
        let local = json!({"externalTrafficPolicy": "Local", "healthCheckNodePort": 30012});
        let harness = Harness::new();
        let mut web = service(kind, local);
        let provider = harness.started().await;
        harness.ensure(&provider, &mut web).await.unwrap();
        let check = harness.object(&format!("global/{path}/{LB}"));
        assert!(
            [&check["port"], &check["httpHealthCheck"]["port"]].contains(&&json!(30012)),
            "{check}"
        );
        let mut cluster = service(kind, json!({}));
        cluster.status.clone_from(&web.status);
        harness.ensure(&provider, &mut cluster).await.unwrap();
        assert_eq!(harness.object(&format!("global/{path}/{LB}")), Value::Null);
        harness.delete(&provider, &cluster).await.unwrap();
        assert_eq!(harness.leftovers(), [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn shared_health_check_goes_with_the_last_service() {
    for kind in [&[][..], &[INTERNAL]] {
        let harness = Harness::new();
        let mut web = service(kind, json!({}));
        let mut mail = service(kind, json!({}));
        (mail.metadata.name, mail.metadata.uid) = (
            Some("mail".into()),
            Some("1b0a1c0f-3f3e-4c57-a1b5-9f5f2a7d8c11".into()),
        );
        let provider = harness.started().await;
        harness.ensure(&provider, &mut web).await.unwrap();
        harness.ensure(&provider, &mut mail).await.unwrap();
        harness.delete(&provider, &web).await.unwrap();
        assert!(
            harness
                .leftovers()
                .iter()
                .any(|leftover| leftover.contains("-node")),
            "{:?}",
            harness.leftovers()
        );
        harness
            .objects
            .services
            .lock()
            .retain(|service| service.metadata.uid == mail.metadata.uid);
        harness.delete(&provider, &mail).await.unwrap();
        assert_eq!(harness.leftovers(), [""; 0], "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn nodes_join_and_leave_pools_and_groups() {
    for kind in [&[][..], &[INTERNAL]] {
        let harness = Harness::new();
        let mut web = service(kind, json!({}));
        let provider = harness.started().await;
        harness.ensure(&provider, &mut web).await.unwrap();
        harness.add_node("worker-3", "us-central1-b");
        harness.update(&provider, &web).await.unwrap();
        let members = || {
            let groups = ["us-central1-a", "us-central1-b"].map(|zone| {
                harness.object(&format!("zones/{zone}/instanceGroups/k8s-ig--{CLUSTER_ID}"))
            });
            let pool = harness.object(&format!("targetPools/{LB}"));
            let mut all = [
                names(&groups[0]["members"]),
                names(&groups[1]["members"]),
                names(&pool["instances"]),
            ]
            .concat();
            all.sort();
            all
        };
        assert_eq!(members(), ["worker-1", "worker-2", "worker-3"]);
        harness.objects.nodes.lock().remove(0);
        harness.update(&provider, &web).await.unwrap();
        assert_eq!(members(), ["worker-2", "worker-3"], "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn target_pool_is_created_with_200_instances_and_gets_the_rest() {
    let harness = Harness::new();
    let mut web = service(&[], json!({}));
    (3..=201).for_each(|number| harness.add_node(&format!("worker-{number}"), gcp_fake::ZONE));
    let provider = harness.started().await;
    harness.ensure(&provider, &mut web).await.unwrap();
    assert_eq!(
        harness.object(&format!("targetPools/{LB}"))["instances"]
            .as_array()
            .map(Vec::len),
        Some(201)
    );
    assert_eq!(
        harness
            .changes()
            .iter()
            .filter(|change| change.ends_with("addInstance"))
            .count(),
        1
    );
}

#[tokio::test(start_paused = true)]
async fn more_than_five_ports_become_all_ports_and_global_access_replaces_the_rule() {
    let global = (
        "networking.gke.io/internal-load-balancer-allow-global-access",
        "true",
    );
    let harness = Harness::new();
    let mut web = service(&[INTERNAL], json!({"ports": ports(&[1, 2, 3, 4, 5, 6])}));
    let provider = harness.started().await;
    harness.ensure(&provider, &mut web).await.unwrap();
    let rule = harness.object(&format!("forwardingRules/{LB}"));
    assert_eq!(
        (&rule["allPorts"], &rule["ports"]),
        (&json!(true), &Value::Null)
    );
    let mut changed = service(&[INTERNAL, global], json!({"ports": ports(&[1, 2])}));
    changed.status.clone_from(&web.status);
    harness.ensure(&provider, &mut changed).await.unwrap();
    let rule = harness.object(&format!("forwardingRules/{LB}"));
    assert_eq!(
        (
            &rule["allPorts"],
            &rule["ports"],
            &rule["allowGlobalAccess"]
        ),
        (&Value::Null, &json!(["1", "2"]), &json!(true))
    );
}

#[tokio::test(start_paused = true)]
async fn requested_address_must_be_reserved_and_of_the_tier() {
    type Row<'a> = (Option<&'a str>, &'a [(&'a str, &'a str)], Option<&'a str>);
    let table: [Row<'_>; 4] = [
        (None, &[], Some("is no reserved address")),
        (Some("STANDARD"), &[], Some("is of network tier STANDARD")),
        (Some("PREMIUM"), &[], None),
        (
            Some("STANDARD"),
            &[("cloud.google.com/network-tier", "Standard")],
            None,
        ),
    ];
    for (tier, annotations, refusal) in table {
        let harness = Harness::new();
        let mut web = service(annotations, json!({"loadBalancerIP": "203.0.113.77"}));
        if let Some(tier) = tier {
            let address =
                json!({"address": "203.0.113.77", "networkTier": tier, "addressType": "EXTERNAL"});
            harness.fake.lock().insert(
                &format!("{PROJECT}/regions/{REGION}/addresses/mine"),
                address,
            );
        }
        let provider = harness.started().await;
        let outcome = harness.ensure(&provider, &mut web).await;
        match refusal {
            Some(text) => assert!(outcome.unwrap_err().to_string().contains(text)),
            None => {
                outcome.unwrap();
                assert_eq!(ip(&web), "203.0.113.77");
                harness.delete(&provider, &web).await.unwrap();
                assert_eq!(
                    harness.leftovers(),
                    [format!("{PROJECT}/regions/{REGION}/addresses/mine")]
                );
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn firewall_of_a_shared_network_is_left_to_its_administrator() {
    let harness = Harness::new().set("network-project-id", "host");
    let mut web = service(&[], json!({}));
    harness.fake.lock().forbidden = vec!["host".to_owned()];
    let provider = harness.started().await;
    harness.ensure(&provider, &mut web).await.unwrap();
    let events = harness.events();
    let expected = format!(
        "LoadBalancerManualChange: Firewall change required by security admin: `gcloud compute firewall-rules create k8s-fw-{LB} --network default"
    );
    assert!(
        events
            .iter()
            .any(|event| event.starts_with(&expected) && event.ends_with("--project host`")),
        "{events:#?}"
    );
    // The administrator runs the command.
    let firewall = json!({"allowed": [{"IPProtocol": "tcp", "ports": ["80"]}], "description": "x"});
    harness
        .fake
        .lock()
        .insert(&format!("host/global/firewalls/k8s-fw-{LB}"), firewall);
    let provider = harness.started().await;
    harness.delete(&provider, &web).await.unwrap();
    let events = harness.events();
    assert!(
        events
            .iter()
            .any(|event| event.contains("firewall-rules delete")),
        "{events:#?}"
    );
}

#[tokio::test(start_paused = true)]
async fn services_of_other_controllers_are_left_alone() {
    type Row<'a> = (&'a [(&'a str, &'a str)], Value, &'a [&'a str], &'a str);
    let table: [Row<'_>; 6] = [
        (
            &[("cloud.google.com/l4-rbs", "enabled")],
            json!({}),
            &[],
            "",
        ),
        (&[], json!({}), &["gke.networking.io/l4-netlb-v2"], ""),
        (&[], json!({"loadBalancerClass": "acme/lb"}), &[], ""),
        (&[], json!({}), &[], "--enable-rbs-default-l4-netlb"),
        (&[INTERNAL], json!({}), &["gke.networking.io/l4-ilb-v2"], ""),
        (&[INTERNAL], json!({}), &[], "alpha-features"),
    ];
    for (annotations, more, finalizers, setting) in table {
        let value = if setting.starts_with("--") {
            "true"
        } else {
            "ILBSubsets"
        };
        let harness = if setting.is_empty() {
            Harness::new()
        } else {
            Harness::new().set(setting, value)
        };
        let mut web = service(annotations, more);
        web.metadata.finalizers = Some(
            finalizers
                .iter()
                .map(|finalizer| (*finalizer).to_owned())
                .collect(),
        );
        let provider = harness.started().await;
        let error = harness.ensure(&provider, &mut web).await.unwrap_err();
        assert!(error.is_implemented_elsewhere(), "{error}");
        assert_eq!(harness.changes(), [""; 0]);
    }
    let harness = Harness::new().set("--enable-rbs-default-l4-netlb", "true");
    let mut ours = service(&[], json!({}));
    ours.metadata.finalizers = Some(vec!["gke.networking.io/l4-netlb-v1".to_owned()]);
    harness
        .ensure(&harness.started().await, &mut ours)
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn mistakes_of_a_service_are_refused_before_a_request() {
    for (web, text) in [
        (
            service(&[("cloud.google.com/network-tier", "Invalid")], json!({})),
            "network-tier",
        ),
        (
            service(&[], json!({"loadBalancerSourceRanges": ["fd00::/8"]})),
            "no client could reach the IPv4 address",
        ),
        (
            service(&[], json!({"loadBalancerIP": "x"})),
            "spec.loadBalancerIP",
        ),
    ] {
        let harness = Harness::new();
        let mut web = web;
        let provider = harness.started().await;
        let error = harness.ensure(&provider, &mut web).await.unwrap_err();
        assert!(
            error.is_invalid() && error.to_string().contains(text),
            "{error}"
        );
        assert_eq!(harness.changes(), [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn no_load_balancer_is_created_without_a_node() {
    let harness = Harness::new();
    let mut web = service(&[], json!({}));
    harness.objects.nodes.lock().clear();
    let provider = harness.started().await;
    assert!(harness.ensure(&provider, &mut web).await.is_err());
    assert_eq!(harness.changes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn larger_values_of_a_health_check_are_a_users_and_smaller_ones_are_raised() {
    let harness = Harness::new();
    let mut web = service(&[], json!({}));
    harness
        .ensure(&harness.started().await, &mut web)
        .await
        .unwrap();
    let path = format!("{PROJECT}/global/httpHealthChecks/k8s-{CLUSTER_ID}-node");
    for (interval, expected) in [(20, 20), (2, 8)] {
        harness.fake.lock().objects.get_mut(&path).unwrap()["checkIntervalSec"] = interval.into();
        harness
            .ensure(&harness.started().await, &mut web)
            .await
            .unwrap();
        assert_eq!(
            harness.fake.lock().objects[&path]["checkIntervalSec"],
            expected
        );
    }
}

#[tokio::test(start_paused = true)]
async fn denial_is_created_with_its_flag_and_deleted_without() {
    let flags = [
        "--enable-l4-deny-firewall",
        "--enable-l4-deny-firewall-rollback-cleanup",
    ];
    let mut harness = Harness::new().set(flags[0], "true").set(flags[1], "true");
    let mut web = service(&[], json!({}));
    harness
        .ensure(&harness.started().await, &mut web)
        .await
        .unwrap();
    let denial = harness.object(&format!("global/firewalls/k8s-fw-{LB}-deny"));
    assert_eq!(
        (&denial["denied"], &denial["priority"]),
        (&json!([{"IPProtocol": "all"}]), &json!(1000))
    );
    assert_eq!(
        harness.object(&format!("global/firewalls/k8s-fw-{LB}"))["priority"],
        999
    );
    harness = harness.set(flags[0], "false");
    harness
        .ensure(&harness.started().await, &mut web)
        .await
        .unwrap();
    assert_eq!(
        harness.object(&format!("global/firewalls/k8s-fw-{LB}-deny")),
        Value::Null
    );
}

#[tokio::test(start_paused = true)]
async fn failed_operation_is_an_error_and_the_next_sync_repairs_it() {
    let harness = Harness::new();
    let mut web = service(&[], json!({}));
    let provider = harness.started().await;
    harness.fake.fault_injector().fail(
        Fault::ends_in_error(
            "POST /projects/{project}/regions/{region}/forwardingRules",
            "QUOTA_EXCEEDED",
        )
        .times(1),
    );
    assert!(
        harness
            .ensure(&provider, &mut web)
            .await
            .unwrap_err()
            .is_quota()
    );
    harness.ensure(&provider, &mut web).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn cluster_id_is_created_if_the_config_map_is_missing() {
    let harness = Harness::new();
    let mut web = service(&[], json!({}));
    *harness.objects.config_map.lock() = None;
    harness
        .ensure(&harness.started().await, &mut web)
        .await
        .unwrap();
    let map = harness.objects.config_map.lock().clone().unwrap();
    assert_eq!(
        (
            map["data"]["uid"].as_str().map(str::len),
            &map["data"]["uid"]
        ),
        (Some(16), &map["data"]["provider-uid"])
    );
}

#[tokio::test(start_paused = true)]
async fn condition_of_the_go_program_about_mixed_protocols_is_taken_back() {
    let harness = Harness::new();
    let _provider = harness.started().await;
    let mut web = service(&[], json!({}));
    let condition = json!({"type": "LoadBalancerPortsError", "status": "True", "reason": "x", "message": "", "lastTransitionTime": "2026-11-23T00:00:00Z"});
    web.status = serde_json::from_value(json!({"conditions": [condition]})).unwrap();
    harness.objects.services.lock().push(Arc::new(web));
    tokio::time::sleep(Duration::from_secs(6)).await;
    let patches = harness.objects.patches.lock().clone();
    let condition = &patches[0].1["status"]["conditions"][0];
    assert_eq!(
        (&*patches[0].0, &condition["type"], &condition["status"]),
        (
            "/api/v1/namespaces/default/services/web/status",
            &json!("LoadBalancerPortsError"),
            &json!("False")
        )
    );
}

#[tokio::test(start_paused = true)]
async fn class_decides_about_the_kind_if_the_annotation_contradicts_it() {
    for (annotations, class, scheme) in [
        (&[INTERNAL][..], "external", "EXTERNAL"),
        (&[], "internal", "INTERNAL"),
    ] {
        let class =
            json!({"loadBalancerClass": format!("networking.gke.io/l4-regional-{class}-legacy")});
        let harness = Harness::new();
        let mut web = service(annotations, class);
        harness
            .ensure(&harness.started().await, &mut web)
            .await
            .unwrap();
        assert_eq!(
            harness.object(&format!("forwardingRules/{LB}"))["loadBalancingScheme"],
            scheme
        );
    }
}

#[tokio::test(start_paused = true)]
async fn legacy_network_ignores_options_and_an_event_says_so() {
    let options = [
        INTERNAL,
        (
            "networking.gke.io/internal-load-balancer-allow-global-access",
            "true",
        ),
        ("networking.gke.io/internal-load-balancer-subnet", "second"),
    ];
    let harness = Harness::new().without("subnetwork-name");
    let mut web = service(&options, json!({}));
    let network = json!({"IPv4Range": "10.240.0.0/16"});
    harness
        .fake
        .lock()
        .insert(&format!("{PROJECT}/global/networks/default"), network);
    harness
        .ensure(&harness.started().await, &mut web)
        .await
        .unwrap();
    let bodies = harness
        .fake
        .fault_injector()
        .bodies("POST /projects/{project}/regions/{region}/forwardingRules");
    assert_eq!(
        (&bodies[0]["subnetwork"], &bodies[0]["allowGlobalAccess"]),
        (&Value::Null, &Value::Null)
    );
    let events = harness.events();
    assert!(
        events
            .iter()
            .any(|event| event.starts_with("ILBOptionsIgnored: ")),
        "{events:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn numbers_of_load_balancers_are_metrics_of_the_go_program() {
    let harness = Harness::new();
    let mut web = service(&[INTERNAL], json!({}));
    let provider = harness.started().await;
    harness.ensure(&provider, &mut web).await.unwrap();
    harness.objects.services.lock()[0] = Arc::new(web.clone());
    let mut pending = service(&[], json!({}));
    pending.metadata.uid = Some("2b0a1c0f-3f3e-4c57-a1b5-9f5f2a7d8c11".into());
    harness.objects.services.lock().push(Arc::new(pending));
    tokio::time::sleep(Duration::from_secs(61)).await;
    for (series, value) in [
        ("number_of_l4_ilbs[L4ILBService]", Some(1.0)),
        ("number_of_l4_ilbs[L4ILBInSuccess]", Some(1.0)),
        ("number_of_l4_ilbs[L4ILBGlobalAccess]", None),
        ("number_of_l4_netlbs[Error, ]", Some(1.0)),
        ("ccm_feature_gate_info[finegrainedlock, false]", Some(1.0)),
    ] {
        assert_eq!(harness.series(series), value, "{series}");
    }
    harness.objects.services.lock().clear();
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(harness.series("number_of_l4_ilbs[L4ILBService]"), Some(0.0));
}

#[tokio::test(start_paused = true)]
async fn firewalls_name_the_longest_tag_of_each_node_that_begins_its_name() {
    let harness = Harness::new().without("node-tags");
    let mut web = service(&[], json!({}));
    let tags = |object: &mut Value, tags: &[&str]| object["tags"]["items"] = json!(tags);
    let provider = harness.started().await;
    let error = harness
        .ensure(&provider, &mut web)
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("has no network tag"), "{error}");
    assert_eq!(harness.changes(), [""; 0]);
    harness.fake.lock().change_instance("worker-1", |instance| {
        tags(instance, &["work", "worker", "other"]);
    });
    harness
        .fake
        .lock()
        .change_instance("worker-2", |instance| tags(instance, &["worker-2"]));
    harness
        .ensure(&harness.started().await, &mut web)
        .await
        .unwrap();
    assert_eq!(
        harness.object(&format!("global/firewalls/k8s-fw-{LB}"))["targetTags"],
        json!(["worker", "worker-2"])
    );
}

#[tokio::test(start_paused = true)]
async fn group_has_at_most_1000_nodes_of_a_zone_and_none_of_other_subnetworks() {
    let harness = Harness::new();
    let mut web = service(&[INTERNAL], json!({}));
    (1000..2001).for_each(|number| harness.add_node(&format!("worker-{number}"), gcp_fake::ZONE));
    let mut other = (*harness.objects.nodes.lock()[0]).clone();
    other.labels = [(
        "cloud.google.com/gke-node-pool-subnet".to_owned(),
        "second".to_owned(),
    )]
    .into_iter()
    .collect();
    harness.objects.nodes.lock()[0] = Arc::new(other);
    harness
        .ensure(&harness.started().await, &mut web)
        .await
        .unwrap();
    let members = names(
        &harness.object(&format!(
            "zones/{}/instanceGroups/k8s-ig--{CLUSTER_ID}",
            gcp_fake::ZONE
        ))["members"],
    );
    assert_eq!(
        (members.len(), members.contains(&"worker-1".to_owned())),
        (1000, false)
    );
}

/// Adds a load-balanced instance group of somebody else with these instances.
fn add_group(harness: &Harness, name: &str, members: &[&str]) {
    let zone = gcp_fake::ZONE;
    let mut cloud = harness.fake.lock();
    let members: Vec<_> = members
        .iter()
        .map(|member| cloud.link(&format!("{PROJECT}/zones/{zone}/instances/{member}")))
        .collect();
    cloud.insert(
        &format!("{PROJECT}/zones/{zone}/instanceGroups/{name}"),
        json!({ "members": members }),
    );
    let group = cloud.link(&format!("{PROJECT}/zones/{zone}/instanceGroups/{name}"));
    let service = json!({"backends": [{"group": group}], "loadBalancingScheme": "INTERNAL", "protocol": "TCP"});
    cloud.insert(
        &format!("{PROJECT}/regions/{REGION}/backendServices/theirs-{name}"),
        service,
    );
}

#[tokio::test(start_paused = true)]
async fn groups_of_others_serve_the_instances_that_they_have() {
    let harness = Harness::new()
        .set("external-instance-groups-prefix", "infra")
        .set("node-instance-prefix", "worker");
    let mut web = service(&[INTERNAL], json!({}));
    harness
        .fake
        .lock()
        .add_instance("worker-bootstrap", gcp_fake::ZONE);
    harness.fake.lock().add_instance("database", gcp_fake::ZONE);
    add_group(&harness, "infra-a", &["worker-1", "worker-bootstrap"]);
    add_group(&harness, "infra-b", &["database"]);
    let provider = harness.started().await;
    harness.ensure(&provider, &mut web).await.unwrap();
    let own = format!("k8s-ig--{CLUSTER_ID}");
    let backends = harness.object(&format!("backendServices/{LB}"))["backends"].clone();
    let groups: Vec<_> = backends
        .as_array()
        .unwrap()
        .iter()
        .map(|backend| names(&json!([backend["group"]])))
        .collect();
    assert_eq!(groups.concat(), ["infra-a".to_owned(), own.clone()]);
    let members = |name: &str| {
        names(
            &harness.object(&format!("zones/{}/instanceGroups/{name}", gcp_fake::ZONE))["members"],
        )
    };
    assert_eq!(
        (members(&own), members("infra-a")),
        (
            vec!["worker-2".into()],
            vec!["worker-1".into(), "worker-bootstrap".into()]
        )
    );
    harness.fake.fault_injector().forget_requests();
    harness.ensure(&provider, &mut web).await.unwrap();
    harness
        .objects
        .nodes
        .lock()
        .retain(|node| &*node.name != "worker-1");
    harness.update(&provider, &web).await.unwrap();
    assert_eq!(harness.changes(), [""; 0]);
    harness.delete(&provider, &web).await.unwrap();
    assert!(
        members("infra-a").len() == 2 && members(&own).is_empty(),
        "{:?}",
        harness.leftovers()
    );
}

#[tokio::test(start_paused = true)]
async fn skipped_groups_are_only_looked_up() {
    let harness = Harness::new().set("alpha-features", "SkipIGsManagement");
    let mut web = service(&[INTERNAL], json!({}));
    add_group(
        &harness,
        &format!("k8s-ig--{CLUSTER_ID}-second"),
        &["worker-1"],
    );
    let provider = harness.started().await;
    harness.ensure(&provider, &mut web).await.unwrap();
    let backends = harness.object(&format!("backendServices/{LB}"))["backends"].clone();
    assert_eq!(backends.as_array().map(Vec::len), Some(1));
    harness.delete(&provider, &web).await.unwrap();
    assert!(
        harness
            .changes()
            .iter()
            .all(|change| !change.contains("instanceGroups")),
        "{:?}",
        harness.changes()
    );
}

#[tokio::test(start_paused = true)]
async fn internal_load_balancers_share_a_backend_service_if_asked() {
    let share = ("alpha.cloud.google.com/load-balancer-backend-share", "true");
    let harness = Harness::new();
    let mut web = service(&[INTERNAL, share], json!({}));
    let mut mail = service(&[INTERNAL, share], json!({}));
    (mail.metadata.name, mail.metadata.uid) = (
        Some("mail".into()),
        Some("1b0a1c0f-3f3e-4c57-a1b5-9f5f2a7d8c11".into()),
    );
    let provider = harness.started().await;
    harness.ensure(&provider, &mut web).await.unwrap();
    harness.ensure(&provider, &mut mail).await.unwrap();
    let pools: Vec<_> = harness
        .fake
        .lock()
        .all("backendServices")
        .map(|object| object["name"].clone())
        .collect();
    assert_eq!(
        pools,
        [json!(format!(
            "k8s-{CLUSTER_ID}-internal-tcp-nmv1-6eef6648406c333a"
        ))]
    );
    harness.delete(&provider, &web).await.unwrap();
    assert_eq!(harness.fake.lock().all("backendServices").count(), 1);
    harness
        .objects
        .services
        .lock()
        .retain(|service| service.metadata.uid == mail.metadata.uid);
    harness.delete(&provider, &mail).await.unwrap();
    assert_eq!(harness.leftovers(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn change_of_network_tier_and_of_subnetwork_gives_another_address() {
    let subnet = ("networking.gke.io/internal-load-balancer-subnet", "second");
    let tier = ("cloud.google.com/network-tier", "Standard");
    for (before, after, key, end) in [
        (&[][..], &[tier][..], "networkTier", "STANDARD"),
        (&[INTERNAL], &[INTERNAL, subnet], "subnetwork", "second"),
    ] {
        let harness = Harness::new();
        let mut web = service(before, json!({}));
        let provider = harness.started().await;
        harness.ensure(&provider, &mut web).await.unwrap();
        let mut changed = Service {
            status: web.status.clone(),
            ..service(after, json!({}))
        };
        harness.ensure(&provider, &mut changed).await.unwrap();
        let rule = harness.object(&format!("forwardingRules/{LB}"));
        assert!(rule[key].as_str().unwrap().ends_with(end), "{rule}");
        assert_eq!(harness.object(&format!("addresses/{LB}")), Value::Null);
    }
}

/// The annotations that a sync asks for.
#[derive(Default)]
struct Annotated(parking_lot::Mutex<Vec<(&'static str, Option<String>)>>);

impl SyncCallbacks for Annotated {
    fn on_plan(&self, _: &Plan) {}

    fn annotate(&self, key: &'static str, value: Option<String>) {
        self.0.lock().push((key, value));
    }
}

#[tokio::test(start_paused = true)]
async fn service_is_annotated_with_its_pool_if_the_flag_is_set() {
    let cluster = crate::harness::cluster();
    for (kind, key) in [
        (&[][..], "networking.gke.io/target-pool"),
        (&[INTERNAL], "networking.gke.io/backend-service"),
    ] {
        let harness = Harness::new().set("--enable-l4-lb-annotations", "true");
        let mut web = service(kind, json!({}));
        let provider = harness.started().await;
        harness.ensure(&provider, &mut web).await.unwrap();
        let nodes = harness.objects.nodes.lock().clone();
        let annotated = Annotated::default();
        let request = LoadBalancerRequest {
            cluster: &cluster,
            service: &web,
            nodes: &nodes,
            callbacks: &annotated,
        };
        provider
            .load_balancers()
            .unwrap()
            .ensure(request)
            .await
            .unwrap();
        assert!(
            annotated.0.lock().contains(&(key, Some(LB.to_owned()))),
            "{:?}",
            annotated.0.lock()
        );
    }
}
