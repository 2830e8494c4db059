//! Lookups of Nodes' machines: results, numbers of requests, and errors that never count as "no longer exists" (INV-1,
//! D-2).

use std::time::Duration;

use cloud_provider::AddressType;
use provider_simulated::cloud::{Fault, NewMachine, Options, RateLimit};

use super::*;

fn requests(cloud: &Cloud) -> Vec<(String, u64)> {
    let requests = cloud.requests().into_iter().collect();
    cloud.reset_requests();
    requests
}

fn only(route: &str, count: u64) -> Vec<(String, u64)> {
    vec![(route.to_owned(), count)]
}

#[tokio::test(start_paused = true)]
async fn a_node_learns_everything_about_its_machine() {
    let cloud = Cloud::default();
    let machine = cloud.add_machine(NewMachine {
        name: "gpu-1".into(),
        zone: "sim-2a".into(),
        machine_type: "large".into(),
        labels: [("example.com/rack".to_owned(), "r7".to_owned())].into(),
        ..NewMachine::default()
    });
    let answers = look_up(
        &provider(&cloud),
        &joining(["gpu-1".into()]),
        LookupRequest::METADATA.and_shutdown(),
    )
    .await;
    let Ok(InstanceState::Present {
        shutdown: Some(false),
        metadata: Some(metadata),
    }) = &answers[0]
    else {
        panic!("{answers:?}");
    };
    assert_eq!(metadata.provider_id, format!("simulated://{}", machine.id));
    assert_eq!(
        (&*metadata.instance_type, &*metadata.zone, &*metadata.region),
        ("large", "sim-2a", "sim-2")
    );
    assert_eq!(metadata.node_addresses, machine.addresses);
    assert_eq!(metadata.node_addresses[0].kind, AddressType::InternalIP);
    assert_eq!(metadata.additional_labels["example.com/rack"], "r7");
}

#[tokio::test(start_paused = true)]
async fn a_stopped_machine_exists_and_is_shut_down() {
    let cloud = Cloud::default();
    let ids = cloud.create_machines("w-", 2);
    cloud.stop(&ids[1]);
    let answers = look_up(&provider(&cloud), &nodes(&ids), FRESH).await;
    let shutdown = |answer: &Result<InstanceState>| match answer {
        Ok(InstanceState::Present {
            shutdown,
            metadata: None,
        }) => *shutdown,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        [shutdown(&answers[0]), shutdown(&answers[1])],
        [Some(false), Some(true)]
    );
}

#[tokio::test(start_paused = true)]
async fn a_burst_of_5000_nodes_over_half_a_minute_costs_exactly_the_pages() {
    let cloud = Cloud::default();
    cloud.create_machines("w-", 5000);
    let provider = provider(&cloud);
    for batch in 0..10 {
        let joined = joining((1..=500).map(|n| format!("w-{}", batch * 500 + n)));
        assert_eq!(
            count(&look_up(&provider, &joined, LookupRequest::METADATA).await),
            [500, 0, 0]
        );
        tokio::time::sleep(Duration::from_secs(3)).await;
    }
    assert_eq!(requests(&cloud), only(MACHINES, 100));
}

#[tokio::test(start_paused = true)]
async fn five_hundred_gone_nodes_cost_a_list_and_one_costs_single_reads() {
    let cloud = Cloud::default();
    let ids = cloud.create_machines("w-", 5000);
    let provider = provider(&cloud);
    let nodes = nodes(&ids);
    for id in &ids[..500] {
        cloud.terminate(id);
    }
    assert_eq!(
        count(&look_up(&provider, &nodes[..500], FRESH).await),
        [0, 500, 0]
    );
    assert_eq!(requests(&cloud), only(MACHINES, 90));
    cloud.terminate(&ids[600]);
    // Verdict with a witness, then its confirmation.
    assert_eq!(
        count(&look_up(&provider, &nodes[600..602], FRESH).await),
        [1, 1, 0]
    );
    assert_eq!(
        count(&look_up(&provider, &nodes[600..601], FRESH).await),
        [0, 1, 0]
    );
    assert_eq!(requests(&cloud), only(MACHINE, 3));
}

#[tokio::test(start_paused = true)]
async fn a_credential_of_another_project_proves_nothing_about_many_nodes() {
    let cloud = Cloud::default();
    let ids = cloud.create_machines("w-", 200);
    cloud.add_token(DEFAULT_TOKEN, "other");
    let provider = provider(&cloud);
    let answers = look_up(&provider, &nodes(&ids), FRESH).await;
    assert_eq!(count(&answers), [0, 0, 200]);
    assert!(
        answers[0]
            .as_ref()
            .unwrap_err()
            .to_string()
            .contains("lists no instance at all, which proves nothing")
    );
    // A single read cannot tell: with this credential the machine does not exist. Therefore the controllers need a
    // control read, a second Node that would be missing as well.
    assert_eq!(
        count(&look_up(&super::provider(&cloud), &nodes(&ids)[..2], FRESH).await),
        [0, 2, 0]
    );
    // Once the list is known to be short, it is read instead, and then it does prove nothing.
    assert_eq!(
        count(&look_up(&provider, &nodes(&ids)[..2], FRESH).await),
        [0, 0, 2]
    );
}

