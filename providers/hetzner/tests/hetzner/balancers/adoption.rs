//! Adoption of load balancers that other programs created, and that a Service names.

use hetzner_fake::{Fault, FaultKind};

use super::*;

const ADOPTED: &str = "ccm-rs/adopted";
const PUT: &str = "PUT /load_balancers/{id}";

/// Returns a harness with a Service that names `edge`, which an operator created.
fn naming_edge() -> Scene {
    let mut scene = Scene::new();
    scene.annotate("name", "edge");
    scene.fake.add_load_balancer("edge");
    scene.fake.change_load_balancer("edge", |it| drop(it.labels.insert("team".into(), "blue".into())));
    scene
}

#[tokio::test(start_paused = true)]
async fn an_adopted_load_balancer_is_not_deleted_with_its_service() {
    for restarts in [false, true] {
        let mut scene = naming_edge();
        scene.ensure().await;
        assert_eq!(scene.sent(PUT)[0]["labels"][ADOPTED], "true", "written together with the owner labels");
        scene.annotate("algorithm-type", "least_connections");
        scene.ensure().await;
        if restarts {
            scene.start().await;
        }
        let before = scene.balancer();
        scene.changes();
        scene.events();
        scene.try_delete().await.unwrap();
        assert_eq!(scene.changes(), [PUT], "restarts: {restarts}");
        let after = scene.balancer();
        assert_eq!(after.labels, [("team".to_owned(), "blue".to_owned())].into());
        assert_eq!((after.targets, after.services), (before.targets, before.services));
        let events = scene.events();
        assert!(events[0].starts_with("web LoadBalancerNotDeleted: load balancer \"edge\" ("), "{events:?}");
        // The load balancer has no owner now.
        scene.start().await;
        assert_eq!(scene.try_get().await.unwrap(), None);
        scene.try_delete().await.unwrap();
        assert_eq!(scene.changes(), [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_adopted_load_balancer_survives_a_crash_at_any_moment_of_its_removal() {
    for (kind, is_let_go) in [(FaultKind::LostAnswer, true), (FaultKind::Status(500), false)] {
        let mut scene = naming_edge();
        scene.ensure().await;
        scene.start().await;
        scene.fake.fail(Fault::new(PUT, kind.clone()));
        assert!(scene.try_delete().await.is_err(), "{kind:?}");
        assert_eq!(scene.balancer().labels.contains_key(ADOPTED), !is_let_go, "{kind:?}");
        scene.fake.clear_faults();
        scene.start().await;
        scene.try_delete().await.unwrap();
        assert_eq!(scene.balancer().labels, [("team".to_owned(), "blue".to_owned())].into(), "{kind:?}");
        assert_eq!(scene.fake.count("DELETE /load_balancers/{id}"), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_load_balancer_is_adopted_only_with_the_label_that_the_variable_requires() {
    for (label, is_adopted) in [("team=blue", true), ("team", true), ("team=red", false), ("adoptable", false)] {
        let mut scene = naming_edge();
        scene.env("ADOPTION_LABEL", label);
        if is_adopted {
            scene.ensure().await;
            assert_eq!(scene.balancer().labels[LEGACY_OWNER_LABEL], UID, "{label}");
            continue;
        }
        let err = scene.refused().await;
        let hint = format!("the label {label}, which HCLOUD_LOAD_BALANCERS_ADOPTION_LABEL requires");
        assert!(err.is_invalid() && err.to_string().contains(&hint), "{err}");
        assert_eq!(scene.changes(), [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_load_balancer_that_was_made_for_the_service_is_no_adoption() {
    // Neither with the labels of the Go program alone, nor without any, by the name that only it can have.
    for keeps_legacy_owner in [true, false] {
        let mut scene = Scene::new();
        scene.env("ADOPTION_LABEL", "adoptable");
        scene.ensure().await;
        scene.meddle(|it| it.labels.retain(|key, _| keeps_legacy_owner && key == LEGACY_OWNER_LABEL)).await;
        scene.ports(json!([{"port": 81, "nodePort": 30081}]));
        scene.ensure().await;
        assert!(!scene.balancer().labels.contains_key(ADOPTED), "keeps_sign: {keeps_legacy_owner}");
        scene.start().await;
        scene.try_delete().await.unwrap();
        assert!(scene.fake.load_balancers().is_empty(), "keeps_sign: {keeps_legacy_owner}");
    }
}
