//! Tests of the variables and of the reference page.

use cloud_provider::{Environment, Setup};
use provider_keepalived::config::{ANNOTATIONS, VARIABLES};
use provider_keepalived::factory;
use provider_kit::declared::reference::{put, table};

fn mistakes(variables: &[(&str, &str)]) -> String {
    let environment = Environment::of(variables.iter().copied());
    let setup = Setup {
        environment,
        ..Setup::default()
    };
    factory(&setup)
        .err()
        .map_or_else(|| "none".to_owned(), |error| error.to_string())
}

#[test]
fn all_mistakes_in_the_variables_are_reported_at_the_start() {
    let text = mistakes(&[
        ("KEEPALIVED_DEFAULT_FORWARD_METHOD", "AJAX"),
        ("KEEPALIVED_SERVICE_CIDR", "10.0.0.0/33"),
    ]);
    for part in [
        "KEEPALIVED_NAMESPACE is required: the namespace of the ConfigMap",
        "KEEPALIVED_CONFIG_MAP is required: the name of the ConfigMap",
        "KEEPALIVED_SERVICE_CIDR: \"10.0.0.0/33\" is not a list of ranges",
        "KEEPALIVED_DEFAULT_FORWARD_METHOD: \"AJAX\" is not one of NAT, DR",
    ] {
        assert!(text.contains(part), "{part:?} is missing in {text}");
    }
}

#[test]
fn range_of_ipv6_is_refused_at_the_start() {
    let text = mistakes(&[
        ("KEEPALIVED_NAMESPACE", "kube-system"),
        ("KEEPALIVED_CONFIG_MAP", "vip-configmap"),
        ("KEEPALIVED_SERVICE_CIDR", "10.0.0.0/24,2001:db8::/64"),
    ]);
    let expected =
        "\"2001:db8::/64\" is IPv6, which kube-keepalived-vip does not support; remove it";
    assert!(
        text.contains("KEEPALIVED_SERVICE_CIDR") && text.contains(expected),
        "{text}"
    );
}

#[test]
fn variables_of_the_go_program_are_accepted() {
    let required = [
        ("KEEPALIVED_NAMESPACE", "kube-system"),
        ("KEEPALIVED_CONFIG_MAP", "vip-configmap"),
        ("KEEPALIVED_SERVICE_CIDR", "10.210.38.100/26"),
    ];
    for method in ["", "NAT", "DR"] {
        let mut variables = required.to_vec();
        variables.push(("KEEPALIVED_DEFAULT_FORWARD_METHOD", method));
        assert_eq!(mistakes(&variables), "none", "{method}");
    }
}

#[test]
fn reference_page_has_the_tables_of_the_declarations() {
    const PAGE: &str = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/providers/keepalived.md"
    );
    let page = std::fs::read_to_string(PAGE).expect("the page");
    let tables = [
        ("variables", table("variable", VARIABLES)),
        ("annotations", table("annotation", ANNOTATIONS)),
    ];
    let fresh = tables.iter().fold(page.clone(), |page, (name, text)| {
        put(&page, name, text).expect("a place for it")
    });
    if std::env::var_os("CCM_WRITE_REFERENCE").is_some() {
        std::fs::write(PAGE, &fresh).expect("a written page");
    } else {
        assert_eq!(
            page, fresh,
            "CCM_WRITE_REFERENCE=1 cargo test --workspace --test keepalived writes the page"
        );
    }
}
