//! docs/providers/hetzner.md has the tables that the declarations make. `CCM_WRITE_REFERENCE=1` writes them.

use provider_hetzner::annotations;
use provider_hetzner::variables::{HCLOUD, ROBOT};
use provider_kit::declared::reference::{put, table};

const PAGE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../docs/providers/hetzner.md"
);

#[test]
fn the_page_has_the_tables_that_the_declarations_make() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let variables = [HCLOUD, ROBOT].concat();
    let fresh = put(&page, "variables", &table("variable", &variables))
        .and_then(|page| put(&page, "annotations", &table("annotation", annotations::ALL)));
    let fresh = fresh.expect("the page has the lines that say where the tables are");
    if std::env::var_os("CCM_WRITE_REFERENCE").is_some() {
        std::fs::write(PAGE, &fresh).unwrap();
        return;
    }
    assert!(
        page == fresh,
        "docs/providers/hetzner.md is old: CCM_WRITE_REFERENCE=1 cargo test -p provider-hetzner writes it"
    );
}
