//! Load balancers of both kinds: scenarios of the Go program, and its names.

use std::time::Duration;

use alibaba_fake::Fault;
use cloud_provider::{Caches, CloudProvider};
use serde_json::{Value, json};

use crate::harness::{Harness, annotate, network, service, service_of};
use provider_alibaba::annotations::PREFIX;

fn texts<'a>(list: &'a Value, key: &str) -> Vec<&'a str> {
    list.as_array()
        .unwrap()
        .iter()
        .map(|object| object[key].as_str().unwrap())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn plain_service_gets_a_protected_public_clb_with_the_tags_of_the_go_program() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut service = service(&[]);
    let status = harness.ensure(&provider, &mut service).await.unwrap();
    let created = [
        "CreateLoadBalancer",
        "CreateVServerGroup",
        "CreateLoadBalancerTCPListener",
        "StartLoadBalancerListener",
    ];
    assert_eq!(harness.changes(), created);
    let balancer = harness.only("classic");
    assert_eq!(
        balancer["LoadBalancerName"],
        "a0b0a1c0f3f3e4c57a1b59f5f2a7d8c1"
    );
    assert_eq!(
        (&balancer["AddressType"], &balancer["DeleteProtection"]),
        (&json!("internet"), &json!("on"))
    );
    let keys = texts(&balancer["Tags"]["Tag"], "TagKey");
    assert_eq!(
        keys,
        [
            "ack.aliyun.com",
            "ccm-rs/cluster",
            "ccm-rs/service",
            "kubernetes.do.not.delete"
        ]
    );
    let group = harness.only("vgroup");
    assert_eq!(group["VServerGroupName"], "k8s/30080/web/default/testbed");
    assert_eq!(group["BackendServers"]["BackendServer"][0]["Weight"], 100);
    let listener = harness.only("classic listener");
    assert_eq!(
        (&listener["Description"], &listener["Status"]),
        (&json!("k8s/80/web/default/testbed"), &json!("running"))
    );
    assert_eq!(
        status.ingress.unwrap()[0].ip.as_deref(),
        balancer["Address"].as_str()
    );
    harness.ensure(&provider, &mut service).await.unwrap();
    assert!(
        harness.changes().is_empty(),
        "a second sync changes nothing"
    );
    harness.delete(&provider, &service).await.unwrap();
    assert_eq!(
        harness.changes(),
        ["SetLoadBalancerDeleteProtection", "DeleteLoadBalancer"]
    );
}

#[tokio::test(start_paused = true)]
async fn annotations_of_a_clb_are_changed_by_the_smallest_request() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut service = service(&[("address-type", "internet")]);
    harness.ensure(&provider, &mut service).await.unwrap();
    harness.changes();
    for (key, value, expected) in [
        (
            "spec",
            "slb.s2.small",
            &["ModifyLoadBalancerInstanceSpec"][..],
        ),
        ("bandwidth", "5", &[]),
        (
            "charge-type",
            "paybybandwidth",
            &["ModifyLoadBalancerInternetSpec"],
        ),
        ("name", "shop", &["SetLoadBalancerName"]),
        ("additional-resource-tags", "k1=v1", &["TagResources"]),
        ("additional-resource-tags", "k1=v2", &["TagResources"]),
        (
            "health-check-interval",
            "7",
            &["SetLoadBalancerTCPListenerAttribute"],
        ),
        (
            "persistence-timeout",
            "60",
            &["SetLoadBalancerTCPListenerAttribute"],
        ),
        (
            "acl-id",
            "acl-b,acl-a",
            &["SetLoadBalancerTCPListenerAttribute"],
        ),
        ("acl-id", "acl-a,acl-b", &[]),
        (
            "delete-protection",
            "off",
            &["SetLoadBalancerDeleteProtection"],
        ),
        ("default-weight", "50", &["SetVServerGroupAttribute"]),
        (
            "protocol-port",
            "http:80",
            &[
                "DeleteLoadBalancerListener",
                "CreateLoadBalancerHTTPListener",
                "StartLoadBalancerListener",
            ],
        ),
    ] {
        annotate(&mut service, key, value);
        harness.ensure(&provider, &mut service).await.unwrap();
        assert_eq!(harness.changes(), expected, "{key}: {value}");
    }
    annotate(&mut service, "address-type", "intranet");
    let error = harness
        .ensure(&provider, &mut service)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("AddressType") && error.contains("cannot be changed"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn mistakes_in_annotations_are_reported_before_any_request() {
    let harness = Harness::new().with("disablePublicSLB", true);
    let provider = harness.started().await;
    let table: &[(&[(&str, &str)], &str)] = &[
        (&[], "disablePublicSLB"),
        (
            &[("address-type", "intranet"), ("protocol-port", "https:80")],
            "cert-id",
        ),
        (
            &[("address-type", "intranet"), ("protocol-port", "tcpssl:80")],
            "tcp, udp, http, https",
        ),
        (
            &[("address-type", "intranet"), ("backend-label", "a=b,c")],
            "backend-label",
        ),
        (
            &[("address-type", "intranet"), ("default-weight", "101")],
            "default-weight",
        ),
        (
            &[("address-type", "intranet"), ("established-timeout", "5")],
            "established-timeout",
        ),
    ];
    for (annotations, expected) in table {
        let error = harness
            .ensure(&provider, &mut service(annotations))
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected), "{annotations:?}: {error}");
    }
    let class = json!({"loadBalancerClass": "alibabacloud.com/nlb"});
    let error = harness
        .ensure(&provider, &mut service_of(&[], class))
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("zone-maps is required"), "{error}");
    assert!(harness.changes().is_empty());
}

