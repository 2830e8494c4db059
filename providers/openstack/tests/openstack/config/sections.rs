//! `[Networking]`, `[LoadBalancer]` and its classes, `[Route]`, `[Metadata]`, the environment.

use std::time::Duration;

use provider_kit::gcfg::Key;
use provider_openstack::config::{Balancers, Config, Networking};
use provider_openstack::keys::*;

use super::{ENOUGH, read, setup, with, wrong};

/// The truth values, but for `enabled`.
const FLAGS: [&Key<bool>; 5] = [
    &INTERNAL_LB,
    &CASCADE_DELETE,
    &CREATE_MONITOR,
    &MANAGE_SECURITY_GROUPS,
    &PROVIDER_REQUIRES_SERIAL_API_CALLS,
];
/// The texts without a default.
const TEXTS: [&Key<String>; 11] = [
    &NETWORK_ID,
    &SUBNET_ID,
    &MEMBER_SUBNET_ID,
    &FLOATING_NETWORK_ID,
    &FLOATING_SUBNET_ID,
    &FLOATING_SUBNET,
    &FLOATING_SUBNET_TAGS,
    &NODE_SELECTOR,
    &FLAVOR_ID,
    &AVAILABILITY_ZONE,
    &DEFAULT_TLS_CONTAINER_REF,
];
/// The texts of a class.
const OF_CLASS: [&Key<String>; 7] = [
    &CLASS_FLOATING_NETWORK_ID,
    &CLASS_FLOATING_SUBNET_ID,
    &CLASS_FLOATING_SUBNET,
    &CLASS_FLOATING_SUBNET_TAGS,
    &CLASS_NETWORK_ID,
    &CLASS_SUBNET_ID,
    &CLASS_MEMBER_SUBNET_ID,
];

/// Returns delay and time-out of health monitors in milliseconds, and both numbers of retries.
fn monitor(balancers: &Balancers) -> [u64; 4] {
    let millis = |key| {
        balancers
            .get::<Duration>(key)
            .unwrap()
            .as_millis()
            .try_into()
            .unwrap()
    };
    let number = |key| balancers.get::<u16>(key).unwrap().into();
    [
        millis(&MONITOR_DELAY),
        millis(&MONITOR_TIMEOUT),
        number(&MONITOR_MAX_RETRIES),
        number(&MONITOR_MAX_RETRIES_DOWN),
    ]
}

fn balancers(text: &str) -> Balancers {
    with(&format!("[LoadBalancer]\n{text}\n"))
        .balancers
        .unwrap()
}

#[test]
fn what_is_not_set_has_the_defaults_of_the_go_program() {
    let config = with("");
    let read = config.balancers.unwrap();
    assert_eq!(
        (&*read.provider(), &*read.method(), read.wait_steps),
        ("amphora", "ROUND_ROBIN", 23)
    );
    assert_eq!(
        FLAGS.map(|key| read.flag(key)),
        [false, true, false, false, false]
    );
    assert_eq!(TEXTS.map(|key| read.get(key)), [const { None }; 11]);
    assert_eq!(monitor(&read), [5_000, 3_000, 1, 3]);
    assert_eq!(
        (
            read.ingress_hostname_suffix(),
            read.has_barbican(),
            read.get(&MAX_SHARED_LB)
        ),
        (None, true, Some(2))
    );
    assert!(read.classes.is_empty());
    assert_eq!(config.networking, Networking::default());
    assert_eq!((config.router, config.regional), (None, false));
    assert_eq!(config.request_timeout, Duration::from_secs(60));
    assert!(config.files.is_empty());
}

#[test]
fn durations_truth_values_and_the_search_order_are_read_as_the_go_program_does() {
    let config = with(
        " [LoadBalancer]\n create-monitor = yes\n monitor-delay = 1m\n monitor-timeout = 30s\n monitor-max-retries = 1\n \
         monitor-max-retries-down = 3\n [Metadata]\n search-order = configDrive, metadataService\n",
    );
    let read = config.balancers.unwrap();
    assert_eq!(
        (read.flag(&CREATE_MONITOR), monitor(&read)),
        (true, [60_000, 30_000, 1, 3])
    );
}

