//! Tests of the configuration file, of credentials and of the reference page.

use parking_lot::Mutex;
use std::sync::Arc;

use axum::Router;
use axum::routing::any;
use cloud_provider::{CloudProvider, ConfigFile, Environment, Reload, Setup};
use http::Request;
use provider_azure::config::{Config, RateLimit};
use provider_azure::{Azure, annotations, factory, ipam};
use provider_kit::declared::reference::{put, table};
use provider_kit::transport::Refill;
use serde_json::{Value, json};

use crate::harness::{Form, Harness, cluster, service};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/providers/azure.md");

#[test]
fn page_has_the_table_that_the_declarations_make() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let tables = [
        ("annotations", table("annotation", annotations::ALL)),
        ("flags", table("flag", ipam::FLAGS)),
    ];
    let fresh = tables.iter().fold(page.clone(), |page, (name, table)| {
        put(&page, name, table).expect("the lines that say where the table is")
    });
    if std::env::var_os("CCM_WRITE_REFERENCE").is_some() {
        std::fs::write(PAGE, &fresh).unwrap();
        return;
    }
    assert!(
        page == fresh,
        "the page is old: CCM_WRITE_REFERENCE=1 cargo test -p provider-azure writes it"
    );
}

fn mistakes(config: &Value) -> String {
    let harness = Harness::new(Form::Addresses).with(config.clone());
    factory(&harness.setup())
        .err()
        .map_or_else(|| "none".to_owned(), |error| error.to_string())
}

#[test]
fn settings_that_are_not_supported_are_refused_by_name() {
    let table = [
        (json!({}), "none"),
        (
            json!({"subscriptionId": "", "location": ""}),
            "subscriptionId is missing; location is missing",
        ),
        (
            json!({"cloud": "Mars"}),
            "AzurePublicCloud, AzureChinaCloud, AzureUSGovernmentCloud, AzureStackCloud",
        ),
        (
            json!({"cloud": "AzureStackCloud"}),
            "AZURE_ENVIRONMENT_FILEPATH",
        ),
        (json!({"cloud": "azurechinacloud"}), "none"),
        (json!({"loadBalancerSku": "Standard"}), "none"),
        (
            json!({"loadBalancerSku": "basic"}),
            "basic needs loadBalancerBackendPoolConfigurationType: nodeIPConfiguration",
        ),
        (
            json!({"loadBalancerSku": "huge"}),
            "only standard and basic",
        ),
        (json!({"loadBalancerSku": "service"}), "service gateway"),
        (json!({"serviceGatewayEnabled": true}), "service gateway"),
        (
            json!({"loadBalancerBackendPoolConfigurationType": "podIP"}),
            "service gateway",
        ),
        (
            json!({"multipleStandardLoadBalancerConfigurations": [{"name": "a"}]}),
            "each needs name and primaryVMSet",
        ),
        (
            json!({"loadBalancerBackendPoolConfigurationType": "nodeIPConfiguration",
                "multipleStandardLoadBalancerConfigurations": [{"name": "a", "primaryVMSet": "a"}]}),
            "needs loadBalancerBackendPoolConfigurationType: nodeIP",
        ),
        (
            json!({"preConfiguredBackendPoolLoadBalancerTypes": "some"}),
            "only internal, external and all",
        ),
        (
            json!({"auxiliaryTokenProvider": {"vaultName": "keys"}}),
            "needs subscriptionID, resourceGroup",
        ),
        (
            json!({"cloudConfigType": "vault"}),
            "only file, secret and merge",
        ),
        (
            json!({"tagsMap": "a"}),
            "tagsMap must be keys with values, not a text",
        ),
        (
            json!({"useManagedIdentityExtension": "perhaps"}),
            "useManagedIdentityExtension must be true or false, not a text",
        ),
        (
            json!({"maximumLoadBalancerRuleCount": "a"}),
            "maximumLoadBalancerRuleCount must be a whole number from 0 to",
        ),
        (json!({"location": 7}), "none"),
        (
            json!({"vmCacheTTLInSeconds": 60, "cloudProviderBackoff": true, "loadBalancerRateLimit": {}}),
            "none",
        ),
    ];
    for (config, expected) in table {
        let text = mistakes(&config);
        assert!(text.contains(expected), "{config}: {text}");
    }
}

