//! Nodes in other subnets, compartments and regions, annotations of the other kind, and policies for one kind.

use std::sync::Arc;

use cloud_provider::{
    Caches, CloudProvider, LoadBalancerRequest, LookupRequest, MetadataLevel, Node,
};
use oci_fake::{Fault, NODE_SUBNET};
use serde_json::json;

use crate::harness::{Harness, cluster, rules, service};

const KIND: &str = "oci.oraclecloud.com/load-balancer-type";
const MODE: &str = "oci.oraclecloud.com/security-rule-management-mode";
const LB_INTERNAL: &str = "service.beta.kubernetes.io/oci-load-balancer-internal";
const NLB_INTERNAL: &str = "oci-network-load-balancer.oraclecloud.com/internal";
/// A second subnet of Nodes, and its security list.
const SECOND: (&str, &str) = (
    "ocid1.subnet.oc1.phx.second",
    "ocid1.securitylist.oc1.phx.second",
);

/// Adds a subnet and moves a Node's instance there.
fn move_to_second_subnet(harness: &Harness, node: &str) {
    let mut cloud = harness.fake.lock();
    let mut subnet = cloud.objects[NODE_SUBNET].clone();
    let list = subnet["securityListIds"][0].as_str().unwrap().to_owned();
    let mut list = cloud.objects[&list].clone();
    (subnet["id"], subnet["cidrBlock"], subnet["securityListIds"]) =
        (SECOND.0.into(), "10.0.192.0/24".into(), json!([SECOND.1]));
    list["id"] = SECOND.1.into();
    cloud.objects.insert(SECOND.0.to_owned(), subnet);
    cloud.objects.insert(SECOND.1.to_owned(), list);
    let number = cloud
        .all("instance")
        .find(|object| object["displayName"] == node)
        .unwrap()["id"]
        .clone();
    let number = number
        .as_str()
        .unwrap()
        .rsplit('.')
        .next()
        .unwrap()
        .to_owned();
    for object in cloud.objects.values_mut() {
        let is_its_match = object["id"]
            .as_str()
            .is_some_and(|id| id.ends_with(&format!(".{number}")));
        if is_its_match && object["subnetId"].is_string() {
            object["subnetId"] = SECOND.0.into();
        }
    }
}

