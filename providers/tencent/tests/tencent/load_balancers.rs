//! Load balancers: the scenarios of the specification, and the names and tags in the cloud.

use cloud_provider::{Caches, CloudProvider};
use serde_json::{Value, json};
use tencent_fake::{Fault, VPC};

use crate::harness::{Harness, UID, annotate, service, service_of};
use crate::profile::add_balancer;

pub(crate) const TYPE: &str = "service.beta.kubernetes.io/tencentcloud-loadbalancer-type";
pub(crate) const SUBNET: &str =
    "service.beta.kubernetes.io/tencentcloud-loadbalancer-type-internal-subnet-id";
pub(crate) const NAME: &str = "service.beta.kubernetes.io/tencentcloud-loadbalancer-name";
pub(crate) const EXISTING: &str = "service.kubernetes.io/tke-existed-lbid";
pub(crate) const BANDWIDTH: &str =
    "service.kubernetes.io/qcloud-loadbalancer-internet-max-bandwidth-out";
pub(crate) const GROUPS: &str = "service.cloud.tencent.com/security-groups";
pub(crate) const PROTOCOLS: &str = "service.cloud.tencent.com/specify-protocol";
pub(crate) const LISTENER: &str = "service.kubernetes.io/service.listenerParameters";
pub(crate) const EXTENSIVE: &str = "service.kubernetes.io/service.extensiveParameters";
pub(crate) const PASS: &str = "service.cloud.tencent.com/pass-to-target";
pub(crate) const PROTECTION: &str = "service.cloud.tencent.com/modification-protection";
pub(crate) const BACKENDS: &str = "service.kubernetes.io/qcloud-loadbalancer-backends-label";
pub(crate) const KIND: &str = "service.beta.kubernetes.io/tencentcloud-loadbalancer-kind";
pub(crate) const DIRECT: &str = "service.cloud.tencent.com/direct-access";

pub(crate) const CREATION: [&str; 3] = [
    "CreateLoadBalancer",
    "CreateListener",
    "BatchRegisterTargets",
];

pub(crate) fn tags(balancer: &Value) -> Vec<String> {
    let all = balancer["Tags"].as_array().unwrap().iter();
    let mut all: Vec<_> = all
        .map(|object| {
            format!(
                "{}={}",
                object["TagKey"].as_str().unwrap(),
                object["TagValue"].as_str().unwrap()
            )
        })
        .collect();
    all.sort();
    all
}

#[tokio::test(start_paused = true)]
async fn plain_service_gets_a_public_load_balancer_with_the_tags_of_tke() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut service = service(&[]);
    let status = harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!(harness.changes(), CREATION);
    let balancer = harness.only("balancer");
    assert_eq!(balancer["LoadBalancerName"], "5c1d_default_web");
    assert_eq!(
        (&balancer["LoadBalancerType"], &balancer["VpcId"]),
        (&json!("OPEN"), &json!(VPC))
    );
    let expected = [
        "tke-clusterId=5c1d",
        "tke-createdBy-flag=yes",
        &format!("tke-lb-serviceuuid={UID}"),
    ];
    assert_eq!(tags(&balancer), expected);
    let listener = harness.only("listener");
    assert_eq!(listener["ListenerName"], format!("{UID}_tcp_80"));
    let check = &listener["HealthCheck"];
    assert_eq!(
        (
            &check["CheckType"],
            &check["SourceIpType"],
            &check["TimeOut"]
        ),
        (&json!("TCP"), &json!(1), &json!(2))
    );
    assert_eq!(
        harness.targets(),
        ["80 ins-t0000001 30080 10", "80 ins-t0000002 30080 10"]
    );
    assert_eq!(
        status.ingress.unwrap()[0].ip.as_deref(),
        balancer["LoadBalancerVips"][0].as_str()
    );
    harness.ensure(&provider, &mut service).await.unwrap();
    let restarted = harness.started().await;
    harness.ensure(&restarted, &mut service).await.unwrap();
    assert!(
        harness.changes().is_empty(),
        "a second sync and a restart change nothing"
    );
    harness.delete(&restarted, &service).await.unwrap();
    assert_eq!(harness.changes(), ["DeleteLoadBalancer"]);
    harness.delete(&restarted, &service).await.unwrap();
    assert!(
        harness.changes().is_empty(),
        "an absent load balancer is deleted without a request"
    );
}