#[test]
fn each_type_of_resources_has_its_own_limit_or_that_of_all_or_the_documented_one() {
    let limit = |value: Value| serde_json::from_value::<RateLimit>(value).unwrap();
    let all = limit(json!({"cloudProviderRateLimit": true, "cloudProviderRateLimitQPS": 2.0}));
    let own =
        limit(json!({"cloudProviderRateLimitQPSWrite": 4, "cloudProviderRateLimitBucketWrite": 7}));
    let off = limit(json!({"cloudProviderRateLimit": false}));
    for (own, all, writes, expected) in [
        (RateLimit::default(), RateLimit::default(), false, (40, 250)),
        (RateLimit::default(), RateLimit::default(), true, (100, 200)),
        (RateLimit::default(), all, false, (500, 5)),
        (RateLimit::default(), all, true, (500, 5)),
        (own, all, true, (250, 7)),
        (off, all, true, (100, 200)),
    ] {
        let Refill::Stated { interval, burst } = own.budget(&all, writes).refill else {
            panic!("a stated limit")
        };
        assert_eq!(
            (interval.as_millis(), burst),
            expected,
            "{own:?} {all:?} {writes}"
        );
    }
}

#[tokio::test]
async fn changed_file_is_in_use_unless_it_changes_what_is_the_clusters() {
    let harness = Harness::new(Form::Addresses);
    let provider = harness.started().await;
    for (more, expected) in [
        (
            json!({"aadClientSecret": "other", "useManagedIdentityExtension": true}),
            Some(Reload::Done),
        ),
        (
            json!({"tags": "a=b", "disableOutboundSNAT": true}),
            Some(Reload::Done),
        ),
        (
            json!({"securityGroupName": "other", "tags": "a=b"}),
            Some(Reload::NeedsRestart),
        ),
        (json!({"cloud": "Mars"}), None),
    ] {
        let file = Harness::new(Form::Addresses)
            .with(more.clone())
            .setup()
            .config
            .unwrap();
        assert_eq!(provider.reload(&file).await.ok(), expected, "{more}");
    }
}

#[tokio::test(start_paused = true)]
async fn changed_setting_counts_with_the_next_sync_and_a_removed_one_no_longer() {
    let harness = Harness::new(Form::Addresses);
    let provider = harness.started().await;
    let web = service("web", &[80], &[], &Value::Null);
    let snat = async |config: Value| {
        let file = Harness::new(Form::Addresses)
            .with(config)
            .setup()
            .config
            .unwrap();
        provider.reload(&file).await.unwrap();
        harness.ensure(&provider, &web).await.unwrap();
        harness.balancer("kubernetes")["properties"]["loadBalancingRules"][0]["properties"]["disableOutboundSnat"]
            == true
    };
    assert!(!snat(json!({})).await);
    assert!(snat(json!({"disableOutboundSNAT": true, "securityGroupName": "other"})).await);
    assert!(!snat(json!({})).await);
}

/// The requests for tokens: path, headers and body.
type Log = Arc<Mutex<Vec<(String, String)>>>;

