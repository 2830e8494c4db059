use provider_kit::load_balancers::plan;
use serde_json::Value;

use super::super::wanted::tests::{config, service};
use super::*;
use provider_kit::load_balancers::ResourceGraph;

fn texts(rules: &[Rule]) -> Vec<String> {
    rules.iter().map(ToString::to_string).collect()
}

fn wanted(spec: Value, subnets: &[&str], keeps_senders: bool) -> Vec<Rule> {
    let service = service(json!({}), spec);
    let subnets: Vec<IpNet> = subnets
        .iter()
        .map(|subnet| subnet.parse().unwrap())
        .collect();
    rules(
        &ServiceSpec::of(&service, &config()).spec.unwrap(),
        &service,
        &subnets,
        keeps_senders,
    )
}

fn group(rules: &[Value]) -> Group {
    let rule = |rule: &Value| {
        let mut whole = json!({
            "id": "r", "direction": "ingress", "ethertype": "IPv4", "protocol": "tcp", "port_range_min": 30080,
            "port_range_max": 30080, "remote_ip_prefix": "10.6.0.0/16", "remote_group_id": null,
        });
        whole
            .as_object_mut()
            .unwrap()
            .extend(rule.as_object().unwrap().clone());
        whole
    };
    let rules: Vec<_> = rules.iter().map(rule).collect();
    serde_json::from_value(json!({"id": "g", "name": "lb-sg-x", "security_group_rules": rules}))
        .unwrap()
}

#[test]
fn a_group_is_named_for_its_service() {
    let named = |uid: &str, namespace: &str, name: &str| {
        super::name(&service(
            json!({"uid": uid, "namespace": namespace, "name": name}),
            json!({}),
        ))
    };
    assert_eq!(named("u1", "shop", "web"), "lb-sg-u1-shop-web");
    assert_eq!(super::name(&Service::default()), "lb-sg---");
    assert_eq!(named("u", "n", &"x".repeat(300)).len(), 255);
}

#[test]
fn node_ports_are_opened_to_the_members_subnet() {
    let spec = json!({
        "ports": [
            {"port": 80, "nodePort": 30080}, {"port": 53, "protocol": "UDP", "nodePort": 30053},
            {"port": 99, "protocol": "SCTP"},
        ],
        "healthCheckNodePort": 32000,
    });
    let expected = [
        "ingress IPv4 tcp 30080 10.6.0.0/16",
        "ingress IPv4 tcp 32000 10.6.0.0/16",
        "ingress IPv4 udp 30053 10.6.0.0/16",
    ];
    assert_eq!(texts(&wanted(spec, &["10.6.0.0/16"], false)), expected);
    assert_eq!(
        texts(&wanted(json!({}), &["fd00::/64"], false)),
        ["ingress IPv6 tcp 30080 fd00::/64"]
    );
}

#[test]
fn with_ovn_node_ports_are_opened_to_who_may_reach_the_load_balancer() {
    let spec = json!({"loadBalancerSourceRanges": ["192.0.2.0/24", "203.0.113.0/24"], "healthCheckNodePort": 32000});
    let expected = [
        "ingress IPv4 tcp 30080 192.0.2.0/24",
        "ingress IPv4 tcp 30080 203.0.113.0/24",
        "ingress IPv4 tcp 32000 10.6.0.0/16",
    ];
    assert_eq!(texts(&wanted(spec, &["10.6.0.0/16"], true)), expected);
    assert_eq!(
        texts(&wanted(json!({}), &["10.6.0.0/16"], true)),
        ["ingress IPv4 tcp 30080 0.0.0.0/0"]
    );
}

fn changes(wanted: &[Rule], group: &Group) -> (Vec<Rule>, usize) {
    let present = group.rules();
    let difference = difference(None, wanted, &present);
    (
        difference.add.into_iter().cloned().collect(),
        difference.remove.len(),
    )
}

