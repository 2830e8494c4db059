//! Tests of configuration and credentials.

use cloud_provider::{ConfigFile, Setup};
use provider_simulated::provider::{NAME, factory};
use tokio_util::sync::CancellationToken;

use super::*;

fn config(text: &str) -> Setup {
    Setup::of(ConfigFile {
        path: "cloud.yaml".into(),
        text: text.into(),
    })
}

#[test]
fn all_mistakes_of_a_configuration_are_told_at_once() {
    let err = |text: &str| factory(&config(text)).err().unwrap().to_string();
    assert_eq!(
        factory(&Setup::default()).err().unwrap().to_string(),
        "no configuration file: endpoint is missing; token or tokenFile is missing"
    );
    assert_eq!(
        err("endpoint: nowhere\ntoken: a\ntokenFile: b\nprojcet: x\n"),
        "cloud.yaml: token and tokenFile are both set, one of them is enough; the endpoint is not a URL such as \
         https://api.example.com; unknown key \"projcet\", did you mean \"project\"?"
    );
    assert_eq!(
        factory(&config("endpoint: http://127.0.0.1:1\ntoken: t\n"))
            .unwrap()
            .name(),
        NAME
    );
}

#[tokio::test]
async fn a_wrong_credential_is_said_at_the_start_without_showing_it() {
    let cloud = Cloud::default();
    let builder = Transport::builder("http://simulated").credential(Credential::token("s3cret"));
    let wrong = Simulated::new(builder.service(cloud.router()).build().unwrap(), None);
    let err = wrong.initialize(&context()).await.unwrap_err();
    assert_eq!(
        err.to_string(),
        "the simulated cloud at http://simulated cannot be used; check token or tokenFile: \
         GET /v1/token answered 401: the token is missing, unknown or revoked"
    );
    assert_eq!(cloud.requests()["GET /v1/token"], 1);
    let other = Simulated::new(transport(&cloud), Some("production".into()));
    let err = other.initialize(&context()).await.unwrap_err();
    assert_eq!(
        err.to_string(),
        "the token is for project \"demo\", `project` says \"production\""
    );
    provider(&cloud).initialize(&context()).await.unwrap();
}

/// Over a real connection, as the program does it.
#[tokio::test]
async fn a_new_token_is_taken_from_its_file_without_a_restart() {
    let cloud = Cloud::default();
    let ids = cloud.create_machines("w-", 2);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let stop = CancellationToken::new();
    let server = tokio::spawn({
        let cloud = cloud.clone();
        let stop = stop.clone();
        async move { cloud.serve(listener, stop).await }
    });
    let file =
        std::env::temp_dir().join(format!("provider-simulated-token-{}", std::process::id()));
    std::fs::write(&file, DEFAULT_TOKEN).unwrap();
    let text = format!(
        "endpoint: {endpoint}\ntokenFile: {}\nproject: demo\n",
        file.display()
    );
    let provider = factory(&config(&text)).unwrap();
    provider.initialize(&context()).await.unwrap();
    cloud.revoke_token(DEFAULT_TOKEN);
    cloud.add_token("rotated-token", "demo");
    let answers = provider
        .instances()
        .unwrap()
        .lookup(&nodes(&ids), FRESH)
        .await;
    assert_eq!(count(&answers), [0, 0, 2]);
    assert!(
        answers
            .iter()
            .all(|answer| answer.as_ref().unwrap_err().is_unauthorized())
    );
    std::fs::write(&file, "rotated-token\n").unwrap();
    assert_eq!(
        count(
            &provider
                .instances()
                .unwrap()
                .lookup(&nodes(&ids), FRESH)
                .await
        ),
        [2, 0, 0]
    );
    std::fs::remove_file(&file).unwrap();
    stop.cancel();
    server.await.unwrap().unwrap();
}
