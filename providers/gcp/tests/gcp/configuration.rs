//! File, flags and the reference page.

use provider_gcp::config::{Config, FLAGS, KEYS, TokenSource, VARIABLES};
use provider_gcp::{annotations, factory};
use provider_kit::declared::reference::{put, table};

use crate::harness::Harness;

fn mistakes(settings: &[(&str, &str)]) -> String {
    let harness = settings.iter().fold(Harness::new(), |harness, (name, value)| harness.set(name, value));
    factory(&harness.setup()).err().map_or_else(|| "none".to_owned(), |error| error.to_string())
}

#[test]
fn wrong_values_are_named_and_unknown_keys_are_accepted() {
    let table: &[(&[(&str, &str)], &str)] = &[
        (&[("unknown-key", "x")], "none"),
        (&[("multizone", "perhaps")], "[global] multizone"),
        (&[("stack-type", "IPV5")], "[global] stack-type"),
        (&[("api-endpoint", "x")], "endpoint"),
        (&[("token-url", "http://tokens"), ("token-body", "{")], "token-body"),
        (&[("--cloud-provider-gce-lb-src-cidrs", "x")], "--cloud-provider-gce-lb-src-cidrs"),
        (&[("--enable-l4-deny-firewall", "true")], "rollback-cleanup"),
        (&[("--cidr-allocator-type", "IPAMFromCluster")], "--cidr-allocator-type"),
        (&[("--allocate-node-cidrs", "true"), ("--node-cidr-mask-size", "15")], "--cluster-cidr with room"),
    ];
    for (settings, expected) in table {
        let text = mistakes(settings);
        assert!(text.contains(expected), "{settings:?}: {text}");
    }
}

#[test]
fn token_url_decides_where_tokens_come_from() {
    let source = |harness: Harness| Config::read(&harness.setup()).unwrap().tokens;
    assert_eq!(source(Harness::new()), TokenSource::Metadata);
    let adc = Harness::new().set("token-url", "nil").set("GOOGLE_APPLICATION_CREDENTIALS", "/key.json");
    assert_eq!(source(adc), TokenSource::File("/key.json".into()));
    assert_eq!(source(Harness::new().set("token-url", "nil").set("HOME", "/nowhere")), TokenSource::Metadata);
    assert!(matches!(source(Harness::new().set("token-url", "http://tokens")), TokenSource::Url(..)));
}

#[tokio::test(start_paused = true)]
async fn project_zone_and_network_come_from_the_metadata_server() {
    let harness = ["project-id", "local-zone", "network-name"].into_iter().fold(Harness::new(), Harness::without);
    let provider = harness.started().await;
    let node = harness.objects.nodes.lock()[0].clone();
    let request = cloud_provider::LookupRequest {
        existence: true,
        shutdown: false,
        metadata: cloud_provider::MetadataLevel::No,
        fresh: true,
    };
    let found = cloud_provider::CloudProvider::instances(&provider).unwrap().lookup(&[node], request).await;
    assert!(matches!(found[0], Ok(cloud_provider::InstanceState::Present { .. })), "{found:?}");
}

#[test]
fn reference_page_has_the_tables_of_the_declarations() {
    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/providers/gcp.md");
    let page = std::fs::read_to_string(PAGE).unwrap();
    let tables = [
        ("keys", table("key", KEYS)),
        ("flags", table("flag", FLAGS)),
        ("variables", table("variable", VARIABLES)),
        ("annotations", table("annotation", annotations::ALL)),
    ];
    let fresh = tables.iter().fold(page.clone(), |page, (name, text)| put(&page, name, text).expect("a place for it"));
    if std::env::var_os("CCM_WRITE_REFERENCE").is_some() {
        std::fs::write(PAGE, &fresh).unwrap();
    } else {
        assert_eq!(page, fresh, "CCM_WRITE_REFERENCE=1 cargo test --workspace --test gcp writes the page");
    }
    let accepted = |it: &&dyn provider_kit::declared::Declared| it.row().default_is_accepted;
    assert!([KEYS, FLAGS, VARIABLES, annotations::ALL].iter().all(|all| all.iter().all(accepted)));
}
