//! Load balancers of others in the account, and the one that a Service names.

use cloud_provider::Service;
use serde_json::{Value, json};

use crate::harness::{Harness, service, set};

const ID: &str = "kubernetes.digitalocean.com/load-balancer-id";

fn id_of(service: &Service) -> String {
    service.metadata.annotations.as_ref().unwrap()[ID].clone()
}

#[tokio::test(start_paused = true)]
async fn load_balancers_of_others_that_cannot_be_read_fail_no_service() {
    let change: [fn(&mut Value); 4] = [
        |object| object["type"] = "GLOBAL".into(),
        |object| object["network_stack"] = Value::Null,
        |object| object["forwarding_rules"] = Value::Null,
        |object| object["forwarding_rules"][0]["entry_protocol"] = "quic".into(),
    ];
    for change in change {
        let harness = Harness::new();
        harness.fake.add_load_balancer("theirs");
        let before = harness.fake.change_load_balancer("theirs", change).unwrap();
        let provider = harness.started().await;
        let mut service = service(&[]);
        harness.ensure(&provider, &mut service).await.unwrap();
        assert_eq!(harness.fake.load_balancers().len(), 2, "{before}");
        harness.delete(&provider, &service).await.unwrap();
        assert_eq!(harness.load_balancer(), before);
    }
}

#[tokio::test(start_paused = true)]
async fn load_balancer_that_cannot_be_read_is_never_written_adopted_or_replaced() {
    for (kind, name, by_id) in [
        ("GLOBAL", "theirs", true),
        ("GLOBAL", "a0b0a1c0f3f3e4c57a1b59f5f2a7d8c1", false),
        ("REGIONAL", "theirs", true),
    ] {
        let harness = Harness::new();
        let id = harness.fake.add_load_balancer(name)["id"]
            .as_str()
            .unwrap()
            .to_owned();
        let before = harness.fake.change_load_balancer(name, |load_balancer| {
            load_balancer["type"] = kind.into();
            load_balancer["forwarding_rules"][0]["entry_protocol"] = "quic".into();
        });
        let provider = harness.started().await;
        let mut service = if by_id {
            service(&[(ID, &id)])
        } else {
            service(&[])
        };
        let outcome = harness.ensure(&provider, &mut service).await;
        assert_eq!(outcome.is_err(), by_id, "{kind} {name}: {outcome:?}");
        let _ = harness.update_targets(&provider, &service).await;
        assert_eq!(
            harness
                .fake
                .load_balancers()
                .into_iter()
                .find(|load_balancer| load_balancer["id"] == id.as_str()),
            before
        );
        assert_eq!(
            harness.fake.load_balancers().len(),
            if by_id { 1 } else { 2 }
        );
    }
}

#[tokio::test(start_paused = true)]
async fn id_that_no_load_balancer_has_is_an_error_before_anything_is_created() {
    for (id, expected) in [
        ("web", "is not the UUID"),
        (
            "4de7ac8b-495b-4884-9a69-1050c6793cd6",
            "there is no load balancer",
        ),
    ] {
        let harness = Harness::new();
        let provider = harness.started().await;
        let mut service = service(&[(ID, id)]);
        for _ in 0..2 {
            let error = harness.ensure(&provider, &mut service).await.unwrap_err();
            assert!(
                error.is_invalid() && error.to_string().contains(expected),
                "{error}"
            );
        }
        assert_eq!(
            (harness.fake.load_balancers(), id_of(&service)),
            (Vec::new(), id.to_owned())
        );
        harness.delete(&provider, &service).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn service_keeps_its_load_balancer_if_its_annotation_names_an_unknown_one() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut service = service(&[]);
    harness.ensure(&provider, &mut service).await.unwrap();
    let unknown = "4de7ac8b-495b-4884-9a69-1050c6793cd6";
    set(&mut service, ID, unknown);
    harness.fake.forget_requests();
    let error = harness.ensure(&provider, &mut service).await.unwrap_err();
    assert!(
        error.is_invalid() && error.to_string().contains(unknown),
        "{error}"
    );
    assert_eq!(
        (id_of(&service), harness.fake.changes()),
        (unknown.to_owned(), Vec::new())
    );
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

#[tokio::test(start_paused = true)]
async fn load_balancer_that_was_deleted_in_the_cloud_is_created_again() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut service = service(&[]);
    harness.ensure(&provider, &mut service).await.unwrap();
    let before = id_of(&service);
    let name = harness.load_balancer()["name"].as_str().unwrap().to_owned();
    harness.fake.delete_load_balancer(&name);
    let provider = harness.started().await;
    harness.ensure(&provider, &mut service).await.unwrap();
    assert_ne!(id_of(&service), before);
    harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!(harness.load_balancer()["id"], id_of(&service).as_str());
}

#[tokio::test(start_paused = true)]
async fn service_that_needed_no_load_balancer_for_a_while_gets_another_one() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut service = service(&[]);
    harness.ensure(&provider, &mut service).await.unwrap();
    harness.delete(&provider, &service).await.unwrap();
    // The Service has another type meanwhile, and the program starts again.
    service.status = None;
    let provider = harness.started().await;
    harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!(harness.load_balancer()["id"], id_of(&service).as_str());
}

#[tokio::test(start_paused = true)]
async fn copy_of_a_service_takes_no_load_balancer_of_the_go_program() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut original = service(&[]);
    harness.ensure(&provider, &mut original).await.unwrap();
    let name = harness.load_balancer()["name"].as_str().unwrap().to_owned();
    harness
        .fake
        .change_load_balancer(&name, |load_balancer| load_balancer["tags"] = json!([]));
    let mut copy = Service {
        status: None,
        ..original.clone()
    };
    copy.metadata.name = Some("copy".to_owned());
    copy.metadata.uid = Some("1b0a1c0f-3f3e-4c57-a1b5-9f5f2a7d8c12".to_owned());
    let provider = harness.started().await;
    let error = harness
        .ensure_beside(&provider, &copy, &[original.clone()])
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("belongs to Service default/web"),
        "{error}"
    );
    assert_eq!(harness.load_balancer()["tags"], json!([]));
}

#[tokio::test(start_paused = true)]
async fn load_balancer_of_the_go_program_is_deleted_although_its_id_was_lost() {
    for (tags, is_deleted) in [(json!([]), true), (json!(["k8s:other"]), false)] {
        let harness = Harness::new();
        let provider = harness.started().await;
        let mut service = service(&[]);
        harness.ensure(&provider, &mut service).await.unwrap();
        let name = harness.load_balancer()["name"].as_str().unwrap().to_owned();
        harness
            .fake
            .change_load_balancer(&name, |load_balancer| load_balancer["tags"] = tags.clone());
        service.metadata.annotations = None;
        service.metadata.deletion_timestamp =
            Some(serde_json::from_value(json!("2026-08-02T00:00:00Z")).unwrap());
        let provider = harness.started().await;
        harness.delete(&provider, &service).await.unwrap();
        assert_eq!(
            harness.fake.load_balancers().is_empty(),
            is_deleted,
            "{tags}"
        );
    }
}
