//! The answers that a cloud may give to a change, and the cost of each answer.

use cloud_provider::names::FINALIZER_LOAD_BALANCER;
use cloud_provider::{LoadBalancers, Service};
use serde_json::json;
use tokio::time::{Duration, sleep};

use super::super::{Attributes, MAX_AGE, ResourceGraph, State};
use super::small::{IGNORED, NETWORK, Town, with_targets};

fn in_network(network: &str) -> ResourceGraph {
    with_targets(&["a", "b"]).balancer(Attributes::default().set(NETWORK, network))
}

#[tokio::test(start_paused = true)]
async fn side_effects_of_a_change_are_repaired_in_the_same_call() {
    let town = Town::default();
    let service = town.service("s1", in_network("blue"));
    town.balancers.ensure(town.request(&service)).await.unwrap();
    assert_eq!(town.cloud.requests(), ["list", "create"]);
    town.want("s1", in_network("green"));
    town.balancers.ensure(town.request(&service)).await.unwrap();
    assert_eq!(
        town.cloud.requests(),
        ["Update", "AddTargets"],
        "both were targets, as far as the first plan knew"
    );
    assert_eq!(
        town.cloud
            .one("lb-1")
            .graph
            .unwrap()
            .targets_of("main")
            .len(),
        2
    );
}

#[tokio::test(start_paused = true)]
async fn operation_without_effect_ends_in_an_error_that_names_it() {
    let town = Town::default();
    let service = town.service("s1", with_targets(&["a"]));
    town.balancers.ensure(town.request(&service)).await.unwrap();
    town.want(
        "s1",
        with_targets(&["a"]).balancer(
            Attributes::default()
                .set(IGNORED, "loud")
                .set(NETWORK, "blue"),
        ),
    );
    town.cloud.requests();
    let err = town
        .balancers
        .ensure(town.request(&service))
        .await
        .unwrap_err();
    let told = "the cloud accepted changes but does not show them: update load balancer \"as1\": ignored: none → loud";
    assert_eq!(err.to_string(), told);
    assert_eq!(
        town.cloud.requests(),
        ["Update", "Update", "AddTargets"],
        "it keeps nothing else from being done"
    );
    town.balancers
        .ensure(town.request(&service))
        .await
        .unwrap_err();
    assert_eq!(
        town.cloud.requests()[0],
        "find",
        "the cached state is read again"
    );
}