#[tokio::test(start_paused = true)]
async fn full_vswitch_leads_to_another_one_and_a_stated_one_to_an_error() {
    let harness = Harness::new();
    let provider = harness.started().await;
    harness.fake.lock().each("vswitch")[0]["AvailableIpAddressCount"] = json!(0);
    let mut service = service(&[("address-type", "intranet")]);
    harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!(harness.only("classic")["VSwitchId"], "vsw-b");
}

#[tokio::test(start_paused = true)]
async fn redirect_and_https_listeners_have_their_settings() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let ports = json!({"ports": [{"name": "a", "port": 80, "nodePort": 30080}, {"name": "b", "port": 443, "nodePort": 30443}]});
    let annotations = [
        ("protocol-port", "http:80,https:443"),
        ("cert-id", "cert-1"),
        ("forward-port", "80:443"),
        ("idle-timeout", "30"),
    ];
    let mut service = service_of(&annotations, ports);
    harness.ensure(&provider, &mut service).await.unwrap();
    harness.changes();
    harness
        .ensure(&harness.started().await, &mut service)
        .await
        .unwrap();
    assert_eq!(harness.changes(), [""; 0]);
    let all = harness.fake.lock().all("classic listener").to_vec();
    let of = |protocol: &str| {
        all.iter()
            .find(|object| object["ListenerProtocol"] == protocol)
            .unwrap()
    };
    assert_eq!(of("http")["HTTPListenerConfig"]["ForwardPort"], 443);
    assert_eq!(
        of("https")["HTTPSListenerConfig"]["ServerCertificateId"],
        "cert-1"
    );
    assert_eq!(of("https")["HTTPSListenerConfig"]["IdleTimeout"], 30);
    let ports = json!([{"name": "c", "port": 8080, "nodePort": 30880}]);
    service.spec.as_mut().unwrap().ports = serde_json::from_value(ports).unwrap();
    annotate(&mut service, "forward-port", "");
    annotate(&mut service, "protocol-port", "");
    harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!(
        harness.only("classic listener")["ListenerPort"],
        8080,
        "the redirect is deleted before its target"
    );
}

#[tokio::test(start_paused = true)]
async fn defaults_count_at_the_creation_only() {
    let harness = Harness::new();
    let mut service = service(&[("address-type", "intranet")]);
    harness
        .ensure(&harness.started().await, &mut service)
        .await
        .unwrap();
    let harness = harness.with("resourceGroupID", "rg-1");
    let provider = harness.started().await;
    service.metadata.annotations = None;
    harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!(harness.changes(), [""; 0]);
    harness.delete(&provider, &service).await.unwrap();
    harness.ensure(&provider, &mut service).await.unwrap();
    let only = harness.only("classic");
    assert_eq!(
        (&only["ResourceGroupId"], &only["AddressType"]),
        (&json!("rg-1"), &json!("internet"))
    );
}

