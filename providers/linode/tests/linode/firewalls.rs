//! Firewalls of NodeBalancers: those of ACLs, and those of users.

use linode_fake::{ACCOUNT, Fault};
use serde_json::{Value, json};

use crate::harness::{Harness, annotate, service, service_of};

/// Returns the number of NodeBalancers.
fn nodebalancers(harness: &Harness) -> usize {
    harness.fake.lock().nodebalancers.len()
}

const ACL: &str = r#"{"allowList": {"ipv4": ["192.0.2.0/24"]}}"#;

/// Adds firewalls of a user with these labels and tags, attached to these NodeBalancers.
fn add_firewalls(
    harness: &Harness,
    labels: &[(&str, Value)],
    nodebalancer: Option<&Value>,
) -> Vec<u64> {
    let mut cloud = harness.fake.lock();
    let mut ids = Vec::new();
    for (label, tags) in labels {
        let id = cloud.number();
        let device = cloud.number();
        let entity = nodebalancer
            .map(|id| json!({"id": device, "entity": {"id": id, "type": "nodebalancer"}}));
        let devices: Vec<_> = entity.into_iter().collect();
        let rules = json!({"inbound_policy": "DROP", "outbound_policy": "ACCEPT", "inbound": [], "outbound": []});
        cloud.firewalls.push(
            json!({"id": id, "account": ACCOUNT, "label": label, "tags": tags, "rules": rules, "devices": devices}),
        );
        ids.push(id);
    }
    ids
}

/// Returns the number of objects that each firewall is attached to.
fn devices(harness: &Harness) -> Vec<usize> {
    harness
        .fake
        .lock()
        .firewalls
        .iter()
        .map(|firewall| firewall["devices"].as_array().unwrap().len())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn acl_firewall_stands_before_the_ports_and_goes_with_the_service() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut service = service(&[(
        "firewall-acl",
        r#"{"allowList": {"ipv4": ["192.0.2.0/24"]}}"#,
    )]);
    harness.ensure(&provider, &mut service).await.unwrap();
    let firewall = harness.fake.lock().firewalls[0].clone();
    let rule = &firewall["rules"]["inbound"][0];
    assert_eq!(
        (&firewall["rules"]["inbound_policy"], &rule["ports"]),
        (&json!("DROP"), &json!("443,80"))
    );
    assert_eq!(harness.nodebalancer().1.len(), 2);
    let provider = harness.started().await;
    harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!(harness.changes(), [""; 0]);
    annotate(
        &mut service,
        "firewall-acl",
        r#"{"denyList": {"ipv4": ["192.0.2.0/24"], "ipv6": ["2001:db8::/32"]}}"#,
    );
    harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!(
        harness.fake.lock().firewalls[0]["rules"]["inbound_policy"],
        "ACCEPT"
    );
    harness.delete(&provider, &service).await.unwrap();
    assert!(harness.fake.lock().firewalls.is_empty());
}

