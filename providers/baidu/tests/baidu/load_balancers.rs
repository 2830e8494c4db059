//! BLBs and EIPs over their life.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use baidu_fake::{ACCOUNT, Fault};
use cloud_provider::scripted::AnsweringStatus;
use cloud_provider::{Caches, CloudProvider, Context, LoadBalancerStatus, Service};
use http::StatusCode;
use serde_json::{Value, json};

use crate::harness::{Harness, UID, annotate, blb, eip, service, service_of};
use crate::profile::{DESCRIPTION, list, text};

fn shown(status: &LoadBalancerStatus) -> Vec<String> {
    status
        .ingress
        .iter()
        .flatten()
        .map(|ingress| ingress.ip.clone().unwrap_or_default())
        .collect()
}

fn listener(blb: &Value, port: u16, kind: &str) -> Value {
    let is_this_object =
        |object: &&Value| object["listenerPort"] == port && object["listenerType"] == kind;
    list(&blb["listeners"])
        .find(is_this_object)
        .cloned()
        .unwrap_or_default()
}

fn owner() -> Value {
    json!([{"tagKey": "ccm-rs/cluster", "tagValue": "5c1d"}, {"tagKey": "ccm-rs/service", "tagValue": UID}])
}

#[tokio::test(start_paused = true)]
async fn service_gets_a_blb_with_listeners_backends_and_an_eip() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut service = service(&[]);
    let status = harness.ensure(&provider, &mut service).await.unwrap();
    let made = harness.blb();
    let eips = harness.eips();
    assert_eq!(
        (&made["name"], &made["subnetId"]),
        (&json!("CCE/SVC/c-1/default/web"), &json!("sbn-1"))
    );
    assert_eq!(
        made["desc"],
        format!("{DESCRIPTION} ccmrs-cluster:5c1d ccmrs-service:{UID}")
    );
    let one = listener(&made, 80, "TCP");
    assert_eq!(
        (&one["backendPort"], &one["scheduler"]),
        (&json!(30080), &json!("RoundRobin"))
    );
    assert_eq!(
        made["backends"],
        json!([{"instanceId": "i-00000001", "weight": 100}, {"instanceId": "i-00000002", "weight": 100}])
    );
    assert_eq!(
        (
            &eips[0]["tags"],
            &eips[0]["bandwidthInMbps"],
            &eips[0]["name"]
        ),
        (&owner(), &json!(1000), &made["name"])
    );
    assert_eq!(
        (shown(&status), &made["publicIp"]),
        (vec![text(&eips[0]["eip"])], &eips[0]["eip"])
    );
    let ingress = status.ingress.unwrap();
    assert_eq!(
        (ingress.len(), ingress[0].ip_mode.as_deref()),
        (1, Some("VIP"))
    );
    assert_eq!(harness.changes().len(), 6, "{:?}", harness.changes());

    // The program starts again.
    let provider = harness.started().await;
    harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!(harness.changes(), [""; 0]);
    harness.delete(&provider, &service).await.unwrap();
    assert!(harness.fake.lock().blbs.is_empty() && harness.eips().is_empty());
}

