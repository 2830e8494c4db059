//! Tests of the reference page.

use provider_alibaba::annotations;
use provider_alibaba::config::{FLAGS, GLOBAL, VARIABLES};
use provider_kit::declared::reference::{put, table};

#[test]
fn reference_page_has_the_tables_of_the_declarations() {
    const PAGE: &str = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/providers/alibaba.md"
    );
    let page = std::fs::read_to_string(PAGE).unwrap();
    let tables = [
        ("keys", table("key", GLOBAL)),
        ("variables", table("variable", VARIABLES)),
        ("flags", table("flag", FLAGS)),
        ("annotations", table("annotation", annotations::ALL)),
        ("others", table("annotation", annotations::OTHERS)),
    ];
    let fresh = tables.iter().fold(page.clone(), |page, (name, text)| {
        put(&page, name, text).expect("a place for it")
    });
    if std::env::var_os("CCM_WRITE_REFERENCE").is_some() {
        std::fs::write(PAGE, &fresh).unwrap();
    } else {
        assert_eq!(
            page, fresh,
            "CCM_WRITE_REFERENCE=1 cargo test --workspace --test alibaba writes the page"
        );
    }
    let accepted =
        |setting: &&dyn provider_kit::declared::Declared| setting.row().default_is_accepted;
    assert!(
        [
            GLOBAL,
            VARIABLES,
            FLAGS,
            annotations::ALL,
            annotations::OTHERS
        ]
        .iter()
        .all(|all| all.iter().all(accepted))
    );
}
