//! Requests that result from each annotation and variable.

use super::*;

/// Returns the first service of the creation request, without its listen port.
async fn sent(env: &[(&str, &str)], annotations: &[(&str, &str)]) -> Value {
    let mut scene = Scene::new();
    env.iter().for_each(|(name, value)| scene.env(name, value));
    annotations
        .iter()
        .for_each(|(key, value)| scene.annotate(key, value));
    for name in ["one", "two"] {
        scene.fake.add_certificate(name);
    }
    scene.ensure().await;
    let mut service = scene.sent(CREATE)[0]["services"][0].take();
    service.as_object_mut().unwrap().remove("listen_port");
    scene.changes();
    scene.start().await;
    scene.ensure().await;
    assert_eq!(
        scene.changes(),
        [""; 0],
        "{annotations:?} is what the cloud shows"
    );
    service
}

/// Returns the default service with these fields added.
fn service(more: &Value) -> Value {
    let mut service = json!({"protocol": "tcp", "destination_port": 30080, "health_check": {"protocol": "tcp", "port": 30080}});
    for (key, value) in more.as_object().unwrap() {
        service[key] = value.clone();
    }
    service
}

#[tokio::test(start_paused = true)]
async fn each_annotation_of_a_port_is_sent_and_what_is_not_set_is_the_apis_business() {
    let check = |more: Value| {
        let mut check = json!({"protocol": "tcp", "port": 30080});
        check
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        json!({"health_check": check})
    };
    for (annotations, expected) in [
        (&[][..], json!({})),
        (&[("protocol", "HTTP")], json!({"protocol": "http"})),
        (
            &[("uses-proxyprotocol", "true")],
            json!({"proxyprotocol": true}),
        ),
        (
            &[("uses-proxyprotocol", "false")],
            json!({"proxyprotocol": false}),
        ),
        (
            &[("protocol", "http"), ("http-cookie-name", "me")],
            json!({"protocol": "http", "http": {"cookie_name": "me"}}),
        ),
        (
            &[("protocol", "http"), ("http-cookie-lifetime", "1h")],
            json!({"protocol": "http", "http": {"cookie_lifetime": 3600}}),
        ),
        (
            &[("protocol", "http"), ("http-cookie-lifetime", "90")],
            json!({"protocol": "http", "http": {"cookie_lifetime": 90}}),
        ),
        (
            &[("protocol", "http"), ("http-timeout-idle", "90s")],
            json!({"protocol": "http", "http": {"timeout_idle": 90}}),
        ),
        (
            &[("protocol", "http"), ("http-sticky-sessions", "true")],
            json!({"protocol": "http", "http": {"sticky_sessions": true}}),
        ),
        (&[("health-check-protocol", "tcp")], json!({})),
        (
            &[("health-check-protocol", "http")],
            check(json!({"protocol": "http"})),
        ),
        (
            &[("health-check-port", "8080")],
            check(json!({"port": 8080})),
        ),
        (
            &[("health-check-interval", "30s")],
            check(json!({"interval": 30})),
        ),
        (
            &[("health-check-interval", "30")],
            check(json!({"interval": 30})),
        ),
        (
            &[("health-check-timeout", "7s")],
            check(json!({"timeout": 7})),
        ),
        (
            &[("health-check-retries", "2")],
            check(json!({"retries": 2})),
        ),
        // Without an HTTP health check these are ignored, as in the Go cloud-controller-manager.
        (
            &[
                ("health-check-http-domain", "a.example"),
                ("health-check-http-path", "/x"),
            ],
            json!({}),
        ),
        (
            &[
                ("http-status-codes", "200"),
                ("health-check-http-validate-certificate", "true"),
            ],
            json!({}),
        ),
        // Any other annotation of the health check gives it the Service's protocol.
        (&[("protocol", "http"), ("health-check-retries", "2")], {
            let mut object = check(json!({"protocol": "http", "retries": 2}));
            object["protocol"] = json!("http");
            object
        }),
        (
            &[("protocol", "http"), ("health-check-http-path", "/x")],
            json!({"protocol": "http"}),
        ),
    ] {
        assert_eq!(
            sent(&[], annotations).await,
            service(&expected),
            "{annotations:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn all_of_http_is_sent() {
    let mut scene = Scene::new();
    let [one, two] = ["one", "two"].map(|name| scene.fake.add_certificate(name).id);
    for (key, value) in [
        ("protocol", "https"),
        ("http-cookie-name", "TEST"),
        ("http-cookie-lifetime", "1h"),
        ("http-certificates", &format!("{two},{one}")),
        ("http-redirect-http", "true"),
        ("http-sticky-sessions", "true"),
        ("http-timeout-idle", "30s"),
    ] {
        scene.annotate(key, value);
    }
    scene.ports(json!([{"port": 443, "nodePort": 30080}]));
    scene.ensure().await;
    let http = json!({"cookie_name": "TEST", "cookie_lifetime": 3600, "certificates": [one, two], "redirect_http": true,
        "sticky_sessions": true, "timeout_idle": 30});
    assert_eq!(scene.sent(CREATE)[0]["services"][0]["http"], http);
    scene.changes();
    scene.ensure().await;
    assert_eq!(scene.changes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn all_of_a_check_is_sent() {
    let timing = [
        ("health-check-port", "8080"),
        ("health-check-interval", "1m"),
        ("health-check-timeout", "30s"),
        ("health-check-retries", "5"),
    ];
    let tcp = json!({"protocol": "tcp", "port": 8080, "interval": 60, "timeout": 30, "retries": 5});
    let mut annotations = timing.to_vec();
    annotations.push(("health-check-protocol", "tcp"));
    assert_eq!(sent(&[], &annotations).await["health_check"], tcp);
    let mut annotations = timing.to_vec();
    annotations.extend([
        ("health-check-protocol", "https"),
        ("health-check-http-domain", "example.com"),
        ("health-check-http-path", "/internal/health"),
        ("health-check-http-validate-certificate", "true"),
        ("http-status-codes", "200, 2??,404"),
    ]);
    let mut https = tcp.clone();
    https["protocol"] = json!("https");
    https["http"] = json!({"domain": "example.com", "path": "/internal/health", "tls": true, "status_codes": ["200", "2??", "404"]});
    assert_eq!(sent(&[], &annotations).await["health_check"], https);
}

/// The annotation wins over the variable.
#[tokio::test(start_paused = true)]
async fn the_environment_has_defaults_for_checks_and_the_proxy_protocol() {
    let env = &[
        ("HEALTH_CHECK_INTERVAL", "30s"),
        ("HEALTH_CHECK_TIMEOUT", "5"),
        ("HEALTH_CHECK_RETRIES", "5"),
        ("USES_PROXYPROTOCOL", "true"),
    ][..];
    let check =
        json!({"protocol": "tcp", "port": 30080, "interval": 30, "timeout": 5, "retries": 5});
    assert_eq!(
        sent(env, &[]).await,
        service(&json!({"proxyprotocol": true, "health_check": check}))
    );
    let annotations = [
        ("health-check-interval", "9s"),
        ("uses-proxyprotocol", "false"),
    ];
    let check =
        json!({"protocol": "tcp", "port": 30080, "interval": 9, "timeout": 5, "retries": 5});
    assert_eq!(
        sent(env, &annotations).await,
        service(&json!({"proxyprotocol": false, "health_check": check}))
    );
    let zero = [
        ("HEALTH_CHECK_INTERVAL", "0s"),
        ("HEALTH_CHECK_TIMEOUT", "0"),
        ("HEALTH_CHECK_RETRIES", "0"),
    ];
    assert_eq!(
        sent(&zero, &[]).await,
        service(&json!({})),
        "zero in a variable is as unset"
    );
}

/// Reserved annotations are accepted, and unused. One of them looks as if it chose a load balancer.
#[tokio::test(start_paused = true)]
async fn reserved_annotations_have_no_effect() {
    let mut scene = Scene::new();
    for key in ["ipv4", "ipv6", "id"] {
        scene.annotate(key, "198.51.100.1");
    }
    assert_eq!(
        scene.ensure().await,
        ["198.19.0.1 VIP", "2001:db8:ffff::1:1 VIP"]
    );
    let events = scene.events();
    assert!(
        events.len() == 1 && events[0].contains("/id has no effect"),
        "{events:?}"
    );
}

/// Empty values, as templates produce them, state nothing and cause no request at each sync.
#[tokio::test(start_paused = true)]
async fn an_empty_annotation_states_nothing() {
    let empty = [
        "name",
        "hostname",
        "ipv4-rdns",
        "ipv6-rdns",
        "http-certificates",
        "http-status-codes",
        "http-cookie-name",
    ];
    let empty = empty
        .into_iter()
        .chain(["health-check-http-domain", "health-check-http-path"])
        .map(|key| (key, ""));
    let annotations: Vec<_> = empty
        .chain([("protocol", "http"), ("health-check-protocol", "http")])
        .collect();
    let check = json!({"protocol": "http", "port": 30080});
    assert_eq!(
        sent(&[], &annotations).await,
        service(&json!({"protocol": "http", "health_check": check}))
    );
}

/// A name that the API server refuses in a status creates no load balancer, which the Service could not show.
#[tokio::test(start_paused = true)]
async fn a_name_that_is_none_in_the_dns_is_a_mistake_before_anything_is_made() {
    for key in ["hostname", "ipv4-rdns", "ipv6-rdns"] {
        for text in [
            "10.0.0.1",
            "::1",
            "*.example.com",
            "b\u{fc}ro.example",
            "not a name",
            "-a.example",
            "a..b",
            ".",
        ] {
            let mut scene = Scene::new();
            scene.annotate(key, text);
            let err = scene.refused().await.to_string();
            let expected = format!(
                "annotation {PREFIX}{key}: {text:?} is not a DNS name such as lb.example.com"
            );
            assert_eq!((err, scene.changes()), (expected, vec![]));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_name_in_the_dns_is_taken_without_capitals_and_final_dot_and_a_blank_one_is_none() {
    for (text, expected) in [
        (" LB.Example.com. ", Some("lb.example.com")),
        ("  ", None),
        ("", None),
    ] {
        let mut scene = Scene::new();
        scene.annotate("hostname", text);
        let shown = scene.ensure().await;
        assert_eq!(
            expected
                .map(|text| vec![text.to_owned()])
                .unwrap_or(shown.clone()),
            shown,
            "{text:?}"
        );
        assert_eq!(shown.len() == 1, expected.is_some(), "{text:?}");
    }
}

/// Surrounding space in a value is ignored.
#[tokio::test(start_paused = true)]
async fn type_and_place_may_have_space_around_them() {
    let mut scene = Scene::new();
    scene.annotate("type", " lb21 ");
    scene.annotate("location", "hel1\n");
    scene.ensure().await;
    let sent = &scene.sent(CREATE)[0];
    assert_eq!(
        (&sent["load_balancer_type"], &sent["location"]),
        (&json!("lb21"), &json!("hel1"))
    );
}

/// The API's message does not name the missing annotation.
#[tokio::test(start_paused = true)]
async fn https_without_a_certificate_is_told_with_what_is_missing_and_not_sent() {
    let mut scene = Scene::new();
    scene.annotate("protocol", "https");
    let err = scene.refused().await;
    assert!(
        err.is_invalid() && err.to_string().contains("http-certificates"),
        "{err}"
    );
    assert_eq!(scene.changes(), [""; 0]);
    scene.forget("protocol");
    scene.ensure().await;
    scene.changes();
    scene.annotate("protocol", "https");
    let err = scene.refused().await;
    assert!(
        err.is_invalid() && err.to_string().contains("http-certificates"),
        "{err}"
    );
    assert_eq!(scene.changes(), [""; 0]);
    // A certificate that an operator uploaded is sufficient.
    let id = scene.fake.add_certificate("by-hand").id.to_string();
    scene.annotate("http-certificates", &id);
    scene.ensure().await;
    scene.forget("http-certificates");
    scene.ensure().await;
}

#[tokio::test(start_paused = true)]
async fn what_contradicts_itself_is_told() {
    let told = async |annotations: &[(&str, &str)]| {
        let mut scene = Scene::new();
        scene.fake.add_certificate("one");
        annotations
            .iter()
            .for_each(|(key, value)| scene.annotate(key, value));
        scene.ensure().await;
        scene.events().concat()
    };
    let managed = [
        ("protocol", "https"),
        ("certificate-type", "managed"),
        ("http-managed-certificate-domains", "a.example"),
    ];
    let both = told(&[&managed[..], &[("http-certificates", "one")]].concat()).await;
    assert!(
        both.contains("http-certificates has no effect unless") && both.contains("is uploaded"),
        "{both}"
    );
    let uploaded = [
        ("protocol", "https"),
        ("http-certificates", "one"),
        ("http-managed-certificate-domains", "a.example"),
    ];
    let other = told(&uploaded).await;
    assert!(
        other.contains("http-managed-certificate-domains has no effect unless")
            && other.contains("is managed"),
        "{other}"
    );
    let redirect = told(&[("protocol", "http"), ("http-redirect-http", "true")]).await;
    assert!(
        redirect.contains("http-redirect-http has no effect unless")
            && redirect.contains("is https"),
        "{redirect}"
    );
    let nobody = told(&[("node-selector", "env=prod")]).await;
    assert!(
        nobody.contains("node-selector: no Node matches"),
        "{nobody}"
    );
}

#[tokio::test(start_paused = true)]
async fn settings_that_have_no_effect_beside_others_are_told() {
    let told = async |annotations: &[(&str, &str)], spec: Value| {
        let mut scene = Scene::new();
        annotations
            .iter()
            .for_each(|(key, value)| scene.annotate(key, value));
        let mut service = serde_json::to_value(&scene.service).unwrap();
        spec.as_object()
            .unwrap()
            .iter()
            .for_each(|(key, value)| service["spec"][key] = value.clone());
        scene.service = serde_json::from_value(service).unwrap();
        scene.ensure().await;
        scene.events().concat()
    };
    let with = async |key, value| told(&[(key, value)], json!({})).await;
    let http = async |key, value| told(&[("protocol", "http"), (key, value)], json!({})).await;
    for (events, expected) in [
        (
            told(&[], json!({"loadBalancerIP": "192.0.2.1"})).await,
            "spec.loadBalancerIP: \"192.0.2.1\" has no effect",
        ),
        (
            told(&[], json!({"sessionAffinity": "ClientIP"})).await,
            "spec.sessionAffinity: \"ClientIP\" has no effect",
        ),
        (
            http("http-cookie-name", "me").await,
            "http-cookie-name has no effect unless",
        ),
        (
            http("http-cookie-lifetime", "1h").await,
            "http-cookie-lifetime has no effect unless",
        ),
        (
            http("certificate-type", "managed").await,
            "certificate-type has no effect unless",
        ),
        (
            http("http-managed-certificate-domains", "a.example").await,
            "certificate-domains has no effect unless",
        ),
        (
            http("http-managed-certificate-name", "mine").await,
            "certificate-name has no effect unless",
        ),
        (
            with("private-ipv4", "10.0.0.9").await,
            "private-ipv4 has no effect without a network",
        ),
        (
            with("private-subnet-ip-range", "10.0.0.0/24").await,
            "private-subnet-ip-range has no effect without",
        ),
        (
            with("id", "4711").await,
            "annotation load-balancer.hetzner.cloud/id has no effect",
        ),
    ] {
        assert!(
            events.contains("QuestionableAnnotation") && events.contains(expected),
            "{expected}: {events}"
        );
    }
    let sticky = told(
        &[
            ("protocol", "http"),
            ("http-sticky-sessions", "true"),
            ("http-cookie-name", "me"),
        ],
        json!({"sessionAffinity": "None"}),
    );
    assert_eq!(sticky.await, "");
}

#[tokio::test(start_paused = true)]
async fn load_balancer_without_any_address_is_refused_before_it_is_made() {
    let mut scene = Scene::new();
    scene.annotate("disable-public-network", "true");
    let error = scene.refused().await;
    assert!(
        error.is_invalid() && error.to_string().contains("disable-public-network"),
        "{error}"
    );
    assert!(error.to_string().contains("set HCLOUD_NETWORK"), "{error}");
    assert_eq!(scene.changes(), [""; 0]);
    // Nor does one that serves lose its only address.
    scene.forget("disable-public-network");
    scene.ensure().await;
    scene.changes();
    scene.annotate("disable-public-network", "true");
    assert!(scene.refused().await.to_string().contains("has no address"));
    assert_eq!(scene.changes(), [""; 0]);
    scene.network();
    scene.annotate("use-private-ip", "true");
    scene.start().await;
    scene.ensure().await;
}
