//! The conformance suite on a fake of Acme Cloud, and tests of what is particular to this cloud.

mod fake;
mod profile;

use cloud_provider::{ConfigFile, Setup};
use profile::AcmeCloud;
use provider_kit::declared::reference::{put, table};

ccm_conformance::conformance!(AcmeCloud::default());

#[test]
fn configuration_file_reports_all_mistakes_at_once() {
    let config = ConfigFile {
        path: "cloud.yaml".to_owned(),
        text: "endpoint: acme\ntokne: secret\n".to_owned(),
    };
    let Err(error) = provider_acme::factory(&Setup::of(config)) else {
        panic!("a mistake")
    };
    let text = error.to_string();
    assert!(
        text.contains("endpoint")
            && text.contains("unknown key \"tokne\", did you mean \"token\"?"),
        "{text}"
    );
    assert!(!text.contains("secret"), "{text}");
}

#[test]
fn reference_page_has_the_table_of_annotations() {
    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/page.md");
    let page = std::fs::read_to_string(PAGE).expect("the page");
    let fresh = put(
        &page,
        "annotations",
        &table("annotation", provider_acme::ANNOTATIONS),
    )
    .expect("a place for it");
    if std::env::var_os("CCM_WRITE_REFERENCE").is_some() {
        std::fs::write(PAGE, &fresh).expect("the page is written");
    } else {
        assert_eq!(
            page, fresh,
            "CCM_WRITE_REFERENCE=1 cargo test --workspace --test acme writes the page"
        );
    }
}