#[tokio::test(start_paused = true)]
async fn known_load_balancer_is_not_searched_for_by_id_and_address() {
    let harness = Harness::new();
    let mut service = service(&[]);
    harness
        .ensure(&harness.started().await, &mut service)
        .await
        .unwrap();
    let restarted = harness.started().await;
    harness.delete(&restarted, &service).await.unwrap();
    let reads = harness
        .fake
        .fault_injector()
        .count("GET /clb/DescribeLoadBalancers/some");
    assert_eq!(
        reads, 2,
        "the search by owner tag, and the load balancer with its resources"
    );
}

#[tokio::test(start_paused = true)]
async fn load_balancers_that_are_read_at_the_same_time_share_requests() {
    let harness = Harness::new();
    let ids: Vec<_> = (0..30)
        .map(|number| add_balancer(&mut harness.fake.lock(), &format!("mine-{number}")))
        .collect();
    let provider = harness.started().await;
    let services = ids.iter().map(|id| {
        let mut service = service(&[(EXISTING, id)]);
        service.metadata.uid = Some(format!("uid-{id}"));
        service.metadata.name = Some(id.clone());
        service
    });
    let services: Vec<_> = services.collect();
    harness.cluster.set_services(services.clone());
    let nodes = harness.cluster.nodes();
    let cluster = crate::harness::cluster();
    futures::future::join_all(services.iter().map(async |service| {
        let request = cloud_provider::LoadBalancerRequest {
            cluster: &cluster,
            service,
            nodes: &nodes,
            callbacks: &(),
        };
        provider
            .load_balancers()
            .unwrap()
            .ensure(request)
            .await
            .unwrap();
    }))
    .await;
    assert_eq!(harness.fake.lock().all("listener").len(), 30);
    let bodies = harness
        .fake
        .fault_injector()
        .bodies("GET /clb/DescribeLoadBalancers/some");
    let by_id = bodies
        .iter()
        .filter(|body| !body["LoadBalancerIds"].is_null())
        .count();
    assert!(by_id <= 12, "{by_id} requests for 30 load balancers");
}

#[tokio::test(start_paused = true)]
async fn configured_cluster_id_is_the_owner_tag_and_part_of_the_name() {
    let harness = Harness::new().with("cluster_id", "cls-test");
    let provider = harness.started().await;
    let mut service = service(&[]);
    harness.ensure(&provider, &mut service).await.unwrap();
    let balancer = harness.only("balancer");
    assert_eq!(balancer["LoadBalancerName"], "cls-test_default_web");
    assert_eq!(tags(&balancer)[0], "tke-clusterId=cls-test");
    harness.changes();
    let restarted = harness.started().await;
    harness.ensure(&restarted, &mut service).await.unwrap();
    assert!(harness.changes().is_empty());
    harness.delete(&restarted, &service).await.unwrap();
    assert!(harness.fake.lock().all("balancer").is_empty());
}

#[tokio::test(start_paused = true)]
async fn orphans_of_a_configured_cluster_id_are_found_by_a_process_that_synced_nothing() {
    let harness = Harness::new().with("cluster_id", "cls-test");
    harness
        .ensure(&harness.started().await, &mut service(&[]))
        .await
        .unwrap();
    let provider = harness.started().await;
    let owned = provider
        .load_balancers()
        .unwrap()
        .owned(&crate::harness::cluster())
        .await
        .unwrap();
    assert_eq!(
        owned
            .iter()
            .map(|resource| &*resource.name)
            .collect::<Vec<_>>(),
        ["cls-test_default_web"]
    );
}

#[tokio::test(start_paused = true)]
async fn internal_load_balancer_needs_a_subnet_and_another_type_leads_to_another_load_balancer() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let error = harness
        .ensure(&provider, &mut service(&[(TYPE, "private")]))
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains(SUBNET), "{error}");
    assert!(harness.changes().is_empty());
    let mut service = service(&[(TYPE, "public"), (KIND, "foo")]);
    harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!(harness.only("balancer")["LoadBalancerType"], "OPEN");
    annotate(&mut service, TYPE, "private");
    annotate(&mut service, SUBNET, "subnet-1");
    let status = harness.ensure(&provider, &mut service).await.unwrap();
    let balancer = harness.only("balancer");
    assert_eq!(
        (&balancer["LoadBalancerType"], &balancer["SubnetId"]),
        (&json!("INTERNAL"), &json!("subnet-1"))
    );
    assert_eq!(
        status.ingress.unwrap()[0].ip.as_deref(),
        balancer["LoadBalancerVips"][0].as_str()
    );
    assert_eq!(harness.targets().len(), 2);
    let events = harness.events().join("\n");
    assert!(
        events.contains("LoadBalancerMoved") && events.contains("198.18."),
        "{events}"
    );
}

