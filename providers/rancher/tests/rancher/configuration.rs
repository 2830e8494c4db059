//! Tests of variables, the file and the reference page.

use provider_kit::declared::reference::{put, table};
use provider_rancher::config::{Config, KEYS, VARIABLES};
use provider_rancher::{annotations, factory};

use crate::harness::Harness;

fn mistakes(harness: &Harness) -> String {
    factory(&harness.setup())
        .err()
        .map_or_else(|| "none".to_owned(), |error| error.to_string())
}

#[test]
fn url_and_keys_are_required_from_variables_or_the_file() {
    let mut harness = Harness::new();
    harness.variables.clear();
    let text = mistakes(&harness);
    assert!(
        text.contains("CATTLE_URL is required") && text.contains("CATTLE_ACCESS_KEY"),
        "{text}"
    );
    harness.file = Some(
        "[Global]\ncattle-url = http://r\ncattle-access-key = a\ncattle-secret-key = b\n"
            .to_owned(),
    );
    assert_eq!(
        Config::read(&harness.setup()).unwrap().endpoint,
        "http://r/v2-beta"
    );
    let harness = harness.set("CATTLE_URL", "http://other");
    assert_eq!(
        Config::read(&harness.setup()).unwrap().endpoint,
        "http://other/v2-beta",
        "the variable wins"
    );
}

#[test]
fn version_of_the_api_is_v2_beta() {
    for (url, expected) in [
        ("https://r.example.org", "https://r.example.org/v2-beta"),
        ("https://r.example.org/", "https://r.example.org/v2-beta"),
        ("https://r.example.org/v1", "https://r.example.org/v2-beta"),
        (
            "https://r.example.org/v1/projects/1a5",
            "https://r.example.org/v2-beta/projects/1a5",
        ),
        (
            "https://r.example.org/v2-beta/projects/1a5",
            "https://r.example.org/v2-beta/projects/1a5",
        ),
        (
            "https://r.example.org/v1beta",
            "https://r.example.org/v1beta",
        ),
    ] {
        assert_eq!(
            Config::read(&Harness::new().set("CATTLE_URL", url).setup())
                .unwrap()
                .endpoint,
            expected
        );
    }
}

#[test]
fn ports_of_services_are_a_list_of_ports_and_ranges() {
    for wrong in ["", "x", "0", "80-", "90-80", "70000"] {
        let text = mistakes(&Harness::new().set("CATTLE_SERVICE_PORTS", wrong));
        assert!(
            wrong.is_empty() || text.contains("CATTLE_SERVICE_PORTS"),
            "{wrong:?}: {text}"
        );
    }
    let allowed = Config::read(
        &Harness::new()
            .set("CATTLE_SERVICE_PORTS", "443,8000-8001")
            .setup(),
    )
    .unwrap();
    let allowed = allowed.service_ports.unwrap();
    assert_eq!(
        [442, 443, 7999, 8000, 8001, 8002].map(|number| allowed.contains(number)),
        [false, true, false, true, true, false]
    );
}

#[test]
fn mistakes_name_the_key_and_show_no_secret() {
    let mut harness = Harness::new();
    harness.file = Some("[Global]\ninstance-type = s3cret\n".to_owned());
    let text = mistakes(&harness);
    assert!(
        text.contains("rancher.conf:2: [Global] instance-type"),
        "{text}"
    );
    let text = mistakes(
        &Harness::new()
            .set("CATTLE_ACCESS_KEY", "")
            .set("CATTLE_ACCESS_KEY_FILE", "/nowhere"),
    );
    assert!(
        text.contains("CATTLE_ACCESS_KEY_FILE: cannot read /nowhere")
            && !text.contains("fake-secret"),
        "{text}"
    );
}

#[test]
fn reference_page_has_the_tables_of_the_declarations() {
    const PAGE: &str = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/providers/rancher.md"
    );
    let page = std::fs::read_to_string(PAGE).unwrap();
    let tables = [
        ("variables", table("variable", VARIABLES)),
        ("keys", table("key", KEYS)),
        ("annotations", table("annotation", annotations::ALL)),
    ];
    let fresh = tables.iter().fold(page.clone(), |page, (name, text)| {
        put(&page, name, text).expect("a place for it")
    });
    if std::env::var_os("CCM_WRITE_REFERENCE").is_some() {
        std::fs::write(PAGE, &fresh).unwrap();
    } else {
        assert_eq!(
            page, fresh,
            "CCM_WRITE_REFERENCE=1 cargo test --workspace --test rancher writes the page"
        );
    }
}
