//! Tests of public addresses: those that Services share, IP tags, DNS labels, and repair.

use azure_fake::{Fault, id};
use cloud_provider::CloudProvider;
use serde_json::{Value, json};

use crate::harness::{ADDRESSES, Form, Harness, PUT_BALANCER, cluster, list, service, text};

const PUT_ADDRESS: &str = "PUT /Microsoft.Network/publicIPAddresses/{name}";

#[tokio::test(start_paused = true)]
async fn shared_address_is_deleted_with_the_last_of_its_services() {
    for first in [0, 1] {
        let harness = Harness::new(Form::Addresses);
        let provider = harness.started().await;
        let web = service("web", &[80], &[], &Value::Null);
        let ip = harness
            .ensure(&provider, &web)
            .await
            .unwrap()
            .unwrap()
            .ingress
            .unwrap()[0]
            .ip
            .clone()
            .unwrap();
        let mail = service("mail", &[25], &[], &json!({ "loadBalancerIP": ip }));
        let all = [web, mail];
        harness
            .ensure_among(&provider, &all[1], &all)
            .await
            .unwrap();
        let tag = || {
            let cloud = harness.fake.lock();
            cloud
                .all(ADDRESSES)
                .next()
                .map(|object| text(&object["tags"]["k8s-azure-service"]))
                .unwrap_or_default()
        };
        assert_eq!(tag(), "default/web,default/mail");
        harness.changes();
        for entry in &all {
            harness.ensure_among(&provider, entry, &all).await.unwrap();
        }
        assert_eq!(harness.changes(), [""; 0]);
        let gone = &all[first];
        let stays = &all[1 - first];
        harness.delete(&provider, gone).await.unwrap();
        assert_eq!(
            tag(),
            format!("default/{}", stays.metadata.name.as_deref().unwrap())
        );
        harness.cluster.set_services([stays.clone()]);
        // A run of the program that never saw the other Service.
        let provider = harness.started().await;
        let status = harness.ensure(&provider, stays).await.unwrap().unwrap();
        assert_eq!(status.ingress.unwrap()[0].ip.as_deref(), Some(&*ip));
        assert_eq!(harness.changes(), [""; 0], "{first}");
        harness.delete(&provider, stays).await.unwrap();
        assert_eq!(
            (harness.addresses().len(), harness.balancer("kubernetes")),
            (0, Value::Null),
            "{first}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn address_in_another_resource_group_is_made_found_and_deleted_there() {
    let harness = Harness::new(Form::Addresses);
    let web = service(
        "web",
        &[80],
        &[("azure-load-balancer-resource-group", "OTHER")],
        &Value::Null,
    );
    let made = harness
        .ensure(&harness.started().await, &web)
        .await
        .unwrap();
    let there = || {
        harness
            .fake
            .lock()
            .objects
            .keys()
            .filter(|id| id.contains("/resourcegroups/other/"))
            .count()
    };
    assert_eq!((there(), harness.addresses().len()), (1, 0));
    // A run that reads all load balancers with one list first.
    let provider = harness.started().await;
    let owned = provider
        .load_balancers()
        .unwrap()
        .owned(&cluster())
        .await
        .unwrap();
    assert_eq!(owned.len(), 1);
    assert_eq!(harness.ensure(&provider, &web).await.unwrap(), made);
    assert_eq!(harness.changes(), [""; 0]);
    harness.delete(&provider, &web).await.unwrap();
    assert_eq!((there(), harness.balancer("kubernetes")), (0, Value::Null));
}

#[tokio::test(start_paused = true)]
async fn ip_tags_of_an_existing_address_change_only_if_the_configuration_says_so() {
    let of = |tags: &str| service("web", &[80], &[("azure-pip-ip-tags", tags)], &Value::Null);
    for (changes, expected) in [(false, "a=1"), (true, "b=2")] {
        let harness = Harness::new(Form::Addresses)
            .with(json!({ "enableIPTagMutationForExistingPublicIP": changes }));
        let provider = harness.started().await;
        harness
            .ensure(&provider, &of("a=1,broken,=x"))
            .await
            .unwrap();
        harness.ensure(&provider, &of("b=1,b=2")).await.unwrap();
        let cloud = harness.fake.lock();
        let shown = cloud.all(ADDRESSES).next().unwrap();
        let tags = list(&shown["properties"]["ipTags"])
            .map(|ip_tags| format!("{}={}", text(&ip_tags["ipTagType"]), text(&ip_tags["tag"])));
        assert_eq!(tags.collect::<Vec<_>>(), [expected]);
    }
}

#[tokio::test(start_paused = true)]
async fn dns_label_is_set_kept_removed_and_never_that_of_a_users_address() {
    let harness = Harness::new(Form::Addresses);
    let provider = harness.started().await;
    let label = || {
        let cloud = harness.fake.lock();
        cloud
            .all(ADDRESSES)
            .next()
            .map(|object| text(&object["properties"]["dnsSettings"]["domainNameLabel"]))
    };
    let of = |label: Option<&str>| {
        let annotations: Vec<_> = label
            .into_iter()
            .map(|label| ("azure-dns-label-name", label))
            .collect();
        service("web", &[80], &annotations, &Value::Null)
    };
    for (stated, expected) in [(Some("web"), "web"), (None, "web"), (Some(""), "")] {
        harness.ensure(&provider, &of(stated)).await.unwrap();
        assert_eq!(label().as_deref(), Some(expected), "{stated:?}");
    }
    harness.fake.lock().insert(
        &id(ADDRESSES, "mine"),
        json!({"location": "westeurope", "sku": {"name": "Standard"}, "properties": {
            "publicIPAllocationMethod": "Static", "ipAddress": "20.1.2.3", "dnsSettings": {"domainNameLabel": "mine"},
        }}),
    );
    let named = |label| {
        service(
            "own",
            &[80],
            &[("azure-pip-name", "mine"), ("azure-dns-label-name", label)],
            &Value::Null,
        )
    };
    let error = harness
        .ensure(&provider, &named("other"))
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("set the label"), "{error}");
    harness.ensure(&provider, &named("mine")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn address_that_azure_did_not_provision_is_written_again() {
    let harness = Harness::new(Form::Addresses);
    let provider = harness.started().await;
    let web = service("web", &[80], &[], &Value::Null);
    harness.ensure(&provider, &web).await.unwrap();
    let address = id(ADDRESSES, &harness.addresses()[0]);
    let text = format!(
        "Cannot proceed with operation because resource {address} used by resource x is not in Succeeded state."
    );
    let fault = Fault::refused_as(PUT_BALANCER, 400, "ReferencedResourceNotProvisioned", &text);
    harness.fake.fault_injector().fail(fault.times(1));
    harness.changes();
    harness
        .ensure(&provider, &service("web", &[80, 443], &[], &Value::Null))
        .await
        .unwrap();
    let changes = harness.changes();
    assert_eq!(
        changes
            .iter()
            .filter(|change| **change == PUT_ADDRESS)
            .count(),
        1,
        "{changes:?}"
    );
    assert_eq!(
        list(&harness.balancer("kubernetes")["properties"]["loadBalancingRules"]).count(),
        2
    );
}
