//! Annotations: their effect on load balancers, and errors for invalid values.

use serde_json::{Value, json};

use crate::harness::{Harness, service, service_of};

const REGIONAL: (&str, &str) = ("type", "REGIONAL");

/// Creates a load balancer and returns it.
async fn created(annotations: &[(&str, &str)], spec: Value) -> Value {
    let harness = Harness::new();
    harness.fake.add_certificate("mine", "custom");
    let provider = harness.started().await;
    let outcome = harness
        .ensure(&provider, &mut service_of(annotations, spec))
        .await;
    outcome.unwrap_or_else(|error| panic!("{annotations:?}: {error}"));
    harness.load_balancer()
}

/// Returns the refusal of a Service for which nothing was sent.
async fn refused(annotations: &[(&str, &str)], spec: Value) -> String {
    let harness = Harness::new();
    let provider = harness.started().await;
    let error = harness
        .ensure(&provider, &mut service_of(annotations, spec))
        .await
        .unwrap_err();
    assert!(error.is_invalid(), "{annotations:?}: {error}");
    assert_eq!(harness.fake.changes(), [], "{annotations:?}");
    error.to_string()
}

fn id_of_certificate() -> String {
    // The third number that the fake gives, after two droplets.
    "00030000-0000-4000-8000-000000000003".to_owned()
}

/// Annotations, the place of a field in the load balancer, and its value.
type Row<'a> = (Vec<(&'a str, &'a str)>, &'a str, Value);

