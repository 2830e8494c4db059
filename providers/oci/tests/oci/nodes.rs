//! Nodes: their metadata, the absence of their instances, labels, tags and Pod ranges.

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{
    Caches, CloudProvider, InstanceState, Instances, LookupRequest, MetadataLevel, Node,
    NodeAddress,
};
use oci_fake::Fault;
use provider_oci::Oci;
use serde_json::{Value, json};

use crate::harness::Harness;

const FRESH: LookupRequest = LookupRequest {
    existence: true,
    shutdown: true,
    metadata: MetadataLevel::Full,
    fresh: true,
};

async fn state(provider: &Oci, node: &Node) -> cloud_provider::Result<InstanceState> {
    let instances: &dyn Instances = provider.instances().unwrap();
    instances
        .lookup(&[Arc::new(node.clone())], FRESH)
        .await
        .remove(0)
}

async fn addresses(provider: &Oci, node: &Node) -> Vec<String> {
    let Ok(InstanceState::Present {
        metadata: Some(metadata),
        ..
    }) = state(provider, node).await
    else {
        panic!()
    };
    let text = |address: &NodeAddress| format!("{} {}", address.kind.as_str(), address.address);
    metadata.node_addresses.iter().map(text).collect()
}

fn node(harness: &Harness) -> Node {
    (*harness.cluster.nodes()[0]).clone()
}

/// Changes the VNIC of the first instance, and its address as the subnet lists it.
fn change_vnic(harness: &Harness, change: impl Fn(&mut Value)) {
    let mut cloud = harness.fake.lock();
    let id = harness.cluster.nodes()[0]
        .provider_id
        .trim_start_matches("oci://")
        .replace(".instance.", ".vnic.");
    let vnic = cloud.objects.get_mut(&id).unwrap();
    change(vnic);
    let vnic = vnic.clone();
    for address in cloud
        .objects
        .values_mut()
        .filter(|object| object["vnicId"] == vnic["id"] && object["ipAddress"].is_string())
    {
        address["ipAddress"] = vnic["privateIp"].clone();
    }
}

#[tokio::test(start_paused = true)]
async fn node_gets_the_labels_of_its_instance_under_both_forms_of_provider_id() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let node = node(&harness);
    let bare = Node {
        provider_id: node.provider_id.trim_start_matches("oci://").into(),
        ..node.clone()
    };
    let named = Node {
        provider_id: "".into(),
        ..node.clone()
    };
    let by_label = Node {
        provider_id: "".into(),
        name: "worker-1.cluster.example".into(),
        ..node.clone()
    };
    for node in [node, bare, named, by_label] {
        let InstanceState::Present {
            metadata: Some(metadata),
            ..
        } = state(&provider, &node).await.unwrap()
        else {
            panic!("{node:?}")
        };
        let facts = (&*metadata.instance_type, &*metadata.region, &*metadata.zone);
        assert_eq!(facts, ("VM.Standard.E4.Flex", "phx", "PHX-AD-1"));
        assert_eq!(
            metadata.additional_labels["oci.oraclecloud.com/fault-domain"],
            "FAULT-DOMAIN-2"
        );
    }
    let foreign = Node {
        provider_id: "aws:///i-1".into(),
        ..Node::default()
    };
    assert!(state(&provider, &foreign).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn instance_of_another_network_does_not_stand_for_a_node() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let address = node(&harness).addresses[0].address.to_string();
    let by_address = Node {
        provider_id: "".into(),
        name: address.as_str().into(),
        ..node(&harness)
    };
    {
        let mut cloud = harness.fake.lock();
        let id = cloud.add_instance("theirs");
        let number = id.rsplit('.').next().unwrap().to_owned();
        let mut subnet = cloud.objects[oci_fake::NODE_SUBNET].clone();
        (subnet["id"], subnet["vcnId"]) = (
            json!("ocid1.subnet.oc1.phx.theirs"),
            json!("ocid1.vcn.oc1.phx.theirs"),
        );
        cloud
            .objects
            .insert("ocid1.subnet.oc1.phx.theirs".to_owned(), subnet);
        for entry in cloud
            .objects
            .iter_mut()
            .filter(|(id, _)| id.ends_with(&number))
            .map(|(_, object)| object)
        {
            if entry["subnetId"].is_string() {
                entry["subnetId"] = "ocid1.subnet.oc1.phx.theirs".into();
            }
            for key in ["privateIp", "ipAddress"] {
                if entry[key].is_string() {
                    entry[key] = json!(address);
                }
            }
        }
    }
    let found = state(&provider, &by_address).await.unwrap();
    let InstanceState::Present {
        metadata: Some(metadata),
        ..
    } = found
    else {
        panic!("{found:?}")
    };
    assert_eq!(metadata.provider_id, &*node(&harness).provider_id);
}