async fn update(
    harness: &Harness,
    provider: &provider_oci::Oci,
    service: &cloud_provider::Service,
) {
    let cluster = cluster();
    let nodes = harness.cluster.nodes();
    let request = LoadBalancerRequest {
        cluster: &cluster,
        service,
        nodes: &nodes,
        callbacks: &(),
    };
    provider
        .load_balancers()
        .unwrap()
        .update_targets(request)
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn node_of_a_second_subnet_gets_its_rules_in_the_same_sync() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut web = service(&[], json!({}));
    harness.ensure(&provider, &mut web).await.unwrap();
    harness.add_node("worker-3");
    move_to_second_subnet(&harness, "worker-3");
    update(&harness, &provider, &web).await;
    assert_eq!(
        rules(&harness, "second", "ingress"),
        ["10.0.128.0/24 10256", "10.0.128.0/24 30080"]
    );
    assert_eq!(rules(&harness, "balancers", "egress").len(), 4);
    harness.fake.fault_injector().forget_requests();
    harness.ensure(&provider, &mut web).await.unwrap();
    assert_eq!(harness.changes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn unknown_subnet_of_a_node_removes_no_rule_after_a_restart() {
    let harness = Harness::new();
    let mut web = service(&[], json!({}));
    harness
        .ensure(&harness.started().await, &mut web)
        .await
        .unwrap();
    let before = ["balancers", "nodes"].map(|list| rules(&harness, list, "egress"));
    // The instances are in another compartment, which the list does not show, and cannot be read for now.
    let elsewhere = json!("ocid1.compartment.oc1..elsewhere");
    for name in ["worker-1", "worker-2"] {
        harness.fake.lock().change_instance(name, |instance| {
            instance["compartmentId"] = elsewhere.clone();
        });
    }
    let provider = harness.started().await;
    harness
        .fake
        .fault_injector()
        .fail(Fault::status("GET /instances/{id}", 500));
    harness.ensure(&provider, &mut web).await.unwrap();
    assert_eq!(
        ["balancers", "nodes"].map(|list| rules(&harness, list, "egress")),
        before
    );
}

#[tokio::test(start_paused = true)]
async fn instance_of_another_region_is_unknown() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let node = Node {
        name: "far".into(),
        provider_id: "oci://ocid1.instance.oc1.eu-frankfurt-1.far".into(),
        ..Node::default()
    };
    harness.cluster.set_node(node.clone());
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
        error.to_string().contains("is of region eu-frankfurt-1"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn internal_annotation_of_the_other_kind_is_a_mistake_before_any_request() {
    for (kind, key) in [("lb", NLB_INTERNAL), ("nlb", LB_INTERNAL)] {
        let harness = Harness::new();
        let provider = harness.started().await;
        let mut web = service(&[(KIND, kind), (key, "true")], json!({}));
        let error = harness.ensure(&provider, &mut web).await.unwrap_err();
        assert!(
            error.is_invalid() && error.to_string().contains(key),
            "{error}"
        );
        assert_eq!(harness.changes(), [""; 0]);
        // Another setting of the other kind is a warning.
        let own = if kind == "lb" {
            LB_INTERNAL
        } else {
            NLB_INTERNAL
        };
        let mut web = service(&[(KIND, kind), (key, "true"), (own, "true")], json!({}));
        harness.ensure(&provider, &mut web).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn families_of_the_service_decide_about_addresses() {
    let harness = Harness::new();
    for subnet in [oci_fake::LB_SUBNET, NODE_SUBNET] {
        harness.fake.lock().objects.get_mut(subnet).unwrap()["ipv6CidrBlock"] =
            "2603:c020::/64".into();
    }
    let provider = harness.started().await;
    let single = json!({"ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv4"]});
    let mut web = service(&[(KIND, "nlb")], single);
    let status = harness.ensure(&provider, &mut web).await.unwrap();
    assert_eq!(status.ingress.map(|ingress| ingress.len()), Some(1));
    let made = harness.balancer("networkloadbalancer");
    assert_eq!(
        made["listeners"].as_object().map(serde_json::Map::len),
        Some(1)
    );
}

#[tokio::test(start_paused = true)]
async fn policy_for_one_kind_is_enough_if_no_service_has_the_other() {
    let harness = Harness::new();
    let provider = harness.started().await;
    harness.fake.fault_injector().fail(Fault::refused_as(
        "GET /networkLoadBalancers",
        404,
        "NotAuthorizedOrNotFound",
        "Authorization failed or requested resource not found.",
    ));
    let mut web = service(&[], json!({}));
    harness.ensure(&provider, &mut web).await.unwrap();
    let provider = harness.started().await;
    harness.fake.fault_injector().fail(Fault::refused_as(
        "GET /networkLoadBalancers",
        404,
        "NotAuthorizedOrNotFound",
        "Authorization failed or requested resource not found.",
    ));
    harness.ensure(&provider, &mut web).await.unwrap();
    harness.delete(&provider, &web).await.unwrap();
    assert_eq!(harness.fake.lock().all("loadbalancer").count(), 0);
    let mut dns = service(&[(KIND, "nlb"), (MODE, "None")], json!({}));
    harness.ensure(&provider, &mut dns).await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn service_is_deleted_although_subnets_and_security_lists_no_longer_exist() {
    let [nodes, balancers] =
        ["nodes", "balancers"].map(|balancers| format!("ocid1.securitylist.oc1.phx.{balancers}"));
    let missing: [&[&str]; 4] = [
        &[NODE_SUBNET, &nodes],
        &[&nodes],
        &[oci_fake::LB_SUBNET, &balancers],
        &[&balancers],
    ];
    for missing in missing {
        let harness = Harness::new();
        let mut web = service(&[], json!({}));
        harness
            .ensure(&harness.started().await, &mut web)
            .await
            .unwrap();
        for id in missing {
            assert!(harness.fake.lock().objects.remove(*id).is_some(), "{id}");
        }
        let provider = harness.started().await;
        harness.delete(&provider, &web).await.unwrap();
        assert_eq!(
            harness.fake.lock().all("loadbalancer").count(),
            0,
            "{missing:?}"
        );
        for list in ["nodes", "balancers"]
            .into_iter()
            .filter(|list| !missing.iter().any(|missing| missing.ends_with(list)))
        {
            assert_eq!(rules(&harness, list, "ingress"), [""; 0], "{missing:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn settings_that_a_user_gave_a_backend_stay_when_a_node_joins() {
    for (kind, settings) in [
        (
            "lb",
            json!({"weight": 3, "drain": true, "maxConnections": 256}),
        ),
        ("nlb", json!({"weight": 3, "isDrain": true})),
    ] {
        let harness = Harness::new();
        let provider = harness.started().await;
        let mut web = service(&[(KIND, kind), (MODE, "None")], json!({}));
        harness.ensure(&provider, &mut web).await.unwrap();
        let object = if kind == "lb" {
            "loadbalancer"
        } else {
            "networkloadbalancer"
        };
        let id = harness.balancer(object)["id"].as_str().unwrap().to_owned();
        let changed = {
            let mut cloud = harness.fake.lock();
            let backend =
                &mut cloud.objects.get_mut(&id).unwrap()["backendSets"]["TCP-80"]["backends"][0];
            settings
                .as_object()
                .unwrap()
                .iter()
                .for_each(|(key, value)| backend[key] = value.clone());
            backend["ipAddress"].clone()
        };
        harness.add_node("worker-3");
        update(&harness, &provider, &web).await;
        let backends = harness.balancer(object)["backendSets"]["TCP-80"]["backends"].clone();
        let backends = backends.as_array().unwrap();
        assert_eq!(backends.len(), 3, "{kind}");
        let kept = backends
            .iter()
            .find(|backend| backend["ipAddress"] == changed)
            .unwrap();
        settings
            .as_object()
            .unwrap()
            .iter()
            .for_each(|(key, value)| assert_eq!(kept[key], *value, "{kind} {key}"));
    }
}
