//! docs/providers/digitalocean.md has the tables that the declarations make. `CCM_WRITE_REFERENCE=1` writes them.

use provider_digitalocean::{annotations, variables};
use provider_kit::declared::reference::{put, table};

const PAGE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../docs/providers/digitalocean.md"
);

#[test]
fn the_page_has_the_tables_that_the_declarations_make() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let annotations = [annotations::OTHERS, annotations::ALL].concat();
    let fresh = put(&page, "variables", &table("variable", variables::ALL))
        .and_then(|page| put(&page, "annotations", &table("annotation", &annotations)));
    let fresh = fresh.expect("the page has the lines that say where the tables are");
    if std::env::var_os("CCM_WRITE_REFERENCE").is_some() {
        std::fs::write(PAGE, &fresh).unwrap();
        return;
    }
    assert!(
        page == fresh,
        "the page is old: CCM_WRITE_REFERENCE=1 cargo test -p provider-digitalocean writes it"
    );
}
