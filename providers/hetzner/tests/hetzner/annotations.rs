//! §3.2: what each annotation takes, and what is said when it is wrong.

use std::fmt::Debug;
use std::time::Duration;

use cloud_provider::{Service, StringMap};
use provider_hetzner::annotations as of;
use provider_hetzner::annotations::{CertificateRef, CertificateType, PREFIX, Protocol};
use provider_hetzner::config::Algorithm;
use provider_kit::annotations::{Annotation, Annotations};

fn service(annotations: &[(&str, &str)]) -> Service {
    let mut service = Service::default();
    let owned = annotations.iter().map(|(key, value)| (format!("{PREFIX}{key}"), (*value).to_owned()));
    service.metadata.annotations = Some(owned.collect());
    service
}

fn read<T>(annotation: &Annotation<T>, text: &str) -> Result<Option<T>, String> {
    let key = annotation.key().strip_prefix(PREFIX).unwrap();
    let service = service(&[(key, text)]);
    let mut asked = Annotations::of(&service);
    let value = asked.get(annotation);
    asked.finish().map(|()| value).map_err(|err| {
        assert!(err.is_invalid());
        err.to_string()
    })
}

#[track_caller]
fn takes<T: Debug + PartialEq>(annotation: &Annotation<T>, forms: &[(&str, T)]) {
    for (text, value) in forms {
        let found = read(annotation, text);
        assert_eq!(found.as_ref().map(Option::as_ref), Ok(Some(value)), "{} = {text:?}", annotation.key());
    }
}

#[track_caller]
fn refuses<T: Debug>(annotation: &Annotation<T>, texts: &[&str], accepted: &str) {
    for text in texts {
        let err = read(annotation, text).unwrap_err();
        assert_eq!(err, format!("annotation {}: {text:?} is not {accepted}", annotation.key()));
    }
}

#[test]
fn texts_are_taken_as_they_stand() {
    for annotation in [
        of::NAME,
        of::TYPE,
        of::LOCATION,
        of::NETWORK_ZONE,
        of::HOSTNAME,
        of::IPV4_RDNS,
        of::IPV6_RDNS,
        of::HTTP_COOKIE_NAME,
        of::HTTP_MANAGED_CERTIFICATE_NAME,
        of::HEALTH_CHECK_HTTP_DOMAIN,
        of::HEALTH_CHECK_HTTP_PATH,
        of::IPV4,
        of::IPV6,
        of::ID,
    ] {
        takes(&annotation, &[("a-b.example", "a-b.example".to_owned()), ("", String::new())]);
    }
}

#[test]
fn truth_values_have_the_forms_of_gos_tools() {
    for annotation in [
        of::IPV6_DISABLED,
        of::DISABLE_PUBLIC_NETWORK,
        of::DISABLE_PRIVATE_INGRESS,
        of::USE_PRIVATE_IP,
        of::USES_PROXYPROTOCOL,
        of::HTTP_STICKY_SESSIONS,
        of::HTTP_REDIRECT_HTTP,
        of::HEALTH_CHECK_HTTP_VALIDATE_CERTIFICATE,
    ] {
        for (forms, value) in
            [(["1", "t", "T", "TRUE", "true", "True"], true), (["0", "f", "F", "FALSE", "false", "False"], false)]
        {
            takes(&annotation, &forms.map(|form| (form, value)));
        }
        refuses(&annotation, &["", "yes", "tRUE", "2"], "true or false");
    }
}

#[test]
fn the_test_certificate_is_wanted_only_by_a_clear_yes() {
    let annotation = of::HTTP_MANAGED_CERTIFICATE_ACME_STAGING;
    takes(&annotation, &[("true", true), ("1", true), ("false", false), ("perhaps", false)]);
}

#[test]
fn words_are_taken_in_any_case() {
    let algorithms = [("round_robin", Algorithm::RoundRobin), ("Least_Connections", Algorithm::LeastConnections)];
    takes(&of::ALGORITHM_TYPE, &algorithms);
    refuses(&of::ALGORITHM_TYPE, &["random", ""], "one of round_robin, least_connections");
    for annotation in [of::PROTOCOL, of::HEALTH_CHECK_PROTOCOL] {
        takes(&annotation, &[("tcp", Protocol::Tcp), ("http", Protocol::Http), ("HTTPS", Protocol::Https)]);
        refuses(&annotation, &["udp"], "one of tcp, http, https");
    }
    takes(&of::CERTIFICATE_TYPE, &[("uploaded", CertificateType::Uploaded), ("managed", CertificateType::Managed)]);
    refuses(&of::CERTIFICATE_TYPE, &["letsencrypt"], "one of uploaded, managed");
}

#[test]
fn durations_are_gos_or_whole_seconds() {
    let forms = [("15s", 15), ("15", 15), ("1m30s", 90), ("1h", 3600)];
    for annotation in [of::HTTP_COOKIE_LIFETIME, of::HEALTH_CHECK_INTERVAL, of::HEALTH_CHECK_TIMEOUT] {
        takes(&annotation, &forms.map(|(text, seconds)| (text, Duration::from_secs(seconds))));
        refuses(&annotation, &["", "soon", "-5s", "1.5"], "a duration such as 30s or 1m30s, or a number of seconds");
    }
    takes(&of::HTTP_TIMEOUT_IDLE, &[("30s", Duration::from_secs(30)), ("5m", Duration::from_secs(300))]);
    refuses(&of::HTTP_TIMEOUT_IDLE, &["29s", "301", "x"], "a duration from 30s to 5m");
}

