//! Load balancers: what is created, changed and refused.

use cloud_provider::CloudProvider;
use oci_fake::{Fault, KEY, LB_SUBNET, NODE_SUBNET, TENANCY};
use provider_kit::transport::in_process;
use serde_json::{Value, json};

use crate::harness::{Harness, UID, api_key, configuration, other_service, rules, service};

const KIND: &str = "oci.oraclecloud.com/load-balancer-type";
const OCI: &str = "oci.oraclecloud.com/";
const LB: &str = "service.beta.kubernetes.io/oci-load-balancer-";
const NLB: &str = "oci-network-load-balancer.oraclecloud.com/";

/// A tag with the name that the program has for the network security group of a load balancer.
const OWN_GROUP: &str =
    r#"{"ccm-rs/network-security-group": "ocid1.networksecuritygroup.oc1.phx.a"}"#;

fn port(number: u16, protocol: &str) -> Value {
    json!({"name": protocol.to_lowercase(), "port": number, "nodePort": 30000 + number, "protocol": protocol})
}

fn annotated(all: &[(String, &str)], more: Value) -> cloud_provider::Service {
    let all: Vec<_> = all.iter().map(|(key, value)| (&**key, *value)).collect();
    service(&all, more)
}

#[tokio::test(start_paused = true)]
async fn load_balancer_and_its_security_rules_come_and_go_with_the_service() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut web = service(&[], json!({}));
    harness.ensure(&provider, &mut web).await.unwrap();
    let made = harness.balancer("loadbalancer");
    assert_eq!(
        (&made["displayName"], &made["shapeName"]),
        (&json!(UID), &json!("flexible"))
    );
    let set = &made["backendSets"]["TCP-80"];
    assert_eq!(set["backends"].as_array().map(Vec::len), Some(2));
    let check = json!({"protocol": "HTTP", "port": 10256, "urlPath": "/healthz", "returnCode": 200, "retries": 3,
        "timeoutInMillis": 3000, "intervalInMillis": 10000, "responseBodyRegex": ""});
    assert_eq!(set["healthChecker"], check);
    assert_eq!(rules(&harness, "balancers", "ingress"), ["0.0.0.0/0 80"]);
    assert_eq!(
        rules(&harness, "balancers", "egress"),
        ["10.0.0.0/17 10256", "10.0.0.0/17 30080"]
    );
    assert_eq!(
        rules(&harness, "nodes", "ingress"),
        ["10.0.128.0/24 10256", "10.0.128.0/24 30080"]
    );
    harness.fake.fault_injector().forget_requests();
    harness.ensure(&provider, &mut web).await.unwrap();
    assert_eq!(harness.changes(), [""; 0]);
    harness.delete(&provider, &web).await.unwrap();
    let left = ["balancers", "nodes"].map(|list| rules(&harness, list, "ingress").len());
    assert_eq!(
        (left, harness.fake.lock().all("loadbalancer").count()),
        ([0, 0], 0)
    );
}

#[tokio::test(start_paused = true)]
async fn rules_follow_ports_and_source_ranges_and_spare_other_services() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut web = service(&[], json!({"ports": [port(80, "TCP"), port(443, "TCP")]}));
    harness.ensure(&provider, &mut web).await.unwrap();
    let mut changed = service(
        &[],
        json!({"ports": [port(443, "TCP")], "loadBalancerSourceRanges": ["192.0.2.0/24"]}),
    );
    changed.status.clone_from(&web.status);
    let mut mail = service(&[], json!({"ports": [port(80, "TCP")]}));
    mail.metadata.uid = Some("11111111-3f3e-4c57-a1b5-9f5f2a7d8c11".to_owned());
    mail.metadata.name = Some("mail".to_owned());
    harness
        .ensure_beside(&provider, &mut changed, &[mail.clone()])
        .await
        .unwrap();
    assert_eq!(
        rules(&harness, "balancers", "ingress"),
        ["0.0.0.0/0 80", "192.0.2.0/24 443"],
        "80 is needed by another"
    );
    assert_eq!(rules(&harness, "nodes", "ingress").len(), 3);
    harness.ensure(&provider, &mut changed).await.unwrap();
    harness
        .delete_beside(&provider, &changed, &[mail])
        .await
        .unwrap();
    assert_eq!(
        rules(&harness, "nodes", "ingress"),
        ["10.0.128.0/24 10256", "10.0.128.0/24 30080"]
    );
}

#[tokio::test(start_paused = true)]
async fn new_node_port_is_open_before_backends_move_and_the_old_one_until_then() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut web = service(&[], json!({}));
    harness.ensure(&provider, &mut web).await.unwrap();
    let mut moved = service(
        &[],
        json!({"ports": [{"port": 80, "nodePort": 31080, "protocol": "TCP"}]}),
    );
    moved.status.clone_from(&web.status);
    harness.fake.fault_injector().forget_requests();
    harness.ensure(&provider, &mut moved).await.unwrap();
    let lists = "PUT /securityLists/{id}";
    let set = "PUT /loadBalancers/{id}/{part}/{name}";
    let changes = harness.changes();
    let without_tag: Vec<_> = changes
        .iter()
        .filter(|change| *change != "PUT /loadBalancers/{id}")
        .collect();
    assert_eq!(without_tag, [lists, lists, set, lists, lists, set]);
    assert_eq!(
        rules(&harness, "nodes", "ingress"),
        ["10.0.128.0/24 10256", "10.0.128.0/24 31080"]
    );
}

