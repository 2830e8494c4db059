//! Load balancers that exist although the program does not know of them: a second one would be a leak.

use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::{minutes, prove, settled};
use crate::Harness;
use crate::fault_injector::{Disturbance, Moment, Side, Trouble};
use crate::profile::MakeProfile;
use crate::virtual_time::VirtualTime;

/// Runs [`late_creations`] in a cluster with Nodes and in one without.
///
/// # Panics
/// If it does not hold.
pub fn late_creations_lead_to_no_second_load_balancer(make: MakeProfile) {
    for nodes in [2, 0] {
        late_creations(&Harness::boxed(make()).build(), nodes);
    }
}

/// The program is killed while its request to create a load balancer is in flight. The request is carried out after the
/// next run of the program has listed the load balancers: the list lacks a load balancer that will exist. A provider
/// that wrongly relies on unique names creates a second one, at the latest if there is no Node whose machine it would
/// look up.
///
/// # Panics
/// If it does not hold.
pub fn late_creations(harness: &Harness, nodes: usize) {
    let mut time = VirtualTime::default();
    let create = harness.cloud.api().create;
    let is_sent = time.live(async || {
        harness.join(1..=nodes).await;
        let _program = settled(harness).await;
        harness.injector.kill_when(move |request| {
            (request.side == Side::Cloud && request.is_on(create)).then_some(Moment::AfterNextRead)
        });
        harness.user.create_service("web", &[80]).await;
        let is_sent = timeout(Duration::from_secs(600), harness.injector.died())
            .await
            .is_ok();
        assert_eq!(
            harness.cloud.load_balancers(),
            [],
            "the request is still on its way"
        );
        is_sent
    });
    // Some clouds have no load balancers without targets.
    assert!(
        is_sent || nodes == 0,
        "no request to create a load balancer was sent"
    );
    if !is_sent {
        return;
    }
    harness.injector.revive();
    time.live(async || {
        let program = harness.start().await.expect("a start");
        minutes(30).await;
        let all = harness.cloud.load_balancers();
        assert_eq!(
            all.len(),
            1,
            "more than one load balancer for one Service: {all:?}"
        );
        harness.settle().await;
        harness.user.delete_service("web").await;
        harness.settle().await;
        assert_eq!(
            harness.cloud.load_balancers(),
            [],
            "after the Service is deleted"
        );
        program.stop().await;
    });
}

/// The answers to all changes in the cloud are lost for two minutes.
///
/// # Panics
/// If it does not hold.
pub fn lost_answers_lead_to_no_second_load_balancer(make: MakeProfile) {
    prove(make, async |harness| {
        harness.join(1..=2).await;
        let program = settled(&harness).await;
        harness.injector.disturb(Disturbance {
            side: Side::Cloud,
            only_mutations: true,
            percent: 100,
            trouble: Trouble::AnswerLost,
            until: Instant::now() + Duration::from_secs(120),
        });
        for name in ["web", "mail", "api"] {
            harness.user.create_service(name, &[80]).await;
        }
        harness.settle().await;
        let all = harness.cloud.load_balancers();
        assert_eq!(all.len(), 3, "{all:?}");
        assert_eq!(harness.violations(), [""; 0]);
        program.stop().await;
    });
}

/// Lists of load balancers show what there was a minute ago.
///
/// # Panics
/// If it does not hold.
pub fn lagging_lists_lead_to_no_second_load_balancer(make: MakeProfile) {
    prove(make, async |harness| {
        harness.join(1..=2).await;
        let program = settled(&harness).await;
        harness.injector.delay_lists(Duration::from_secs(60));
        for name in ["web", "mail", "api"] {
            harness.user.create_service(name, &[80]).await;
        }
        minutes(5).await;
        assert_eq!(harness.cloud.load_balancers().len(), 3);
        harness.user.delete_service("api").await;
        harness.user.set_ports("mail", &[25]).await;
        minutes(5).await;
        program.stop().await;
        let program = settled(&harness).await;
        assert_eq!(harness.cloud.load_balancers().len(), 2);
        assert_eq!(harness.violations(), [""; 0]);
        program.stop().await;
    });
}
