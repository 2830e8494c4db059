//! Source ranges of Services: the security group of an NLB.

use serde_json::{Value, json};

use crate::harness::{Harness, network, service};

#[tokio::test(start_paused = true)]
async fn source_ranges_of_a_clb_are_reported() {
    let harness = Harness::new();
    let mut service = service(&[]);
    set_ranges(&mut service, &["192.0.2.0/24"]);
    harness
        .ensure(&harness.started().await, &mut service)
        .await
        .unwrap();
    let events: Vec<_> = harness
        .cluster
        .take_events()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert!(
        events
            .join(" ")
            .contains("loadBalancerSourceRanges has no effect on a CLB"),
        "{events:?}"
    );
}

fn set_ranges(service: &mut cloud_provider::Service, ranges: &[&str]) {
    service.spec.as_mut().unwrap().load_balancer_source_ranges =
        Some(ranges.iter().map(|range| (*range).to_owned()).collect());
}

/// Returns the rules of the only security group: policy, priority, range.
fn rules(harness: &Harness) -> Vec<String> {
    let group = harness.only("security group");
    let rule = |object: &Value| {
        let text = |key: &str| match &object[key] {
            Value::Null => String::new(),
            other => other.to_string().replace('"', ""),
        };
        format!(
            "{} {} {}{}",
            text("Policy"),
            text("Priority"),
            text("SourceCidrIp"),
            text("Ipv6SourceCidrIp")
        )
    };
    let mut all: Vec<_> = group["_rules"]
        .as_array()
        .unwrap()
        .iter()
        .map(rule)
        .collect();
    all.sort();
    all
}

#[tokio::test(start_paused = true)]
async fn source_ranges_of_an_nlb_are_admitted_by_a_security_group_that_goes_with_them() {
    let harness = Harness::new().at_once();
    let mut service = network(&[("security-group-ids", "sg-mine")]);
    set_ranges(&mut service, &["192.0.2.0/24", "198.51.100.7/32"]);
    let provider = harness.started().await;
    harness.ensure(&provider, &mut service).await.unwrap();
    let group = harness.only("security group");
    assert_eq!(
        group["SecurityGroupName"],
        "k8s-nlb-a0b0a1c0f3f3e4c57a1b59f5f2a7d8c1"
    );
    assert_eq!(group["_rules"][0]["Description"], "k8s.default.web.testbed");
    assert_eq!(
        rules(&harness),
        [
            "Accept 1 192.0.2.0/24",
            "Accept 1 198.51.100.7/32",
            "Drop 100 0.0.0.0/0"
        ]
    );
    let mut ids: Vec<_> = harness.only("network")["SecurityGroupIds"]
        .as_array()
        .unwrap()
        .clone();
    ids.sort_by_key(ToString::to_string);
    assert_eq!(ids, [group["SecurityGroupId"].clone(), json!("sg-mine")]);
    let changes = harness.changes();
    let at = |name: &str| changes.iter().position(|change| change == name).unwrap();
    let is_last_join = changes
        .iter()
        .rposition(|change| change == "LoadBalancerJoinSecurityGroup")
        .unwrap();
    assert!(
        at("AuthorizeSecurityGroup") < is_last_join && is_last_join < at("CreateListener"),
        "{changes:?}"
    );
    for provider in [&provider, &harness.started().await] {
        harness.ensure(provider, &mut service).await.unwrap();
        assert_eq!(harness.changes(), [""; 0]);
    }
    set_ranges(&mut service, &["203.0.113.0/24"]);
    harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!(
        rules(&harness),
        ["Accept 1 203.0.113.0/24", "Drop 100 0.0.0.0/0"]
    );
    harness.changes();
    service.spec.as_mut().unwrap().load_balancer_source_ranges = None;
    harness
        .ensure(&harness.started().await, &mut service)
        .await
        .unwrap();
    assert_eq!(
        harness.changes(),
        ["LoadBalancerLeaveSecurityGroup", "DeleteSecurityGroup"]
    );
    assert_eq!(
        harness.only("network")["SecurityGroupIds"],
        json!(["sg-mine"])
    );
}

#[tokio::test(start_paused = true)]
async fn security_group_for_source_ranges_is_deleted_with_its_service() {
    for is_balancer_there in [true, false] {
        let harness = Harness::new().at_once();
        let mut service = network(&[]);
        set_ranges(&mut service, &["192.0.2.0/24"]);
        harness
            .ensure(&harness.started().await, &mut service)
            .await
            .unwrap();
        if !is_balancer_there {
            let mut cloud = harness.fake.lock();
            ["network", "listener", "group"]
                .into_iter()
                .for_each(|kind| cloud.each(kind).clear());
        }
        service.metadata.deletion_timestamp =
            serde_json::from_value(json!("2026-11-26T00:00:00Z")).unwrap();
        harness
            .delete(&harness.started().await, &service)
            .await
            .unwrap();
        let cloud = harness.fake.lock();
        let left = ["network", "group", "security group"].map(|kind| cloud.all(kind).len());
        assert_eq!(left, [0, 0, 0], "{is_balancer_there}");
    }
}

#[tokio::test(start_paused = true)]
async fn security_group_of_the_go_program_is_taken_over() {
    let harness = Harness::new().at_once();
    let mut service = network(&[]);
    set_ranges(&mut service, &["192.0.2.0/24"]);
    harness
        .ensure(&harness.started().await, &mut service)
        .await
        .unwrap();
    harness.fake.lock().each("security group")[0]["Tags"]["Tag"]
        .as_array_mut()
        .unwrap()
        .retain(|tag| !tag["TagKey"].as_str().unwrap().starts_with("ccm-rs"));
    harness.changes();
    let provider = harness.started().await;
    harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!(harness.changes(), [""; 0]);
    // Somebody removed the rule that keeps other addresses out.
    harness.fake.lock().each("security group")[0]["_rules"]
        .as_array_mut()
        .unwrap()
        .retain(|rule| rule["Policy"] == "Accept");
    harness
        .ensure(&harness.started().await, &mut service)
        .await
        .unwrap();
    assert_eq!(
        rules(&harness),
        ["Accept 1 192.0.2.0/24", "Drop 100 0.0.0.0/0"]
    );
}
