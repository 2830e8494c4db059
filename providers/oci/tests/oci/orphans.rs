//! Rules of security lists that several Services need: they stay when one of the Services goes.

use cloud_provider::{Caches, CloudProvider, Owner, RemovalOutcome, Service};
use serde_json::{Value, json};

use crate::harness::{Harness, cluster, other_service, rules, service};

const MODE: &str = "oci.oraclecloud.com/security-rule-management-mode";
const MAIL: &str = "11111111-3f3e-4c57-a1b5-9f5f2a7d8c11";

/// Adds rules as a user may write them for a Service, without a description.
fn add_rules_of_user(harness: &Harness, ports: [(&str, u16); 2]) {
    for (list, port) in ports {
        let rule = json!({"protocol": "6", "source": "0.0.0.0/0", "isStateless": false,
            "tcpOptions": {"destinationPortRange": {"min": port, "max": port}}});
        let mut cloud = harness.fake.lock();
        let list = cloud
            .objects
            .get_mut(&format!("ocid1.securitylist.oc1.phx.{list}"))
            .unwrap();
        list["ingressSecurityRules"]
            .as_array_mut()
            .unwrap()
            .push(rule);
    }
}

/// Sets what the API server lists for a provider without caches.
fn show(harness: &Harness, services: &[Service]) {
    let nodes = harness.cluster.nodes();
    let nodes: Vec<Value> = nodes
        .iter()
        .map(|node| json!({"spec": {"providerID": *node.provider_id}}))
        .collect();
    harness
        .cluster
        .set_document("/api/v1/nodes", json!({ "items": nodes }).to_string());
    harness
        .cluster
        .set_document("/api/v1/services", json!({ "items": services }).to_string());
}

#[tokio::test(start_paused = true)]
async fn orphans_keep_the_rules_that_live_services_need_and_no_other_rules() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut web = service(&[], json!({}));
    let mut mail = other_service("mail", MAIL, &[], 80);
    mail.spec.as_mut().unwrap().ports.as_mut().unwrap()[0].node_port = Some(31080);
    harness.ensure(&provider, &mut web).await.unwrap();
    let lists = || {
        [
            ("balancers", "ingress"),
            ("balancers", "egress"),
            ("nodes", "ingress"),
        ]
        .map(|(list, direction)| rules(&harness, list, direction))
    };
    let before = lists();
    harness
        .ensure_beside(&provider, &mut mail, &[web.clone()])
        .await
        .unwrap();
    assert_ne!(lists(), before);

    // The subcommand runs in a process of its own, whose provider has no caches.
    let orphans = harness.without_caches().await;
    let balancers = orphans.load_balancers().unwrap();
    let owned = balancers.owned(&cluster()).await.unwrap();
    let orphan = owned
        .into_iter()
        .find(|resource| resource.owner == Owner::Service(MAIL.to_owned()))
        .unwrap();
    let error = balancers
        .delete_owned(&cluster(), &orphan, &[])
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("GET /api/v1/"),
        "without the list of Services nothing is removed: {error}"
    );
    show(&harness, &[web.clone()]);
    let outcome = balancers
        .delete_owned(&cluster(), &orphan, &[web.clone().into()])
        .await
        .unwrap();
    assert_eq!((outcome, lists()), (RemovalOutcome::Deleted, before));
    harness.fake.fault_injector().forget_requests();
    harness.ensure(&provider, &mut web).await.unwrap();
    assert_eq!(harness.changes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn deletion_keeps_rules_of_users_for_ports_of_other_services() {
    let none = other_service("mail", MAIL, &[(MODE, "None")], 80);
    // Nothing is known about its annotations and ports.
    let mut odd = other_service("mail", MAIL, &[(MODE, "perhaps")], 80);
    odd.spec.as_mut().unwrap().ports.as_mut().unwrap()[0].protocol = Some("SCTP".to_owned());
    let mut on_nodes = other_service("mail", MAIL, &[], 80);
    on_nodes.spec.as_mut().unwrap().type_ = Some("NodePort".to_owned());
    let groups = other_service("mail", MAIL, &[(MODE, "NSG")], 80);
    for (other, listener, node_port) in
        [(none, 1, 1), (odd, 1, 1), (on_nodes, 0, 1), (groups, 0, 0)]
    {
        let harness = Harness::new();
        let provider = harness.started().await;
        add_rules_of_user(&harness, [("balancers", 80), ("nodes", 30080)]);
        let mut web = service(&[], json!({}));
        harness
            .ensure_beside(&provider, &mut web, std::slice::from_ref(&other))
            .await
            .unwrap();
        harness
            .delete_beside(&provider, &web, std::slice::from_ref(&other))
            .await
            .unwrap();
        let left = |list: &str, rule: &str| {
            rules(&harness, list, "ingress")
                .iter()
                .filter(|other_rule| *other_rule == rule)
                .count()
        };
        assert_eq!(
            (
                left("balancers", "0.0.0.0/0 80"),
                left("nodes", "0.0.0.0/0 30080")
            ),
            (listener, node_port),
            "{other:#?}"
        );
    }
}
