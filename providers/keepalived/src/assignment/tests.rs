//! Tables and properties of the assignment of addresses.

use cloud_provider::{AddressType, Node, NodeAddress};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::address_book::ENTRIES;

fn config(ranges: &str, method: Option<ForwardMethod>) -> Config {
    let pools = Pools::parse(ranges).expect("ranges");
    Config {
        namespace: "kube-system".into(),
        config_map: "vip".into(),
        pools,
        only_ranges: false,
        method,
    }
}

fn service(name: &str) -> Service {
    let object = json!({"metadata": {"uid": format!("uid-{name}"), "namespace": "default", "name": name},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}});
    serde_json::from_value(object).expect("a Service")
}

/// A ConfigMap with these addresses, of which none but those of `entries` are in the annotation.
fn book(entries: &[(&str, &str)], manual: &[&str]) -> AddressBook {
    let entry = |(name, ip): &(&str, &str)| json!({"uid": format!("uid-{name}"), "ip": ip, "serviceNamespace": "default", "serviceName": name});
    let entries: Vec<_> = entries.iter().map(entry).collect();
    let data: serde_json::Map<_, _> = manual
        .iter()
        .map(|ip| ((*ip).to_owned(), json!("default/dns")))
        .collect();
    let text = json!({"services": entries}).to_string();
    AddressBook::read(json!({"metadata": {"annotations": {ENTRIES: text}}, "data": data}))
        .expect("valid")
}

/// Assigns addresses to the Service, and returns them, or the error.
fn assign(book: &mut AddressBook, service: &Service, config: &Config) -> Result<Vec<String>> {
    let parsed = desired(service, config);
    parsed.check()?;
    parsed.spec.assign(book, &config.pools, Arc::default)?;
    Ok(book
        .of(&parsed.spec.uid)
        .map(|entry| entry.ip.to_string())
        .collect())
}

/// Returns the value for kube-keepalived-vip at this address.
fn data(book: &AddressBook, ip: &str) -> String {
    book.render("kube-system", "vip").expect("it fits")["data"][ip]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

/// Ranges, addresses of Services, addresses made by hand, and the expected address.
type NewAddress = (
    &'static str,
    &'static [(&'static str, &'static str)],
    &'static [&'static str],
    &'static str,
);

#[test]
fn new_service_gets_the_first_free_address_of_the_pool() {
    let table: [NewAddress; 4] = [
        ("10.0.0.0/8", &[], &[], "10.0.0.1"),
        ("10.0.0.0/8", &[("a", "10.0.0.1")], &[], "10.0.0.2"),
        ("10.210.38.64/26", &[], &[], "10.210.38.65"),
        (
            "10.0.0.0/8",
            &[("a", "10.0.0.1")],
            &["10.0.0.2"],
            "10.0.0.3",
        ),
    ];
    for (ranges, entries, manual, expected) in table {
        let mut book = book(entries, manual);
        let given = assign(&mut book, &service("web"), &config(ranges, None)).expect(ranges);
        assert_eq!(
            given,
            [expected],
            "{ranges} with {entries:?} and {manual:?}"
        );
        assert_eq!(data(&book, expected), "default/web");
    }
}

#[test]
fn service_that_has_its_address_is_not_changed() {
    let mut book = book(&[("web", "10.0.0.7"), ("api", "10.0.0.1")], &[]);
    let before = book.clone();
    assert_eq!(
        assign(&mut book, &service("web"), &config("10.0.0.0/24", None)).expect("an address"),
        ["10.0.0.7"]
    );
    assert_eq!(book, before);
}

#[test]
fn requested_address_is_used_inside_and_outside_the_pool_and_the_old_one_is_freed() {
    for requested in ["10.0.0.9", "192.0.2.1"] {
        let mut book = book(&[("web", "10.0.0.1")], &[]);
        let mut service = service("web");
        service.spec.get_or_insert_default().load_balancer_ip = Some(requested.into());
        assert_eq!(
            assign(&mut book, &service, &config("10.0.0.0/24", None)).expect("an address"),
            [requested]
        );
        assert_eq!(
            (data(&book, requested), data(&book, "10.0.0.1")),
            ("default/web".into(), String::new())
        );
    }
}

/// Returns a Service that requests this address.
fn requesting(ip: &str) -> Service {
    let mut service = service("web");
    service.spec.get_or_insert_default().load_balancer_ip = Some(ip.into());
    service
}

#[test]
fn special_address_is_refused_even_inside_a_range() {
    for ip in [
        "0.0.0.0",
        "127.0.0.1",
        "169.254.169.254",
        "224.0.0.18",
        "255.255.255.255",
    ] {
        let errors = desired(&requesting(ip), &config("0.0.0.0/0", None))
            .review()
            .errors;
        assert!(
            errors.len() == 1 && errors[0].starts_with(&format!("spec.loadBalancerIP: {ip} is a")),
            "{errors:?}"
        );
    }
}

