//! File, flags and the reference page.

use provider_gcp::config::{Config, FLAGS, KEYS, TokenSource, VARIABLES};
use provider_gcp::{annotations, factory};
use provider_kit::declared::reference::{put, table};

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
fn wrong_values_are_named_and_unknown_keys_are_accepted() {
    let table: &[(&[(&str, &str)], &str)] = &[
        (&[("unknown-key", "x")], "none"),
        (&[("multizone", "perhaps")], "[global] multizone"),
        (&[("stack-type", "IPV5")], "[global] stack-type"),
        (&[("api-endpoint", "x")], "endpoint"),
        (
            &[("token-url", "http://tokens"), ("token-body", "{")],
            "token-body",
        ),
        (
            &[("--cloud-provider-gce-lb-src-cidrs", "x")],
            "--cloud-provider-gce-lb-src-cidrs",
        ),
        (&[("--enable-l4-deny-firewall", "true")], "rollback-cleanup"),
        (
            &[("--cidr-allocator-type", "IPAMFromCluster")],
            "--cidr-allocator-type",
        ),
        (
            &[
                ("--allocate-node-cidrs", "true"),
                ("--node-cidr-mask-size", "15"),
            ],
            "--cluster-cidr with room",
        ),
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
    let adc = Harness::new()
        .set("token-url", "nil")
        .set("GOOGLE_APPLICATION_CREDENTIALS", "/key.json");
    assert_eq!(source(adc), TokenSource::File("/key.json".into()));
    assert_eq!(
        source(
            Harness::new()
                .set("token-url", "nil")
                .set("HOME", "/nowhere")
        ),
        TokenSource::Metadata
    );
    assert!(matches!(
        source(Harness::new().set("token-url", "http://tokens")),
        TokenSource::Url(..)
    ));
}

#[tokio::test(start_paused = true)]
async fn project_zone_and_network_come_from_the_metadata_server() {
    let harness = ["project-id", "local-zone", "network-name"]
        .into_iter()
        .fold(Harness::new(), Harness::without);
    let provider = harness.started().await;
    assert_finds_a_node(&harness, &provider).await;
}

async fn assert_finds_a_node(harness: &Harness, provider: &provider_gcp::Gce) {
    let node = harness.objects.nodes.lock()[0].clone();
    let request = cloud_provider::LookupRequest {
        existence: true,
        shutdown: false,
        metadata: cloud_provider::MetadataLevel::No,
        fresh: true,
    };
    let found = cloud_provider::CloudProvider::instances(provider)
        .unwrap()
        .lookup(&[node], request)
        .await;
    assert!(
        matches!(found[0], Ok(cloud_provider::InstanceState::Present { .. })),
        "{found:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn number_of_a_project_and_url_of_a_network_are_accepted() {
    let url = "https://www.googleapis.com/compute/v1/projects/other/global/networks/net";
    let harness = Harness::new()
        .set("project-id", "4711")
        .set("network-name", url);
    let provider = harness.started().await;
    assert_finds_a_node(&harness, &provider).await;
    harness
        .ensure(
            &provider,
            &mut crate::harness::service(&[], serde_json::json!({})),
        )
        .await
        .unwrap();
    let bodies = harness
        .fake
        .fault_injector()
        .bodies("POST /projects/{project}/global/firewalls");
    assert!(
        bodies.iter().all(|body| body["network"] == url),
        "{bodies:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn subnetwork_of_an_automatic_network_is_found_and_not_missed_because_of_an_error() {
    let harness = Harness::new().without("subnetwork-name");
    let fault =
        |status| gcp_fake::Fault::refused("GET /projects/{project}/global/networks/{name}", status);
    let internal = || {
        crate::harness::service(
            &[("networking.gke.io/load-balancer-type", "Internal")],
            serde_json::json!({}),
        )
    };
    for (status, expected) in [(None, Some("default")), (Some(403), None)] {
        status
            .into_iter()
            .for_each(|status| harness.fake.fault_injector().fail(fault(status)));
        harness
            .ensure(&harness.started().await, &mut internal())
            .await
            .unwrap();
        let body = harness
            .fake
            .fault_injector()
            .bodies("POST /projects/{project}/regions/{region}/forwardingRules")
            .remove(0);
        assert_eq!(
            body["subnetwork"]
                .as_str()
                .and_then(|url| url.rsplit('/').next()),
            expected
        );
        harness
            .fake
            .lock()
            .objects
            .retain(|path, _| !path.contains("/forwardingRules/"));
    }
    harness.fake.fault_injector().clear_faults();
    harness.fake.fault_injector().fail(fault(500));
    let setup = harness.setup();
    let connector = provider_kit::transport::in_process(harness.fake.router());
    let provider =
        provider_gcp::Gce::new(Config::read(&setup).unwrap(), &setup, &connector).unwrap();
    let findings = cloud_provider::CloudProvider::diagnose(&provider).await;
    assert!(
        findings
            .iter()
            .any(|finding| finding.severity == cloud_provider::Severity::Failure),
        "{findings:?}"
    );
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
    let fresh = tables.iter().fold(page.clone(), |page, (name, text)| {
        put(&page, name, text).expect("a place for it")
    });
    if std::env::var_os("CCM_WRITE_REFERENCE").is_some() {
        std::fs::write(PAGE, &fresh).unwrap();
    } else {
        assert_eq!(
            page, fresh,
            "CCM_WRITE_REFERENCE=1 cargo test --workspace --test gcp writes the page"
        );
    }
    let accepted =
        |setting: &&dyn provider_kit::declared::Declared| setting.row().default_is_accepted;
    assert!(
        [KEYS, FLAGS, VARIABLES, annotations::ALL]
            .iter()
            .all(|all| all.iter().all(accepted))
    );
}
