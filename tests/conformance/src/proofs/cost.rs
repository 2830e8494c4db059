//! INV-8: what the program costs.

use std::time::Duration;

use serde_json::json;

use super::{minutes, settled};
use crate::Harness;
use crate::account::Account;
use crate::fault_injector::{Passed, Side};
use crate::profile::MakeProfile;
use crate::virtual_time::VirtualTime;

/// The most requests to the cloud for something. Polls are not counted.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// Requests that ask for a change.
    pub changes: usize,
    /// Requests that only read.
    pub reads: usize,
}

/// Numbers of Nodes and Services, and limits of their requests.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Number of Nodes in the cluster.
    pub nodes: usize,
    /// Services with two ports each.
    pub services: usize,
    /// For the Nodes to be initialised.
    pub initialised: Limit,
    /// For the load balancers to be created.
    pub created: Limit,
    /// For a sync of all Services after a change that concerns no load balancer.
    pub unchanged: Limit,
    /// In ten steady minutes.
    pub steady: Limit,
    /// In ten minutes in which half of the Nodes are not ready.
    pub not_ready: Limit,
    /// For a further Node to be initialised, and to join all load balancers.
    pub joined: Limit,
    /// For the load balancers to be deleted.
    pub deleted: Limit,
}

impl Limit {
    fn hold(self, what: &str, account: &Account) {
        println!("{what}: {account}");
        assert!(
            account.changes <= self.changes,
            "{what}: at most {} changes, not {account}",
            self.changes
        );
        assert!(
            account.reads <= self.reads,
            "{what}: at most {} reads, not {account}",
            self.reads
        );
    }
}

/// INV-8: reads grow with pages, and writes with changes.
///
/// # Panics
/// If it costs more, in the cloud or in Kubernetes.
pub fn reads_grow_with_pages_and_writes_with_changes(make: MakeProfile) {
    let mut cloud = make();
    let cost = cloud.cost();
    cloud.prepare(cost.nodes + 1);
    let harness = Harness::boxed(cloud).build();
    VirtualTime::default().live(async || hold(&harness, &cost).await);
}

async fn hold(harness: &Harness, cost: &Cost) {
    let Cost {
        nodes, services, ..
    } = *cost;
    let names = || (0..services).map(|number| format!("service-{number}"));
    harness.join(1..=nodes).await;
    let program = settled(harness).await;
    cost.initialised
        .hold("Nodes were initialised", &harness.account());

    for name in names() {
        harness.user.create_service(&name, &[80, 443]).await;
    }
    harness.settle().await;
    cost.created
        .hold("load balancers were created", &harness.account());
    let writes: Vec<_> = harness
        .injector
        .passed()
        .into_iter()
        .filter(Passed::is_mutation)
        .collect();
    let of = |resource: &str| {
        let writes = writes
            .iter()
            .filter(|request| request.side == Side::Kubernetes);
        writes
            .filter(|request| {
                request
                    .target
                    .split(['/', '?'])
                    .any(|segment| segment == resource)
            })
            .count()
    };
    assert!(
        of("nodes") <= 2 * nodes,
        "{} writes for {nodes} Nodes",
        of("nodes")
    );
    assert!(
        of("services") <= 3 * services,
        "{} writes for {services} Services",
        of("services")
    );

    for name in names() {
        let note = json!({"metadata": {"annotations": {"example.com/note": "nothing"}}});
        harness.user.patch_service(&name, &note).await;
    }
    harness.settle().await;
    cost.unchanged
        .hold("nothing changed for the Services", &harness.account());

    let mutations = harness.injector.mutations();
    minutes(10).await;
    cost.steady.hold("ten steady minutes", &harness.account());
    assert_eq!(harness.injector.mutations(), mutations, "steady");

    // Nodes that are not ready are looked up in the cloud every five seconds, all of them at once.
    for number in 1..=nodes / 2 {
        harness
            .user
            .set_ready(&format!("worker-{number}"), false)
            .await;
    }
    tokio::time::sleep(Duration::from_secs(30)).await;
    let mutations = harness.injector.mutations();
    let _ = harness.account();
    minutes(10).await;
    cost.not_ready.hold(
        "ten minutes with Nodes that are not ready",
        &harness.account(),
    );
    assert_eq!(harness.injector.mutations(), mutations, "not ready");
    for number in 1..=nodes / 2 {
        harness
            .user
            .set_ready(&format!("worker-{number}"), true)
            .await;
    }
    harness.settle().await;
    _ = harness.account();

    harness.join(nodes + 1..=nodes + 1).await;
    harness.settle().await;
    cost.joined.hold("a Node joined", &harness.account());

    for name in names() {
        harness.user.delete_service(&name).await;
    }
    harness.settle().await;
    cost.deleted
        .hold("load balancers were deleted", &harness.account());
    assert_eq!(harness.cloud.load_balancers(), []);
    program.stop().await;
}
