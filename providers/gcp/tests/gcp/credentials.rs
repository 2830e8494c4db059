//! Credentials in every form, and the requests that they lead to.

use std::path::PathBuf;

use cloud_provider::CloudProvider;
use provider_gcp::Gce;
use provider_gcp::config::Config;
use provider_kit::transport::in_process;
use serde_json::{Value, json};

use crate::harness::Harness;

/// A key that opens nothing.
const KEY: &str = include_str!("key.pem");

fn file(name: &str, content: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("gcp-{name}-{}", std::process::id()));
    std::fs::write(&path, content).unwrap();
    path
}

/// Starts a provider with a credentials file; the routes of the requests that it sent, or its error.
async fn started(name: &str, content: &Value) -> Result<Vec<String>, String> {
    let path = file(name, &content.to_string());
    let harness = Harness::new()
        .set("token-url", "nil")
        .set("GOOGLE_APPLICATION_CREDENTIALS", path.to_str().unwrap());
    let setup = harness.setup();
    let provider = Gce::new(
        Config::read(&setup).unwrap(),
        &setup,
        &in_process(harness.fake.router()),
    )
    .unwrap();
    let findings = provider.diagnose().await;
    let _ = std::fs::remove_file(path);
    match findings
        .iter()
        .find(|finding| finding.severity == cloud_provider::Severity::Failure)
    {
        Some(failure) => Err(failure.text.clone()),
        None => Ok(harness
            .fake
            .fault_injector()
            .requests()
            .into_iter()
            .take(3)
            .map(|request| request.route)
            .collect()),
    }
}

#[tokio::test(start_paused = true)]
async fn each_form_of_a_credentials_file_is_exchanged_for_a_token() {
    let subject = file("subject", "subject-token\n");
    let account = json!({"type": "service_account", "client_email": "ccm@demo.iam.gserviceaccount.com", "private_key": KEY, "token_uri": "http://oauth/token"});
    let user = json!({"type": "authorized_user", "client_id": "a", "client_secret": "b", "refresh_token": "c", "token_uri": "http://oauth/token"});
    let external = json!({"type": "external_account", "audience": "//iam", "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "token_url": "http://sts/token", "credential_source": {"file": subject}});
    for (name, content) in [
        ("account", &account),
        ("user", &user),
        ("external", &external),
    ] {
        let routes = started(name, content).await.unwrap();
        assert_eq!(
            routes[..2],
            ["POST /token", "GET /projects/{project}"],
            "{name}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn account_is_impersonated_with_the_token_of_another_one() {
    let subject = file("impersonation", r#"{"id_token": "subject-token"}"#);
    let url = "http://iam/v1/projects/-/serviceAccounts/ccm@demo:generateAccessToken";
    let user = json!({"type": "authorized_user", "client_id": "a", "client_secret": "b", "refresh_token": "c", "token_uri": "http://oauth/token"});
    let source = json!({"file": subject, "format": {"type": "json", "subject_token_field_name": "id_token"}});
    let impersonated = json!({"type": "impersonated_service_account", "source_credentials": user, "delegates": ["d"],
        "service_account_impersonation_url": url});
    let external = json!({"type": "external_account", "audience": "//iam", "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "token_url": "http://sts/token", "credential_source": source, "service_account_impersonation_url": url});
    for (name, content) in [("impersonated", &impersonated), ("external", &external)] {
        let routes = started(name, content).await.unwrap();
        let account = "POST /v1/projects/-/serviceAccounts/{account}";
        assert_eq!(
            routes,
            ["POST /token", account, "GET /projects/{project}"],
            "{name}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn token_url_is_asked_with_the_token_of_the_metadata_server() {
    let harness = Harness::new()
        .set("token-url", "http://tokens/alternative")
        .set("token-body", r#""{\"account\": 7}""#);
    let provider = harness.started().await;
    assert!(
        provider
            .diagnose()
            .await
            .iter()
            .all(|finding| finding.severity == cloud_provider::Severity::Ok)
    );
    assert_eq!(
        (
            harness.series("get_token_count[]"),
            harness.series("get_token_fail_count[]")
        ),
        (Some(1.0), None)
    );
}

#[tokio::test(start_paused = true)]
async fn wrong_credentials_file_is_explained_without_its_content() {
    for (name, content) in [
        ("type", json!({"type": "s3cret"})),
        (
            "key",
            json!({"type": "service_account", "client_email": "x", "private_key": "s3cret", "token_uri": "http://oauth/token"}),
        ),
        (
            "source",
            json!({"type": "external_account", "audience": "x", "subject_token_type": "x", "token_url": "http://sts/token", "credential_source": {}}),
        ),
    ] {
        let text = started(name, &content).await.unwrap_err();
        assert!(
            !text.contains("private_key\":") && text.len() > 20,
            "{text}"
        );
        assert!(name == "type" || !text.contains("s3cret"), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn metadata_server_must_say_that_it_is_one() {
    let harness = Harness::new().set("GCE_METADATA_HOST", "proxy");
    let router = axum::Router::new().fallback(async || r#"{"access_token": "x"}"#);
    let setup = harness.setup();
    let provider = Gce::new(Config::read(&setup).unwrap(), &setup, &in_process(router)).unwrap();
    let findings = provider.diagnose().await;
    assert!(
        findings[0].text.contains("proxy is no metadata server"),
        "{findings:?}"
    );
}