#[tokio::test(start_paused = true)]
async fn a_stale_snapshot_says_nothing_about_a_machine_that_it_does_not_have() {
    let cloud = Cloud::default();
    let ids = cloud.create_machines("w-", 200);
    let provider = provider(&cloud);
    look_up(&provider, &nodes(&ids), LookupRequest::ADDRESSES).await;
    let later = cloud.create_machines("later-", 3);
    // Young, but before their time.
    assert_eq!(
        count(&look_up(&provider, &nodes(&later), LookupRequest::EXISTENCE).await),
        [3, 0, 0]
    );
    // Old, and the cloud does not answer any more.
    tokio::time::sleep(Duration::from_secs(61)).await;
    cloud.inject(Fault::status(500));
    assert_eq!(
        count(&look_up(&provider, &nodes(&ids), LookupRequest::EXISTENCE).await),
        [0, 0, 200]
    );
    // A recent snapshot shows a terminated machine; callers that must be certain request fresh data.
    cloud.clear_faults();
    look_up(&provider, &nodes(&ids), LookupRequest::ADDRESSES).await;
    cloud.terminate(&ids[0]);
    assert_eq!(
        count(&look_up(&provider, &nodes(&ids)[..1], LookupRequest::EXISTENCE).await),
        [1, 0, 0]
    );
    assert_eq!(
        count(&look_up(&provider, &nodes(&ids)[..1], FRESH).await),
        [0, 1, 0]
    );
}

#[tokio::test(start_paused = true)]
async fn a_name_that_misses_says_where_it_was_looked_for_and_what_comes_closest() {
    let cloud = Cloud::default();
    cloud.create_machines("worker-", 60);
    let provider = provider(&cloud);
    provider.initialize(&context()).await.unwrap();
    look_up(
        &provider,
        &joining((1..=60).map(|n| format!("worker-{n}"))),
        LookupRequest::METADATA,
    )
    .await;
    let answers = look_up(
        &provider,
        &joining(["Worker-7".into()]),
        LookupRequest::METADATA,
    )
    .await;
    let Ok(InstanceState::Gone(gone)) = &answers[0] else {
        panic!("{answers:?}")
    };
    let expected = "the cloud has no instance named \"Worker-7\"; looked in project \"demo\"; closest: \"worker-7\"";
    assert!(gone.reason().starts_with(expected), "{gone:?}");
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_lists_do_not_show_yet_is_not_gone() {
    let cloud = Cloud::new(Options {
        list_delay_milliseconds: 5000,
        ..Options::default()
    });
    let ids = cloud.create_machines("w-", 300);
    let provider = provider(&cloud);
    tokio::time::sleep(Duration::from_secs(6)).await;
    look_up(&provider, &nodes(&ids), LookupRequest::ADDRESSES).await;
    let new = cloud.create_machines("new-", 1);
    assert_eq!(
        count(&look_up(&provider, &nodes(&new), FRESH).await),
        [1, 0, 0]
    );
}

#[tokio::test(start_paused = true)]
async fn a_rate_limit_is_obeyed() {
    let rate_limit = Some(RateLimit {
        requests: 3,
        seconds: 8,
    });
    let cloud = Cloud::new(Options {
        rate_limit,
        ..Options::default()
    });
    let ids = cloud.create_machines("w-", 400);
    let answers = look_up(&provider(&cloud), &nodes(&ids), FRESH).await;
    assert_eq!(count(&answers), [400, 0, 0]);
    assert_eq!(requests(&cloud), only(MACHINES, 8), "none was answered 429");
}

#[tokio::test(start_paused = true)]
async fn a_node_of_another_cloud_is_an_error_that_names_what_is_accepted() {
    let cloud = Cloud::default();
    let provider = provider(&cloud);
    for id in [
        "hcloud://17",
        "simulated://17",
        "simulated:///m-000001",
        "m-000001",
    ] {
        let node = Arc::new(Node {
            provider_id: id.into(),
            ..Node::default()
        });
        let err = look_up(&provider, &[node], FRESH)
            .await
            .remove(0)
            .unwrap_err();
        assert!(err.is_invalid(), "{err:?}");
        assert!(
            err.to_string()
                .ends_with("is not of the form simulated://<machine id>, such as m-000123"),
            "{err}"
        );
    }
    assert!(cloud.requests().is_empty());
}
