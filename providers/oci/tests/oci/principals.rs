//! Instance principals and workload identities: the exchanges by which session keys are signed for.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use cloud_provider::{CloudProvider, ConfigFile, Environment, Setup};
use parking_lot::Mutex;
use provider_kit::transport::in_process;
use provider_oci::Oci;
use provider_oci::config::Config;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::harness::{Harness, service};

const CERTIFICATE: &str = include_str!("instance.pem");
const CERTIFICATE_KEY: &str = include_str!("instance-key.pem");

/// The services beside the APIs, and the requests that they got.
#[derive(Clone, Default)]
struct Neighbours {
    requests: Arc<Mutex<Vec<(String, HeaderMap, String)>>>,
    issued: Arc<Mutex<u64>>,
}

impl Neighbours {
    /// Issues a token for a public key, with which the fake then accepts signatures.
    fn issue(&self, harness: &Handle, public: &str) -> String {
        *self.issued.lock() += 1;
        let expires = jiff::Timestamp::now().as_second() + 3600;
        let claims = URL_SAFE_NO_PAD
            .encode(json!({"exp": expires, "number": *self.issued.lock()}).to_string());
        let token = format!("e30.{claims}.c2ln");
        // The fake wants the key in the form PKCS #1: without the 24 bytes of the algorithm before it.
        let der = STANDARD.decode(public).unwrap()[24..].to_vec();
        harness
            .lock()
            .keys
            .get_or_insert_with(BTreeMap::new)
            .insert(format!("ST${token}"), der);
        token
    }
}

type Handle = oci_fake::Handle<oci_fake::Oracle>;

async fn answer(
    State((neighbours, fake)): State<(Neighbours, Handle)>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, String) {
    let text = String::from_utf8_lossy(&body).into_owned();
    neighbours
        .requests
        .lock()
        .push((format!("{method} {}", uri.path()), headers, text.clone()));
    let parsed: Value = serde_json::from_str(&text).unwrap_or_default();
    let answer = match uri.path() {
        "/opc/v2/instance/" => oci_fake::instance().to_string(),
        "/opc/v2/identity/cert.pem" | "/opc/v2/identity/intermediate.pem" => CERTIFICATE.to_owned(),
        "/opc/v2/identity/key.pem" => CERTIFICATE_KEY.to_owned(),
        "/v1/x509" => {
            json!({"token": neighbours.issue(&fake, parsed["publicKey"].as_str().unwrap())})
                .to_string()
        }
        "/oauth2/v1/token" => {
            let fields: BTreeMap<String, String> = form(&text);
            json!({"token": neighbours.issue(&fake, &fields["public_key"])}).to_string()
        }
        "/resourcePrincipalSessionTokens" => {
            let token = neighbours.issue(&fake, parsed["podKey"].as_str().unwrap());
            json!(STANDARD.encode(json!({"token": format!("ST${token}")}).to_string())).to_string()
        }
        _ => return (StatusCode::NOT_FOUND, String::new()),
    };
    (StatusCode::OK, answer)
}

fn form(text: &str) -> BTreeMap<String, String> {
    let decoded = |text: &str| {
        let mut bytes = Vec::new();
        let mut rest = text.bytes();
        while let Some(byte) = rest.next() {
            bytes.push(match byte {
                b'+' => b' ',
                b'%' => {
                    let digits = [rest.next().unwrap(), rest.next().unwrap()];
                    u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()
                }
                other => other,
            });
        }
        String::from_utf8(bytes).unwrap()
    };
    text.split('&')
        .filter_map(|pair| pair.split_once('='))
        .map(|(key, value)| (decoded(key), decoded(value)))
        .collect()
}

/// Returns the provider with this configuration and these variables, and the services that it uses.
fn provider(harness: &Harness, text: &str, variables: &[(&str, &str)]) -> (Oci, Neighbours) {
    let neighbours = Neighbours::default();
    let apis = harness.fake.router();
    let others = Router::new().fallback(answer);
    let others = others.with_state((neighbours.clone(), harness.fake.clone()));
    let is_api = |path: &str| {
        ["/2016", "/2017", "/2020"]
            .iter()
            .any(|version| path.starts_with(version))
    };
    let both = tower::service_fn(
        move |request: axum::http::Request<http_body_util::Full<Bytes>>| {
            let router = if is_api(request.uri().path()) {
                apis.clone()
            } else {
                others.clone()
            };
            router.oneshot(request.map(axum::body::Body::new))
        },
    );
    let mut all = vec![("OCI_METADATA_BASE_URL", "http://metadata/opc/v2")];
    all.extend_from_slice(variables);
    let file = ConfigFile {
        path: "cloud-provider.yaml".into(),
        text: text.to_owned(),
    };
    let setup = Setup {
        environment: Environment::of(all),
        ..Setup::of(file)
    };
    let provider = Oci::new(Config::read(&setup).unwrap(), &setup, &in_process(both)).unwrap();
    (provider, neighbours)
}

const SUBNET: &str = "loadBalancer: {subnet1: ocid1.subnet.oc1.phx.balancers}\n";

