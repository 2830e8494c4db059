//! Limits of the author of a Service: annotations prove nothing about BLBs and EIPs.

use baidu_fake::ACCOUNT;
use cloud_provider::Service;
use serde_json::{Value, json};

use crate::harness::{Harness, annotate, blb, eip, service, service_of};
use crate::neighbours::add_used;
use crate::profile::{DESCRIPTION, list, text};

fn without(service: &mut Service, key: &str) {
    service
        .metadata
        .annotations
        .get_or_insert_default()
        .remove(&blb(key));
}

#[tokio::test(start_paused = true)]
async fn recorded_id_that_an_author_wrote_gives_the_service_no_blb_that_is_in_use() {
    let attempts: [&[&str]; 4] = [&["exist-id"], &["id", "lb-name"], &["lb-name"], &[]];
    for others in attempts {
        let harness = Harness::new();
        let id = add_used(&harness, 8080);
        let before = harness.blb();
        let mut service = service(&[(blb("cce-add-id"), &id), (blb("internal-vpc"), "true")]);
        for key in others {
            annotate(
                &mut service,
                blb(key),
                if *key == "lb-name" { "mine" } else { &id },
            );
        }
        let error = harness
            .ensure(&harness.started().await, &mut service)
            .await
            .unwrap_err();
        assert!(
            error.is_invalid() && error.to_string().contains("in use"),
            "{others:?}: {error}"
        );
        harness
            .delete(&harness.started().await, &service)
            .await
            .unwrap();
        assert_eq!(
            (harness.blb(), harness.changes()),
            (before, Vec::new()),
            "{others:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn blb_that_a_service_adopted_stays_whatever_its_annotations_say_later() {
    for description in ["mine", DESCRIPTION] {
        for first in ["exist-id", "id", "cce-add-id"] {
            let harness = Harness::new();
            let id = harness.fake.lock().add_blb(ACCOUNT, "mine", description);
            let mut service = service(&[(blb(first), &id)]);
            harness
                .ensure(&harness.started().await, &mut service)
                .await
                .unwrap();
            assert_eq!(
                list(&harness.blb()["listeners"]).count(),
                2,
                "{description} {first}"
            );
            without(&mut service, "exist-id");
            [("id", &*id), ("cce-add-id", &id), ("lb-name", "mine")]
                .into_iter()
                .for_each(|(key, value)| annotate(&mut service, blb(key), value));
            harness
                .ensure(&harness.started().await, &mut service)
                .await
                .unwrap();
            harness
                .delete(&harness.started().await, &service)
                .await
                .unwrap();
            let left = harness.blb();
            assert_eq!(
                (&left["desc"], &left["listeners"], &left["backends"]),
                (&json!(description), &json!([]), &json!([]))
            );
            assert!(
                harness.eips().is_empty(),
                "the EIP was created for the Service"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn blb_of_the_go_program_with_a_chosen_name_is_not_given_to_a_service_that_names_its_id() {
    let harness = Harness::new();
    let mut first = service(&[(blb("lb-name"), "mine")]);
    harness
        .ensure(&harness.started().await, &mut first)
        .await
        .unwrap();
    harness.go_program_left("mine");
    let before = harness.blb();
    let id = text(&harness.blb()["blbId"]);
    for key in ["id", "exist-id", "cce-add-id"] {
        let mut other = service(&[(blb(key), &id)]);
        (other.metadata.name, other.metadata.uid) =
            (Some("other".to_owned()), Some("uid-other".to_owned()));
        let error = harness
            .ensure(&harness.started().await, &mut other)
            .await
            .unwrap_err();
        assert!(error.to_string().contains("in use"), "{key}: {error}");
        harness
            .delete(&harness.started().await, &other)
            .await
            .unwrap();
        assert_eq!(harness.blb(), before, "{key}");
    }
}

#[tokio::test(start_paused = true)]
async fn blb_of_another_vpc_is_not_used() {
    for key in ["id", "exist-id"] {
        let harness = Harness::new();
        let id = harness.fake.lock().add_blb(ACCOUNT, "theirs", "theirs");
        harness.fake.lock().blbs[0]["vpcId"] = "vpc-theirs".into();
        let before = harness.blb();
        let mut service = service(&[(blb(key), &id)]);
        let error = harness
            .ensure(&harness.started().await, &mut service)
            .await
            .unwrap_err();
        assert!(
            error.is_invalid() && error.to_string().contains("is in VPC vpc-theirs"),
            "{error}"
        );
        harness
            .delete(&harness.started().await, &service)
            .await
            .unwrap();
        assert_eq!(
            (harness.blb(), harness.changes()),
            (before, Vec::new()),
            "{key}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn found_eip_keeps_its_bandwidth_and_is_not_released() {
    for key in [eip("name"), blb("cce-add-eip")] {
        let harness = Harness::new();
        let ip = harness.fake.lock().add_eip(ACCOUNT, "theirs");
        let value = if key == eip("name") { "theirs" } else { &ip };
        let mut service = service(&[
            (key.clone(), value),
            (eip("bandwidth-in-mbps"), "7"),
            (eip("billing-method"), "ByBandwidth"),
        ]);
        for _ in 0..2 {
            harness
                .ensure(&harness.started().await, &mut service)
                .await
                .unwrap();
        }
        let events = harness.events().join("\n");
        assert!(
            events.contains("QuestionableSetting") && events.contains(&ip),
            "{key}: {events}"
        );
        annotate(&mut service, blb("cce-add-eip"), &ip);
        harness
            .ensure(&harness.started().await, &mut service)
            .await
            .unwrap();
        let bound = harness.eips()[0].clone();
        assert_eq!(
            (&bound["status"], &bound["bandwidthInMbps"]),
            (&json!("binded"), &json!(100)),
            "{key}"
        );
        harness
            .delete(&harness.started().await, &service)
            .await
            .unwrap();
        let left = harness.eips();
        assert_eq!(
            (left.len(), &left[0]["status"]),
            (1, &json!("available")),
            "{key}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn eip_that_an_adopted_blb_had_stays_bound_and_another_one_is_unbound() {
    for (is_bound, description) in [
        (true, "mine"),
        (false, "mine"),
        (true, DESCRIPTION),
        (false, DESCRIPTION),
    ] {
        let harness = Harness::new();
        let ip = harness.fake.lock().add_eip(ACCOUNT, "theirs");
        let id = harness.fake.lock().add_blb(ACCOUNT, "mine", description);
        if is_bound {
            harness.fake.lock().bind(&ip, &id);
        }
        let mut service = service(&[(blb("exist-id"), &id), (eip("name"), "theirs")]);
        harness
            .ensure(&harness.started().await, &mut service)
            .await
            .unwrap();
        harness
            .ensure(&harness.started().await, &mut service)
            .await
            .unwrap();
        assert_eq!(harness.eips()[0]["instanceId"], id);
        harness
            .delete(&harness.started().await, &service)
            .await
            .unwrap();
        let bound_to = if is_bound { json!(id) } else { json!("") };
        assert_eq!(
            (&harness.eips()[0]["instanceId"], &harness.blb()["desc"]),
            (&bound_to, &json!(description))
        );
    }
}

#[tokio::test(start_paused = true)]
async fn eip_that_an_author_records_is_not_released_with_a_blb_of_the_go_program() {
    let harness = Harness::new();
    let mut service = service(&[]);
    harness
        .ensure(&harness.started().await, &mut service)
        .await
        .unwrap();
    harness.go_program_left("CCE/SVC/c-1/default/web");
    let theirs = harness.fake.lock().add_eip(ACCOUNT, "theirs");
    annotate(&mut service, blb("cce-add-eip"), &theirs);
    harness
        .delete(&harness.started().await, &service)
        .await
        .unwrap();
    let left = harness.eips();
    assert_eq!((left.len(), text(&left[0]["eip"])), (1, theirs));
}

#[tokio::test(start_paused = true)]
async fn name_of_a_blb_binds_no_eip_that_has_the_name_by_chance() {
    let harness = Harness::new();
    let theirs = harness.fake.lock().add_eip(ACCOUNT, "theirs");
    harness
        .ensure(
            &harness.started().await,
            &mut service(&[(blb("lb-name"), "theirs")]),
        )
        .await
        .unwrap();
    let all = harness.eips();
    assert_eq!(
        (all.len(), &all[0]["eip"], &all[0]["status"]),
        (2, &json!(theirs), &json!("available"))
    );
}

#[tokio::test(start_paused = true)]
async fn name_that_is_generated_for_another_service_is_refused() {
    for key in [blb("lb-name"), eip("name")] {
        for name in [
            "CCE/SVC/c-1/bank/web",
            "CCE/SVC/c-2/default/web",
            "a0123456789abcdef0123456789abcde",
        ] {
            let harness = Harness::new();
            let error = harness
                .ensure(
                    &harness.started().await,
                    &mut service(&[(key.clone(), name)]),
                )
                .await
                .unwrap_err();
            assert!(
                error.is_invalid() && error.to_string().contains(name),
                "{key}: {error}"
            );
            assert_eq!(harness.changes(), [""; 0]);
        }
        let harness = Harness::new();
        let mut own = service_of(
            &[(key, "CCE/SVC/c-1/default/web")],
            Value::Object(serde_json::Map::new()),
        );
        harness
            .ensure(&harness.started().await, &mut own)
            .await
            .unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn blb_without_the_required_word_is_not_adopted() {
    for (description, is_adopted) in [
        ("mine", false),
        ("ccm-rs-adoptable-not", false),
        ("mine ccm-rs-adoptable", true),
    ] {
        let harness = Harness::new().requiring("ccm-rs-adoptable");
        let id = harness.fake.lock().add_blb(ACCOUNT, "mine", description);
        let before = harness.blb();
        let mut service = service(&[(blb("exist-id"), &id), (blb("internal-vpc"), "true")]);
        let outcome = harness.ensure(&harness.started().await, &mut service).await;
        assert_eq!(outcome.is_ok(), is_adopted, "{description}: {outcome:?}");
        if let Err(error) = outcome {
            assert!(
                error.is_invalid()
                    && error
                        .to_string()
                        .contains("give it the tag ccm-rs-adoptable"),
                "{error}"
            );
            assert_eq!(harness.blb(), before);
        }
    }
}
