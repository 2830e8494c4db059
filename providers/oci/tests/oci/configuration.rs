//! Tests of the cloud configuration, of credentials, and of the reference page.

use std::sync::Arc;

use axum::body::Bytes;
use cloud_provider::{CloudProvider, ConfigFile, Environment, Setup};
use oci_fake::{FINGERPRINT, KEY, TENANCY, USER};
use parking_lot::Mutex;
use provider_kit::declared::reference::{put, table};
use provider_kit::transport::in_process;
use provider_oci::annotations;
use provider_oci::config::Config;
use tower::ServiceExt;

use crate::harness::{Harness, api_key, configuration};

fn setup(text: &str, variables: &[(&str, &str)]) -> Setup {
    let environment = Environment::of(variables.to_vec());
    Setup {
        environment,
        ..Setup::of(ConfigFile {
            path: "cloud-provider.yaml".into(),
            text: text.to_owned(),
        })
    }
}

fn mistakes(text: &str) -> String {
    Config::read(&setup(text, &[]))
        .err()
        .map_or_else(|| "none".to_owned(), |error| error.to_string())
}

#[test]
fn mistakes_of_the_cloud_configuration_are_reported_together() {
    let lb = "loadBalancer: {subnet1: ocid1.subnet.oc1.phx.a}";
    let table = [
        (String::new(), "auth.tenancy, auth.user, auth.fingerprint, auth.key are missing"),
        (String::new(), "loadBalancer.subnet1 and vcn are missing"),
        (format!("useInstancePrincipals: true\nuseWorkloadIdentity: true\n{lb}"), "are both set"),
        (format!("useWorkloadIdentity: true\n{lb}"), "none"),
        (format!("useInstancePrincipals: true\n{lb}"), "none"),
        ("useInstancePrincipals: true\nloadBalancer: {disabled: true}".to_owned(), "none"),
        ("auth: {useInstancePrincipals: true}\nvcn: ocid1.vcn.oc1.phx.a".to_owned(), "none"),
        (
            "useInstancePrincipals: true\nvcn: v\nloadBalancer: {securityListManagementMode: Some}".to_owned(),
            "\"Some\" is not one of All, Frontend, None",
        ),
        (
            "useInstancePrincipals: true\nloadBalancer: {disabled: true, securityListManagementMode: Some}".to_owned(),
            "none",
        ),
        ("auth: [".to_owned(), "neither valid JSON nor valid YAML"),
        ("useInstancePrincipals: s3cret".to_owned(), "useInstancePrincipals must be true or false, not a text"),
        ("UseInstancePrincipals: true\nVCN: 5".to_owned(), "none"),
        (
            "useInstancePrincipals: true\nvcn: v\ntags: {common: {freeform: n}}".to_owned(),
            ":3:27: tags.common.freeform must be keys with values, not a text",
        ),
    ];
    for (text, expected) in table {
        let found = mistakes(&text);
        assert!(
            found.contains(expected) && !found.contains("s3cret"),
            "{text}: {found}"
        );
    }
}

#[test]
fn former_places_of_keys_and_the_defaults_of_the_go_program_are_understood() {
    let text = "auth: {useInstancePrincipals: true, compartment: c, regionKey: phx, key_passphrase: x}\nvcn: v\n\
                loadBalancer: {disableSecurityListManagement: true}";
    let variables = [
        ("LOAD_BALANCER_PREFIX", "test"),
        ("CLUSTER_IP_FAMILY", "ipv6"),
        ("ENABLE_FLEX_CIDR_CONTROLLER", "1"),
    ];
    let config = Config::read(&setup(text, &variables)).unwrap();
    assert_eq!(
        (config.compartment.as_deref(), &*config.prefix),
        (Some("c"), "test-")
    );
    assert!(config.is_ipv6 && config.has_flex_cidr && config.tags_instances);
    assert_eq!(
        (config.security_mode, config.reads, config.writes),
        (
            annotations::SecurityMode::None,
            Some((20.0, 5)),
            Some((20.0, 5))
        )
    );
    let text = "useInstancePrincipals: true\nvcn: v\n\
                loadBalancer: {disableSecurityListManagement: true, securityListManagementMode: Frontend}";
    let config = Config::read(&setup(text, &[("LOAD_BALANCER_PREFIX", "a--")])).unwrap();
    assert_eq!(
        (config.security_mode, &*config.prefix),
        (annotations::SecurityMode::Frontend, "a--")
    );
    let text = "useInstancePrincipals: true\nvcn: v\nrateLimiter: {rateLimitQPSRead: 0.5, rateLimitBucketWrite: 9}";
    let config = Config::read(&setup(text, &[])).unwrap();
    assert_eq!(
        (config.reads, config.writes),
        (Some((0.5, 5)), Some((20.0, 9)))
    );
    let text = "useInstancePrincipals: true\nvcn: v\nrateLimiter: {disableRateLimiter: true}";
    assert_eq!(Config::read(&setup(text, &[])).unwrap().reads, None);
}

