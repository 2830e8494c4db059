//! A new load balancer: one request with everything that the API takes.

use serde_json::json;

use super::*;

#[tokio::test(start_paused = true)]
async fn a_new_one_is_made_with_one_request_and_marked_as_the_reference_marks_it() {
    let mut scene = Scene::new();
    scene.ports(json!([{"port": 80, "nodePort": 30080}, {"port": 443, "nodePort": 30443}]));
    let ingress = scene.ensure().await;
    assert_eq!(
        ingress,
        ["198.19.0.1 VIP", "2001:db8:ffff::1:1 VIP"],
        "{ingress:?}"
    );
    let [one, two] = &scene.servers()[..] else {
        panic!()
    };
    let service = |port: u16, node_port: u16| {
        json!({"listen_port": port, "protocol": "tcp", "destination_port": node_port,
            "health_check": {"protocol": "tcp", "port": node_port}})
    };
    let target = |id: &str| json!({"type": "server", "server": {"id": id.parse::<u64>().unwrap()}, "use_private_ip": false});
    let sent = json!({
        "name": NAME, "load_balancer_type": "lb11", "location": "fsn1",
        "labels": {LEGACY_OWNER_LABEL: UID, "ccm-rs/cluster": "5c1d", "ccm-rs/service": UID},
        "services": [service(80, 30080), service(443, 30443)],
        "targets": [target(one), target(two)],
    });
    assert_eq!(scene.sent(CREATE), [sent]);
    assert_eq!(scene.changes(), [CREATE]);
    assert_eq!((scene.ensure().await, scene.changes()), (ingress, vec![]));
    assert_eq!(scene.events(), [""; 0]);
}

/// An answer that shows everything is not read again; one that does not show the address in the network is.
#[tokio::test(start_paused = true)]
async fn nothing_is_read_again_that_the_answer_showed() {
    let mut scene = Scene::with(Options {
        action_time: Duration::ZERO,
        ..Options::default()
    });
    let network = scene.network();
    scene.annotate("use-private-ip", "true");
    let ingress = scene.ensure().await;
    assert_eq!(ingress.len(), 3, "{ingress:?}");
    let sent = &scene.sent(CREATE)[0];
    assert_eq!(
        (&sent["network"], &sent["targets"][0]["use_private_ip"]),
        (&json!(network), &json!(true))
    );
    let counts = scene.fake.counts();
    assert_eq!(
        (counts.get(CREATE), counts.get("GET /load_balancers/{id}")),
        (Some(&1), None),
        "{counts:?}"
    );
}

/// An address in the network, or a subnet, is chosen when the load balancer is attached; private targets come after
/// that.
#[tokio::test(start_paused = true)]
async fn an_address_in_the_network_is_had_by_attaching_it() {
    let mut scene = Scene::new();
    let network = scene.network();
    scene.annotate("private-ipv4", "10.0.0.77");
    scene.annotate("use-private-ip", "true");
    let ingress = scene.ensure().await;
    assert_eq!(ingress[2], "10.0.0.77 VIP");
    assert_eq!(
        scene.sent(&action("attach_to_network")),
        [json!({"network": network, "ip": "10.0.0.77"})]
    );
    let [one, two] = &scene.servers()[..] else {
        panic!()
    };
    assert_eq!(
        scene.targets(),
        [format!("{one} private"), format!("{two} private")]
    );
    let add = action("add_target");
    assert_eq!(
        scene.changes(),
        [CREATE, &action("attach_to_network"), &add, &add]
    );
    assert_eq!((scene.ensure().await, scene.changes()), (ingress, vec![]));
}

#[tokio::test(start_paused = true)]
async fn a_subnet_is_chosen_when_it_is_attached_and_never_again() {
    let mut scene = Scene::new();
    let network = scene.network();
    let subnet = scene.fake.networks()[0]
        .subnets
        .first()
        .map_or("10.0.0.0/24".to_owned(), |subnet| {
            subnet.ip_range.to_string()
        });
    scene.annotate("private-subnet-ip-range", &subnet);
    scene.ensure().await;
    assert_eq!(
        scene.sent(&action("attach_to_network")),
        [json!({"network": network, "ip_range": subnet})]
    );
    scene.changes();
    scene.annotate("private-subnet-ip-range", "10.9.0.0/24");
    scene.ensure().await;
    assert_eq!(scene.changes(), [""; 0]);
}

