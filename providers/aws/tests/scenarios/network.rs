//! Network load balancers: addresses, families, protocols, and target groups that are replaced.

use aws_fake::Fault;
use serde_json::{Value, json};

use crate::harness::{Harness, service};

fn addresses(balancer: &Value, field: &str) -> Vec<Value> {
    let zones = balancer["AvailabilityZones"].as_array().unwrap().iter();
    zones.map(|it| it["LoadBalancerAddresses"][0][field].clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn each_subnet_gets_its_address() {
    for (annotations, field, expected) in [
        ("eip-allocations=eipalloc-1,eipalloc-2", "AllocationId", ["eipalloc-1", "eipalloc-2"]),
        ("internal=true private-ipv4-addresses=10.0.32.9,10.0.48.9", "PrivateIPv4Address", ["10.0.32.9", "10.0.48.9"]),
    ] {
        let harness = Harness::new();
        let provider = harness.start().await.unwrap();
        let one = service("a", &format!("type=nlb {annotations}"), &json!({}));
        harness.ensure(&provider, &one).await.unwrap();
        assert_eq!(addresses(&harness.only("network"), field), expected);
        let again = harness.start().await.unwrap();
        harness.ensure(&again, &one).await.unwrap();
        assert_eq!(harness.changes(), [""; 0]);
    }
    let harness = Harness::new();
    let provider = harness.start().await.unwrap();
    let error = harness.ensure(&provider, &service("a", "type=nlb eip-allocations=eipalloc-1", &json!({}))).await;
    let error = error.unwrap_err().to_string();
    assert!(error.contains("1 addresses; name one for each of the subnets"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn service_of_both_families_gets_both_and_a_service_of_ipv6_has_targets_of_ipv6() {
    for (families, family) in [(json!(["IPv4", "IPv6"]), "ipv4"), (json!(["IPv6"]), "ipv6")] {
        let harness = Harness::new().with("NLBSecurityGroupMode = Managed");
        let provider = harness.start().await.unwrap();
        let spec = json!({"ipFamilies": families, "ipFamilyPolicy": "PreferDualStack"});
        harness.ensure(&provider, &service("a", "type=nlb", &spec)).await.unwrap();
        assert_eq!(harness.only("network")["IpAddressType"], "dualstack");
        assert_eq!(harness.only("target-group")["IpAddressType"], family);
        let cloud = harness.fake.lock();
        let group = cloud.all("group").iter().find(|it| it["groupId"] != "sg-nodes").unwrap();
        assert!(group["_rules"].to_string().contains("\"cidrIpv6\":\"::/0\""), "{group}");
    }
}

#[tokio::test(start_paused = true)]
async fn load_balancer_becomes_dual_stack_in_place() {
    let harness = Harness::new();
    let provider = harness.start().await.unwrap();
    harness.ensure(&provider, &service("a", "type=nlb", &json!({}))).await.unwrap();
    harness.changes();
    let spec = json!({"ipFamilies": ["IPv4", "IPv6"]});
    harness.ensure(&provider, &service("a", "type=nlb", &spec)).await.unwrap();
    assert!(harness.changes().contains(&"SetIpAddressType".to_owned()));
    assert_eq!(harness.only("network")["IpAddressType"], "dualstack");
}

#[tokio::test(start_paused = true)]
async fn tcp_and_udp_of_one_port_share_listener_and_target_group() {
    let harness = Harness::new();
    let provider = harness.start().await.unwrap();
    let tcp = json!({"name": "tcp", "port": 53, "nodePort": 30053, "protocol": "TCP"});
    let udp = json!({"name": "udp", "port": 53, "nodePort": 30053, "protocol": "UDP"});
    for ports in [json!([tcp]), json!([tcp, udp]), json!([udp])] {
        let expected = match ports.as_array().unwrap().as_slice() {
            [_, _] => "TCP_UDP",
            [one] => one["protocol"].as_str().unwrap(),
            _ => "",
        };
        harness.ensure(&provider, &service("a", "type=nlb", &json!({"ports": ports}))).await.unwrap();
        assert_eq!(harness.only("listener")["Protocol"], expected);
        let group = harness.only("target-group");
        assert_eq!((&group["Protocol"], group["_targets"].as_array().unwrap().len()), (&json!(expected), 2));
    }
}

#[tokio::test(start_paused = true)]
async fn target_group_that_cannot_change_is_replaced_with_its_targets_and_settings() {
    let harness = Harness::new();
    let provider = harness.start().await.unwrap();
    let attributes = "target-group-attributes=proxy_protocol_v2.enabled=true";
    harness.ensure(&provider, &service("a", &format!("type=nlb {attributes}"), &json!({}))).await.unwrap();
    let before = harness.only("target-group");
    harness.fake.fault_injector().fail(Fault::code("POST /elbv2/ModifyTargetGroup", "InvalidConfigurationRequest"));
    let changed = service("a", &format!("type=nlb {attributes} healthcheck-interval=23"), &json!({}));
    harness.ensure(&provider, &changed).await.unwrap();
    let after = harness.only("target-group");
    assert_ne!(before["TargetGroupArn"], after["TargetGroupArn"]);
    assert_eq!((&after["HealthCheckIntervalSeconds"], &before["_targets"]), (&json!("23"), &after["_targets"]));
    let proxy = after["_attributes"].as_array().unwrap().iter().find(|it| it["Key"] == "proxy_protocol_v2.enabled");
    assert_eq!(proxy.unwrap()["Value"], "true");
    assert_eq!(harness.only("listener")["DefaultActions"][0]["TargetGroupArn"], after["TargetGroupArn"]);
    harness.fake.fault_injector().clear_faults();
    harness.changes();
    harness.ensure(&provider, &changed).await.unwrap();
    assert_eq!(harness.changes(), [""; 0]);
}
