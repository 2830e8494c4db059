//! Backends: Nodes with Pods, and Pods by their network interfaces.

use alibaba_fake::Fault;
use cloud_provider::{Node, Service};
use serde_json::{Value, json};

use crate::harness::{Harness, annotate, network, service};

const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";

/// Sets the Pods of the Service: addresses with their Nodes.
pub(crate) fn set_pods(harness: &Harness, pods: &[(&str, &str)]) {
    let endpoint = |(ip, node): &(&str, &str)| json!({"addresses": [ip], "nodeName": node, "conditions": {"ready": true}});
    let slice = json!({"addressType": "IPv4", "ports": [{"name": "", "port": 8080}],
        "endpoints": pods.iter().map(endpoint).collect::<Vec<_>>()});
    harness
        .cluster
        .set_document(SLICES, json!({"items": [slice]}).to_string());
}

/// Adds a network interface with the address of a Pod.
pub(crate) fn add_interface(harness: &Harness, ip: &str) {
    let id = format!("eni-{ip}");
    harness.fake.lock().add(
        "interface",
        json!({"NetworkInterfaceId": id, "Status": "InUse", "VpcId": alibaba_fake::VPC, "PrivateIpAddress": "10.0.9.9",
            "PrivateIpSets": {"PrivateIpSet": [{"PrivateIpAddress": "10.0.9.9"}, {"PrivateIpAddress": ip}]}}),
    );
}

fn servers(harness: &Harness, is_network: bool) -> Vec<String> {
    let group = harness.only(if is_network { "group" } else { "vgroup" });
    let all = if is_network {
        &group["_servers"]
    } else {
        &group["BackendServers"]["BackendServer"]
    };
    let text = |object: &Value, key: &str| object[key].as_str().unwrap_or_default().to_owned();
    let shown = |object: &Value| {
        let kind = text(object, "Type") + &text(object, "ServerType");
        format!(
            "{kind} {} {} {} {}",
            text(object, "ServerId"),
            text(object, "ServerIp"),
            object["Port"],
            object["Weight"]
        )
    };
    let mut shown: Vec<_> = all.as_array().unwrap().iter().map(shown).collect();
    shown.sort();
    shown
}

pub(crate) fn of_pods(is_network: bool) -> Service {
    let mut service = if is_network {
        network(&[])
    } else {
        service(&[])
    };
    let annotations = service.metadata.annotations.get_or_insert_default();
    annotations.insert(
        "service.beta.kubernetes.io/backend-type".into(),
        "eni".into(),
    );
    service.spec.as_mut().unwrap().ports.as_mut().unwrap()[0].target_port =
        serde_json::from_value(json!(8080)).unwrap();
    service
}

#[tokio::test(start_paused = true)]
async fn pods_are_backends_by_their_network_interfaces() {
    for is_network in [false, true] {
        let harness = Harness::new().at_once();
        set_pods(
            &harness,
            &[("10.1.0.1", "worker-1"), ("10.1.0.2", "worker-2")],
        );
        ["10.1.0.1", "10.1.0.2"]
            .iter()
            .for_each(|ip| add_interface(&harness, ip));
        let provider = harness.started().await;
        let mut service = of_pods(is_network);
        harness.ensure(&provider, &mut service).await.unwrap();
        let kind = if is_network { "Eni" } else { "eni" };
        let expected =
            ["1", "2"].map(|text| format!("{kind} eni-10.1.0.{text} 10.1.0.{text} 8080 100"));
        assert_eq!(servers(&harness, is_network), expected);
        let name = if is_network {
            "k8s.8080.TCP.web.default.testbed"
        } else {
            "k8s/8080/web/default/testbed"
        };
        let group = harness.only(if is_network { "group" } else { "vgroup" });
        assert_eq!(
            group[if is_network {
                "ServerGroupName"
            } else {
                "VServerGroupName"
            }],
            name
        );
        set_pods(&harness, &[("10.1.0.2", "worker-2")]);
        harness.changes();
        harness.ensure(&provider, &mut service).await.unwrap();
        assert_eq!(harness.changes().len(), 1, "one backend is removed");
        assert_eq!(servers(&harness, is_network), expected[1..]);
    }
}

