use cloud_provider::Node;
use serde_json::{Value, json};

use super::super::wanted::tests::{config, configured, service};
use super::*;
use crate::keys::{MONITOR_MAX_RETRIES_DOWN, MONITOR_TIMEOUT};

const PREFIX: &str = "loadbalancer.openstack.org/";

/// Parses a Service with these annotations (without their prefix).
fn asked_with(annotations: &[(&str, &str)], config: &Balancers) -> Result<ServiceSpec> {
    let annotations = annotations.iter().map(|(key, value)| {
        let key = if key.contains('/') {
            (*key).to_owned()
        } else {
            format!("{PREFIX}{key}")
        };
        (key, json!(value))
    });
    let annotations: Value = Value::Object(annotations.collect());
    ServiceSpec::of(
        &service(json!({"annotations": annotations}), json!({})),
        config,
    )
    .spec
}

fn spec(annotations: &[(&str, &str)]) -> ServiceSpec {
    asked_with(annotations, &config()).unwrap()
}

fn with_spec(spec: Value) -> ServiceSpec {
    ServiceSpec::of(&service(json!({}), spec), &config())
        .spec
        .unwrap()
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn a_truth_value_that_is_neither_true_nor_false_is_warned_of_and_the_default_holds() {
    let table = [
        (Some("true"), true),
        (Some("false"), false),
        (None, false),
        (Some("invalid"), false),
        (Some("True"), false),
    ];
    for (value, expected) in table {
        let given: Vec<_> = value
            .map(|value| ("x-forwarded-for", value))
            .into_iter()
            .collect();
        assert_eq!(spec(&given).x_forwarded_for, expected, "{value:?}");
    }
    let spec = spec(&[("x-forwarded-for", "invalid")]);
    assert!(
        spec.warnings[0].contains("loadbalancer.openstack.org/x-forwarded-for"),
        "{:?}",
        spec.warnings
    );
}

#[test]
fn a_number_that_is_none_is_warned_of_and_the_default_holds() {
    for (value, expected) in [(Some("10"), 10), (None, -1), (Some("many"), -1)] {
        let given: Vec<_> = value
            .map(|value| ("connection-limit", value))
            .into_iter()
            .collect();
        assert_eq!(spec(&given).connection_limit, Some(expected), "{value:?}");
    }
    let times = spec(&[
        ("timeout-client-data", "1"),
        ("timeout-member-connect", "x"),
        ("timeout-tcp-inspect", "4"),
    ])
    .timeouts;
    let names = [
        "client_data",
        "member_connect",
        "member_data",
        "tcp_inspect",
    ];
    let times = names.map(|name| times.number(&format!("timeout_{name}")).unwrap_or(0));
    assert_eq!(times, [1, 5000, 50_000, 4]);
}

#[test]
fn a_text_wins_over_the_configuration_even_if_it_is_empty() {
    let configured = configured("flavor-id=small\navailability-zone=az1");
    let table = [
        (&[][..], some("small")),
        (&[("flavor-id", "big")][..], some("big")),
        (&[("flavor-id", "")][..], None),
    ];
    for (given, expected) in table {
        assert_eq!(
            asked_with(given, &configured).unwrap().flavor,
            expected,
            "{given:?}"
        );
    }
    assert_eq!(spec(&[("flavor-id", "big")]).flavor, some("big"));
    assert_eq!(spec(&[]).flavor, None);
    let spec = asked_with(
        &[("availability-zone", "az2"), ("flavour-id", "x")],
        &configured,
    )
    .unwrap();
    assert_eq!(spec.availability_zone, some("az2"));
    assert!(
        spec.warnings[0].contains("flavour-id is not known: did you mean"),
        "{:?}",
        spec.warnings
    );
}

#[test]
fn the_proxy_protocol_is_off_unless_a_version_is_said() {
    let table = [
        (Some("false"), None),
        (None, None),
        (Some("true"), Some("PROXY")),
        (Some("v1"), Some("PROXY")),
        (Some("v2"), Some("PROXYV2")),
        (Some("v3"), None),
    ];
    for (value, expected) in table {
        let given: Vec<_> = value
            .map(|value| ("proxy-protocol", value))
            .into_iter()
            .collect();
        assert_eq!(spec(&given).proxy, expected, "{value:?}");
    }
    let both = asked_with(
        &[("proxy-protocol", "v2"), ("x-forwarded-for", "true")],
        &config(),
    )
    .err()
    .unwrap();
    assert!(
        both.is_invalid() && both.to_string().contains("cannot be used together"),
        "{both}"
    );
}

#[test]
fn a_listener_speaks_tls_or_http_or_what_the_port_does() {
    let port = |protocol| ServicePort {
        number: 80,
        protocol,
        node_port: 30080,
    };
    let plain = spec(&[]);
    let header = spec(&[("x-forwarded-for", "true")]);
    let tls = spec(&[("default-tls-container-ref", "https://keys/v1/secrets/s")]);
    let both = spec(&[
        ("default-tls-container-ref", "https://keys/v1/secrets/s"),
        ("x-forwarded-for", "true"),
    ]);
    for protocol in ["TCP", "UDP", "SCTP"] {
        assert_eq!(plain.listener_protocol(&port(protocol)), protocol);
    }
    let tcp = port("TCP");
    assert_eq!(
        (header.listener_protocol(&tcp), header.pool_protocol(&tcp)),
        ("HTTP", "HTTP")
    );
    assert_eq!(
        (tls.listener_protocol(&tcp), tls.pool_protocol(&tcp)),
        ("TERMINATED_HTTPS", "HTTP")
    );
    assert_eq!(both.listener_protocol(&tcp), "TERMINATED_HTTPS");
    assert_eq!(
        header.listener_protocol(&port("UDP")),
        "UDP",
        "only TCP can carry HTTP"
    );
}

#[test]
fn members_are_spoken_to_by_the_proxy_protocol_before_http() {
    let tcp = ServicePort {
        number: 80,
        protocol: "TCP",
        node_port: 30080,
    };
    let tls = ("default-tls-container-ref", "https://keys/v1/secrets/s");
    assert_eq!(
        spec(&[("proxy-protocol", "v1"), tls]).pool_protocol(&tcp),
        "PROXY"
    );
    assert_eq!(
        spec(&[("proxy-protocol", "v2")]).pool_protocol(&tcp),
        "PROXYV2"
    );
    assert_eq!(
        spec(&[tls, ("x-forwarded-for", "true")]).pool_protocol(&tcp),
        "HTTP"
    );
}

#[test]
fn the_annotated_algorithm_wins_and_an_unknown_one_is_told() {
    let configured = configured("lb-method=SOURCE_IP_PORT");
    let method = |given: &[(&str, &str)]| {
        let spec = asked_with(given, &configured).unwrap();
        (spec.lb_method, spec.unknown_method)
    };
    assert_eq!(
        method(&[("lb-method", "ROUND_ROBIN")]),
        ("ROUND_ROBIN".into(), None)
    );
    assert_eq!(method(&[]), ("SOURCE_IP_PORT".into(), None));
    assert_eq!(
        method(&[("lb-method", "")]),
        ("SOURCE_IP_PORT".into(), None)
    );
    assert_eq!(
        method(&[("lb-method", "BEST")]),
        ("SOURCE_IP_PORT".into(), some("BEST"))
    );
}

#[test]
fn a_member_has_an_address_of_the_wanted_family_and_rather_an_internal_one() {
    let node = |addresses: &[(&str, &str)]| -> Node {
        let addresses: Vec<_> = addresses
            .iter()
            .map(|(kind, address)| json!({"type": kind, "address": address}))
            .collect();
        serde_json::from_value(
            json!({"metadata": {"name": "n"}, "status": {"addresses": addresses}}),
        )
        .unwrap()
    };
    let both = node(&[
        ("Hostname", "n"),
        ("ExternalIP", "203.0.113.7"),
        ("InternalIP", "fd00::4"),
        ("InternalIP", "10.0.0.4"),
        ("InternalIP", "10.0.0.5"),
        ("ExternalIP", "2001:db8::7"),
    ]);
    let outside = node(&[("InternalDNS", "10.0.0.9"), ("ExternalIP", "203.0.113.7")]);
    let families = [
        json!({}),
        json!({"ipFamilies": ["IPv4", "IPv6"]}),
        json!({"ipFamilies": ["IPv6", "IPv4"]}),
    ];
    let [any, v4, v6] = families.map(with_spec);
    assert_eq!(
        [&any, &v4, &v6].map(|spec| spec.member_address(&both)),
        [Some("fd00::4"), Some("10.0.0.4"), Some("fd00::4")]
    );
    assert_eq!(
        [&any, &v4, &v6].map(|spec| spec.member_address(&outside)),
        [Some("203.0.113.7"), Some("203.0.113.7"), None]
    );
    assert_eq!(
        v4.member_address(&node(&[("ExternalDNS", "n.example")])),
        None
    );
    assert_eq!(v4.member_address(&node(&[])), None);
    assert!(v6.is_ipv6() && !v4.is_ipv6() && !any.is_ipv6());
}

fn with_class() -> Balancers {
    configured(
        "subnet-id=subnet\nnetwork-id=network\nmember-subnet-id=members\nfloating-network-id=floating\n\
         floating-subnet-id=floating-subnet\n[LoadBalancerClass \"gold\"]\nsubnet-id=class-subnet\n\
         network-id=class-network\nmember-subnet-id=class-members\nfloating-network-id=class-floating\n\
         floating-subnet=class-*\n",
    )
}

#[test]
fn members_are_in_the_annotated_subnet_or_the_classs_or_the_configured_one() {
    let member_subnet =
        |given: &[(&str, &str)]| asked_with(given, &with_class()).map(|spec| spec.member_subnet);
    assert_eq!(
        member_subnet(&[("member-subnet-id", "mine"), ("class", "gold")]).unwrap(),
        some("mine")
    );
    assert_eq!(
        member_subnet(&[("class", "gold")]).unwrap(),
        some("class-members")
    );
    assert_eq!(member_subnet(&[]).unwrap(), some("members"));
    let error = member_subnet(&[("class", "silver")]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "annotation loadbalancer.openstack.org/class: \"silver\" is no [LoadBalancerClass] of the configuration; it has gold"
    );
    // Without a member subnet, the VIP's subnet applies.
    assert_eq!(
        asked_with(&[], &configured("subnet-id=subnet"))
            .unwrap()
            .member_subnet,
        some("subnet")
    );
    assert_eq!(spec(&[("subnet-id", "mine")]).member_subnet, some("mine"));
    assert_eq!(spec(&[("network-id", "mine")]).member_subnet, None);
}

#[test]
fn the_vip_is_where_the_annotation_says_or_the_class_which_comes_first_for_external_ones() {
    let vip = |given: &[(&str, &str)]| asked_with(given, &with_class()).map(|spec| spec.vip);
    let at = |subnet: &str, network: &str| VipPlacement {
        subnet: some(subnet),
        network: some(network),
        port: None,
    };
    let internal = (
        "service.beta.kubernetes.io/openstack-internal-load-balancer",
        "true",
    );
    let annotated = [
        ("subnet-id", "my-subnet"),
        ("network-id", "my-network"),
        ("class", "gold"),
        internal,
    ];
    assert_eq!(vip(&annotated).unwrap(), at("my-subnet", "my-network"));
    assert_eq!(
        vip(&annotated[..3]).unwrap(),
        at("class-subnet", "class-network")
    );
    assert_eq!(
        vip(&[("class", "gold")]).unwrap(),
        at("class-subnet", "class-network")
    );
    assert_eq!(vip(&[]).unwrap(), at("subnet", "network"));
    assert!(vip(&[("class", "silver")]).unwrap_err().is_invalid());
    let port = vip(&[("port-id", "my-port"), ("subnet-id", "my-subnet")]).unwrap();
    assert_eq!(
        port,
        VipPlacement {
            port: some("my-port"),
            ..VipPlacement::default()
        }
    );
}

#[test]
fn floating_ips_come_from_where_the_class_says_then_the_annotations_then_the_configuration() {
    let floating = |given: &[(&str, &str)]| asked_with(given, &with_class()).unwrap().floating;
    let like = |name: Option<&str>, tags: Option<&str>| FloatingSubnet::Like {
        name: name.map(str::to_owned),
        tags: tags.map(str::to_owned),
    };
    let from = |network: &str, subnet: FloatingSubnet| FloatingIpSource {
        network: some(network),
        subnet,
    };
    let annotated = [
        ("floating-network-id", "mine"),
        ("floating-subnet-id", "my-subnet"),
        ("class", "gold"),
    ];
    assert_eq!(
        floating(&annotated),
        from("class-floating", like(Some("class-*"), None))
    );
    assert_eq!(
        floating(&annotated[..2]),
        from("mine", FloatingSubnet::Id("my-subnet".into()))
    );
    assert_eq!(
        floating(&[]),
        from("floating", FloatingSubnet::Id("floating-subnet".into()))
    );
    assert_eq!(
        floating(&[("floating-subnet-tags", "&a,b")]).subnet,
        like(None, Some("&a,b"))
    );
    assert_eq!(
        floating(&[("floating-subnet", "~x"), ("floating-subnet-tags", "a")]).subnet,
        like(Some("~x"), Some("a"))
    );
    // An empty one cancels what is configured.
    assert_eq!(
        floating(&[("floating-subnet-id", "")]).subnet,
        FloatingSubnet::Any
    );
    assert_eq!(floating(&[("floating-network-id", "")]).network, None);
}

#[test]
fn members_carry_every_label_that_is_asked_for() {
    let labels: StringMap = [("env", "prod"), ("image", "a=b"), ("gpu", "")]
        .into_iter()
        .collect();
    let table = [
        ("", true),
        ("env=prod", true),
        ("image=a=b", true),
        ("gpu", true),
        ("gpu=", true),
        ("env=", true),
        ("env", true),
        (" env=prod , gpu,", true),
        ("env=prod,zone=a", false),
        ("env=dev", false),
        ("zone", false),
    ];
    for (text, expected) in table {
        assert_eq!(Selector::read(text).matches(&labels), expected, "{text:?}");
    }
    assert!(Selector::read("").selects_all() && !Selector::read("gpu").selects_all());
    assert!(!Selector::read("env").matches(&StringMap::default()));
    let configured = configured("node-selector=\"env=prod\"");
    assert!(!asked_with(&[], &configured).unwrap().selector.selects_all());
    assert!(
        asked_with(&[("node-selector", "")], &configured)
            .unwrap()
            .selector
            .selects_all()
    );
}

#[test]
fn members_are_checked_by_themselves_where_only_nodes_with_a_pod_may_get_traffic() {
    let local = json!({"externalTrafficPolicy": "Local", "healthCheckNodePort": 32000});
    let checked = |annotations: Value, spec: &Value, create: bool| {
        let config = configured(if create { "create-monitor" } else { "" });
        let spec = ServiceSpec::of(
            &service(json!({"annotations": annotations}), spec.clone()),
            &config,
        )
        .spec
        .unwrap();
        (spec.monitor.is_some(), spec.health_check_port)
    };
    let annotation =
        |value: &str| json!({"loadbalancer.openstack.org/enable-health-monitor": value});
    assert_eq!(checked(json!({}), &json!({}), false), (false, None));
    assert_eq!(checked(json!({}), &json!({}), true), (true, None));
    assert_eq!(checked(annotation("true"), &json!({}), false), (true, None));
    assert_eq!(checked(json!({}), &local, false), (true, Some(32000)));
    assert_eq!(checked(annotation("false"), &local, true), (false, None));
    let cluster = json!({"externalTrafficPolicy": "Cluster", "healthCheckNodePort": 32000});
    assert_eq!(checked(json!({}), &cluster, true), (true, None));
    let given = [
        ("health-monitor-delay", "7"),
        ("health-monitor-timeout", "x"),
        ("health-monitor-max-retries", "2"),
    ];
    let given: Vec<_> = given
        .into_iter()
        .chain([
            ("health-monitor-max-retries-down", "11"),
            ("enable-health-monitor", "true"),
        ])
        .collect();
    let timeout = config().get(&MONITOR_TIMEOUT).unwrap();
    let max_retries_down = config().get(&MONITOR_MAX_RETRIES_DOWN);
    let expected = json!({"delay": 7, "timeout": timeout.as_secs(), "max_retries": 2, "max_retries_down": max_retries_down});
    assert_eq!(
        spec(&given).monitor.unwrap().nested()["healthmonitor"],
        expected
    );
}

#[test]
fn source_ranges_are_of_the_vips_family_and_everybodys_if_none_is_said() {
    let ranges = |spec: Value, annotation: Option<&str>| {
        let annotations = annotation
            .map(|text| json!({"service.beta.kubernetes.io/load-balancer-source-ranges": text}));
        let service = service(json!({"annotations": annotations}), spec);
        ServiceSpec::of(&service, &config()).spec.map(|spec| {
            let ranges: Vec<_> = spec.ranges.iter().map(ToString::to_string).collect();
            (ranges.join(" "), spec.is_restricted)
        })
    };
    let v4 = json!({"ipFamilies": ["IPv4"]});
    let v6 = json!({"ipFamilies": ["IPv6"]});
    assert_eq!(
        ranges(v4.clone(), None).unwrap(),
        ("0.0.0.0/0".into(), false)
    );
    assert_eq!(ranges(v6.clone(), None).unwrap(), ("::/0".into(), false));
    assert_eq!(
        ranges(v4.clone(), Some("10.1.2.3/8, 192.0.2.0/24")).unwrap(),
        ("10.0.0.0/8 192.0.2.0/24".into(), true)
    );
    assert_eq!(
        ranges(v4.clone(), Some("10.0.0.0/8 fd00::/8")).unwrap(),
        ("10.0.0.0/8".into(), true)
    );
    assert_eq!(
        ranges(v6, Some("10.0.0.0/8 fd00::/8")).unwrap(),
        ("fd00::/8".into(), true)
    );
    let both = json!({"ipFamilies": ["IPv4", "IPv6"]});
    assert_eq!(
        ranges(both.clone(), None).unwrap(),
        ("0.0.0.0/0 ::/0".into(), false)
    );
    assert_eq!(
        ranges(both.clone(), Some("10.0.0.0/8 fd00::/8")).unwrap(),
        ("10.0.0.0/8 fd00::/8".into(), true)
    );
    assert_eq!(
        ranges(both.clone(), Some("10.0.0.0/8")).unwrap(),
        ("10.0.0.0/8".into(), true),
        "nobody by IPv6"
    );
    assert!(
        ranges(both, Some("fd00::/8")).unwrap_err().is_invalid(),
        "without a second VIP everybody could come in"
    );
    let spec = json!({"ipFamilies": ["IPv4"], "loadBalancerSourceRanges": ["203.0.113.0/24"]});
    assert_eq!(
        ranges(spec, Some("10.0.0.0/8")).unwrap(),
        ("203.0.113.0/24".into(), true)
    );
    assert!(
        ranges(v4.clone(), Some("10.0.0.0/33"))
            .unwrap_err()
            .is_invalid()
    );
    let error = ranges(v4, Some("fd00::/8")).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("none of the source ranges is of the load balancer's family"),
        "{error}"
    );
}

