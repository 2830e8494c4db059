//! Source ranges, which a security group admits.

use serde_json::json;
use tencent_fake::Fault;

use crate::harness::{Harness, annotate, service, service_of};
use crate::load_balancers::{EXISTING, GROUPS};
use crate::profile::add_balancer;

#[tokio::test(start_paused = true)]
async fn source_ranges_are_admitted_by_a_security_group_that_goes_with_them() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let ranges = json!({"loadBalancerSourceRanges": ["192.0.2.0/24", "198.51.100.0/24"]});
    let mut service = service_of(&[(GROUPS, "sg-mine1")], ranges);
    harness.ensure(&provider, &mut service).await.unwrap();
    let changes = harness.changes();
    let at = |name: &str| changes.iter().position(|change| change == name).unwrap();
    assert!(
        at("SetLoadBalancerSecurityGroups") < at("CreateListener"),
        "no listener before its protection: {changes:?}"
    );
    let balancer = harness.only("balancer");
    let group = harness.only("group");
    assert_eq!(balancer["LoadBalancerPassToTarget"], true);
    let groups = balancer["SecureGroups"].as_array().unwrap();
    assert!(
        groups.len() == 2 && groups.contains(&group["SecurityGroupId"]),
        "{groups:?}"
    );
    assert_eq!(
        group["_policies"]["Ingress"][1]["CidrBlock"],
        "198.51.100.0/24"
    );
    let restarted = harness.started().await;
    harness.ensure(&restarted, &mut service).await.unwrap();
    assert!(harness.changes().is_empty());
    service.spec = service_of(&[], json!({"loadBalancerSourceRanges": ["192.0.2.0/24"]})).spec;
    harness.ensure(&restarted, &mut service).await.unwrap();
    assert_eq!(
        harness.only("group")["_policies"]["Ingress"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    service.spec = service_of(&[], json!({})).spec;
    harness.ensure(&restarted, &mut service).await.unwrap();
    assert!(harness.fake.lock().all("group").is_empty());
    assert_eq!(
        harness.only("balancer")["SecureGroups"],
        json!(["sg-mine1"])
    );
    assert_eq!(
        harness.only("balancer")["LoadBalancerPassToTarget"],
        false,
        "the security groups of Nodes count again"
    );
}

#[tokio::test(start_paused = true)]
async fn security_groups_that_change_together_with_source_ranges_are_written_once() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let ranges = json!({"loadBalancerSourceRanges": ["192.0.2.0/24"]});
    let mut service = service_of(&[(GROUPS, "sg-mine1")], ranges.clone());
    harness.ensure(&provider, &mut service).await.unwrap();
    let set = |changes: Vec<String>| {
        changes
            .iter()
            .filter(|change| *change == "SetLoadBalancerSecurityGroups")
            .count()
    };
    assert_eq!(set(harness.changes()), 1);

    annotate(&mut service, GROUPS, "sg-mine2");
    service.spec = service_of(&[], json!({})).spec;
    harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!(
        (
            set(harness.changes()),
            &harness.only("balancer")["SecureGroups"]
        ),
        (1, &json!(["sg-mine2"]))
    );
    assert!(harness.fake.lock().all("group").is_empty());

    annotate(&mut service, GROUPS, "sg-mine1");
    service.spec = service_of(&[], ranges).spec;
    harness.ensure(&provider, &mut service).await.unwrap();
    let managed = harness.only("group")["SecurityGroupId"].clone();
    assert_eq!(
        (
            set(harness.changes()),
            &harness.only("balancer")["SecureGroups"]
        ),
        (1, &json!(["sg-mine1", managed]))
    );
}

#[tokio::test(start_paused = true)]
async fn source_ranges_are_compared_as_ranges() {
    let harness = Harness::new();
    let mut service = service_of(
        &[],
        json!({"loadBalancerSourceRanges": ["192.0.2.1/32", "2001:db8::/32"]}),
    );
    harness
        .ensure(&harness.started().await, &mut service)
        .await
        .unwrap();
    harness.fake.lock().each("group")[0]["_policies"]["Ingress"] = json!([
        {"Action": "ACCEPT", "CidrBlock": "192.0.2.1"}, {"Action": "ACCEPT", "Ipv6CidrBlock": "2001:0db8:0::/32"},
    ]);
    harness.changes();
    harness
        .ensure(&harness.started().await, &mut service)
        .await
        .unwrap();
    assert!(harness.changes().is_empty());
}

#[tokio::test(start_paused = true)]
async fn security_group_of_no_service_is_not_managed() {
    let harness = Harness::new();
    let id = add_balancer(&mut harness.fake.lock(), "mine");
    harness.fake.lock().each("balancer")[0]["Tags"] =
        json!([{"TagKey": "ccm-rs/source-ranges", "TagValue": "yes"}]);
    let group = json!({"SecurityGroupId": "sg-mine9", "TagSet": [{"Key": "tke-lb-serviceuuid", "Value": ""}], "_policies": {}});
    harness.fake.lock().add("group", group);
    harness
        .ensure(&harness.started().await, &mut service(&[(EXISTING, &id)]))
        .await
        .unwrap();
    assert_eq!(harness.only("group")["SecurityGroupId"], "sg-mine9");
}

#[tokio::test(start_paused = true)]
async fn deleted_service_takes_its_security_group_along() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut service = service_of(&[], json!({"loadBalancerSourceRanges": ["192.0.2.0/24"]}));
    harness.ensure(&provider, &mut service).await.unwrap();
    for spared in 0..6 {
        // Each request of the deletion fails once, as after a crash.
        let restarted = harness.started().await;
        harness
            .fake
            .fault_injector()
            .fail(Fault::code("", "InvalidParameter").after(spared).times(1));
        let _ = harness.delete(&restarted, &service).await;
        harness.fake.fault_injector().clear_faults();
    }
    harness
        .delete(&harness.started().await, &service)
        .await
        .unwrap();
    let cloud = harness.fake.lock();
    assert!(cloud.all("group").is_empty() && cloud.all("balancer").is_empty());
}