/// Starts a provider with this credential, and returns the requests for tokens.
async fn token_requests(config: &Value, variables: &[(&str, &str)]) -> Vec<(String, String)> {
    let log = Log::default();
    let harness = Harness::new(Form::Addresses).with(config.clone());
    let seen = Arc::clone(&log);
    let fake = harness.fake.router();
    let router = Router::new().fallback(any(move |request: Request<axum::body::Body>| {
        let seen = Arc::clone(&seen); let fake = fake.clone();
        async move {
            let path = request.uri().path().to_owned();
            if path.contains("/subscriptions/") && !path.contains("/Microsoft.KeyVault/") {
                return tower_call(fake, request).await;
            }
            let (head, body) = request.into_parts();
            let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
            let marks = ["metadata", "x-identity-header"]
                .map(|name| head.headers.get(name).map_or("", |header| header.to_str().unwrap()).to_owned());
            let place = format!("{} {} {}", head.method, head.uri, marks.join(""));
            seen.lock().push((place, String::from_utf8_lossy(&body).into_owned()));
            let token = json!({"access_token": "fake-token", "expires_in": 3600, "expires_on": "1"});
            let answer = match &*path {
                "/metadata/endpoints" => json!([{"name": "AzureStackCloud", "resourceManager": "https://manage.local/",
                    "authentication": {"loginEndpoint": "https://login.local/", "audiences": ["https://manage.local/id"]}}]),
                object if object.contains("/vaults/") => json!({"properties": {"vaultUri": "https://keys.vault.azure.net/"}}),
                text if text.contains("/secrets/") => {
                    json!({"value": r#"{"access_token": "fake-token", "expires_on": "2030-01-01T00:00:00Z"}"#})
                }
                _ => token,
            };
            axum::response::IntoResponse::into_response(([("content-type", "application/json")], answer.to_string()))
        }
    }));
    let setup = Setup {
        environment: Environment::of(variables.to_vec()),
        ..harness.setup()
    };
    let provider = Azure::new(&setup, move |http| http.service(router.clone())).unwrap();
    provider
        .initialize(&harness.cluster.context(cluster()))
        .await
        .unwrap();
    // Reads resources of the network, too.
    provider.diagnose().await;
    log.lock().clone()
}

async fn tower_call(
    router: Router,
    request: Request<axum::body::Body>,
) -> axum::response::Response {
    use tower::ServiceExt;
    router.oneshot(request).await.unwrap()
}

#[tokio::test]
async fn each_credential_asks_for_tokens_in_its_own_way() {
    let file = std::env::temp_dir().join(format!("azure-federated-{}", std::process::id()));
    std::fs::write(&file, "signed-by-the-cluster\n").unwrap();
    let path = file.to_str().unwrap();
    let none = json!({"aadClientSecret": "", "aadClientId": ""});
    let with = |more: Value| {
        let mut config = none.clone();
        more.as_object()
            .unwrap()
            .iter()
            .for_each(|(key, value)| config[key] = value.clone());
        config
    };
    let secret = token_requests(&json!({}), &[]).await;
    assert!(
        secret[0].0.starts_with(
            "POST https://login.microsoftonline.com/00000000-0000-0000-0000-00000000000a/oauth2/v2.0/token"
        ),
        "{secret:?}"
    );
    assert!(
        secret[0].1.contains("grant_type=client_credentials")
            && secret[0].1.contains("client_secret=fake-secret")
    );
    assert!(
        secret[0]
            .1
            .contains("scope=https%3A%2F%2Fmanagement.azure.com%2F.default"),
        "{secret:?}"
    );
    let variables = [
        ("AZURE_CLIENT_ID", "workload"),
        ("AZURE_FEDERATED_TOKEN_FILE", path),
    ];
    let workload = token_requests(
        &with(json!({"useFederatedWorkloadIdentityExtension": true})),
        &variables,
    )
    .await;
    assert!(
        workload[0].1.contains("client_id=workload")
            && workload[0]
                .1
                .contains("client_assertion=signed-by-the-cluster")
    );
    let managed = token_requests(
        &with(json!({"useManagedIdentityExtension": true, "userAssignedIdentityID": "id-1"})),
        &[],
    )
    .await;
    assert!(
        managed[0]
            .0
            .starts_with("GET http://169.254.169.254/metadata/identity/oauth2/token?api-version=2018-02-01&resource="),
        "{managed:?}"
    );
    assert!(
        managed[0].0.contains("client_id=id-1") && managed[0].0.ends_with(" true"),
        "{managed:?}"
    );
    let variables = [
        ("IDENTITY_ENDPOINT", "http://127.0.0.1:1/msi/token"),
        ("IDENTITY_HEADER", "proof"),
    ];
    let app = token_requests(
        &with(json!({"useManagedIdentityExtension": true})),
        &variables,
    )
    .await;
    assert!(
        app[0].0.contains("/msi/token?api-version=2019-08-01") && app[0].0.ends_with(" proof"),
        "{app:?}"
    );
}

#[tokio::test]
async fn custom_cloud_shows_its_own_endpoints() {
    let config =
        json!({"cloud": "AzureStackCloud", "resourceManagerEndpoint": "https://custom.local"});
    let requests = token_requests(&config, &[]).await;
    assert_eq!(
        requests[0].0,
        "GET https://custom.local/metadata/endpoints?api-version=2019-05-01 "
    );
    assert!(
        requests[1]
            .0
            .starts_with("POST https://login.local/00000000-"),
        "{requests:?}"
    );
    assert!(
        requests[1]
            .1
            .contains("scope=https%3A%2F%2Fmanage.local%2Fid%2F.default"),
        "{requests:?}"
    );
    assert_eq!(requests.len(), 2, "the endpoints are kept");
    let other =
        json!({"cloud": "AzureChinaCloud", "resourceManagerEndpoint": "https://custom.local"});
    let requests = token_requests(&other, &[]).await;
    assert!(
        requests[1]
            .0
            .starts_with("POST https://login.chinacloudapi.cn/"),
        "no such cloud is shown: {requests:?}"
    );
}

#[tokio::test]
async fn managed_identity_takes_tokens_of_the_network_tenant_from_a_vault() {
    let config = json!({
        "aadClientId": "", "aadClientSecret": "", "useManagedIdentityExtension": true, "networkResourceTenantID": "other",
        "auxiliaryTokenProvider": {
            "subscriptionID": "s", "resourceGroup": "keys", "vaultName": "keys", "secretName": "token",
        },
    });
    let requests = token_requests(&config, &[]).await;
    let places: Vec<&str> = requests.iter().map(|(place, _)| &**place).collect();
    let vault = "https://management.azure.com/subscriptions/s/resourceGroups/keys/providers/Microsoft.KeyVault/vaults/keys";
    assert!(
        places
            .iter()
            .any(|text| text.starts_with(&format!("GET {vault}?api-version="))),
        "{places:#?}"
    );
    assert!(
        places
            .iter()
            .any(|text| text.contains("&resource=https%3A%2F%2Fvault.azure.net")),
        "{places:#?}"
    );
    assert!(
        places.contains(&"GET https://keys.vault.azure.net/secrets/token?api-version=7.4 "),
        "{places:#?}"
    );
}

#[tokio::test]
async fn certificate_in_another_form_than_pem_is_refused_with_the_command_that_converts_it() {
    let file = std::env::temp_dir().join(format!("azure-certificate-{}.pfx", std::process::id()));
    std::fs::write(&file, [0x30, 0x82, 0xff, 0xfe]).unwrap();
    let config = json!({"aadClientSecret": "", "aadClientCertPath": file.to_str().unwrap()});
    let harness = Harness::new(Form::Addresses).with(config);
    let router = harness.fake.router();
    let provider = Azure::new(&harness.setup(), move |http| http.service(router.clone())).unwrap();
    let error = provider
        .initialize(&harness.cluster.context(cluster()))
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("aadClientCertPath") && error.contains("openssl pkcs12 -in"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn machines_of_another_tenant_join_pools_with_a_token_of_each() {
    let harness = Harness::new(Form::ScaleSet).with(json!({"networkResourceTenantID": "other"}));
    let log = Log::default();
    let fake = harness.fake.router();
    let seen = Arc::clone(&log);
    let router = Router::new().fallback(any(move |request: Request<axum::body::Body>| {
        let seen = Arc::clone(&seen);
        let fake = fake.clone();
        async move {
            if request.uri().path().contains("/oauth2/") {
                let answer = json!({"access_token": "fake-token", "expires_in": 3600}).to_string();
                return axum::response::IntoResponse::into_response((
                    [("content-type", "application/json")],
                    answer,
                ));
            }
            let auxiliary = request.headers().get("x-ms-authorization-auxiliary");
            let auxiliary =
                auxiliary.map_or(String::new(), |header| header.to_str().unwrap().to_owned());
            seen.lock().push((
                format!("{} {}", request.method(), request.uri().path()),
                auxiliary,
            ));
            tower_call(fake, request).await
        }
    }));
    let provider = harness
        .started_with(move |http| http.service(router.clone()))
        .await;
    harness
        .ensure(&provider, &service("web", &[80], &[], &Value::Null))
        .await
        .unwrap();
    let log = log.lock();
    let joins = |text: &str| text.starts_with("PUT ") && text.contains("/virtualMachineScaleSets/");
    assert!(
        log.iter().filter(|(place, _)| joins(place)).count() > 1,
        "{log:#?}"
    );
    assert!(
        log.iter().all(|(place, token)| token
            == if joins(place) {
                "Bearer fake-token"
            } else {
                ""
            }),
        "{log:#?}"
    );
}

#[tokio::test]
async fn renewed_secret_is_read_from_the_file_and_a_wrong_one_is_explained_without_it() {
    let harness = Harness::new(Form::Addresses).with(json!({"aadClientSecret": "wrong-secret"}));
    let path = std::env::temp_dir().join(format!("azure-{}.json", std::process::id()));
    let path = path.to_str().unwrap().to_owned();
    let wrong = harness.setup().config.unwrap().text;
    std::fs::write(&path, &wrong).unwrap();
    let router = harness.fake.router();
    let setup = Setup::of(ConfigFile {
        path: path.clone(),
        text: wrong.clone(),
    });
    let start = async |setup: &Setup| {
        let router = router.clone();
        let provider = Azure::new(setup, move |http| http.service(router.clone())).unwrap();
        provider
            .initialize(&harness.cluster.context(cluster()))
            .await
    };
    let error = start(&setup).await.unwrap_err().to_string();
    assert!(
        error.contains("credential in the cloud configuration") && !error.contains("wrong-secret"),
        "{error}"
    );
    std::fs::write(&path, wrong.replace("wrong-secret", azure_fake::CLIENT.1)).unwrap();
    start(&setup).await.unwrap();
}

fn put_secret(harness: &Harness, config: &Value) {
    let data = base64::Engine::encode(
        &base64::engine::general_purpose::STANDARD,
        config.to_string(),
    );
    harness
        .cluster
        .set_document(SECRET, json!({"data": {"cloud-config": data}}).to_string());
}

const SECRET: &str = "/api/v1/namespaces/kube-system/secrets/azure-cloud-provider";

#[tokio::test(start_paused = true)]
async fn changed_secret_is_used_within_a_minute_and_a_wrong_one_is_not() {
    let harness = Harness::new(Form::Addresses);
    let mut config: Value = serde_json::from_str(&harness.setup().config.unwrap().text).unwrap();
    put_secret(&harness, &config);
    let flags = Environment::of([("--enable-dynamic-reloading", "true")]);
    let router = harness.fake.router();
    let setup = Setup {
        flags,
        ..Setup::default()
    };
    let provider = Azure::new(&setup, move |http| http.service(router.clone())).unwrap();
    provider.initialize(&harness.context()).await.unwrap();
    provider.set_caches(Arc::new(harness.cluster.clone()));
    let web = service("web", &[80], &[], &Value::Null);
    for (key, value, expected) in [
        ("disableOutboundSNAT", json!(true), true),
        ("disableOutboundSNAT", json!("odd"), true),
        ("disableOutboundSNAT", json!(false), false),
    ] {
        config[key] = value;
        put_secret(&harness, &config);
        tokio::time::sleep(std::time::Duration::from_secs(61)).await;
        harness.ensure(&provider, &web).await.unwrap();
        let rule = harness.balancer("kubernetes")["properties"]["loadBalancingRules"][0].clone();
        assert_eq!(
            rule["properties"]["disableOutboundSnat"] == true,
            expected,
            "{rule}"
        );
    }
}

#[tokio::test]
async fn configuration_is_read_from_a_secret_and_merged_with_the_file() {
    let harness = Harness::new(Form::Addresses);
    let whole: Value = serde_json::from_str(&harness.setup().config.unwrap().text).unwrap();
    let mut file = whole.clone();
    let mut secret = json!({});
    file["cloudConfigType"] = "merge".into();
    for key in ["aadClientId", "aadClientSecret"] {
        secret[key] = file.as_object_mut().unwrap().remove(key).unwrap();
    }
    let flags = Environment::of([("--cloud-config-secret-name", "azure-cloud-provider")]);
    let file = ConfigFile {
        path: "azure.json".into(),
        text: file.to_string(),
    };
    for (config, in_secret) in [(None, &whole), (Some(file), &secret)] {
        let router = harness.fake.router();
        let setup = Setup {
            config,
            flags: flags.clone(),
            ..Setup::default()
        };
        let provider = Azure::new(&setup, move |http| http.service(router.clone())).unwrap();
        harness.cluster.remove_document(SECRET);
        let error = provider
            .initialize(&harness.cluster.context(cluster()))
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains("allow ServiceAccount"), "{error}");
        put_secret(&harness, in_secret);
        provider
            .initialize(&harness.cluster.context(cluster()))
            .await
            .unwrap();
        assert!(provider.load_balancers().is_some() && provider.routes().is_some());
    }
}

fn read(text: &str) -> Config {
    let file = ConfigFile {
        path: "azure.json".into(),
        text: text.into(),
    };
    Config::read(&Setup::of(file)).unwrap()
}

#[test]
fn keys_of_published_files_are_read_in_their_spelling() {
    let required = r#""subscriptionID": "s", "resourcegroup": "g", "location": "l""#;
    let config = read(&format!(
        r#"{{{required}, "excludeMasterFromStandardLB": false, "cloudProviderRatelimit": true, "VNetName": 7}}"#
    ));
    assert_eq!(config.file.exclude_master_from_standard_lb, Some(false));
    assert_eq!(config.file.rate_limit.cloud_provider_rate_limit, Some(true));
    assert_eq!(
        (&*config.file.subscription_id, &*config.file.vnet_name),
        ("s", "7")
    );
    let misspelt = read(&format!(
        r#"{{{required}, "excludeMasterFromStandardLoadBalancer": false}}"#
    ));
    assert_eq!(misspelt.file.exclude_master_from_standard_lb, None);
}
