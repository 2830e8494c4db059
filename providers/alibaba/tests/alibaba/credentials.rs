//! Credentials: the role of the machine, an OIDC role, and the older signature.

use cloud_provider::CloudProvider;
use serde_json::{Value, json};

use crate::harness::{Harness, service};

#[tokio::test(start_paused = true)]
async fn role_region_and_vpc_of_the_machine_are_found_by_its_metadata() {
    let harness = Harness::new()
        .set("ACCESS_KEY_ID", "")
        .set("ACCESS_KEY_SECRET", "");
    let harness = harness
        .with("region", Value::Null)
        .with("vpcid", Value::Null);
    let provider = harness.started().await;
    assert!(
        provider
            .diagnose()
            .await
            .iter()
            .all(|finding| finding.severity == cloud_provider::Severity::Ok)
    );
}

#[tokio::test(start_paused = true)]
async fn oidc_role_is_assumed_with_the_token_in_the_file() {
    let token = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(token.path(), "token").unwrap();
    let harness = Harness::new()
        .set("ACCESS_KEY_ID", "")
        .set("ACCESS_KEY_SECRET", "");
    let harness = harness.set("ALIBABA_CLOUD_ROLE_ARN", "acs:ram::1:role/ccm");
    let harness = harness.set(
        "ALIBABA_CLOUD_OIDC_PROVIDER_ARN",
        "acs:ram::1:oidc-provider/ack",
    );
    let harness = harness.set(
        "ALIBABA_CLOUD_OIDC_TOKEN_FILE",
        token.path().to_str().unwrap(),
    );
    harness.started().await;
}

#[tokio::test(start_paused = true)]
async fn older_signature_carries_whole_scenarios() {
    let harness = Harness::new().set("ALIBABA_CLOUD_SIGNATURE_VERSION", "1");
    let provider = harness.started().await;
    let mut service = service(&[]);
    harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!(
        harness.only("classic")["Tags"]["Tag"][0]["TagKey"],
        json!("ack.aliyun.com")
    );
}

#[tokio::test(start_paused = true)]
async fn unknown_key_is_reported_with_the_setting_to_check() {
    let harness = Harness::new().set("ACCESS_KEY_ID", "wrong");
    let fake = harness.fake.clone();
    let error = harness
        .started_with(move |http| http.service(alibaba_fake::router(&fake)))
        .await
        .err()
        .unwrap();
    assert!(
        error.to_string().contains("check the credential"),
        "{error}"
    );
}