#[tokio::test(start_paused = true)]
async fn each_annotation_sets_its_field() {
    let certificate = id_of_certificate();
    let id = ("certificate-id", certificate.as_str());
    let all = "override-health-check";
    let table: Vec<Row<'_>> = vec![
        (vec![], "/type", json!("REGIONAL_NETWORK")),
        (vec![], "/network", json!("EXTERNAL")),
        (vec![], "/name", json!("a0b0a1c0f3f3e4c57a1b59f5f2a7d8c1")),
        (vec![("name", "my-lb")], "/name", json!("my-lb")),
        (vec![REGIONAL], "/type", json!("REGIONAL")),
        (vec![REGIONAL], "/network_stack", json!("DUALSTACK")),
        (vec![], "/network_stack", json!("DUALSTACK")),
        (
            vec![("network-stack", "IPV4")],
            "/network_stack",
            json!("IPV4"),
        ),
        (vec![("network", "INTERNAL")], "/network", json!("INTERNAL")),
        (
            vec![("network", "INTERNAL")],
            "/network_stack",
            json!("IPV4"),
        ),
        (vec![("subnet-uuid", "s-1")], "/subnet_uuid", json!("s-1")),
        (vec![("ip", "203.0.113.9")], "/ip", json!("203.0.113.9")),
        (
            vec![("size-slug", "lb-medium")],
            "/size",
            json!("lb-medium"),
        ),
        (vec![("size-unit", "3")], "/size_unit", json!(3)),
        (vec![("size-unit", "0")], "/size_unit", json!(1)),
        (
            vec![("algorithm", "least_connections")],
            "/algorithm",
            json!("least_connections"),
        ),
        (
            vec![("algorithm", "fastest")],
            "/algorithm",
            json!("round_robin"),
        ),
        (
            vec![("redirect-http-to-https", "true")],
            "/redirect_http_to_https",
            json!(true),
        ),
        (
            vec![("enable-proxy-protocol", "true")],
            "/enable_proxy_protocol",
            json!(true),
        ),
        (
            vec![("enable-backend-keepalive", "true")],
            "/enable_backend_keepalive",
            json!(true),
        ),
        (
            vec![("disable-lets-encrypt-dns-records", "true")],
            "/disable_lets_encrypt_dns_records",
            json!(true),
        ),
        (
            vec![("http-idle-timeout-seconds", "120")],
            "/http_idle_timeout_seconds",
            json!(120),
        ),
        (
            vec![("sticky-sessions-type", "sometimes")],
            "/sticky_sessions",
            json!({"type": "none"}),
        ),
        (
            vec![
                ("sticky-sessions-type", "cookies"),
                ("sticky-sessions-cookie-name", "lb"),
                ("sticky-sessions-cookie-ttl", "300"),
            ],
            "/sticky_sessions",
            json!({"type": "cookies", "cookie_name": "lb", "cookie_ttl_seconds": 300}),
        ),
        (
            vec![("deny-rules", " ip:198.51.100.9 ,, cidr:198.51.0.0/16")],
            "/firewall/deny",
            json!(["cidr:198.51.0.0/16", "ip:198.51.100.9"]),
        ),
        (
            vec![("allow-rules", "ip:198.51.100.7")],
            "/firewall",
            json!({"allow": ["ip:198.51.100.7"], "deny": []}),
        ),
        (vec![], "/health_check/port", json!(10256)),
        (vec![], "/health_check/path", json!("/healthz")),
        (vec![], "/health_check/proxy_protocol", json!(false)),
        (
            vec![("healthcheck-check-interval-seconds", "7")],
            "/health_check/check_interval_seconds",
            json!(7),
        ),
        (
            vec![("healthcheck-response-timeout-seconds", "8")],
            "/health_check/response_timeout_seconds",
            json!(8),
        ),
        (
            vec![("healthcheck-unhealthy-threshold", "9")],
            "/health_check/unhealthy_threshold",
            json!(9),
        ),
        (
            vec![("healthcheck-healthy-threshold", "10")],
            "/health_check/healthy_threshold",
            json!(10),
        ),
        (vec![(all, "x")], "/health_check/protocol", json!("tcp")),
        (vec![(all, "x")], "/health_check/port", json!(30080)),
        (
            vec![(all, "x"), ("healthcheck-path", "/up")],
            "/health_check/protocol",
            json!("http"),
        ),
        (
            vec![(all, "x"), ("healthcheck-path", "/up")],
            "/health_check/path",
            json!("/up"),
        ),
        (
            vec![(all, "x"), ("healthcheck-protocol", "https")],
            "/health_check/protocol",
            json!("https"),
        ),
        (
            vec![(all, "x"), ("healthcheck-port", "443")],
            "/health_check/port",
            json!(30443),
        ),
        (vec![], "/forwarding_rules/1", rule("tcp", 443, "tcp", 443)),
        (
            vec![REGIONAL],
            "/forwarding_rules/1",
            rule("tcp", 443, "tcp", 30443),
        ),
        (
            vec![REGIONAL, ("protocol", "http")],
            "/forwarding_rules/0",
            rule("http", 80, "http", 30080),
        ),
        (
            vec![REGIONAL, ("http-ports", "80")],
            "/forwarding_rules/0",
            rule("http", 80, "http", 30080),
        ),
        (
            vec![REGIONAL, ("tls-ports", "443"), id],
            "/forwarding_rules/1",
            tls("https", "http"),
        ),
        (
            vec![REGIONAL, id],
            "/forwarding_rules/1",
            tls("https", "http"),
        ),
        (
            vec![REGIONAL, ("certificate-name", "mine")],
            "/forwarding_rules/1",
            tls("https", "http"),
        ),
        (
            vec![REGIONAL, ("http2-ports", "443"), id],
            "/forwarding_rules/1",
            tls("http2", "http"),
        ),
        (
            vec![REGIONAL, ("tls-passthrough", "true")],
            "/forwarding_rules/1",
            passing("https"),
        ),
        (
            vec![
                REGIONAL,
                ("tls-passthrough", "true"),
                ("http2-ports", "443"),
            ],
            "/forwarding_rules/1",
            passing("http2"),
        ),
        (
            vec![REGIONAL, id, ("http3-port", "443")],
            "/forwarding_rules/2",
            tls("http3", "http"),
        ),
        (
            vec![REGIONAL, ("tls-passthrough", "maybe")],
            "/forwarding_rules/1",
            rule("tcp", 443, "tcp", 30443),
        ),
    ];
    for (annotations, pointer, expected) in table {
        let mut shown = created(&annotations, json!({})).await;
        let rules = shown["forwarding_rules"].as_array_mut().unwrap();
        rules.sort_by_key(|rule| {
            (
                rule["entry_protocol"] == "http3",
                rule["entry_port"].as_u64(),
            )
        });
        assert_eq!(
            shown.pointer(pointer),
            Some(&expected),
            "{annotations:?} {pointer}"
        );
    }
}

