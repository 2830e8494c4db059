use cloud_provider::{ConfigFile, Setup};
use provider_kit::load_balancers::{ResourceKey, plan};
use serde_json::Value;

use super::*;
use crate::config::Config;

/// Returns a configuration without settings of load balancers.
pub(in crate::balancers) fn config() -> Balancers {
    configured("")
}

/// Returns a configuration with these lines of `[LoadBalancer]`.
pub(in crate::balancers) fn configured(lines: &str) -> Balancers {
    let text = "[Global]\nauth-url=http://127.0.0.1:1\nuser-id=u\npassword=p\ntenant-id=t\n[LoadBalancer]\n";
    let file = ConfigFile {
        path: "cloud.conf".into(),
        text: format!("{text}{lines}"),
    };
    Config::read(&Setup::of(file)).unwrap().balancers.unwrap()
}

/// Returns a Service with one port, unless `spec` has others.
pub(in crate::balancers) fn service(metadata: Value, spec: Value) -> Service {
    let mut whole = json!({"metadata": {"namespace": "shop", "name": "web", "uid": "u1"}, "spec": {"ports": [port(80, 30080)]}});
    for (key, more) in [("metadata", metadata), ("spec", spec)] {
        whole[key]
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
    }
    serde_json::from_value(whole).unwrap()
}

fn port(number: u16, node_port: u16) -> Value {
    json!({"port": number, "nodePort": node_port})
}

fn amphora() -> Features {
    Features::of((2, 27), "amphora")
}

struct Case {
    annotations: Value,
    spec: Value,
    config: Balancers,
    features: Features,
    vip: VipPlacement,
    second_subnet: Option<String>,
}

impl Default for Case {
    fn default() -> Self {
        let vip = VipPlacement {
            subnet: Some("s1".into()),
            ..VipPlacement::default()
        };
        Self {
            annotations: json!({}),
            spec: json!({}),
            config: config(),
            features: amphora(),
            vip,
            second_subnet: None,
        }
    }
}

impl Case {
    fn annotated(annotations: &[(&str, &str)]) -> Self {
        let pairs = annotations
            .iter()
            .map(|(key, value)| (format!("loadbalancer.openstack.org/{key}"), json!(value)));
        Self {
            annotations: Value::Object(pairs.collect()),
            ..Self::default()
        }
    }

    fn of_spec(spec: Value) -> Self {
        Self {
            spec,
            ..Self::default()
        }
    }

    fn with(self, features: Features) -> Self {
        Self { features, ..self }
    }

    fn graph(&self) -> ResourceGraph {
        let spec = ServiceSpec::of(
            &service(json!({"annotations": self.annotations}), self.spec.clone()),
            &self.config,
        )
        .spec
        .unwrap();
        let facts = Facts {
            features: self.features,
            vip: self.vip.clone(),
            second_subnet: self.second_subnet.clone(),
            member_subnet: spec.member_subnet.clone(),
            targets: ["a 10.0.0.4", "b 10.0.0.5"].into_iter().collect(),
            group: None,
            has_floating_network: true,
        };
        wanted(&spec, &self.config, facts)
    }

    fn listener(&self) -> Value {
        self.graph().listeners().next().unwrap().1.nested()
    }

    fn pool(&self) -> (String, Value) {
        let graph = self.graph();
        let mut pools = graph
            .resources
            .iter()
            .filter_map(|(resource, settings)| match resource {
                ResourceKey::Pool(name) => Some((name.clone(), settings.nested())),
                _ => None,
            });
        pools.next_back().unwrap()
    }

    fn balancer(&self) -> Value {
        self.graph().balancer_attributes().unwrap().nested()
    }
}

#[test]
fn a_plain_listener_has_a_protocol_a_limit_and_what_octavia_can_do() {
    let listener = Case::default()
        .with(Features::of((2, 0), "amphora"))
        .listener();
    let plain = json!({
        "protocol": "TCP", "connection_limit": -1, "insert_headers": {"X-Forwarded-For": null},
        "default_tls_container_ref": null,
        "pool": "80/TCP TCP",
    });
    assert_eq!(listener, plain, "no tags, no time-outs, no ranges");
    let mut full = plain;
    let more = json!({
        "tagged": true, "allowed_cidrs": ["0.0.0.0/0"], "timeout_client_data": 50_000, "timeout_member_connect": 5_000,
        "timeout_member_data": 50_000, "timeout_tcp_inspect": 0,
    });
    full.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    assert_eq!(Case::default().listener(), full);
    let ovn = Case::default()
        .with(Features::of((2, 27), "ovn"))
        .listener();
    assert!(
        ovn["tagged"] == true
            && ovn.get("allowed_cidrs").is_none()
            && ovn.get("timeout_client_data").is_none()
    );
}

