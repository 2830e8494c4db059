//! BLBs of users with parts of their own, and BLBs whose signs of ownership a person has edited.

use baidu_fake::ACCOUNT;
use cloud_provider::{Caches, CloudProvider, LoadBalancerRequest};
use serde_json::json;

use crate::harness::{Harness, UID, annotate, blb, cluster, eip, service, service_of};
use crate::profile::{DESCRIPTION, list, text};

const OWNER: &str = "ccmrs-cluster:5c1d ccmrs-service:0b0a1c0f-3f3e-4c57-a1b5-9f5f2a7d8c11";

/// Adds a BLB of the user with a listener on this port, and a backend that is no Node.
pub(crate) fn add_used(harness: &Harness, port: u16) -> String {
    let mut cloud = harness.fake.lock();
    let machine = cloud.add_instance(ACCOUNT, "database");
    let id = cloud.add_blb(ACCOUNT, "mine", "mine");
    let blbs = cloud.blbs.last_mut().unwrap();
    blbs["listeners"] = json!([{"listenerPort": port, "listenerType": "TCP", "backendPort": port, "scheduler": "RoundRobin"}]);
    blbs["backends"] = json!([{"instanceId": machine, "weight": 100}]);
    id
}

#[tokio::test(start_paused = true)]
async fn blb_of_a_user_with_listeners_is_refused_and_stays_when_the_service_is_deleted() {
    for port in [8080, 80] {
        let harness = Harness::new();
        let id = add_used(&harness, port);
        let before = harness.blb();
        for key in ["exist-id", "id"] {
            let provider = harness.started().await;
            let mut lent = service(&[(blb(key), &id)]);
            let error = harness.ensure(&provider, &mut lent).await.unwrap_err();
            let text = error.to_string();
            assert!(
                error.is_invalid() && text.contains(&format!("{port}/TCP")) && text.contains("i-"),
                "{error}"
            );
            let nodes = harness.cluster.nodes();
            let cluster = cluster();
            let request = LoadBalancerRequest {
                cluster: &cluster,
                service: &lent,
                nodes: &nodes,
                callbacks: &(),
            };
            provider
                .load_balancers()
                .unwrap()
                .update_targets(request)
                .await
                .unwrap_err();
            harness.delete(&provider, &lent).await.unwrap();
            assert_eq!(
                (harness.blb(), harness.changes()),
                (before.clone(), Vec::new()),
                "{key}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn blb_of_a_user_that_the_go_program_serves_loses_other_listeners_with_an_event() {
    let harness = Harness::new();
    let id = add_used(&harness, 8080);
    let mut lent = service(&[
        (blb("exist-id"), &id),
        (blb("cce-add-id"), &id),
        (blb("internal-vpc"), "true"),
    ]);
    let address = harness.blb()["address"].clone();
    lent.status =
        serde_json::from_value(json!({"loadBalancer": {"ingress": [{"ip": address}]}})).unwrap();
    harness
        .ensure(&harness.started().await, &mut lent)
        .await
        .unwrap();
    assert_eq!(list(&harness.blb()["listeners"]).count(), 2);
    let events = harness.events().join("\n");
    assert!(
        events.contains("ListenerDeleted") && events.contains("8080/TCP"),
        "{events}"
    );
}

#[tokio::test(start_paused = true)]
async fn description_that_a_person_edited_is_written_again() {
    for edited in ["mine, all mine", "", OWNER] {
        let harness = Harness::new();
        let mut service = service(&[]);
        harness
            .ensure(&harness.started().await, &mut service)
            .await
            .unwrap();
        harness.fake.lock().blbs[0]["desc"] = edited.into();
        harness
            .ensure(&harness.started().await, &mut service)
            .await
            .unwrap();
        let written = text(&harness.blb()["desc"]);
        assert!(
            written.contains(DESCRIPTION) && written.ends_with(OWNER),
            "{edited:?}: {written}"
        );
        harness.fake.fault_injector().forget_requests();
        harness
            .ensure(&harness.started().await, &mut service)
            .await
            .unwrap();
        assert_eq!(harness.changes(), [""; 0]);
        harness
            .delete(&harness.started().await, &service)
            .await
            .unwrap();
        assert_eq!(
            (harness.eips().len(), harness.fake.lock().blbs.len()),
            (0, 0),
            "{edited:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn blb_whose_description_was_edited_is_deleted_with_its_eip() {
    for is_of_the_go_program in [false, true] {
        let harness = Harness::new();
        let mut service = service(&[]);
        harness
            .ensure(&harness.started().await, &mut service)
            .await
            .unwrap();
        if is_of_the_go_program {
            harness.go_program_left("CCE/SVC/c-1/default/web");
        }
        harness.fake.lock().blbs[0]["desc"] = "mine".into();
        harness
            .delete(&harness.started().await, &service)
            .await
            .unwrap();
        assert_eq!(
            (harness.eips().len(), harness.fake.lock().blbs.len()),
            (0, 0),
            "{is_of_the_go_program}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn blb_without_any_sign_stays_with_an_event_when_its_service_is_deleted() {
    for has_record in [true, false] {
        let harness = Harness::new();
        let mut service = service(&[]);
        harness
            .ensure(&harness.started().await, &mut service)
            .await
            .unwrap();
        harness.fake.lock().blbs[0]["desc"] = "mine".into();
        match has_record {
            true => harness.fake.lock().blbs[0]["name"] = "mine".into(),
            false => service.metadata.annotations = None,
        }
        harness.events();
        harness
            .delete(&harness.started().await, &service)
            .await
            .unwrap();
        let events = harness.events().join("\n");
        let id = text(&harness.blb()["blbId"]);
        assert!(
            events.contains("LoadBalancerKept") && events.contains(&id),
            "{has_record}: {events}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn value_that_does_not_say_if_the_service_is_internal_is_refused() {
    for key in ["internal-vpc", "reserve-lb"] {
        for value in ["yes", "True", "1", "intranet"] {
            let harness = Harness::new();
            let error = harness
                .ensure(&harness.started().await, &mut service(&[(blb(key), value)]))
                .await
                .unwrap_err();
            assert!(
                error.is_invalid() && error.to_string().contains(value),
                "{error}"
            );
            assert_eq!(harness.changes(), [""; 0]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn fields_of_other_blbs_and_eips_that_are_not_understood_fail_no_service() {
    let harness = Harness::new();
    {
        let mut cloud = harness.fake.lock();
        cloud.add_blb(ACCOUNT, "theirs", "theirs");
        let entry = &mut cloud.blbs[0];
        (
            entry["name"],
            entry["status"],
            entry["allowDelete"],
            entry["publicIp"],
        ) = (json!(7), json!(null), json!("no"), json!({}));
        cloud.add_eip(ACCOUNT, "theirs");
        let object = &mut cloud.eips[0];
        (object["bandwidthInMbps"], object["status"], object["tags"]) =
            (json!("1.5"), json!(null), json!([{"tagKey": null}]));
    }
    harness
        .ensure(&harness.started().await, &mut service(&[]))
        .await
        .unwrap();
    assert_eq!(harness.fake.lock().blbs.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn refusal_of_a_blb_without_owner_names_the_description_that_makes_it_the_services() {
    let harness = Harness::new();
    let default = "a0b0a1c0f3f3e4c57a1b59f5f2a7d8c1";
    harness.fake.lock().add_blb(ACCOUNT, default, "theirs");
    let error = harness
        .ensure(&harness.started().await, &mut service(&[]))
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("description") && error.contains(OWNER) && error.contains(UID),
        "{error}"
    );
    assert!(
        !error.contains("ccm-rs/service="),
        "a BLB cannot get tags later: {error}"
    );
}

#[tokio::test(start_paused = true)]
async fn setting_that_has_no_effect_is_reported() {
    let internal = (blb("internal-vpc"), "true");
    for (annotations, spec, key) in [
        (
            vec![internal.clone(), (eip("bandwidth-in-mbps"), "10")],
            json!({}),
            "bandwidth-in-mbps",
        ),
        (
            vec![internal.clone(), (eip("name"), "x")],
            json!({}),
            "elastic-ip-name",
        ),
        (
            vec![internal],
            json!({"loadBalancerIP": "198.51.100.7"}),
            "loadBalancerIP",
        ),
        (
            vec![(eip("reservation-length"), "1")],
            json!({}),
            "reservation-length",
        ),
        (
            vec![(blb("health-check-string"), "x")],
            json!({}),
            "health-check-string",
        ),
        (
            vec![(blb("allocate-vip"), "true")],
            json!({}),
            "allocate-vip",
        ),
    ] {
        let harness = Harness::new();
        harness
            .ensure(
                &harness.started().await,
                &mut service_of(&annotations, spec),
            )
            .await
            .unwrap();
        let events = harness.events().join("\n");
        assert!(
            events.contains("QuestionableSetting") && events.contains(key),
            "{key}: {events}"
        );
    }
    let harness = Harness::new();
    let mut plain = service(&[]);
    harness
        .ensure(&harness.started().await, &mut plain)
        .await
        .unwrap();
    assert_eq!(harness.events(), [""; 0]);
    annotate(&mut plain, blb("lb-name"), "shop");
    harness
        .ensure(&harness.started().await, &mut plain)
        .await
        .unwrap();
    let events = harness.events().join("\n");
    assert!(
        events.contains("lb-name") && events.contains("keeps its name"),
        "{events}"
    );
}

#[tokio::test(start_paused = true)]
async fn subnet_that_changes_later_is_reported() {
    let harness = Harness::new();
    let mut plain = service(&[(blb("subnet-id"), "sbn-1")]);
    harness
        .ensure(&harness.started().await, &mut plain)
        .await
        .unwrap();
    harness
        .ensure(&harness.started().await, &mut plain)
        .await
        .unwrap();
    assert_eq!(harness.events(), [""; 0]);
    annotate(&mut plain, blb("subnet-id"), "sbn-2");
    harness
        .ensure(&harness.started().await, &mut plain)
        .await
        .unwrap();
    let events = harness.events().join("\n");
    assert!(
        events.contains("QuestionableSetting") && events.contains("stays in subnet sbn-1"),
        "{events}"
    );
}

#[tokio::test(start_paused = true)]
async fn backend_that_the_cloud_refuses_keeps_no_other_one_out() {
    for is_new in [true, false] {
        let harness = Harness::new();
        let mut service = service(&[]);
        if !is_new {
            harness
                .ensure(&harness.started().await, &mut service)
                .await
                .unwrap();
        }
        harness.add_node("worker-3");
        harness.fake.lock().instances[2]["vpcId"] = "vpc-other".into();
        harness
            .ensure(&harness.started().await, &mut service)
            .await
            .unwrap();
        assert_eq!(list(&harness.blb()["backends"]).count(), 2, "{is_new}");
        let events = harness.events().join("\n");
        assert!(
            events.contains("BackendRefused") && events.contains("the VPC has none of them"),
            "{events}"
        );
    }
}
