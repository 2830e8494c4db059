//! Annotations: accepted values, and the values that apply if one is invalid or empty.

use std::fmt::Debug;
use std::time::Duration;

use cloud_provider::Service;
use provider_kit::annotations::{Annotation, Annotations};
use provider_kit::declared::{Declared, Defaults};
use provider_openstack::annotations as of;
use provider_openstack::annotations::{PREFIX, ProxyProtocol, annotations_of, text};

fn service(key: &str, value: &str) -> Service {
    let mut service = Service::default();
    service.metadata.annotations = Some([(key.to_owned(), value.to_owned())].into());
    service
}

/// Returns the value, and `true` if there was a warning. No value is an error.
fn read<T>(annotation: &Annotation<T>, value: Option<&str>) -> (Option<T>, bool) {
    let service = value.map_or_else(Service::default, |value| service(annotation.key(), value));
    let mut variables = annotations_of(&service);
    let value = variables.get(annotation);
    let warned = !variables.warnings().is_empty();
    variables.finish().unwrap();
    (value, warned)
}

#[track_caller]
fn takes<T>(annotation: &Annotation<T>, default: Option<T>, good: &[(&str, T)], bad: &[&str])
where
    T: Copy + Debug + PartialEq,
{
    let key = annotation.key();
    assert_eq!(read(annotation, None), (default, false), "{key} absent");
    for (text, value) in good {
        assert_eq!(
            read(annotation, Some(text)),
            (Some(*value), false),
            "{key} = {text:?}"
        );
    }
    for text in bad {
        assert_eq!(
            read(annotation, Some(text)),
            (default, true),
            "{key} = {text:?}"
        );
    }
}

#[test]
fn a_truth_value_is_exactly_true_or_false_and_the_default_holds_for_anything_else() {
    let forms = [("true", true), ("false", false)];
    let wrong = [
        "", "True", "TRUE", "1", "0", "yes", "t", " true", "true ", "invalid",
    ];
    for annotation in [&of::KEEP_FLOATINGIP, &of::X_FORWARDED_FOR] {
        takes(annotation, Some(false), &forms, &wrong);
    }
    takes(&of::ENABLE_HEALTH_MONITOR, None, &forms, &wrong);
}

#[test]
fn a_number_that_is_none_or_that_octavia_never_takes_is_a_warning_and_the_default_holds() {
    let wrong = ["", "x", "1.5", " 1", "5s", "99999999999999999999"];
    takes(
        &of::CONNECTION_LIMIT,
        Some(-1),
        &[("-1", -1), ("0", 0), ("+5", 5), ("2147483647", i32::MAX)],
        &wrong,
    );
    takes(&of::CONNECTION_LIMIT, Some(-1), &[], &["-2", "2147483648"]);
    for (annotation, default) in [
        (&of::TIMEOUT_CLIENT_DATA, 50_000),
        (&of::TIMEOUT_MEMBER_CONNECT, 5_000),
        (&of::TIMEOUT_MEMBER_DATA, 50_000),
        (&of::TIMEOUT_TCP_INSPECT, 0),
    ] {
        let most = 31_536_000_000;
        takes(
            annotation,
            Some(default),
            &[("0", 0), ("7", 7), ("31536000000", most)],
            &wrong,
        );
        takes(annotation, Some(default), &[], &["-1", "31536000001"]);
    }
    for annotation in [&of::HEALTH_MONITOR_DELAY, &of::HEALTH_MONITOR_TIMEOUT] {
        takes(
            annotation,
            None,
            &[("0", Duration::ZERO), ("60", Duration::from_secs(60))],
            &wrong,
        );
        takes(annotation, None, &[], &["-1"]);
    }
    for annotation in [
        &of::HEALTH_MONITOR_MAX_RETRIES,
        &of::HEALTH_MONITOR_MAX_RETRIES_DOWN,
    ] {
        takes(annotation, None, &[("1", 1), ("10", 10)], &wrong);
        takes(annotation, None, &[], &["0", "11"]);
    }
}

