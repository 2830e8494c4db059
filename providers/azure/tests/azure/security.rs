//! Tests of security rules that lead to Nodes, and of what goes with a Service.

use std::collections::BTreeSet;

use azure_fake::id;
use cloud_provider::{Caches, CloudProvider, LoadBalancerRequest, Service};
use provider_azure::Azure;
use serde_json::{Value, json};

use crate::harness::{Form, GROUP, Harness, cluster, list, service, text};

const NO_FLOATING: (&str, &str) = ("azure-disable-load-balancer-floating-ip", "true");
const DENY: (&str, &str) = ("azure-deny-all-except-load-balancer-source-ranges", "true");

/// Returns the destinations of each security rule, with its ports.
fn destinations(harness: &Harness) -> Vec<(String, BTreeSet<String>)> {
    let of = |rule: &Value| {
        let properties = &rule["properties"];
        let many = list(&properties["destinationAddressPrefixes"]).map(text);
        let all = many
            .chain(
                properties["destinationAddressPrefix"]
                    .as_str()
                    .map(str::to_owned),
            )
            .collect();
        let ports: Vec<_> = list(&properties["destinationPortRanges"])
            .map(text)
            .collect();
        (ports.join(","), all)
    };
    let mut all: Vec<_> = harness.security_rules().iter().map(of).collect();
    all.sort();
    all
}

fn nodes(harness: &Harness) -> BTreeSet<String> {
    harness
        .cluster
        .nodes()
        .iter()
        .map(|node| node.addresses[0].address.to_string())
        .collect()
}

