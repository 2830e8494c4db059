//! Start-up: the first requests, and errors of a failed start.

use cloud_provider::{CloudProvider, Node};
use hetzner_fake::TOKEN;

use crate::harness::Harness;

#[tokio::test(start_paused = true)]
async fn a_start_asks_for_the_locations_and_for_nothing_else() {
    let harness = Harness::default();
    let provider = harness.provider();
    provider.initialize(&harness.context()).await.unwrap();
    assert_eq!(
        harness.fake.counts().into_iter().collect::<Vec<_>>(),
        [("GET /locations".to_owned(), 1)]
    );
}

#[tokio::test(start_paused = true)]
async fn a_token_that_is_refused_ends_the_start_and_names_its_variables_but_not_itself() {
    let harness = Harness::default();
    harness.fake.revoke_token(TOKEN);
    let error = harness
        .provider()
        .initialize(&harness.context())
        .await
        .unwrap_err()
        .to_string();
    for part in [
        "check HCLOUD_TOKEN, or the file that HCLOUD_TOKEN_FILE names",
        "http://hetzner/v1",
    ] {
        assert!(error.contains(part), "{error}");
    }
    assert!(!error.contains(TOKEN), "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_does_not_answer_is_named() {
    let harness = Harness::default();
    harness
        .fake
        .fail(hetzner_fake::Fault::status("GET /locations", 503));
    let error = harness
        .provider()
        .initialize(&harness.context())
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("check HCLOUD_ENDPOINT"), "{error}");
}

#[test]
fn the_provider_offers_what_its_variables_switch_on() {
    let provider = Harness::default().provider();
    assert_eq!(provider.name(), "hcloud");
    assert!(
        !provider.has_cluster_id() && !provider.needs_cluster_id(),
        "it starts without --allow-untagged-cloud"
    );
    assert!(
        provider.instances().is_some()
            && provider.load_balancers().is_some()
            && provider.routes().is_none()
    );
    assert!(provider.clusters().is_none() && provider.volumes().is_none());
    assert_eq!(provider.metrics_address().as_deref(), Some(":8233"));

    let network = || Harness::default().set("HCLOUD_NETWORK", "kubernetes");
    assert!(network().provider().routes().is_some());
    assert!(
        network()
            .set("HCLOUD_NETWORK_ROUTES_ENABLED", "false")
            .provider()
            .routes()
            .is_none()
    );
    assert!(
        Harness::default()
            .set("HCLOUD_LOAD_BALANCERS_ENABLED", "false")
            .provider()
            .load_balancers()
            .is_none()
    );
    assert_eq!(
        Harness::default()
            .set("HCLOUD_METRICS_ENABLED", "false")
            .provider()
            .metrics_address(),
        None
    );
    let elsewhere = Harness::default()
        .set("HCLOUD_METRICS_ADDRESS", "127.0.0.1:9000")
        .provider();
    assert_eq!(
        elsewhere.metrics_address().as_deref(),
        Some("127.0.0.1:9000")
    );
}

/// Routes need one range, as in the Go cloud-controller-manager: a cluster that uses the network only for addresses and
/// load balancers sets none.
#[test]
fn without_one_range_of_pods_there_are_no_routes_and_everything_else() {
    for (range, routes) in [
        ("10.244.0.0/16", true),
        ("", false),
        ("10.244.0.0/16,fd00::/48", false),
        ("pods", false),
    ] {
        let provider = Harness::default()
            .set("HCLOUD_NETWORK", "kubernetes")
            .pods_in(range)
            .provider();
        assert_eq!(provider.routes().is_some(), routes, "{range:?}");
        assert!(provider.instances().is_some() && provider.load_balancers().is_some());
    }
}

#[test]
fn nodes_of_both_products_are_its_own_and_those_of_other_clouds_are_not() {
    let provider = Harness::default().provider();
    for (provider_id, owned) in [
        ("", true),
        ("hcloud://1", true),
        ("hcloud://bm-1", true),
        ("hcloud://abc", true),
        ("hrobot://1", true),
        ("aws:///eu-central-1a/i-1", false),
        ("k3s://worker-1", false),
    ] {
        let node = Node {
            provider_id: provider_id.into(),
            ..Node::default()
        };
        assert_eq!(provider.owns_node(&node), owned, "{provider_id}");
    }
}