fn rule(entry: &str, port: u16, target: &str, target_port: u16) -> Value {
    json!({"entry_protocol": entry, "entry_port": port, "target_protocol": target, "target_port": target_port, "tls_passthrough": false})
}

fn tls(entry: &str, target: &str) -> Value {
    let mut rule = rule(entry, 443, target, 30443);
    rule["certificate_id"] = id_of_certificate().into();
    rule
}

fn passing(protocol: &str) -> Value {
    let mut rule = rule(protocol, 443, protocol, 30443);
    rule["tls_passthrough"] = true.into();
    rule
}

#[tokio::test(start_paused = true)]
async fn the_spec_of_a_service_sets_ports_checks_and_sources() {
    let local = json!({"externalTrafficPolicy": "Local", "healthCheckNodePort": 32000});
    assert_eq!(created(&[], local).await["health_check"]["port"], 32000);
    let sources = json!({"loadBalancerSourceRanges": ["198.51.100.0/24"]});
    let shown = created(
        &[
            ("allow-rules", "ip:1.2.3.4"),
            ("deny-rules", "ip:198.51.100.9"),
        ],
        sources,
    )
    .await;
    assert_eq!(
        shown["firewall"],
        json!({"allow": ["cidr:198.51.100.0/24"], "deny": ["ip:198.51.100.9"]})
    );
    let udp = json!({"ports": [{"port": 53, "nodePort": 30053, "protocol": "UDP"}, {"port": 53, "nodePort": 30054, "protocol": "TCP"}]});
    let shown = created(&[REGIONAL], udp).await;
    let protocols: Vec<_> = shown["forwarding_rules"]
        .as_array()
        .unwrap()
        .iter()
        .map(|forwarding_rule| &forwarding_rule["entry_protocol"])
        .collect();
    assert_eq!(protocols, ["tcp", "udp"]);
    assert_eq!(
        created(&[], json!({"loadBalancerIP": "203.0.113.8"})).await["ip"],
        "203.0.113.8"
    );
}