#[tokio::test(start_paused = true)]
async fn range_of_ports_of_an_nlb_leads_to_the_same_ports_of_pods() {
    let harness = Harness::new().at_once();
    set_pods(&harness, &[("10.1.0.1", "worker-1")]);
    add_interface(&harness, "10.1.0.1");
    let provider = harness.started().await;
    let mut service = of_pods(true);
    annotate(&mut service, "listener-port-range", "1000-2000:80");
    harness.ensure(&provider, &mut service).await.unwrap();
    let group = harness.only("group");
    let listener = harness.only("listener");
    let ports = ["ListenerPort", "StartPort", "EndPort"].map(|key| listener[key].clone());
    assert_eq!(ports, [json!(0), json!("1000"), json!("2000")]);
    assert_eq!(
        listener["ListenerDescription"],
        "k8s.1000_2000.TCP.web.default.testbed"
    );
    assert_eq!(
        group["ServerGroupName"],
        "k8s.1000_2000.TCP.web.default.testbed"
    );
    assert_eq!(
        (
            &group["AnyPortEnabled"],
            &group["HealthCheck"]["HealthCheckConnectPort"]
        ),
        (&json!(true), &json!(8080))
    );
    assert_eq!(servers(&harness, true), ["Eni eni-10.1.0.1 10.1.0.1 0 100"]);
    harness.changes();
    harness
        .ensure(&harness.started().await, &mut service)
        .await
        .unwrap();
    assert_eq!(harness.changes(), [""; 0], "a restart changes nothing");
    for (value, expected) in [
        ("1000-3000:80", json!(["1000", "3000"])),
        ("", json!([null, null])),
        ("80-90:80", json!(["80", "90"])),
    ] {
        annotate(&mut service, "listener-port-range", value);
        harness.ensure(&provider, &mut service).await.unwrap();
        let listener = harness.only("listener");
        assert_eq!(
            json!([listener["StartPort"], listener["EndPort"]]),
            expected,
            "{value}"
        );
        harness.only("group");
    }
    harness.delete(&provider, &service).await.unwrap();
    assert!(harness.fake.lock().all("group").is_empty());
}

#[tokio::test(start_paused = true)]
async fn ranges_of_ports_need_pods_numbers_and_room() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let ports = |second: &str, target: Value| {
        let mut service = of_pods(true);
        let all = json!([{"name": "a", "port": 80, "targetPort": target, "nodePort": 30080},
            {"name": "b", "port": 1500, "targetPort": 8080, "nodePort": 30081, "protocol": second}]);
        service.spec.as_mut().unwrap().ports = serde_json::from_value(all).unwrap();
        service
    };
    let mut of_nodes = network(&[]);
    for (service, range, expected) in [
        (&mut of_nodes, "1000-2000:80", "backend-type"),
        (&mut ports("TCP", json!(8080)), "1000-2000:80", "overlap"),
        (
            &mut ports("UDP", json!("http")),
            "1000-2000:80",
            "needs a number",
        ),
        (&mut of_pods(true), "2000-1000:80", "first-last:port"),
        (&mut of_pods(true), "0-1000:80", "first-last:port"),
    ] {
        annotate(service, "listener-port-range", range);
        let error = harness
            .ensure(&provider, service)
            .await
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("listener-port-range") && error.contains(expected),
            "{error}"
        );
    }
    assert!(harness.changes().is_empty());
}

