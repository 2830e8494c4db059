//! The program is killed at each request; the next run ends in the same state.

use std::sync::atomic::Ordering;

use crate::harness::{Harness, Moment, Run};

/// Plays what users do: two Services, a fixed address, and a deletion. Ends early if the run is killed.
async fn story(
    harness: &Harness,
    run: &Run,
    services: &[cloud_provider::Service; 3],
) -> Option<()> {
    let [web, api, gone] = services;
    run.ensure(gone).await?.expect("an address");
    run.ensure(web).await?.expect("an address");
    let mut fixed = api.clone();
    fixed.spec.get_or_insert_default().load_balancer_ip = Some("10.0.0.9".into());
    run.ensure(&fixed).await?.expect("an address");
    run.delete(gone).await?.expect("a deletion");
    harness.api.remove("services", Some("default"), "gone");
    Some(())
}

fn services(harness: &Harness) -> [cloud_provider::Service; 3] {
    ["web", "api", "gone"].map(|name| harness.service(name))
}

#[tokio::test(start_paused = true)]
async fn program_killed_at_any_request_gives_out_no_address_twice_and_ends_in_the_same_state() {
    let undisturbed = Harness::new("10.0.0.0/28");
    let run = undisturbed.start(None).await;
    story(&undisturbed, &run, &services(&undisturbed))
        .await
        .expect("an undisturbed run");
    let expected = undisturbed.addresses();
    let requests = run.requests.load(Ordering::Relaxed);
    assert_eq!(expected.len(), 2, "{expected:?}");
    for crash in (0..requests)
        .flat_map(|number| [Moment::Before, Moment::After].map(|moment| (number, moment)))
    {
        let harness = Harness::new("10.0.0.0/28");
        let services = services(&harness);
        let killed = harness.start(Some(crash)).await;
        let ended = story(&harness, &killed, &services).await;
        assert!(ended.is_none(), "request {crash:?} was not sent");
        harness.addresses();
        let next = harness.start(None).await;
        story(&harness, &next, &services)
            .await
            .expect("an undisturbed run");
        let users =
            |all: &[(String, String)]| all.iter().map(|(_, user)| user.clone()).collect::<Vec<_>>();
        assert_eq!(
            users(&harness.addresses()),
            users(&expected),
            "killed at {crash:?}"
        );
    }
}