#[tokio::test(start_paused = true)]
async fn wrong_annotations_are_refused_before_anything_is_sent() {
    let certificate = id_of_certificate();
    let id = ("certificate-id", certificate.as_str());
    let all = ("override-health-check", "");
    let table: Vec<(Vec<(&str, &str)>, &str)> = vec![
        (
            vec![("type", "GLOBAL")],
            "type: \"GLOBAL\" is not one of REGIONAL, REGIONAL_NETWORK",
        ),
        (
            vec![("network", "PRIVATE")],
            "is not one of EXTERNAL, INTERNAL",
        ),
        (
            vec![("network-stack", "IPV6")],
            "is not one of IPV4, DUALSTACK",
        ),
        (
            vec![("network", "INTERNAL"), ("network-stack", "DUALSTACK")],
            "DUALSTACK is not possible with annotation",
        ),
        (vec![("name", "-x")], "letter or digit at both ends"),
        (vec![("size-slug", "lb-tiny")], "is not one of lb-small"),
        (
            vec![("size-unit", "-1")],
            "is not a whole number from 0 to 200",
        ),
        (
            vec![("size-unit", "2"), ("size-slug", "lb-small")],
            "are both set: only one can be",
        ),
        (
            vec![REGIONAL, ("http-ports", "80,x")],
            "is not a comma list of port numbers",
        ),
        (
            vec![REGIONAL, ("http-ports", "443"), ("tls-ports", "443"), id],
            "ports 443 are in two of them",
        ),
        (
            vec![REGIONAL, ("protocol", "quic")],
            "is not one of tcp, http, https, http2, http3",
        ),
        (
            vec![REGIONAL, ("tls-ports", "443")],
            "port 443 speaks TLS: set annotation",
        ),
        (
            vec![REGIONAL, id, ("tls-passthrough", "true")],
            "are both set: only one can be",
        ),
        (
            vec![REGIONAL, ("http3-port", "443")],
            "HTTP/3 needs a certificate",
        ),
        (
            vec![REGIONAL, ("certificate-name", "nobody's")],
            "no certificate named \"nobody's\"; available: none",
        ),
        (
            vec![
                ("sticky-sessions-type", "cookies"),
                ("sticky-sessions-cookie-ttl", "5"),
            ],
            "cookie-name is required",
        ),
        (
            vec![
                ("sticky-sessions-type", "cookies"),
                ("sticky-sessions-cookie-name", "a"),
            ],
            "cookie-ttl is required",
        ),
        (
            vec![("redirect-http-to-https", "maybe")],
            "is not true or false",
        ),
        (
            vec![("http-idle-timeout-seconds", "29")],
            "is not a whole number from 30 to 600",
        ),
        (
            vec![("healthcheck-healthy-threshold", "11")],
            "is not a whole number from 2 to 10",
        ),
        (
            vec![all, ("healthcheck-port", "80,443")],
            "is not a whole number from 1 to 65535",
        ),
        (
            vec![all, ("healthcheck-port", "81")],
            "the Service has no TCP port 81",
        ),
        (
            vec![all, ("healthcheck-protocol", "udp")],
            "is not one of tcp, http, https",
        ),
        (
            vec![("deny-rules", "198.51.100.9")],
            "is not a comma list of ip:ADDRESS and cidr:RANGE",
        ),
        (vec![("hostname", "10.0.0.1")], "is not a DNS name"),
        (
            vec![("service.kubernetes.io/do-loadbalancer-disown", "perhaps")],
            "is not true or false",
        ),
    ];
    for (annotations, expected) in table {
        let text = refused(&annotations, json!({})).await;
        assert!(text.contains(expected), "{annotations:?}: {text}");
    }
    let text = refused(
        &[],
        json!({"ports": [{"port": 80, "nodePort": 30080, "protocol": "SCTP"}]}),
    )
    .await;
    assert!(text.contains("SCTP"), "{text}");
    let text = refused(&[], json!({"ports": [{"port": 50054, "nodePort": 30080}]})).await;
    assert!(text.contains("port 50054 is reserved"), "{text}");
    let text = refused(&[], json!({"loadBalancerSourceRanges": ["10.0.0.1"]})).await;
    assert!(text.contains("10.0.0.1"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn settings_without_the_one_that_enables_them_get_a_warning() {
    for (annotations, expected) in [
        (
            vec![("healthcheck-port", "80")],
            "healthcheck-port has no effect without",
        ),
        (
            vec![("healthcheck-protocol", "tcp")],
            "healthcheck-protocol has no effect without",
        ),
        (
            vec![REGIONAL, ("sticky-sessions-cookie-name", "a")],
            "cookie-name has no effect without",
        ),
        (
            vec![REGIONAL, ("certificate-id", "c")],
            "no port of the Service speaks TLS",
        ),
    ] {
        let harness = Harness::new();
        let provider = harness.started().await;
        let port =
            json!({"ports": [{"port": 80, "nodePort": 30080}], "sessionAffinity": "ClientIP"});
        harness
            .ensure(&provider, &mut service_of(&annotations, port))
            .await
            .unwrap();
        let events = harness.events();
        let has = |text: &str| {
            events
                .iter()
                .any(|event| event.starts_with("QuestionableAnnotation") && event.contains(text))
        };
        assert!(has(expected), "{expected}: {events:?}");
        assert_eq!(
            has("sessionAffinity"),
            annotations.contains(&REGIONAL),
            "{events:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_annotation_that_nobody_reads_is_told_in_an_event() {
    let harness = Harness::new();
    let provider = harness.started().await;
    harness
        .ensure(&provider, &mut service(&[("protokol", "http")]))
        .await
        .unwrap();
    let events = harness.events();
    let is_told =
        |text: &String| text.contains("QuestionableAnnotation") && text.contains("did you mean");
    assert!(events.iter().any(is_told), "{events:?}");
}