#[tokio::test(start_paused = true)]
async fn firewall_of_the_user_is_attached_and_never_deleted() {
    let harness = Harness::new();
    let ids: Vec<u64> = {
        let mut cloud = harness.fake.lock();
        let ids = [cloud.number(), cloud.number()];
        let firewall = |id: &u64| json!({"id": id, "account": ACCOUNT, "label": format!("fw-{id}"), "tags": [], "rules": {}, "devices": []});
        cloud.firewalls = ids.iter().map(firewall).collect();
        ids.into()
    };
    let provider = harness.started().await;
    let mut service = service(&[("firewall-id", &ids[0].to_string())]);
    harness.ensure(&provider, &mut service).await.unwrap();
    let devices = |at: usize| {
        harness.fake.lock().firewalls[at]["devices"]
            .as_array()
            .unwrap()
            .len()
    };
    assert_eq!((devices(0), devices(1)), (1, 0));
    annotate(&mut service, "firewall-id", &ids[1].to_string());
    harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!((devices(0), devices(1)), (0, 1));
    harness.delete(&provider, &service).await.unwrap();
    assert_eq!(harness.fake.lock().firewalls.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn other_firewalls_of_the_user_stay_attached() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut service = service(&[]);
    harness.ensure(&provider, &mut service).await.unwrap();
    let id = harness.nodebalancer().0["id"].clone();
    let ids = add_firewalls(
        &harness,
        &[
            ("first", json!([])),
            ("second", json!([])),
            ("third", json!([])),
        ],
        Some(&id),
    );
    harness.fake.lock().firewalls[2]["devices"] = json!([]);
    let provider = harness.started().await;
    // The annotation names one that is attached already, and then one that is not.
    for (named, expected) in [(ids[1], [1, 1, 0]), (ids[2], [1, 0, 1])] {
        annotate(&mut service, "firewall-id", &named.to_string());
        harness.ensure(&provider, &mut service).await.unwrap();
        assert_eq!(devices(&harness), expected, "{named}");
        if named == ids[1] {
            assert_eq!(harness.changes(), [""; 0]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn firewall_that_no_known_annotation_attached_stays_with_an_event() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut service = service(&[]);
    harness.ensure(&provider, &mut service).await.unwrap();
    let id = harness.nodebalancer().0["id"].clone();
    let ids = add_firewalls(
        &harness,
        &[("first", json!([])), ("second", json!([]))],
        Some(&id),
    );
    harness.fake.lock().firewalls[1]["devices"] = json!([]);
    annotate(&mut service, "firewall-id", &ids[1].to_string());
    let provider = harness.started().await;
    harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!(devices(&harness), [1, 1]);
    let events = harness.events();
    assert!(
        events
            .iter()
            .any(|event| event.starts_with("FirewallStaysAttached")),
        "{events:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn firewalls_with_the_label_of_the_nodebalancer_or_of_another_service_stay() {
    let other = json!([
        "ccmrs-cluster:5c1d",
        "ccmrs-service:1b0a1c0f-3f3e-4c57-a1b5-9f5f2a7d8c12"
    ]);
    for (label, tags) in [("web", json!(["mine"])), ("other", other)] {
        let harness = Harness::new();
        let id = harness.fake.lock().add_nodebalancer("web");
        add_firewalls(&harness, &[(label, tags)], Some(&json!(id)));
        let provider = harness.started().await;
        let mut service = service(&[("nodebalancer-id", &id.to_string())]);
        harness.ensure(&provider, &mut service).await.unwrap();
        harness.delete(&provider, &service).await.unwrap();
        assert_eq!(harness.fake.lock().firewalls.len(), 1, "{label}");
    }
}

#[tokio::test(start_paused = true)]
async fn firewall_stays_as_long_as_the_cloud_keeps_the_nodebalancer() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut service = service(&[("firewall-acl", ACL)]);
    harness.ensure(&provider, &mut service).await.unwrap();
    harness.fake.lock().nodebalancers[0]["locks"] = json!(["cannot_delete"]);
    let error = harness.delete(&provider, &service).await.unwrap_err();
    assert!(error.to_string().contains("locked"), "{error}");
    assert_eq!((nodebalancers(&harness), devices(&harness)), (1, vec![1]));
    harness.fake.lock().nodebalancers[0]["locks"] = json!([]);
    harness.delete(&provider, &service).await.unwrap();
    assert_eq!(
        (nodebalancers(&harness), devices(&harness)),
        (0, Vec::new())
    );
}

#[tokio::test(start_paused = true)]
async fn reserved_address_of_a_locked_nodebalancer_is_not_released() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut service = service(&[
        ("reserved-ipv4", "203.0.113.99"),
        ("retain-reserved-ipv4", "false"),
    ]);
    harness.ensure(&provider, &mut service).await.unwrap();
    harness.fake.lock().nodebalancers[0]["locks"] = json!(["cannot_delete"]);
    let error = harness.delete(&provider, &service).await.unwrap_err();
    assert!(error.to_string().contains("cannot_delete"), "{error}");
    assert!(harness.fake.lock().released.is_empty());
}

#[tokio::test(start_paused = true)]
async fn firewall_that_an_interrupted_deletion_left_is_deleted_later() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut service = service(&[("firewall-acl", ACL)]);
    harness.ensure(&provider, &mut service).await.unwrap();
    harness
        .fake
        .fault_injector()
        .fail(Fault::refused("DELETE /networking/firewalls/{id}", 403).times(1));
    let error = harness.delete(&provider, &service).await.unwrap_err();
    assert!(error.is_unauthorized(), "{error}");
    assert_eq!((nodebalancers(&harness), devices(&harness)), (0, vec![0]));
    let provider = harness.started().await;
    harness.delete(&provider, &service).await.unwrap();
    assert!(harness.fake.lock().firewalls.is_empty());
}

#[tokio::test(start_paused = true)]
async fn acl_that_no_firewall_can_hold_is_refused_before_anything_is_created() {
    let ranges: Vec<String> = (0..=255 * 25)
        .map(|at| format!("10.{}.{}.0/24", at / 256, at % 256))
        .collect();
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut service = service_of(&[], json!({"loadBalancerSourceRanges": ranges}));
    let error = harness.ensure(&provider, &mut service).await.unwrap_err();
    assert!(
        error.is_invalid() && error.to_string().contains("need 26 firewall rules"),
        "{error}"
    );
    assert!(harness.fake.lock().nodebalancers.is_empty());
}

#[tokio::test(start_paused = true)]
async fn acl_of_many_ports_has_rules_of_15_ports() {
    let port =
        |at: u16| json!({"name": format!("p{at}"), "port": 8000 + at, "nodePort": 30000 + at});
    let ports: Vec<_> = (0..20).map(port).collect();
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut service = service_of(&[("firewall-acl", ACL)], json!({ "ports": ports }));
    harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!(
        harness.fake.lock().firewalls[0]["rules"]["inbound"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    let provider = harness.started().await;
    harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!(harness.changes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn source_ranges_beside_a_firewall_of_the_user_block_nothing_else() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut web = service(&[]);
    harness.ensure(&provider, &mut web).await.unwrap();
    let id = harness.nodebalancer().0["id"].clone();
    add_firewalls(&harness, &[("mine", json!([]))], Some(&id));
    web.spec.as_mut().unwrap().load_balancer_source_ranges = Some(vec!["192.0.2.0/24".to_owned()]);
    annotate(&mut web, "throttle", "5");
    let provider = harness.started().await;
    harness.ensure(&provider, &mut web).await.unwrap();
    assert_eq!(
        (
            &harness.nodebalancer().0["client_conn_throttle"],
            devices(&harness)
        ),
        (&json!(5), vec![1])
    );
    let events = harness.events();
    assert!(
        events.iter().any(
            |event| event.starts_with("SourceRangesIgnored") && event.contains("not in effect")
        ),
        "{events:?}"
    );

    annotate(&mut web, "firewall-acl", ACL);
    let error = harness.ensure(&provider, &mut web).await.unwrap_err();
    assert!(
        error.is_invalid() && error.to_string().contains("firewall-id"),
        "{error}"
    );
}
