//! Load balancers over their life.

use std::time::Duration;

use cloud_provider::LoadBalancerStatus;
use digitalocean_fake::{Fault, TOKEN};
use serde_json::json;

use crate::harness::{Harness, PREFIX, service, service_of};

const ID: &str = "kubernetes.digitalocean.com/load-balancer-id";

fn shown(status: &LoadBalancerStatus) -> Vec<String> {
    let ingress = status.ingress.iter().flatten();
    ingress
        .map(|ingress| {
            ingress
                .ip
                .clone()
                .or(ingress.hostname.clone())
                .unwrap_or_default()
                + ingress.ip_mode.as_deref().unwrap_or_default()
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_load_balancer_is_created_with_one_request_and_shown_once_it_is_active() {
    let harness = Harness::new()
        .set("DO_CLUSTER_ID", "prod")
        .set("DO_CLUSTER_VPC_ID", digitalocean_fake::VPC);
    let provider = harness.started().await;
    let mut service = service(&[]);
    let status = harness.ensure(&provider, &mut service).await.unwrap();
    let made = harness.load_balancer();
    assert_eq!(
        shown(&status),
        [made["ip"].as_str().unwrap(), made["ipv6"].as_str().unwrap()]
    );
    let tags = [
        "k8s:prod",
        "ccmrs-cluster:5c1d",
        "ccmrs-service:0b0a1c0f-3f3e-4c57-a1b5-9f5f2a7d8c11",
    ];
    assert_eq!(
        (&made["tags"], made["droplet_ids"].as_array().unwrap().len()),
        (&json!(tags), 2)
    );
    let annotations = service.metadata.annotations.clone().unwrap();
    assert_eq!(
        (
            &json!(annotations[ID]),
            &*annotations[&format!("{PREFIX}type")]
        ),
        (&made["id"], "REGIONAL_NETWORK")
    );
    assert_eq!(harness.fake.count("POST"), 1);

    harness.fake.forget_requests();
    harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!(harness.fake.changes(), [], "nothing has changed");
    harness.delete(&provider, &service).await.unwrap();
    assert!(harness.fake.load_balancers().is_empty());
    harness.delete(&provider, &service).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_changed_service_is_written_as_a_whole_and_keeps_what_nobody_stated() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut service = service(&[("type", "REGIONAL")]);
    harness.ensure(&provider, &mut service).await.unwrap();
    let name = harness.load_balancer()["name"].clone();
    harness
        .fake
        .change_load_balancer(name.as_str().unwrap(), |load_balancer| {
            load_balancer["size_unit"] = 4.into();
            load_balancer["tls_cipher_policy"] = "STRONG".into();
        });
    let annotations = service.metadata.annotations.get_or_insert_default();
    annotations.extend([
        (format!("{PREFIX}name"), "renamed".to_owned()),
        (format!("{PREFIX}http-ports"), "80".to_owned()),
    ]);
    // The program starts again: it has not seen what was changed by hand.
    let provider = harness.started().await;
    harness.ensure(&provider, &mut service).await.unwrap();
    let after = harness.load_balancer();
    assert_eq!(
        (&after["name"], &after["size_unit"]),
        (&json!("renamed"), &json!(4))
    );
    assert_eq!(harness.fake.count("PUT"), 1);
    let sent = harness.fake.bodies("PUT /load_balancers/{id}");
    assert_eq!(
        (&sent[0]["tls_cipher_policy"], &sent[0]["ip"]),
        (&json!("STRONG"), &json!(null))
    );
}

#[tokio::test(start_paused = true)]
async fn a_change_waits_while_the_load_balancer_is_at_work() {
    let harness = Harness::new();
    let provider = harness.started().await;
    harness
        .fake
        .set_options(|options| options.change_time = Duration::from_secs(3));
    let mut service = service(&[]);
    harness.ensure(&provider, &mut service).await.unwrap();
    for keepalive in ["true", "false"] {
        let annotations = service.metadata.annotations.get_or_insert_default();
        annotations.insert(
            format!("{PREFIX}enable-backend-keepalive"),
            keepalive.to_owned(),
        );
        let mut tries = 0;
        while let Err(error) = harness.ensure(&provider, &mut service).await {
            tries += 1;
            assert!(
                error.is_conflict() && tries < 5,
                "it is busy, not invalid: {error}"
            );
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
    assert_eq!(harness.load_balancer()["enable_backend_keepalive"], false);
}

#[tokio::test(start_paused = true)]
async fn what_the_go_program_made_is_accepted_with_no_change() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut service = service(&[]);
    harness.ensure(&provider, &mut service).await.unwrap();
    let name = harness.load_balancer()["name"].as_str().unwrap().to_owned();
    // As the Go cloud-controller-manager writes it: without owner tags, and identified by the annotation.
    harness
        .fake
        .change_load_balancer(&name, |load_balancer| load_balancer["tags"] = json!([]));
    let provider = harness.started().await;
    harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!(harness.fake.changes(), []);
    harness.delete(&provider, &service).await.unwrap();
    assert!(harness.fake.load_balancers().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_load_balancer_is_adopted_by_its_id_or_name_but_not_from_another_cluster() {
    for (annotation, name, tags, is_adopted) in [
        (true, "by-hand", json!(["mine"]), true),
        (false, "a0b0a1c0f3f3e4c57a1b59f5f2a7d8c1", json!([]), true),
        (
            false,
            "a0b0a1c0f3f3e4c57a1b59f5f2a7d8c1",
            json!(["k8s:other"]),
            false,
        ),
    ] {
        let harness = Harness::new();
        let id = harness.fake.add_load_balancer(name)["id"].clone();
        harness
            .fake
            .change_load_balancer(name, |load_balancer| load_balancer["tags"] = tags.clone());
        let provider = harness.started().await;
        let id_annotation = [("type", "REGIONAL"), (ID, id.as_str().unwrap())];
        let mut service = service(&id_annotation[..1 + usize::from(annotation)]);
        let outcome = harness.ensure(&provider, &mut service).await;
        assert_eq!(outcome.is_ok(), is_adopted, "{name} {tags}: {outcome:?}");
        let after = harness.load_balancer();
        assert_eq!(after["id"], id);
        let is_tagged = after["tags"]
            .as_array()
            .unwrap()
            .iter()
            .any(|tag| tag == "ccmrs-cluster:5c1d");
        assert_eq!(is_tagged, is_adopted, "{name}: {}", after["tags"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_renewed_certificate_is_kept_and_its_id_annotated() {
    let harness = Harness::new();
    let old = harness.fake.add_certificate("example", "lets_encrypt");
    let provider = harness.started().await;
    let mut service = service(&[("type", "REGIONAL"), ("certificate-id", &old)]);
    harness.ensure(&provider, &mut service).await.unwrap();
    let new = harness.fake.renew_certificate(&old);
    let provider = harness.started().await;
    harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!(
        service.metadata.annotations.as_ref().unwrap()[&format!("{PREFIX}certificate-id")],
        new
    );
    assert_eq!(harness.fake.count("PUT"), 0);

    let other = harness.fake.add_certificate("other", "custom");
    service
        .metadata
        .annotations
        .as_mut()
        .unwrap()
        .insert(format!("{PREFIX}certificate-id"), other.clone());
    harness.ensure(&provider, &mut service).await.unwrap();
    assert!(
        harness.load_balancer().to_string().contains(&other),
        "a certificate that the user chose is used"
    );
}

#[tokio::test(start_paused = true)]
async fn a_disowned_load_balancer_is_left_alone() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut service = service(&[]);
    let status = harness.ensure(&provider, &mut service).await.unwrap();
    let disown = "service.kubernetes.io/do-loadbalancer-disown".to_owned();
    service
        .metadata
        .annotations
        .as_mut()
        .unwrap()
        .insert(disown.clone(), "true".to_owned());
    harness.fake.forget_requests();
    assert_eq!(
        harness.ensure(&provider, &mut service).await.unwrap(),
        status
    );
    harness.delete(&provider, &service).await.unwrap();
    assert_eq!(
        (
            harness.fake.requests().len(),
            harness.fake.load_balancers().len()
        ),
        (0, 1)
    );
    service
        .metadata
        .annotations
        .as_mut()
        .unwrap()
        .insert(disown, "perhaps".to_owned());
    assert!(harness.delete(&provider, &service).await.is_err());
    assert_eq!(harness.fake.load_balancers().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_status_is_the_hostname_or_says_that_a_proxy_answers() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut named = service(&[("hostname", "LB.Example.com."), ("type", "REGIONAL")]);
    assert_eq!(
        shown(&harness.ensure(&provider, &mut named).await.unwrap()),
        ["lb.example.com"]
    );
    named
        .metadata
        .annotations
        .as_mut()
        .unwrap()
        .remove(&format!("{PREFIX}hostname"));
    named
        .metadata
        .annotations
        .as_mut()
        .unwrap()
        .insert(format!("{PREFIX}enable-proxy-protocol"), "true".to_owned());
    let status = harness.ensure(&provider, &mut named).await.unwrap();
    assert!(
        shown(&status).iter().all(|text| text.ends_with("Proxy")),
        "{status:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn nodes_without_a_public_address_are_no_targets_of_network_load_balancers() {
    let harness = Harness::new();
    let change = |name: &str, v4: bool| {
        let droplet = harness.fake.change_droplet(name, |droplet| {
            droplet.public_v6 = None;
            droplet.public_v4 = droplet.public_v4.filter(|_| v4);
        });
        harness.add_node(&droplet.unwrap());
    };
    change("worker-1", true);
    change("worker-2", false);
    let provider = harness.started().await;
    let mut service = service(&[]);
    harness.ensure(&provider, &mut service).await.unwrap();
    let made = harness.load_balancer();
    assert_eq!(
        (
            &made["network_stack"],
            made["droplet_ids"].as_array().unwrap().len()
        ),
        (&json!("IPV4"), 1)
    );

    change("worker-1", false);
    let error = harness.ensure(&provider, &mut service).await.unwrap_err();
    assert!(
        error.is_invalid() && error.to_string().contains("no Node has a public address"),
        "{error}"
    );
    assert!(
        harness
            .events()
            .iter()
            .any(|event| event.starts_with("LoadBalancerConfigError"))
    );
    let mut dual = service_of(&[("network-stack", "DUALSTACK")], json!({}));
    harness.fake.add_droplet("worker-3");
    change("worker-3", true);
    let error = harness.ensure(&provider, &mut dual).await.unwrap_err();
    assert!(
        error
            .to_string()
            .contains("these have none of IPv6: worker-3"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_droplet_that_is_gone_keeps_no_other_from_being_a_target() {
    let harness = Harness::new();
    let provider = harness.started().await;
    harness.fake.delete_droplet("worker-1");
    harness.ensure(&provider, &mut service(&[])).await.unwrap();
    assert_eq!(
        harness.load_balancer()["droplet_ids"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[tokio::test(start_paused = true)]
async fn a_load_balancer_that_never_worked_is_created_again() {
    let harness = Harness::new();
    let provider = harness.started().await;
    harness
        .fake
        .fail(Fault::ends_in_error("POST /load_balancers", "").times(1));
    let status = harness.ensure(&provider, &mut service(&[])).await.unwrap();
    assert_eq!(shown(&status).len(), 2);
    assert_eq!(
        (
            harness.fake.count("POST"),
            harness.load_balancer()["status"].as_str()
        ),
        (2, Some("active"))
    );
}

#[tokio::test(start_paused = true)]
async fn load_balancers_of_the_cluster_get_its_tag() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut service = service(&[]);
    harness.ensure(&provider, &mut service).await.unwrap();
    harness.fake.add_load_balancer("theirs");
    let harness = harness.set("DO_CLUSTER_ID", "prod");
    let _provider = harness.started().await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let is_tagged = |name: &str| {
        harness.fake.load_balancer(name).unwrap()["tags"]
            .to_string()
            .contains("k8s:prod")
    };
    assert!(is_tagged("a0b0a1c0f3f3e4c57a1b59f5f2a7d8c1") && !is_tagged("theirs"));
    harness.fake.forget_requests();
    tokio::time::sleep(Duration::from_secs(30 * 60)).await;
    assert_eq!(
        (
            harness.fake.changes(),
            harness.fake.count("GET /load_balancers") > 0
        ),
        (Vec::new(), true)
    );
    harness.fake.revoke_token(TOKEN);
}

#[tokio::test(start_paused = true)]
async fn service_is_deleted_after_the_droplets_of_the_cluster() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut service = service(&[]);
    harness.ensure(&provider, &mut service).await.unwrap();
    ["worker-1", "worker-2"]
        .into_iter()
        .for_each(|name| drop(harness.fake.delete_droplet(name)));
    harness.delete(&provider, &service).await.unwrap();
    assert!(harness.fake.load_balancers().is_empty());
    harness.delete(&provider, &service).await.unwrap();
}
