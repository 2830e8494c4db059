//! Who waits for an action of the cloud lets others work meanwhile (INV-6).

use std::time::Duration;

use ccm_conformance::Harness;
use ccm_tests::profiles::HetznerCloud;
use hetzner_fake::Options;
use tokio::time::Instant;

const SERVICES: usize = 10;

#[tokio::test(start_paused = true)]
async fn inv_6_an_action_that_takes_long_delays_no_other_service() {
    let action_time = Duration::from_secs(30);
    let cloud = HetznerCloud::new(Options { action_time, ..Options::default() });
    let mut options = controllers::Options::default();
    options.service.concurrent_syncs = 1;
    let harness = Harness::of(&cloud).options(options).build();
    harness.join(1..=1).await;
    let program = harness.start().await.unwrap();
    harness.settle().await;
    let begun = Instant::now();
    for number in 0..SERVICES {
        harness.user.create_service(&format!("service-{number}"), &[80]).await;
    }
    harness.settle_within(ccm_conformance::PATIENCE).await.unwrap();
    assert_eq!(cloud.fake.load_balancers().len(), SERVICES);
    assert!(begun.elapsed() < 2 * action_time, "one after the other: {:?}", begun.elapsed());
    program.stop().await;
}
