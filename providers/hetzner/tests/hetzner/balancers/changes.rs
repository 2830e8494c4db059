//! Later changes: those that are applied, and those without effect.

use super::*;

/// Creates the load balancer, sets or replaces an annotation, and returns the requests of the next sync.
async fn after(
    prepare: impl FnOnce(&mut Scene),
    annotation: &str,
    value: &str,
) -> (Scene, Vec<String>) {
    let mut scene = Scene::new();
    prepare(&mut scene);
    scene.ensure().await;
    scene.changes();
    scene.annotate(annotation, value);
    scene.ensure().await;
    let changes = scene.changes();
    scene.ensure().await;
    assert_eq!(scene.changes(), [""; 0], "{annotation} settles");
    scene.start().await;
    scene.ensure().await;
    assert_eq!(
        scene.changes(),
        [""; 0],
        "{annotation} is what the cloud shows"
    );
    (scene, changes)
}

/// Each with one action, and none where nothing differs.
#[tokio::test(start_paused = true)]
async fn what_differs_is_changed_with_one_action() {
    let plain = |_: &mut Scene| {};
    let (scene, changes) = after(plain, "algorithm-type", "least_connections").await;
    assert_eq!(
        (changes, scene.balancer().algorithm),
        (
            vec![action("change_algorithm")],
            "least_connections".to_owned()
        )
    );
    let (_, changes) = after(plain, "algorithm-type", "round_robin").await;
    assert_eq!(changes, [""; 0]);
    let (scene, changes) = after(plain, "type", "lb21").await;
    assert_eq!(
        (changes, scene.balancer().load_balancer_type),
        (vec![action("change_type")], "lb21".to_owned())
    );
    let (_, changes) = after(plain, "type", "lb11").await;
    assert_eq!(changes, [""; 0]);
    let (scene, changes) = after(plain, "ipv4-rdns", "lb.example.com").await;
    assert_eq!(changes, [action("change_dns_ptr")]);
    assert_eq!(
        scene.balancer().ipv4.dns_ptr.as_deref(),
        Some("lb.example.com")
    );
    let (scene, changes) = after(plain, "ipv6-rdns", "lb.example.com").await;
    assert_eq!(changes, [action("change_dns_ptr")]);
    assert_eq!(
        scene.balancer().ipv6.dns_ptr.as_deref(),
        Some("lb.example.com")
    );
    let (scene, changes) = after(plain, "name", "edge").await;
    assert_eq!(
        (changes, scene.balancer().name),
        (
            vec!["PUT /load_balancers/{id}".to_owned()],
            "edge".to_owned()
        )
    );
    assert_eq!(scene.balancer().labels[LEGACY_OWNER_LABEL], UID);
    let private = |scene: &mut Scene| {
        scene.network();
        scene.env("USE_PRIVATE_IP", "true");
    };
    let (scene, changes) = after(private, "disable-public-network", "true").await;
    assert_eq!(
        (changes, scene.balancer().public_interface),
        (vec![action("disable_public_interface")], false)
    );
    let disabled = |scene: &mut Scene| {
        private(scene);
        scene.env("DISABLE_PUBLIC_NETWORK", "true");
    };
    let (scene, changes) = after(disabled, "disable-public-network", "false").await;
    assert_eq!(
        (changes, scene.balancer().public_interface),
        (vec![action("enable_public_interface")], true)
    );
    let (_, changes) = after(disabled, "disable-public-network", "true").await;
    assert_eq!(changes, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn what_nobody_states_stays_as_it_is() {
    let mut scene = Scene::new();
    scene.nodes.clear();
    scene.ensure().await;
    scene
        .meddle(|load_balancer| {
            load_balancer.public_interface = false;
            load_balancer.algorithm = "least_connections".to_owned();
            load_balancer.ipv6.dns_ptr = Some("by.hand.example".to_owned());
            load_balancer.services[0].proxyprotocol = true;
            load_balancer.services[0].health_check.interval = 60;
        })
        .await;
    scene.ensure().await;
    assert_eq!(scene.changes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_type_that_is_asked_for_no_more_never_makes_it_smaller() {
    let mut scene = Scene::new();
    scene.env("TYPE", "");
    scene.annotate("type", "lb31");
    scene.ensure().await;
    for number in 3..33 {
        scene.add_node(&format!("worker-{number}"));
    }
    scene.try_update().await.unwrap();
    scene.changes();
    scene.forget("type");
    scene.ensure().await;
    assert_eq!(scene.changes(), [""; 0]);
    assert_eq!(
        (scene.balancer().load_balancer_type, scene.targets().len()),
        ("lb31".to_owned(), 32)
    );
}

#[tokio::test(start_paused = true)]
async fn a_larger_type_comes_before_what_it_is_needed_for_and_a_smaller_one_after() {
    let mut scene = Scene::new();
    let ports = |count: u16| {
        json!(
            (0..count)
                .map(|n| json!({"port": 8000 + n, "nodePort": 30000 + n}))
                .collect::<Vec<_>>()
        )
    };
    scene.ports(ports(5));
    scene.ensure().await;
    scene.changes();
    scene.ports(ports(6));
    scene.annotate("type", "lb21");
    scene.ensure().await;
    assert_eq!(
        scene.changes(),
        [action("change_type"), action("add_service")]
    );
    scene.ports(ports(5));
    scene.annotate("type", "lb11");
    scene.ensure().await;
    assert_eq!(
        scene.changes(),
        [action("delete_service"), action("change_type")]
    );
}

/// Detaching removes private targets, which are then added again.
#[tokio::test(start_paused = true)]
async fn it_leaves_a_foreign_network_joins_its_own_and_keeps_its_targets() {
    let mut scene = Scene::new();
    let network = scene.network();
    let foreign = scene.fake.add_network("foreign", "10.0.0.0/8");
    scene.annotate("use-private-ip", "true");
    scene.ensure().await;
    let targets = scene.targets();
    let ip = scene.balancer().private_net[0].ip;
    scene
        .meddle(|load_balancer| load_balancer.private_net[0].network = foreign)
        .await;
    scene.ensure().await;
    let detach = action("detach_from_network");
    let attach = action("attach_to_network");
    let add = action("add_target");
    assert_eq!(scene.sent(&detach), [json!({"network": foreign})]);
    assert_eq!(scene.sent(&attach), [json!({"network": network})]);
    assert_eq!(
        (scene.targets(), scene.balancer().private_net[0].network),
        (targets, network)
    );
    assert_eq!(scene.changes(), [&*detach, &attach, &add, &add]);
    let _ = ip;
    scene.ensure().await;
    assert_eq!(scene.changes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn another_address_in_the_network_is_had_by_joining_anew() {
    let mut scene = Scene::new();
    scene.network();
    scene.annotate("private-ipv4", "10.0.0.77");
    scene.ensure().await;
    scene.changes();
    scene.annotate("private-ipv4", "10.0.0.78");
    let ingress = scene.ensure().await;
    assert_eq!(ingress[2], "10.0.0.78 VIP");
    assert_eq!(
        scene.changes(),
        [action("detach_from_network"), action("attach_to_network")]
    );
    scene.forget("private-ipv4");
    scene.ensure().await;
    assert_eq!(scene.changes(), [""; 0]);
}

/// Detaches every network if none is configured, like the Go cloud-controller-manager.
#[tokio::test(start_paused = true)]
async fn it_leaves_its_network_when_none_is_configured_any_more() {
    let mut scene = Scene::new();
    scene.network();
    scene.ensure().await;
    scene.config.network = None;
    scene.start().await;
    assert_eq!(scene.ensure().await.len(), 2);
    assert_eq!(scene.changes(), [action("detach_from_network")]);
}

/// Changes the protocol and back: the provider restores the settings that the API drops with it.
#[tokio::test(start_paused = true)]
async fn http_and_back_again_forgets_no_setting() {
    let http = |scene: &mut Scene| {
        scene.annotate("protocol", "http");
        scene.annotate("http-cookie-name", "me");
        scene.annotate("health-check-protocol", "http");
        scene.annotate("health-check-http-path", "/ready");
    };
    let (mut scene, changes) = after(http, "protocol", "tcp").await;
    assert_eq!(changes, [action("update_service")]);
    assert_eq!(scene.balancer().services[0].http, None);
    scene.annotate("health-check-protocol", "tcp");
    scene.ensure().await;
    assert_eq!(scene.balancer().services[0].health_check.http, None);
    http(&mut scene);
    scene.ensure().await;
    let service = scene.balancer().services[0].clone();
    assert_eq!(service.http.unwrap().cookie_name, "me");
    assert_eq!(service.health_check.http.unwrap().path, "/ready");
}

/// INV-3: what the API writes in its own way.
#[tokio::test(start_paused = true)]
async fn names_in_the_dns_and_sets_are_compared_by_what_they_mean() {
    let mut scene = Scene::new();
    scene.annotate("ipv4-rdns", "LB.example.com.");
    scene.annotate("health-check-protocol", "http");
    scene.annotate("http-status-codes", "3??,2??,3??");
    scene.ensure().await;
    assert_eq!(
        scene.balancer().services[0]
            .health_check
            .http
            .as_ref()
            .unwrap()
            .status_codes,
        ["2??", "3??"]
    );
    scene.changes();
    for shown in ["lb.example.com", "LB.Example.Com", "lb.example.com."] {
        scene
            .meddle(|load_balancer| load_balancer.ipv4.dns_ptr = Some(shown.to_owned()))
            .await;
        scene.ensure().await;
        assert_eq!(scene.changes(), [""; 0], "{shown}");
    }
}

/// Changes that depend on another action wait for it where the API validates against the state before that action ends.
#[tokio::test(start_paused = true)]
async fn what_needs_another_type_or_interface_waits_for_it() {
    let mut scene = Scene::new();
    scene.network();
    scene.ensure().await;
    scene.fake.forget_requests();
    scene.annotate("use-private-ip", "true");
    scene.annotate("disable-public-network", "true");
    scene.annotate("type", "lb21");
    scene.ensure().await;
    let requests: Vec<_> = scene
        .fake
        .requests()
        .into_iter()
        .map(|request| request.route)
        .collect();
    let at = |route: &str| {
        requests
            .iter()
            .position(|request| request == route)
            .unwrap()
    };
    let waits = |from: usize, to: usize| {
        requests[from..to]
            .iter()
            .any(|request| request == "GET /actions")
    };
    let kind = at(&action("change_type"));
    let add = at(&action("add_target"));
    let public = at(&action("disable_public_interface"));
    assert!(
        kind < add && waits(kind, add) && add < public && waits(add, public),
        "{requests:#?}"
    );
}

#[tokio::test(start_paused = true)]
async fn place_that_comes_too_late_is_reported_once_and_changes_nothing() {
    for (key, place, now) in [
        ("location", "hel1", "fsn1"),
        ("network-zone", "us-east", "eu-central"),
    ] {
        let mut scene = Scene::new();
        scene.annotate(key, now);
        scene.ensure().await;
        scene.publish();
        assert_eq!(scene.events(), [""; 0], "{key}");
        scene.changes();
        scene.annotate(key, place);
        scene.ensure().await;
        scene.ensure().await;
        scene.try_update().await.unwrap();
        let [event] = &scene.events()[..] else {
            panic!("{key}")
        };
        let text = format!(
            "web QuestionableAnnotation: annotation {PREFIX}{key}: \"{place}\" has no effect"
        );
        assert!(
            event.starts_with(&text) && event.contains(&format!("is in {now},")),
            "{event}"
        );
        assert_eq!(scene.changes(), [""; 0], "{key}");
    }
}

#[tokio::test(start_paused = true)]
async fn empty_type_is_none() {
    for (env, expected) in [(Some("lb21"), "lb21"), (None, "lb11")] {
        let mut scene = Scene::new();
        scene.env("TYPE", env.unwrap_or_default());
        scene.annotate("type", "");
        scene.ensure().await;
        assert_eq!(scene.sent(CREATE)[0]["load_balancer_type"], json!(expected));
        let is_told = scene
            .events()
            .iter()
            .any(|event| event.starts_with("web LoadBalancerTypeUnconfigured: "));
        assert_eq!(is_told, env.is_none());
    }
}
