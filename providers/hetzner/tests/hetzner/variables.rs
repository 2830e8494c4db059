//! Variables: their meaning, and errors for invalid values.

use std::time::Duration;

use cloud_provider::{Environment, Service, Setup};
use provider_hetzner::annotations as key;
use provider_hetzner::annotations::Algorithm;
use provider_hetzner::config::{AddressFamily, CachePolicy, Config, Instances, Network};
use provider_hetzner::variables::{HCLOUD, ROBOT};
use provider_kit::annotations::{Annotation, Annotations};
use provider_kit::declared::Defaults;

/// Variables and their values.
type Set<'a> = &'a [(&'a str, &'a str)];

fn token() -> String {
    "t".repeat(64)
}

/// Returns the configuration with a token and these variables; a value of `-` takes a variable away.
fn read(variables: &[(&str, &str)]) -> Result<Config, String> {
    let token = token();
    let mut all = vec![("HCLOUD_TOKEN", token.as_str())];
    all.retain(|(name, _)| !variables.contains(&(*name, "-")));
    all.extend(variables.iter().filter(|(_, value)| *value != "-"));
    let setup = Setup {
        environment: Environment::of(all),
        ..Setup::default()
    };
    Config::read(&setup).map_err(|err| {
        assert!(err.is_invalid(), "{err:?}");
        err.to_string()
    })
}

/// Returns the value of an annotation on a Service without annotations.
fn default_of<T>(annotation: &Annotation<T>, variable: &str, value: &str) -> Option<T> {
    let config = read(&[(&format!("HCLOUD_LOAD_BALANCERS_{variable}"), value)]).unwrap();
    Annotations::of(&Service::default())
        .over(&config.load_balancers.unwrap())
        .get(annotation)
}

#[test]
fn a_token_is_enough_and_all_else_has_its_default() {
    let config = read(&[]).unwrap();
    assert_eq!(config.endpoint, "https://api.hetzner.cloud/v1");
    assert!(!config.debug);
    assert_eq!(config.rate_limit_left_to_others, 10);
    assert_eq!(config.network, None);
    let instances = Instances {
        address_family: AddressFamily::Ipv4,
        zone_label: true,
        cache: CachePolicy::Shared,
    };
    assert_eq!(config.instances, instances);
    assert_eq!(config.metrics_address.as_deref(), Some(":8233"));
    assert_eq!(config.load_balancers, Some(Defaults::default()));
    assert!(config.robot.is_none());
}

#[test]
fn all_bad_values_are_told_in_one_error() {
    let err = read(&[
        ("HCLOUD_DEBUG", "yes"),
        ("HCLOUD_METRICS_ENABLED", "on"),
        ("HCLOUD_SERVER_CACHE_MAX_AGE", "ten"),
        ("ROBOT_CACHE_TIMEOUT", "biweekly"),
        ("HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_RETRIES", "-1"),
    ])
    .unwrap_err();
    for expected in [
        "HCLOUD_DEBUG: \"yes\" is not true or false",
        "HCLOUD_METRICS_ENABLED: \"on\" is not true or false",
        "HCLOUD_SERVER_CACHE_MAX_AGE: \"ten\" is not a duration such as 30s or 1m30s",
        "ROBOT_CACHE_TIMEOUT: \"biweekly\" is not a duration such as 30s or 1m30s",
        "HCLOUD_LOAD_BALANCERS_HEALTH_CHECK_RETRIES: \"-1\" is not a whole number from 0 to 2147483647",
    ] {
        assert!(err.contains(expected), "{expected} in {err}");
    }
    assert_eq!(err.matches("; ").count(), 4, "{err}");
}

