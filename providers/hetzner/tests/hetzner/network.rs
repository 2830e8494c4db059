//! `HCLOUD_NETWORK`: found at the start, and the machine that this runs on is attached to it.

use cloud_provider::CloudProvider;

use crate::world::World;

const LIST: &str = "GET /networks";
const METADATA: &str = "GET /hetzner/v1/metadata/private-networks";

#[tokio::test(start_paused = true)]
async fn a_network_is_found_by_name_or_by_id() {
    let world = World::new();
    let id = world.fake.add_network("kubernetes", "10.0.0.0/8");
    world.fake.run_attached_to(id);
    let world = world.set("HCLOUD_NETWORK", "kubernetes");
    world.provider().initialize(&world.context()).await.unwrap();
    assert_eq!((world.fake.count(LIST), world.fake.count("GET /networks/{id}")), (1, 0));

    world.fake.forget_requests();
    let world = world.set("HCLOUD_NETWORK", &id.to_string());
    world.provider().initialize(&world.context()).await.unwrap();
    assert_eq!((world.fake.count(LIST), world.fake.count("GET /networks/{id}")), (0, 1));

    let number = world.fake.add_network("4711", "10.0.0.0/8");
    world.fake.run_attached_to(number);
    let world = world.set("HCLOUD_NETWORK", "4711");
    world.provider().initialize(&world.context()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_network_that_is_not_found_ends_the_start() {
    let world = World::new().set("HCLOUD_NETWORK", "kubernets");
    world.fake.add_network("kubernetes", "10.0.0.0/8");
    let error = world.provider().initialize(&world.context()).await.unwrap_err();
    assert!(error.is_invalid());
    let text = error.to_string();
    assert!(text.contains("no network \"kubernets\"") && text.contains("HCLOUD_NETWORK"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_is_not_attached_to_the_network_ends_the_start_unless_nobody_is_to_look() {
    let world = World::new().set("HCLOUD_NETWORK", "kubernetes");
    let id = world.fake.add_network("kubernetes", "10.0.0.0/8");
    let other = world.fake.add_network("other", "10.0.0.0/8");
    // An id that begins with the other's is another one.
    world.fake.run_attached_to(id * 10 + 1);
    world.fake.run_attached_to(other);
    let error = world.provider().initialize(&world.context()).await.unwrap_err().to_string();
    assert!(error.contains("not attached to network \"kubernetes\""), "{error}");
    assert!(error.contains("HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK"), "{error}");

    world.fake.run_attached_to(id);
    world.provider().initialize(&world.context()).await.unwrap();

    let world = World::new().set("HCLOUD_NETWORK", "kubernetes");
    world.fake.add_network("kubernetes", "10.0.0.0/8");
    let world = world.set("HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK", "true");
    world.provider().initialize(&world.context()).await.unwrap();
    assert_eq!(world.fake.count(METADATA), 0);
}

#[tokio::test(start_paused = true)]
async fn without_a_metadata_service_the_start_says_how_to_go_on_without_it() {
    let world = World::new().set("HCLOUD_NETWORK", "kubernetes");
    world.fake.add_network("kubernetes", "10.0.0.0/8");
    world.fake.fail(hetzner_fake::Fault::status(METADATA, 500));
    let error = world.provider().initialize(&world.context()).await.unwrap_err().to_string();
    assert!(error.contains("metadata service") && error.contains("HCLOUD_NETWORK_DISABLE_ATTACHED_CHECK"), "{error}");
}