#[tokio::test(start_paused = true)]
async fn node_with_another_name_than_its_instance_is_not_gone_while_lists_fail() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let node = Node {
        provider_id: "".into(),
        name: "worker-1.cluster.example".into(),
        ..node(&harness)
    };
    harness
        .fake
        .fault_injector()
        .fail(Fault::status("GET /vnicAttachments", 500));
    assert!(state(&provider, &node).await.is_err());
    harness.fake.fault_injector().clear_faults();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(matches!(
        state(&provider, &node).await.unwrap(),
        InstanceState::Present { .. }
    ));
}

#[tokio::test(start_paused = true)]
async fn addresses_are_those_of_the_primary_vnic() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let set = |private: &'static str, public: Value| {
        change_vnic(&harness, move |vnic| {
            vnic["privateIp"] = private.into();
            vnic["publicIp"] = public.clone();
            vnic["ipv6Addresses"] = json!(["fd00::5", "2603:c020::5"]);
        });
    };
    set("10.0.0.5", "129.1.2.3".into());
    let labelled = Node {
        labels: [(
            "oci.oraclecloud.com/ip-family-ipv6".to_owned(),
            String::new(),
        )]
        .into_iter()
        .collect(),
        ..node(&harness)
    };
    assert_eq!(
        addresses(&provider, &node(&harness)).await,
        ["InternalIP 10.0.0.5", "ExternalIP 129.1.2.3"]
    );
    let with_ipv6 = [
        "InternalIP 10.0.0.5",
        "ExternalIP 129.1.2.3",
        "InternalIP fd00::5",
        "ExternalIP 2603:c020::5",
    ];
    assert_eq!(addresses(&provider, &labelled).await, with_ipv6);
    set("10.0.0.6", Value::Null);
    assert_eq!(
        addresses(&provider, &node(&harness)).await,
        ["InternalIP 10.0.0.6"]
    );
    set("odd", Value::Null);
    let error = state(&provider, &node(&harness))
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("has the address \"odd\""), "{error}");
}

#[tokio::test(start_paused = true)]
async fn instance_that_may_not_be_read_is_not_taken_for_deleted() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let node = node(&harness);
    let list = "GET /instances";
    harness.fake.fault_injector().fail(Fault::refused_as(
        "GET /instances/{id}",
        404,
        "NotAuthorizedOrNotFound",
        "x",
    ));
    let error = state(&provider, &node).await;
    assert!(
        error.is_err() || matches!(error, Ok(InstanceState::Present { .. })),
        "{error:?}"
    );
    harness.fake.fault_injector().clear_faults();
    harness.fake.lock().change_instance("worker-1", |instance| {
        instance["lifecycleState"] = "STOPPED".into();
    });
    let stopped = state(&provider, &node).await.unwrap();
    assert!(
        matches!(
            stopped,
            InstanceState::Present {
                shutdown: Some(true),
                ..
            }
        ),
        "{stopped:?}"
    );
    harness.fake.lock().change_instance("worker-1", |instance| {
        instance["lifecycleState"] = "TERMINATED".into();
    });
    assert!(!matches!(
        state(&provider, &node).await,
        Ok(InstanceState::Present { .. })
    ));
    harness.fake.lock().remove_instance("worker-1");
    harness.fake.fault_injector().fail(Fault::status(list, 500));
    assert!(
        state(&provider, &node).await.is_err(),
        "without a list, nothing proves that the instance is gone"
    );
    harness.fake.fault_injector().clear_faults();
}

#[tokio::test(start_paused = true)]
async fn nodes_get_the_labels_and_the_annotation_that_they_lack_with_one_patch() {
    let harness = Harness::new();
    let _provider = harness
        .started_as(&[("CLUSTER_IP_FAMILY", "IPv6")], "")
        .await;
    let labelled = [(
        "oci.oraclecloud.com/fault-domain".to_owned(),
        "FAULT-DOMAIN-2".to_owned(),
    )];
    harness.cluster.set_node(Node {
        labels: labelled.into_iter().collect(),
        ..node(&harness)
    });
    tokio::time::sleep(Duration::from_secs(65)).await;
    let patches = harness.patches();
    assert_eq!(patches.len(), 2, "{patches:?}");
    let of = |name: &str| {
        patches
            .iter()
            .find(|(path, _)| path.ends_with(name))
            .map(|(_, patch)| patch["metadata"].clone())
            .unwrap()
    };
    let annotation = json!({"oci.oraclecloud.com/compartment-id": oci_fake::COMPARTMENT});
    let domain = json!({"csi-ipv6-full-ad-name": "Uocm.PHX-AD-1"});
    assert_eq!(
        of("worker-1"),
        json!({"labels": domain, "annotations": annotation})
    );
    assert_eq!(
        of("worker-2")["labels"]["oci.oraclecloud.com/fault-domain"],
        "FAULT-DOMAIN-2"
    );
}