#[test]
fn numbers_have_their_bounds() {
    takes(&of::HEALTH_CHECK_PORT, &[("1", 1), ("65535", 65535)]);
    refuses(&of::HEALTH_CHECK_PORT, &["0", "65536", "http", ""], "a whole number from 1 to 65535");
    takes(&of::HEALTH_CHECK_RETRIES, &[("0", 0), ("5", 5)]);
    refuses(&of::HEALTH_CHECK_RETRIES, &["-1", "3.5"], "a whole number from 0 to 2147483647");
}

#[test]
fn addresses_and_ranges_are_checked() {
    takes(&of::PRIVATE_IPV4, &[("10.0.0.9", "10.0.0.9".parse().unwrap())]);
    refuses(&of::PRIVATE_IPV4, &["10.0.0", "fd00::1", ""], "an IPv4 address");
    takes(&of::PRIVATE_SUBNET_IP_RANGE, &[("10.0.1.0/24", "10.0.1.0/24".parse().unwrap())]);
    refuses(&of::PRIVATE_SUBNET_IP_RANGE, &["10.0.1.0", "10.0.1.0/33"], "an address range such as 10.0.0.0/24");
}

#[test]
fn lists_are_split_at_commas() {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    takes(&of::HTTP_MANAGED_CERTIFICATE_DOMAINS, &[("a.example, b.example", names(&["a.example", "b.example"]))]);
    takes(&of::HTTP_STATUS_CODES, &[("200,3??,4*", names(&["200", "3??", "4*"]))]);
    let certificates = vec![CertificateRef::Id(1), CertificateRef::Name("my-cert".into()), CertificateRef::Id(3)];
    takes(&of::HTTP_CERTIFICATES, &[("1, my-cert,3", certificates), ("", Vec::new())]);
}

/// §8.29.
#[test]
fn the_node_selector_is_equality_and_set_based() {
    let nodes = [
        [("env", "prod"), ("tier", "web")].into_iter().collect::<StringMap>(),
        [("env", "prod"), ("tier", "db")].into_iter().collect(),
        [("env", "test"), ("tier", "web")].into_iter().collect(),
    ];
    for (text, expected) in [
        ("", [true, true, true]),
        ("env=prod", [true, true, false]),
        ("env=prod,tier=web", [true, false, false]),
        ("env in (prod, test),tier notin (db)", [true, false, true]),
    ] {
        let selector = read(&of::NODE_SELECTOR, text).unwrap().unwrap();
        assert_eq!(nodes.each_ref().map(|labels| selector.matches(labels)), expected, "{text:?}");
    }
    let err = read(&of::NODE_SELECTOR, "env in (prod").unwrap_err();
    assert_eq!(
        err,
        "annotation load-balancer.hetzner.cloud/node-selector: \"env in (prod\" is not a label selector such as \
         `env=prod,tier in (web, api)`: \"env in (prod\" lacks a closing parenthesis"
    );
}

#[test]
fn nothing_is_asked_for_where_nothing_is_set() {
    let service = Service::default();
    let mut asked = Annotations::of(&service);
    assert_eq!(asked.get(&of::PROTOCOL), Some(Protocol::Tcp));
    assert_eq!(asked.get(&of::CERTIFICATE_TYPE), Some(CertificateType::Uploaded));
    assert_eq!(asked.get(&of::HTTP_MANAGED_CERTIFICATE_ACME_STAGING), Some(false));
    assert_eq!((asked.get(&of::TYPE), asked.get(&of::USE_PRIVATE_IP)), (None, None), "a variable decides");
    assert_eq!(asked.get(&of::HEALTH_CHECK_PROTOCOL), None);
    asked.finish().unwrap();
}

#[test]
fn all_mistakes_of_a_service_are_told_at_once() {
    let service = service(&[("use-private-ip", "yes"), ("health-check-port", "0"), ("protocol", "udp")]);
    let mut asked = Annotations::of(&service);
    asked.get(&of::USE_PRIVATE_IP);
    asked.get(&of::HEALTH_CHECK_PORT);
    asked.get(&of::PROTOCOL);
    let err = asked.finish().unwrap_err();
    assert!(err.is_invalid());
    assert_eq!(err.to_string().matches("annotation load-balancer.hetzner.cloud/").count(), 3, "{err}");
}

#[test]
fn a_misspelt_key_is_told_and_refuses_nothing() {
    let service = service(&[("loaction", "fsn1"), ("ipv4", "reserved")]);
    let mut asked = Annotations::of(&service);
    asked.unknown(PREFIX, of::ALL);
    assert_eq!(
        asked.warnings(),
        [
            "annotation load-balancer.hetzner.cloud/loaction is not known: did you mean load-balancer.hetzner.cloud/location?"
        ]
    );
    asked.finish().unwrap();
}

#[test]
fn every_key_begins_with_the_prefix_and_every_default_is_accepted() {
    for row in of::ALL.iter().map(|it| it.row()) {
        assert!(row.key.starts_with(PREFIX) && row.default_is_accepted && !row.doc.is_empty(), "{row:?}");
    }
    assert_eq!(of::ALL.len(), 39, "§3.2 lists them");
}