#[tokio::test(start_paused = true)]
async fn pod_whose_interface_is_not_known_keeps_its_backend() {
    let harness = Harness::new();
    set_pods(&harness, &[("10.1.0.1", "worker-1")]);
    add_interface(&harness, "10.1.0.1");
    let provider = harness.started().await;
    let mut service = of_pods(false);
    harness.ensure(&provider, &mut service).await.unwrap();
    harness
        .fake
        .lock()
        .each("interface")
        .retain(|interface| interface["NetworkInterfaceId"] != "eni-10.1.0.1");
    set_pods(
        &harness,
        &[
            ("10.1.0.1", "worker-1"),
            ("10.1.0.3", "worker-1"),
            ("192.0.2.1", "worker-2"),
        ],
    );
    harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!(
        servers(&harness, false),
        ["eni eni-10.1.0.1 10.1.0.1 8080 100"]
    );
    let events: Vec<_> = harness
        .cluster
        .take_events()
        .iter()
        .map(ToString::to_string)
        .collect();
    let has = |text: &str| {
        events
            .iter()
            .any(|event| event.contains("SkipSyncBackends") && event.contains(text))
    };
    assert!(
        has("10.1.0.1, 10.1.0.3 have no network interface yet"),
        "{events:?}"
    );
    assert!(has("192.0.2.1 are outside of the VPC"), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn local_traffic_goes_to_nodes_with_pods_by_their_number() {
    let harness = Harness::new();
    set_pods(
        &harness,
        &[("10.1.0.1", "worker-1"), ("10.1.0.2", "worker-1")],
    );
    let provider = harness.started().await;
    let mut service = service(&[]);
    service.spec.as_mut().unwrap().external_traffic_policy = Some("Local".into());
    harness.ensure(&provider, &mut service).await.unwrap();
    let id = harness.instance("worker-1")["InstanceId"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(servers(&harness, false), [format!("ecs {id}  30080 2")]);
    set_pods(
        &harness,
        &[("10.1.0.1", "worker-1"), ("10.1.0.2", "worker-2")],
    );
    harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!(servers(&harness, false).len(), 2);
    harness.cluster.remove_document(SLICES);
    harness.ensure(&provider, &mut service).await.unwrap();
    assert!(
        servers(&harness, false)
            .iter()
            .all(|server| server.ends_with(" 100")),
        "without EndpointSlices: all Nodes"
    );
}

#[tokio::test(start_paused = true)]
async fn pods_on_virtual_nodes_are_further_backends() {
    let harness = Harness::new();
    let labels = [("type", "virtual-kubelet")].into_iter().collect();
    harness.cluster.set_node(Node {
        name: "virtual".into(),
        uid: "uid-v".into(),
        labels,
        ..Node::default()
    });
    set_pods(
        &harness,
        &[("10.1.0.1", "worker-1"), ("10.1.0.5", "virtual")],
    );
    add_interface(&harness, "10.1.0.5");
    let provider = harness.started().await;
    let mut service = service(&[]);
    service.spec.as_mut().unwrap().ports.as_mut().unwrap()[0].target_port =
        serde_json::from_value(json!(8080)).unwrap();
    annotate(&mut service, "default-weight", "50");
    harness.ensure(&provider, &mut service).await.unwrap();
    let found = servers(&harness, false);
    assert_eq!(found.len(), 3, "{found:?}");
    assert_eq!(found[2], "eni eni-10.1.0.5 10.1.0.5 8080 50");
}

/// Sets an endpoint that is not ready, and its Pod with a readiness gate.
fn set_waiting_pod(harness: &Harness, ip: &str, containers: &str) {
    let target = json!({"kind": "Pod", "namespace": "default", "name": "p"});
    let endpoint = json!({"addresses": [ip], "nodeName": "worker-1", "conditions": {"ready": false}, "targetRef": target});
    let slice = json!({"addressType": "IPv4", "ports": [{"name": "", "port": 8080}], "endpoints": [endpoint]});
    harness
        .cluster
        .set_document(SLICES, json!({"items": [slice]}).to_string());
    let pod = json!({"spec": {"readinessGates": [{"conditionType": "service.readiness.alibabacloud.com/web"}]},
        "status": {"conditions": [{"type": "ContainersReady", "status": containers}]}});
    harness.cluster.set_document(POD, pod.to_string());
}

const POD: &str = "/api/v1/namespaces/default/pods/p";

/// Returns the states that were written to the gate of the Pod, in order, each once. The Pod here does not change.
async fn gates(harness: &Harness) -> Vec<String> {
    tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    let patches = harness
        .cluster
        .take_patches()
        .into_iter()
        .filter(|(path, _)| path.starts_with(POD));
    let status = |body: Vec<u8>| {
        serde_json::from_slice::<Value>(&body).unwrap()["status"]["conditions"][0].clone()
    };
    let mut states: Vec<_> = patches
        .map(|(_, body)| status(body))
        .map(|status| format!("{} {}", status["status"], status["reason"]))
        .collect();
    states.dedup();
    states
}

#[tokio::test(start_paused = true)]
async fn readiness_gate_opens_when_the_pod_is_a_backend() {
    let opened = [r#""True" "ServerRegistered""#];
    for mode in ["eni", "Local", "Cluster"] {
        let harness = Harness::new();
        set_waiting_pod(&harness, "10.1.0.1", "False");
        add_interface(&harness, "10.1.0.1");
        let provider = harness.started().await;
        let mut service = if mode == "eni" {
            of_pods(false)
        } else {
            service(&[])
        };
        service.spec.as_mut().unwrap().external_traffic_policy =
            Some(mode.into()).filter(|_| mode != "eni");
        harness.ensure(&provider, &mut service).await.unwrap();
        assert!(
            gates(&harness).await.is_empty(),
            "{mode}: its containers are not ready"
        );
        set_waiting_pod(&harness, "10.1.0.1", "True");
        harness.ensure(&provider, &mut service).await.unwrap();
        assert_eq!(gates(&harness).await, opened, "{mode}");
        let count = if mode == "Cluster" { 2 } else { 1 };
        assert_eq!(servers(&harness, false).len(), count, "{mode}");
    }
}

#[tokio::test(start_paused = true)]
async fn readiness_gate_stays_closed_without_a_network_interface() {
    let harness = Harness::new();
    set_waiting_pod(&harness, "10.1.0.1", "True");
    let provider = harness.started().await;
    harness
        .ensure(&provider, &mut of_pods(false))
        .await
        .unwrap();
    assert_eq!(gates(&harness).await, [r#""False" "ServerInvalidServer""#]);
}

/// Sets a Pod with an IPv4 address and one with an IPv6 address, and their network interfaces.
pub(crate) fn set_pods_of_both_families(harness: &Harness) {
    let slice = |family: &str, ip: &str| {
        json!({"addressType": family, "ports": [{"name": "", "port": 8080}],
            "endpoints": [{"addresses": [ip], "nodeName": "worker-1", "conditions": {"ready": true}}]})
    };
    let slices = json!({"items": [slice("IPv4", "10.1.0.1"), slice("IPv6", "fd00:1::1")]});
    harness.cluster.set_document(SLICES, slices.to_string());
    add_interface(harness, "10.1.0.1");
    harness.fake.lock().add(
        "interface",
        json!({"NetworkInterfaceId": "eni-6", "Status": "InUse", "VpcId": alibaba_fake::VPC,
            "Ipv6Sets": {"Ipv6Set": [{"Ipv6Address": "fd00:1::1"}]}}),
    );
}

#[tokio::test(start_paused = true)]
async fn dual_stack_nlb_has_pods_of_both_ip_families() {
    let harness = Harness::new()
        .at_once()
        .with("featureGates", "IPv6DualStack=true");
    set_pods_of_both_families(&harness);
    let provider = harness.started().await;
    let mut service = of_pods(true);
    annotate(&mut service, "backend-ip-version", "DualStack");
    harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!(
        servers(&harness, true).len(),
        1,
        "an IPv4 NLB has IPv4 backends only"
    );
    annotate(&mut service, "ip-version", "DualStack");
    harness.delete(&provider, &service).await.unwrap();
    for (version, affinity, expected) in [
        ("ipv6", "NonAffinity", &["Eni eni-6 fd00:1::1 8080 100"][..]),
        (
            "dualstack",
            "Affinity",
            &[
                "Eni eni-10.1.0.1 10.1.0.1 8080 100",
                "Eni eni-6 fd00:1::1 8080 100",
            ],
        ),
    ] {
        annotate(&mut service, "backend-ip-version", version);
        harness.ensure(&provider, &mut service).await.unwrap();
        assert_eq!(servers(&harness, true), expected, "{version}");
        let group = harness.only("group");
        assert_eq!(
            [&group["AddressIPVersion"], &group["IpVersionAffinityMode"]],
            ["DualStack", affinity]
        );
    }
}

#[tokio::test(start_paused = true)]
async fn full_server_group_loses_old_backends_before_it_gets_new_ones() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut service = service(&[]);
    harness.ensure(&provider, &mut service).await.unwrap();
    harness.add_node("worker-3");
    harness.cluster.remove_node("worker-1");
    let full = Fault::code(
        "POST /slb/AddVServerGroupBackendServers",
        "InstanceBackendServerNumberOverLimit",
    );
    harness.fake.fault_injector().fail(full.times(1));
    harness.changes();
    harness.ensure(&provider, &mut service).await.unwrap();
    let expected = [
        "AddVServerGroupBackendServers",
        "RemoveVServerGroupBackendServers",
        "AddVServerGroupBackendServers",
    ];
    assert_eq!(harness.changes(), expected);
}