#[tokio::test(start_paused = true)]
async fn network_load_balancer_serves_tcp_and_udp_with_one_listener() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut dns = service(
        &[(KIND, "nlb")],
        json!({"ports": [port(53, "TCP"), port(53, "UDP")]}),
    );
    harness.ensure(&provider, &mut dns).await.unwrap();
    let made = harness.balancer("networkloadbalancer");
    assert_eq!(
        made["listeners"]["TCP_AND_UDP-53"]["protocol"],
        "TCP_AND_UDP"
    );
    assert_eq!(made["displayName"], format!("default/web/{UID}"));
    let backend = &made["backendSets"]["TCP_AND_UDP-53"]["backends"][0];
    assert!(
        backend["targetId"]
            .as_str()
            .unwrap()
            .starts_with("ocid1.instance."),
        "{backend}"
    );
    assert_eq!(rules(&harness, "balancers", "ingress"), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn dual_stack_network_load_balancer_has_a_listener_for_each_family() {
    let harness = Harness::new();
    for subnet in [LB_SUBNET, NODE_SUBNET] {
        let mut cloud = harness.fake.lock();
        cloud.objects.get_mut(subnet).unwrap()["ipv6CidrBlock"] = "2603:c020::/64".into();
    }
    let provider = harness.started().await;
    let both = json!({"ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv4", "IPv6"]});
    let mode = format!("{OCI}security-rule-management-mode");
    let mut web = service(&[(KIND, "nlb"), (&mode, "SL-All")], both);
    let status = harness.ensure(&provider, &mut web).await.unwrap();
    let made = harness.balancer("networkloadbalancer");
    assert_eq!(made["nlbIpVersion"], "IPV4_AND_IPV6");
    assert_eq!(made["listeners"]["TCP-80-IPv6"]["ipVersion"], "IPV6");
    assert_eq!(
        made["listeners"].as_object().map(serde_json::Map::len),
        Some(2)
    );
    assert_eq!(status.ingress.map(|ingress| ingress.len()), Some(2));
    assert_eq!(
        rules(&harness, "balancers", "ingress"),
        ["0.0.0.0/0 80", "::/0 80"]
    );
    assert!(rules(&harness, "nodes", "ingress").contains(&"2603:c020::/64 30080".to_owned()));
    let mut single = service(&[(KIND, "nlb"), (&mode, "SL-All")], json!({}));
    single.status.clone_from(&web.status);
    harness.ensure(&provider, &mut single).await.unwrap();
    let made = harness.balancer("networkloadbalancer");
    assert_eq!(
        (
            &made["nlbIpVersion"],
            made["listeners"].as_object().map(serde_json::Map::len)
        ),
        (&json!("IPV4"), Some(1))
    );
}

