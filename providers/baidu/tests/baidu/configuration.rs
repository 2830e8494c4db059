//! Tests of the configuration, credentials, `doctor` and the reference page.

use baidu_fake::{KEY, SECRET, TEMPORARY};
use cloud_provider::{CloudProvider, Severity};
use provider_baidu::config::{Config, Credentials, KEYS, VARIABLES};
use provider_baidu::{annotations, factory};
use provider_kit::declared::reference::{put, table};
use serde_json::{Value, json};

use crate::harness::Harness;

fn mistakes(settings: &[(&str, Value)]) -> String {
    let harness = settings
        .iter()
        .fold(Harness::new(), |harness, (name, value)| {
            harness.set(name, value.clone())
        });
    factory(&harness.setup())
        .err()
        .map_or_else(|| "none".to_owned(), |error| error.to_string())
}

#[test]
fn mistakes_in_the_configuration_name_the_key() {
    let table: &[(&[(&str, Value)], &str)] = &[
        (
            &[("ClusterId", Value::Null)],
            "cloud.config: ClusterId is missing",
        ),
        (
            &[("Region", json!("BJ!"))],
            "Region: \"BJ!\" is not a region",
        ),
        (&[("Region", Value::Null)], "none"),
        (
            &[("Region", Value::Null), ("Endpoint", Value::Null)],
            "Region is missing",
        ),
        (&[("Debug", json!("x"))], "Debug"),
        (&[("AccessKeyID", Value::Null)], "there are no credentials"),
        (
            &[
                ("MasterId", Value::Null),
                ("Endpoint", Value::Null),
                ("ClusterName", json!("x")),
            ],
            "none",
        ),
        (&[("Unknown", json!([1]))], "none"),
        (
            &[("CCE_LEGACY_INSTANCE_TYPE", json!("x"))],
            "CCE_LEGACY_INSTANCE_TYPE",
        ),
    ];
    for (settings, expected) in table {
        let text = mistakes(settings);
        assert!(text.contains(expected), "{settings:?}: {text}");
    }
    assert!(
        !mistakes(&[
            ("AccessKeyID", Value::Null),
            ("SecretAccessKey", json!("s3cret"))
        ])
        .contains("s3cret")
    );
}

#[test]
fn keys_of_the_file_are_read_in_any_case() {
    let harness = Harness::new()
        .set("Region", Value::Null)
        .set("Endpoint", Value::Null)
        .set("region", "gz");
    assert_eq!(Config::read(&harness.setup()).unwrap().region, "gz");
}

fn without_keys() -> Harness {
    Harness::new()
        .set("AccessKeyID", Value::Null)
        .set("SecretAccessKey", Value::Null)
}

#[tokio::test(start_paused = true)]
async fn keys_of_the_environment_may_be_temporary_and_in_files() {
    let plain = without_keys()
        .set("BCE_ACCESS_KEY_ID", KEY)
        .set("BCE_SECRET_ACCESS_KEY", SECRET);
    plain.started().await;
    let directory = std::env::temp_dir().join(format!("baidu-keys-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let path = |name: &str| directory.join(name).to_str().unwrap().to_owned();
    let write = |parts: [&str; 3]| {
        ["id", "secret", "token"]
            .iter()
            .zip(parts)
            .for_each(|(name, text)| std::fs::write(path(name), text).unwrap());
    };
    write(TEMPORARY);
    let harness = without_keys()
        .set("BCE_ACCESS_KEY_ID_FILE", path("id"))
        .set("BCE_SECRET_ACCESS_KEY_FILE", path("secret"))
        .set("BCE_SESSION_TOKEN_FILE", path("token"));
    let provider = harness.started().await;
    write(["wrong", "wrong", "wrong"]);
    let is_fine = async || {
        provider
            .diagnose()
            .await
            .iter()
            .all(|finding| finding.severity == Severity::Ok)
    };
    assert!(
        !is_fine().await,
        "changed files are read for the next request"
    );
    write(TEMPORARY);
    assert!(is_fine().await);
    std::fs::remove_dir_all(&directory).unwrap();
    assert!(is_fine().await, "the last keys stay in use");
}

#[tokio::test(start_paused = true)]
async fn token_of_the_add_on_is_used_without_keys() {
    let directory = std::env::temp_dir().join(format!("baidu-plugin-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("token"), format!("{SECRET}\n")).unwrap();
    let harness = without_keys().set("CCE_PLUGIN_TOKEN_DIR", directory.to_str().unwrap());
    let config = Config::read(&harness.setup()).unwrap();
    assert!(matches!(config.credentials, Credentials::Plugin(_)));
    assert_eq!(config.gateway, "cce-gateway.bj.baidubce.com");
    let provider = harness.started().await;
    assert!(
        provider
            .diagnose()
            .await
            .iter()
            .all(|finding| finding.severity == Severity::Ok)
    );
    std::fs::remove_dir_all(directory).unwrap();
}

#[tokio::test(start_paused = true)]
async fn wrong_key_is_named_as_the_reason() {
    let harness = Harness::new();
    let provider = harness.set("SecretAccessKey", "wrong");
    let setup = provider.setup();
    let config = Config::read(&setup).unwrap();
    let connections = provider_baidu::PRODUCTS.map(|product| {
        provider_baidu::cloud(&config, &setup, product)
            .service(provider.fake.router())
            .build()
            .unwrap()
    });
    let cloud = provider_baidu::Baidu::new(config, connections, setup.fence);
    let context = provider.cluster.context(crate::harness::cluster());
    let error = cloud.initialize(&context).await.unwrap_err();
    assert!(
        error.to_string().contains("check the access key"),
        "{error}"
    );
    let findings = cloud.diagnose().await;
    assert!(
        findings
            .iter()
            .any(|finding| finding.severity == Severity::Failure && finding.check == "token"),
        "{findings:?}"
    );
}

#[test]
fn reference_page_has_the_tables_of_the_declarations() {
    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/providers/baidu.md");
    let page = std::fs::read_to_string(PAGE).unwrap();
    let tables = [
        ("keys", table("key", KEYS)),
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
            "CCM_WRITE_REFERENCE=1 cargo test -p provider-baidu writes the page"
        );
    }
    let accepted =
        |setting: &&dyn provider_kit::declared::Declared| setting.row().default_is_accepted;
    assert!(
        [KEYS, VARIABLES, annotations::ALL]
            .iter()
            .all(|all| all.iter().all(accepted))
    );
}
