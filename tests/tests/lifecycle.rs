//! The passes of the lifecycle controller: concurrency and counts. Deletions are the subject of `deletion_guard.rs`.

use std::time::Duration;

use ccm_tests::in_process::World;
use controllers::Options;
use controllers::options::LifecycleOptions;
use embedded_apiserver::{Action, Matcher};
use provider_simulated::cloud::DEFAULT_TOKEN;

/// Returns the number of Nodes that a pass begins to taint before any of those requests is answered.
async fn nodes_written_at_once(options: &Options) -> u64 {
    let world = World::with_options(20, options);
    world.put_nodes(false);
    for machine in world.cloud.machines() {
        assert!(world.cloud.stop(&machine.name));
    }
    world
        .api
        .faults()
        .add(Matcher::any().verb("patch").resource("nodes"), Action::Hang);
    world.api.requests().clear();
    tokio::select! {
        () = world.pass() => panic!("the pass cannot end"),
        () = tokio::time::sleep(Duration::from_secs(5)) => {}
    }
    world.api.requests().count("patch", "nodes")
}

#[tokio::test(start_paused = true)]
async fn as_many_nodes_are_written_at_once_as_the_options_say() {
    for concurrent_syncs in [1, 3] {
        let lifecycle = LifecycleOptions {
            concurrent_syncs,
            ..LifecycleOptions::default()
        };
        let options = Options {
            lifecycle,
            ..Options::default()
        };
        assert_eq!(
            nodes_written_at_once(&options).await,
            u64::try_from(concurrent_syncs).unwrap()
        );
    }
    assert_eq!(
        nodes_written_at_once(&Options::default()).await,
        16,
        "the default"
    );
}

#[tokio::test(start_paused = true)]
async fn each_look_up_is_counted_by_operation_and_result() {
    let world = World::with_nodes(2, false);
    world.pass().await;
    let counted = std::mem::take(&mut *world.lifecycle_counts.calls.lock());
    let of_one = [
        ("instance_exists", "success"),
        ("instance_shutdown", "success"),
    ];
    assert_eq!(counted, [of_one, of_one].concat());

    world.cloud.terminate("worker-1");
    world.pass().await;
    let counted = std::mem::take(&mut *world.lifecycle_counts.calls.lock());
    let gone = counted
        .iter()
        .filter(|call| **call == ("instance_exists", "instance_not_found"))
        .count();
    assert_eq!(
        gone, 2,
        "once in the pass and once before the deletion: {counted:?}"
    );

    assert!(world.cloud.revoke_token(DEFAULT_TOKEN));
    world.pass().await;
    let counted = std::mem::take(&mut *world.lifecycle_counts.calls.lock());
    assert_eq!(
        counted,
        [("instance_exists", "error")],
        "the other Node is deleted"
    );
    assert_eq!(*world.lifecycle_counts.passes.lock(), 3);
}