#[test]
fn without_a_file_nothing_starts() {
    let err = Config::read(&cloud_provider::Setup::default()).unwrap_err();
    assert!(
        err.is_invalid() && err.to_string().starts_with("--cloud-config is missing"),
        "{err}"
    );
}

#[test]
fn each_key_of_load_balancers_is_read() {
    let read = balancers(
        "enabled = on\nlb-version = v2\nlb-provider = octavia\nlb-method = LEAST_CONNECTIONS\nsubnet-id = s\n\
         member-subnet-id = m\nnetwork-id = n\nfloating-network-id = fn\nfloating-subnet-id = fs\nfloating-subnet = \"~^pub.*$\"\n\
         floating-subnet-tags = \"!&a,b\"\ninternal-lb\nnode-selector = \"env=prod,spot\"\ncascade-delete = no\nflavor-id = f\n\
         availability-zone = az\ncreate-monitor = 1\nmonitor-delay = 10\nmonitor-timeout = 1500ms\nmonitor-max-retries = 10\n\
         monitor-max-retries-down = 1\nmanage-security-groups = True\nenable-ingress-hostname = true\n\
         ingress-hostname-suffix = sslip.io\ndefault-tls-container-ref = https://b/v1/containers/c\ncontainer-store = external\n\
         max-shared-lb = 5\nprovider-requires-serial-api-calls = yes",
    );
    assert_eq!(
        (&*read.provider(), &*read.method(), read.wait_steps),
        ("octavia", "LEAST_CONNECTIONS", 23)
    );
    assert_eq!(
        FLAGS.map(|key| read.flag(key)),
        [true, false, true, true, true]
    );
    let texts = [
        "n",
        "s",
        "m",
        "fn",
        "fs",
        "~^pub.*$",
        "!&a,b",
        "env=prod,spot",
        "f",
        "az",
        "https://b/v1/containers/c",
    ];
    assert_eq!(TEXTS.map(|key| read.get(key).unwrap()), texts);
    assert_eq!(monitor(&read), [10_000, 1_500, 10, 1]);
    assert_eq!(read.ingress_hostname_suffix().as_deref(), Some("sslip.io"));
    assert_eq!(
        (read.has_barbican(), read.get(&MAX_SHARED_LB)),
        (false, Some(5))
    );
    assert!(read.classes.is_empty());
}

#[test]
fn load_balancers_can_be_switched_off_and_their_keys_are_checked_all_the_same() {
    assert_eq!(with("[LoadBalancer]\nenabled = false\n").balancers, None);
    assert!(
        wrong(&format!(
            "{ENOUGH}[LoadBalancer]\nenabled = false\nmax-shared-lb = x\n"
        ))
        .contains("max-shared-lb")
    );
}

#[test]
fn ovn_has_its_only_method_unless_another_is_written() {
    assert_eq!(balancers("lb-provider = ovn").method(), "SOURCE_IP_PORT");
    assert_eq!(
        balancers("lb-provider = ovn\nlb-method = ROUND_ROBIN").method(),
        "ROUND_ROBIN",
        "with a warning"
    );
}

#[test]
fn a_provider_or_a_store_that_nobody_tried_is_used_and_references_of_the_store_are_not_checked() {
    let read = balancers("lb-provider = acme\ncontainer-store = vault");
    assert_eq!((&*read.provider(), read.has_barbican()), ("acme", false));
}

#[test]
fn the_suffix_counts_only_with_ingress_hostnames_and_has_its_default_then() {
    assert_eq!(
        balancers("ingress-hostname-suffix = x").ingress_hostname_suffix(),
        None
    );
    assert_eq!(
        balancers("enable-ingress-hostname")
            .ingress_hostname_suffix()
            .as_deref(),
        Some("nip.io")
    );
}