#[tokio::test(start_paused = true)]
async fn listeners_follow_ports_and_annotations() {
    let port = |port: u16, node: u16, kind: &str| json!({"name": format!("p{port}{kind}").to_lowercase(), "port": port, "nodePort": node, "protocol": kind});
    let harness = Harness::new();
    let provider = harness.started().await;
    let ports = [
        port(80, 30080, "TCP"),
        port(8080, 30090, "TCP"),
        port(53, 30053, "TCP"),
        port(53, 30054, "UDP"),
    ];
    let mut before = service_of(&[], json!({"ports": ports, "sessionAffinity": "ClientIP"}));
    harness.ensure(&provider, &mut before).await.unwrap();
    let made = harness.blb();
    assert_eq!(list(&made["listeners"]).count(), 4);
    assert_eq!(
        listener(&made, 53, "UDP")["healthCheckString"],
        "HealthCheck"
    );
    assert_eq!(listener(&made, 53, "TCP")["scheduler"], "Hash");
    let mut after = service_of(
        &[
            (blb("scheduler"), "LeastConnection"),
            (blb("health-check-interval"), "9"),
            (blb("unhealthy-threshold"), "5"),
        ],
        json!({"ports": [port(80, 31080, "TCP"), port(443, 30443, "TCP"), port(53, 30054, "UDP")]}),
    );
    harness.ensure(&provider, &mut after).await.unwrap();
    let made = harness.blb();
    assert_eq!(list(&made["listeners"]).count(), 3);
    let one = listener(&made, 80, "TCP");
    assert_eq!(
        (&one["backendPort"], &one["scheduler"]),
        (&json!(31080), &json!("LeastConnection"))
    );
    assert_eq!(
        (&one["healthCheckInterval"], &one["unhealthyThreshold"]),
        (&json!(9), &json!(5))
    );
    let provider = harness.started().await;
    harness.ensure(&provider, &mut after).await.unwrap();
    assert_eq!(harness.changes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn backends_have_a_limit_and_one_weight() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut service = service(&[(blb("rs-max-num"), "2")]);
    harness.ensure(&provider, &mut service).await.unwrap();
    harness.add_node("worker-3");
    harness.ensure(&provider, &mut service).await.unwrap();
    let targets = || {
        list(&harness.blb()["backends"])
            .map(|backends| text(&backends["instanceId"]))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        targets(),
        ["i-00000001", "i-00000002"],
        "present backends stay"
    );
    assert!(
        harness
            .events()
            .iter()
            .any(|event| event.starts_with("TooManyBackends"))
    );
    harness.cluster.remove_node("worker-1");
    harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!(targets().len(), 2);
    harness.fake.lock().blbs[0]["backends"][0]["weight"] = 1.into();
    let provider = harness.started().await;
    harness.ensure(&provider, &mut service).await.unwrap();
    assert!(list(&harness.blb()["backends"]).all(|backend| backend["weight"] == 100));
}

#[tokio::test(start_paused = true)]
async fn deleted_instance_does_not_keep_other_nodes_from_being_served() {
    let harness = Harness::new();
    harness
        .fake
        .lock()
        .instances
        .retain(|instance| instance["name"] != "worker-2");
    let provider = harness.started().await;
    harness.ensure(&provider, &mut service(&[])).await.unwrap();
    assert_eq!(list(&harness.blb()["backends"]).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn busy_blb_is_waited_for() {
    let harness = Harness::new();
    harness.fake.lock().busy = Duration::from_secs(1);
    let provider = harness.started().await;
    harness.ensure(&provider, &mut service(&[])).await.unwrap();
    assert_eq!(list(&harness.blb()["listeners"]).count(), 2);
}

#[tokio::test(start_paused = true)]
async fn internal_service_has_no_eip_and_can_become_external_and_back() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut service = service(&[(blb("internal-vpc"), "true")]);
    let status = harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!(
        (shown(&status), harness.eips().len()),
        (vec![text(&harness.blb()["address"])], 0)
    );
    annotate(&mut service, blb("internal-vpc"), "false");
    let status = harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!(shown(&status), [text(&harness.eips()[0]["eip"])]);
    annotate(&mut service, blb("internal-vpc"), "true");
    let status = harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!(
        (shown(&status), harness.eips().len()),
        (vec![text(&harness.blb()["address"])], 0)
    );
}

/// Lets the Service `default/web` have endpoints on these Nodes.
fn set_endpoints(harness: &Harness, nodes: &[&str]) {
    let endpoints: Vec<_> = nodes.iter().map(|node| json!({"nodeName": node})).collect();
    let path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    harness.cluster.set_document(
        path,
        json!({"items": [{"endpoints": endpoints}]}).to_string(),
    );
}

/// Returns the instances that are backends of the only BLB.
fn backends(harness: &Harness) -> BTreeSet<String> {
    list(&harness.blb()["backends"])
        .map(|backends| text(&backends["instanceId"]))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn backends_with_the_policy_local_are_the_nodes_with_endpoints() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut service = service_of(
        &[],
        json!({"externalTrafficPolicy": "Local", "healthCheckNodePort": 32000}),
    );
    for nodes in [
        &["worker-2"][..],
        &["worker-1", "worker-2"],
        &[],
        &["worker-1"],
    ] {
        set_endpoints(&harness, nodes);
        harness.ensure(&provider, &mut service).await.unwrap();
        assert_eq!(
            backends(&harness),
            nodes
                .iter()
                .map(|name| text(&harness.instance(name)["id"]))
                .collect()
        );
        assert_eq!(list(&harness.blb()["listeners"]).count(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn all_nodes_are_backends_without_the_permission_to_read_endpoints() {
    let harness = Harness::new();
    let provider = harness.provider_with(|builder| builder.service(harness.fake.router()));
    let context = Context {
        clients: Arc::new(AnsweringStatus(StatusCode::FORBIDDEN)),
        ..harness.cluster.context(crate::harness::cluster())
    };
    provider.initialize(&context).await.unwrap();
    provider.set_caches(Arc::new(harness.cluster.clone()));
    let mut service = service_of(
        &[],
        json!({"externalTrafficPolicy": "Local", "healthCheckNodePort": 32000}),
    );
    harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!(backends(&harness).len(), 2);
    assert!(
        harness
            .events()
            .iter()
            .any(|event| event.starts_with("EndpointsUnknown"))
    );
}

#[tokio::test(start_paused = true)]
async fn dual_stack_service_shows_the_ipv6_address() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut service = service(&[]);
    harness.ensure(&provider, &mut service).await.unwrap();
    service.spec.as_mut().unwrap().ip_families = Some(vec!["IPv4".into(), "IPv6".into()]);
    harness.ensure(&provider, &mut service).await.unwrap();
    let provider = harness.started().await;
    let status = harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!(
        shown(&status),
        ["240c::1".to_owned(), text(&harness.eips()[0]["eip"])]
    );
}

#[tokio::test(start_paused = true)]
async fn bandwidth_is_changed_in_place_and_payment_is_not() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut service = service(&[(eip("bandwidth-in-mbps"), "10")]);
    harness.ensure(&provider, &mut service).await.unwrap();
    annotate(&mut service, eip("bandwidth-in-mbps"), "20");
    harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!(harness.eips()[0]["bandwidthInMbps"], 20);
    harness.fake.lock().eips[0]["shareGroupId"] = "eg-1".into();
    annotate(&mut service, eip("bandwidth-in-mbps"), "30");
    let provider = harness.started().await;
    harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!(
        harness.eips()[0]["bandwidthInMbps"],
        20,
        "the bandwidth is that of the group"
    );
    annotate(&mut service, eip("billing-method"), "ByBandwidth");
    let error = harness
        .ensure(&provider, &mut service)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("billing-method: ByTraffic → ByBandwidth"),
        "{error}"
    );
    harness.delete(&provider, &service).await.unwrap();
    let left = harness.eips();
    assert_eq!(
        (left.len(), &left[0]["status"]),
        (1, &json!("available")),
        "the EIP of a group is unbound and stays"
    );
}

#[tokio::test(start_paused = true)]
async fn eips_of_users_are_bound_and_never_deleted() {
    let harness = Harness::new();
    let [one, other, named] =
        ["one", "other", "named"].map(|name| harness.fake.lock().add_eip(ACCOUNT, name));
    let provider = harness.started().await;
    let mut fixed = service_of(&[], json!({"loadBalancerIP": one}));
    assert_eq!(
        shown(&harness.ensure(&provider, &mut fixed).await.unwrap()),
        [&*one]
    );
    fixed.spec.as_mut().unwrap().load_balancer_ip = Some(other.clone());
    assert_eq!(
        shown(&harness.ensure(&provider, &mut fixed).await.unwrap()),
        [&*other]
    );
    fixed.spec.as_mut().unwrap().load_balancer_ip = Some("198.51.100.99".to_owned());
    let error = harness
        .ensure(&provider, &mut fixed)
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("there is no EIP 198.51.100.99"), "{error}");
    fixed.spec.as_mut().unwrap().load_balancer_ip = Some(other);
    harness.delete(&provider, &fixed).await.unwrap();

    let mut by_name = service(&[(eip("name"), "named")]);
    assert_eq!(
        shown(&harness.ensure(&provider, &mut by_name).await.unwrap()),
        [named]
    );
    harness.delete(&provider, &by_name).await.unwrap();
    let left = harness.eips();
    assert_eq!(left.len(), 3);
    assert!(
        left.iter()
            .all(|object| object["status"] == "available" && object["instanceId"] == ""),
        "{left:#?}"
    );
    assert!(harness.fake.lock().blbs.is_empty());
}

#[tokio::test(start_paused = true)]
async fn prepaid_eip_is_unbound_with_an_event() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut service = service(&[
        (eip("payment-timing"), "Prepaid"),
        (eip("reservation-length"), "12"),
    ]);
    harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!(harness.eips()[0]["bandwidthInMbps"], 200);
    harness.delete(&provider, &service).await.unwrap();
    assert!(harness.fake.lock().blbs.is_empty() && harness.eips()[0]["status"] == "available");
    assert!(
        harness
            .events()
            .iter()
            .any(|event| event.starts_with("EIPNotReleased"))
    );
}

#[tokio::test(start_paused = true)]
async fn blb_of_a_user_is_used_and_released() {
    let harness = Harness::new();
    let (id, own) = {
        let mut cloud = harness.fake.lock();
        (
            cloud.add_blb(ACCOUNT, "mine", "for the shop"),
            cloud.add_eip(ACCOUNT, "shop"),
        )
    };
    harness.fake.lock().bind(&own, &id);
    let provider = harness.started().await;
    let mut lent = service(&[(blb("exist-id"), &id)]);
    assert_eq!(
        shown(&harness.ensure(&provider, &mut lent).await.unwrap()),
        [&*own]
    );
    let written = lent.metadata.annotations.clone().unwrap();
    assert_eq!(
        written.get(&blb("cce-add-id")),
        Some(&id),
        "without it the Go program would not release the BLB"
    );
    assert!(
        !written.contains_key(&blb("id")),
        "the BLB is not generated"
    );
    let made = harness.blb();
    assert_eq!(
        made["desc"],
        format!("for the shop ccmrs-keep-eip ccmrs-cluster:5c1d ccmrs-service:{UID}")
    );
    assert_eq!(list(&made["listeners"]).count(), 2);
    let provider = harness.started().await;
    harness.delete(&provider, &lent).await.unwrap();
    let left = harness.blb();
    assert_eq!(
        (&left["desc"], &left["listeners"], &left["backends"]),
        (&json!("for the shop"), &json!([]), &json!([]))
    );
    assert_eq!(left["publicIp"], own, "the user's EIP stays bound");
    let mut wrong = service(&[(blb("exist-id"), "lb-none")]);
    let error = harness
        .ensure(&provider, &mut wrong)
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("there is no BLB lb-none"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn reserved_blb_stays_without_listeners_and_protected_one_with_all() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut reserved = service(&[(blb("reserve-lb"), "true")]);
    harness.ensure(&provider, &mut reserved).await.unwrap();
    harness.delete(&provider, &reserved).await.unwrap();
    let left = harness.blb();
    assert_eq!(
        (&left["desc"], &left["listeners"], harness.eips().len()),
        (&json!(DESCRIPTION), &json!([]), 0)
    );

    let harness = Harness::new();
    let provider = harness.started().await;
    let mut protected = service(&[]);
    harness.ensure(&provider, &mut protected).await.unwrap();
    harness.fake.lock().blbs[0]["allowDelete"] = false.into();
    let provider = harness.started().await;
    let error = harness.delete(&provider, &protected).await.unwrap_err();
    assert!(error.is_protected(), "{error}");
    assert_eq!(list(&harness.blb()["listeners"]).count(), 2);
}

#[tokio::test(start_paused = true)]
async fn blb_of_the_go_program_is_taken_over_without_a_change_and_deleted_with_its_eip() {
    for name in [
        "CCE/SVC/c-1/default/web",
        "c-1/default/web",
        "a0b0a1c0f3f3e4c57a1b59f5f2a7d8c1",
    ] {
        let harness = Harness::new();
        let provider = harness.started().await;
        let mut service = service(&[]);
        harness.ensure(&provider, &mut service).await.unwrap();
        harness.go_program_left(name);
        if name.starts_with('a') {
            annotate(
                &mut service,
                blb("cce-add-id"),
                &text(&harness.blb()["blbId"]),
            );
        }
        let provider = harness.started().await;
        harness.ensure(&provider, &mut service).await.unwrap();
        assert_eq!(harness.changes(), [""; 0], "{name}");
        harness.delete(&provider, &service).await.unwrap();
        assert!(
            harness.fake.lock().blbs.is_empty() && harness.eips().is_empty(),
            "{name}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn recorded_id_of_a_blb_that_was_deleted_by_hand_leads_to_a_new_one() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut service = service(&[]);
    harness.ensure(&provider, &mut service).await.unwrap();
    let id = text(&harness.blb()["blbId"]);
    [blb("id"), blb("cce-add-id")]
        .into_iter()
        .for_each(|key| annotate(&mut service, key, &id));
    {
        let mut cloud = harness.fake.lock();
        cloud.blbs.clear();
        (cloud.eips[0]["instanceId"], cloud.eips[0]["status"]) = ("".into(), "available".into());
    }
    let provider = harness.started().await;
    let status = harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!(
        (shown(&status), harness.eips().len()),
        (vec![text(&harness.eips()[0]["eip"])], 1),
        "the EIP is used again"
    );
    assert_ne!(text(&harness.blb()["blbId"]), id);
}

#[tokio::test(start_paused = true)]
async fn eip_of_a_blb_that_was_deleted_by_hand_goes_with_the_service() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut service = service(&[]);
    harness.ensure(&provider, &mut service).await.unwrap();
    {
        let mut cloud = harness.fake.lock();
        cloud.blbs.clear();
        (cloud.eips[0]["instanceId"], cloud.eips[0]["status"]) = ("".into(), "available".into());
    }
    service.metadata.deletion_timestamp =
        Some(serde_json::from_value(json!("2026-11-26T00:00:00Z")).unwrap());
    let provider = harness.started().await;
    harness.delete(&provider, &service).await.unwrap();
    assert_eq!(harness.eips(), [Value::Null; 0]);
}

#[tokio::test(start_paused = true)]
async fn subnet_is_chosen_and_checked() {
    let harness = Harness::new();
    harness
        .fake
        .lock()
        .instances
        .iter_mut()
        .for_each(|instance| instance["subnetId"] = "sbn-nat".into());
    let provider = harness.started().await;
    let error = harness
        .ensure(&provider, &mut service(&[]))
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("no subnet of the VPC is for BLBs"),
        "{error}"
    );
    for (id, expected) in [
        ("sbn-nat", "is of type BCC_NAT"),
        ("sbn-none", "there is no subnet sbn-none"),
    ] {
        let error = harness
            .ensure(&provider, &mut service(&[(blb("subnet-id"), id)]))
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected), "{error}");
    }
    harness.fake.lock().subnets[0]["name"] = "CCE-Reserve".into();
    harness.ensure(&provider, &mut service(&[])).await.unwrap();
    assert_eq!(harness.blb()["subnetId"], "sbn-1");
}

