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
    scene.fake.change_load_balancer("edge", |load_balancer| {
        drop(load_balancer.labels.insert("team".into(), "blue".into()));
    });
    scene
}

#[tokio::test(start_paused = true)]
async fn an_adopted_load_balancer_is_not_deleted_with_its_service() {
    for restarts in [false, true] {
        let mut scene = naming_edge();
        scene.ensure().await;
        assert_eq!(
            scene.sent(PUT)[0]["labels"][ADOPTED],
            "true",
            "written together with the owner labels"
        );
        scene.annotate("algorithm-type", "least_connections");
        scene.ensure().await;
        if restarts {
            scene.start().await;
        }
        let before = scene.balancer();
        scene.changes();
        scene.events();
        scene.try_delete().await.unwrap();
        let [service, target] = ["delete_service", "remove_target"].map(action);
        assert_eq!(
            scene.changes(),
            [service, target.clone(), target, PUT.to_owned()],
            "restarts: {restarts}"
        );
        let after = scene.balancer();
        assert_eq!(
            after.labels,
            [("team".to_owned(), "blue".to_owned())].into()
        );
        assert_eq!(
            (after.targets.len(), after.services.len(), after.algorithm),
            (0, 0, before.algorithm)
        );
        let events = scene.events();
        assert!(
            events[0].starts_with("web LoadBalancerNotDeleted: load balancer \"edge\" ("),
            "{events:?}"
        );
        // The load balancer has no owner now.
        scene.start().await;
        assert_eq!(scene.try_get().await.unwrap(), None);
        scene.try_delete().await.unwrap();
        assert_eq!(scene.changes(), [""; 0]);
    }
}

/// Returns a listener as the cloud has it, with this port.
async fn listener(port: u16) -> hetzner_fake::Service {
    let mut scene = Scene::new();
    scene.ensure().await;
    let mut listener = scene.balancer().services.remove(0);
    (listener.listen_port, listener.destination_port) = (port, port);
    listener
}

#[tokio::test(start_paused = true)]
async fn listeners_and_targets_that_an_adopted_load_balancer_had_before_stay() {
    for restarts in [false, true] {
        let mut scene = naming_edge();
        let theirs = listener(443).await;
        let machine = scene.fake.add_server("theirs").id;
        let node: u64 = scene.servers()[0].parse().unwrap();
        let before: Vec<_> = [machine, node]
            .map(|id| Target::Server {
                id,
                use_private_ip: false,
            })
            .into();
        scene.fake.change_load_balancer("edge", |load_balancer| {
            (load_balancer.services, load_balancer.targets) =
                (vec![theirs.clone()], before.clone());
        });
        scene.ensure().await;
        assert_eq!(
            scene.sent(PUT)[0]["labels"][ADOPTED],
            "443",
            "the record of the listeners"
        );
        assert_eq!(
            scene.targets(),
            scene.servers(),
            "the two Nodes, and the machine that was there before"
        );
        if restarts {
            scene.start().await;
        }
        scene.ports(json!([{"port": 80, "nodePort": 30080}, {"port": 81, "nodePort": 30081}]));
        scene.ensure().await;
        scene.try_update().await.unwrap();
        let ports = |scene: &Scene| {
            scene
                .balancer()
                .services
                .iter()
                .map(|service| service.listen_port)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            (ports(&scene), scene.targets()),
            (vec![443, 80, 81], scene.servers())
        );
        scene.changes();
        scene.ensure().await;
        assert_eq!(scene.changes(), [""; 0]);
        if restarts {
            scene.start().await;
        }
        scene.try_delete().await.unwrap();
        let after = scene.balancer();
        assert_eq!(
            after.labels,
            [("team".to_owned(), "blue".to_owned())].into(),
            "restarts: {restarts}"
        );
        assert_eq!(
            (after.services, after.targets),
            (vec![theirs], before),
            "restarts: {restarts}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn port_of_a_listener_that_was_there_before_the_adoption_is_refused() {
    let mut scene = naming_edge();
    let theirs = listener(80).await;
    scene.fake.change_load_balancer("edge", |load_balancer| {
        load_balancer.services = vec![theirs.clone()];
    });
    let err = scene.refused().await;
    let expected =
        "is one that the load balancer had before (its creator can delete it); choose another port";
    assert!(
        err.is_invalid() && err.to_string().contains(expected),
        "{err}"
    );
    assert_eq!(scene.changes(), [""; 0]);
    // The same after an adoption with another port.
    scene.ports(json!([{"port": 81, "nodePort": 30081}]));
    scene.ensure().await;
    scene.ports(json!([{"port": 81, "nodePort": 30081}, {"port": 80, "nodePort": 30080}]));
    let err = scene.refused().await;
    assert!(
        err.is_invalid() && err.to_string().contains(expected),
        "{err}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_adopted_load_balancer_survives_a_crash_at_any_moment_of_its_removal() {
    for (kind, is_let_go) in [
        (FaultKind::LostAnswer, true),
        (FaultKind::Status(500), false),
    ] {
        let mut scene = naming_edge();
        scene.ensure().await;
        scene.start().await;
        scene.fake.fail(Fault::new(PUT, kind.clone()));
        assert!(scene.try_delete().await.is_err(), "{kind:?}");
        assert_eq!(
            scene.balancer().labels.contains_key(ADOPTED),
            !is_let_go,
            "{kind:?}"
        );
        scene.fake.clear_faults();
        scene.start().await;
        scene.try_delete().await.unwrap();
        assert_eq!(
            scene.balancer().labels,
            [("team".to_owned(), "blue".to_owned())].into(),
            "{kind:?}"
        );
        assert_eq!(scene.fake.count("DELETE /load_balancers/{id}"), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_load_balancer_is_adopted_only_with_the_label_that_the_variable_requires() {
    for (label, is_adopted) in [
        ("team=blue", true),
        ("team", true),
        ("team=red", false),
        ("adoptable", false),
    ] {
        let mut scene = naming_edge();
        scene.env("ADOPTION_LABEL", label);
        if is_adopted {
            scene.ensure().await;
            assert_eq!(scene.balancer().labels[LEGACY_OWNER_LABEL], UID, "{label}");
            continue;
        }
        let err = scene.refused().await;
        let hint =
            format!("the label {label}, which HCLOUD_LOAD_BALANCERS_ADOPTION_LABEL requires");
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
        scene
            .meddle(|load_balancer| {
                load_balancer
                    .labels
                    .retain(|key, _| keeps_legacy_owner && key == LEGACY_OWNER_LABEL);
            })
            .await;
        scene.ports(json!([{"port": 81, "nodePort": 30081}]));
        scene.ensure().await;
        assert!(
            !scene.balancer().labels.contains_key(ADOPTED),
            "keeps_sign: {keeps_legacy_owner}"
        );
        scene.start().await;
        scene.try_delete().await.unwrap();
        assert!(
            scene.fake.load_balancers().is_empty(),
            "keeps_sign: {keeps_legacy_owner}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn load_balancer_without_the_tag_of_the_flag_is_not_adopted() {
    for (tag, is_adopted) in [("team=blue", true), ("team=red", false)] {
        let mut scene = naming_edge();
        scene.config.adoptable_tag = Some(tag.parse().unwrap());
        if is_adopted {
            scene.ensure().await;
            continue;
        }
        let err = scene.refused().await;
        assert!(
            err.is_invalid() && err.to_string().contains("give it the tag team=red"),
            "{err}"
        );
        assert_eq!(scene.changes(), [""; 0]);
    }
}