#[tokio::test(start_paused = true)]
async fn profile_of_oracles_command_line_signs_requests() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    std::fs::write(path("key.pem"), KEY).unwrap();
    let profile = format!(
        "[DEFAULT]\ntenancy={TENANCY}\nregion=us-phoenix-1\n\n[ccm]\nuser={USER}\nfingerprint={FINGERPRINT}\nkey_file={}\n",
        path("key.pem")
    );
    std::fs::write(path("config"), profile).unwrap();
    let harness = Harness::new();
    let auth = |name: &str| format!("  configFile: {}\n  profile: {name}\n", path("config"));
    harness
        .started_with(
            configuration(&auth("ccm"), "http://oci"),
            &[],
            &in_process(harness.fake.router()),
        )
        .await;
    let setup = setup(&configuration(&auth("other"), "http://oci"), &[]);
    let provider = provider_oci::Oci::new(
        Config::read(&setup).unwrap(),
        &setup,
        &in_process(harness.fake.router()),
    );
    let error = provider
        .unwrap()
        .initialize(&harness.context())
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("has no user") || error.to_string().contains("has no key_file"),
        "{error}"
    );
    assert!(
        error.chain().any(cloud_provider::Error::is_unauthorized),
        "the mistake is one of the credential: {error:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn region_and_realm_decide_about_the_addresses_of_the_apis() {
    for (region, variables, expected) in [
        (
            "iad",
            [].as_slice(),
            "identity.us-ashburn-1.oci.oraclecloud.com",
        ),
        (
            "EU-Frankfurt-1",
            &[],
            "identity.eu-frankfurt-1.oci.oraclecloud.com",
        ),
        ("vll", &[], "identity.eu-madrid-2.oci.oraclecloud.eu"),
        (
            "us-gov-phoenix-1",
            &[],
            "identity.us-gov-phoenix-1.oci.oraclegovcloud.com",
        ),
        (
            "xx-new-1",
            &[("OCI_DEFAULT_REALM", "oraclecloud99.com")],
            "identity.xx-new-1.oci.oraclecloud99.com",
        ),
    ] {
        let harness = Harness::new();
        let router = harness.fake.router();
        let hosts = Arc::<Mutex<Vec<String>>>::default();
        let seen = Arc::clone(&hosts);
        let connector = in_process(tower::service_fn(
            move |request: axum::http::Request<http_body_util::Full<Bytes>>| {
                seen.lock().extend(request.uri().host().map(str::to_owned));
                router.clone().oneshot(request.map(axum::body::Body::new))
            },
        ));
        let text = configuration(&api_key(TENANCY, KEY).replace("us-phoenix-1", region), "");
        harness.started_with(text, variables, &connector).await;
        assert_eq!(hosts.lock().first().map(String::as_str), Some(expected));
    }
}

#[tokio::test(start_paused = true)]
async fn encrypted_key_needs_its_passphrase() {
    const ENCRYPTED: &str = include_str!("encrypted.pem");
    let harness = Harness::new();
    for (key, passphrase, expected) in [
        ("passphrase", "", "set auth.passphrase"),
        ("passphrase", "wrong", "check auth.passphrase"),
        ("passphrase", "s3cret", "none"),
        ("key_passphrase", "s3cret", "none"),
        ("key_passphrase: other\n  passphrase", "s3cret", "none"),
    ] {
        let auth = format!("{}  {key}: \"{passphrase}\"\n", api_key(TENANCY, ENCRYPTED));
        let setup = setup(&configuration(&auth, "http://oci"), &[]);
        let config = Config::read(&setup).unwrap();
        let provider =
            provider_oci::Oci::new(config, &setup, &in_process(harness.fake.router())).unwrap();
        let outcome = provider.initialize(&harness.context()).await;
        let text = outcome
            .err()
            .map_or_else(|| "none".to_owned(), |error| error.to_string());
        assert!(
            text.contains(expected) && !text.contains("s3cret"),
            "{text}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn key_that_the_cloud_refuses_is_read_again_from_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory
        .path()
        .join("cloud-provider.yaml")
        .display()
        .to_string();
    let text = configuration(&api_key(TENANCY, KEY), "http://oci");
    std::fs::write(&path, &text).unwrap();
    let old = text.replace(FINGERPRINT, "00:00");
    let harness = Harness::new();
    let setup = Setup::of(ConfigFile { path, text: old });
    let provider = provider_oci::Oci::new(
        Config::read(&setup).unwrap(),
        &setup,
        &in_process(harness.fake.router()),
    );
    provider
        .unwrap()
        .initialize(&harness.context())
        .await
        .unwrap();
}

#[test]
fn reference_page_has_the_tables_of_the_declarations() {
    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/providers/oci.md");
    let page = std::fs::read_to_string(PAGE).unwrap();
    let all = [
        ("annotations", annotations::GENERAL),
        ("load-balancer-annotations", annotations::LOAD_BALANCER),
        ("network-annotations", annotations::NETWORK),
    ];
    let write = |page: String,
                 (name, all): (
        &str,
        &'static [&'static dyn provider_kit::declared::Declared],
    )| { put(&page, name, &table("annotation", all)).expect("a place for it") };
    let fresh = all.into_iter().fold(page.clone(), write);
    if std::env::var_os("CCM_WRITE_REFERENCE").is_some() {
        std::fs::write(PAGE, &fresh).unwrap();
    } else {
        assert_eq!(
            page, fresh,
            "CCM_WRITE_REFERENCE=1 cargo test --workspace --test oci writes the page"
        );
    }
    assert!(
        all.iter()
            .all(|(_, all)| all.iter().all(|setting| setting.row().default_is_accepted))
    );
}