#[tokio::test(start_paused = true)]
async fn another_subnet_leads_to_another_load_balancer() {
    for is_restarted in [false, true] {
        let harness = Harness::new();
        let mut provider = harness.started().await;
        let mut service = service(&[(TYPE, "private"), (SUBNET, "subnet-1")]);
        let before = harness.ensure(&provider, &mut service).await.unwrap();
        annotate(&mut service, SUBNET, "subnet-2");
        if is_restarted {
            provider = harness.started().await;
        }
        let after = harness.ensure(&provider, &mut service).await.unwrap();
        let balancer = harness.only("balancer");
        assert_eq!(
            (&balancer["SubnetId"], before == after),
            (&json!("subnet-2"), false)
        );
        assert_eq!(harness.targets().len(), 2);
        assert!(harness.events().join("\n").contains("LoadBalancerMoved"));
        harness.changes();
        harness
            .ensure(&harness.started().await, &mut service)
            .await
            .unwrap();
        assert!(harness.changes().is_empty());
        harness.delete(&provider, &service).await.unwrap();
        assert!(harness.fake.lock().all("balancer").is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn changed_charge_type_and_the_type_of_a_users_load_balancer_stay_with_an_event() {
    const CHARGE: &str = "service.kubernetes.io/qcloud-loadbalancer-internet-charge-type";
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut own = service(&[]);
    harness.ensure(&provider, &mut own).await.unwrap();
    harness.changes();
    let restarted = harness.started().await;
    harness.ensure(&restarted, &mut own).await.unwrap();
    for (provider, wanted, kept) in [
        (
            &provider,
            "BANDWIDTH_POSTPAID_BY_HOUR",
            "TRAFFIC_POSTPAID_BY_HOUR",
        ),
        (&restarted, "BANDWIDTH_PACKAGE", "TRAFFIC_POSTPAID_BY_HOUR"),
    ] {
        annotate(&mut own, CHARGE, wanted);
        harness.ensure(provider, &mut own).await.unwrap();
        assert!(harness.changes().is_empty());
        let events = harness.events().join("\n");
        let expected = format!("keeps InternetChargeType {kept}: it cannot be changed to {wanted}");
        assert!(
            events.contains("ImmutableSetting") && events.contains(&expected),
            "{events}"
        );
    }
    harness.delete(&provider, &own).await.unwrap();

    let id = add_balancer(&mut harness.fake.lock(), "mine");
    harness
        .ensure(
            &provider,
            &mut service(&[(EXISTING, &id), (TYPE, "private")]),
        )
        .await
        .unwrap();
    let events = harness.events().join("\n");
    assert!(
        events.contains("keeps LoadBalancerType OPEN: it cannot be changed to INTERNAL"),
        "{events}"
    );
}

#[tokio::test(start_paused = true)]
async fn tags_of_the_user_stand_beside_those_of_the_program() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let extensive = r#"{"Tags": [{"TagKey": "team", "TagValue": "shop"}]}"#;
    let mut service = service(&[(EXTENSIVE, extensive)]);
    harness.ensure(&provider, &mut service).await.unwrap();
    let expected = [
        "team=shop",
        "tke-clusterId=5c1d",
        "tke-createdBy-flag=yes",
        &format!("tke-lb-serviceuuid={UID}"),
    ];
    assert_eq!(tags(&harness.only("balancer")), expected);
    harness.changes();
    harness
        .ensure(&harness.started().await, &mut service)
        .await
        .unwrap();
    assert!(harness.changes().is_empty());
}

#[tokio::test(start_paused = true)]
async fn annotations_that_the_controller_of_tke_writes_cause_no_warning() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let written = [
        "client-token",
        "sync-begin-time",
        "sync-end-time",
        "status.conditions",
        "loadbalancer-source-endpoints",
    ];
    let mut service = service(&[("service.kubernetes.io/loadbalance-nat-ipv6", "2402:4e00::1")]);
    written.iter().for_each(|name| {
        annotate(
            &mut service,
            &format!("service.cloud.tencent.com/{name}"),
            "x",
        );
    });
    assert_eq!(
        provider.load_balancers().unwrap().review(&service).warnings,
        [""; 0]
    );
    annotate(
        &mut service,
        "service.cloud.tencent.com/security-group",
        "sg-1",
    );
    let warnings = provider
        .load_balancers()
        .unwrap()
        .review(&service)
        .warnings
        .join("\n");
    assert!(
        warnings.contains("did you mean service.cloud.tencent.com/security-groups?"),
        "{warnings}"
    );
}

#[tokio::test(start_paused = true)]
async fn requested_address_is_not_missed_before_the_load_balancer_has_one() {
    let harness = Harness::new();
    harness.fake.lock().task = std::time::Duration::from_secs(5);
    let mut service = service(&[(TYPE, "private"), (SUBNET, "subnet-1")]);
    service.spec.as_mut().unwrap().load_balancer_ip = Some("10.1.0.9".to_owned());
    let provider = harness.started().await;
    harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!(harness.only("balancer")["LoadBalancerVips"][0], "10.1.0.9");
    assert!(
        !harness
            .events()
            .join("\n")
            .contains("LoadBalancerIPIgnored")
    );
}

#[tokio::test(start_paused = true)]
async fn listeners_follow_ports_and_protocols_share_a_port() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut service = service(&[]);
    harness.ensure(&provider, &mut service).await.unwrap();
    harness.changes();
    let ports = |ports: Value| service_of(&[], json!({"ports": ports})).spec;
    service.spec = ports(json!([{"port": 81, "nodePort": 30080}]));
    harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!(
        harness.changes(),
        [
            "CreateListener",
            "BatchRegisterTargets",
            "DeleteLoadBalancerListeners"
        ]
    );
    assert_eq!(harness.texts("listener", &["Protocol", "Port"]), ["TCP 81"]);
    let dns = json!([{"name": "t", "port": 53, "nodePort": 30053}, {"name": "u", "port": 53, "nodePort": 30054, "protocol": "UDP"}]);
    service.spec = ports(dns);
    harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!(
        harness.texts("listener", &["Protocol", "Port"]),
        ["TCP 53", "UDP 53"]
    );
    assert_eq!(harness.targets().len(), 4);
    harness.changes();
    harness.ensure(&provider, &mut service).await.unwrap();
    assert!(harness.changes().is_empty());
}