#[test]
fn there_are_as_many_classes_as_sections_with_a_name_each_with_its_own_places() {
    let classes = balancers(
        "subnet-id = default\n[LoadBalancerClass \"a b\"]\nfloating-network-id = 1\nfloating-subnet-id = 2\nfloating-subnet = 3\n\
         floating-subnet-tags = 4\nnetwork-id = 5\nsubnet-id = 6\nmember-subnet-id = 7\n[loadbalancerclass \"A b\"]\n\
         subnet-id = other\n[LoadBalancerClass \"empty\"]",
    )
    .classes;
    assert_eq!(classes.keys().collect::<Vec<_>>(), ["A b", "a b", "empty"]);
    let of = |name: &str| OF_CLASS.map(|key| classes[name].get(key));
    assert_eq!(
        of("a b"),
        ["1", "2", "3", "4", "5", "6", "7"].map(|text| Some(text.to_owned()))
    );
    assert_eq!(
        of("A b"),
        [None, None, None, None, None, Some("other".to_owned()), None]
    );
    assert_eq!(of("empty"), [const { None }; 7]);
}

#[test]
fn each_mistake_of_load_balancers_names_the_line_and_what_is_accepted() {
    let table = [
        ("enabled = maybe", "\"maybe\" is not true or false"),
        ("internal-lb = maybe", "\"maybe\" is not true or false"),
        ("cascade-delete = maybe", "\"maybe\" is not true or false"),
        ("create-monitor = maybe", "\"maybe\" is not true or false"),
        (
            "manage-security-groups = maybe",
            "\"maybe\" is not true or false",
        ),
        (
            "enable-ingress-hostname = maybe",
            "\"maybe\" is not true or false",
        ),
        (
            "provider-requires-serial-api-calls = maybe",
            "\"maybe\" is not true or false",
        ),
        ("lb-version = v1", "\"v1\" is not v2"),
        (
            "monitor-delay = soon",
            "\"soon\" is not a duration such as 30s or 1m30s, or a number of seconds",
        ),
        (
            "monitor-timeout = -1s",
            "\"-1s\" is not a duration such as 30s or 1m30s, or a number of seconds",
        ),
        (
            "monitor-max-retries = 0",
            "\"0\" is not a whole number from 1 to 10",
        ),
        (
            "monitor-max-retries-down = 11",
            "\"11\" is not a whole number from 1 to 10",
        ),
        (
            "max-shared-lb = 0",
            "\"0\" is not a whole number from 1 to 1000",
        ),
    ];
    for (line, expected) in table {
        let key = line.split(' ').next().unwrap();
        let told = wrong(&format!("{ENOUGH}[LoadBalancer]\n{line}\n"));
        assert_eq!(
            told,
            format!("cloud.conf:7: [LoadBalancer] {key}: {expected}")
        );
    }
    let told = wrong(&format!(
        "{ENOUGH}[LoadBalancer]\nsubnet-id\n[LoadBalancerClass \"a\"]\nnetwork-id\n"
    ));
    assert_eq!(
        told,
        "cloud.conf:7: [LoadBalancer] subnet-id needs a value: write `= …`; \
         cloud.conf:9: [LoadBalancerClass \"a\"] network-id needs a value: write `= …`"
    );
}

#[test]
fn networks_are_given_one_to_a_line() {
    let networking = with(
        "[Networking]\nipv6-support-disabled = true\npublic-network-name = public\npublic-network-name = \"pub; 2\"\n\
         internal-network-name = a\ninternal-network-name =\ninternal-network-name = b\n",
    )
    .networking;
    assert!(networking.ipv6_disabled);
    assert_eq!(networking.public, ["public", "pub; 2"]);
    assert_eq!(networking.internal, ["a", "b"]);
    let told = wrong(&format!(
        "{ENOUGH}[Networking]\nipv6-support-disabled = maybe\npublic-network-name\n"
    ));
    assert_eq!(
        told,
        "cloud.conf:7: [Networking] ipv6-support-disabled: \"maybe\" is not true or false; \
         cloud.conf:8: [Networking] public-network-name needs a value: write `= …`"
    );
}

