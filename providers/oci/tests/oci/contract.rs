//! The provider and the fake, with a proxy between them that knows the vendor's own description of the API.
//!
//! * `CCM_TEST_OCI_PROXY`: the URL of the proxy; `CCM_TEST_OCI_UPSTREAM`: the address that it forwards to.
//! * `CCM_TEST_CONTRACT_KEYS`: the directory with the key that may sign, and its ID.

use cloud_provider::{Caches, CloudProvider, LookupRequest, MetadataLevel, Severity};
use oci_fake::Port;
use provider_kit::transport::{Call, Tls, Transport, network};
use serde_json::{Value, json};

use crate::harness::{Harness, api_key, configuration, service};

const KIND: &str = "oci.oraclecloud.com/load-balancer-type";

#[tokio::test]
#[ignore = "needs a validating proxy"]
async fn every_request_and_answer_fits_the_description() {
    let variable = |name: &str| std::env::var(format!("CCM_TEST_{name}")).expect("the variables of this test");
    let (proxy, upstream, keys) = (variable("OCI_PROXY"), variable("OCI_UPSTREAM"), variable("CONTRACT_KEYS"));
    let read = |name: &str| std::fs::read_to_string(format!("{keys}/{name}")).unwrap().trim().to_owned();
    let (key, id) = (read("oci.pem"), read("oci.keyid"));
    let [tenancy, user, fingerprint] = id.split('/').collect::<Vec<_>>()[..] else { panic!("{id}") };
    let auth = api_key(tenancy, &key).replace(oci_fake::USER, user).replace(oci_fake::FINGERPRINT, fingerprint);
    let harness = Harness::new();
    // The proxy checks the signatures.
    harness.fake.lock().keys = None;
    let _served = Port::open(&upstream).await.unwrap().serve(harness.fake.router());
    let check = Transport::builder(proxy.clone()).build().unwrap();
    let connector = network(&Tls::default(), &proxy).unwrap();
    let provider = harness.started_with(configuration(&auth, &proxy), &connector).await;
    for kind in ["lb", "nlb"] {
        let mut web = service(&[(KIND, kind)], json!({}));
        harness.ensure(&provider, &mut web).await.unwrap();
        let mut local = service(&[(KIND, kind)], json!({"externalTrafficPolicy": "Local", "healthCheckNodePort": 30012}));
        local.status.clone_from(&web.status);
        harness.ensure(&provider, &mut local).await.unwrap();
        harness.delete(&provider, &local).await.unwrap();
    }
    let request = LookupRequest { existence: true, shutdown: true, metadata: MetadataLevel::Full, fresh: true };
    let found = provider.instances().unwrap().lookup(&harness.cluster.nodes(), request).await;
    assert!(found.iter().all(Result::is_ok), "{found:?}");
    assert!(provider.diagnose().await.iter().all(|it| it.severity == Severity::Ok));
    let seen: Value = check.read(Call::get("/__contract", &[])).await.unwrap();
    println!("{:#}", seen["operations"]);
    assert_eq!(seen["violations"], json!([]), "{seen:#}");
}
