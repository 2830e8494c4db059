//! Settings that the API cannot change: replacements, refusals and warnings.

use cloud_provider::{Caches, CloudProvider, Goal, LoadBalancerRequest, Service};
use digitalocean_fake::Fault;
use serde_json::{Value, json};

use crate::harness::{Harness, PREFIX, cluster, service, set};

const ID: &str = "kubernetes.digitalocean.com/load-balancer-id";

/// Returns the steps of `plan` for a Service, or its error.
async fn planned(harness: &Harness, provider: &impl CloudProvider, service: &Service) -> String {
    let nodes = harness.cluster.nodes();
    let cluster = cluster();
    let request = LoadBalancerRequest {
        cluster: &cluster,
        service,
        nodes: &nodes,
        callbacks: &(),
    };
    match provider
        .load_balancers()
        .unwrap()
        .plan(request, Goal::Ensured)
        .await
    {
        Ok(plan) => plan.steps.iter().map(|step| format!("{step}\n")).collect(),
        Err(error) => error.to_string(),
    }
}

fn id_of(service: &Service) -> Value {
    json!(service.metadata.annotations.as_ref().unwrap()[ID])
}

#[tokio::test(start_paused = true)]
async fn another_type_or_network_is_refused_as_long_as_nobody_allows_it() {
    for (key, value) in [("type", "REGIONAL"), ("network", "INTERNAL")] {
        let harness = Harness::new();
        let provider = harness.started().await;
        let mut service = service(&[("network-stack", "IPV4")]);
        harness.ensure(&provider, &mut service).await.unwrap();
        let before = harness.load_balancer();
        // As the first `kubectl apply` after a migration does: the Go program wrote the real value back.
        set(&mut service, key, value);
        let plan = planned(&harness, &provider, &service).await;
        let error = harness.ensure(&provider, &mut service).await.unwrap_err();
        for text in [&plan, &error.to_string()] {
            assert!(
                text.contains("allow-recreate: \"true\"")
                    && text.contains(&format!("{key} is {value}")),
                "{text}"
            );
        }
        assert!(error.is_invalid());
        assert_eq!(harness.load_balancer(), before);
        let annotations = service.metadata.annotations.as_ref().unwrap();
        assert_eq!(
            annotations[&format!("{PREFIX}{key}")],
            value,
            "the text of the user stays"
        );

        // Nodes still become targets.
        harness.add_node(&harness.fake.add_droplet("worker-3"));
        harness.update_targets(&provider, &service).await.unwrap();
        assert_eq!(
            harness.load_balancer()["droplet_ids"]
                .as_array()
                .unwrap()
                .len(),
            3
        );
    }
}

#[tokio::test(start_paused = true)]
async fn allowed_replacement_keeps_the_old_load_balancer_until_the_new_one_works() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut service = service(&[("allow-recreate", "true")]);
    harness.ensure(&provider, &mut service).await.unwrap();
    let before = harness.load_balancer();
    set(&mut service, "type", "REGIONAL");
    let plan = planned(&harness, &provider, &service).await;
    assert!(plan.contains("create") && plan.contains("delete"), "{plan}");

    // The account is at its limit: nothing is deleted for it.
    let message = "This will exceed your load balancer limit";
    let limit = Fault::refused_as("POST /load_balancers", 422, "unprocessable_entity", message);
    harness.fake.fail(limit.times(3));
    harness.fake.forget_requests();
    let error = harness.ensure(&provider, &mut service).await.unwrap_err();
    assert!(error.is_quota(), "{error}");
    assert_eq!(
        (
            harness.load_balancer()["id"].clone(),
            harness.fake.count("DELETE")
        ),
        (before["id"].clone(), 0)
    );

    harness.fake.clear_faults();
    harness.fake.forget_requests();
    harness.ensure(&provider, &mut service).await.unwrap();
    let after = harness.load_balancer();
    assert_eq!(
        (&after["type"], &id_of(&service)),
        (&json!("REGIONAL"), &after["id"])
    );
    assert_ne!(after["id"], before["id"]);
    let order: Vec<_> = harness
        .fake
        .changes()
        .into_iter()
        .map(|(route, _)| route)
        .collect();
    assert_eq!(
        order,
        ["POST /load_balancers", "DELETE /load_balancers/{id}"]
    );
}

