//! Tests of the members of pools: their form, who chooses them, and load balancers of the basic SKU.

use azure_fake::id;
use cloud_provider::{Caches, Node};
use serde_json::{Value, json};

use crate::harness::{ADDRESSES, BALANCERS, Form, Harness, list, service, text};

/// Returns the addresses and the IP configurations in the pool of the cluster.
fn members(harness: &Harness) -> (Vec<String>, Vec<String>) {
    let shown = harness.balancer("kubernetes");
    let pool = list(&shown["properties"]["backendAddressPools"])
        .find(|backend_address_pool| backend_address_pool["name"] == "kubernetes")
        .unwrap()
        .clone();
    let addresses = list(&pool["properties"]["loadBalancerBackendAddresses"]);
    let mut addresses: Vec<_> = addresses
        .map(|addresses| text(&addresses["properties"]["ipAddress"]))
        .collect();
    addresses.sort();
    (
        addresses,
        harness.fake.lock().members_of(&text(&pool["id"])),
    )
}

fn form(kind: &str) -> Value {
    json!({ "loadBalancerBackendPoolConfigurationType": kind })
}

#[tokio::test(start_paused = true)]
async fn pools_change_from_interfaces_to_addresses_and_back() {
    let migrates = json!({"loadBalancerBackendPoolConfigurationType": "nodeIP", "enableMigrateToIPBasedBackendPoolAPI": true});
    for (machines, by_address) in [
        (Form::Interfaces, form("nodeIP")),
        (Form::ScaleSet, form("nodeIP")),
        (Form::Interfaces, migrates.clone()),
        (Form::ScaleSet, migrates),
    ] {
        let mut harness = Harness::new(machines).with(form("nodeIPConfiguration"));
        let services = ["web", "mail"].map(|name| service(name, &[80], &[], &Value::Null));
        for (config, expected) in [
            (form("nodeIPConfiguration"), (0, 2)),
            (by_address, (2, 0)),
            (form("nodeIPConfiguration"), (0, 2)),
        ] {
            harness = harness.with(config.clone());
            let provider = harness.started().await;
            let outcomes = services
                .iter()
                .map(|service| harness.ensure_among(&provider, service, &services));
            futures::future::join_all(outcomes)
                .await
                .into_iter()
                .for_each(|join_all| drop(join_all.unwrap()));
            let (addresses, interfaces) = members(&harness);
            assert_eq!(
                (addresses.len(), interfaces.len()),
                expected,
                "{machines:?} {config}: {interfaces:?}"
            );
            let uses_api = harness
                .changes()
                .iter()
                .any(|change| change.starts_with("POST "));
            assert_eq!(
                uses_api,
                config["enableMigrateToIPBasedBackendPoolAPI"] == true
            );
            for object in &services {
                harness
                    .ensure_among(&provider, object, &services)
                    .await
                    .unwrap();
            }
            assert_eq!(harness.changes(), [""; 0], "{machines:?} {config}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn node_of_another_group_or_without_a_machine_or_of_the_control_plane_is_in_no_pool() {
    for (label, value, expected) in [
        ("kubernetes.azure.com/resource-group", "other", 1),
        ("kubernetes.azure.com/resource-group", "NODES", 2),
        ("kubernetes.azure.com/managed", "false", 1),
        ("node-role.kubernetes.io/control-plane", "", 1),
    ] {
        let harness = Harness::new(Form::Addresses);
        let labels = [(label.to_owned(), value.to_owned())].into_iter().collect();
        harness.cluster.set_node(Node {
            labels,
            ..(*harness.cluster.node("worker-2").unwrap()).clone()
        });
        let provider = harness.started().await;
        harness
            .ensure(&provider, &service("web", &[80], &[], &Value::Null))
            .await
            .unwrap();
        assert_eq!(members(&harness).0.len(), expected, "{label}={value}");
    }
}

#[tokio::test(start_paused = true)]
async fn preconfigured_pools_keep_the_members_that_others_choose() {
    for (stated, expected) in [("external", 0), ("ALL", 0), ("internal", 2)] {
        let harness = Harness::new(Form::Addresses)
            .with(json!({ "preConfiguredBackendPoolLoadBalancerTypes": stated }));
        let provider = harness.started().await;
        let web = service("web", &[80], &[], &Value::Null);
        harness.ensure(&provider, &web).await.unwrap();
        assert_eq!(
            (members(&harness).0.len(), harness.security_rules().len()),
            (expected, expected / 2),
            "{stated}"
        );
        harness.fake.lock().edit(&id(BALANCERS, "kubernetes"), |kubernetes| {
            let theirs = json!([{"name": "theirs", "properties": {"ipAddress": "10.9.0.1"}}]);
            kubernetes["properties"]["backendAddressPools"][0]["properties"]["loadBalancerBackendAddresses"] = theirs;
        });
        let provider = harness.started().await;
        harness
            .ensure(&provider, &service("web", &[80, 443], &[], &Value::Null))
            .await
            .unwrap();
        assert_eq!(
            members(&harness).0.contains(&"10.9.0.1".to_owned()),
            expected == 0,
            "{stated}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn basic_load_balancer_has_the_machines_of_the_primary_set() {
    let config = json!({"loadBalancerSku": "basic", "vmType": "standard", "primaryAvailabilitySetName": "first"});
    let harness = Harness::new(Form::Interfaces).with(config);
    let machine = harness.fake.lock().ids("worker-1").remove(0);
    let set = id("Microsoft.Compute/availabilitySets", "FIRST");
    harness.fake.lock().edit(&machine, |object| {
        object["properties"]["availabilitySet"] = json!({ "id": set });
    });
    let provider = harness.started().await;
    let web = service(
        "web",
        &[80],
        &[("azure-load-balancer-health-probe-protocol", "https")],
        &Value::Null,
    );
    harness.ensure(&provider, &web).await.unwrap();
    let shown = harness.balancer("kubernetes");
    let address = harness.fake.lock().all(ADDRESSES).next().cloned().unwrap();
    assert_eq!(
        (&shown["sku"]["name"], &address["sku"]["name"]),
        (&json!("Basic"), &json!("Basic"))
    );
    assert!(address["zones"].is_null(), "{address:#}");
    assert_eq!(
        shown["properties"]["probes"][0]["properties"]["protocol"],
        "Tcp"
    );
    let (_, interfaces) = members(&harness);
    assert!(
        interfaces.len() == 1 && interfaces[0].contains("worker-1-nic"),
        "{interfaces:?}"
    );
    for (annotation, value) in [
        ("azure-load-balancer-enable-high-availability-ports", "true"),
        ("azure-load-balancer-mode", "second"),
    ] {
        let annotations = [
            ("azure-load-balancer-internal", "true"),
            (annotation, value),
        ];
        let error = harness
            .ensure(
                &provider,
                &service("web", &[80], &annotations, &Value::Null),
            )
            .await
            .unwrap_err();
        assert!(error.to_string().contains(annotation), "{error}");
    }
    harness.delete(&provider, &web).await.unwrap();
    assert_eq!(
        (harness.balancer("kubernetes"), harness.addresses().len()),
        (Value::Null, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn pool_of_addresses_names_its_network_once_as_the_go_program_does() {
    let harness = Harness::new(Form::Addresses);
    let provider = harness.started().await;
    let web = service("web", &[80], &[], &Value::Null);
    harness.ensure(&provider, &web).await.unwrap();
    let pool = || {
        harness.balancer("kubernetes")["properties"]["backendAddressPools"][0]["properties"].clone()
    };
    let network = id("Microsoft.Network/virtualNetworks", azure_fake::NETWORK.0);
    assert_eq!(pool()["virtualNetwork"]["id"], network);
    let mut members = list(&pool()["loadBalancerBackendAddresses"])
        .cloned()
        .collect::<Vec<_>>();
    assert!(
        members
            .iter()
            .all(|member| member["properties"]["virtualNetwork"].is_null()),
        "{members:?}"
    );
    // As former versions wrote it.
    members[0]["properties"]["virtualNetwork"] = json!({ "id": network });
    harness
        .fake
        .lock()
        .edit(&id(BALANCERS, "kubernetes"), |kubernetes| {
            let pool = &mut kubernetes["properties"]["backendAddressPools"][0]["properties"];
            pool["virtualNetwork"] = Value::Null;
            pool["loadBalancerBackendAddresses"] = members.into();
        });
    harness.add_node("worker-3");
    harness.ensure(&provider, &web).await.unwrap();
    assert_eq!(pool()["virtualNetwork"]["id"], network);
    let all: Vec<_> = list(&pool()["loadBalancerBackendAddresses"])
        .cloned()
        .collect();
    assert!(
        all.len() == 3
            && all
                .iter()
                .all(|object| object["properties"]["virtualNetwork"].is_null()),
        "{all:?}"
    );
}
