//! The environment, the start, and what `doctor` finds.

use cloud_provider::{CloudProvider, Severity};
use digitalocean_fake::{Fault, TOKEN};
use provider_digitalocean::config::Config;
use provider_kit::transport::Call;

use crate::harness::Harness;

#[test]
fn wrong_variables_are_refused_all_at_once() {
    let harness = Harness::new()
        .set("DO_ACCESS_TOKEN", "")
        .set("DEFAULT_LB_TYPE", "SMALL")
        .set("DO_API_RATE_LIMIT_QPS", "0")
        .set("PUBLIC_ACCESS_FIREWALL_NAME", "workers")
        .set("METRICS_ADDR", "here");
    let text = Config::read(&harness.setup()).unwrap_err().to_string();
    for part in [
        "DO_ACCESS_TOKEN is required",
        "DEFAULT_LB_TYPE: \"SMALL\" is not one of REGIONAL, REGIONAL_NETWORK",
        "DO_API_RATE_LIMIT_QPS: \"0\" is not a number above 0",
        "set both or neither",
        "METRICS_ADDR: \"here\" is not an address",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_region_is_checked_or_asked_of_the_metadata_service() {
    let wrong = Harness::new().set("REGION", "moon1");
    let error = wrong
        .provider()
        .initialize(&wrong.context())
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("\"moon1\" does not exist; regions are ams3, fra1, nyc1"),
        "{error}"
    );
    let unset = Harness::new().set("REGION", "");
    unset.provider().initialize(&unset.context()).await.unwrap();
    assert_eq!(unset.fake.count("GET /metadata/v1/region"), 1);
    let refused = Harness::new();
    refused.fake.revoke_token(TOKEN);
    let error = refused
        .provider()
        .initialize(&refused.context())
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("check DO_ACCESS_TOKEN"),
        "{error}"
    );
    assert!(!error.to_string().contains(TOKEN));
}

#[tokio::test(start_paused = true)]
async fn wrong_token_is_reported_at_the_start_without_a_region_in_the_configuration() {
    let harness = Harness::new().set("REGION", "");
    harness.fake.revoke_token(TOKEN);
    let error = harness
        .provider()
        .initialize(&harness.context())
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("check DO_ACCESS_TOKEN"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn doctor_names_the_region_of_the_machine_or_the_variable_to_set() {
    let harness = Harness::new().set("REGION", "");
    let region = async || {
        harness
            .provider()
            .diagnose()
            .await
            .into_iter()
            .find(|finding| finding.check == "region")
            .unwrap()
    };
    assert!(region().await.text.starts_with("fra1"));
    harness
        .fake
        .fail(Fault::status("GET /metadata/v1/region", 500));
    let missing = region().await;
    assert_eq!(
        (
            missing.severity,
            missing.remedy.unwrap().contains("set REGION")
        ),
        (Severity::Failure, true)
    );
}

#[tokio::test(start_paused = true)]
async fn doctor_finds_a_token_that_may_not_write_and_what_does_not_exist() {
    let harness = Harness::new().set("DO_CLUSTER_VPC_ID", "no-such-vpc");
    harness.fake.set_read_only(TOKEN);
    harness.fake.set_remaining(100);
    let findings = harness.provider().diagnose().await;
    let failed: Vec<_> = findings
        .iter()
        .filter(|finding| finding.severity != Severity::Ok)
        .map(|finding| &*finding.check)
        .collect();
    assert_eq!(failed, ["rate limit", "token", "VPC"]);
    let findings = Harness::new().provider().diagnose().await;
    assert!(
        findings
            .iter()
            .all(|finding| finding.severity == Severity::Ok),
        "{findings:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn refusal_with_only_the_time_of_the_next_request_pauses_until_then() {
    let harness = Harness::new();
    let setup = harness.setup();
    let answer = || async {
        (
            axum::http::StatusCode::TOO_MANY_REQUESTS,
            [("ratelimit-reset", "120")],
        )
    };
    let router = axum::Router::new().fallback(answer);
    let cloud = provider_digitalocean::cloud(&Config::read(&setup).unwrap(), &setup).unwrap();
    let cloud = cloud.service(router).build().unwrap();
    let error = cloud.send(Call::get("/v2/account", &[])).await.unwrap_err();
    assert!(
        error
            .retry_after()
            .is_some_and(|pause| pause.as_secs() >= 119),
        "{error:?}"
    );
}