#[test]
fn address_outside_of_the_ranges_is_refused_if_the_variable_requires_it() {
    let config = Config {
        only_ranges: true,
        ..config("10.0.0.0/24,inner=10.1.0.5-10.1.0.6", None)
    };
    for ip in ["10.0.0.9", "10.1.0.6"] {
        assert_eq!(
            assign(&mut AddressBook::default(), &requesting(ip), &config).expect("an address"),
            [ip]
        );
    }
    for ip in ["10.0.1.1", "10.1.0.4", "10.0.0.255"] {
        let errors = desired(&requesting(ip), &config).review().errors;
        assert!(
            errors.len() == 1 && errors[0].contains("which KEEPALIVED_ONLY_SERVICE_CIDR requires"),
            "{errors:?}"
        );
    }
}

#[test]
fn address_of_a_node_and_cluster_ip_are_neither_requested_nor_given_out() {
    let mut services = Services::default();
    let address = |ip| NodeAddress::new(AddressType::InternalIP, ip);
    services.add_node(&Node {
        name: "worker-1".into(),
        addresses: [address("10.0.0.1")].into(),
        ..Node::default()
    });
    let mut dns = service("dns");
    let spec = dns.spec.get_or_insert_default();
    (spec.type_, spec.cluster_ip) = (Some("ClusterIP".into()), Some("10.0.0.2".into()));
    services.add(&dns);
    let services = Arc::new(services);
    let config = config("10.0.0.0/24", None);
    let mut book = AddressBook::default();
    for (ip, user) in [
        ("10.0.0.1", "Node worker-1"),
        ("10.0.0.2", "Service default/dns"),
    ] {
        let desired = desired(&requesting(ip), &config).spec;
        let error = desired
            .assign(&mut book, &config.pools, || Arc::clone(&services))
            .unwrap_err();
        assert!(
            error.is_invalid()
                && error
                    .to_string()
                    .contains(&format!("{ip} is used by {user}")),
            "{error}"
        );
    }
    let desired = desired(&service("web"), &config).spec;
    desired
        .assign(&mut book, &config.pools, || services)
        .expect("an address");
    assert_eq!(
        book.entries[0].ip.to_string(),
        "10.0.0.3",
        "the first address that the cluster does not use"
    );
}

#[test]
fn requested_address_of_another_user_is_refused_with_the_name_of_the_user() {
    for (requested, user) in [
        ("10.0.0.1", "Service default/api"),
        ("10.0.0.2", "an entry made by hand, \"default/dns\""),
    ] {
        let mut book = book(&[("api", "10.0.0.1")], &["10.0.0.2"]);
        let before = book.clone();
        let mut service = service("web");
        service.spec.get_or_insert_default().load_balancer_ip = Some(requested.into());
        let error = assign(&mut book, &service, &config("10.0.0.0/24", None)).unwrap_err();
        assert!(
            error.is_invalid() && error.to_string().contains(user),
            "{error}"
        );
        assert_eq!(book, before, "nothing is half applied");
    }
}

#[test]
fn forward_method_is_that_of_the_annotation_or_else_of_the_environment() {
    let table = [
        (None, None, "default/web"),
        (None, Some(ForwardMethod::Dr), "default/web:DR"),
        (Some("NAT"), Some(ForwardMethod::Dr), "default/web:NAT"),
        (Some("DR"), None, "default/web:DR"),
    ];
    for (annotation, default, expected) in table {
        let mut new = book(&[], &[]);
        let mut existing = book(&[("web", "10.0.0.1")], &[]);
        let mut service = service("web");
        service.metadata.annotations =
            annotation.map(|value| [(FORWARD_METHOD.key().to_owned(), value.to_owned())].into());
        for book in [&mut new, &mut existing] {
            assign(book, &service, &config("10.0.0.0/24", default)).expect("an address");
            assert_eq!(
                data(book, "10.0.0.1"),
                expected,
                "annotation {annotation:?}, environment {default:?}"
            );
        }
    }
}

/// Returns a Service that requests addresses of both families by this policy.
fn dual_stack(name: &str, policy: &str) -> Service {
    let mut service = service(name);
    let spec = service.spec.get_or_insert_default();
    spec.ip_families = Some(vec!["IPv4".into(), "IPv6".into()]);
    spec.ip_family_policy = Some(policy.into());
    service
}

