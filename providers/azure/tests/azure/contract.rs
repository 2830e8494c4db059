//! The provider and the fake, with a validating proxy between them that knows the vendor's API description.
//!
//! `CCM_TEST_AZURE_PROXY=http://127.0.0.1:4061 CCM_TEST_AZURE_UPSTREAM=127.0.0.1:4060`: the proxy, and the address that it
//! forwards to. The proxy refuses requests that violate the description, and turns responses that do into 500; it counts
//! both.

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::any;
use azure_fake::Port;
use cloud_provider::{Caches, CloudProvider, Environment, LookupRequest, MetadataLevel, Setup};
use http::Request;
use provider_azure::Azure;
use provider_kit::transport::{Call, Transport};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::harness::{Form, Harness, cluster, route, service};

#[tokio::test]
#[ignore = "needs a validating proxy"]
async fn every_request_and_answer_fits_the_description() {
    let variable = |name: &str| {
        std::env::var(format!("CCM_TEST_AZURE_{name}")).expect("the variables of this test")
    };
    let proxy = variable("PROXY");
    let upstream = variable("UPSTREAM");
    let file = std::env::temp_dir().join(format!("azure-contract-{}.json", std::process::id()));
    std::fs::write(
        &file,
        json!({"activeDirectoryEndpoint": proxy, "resourceManagerEndpoint": proxy}).to_string(),
    )
    .unwrap();
    let check = Transport::builder(proxy).build().unwrap();
    let current = Arc::new(Mutex::new(Router::new()));
    let shared = Arc::clone(&current);
    let router = Router::new().fallback(any(move |request: Request<axum::body::Body>| {
        let router = shared.lock().clone();
        async move { router.oneshot(request).await }
    }));
    let _served = Port::open(&upstream).await.unwrap().serve(router);
    for form in [Form::Addresses, Form::Interfaces, Form::ScaleSet] {
        let harness = Harness::new(form).with(json!({"cloud": "AzureStackCloud"}));
        harness.fake.lock().delay = Duration::from_millis(20);
        *current.lock() = harness.fake.router();
        let environment = Environment::of([("AZURE_ENVIRONMENT_FILEPATH", file.to_str().unwrap())]);
        let provider = Azure::new(
            &Setup {
                environment,
                ..harness.setup()
            },
            |http| http,
        )
        .unwrap();
        provider.initialize(&harness.context()).await.unwrap();
        provider.set_caches(Arc::new(harness.cluster.clone()));
        let local = json!({"externalTrafficPolicy": "Local", "healthCheckNodePort": 32_000});
        for (annotations, more) in [
            (&[][..], Value::Null),
            (
                &[("azure-dns-label-name", "web"), ("azure-pip-tags", "a=b")],
                local,
            ),
            (&[("azure-load-balancer-internal", "true")], Value::Null),
            (
                &[],
                json!({"ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack"}),
            ),
            (
                &[
                    ("azure-load-balancer-internal", "true"),
                    ("azure-pls-create", "true"),
                ],
                Value::Null,
            ),
            (
                &[("azure-deny-all-except-load-balancer-source-ranges", "true")],
                json!({"loadBalancerSourceRanges": ["192.0.2.0/24", "198.51.100.0/24"]}),
            ),
        ] {
            let web = service("web", &[80, 443], annotations, &more);
            harness.ensure(&provider, &web).await.unwrap();
            harness
                .ensure(&provider, &service("web", &[443], annotations, &more))
                .await
                .unwrap();
            harness.delete(&provider, &web).await.unwrap();
        }
        if form == Form::Interfaces {
            let web = service("web", &[80], &[], &Value::Null);
            harness.ensure(&provider, &web).await.unwrap();
            let by_address = json!({"cloud": "AzureStackCloud", "enableMigrateToIPBasedBackendPoolAPI": true,
                "loadBalancerBackendPoolConfigurationType": "nodeIP"});
            let environment =
                Environment::of([("AZURE_ENVIRONMENT_FILEPATH", file.to_str().unwrap())]);
            let harness = harness.clone().with(by_address);
            let provider = Azure::new(
                &Setup {
                    environment,
                    ..harness.setup()
                },
                |http| http,
            )
            .unwrap();
            provider.initialize(&harness.context()).await.unwrap();
            provider.set_caches(Arc::new(harness.cluster.clone()));
            harness.ensure(&provider, &web).await.unwrap();
            harness.delete(&provider, &web).await.unwrap();
        }
        let request = LookupRequest {
            existence: true,
            shutdown: true,
            metadata: MetadataLevel::Full,
            fresh: true,
        };
        let found = provider
            .instances()
            .unwrap()
            .lookup(&harness.cluster.nodes(), request)
            .await;
        assert!(found.iter().all(Result::is_ok), "{found:?}");
        assert!(
            provider
                .diagnose()
                .await
                .iter()
                .all(|finding| finding.severity == cloud_provider::Severity::Ok)
        );
        let routes = provider.routes().unwrap();
        for (node, destination) in [("worker-1", "10.244.1.0/24"), ("worker-2", "10.244.2.0/24")] {
            routes
                .create(&cluster(), "", &route(&harness, node, destination))
                .await
                .unwrap();
        }
        for route in routes.list(&cluster()).await.unwrap() {
            routes.delete(&cluster(), &route).await.unwrap();
        }
    }
    let seen: Value = check.read(Call::get("/__check", &[])).await.unwrap();
    println!("{:#}", seen["operations"]);
    assert_eq!(
        (&seen["refused"], &seen["wrong_answers"]),
        (&json!(0), &json!(0)),
        "{:#}",
        seen["violations"]
    );
    assert!(seen["passed"].as_u64() > Some(100), "{seen:#}");
}