#[tokio::test(start_paused = true)]
async fn stopped_listeners_are_started_and_those_of_others_stay() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut service = service(&[]);
    harness.ensure(&provider, &mut service).await.unwrap();
    harness.changes();
    {
        let mut cloud = harness.fake.lock();
        cloud.each("classic listener")[0]["Status"] = "stopped".into();
        let id = cloud.all("classic")[0]["LoadBalancerId"].clone();
        cloud.add(
            "classic listener",
            json!({"LoadBalancerId": id, "ListenerPort": 8080, "ListenerProtocol": "tcp",
            "Status": "running", "Description": "mine", "TCPListenerConfig": {}}),
        );
    }
    let provider = harness.started().await;
    harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!(harness.changes(), ["StartLoadBalancerListener"]);
    assert_eq!(harness.fake.lock().all("classic listener").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn preserved_load_balancer_stays_without_protection_and_tags() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut service = service(&[("preserve-lb-on-delete", "yes")]);
    harness.ensure(&provider, &mut service).await.unwrap();
    let _ = harness.delete(&provider, &service).await;
    let balancer = harness.only("classic");
    assert_eq!(
        (&balancer["DeleteProtection"], &balancer["Tags"]["Tag"]),
        (&json!("off"), &json!([]))
    );
    assert_eq!(balancer["ModificationProtectionStatus"], "NonProtection");
}

#[tokio::test(start_paused = true)]
async fn cordoned_master_and_leaving_nodes_are_no_backends() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let nodes = harness.cluster.nodes();
    let changed = |node: cloud_provider::Node| harness.cluster.set_node(node);
    changed(cloud_provider::Node {
        unschedulable: true,
        ..(*nodes[0]).clone()
    });
    let labels = [("node-role.kubernetes.io/master", "")]
        .into_iter()
        .collect();
    changed(cloud_provider::Node {
        labels,
        ..(*nodes[1]).clone()
    });
    let mut service = service(&[]);
    harness.ensure(&provider, &mut service).await.unwrap();
    let count = || {
        harness.only("vgroup")["BackendServers"]["BackendServer"]
            .as_array()
            .unwrap()
            .len()
    };
    assert_eq!(count(), 1, "a cordoned Node stays");
    annotate(&mut service, "remove-unscheduled-backend", "on");
    harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!(count(), 0);
}

#[tokio::test(start_paused = true)]
async fn server_group_is_created_with_its_first_backends_and_gets_others_in_batches() {
    let harness = Harness::new();
    (3..=45).for_each(|number| harness.add_node(&format!("worker-{number}")));
    let provider = harness.started().await;
    harness.ensure(&provider, &mut service(&[])).await.unwrap();
    assert_eq!(
        harness
            .changes()
            .iter()
            .filter(|change| *change == "AddVServerGroupBackendServers")
            .count(),
        2
    );
    assert_eq!(
        harness.only("vgroup")["BackendServers"]["BackendServer"]
            .as_array()
            .unwrap()
            .len(),
        45
    );
}

#[tokio::test(start_paused = true)]
async fn old_prefix_counts_where_the_new_one_is_absent() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut service = service(&[]);
    let all = service.metadata.annotations.get_or_insert_default();
    all.insert(
        "service.beta.kubernetes.io/alicloud-loadbalancer-name".into(),
        "old".into(),
    );
    harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!(harness.only("classic")["LoadBalancerName"], "old");
}