#[tokio::test(start_paused = true)]
async fn wrong_annotations_name_value_and_choices() {
    let harness = Harness::new();
    let provider = harness.started().await;
    for (annotations, expected) in [
        (vec![(blb("rs-max-num"), "0")], "whole number from 1 to 50"),
        (vec![(blb("rs-max-num"), "51")], "whole number from 1 to 50"),
        (vec![(blb("scheduler"), "x")], "RoundRobin"),
        (
            vec![(blb("health-check-timeout-in-second"), "61")],
            "1 to 60",
        ),
        (vec![(blb("health-check-interval"), "x")], "1 to 10"),
        (vec![(blb("unhealthy-threshold"), "1")], "2 to 5"),
        (vec![(eip("billing-method"), "test")], "ByTraffic"),
        (vec![(eip("bandwidth-in-mbps"), "1000000")], "1 to 1000"),
        (
            vec![
                (eip("bandwidth-in-mbps"), "201"),
                (eip("billing-method"), "ByBandwidth"),
            ],
            "the most for this EIP is 200",
        ),
        (
            vec![(eip("payment-timing"), "Prepaid")],
            "reservation-length is required",
        ),
        (
            vec![
                (eip("payment-timing"), "Prepaid"),
                (eip("reservation-length"), "10"),
            ],
            "1 to 9, 12, 24 or 36",
        ),
        (
            vec![
                (eip("payment-timing"), "Prepaid"),
                (eip("reservation-length"), "1"),
                (eip("billing-method"), "ByTraffic"),
            ],
            "is not possible",
        ),
    ] {
        let error = harness
            .ensure(&provider, &mut service(&annotations))
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected), "{annotations:?}: {error}");
    }
    for (spec, expected) in [
        (
            json!({"loadBalancerIP": "x"}),
            "is not the IPv4 address of an EIP",
        ),
        (
            json!({"ports": [{"port": 5, "nodePort": 30005, "protocol": "SCTP"}]}),
            "SCTP",
        ),
    ] {
        let error = harness
            .ensure(&provider, &mut service_of(&[], spec))
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected), "{error}");
    }
    assert!(harness.fake.lock().blbs.is_empty());
    harness
        .ensure(
            &provider,
            &mut service_of(&[], json!({"loadBalancerSourceRanges": ["192.0.2.0/24"]})),
        )
        .await
        .unwrap();
    assert!(
        harness
            .events()
            .iter()
            .any(|event| event.contains("loadBalancerSourceRanges has no effect"))
    );
}

