//! Tests with one bad machine, a misspelt value or objects of users: everything else is served, and nothing is lost.

use std::sync::Arc;

use azure_fake::{Fault, id};
use cloud_provider::{Caches, CloudProvider, LookupRequest, MetadataLevel, Node};
use serde_json::{Value, json};

use crate::harness::{ADDRESSES, BALANCERS, Form, Harness, list, service, text};

const INTERNAL: &str = "azure-load-balancer-internal";

#[tokio::test(start_paused = true)]
async fn interface_that_azure_refuses_is_left_out_and_the_service_is_published() {
    let harness = Harness::new(Form::Interfaces);
    let provider = harness.started().await;
    let route = "PUT /Microsoft.Network/networkInterfaces/{name}";
    harness
        .fake
        .fault_injector()
        .fail(Fault::refused_as(route, 400, "InvalidRequestFormat", "it is locked").times(1));
    let web = service("web", &[80], &[], &Value::Null);
    let status = harness.ensure(&provider, &web).await.unwrap().unwrap();
    assert_eq!(
        (
            status.ingress.map(|ingress| ingress.len()),
            harness.security_rules().len()
        ),
        (Some(1), 1)
    );
    let pool = format!(
        "{}/backendAddressPools/kubernetes",
        id(BALANCERS, "kubernetes")
    );
    assert_eq!(harness.fake.lock().members_of(&pool).len(), 1);
    let events = harness
        .cluster
        .take_events()
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>();
    assert_eq!(
        events
            .iter()
            .filter(|event| event.contains("LoadBalancerNodeLeftOut"))
            .count(),
        1,
        "{events:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn machine_of_another_subscription_is_unknown() {
    let harness = Harness::new(Form::Addresses);
    let provider = harness.started().await;
    let own = harness.cluster.node("worker-1").unwrap();
    let other = own.provider_id.replace(
        azure_fake::SUBSCRIPTION,
        "00000000-0000-0000-0000-000000000002",
    );
    let node = Node {
        provider_id: other.into(),
        ..(*own).clone()
    };
    let request = LookupRequest {
        existence: true,
        shutdown: false,
        metadata: MetadataLevel::No,
        fresh: true,
    };
    let error = provider
        .instances()
        .unwrap()
        .lookup(&[Arc::new(node)], request)
        .await
        .remove(0)
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("of subscription 00000000-0000-0000-0000-000000000002"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn spelling_that_would_make_a_load_balancer_public_is_a_mistake() {
    for key in [
        INTERNAL,
        "azure-deny-all-except-load-balancer-source-ranges",
    ] {
        for value in [" true", "yes", "1", ""] {
            let harness = Harness::new(Form::Addresses);
            let provider = harness.started().await;
            let error = harness
                .ensure(
                    &provider,
                    &service("web", &[80], &[(key, value)], &Value::Null),
                )
                .await
                .unwrap_err();
            assert!(
                error.is_invalid() && error.to_string().contains(key),
                "{value:?}: {error}"
            );
            assert_eq!(harness.changes(), [""; 0], "{value:?}");
        }
    }
    for (value, name) in [("TRUE", "kubernetes-internal"), ("False", "kubernetes")] {
        let harness = Harness::new(Form::Addresses);
        let provider = harness.started().await;
        harness
            .ensure(
                &provider,
                &service("web", &[80], &[(INTERNAL, value)], &Value::Null),
            )
            .await
            .unwrap();
        assert_ne!(harness.balancer(name), Value::Null);
    }
}

#[tokio::test(start_paused = true)]
async fn address_of_a_user_that_an_earlier_program_tagged_stays() {
    for annotated in [true, false] {
        let harness = Harness::new(Form::Addresses);
        let address = json!({
            "location": azure_fake::LOCATION, "sku": {"name": "Standard"},
            "tags": {"service": "default/web", "kubernetes-cluster-name": "kubernetes", "team": "shop"},
            "properties": {"publicIPAllocationMethod": "Static", "publicIPAddressVersion": "IPv4", "ipAddress": "20.1.2.3"},
        });
        harness.fake.lock().insert(&id(ADDRESSES, "mine"), address);
        let web = match annotated {
            true => service("web", &[80], &[("azure-pip-name", "mine")], &Value::Null),
            false => service("web", &[80], &[], &json!({"loadBalancerIP": "20.1.2.3"})),
        };
        let provider = harness.started().await;
        harness.ensure(&provider, &web).await.unwrap();
        harness.delete(&provider, &web).await.unwrap();
        assert_eq!(harness.addresses(), ["mine"]);
        let tags = harness.fake.lock().get(&id(ADDRESSES, "mine")).unwrap()["tags"].clone();
        assert_eq!(
            (&tags["team"], &tags["service"]),
            (&json!("shop"), &Value::Null),
            "{tags}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn service_without_node_ports_is_refused_unless_its_probe_has_a_port() {
    let ports =
        json!({"allocateLoadBalancerNodePorts": false, "ports": [{"port": 80, "protocol": "TCP"}]});
    let harness = Harness::new(Form::Addresses);
    let provider = harness.started().await;
    let error = harness
        .ensure(&provider, &service("web", &[80], &[], &ports))
        .await
        .unwrap_err();
    assert!(
        error.is_invalid() && error.to_string().contains("port 80: has no node port"),
        "{error}"
    );
    assert_eq!(harness.changes(), [""; 0]);
    for annotation in [
        ("port_80_health-probe_port", "8080"),
        ("port_80_no_probe_rule", "true"),
    ] {
        harness
            .ensure(&provider, &service("web", &[80], &[annotation], &ports))
            .await
            .unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn changed_subnet_gives_an_address_of_that_subnet_after_a_restart() {
    let harness = Harness::new(Form::Addresses);
    let network = id("Microsoft.Network/virtualNetworks", azure_fake::NETWORK.0);
    let second = json!({"properties": {"addressPrefix": "10.3.0.0/16"}});
    harness
        .fake
        .lock()
        .insert(&format!("{network}/subnets/second"), second);
    harness
        .ensure(
            &harness.started().await,
            &service("web", &[80], &[(INTERNAL, "true")], &Value::Null),
        )
        .await
        .unwrap();
    let provider = harness.started().await;
    let annotations = [
        (INTERNAL, "true"),
        ("azure-load-balancer-internal-subnet", "second"),
    ];
    harness
        .ensure(
            &provider,
            &service("web", &[80], &annotations, &Value::Null),
        )
        .await
        .unwrap();
    let shown = harness.balancer("kubernetes-internal");
    let frontends: Vec<_> = list(&shown["properties"]["frontendIPConfigurations"]).collect();
    assert_eq!(frontends.len(), 1);
    assert!(
        text(&frontends[0]["properties"]["subnet"]["id"]).ends_with("/second"),
        "{frontends:?}"
    );
    assert_eq!(
        frontends[0]["properties"]["privateIPAllocationMethod"],
        "Dynamic"
    );
}

#[tokio::test(start_paused = true)]
async fn model_of_a_scale_set_leaves_the_pool_with_its_last_node() {
    let harness = Harness::new(Form::ScaleSet);
    let provider = harness.started().await;
    let web = service("web", &[80], &[(INTERNAL, "true")], &Value::Null);
    harness.ensure(&provider, &web).await.unwrap();
    let model = |harness: &Harness| {
        let set = harness
            .fake
            .lock()
            .get(&id("Microsoft.Compute/virtualMachineScaleSets", "workers"))
            .cloned();
        set.unwrap_or_default()
            .to_string()
            .contains("backendAddressPools/kubernetes")
    };
    assert!(model(&harness));
    exclude_all(&harness);
    harness.ensure(&provider, &web).await.unwrap();
    assert!(!model(&harness));
}

#[tokio::test(start_paused = true)]
async fn pool_of_the_only_public_load_balancer_keeps_its_members_if_all_nodes_are_excluded() {
    let harness = Harness::new(Form::Interfaces);
    let provider = harness.started().await;
    let web = service("web", &[80], &[], &Value::Null);
    harness.ensure(&provider, &web).await.unwrap();
    exclude_all(&harness);
    harness.ensure(&provider, &web).await.unwrap();
    let pool = format!(
        "{}/backendAddressPools/kubernetes",
        id(BALANCERS, "kubernetes")
    );
    assert_eq!(harness.fake.lock().members_of(&pool).len(), 2);
}

/// Excludes all Nodes from load balancers, by the label of this cloud.
fn exclude_all(harness: &Harness) {
    for node in harness.cluster.nodes() {
        let labels = [(
            "kubernetes.azure.com/managed".to_owned(),
            "false".to_owned(),
        )]
        .into_iter()
        .collect();
        harness.cluster.set_node(Node {
            labels,
            ..(*node).clone()
        });
    }
}

#[tokio::test(start_paused = true)]
async fn start_without_the_resource_group_says_how_to_end_it() {
    let harness = Harness::new(Form::Addresses);
    let route = "GET /Microsoft.Compute/virtualMachines";
    harness
        .fake
        .fault_injector()
        .fail(Fault::refused_as(route, 404, "ResourceGroupNotFound", "no such group").times(9));
    let router = harness.fake.router();
    let provider =
        provider_azure::Azure::new(&harness.setup(), move |http| http.service(router.clone()))
            .unwrap();
    let error = provider
        .initialize(&harness.context())
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("remove finalizer service.kubernetes.io/load-balancer-cleanup"),
        "{error}"
    );
}
