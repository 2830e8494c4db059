//! Load balancers of the user, which Services use without owning them.

use cloud_provider::Service;
use serde_json::{Value, json};

use crate::harness::{Harness, annotate, service_of};

const UID: &str = "0b0a1c0f-3f3e-4c57-a1b5-9f5f2a7d8c11";

fn kinds(is_network: bool) -> [&'static str; 3] {
    if is_network {
        ["network", "group", "listener"]
    } else {
        ["classic", "vgroup", "classic listener"]
    }
}

/// Adds a load balancer of the user, with a listener on port 8080 and a server group with one backend.
pub(crate) fn add_balancer(harness: &Harness, is_network: bool) -> String {
    let mut cloud = harness.fake.lock();
    let backend = |kind: &str| json!({"ServerId": "i-users", "Port": 80, "Weight": 10, kind: "Ecs", "Description": "mine", "Status": "Available"});
    let [balancer, group, listener] = kinds(is_network);
    match is_network {
        false => {
            cloud.add(
                balancer,
                json!({"LoadBalancerId": "lb-users", "LoadBalancerName": "users", "LoadBalancerStatus": "active",
                "Address": "198.19.0.1", "AddressType": "intranet", "DeleteProtection": "off",
                "Tags": {"Tag": [{"TagKey": "team", "TagValue": "x"}]}}),
            );
            cloud.add(
                group,
                json!({"VServerGroupId": "rsp-users", "LoadBalancerId": "lb-users", "VServerGroupName": "mine",
                "BackendServers": {"BackendServer": [backend("Type")]}}),
            );
            cloud.add(
                listener,
                json!({"LoadBalancerId": "lb-users", "ListenerPort": 8080, "ListenerProtocol": "tcp",
                "Status": "running", "Description": "mine", "VServerGroupId": "rsp-users", "TCPListenerConfig": {}}),
            );
            "lb-users".to_owned()
        }
        true => {
            cloud.add(
                balancer,
                json!({"LoadBalancerId": "nlb-users", "LoadBalancerName": "users", "LoadBalancerStatus": "Active",
                "DNSName": "users.example.com", "AddressType": "Intranet", "Tags": [], "ZoneMappings": []}),
            );
            cloud.add(
                group,
                json!({"ServerGroupId": "sgp-users", "ServerGroupName": "mine", "Protocol": "TCP",
                "Tags": [], "HealthCheck": {}, "_servers": [backend("ServerType")]}),
            );
            cloud.add(listener, json!({"LoadBalancerId": "nlb-users", "ListenerId": "lsn-users", "ListenerPort": 8080,
                "ListenerProtocol": "TCP", "ListenerStatus": "Running", "ListenerDescription": "mine", "ServerGroupId": "sgp-users"}));
            "nlb-users".to_owned()
        }
    }
}

fn class(is_network: bool) -> Value {
    if is_network {
        json!({"loadBalancerClass": "alibabacloud.com/nlb"})
    } else {
        json!({})
    }
}

pub(crate) fn service(is_network: bool, annotations: &[(&str, &str)]) -> Service {
    service_of(annotations, class(is_network))
}

/// Returns what the user has created.
pub(crate) fn of_user(harness: &Harness, is_network: bool) -> Vec<Value> {
    let cloud = harness.fake.lock();
    let ids = [
        "lb-users",
        "nlb-users",
        "rsp-users",
        "sgp-users",
        "lsn-users",
    ];
    let all = kinds(is_network)
        .into_iter()
        .flat_map(|kind| cloud.all(kind))
        .cloned();
    let is_this_object = |object: &Value| {
        ["VServerGroupId", "ServerGroupId", "ListenerId"]
            .iter()
            .any(|key| ids.iter().any(|id| object[*key] == **id))
            || ids.iter().any(|id| object["LoadBalancerId"] == **id)
                && object["VServerGroupId"].is_null()
                && object["ListenerPort"].is_null()
    };
    all.filter(is_this_object).collect()
}

fn untagged(mut object: Value) -> Value {
    object["Tags"] = Value::Null;
    object
}

fn count(harness: &Harness, kind: &str) -> usize {
    harness.fake.lock().all(kind).len()
}