#[tokio::test(start_paused = true)]
async fn a_deletion_is_one_read_and_one_write() {
    for waits in [Duration::ZERO, MAX_AGE] {
        let town = Town::default();
        let service = town.service("s1", with_targets(&["a"]));
        town.balancers.ensure(town.request(&service)).await.unwrap();
        sleep(waits).await;
        town.cloud.requests();
        let leaving = leaving(service);
        assert!(
            town.balancers
                .get(town.request(&leaving))
                .await
                .unwrap()
                .is_some()
        );
        town.balancers.delete(town.request(&leaving)).await.unwrap();
        assert_eq!(town.cloud.requests(), ["find", "delete"], "{waits:?}");
        assert!(
            town.balancers
                .get(town.request(&leaving))
                .await
                .unwrap()
                .is_none()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn deletion_uses_a_read_only_right_after_it_and_without_a_change() {
    let town = Town::default();
    let service = town.service("s1", with_targets(&["a"]));
    town.balancers.ensure(town.request(&service)).await.unwrap();
    let leaving = leaving(service.clone());
    sleep(MAX_AGE).await;
    town.balancers.get(town.request(&leaving)).await.unwrap();
    town.want("s1", with_targets(&["b"]));
    town.balancers.ensure(town.request(&service)).await.unwrap();
    town.cloud.requests();
    town.balancers.delete(town.request(&leaving)).await.unwrap();
    assert_eq!(town.cloud.requests(), ["find", "delete"]);

    town.balancers.ensure(town.request(&service)).await.unwrap();
    sleep(MAX_AGE).await;
    town.balancers.get(town.request(&leaving)).await.unwrap();
    sleep(Duration::from_secs(6)).await;
    town.cloud.requests();
    town.balancers.delete(town.request(&leaving)).await.unwrap();
    assert_eq!(town.cloud.requests(), ["find", "delete"]);
}

#[tokio::test(start_paused = true)]
async fn missing_load_balancer_needs_a_control_read_and_a_deleted_one_does_not() {
    let town = Town::default();
    let service = town.service("s1", with_targets(&["a"]));
    town.balancers.ensure(town.request(&service)).await.unwrap();
    town.cloud.state().vanishing.insert("lb-1".into());
    town.cloud.requests();
    town.balancers
        .delete(town.request(&leaving(service)))
        .await
        .unwrap();
    assert_eq!(town.cloud.requests(), ["find", "delete", "machine", "find"]);
}

#[tokio::test(start_paused = true)]
async fn load_balancer_that_vanishes_while_busy_needs_a_control_read() {
    let town = Town::default();
    let service = town.service("s1", with_targets(&["a"]));
    town.balancers.ensure(town.request(&service)).await.unwrap();
    town.cloud.state().balancers.get_mut("lb-1").unwrap().state = State::Busy;
    let service = leaving(service);
    let another_project = async {
        sleep(Duration::from_millis(100)).await;
        let mut state = town.cloud.state();
        state.machines_are_known = false;
        std::mem::take(&mut state.balancers)
    };
    let (outcome, ours) = tokio::join!(
        town.balancers.delete(town.request(&service)),
        another_project
    );
    let err = outcome.unwrap_err();
    assert!(err.is_unauthorized(), "{err}");
    {
        let mut state = town.cloud.state();
        (state.machines_are_known, state.balancers) = (true, ours);
        state.balancers.get_mut("lb-1").unwrap().state = State::Ready;
    }
    town.balancers.delete(town.request(&service)).await.unwrap();
    assert!(town.cloud.state().balancers.is_empty());
}

#[tokio::test(start_paused = true)]
async fn load_balancer_that_is_found_again_is_not_gone() {
    let town = Town::default();
    let service = town.service("s1", with_targets(&["a"]));
    town.balancers.ensure(town.request(&service)).await.unwrap();
    town.cloud.state().haunted = true;
    let service = leaving(service);
    let err = town
        .balancers
        .delete(town.request(&service))
        .await
        .unwrap_err();
    assert!(
        err.is_conflict() && err.to_string().contains("exists again"),
        "{err}"
    );
    town.cloud.state().haunted = false;
    town.balancers.delete(town.request(&service)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn deletions_that_find_nothing_share_a_control_read() {
    let town = Town::default();
    let services: Vec<_> = (0..100)
        .map(|n| leaving(town.service(&format!("s{n}"), with_targets(&[]))))
        .collect();
    let get = |service| town.balancers.get(town.request(service));
    let found = futures::future::try_join_all(services.iter().map(get))
        .await
        .unwrap();
    assert!(found.iter().all(Option::is_none));
    let requests = town.cloud.requests();
    let count = |what: &str| requests.iter().filter(|request| *request == what).count();
    assert!(count("machine") <= 2, "{}", count("machine"));
    assert_eq!(
        requests.len(),
        200 + count("machine"),
        "each load balancer is read before and after"
    );
}

#[tokio::test(start_paused = true)]
async fn earlier_control_read_verifies_nothing() {
    let town = Town::default();
    let first = leaving(town.service("s1", ResourceGraph::default()));
    let second = leaving(town.service("s2", ResourceGraph::default()));
    let late = async {
        // The first control read starts at 20 ms, and is answered at 70 ms.
        sleep(Duration::from_millis(35)).await;
        town.balancers.get(town.request(&second)).await
    };
    let (one, two) = tokio::join!(town.balancers.get(town.request(&first)), late);
    assert!(one.unwrap().is_none() && two.unwrap().is_none());
    let requests = town.cloud.requests();
    assert_eq!(
        requests
            .iter()
            .filter(|request| *request == "machine")
            .count(),
        2,
        "{requests:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn protected_load_balancer_stays_and_its_deletion_ends() {
    let mut town = Town::default();
    let service = town.service("s1", with_targets(&["a"]));
    town.balancers.ensure(town.request(&service)).await.unwrap();
    town.cloud.state().protected.insert("lb-1".into());
    let leaving = leaving(service.clone());
    for _ in 0..2 {
        town.cloud.requests();
        assert!(
            town.balancers
                .get(town.request(&leaving))
                .await
                .unwrap()
                .is_some(),
            "it is there"
        );
        town.balancers.delete(town.request(&leaving)).await.unwrap();
        let requests = town.cloud.requests();
        assert!(
            requests.iter().all(|request| request == "find"),
            "neither a change nor a control read: {requests:?}"
        );
        town.restart();
    }
    // The Service is wanted again.
    town.balancers.delete(town.request(&leaving)).await.unwrap();
    town.cloud.requests();
    town.balancers.ensure(town.request(&service)).await.unwrap();
    assert_eq!(
        town.cloud.requests(),
        ["find"],
        "the load balancer is neither taken for deleted nor created again"
    );
    assert_eq!(town.cloud.one("lb-1").owner_tags, town.owner_tags("s1"));
}

#[tokio::test(start_paused = true)]
async fn a_status_may_depend_on_the_service() {
    let town = Town::default();
    let mut service = town.service("s1", with_targets(&["a"]));
    let plain = town
        .balancers
        .ensure(town.request(&service))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(plain.ingress.unwrap()[0].ip.as_deref(), Some("192.0.2.1"));
    service.metadata.annotations = Some([("hostname".to_owned(), "lb.example".to_owned())].into());
    for status in [
        town.balancers.ensure(town.request(&service)).await,
        town.balancers.get(town.request(&service)).await,
    ] {
        assert_eq!(
            status.unwrap().unwrap().ingress.unwrap()[0]
                .hostname
                .as_deref(),
            Some("lb.example")
        );
    }
}

/// Marks the Service as being deleted.
fn leaving(mut service: Service) -> Service {
    let deleted = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": [FINALIZER_LOAD_BALANCER]}});
    let deleted: Service = serde_json::from_value(deleted).unwrap();
    service.metadata.deletion_timestamp = deleted.metadata.deletion_timestamp;
    service.metadata.finalizers = deleted.metadata.finalizers;
    service
}

#[tokio::test(start_paused = true)]
async fn a_service_that_changed_its_type_is_leaving_too() {
    let town = Town::default();
    let mut service = town.service("s1", with_targets(&["a"]));
    town.balancers.ensure(town.request(&service)).await.unwrap();
    service.spec = serde_json::from_value(serde_json::json!({"type": "ClusterIP"})).unwrap();
    sleep(MAX_AGE).await;
    town.cloud.requests();
    assert!(
        town.balancers
            .get(town.request(&service))
            .await
            .unwrap()
            .is_some()
    );
    town.balancers.delete(town.request(&service)).await.unwrap();
    assert_eq!(town.cloud.requests(), ["find", "delete"]);
}

#[tokio::test(start_paused = true)]
async fn rate_limited_creation_sends_no_reads_until_the_next_attempt() {
    for is_made in [false, true] {
        let town = Town::default();
        let mut service = town.service("s1", with_targets(&["a"]));
        town.cloud.state().has_no_time = (3, is_made);
        assert!(
            town.balancers
                .ensure(town.request(&service))
                .await
                .unwrap_err()
                .is_rate_limited()
        );
        // The Service has the finalizer from the first attempt on.
        service.metadata.finalizers = Some(vec![FINALIZER_LOAD_BALANCER.to_owned()]);
        sleep(Duration::from_secs(600)).await;
        town.cloud.requests();
        let again = town.balancers.ensure(town.request(&service)).await;
        let _ = town.balancers.ensure(town.request(&service)).await;
        if is_made {
            again.unwrap();
            assert_eq!(
                town.cloud.requests(),
                ["create", "find"],
                "the conflict tells of it"
            );
        } else {
            assert!(again.unwrap_err().is_rate_limited());
            assert_eq!(town.cloud.requests(), ["create", "create"]);
            town.balancers.ensure(town.request(&service)).await.unwrap();
        }
        assert_eq!(town.cloud.state().balancers.len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn changed_name_is_searched_again() {
    let town = Town::default();
    let mut service = town.service("s1", with_targets(&["a"]));
    town.cloud.state().has_no_time = (1, true);
    town.balancers
        .ensure(town.request(&service))
        .await
        .unwrap_err();
    service.metadata.finalizers = Some(vec![FINALIZER_LOAD_BALANCER.to_owned()]);
    service.metadata.annotations = Some([("name".to_owned(), "web".to_owned())].into());
    town.balancers.ensure(town.request(&service)).await.unwrap();
    assert_eq!(
        town.cloud.state().balancers.len(),
        1,
        "the load balancer of the old name is found by its owner tags"
    );
}

#[tokio::test(start_paused = true)]
async fn target_update_without_a_load_balancer_does_nothing() {
    let town = Town::default();
    let service = town.service("s1", with_targets(&["a"]));
    town.balancers
        .update_targets(town.request(&service))
        .await
        .unwrap();
    assert_eq!(town.cloud.requests(), ["list", "find"]);
}
