//! INV-8: what the program costs.

use std::time::Duration;

use serde_json::json;

use crate::faked_cloud::FakedCloud;
use crate::gate::{Passed, Side};
use crate::scene::{self, Account, account};

/// The most requests to the cloud for something. Looks are not counted.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// Those that ask for a change.
    pub changes: usize,
    /// All others.
    pub reads: usize,
}

/// How many Nodes and Services there are, and what they may cost.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Nodes.
    pub nodes: usize,
    /// Services with two ports each.
    pub services: usize,
    /// For the Nodes to be initialised.
    pub initialised: Limit,
    /// For the load balancers to be made.
    pub made: Limit,
    /// For a look at all Services after a change that concerns no load balancer.
    pub unchanged: Limit,
    /// In ten steady minutes.
    pub steady: Limit,
    /// For a further Node to be initialised, and to join all load balancers.
    pub joined: Limit,
    /// For the load balancers to be deleted.
    pub deleted: Limit,
}

impl Limit {
    fn hold(self, what: &str, account: &Account) {
        println!("{what}: {account}");
        assert!(account.changes <= self.changes, "{what}: at most {} changes, not {account}", self.changes);
        assert!(account.reads <= self.reads, "{what}: at most {} reads, not {account}", self.reads);
    }
}

/// INV-8: reads grow with pages, and writes with changes.
///
/// # Panics
/// If it costs more, in the cloud or in Kubernetes.
pub async fn inv_8(cloud: &impl FakedCloud, cost: &Cost) {
    let Cost { nodes, services, .. } = *cost;
    let stage = scene::on(cloud);
    let names = || (0..services).map(|number| format!("service-{number}"));
    scene::join(&stage, 1..=nodes).await;
    let program = stage.start().await.expect("a start");
    scene::settle(&stage).await;
    cost.initialised.hold("Nodes were initialised", &account(cloud));

    for name in names() {
        stage.user.create_service(&name, &[80, 443]).await;
    }
    scene::settle(&stage).await;
    cost.made.hold("load balancers were made", &account(cloud));
    let writes: Vec<_> = stage.gate.passed().into_iter().filter(Passed::is_mutation).collect();
    let of = |resource: &str| {
        let writes = writes.iter().filter(|it| it.side == Side::Kubernetes);
        writes.filter(|it| it.target.split(['/', '?']).any(|segment| segment == resource)).count()
    };
    assert!(of("nodes") <= 2 * nodes, "{} writes for {nodes} Nodes", of("nodes"));
    assert!(of("services") <= 3 * services, "{} writes for {services} Services", of("services"));

    for name in names() {
        let note = json!({"metadata": {"annotations": {"example.com/note": "nothing"}}});
        stage.user.patch_service(&name, &note).await;
    }
    scene::settle(&stage).await;
    cost.unchanged.hold("nothing changed for the Services", &account(cloud));

    let mutations = stage.gate.mutations();
    tokio::time::sleep(Duration::from_secs(600)).await;
    cost.steady.hold("ten steady minutes", &account(cloud));
    assert_eq!(stage.gate.mutations(), mutations, "steady");

    scene::join(&stage, nodes + 1..=nodes + 1).await;
    scene::settle(&stage).await;
    cost.joined.hold("a Node joined", &account(cloud));

    for name in names() {
        stage.user.delete_service(&name).await;
    }
    scene::settle(&stage).await;
    cost.deleted.hold("load balancers were deleted", &account(cloud));
    assert_eq!(cloud.load_balancers(), []);
    program.stop().await;
}