#[tokio::test(start_paused = true)]
async fn class_gets_an_nlb_with_the_names_of_the_go_program() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut service = network(&[]);
    let status = harness.ensure(&provider, &mut service).await.unwrap();
    let created = [
        "CreateLoadBalancer",
        "CreateServerGroup",
        "AddServersToServerGroup",
        "CreateListener",
    ];
    assert_eq!(harness.changes(), created);
    let balancer = harness.only("network");
    let group = harness.only("group");
    assert_eq!(
        (
            &balancer["AddressType"],
            &balancer["ZoneMappings"][1]["VSwitchId"]
        ),
        (&json!("Internet"), &json!("vsw-b"))
    );
    assert_eq!(
        group["ServerGroupName"],
        "k8s.30080.TCP.web.default.testbed"
    );
    assert_eq!(
        (
            &group["_servers"][0]["Port"],
            &group["_servers"][0]["ServerType"]
        ),
        (&json!(30080), &json!("Ecs"))
    );
    assert_eq!(
        harness.only("listener")["ListenerDescription"],
        "k8s.80.TCP.web.default.testbed"
    );
    assert_eq!(
        status.ingress.unwrap()[0].hostname.as_deref(),
        balancer["DNSName"].as_str()
    );
    harness.ensure(&provider, &mut service).await.unwrap();
    assert!(
        harness.changes().is_empty(),
        "a second sync changes nothing"
    );
    harness.delete(&provider, &service).await.unwrap();
    assert_eq!(
        harness.changes(),
        [
            "UpdateLoadBalancerProtection",
            "DeleteLoadBalancer",
            "DeleteServerGroup"
        ]
    );
    assert!(harness.fake.lock().all("group").is_empty());
}

#[tokio::test(start_paused = true)]
async fn annotations_of_an_nlb_are_changed_by_the_smallest_request() {
    let harness = Harness::new().at_once();
    let provider = harness.started().await;
    let mut service = network(&[]);
    harness.ensure(&provider, &mut service).await.unwrap();
    harness.changes();
    for (key, value, expected) in [
        (
            "address-type",
            "intranet",
            &["UpdateLoadBalancerAddressTypeConfig"][..],
        ),
        (
            "security-group-ids",
            "sg-1,sg-2",
            &["LoadBalancerJoinSecurityGroup"],
        ),
        (
            "security-group-ids",
            "sg-2",
            &["LoadBalancerLeaveSecurityGroup"],
        ),
        (
            "security-group-ids",
            "",
            &["LoadBalancerLeaveSecurityGroup"],
        ),
        (
            "cross-zone-enabled",
            "off",
            &["UpdateLoadBalancerAttribute"],
        ),
        (
            "bandwidth-package-id",
            "cbwp-1",
            &["AttachCommonBandwidthPackageToLoadBalancer"],
        ),
        (
            "zone-maps",
            "cn-hangzhou-b:vsw-b",
            &["UpdateLoadBalancerZones"],
        ),
        ("idle-timeout", "60", &["UpdateListenerAttribute"]),
        ("scheduler", "tch", &["UpdateServerGroupAttribute"]),
        ("health-check-flag", "off", &["UpdateServerGroupAttribute"]),
        (
            "default-weight",
            "10",
            &["UpdateServerGroupServersAttribute"],
        ),
    ] {
        annotate(&mut service, key, value);
        harness.ensure(&provider, &mut service).await.unwrap();
        assert_eq!(harness.changes(), expected, "{key}: {value}");
    }
}

#[tokio::test(start_paused = true)]
async fn service_that_changes_its_kind_gets_a_new_load_balancer_first() {
    let harness = Harness::new().with("featureGates", "LoadBalancerTypeAnnotation=true");
    let provider = harness.started().await;
    let mut service = service(&[("zone-maps", "cn-hangzhou-a:vsw-a")]);
    harness.ensure(&provider, &mut service).await.unwrap();
    annotate(&mut service, "type", "nlb");
    harness.changes();
    for _ in 0..3 {
        harness.ensure(&provider, &mut service).await.unwrap();
    }
    assert!(
        harness.fake.lock().all("classic").is_empty()
            && harness.fake.lock().all("network").len() == 1
    );
    assert!(provider.load_balancers().is_some());
}

#[tokio::test(start_paused = true)]
async fn service_shows_the_only_eip_of_its_clb() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut service = service(&[("external-ip-type", "eip")]);
    let status = harness.ensure(&provider, &mut service).await.unwrap();
    let balancer = harness.only("classic");
    assert_eq!(
        status.ingress.unwrap()[0].ip.as_deref(),
        balancer["Address"].as_str(),
        "there is no EIP"
    );
    assert!(
        harness
            .cluster
            .take_events()
            .iter()
            .any(|event| event.to_string().contains("has 0 EIPs"))
    );
    let eip = json!({"AllocationId": "eip-1", "InstanceId": balancer["LoadBalancerId"], "IpAddress": "203.0.113.9"});
    harness.fake.lock().add("eip", eip);
    let status = harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!(
        status.ingress.unwrap()[0].ip.as_deref(),
        Some("203.0.113.9")
    );
}