#[test]
fn the_proxy_protocol_is_off_unless_it_is_one_that_is_known() {
    let forms = [
        ("true", ProxyProtocol::V1),
        ("v1", ProxyProtocol::V1),
        ("v2", ProxyProtocol::V2),
        ("false", ProxyProtocol::Off),
    ];
    takes(
        &of::PROXY_PROTOCOL,
        Some(ProxyProtocol::Off),
        &forms,
        &["", "V2", "v3", "yes", "proxy"],
    );
}

#[test]
fn a_text_is_taken_as_it_stands_and_an_empty_one_cancels_what_the_configuration_says() {
    for annotation in [
        &of::CLASS,
        &of::FLOATING_NETWORK_ID,
        &of::FLOATING_SUBNET_ID,
        &of::FLOATING_SUBNET,
        &of::FLOATING_SUBNET_TAGS,
        &of::SUBNET_ID,
        &of::NETWORK_ID,
        &of::MEMBER_SUBNET_ID,
        &of::PORT_ID,
        &of::LOAD_BALANCER_ID,
        &of::LOAD_BALANCER_ADDRESS,
        &of::HOSTNAME,
        &of::DEFAULT_TLS_CONTAINER_REF,
        &of::LB_METHOD,
        &of::FLAVOR_ID,
        &of::AVAILABILITY_ZONE,
        &of::NODE_SELECTOR,
    ] {
        let key = annotation.key();
        let fallback = annotation.row().fallback;
        let read = |value: Option<&str>, configured: Option<&str>| {
            let service = value.map_or_else(Service::default, |value| service(key, value));
            let defaults = fallback.zip(configured);
            let defaults = defaults.map_or_else(Defaults::default, |(key, text)| {
                Defaults::default().set(key, text)
            });
            let mut variables = Annotations::of(&service).over(&defaults);
            let text = text(&mut variables, annotation);
            assert!(variables.warnings().is_empty(), "{key}");
            variables.finish().unwrap();
            text
        };
        assert_eq!(
            read(Some(" a, !b "), None).as_deref(),
            Some(" a, !b "),
            "{key}"
        );
        assert_eq!(
            read(Some("a"), Some("")).as_deref(),
            Some("a"),
            "{key}: present with an empty configuration"
        );
        assert_eq!(read(Some("a"), Some("b")).as_deref(), Some("a"), "{key}");
        assert_eq!(
            read(None, Some("b")).as_deref(),
            fallback.map(|_| "b"),
            "{key}: absent"
        );
        assert_eq!(read(None, None), None, "{key}");
        assert_eq!(read(None, Some("")), None, "{key}");
        assert_eq!(read(Some(""), Some("b")), None, "{key}: empty");
    }
}

#[test]
fn every_annotation_of_the_reference_is_declared_with_its_key() {
    let names = "floating-network-id floating-subnet-id floating-subnet floating-subnet-tags class subnet-id network-id \
                 member-subnet-id port-id load-balancer-id load-balancer-address hostname keep-floatingip proxy-protocol \
                 x-forwarded-for default-tls-container-ref connection-limit lb-method timeout-client-data \
                 timeout-member-connect timeout-member-data timeout-tcp-inspect flavor-id availability-zone \
                 enable-health-monitor health-monitor-delay health-monitor-timeout health-monitor-max-retries \
                 health-monitor-max-retries-down node-selector";
    let mut wanted: Vec<_> = names
        .split_whitespace()
        .map(|name| format!("{PREFIX}{name}"))
        .collect();
    let mut declared: Vec<_> = of::ALL
        .iter()
        .map(|setting| setting.row().key.to_owned())
        .collect();
    wanted.sort_unstable();
    declared.sort_unstable();
    assert_eq!(declared, wanted);
    assert_eq!(
        of::INTERNAL.key(),
        "service.beta.kubernetes.io/openstack-internal-load-balancer"
    );
}

#[test]
fn an_annotation_that_nobody_reads_is_warned_of_with_the_one_that_was_meant() {
    let service = service("loadbalancer.openstack.org/keep-floating-ip", "true");
    assert_eq!(
        annotations_of(&service).warnings(),
        [
            "annotation loadbalancer.openstack.org/keep-floating-ip is not known: \
          did you mean loadbalancer.openstack.org/keep-floatingip?"
        ]
    );
}