#[test]
fn a_listener_ends_tls_and_tells_of_the_client_as_annotated() {
    let tls = ("default-tls-container-ref", "https://keys/v1/secrets/s");
    let header = ("x-forwarded-for", "true");
    let table = [
        (vec![tls], "TERMINATED_HTTPS", json!(tls.1), false),
        (vec![tls, header], "TERMINATED_HTTPS", json!(tls.1), true),
        (vec![header], "HTTP", Value::Null, true),
    ];
    for (given, protocol, reference, has_header) in table {
        let listener = Case::annotated(&given).listener();
        assert_eq!(listener["protocol"], protocol, "{given:?}");
        assert_eq!(
            listener["default_tls_container_ref"], reference,
            "{given:?}"
        );
        assert_eq!(
            listener["insert_headers"]["X-Forwarded-For"] == "true",
            has_header,
            "{given:?}"
        );
    }
    assert_eq!(
        Case::annotated(&[("connection-limit", "100")]).listener()["connection_limit"],
        100
    );
}

#[test]
fn source_ranges_are_allowed_in_order() {
    let spec = json!({"loadBalancerSourceRanges": ["203.0.113.0/24", "10.0.0.0/8"]});
    let listener = Case::of_spec(spec).listener();
    assert_eq!(
        listener["allowed_cidrs"],
        json!(["10.0.0.0/8", "203.0.113.0/24"])
    );
}

// `additional_vips`
#[test]
fn with_a_second_vip_both_families_are_let_in_and_without_one_the_first() {
    let spec = json!({"ipFamilies": ["IPv4", "IPv6"]});
    let one = Case::of_spec(spec.clone());
    assert_eq!(
        (
            &one.listener()["allowed_cidrs"],
            one.balancer().get("additional_vips")
        ),
        (&json!(["0.0.0.0/0"]), None)
    );
    let two = Case {
        second_subnet: Some("s6".into()),
        ..Case::of_spec(spec)
    };
    assert_eq!(
        two.balancer()["additional_vips"],
        json!([{"subnet_id": "s6"}])
    );
    assert_eq!(
        two.listener()["allowed_cidrs"],
        json!(["0.0.0.0/0", "::/0"])
    );
    let operations = plan(&two.graph(), &one.graph());
    assert!(
        operations
            .iter()
            .all(|operation| !format!("{operation:?}").contains("additional_vips")),
        "not later: {operations:?}"
    );
}

#[test]
fn a_listener_that_must_speak_otherwise_is_removed_before_it_is_made_anew() {
    let plain = Case::default().graph();
    let http = Case::annotated(&[("x-forwarded-for", "true")]).graph();
    let names: Vec<_> = plan(&http, &plain)
        .iter()
        .map(|operation| format!("{operation:?}"))
        .collect();
    let at = |text: &str| {
        names
            .iter()
            .position(|name| name.starts_with(text))
            .unwrap()
    };
    assert!(
        at("Delete { resource: Listener") < at("Create { resource: Listener"),
        "{names:#?}"
    );
}

#[test]
fn nodes_without_an_address_are_counted_and_a_few_are_named() {
    assert!(
        left_out(&["a"]).starts_with("1 Node is not a member: it has no address "),
        "{}",
        left_out(&["a"])
    );
    assert!(
        left_out(&["a", "b", "c"]).starts_with("3 Nodes ")
            && left_out(&["a", "b", "c"]).ends_with(": a, b, c")
    );
    assert!(
        left_out(&["a", "b", "c", "d"]).starts_with("4 Nodes ")
            && left_out(&["a", "b", "c", "d"]).ends_with(": a, b, c, …")
    );
}

#[test]
fn a_pool_is_named_for_what_cannot_be_changed_on_it() {
    let tls = ("default-tls-container-ref", "https://keys/v1/secrets/s");
    assert_eq!(
        Case::annotated(&[("proxy-protocol", "v1"), tls]).pool().0,
        "80/TCP PROXY"
    );
    assert_eq!(
        Case::annotated(&[("proxy-protocol", "v2")]).pool().0,
        "80/TCP PROXYV2"
    );
    assert_eq!(Case::annotated(&[tls]).pool().0, "80/TCP HTTP");
    assert_eq!(Case::default().pool().0, "80/TCP TCP");
}

#[test]
fn persistence_and_algorithm_follow_the_service() {
    let sticky = Case::of_spec(json!({"sessionAffinity": "ClientIP"}));
    assert_eq!(sticky.pool().1["session_persistence"]["type"], "SOURCE_IP");
    assert_eq!(
        Case::of_spec(json!({"sessionAffinity": "None"})).pool().1["session_persistence"]["type"],
        Value::Null
    );
    let changes = plan(&sticky.graph(), &Case::default().graph());
    assert_eq!(changes.len(), 1, "changed in place: {changes:?}");
    let annotated = Case {
        config: configured("lb-method=SOURCE_IP_PORT"),
        ..Case::annotated(&[("lb-method", "ROUND_ROBIN")])
    };
    assert_eq!(annotated.pool().1["lb_algorithm"], "ROUND_ROBIN");
}