/// Reverse DNS is not part of the creation request.
#[tokio::test(start_paused = true)]
async fn reverse_dns_follows_with_an_action_for_each_address() {
    let mut scene = Scene::new();
    scene.annotate("ipv4-rdns", "lb.example.com");
    scene.annotate("ipv6-rdns", "lb6.example.com");
    scene.ensure().await;
    let balancer = scene.balancer();
    assert_eq!(balancer.ipv4.dns_ptr.as_deref(), Some("lb.example.com"));
    assert_eq!(balancer.ipv6.dns_ptr.as_deref(), Some("lb6.example.com"));
    let pointer = action("change_dns_ptr");
    assert_eq!(scene.changes(), [CREATE, &pointer, &pointer]);
    scene.ensure().await;
    assert_eq!(scene.changes(), [""; 0]);
}

/// The addresses in the Service's status.
#[tokio::test(start_paused = true)]
async fn the_status_tells_the_addresses_that_are_asked_for() {
    let private = "10.0.0";
    for (annotations, env, network, expected) in [
        (&[][..], "", false, &["198", "2001"][..]),
        (&[("ipv6-disabled", "true")], "", false, &["198"]),
        (&[], "ipv6", false, &["198"]),
        (
            &[("ipv6-disabled", "false")],
            "ipv6",
            false,
            &["198", "2001"],
        ),
        (
            &[("hostname", "web.example.com")],
            "",
            true,
            &["web.example.com"],
        ),
        (&[], "", true, &["198", "2001", private]),
        (
            &[("disable-private-ingress", "true")],
            "",
            true,
            &["198", "2001"],
        ),
        (&[], "private", true, &["198", "2001"]),
        (
            &[("disable-private-ingress", "false")],
            "private",
            true,
            &["198", "2001", private],
        ),
        (
            &[
                ("disable-public-network", "true"),
                ("use-private-ip", "true"),
            ],
            "",
            true,
            &[private],
        ),
        (&[], "public", true, &[private]),
        (
            &[
                ("disable-public-network", "true"),
                ("disable-private-ingress", "true"),
            ],
            "public",
            true,
            &[],
        ),
    ] {
        let mut scene = Scene::new();
        if network {
            scene.network();
        }
        scene.env("DISABLE_IPV6", if env == "ipv6" { "true" } else { "" });
        scene.env(
            "DISABLE_PRIVATE_INGRESS",
            if env == "private" { "true" } else { "" },
        );
        if env == "public" {
            scene.env("DISABLE_PUBLIC_NETWORK", "true");
            scene.env("USE_PRIVATE_IP", "true");
        }
        annotations
            .iter()
            .for_each(|(key, value)| scene.annotate(key, value));
        let ingress = scene.ensure().await;
        assert_eq!(
            ingress.len(),
            expected.len(),
            "{annotations:?} {env}: {ingress:?}"
        );
        assert!(
            ingress
                .iter()
                .zip(expected)
                .all(|(ingress, begin)| ingress.starts_with(begin)),
            "{annotations:?}: {ingress:?}"
        );
        assert_eq!(scene.try_get().await.unwrap(), Some(ingress));
    }
}

#[tokio::test(start_paused = true)]
async fn the_proxy_protocol_makes_every_address_one_of_a_proxy() {
    let mut scene = Scene::new();
    scene.annotate("uses-proxyprotocol", "true");
    assert_eq!(
        scene.ensure().await,
        ["198.19.0.1 Proxy", "2001:db8:ffff::1:1 Proxy"]
    );
}

