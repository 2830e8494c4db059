//! The configuration, and the page that documents it.

use cloud_provider::{ConfigFile, Environment, Setup};
use provider_kit::declared::reference::{put, table};
use provider_mycloud::annotations::{LOAD_BALANCER, OWN, defaults};
use provider_mycloud::config::{CACHE_TTL, Config, KEYS};

use crate::profile::{configuration, setup};

fn mistakes(text: &str) -> String {
    Config::read(&setup(text.to_owned()))
        .err()
        .map(|error| error.to_string())
        .unwrap_or_default()
}

#[test]
fn all_missing_keys_are_reported_at_once() {
    let text = mistakes("[LoadBalancer]\nenabled = false\n");
    for key in [
        "[Global] endpoint is missing",
        "[Global] region is missing",
        "[Global] cluster-id is missing",
        "token-file is required",
    ] {
        assert!(text.contains(key), "{key} in {text}");
    }
    assert_eq!(text.matches("; ").count(), 3, "{text}");
    assert!(
        mistakes("[Global]\nendpoint = http://x\n").contains("[LoadBalancer] subnet-id is missing")
    );
}

#[test]
fn invalid_values_name_the_key_and_no_secret() {
    let text = configuration("http://x")
        + "token-file = /nowhere\n[Global]\ncluster-id = Prod\n[LoadBalancerDefaults]\nlistener-maxqps = many\n";
    let text = mistakes(&text);
    assert!(
        text.contains("cluster-id: \"Prod\" is not 1 to 32 lower-case letters"),
        "{text}"
    );
    assert!(
        text.contains("listener-maxqps: \"many\" is not a whole number from 0 to 1000000"),
        "{text}"
    );
    assert!(!text.contains("fake-token"), "{text}");
}

#[test]
fn variables_override_the_file() {
    let variables = [
        ("MYCLOUD_GLOBAL_REGION", "eu-1"),
        ("MYCLOUD_INSTANCES_CACHE_TTL", "1m"),
    ];
    let text = configuration("http://x");
    let config = Some(ConfigFile {
        path: "cloud.conf".into(),
        text,
    });
    let setup = Setup {
        environment: Environment::of(variables),
        config,
        ..Setup::default()
    };
    let (config, _) = Config::read(&setup).unwrap();
    assert_eq!((&*config.region, &*config.cluster_id), ("eu-1", "prod"));
    assert_eq!(
        config
            .settings
            .get(&CACHE_TTL)
            .map(|duration| duration.as_secs()),
        Some(60)
    );
}

#[test]
fn every_default_is_accepted_and_the_page_is_up_to_date() {
    const PAGE: &str = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/providers/mycloud.md"
    );
    let all = [KEYS, defaults::ALL, OWN, LOAD_BALANCER].concat();
    for row in all.iter().map(|setting| setting.row()) {
        assert!(row.default_is_accepted && !row.doc.is_empty(), "{row:?}");
    }
    let page = std::fs::read_to_string(PAGE).expect("the page");
    let fresh = put(
        &page,
        "keys",
        &table("key", &[KEYS, defaults::ALL].concat()),
    );
    let fresh = fresh.and_then(|page| {
        put(
            &page,
            "annotations",
            &table("annotation", &[OWN, LOAD_BALANCER].concat()),
        )
    });
    let fresh = fresh.expect("a place for the tables");
    if std::env::var_os("CCM_WRITE_REFERENCE").is_some() {
        std::fs::write(PAGE, &fresh).expect("the page is written");
    } else {
        assert!(
            page == fresh,
            "CCM_WRITE_REFERENCE=1 cargo test --workspace --test mycloud writes the page"
        );
    }
}