#[test]
fn members_are_checked_by_http_where_the_provider_can() {
    let spec = |protocol: &str, local: bool| {
        let mut spec = json!({"ports": [{"port": 80, "protocol": protocol, "nodePort": 30080}]});
        if local {
            spec["externalTrafficPolicy"] = json!("Local");
            spec["healthCheckNodePort"] = json!(32000);
        }
        spec
    };
    let new = amphora();
    let old = Features::of((2, 15), "amphora");
    let ovn = Features::of((2, 27), "ovn");
    let table = [
        (ovn, "TCP", true, "TCP", Value::Null),
        (new, "TCP", false, "TCP", Value::Null),
        (new, "TCP", true, "HTTP", json!(32000)),
        (new, "UDP", false, "UDP-CONNECT", Value::Null),
        (new, "UDP", true, "HTTP", json!(32000)),
        (old, "UDP", true, "UDP-CONNECT", Value::Null),
        (ovn, "UDP", true, "UDP-CONNECT", Value::Null),
        (new, "SCTP", false, "SCTP", Value::Null),
    ];
    for (features, protocol, local, kind, monitor_port) in table {
        let annotated = Case::annotated(&[("enable-health-monitor", "true")]);
        let pool = Case {
            spec: spec(protocol, local),
            ..annotated
        }
        .with(features)
        .pool()
        .1;
        let mut expected = json!({"type": kind, "delay": 5, "timeout": 3, "max_retries": 1, "max_retries_down": 3});
        if kind == "HTTP" {
            let http =
                json!({"url_path": "/healthz", "http_method": "GET", "expected_codes": "200"});
            expected
                .as_object_mut()
                .unwrap()
                .extend(http.as_object().unwrap().clone());
        }
        assert_eq!(
            (&pool["healthmonitor"], &pool["members"]["monitor_port"]),
            (&expected, &monitor_port),
            "{features:?} {protocol} {local}"
        );
    }
    assert_eq!(
        Case::default().pool().1["healthmonitor"],
        json!({"type": null})
    );
}

#[test]
fn a_port_has_members_only_if_nodes_listen() {
    let none =
        Case::of_spec(json!({"allocateLoadBalancerNodePorts": false, "ports": [{"port": 80}]}));
    assert!(none.graph().targets_of("80/TCP TCP").is_empty());
    assert_eq!(none.pool().1["members"]["protocol_port"], 0);
    let two = Case::default().graph();
    assert_eq!(
        two.targets_of("80/TCP TCP").iter().collect::<Vec<_>>(),
        ["a 10.0.0.4", "b 10.0.0.5"]
    );
    assert_eq!(Case::default().pool().1["members"]["protocol_port"], 30080);
}

#[test]
fn two_ports_of_one_number_are_two_listeners_with_a_pool_each() {
    let spec = json!({"ports": [{"port": 53, "nodePort": 30053}, {"port": 53, "protocol": "UDP", "nodePort": 30053}]});
    let graph = Case::of_spec(spec).graph();
    let listeners: Vec<_> = graph
        .listeners()
        .map(|(port, settings)| format!("{port} {}", settings.text("pool").unwrap()))
        .collect();
    assert_eq!(listeners, ["53/TCP 53/TCP TCP", "53/UDP 53/UDP UDP"]);
}

#[test]
fn what_counts_only_when_it_is_made_is_fixed() {
    let case = Case {
        config: configured("flavor-id=small\navailability-zone=az1"),
        ..Case::default()
    };
    let balancer = case.balancer();
    let expected = json!({"provider": "amphora", "vip_subnet_id": "s1", "flavor_id": "small", "availability_zone": "az1"});
    assert_eq!(balancer, expected);
    assert!(
        plan(&case.graph(), &Case::default().graph()).is_empty(),
        "nothing is moved later"
    );
    let old = case.with(Features::of((2, 5), "amphora")).balancer();
    assert_eq!(old, json!({"provider": "amphora", "vip_subnet_id": "s1"}));
}

#[test]
fn the_wanted_address_is_the_vips_only_where_there_is_no_floating_ip() {
    let front = |graph: &ResourceGraph| {
        graph
            .resources
            .keys()
            .any(|resource| matches!(resource, ResourceKey::CreatedAfter(_)))
    };
    let internal = (
        "service.beta.kubernetes.io/openstack-internal-load-balancer",
        "true",
    );
    let table = [
        (
            json!({"loadBalancerIP": "192.0.2.9", "ipFamilies": ["IPv4"]}),
            false,
            Value::Null,
            true,
        ),
        (
            json!({"loadBalancerIP": "10.0.0.9", "ipFamilies": ["IPv4"]}),
            true,
            json!("10.0.0.9"),
            false,
        ),
        (
            json!({"loadBalancerIP": "fd00::9", "ipFamilies": ["IPv6"]}),
            false,
            json!("fd00::9"),
            false,
        ),
    ];
    for (spec, is_internal, address, has_front) in table {
        let mut case = Case::of_spec(spec);
        if is_internal {
            case.annotations = json!({internal.0: internal.1});
        }
        assert_eq!(case.balancer()["vip_address"], address);
        assert_eq!(front(&case.graph()), has_front);
    }
}
