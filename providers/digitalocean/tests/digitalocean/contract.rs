//! The provider and the fake, with a validating proxy between them that knows the vendor's API description.
//!
//! `CCM_TEST_DIGITALOCEAN_PROXY=http://127.0.0.1:4031 CCM_TEST_DIGITALOCEAN_UPSTREAM=127.0.0.1:4030`: the proxy, and the address
//! that it forwards to. Without them nothing is tested. The proxy refuses a request that breaks the description with 422, and
//! turns an answer that breaks it into 500, so both fail the calls below. Tags are only sent with a creation: the description does
//! not name load balancers among what tags can be added to later, which the Go program does nevertheless.

use cloud_provider::{CloudProvider, Severity};
use digitalocean_fake::{Options, Port};
use provider_digitalocean::{DigitalOcean, cloud, config::Config};
use provider_kit::transport::Transport;

use crate::harness::{Harness, PREFIX, service, service_of};

#[tokio::test]
async fn every_request_and_answer_of_a_load_balancer_fits_the_description() {
    let variable = |name: &str| std::env::var(format!("CCM_TEST_DIGITALOCEAN_{name}")).ok();
    let Some((proxy, upstream)) = variable("PROXY").zip(variable("UPSTREAM")) else {
        return;
    };
    let harness = Harness::new()
        .set("DO_OVERRIDE_URL", &proxy)
        .set("DO_CLUSTER_ID", "prod")
        .set("PUBLIC_ACCESS_FIREWALL_NAME", "workers")
        .set("PUBLIC_ACCESS_FIREWALL_TAGS", "k8s");
    harness.fake.set_options(|options| {
        *options = Options {
            creation_time: std::time::Duration::from_secs(2),
            ..Options::default()
        }
    });
    let _served = Port::open(&upstream)
        .await
        .unwrap()
        .serve(harness.fake.router());
    let setup = harness.setup();
    let config = Config::read(&setup).unwrap();
    let metadata = Transport::builder("http://metadata")
        .service(harness.fake.router())
        .build()
        .unwrap();
    let provider = DigitalOcean::new(
        config.clone(),
        cloud(&config, &setup).unwrap().build().unwrap(),
        metadata,
    );
    harness.start(&provider).await;

    let certificate = harness.fake.add_certificate("mine", "custom");
    let regional = [
        ("type", "REGIONAL"),
        ("certificate-name", "mine"),
        ("http3-port", "443"),
        ("size-unit", "2"),
        ("sticky-sessions-type", "cookies"),
        ("sticky-sessions-cookie-name", "lb"),
        ("sticky-sessions-cookie-ttl", "300"),
        ("allow-rules", "cidr:198.51.100.0/24"),
        ("http-idle-timeout-seconds", "90"),
    ];
    for mut service in [
        service(&regional),
        service(&[]),
        service_of(&[("network", "INTERNAL")], serde_json::json!({})),
    ] {
        harness.ensure(&provider, &mut service).await.unwrap();
        let annotations = service.metadata.annotations.get_or_insert_default();
        annotations.insert(
            format!("{PREFIX}enable-backend-keepalive"),
            "true".to_owned(),
        );
        annotations.insert(format!("{PREFIX}override-health-check"), String::new());
        harness.ensure(&provider, &mut service).await.unwrap();
        assert_eq!(harness.load_balancer()["enable_backend_keepalive"], true);
        harness.delete(&provider, &service).await.unwrap();
    }
    assert!(
        !certificate.is_empty()
            && harness.fake.load_balancers().is_empty()
            && harness.fake.firewalls().len() == 1
    );
    assert!(
        provider
            .diagnose()
            .await
            .iter()
            .all(|finding| finding.severity == Severity::Ok)
    );
    let bad: Vec<_> = harness
        .fake
        .requests()
        .into_iter()
        .filter(|request| request.status >= 400 && request.status != 404)
        .collect();
    assert!(bad.is_empty(), "{bad:#?}");
}