#[tokio::test(start_paused = true)]
async fn replacement_that_needs_the_same_address_needs_a_second_permission() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut service = service(&[("allow-recreate", "true"), ("ip", "203.0.113.9")]);
    harness.ensure(&provider, &mut service).await.unwrap();
    let before = harness.load_balancer();
    set(&mut service, "type", "REGIONAL");
    let error = harness
        .ensure(&provider, &mut service)
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("allow-interruption: \"true\""), "{error}");
    assert_eq!(harness.load_balancer()["id"], before["id"]);
    set(&mut service, "allow-interruption", "true");
    harness.ensure(&provider, &mut service).await.unwrap();
    let after = harness.load_balancer();
    assert_eq!(
        (&after["type"], &after["ip"]),
        (&json!("REGIONAL"), &before["ip"])
    );
    assert_eq!(id_of(&service), after["id"]);
}

#[tokio::test(start_paused = true)]
async fn load_balancer_given_by_its_id_is_not_replaced_without_permission() {
    let harness = Harness::new();
    let id = harness.fake.add_load_balancer("by-hand")["id"].clone();
    let provider = harness.started().await;
    let mut given = service(&[("type", "REGIONAL_NETWORK"), (ID, id.as_str().unwrap())]);
    let error = harness.ensure(&provider, &mut given).await.unwrap_err();
    assert!(
        error.is_invalid() && error.to_string().contains("type: REGIONAL to keep it"),
        "{error}"
    );
    assert_eq!(harness.load_balancer()["id"], id);
}

#[tokio::test(start_paused = true)]
async fn another_default_type_replaces_no_load_balancer() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut service = service(&[("type", "REGIONAL"), ("allow-recreate", "true")]);
    harness.ensure(&provider, &mut service).await.unwrap();
    let before = harness.load_balancer()["id"].clone();
    service
        .metadata
        .annotations
        .as_mut()
        .unwrap()
        .remove(&format!("{PREFIX}type"));
    let error = harness.ensure(&provider, &mut service).await.unwrap_err();
    assert!(
        error.is_invalid() && error.to_string().contains("type: REGIONAL to keep it"),
        "{error}"
    );
    assert_eq!(harness.load_balancer()["id"], before);
}

#[tokio::test(start_paused = true)]
async fn settings_of_the_creation_that_change_later_get_a_warning() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut service = service(&[("type", "REGIONAL"), ("network-stack", "IPV4")]);
    harness.ensure(&provider, &mut service).await.unwrap();
    let ip = harness.load_balancer()["ip"].as_str().unwrap().to_owned();
    harness.events();
    set(&mut service, "network-stack", "DUALSTACK");
    service.spec.as_mut().unwrap().load_balancer_ip = Some("203.0.113.9".to_owned());
    harness.fake.forget_requests();
    harness.ensure(&provider, &mut service).await.unwrap();
    let events = harness.events();
    for expected in [
        "DUALSTACK has no effect",
        "203.0.113.9 has no effect",
        &format!("keeps {ip}"),
    ] {
        let is_this_text =
            |text: &&String| text.starts_with("SettingIgnored") && text.contains(expected);
        assert!(
            events.iter().any(|event| is_this_text(&event)),
            "{expected}: {events:?}"
        );
    }
    assert_eq!(harness.fake.changes(), []);
}

#[tokio::test(start_paused = true)]
async fn size_and_idle_timeout_get_their_defaults_when_their_annotations_go() {
    for (key, value, field, stated, default) in [
        ("size-unit", "4", "size_unit", 4, 1),
        ("size-slug", "lb-medium", "size_unit", 3, 1),
        (
            "http-idle-timeout-seconds",
            "300",
            "http_idle_timeout_seconds",
            300,
            60,
        ),
    ] {
        let harness = Harness::new();
        let provider = harness.started().await;
        let mut service = service(&[("type", "REGIONAL")]);
        harness.ensure(&provider, &mut service).await.unwrap();
        for (value, expected) in [(Some(value), stated), (None, default)] {
            let annotations = service.metadata.annotations.as_mut().unwrap();
            annotations.remove(&format!("{PREFIX}{key}"));
            annotations.extend(value.map(|value| (format!("{PREFIX}{key}"), value.to_owned())));
            tokio::time::advance(digitalocean_fake::RESIZE_INTERVAL).await;
            harness.ensure(&provider, &mut service).await.unwrap();
            assert_eq!(harness.load_balancer()[field], expected, "{key}: {value:?}");
        }
    }
}