#[tokio::test(start_paused = true)]
async fn change_of_kind_moves_the_service_and_deletes_the_former_load_balancer() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut web = service(&[], json!({}));
    let before = harness.ensure(&provider, &mut web).await.unwrap();
    let mut moved = service(&[(KIND, "nlb")], json!({}));
    moved.status.clone_from(&web.status);
    let after = harness.ensure(&provider, &mut moved).await.unwrap();
    assert_ne!(before, after);
    assert_eq!(
        harness.balancer("networkloadbalancer")["displayName"],
        format!("default/web/{UID}")
    );
    assert_eq!(harness.fake.lock().all("loadbalancer").count(), 0);
    assert_eq!(rules(&harness, "nodes", "ingress"), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn change_of_kind_keeps_the_rules_and_the_group_that_both_kinds_need() {
    for (mode, rules_left) in [("SL-All", 2), ("NSG", 0)] {
        let harness = Harness::new();
        let provider = harness.started().await;
        let key = format!("{OCI}security-rule-management-mode");
        let mut web = service(&[(&key, mode)], json!({}));
        harness.ensure(&provider, &mut web).await.unwrap();
        let mut moved = service(&[(KIND, "nlb"), (&key, mode)], json!({}));
        moved.status.clone_from(&web.status);
        harness.ensure(&provider, &mut moved).await.unwrap();
        let made = harness.balancer("networkloadbalancer");
        assert_eq!(
            rules(&harness, "nodes", "ingress").len(),
            rules_left,
            "{mode}"
        );
        let groups: Vec<_> = harness
            .fake
            .lock()
            .all("networksecuritygroup")
            .cloned()
            .collect();
        assert_eq!(
            made["networkSecurityGroupIds"],
            json!(groups.iter().map(|group| &group["id"]).collect::<Vec<_>>())
        );
        assert!(
            groups
                .iter()
                .all(|group| group["securityRules"].as_array().unwrap().len() == 1),
            "{groups:#?}"
        );
        harness.delete(&provider, &moved).await.unwrap();
        assert_eq!(harness.fake.lock().all("networksecuritygroup").count(), 0);
        assert_eq!(rules(&harness, "nodes", "ingress"), [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn mode_nsg_writes_a_group_that_goes_with_the_load_balancer() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let backend = harness.fake.lock().add_group("nodes");
    let mode = format!("{OCI}security-rule-management-mode");
    let group = format!("{OCI}oci-backend-network-security-group");
    let mut web = service(&[(&mode, "nsg"), (&group, &backend)], json!({}));
    harness.ensure(&provider, &mut web).await.unwrap();
    let rules_of = |id: &str| {
        harness.fake.lock().objects[id]["securityRules"]
            .as_array()
            .map_or(0, Vec::len)
    };
    assert_eq!(rules_of(&backend), 2, "the node port and the health check");
    assert_eq!(
        harness.fake.lock().objects[&backend]["freeformTags"]["ManagedBy"],
        "CCM"
    );
    harness.fake.fault_injector().forget_requests();
    harness.ensure(&provider, &mut web).await.unwrap();
    assert_eq!(harness.changes(), [""; 0]);
    harness.delete(&provider, &web).await.unwrap();
    assert_eq!(
        (
            rules_of(&backend),
            harness.fake.lock().all("networksecuritygroup").count()
        ),
        (0, 1)
    );
}

#[tokio::test(start_paused = true)]
async fn group_that_only_a_tag_of_the_load_balancer_names_stays() {
    for mode in ["NSG", "All"] {
        let harness = Harness::new();
        let provider = harness.started().await;
        let theirs = harness.fake.lock().add_group("theirs");
        let rule = json!({"id": "1", "direction": "INGRESS", "protocol": "6", "description": format!("service-uid-{UID}")});
        let mut web = service(
            &[(
                &format!("{OCI}security-rule-management-mode"),
                if mode == "All" { "SL-All" } else { mode },
            )],
            json!({}),
        );
        harness.ensure(&provider, &mut web).await.unwrap();
        {
            let mut cloud = harness.fake.lock();
            cloud.objects.get_mut(&theirs).unwrap()["securityRules"] = json!([rule]);
            let id = cloud.all("loadbalancer").next().unwrap()["id"]
                .as_str()
                .unwrap()
                .to_owned();
            cloud.objects.get_mut(&id).unwrap()["freeformTags"]["ccm-rs/network-security-group"] =
                theirs.as_str().into();
        }
        harness
            .delete(&harness.started().await, &web)
            .await
            .unwrap();
        let cloud = harness.fake.lock();
        assert_eq!(cloud.all("loadbalancer").count(), 0, "{mode}");
        assert_eq!(
            cloud.objects[&theirs]["securityRules"],
            json!([rule]),
            "{mode}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn secret_of_a_namespace_of_the_configuration_is_read() {
    for namespaces in ["[default]", "['*']"] {
        let harness = Harness::new();
        let text = configuration(&api_key(TENANCY, KEY), "http://oci");
        let text = text.replace(
            "loadBalancer:\n",
            &format!("loadBalancer:\n  secretNamespaces: {namespaces}\n"),
        );
        let provider = harness
            .started_with(text, &[], &in_process(harness.fake.router()))
            .await;
        harness.set_certificate("-----BEGIN CERTIFICATE-----\nAAEC\n-----END CERTIFICATE-----\n");
        let ports = format!("{LB}ssl-ports");
        let secret = format!("{LB}tls-secret");
        let mut web = service(&[(&ports, "80"), (&secret, "default/web-tls")], json!({}));
        web.metadata.namespace = Some("shop".to_owned());
        harness.ensure(&provider, &mut web).await.unwrap();
        let made = harness.balancer("loadbalancer");
        assert_eq!(
            made["listeners"]["TCP-80"]["sslConfiguration"]["certificateName"], "web-tls",
            "{namespaces}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn group_is_taken_away_when_the_mode_ends() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mode = format!("{OCI}security-rule-management-mode");
    let many: Vec<_> = (0..30)
        .map(|number| format!("10.{number}.0.0/16"))
        .collect();
    let mut web = service(&[(&mode, "NSG")], json!({"loadBalancerSourceRanges": many}));
    harness.ensure(&provider, &mut web).await.unwrap();
    let group = harness
        .fake
        .lock()
        .all("networksecuritygroup")
        .next()
        .cloned()
        .unwrap();
    assert_eq!(
        group["securityRules"].as_array().map(Vec::len),
        Some(30),
        "in two requests"
    );
    assert_eq!(
        harness.balancer("loadbalancer")["networkSecurityGroupIds"],
        json!([group["id"]])
    );
    let mut none = service(&[(&mode, "None")], json!({}));
    none.status.clone_from(&web.status);
    harness.ensure(&provider, &mut none).await.unwrap();
    assert_eq!(
        harness.balancer("loadbalancer")["networkSecurityGroupIds"],
        json!([])
    );
    assert_eq!(harness.fake.lock().all("networksecuritygroup").count(), 0);
}

#[tokio::test(start_paused = true)]
async fn certificate_is_rotated_under_a_new_name() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let pem =
        |body: &str| format!("-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n");
    harness.set_certificate(&pem("AAEC"));
    let ports = format!("{LB}ssl-ports");
    let secret = format!("{LB}tls-secret");
    let mut web = service(&[(&ports, "80"), (&secret, "web-tls")], json!({}));
    harness.ensure(&provider, &mut web).await.unwrap();
    let certificate = |harness: &Harness| {
        let made = harness.balancer("loadbalancer");
        let names: Vec<_> = made["certificates"]
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect();
        (
            names,
            made["listeners"]["TCP-80"]["sslConfiguration"]["certificateName"]
                .as_str()
                .unwrap()
                .to_owned(),
        )
    };
    assert_eq!(
        certificate(&harness),
        (vec!["web-tls".to_owned()], "web-tls".to_owned())
    );
    harness.set_certificate(&pem("AAED"));
    harness.ensure(&provider, &mut web).await.unwrap();
    let (names, used) = certificate(&harness);
    assert!(
        names == [used.clone()] && used.starts_with("web-tls-"),
        "{names:?} {used}"
    );
    let mut plain = service(&[], json!({}));
    plain.status.clone_from(&web.status);
    harness.ensure(&provider, &mut plain).await.unwrap();
    assert!(harness.balancer("loadbalancer")["listeners"]["TCP-80"]["sslConfiguration"].is_null());
}

#[tokio::test(start_paused = true)]
async fn service_is_synced_when_the_certificate_of_its_secret_is_renewed() {
    let harness = Harness::new();
    let pem =
        |body: &str| format!("-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n");
    harness.set_certificate(&pem("AAEC"));
    let provider = harness.started().await;
    let ports = format!("{LB}ssl-ports");
    let secret = format!("{LB}tls-secret");
    let mut web = service(&[(&ports, "80"), (&secret, "web-tls")], json!({}));
    harness.ensure(&provider, &mut web).await.unwrap();
    harness.cluster.set_services([web.clone()]);
    let synced = async || {
        tokio::time::sleep(std::time::Duration::from_secs(310)).await;
        let patches = harness.patches();
        patches
            .iter()
            .filter(|(path, _)| path == "/api/v1/namespaces/default/services/web/status")
            .count()
    };
    assert_eq!(synced().await, 0);
    harness.set_certificate(&pem("AAED"));
    assert_eq!(synced().await, 1);
    harness.ensure(&provider, &mut web).await.unwrap();
    assert_eq!(synced().await, 0);
}

#[tokio::test(start_paused = true)]
async fn grpc_listener_with_certificates_by_ocid_has_the_suite_of_http2() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let all = [
        (format!("{LB}ssl-ports"), "80"),
        (
            format!("{LB}tls-certificate-ids"),
            "ocid1.certificate.oc1..a",
        ),
        (format!("{LB}backend-protocol"), "grpc"),
        (format!("{LB}connection-proxy-protocol-version"), "2"),
        (
            format!("{OCI}oci-load-balancer-rule-sets"),
            r#"{"headers": {"items": [{"action": "ADD_HTTP_REQUEST_HEADER", "header": "a", "value": "b"}]}}"#,
        ),
    ];
    harness
        .ensure(&provider, &mut annotated(&all, json!({})))
        .await
        .unwrap();
    let made = harness.balancer("loadbalancer");
    let listener = &made["listeners"]["GRPC-80"];
    assert_eq!(
        listener["sslConfiguration"]["cipherSuiteName"],
        "oci-default-http2-ssl-cipher-suite-v1"
    );
    assert_eq!(
        listener["sslConfiguration"]["certificateIds"],
        json!(["ocid1.certificate.oc1..a"])
    );
    assert_eq!(
        listener["connectionConfiguration"],
        json!({"idleTimeout": 300, "backendTcpProxyProtocolVersion": 2})
    );
    assert_eq!(
        (
            &listener["ruleSetNames"],
            made["ruleSets"]["headers"]["items"]
                .as_array()
                .map(Vec::len)
        ),
        (&json!(["headers"]), Some(1))
    );
}

#[tokio::test(start_paused = true)]
async fn shape_stays_without_an_annotation_and_follows_one() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let shape = |min: &'static str, max: &'static str| {
        annotated(
            &[
                (format!("{LB}shape"), "flexible"),
                (format!("{LB}shape-flex-min"), min),
                (format!("{LB}shape-flex-max"), max),
            ],
            json!({}),
        )
    };
    let mut web = shape("5", "9000Mbps");
    harness.ensure(&provider, &mut web).await.unwrap();
    let limits =
        |min: u32, max: u32| json!({"minimumBandwidthInMbps": min, "maximumBandwidthInMbps": max});
    assert_eq!(
        harness.balancer("loadbalancer")["shapeDetails"],
        limits(10, 8192)
    );
    let mut plain = service(&[], json!({}));
    plain.status.clone_from(&web.status);
    harness.ensure(&provider, &mut plain).await.unwrap();
    assert_eq!(
        harness.balancer("loadbalancer")["shapeDetails"],
        limits(10, 8192),
        "no annotation, no change"
    );
    let mut larger = shape("20", "400");
    larger.status.clone_from(&web.status);
    harness.ensure(&provider, &mut larger).await.unwrap();
    assert_eq!(
        harness.balancer("loadbalancer")["shapeDetails"],
        limits(20, 400)
    );
    let mut fixed = annotated(&[(format!("{LB}shape"), "100Mbps")], json!({}));
    fixed.status.clone_from(&web.status);
    let error = harness.ensure(&provider, &mut fixed).await.unwrap_err();
    assert!(
        error.is_invalid() && error.to_string().contains("cannot become the fixed shape"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn limits_alone_change_a_flexible_load_balancer_and_not_a_fixed_one() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let limits = [
        (format!("{LB}shape-flex-min"), "20"),
        (format!("{LB}shape-flex-max"), "400"),
    ];
    let mut web = service(&[], json!({}));
    harness.ensure(&provider, &mut web).await.unwrap();
    let mut limited = annotated(&limits, json!({}));
    limited.status.clone_from(&web.status);
    harness.ensure(&provider, &mut limited).await.unwrap();
    let shown = harness.balancer("loadbalancer");
    assert_eq!(
        shown["shapeDetails"],
        json!({"minimumBandwidthInMbps": 20, "maximumBandwidthInMbps": 400})
    );
    let id = shown["id"].as_str().unwrap();
    harness.fake.lock().objects.get_mut(id).unwrap()["shapeName"] = "100Mbps".into();
    harness.fake.fault_injector().forget_requests();
    harness.ensure(&provider, &mut limited).await.unwrap();
    assert_eq!(harness.changes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn values_count_as_the_go_program_reads_them() {
    let harness = Harness::new();
    let provider = harness
        .started_as(
            &[],
            "tags: {loadBalancer: {defined: {cost: {center: \"7\"}}}}\n",
        )
        .await;
    let all = [
        (KIND.to_owned(), "NLB"),
        (format!("{OCI}security-rule-management-mode"), "SL-Frontend"),
        (
            format!("{OCI}oci-backend-network-security-group"),
            "a,b,c,d,e,f",
        ),
        (
            format!("{NLB}initial-freeform-tags-override"),
            r#"{"team": "web"}"#,
        ),
    ];
    let both = json!({"ipFamilies": ["IPv4", "IPv6"], "loadBalancerSourceRanges": ["0.0.0.0/0"]});
    let mut web = annotated(&all, both);
    harness.ensure(&provider, &mut web).await.unwrap();
    let made = harness.balancer("networkloadbalancer");
    assert_eq!(
        (&made["definedTags"], &made["freeformTags"]["team"]),
        (&json!({}), &json!("web"))
    );

    let harness = Harness::new();
    let provider = harness.started().await;
    let empty = [
        "connection-idle-timeout",
        "connection-proxy-protocol-version",
        "subnet1",
        "tls-secret",
        "ssl-ports",
    ];
    let mut all: Vec<_> = empty.iter().map(|key| (format!("{LB}{key}"), "")).collect();
    all.push((format!("{OCI}oci-load-balancer-listener-ssl-config"), ""));
    harness
        .ensure(&provider, &mut annotated(&all, json!({})))
        .await
        .unwrap();
    assert_eq!(
        harness.balancer("loadbalancer")["listeners"]["TCP-80"]["connectionConfiguration"],
        Value::Null
    );
}

#[tokio::test(start_paused = true)]
async fn default_source_range_stands_for_both_families() {
    let harness = Harness::new();
    for subnet in [LB_SUBNET, NODE_SUBNET] {
        harness.fake.lock().objects.get_mut(subnet).unwrap()["ipv6CidrBlock"] =
            "2603:c020::/64".into();
    }
    let provider = harness.started().await;
    let more = json!({"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv4", "IPv6"], "loadBalancerSourceRanges": ["0.0.0.0/0"]});
    let mode = format!("{NLB}security-list-management-mode");
    harness
        .ensure(
            &provider,
            &mut service(&[(KIND, "nlb"), (&mode, "Frontend")], more),
        )
        .await
        .unwrap();
    assert_eq!(
        rules(&harness, "balancers", "ingress"),
        ["0.0.0.0/0 80", "::/0 80"]
    );
}

#[tokio::test(start_paused = true)]
async fn regional_subnet_of_an_annotation_is_the_only_one() {
    let harness = Harness::new();
    let subnet = |name: &str, domain: &str| {
        let mut cloud = harness.fake.lock();
        let mut subnet = cloud.objects[LB_SUBNET].clone();
        let id = format!("ocid1.subnet.oc1.phx.{name}");
        (subnet["id"], subnet["availabilityDomain"]) = (json!(id), json!(domain));
        cloud.objects.insert(id.clone(), subnet);
        id
    };
    let [regional, other] = ["regional", "other"].map(|name| subnet(name, ""));
    let [first, second] = ["first", "second"].map(|name| subnet(name, "Uocm:PHX-AD-1"));
    let subnet1 = format!("{LB}subnet1");
    let subnet2 = format!("{LB}subnet2");
    let internal = format!("{LB}internal");
    for (annotations, expected) in [
        (vec![], vec![LB_SUBNET]),
        (
            vec![(&subnet1, &first), (&subnet2, &second)],
            vec![&first, &second],
        ),
        (
            vec![(&subnet1, &regional), (&subnet2, &other)],
            vec![&regional],
        ),
        (
            vec![(&subnet1, &first), (&subnet2, &regional)],
            vec![&regional],
        ),
        (vec![(&subnet2, &regional)], vec![&regional]),
    ] {
        let internal = [(internal.as_str(), "true")];
        for more in [&[][..], &internal] {
            let annotations: Vec<_> = annotations
                .iter()
                .map(|(key, value)| (key.as_str(), value.as_str()))
                .collect();
            let provider = harness.started().await;
            let mut web = service(&[&annotations, more].concat(), json!({}));
            harness.ensure(&provider, &mut web).await.unwrap();
            let expected = if more.is_empty() {
                &expected[..]
            } else {
                &expected[..1]
            };
            assert_eq!(
                harness.balancer("loadbalancer")["subnetIds"],
                json!(expected),
                "{annotations:?}"
            );
            harness.delete(&provider, &web).await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn listener_with_the_protocol_in_lower_case_is_the_services() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut web = service(&[], json!({}));
    harness.ensure(&provider, &mut web).await.unwrap();
    {
        let id = harness.balancer("loadbalancer")["id"]
            .as_str()
            .unwrap()
            .to_owned();
        let mut cloud = harness.fake.lock();
        let listeners = &mut cloud.objects.get_mut(&id).unwrap()["listeners"];
        let mut listener = listeners["TCP-80"].take();
        (listener["name"], listener["protocol"]) = ("http-80".into(), "HTTP".into());
        *listeners = json!({"http-80": listener});
    }
    let mut http = service(&[(&format!("{LB}backend-protocol"), "http")], json!({}));
    http.status.clone_from(&web.status);
    let provider = harness.started().await;
    harness.ensure(&provider, &mut http).await.unwrap();
    assert_eq!(harness.fake.fault_injector().changes(), []);
}

#[tokio::test(start_paused = true)]
async fn load_balancers_in_creation_are_polled_with_one_list() {
    let harness = Harness::new();
    harness.fake.lock().work_time = std::time::Duration::from_secs(20);
    let provider = harness.started().await;
    let mode = format!("{OCI}security-rule-management-mode");
    let uid = |number: usize| format!("{number:08}-3f3e-4c57-a1b5-9f5f2a7d8c11");
    let web = |number| {
        other_service(
            &format!("web-{number}"),
            &uid(number),
            &[(&mode, "None")],
            80,
        )
    };
    let mut services: Vec<_> = (0..10).map(web).collect();
    let all = services
        .iter_mut()
        .map(|service| harness.ensure(&provider, service));
    assert!(
        futures::future::join_all(all)
            .await
            .iter()
            .all(Result::is_ok)
    );
    let requests = harness.fake.fault_injector().requests();
    let count = |route: &str| {
        requests
            .iter()
            .filter(|request| request.route == route)
            .count()
    };
    assert_eq!(
        (
            count("POST /loadBalancers"),
            count("GET /networkLoadBalancers")
        ),
        (10, 1)
    );
    // One of each names the load balancer, and one or two are polled alone.
    let work = count("GET /loadBalancerWorkRequests/{id}");
    // One of all, one for each new Service before its creation, and a poll every few seconds.
    let lists = count("GET /loadBalancers");
    assert!(
        work <= 20 && lists <= 25,
        "{work} reads of work requests, {lists} lists"
    );
}

#[tokio::test(start_paused = true)]
async fn machines_that_cannot_be_read_do_not_prove_that_a_load_balancer_is_gone() {
    let harness = Harness::new();
    let mut web = service(&[], json!({}));
    harness
        .ensure(&harness.started().await, &mut web)
        .await
        .unwrap();
    // The credential of another tenancy shows no load balancer.
    harness.fake.lock().is_confused = true;
    harness.fake.fault_injector().fail(Fault::refused_as(
        "GET /instances/{id}",
        400,
        "InvalidParameter",
        "odd",
    ));
    let error = harness
        .delete(&harness.started().await, &web)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("cannot verify that load balancer") && error.contains("odd"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn load_balancer_of_a_user_is_adopted_and_kept() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let id = harness.fake.lock().add_balancer("theirs");
    {
        let mut cloud = harness.fake.lock();
        let balancer = cloud.objects.get_mut(&id).unwrap();
        let set = balancer["backendSets"]["TCP-80"].clone();
        let listener = json!({"port": 8080, "protocol": "HTTP", "defaultBackendSetName": "site"});
        balancer["backendSets"] = json!({"site": set});
        balancer["listeners"] = json!({"site": listener});
    }
    let mut web = service(&[(&format!("{OCI}load-balancer-id"), &id)], json!({}));
    harness.ensure(&provider, &mut web).await.unwrap();
    let made = harness.balancer("loadbalancer");
    assert_eq!(
        made["listeners"]
            .as_object()
            .map(|listeners| listeners.keys().cloned().collect::<Vec<_>>()),
        Some(vec!["TCP-80".to_owned(), "site".to_owned()])
    );
    harness.fake.fault_injector().forget_requests();
    harness.ensure(&provider, &mut web).await.unwrap();
    assert_eq!(harness.changes(), [""; 0]);
    harness.delete(&provider, &web).await.unwrap();
    let made = harness.balancer("loadbalancer");
    assert_eq!(
        (&made["displayName"], &made["freeformTags"]),
        (&json!("theirs"), &json!({}))
    );
}

#[tokio::test(start_paused = true)]
async fn message_of_a_failed_work_request_is_the_error_of_the_service() {
    for (kind, route) in [
        ("lb", "PUT /loadBalancers/{id}/{part}/{name}"),
        ("nlb", "PUT /networkLoadBalancers/{id}/{part}/{name}"),
    ] {
        let harness = Harness::new();
        let provider = harness.started().await;
        let mut web = service(&[(KIND, kind)], json!({}));
        harness.ensure(&provider, &mut web).await.unwrap();
        harness.add_node("worker-3");
        harness
            .fake
            .fault_injector()
            .fail(Fault::ends_in_error(route, "backend is not allowed"));
        let error = harness
            .ensure(&provider, &mut web)
            .await
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("work request") && error.contains("backend is not allowed"),
            "{error}"
        );
        harness.fake.fault_injector().clear_faults();
        tokio::time::sleep(std::time::Duration::from_secs(70)).await;
        harness.ensure(&provider, &mut web).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn reserved_ip_is_used_if_it_is_available() {
    let harness = Harness::new();
    let provider = harness.started().await;
    harness.fake.lock().add_public_ip("192.0.2.7", "AVAILABLE");
    harness.fake.lock().add_public_ip("192.0.2.8", "ASSIGNED");
    let web = |ip: &str| service(&[], json!({"loadBalancerIP": ip}));
    for (ip, expected) in [
        ("192.0.2.8", "is in use"),
        ("192.0.2.9", "there is no reserved public IP"),
        ("odd", "is not an IP address"),
    ] {
        for error in [
            harness.plan(&provider, &web(ip)).await.unwrap_err(),
            harness.ensure(&provider, &mut web(ip)).await.unwrap_err(),
        ] {
            assert!(
                error.is_invalid() && error.to_string().contains(expected),
                "{error}"
            );
        }
    }
    let mut good = web("192.0.2.7");
    let status = harness.ensure(&provider, &mut good).await.unwrap();
    assert_eq!(status.ingress.unwrap()[0].ip.as_deref(), Some("192.0.2.7"));
    let mut other = web("192.0.2.9");
    other.status.clone_from(&good.status);
    let error = harness
        .ensure(&provider, &mut other)
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("keeps its address"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn tag_namespace_of_oke_is_left_out_if_it_is_refused() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let tags = r#"{"orcl-containerengine": {"Cluster": "c"}, "cost": {"center": "7"}}"#;
    let message = "TagNamespace orcl-containerengine does not exist or is not part of compartment";
    let fault = Fault::refused_as(
        "POST /loadBalancers",
        400,
        "RelatedResourceNotAuthorizedOrNotFound",
        message,
    );
    harness.fake.fault_injector().fail(fault.times(1));
    let freeform = format!("{OCI}initial-freeform-tags-override");
    let mut web = service(
        &[
            (&format!("{OCI}initial-defined-tags-override"), tags),
            (&freeform, r#"{"team": "web"}"#),
        ],
        json!({}),
    );
    harness.ensure(&provider, &mut web).await.unwrap();
    let made = harness.balancer("loadbalancer");
    assert_eq!(
        (&made["definedTags"], &made["freeformTags"]["team"]),
        (&json!({"cost": {"center": "7"}}), &json!("web"))
    );
}

#[tokio::test(start_paused = true)]
async fn mistakes_in_annotations_are_reported_before_any_request() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let nlb = |more: &[(&str, &'static str)]| {
        let kind = (KIND.to_owned(), "nlb");
        more.iter()
            .map(|(key, value)| (format!("{NLB}{key}"), *value))
            .chain([kind])
            .collect::<Vec<_>>()
    };
    let lb = |key: &str, value: &'static str| vec![(format!("{LB}{key}"), value)];
    let oci = |key: &str, value: &'static str| vec![(format!("{OCI}{key}"), value)];
    let udp = json!({"ports": [port(53, "UDP")]});
    let table = [
        (
            lb("shape", "flexible"),
            json!({}),
            "shape-flex-min is missing",
        ),
        (
            lb("health-check-interval", "999"),
            json!({}),
            "health-check-interval",
        ),
        (lb("internal", "perhaps"), json!({}), "internal"),
        (
            lb("connection-idle-timeout", "foo"),
            json!({}),
            "connection-idle-timeout",
        ),
        (
            lb("connection-proxy-protocol-version", "v2"),
            json!({}),
            "connection-proxy-protocol-version",
        ),
        (
            lb("backend-protocol", "UDPX"),
            json!({}),
            "one of TCP, HTTP, GRPC",
        ),
        (lb("backend-protocol", "GRPC"), json!({}), "needs TLS"),
        (
            [lb("backend-protocol", "GRPC"), lb("ssl-ports", "80")].concat(),
            json!({}),
            "needs TLS",
        ),
        (
            oci("oci-network-security-groups", "a,b,c,d,e,f"),
            json!({}),
            "at most five",
        ),
        (
            oci("oci-network-security-groups", "a,b,"),
            json!({}),
            "an item is empty",
        ),
        (
            oci("initial-freeform-tags-override", "{"),
            json!({}),
            "initial-freeform-tags-override",
        ),
        (
            lb("tls-secret", "payments/web-tls"),
            json!({}),
            "is not in namespace default of the Service",
        ),
        (
            lb("tls-backendset-secret", "payments/web-tls"),
            json!({}),
            "add \"payments\" to loadBalancer.secretNamespaces",
        ),
        (
            lb("tls-secret", "x/../../v1?/web"),
            json!({}),
            "is not the name of a Secret, or NAMESPACE/NAME",
        ),
        (
            lb("tls-secret", "../web-tls"),
            json!({}),
            "is not the name of a Secret, or NAMESPACE/NAME",
        ),
        (
            oci("initial-freeform-tags-override", OWN_GROUP),
            json!({}),
            "is reserved",
        ),
        (
            oci(
                "initial-freeform-tags-override",
                r#"{"CCM-RS/Adopted": "true"}"#,
            ),
            json!({}),
            "is reserved",
        ),
        (
            oci("initial-freeform-tags-override", r#"{"serviceuid": "u"}"#),
            json!({}),
            "is reserved",
        ),
        (
            nlb(&[("initial-freeform-tags-override", OWN_GROUP)]),
            json!({}),
            "initial-freeform-tags-override: \"ccm-rs/",
        ),
        (
            nlb(&[("freeform-tags", OWN_GROUP)]),
            json!({}),
            "is reserved",
        ),
        (
            oci("security-rule-management-mode", "SL-Some"),
            json!({}),
            "security-rule-management-mode",
        ),
        (
            oci("loadbalancer-policy", "RANDOM"),
            json!({}),
            "ROUND_ROBIN",
        ),
        (oci("ingress-ip-mode", "odd"), json!({}), "ingress-ip-mode"),
        (
            oci("workload-service-account", ""),
            json!({}),
            "is not the name of a ServiceAccount",
        ),
        (
            oci("load-balancer-id", "ocid1.networkloadbalancer.oc1.phx.a"),
            json!({}),
            "is not the OCID of a load balancer of type lb",
        ),
        (vec![], udp.clone(), "serves no UDP port"),
        (
            vec![],
            json!({"sessionAffinity": "ClientIP"}),
            "sessionAffinity must be None",
        ),
        (
            vec![],
            json!({"ipFamilies": ["IPv6"]}),
            "cannot be reached by IPv6 alone",
        ),
        (
            nlb(&[("security-list-management-mode", "All")]),
            udp,
            "security lists get no rules for UDP",
        ),
        (
            nlb(&[("health-check-interval", "5000")]),
            json!({}),
            "health-check-interval",
        ),
        (
            nlb(&[("is-preserve-source", "true")]),
            json!({}),
            "only with externalTrafficPolicy: Local",
        ),
        (
            nlb(&[("backend-policy", "ROUND_ROBIN")]),
            json!({}),
            "FIVE_TUPLE",
        ),
        (
            vec![(format!("{NLB}assigned-private-ipv4"), "10.0.0.9")],
            json!({}),
            "network load balancers (nlb) only",
        ),
    ];
    for (annotations, more, expected) in table {
        let error = harness
            .ensure(&provider, &mut annotated(&annotations, more))
            .await
            .unwrap_err();
        assert!(
            error.is_invalid() && error.to_string().contains(expected),
            "{expected}: {error}"
        );
    }
    assert_eq!(harness.changes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn subnets_and_groups_of_annotations_are_limited_to_those_of_the_configuration() {
    let harness = Harness::new();
    let text = configuration(&api_key(TENANCY, KEY), "http://oci");
    let allowed = format!(
        "loadBalancer:\n  allowedSubnets: [{NODE_SUBNET}]\n  allowedSecurityGroups: [mine]\n"
    );
    let text = text.replace("loadBalancer:\n", &allowed);
    let provider = harness
        .started_with(text, &[], &in_process(harness.fake.router()))
        .await;
    let nlb = (KIND.to_owned(), "nlb");
    let table = [
        (
            vec![(format!("{LB}subnet1"), "theirs")],
            "subnet1: theirs is not in loadBalancer.allowedSubnets",
        ),
        (
            vec![(format!("{LB}subnet2"), "theirs")],
            "subnet2: theirs is not in loadBalancer.allowedSubnets",
        ),
        (
            vec![(format!("{NLB}subnet"), "theirs"), nlb.clone()],
            "subnet: theirs is not in loadBalancer.allowedSubnets",
        ),
        (
            vec![(format!("{OCI}oci-network-security-groups"), "mine,theirs")],
            "theirs is not in loadBalancer.allowedSec",
        ),
        (
            vec![(format!("{OCI}oci-backend-network-security-group"), "theirs")],
            "theirs is not in loadBalancer.allowedSec",
        ),
        (
            vec![(format!("{NLB}oci-network-security-groups"), "theirs"), nlb],
            "theirs is not in loadBalancer.allowedSec",
        ),
    ];
    for (annotations, expected) in table {
        let error = harness
            .ensure(&provider, &mut annotated(&annotations, json!({})))
            .await
            .unwrap_err();
        assert!(
            error.is_invalid() && error.to_string().contains(expected),
            "{expected}: {error}"
        );
    }
    assert_eq!(harness.changes(), [""; 0]);
    for subnet in [LB_SUBNET, NODE_SUBNET] {
        let mut web = annotated(&[(format!("{LB}subnet1"), subnet)], json!({}));
        harness.ensure(&provider, &mut web).await.unwrap();
        harness.delete(&provider, &web).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn doctor_names_the_policy_statement_that_is_missing() {
    for (route, statement, is_failure) in [
        (
            "GET /instances",
            "to read instance-family in compartment id",
            true,
        ),
        (
            "GET /networkSecurityGroups",
            "to manage network-security-groups in compartment id",
            false,
        ),
        (
            "GET /loadBalancers",
            "to manage load-balancers in compartment id",
            false,
        ),
        (
            "GET /networkLoadBalancers",
            "to manage network-load-balancers in compartment id",
            false,
        ),
    ] {
        let harness = Harness::new();
        let provider = harness.started().await;
        let fault = Fault::refused_as(
            route,
            404,
            "NotAuthorizedOrNotFound",
            "not authorized, or not found",
        );
        harness.fake.fault_injector().fail(fault);
        let findings = provider.diagnose().await;
        let found: Vec<_> = findings
            .iter()
            .filter(|finding| finding.severity != cloud_provider::Severity::Ok)
            .collect();
        assert_eq!(found.len(), 1, "{route}: {findings:?}");
        assert!(
            format!("{:?}", found[0]).contains(statement),
            "{findings:?}"
        );
        assert_eq!(
            found[0].severity == cloud_provider::Severity::Failure,
            is_failure,
            "{route}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn missing_subnet_and_family_are_reported() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut web = annotated(
        &[(format!("{LB}subnet1"), "ocid1.subnet.oc1.phx.missing")],
        json!({}),
    );
    let error = harness.ensure(&provider, &mut web).await.unwrap_err();
    assert!(
        error.is_invalid() && error.to_string().contains("does not exist, or"),
        "{error}"
    );
    let mut web = service(
        &[(KIND, "nlb")],
        json!({"ipFamilyPolicy": "RequireDualStack"}),
    );
    let error = harness.ensure(&provider, &mut web).await.unwrap_err();
    assert!(
        error.is_invalid() && error.to_string().contains("has no IPv6 range"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn explain_shows_the_health_of_backends() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut web = service(&[], json!({}));
    harness.ensure(&provider, &mut web).await.unwrap();
    let described = harness.describe(&provider, &web).await;
    assert!(
        described.contains("critical") && described.contains("ok"),
        "{described}"
    );
    assert!(
        provider
            .diagnose()
            .await
            .iter()
            .all(|finding| finding.severity == cloud_provider::Severity::Ok)
    );
}

#[tokio::test(start_paused = true)]
async fn durations_of_changes_are_pushed_if_the_configuration_asks_for_it() {
    let harness = Harness::new();
    let place = "metrics: {compartmentID: c, namespace: ccm, resourceGroup: g, prefix: test_}\n";
    let provider = harness.started_as(&[], place).await;
    let mode = format!("{OCI}security-rule-management-mode");
    let mut web = service(&[(KIND, "nlb"), (&mode, "NSG")], json!({}));
    harness.ensure(&provider, &mut web).await.unwrap();
    harness.delete(&provider, &web).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let requests = harness.fake.fault_injector().requests();
    let bodies = requests
        .iter()
        .filter(|request| request.route == "POST /metrics")
        .map(|request| &request.body["metricData"][0]);
    let names: Vec<_> = bodies
        .clone()
        .map(|bodies| bodies["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        names,
        [
            "test_NSG_PROVISION",
            "test_NLB_PROVISION",
            "test_NLB_UPDATE",
            "test_NSG_DELETE",
            "test_NLB_DELETE",
        ]
    );
    assert!(
        bodies
            .clone()
            .all(|body| body["datapoints"][0]["value"].is_number() && body["namespace"] == "ccm")
    );
}
