//! Who waits for an action of the cloud lets others work meanwhile (INV-6).

use std::time::Duration;

use ccm_tests::hetzner_cloud::HetznerCloud;
use ccm_tests::scene;
use ccm_tests::stage::Stage;
use hetzner_fake::Options;
use tokio::time::Instant;

const SERVICES: usize = 10;

#[tokio::test(start_paused = true)]
async fn inv_6_an_action_that_takes_long_delays_no_other_service() {
    let action_time = Duration::from_secs(30);
    let cloud = HetznerCloud::new(Options { action_time, ..Options::default() });
    let mut options = controllers::Options::default();
    options.service.concurrent_syncs = 1;
    let stage = Stage::new(Box::new(cloud.clone()), options, 1);
    scene::join(&stage, 1..=1).await;
    let program = stage.start().await.unwrap();
    scene::settle(&stage).await;
    let begun = Instant::now();
    for number in 0..SERVICES {
        stage.user.create_service(&format!("service-{number}"), &[80]).await;
    }
    stage.settle(scene::PATIENCE).await.unwrap();
    assert_eq!(cloud.fake.load_balancers().len(), SERVICES);
    assert!(begun.elapsed() < 2 * action_time, "one after the other: {:?}", begun.elapsed());
    program.stop().await;
}
