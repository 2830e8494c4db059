//! Annotations: accepted values, and errors for invalid ones.

use std::fmt::Debug;

use cloud_provider::Service;
use provider_hetzner::annotations as of;
use provider_hetzner::annotations::{Algorithm, CertificateType, PREFIX, Protocol};
use provider_kit::annotations::{Annotation, Annotations};

fn service(annotations: &[(&str, &str)]) -> Service {
    let mut service = Service::default();
    let owned = annotations
        .iter()
        .map(|(key, value)| (format!("{PREFIX}{key}"), (*value).to_owned()));
    service.metadata.annotations = Some(owned.collect());
    service
}

fn read<T>(annotation: &Annotation<T>, text: &str) -> Result<Option<T>, String> {
    let key = annotation.key().strip_prefix(PREFIX).unwrap();
    let service = service(&[(key, text)]);
    let mut annotations = Annotations::of(&service);
    let value = annotations.get(annotation);
    annotations.finish().map(|()| value).map_err(|err| {
        assert!(err.is_invalid());
        err.to_string()
    })
}

#[track_caller]
fn takes<T: Debug + PartialEq>(annotation: &Annotation<T>, forms: &[(&str, T)]) {
    for (text, value) in forms {
        let found = read(annotation, text);
        assert_eq!(
            found.as_ref().map(Option::as_ref),
            Ok(Some(value)),
            "{} = {text:?}",
            annotation.key()
        );
    }
}

#[track_caller]
fn refuses<T: Debug>(annotation: &Annotation<T>, texts: &[&str], accepted: &str) {
    for text in texts {
        let err = read(annotation, text).unwrap_err();
        assert_eq!(
            err,
            format!(
                "annotation {}: {text:?} is not {accepted}",
                annotation.key()
            )
        );
    }
}

#[test]
fn the_test_certificate_is_wanted_only_by_a_clear_yes() {
    let annotation = of::HTTP_MANAGED_CERTIFICATE_ACME_STAGING;
    takes(
        &annotation,
        &[
            ("true", true),
            ("1", true),
            ("false", false),
            ("perhaps", false),
        ],
    );
}

#[test]
fn words_are_taken_in_any_case() {
    let algorithms = [
        ("round_robin", Algorithm::RoundRobin),
        ("Least_Connections", Algorithm::LeastConnections),
    ];
    takes(&of::ALGORITHM_TYPE, &algorithms);
    refuses(
        &of::ALGORITHM_TYPE,
        &["random", ""],
        "one of round_robin, least_connections",
    );
    for annotation in [of::PROTOCOL, of::HEALTH_CHECK_PROTOCOL] {
        takes(
            &annotation,
            &[
                ("tcp", Protocol::Tcp),
                ("http", Protocol::Http),
                ("HTTPS", Protocol::Https),
            ],
        );
        refuses(&annotation, &["udp"], "one of tcp, http, https");
    }
    takes(
        &of::CERTIFICATE_TYPE,
        &[
            ("uploaded", CertificateType::Uploaded),
            ("managed", CertificateType::Managed),
        ],
    );
    refuses(
        &of::CERTIFICATE_TYPE,
        &["letsencrypt"],
        "one of uploaded, managed",
    );
}

#[test]
fn durations_are_gos_or_whole_seconds() {
    let forms = [("15s", 15), ("15", 15), ("1m30s", 90), ("1h", 3600)];
    for annotation in [
        of::HTTP_COOKIE_LIFETIME,
        of::HEALTH_CHECK_INTERVAL,
        of::HEALTH_CHECK_TIMEOUT,
    ] {
        takes(&annotation, &forms);
        refuses(
            &annotation,
            &["", "soon", "-5s", "1.5"],
            "a duration such as 30s or 1m30s, or a number of seconds",
        );
    }
    takes(&of::HTTP_TIMEOUT_IDLE, &[("30s", 30), ("5m", 300)]);
    refuses(
        &of::HTTP_TIMEOUT_IDLE,
        &["29s", "301", "x"],
        "a duration from 30s to 5m",
    );
}

#[test]
fn every_key_begins_with_the_prefix_and_every_default_is_accepted() {
    for row in of::ALL.iter().map(|setting| setting.row()) {
        assert!(
            row.key.starts_with(PREFIX) && row.default_is_accepted && !row.doc.is_empty(),
            "{row:?}"
        );
    }
    assert_eq!(of::ALL.len(), 39, "docs/providers/hetzner.md lists them");
}
