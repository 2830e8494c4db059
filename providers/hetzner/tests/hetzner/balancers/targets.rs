//! Targets of load balancers: cloud servers, dedicated servers, and their limits.

use hetzner_fake::Fault;

use super::*;
use crate::harness::WITH_ROBOT;

impl Scene {
    /// Enables Robot, with or without credentials, and adds dedicated servers `bm-1`… of these numbers, whose Nodes
    /// have these InternalIPs.
    fn robot(&mut self, has_credentials: bool, servers: &[(u64, Option<&str>)]) {
        self.config.robot = Config::read(&harness::setup(WITH_ROBOT)).unwrap().robot;
        if !has_credentials {
            self.config.robot.as_mut().unwrap().credential = None;
        }
        for (number, internal) in servers {
            let name = format!("bm-{number}");
            self.fake.add_robot_server(*number, &name);
            let addresses: Vec<_> = internal
                .iter()
                .map(|ip| json!({"type": "InternalIP", "address": ip}))
                .collect();
            self.nodes.push(node(
                &name,
                &format!("hrobot://{number}"),
                &json!({"status": {"addresses": addresses}}),
            ));
        }
    }

    fn robot_ip(&self, number: u64) -> String {
        let server = self.fake.change_robot_server(number, |_| {}).unwrap();
        server.server_ip.unwrap().to_string()
    }
}

fn sorted(mut list: Vec<String>) -> Vec<String> {
    list.sort();
    list
}