#[tokio::test(start_paused = true)]
async fn it_is_placed_where_the_annotations_say_or_else_the_environment() {
    for (annotations, env, expected) in [
        (
            &[("location", "hel1")][..],
            (Some("fsn1"), None),
            json!(["hel1", null]),
        ),
        (
            &[("network-zone", "us-east")],
            (None, Some("eu-central")),
            json!([null, "us-east"]),
        ),
        (
            &[("location", ""), ("network-zone", "us-east")],
            (Some("fsn1"), None),
            json!([null, "us-east"]),
        ),
        (
            &[("location", "nbg1"), ("network-zone", "us-east")],
            (None, None),
            json!(["nbg1", null]),
        ),
        (
            &[("network-zone", ""), ("location", "nbg1")],
            (None, Some("eu-central")),
            json!(["nbg1", null]),
        ),
        (
            &[("network-zone", "us-east")],
            (Some("fsn1"), None),
            json!(["fsn1", null]),
        ),
        (&[], (Some("fsn1"), None), json!(["fsn1", null])),
        (&[], (None, Some("eu-central")), json!([null, "eu-central"])),
    ] {
        let mut scene = Scene::new();
        scene.env("LOCATION", env.0.unwrap_or_default());
        scene.env("NETWORK_ZONE", env.1.unwrap_or_default());
        annotations
            .iter()
            .for_each(|(key, value)| scene.annotate(key, value));
        scene.ensure().await;
        let sent = &scene.sent(CREATE)[0];
        assert_eq!(
            json!([sent["location"], sent["network_zone"]]),
            expected,
            "{annotations:?} {env:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn nowhere_to_make_it_is_an_error_that_says_what_to_set() {
    let mut scene = Scene::new();
    scene.env("LOCATION", "");
    let err = scene.refused().await;
    assert!(err.is_invalid(), "{err}");
    for key in [
        "load-balancer.hetzner.cloud/location",
        "HCLOUD_LOAD_BALANCERS_NETWORK_ZONE",
    ] {
        assert!(err.to_string().contains(key), "{err}");
    }
    assert_eq!(scene.changes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn type_algorithm_and_public_interface_are_sent() {
    let mut scene = Scene::new();
    scene.network();
    scene.env("TYPE", "lb31");
    scene.env("ALGORITHM_TYPE", "round_robin");
    scene.env("USE_PRIVATE_IP", "true");
    scene.env("DISABLE_PUBLIC_NETWORK", "true");
    scene.ensure().await;
    let sent = &scene.sent(CREATE)[0];
    let part = json!([
        sent["load_balancer_type"],
        sent["algorithm"],
        sent["public_interface"]
    ]);
    assert_eq!(part, json!(["lb31", {"type": "round_robin"}, false]));

    let mut scene = Scene::new();
    scene.env("TYPE", "lb31");
    scene.env("ALGORITHM_TYPE", "round_robin");
    scene.env("DISABLE_PUBLIC_NETWORK", "true");
    scene.annotate("type", "lb21");
    scene.annotate("algorithm-type", "Least_Connections");
    scene.annotate("disable-public-network", "false");
    scene.ensure().await;
    let sent = &scene.sent(CREATE)[0];
    let part = json!([
        sent["load_balancer_type"],
        sent["algorithm"],
        sent["public_interface"]
    ]);
    assert_eq!(part, json!(["lb21", {"type": "least_connections"}, true]));
}

/// Without annotation and variable, the default type is reported once.
#[tokio::test(start_paused = true)]
async fn a_type_that_nobody_chose_is_told_when_it_is_made_and_not_at_each_restart() {
    let mut scene = Scene::new();
    scene.env("TYPE", "");
    scene.ensure().await;
    assert_eq!(scene.balancer().load_balancer_type, "lb11");
    scene.ensure().await;
    let [event] = &scene.events()[..] else {
        panic!()
    };
    assert!(
        event.starts_with("web LoadBalancerTypeUnconfigured: "),
        "{event}"
    );
    scene.publish();
    scene.start().await;
    scene.ensure().await;
    scene.try_update().await.unwrap();
    tokio::time::advance(Duration::from_secs(7200)).await;
    scene.ensure().await;
    assert_eq!(scene.events(), [""; 0]);
    // Later changes of the source ranges are reported.
    scene
        .service
        .spec
        .get_or_insert_default()
        .load_balancer_source_ranges = Some(vec!["192.0.2.0/24".to_owned()]);
    scene.ensure().await;
    assert_eq!(scene.events().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_type_on_its_way_out_is_told_and_one_that_is_gone_is_an_error() {
    let mut scene = Scene::new();
    let deprecation = |after: &str| Some(("2026-01-01T00:00:00Z".to_owned(), after.to_owned()));
    scene.fake.change_type("lb11", |balancer_type| {
        balancer_type.deprecation = deprecation("2200-01-01T00:00:00Z");
    });
    scene.ensure().await;
    let [event] = &scene.events()[..] else {
        panic!()
    };
    assert!(
        event.starts_with("web LoadBalancerTypeDeprecated: ") && event.contains("2200-01-01"),
        "{event}"
    );

    scene.fake.change_type("lb11", |balancer_type| {
        balancer_type.deprecation = deprecation("2026-02-01T00:00:00Z");
    });
    scene.start().await;
    scene.ensure().await;
    assert_eq!(scene.changes(), [""; 0], "what runs goes on running");
    scene.fake.remove_load_balancer(NAME);
    tokio::time::advance(LONG).await;
    let err = scene.refused().await;
    assert!(
        err.is_invalid()
            && err
                .to_string()
                .contains("\"lb11\" can no longer be created"),
        "{err}"
    );
}

#[tokio::test(start_paused = true)]
async fn ports_that_are_not_tcp_are_left_out_and_told() {
    let mut scene = Scene::new();
    scene.ports(
        json!([{"port": 53, "protocol": "UDP", "nodePort": 30053}, {"port": 9, "protocol": "SCTP", "nodePort": 30009}]),
    );
    scene.ensure().await;
    assert_eq!(scene.sent(CREATE)[0]["services"], json!([]));
    let events = scene.events();
    assert!(
        events
            .iter()
            .all(|event| event.starts_with("web UnsupportedProtocolConfigured: ")),
        "{events:?}"
    );
    assert!(
        events[0].contains("53/UDP") && events[1].contains("9/SCTP"),
        "{events:?}"
    );
    scene.ensure().await;
    assert_eq!(scene.changes(), [CREATE]);
}

#[tokio::test(start_paused = true)]
async fn source_ranges_are_no_longer_passed_over_in_silence() {
    let mut scene = Scene::new();
    scene
        .service
        .spec
        .get_or_insert_default()
        .load_balancer_source_ranges = Some(vec!["192.0.2.0/24".to_owned()]);
    scene.ensure().await;
    let [event] = &scene.events()[..] else {
        panic!()
    };
    assert!(
        event.starts_with("web UnsupportedSourceRanges: "),
        "{event}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_annotation_that_nobody_reads_is_told_with_what_may_be_meant() {
    let mut scene = Scene::new();
    scene.annotate("use-privat-ip", "true");
    scene.annotate("http-cookie-name", "me");
    let of_http = ["path", "domain", "validate-certificate"];
    for (key, value) in of_http.iter().zip(["/up", "example.com", "true"]) {
        scene.annotate(&format!("health-check-http-{key}"), value);
    }
    scene.ensure().await;
    let events = scene.events();
    for key in of_http {
        let text = format!("health-check-http-{key} has no effect unless");
        assert!(
            events.iter().any(|event| event.contains(&text)),
            "{key}: {events:?}"
        );
    }
    assert!(
        events
            .iter()
            .any(|event| event.contains("use-privat-ip is not known")),
        "{events:?}"
    );
    assert!(
        events
            .iter()
            .any(|event| event.contains("http-cookie-name has no effect unless")),
        "{events:?}"
    );
    assert_eq!(scene.sent(CREATE)[0]["services"][0]["http"], Value::Null);
}

/// Previews name settings by their annotations (P-31).
#[tokio::test(start_paused = true)]
async fn plan_names_settings_by_their_annotations_and_changes_nothing() {
    let mut scene = Scene::new();
    scene.ensure().await;
    scene.changes();
    scene.annotate("algorithm-type", "least_connections");
    scene.annotate("health-check-interval", "30s");
    let plan = scene.plan().await.unwrap();
    let details: Vec<_> = plan.steps.iter().map(|step| step.detail.as_str()).collect();
    assert_eq!(
        details[0],
        format!("{PREFIX}algorithm-type: round_robin → least_connections")
    );
    assert!(
        details[1].contains(&format!("{PREFIX}health-check-interval: 15 → 30")),
        "{details:?}"
    );
    assert_eq!(scene.changes(), [""; 0]);
}

/// Changes the Service of a scene.
type Mistake = fn(&mut Scene);

/// A plan is no promise of a load balancer that every sync refuses.
#[tokio::test(start_paused = true)]
async fn plan_is_refused_like_the_creation_of_a_load_balancer_that_is_not_possible() {
    let mistakes: [(Mistake, &str); 3] = [
        (|scene| scene.env("LOCATION", ""), "has no location"),
        (
            |scene| scene.annotate("protocol", "https"),
            "https needs a certificate",
        ),
        (
            |scene| scene.annotate("disable-public-network", "true"),
            "needs a network",
        ),
    ];
    for (make, expected) in mistakes {
        let mut scene = Scene::new();
        make(&mut scene);
        for error in [scene.plan().await.unwrap_err(), scene.refused().await] {
            assert!(
                error.is_invalid() && error.to_string().contains(expected),
                "{error}"
            );
        }
        assert_eq!(scene.changes(), [""; 0], "{expected}");
    }
}