#[tokio::test(start_paused = true)]
async fn listener_that_is_gone_already_keeps_no_other_one() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let ports = json!([{"name": "a", "port": 80, "nodePort": 30080}, {"name": "b", "port": 81, "nodePort": 30081}]);
    let mut service = service_of(&[], json!({"ports": ports}));
    harness.ensure(&provider, &mut service).await.unwrap();
    harness
        .fake
        .lock()
        .remove("listener", |listener| listener["Port"] == 80);
    service.spec = service_of(&[], json!({"ports": [{"port": 82, "nodePort": 30082}]})).spec;
    harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!(harness.texts("listener", &["Port"]), ["82"]);
}

#[tokio::test(start_paused = true)]
async fn protocol_of_a_listener_is_compared_without_case() {
    let harness = Harness::new();
    let ports = json!([{"name": "a", "port": 80, "nodePort": 30080}, {"name": "b", "port": 53, "nodePort": 30053, "protocol": "UDP"}]);
    let mut service = service_of(&[], json!({"ports": ports}));
    harness
        .ensure(&harness.started().await, &mut service)
        .await
        .unwrap();
    for object in harness.fake.lock().each("listener") {
        object["Protocol"] = object["Protocol"].as_str().unwrap().to_lowercase().into();
        object["HealthCheck"]
            .as_object_mut()
            .unwrap()
            .remove("CheckType");
    }
    harness.changes();
    harness
        .ensure(&harness.started().await, &mut service)
        .await
        .unwrap();
    assert!(harness.changes().is_empty());
}