#[tokio::test(start_paused = true)]
async fn finalizer_of_the_go_program_stays_until_the_load_balancer_is_deleted() {
    const GO: &str = "service.k8s.alibaba/resources";
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut service = service(&[]);
    harness.ensure(&provider, &mut service).await.unwrap();
    for object in harness.fake.lock().each("classic") {
        object["Tags"]["Tag"]
            .as_array_mut()
            .unwrap()
            .retain(|tag| !tag["TagKey"].as_str().unwrap().starts_with("ccm-rs"));
    }
    service.metadata.finalizers = Some(vec![GO.into()]);
    service.metadata.deletion_timestamp =
        serde_json::from_value(json!("2026-11-26T00:00:00Z")).unwrap();
    drop(provider);
    harness.cluster.set_services([service]);
    harness
        .fake
        .fault_injector()
        .fail(Fault::code("DELETE /slb/DeleteLoadBalancer", "InternalError").times(1000));
    let _provider = harness.started().await;
    harness.cluster.take_patches();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(harness.fake.lock().all("classic").len(), 1);
    assert!(
        harness.cluster.take_patches().is_empty(),
        "the deletion has failed"
    );
    harness.fake.fault_injector().clear_faults();
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert!(harness.fake.lock().all("classic").is_empty());
    let patches = harness.cluster.take_patches();
    assert!(
        patches
            .iter()
            .any(|(path, patch)| path.ends_with("/services/web/status")
                && String::from_utf8_lossy(patch).contains(GO)),
        "{patches:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn service_of_another_controller_is_left_alone() {
    let harness = Harness::new();
    let provider = harness.started().await;
    for key in [
        format!("{PREFIX}tunnel-type"),
        "service.beta.kubernetes.io/class".to_owned(),
    ] {
        let mut service = service(&[]);
        service
            .metadata
            .annotations
            .get_or_insert_default()
            .insert(key, "other".into());
        let error = harness.ensure(&provider, &mut service).await.unwrap_err();
        assert!(error.is_implemented_elsewhere(), "{error}");
    }
    assert!(harness.changes().is_empty());
}

#[tokio::test(start_paused = true)]
async fn paid_specification_has_a_default_and_the_network_type_cannot_change() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut service = service(&[
        ("instance-charge-type", "PayBySpec"),
        ("address-type", "intranet"),
    ]);
    harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!(harness.only("classic")["LoadBalancerSpec"], "slb.s1.small");
    annotate(&mut service, "network-type", "vpc");
    harness.ensure(&provider, &mut service).await.unwrap();
    annotate(&mut service, "network-type", "classic");
    let error = harness
        .ensure(&provider, &mut service)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("NetworkType") && error.contains("cannot be changed"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn nlb_leaves_security_groups_first_where_the_quota_has_no_room_for_more() {
    let harness = Harness::new().at_once();
    let provider = harness.started().await;
    let mut service = network(&[
        ("security-group-ids", "sg-1"),
        ("cross-zone-enabled", "off"),
    ]);
    harness.ensure(&provider, &mut service).await.unwrap();
    let balancer = harness.only("network");
    assert_eq!(
        (&balancer["SecurityGroupIds"], &balancer["CrossZoneEnabled"]),
        (&json!(["sg-1"]), &json!(false))
    );
    annotate(&mut service, "security-group-ids", "sg-2");
    let full = Fault::code(
        "POST /nlb/LoadBalancerJoinSecurityGroup",
        "QuotaInsufficient.SecurityGroup",
    );
    harness.fake.fault_injector().fail(full.times(1));
    harness.changes();
    harness.ensure(&provider, &mut service).await.unwrap();
    let join = "LoadBalancerJoinSecurityGroup";
    let leave = "LoadBalancerLeaveSecurityGroup";
    assert_eq!(harness.changes(), [join, leave, join]);
    assert_eq!(harness.only("network")["SecurityGroupIds"], json!(["sg-2"]));
}