async fn update(harness: &Harness, provider: &Azure, service: &Service) {
    let cluster = cluster();
    let nodes = harness.cluster.nodes();
    let request = LoadBalancerRequest {
        cluster: &cluster,
        service,
        nodes: &nodes,
        callbacks: &(),
    };
    provider
        .load_balancers()
        .unwrap()
        .update_targets(request)
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn security_rules_to_nodes_follow_the_nodes_and_end_with_port_form_and_service() {
    for form in [Form::Addresses, Form::Interfaces] {
        let harness = Harness::new(form);
        let provider = harness.started().await;
        let web = service("web", &[80], &[NO_FLOATING], &Value::Null);
        harness.ensure(&provider, &web).await.unwrap();
        assert_eq!(
            destinations(&harness),
            [("30080".to_owned(), nodes(&harness))],
            "{form:?}"
        );
        // A Node joins, and another one leaves.
        harness.add_node("worker-3");
        update(&harness, &provider, &web).await;
        assert_eq!(
            destinations(&harness),
            [("30080".to_owned(), nodes(&harness))],
            "{form:?}"
        );
        harness.cluster.remove_node("worker-1");
        update(&harness, &provider, &web).await;
        assert_eq!(
            destinations(&harness),
            [("30080".to_owned(), nodes(&harness))],
            "{form:?}"
        );
        harness.changes();
        harness.ensure(&provider, &web).await.unwrap();
        assert_eq!(harness.changes(), [""; 0], "{form:?}");
        // Another port, and a floating address.
        let web = service("web", &[81], &[NO_FLOATING], &Value::Null);
        harness.ensure(&provider, &web).await.unwrap();
        assert_eq!(
            destinations(&harness),
            [("30081".to_owned(), nodes(&harness))],
            "{form:?}"
        );
        let floating = service("web", &[81], &[], &Value::Null);
        let status = harness.ensure(&provider, &floating).await.unwrap().unwrap();
        let ip = status.ingress.unwrap()[0].ip.clone().unwrap();
        assert_eq!(
            destinations(&harness),
            [("81".to_owned(), [ip].into())],
            "{form:?}"
        );
        harness.ensure(&provider, &web).await.unwrap();
        assert_eq!(
            destinations(&harness),
            [("30081".to_owned(), nodes(&harness))],
            "{form:?}"
        );
        harness.delete(&provider, &web).await.unwrap();
        assert_eq!(destinations(&harness), [], "{form:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn denial_for_nodes_ends_with_its_last_service_and_rules_of_others_stay() {
    let harness = Harness::new(Form::Addresses);
    let ranges = json!({"loadBalancerSourceRanges": ["192.0.2.0/24"]});
    let web = service("web", &[80], &[NO_FLOATING, DENY], &ranges);
    let mail = service("mail", &[25], &[NO_FLOATING], &ranges);
    let all = [web.clone(), mail.clone()];
    let provider = harness.started().await;
    for entry in &all {
        harness.ensure_among(&provider, entry, &all).await.unwrap();
    }
    assert_eq!(destinations(&harness).len(), 3);
    harness.changes();
    for object in &all {
        harness.ensure_among(&provider, object, &all).await.unwrap();
    }
    assert_eq!(harness.changes(), [""; 0]);
    // After a restart, nothing is remembered.
    let provider = harness.started().await;
    harness.delete(&provider, &web).await.unwrap();
    assert_eq!(
        destinations(&harness),
        [("30025".to_owned(), nodes(&harness))]
    );
}

#[tokio::test(start_paused = true)]
async fn denial_of_a_shared_address_ends_with_its_service() {
    let harness = Harness::new(Form::Addresses);
    let provider = harness.started().await;
    let ranges = json!({"loadBalancerSourceRanges": ["192.0.2.0/24"]});
    let mut mail = service("mail", &[25], &[], &Value::Null);
    let status = harness.ensure(&provider, &mail).await.unwrap().unwrap();
    let ip = status.ingress.as_ref().unwrap()[0].ip.clone().unwrap();
    mail.status = Some(serde_json::from_value(json!({ "loadBalancer": status })).unwrap());
    let mut more = ranges;
    more["loadBalancerIP"] = ip.into();
    let mut web = service("web", &[80], &[DENY], &more);
    let all = [mail.clone(), web.clone()];
    let status = harness
        .ensure_among(&provider, &web, &all)
        .await
        .unwrap()
        .unwrap();
    web.status = Some(serde_json::from_value(json!({ "loadBalancer": status })).unwrap());
    let denials = || {
        harness
            .security_rules()
            .iter()
            .filter(|security_rule| security_rule["properties"]["access"] == "Deny")
            .count()
    };
    assert_eq!(denials(), 1);
    harness.cluster.set_services([mail, web.clone()]);
    harness.delete(&provider, &web).await.unwrap();
    assert_eq!((denials(), harness.security_rules().len()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn denial_that_would_cut_off_another_service_of_an_internal_address_is_refused() {
    let internal = ("azure-load-balancer-internal", "true");
    let harness = Harness::new(Form::Addresses);
    let provider = harness.started().await;
    let mut mail = service("mail", &[25], &[internal], &Value::Null);
    let status = harness.ensure(&provider, &mail).await.unwrap().unwrap();
    let ip = status.ingress.as_ref().unwrap()[0].ip.clone().unwrap();
    mail.status = Some(serde_json::from_value(json!({ "loadBalancer": status })).unwrap());
    let spec = json!({"loadBalancerSourceRanges": ["192.0.2.0/24"], "loadBalancerIP": ip});
    let web = service("web", &[80], &[internal, DENY], &spec);
    let error = harness
        .ensure_among(&provider, &web, &[mail.clone(), web.clone()])
        .await
        .unwrap_err();
    assert!(
        error.is_invalid()
            && error
                .to_string()
                .contains("Service default/mail has address"),
        "{error}"
    );
    assert_eq!(harness.security_rules(), Vec::<Value>::new());
    // With ranges of its own, the other Service has a rule that admits its traffic.
    mail.spec.as_mut().unwrap().load_balancer_source_ranges =
        Some(vec!["198.51.100.0/24".to_owned()]);
    harness
        .ensure_among(&provider, &web, &[mail, web.clone()])
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn rule_that_somebody_opened_is_closed_again() {
    let harness = Harness::new(Form::Addresses);
    let web = service(
        "web",
        &[80],
        &[],
        &json!({"loadBalancerSourceRanges": ["192.0.2.0/24"]}),
    );
    harness
        .ensure(&harness.started().await, &web)
        .await
        .unwrap();
    let before = harness.security_rules();
    for (one, many) in [
        ("sourceAddressPrefix", "sourceAddressPrefixes"),
        ("destinationPortRange", "destinationPortRanges"),
        ("destinationAddressPrefix", "destinationAddressPrefixes"),
    ] {
        harness
            .fake
            .lock()
            .edit(&id(GROUP, azure_fake::SECURITY_GROUP), |group| {
                let rules = group["properties"]["securityRules"].as_array_mut().unwrap();
                let rule = rules
                    .iter_mut()
                    .find(|rule| text(&rule["name"]).starts_with("k8s-azure-lb_"))
                    .unwrap();
                let properties = rule["properties"].as_object_mut().unwrap();
                properties.remove(many);
                properties.insert(one.to_owned(), "*".into());
            });
        harness
            .ensure(&harness.started().await, &web)
            .await
            .unwrap();
        assert_eq!(harness.security_rules(), before, "{one}");
    }
}
