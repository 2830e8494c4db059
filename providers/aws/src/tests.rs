//! The reference page: its tables are made from the declarations.

use provider_kit::declared::Declared;
use provider_kit::declared::reference::{put, table};

use crate::annotations;
use crate::config::{FLAGS, GLOBAL, OVERRIDE};
use crate::permissions::{PERMISSIONS, controllers_of, policy};

fn policy_block() -> String {
    let all = policy(&["node-route-controller", "service-lb-controller", "tagging"]);
    let text = serde_json::to_string_pretty(&all).unwrap();
    format!("```json\n{text}\n```\n")
}

fn permissions_table() -> String {
    let mut actions: Vec<_> = PERMISSIONS.iter().flat_map(|it| it.actions).collect();
    actions.sort_unstable();
    actions.dedup();
    let rows = actions.iter().map(|action| format!("| `{action}` | {} |\n", controllers_of(action)));
    format!("| action | controllers |\n|---|---|\n{}", rows.collect::<String>())
}

#[test]
fn reference_page_has_the_tables_of_the_declarations() {
    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/providers/aws.md");
    let page = std::fs::read_to_string(PAGE).unwrap();
    let tables = [
        ("policy", policy_block()),
        ("permissions", permissions_table()),
        ("keys", table("key", GLOBAL)),
        ("overrides", table("key", OVERRIDE)),
        ("flags", table("flag", FLAGS)),
        ("annotations", table("annotation", annotations::ALL)),
    ];
    let fresh = tables.iter().fold(page.clone(), |page, (name, text)| put(&page, name, text).expect("a place for it"));
    if std::env::var_os("CCM_WRITE_REFERENCE").is_some() {
        std::fs::write(PAGE, &fresh).unwrap();
    } else {
        assert_eq!(page, fresh, "CCM_WRITE_REFERENCE=1 cargo test --workspace --lib reference writes the page");
    }
    let accepted = |it: &&dyn Declared| it.row().default_is_accepted;
    assert!([GLOBAL, OVERRIDE, FLAGS, annotations::ALL].iter().all(|all| all.iter().all(accepted)));
}