#[test]
fn what_is_no_range_in_the_sort_order_is_left_out_and_the_others_count() {
    let order = with("[Networking]\naddress-sort-order = 10.0.1.7/16, 10.0.0.0, ,fd00::/8,x\n")
        .networking
        .sort_order;
    assert_eq!(
        order.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["10.0.0.0/16", "fd00::/8"]
    );
}

#[test]
fn the_router_and_the_timeout_of_requests_are_read() {
    let config = with("[Route]\nrouter-id = r\n[Metadata]\nrequest-timeout = 90\n");
    assert_eq!(
        (config.router.as_deref(), config.request_timeout),
        (Some("r"), Duration::from_secs(90))
    );
    assert_eq!(
        with("[Metadata]\nrequest-timeout = 0\n").request_timeout,
        Duration::from_secs(60),
        "none is the default"
    );
}

#[test]
fn the_search_order_has_at_most_two_items_that_are_known() {
    for order in [
        "configDrive",
        "metadataService",
        " metadataService ,configDrive ",
        "configDrive,configDrive",
        "",
    ] {
        with(&format!("[Metadata]\nsearch-order = \"{order}\"\n"));
    }
    for order in [
        "configdrive",
        "configDrive,",
        "configDrive,metadataService,configDrive",
        "x",
    ] {
        let told = wrong(&format!("{ENOUGH}[Metadata]\nsearch-order = {order}\n"));
        let why = "is not a comma list of one or both of configDrive and metadataService";
        assert_eq!(
            told,
            format!("cloud.conf:7: [Metadata] search-order: {order:?} {why}")
        );
    }
    let told = wrong(&format!("{ENOUGH}[Metadata]\nrequest-timeout = soon\n"));
    assert!(
        told.starts_with("cloud.conf:7: [Metadata] request-timeout: \"soon\" is not a duration"),
        "{told}"
    );
}

#[test]
fn the_environment_says_whether_ids_carry_the_region_and_how_long_load_balancers_are_waited_for() {
    let read = |environment: &[(&str, &str)]| {
        let config = Config::read(&setup(ENOUGH, environment)).unwrap();
        (config.regional, config.balancers.unwrap().wait_steps)
    };
    assert_eq!(
        read(&[
            ("OS_CCM_REGIONAL", "true"),
            ("OCCM_WAIT_LB_ACTIVE_STEPS", "50")
        ]),
        (true, 50)
    );
    // As in the Go cloud-controller-manager: only the exact word counts, and an invalid number is ignored.
    assert_eq!(
        read(&[
            ("OS_CCM_REGIONAL", "True"),
            ("OCCM_WAIT_LB_ACTIVE_STEPS", "many")
        ]),
        (false, 23)
    );
    assert_eq!(
        read(&[("OS_CCM_REGIONAL", "1"), ("OCCM_WAIT_LB_ACTIVE_STEPS", "0")]),
        (false, 0)
    );
    assert_eq!(
        read(&[("OS_CCM_REGIONAL", ""), ("OCCM_WAIT_LB_ACTIVE_STEPS", "-1")]),
        (false, 23)
    );
}

#[test]
fn old_files_with_sections_and_keys_that_nobody_reads_are_fine() {
    with(
        "[BlockStorage]\nbs-version = v2\ntrust-device-path\n[LoadBalancer]\nuse-octavia = true\nlb-vresion = v3\n\
         [LoadBalancerClass]\nsubnet-id = s\n[Global \"x\"]\npassword = y\n",
    );
}

