//! Tests of tags, and of elements that the program keeps although it no longer needs them.

use azure_fake::id;
use cloud_provider::CloudProvider;
use serde_json::{Value, json};

use crate::harness::{ADDRESSES, BALANCERS, Form, GROUP, Harness, list, service, text};

#[tokio::test(start_paused = true)]
async fn tags_of_the_configuration_replace_all_but_system_tags() {
    let harness = Harness::new(Form::Addresses);
    let provider = harness.started().await;
    let web = service(
        "web",
        &[80],
        &[("azure-pip-tags", "owner=web")],
        &Value::Null,
    );
    harness.ensure(&provider, &web).await.unwrap();
    let address = harness.addresses().remove(0);
    let resources = [id(BALANCERS, "kubernetes"), id(ADDRESSES, &address)];
    let tag = |more: Value| {
        for id in &resources {
            harness.fake.lock().edit(id, |object| {
                more.as_object()
                    .unwrap()
                    .iter()
                    .for_each(|(key, value)| object["tags"][key] = value.clone());
            });
        }
    };
    tag(json!({"TEAM": "db", "old": "1", "aks-managed": "yes"}));
    harness.changes();
    harness.ensure(&provider, &web).await.unwrap();
    assert_eq!(
        harness.changes(),
        Vec::<String>::new(),
        "without settings, tags of others stay"
    );

    let config = json!({"tags": "team=web", "systemTags": "AKS-, other"});
    let file = Harness::new(Form::Addresses)
        .with(config)
        .setup()
        .config
        .unwrap();
    provider.reload(&file).await.unwrap();
    harness.ensure(&provider, &web).await.unwrap();
    for id in &resources {
        let tags = harness.fake.lock().get(id).unwrap()["tags"].clone();
        assert_eq!(
            [&tags["TEAM"], &tags["old"], &tags["aks-managed"]],
            [&json!("web"), &Value::Null, &json!("yes")]
        );
        assert_eq!(
            (&tags["ccm-rs-cluster"], &tags["team"]),
            (&json!("cluster-1"), &Value::Null),
            "{tags}"
        );
    }
    let owner = harness.fake.lock().get(&resources[1]).unwrap()["tags"]["owner"].clone();
    assert_eq!(owner, "web", "tags of the annotation stay");
    assert_eq!(harness.changes().len(), 2);
    harness.ensure(&provider, &web).await.unwrap();
    assert_eq!(harness.changes(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn frontend_of_an_outbound_rule_stays_when_its_service_is_deleted() {
    let harness = Harness::new(Form::Addresses);
    let provider = harness.started().await;
    let web = service("web", &[80], &[], &Value::Null);
    harness.ensure(&provider, &web).await.unwrap();
    let frontend =
        harness.balancer("kubernetes")["properties"]["frontendIPConfigurations"][0]["id"].clone();
    harness
        .fake
        .lock()
        .edit(&id(BALANCERS, "kubernetes"), |kubernetes| {
            kubernetes["properties"]["outboundRules"] = json!([{"name": "outbound", "properties": {
                "frontendIPConfigurations": [{"id": frontend}], "protocol": "All",
            }}]);
        });
    harness.delete(&provider, &web).await.unwrap();
    let left = harness.balancer("kubernetes")["properties"].clone();
    assert_eq!(left["frontendIPConfigurations"][0]["id"], frontend);
    assert_eq!(
        list(&left["outboundRules"])
            .map(|outbound_rules| text(&outbound_rules["name"]))
            .collect::<Vec<_>>(),
        ["outbound"]
    );
    assert_eq!(list(&left["loadBalancingRules"]).count(), 0);
    assert_eq!(harness.addresses().len(), 1, "the address is in use");
}

#[tokio::test(start_paused = true)]
async fn security_rule_for_application_security_groups_stays_without_its_addresses() {
    let harness = Harness::new(Form::Addresses);
    let provider = harness.started().await;
    let web = service("web", &[80], &[], &Value::Null);
    harness.ensure(&provider, &web).await.unwrap();
    harness.fake.lock().edit(&id(GROUP, azure_fake::SECURITY_GROUP), |group| {
        group["properties"]["securityRules"][0]["properties"]["destinationApplicationSecurityGroups"] =
            json!([{"id": id("Microsoft.Network/applicationSecurityGroups", "web")}]);
    });
    harness.delete(&provider, &web).await.unwrap();
    let rules = harness.security_rules();
    let properties = &rules[0]["properties"];
    assert_eq!(
        list(&properties["destinationAddressPrefixes"]).count(),
        0,
        "{properties}"
    );
    assert_eq!(
        list(&properties["destinationApplicationSecurityGroups"]).count(),
        1
    );
}
