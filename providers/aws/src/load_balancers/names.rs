//! Names of target groups and security groups, and the tags of everything.

use std::collections::BTreeMap;

use cloud_provider::Service;
use provider_kit::load_balancers::{
    Identity as ServiceIdentity, OwnerTags, ReservedTags, TagRecord,
};
use provider_kit::signing::sha256_hex;
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

use super::NETWORK;
use super::model::TargetGroup;
use crate::api::Identity;

/// Tag with namespace and name of the Service.
pub(super) const SERVICE_TAG: &str = "kubernetes.io/service-name";
/// Record of the tags that come from the annotation, whose keys cannot contain `=`.
pub(super) const USER_TAGS: TagRecord = TagRecord {
    key: "ccm-rs/additional-tags",
    separator: "=",
    longest: 256,
};
/// Keys of tags by which this program, the Go program and the load balancer controller of AWS know load balancers.
pub(super) const RESERVED_TAGS: ReservedTags = ReservedTags {
    prefixes: &[
        "kubernetes.io/cluster/",
        "elbv2.k8s.aws/",
        "service.k8s.aws/",
        "aws:",
    ],
    keys: &[SERVICE_TAG, "KubernetesCluster"],
};
/// Description of the security group of a network load balancer.
pub(super) const MANAGED: &str = "[k8s] Managed SecurityGroup for LoadBalancer";
/// Prefix of the name of the security group of a classic load balancer.
pub(super) const CLASSIC_GROUP: &str = "k8s-elb-";

/// Returns namespace and name of a Service.
pub(super) fn full_name(service: &Service) -> [&str; 2] {
    let metadata = &service.metadata;
    [
        metadata.namespace.as_deref().unwrap_or_default(),
        metadata.name.as_deref().unwrap_or_default(),
    ]
}

fn prefix(service: &Service) -> String {
    let short = |text: &str| {
        text.chars()
            .filter(char::is_ascii_alphanumeric)
            .take(8)
            .collect::<String>()
    };
    let [namespace, name] = full_name(service).map(short);
    format!("k8s-{namespace}-{name}-")
}

/// Returns the name of a new target group.
pub(super) fn target_group(
    cluster: &str,
    service: &Service,
    port: u16,
    group: &TargetGroup,
) -> String {
    let [namespace, name] = full_name(service);
    let TargetGroup {
        port: node_port,
        protocol,
        ..
    } = group;
    let health = format!(
        "{}{}",
        group.health_check_protocol, group.health_check_interval_seconds
    );
    let text = format!("{cluster}{namespace}{name}{port}{node_port}{protocol}instance{health}");
    let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes());
    let hex: String = hash
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("{}{}", prefix(service), &hex[..10])
}

/// Returns the name of the security group that is created for a load balancer of this kind.
pub(super) fn security_group(
    kind: &str,
    cluster_name: &str,
    service: &Service,
    balancer: &str,
) -> String {
    if kind != NETWORK {
        return format!("{CLASSIC_GROUP}{balancer}");
    }
    let ([namespace, name], uid) = (
        full_name(service),
        service.metadata.uid.as_deref().unwrap_or_default(),
    );
    let hash = sha256_hex(format!("{cluster_name}{name}{namespace}{uid}").as_bytes());
    format!("{}{}", prefix(service), &hash[..10])
}

/// Returns the names that the security group of a network load balancer may have. The Service is known by its tag and by the
/// name of its load balancer, which lacks the last digit of the UID.
pub(super) fn managed_groups(cluster_name: &str, service: &str, balancer: &str) -> Vec<String> {
    let (Some((namespace, name)), Some(uid)) =
        (service.split_once('/'), balancer.strip_prefix('a'))
    else {
        return Vec::new();
    };
    if uid.len() != 31 || !uid.is_ascii() {
        return Vec::new();
    }
    let head = &uid[..8];
    let rest = &uid[8..];
    let parts = [head, &rest[..4], &rest[4..8], &rest[8..12], &rest[12..]].join("-");
    let with_uid = |digit: char| {
        let mut object = Service::default();
        (object.metadata.namespace, object.metadata.name) =
            (Some(namespace.to_owned()), Some(name.to_owned()));
        object.metadata.uid = Some(format!("{parts}{digit}"));
        security_group(NETWORK, cluster_name, &object, balancer)
    };
    "0123456789abcdef".chars().map(with_uid).collect()
}

/// Returns the description of that security group.
pub(super) fn security_group_description(kind: &str, service: &Service, balancer: &str) -> String {
    let [namespace, name] = full_name(service);
    match kind {
        NETWORK => MANAGED.to_owned(),
        _ => format!("Security group for Kubernetes ELB {balancer} ({namespace}/{name})"),
    }
}

/// Returns the tags of a load balancer but for its owner tags, or those of its security group.
pub(super) fn tags(
    cluster: &Identity,
    service: Option<&Service>,
    user: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let named = service.map(|service| (SERVICE_TAG.to_owned(), full_name(service).join("/")));
    USER_TAGS
        .among(user.clone())
        .into_iter()
        .chain(named)
        .chain(cluster.owner_tags())
        .collect()
}

/// Returns the tags that tell whose a new object is.
pub(super) fn owner_tags(identity: &ServiceIdentity<'_>) -> BTreeMap<String, String> {
    let service = (
        SERVICE_TAG.to_owned(),
        full_name(identity.service).join("/"),
    );
    identity.owner_tags().among([service].into())
}

/// Returns the owner tags among the tags of an object.
pub(super) fn owner(tags: &BTreeMap<String, String>) -> OwnerTags {
    OwnerTags::take_from(&mut tags.clone())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn service(namespace: &str, name: &str, uid: &str) -> Service {
        serde_json::from_value(
            json!({"metadata": {"namespace": namespace, "name": name, "uid": uid}}),
        )
        .unwrap()
    }

    #[test]
    fn names_are_those_of_the_go_program() {
        let group = TargetGroup {
            port: 8080,
            protocol: "TCP".to_owned(),
            ..TargetGroup::default()
        };
        let name = target_group(
            "cluster-a",
            &service("default", "service-a", ""),
            80,
            &group,
        );
        assert_eq!(name, "k8s-default-servicea-7fa2e07508");
        let uid = "12345678-1234-1234-1234-123456789abc";
        let name = security_group(
            NETWORK,
            "test-cluster",
            &service("default", "my-service", uid),
            "a1",
        );
        assert_eq!(name, "k8s-default-myservic-b7cb8b02f0");
        assert_eq!(
            security_group("classic", "", &service("", "", ""), "a1"),
            "k8s-elb-a1"
        );
        let groups = managed_groups(
            "test-cluster",
            "default/my-service",
            "a12345678123412341234123456789ab",
        );
        assert!(
            groups.contains(&"k8s-default-myservic-b7cb8b02f0".to_owned()),
            "{groups:?}"
        );
        assert!(managed_groups("test-cluster", "default/my-service", "by-hand").is_empty());
    }
}
