//! Remains of a load balancer that another program deleted.

use serde_json::{Value, json};

use crate::balancers::scene::{NAME, Scene};

fn managed() -> Scene {
    let mut scene = Scene::new();
    scene.conf("manage-security-groups = true");
    scene
}

#[tokio::test(start_paused = true)]
async fn floating_ip_and_security_group_go_with_the_service_though_its_load_balancer_is_gone() {
    let mut scene = managed();
    scene.ensure("web").await;
    assert!(scene.fake.remove_load_balancer(NAME));
    scene.start().await;
    scene.delete("web").await;
    assert!(
        scene.fake.floating_ips().is_empty(),
        "{:#?}",
        scene.fake.floating_ips()
    );
    let groups = scene.fake.security_groups();
    assert!(
        !groups
            .iter()
            .any(|group| group["name"].as_str().unwrap().starts_with("lb-sg-")),
        "{groups:#?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_floating_ip_that_is_kept_or_was_never_shown_is_nobodys_to_delete() {
    let mut scene = managed();
    scene.annotate("web", "keep-floatingip", "true");
    scene.ensure("web").await;
    let ours = scene.fake.floating_ips()[0]["description"].clone();
    // Another cluster of this name may have kept one.
    let other = scene
        .fake
        .add_floating_ip(&scene.public, ours.as_str().unwrap(), None);
    assert!(scene.fake.remove_load_balancer(NAME));
    scene.start().await;
    scene.delete("web").await;
    let left = scene.fake.floating_ips();
    assert_eq!(left.len(), 2, "{left:#?}");
    assert!(left.iter().any(|object| object["id"] == json!(other)));
}

#[tokio::test(start_paused = true)]
async fn a_new_load_balancer_gets_the_address_that_its_service_shows() {
    let mut scene = managed();
    let shown = scene.ensure("web").await;
    assert!(scene.fake.remove_load_balancer(NAME));
    scene.start().await;
    assert_eq!(scene.ensure("web").await, shown);
    assert_eq!(scene.fake.floating_ips().len(), 1);
    assert_ne!(scene.balancer()["vip_port_id"], Value::Null);
}
