//! Network load balancers: addresses, families, protocols, and target groups that are replaced.

use aws_fake::{Fault, Kind};
use serde_json::{Value, json};

use crate::harness::{Harness, service};

fn addresses(balancer: &Value, field: &str) -> Vec<Value> {
    let zones = balancer["AvailabilityZones"].as_array().unwrap().iter();
    zones
        .map(|zones| zones["LoadBalancerAddresses"][0][field].clone())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn each_subnet_gets_its_address() {
    for (annotations, field, expected) in [
        (
            "eip-allocations=eipalloc-1,eipalloc-2",
            "AllocationId",
            ["eipalloc-1", "eipalloc-2"],
        ),
        (
            "internal=true private-ipv4-addresses=10.0.32.9,10.0.48.9",
            "PrivateIPv4Address",
            ["10.0.32.9", "10.0.48.9"],
        ),
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
    let error = harness
        .ensure(
            &provider,
            &service("a", "type=nlb eip-allocations=eipalloc-1", &json!({})),
        )
        .await;
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains("1 addresses; name one for each of the subnets"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn service_of_both_families_gets_both_and_a_service_of_ipv6_has_targets_of_ipv6() {
    for (families, family) in [(json!(["IPv4", "IPv6"]), "ipv4"), (json!(["IPv6"]), "ipv6")] {
        let harness = Harness::new().with("NLBSecurityGroupMode = Managed");
        let provider = harness.start().await.unwrap();
        let spec = json!({"ipFamilies": families, "ipFamilyPolicy": "PreferDualStack"});
        harness
            .ensure(&provider, &service("a", "type=nlb", &spec))
            .await
            .unwrap();
        assert_eq!(harness.only("network")["IpAddressType"], "dualstack");
        assert_eq!(harness.only("target-group")["IpAddressType"], family);
        let cloud = harness.fake.lock();
        let group = cloud
            .all("group")
            .iter()
            .find(|object| object["groupId"] != "sg-nodes")
            .unwrap();
        assert!(
            group["_rules"]
                .to_string()
                .contains("\"cidrIpv6\":\"::/0\""),
            "{group}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn load_balancer_becomes_dual_stack_in_place() {
    let harness = Harness::new();
    let provider = harness.start().await.unwrap();
    harness
        .ensure(&provider, &service("a", "type=nlb", &json!({})))
        .await
        .unwrap();
    harness.changes();
    let spec = json!({"ipFamilies": ["IPv4", "IPv6"]});
    harness
        .ensure(&provider, &service("a", "type=nlb", &spec))
        .await
        .unwrap();
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
        harness
            .ensure(
                &provider,
                &service("a", "type=nlb", &json!({"ports": ports})),
            )
            .await
            .unwrap();
        assert_eq!(harness.only("listener")["Protocol"], expected);
        let group = harness.only("target-group");
        assert_eq!(
            (
                &group["Protocol"],
                group["_targets"].as_array().unwrap().len()
            ),
            (&json!(expected), 2)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn target_group_that_cannot_change_is_replaced_with_its_targets_and_settings() {
    let harness = Harness::new();
    let provider = harness.start().await.unwrap();
    let attributes = "target-group-attributes=proxy_protocol_v2.enabled=true";
    harness
        .ensure(
            &provider,
            &service("a", &format!("type=nlb {attributes}"), &json!({})),
        )
        .await
        .unwrap();
    let before = harness.only("target-group");
    harness.fake.fault_injector().fail(Fault::code(
        "POST /elbv2/ModifyTargetGroup",
        "InvalidConfigurationRequest",
    ));
    let changed = service(
        "a",
        &format!("type=nlb {attributes} healthcheck-interval=23"),
        &json!({}),
    );
    harness.ensure(&provider, &changed).await.unwrap();
    let after = harness.only("target-group");
    assert_ne!(before["TargetGroupArn"], after["TargetGroupArn"]);
    assert_eq!(
        (&after["HealthCheckIntervalSeconds"], &before["_targets"]),
        (&json!("23"), &after["_targets"])
    );
    let proxy = after["_attributes"]
        .as_array()
        .unwrap()
        .iter()
        .find(|attribute| attribute["Key"] == "proxy_protocol_v2.enabled");
    assert_eq!(proxy.unwrap()["Value"], "true");
    assert_eq!(
        harness.only("listener")["DefaultActions"][0]["TargetGroupArn"],
        after["TargetGroupArn"]
    );
    harness.fake.fault_injector().clear_faults();
    harness.changes();
    harness.ensure(&provider, &changed).await.unwrap();
    assert_eq!(harness.changes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn targets_of_a_new_load_balancer_pass_their_health_checks() {
    let udp = json!({"ports": [{"port": 53, "nodePort": 30053, "protocol": "UDP"}]});
    let local = json!({"externalTrafficPolicy": "Local", "healthCheckNodePort": 32213});
    let ranges = json!({"loadBalancerSourceRanges": ["192.0.2.0/24"]});
    for (annotations, spec) in [
        ("", udp),
        ("", local),
        ("", ranges),
        (" healthcheck-port=10256", json!({})),
        ("", json!({})),
    ] {
        let harness = Harness::new();
        let provider = harness.start().await.unwrap();
        let one = service("a", &format!("type=nlb{annotations}"), &spec);
        for again in [false, true] {
            harness.ensure(&provider, &one).await.unwrap();
            assert_eq!(
                harness.fake.lock().unhealthy_targets(),
                [""; 0],
                "{annotations} {spec}, again: {again}"
            );
        }
        harness.changes();
        let restarted = harness.start().await.unwrap();
        harness.ensure(&restarted, &one).await.unwrap();
        assert_eq!(harness.changes(), [""; 0], "{annotations} {spec}");
    }
}

#[tokio::test(start_paused = true)]
async fn stopped_instance_keeps_no_other_one_and_no_listener_out() {
    let harness = Harness::new();
    harness.change_instances(|instance| {
        if instance["privateDnsName"] == "worker-2" {
            instance["instanceState"] = json!({"code": 80, "name": "stopped"});
        }
    });
    let provider = harness.start().await.unwrap();
    let ports = json!({"ports": [{"port": 80, "nodePort": 30080, "name": "a"}, {"port": 443, "nodePort": 30443, "name": "b"}]});
    let status = harness
        .ensure(&provider, &service("a", "type=nlb", &ports))
        .await
        .unwrap();
    assert_eq!(
        status.ingress.map(|ingress| ingress.len()),
        Some(1),
        "the address is published"
    );
    let targets = || -> Vec<usize> {
        let cloud = harness.fake.lock();
        cloud
            .all("target-group")
            .iter()
            .map(|group| group["_targets"].as_array().map_or(0, Vec::len))
            .collect()
    };
    let listeners = harness.fake.lock().all("listener").len();
    assert_eq!((listeners, targets()), (2, vec![1, 1]));
    let events: Vec<_> = harness
        .cluster
        .take_events()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        events
            .iter()
            .filter(|event| event.starts_with("TargetRefused"))
            .count(),
        1,
        "{events:?}"
    );
    // After its start, the instance is a target with the next sync, of targets as well.
    harness.change_instances(|instance| {
        instance["instanceState"] = json!({"code": 16, "name": "running"});
    });
    harness
        .update_targets(&provider, &service("a", "type=nlb", &ports))
        .await
        .unwrap();
    assert_eq!(targets(), [2, 2]);
}

#[tokio::test(start_paused = true)]
async fn protected_load_balancer_keeps_everything() {
    let harness = Harness::new();
    let provider = harness.start().await.unwrap();
    let one = service("a", "type=nlb", &json!({}));
    harness.ensure(&provider, &one).await.unwrap();
    let protect = |value: &str| {
        let mut cloud = harness.fake.lock();
        let attributes = cloud.each(Kind::Network)[0]["_attributes"]
            .as_array_mut()
            .unwrap();
        attributes
            .iter_mut()
            .filter(|attribute| attribute["Key"] == "deletion_protection.enabled")
            .for_each(|attribute| attribute["Value"] = value.into());
    };
    protect("true");
    harness.changes();
    let error = harness
        .delete(&provider, &one)
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("deletion_protection.enabled"), "{error}");
    assert_eq!(harness.changes(), [""; 0]);
    protect("false");
    harness.delete(&provider, &one).await.unwrap();
    assert!(harness.fake.lock().all("network").is_empty());
}

#[tokio::test(start_paused = true)]
async fn addresses_follow_the_order_of_the_annotation() {
    let harness = Harness::new();
    let provider = harness.start().await.unwrap();
    let annotations = "type=nlb internal=true subnets=subnet-00000003,subnet-00000002 private-ipv4-addresses=10.0.48.9,10.0.32.9";
    harness
        .ensure(&provider, &service("a", annotations, &json!({})))
        .await
        .unwrap();
    assert_eq!(
        addresses(&harness.only("network"), "PrivateIPv4Address"),
        ["10.0.32.9", "10.0.48.9"]
    );
}

#[tokio::test(start_paused = true)]
async fn another_scheme_is_refused_and_changes_nothing() {
    for kind in ["", "type=nlb "] {
        let harness = Harness::new();
        let provider = harness.start().await.unwrap();
        harness
            .ensure(&provider, &service("a", kind, &json!({})))
            .await
            .unwrap();
        harness.changes();
        let internal = service("a", &format!("{kind}internal=true"), &json!({}));
        let error = harness
            .ensure(&provider, &internal)
            .await
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("has scheme internet-facing, which AWS cannot change"),
            "{error}"
        );
        assert_eq!(harness.changes(), [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn service_that_names_the_security_group_of_another_one_does_not_own_it() {
    let harness = Harness::new().with("NLBSecurityGroupMode = Managed");
    let provider = harness.start().await.unwrap();
    harness
        .ensure(&provider, &service("a", "type=nlb", &json!({})))
        .await
        .unwrap();
    let group = harness.only("network")["SecurityGroups"][0]
        .as_str()
        .unwrap()
        .to_owned();
    let other = service(
        "b",
        &format!("type=nlb security-groups={group}"),
        &json!({}),
    );
    harness.ensure(&provider, &other).await.unwrap();
    harness.delete(&provider, &other).await.unwrap();
    assert!(
        harness
            .fake
            .lock()
            .all("group")
            .iter()
            .any(|object| object["groupId"] == *group),
        "it is the other Service's"
    );
    assert_eq!(harness.admitted(), [group], "which is still admitted");
}
