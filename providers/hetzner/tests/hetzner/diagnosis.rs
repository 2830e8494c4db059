//! Findings that the provider reports to `doctor`.

use cloud_provider::{CloudProvider, Severity};
use hetzner_fake::{ROBOT_PASSWORD, TOKEN};

use crate::harness::Harness;

async fn told(harness: &Harness) -> Vec<String> {
    let changed = format!("{:?}", harness.fake.objects());
    let findings = harness.provider().diagnose().await;
    assert_eq!(
        format!("{:?}", harness.fake.objects()),
        changed,
        "nothing is changed"
    );
    let told = findings.iter().map(|finding| {
        assert_eq!(
            finding.severity == Severity::Ok,
            finding.remedy.is_none(),
            "{finding:?}"
        );
        let remedy = finding.remedy.as_deref().unwrap_or_default();
        format!(
            "{:?} {}: {} [{remedy}]",
            finding.severity, finding.check, finding.text
        )
    });
    let told: Vec<_> = told.collect();
    assert!(!told.concat().contains(TOKEN) && !told.concat().contains(ROBOT_PASSWORD));
    told
}

/// Returns the finding with this prefix.
fn find<'a>(told: &'a [String], start: &str) -> &'a str {
    told.iter()
        .find(|text| text.starts_with(start))
        .unwrap_or_else(|| panic!("{start}: {told:#?}"))
}

#[tokio::test(start_paused = true)]
async fn a_sound_installation_has_nothing_but_good_findings() {
    let harness = Harness::default()
        .set("HCLOUD_LOAD_BALANCERS_LOCATION", "fsn1")
        .set("HCLOUD_NETWORK", "kubernetes");
    let id = harness.fake.add_network("kubernetes", "10.0.0.0/8");
    harness.fake.run_attached_to(id);
    let told = told(&harness).await;
    assert!(told.iter().all(|text| text.starts_with("Ok ")), "{told:#?}");
    for start in [
        "Ok endpoint: http://hetzner/v1 answers",
        "Ok rate limit: 3599 of 3600",
        "Ok token: it may read and write",
        "Ok network: \"kubernetes\"",
        "Ok network: this machine is attached",
        "Ok load balancer location: fsn1",
        "Ok load balancer type: lb11",
    ] {
        find(&told, start);
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_that_is_wrong_or_may_only_read_is_told() {
    let harness = Harness::default();
    harness.fake.set_read_only(TOKEN, true);
    let read_only = told(&harness).await;
    let finding = find(&read_only, "Failure token: it may not change anything");
    assert!(finding.contains("read and write"), "{finding}");

    harness.fake.revoke_token(TOKEN);
    let wrong = told(&harness).await;
    assert!(find(&wrong, "Failure token:").contains("HCLOUD_TOKEN"));
    assert_eq!(wrong.len(), 2, "what is behind it is hidden: {wrong:#?}");
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_does_not_answer_hides_the_rest() {
    let harness = Harness::default();
    harness
        .fake
        .fail(hetzner_fake::Fault::status("GET /locations", 502));
    let told = told(&harness).await;
    assert_eq!(told.len(), 1);
    assert!(find(&told, "Failure endpoint: http://hetzner/v1: ").contains("HCLOUD_ENDPOINT"));
}

#[tokio::test(start_paused = true)]
async fn few_requests_that_are_left_are_a_warning() {
    let harness = Harness::default();
    harness.fake.set_remaining(200);
    find(&told(&harness).await, "Warning rate limit: 199 of 3600");
}

#[tokio::test(start_paused = true)]
async fn a_network_that_is_missing_or_not_attached_is_told() {
    let harness = Harness::default().set("HCLOUD_NETWORK", "kubernets");
    assert!(find(&told(&harness).await, "Failure network: ").contains("correct HCLOUD_NETWORK"));

    harness.fake.add_network("kubernets", "10.0.0.0/8");
    find(
        &told(&harness).await,
        "Failure network: this machine is not attached",
    );

    harness.fake.fail(hetzner_fake::Fault::status(
        "GET /hetzner/v1/metadata/private-networks",
        500,
    ));
    find(
        &told(&harness).await,
        "Warning network: whether this machine is attached to it is not known",
    );
}

#[tokio::test(start_paused = true)]
async fn a_place_or_type_of_load_balancers_that_does_not_exist_is_told_with_those_that_do() {
    let harness = Harness::default();
    find(
        &told(&harness).await,
        "Warning load balancer location: none is configured",
    );

    let harness = harness
        .set("HCLOUD_LOAD_BALANCERS_LOCATION", "fsn9")
        .set("HCLOUD_LOAD_BALANCERS_TYPE", "lb99");
    let wrong = told(&harness).await;
    assert!(find(&wrong, "Failure load balancer location: \"fsn9\"").contains("fsn1"));
    assert!(find(&wrong, "Failure load balancer type: \"lb99\"").contains("lb11"));

    let harness = Harness::default().set("HCLOUD_LOAD_BALANCERS_NETWORK_ZONE", "eu-central");
    find(
        &told(&harness).await,
        "Ok load balancer location: eu-central",
    );
    harness.fake.change_type("lb11", |balancer_type| {
        balancer_type.deprecation =
            Some(("2026-01-01T00:00:00Z".into(), "2026-06-01T00:00:00Z".into()));
    });
    find(
        &told(&harness).await,
        "Warning load balancer type: lb11 is deprecated, and not available after 2026-06-01",
    );

    let without = Harness::default().set("HCLOUD_LOAD_BALANCERS_ENABLED", "false");
    assert!(
        told(&without)
            .await
            .iter()
            .all(|text| !text.contains("load balancer type"))
    );
}

#[tokio::test(start_paused = true)]
async fn robots_credential_is_tried_once() {
    let harness = Harness::default().with_robot();
    find(
        &told(&harness).await,
        "Failure robot: ROBOT_USER shows no server at all",
    );
    let harness = Harness::default().with_robot();
    harness.fake.add_robot_server(321, "bm-1");
    find(
        &told(&harness).await,
        "Ok robot: the credential shows 1 server",
    );
    assert_eq!(harness.fake.count("GET /server"), 1);

    let harness = Harness::default()
        .with_robot()
        .set("ROBOT_PASSWORD", "wrong");
    assert!(
        find(&told(&harness).await, "Failure robot: ").contains("block this machine's address")
    );
    assert_eq!(
        harness.fake.count("GET /server"),
        1,
        "several in a row block the address"
    );
}
