//! docs/providers/openstack.md has the tables that the declarations make. `CCM_WRITE_REFERENCE=1` writes them.

use provider_kit::declared::Declared;
use provider_kit::declared::reference::{put, table};
use provider_openstack::{annotations, keys};

const PAGE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../docs/providers/openstack.md"
);

fn all() -> impl Iterator<Item = &'static dyn Declared> {
    let lists = [
        annotations::INTERNAL_ONES,
        annotations::ALL,
        keys::VARIABLES,
    ]
    .into_iter();
    lists
        .chain(keys::SECTIONS.iter().copied())
        .flatten()
        .copied()
}

#[test]
fn the_page_has_the_tables_that_the_declarations_make() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let annotations = [annotations::ALL, annotations::INTERNAL_ONES].concat();
    let fresh = put(&page, "keys", &table("key", &keys::SECTIONS.concat()))
        .and_then(|page| put(&page, "variables", &table("variable", keys::VARIABLES)))
        .and_then(|page| put(&page, "annotations", &table("annotation", &annotations)));
    let fresh = fresh.expect("the page has the lines that say where the tables are");
    if std::env::var_os("CCM_WRITE_REFERENCE").is_some() {
        std::fs::write(PAGE, &fresh).unwrap();
        return;
    }
    assert!(
        page == fresh,
        "docs/providers/openstack.md is old: CCM_WRITE_REFERENCE=1 cargo test -p provider-openstack reference writes it"
    );
}

#[test]
fn each_declared_default_is_a_value_that_is_accepted() {
    for row in all().map(Declared::row) {
        assert!(row.default_is_accepted, "{}", row.key);
    }
}

#[test]
fn each_key_is_declared_once() {
    let mut keys: Vec<_> = all()
        .map(|setting| setting.row().key.to_ascii_lowercase())
        .collect();
    let count = keys.len();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), count);
}
