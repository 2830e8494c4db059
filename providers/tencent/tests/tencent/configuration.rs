//! The configuration, credentials, and the reference page.

use cloud_provider::{CloudProvider, ConfigFile, Environment, Setup, Severity};
use provider_kit::declared::reference::{put, table};
use provider_kit::transport::in_process;
use provider_tencent::annotations;
use provider_tencent::config::{Config, KEYS, VARIABLES};
use serde_json::Value;
use tencent_fake::{Fault, KEY_ID, SECRET, TEMPORARY, router};

use crate::harness::{Harness, service};

const PREFIX: &str = "TENCENTCLOUD_CLOUD_CONTROLLER_MANAGER_";

#[test]
fn reference_page_has_the_tables_of_the_declarations() {
    const PAGE: &str = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/providers/tencent.md"
    );
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
            "CCM_WRITE_REFERENCE=1 cargo test --workspace --test tencent writes the page"
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

#[test]
fn file_has_precedence_over_the_variables_of_the_go_program() {
    let variables = [
        "REGION",
        "VPC_ID",
        "SECRET_ID",
        "SECRET_KEY",
        "CLUSTER_ROUTE_TABLE",
    ];
    let environment =
        Environment::of(variables.map(|name| (format!("{PREFIX}{name}"), format!("of-{name}"))));
    let setup = |text: &str| Setup {
        environment: environment.clone(),
        ..Setup::of(ConfigFile {
            path: "f".into(),
            text: text.into(),
        })
    };
    let config = Config::read(&setup(r#"{"vpc_id": "vpc-1"}"#)).unwrap();
    assert_eq!(
        (config.region.as_deref(), config.vpc.as_deref()),
        (Some("of-REGION"), Some("vpc-1"))
    );
    assert_eq!(
        (&*config.key.unwrap().0, config.route_table.as_deref()),
        ("of-SECRET_ID", Some("of-CLUSTER_ROUTE_TABLE"))
    );
    assert_eq!(config.metadata, "http://metadata.tencentyun.com");
    let config = Config::read(&setup(
        r#"{"endpoint_domain": "internal.tencentcloudapi.com"}"#,
    ))
    .unwrap();
    assert_eq!(
        config.endpoint("clb"),
        "https://clb.internal.tencentcloudapi.com"
    );
    for text in ["[", "[1]"] {
        assert!(
            Config::read(&setup(text)).unwrap_err().is_invalid(),
            "{text}"
        );
    }
}

#[test]
fn half_a_key_is_refused_without_showing_it() {
    let file = ConfigFile {
        path: "f".into(),
        text: r#"{"secret_key": "s3cret", "cluster_route_table_cidr": "x"}"#.into(),
    };
    let error = Config::read(&Setup::of(file)).unwrap_err().to_string();
    assert!(
        error.contains("secret_id") && error.contains("cluster_route_table_cidr"),
        "{error}"
    );
    assert!(!error.contains("s3cret"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn role_region_and_vpc_of_the_machine_come_from_its_metadata() {
    let harness = ["secret_id", "secret_key", "region", "vpc_id"]
        .iter()
        .fold(Harness::new(), |harness, key| {
            harness.with(key, Value::Null)
        });
    let provider = harness.started().await;
    let findings = provider.diagnose().await;
    assert!(
        findings
            .iter()
            .all(|finding| finding.severity == Severity::Ok),
        "{findings:?}"
    );
    harness.ensure(&provider, &mut service(&[])).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn oidc_role_is_assumed_with_the_token_in_the_file() {
    let token = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(token.path(), "token").unwrap();
    let harness = Harness::new()
        .with("secret_id", Value::Null)
        .with("secret_key", Value::Null);
    let harness = harness
        .set("TKE_REGION", "ap-guangzhou")
        .set("TKE_PROVIDER_ID", "cls-1-oidc");
    let harness = harness.set(
        "TKE_WEB_IDENTITY_TOKEN_FILE",
        token.path().to_str().unwrap(),
    );
    harness
        .set("TKE_ROLE_ARN", "qcs::cam::uin/1:roleName/ccm")
        .started()
        .await;
}

#[tokio::test(start_paused = true)]
async fn temporary_key_in_variables_sends_its_token() {
    let [id, key, token] = TEMPORARY;
    let harness = Harness::new()
        .with("secret_id", Value::Null)
        .with("secret_key", Value::Null);
    let harness = harness
        .set("TENCENTCLOUD_SECRET_ID", id)
        .set("TENCENTCLOUD_SECRET_KEY", key);
    harness
        .set("TENCENTCLOUD_SESSION_TOKEN", token)
        .started()
        .await;
}

#[tokio::test(start_paused = true)]
async fn wrong_keys_are_reported_with_the_setting_to_check() {
    for (id, key) in [("wrong", SECRET), (KEY_ID, "wrong")] {
        let harness = Harness::new().with("secret_id", id).with("secret_key", key);
        let error = harness
            .started_with(in_process(router(&harness.fake)))
            .await
            .err()
            .unwrap();
        assert!(
            error.to_string().contains("check the credential"),
            "{error}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn missing_permission_is_named_by_doctor() {
    let harness = Harness::new();
    let provider = harness.started().await;
    harness.fake.fault_injector().fail(Fault::code(
        "GET /clb/DescribeLoadBalancers",
        "UnauthorizedOperation",
    ));
    let findings = provider.diagnose().await;
    let failed = findings
        .iter()
        .find(|finding| finding.severity == Severity::Failure)
        .unwrap();
    assert!(
        failed
            .remedy
            .as_deref()
            .unwrap_or_default()
            .contains("clb:DescribeLoadBalancers"),
        "{failed:?}"
    );
}
