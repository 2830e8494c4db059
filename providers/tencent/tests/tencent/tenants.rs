//! Limits of the author of a Service: load balancers of users keep their settings, and parameters of requests are
//! those that the page lists.

use std::sync::Arc;

use axum::{Json, Router};
use cloud_provider::{CloudProvider, LookupRequest, MetadataLevel, Node};
use provider_kit::transport::in_process;
use provider_tencent::Tencent;
use serde_json::json;

use crate::harness::{Harness, annotate, service};
use crate::load_balancers::{EXISTING, EXTENSIVE, GROUPS, LISTENER};
use crate::profile::add_balancer;

#[tokio::test(start_paused = true)]
async fn load_balancer_of_a_user_keeps_its_security_groups() {
    let harness = Harness::new();
    let id = add_balancer(&mut harness.fake.lock(), "mine");
    harness
        .fake
        .lock()
        .each("balancer")
        .iter_mut()
        .for_each(|balancer| balancer["SecureGroups"] = json!(["sg-theirs"]));
    let mut service = service(&[(EXISTING, &id), (GROUPS, "sg-mine1")]);
    let error = harness
        .ensure(&harness.started().await, &mut service)
        .await
        .unwrap_err();
    assert!(
        error.is_invalid()
            && error
                .to_string()
                .contains("security-groups is not possible"),
        "{error}"
    );
    assert!(harness.changes().is_empty());
    service
        .metadata
        .annotations
        .as_mut()
        .unwrap()
        .remove(GROUPS);
    harness
        .ensure(&harness.started().await, &mut service)
        .await
        .unwrap();
    annotate(&mut service, GROUPS, "sg-mine1");
    harness
        .ensure(&harness.started().await, &mut service)
        .await
        .unwrap_err();
    harness
        .delete(&harness.started().await, &service)
        .await
        .unwrap();
    assert_eq!(
        harness.only("balancer")["SecureGroups"],
        json!(["sg-theirs"])
    );
}

#[tokio::test(start_paused = true)]
async fn load_balancer_of_another_vpc_is_not_used() {
    let harness = Harness::new();
    let id = add_balancer(&mut harness.fake.lock(), "theirs");
    harness
        .fake
        .lock()
        .each("balancer")
        .iter_mut()
        .for_each(|balancer| balancer["VpcId"] = "vpc-theirs".into());
    let before = harness.only("balancer");
    let mut service = service(&[(EXISTING, &id)]);
    let error = harness
        .ensure(&harness.started().await, &mut service)
        .await
        .unwrap_err();
    assert!(
        error.is_invalid() && error.to_string().contains("there is no load balancer"),
        "{error}"
    );
    harness
        .delete(&harness.started().await, &service)
        .await
        .unwrap();
    assert_eq!(
        (harness.only("balancer"), harness.changes()),
        (before, Vec::new())
    );
}

#[tokio::test(start_paused = true)]
async fn answer_that_is_no_object_is_an_error() {
    for answer in [
        json!(["x"]),
        json!("x"),
        json!(7),
        json!({"InstanceSet": "x"}),
    ] {
        let answer = json!({"Response": answer});
        let odd = Router::new().fallback(async move || Json(answer));
        let provider = Tencent::new(&Harness::new().setup(), in_process(odd)).unwrap();
        let node = Node {
            provider_id: "tencentcloud:///1/ins-1".into(),
            ..Node::default()
        };
        let request = LookupRequest {
            existence: true,
            shutdown: false,
            metadata: MetadataLevel::No,
            fresh: true,
        };
        let found = provider
            .instances()
            .unwrap()
            .lookup(&[Arc::new(node)], request)
            .await
            .remove(0);
        assert!(found.is_err(), "{found:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn parameter_that_is_not_listed_reaches_no_request() {
    let provider = Harness::new().started().await;
    let refused = [
        (
            EXTENSIVE,
            r#"{"AccessLogTopicId": "x", "ExclusiveCluster": {}, "LoadBalancerPassToTarget": true}"#,
            3,
        ),
        (EXTENSIVE, r#"{"loadBalancerName": "x", "Unknown": 1}"#, 2),
        (
            LISTENER,
            r#"{"LoadBalancerId": "lb-1", "Protocol": "TCP", "TargetType": "TARGETGROUP", "FullEndPorts": [1]}"#,
            4,
        ),
    ];
    for (key, value, count) in refused {
        let mistakes = provider
            .load_balancers()
            .unwrap()
            .review(&service(&[(key, value)]))
            .errors;
        let found = mistakes
            .iter()
            .filter(|mistake| mistake.contains("cannot be set here"))
            .count();
        assert_eq!(found, count, "{value}: {mistakes:?}");
    }
    let accepted = [
        (
            EXTENSIVE,
            r#"{"AddressIPVersion": "IPV4", "EipAddressId": "eip-1", "SlaType": "clb.c2.medium", "ZoneId": "z"}"#,
        ),
        (
            LISTENER,
            r#"{"Scheduler": "WRR", "ProxyProtocol": true, "HealthCheck": {"TimeOut": 3}}"#,
        ),
    ];
    for (key, value) in accepted {
        let mistakes = provider
            .load_balancers()
            .unwrap()
            .review(&service(&[(key, value)]))
            .errors;
        assert_eq!(mistakes, [""; 0], "{value}");
    }
}

#[tokio::test(start_paused = true)]
async fn load_balancer_without_the_required_tag_is_not_used() {
    for (value, is_used) in [("db", false), ("web", true)] {
        let harness = Harness::new().requiring("team=web");
        let id = add_balancer(&mut harness.fake.lock(), "mine");
        let tags = json!([{"TagKey": "team", "TagValue": value}]);
        harness
            .fake
            .lock()
            .each("balancer")
            .iter_mut()
            .for_each(|balancer| balancer["Tags"] = tags.clone());
        let before = harness.only("balancer");
        let mut service = service(&[(EXISTING, &id)]);
        let outcome = harness.ensure(&harness.started().await, &mut service).await;
        assert_eq!(outcome.is_ok(), is_used, "{value}: {outcome:?}");
        if let Err(error) = outcome {
            assert!(
                error.is_invalid() && error.to_string().contains("give it the tag team=web"),
                "{error}"
            );
            assert_eq!(harness.only("balancer"), before);
        }
    }
}