#[tokio::test(start_paused = true)]
async fn load_balancer_of_the_user_stays_as_it_is_after_the_service() {
    for is_network in [false, true] {
        for overrides in ["false", "true"] {
            let harness = Harness::new().at_once();
            let id = add_balancer(&harness, is_network);
            let before: Vec<_> = of_user(&harness, is_network)
                .into_iter()
                .map(untagged)
                .collect();
            let provider = harness.started().await;
            let annotations = [
                ("id", &*id),
                ("force-override-listeners", overrides),
                ("preserve-lb-on-delete", ""),
            ];
            let mut service = service(is_network, &annotations);
            let status = harness.ensure(&provider, &mut service).await.unwrap();
            let ingress = &status.ingress.unwrap()[0];
            assert_eq!(
                ingress
                    .ip
                    .clone()
                    .or(ingress.hostname.clone())
                    .unwrap()
                    .contains("198.19.0.1"),
                !is_network
            );
            let [balancer, group, listener] = kinds(is_network);
            assert_eq!(count(&harness, balancer), 1, "nothing is created");
            assert_eq!(count(&harness, group), 2, "a server group of the Service");
            assert_eq!(
                count(&harness, listener),
                if overrides == "true" { 2 } else { 1 }
            );
            harness.changes();
            harness.ensure(&provider, &mut service).await.unwrap();
            assert_eq!(harness.changes(), [""; 0], "a second sync changes nothing");
            let fresh = harness.started().await;
            harness.ensure(&fresh, &mut service).await.unwrap();
            assert_eq!(harness.changes(), [""; 0], "a restart changes nothing");
            harness.delete(&fresh, &service).await.unwrap();
            assert!(
                harness
                    .changes()
                    .iter()
                    .all(|change| !change.starts_with("DeleteLoadBalancer")
                        || change.ends_with("Listener"))
            );
            let after: Vec<_> = of_user(&harness, is_network)
                .into_iter()
                .map(untagged)
                .collect();
            assert_eq!(after, before, "all of the user stays");
            assert_eq!(
                (count(&harness, group), count(&harness, listener)),
                (1, 1),
                "all of the Service is gone"
            );
            let tags = of_user(&harness, is_network)[0]["Tags"].to_string();
            assert!(!tags.contains(UID), "{tags}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn deletion_after_the_annotation_was_removed_finds_the_share_by_its_tag() {
    for is_network in [false, true] {
        let harness = Harness::new().at_once();
        let id = add_balancer(&harness, is_network);
        let provider = harness.started().await;
        let mut service = service(
            is_network,
            &[("id", &*id), ("force-override-listeners", "true")],
        );
        harness.ensure(&provider, &mut service).await.unwrap();
        service.metadata.annotations.as_mut().unwrap().clear();
        service.metadata.deletion_timestamp =
            serde_json::from_value(json!("2026-11-26T00:00:00Z")).unwrap();
        let fresh = harness.started().await;
        harness.delete(&fresh, &service).await.unwrap();
        let [balancer, group, listener] = kinds(is_network);
        assert_eq!(
            [balancer, group, listener].map(|kind| count(&harness, kind)),
            [1, 1, 1]
        );
    }
}

#[tokio::test(start_paused = true)]
async fn server_group_of_the_user_gets_the_backends_and_keeps_those_of_others() {
    for (is_network, group) in [(false, "rsp-users"), (true, "sgp-users")] {
        let harness = Harness::new().at_once();
        let id = add_balancer(&harness, is_network);
        let provider = harness.started().await;
        let groups = format!("{group}:80");
        let mut service = service(
            is_network,
            &[("id", &*id), ("vgroup-port", &groups), ("weight", "60")],
        );
        harness.ensure(&provider, &mut service).await.unwrap();
        let servers = || {
            let entry = of_user(&harness, is_network)
                .into_iter()
                .find(|object| object.to_string().contains("i-users"))
                .unwrap();
            let all = if is_network {
                entry["_servers"].clone()
            } else {
                entry["BackendServers"]["BackendServer"].clone()
            };
            all.as_array().unwrap().clone()
        };
        let weights: Vec<_> = servers()
            .iter()
            .map(|server| server["Weight"].as_i64().unwrap())
            .collect();
        assert_eq!(
            weights,
            [10, 30, 30],
            "the weight is shared by the backends of the Service"
        );
        let mine = if is_network {
            "k8s.30080.TCP.web.default.testbed"
        } else {
            "k8s/30080/web/default/testbed"
        };
        assert_eq!(
            servers()
                .iter()
                .filter(|server| server["Description"] == mine)
                .count(),
            2
        );
        harness.changes();
        harness.ensure(&provider, &mut service).await.unwrap();
        assert_eq!(harness.changes(), [""; 0]);
        harness
            .delete(&harness.started().await, &service)
            .await
            .unwrap();
        assert_eq!(servers().len(), 1, "the backend of the user stays");
        assert_eq!(count(&harness, kinds(is_network)[1]), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn listener_of_the_user_on_a_port_of_the_service_is_changed_only_with_the_annotation() {
    for is_network in [false, true] {
        let harness = Harness::new().at_once();
        let id = add_balancer(&harness, is_network);
        let provider = harness.started().await;
        let ports = json!({"ports": [{"port": 8080, "nodePort": 30080}]});
        let mut spec = class(is_network);
        spec["ports"] = ports["ports"].clone();
        let mut service = service_of(&[("id", &*id)], spec);
        harness.ensure(&provider, &mut service).await.unwrap();
        let listener = || harness.only(kinds(is_network)[2]);
        let description = if is_network {
            "ListenerDescription"
        } else {
            "Description"
        };
        assert_eq!(listener()[description], "mine");
        annotate(&mut service, "force-override-listeners", "true");
        harness.ensure(&provider, &mut service).await.unwrap();
        let name = if is_network {
            "k8s.8080.TCP.web.default.testbed"
        } else {
            "k8s/8080/web/default/testbed"
        };
        assert_eq!(listener()[description], name);
    }
}

#[tokio::test(start_paused = true)]
async fn services_share_a_load_balancer_of_the_user_but_no_port() {
    for is_network in [false, true] {
        let harness = Harness::new().at_once();
        let id = add_balancer(&harness, is_network);
        let provider = harness.started().await;
        let annotations = [("id", &*id), ("force-override-listeners", "true")];
        let mut first = service(is_network, &annotations);
        let mut second = first.clone();
        second.metadata.name = Some("other".into());
        second.metadata.uid = Some("1b0a1c0f-3f3e-4c57-a1b5-9f5f2a7d8c11".into());
        harness.ensure(&provider, &mut first).await.unwrap();
        let error = harness
            .ensure(&provider, &mut second)
            .await
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("listener 80/TCP") && error.contains("choose another port"),
            "{error}"
        );
        second.spec.as_mut().unwrap().ports.as_mut().unwrap()[0].port = 81;
        second.spec.as_mut().unwrap().ports.as_mut().unwrap()[0].node_port = Some(30081);
        harness.ensure(&provider, &mut second).await.unwrap();
        let [balancer, group, listener] = kinds(is_network);
        assert_eq!(
            [balancer, group, listener].map(|kind| count(&harness, kind)),
            [1, 3, 3]
        );
        harness.delete(&provider, &first).await.unwrap();
        assert_eq!(
            [balancer, group, listener].map(|kind| count(&harness, kind)),
            [1, 2, 2]
        );
    }
}

#[tokio::test(start_paused = true)]
async fn zones_of_an_nlb_of_the_user_stay() {
    let harness = Harness::new().at_once();
    let id = add_balancer(&harness, true);
    let zone = json!({"ZoneId": "cn-hangzhou-a", "VSwitchId": "vsw-a",
        "LoadBalancerAddresses": [{"PrivateIPv4Address": "10.0.0.9"}]});
    harness.fake.lock().each("network")[0]["ZoneMappings"] = json!([zone]);
    let provider = harness.started().await;
    let zones = ("zone-maps", "cn-hangzhou-a:vsw-a,cn-hangzhou-b:vsw-b");
    harness
        .ensure(&provider, &mut service(true, &[("id", &*id), zones]))
        .await
        .unwrap();
    let changes = harness.changes();
    assert!(
        !changes.is_empty() && !changes.contains(&"UpdateLoadBalancerZones".to_owned()),
        "{changes:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn unusable_ids_and_groups_are_refused_before_anything_is_changed() {
    let harness = Harness::new().at_once();
    add_balancer(&harness, false);
    harness.fake.lock().add(
        "classic",
        json!({"LoadBalancerId": "lb-api", "LoadBalancerName": "api", "LoadBalancerStatus": "active",
        "Address": "198.19.0.2", "Tags": {"Tag": [{"TagKey": "ack.aliyun.com", "TagValue": "testbed"}]}}),
    );
    let provider = harness.started().await;
    for (annotations, expected) in [
        (&[("id", "lb-none")][..], "does not exist in the region"),
        (&[("id", "nlb-users")], "is no ID of a CLB"),
        (&[("id", "lb-api")], "was created by Kubernetes"),
    ] {
        let error = harness
            .ensure(&provider, &mut service(false, annotations))
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected), "{annotations:?}: {error}");
        assert_eq!(harness.changes(), [""; 0], "{annotations:?}");
    }
    let mut wrong = service(false, &[("id", "lb-users"), ("vgroup-port", "rsp-none:80")]);
    let error = harness
        .ensure(&provider, &mut wrong)
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("rsp-none does not exist"), "{error}");
    assert_eq!(harness.only("vgroup")["VServerGroupId"], "rsp-users");
}

#[tokio::test(start_paused = true)]
async fn service_moves_between_a_load_balancer_of_its_own_and_that_of_the_user() {
    for is_network in [false, true] {
        let harness = Harness::new().at_once();
        let id = add_balancer(&harness, is_network);
        let provider = harness.started().await;
        let zones = ("zone-maps", "cn-hangzhou-a:vsw-a");
        let mut service = service(is_network, &[zones]);
        let own = harness.ensure(&provider, &mut service).await.unwrap();
        annotate(&mut service, "id", &id);
        annotate(&mut service, "force-override-listeners", "true");
        let moved = harness.ensure(&provider, &mut service).await.unwrap();
        assert_ne!(own, moved);
        let [balancer, group, listener] = kinds(is_network);
        assert_eq!(
            [balancer, group, listener].map(|kind| count(&harness, kind)),
            [1, 2, 2],
            "the own one is deleted"
        );
        service
            .metadata
            .annotations
            .as_mut()
            .unwrap()
            .retain(|key, _| key.ends_with("zone-maps"));
        harness.ensure(&provider, &mut service).await.unwrap();
        let listeners: Vec<_> = harness.fake.lock().all(listener).to_vec();
        assert_eq!(
            [balancer, group, listener].map(|kind| count(&harness, kind)),
            [2, 2, 2],
            "{listeners:#?}"
        );
    }
}
