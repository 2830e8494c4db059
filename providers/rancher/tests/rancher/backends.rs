//! External services: their names, and what is left of them when Rancher refuses a request.

use std::time::Duration;

use rancher_fake::Fault;
use serde_json::{Value, json};

use crate::harness::{Harness, service};
use crate::profile::{list, text};

/// Returns the addresses of the external services, with their names.
fn backends(harness: &Harness) -> Vec<(String, String)> {
    let services = harness.live("externalService");
    services
        .iter()
        .map(|service| {
            (
                text(&service["name"]),
                text(&service["externalIpAddresses"][0]),
            )
        })
        .collect()
}

fn addresses(harness: &Harness) -> Vec<String> {
    let mut all: Vec<_> = backends(harness)
        .into_iter()
        .map(|(_, address)| address)
        .collect();
    all.sort();
    all
}

#[tokio::test(start_paused = true)]
async fn nodes_whose_short_names_are_equal_have_external_services_of_their_own() {
    for order in [["node.1", "node-1"], ["node-1", "node.1"]] {
        let harness = Harness::new();
        for name in ["worker-1", "worker-2"] {
            harness.cluster.remove_node(name);
        }
        let uuid = text(&harness.host("worker-1")["uuid"]);
        harness.set_node(order[0], &uuid, "10.2.0.1");
        let provider = harness.started().await;
        let mut web = service(&[80], &[], json!({}));
        harness.ensure(&provider, &mut web).await.unwrap();
        let first = backends(&harness);
        harness.set_node(order[1], &uuid, "10.2.0.2");
        harness.ensure(&provider, &mut web).await.unwrap();
        assert_eq!(addresses(&harness), ["10.2.0.1", "10.2.0.2"], "{order:?}");
        assert_eq!(
            backends(&harness)[0],
            first[0],
            "the first one keeps its name"
        );
        assert_eq!(
            list(&harness.balancer()["lbConfig"]["portRules"]).count(),
            2
        );
        harness.fake.fault_injector().forget_requests();
        harness
            .ensure(&harness.started().await, &mut web)
            .await
            .unwrap();
        assert_eq!(harness.changes(), [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn new_nodes_whose_short_names_are_equal_get_external_services_at_once() {
    let harness = Harness::new();
    let uuid = text(&harness.host("worker-1")["uuid"]);
    let long = "n".repeat(63);
    let names = [
        "node.1",
        "node-1",
        &format!("{long}.a"),
        &format!("{long}.b"),
    ];
    for (number, name) in names.into_iter().enumerate() {
        harness.set_node(name, &uuid, &format!("10.2.0.{number}"));
    }
    let provider = harness.started().await;
    let mut web = service(&[80], &[], json!({}));
    harness.ensure(&provider, &mut web).await.unwrap();
    assert_eq!(harness.externals().len(), 6);
    assert!(
        backends(&harness).contains(&("node-1".to_owned(), "10.2.0.1".to_owned())),
        "{:?}",
        backends(&harness)
    );
}

#[tokio::test(start_paused = true)]
async fn external_service_that_cannot_be_deleted_keeps_no_load_balancer_running() {
    for status in [422, 404, 403, 500] {
        let harness = Harness::new();
        let provider = harness.started().await;
        let web = service(&[80], &[], json!({}));
        harness.ensure(&provider, &mut web.clone()).await.unwrap();
        let route = "GET /externalservices/{id}/consumedbyservices";
        harness
            .fake
            .fault_injector()
            .fail(Fault::refused(route, status).times(999));
        harness.delete(&provider, &web).await.unwrap();
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(
            harness.live("loadBalancerService"),
            [Value::Null; 0],
            "{status}"
        );
        harness.fake.fault_injector().clear_faults();
        tokio::time::sleep(Duration::from_secs(3700)).await;
        assert_eq!(harness.externals(), [""; 0], "they are deleted later");
    }
}

#[tokio::test(start_paused = true)]
async fn load_balancer_whose_deletion_is_refused_keeps_its_backends() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut web = service(&[80], &[], json!({}));
    harness.ensure(&provider, &mut web).await.unwrap();
    let lock = |is_locked: bool| {
        let mut cloud = harness.fake.lock();
        cloud
            .services
            .iter_mut()
            .for_each(|service| service["locked"] = is_locked.into());
    };
    lock(true);
    let error = harness
        .delete(&harness.started().await, &web)
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("does not offer action remove"), "{error}");
    assert_eq!(harness.externals(), ["worker-1", "worker-2"]);
    lock(false);
    harness.delete(&provider, &web).await.unwrap();
    assert_eq!(harness.externals(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn load_balancer_whose_deletion_fails_for_any_reason_keeps_its_backends() {
    for status in [403, 409, 422, 500] {
        let harness = Harness::new();
        let provider = harness.started().await;
        let mut web = service(&[80], &[], json!({}));
        harness.ensure(&provider, &mut web).await.unwrap();
        let before = (harness.balancer(), backends(&harness));
        harness
            .fake
            .fault_injector()
            .fail(Fault::refused("DELETE /loadbalancerservices/{id}", status).times(99));
        harness
            .delete(&harness.started().await, &web)
            .await
            .unwrap_err();
        assert_eq!((harness.balancer(), backends(&harness)), before, "{status}");
        harness.fake.fault_injector().clear_faults();
        harness.delete(&provider, &web).await.unwrap();
        assert_eq!(harness.externals(), [""; 0], "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn backends_of_the_go_program_are_deleted_after_a_deletion_that_was_interrupted() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut web = service(&[80], &[], json!({}));
    harness.ensure(&provider, &mut web).await.unwrap();
    harness
        .fake
        .lock()
        .services
        .iter_mut()
        .for_each(|service| service["metadata"] = json!({}));
    harness.fake.fault_injector().fail(
        Fault::refused("GET /externalservices", 500)
            .after(1)
            .times(4),
    );
    let _ = harness.delete(&provider, &web).await;
    harness.fake.fault_injector().clear_faults();
    harness
        .delete(&harness.started().await, &web)
        .await
        .unwrap();
    assert_eq!(
        (
            harness.live("loadBalancerService").len(),
            harness.externals().len()
        ),
        (0, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn external_service_of_a_node_that_left_and_cannot_be_deleted_keeps_no_node_from_joining() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut web = service(&[80], &[], json!({}));
    harness.ensure(&provider, &mut web).await.unwrap();
    harness
        .fake
        .fault_injector()
        .fail(Fault::refused("GET /externalservices/{id}/consumedbyservices", 403).times(99));
    harness.cluster.remove_node("worker-1");
    harness.add_node("worker-3");
    harness.ensure(&provider, &mut web).await.unwrap();
    assert_eq!(
        list(&harness.balancer()["lbConfig"]["portRules"]).count(),
        2
    );
    harness.fake.fault_injector().clear_faults();
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(
        harness.externals(),
        ["worker-2", "worker-3"],
        "it is deleted later"
    );
}

#[tokio::test(start_paused = true)]
async fn oldest_of_two_load_balancers_is_used_and_the_other_one_stays() {
    let harness = Harness::new();
    harness
        .ensure(
            &harness.started().await,
            &mut service(&[80], &[], json!({})),
        )
        .await
        .unwrap();
    let id = harness.balancer()["id"].clone();
    {
        let mut cloud = harness.fake.lock();
        let number = cloud.number();
        let balancer = cloud
            .services
            .iter_mut()
            .find(|service| service["id"] == id)
            .unwrap();
        let mut newer = balancer.clone();
        newer["id"] = format!("1s{number}").into();
        newer["stackId"] = "1st99".into();
        newer["created"] = "2026-01-01T00:00:00Z".into();
        cloud.services.insert(0, newer);
    }
    let mut other_port = service(&[443], &[], json!({}));
    harness
        .ensure(&harness.started().await, &mut other_port)
        .await
        .unwrap();
    let port = |object: &Value| {
        (
            object["id"] == id,
            text(&object["launchConfig"]["ports"][0]),
        )
    };
    let ports: Vec<_> = harness
        .live("loadBalancerService")
        .iter()
        .map(port)
        .collect();
    assert_eq!(
        ports,
        [
            (false, "80:80/tcp".to_owned()),
            (true, "443:443/tcp".to_owned())
        ]
    );
}
