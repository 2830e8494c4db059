//! Tests of variables, flags and the reference page.

use provider_kit::declared::reference::{put, table};
use provider_linode::config::{Config, FLAGS, VARIABLES};
use provider_linode::{annotations, factory};

use crate::harness::Harness;

fn mistakes(settings: &[(&str, &str)]) -> String {
    let harness = settings
        .iter()
        .fold(Harness::new(), |harness, (name, value)| {
            harness.set(name, value)
        });
    factory(&harness.setup())
        .err()
        .map_or_else(|| "none".to_owned(), |error| error.to_string())
}

#[test]
fn region_and_token_are_required() {
    let text = mistakes(&[("LINODE_REGION", ""), ("LINODE_API_TOKEN", "")]);
    assert!(
        text.contains("LINODE_API_TOKEN or LINODE_API_TOKEN_FILE")
            && text.contains("LINODE_REGION"),
        "{text}"
    );
}

#[test]
fn flags_that_contradict_each_other_are_refused() {
    let table: &[(&[(&str, &str)], &str)] = &[
        (&[("--nodebalancer-prefix", "a b")], "--nodebalancer-prefix"),
        (
            &[("--nodebalancer-prefix", "x-23456789012345678x")],
            "--nodebalancer-prefix",
        ),
        (&[("--load-balancer-type", "x")], "--load-balancer-type"),
        (&[("--load-balancer-type", "cilium-bgp")], "none"),
        (
            &[
                ("--nodebalancer-backend-ipv4-subnet-id", "1"),
                ("--nodebalancer-backend-ipv4-subnet-name", "x"),
            ],
            "only one can be",
        ),
        (&[("--enable-route-controller", "true")], "needs a VPC"),
        (
            &[
                ("--enable-route-controller", "true"),
                ("--vpc-names", "pods"),
            ],
            "none",
        ),
        (
            &[
                ("--vpc-ids", "1"),
                ("--vpc-names", "pods"),
                ("--subnet-ids", "1"),
            ],
            "only one can be",
        ),
        (&[("--vpc-ids", "1")], "set both or neither"),
        (&[("--subnet-ids", "1")], "set both or neither"),
        (&[("--vpc-ids", "1"), ("--subnet-ids", "1")], "none"),
        (&[("LINODE_EXTERNAL_SUBNET", "x")], "LINODE_EXTERNAL_SUBNET"),
    ];
    for (settings, expected) in table {
        let text = mistakes(settings);
        assert!(text.contains(expected), "{settings:?}: {text}");
    }
}

#[test]
fn version_of_the_api_is_in_the_url() {
    for (url, expected) in [
        ("https://api.example/", "https://api.example/v4"),
        ("https://api.example/v4beta", "https://api.example/v4beta"),
    ] {
        let config = Config::read(&Harness::new().set("LINODE_URL", url).setup()).unwrap();
        assert_eq!(config.endpoint, expected);
    }
}

#[test]
fn token_file_goes_before_the_variable() {
    let path = std::env::temp_dir().join(format!("linode-token-{}", std::process::id()));
    std::fs::write(&path, "filed\n").unwrap();
    let path = path.to_str().unwrap();
    let filed = Config::read(&Harness::new().set("LINODE_API_TOKEN_FILE", path).setup()).unwrap();
    let missing = Config::read(
        &Harness::new()
            .set("LINODE_API_TOKEN_FILE", "/nowhere")
            .setup(),
    )
    .unwrap();
    assert_ne!(format!("{:?}", filed.token), format!("{:?}", missing.token));
}

#[test]
fn token_file_that_is_no_regular_file_is_named_in_the_error() {
    let text = mistakes(&[("LINODE_API_TOKEN", ""), ("LINODE_API_TOKEN_FILE", "/dev")]);
    let expected = "LINODE_API_TOKEN or LINODE_API_TOKEN_FILE is required: an API token (LINODE_API_TOKEN_FILE: cannot \
                    read the token file /dev: it is a directory, and not a regular file)";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn reference_page_has_the_tables_of_the_declarations() {
    const PAGE: &str = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/providers/linode.md"
    );
    let page = std::fs::read_to_string(PAGE).unwrap();
    let tables = [
        ("variables", table("variable", VARIABLES)),
        ("flags", table("flag", FLAGS)),
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
            "CCM_WRITE_REFERENCE=1 cargo test --workspace --test linode writes the page"
        );
    }
    let accepted =
        |setting: &&dyn provider_kit::declared::Declared| setting.row().default_is_accepted;
    assert!(
        [VARIABLES, FLAGS, annotations::ALL]
            .iter()
            .all(|all| all.iter().all(accepted))
    );
}