#[tokio::test(start_paused = true)]
async fn affinity_is_clamped_and_settings_are_changed_by_the_smallest_request() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut service = service_of(&[], json!({"sessionAffinity": "ClientIP"}));
    harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!(harness.only("listener")["SessionExpireTime"], 3600);
    harness.changes();
    for (key, value, expected) in [
        (BANDWIDTH, "50", &["ModifyLoadBalancerAttributes"][..]),
        (
            GROUPS,
            "sg-mine1,sg-mine2",
            &["SetLoadBalancerSecurityGroups"],
        ),
        (GROUPS, "sg-mine2,sg-mine1", &[]),
        (PASS, "true", &["ModifyLoadBalancerAttributes"]),
        (PROTECTION, "true", &["ModifyLoadBalancerAttributes"]),
        (
            LISTENER,
            r#"{"HealthCheck": {"IntervalTime": 9}}"#,
            &["ModifyListener"],
        ),
        (
            LISTENER,
            r#"{"IdleConnectTimeout": 60, "HealthCheck": {"IntervalTime": 9}}"#,
            &["ModifyListener"],
        ),
        (BACKENDS, "pool in (a)", &["BatchDeregisterTargets"]),
        (NAME, "another", &[]),
    ] {
        annotate(&mut service, key, value);
        harness.ensure(&provider, &mut service).await.unwrap();
        assert_eq!(harness.changes(), expected, "{key}: {value}");
    }
    let balancer = harness.only("balancer");
    assert_eq!(balancer["NetworkAttributes"]["InternetMaxBandwidthOut"], 50);
    assert_eq!(harness.only("listener")["HealthCheck"]["IntervalTime"], 9);
    harness.delete(&provider, &service).await.unwrap();
    assert_eq!(
        harness.changes(),
        ["ModifyLoadBalancerAttributes", "DeleteLoadBalancer"],
        "its own protection is lifted"
    );
}