#[test]
fn service_that_requires_ipv6_is_refused_before_any_request() {
    let config = config("10.0.0.0/24", None);
    let mut book = AddressBook::default();
    let preferring = dual_stack("web", "PreferDualStack");
    assert_eq!(
        assign(&mut book, &preferring, &config).expect("an address"),
        ["10.0.0.1"]
    );
    let requiring = dual_stack("api", "RequireDualStack");
    let mut single = service("single");
    let mut fixed = service("fixed");
    single.spec.get_or_insert_default().ip_families = Some(vec!["IPv6".into()]);
    fixed.spec.get_or_insert_default().load_balancer_ip = Some("2001:db8::1".into());
    let table = [
        (requiring, "spec.ipFamilyPolicy"),
        (single, "spec.ipFamilies: IPv6"),
        (fixed, "spec.loadBalancerIP: 2001:db8::1"),
    ];
    for (service, field) in table {
        let errors = desired(&service, &config).review().errors;
        assert!(
            errors.len() == 1 && errors[0].starts_with(field) && errors[0].contains("not support"),
            "{errors:?}"
        );
    }
}

#[test]
fn entry_of_ipv6_in_the_annotation_is_no_key_of_the_data() {
    let mut book = book(&[("web", "2001:db8::1")], &[]);
    let config = config("10.0.0.0/24", None);
    assert_eq!(
        assign(&mut book, &service("api"), &config).expect("an address"),
        ["10.0.0.1"]
    );
    let data = book.render("kube-system", "vip").expect("it fits")["data"].clone();
    assert_eq!(data, json!({"10.0.0.1": "default/api"}));
    assert_eq!(
        assign(&mut book, &service("web"), &config).expect("an address"),
        ["10.0.0.2"]
    );
}

#[test]
fn named_pool_is_used_only_by_services_that_name_it() {
    let config = config("10.0.0.1/32,inner=10.1.0.1/32", None);
    let mut book = AddressBook::default();
    let mut inner = service("inner");
    inner.metadata.annotations = Some([(POOL.key().to_owned(), "inner".to_owned())].into());
    assert_eq!(
        assign(&mut book, &inner, &config).expect("an address"),
        ["10.1.0.1"]
    );
    assert_eq!(
        assign(&mut book, &service("web"), &config).expect("an address"),
        ["10.0.0.1"]
    );
    let error = assign(&mut book, &service("late"), &config).unwrap_err();
    assert!(
        error.is_quota()
            && error
                .to_string()
                .contains("the default pool has no free address"),
        "{error}"
    );
    inner.metadata.annotations = Some([(POOL.key().to_owned(), "outer".to_owned())].into());
    let error = assign(&mut book, &inner, &config).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("\"outer\" is no pool of KEEPALIVED_SERVICE_CIDR (inner)"),
        "{error}"
    );
}

#[test]
fn mistakes_name_the_field_its_value_and_what_is_accepted() {
    let mut odd = service("web");
    odd.metadata.annotations = Some([(FORWARD_METHOD.key().to_owned(), "AJAX".to_owned())].into());
    odd.spec.get_or_insert_default().load_balancer_ip = Some("web".into());
    let review = desired(&odd, &config("10.0.0.0/24", None)).review();
    assert_eq!(
        review.errors,
        [
            "annotation k8s.co/keepalived-forward-method: \"AJAX\" is not one of NAT, DR",
            "spec.loadBalancerIP: \"web\" is not an IP address"
        ]
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// After any changes of users in any order, an address has one user, and entries made by hand stay.
    #[test]
    fn address_has_one_user_after_any_changes(changes in prop::collection::vec((0..6_u8, 0..4_u8, 0..8_u8), 1..40)) {
        let config = config("10.0.0.0/29", None);
        let mut book = book(&[], &["10.0.0.3"]);
        for (number, what, last) in changes {
            let mut service = service(&format!("s{number}"));
            let spec = service.spec.get_or_insert_default();
            match what {
                0 => { book.release(&format!("uid-s{number}")); continue; }
                1 => spec.load_balancer_ip = Some(format!("10.0.0.{last}")),
                2 => spec.ip_family_policy = Some("PreferDualStack".into()),
                _ => {}
            }
            let before = book.clone();
            if assign(&mut book, &service, &config).is_err() {
                prop_assert_eq!(&book, &before);
            } else {
                let once = book.clone();
                prop_assert!(assign(&mut book, &service, &config).is_ok());
                prop_assert_eq!(&book, &once);
            }
            let mut addresses: Vec<_> = book.entries.iter().map(|entry| entry.ip).collect();
            addresses.sort();
            addresses.dedup();
            prop_assert_eq!(addresses.len(), book.entries.len());
            let object = book.render("a", "b").unwrap();
            prop_assert_eq!(&object["data"]["10.0.0.3"], "default/dns");
            prop_assert_eq!(object["data"].as_object().map(serde_json::Map::len), Some(book.entries.len() + 1));
        }
    }
}