#[tokio::test(start_paused = true)]
async fn instances_of_openshift_get_the_tags_of_the_configuration() {
    let harness = Harness::new();
    let openshift = [("node.openshift.io/os_id".to_owned(), "rhel".to_owned())];
    harness.cluster.set_node(Node {
        labels: openshift.into_iter().collect(),
        ..node(&harness)
    });
    harness.fake.lock().change_instance("worker-1", |instance| {
        instance["definedTags"] = json!({"theirs": {"team": "web"}});
    });
    let tags = "tags:\n  common:\n    defined: {cost: {center: \"7\"}}\n";
    let _provider = harness.started_as(&[], tags).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let found: Vec<_> = harness
        .fake
        .lock()
        .all("instance")
        .map(|object| object["definedTags"].clone())
        .collect();
    let own = json!({"cost": {"center": "7"}, "openshift-tags": {"openshift-resource": "openshift-resource-infra"}});
    let mut first = own.clone();
    first["theirs"] = json!({"team": "web"});
    assert_eq!(found, [first, own]);
    harness.fake.fault_injector().forget_requests();
    tokio::time::sleep(Duration::from_secs(241 * 60)).await;
    assert_eq!(harness.changes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn node_of_openshift_has_the_address_of_its_boot_volumes_vnic() {
    let harness = Harness::new();
    let tags = json!({"openshift-abc": {"boot-volume-type": "ISCSI"}});
    harness.fake.lock().change_instance("worker-1", |instance| {
        instance["definedTags"] = json!({"openshift-abc": {}});
    });
    harness.fake.lock().add_vnic("worker-1", "10.0.9.9", &tags);
    harness
        .fake
        .lock()
        .add_vnic("worker-1", "10.0.9.10", &json!({}));
    let provider = harness.started().await;
    let found = addresses(&provider, &node(&harness)).await;
    assert_eq!(found[1..], ["InternalIP 10.0.9.9"], "{found:?}");
}

#[tokio::test(start_paused = true)]
async fn pod_ranges_are_address_blocks_of_the_primary_vnic() {
    let harness = Harness::new();
    let service = json!({"spec": {"ipFamilies": ["IPv4", "IPv6"]}});
    harness.cluster.set_document(
        "/api/v1/namespaces/default/services/kubernetes",
        service.to_string(),
    );
    let wanted =
        json!({"flexcidr-primary-vnic": "{\"ip-count\": 64, \"cidr-blocks\": [\"10.1.0.0/16\"]}"});
    harness
        .fake
        .lock()
        .change_instance("worker-1", |instance| instance["metadata"] = wanted.clone());
    harness.fake.lock().change_instance("worker-2", |instance| {
        instance["metadata"] = json!({"flexcidr-primary-vnic": "{\"ip-count\": 65}"});
    });
    let _provider = harness
        .started_as(&[("ENABLE_FLEX_CIDR_CONTROLLER", "true")], "")
        .await;
    tokio::time::sleep(Duration::from_secs(90)).await;
    let mut ranges: Vec<_> = harness
        .patches()
        .into_iter()
        .filter(|(_, patch)| patch["spec"].is_object())
        .collect();
    ranges.dedup();
    assert_eq!(ranges.len(), 1, "{ranges:?}");
    let cidrs = ranges[0].1["spec"]["podCIDRs"].as_array().unwrap();
    assert!(
        cidrs[0].as_str().unwrap().ends_with("/26") && cidrs[1].as_str().unwrap().ends_with("/120"),
        "{cidrs:?}"
    );
    let blocks: Vec<_> = harness
        .fake
        .lock()
        .all("privateip")
        .filter(|object| object["freeformTags"]["pod-cidr"].is_string())
        .cloned()
        .collect();
    assert_eq!(
        (blocks.len(), &blocks[0]["cidrPrefixLength"]),
        (1, &json!(26))
    );
    assert!(
        harness.events().contains("is not a power of two"),
        "the other Node says why it has none"
    );
    harness
        .fake
        .lock()
        .change_instance("worker-2", |instance| instance["metadata"] = json!({}));
    tokio::time::sleep(Duration::from_secs(90)).await;
    harness.events();
    harness.fake.fault_injector().forget_requests();
    tokio::time::sleep(Duration::from_secs(90)).await;
    let id = harness.cluster.nodes()[1]
        .provider_id
        .trim_start_matches("oci://")
        .to_owned();
    let reads = harness
        .fake
        .fault_injector()
        .requests()
        .iter()
        .filter(|request| request.path.ends_with(&id))
        .count();
    assert_eq!(
        (&*harness.events(), reads),
        ("", 0),
        "an instance that asks for no range is not read all the time"
    );
}