#[test]
fn of_two_families_the_second_is_known_and_whether_it_is_needed() {
    let table = [
        (json!({"ipFamilies": ["IPv4"]}), None, false),
        (json!({}), None, false),
        (
            json!({"ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "PreferDualStack"}),
            Some(AddressFamily::Ipv6),
            false,
        ),
        (
            json!({"ipFamilies": ["IPv6", "IPv4"], "ipFamilyPolicy": "RequireDualStack"}),
            Some(AddressFamily::Ipv4),
            true,
        ),
    ];
    for (fields, second, needs_both) in table {
        let spec = with_spec(fields.clone());
        assert_eq!(
            (spec.second, spec.needs_both),
            (second, needs_both),
            "{fields}"
        );
    }
}

#[test]
fn all_mistakes_are_told_at_once() {
    let mut broken = service(
        json!({"annotations": {"loadbalancer.openstack.org/class": "silver"}}),
        json!({}),
    );
    broken.spec.as_mut().unwrap().ports = None;
    let error = ServiceSpec::of(&broken, &config())
        .spec
        .err()
        .unwrap()
        .to_string();
    assert!(
        error.contains("silver") && error.contains("the Service has no ports"),
        "{error}"
    );
}

#[test]
fn a_configuration_with_internal_load_balancers_only_has_no_others() {
    let internal = |value: Option<&str>, is_configured: bool| {
        let key = "service.beta.kubernetes.io/openstack-internal-load-balancer";
        let given: Vec<_> = value.map(|value| (key, value)).into_iter().collect();
        let config = if is_configured { "internal-lb" } else { "" };
        asked_with(&given, &configured(config)).unwrap().internal
    };
    let table = [
        (None, false, false),
        (Some("true"), false, true),
        (Some("false"), false, false),
        (None, true, true),
        (Some("false"), true, true),
    ];
    for (value, configured, expected) in table {
        assert_eq!(
            internal(value, configured),
            expected,
            "{value:?} {configured}"
        );
    }
}
