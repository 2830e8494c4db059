//! Deletion of load balancers.

use hetzner_fake::Fault;

use super::*;

/// Found; and no more than two requests.
#[tokio::test(start_paused = true)]
async fn it_is_found_by_its_sign_and_deleted() {
    let mut scene = Scene::new();
    scene.ensure().await;
    scene.fake.forget_requests();
    scene.try_delete().await.unwrap();
    assert!(scene.fake.load_balancers().is_empty());
    let routes: Vec<_> = scene
        .fake
        .requests()
        .into_iter()
        .map(|request| (request.route, request.query))
        .collect();
    assert_eq!(routes.len(), 2, "{routes:?}");
    assert!(routes[0].1.starts_with("label_selector="), "{routes:?}");
}

/// No longer in silence.
#[tokio::test(start_paused = true)]
async fn one_that_is_protected_stays_and_is_told() {
    for is_seen in [true, false] {
        let mut scene = Scene::new();
        scene.ensure().await;
        if is_seen {
            scene
                .meddle(|load_balancer| load_balancer.is_protected = true)
                .await;
        } else {
            scene
                .fake
                .fail(Fault::code("DELETE /load_balancers/{id}", "protected"));
        }
        scene.changes();
        scene.try_delete().await.unwrap();
        assert_eq!(
            (scene.fake.load_balancers().len(), scene.changes().len()),
            (1, usize::from(!is_seen))
        );
        let events = scene.events();
        assert!(
            events[0].starts_with("web LoadBalancerProtected: "),
            "{events:?}"
        );
    }
}

/// P-3: both requests of a deletion are urgent, so that they do not wait behind creations.
#[tokio::test(start_paused = true)]
async fn it_goes_first_when_requests_are_scarce() {
    let mut scene = Scene::new();
    scene.ensure().await;
    // More than is left to others, less than is kept for what is urgent.
    scene.fake.set_remaining(450);
    scene.start().await;
    let begun = tokio::time::Instant::now();
    scene.try_delete().await.unwrap();
    assert!(scene.fake.load_balancers().is_empty());
    assert!(
        begun.elapsed() < Duration::from_secs(1),
        "{:?}",
        begun.elapsed()
    );
}
