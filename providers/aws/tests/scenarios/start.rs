//! The start on an instance, and the checks of `doctor`.

use std::time::Duration;

use aws_fake::{Fault, FaultKind};
use cloud_provider::{CloudProvider, Severity};
use serde_json::json;

use crate::harness::Harness;

#[tokio::test(start_paused = true)]
async fn program_on_an_instance_learns_cluster_and_vpc_from_it() {
    let harness = Harness::new().on_instance();
    assert!(!harness.created().has_cluster_id(), "nothing was asked yet");
    let provider = harness.start().await.unwrap();
    assert!(provider.has_cluster_id());
    let findings = provider.diagnose().await;
    let cluster = findings
        .iter()
        .find(|finding| finding.check == "cluster")
        .unwrap();
    assert_eq!(cluster.text, "ID \"testbed\", VPC vpc-0a1b2c3d");
}

#[tokio::test(start_paused = true)]
async fn instance_without_the_tag_of_a_cluster_leaves_the_cluster_id_open() {
    let harness = Harness::new().on_instance();
    harness.change_instances(|instance| instance["tagSet"] = json!([]));
    let provider = harness.start().await.unwrap();
    assert!(provider.needs_cluster_id() && !provider.has_cluster_id());
    let findings = provider.diagnose().await;
    let cluster = findings
        .iter()
        .find(|finding| finding.check == "cluster")
        .unwrap();
    assert_eq!(
        cluster.severity,
        Severity::Warning,
        "--allow-untagged-cloud may be set"
    );
    assert!(
        cluster.text.contains("no tag kubernetes.io/cluster/<ID>"),
        "{}",
        cluster.text
    );
}

#[tokio::test(start_paused = true)]
async fn metadata_service_that_needs_seconds_for_an_answer_is_awaited() {
    let harness = Harness::new().on_instance();
    for route in ["PUT /latest/api/token", "GET /latest/meta-data/instance-id"] {
        harness.fake.fault_injector().fail(Fault::new(
            route,
            FaultKind::Latency(Duration::from_secs(4)),
        ));
    }
    assert!(harness.start().await.unwrap().has_cluster_id());
}

#[tokio::test(start_paused = true)]
async fn token_that_the_hop_limit_swallows_is_reported_within_seconds_with_the_hop_limit() {
    let harness = Harness::new().on_instance();
    harness
        .fake
        .fault_injector()
        .fail(Fault::new("PUT /latest/api/token", FaultKind::Hang));
    let start = tokio::time::Instant::now();
    let error = harness.start().await.err().unwrap();
    assert!(error.is_unanswered(), "the start is tried again: {error}");
    let text = error.to_string();
    assert!(
        text.contains("HttpPutResponseHopLimit") && text.contains("the host's network"),
        "{text}"
    );
    assert!(
        start.elapsed() <= Duration::from_secs(20),
        "{:?}",
        start.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn disabled_metadata_service_is_named_by_its_variable() {
    let error = Harness::new()
        .without_vpc()
        .start()
        .await
        .err()
        .unwrap()
        .to_string();
    assert!(
        error.contains("AWS_EC2_METADATA_DISABLED") && error.contains("KubernetesClusterID"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn instance_with_tags_of_two_clusters_starts_nothing() {
    let harness = Harness::new().on_instance();
    harness.change_instances(|instance| {
        instance["tagSet"]
            .as_array_mut()
            .unwrap()
            .push(json!({"key": "kubernetes.io/cluster/other", "value": "owned"}));
    });
    let error = harness.start().await.err().unwrap().to_string();
    assert!(
        error.contains("several clusters (other, testbed)"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn doctor_names_each_permission_that_is_missing_and_who_needs_it() {
    let harness = Harness::new();
    let provider = harness.created();
    let findings = provider.diagnose().await;
    let all: Vec<_> = findings
        .iter()
        .map(|finding| (&*finding.check, finding.severity))
        .collect();
    assert!(
        all.iter().all(|(_, severity)| *severity == Severity::Ok),
        "{findings:?}"
    );
    for check in ["endpoint", "permissions", "cluster", "subnets"] {
        assert!(
            all.iter().any(|(name, _)| *name == check),
            "{check}: {all:?}"
        );
    }
    for (action, severity, who) in [
        (
            "ec2/DescribeSecurityGroups",
            Severity::Failure,
            "service-lb-controller",
        ),
        (
            "ec2/DescribeInstanceTopology",
            Severity::Warning,
            "the node controllers",
        ),
        (
            "elbv2/DescribeTargetGroups",
            Severity::Failure,
            "service-lb-controller",
        ),
    ] {
        let code = if action.starts_with("ec2") {
            "UnauthorizedOperation"
        } else {
            "AccessDenied"
        };
        harness
            .fake
            .fault_injector()
            .fail(Fault::code(&format!("GET /{action}"), code));
        let findings = harness.created().diagnose().await;
        let missing = findings
            .iter()
            .find(|finding| finding.severity != Severity::Ok)
            .unwrap();
        let remedy = missing.remedy.as_deref().unwrap();
        let name = action.split('/').nth(1).unwrap();
        assert_eq!(
            (&*missing.check, missing.severity),
            ("permissions", severity),
            "{missing:?}"
        );
        assert!(remedy.contains(name) && remedy.contains(who), "{remedy}");
        harness.fake.fault_injector().clear_faults();
    }
}

#[tokio::test(start_paused = true)]
async fn doctor_warns_of_subnets_without_the_tags_of_roles() {
    let harness = Harness::new();
    for object in harness.fake.lock().each(aws_fake::Kind::Subnet) {
        object["tagSet"]
            .as_array_mut()
            .unwrap()
            .retain(|tag| tag["key"] != "kubernetes.io/role/elb");
    }
    let findings = harness.created().diagnose().await;
    let subnets = findings
        .iter()
        .find(|finding| finding.check == "subnets")
        .unwrap();
    assert_eq!(subnets.severity, Severity::Warning);
    assert!(
        subnets.text.ends_with("has the tag kubernetes.io/role/elb"),
        "{}",
        subnets.text
    );
}