#[tokio::test(start_paused = true)]
async fn ip_version_is_compared_without_case() {
    let harness = Harness::new();
    harness
        .ensure(
            &harness.started().await,
            &mut service(&[(EXTENSIVE, r#"{"AddressIPVersion": "ipv4"}"#)]),
        )
        .await
        .unwrap();
    assert_eq!(
        harness.targets(),
        ["80 ins-t0000001 30080 10", "80 ins-t0000002 30080 10"]
    );
}

#[tokio::test(start_paused = true)]
async fn mistakes_are_reported_before_any_request() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let table: &[(&[(&str, &str)], &str)] = &[
        (&[(BANDWIDTH, "4000")], "from 1 to 2048"),
        (&[(GROUPS, "sg-1,sg-2,sg-3,sg-4,sg-5,sg-6")], "1 to 5"),
        (&[(EXTENSIVE, "[]")], "JSON object"),
        (&[(EXTENSIVE, r#"{"Number": 2}"#)], "Number cannot be set"),
        (
            &[(EXTENSIVE, r#"{"LoadBalancerName": "x"}"#)],
            "tencentcloud-loadbalancer-name",
        ),
        (
            &[(EXTENSIVE, r#"{"Vip": "10.1.0.9"}"#)],
            "use spec.loadBalancerIP",
        ),
        (
            &[(EXTENSIVE, r#"{"ClusterIds": ["tgw-1"]}"#)],
            "ClusterIds cannot be set here; remove it; accepted are Address",
        ),
        (
            &[(EXTENSIVE, r#"{"ProjectId": 7}"#)],
            "ProjectId cannot be set",
        ),
        (
            &[(EXTENSIVE, r#"{"LBChargeType": "PREPAID"}"#)],
            "LBChargeType cannot be set",
        ),
        (
            &[
                (
                    EXTENSIVE,
                    r#"{"InternetAccessible": {"InternetMaxBandwidthOut": 1}}"#,
                ),
                (BANDWIDTH, "2"),
            ],
            "internet-max-bandwidth-out",
        ),
        (
            &[(
                EXTENSIVE,
                r#"{"Tags": [{"TagKey": "tke-clusterId", "TagValue": "x"}]}"#,
            )],
            "may not begin with tke- or ccm-rs/",
        ),
        (
            &[(EXTENSIVE, r#"{"Tags": {"team": "shop"}}"#)],
            "TagKey and TagValue",
        ),
        (
            &[
                (TYPE, "private"),
                (SUBNET, "subnet-1"),
                (EXTENSIVE, r#"{"SubnetId": "subnet-2"}"#),
            ],
            "SubnetId cannot be set",
        ),
        (&[(LISTENER, r#"{"Ports": [1]}"#)], "Ports cannot be set"),
        (
            &[(LISTENER, r#"{"EndPort": 65535}"#)],
            "EndPort cannot be set",
        ),
        (
            &[(LISTENER, r#"{"Certificate": {"CertId": "theirs"}}"#)],
            "use annotation service.cloud.tencent.com/specify",
        ),
        (
            &[(LISTENER, r#"{"MultiCertInfo": {}}"#)],
            "MultiCertInfo cannot be set",
        ),
        (
            &[(PROTOCOLS, r#"{"80": {"protocol": ["HTTP"]}}"#)],
            "need an Ingress",
        ),
        (
            &[(PROTOCOLS, r#"{"80": {"protocol": ["TCP_SSL"]}}"#)],
            "TCP_SSL needs tls",
        ),
        (
            &[(EXISTING, "lb-1"), (PASS, "true")],
            "not possible together",
        ),
        (
            &[(EXISTING, "lb-1"), (GROUPS, "sg-mine1")],
            "not possible together",
        ),
        (&[(NAME, "5c1d_bank_web")], "generated for another Service"),
        (
            &[(NAME, "cls-x_default_web")],
            "generated for another Service",
        ),
        (
            &[(NAME, "a0123456789abcdef0123456789abcde")],
            "generated for another Service",
        ),
        (&[(EXISTING, "mine")], "ID such as"),
        (&[(BACKENDS, "a in")], "backends-label"),
    ];
    for (annotations, expected) in table {
        let error = harness
            .ensure(&provider, &mut service(annotations))
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected), "{annotations:?}: {error}");
    }
    assert!(harness.changes().is_empty());
}

#[tokio::test(start_paused = true)]
async fn tls_listener_has_the_certificate_that_its_secret_names() {
    use base64::Engine;
    let harness = Harness::new();
    let provider = harness.started().await;
    let protocols = r#"{"80": {"protocol": ["TCP_SSL"], "tls": "web-tls"}}"#;
    let mut service = service(&[(PROTOCOLS, protocols)]);
    let error = harness
        .ensure(&provider, &mut service)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("web-tls") && error.contains("does not exist"),
        "{error}"
    );
    for certificate in ["cert-1", "cert-2"] {
        let id = base64::engine::general_purpose::STANDARD.encode(certificate);
        let secret = json!({"data": {"qcloud_cert_id": id}}).to_string();
        harness
            .cluster
            .set_document("/api/v1/namespaces/default/secrets/web-tls", secret);
        harness.ensure(&provider, &mut service).await.unwrap();
        let listener = harness.only("listener");
        assert_eq!(
            (&listener["Protocol"], &listener["Certificate"]["CertId"]),
            (&json!("TCP_SSL"), &json!(certificate))
        );
    }
    service.metadata.annotations = None;
    harness.ensure(&provider, &mut service).await.unwrap();
    assert_eq!(
        harness.only("listener")["Protocol"],
        "TCP",
        "another protocol needs another listener"
    );
    assert_eq!(harness.targets().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn skipped_service_is_left_to_another_controller() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let error = harness
        .ensure(
            &provider,
            &mut service(&[("service.cloud.tencent.com/mode", "skip")]),
        )
        .await
        .unwrap_err();
    assert!(error.is_implemented_elsewhere(), "{error}");
    assert!(harness.changes().is_empty());
}

#[tokio::test(start_paused = true)]
async fn unsupported_annotations_and_fixed_settings_become_events() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut service = service(&[
        (KIND, "classic"),
        ("service.cloud.tencent.com/tke-service-config", "x"),
    ]);
    service.spec.as_mut().unwrap().load_balancer_ip = Some("192.0.2.9".to_owned());
    harness.ensure(&provider, &mut service).await.unwrap();
    let events = harness.events().join("\n");
    for expected in ["kind classic", "TkeServiceConfig", "LoadBalancerIPIgnored"] {
        assert!(events.contains(expected), "{expected}: {events}");
    }
}

#[tokio::test(start_paused = true)]
async fn creation_that_fails_in_the_background_is_repeated() {
    let harness = Harness::new();
    harness.fake.lock().task = std::time::Duration::from_secs(2);
    let provider = harness.started().await;
    harness
        .fake
        .fault_injector()
        .fail(Fault::ends_in_error("POST /clb/CreateLoadBalancer", "sold out").times(1));
    let mut service = service(&[]);
    for _ in 0..3 {
        if harness.ensure(&provider, &mut service).await.is_ok() {
            break;
        }
    }
    assert_eq!(harness.targets().len(), 2);
    assert_eq!(harness.fake.lock().all("balancer").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn protected_load_balancer_stays() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut service = service(&[]);
    harness.ensure(&provider, &mut service).await.unwrap();
    harness.fake.lock().each("balancer")[0]["AttributeFlags"] = json!(["DeleteProtect"]);
    let error = harness
        .delete(&harness.started().await, &service)
        .await
        .unwrap_err();
    assert!(error.is_protected(), "{error}");
    assert!(provider.load_balancers().is_some() && harness.fake.lock().all("balancer").len() == 1);
}
