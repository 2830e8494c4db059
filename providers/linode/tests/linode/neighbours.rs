//! The NodeBalancer that a Service names, and NodeBalancers of other Services.

use cloud_provider::Service;
use serde_json::json;

use crate::harness::{Harness, annotate, service, service_of};

#[tokio::test(start_paused = true)]
async fn annotation_that_names_no_nodebalancer_is_an_error_and_creates_none() {
    for (id, expected) in [
        ("web", "is not a whole number"),
        ("42", "there is no NodeBalancer 42"),
    ] {
        let harness = Harness::new();
        let provider = harness.started().await;
        let error = harness
            .ensure(&provider, &mut service(&[("nodebalancer-id", id)]))
            .await
            .unwrap_err();
        assert!(
            error.is_invalid() && error.to_string().contains(expected),
            "{error}"
        );
        assert!(harness.fake.lock().nodebalancers.is_empty());
    }
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut service = service(&[]);
    harness.ensure(&provider, &mut service).await.unwrap();
    annotate(&mut service, "nodebalancer-id", "42");
    let error = harness.ensure(&provider, &mut service).await.unwrap_err();
    assert!(
        error.is_invalid() && error.to_string().contains("there is no NodeBalancer 42"),
        "{error}"
    );
    harness.add_node("worker-3");
    harness.update_targets(&provider, &service).await.unwrap();
    assert_eq!(
        harness.nodebalancer().1[0]["nodes"]
            .as_array()
            .unwrap()
            .len(),
        3
    );
}

#[tokio::test(start_paused = true)]
async fn service_of_the_go_program_that_moves_leaves_no_nodebalancer_behind() {
    for preserve in ["false", "true"] {
        let harness = Harness::new();
        let provider = harness.started().await;
        let mut service = service(&[("preserve", preserve)]);
        harness.ensure(&provider, &mut service).await.unwrap();
        // As the Go cloud-controller-manager leaves it: without owner tags.
        let other = {
            let mut cloud = harness.fake.lock();
            cloud.nodebalancers[0]["label"] = "ccm-4a5b6c7d8e9f".into();
            cloud.nodebalancers[0]["tags"] = json!(["kubernetes"]);
            cloud.add_nodebalancer("other").to_string()
        };
        annotate(&mut service, "nodebalancer-id", &other);
        let provider = harness.started().await;
        harness.ensure(&provider, &mut service).await.unwrap();
        let left: Vec<_> = harness
            .fake
            .lock()
            .nodebalancers
            .iter()
            .map(|nodebalancer| nodebalancer["label"].clone())
            .collect();
        match preserve {
            "true" => assert_eq!(left, ["ccm-4a5b6c7d8e9f", "other"]),
            _ => assert_eq!(left, ["other"]),
        }
        assert!(
            harness
                .events()
                .iter()
                .any(|event| event.starts_with("NodeBalancerMoved"))
        );
    }
}

#[tokio::test(start_paused = true)]
async fn copy_of_a_service_takes_no_nodebalancer_of_the_go_program() {
    let harness = Harness::new();
    let id = harness.fake.lock().add_nodebalancer("by-hand").to_string();
    let provider = harness.started().await;
    let mut original = service(&[("nodebalancer-id", &id)]);
    harness.ensure(&provider, &mut original).await.unwrap();
    harness.fake.lock().nodebalancers[0]["tags"] = json!([]);
    let mut copy = Service {
        status: None,
        ..original.clone()
    };
    copy.metadata.name = Some("copy".to_owned());
    copy.metadata.uid = Some("1b0a1c0f-3f3e-4c57-a1b5-9f5f2a7d8c12".to_owned());
    let provider = harness.started().await;
    let error = harness
        .ensure_beside(&provider, &copy, &[original.clone()])
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("belongs to Service default/web"),
        "{error}"
    );
    assert_eq!(harness.nodebalancer().0["tags"], json!([]));
}

#[tokio::test(start_paused = true)]
async fn frontend_subnet_decides_between_two_nodebalancers_with_one_address() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut service = service(&[("frontend-subnet-id", "71")]);
    harness.ensure(&provider, &mut service).await.unwrap();
    {
        let mut cloud = harness.fake.lock();
        let other = cloud.add_nodebalancer("other");
        let ip = cloud.nodebalancers[0]["ipv4"].clone();
        cloud.nodebalancers[0]["tags"] = json!([]);
        cloud.nodebalancers[0]["label"] = "ccm-4a5b6c7d8e9f".into();
        cloud.nodebalancers[1]["ipv4"] = ip;
        cloud.nodebalancers[1]["frontend_address_type"] = "vpc".into();
        cloud.nodebalancers[1]["frontend_vpc_subnet_id"] = 72.into();
        cloud.nodebalancers.reverse();
        assert_eq!(cloud.nodebalancers[0]["id"], other);
    }
    annotate(&mut service, "throttle", "5");
    let provider = harness.started().await;
    harness.ensure(&provider, &mut service).await.unwrap();
    let throttle =
        |at: usize| harness.fake.lock().nodebalancers[at]["client_conn_throttle"].clone();
    assert_eq!((throttle(0), throttle(1)), (json!(0), json!(5)));
    harness.delete(&provider, &service).await.unwrap();
    assert_eq!(harness.nodebalancer().0["label"], "other");
}

#[tokio::test(start_paused = true)]
async fn public_nodebalancer_does_not_stay_public_without_a_word() {
    for is_restarted in [false, true] {
        let harness = Harness::new();
        let provider = harness.started().await;
        let mut service = service(&[]);
        harness.ensure(&provider, &mut service).await.unwrap();
        annotate(&mut service, "frontend-subnet-id", "71");
        let provider = if is_restarted {
            harness.started().await
        } else {
            provider
        };
        let error = harness.ensure(&provider, &mut service).await.unwrap_err();
        assert!(
            error.is_invalid() && error.to_string().contains("reached from the Internet"),
            "{error}"
        );
        harness.add_node("worker-3");
        harness.update_targets(&provider, &service).await.unwrap();
        assert_eq!(
            harness.nodebalancer().1[0]["nodes"]
                .as_array()
                .unwrap()
                .len(),
            3
        );
    }
}

#[tokio::test(start_paused = true)]
async fn settings_without_effect_get_a_warning() {
    for (annotations, more, expected) in [
        (
            vec![],
            json!({"loadBalancerIP": "203.0.113.9"}),
            "loadBalancerIP: 203.0.113.9 has no effect",
        ),
        (
            vec![],
            json!({"sessionAffinity": "ClientIP"}),
            "sessionAffinity: ClientIP has no effect",
        ),
        (
            vec![("check-path", "/up")],
            json!({}),
            "check-path has no effect with",
        ),
        (
            vec![("check-type", "http"), ("check-body", "ok")],
            json!({}),
            "check-body has no effect with",
        ),
    ] {
        let harness = Harness::new();
        let provider = harness.started().await;
        harness
            .ensure(&provider, &mut service_of(&annotations, more))
            .await
            .unwrap();
        let events = harness.events();
        let is_this_text =
            |text: &String| text.starts_with("QuestionableAnnotation") && text.contains(expected);
        assert!(events.iter().any(is_this_text), "{expected}: {events:?}");
    }
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut service = service(&[("nodebalancer-type", "common")]);
    harness.ensure(&provider, &mut service).await.unwrap();
    annotate(&mut service, "nodebalancer-type", "premium");
    harness.ensure(&provider, &mut service).await.unwrap();
    let events = harness.events();
    assert!(
        events
            .iter()
            .any(|event| event.starts_with("SettingIgnored") && event.contains("keeps common")),
        "{events:?}"
    );
}
