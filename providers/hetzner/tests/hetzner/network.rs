//! `HCLOUD_NETWORK`: found at the start, and the machine that this runs on is attached to it.

use cloud_provider::CloudProvider;

use crate::harness::Harness;

const LIST: &str = "GET /networks";
const METADATA: &str = "GET /hetzner/v1/metadata/private-networks";

#[tokio::test(start_paused = true)]
async fn a_network_is_found_by_name_or_by_id() {
    let harness = Harness::default();
    let id = harness.fake.add_network("kubernetes", "10.0.0.0/8");
    harness.fake.run_attached_to(id);
    let harness = harness.set("HCLOUD_NETWORK", "kubernetes");
    harness
        .provider()
        .initialize(&harness.context())
        .await
        .unwrap();
    assert_eq!(
        (
            harness.fake.count(LIST),
            harness.fake.count("GET /networks/{id}")
        ),
        (1, 0)
    );

    harness.fake.forget_requests();
    let harness = harness.set("HCLOUD_NETWORK", &id.to_string());
    harness
        .provider()
        .initialize(&harness.context())
        .await
        .unwrap();
    assert_eq!(
        (
            harness.fake.count(LIST),
            harness.fake.count("GET /networks/{id}")
        ),
        (0, 1)
    );

    let number = harness.fake.add_network("4711", "10.0.0.0/8");
    harness.fake.run_attached_to(number);
    let harness = harness.set("HCLOUD_NETWORK", "4711");
    harness
        .provider()
        .initialize(&harness.context())
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_network_that_is_not_found_ends_the_start() {
    let harness = Harness::default().set("HCLOUD_NETWORK", "kubernets");
    harness.fake.add_network("kubernetes", "10.0.0.0/8");
    let error = harness
        .provider()
        .initialize(&harness.context())
        .await
        .unwrap_err();
    assert!(error.is_invalid());
    let text = error.to_string();
    assert!(
        text.contains("no network \"kubernets\"") && text.contains("HCLOUD_NETWORK"),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_is_not_attached_to_the_network_ends_the_start_unless_nobody_is_to_look() {
    let harness = Harness::default().set("HCLOUD_NETWORK", "kubernetes");
    let id = harness.fake.add_network("kubernetes", "10.0.0.0/8");
    let other = harness.fake.add_network("other", "10.0.0.0/8");
    // An id that begins with the other's is another one.
    harness.fake.run_attached_to(id * 10 + 1);
    harness.fake.run_attached_to(other);
    let error = harness
        .provider()
        .initialize(&harness.context())
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("not attached to network \"kubernetes\""),
        "{error}"
    );
    assert!(
        error.contains("HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK"),
        "{error}"
    );

    harness.fake.run_attached_to(id);
    harness
        .provider()
        .initialize(&harness.context())
        .await
        .unwrap();

    let harness = Harness::default().set("HCLOUD_NETWORK", "kubernetes");
    harness.fake.add_network("kubernetes", "10.0.0.0/8");
    let harness = harness.set("HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK", "true");
    harness
        .provider()
        .initialize(&harness.context())
        .await
        .unwrap();
    assert_eq!(harness.fake.count(METADATA), 0);
}

#[tokio::test(start_paused = true)]
async fn without_a_metadata_service_the_start_says_how_to_go_on_without_it() {
    let harness = Harness::default().set("HCLOUD_NETWORK", "kubernetes");
    harness.fake.add_network("kubernetes", "10.0.0.0/8");
    harness
        .fake
        .fail(hetzner_fake::Fault::status(METADATA, 500));
    let error = harness
        .provider()
        .initialize(&harness.context())
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("metadata service")
            && error.contains("HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK"),
        "{error}"
    );
}
