//! Load balancers that another client changes in the cloud (P-23).

use std::time::Duration;

use cloud_provider::Error;
use controllers::options::Drift;

use crate::cloud::Behaviour;
use crate::world::{World, world, world_with};

const PERIOD: Duration = Duration::from_secs(600);

async fn with_drift(drift: Drift) -> World {
    let world = world_with(|options| {
        options.drift_check_period = PERIOD;
        options.drift = drift;
    })
    .await;
    for name in ["web", "api"] {
        world.create(name).await;
    }
    world.settle().await;
    world.clear();
    world
}

#[tokio::test(start_paused = true)]
async fn nobody_looks_unless_asked() {
    let world = world().await;
    world.create("web").await;
    world.settle().await;
    world.cloud.tamper(|balancer| balancer.ports.clear());
    tokio::time::sleep(24 * PERIOD).await;
    assert_eq!(world.cloud.count("plan"), 0);
}

#[tokio::test(start_paused = true)]
async fn drift_is_reported_once_and_left_alone() {
    let world = with_drift(Drift::Report).await;
    tokio::time::sleep(3 * PERIOD).await;
    assert!(
        world.cloud.count("plan web") >= 2
            && world.all_events().is_empty()
            && world.drifts.get() == 0
    );
    world.cloud.tamper(|balancer| balancer.ports = vec![22]);
    tokio::time::sleep(10 * PERIOD).await;
    let told = world.take_events("web");
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].starts_with("LoadBalancerDrift ") && told[0].contains("update ports: [22] → [80]"),
        "{told:?}"
    );
    assert_eq!(
        (world.cloud.changes(), world.drifts.get()),
        (0, 2),
        "two load balancers, one finding each"
    );

    world.cloud.tamper(|balancer| balancer.targets.clear());
    tokio::time::sleep(2 * PERIOD).await;
    assert_eq!(world.take_events("web").len(), 1, "another finding is news");

    world.cloud.tamper(|balancer| balancer.ports = vec![80]);
    world.user.set_ports("web", &[81]).await;
    world.settle().await;
    world.clear();
    tokio::time::sleep(2 * PERIOD).await;
    assert_eq!(
        world.take_events("web"),
        Vec::<String>::new(),
        "the Service's own change put it right"
    );
}

#[tokio::test(start_paused = true)]
async fn drift_is_put_right_if_asked() {
    let world = with_drift(Drift::Repair).await;
    for _ in 0..2 {
        world.clear();
        world.cloud.tamper(|balancer| balancer.ports = vec![22]);
        tokio::time::sleep(2 * PERIOD).await;
        assert!(
            world
                .cloud
                .balancers()
                .values()
                .all(|load_balancer| load_balancer.ports == [80])
        );
        let told = world.take_events("web");
        let reasons: Vec<_> = told
            .iter()
            .filter_map(|event| event.split(' ').next())
            .collect();
        assert_eq!(
            reasons,
            [
                "LoadBalancerDrift",
                "EnsuringLoadBalancer",
                "EnsuredLoadBalancer"
            ]
        );
        assert_eq!(world.cloud.changes(), 2);
    }
    assert_eq!(world.drifts.get(), 4);
}

#[tokio::test(start_paused = true)]
async fn looks_are_spread_over_the_period_and_skip_services_in_the_middle_of_a_change() {
    let world = with_drift(Drift::Report).await;
    world
        .cloud
        .behave("web", "ensure", Behaviour::Fails(Error::other("503")));
    world.user.set_ports("web", &[81]).await;
    tokio::time::sleep(10 * PERIOD).await;
    assert_eq!(
        world.cloud.count("plan web"),
        0,
        "it waits to be tried again"
    );
    let looks = world.cloud.count("plan api");
    assert!((8..=12).contains(&looks), "{looks}");
    assert!(
        world
            .all_events()
            .iter()
            .all(|event| !event.contains("Drift"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_service_that_waits_because_the_cloud_asked_for_it_has_not_drifted() {
    let world = with_drift(Drift::Repair).await;
    let wait = Error::retry_in(
        "the load balancer is being changed",
        Duration::from_secs(42),
    );
    world.cloud.behave("web", "ensure", Behaviour::Fails(wait));
    world.user.set_ports("web", &[81]).await;
    tokio::time::sleep(10 * PERIOD).await;
    assert!(
        world.cloud.count("ensure web") > 100,
        "it goes on being tried"
    );
    assert_eq!((world.cloud.count("plan web"), world.drifts.get()), (0, 0));
    world.cloud.heal();
    tokio::time::sleep(3 * PERIOD).await;
    assert!(
        world.cloud.count("plan web") >= 2,
        "now it is looked at again"
    );
}

#[tokio::test(start_paused = true)]
async fn a_look_that_hangs_or_fails_delays_nobody() {
    let world = with_drift(Drift::Repair).await;
    world.cloud.behave("web", "plan", Behaviour::Hangs);
    world.cloud.tamper(|balancer| balancer.ports = vec![22]);
    tokio::time::sleep(2 * PERIOD).await;
    assert!(world.cloud.count("plan web") >= 1 && world.cloud.count("ensure api") == 1);
    world.user.set_ports("web", &[81]).await;
    tokio::time::sleep(Duration::from_secs(121)).await;
    assert!(
        world
            .cloud
            .balancers()
            .values()
            .any(|load_balancer| load_balancer.ports == [81])
    );
}