#[tokio::test]
async fn certificate_of_the_instance_is_exchanged_for_a_session() {
    let harness = Harness::new();
    let (provider, neighbours) = provider(
        &harness,
        &format!("useInstancePrincipals: true\n{SUBNET}"),
        &[],
    );
    provider.initialize(&harness.context()).await.unwrap();
    let requests = neighbours.requests.lock().clone();
    let (_, headers, body) = requests
        .iter()
        .find(|(route, ..)| route == "POST /v1/x509")
        .unwrap();
    let authorization = headers["authorization"].to_str().unwrap();
    assert!(
        authorization.contains("keyId=\"ocid1.tenancy.oc1..test/fed-x509-sha256/"),
        "{authorization}"
    );
    let covered = "headers=\"date (request-target) content-length content-type x-content-sha256\"";
    assert!(authorization.contains(covered), "{authorization}");
    let body: Value = serde_json::from_str(body).unwrap();
    assert_eq!(
        (
            &body["fingerprintAlgorithm"],
            body["intermediateCertificates"].as_array().map(Vec::len)
        ),
        (&json!("SHA256"), Some(1))
    );
    assert!(
        !body["certificate"].as_str().unwrap().contains(['\n', '-']),
        "without armour"
    );
    let metadata = requests
        .iter()
        .find(|(route, ..)| route == "GET /opc/v2/identity/cert.pem")
        .unwrap();
    assert_eq!(metadata.1["authorization"], "Bearer Oracle");
}

#[tokio::test]
async fn token_of_the_service_account_is_exchanged_at_the_identity_domain() {
    let harness = Harness::new();
    let directory = tempfile::tempdir().unwrap();
    let token = directory.path().join("token").display().to_string();
    std::fs::write(&token, "kubernetes-token\n").unwrap();
    let text = format!("useWorkloadIdentity: true\nauth: {{region: us-phoenix-1}}\n{SUBNET}");
    let variables = [
        ("OCI_WORKLOAD_IDENTITY_DOMAIN_URL", "http://domain"),
        ("OCI_WORKLOAD_IDENTITY_RESOURCE_TYPE", "ccm"),
        ("OCI_WORKLOAD_IDENTITY_CLIENT_ID", "client"),
        ("OCI_WORKLOAD_IDENTITY_CLIENT_SECRET", "s3cret"),
        ("OCI_WORKLOAD_IDENTITY_TOKEN_PATH", &token),
    ];
    let (first, neighbours) = provider(&harness, &text, &variables);
    first.initialize(&harness.context()).await.unwrap();
    let (_, headers, body) = neighbours
        .requests
        .lock()
        .iter()
        .find(|(route, ..)| route == "POST /oauth2/v1/token")
        .cloned()
        .unwrap();
    assert_eq!(
        headers["authorization"],
        format!("Basic {}", STANDARD.encode("client:s3cret"))
    );
    let fields = form(&body);
    assert_eq!(
        (&*fields["subject_token"], &*fields["res_type"]),
        ("kubernetes-token", "ccm")
    );
    assert_eq!(
        fields["requested_token_type"],
        "urn:oci:token-type:oci-rpst"
    );

    let (second, _) = provider(&harness, &text, &variables[..2]);
    let error = second
        .initialize(&harness.context())
        .await
        .unwrap_err()
        .to_string();
    assert!(
        !error.contains("s3cret") && error.contains("OCI_WORKLOAD_IDENTITY_")
            || error.contains("cannot be read"),
        "{error}"
    );
}

#[tokio::test]
async fn service_is_managed_by_the_identity_of_its_service_account() {
    let harness = Harness::new();
    let path = "/api/v1/namespaces/default/serviceaccounts/web/token";
    harness.cluster.set_document(
        path,
        json!({"status": {"token": "account-token"}}).to_string(),
    );
    let text = crate::harness::configuration(
        &crate::harness::api_key(oci_fake::TENANCY, oci_fake::KEY),
        "http://oci",
    );
    let (provider, neighbours) = provider(
        &harness,
        &text,
        &[("KUBERNETES_SERVICE_HOST", "kubernetes")],
    );
    harness.start(&provider).await;
    let mut web = service(
        &[("oci.oraclecloud.com/workload-service-account", "web")],
        json!({}),
    );
    harness.ensure(&provider, &mut web).await.unwrap();
    let requests = neighbours.requests.lock().clone();
    let (_, headers, _) = requests
        .iter()
        .find(|(route, ..)| route.ends_with("SessionTokens"))
        .unwrap();
    assert_eq!(headers["authorization"], "Bearer account-token");
    assert_eq!(
        harness.balancer("loadbalancer")["displayName"],
        crate::harness::UID
    );
    let mut other = service(
        &[("oci.oraclecloud.com/workload-service-account", "missing")],
        json!({}),
    );
    other.metadata.uid = Some("22222222-3f3e-4c57-a1b5-9f5f2a7d8c11".to_owned());
    let error = harness
        .ensure(&provider, &mut other)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("ServiceAccount default/missing gives no token"),
        "{error}"
    );
}