#[test]
fn rules_are_made_and_removed_as_they_differ() {
    let wanted = wanted(json!({}), &["10.6.0.0/16"], false);
    let defaults = json!({"direction": "egress", "protocol": null, "port_range_min": null, "port_range_max": null, "remote_ip_prefix": null});
    assert_eq!(changes(&[], &group(&[])), (vec![], 0));
    assert_eq!(changes(&wanted, &group(&[json!({})])), (vec![], 0));
    assert_eq!(
        changes(
            &wanted,
            &group(&[json!({"port_range_min": 1, "port_range_max": 1})])
        ),
        (wanted.clone(), 1)
    );
    assert_eq!(
        changes(
            &wanted,
            &group(&[json!({"remote_ip_prefix": "10.0.0.0/8"})])
        ),
        (wanted.clone(), 1)
    );
    assert_eq!(
        changes(&wanted, &group(&[json!({"protocol": "TCP"})])),
        (vec![], 0)
    );
    assert_eq!(
        changes(&wanted, &group(&[json!({"port_range_max": 30081})])),
        (wanted.clone(), 1)
    );
    assert_eq!(
        changes(
            &wanted,
            &group(&[json!({"remote_ip_prefix": null, "remote_group_id": "g2"})])
        ),
        (wanted, 1)
    );
    assert_eq!(changes(&[], &group(&[json!({}), defaults])), (vec![], 2));
}

#[test]
fn a_rule_is_written_as_neutron_takes_it() {
    let expected = json!({
        "security_group_id": "g", "direction": "ingress", "ethertype": "IPv4", "protocol": "tcp", "port_range_min": 30080,
        "port_range_max": 30080, "remote_ip_prefix": "10.6.0.0/16",
    });
    assert_eq!(
        object("g", &"ingress IPv4 tcp 30080 10.6.0.0/16".parse().unwrap()),
        Some(expected)
    );
    assert_eq!(
        object("g", &"egress IPv4 any any group g2".parse().unwrap()),
        None
    );
}

#[test]
fn rules_in_another_division_are_no_change() {
    let settings = |texts: &[&str]| {
        let rules: Vec<Rule> = texts.iter().map(|text| text.parse().unwrap()).collect();
        with_rules(Attributes::default(), &rules)
    };
    let one = "ingress IPv4 tcp 30080 10.6.0.0/16";
    let two = "ingress IPv4 tcp 30081 10.6.0.0/16";
    let wanted = settings(&[one, two]);
    let range = settings(&["ingress IPv4 tcp 30080-30081 10.6.0.0/16"]);
    assert_eq!(fit_to_observed(&wanted, &range), range);
    assert_eq!(fit_to_observed(&settings(&[one]), &range), settings(&[one]));
    assert_eq!(
        fit_to_observed(&Attributes::default(), &range),
        Attributes::default(),
        "no statement about rules"
    );
}

#[test]
fn type_and_code_of_an_icmp_rule_are_no_ports() {
    let group = group(&[json!({"protocol": "icmp", "port_range_min": 3, "port_range_max": 4})]);
    assert_eq!(
        group.rules()[0].1.to_string(),
        "ingress IPv4 icmp/3/4 any 10.6.0.0/16"
    );
}

#[test]
fn what_is_shown_as_it_is_wanted_needs_no_change() {
    let wanted = wanted(json!({}), &["10.6.0.0/16"], false);
    let graph = |resources: ResourceList| {
        resources.into_iter().fold(
            ResourceGraph::default(),
            |mut graph, (resource, settings, targets)| {
                if let (ResourceKey::Pool(name), Some(targets)) = (&resource, targets) {
                    graph.targets.insert(name.clone(), targets);
                }
                graph.resource(resource, settings)
            },
        )
    };
    let actual = graph(shown(&group(&[json!({})]), ["p1"].into_iter().collect()));
    let settings = with_rules(Attributes::default(), &wanted);
    let pool = pool_name("lb-sg-x");
    let same = ResourceGraph::default()
        .resource(resource("lb-sg-x"), settings)
        .pool(
            &pool,
            Attributes::default(),
            Some(["p1"].into_iter().collect()),
        );
    assert!(plan(&same, &actual).is_empty());
}

fn port(groups: &[&str], is_secured: bool) -> Port {
    let port = json!({"id": "p", "network_id": "n", "security_groups": groups, "port_security_enabled": is_secured});
    serde_json::from_value(port).unwrap()
}

#[test]
fn all_changes_of_a_port_go_with_one_request_and_its_other_groups_stay() {
    let change = |group: &str, is_added| Change {
        group: group.to_owned(),
        is_added,
    };
    let changes = [change("a", true), change("b", false), change("c", true)];
    assert_eq!(
        changed(&port(&["x", "b"], true), &changes),
        Some(json!({"security_groups": ["x", "a", "c"]}))
    );
    assert_eq!(changed(&port(&["x", "a", "c"], true), &changes), None);
    // Neutron refuses groups on a port without port security.
    assert_eq!(changed(&port(&[], false), &changes), None);
    assert_eq!(
        changed(&port(&["a", "x"], true), &[change("a", false)]),
        Some(json!({"security_groups": ["x"]}))
    );
}