#[test]
fn what_cannot_work_is_refused_with_what_to_do() {
    let long = "HCLOUD_LOAD_BALANCERS_PRIVATE_SUBNET_IP_RANGE";
    let table: &[(Set<'_>, &str)] = &[
        (
            &[("HCLOUD_TOKEN", "-")],
            "HCLOUD_TOKEN is required: a token of the project that may write",
        ),
        (
            &[("HCLOUD_INSTANCES_ADDRESS_FAMILY", "foo")],
            "HCLOUD_INSTANCES_ADDRESS_FAMILY: \"foo\" is not one of ipv4, ipv6, dualstack",
        ),
        (
            &[("HCLOUD_SERVER_CACHE_MODE", "foo")],
            "HCLOUD_SERVER_CACHE_MODE: \"foo\" is not one of all, one, off",
        ),
        (
            &[
                ("HCLOUD_LOAD_BALANCERS_LOCATION", "nbg1"),
                ("HCLOUD_LOAD_BALANCERS_NETWORK_ZONE", "eu-central"),
            ],
            "HCLOUD_LOAD_BALANCERS_LOCATION and HCLOUD_LOAD_BALANCERS_NETWORK_ZONE are both set: only one can be",
        ),
        (
            &[(long, "10.0.0.0")],
            &format!("{long}: \"10.0.0.0\" is not an address range such as 10.0.0.0/24"),
        ),
        (
            &[("HCLOUD_LOAD_BALANCERS_ALGORITHM_TYPE", "random")],
            "HCLOUD_LOAD_BALANCERS_ALGORITHM_TYPE: \"random\" is not one of round_robin, least_connections",
        ),
        (
            &[("ROBOT_ENABLED", "true"), ("ROBOT_USER", "robot")],
            "ROBOT_USER and ROBOT_PASSWORD: only one is set; set both or neither",
        ),
        (
            &[("ROBOT_ENABLED", "true"), ("HCLOUD_NETWORK", "net")],
            "ROBOT_ENABLED does not go with routes: set HCLOUD_NETWORK_ROUTES_ENABLED=false",
        ),
    ];
    for (variables, expected) in table {
        assert_eq!(
            read(variables).map(|_| ()),
            Err((*expected).to_owned()),
            "{variables:?}"
        );
    }
}

#[test]
fn robot_without_credentials_is_fine_and_its_defaults_are_these() {
    let robot = read(&[("ROBOT_ENABLED", "true")]).unwrap().robot.unwrap();
    assert!(robot.credential.is_none());
    assert_eq!(robot.endpoint, "https://robot-ws.your-server.de");
    assert_eq!(
        (robot.cache_timeout, robot.rate_limit_wait),
        (Duration::from_secs(300), Duration::ZERO)
    );
    assert!(robot.forward_internal_ips);
    let set = read(&[
        ("ROBOT_ENABLED", "true"),
        ("ROBOT_CACHE_TIMEOUT", "1m"),
        ("ROBOT_RATE_LIMIT_WAIT_TIME", "5m"),
        ("ROBOT_FORWARD_INTERNAL_IPS", "false"),
        ("HCLOUD_NETWORK", "net"),
        ("HCLOUD_NETWORK_ROUTES_ENABLED", "false"),
    ]);
    let robot = set.unwrap().robot.unwrap();
    assert_eq!(
        (robot.cache_timeout, robot.rate_limit_wait),
        (Duration::from_secs(60), Duration::from_secs(300))
    );
    assert!(!robot.forward_internal_ips);
}

#[test]
fn robots_variables_count_only_if_it_is_enabled() {
    assert!(
        read(&[("ROBOT_USER", "robot"), ("HCLOUD_NETWORK", "net")])
            .unwrap()
            .robot
            .is_none()
    );
}

/// The manifests name both files, and a Secret without dedicated servers has neither key.
#[test]
fn robots_files_need_exist_only_if_it_is_enabled() {
    let files = [
        ("ROBOT_USER_FILE", "/nowhere/robot-user"),
        ("ROBOT_PASSWORD_FILE", "/nowhere/robot-password"),
    ];
    assert!(read(&files).unwrap().robot.is_none());
    assert!(
        read(&[files[0], files[1], ("ROBOT_ENABLED", "false")])
            .unwrap()
            .robot
            .is_none()
    );
    let err = read(&[files[0], files[1], ("ROBOT_ENABLED", "true")]).unwrap_err();
    for (variable, path) in files {
        assert!(
            err.contains(&format!("{variable}: cannot read {path}: ")),
            "{err}"
        );
    }
}

#[test]
fn a_network_has_routes_and_is_checked_unless_told_otherwise() {
    let network = |check_attached, routes| {
        Some(Network {
            name_or_id: "net".into(),
            check_attached,
            routes,
        })
    };
    let table: &[(Set<'_>, Option<Network>)] = &[
        (&[("HCLOUD_NETWORK", "net")], network(true, true)),
        (
            &[
                ("HCLOUD_NETWORK", "net"),
                ("HCLOUD_NETWORK_ROUTES_ENABLED", "false"),
            ],
            network(true, false),
        ),
        (
            &[
                ("HCLOUD_NETWORK", "net"),
                ("HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK", "true"),
            ],
            network(false, true),
        ),
        (&[("HCLOUD_NETWORK", "")], None),
        (&[("HCLOUD_NETWORK_ROUTES_ENABLED", "true")], None),
        (&[("HCLOUD_NETWORK_ROUTES_ENABLED", "maybe")], None),
    ];
    for (variables, expected) in table {
        assert_eq!(read(variables).unwrap().network, *expected, "{variables:?}");
    }
}

#[test]
fn the_modes_of_the_cache_keep_their_meaning() {
    let ten = Duration::from_secs(10);
    let minute = Duration::from_secs(60);
    let table: &[(Set<'_>, CachePolicy)] = &[
        (&[], CachePolicy::Shared),
        (
            &[("HCLOUD_SERVER_CACHE_MODE", "all")],
            CachePolicy::All(ten),
        ),
        (
            &[("HCLOUD_SERVER_CACHE_MODE", "one")],
            CachePolicy::One(ten),
        ),
        (&[("HCLOUD_SERVER_CACHE_MODE", "off")], CachePolicy::Off),
        (
            &[("HCLOUD_SERVER_CACHE_MAX_AGE", "1m")],
            CachePolicy::All(minute),
        ),
        (
            &[
                ("HCLOUD_SERVER_CACHE_MODE", "one"),
                ("HCLOUD_SERVER_CACHE_MAX_AGE", "1m"),
            ],
            CachePolicy::One(minute),
        ),
    ];
    for (variables, expected) in table {
        assert_eq!(
            read(variables).unwrap().instances.cache,
            *expected,
            "{variables:?}"
        );
    }
}

#[test]
fn machines_and_endpoints_are_as_told() {
    let config = read(&[
        ("HCLOUD_ENDPOINT", "http://127.0.0.1:8080/v1/"),
        ("HCLOUD_DEBUG", "T"),
        ("HCLOUD_RATE_LIMIT_LEFT_TO_OTHERS", "25"),
        ("HCLOUD_INSTANCES_ADDRESS_FAMILY", "dualstack"),
        ("HCLOUD_INSTANCES_ZONE_LABEL_ENABLED", "0"),
        ("HCLOUD_METRICS_ADDRESS", "127.0.0.1:9000"),
        ("HCLOUD_LOAD_BALANCERS_ENABLED", "f"),
    ])
    .unwrap();
    assert_eq!(config.endpoint, "http://127.0.0.1:8080/v1");
    assert!(config.debug);
    assert_eq!(config.rate_limit_left_to_others, 25);
    assert_eq!(
        (config.instances.address_family, config.instances.zone_label),
        (AddressFamily::Dualstack, false)
    );
    assert_eq!(config.metrics_address.as_deref(), Some("127.0.0.1:9000"));
    assert_eq!(config.load_balancers, None);
    assert_eq!(
        read(&[("HCLOUD_INSTANCES_ADDRESS_FAMILY", "ipv6")])
            .unwrap()
            .instances
            .address_family,
        AddressFamily::Ipv6
    );
    assert_eq!(
        read(&[("HCLOUD_METRICS_ENABLED", "False")])
            .unwrap()
            .metrics_address,
        None
    );
}

#[test]
fn each_variable_of_load_balancers_is_the_default_of_its_annotation() {
    assert_eq!(
        default_of(&key::LOCATION, "LOCATION", "fsn1").as_deref(),
        Some("fsn1")
    );
    assert_eq!(
        default_of(&key::NETWORK_ZONE, "NETWORK_ZONE", "eu-central").as_deref(),
        Some("eu-central")
    );
    assert_eq!(
        default_of(&key::TYPE, "TYPE", "lb21").as_deref(),
        Some("lb21")
    );
    for (text, value) in [
        ("round_robin", Algorithm::RoundRobin),
        (" Least_Connections ", Algorithm::LeastConnections),
    ] {
        assert_eq!(
            default_of(&key::ALGORITHM_TYPE, "ALGORITHM_TYPE", text),
            Some(value)
        );
    }
    let subnet = default_of(
        &key::PRIVATE_SUBNET_IP_RANGE,
        "PRIVATE_SUBNET_IP_RANGE",
        "10.1.0.0/24",
    );
    assert_eq!(subnet, "10.1.0.0/24".parse().ok());
    for (annotation, variable, unset) in [
        (key::USE_PRIVATE_IP, "USE_PRIVATE_IP", Some(false)),
        (
            key::DISABLE_PRIVATE_INGRESS,
            "DISABLE_PRIVATE_INGRESS",
            Some(false),
        ),
        (key::DISABLE_PUBLIC_NETWORK, "DISABLE_PUBLIC_NETWORK", None),
        (key::IPV6_DISABLED, "DISABLE_IPV6", Some(false)),
        (key::USES_PROXYPROTOCOL, "USES_PROXYPROTOCOL", None),
    ] {
        for (text, value) in [
            ("", unset),
            ("1", Some(true)),
            ("TRUE", Some(true)),
            ("F", Some(false)),
        ] {
            assert_eq!(
                default_of(&annotation, variable, text),
                value,
                "{variable}={text}"
            );
        }
    }
    assert_eq!(
        default_of(&key::HEALTH_CHECK_INTERVAL, "HEALTH_CHECK_INTERVAL", "30s"),
        Some(30)
    );
    assert_eq!(
        default_of(&key::HEALTH_CHECK_TIMEOUT, "HEALTH_CHECK_TIMEOUT", "5"),
        Some(5)
    );
    assert_eq!(
        default_of(&key::HEALTH_CHECK_RETRIES, "HEALTH_CHECK_RETRIES", "5"),
        Some(5)
    );
}

#[test]
fn an_empty_variable_is_the_same_as_none() {
    let names = HCLOUD
        .iter()
        .chain(ROBOT)
        .map(|setting| setting.row().key)
        .filter(|name| *name != "HCLOUD_TOKEN");
    let empty: Vec<_> = names.map(|name| (name, "")).collect();
    assert_eq!(
        format!("{:?}", read(&empty).unwrap()),
        format!("{:?}", read(&[]).unwrap())
    );
}

/// Secrets appear in no output (INV-5).
#[test]
fn no_secret_is_shown() {
    let variables = [
        ("HCLOUD_TOKEN", "s3cret"),
        ("ROBOT_ENABLED", "1"),
        ("ROBOT_USER", "u"),
        ("ROBOT_PASSWORD", "s3cret"),
    ];
    assert!(!format!("{:?}", read(&variables).unwrap()).contains("s3cret"));
    let err = read(&[("HCLOUD_TOKEN", "s3cret"), ("HCLOUD_DEBUG", "x")]).unwrap_err();
    assert!(!err.contains("s3cret"));
}

#[test]
fn a_token_of_another_length_is_accepted() {
    assert!(
        read(&[("HCLOUD_TOKEN", "short")]).is_ok(),
        "a warning in the log, no more"
    );
}

#[test]
fn every_default_is_a_value_that_is_accepted() {
    for row in HCLOUD.iter().chain(ROBOT).map(|setting| setting.row()) {
        assert!(row.default_is_accepted && !row.doc.is_empty(), "{row:?}");
    }
    assert_eq!(
        (HCLOUD.len(), ROBOT.len()),
        (28, 6),
        "docs/providers/hetzner.md lists them"
    );
}