#[tokio::test(start_paused = true)]
async fn two_services_with_one_blb_are_refused() {
    let harness = Harness::new();
    let id = harness.fake.lock().add_blb(ACCOUNT, "mine", "mine");
    let provider = harness.started().await;
    let mut first = service(&[(blb("exist-id"), &id)]);
    harness.ensure(&provider, &mut first).await.unwrap();
    let mut second: Service = service(&[(blb("exist-id"), &id)]);
    second.metadata.uid = Some("another".into());
    second.metadata.name = Some("other".into());
    harness
        .cluster
        .set_services([first.clone(), second.clone()]);
    let nodes = harness.cluster.nodes();
    let cluster = crate::harness::cluster();
    let request = cloud_provider::LoadBalancerRequest {
        cluster: &cluster,
        service: &second,
        nodes: &nodes,
        callbacks: &(),
    };
    let error = provider
        .load_balancers()
        .unwrap()
        .ensure(request)
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("belongs to Service default/web"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn quota_and_permission_errors_have_their_class() {
    let harness = Harness::new();
    let provider = harness.started().await;
    harness
        .fake
        .fault_injector()
        .fail(Fault::refused_as("POST /v1/blb", 400, "BlbQuotaExceedLimit", "no more").times(1));
    let error = harness
        .ensure(&provider, &mut service(&[]))
        .await
        .unwrap_err();
    assert!(
        error.is_quota() && error.to_string().contains("x-bce-request-id"),
        "{error}"
    );
    harness
        .fake
        .fault_injector()
        .fail(Fault::refused_as("POST /v1/blb", 403, "AccessDenied", "no").times(2));
    assert!(
        harness
            .ensure(&provider, &mut service(&[]))
            .await
            .unwrap_err()
            .is_unauthorized()
    );
}

#[tokio::test(start_paused = true)]
async fn list_that_is_truncated_without_a_next_page_is_no_proof() {
    let harness = Harness::new();
    let provider = harness.started().await;
    harness.fake.lock().has_more = true;
    let error = harness
        .ensure(&provider, &mut service(&[]))
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("list of blbList is partial"), "{error}");
    assert!(harness.fake.lock().blbs.is_empty());
}