#[tokio::test(start_paused = true)]
async fn a_selector_chooses_among_the_nodes() {
    for (selector, expected) in [
        (None, &["a", "b", "c"][..]),
        (Some(""), &["a", "b", "c"]),
        (Some("pool=blue"), &["a", "b"]),
        (Some("pool=blue,zone=1"), &["a"]),
        (Some("pool in (blue, red),zone!=1"), &["b", "c"]),
        (Some("!zone"), &["c"]),
        (Some("pool=green"), &[]),
    ] {
        let mut scene = Scene::new();
        scene.nodes.clear();
        let labels = [
            ("a", json!({"pool": "blue", "zone": "1"})),
            ("b", json!({"pool": "blue", "zone": "2"})),
            ("c", json!({"pool": "red"})),
        ];
        for (name, labels) in labels {
            let id = scene.fake.add_server(name).id;
            scene.nodes.push(node(
                name,
                &format!("hcloud://{id}"),
                &json!({"labels": labels}),
            ));
        }
        selector
            .into_iter()
            .for_each(|selector| scene.annotate("node-selector", selector));
        scene.ensure().await;
        let expected: Vec<_> = expected
            .iter()
            .map(|name| scene.fake.server(name).unwrap().id.to_string())
            .collect();
        assert_eq!(scene.targets(), sorted(expected), "{selector:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_selector_that_cannot_be_read_leaves_the_targets_as_they_are() {
    let mut scene = Scene::new();
    scene.ensure().await;
    let before = scene.targets();
    scene.changes();
    scene.annotate("node-selector", "pool in blue");
    let err = scene.refused().await;
    assert!(
        err.is_invalid() && err.to_string().contains("node-selector: \"pool in blue\""),
        "{err}"
    );
    assert!(scene.try_update().await.is_err());
    assert_eq!((scene.targets(), scene.changes()), (before, vec![]));
}

#[tokio::test(start_paused = true)]
async fn cloud_servers_are_targets_by_id_and_dedicated_ones_by_address() {
    let mut scene = Scene::new();
    scene.robot(true, &[(321, None), (322, None)]);
    scene.ensure().await;
    let mut expected = scene.servers();
    expected.extend([scene.robot_ip(321), scene.robot_ip(322)]);
    assert_eq!(scene.targets(), sorted(expected));
    assert_eq!(
        (scene.changes(), scene.fake.count("GET /server")),
        (vec![CREATE.to_owned()], 0)
    );
    scene.ensure().await;
    assert_eq!(scene.changes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn what_no_node_stands_behind_is_removed() {
    let mut scene = Scene::new();
    scene.nodes.clear();
    scene.ensure().await;
    let [one, two] = [scene.fake.add_server("x").id, scene.fake.add_server("y").id];
    scene
        .meddle(|load_balancer| {
            load_balancer
                .targets
                .extend([one, two].map(|id| Target::Server {
                    id,
                    use_private_ip: false,
                }));
            load_balancer
                .targets
                .push(Target::Ip("198.51.100.4".parse().unwrap()));
            load_balancer.targets.push(Target::LabelSelector {
                selector: "pool=blue".to_owned(),
                use_private_ip: false,
            });
        })
        .await;
    scene.ensure().await;
    assert_eq!(
        scene.targets(),
        ["pool=blue"],
        "a label selector is left alone, as the reference leaves it"
    );
    assert_eq!(
        scene.changes(),
        [
            action("remove_target"),
            action("remove_target"),
            action("remove_target")
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn no_more_targets_than_the_type_takes_and_each_other_node_is_told() {
    let mut scene = Scene::new();
    scene
        .fake
        .change_type("lb11", |balancer_type| balancer_type.max_targets = 3);
    scene.ensure().await;
    let first = scene.targets();
    scene.changes();
    for number in 3..6 {
        scene.add_node(&format!("worker-{number}"));
    }
    scene.try_update().await.unwrap();
    let targets = scene.targets();
    assert!(
        targets.len() == 3 && first.iter().all(|text| targets.contains(text)),
        "{targets:?}"
    );
    assert_eq!(scene.changes(), [action("add_target")]);
    let events = scene.events();
    assert_eq!(events.len(), 2, "{events:?}");
    assert!(
        events
            .iter()
            .all(|event| event.starts_with("worker-") && event.contains(" MaxTargetsReached: ")),
        "{events:?}"
    );
    scene.try_update().await.unwrap();
    scene.ensure().await;
    assert_eq!((scene.changes(), scene.events()), (vec![], vec![]));
}

/// The type's limit has just become smaller: it is known once the load balancer was read again.
#[tokio::test(start_paused = true)]
async fn limit_that_the_api_sees_first_is_reported_on_the_node_and_is_no_error() {
    let mut scene = Scene::new();
    scene.ensure().await;
    scene.changes();
    scene.add_node("worker-3");
    scene
        .fake
        .change_type("lb11", |balancer_type| balancer_type.max_targets = 2);
    scene.try_update().await.unwrap();
    assert_eq!(scene.targets().len(), 2);
    let events = scene.events();
    assert!(
        events.len() == 1 && events[0].starts_with("worker-3 MaxTargetsReached: "),
        "{events:?}"
    );
    assert!(
        events[0].contains("maximum number of targets of its type"),
        "{events:?}"
    );
}

/// The refusal comes in the response, or as the outcome of its action.
#[tokio::test(start_paused = true)]
async fn target_refused_for_an_unknown_limit_keeps_no_other_out_and_is_tried_again() {
    let add = action("add_target");
    let code = "resource_limit_exceeded";
    for fault in [Fault::code(&add, code), Fault::ends_in_error(&add, code)] {
        let mut scene = Scene::new();
        scene.ensure().await;
        scene.changes();
        for number in 3..6 {
            scene.add_node(&format!("worker-{number}"));
        }
        scene.fake.fail(fault.times(1));
        let err = scene.try_update().await.unwrap_err();
        assert!(
            err.is_quota() && err.to_string().contains("with 4 targets accepts no more"),
            "{err}"
        );
        assert_eq!(
            (scene.targets().len(), scene.changes()),
            (4, vec![add.clone(); 3])
        );
        let events = scene.events();
        assert!(
            events.len() == 1 && events[0].starts_with("worker-3 MaxTargetsReached: "),
            "{events:?}"
        );
        assert!(
            events[0].contains(code) || events[0].contains("403"),
            "{events:?}"
        );
        scene.try_update().await.unwrap();
        assert_eq!(
            (scene.targets(), scene.changes()),
            (sorted(scene.servers()), vec![add.clone()])
        );
    }
}

#[tokio::test(start_paused = true)]
async fn targets_are_reached_in_the_network_where_that_is_asked_for() {
    for (annotation, env, is_private) in [
        (None, true, true),
        (Some("true"), false, true),
        (Some("false"), true, false),
        (None, false, false),
    ] {
        let mut scene = Scene::new();
        scene.network();
        scene.env("USE_PRIVATE_IP", if env { "true" } else { "" });
        annotation
            .into_iter()
            .for_each(|annotation| scene.annotate("use-private-ip", annotation));
        scene.ensure().await;
        assert!(
            scene
                .balancer()
                .targets
                .iter()
                .all(|target| target.is_private() == is_private),
            "{annotation:?} {env}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn private_addresses_without_a_network_are_an_error() {
    let mut scene = Scene::new();
    scene.annotate("use-private-ip", "true");
    let err = scene.refused().await;
    assert!(
        err.is_invalid() && err.to_string().contains("set HCLOUD_NETWORK"),
        "{err}"
    );
    assert_eq!(scene.changes(), [""; 0]);
}

/// A target that is reached in another way is removed before it is added.
#[tokio::test(start_paused = true)]
async fn each_target_changes_the_way_it_is_reached_one_by_one() {
    let mut scene = Scene::new();
    scene.network();
    scene.ensure().await;
    scene.changes();
    scene.annotate("use-private-ip", "true");
    scene.annotate("disable-public-network", "true");
    scene.ensure().await;
    assert!(scene.balancer().targets.iter().all(Target::is_private));
    assert!(
        !scene.balancer().public_interface,
        "that is possible only after it"
    );
    let add = action("add_target");
    let remove = action("remove_target");
    assert_eq!(
        scene.changes(),
        [
            &*remove,
            &add,
            &remove,
            &add,
            &action("disable_public_interface")
        ]
    );
    scene.ensure().await;
    assert_eq!(scene.changes(), [""; 0]);
}

/// Several at once, where the API does one action at a time.
#[tokio::test(start_paused = true)]
async fn nodes_that_join_together_all_become_targets() {
    for busy_balancers in [false, true] {
        let mut scene = Scene::with(Options {
            busy_balancers,
            ..Options::default()
        });
        scene.ensure().await;
        scene.fake.forget_requests();
        for number in 3..13 {
            scene.add_node(&format!("worker-{number}"));
        }
        scene.try_update().await.unwrap();
        assert_eq!(scene.targets(), sorted(scene.servers()));
        let counts = scene.fake.counts();
        let sent = counts[&action("add_target")];
        let asked = counts["GET /actions"];
        let most = if busy_balancers { (11, 30) } else { (10, 3) };
        assert!(
            sent <= most.0 && asked <= most.1,
            "{busy_balancers}: {counts:?}"
        );
    }
}

/// Nodes of another provider are not this provider's concern.
#[tokio::test(start_paused = true)]
async fn a_node_of_another_provider_is_told_and_left_out() {
    let mut scene = Scene::new();
    scene
        .nodes
        .push(node("elsewhere", "aws:///eu-central-1/i-1", &json!({})));
    scene.nodes.push(node("joining", "", &json!({})));
    scene.ensure().await;
    assert_eq!(scene.targets(), scene.servers());
    let events = scene.events();
    assert!(
        events.len() == 1 && events[0].starts_with("elsewhere UnknownProviderIDPrefix: "),
        "{events:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn inv_6_a_node_whose_id_is_malformed_is_told_and_keeps_no_other_from_being_a_target() {
    let mut scene = Scene::new();
    scene.nodes.push(node("odd", "hcloud://abc", &json!({})));
    scene.ensure().await;
    assert_eq!(scene.targets(), scene.servers());
    let events = scene.events();
    assert!(
        events.len() == 1 && events[0].starts_with("odd InvalidProviderID: "),
        "{events:?}"
    );
    assert!(events[0].contains("\"hcloud://abc\""), "{events:?}");
}

/// INV-6: an error in settings unrelated to targets must not keep deleted machines as targets.
#[tokio::test(start_paused = true)]
async fn a_mistake_in_an_annotation_keeps_no_node_from_becoming_a_target() {
    let mut scene = Scene::new();
    scene.ensure().await;
    scene.annotate("http-timeout-idle", "1s");
    scene.annotate("type", "lb99");
    assert!(scene.refused().await.is_invalid());
    scene.changes();
    scene.add_node("worker-3");
    scene.nodes.remove(0);
    scene.try_update().await.unwrap();
    assert_eq!(scene.targets(), scene.servers()[1..]);
    assert_eq!(
        scene.changes(),
        [action("add_target"), action("remove_target")]
    );
}

/// P-25: the machines of these Nodes are not known yet.
#[tokio::test(start_paused = true)]
async fn nodes_of_which_nobody_knows_a_machine_take_no_target_away() {
    let mut scene = Scene::new();
    scene.ensure().await;
    let before = scene.targets();
    scene.nodes = vec![node("joining", "", &json!({}))];
    scene.try_update().await.unwrap();
    assert_eq!(scene.targets(), before);
}

/// Dedicated servers by private address.
#[tokio::test(start_paused = true)]
async fn dedicated_servers_are_reached_by_their_internal_address_or_else_their_public_one() {
    let mut scene = Scene::new();
    scene.network();
    scene.nodes.clear();
    scene.robot(true, &[(321, Some("10.1.0.2")), (322, None)]);
    scene.annotate("use-private-ip", "true");
    scene.ensure().await;
    assert_eq!(
        scene.targets(),
        sorted(vec!["10.1.0.2".to_owned(), scene.robot_ip(322)])
    );
    let events = scene.events();
    assert!(
        events.len() == 1 && events[0].starts_with("bm-322 InternalIPNotConfigured: "),
        "{events:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn without_credentials_only_internal_addresses_of_dedicated_servers_are_known() {
    let mut scene = Scene::new();
    scene.network();
    scene.nodes.clear();
    scene.robot(false, &[(321, Some("10.1.0.2")), (322, None)]);
    scene.annotate("use-private-ip", "true");
    scene.ensure().await;
    assert_eq!(scene.targets(), ["10.1.0.2"]);
    let events = scene.events();
    assert!(
        events.len() == 1 && events[0].starts_with("bm-322 InternalIPNotConfigured: "),
        "{events:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_dedicated_server_that_robot_does_not_know_is_told_and_left_out() {
    let mut scene = Scene::new();
    scene.robot(true, &[(321, None)]);
    scene.nodes.push(node("bm-999", "hrobot://999", &json!({})));
    scene.ensure().await;
    let mut expected = scene.servers();
    expected.push(scene.robot_ip(321));
    assert_eq!(scene.targets(), sorted(expected));
    let events = scene.events();
    assert!(
        events.len() == 1 && events[0].starts_with("bm-999 ServerNotFound: "),
        "{events:?}"
    );
}

/// The credential shows no dedicated server, as that of another account does.
#[tokio::test(start_paused = true)]
async fn a_credential_that_shows_no_dedicated_server_takes_no_target_away() {
    let mut scene = Scene::new();
    scene.robot(true, &[(321, None)]);
    scene.ensure().await;
    let before = scene.targets();
    scene.fake.remove_robot_server(321);
    tokio::time::sleep(std::time::Duration::from_secs(601)).await;
    let err = scene.refused().await;
    assert!(
        err.to_string()
            .contains("ROBOT_USER shows no server at all"),
        "{err}"
    );
    assert_eq!(scene.targets(), before);
}

#[tokio::test(start_paused = true)]
async fn dedicated_servers_are_no_targets_where_robot_is_off() {
    let mut scene = Scene::new();
    scene.nodes.push(node("bm-321", "hrobot://321", &json!({})));
    scene.ensure().await;
    assert_eq!((scene.targets(), scene.events()), (scene.servers(), vec![]));
}

/// The target stays until its Node is deleted, too.
#[tokio::test(start_paused = true)]
async fn a_node_whose_server_is_gone_keeps_nobody_out() {
    let mut scene = Scene::new();
    scene.fake.terminate("worker-1");
    scene.ensure().await;
    assert_eq!(
        (scene.targets(), scene.balancer().services.len()),
        (scene.servers(), 1)
    );
    let events = scene.events();
    assert!(
        events.len() == 1 && events[0].starts_with("worker-1 ServerNotFound: "),
        "{events:?}"
    );
    scene.add_node("worker-3");
    tokio::time::advance(LONG).await;
    scene.try_update().await.unwrap();
    assert_eq!((scene.targets(), scene.events()), (scene.servers(), vec![]));
}

/// The load balancer has as many targets as its type permits: each one makes room for its replacement.
#[tokio::test(start_paused = true)]
async fn at_the_limit_too_each_target_changes_the_way_it_is_reached_one_by_one() {
    let mut scene = Scene::new();
    scene.network();
    scene
        .fake
        .change_type("lb11", |balancer_type| balancer_type.max_targets = 2);
    scene.ensure().await;
    scene.changes();
    scene.annotate("use-private-ip", "true");
    scene.ensure().await;
    assert!(scene.balancer().targets.iter().all(Target::is_private));
    let add = action("add_target");
    let remove = action("remove_target");
    assert_eq!(scene.changes(), [&*remove, &add, &remove, &add]);
}

/// A target that another client added first does not mean that the API serializes changes.
#[tokio::test(start_paused = true)]
async fn a_target_that_was_there_already_slows_nobody_down() {
    let mut scene = Scene::new();
    scene.ensure().await;
    let ids = [scene.add_node("worker-3"), scene.add_node("worker-4")];
    scene.fake.change_load_balancer(NAME, |load_balancer| {
        load_balancer.targets.push(Target::Server {
            id: ids[1],
            use_private_ip: false,
        });
    });
    scene.try_update().await.unwrap();
    for number in 5..15 {
        scene.add_node(&format!("worker-{number}"));
    }
    scene.fake.forget_requests();
    scene.try_update().await.unwrap();
    assert_eq!(scene.targets(), sorted(scene.servers()));
    assert!(
        scene.fake.count("GET /actions") <= 3,
        "{:?}",
        scene.fake.counts()
    );
}

/// Addresses in different spellings are equal (INV-3).
#[tokio::test(start_paused = true)]
async fn an_address_in_another_spelling_is_the_same_target() {
    let mut scene = Scene::new();
    scene.network();
    scene.nodes.clear();
    scene.annotate("use-private-ip", "true");
    scene.ensure().await;
    scene.robot(true, &[(321, Some("fd00:0:0::1"))]);
    scene
        .meddle(|load_balancer| {
            load_balancer
                .targets
                .push(Target::Ip("fd00::1".parse().unwrap()));
        })
        .await;
    scene.changes();
    scene.ensure().await;
    assert_eq!(scene.changes(), [""; 0]);
}