#[test]
fn every_key_of_the_reference_is_declared() {
    let wanted = "[Global] auth-url username user-id password tenant-id tenant-name domain-id domain-name user-domain-id \
                  user-domain-name tenant-domain-id tenant-domain-name trust-id trustee-id trustee-password \
                  application-credential-id application-credential-name application-credential-secret token region \
                  os-endpoint-type ca-file cert-file key-file tls-insecure use-clouds clouds-file cloud \
                  [Networking] ipv6-support-disabled public-network-name internal-network-name address-sort-order \
                  [LoadBalancer] enabled lb-version lb-provider lb-method subnet-id member-subnet-id network-id \
                  floating-network-id floating-subnet-id floating-subnet floating-subnet-tags internal-lb node-selector \
                  cascade-delete flavor-id availability-zone create-monitor monitor-delay monitor-timeout \
                  monitor-max-retries monitor-max-retries-down manage-security-groups enable-ingress-hostname \
                  ingress-hostname-suffix default-tls-container-ref container-store max-shared-lb \
                  provider-requires-serial-api-calls [LoadBalancerClass_\"name\"] floating-network-id floating-subnet-id \
                  floating-subnet floating-subnet-tags network-id subnet-id member-subnet-id [Route] router-id \
                  [Metadata] search-order request-timeout";
    let mut section = String::new();
    let mut keys = Vec::new();
    for word in wanted.split_whitespace() {
        if word.starts_with('[') {
            section = word.replace('_', " ");
        } else {
            keys.push(format!("{section} {word}"));
        }
    }
    let mut declared: Vec<_> = SECTIONS
        .iter()
        .copied()
        .flatten()
        .map(|setting| setting.row().key.to_owned())
        .collect();
    keys.sort_unstable();
    declared.sort_unstable();
    assert_eq!(declared, keys);
}

#[test]
fn all_mistakes_are_told_at_once() {
    let text = "[Global]\npassword = \"s3cret\nusername = u\n[Networking\n[LoadBalancer]\nmax-shared-lb = x\ncreate-monitor = ?\n\
                [Metadata]\nsearch-order = x\n";
    let told = wrong(text);
    for part in [
        "cloud.conf:2: a double quote is not closed in its line",
        "cloud.conf:4: a section is written [name]",
        "cloud.conf: [Global] auth-url is missing",
        "cloud.conf: [Global] user-domain-name is missing",
        "cloud.conf:6: [LoadBalancer] max-shared-lb: \"x\"",
        "cloud.conf:7: [LoadBalancer] create-monitor: \"?\"",
        "cloud.conf:9: [Metadata] search-order: \"x\"",
    ] {
        assert!(told.contains(part), "{part}\nis not in\n{told}");
    }
    assert_eq!(told.matches("; cloud.conf").count(), 6, "{told}");
    assert!(read("").unwrap_err().contains("auth-url is missing"));
}

#[test]
fn whatever_a_key_is_set_to_it_is_read_or_its_own_line_is_named() {
    for row in SECTIONS
        .iter()
        .copied()
        .flatten()
        .map(|setting| setting.row())
    {
        let (section, key) = row.key.split_once("] ").unwrap();
        let texts = [
            "",
            "=",
            "= x",
            "= -1",
            "= 999999999999999999999",
            "= true",
            "= \"a",
            "= a\\b",
            "= /nowhere",
            "= é,;#",
            "= \"\\n\"",
        ];
        for text in texts {
            // Below a credential that is enough, if that is what the key leaves.
            let file = format!("{ENOUGH}{section}]\n{key} {text}\n");
            if let Err(told) = read(&file) {
                let named = told
                    .split("; ")
                    .any(|part| part.starts_with("cloud.conf:7: "));
                let is_of_another = told.contains(" is missing: ") || told.contains("clouds.yaml");
                assert!(named || is_of_another, "{section}] {key} {text}: {told}");
                assert!(!told.contains("s3cret"), "{told}");
            }
        }
    }
}
