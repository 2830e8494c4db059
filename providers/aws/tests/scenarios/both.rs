//! Scenarios that run on the fake and on moto, an emulation of AWS by others that verifies signatures and permissions. What
//! somebody else sees and does goes through the APIs, so that the account itself is all that differs.

use aws_protocol::{Aws, Client, Query};
use cloud_provider::{Caches, CloudProvider, InstanceState, LookupRequest, Node, Route, Service};
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use crate::harness::{Harness, cluster, node_of, service};

macro_rules! on_fake_and_moto {
    ($($name:ident),* $(,)?) => {
        mod fake {
            $(
                #[tokio::test(start_paused = true)]
                async fn $name() {
                    super::$name(crate::harness::Harness::new()).await;
                }
            )*
        }
        mod moto {
            $(
                #[tokio::test]
                #[ignore = "needs a seeded moto: AWS_TESTBED, AWS_ENDPOINT_URL, AWS_REGION and keys"]
                async fn $name() {
                    super::$name(crate::harness::Harness::moto()).await;
                }
            )*
        }
    };
}

on_fake_and_moto! {
    nodes_have_the_addresses_of_their_instances,
    routes_are_created_moved_and_deleted,
    classic_load_balancers_live_and_die,
    network_load_balancers_live_and_die,
    service_that_changes_its_kind_keeps_one_load_balancer,
    listener_and_targets_removed_by_hand_come_back,
    security_group_admits_the_source_ranges,
    tags_follow_the_annotation_and_those_of_others_stay,
    load_balancers_of_others_are_never_taken,
    tcp_and_udp_of_one_port_share_a_target_group,
}

const KINDS: [Kind; 2] = [Kind { is_network: false }, Kind { is_network: true }];

/// A kind of load balancers, as the APIs have it.
#[derive(Clone, Copy)]
struct Kind {
    is_network: bool,
}

impl Kind {
    fn of(self, annotations: &str) -> String {
        format!(
            "{}{annotations}",
            if self.is_network { "type=nlb " } else { "" }
        )
    }
}

/// Returns a UID that no other run on the same account has.
fn uid(letter: char) -> String {
    format!(
        "{letter}{:07}-1111-4111-8111-111111111111",
        std::process::id()
    )
}

fn managed(harness: Harness) -> Harness {
    harness.with("NLBSecurityGroupMode = Managed")
}

fn array(object: &Value) -> Vec<Value> {
    object.as_array().cloned().unwrap_or_default()
}

/// Returns the client for a load balancer, and the parameter with its ID.
fn named<'a>(
    aws: &'a Aws,
    kind: Kind,
    balancer: &'a Value,
) -> (&'a Client, &'static str, &'a Value) {
    let name = if kind.is_network {
        "LoadBalancerArn"
    } else {
        "LoadBalancerName"
    };
    (
        if kind.is_network {
            &aws.elbv2
        } else {
            &aws.elb
        },
        name,
        &balancer[name],
    )
}

async fn read(client: &Client, query: Query) -> Value {
    client.find(query).await.unwrap().unwrap_or_default()
}

async fn change(client: &Client, query: Query) {
    client.change::<IgnoredAny>(query).await.unwrap();
}

/// Returns the load balancer of a Service, if it has one of this kind.
async fn balancer(harness: &Harness, kind: Kind, service: &Service) -> Option<Value> {
    let name = cloud_provider::default_load_balancer_name(service);
    let aws = harness.aws();
    let query = Query::new("DescribeLoadBalancers");
    let found = match kind.is_network {
        true => read(&aws.elbv2, query.set("Names", [name])).await["LoadBalancers"].take(),
        false => {
            read(&aws.elb, query.set("LoadBalancerNames", [name])).await["LoadBalancerDescriptions"]
                .take()
        }
    };
    array(&found).pop()
}

/// Returns the security groups that were created for a Service.
async fn groups(harness: &Harness, service: &Service) -> Vec<Value> {
    let all = read(&harness.aws().ec2, Query::new("DescribeSecurityGroups")).await;
    let uid = service.metadata.uid.as_deref().unwrap();
    array(&all["securityGroupInfo"])
        .into_iter()
        .filter(|security_group_info| security_group_info["tagSet"].to_string().contains(uid))
        .collect()
}

/// Returns the target groups that were created for a Service: their names begin with its own.
async fn target_groups(harness: &Harness, service: &Service) -> Vec<Value> {
    let all = read(&harness.aws().elbv2, Query::new("DescribeTargetGroups")).await;
    let prefix = format!(
        "k8s-default-{}-",
        &service.metadata.name.as_deref().unwrap()[..8]
    );
    let is_own = |object: &Value| {
        object["TargetGroupName"]
            .as_str()
            .unwrap()
            .starts_with(&prefix)
    };
    array(&all["TargetGroups"])
        .into_iter()
        .filter(is_own)
        .collect()
}

/// Returns the IDs of the targets of a load balancer, sorted.
async fn targets(harness: &Harness, kind: Kind, service: &Service) -> Vec<String> {
    let mut targets = Vec::new();
    if kind.is_network {
        for group in target_groups(harness, service).await {
            let query =
                Query::new("DescribeTargetHealth").set("TargetGroupArn", &group["TargetGroupArn"]);
            let health = read(&harness.aws().elbv2, query).await;
            targets.extend(
                array(&health["TargetHealthDescriptions"])
                    .iter()
                    .map(|object| object["Target"]["Id"].clone()),
            );
        }
    } else {
        let found = balancer(harness, kind, service).await.unwrap();
        targets.extend(
            array(&found["Instances"])
                .iter()
                .map(|instance| instance["InstanceId"].clone()),
        );
    }
    let mut ids: Vec<_> = targets
        .iter()
        .map(|target| target.as_str().unwrap().to_owned())
        .collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// Returns the IDs of the instances of all Nodes, sorted.
fn instances(harness: &Harness) -> Vec<String> {
    let id = |node: &Node| node.provider_id.rsplit('/').next().unwrap().to_owned();
    let mut ids: Vec<_> = harness
        .cluster
        .nodes()
        .iter()
        .map(|node| id(node))
        .collect();
    ids.sort_unstable();
    ids
}

/// A program that has just started changes nothing.
async fn settled(harness: &Harness, service: &Service) {
    let provider = harness.start().await.unwrap();
    harness.ensure(&provider, service).await.unwrap();
    assert_eq!(
        harness.changes(),
        [""; 0],
        "steady state of {:?}",
        service.metadata.annotations
    );
}

/// Deletes the load balancer of a Service, after which nothing is left of it.
async fn end(harness: &Harness, kind: Kind, service: &Service) {
    let own: Vec<_> = groups(harness, service)
        .await
        .iter()
        .map(|group| group["groupId"].to_string())
        .collect();
    let provider = harness.start().await.unwrap();
    harness.delete(&provider, service).await.unwrap();
    assert_eq!(balancer(harness, kind, service).await, None);
    assert_eq!(groups(harness, service).await, [Value::Null; 0]);
    assert_eq!(target_groups(harness, service).await, [Value::Null; 0]);
    let query = Query::new("DescribeSecurityGroups").set("GroupId", [&harness.group]);
    let nodes = read(&harness.aws().ec2, query).await.to_string();
    let name = cloud_provider::default_load_balancer_name(service);
    assert!(
        !nodes.contains(&name) && !own.iter().any(|id| nodes.contains(id)),
        "{nodes}"
    );
}

async fn nodes_have_the_addresses_of_their_instances(harness: Harness) {
    let provider = harness.start().await.unwrap();
    let nodes = harness.cluster.nodes();
    let states = provider
        .instances()
        .unwrap()
        .lookup(&nodes, LookupRequest::METADATA)
        .await;
    for (node, state) in nodes.iter().zip(states) {
        let InstanceState::Present {
            metadata: Some(metadata),
            ..
        } = state.unwrap()
        else {
            panic!("{}", node.name)
        };
        let id = node.provider_id.rsplit('/').next().unwrap();
        let shown = read(
            &harness.aws().ec2,
            Query::new("DescribeInstances").set("InstanceId", [id]),
        )
        .await;
        let shown = &shown["reservationSet"][0]["instancesSet"][0];
        let found = |field: &str| {
            metadata
                .node_addresses
                .iter()
                .any(|address| shown[field] == *address.address)
        };
        assert!(
            ["privateIpAddress", "ipAddress", "privateDnsName", "dnsName"]
                .into_iter()
                .all(found),
            "{metadata:?}"
        );
        let zone = shown["placement"]["availabilityZone"].as_str().unwrap();
        assert_eq!((&*metadata.zone, &*metadata.region), (zone, "us-east-1"));
        assert_eq!(shown["instanceType"], metadata.instance_type);
    }
    let gone = node_of("gone", "aws:///us-east-1a/i-0123456789abcdef0").into();
    let state = provider
        .instances()
        .unwrap()
        .lookup(&[gone], LookupRequest::METADATA)
        .await
        .remove(0)
        .unwrap();
    assert!(matches!(state, InstanceState::Gone(_)), "{state:?}");
}

async fn routes_are_created_moved_and_deleted(harness: Harness) {
    let provider = harness.start().await.unwrap();
    let routes = provider.routes().unwrap();
    let cluster = cluster();
    let nodes = harness.cluster.nodes();
    let to = |node: &Node| Route {
        target_node: node.name.to_string(),
        destination_cidr: "10.244.7.0/24".to_owned(),
        ..Route::default()
    };
    for node in &nodes[..2] {
        routes.create(&cluster, "hint", &to(node)).await.unwrap();
    }
    let own = |all: Vec<Route>| {
        all.into_iter()
            .find(|route| route.destination_cidr == "10.244.7.0/24")
    };
    let listed = own(routes.list(&cluster).await.unwrap()).unwrap();
    assert_eq!(
        (&*listed.target_node, listed.blackhole),
        (&*nodes[1].name, false)
    );
    let query = Query::new("DescribeInstances").set("InstanceId", instances(&harness));
    for reservation_set in array(&read(&harness.aws().ec2, query).await["reservationSet"]) {
        assert_eq!(
            reservation_set["instancesSet"][0]["sourceDestCheck"], "false",
            "packets of Pods pass"
        );
    }
    routes.delete(&cluster, &listed).await.unwrap();
    assert!(own(routes.list(&cluster).await.unwrap()).is_none());
}

/// Creates, changes and deletes a load balancer, and expects no change in between.
async fn life(harness: Harness, kind: Kind, letter: char, first: &str, second: &str) {
    let harness = managed(harness);
    let port = |number: u16| json!({"name": format!("p{number}"), "port": number, "nodePort": 30000 + number % 1000});
    let one = json!({"ports": [port(80)]});
    let two = json!({"ports": [port(80), port(8080)]});
    let nodes = harness.cluster.nodes();
    // Ports of instances stay: moto forgets policies and target groups of later ones.
    for (annotations, spec, count) in [
        (first, &one, 2),
        (first, &two, 1),
        (second, &one, 1),
        (first, &one, 2),
    ] {
        nodes
            .iter()
            .for_each(|node| harness.cluster.set_node((**node).clone()));
        nodes[count..]
            .iter()
            .for_each(|node| harness.cluster.remove_node(&node.name));
        let service = service(&uid(letter), &kind.of(annotations), spec);
        let provider = harness.start().await.unwrap();
        let status = harness.ensure(&provider, &service).await.unwrap();
        assert_ne!(harness.changes(), [""; 0], "{annotations}");
        let shown = balancer(&harness, kind, &service).await.unwrap();
        assert_eq!(
            shown["DNSName"],
            *status.ingress.unwrap()[0].hostname.as_ref().unwrap()
        );
        assert_eq!(
            targets(&harness, kind, &service).await,
            instances(&harness),
            "{annotations}"
        );
        settled(&harness, &service).await;
    }
    end(
        &harness,
        kind,
        &service(&uid(letter), &kind.of(first), &one),
    )
    .await;
}

async fn classic_load_balancers_live_and_die(harness: Harness) {
    let subnet = harness.subnets[0].clone();
    let group = harness.group.clone();
    let second = format!(
        "additional-resource-tags=team=b proxy-protocol=* healthcheck-interval=20 connection-idle-timeout=120 \
         subnets={subnet} extra-security-groups={group}"
    );
    life(
        harness,
        KINDS[0],
        'c',
        "additional-resource-tags=team=a",
        &second,
    )
    .await;
}

async fn network_load_balancers_live_and_die(harness: Harness) {
    let subnets = harness.subnets.join(",");
    let group = harness.group.clone();
    let second = format!(
        "cross-zone-load-balancing-enabled=true healthcheck-healthy-threshold=5 additional-resource-tags=team=b \
         subnets={subnets} security-groups={group}"
    );
    life(harness, KINDS[1], 'd', "", &second).await;
}

async fn service_that_changes_its_kind_keeps_one_load_balancer(harness: Harness) {
    let harness = managed(harness);
    for [from, to] in [KINDS, [KINDS[1], KINDS[0]]] {
        let provider = harness.start().await.unwrap();
        let uid = uid(if from.is_network { 'f' } else { 'e' });
        let [before, after] = [from, to].map(|kind| service(&uid, &kind.of(""), &json!({})));
        harness.ensure(&provider, &before).await.unwrap();
        harness.ensure(&provider, &after).await.unwrap();
        assert_eq!(balancer(&harness, from, &after).await, None);
        assert_eq!(targets(&harness, to, &after).await, instances(&harness));
        settled(&harness, &after).await;
        end(&harness, to, &after).await;
    }
}

async fn listener_and_targets_removed_by_hand_come_back(harness: Harness) {
    let harness = managed(harness);
    let aws = harness.aws();
    for kind in KINDS {
        let service = service(
            &uid(if kind.is_network { '1' } else { '0' }),
            &kind.of(""),
            &json!({}),
        );
        let provider = harness.start().await.unwrap();
        harness.ensure(&provider, &service).await.unwrap();
        let found = balancer(&harness, kind, &service).await.unwrap();
        let gone = instances(&harness).remove(0);
        if kind.is_network {
            let arn = &target_groups(&harness, &service).await[0]["TargetGroupArn"];
            let query = Query::new("DeregisterTargets").set("TargetGroupArn", arn);
            change(&aws.elbv2, query.set("Targets", json!([{"Id": gone}]))).await;
            let query =
                Query::new("DescribeListeners").set("LoadBalancerArn", &found["LoadBalancerArn"]);
            let listener = &read(&aws.elbv2, query).await["Listeners"][0]["ListenerArn"];
            change(
                &aws.elbv2,
                Query::new("DeleteListener").set("ListenerArn", listener),
            )
            .await;
        } else {
            let of =
                |action| Query::new(action).set("LoadBalancerName", &found["LoadBalancerName"]);
            let query = of("DeregisterInstancesFromLoadBalancer")
                .set("Instances", json!([{"InstanceId": gone}]));
            change(&aws.elb, query).await;
            change(
                &aws.elb,
                of("DeleteLoadBalancerListeners").set("LoadBalancerPorts", [443]),
            )
            .await;
        }
        let provider = harness.start().await.unwrap();
        harness.ensure(&provider, &service).await.unwrap();
        assert_eq!(targets(&harness, kind, &service).await, instances(&harness));
        settled(&harness, &service).await;
        end(&harness, kind, &service).await;
    }
}

async fn security_group_admits_the_source_ranges(harness: Harness) {
    let harness = managed(harness);
    for kind in KINDS {
        let uid = uid(if kind.is_network { '3' } else { '2' });
        for ranges in [
            &["0.0.0.0/0"][..],
            &["10.1.0.0/16", "192.0.2.0/24"],
            &["10.1.0.0/16"],
        ] {
            let service = service(
                &uid,
                &kind.of(""),
                &json!({"loadBalancerSourceRanges": ranges}),
            );
            let provider = harness.start().await.unwrap();
            harness.ensure(&provider, &service).await.unwrap();
            let own = groups(&harness, &service).await;
            let of_port = array(&own[0]["ipPermissions"])
                .into_iter()
                .find(|ip_permission| ip_permission["fromPort"] == "443")
                .unwrap();
            let mut shown: Vec<_> = array(&of_port["ipRanges"])
                .iter()
                .map(|ip_range| ip_range["cidrIp"].clone())
                .collect();
            shown.sort_by_key(Value::to_string);
            assert_eq!(
                (own.len(), shown),
                (1, ranges.iter().map(|range| json!(range)).collect())
            );
            settled(&harness, &service).await;
        }
        end(&harness, kind, &service(&uid, &kind.of(""), &json!({}))).await;
    }
}

async fn tags_follow_the_annotation_and_those_of_others_stay(harness: Harness) {
    let harness = managed(harness);
    let aws = harness.aws();
    for kind in KINDS {
        let of = |tags: &str| {
            service(
                &uid(if kind.is_network { '5' } else { '4' }),
                &kind.of(tags),
                &json!({}),
            )
        };
        let provider = harness.start().await.unwrap();
        harness
            .ensure(&provider, &of("additional-resource-tags=team=web,cost=7"))
            .await
            .unwrap();
        let found = balancer(&harness, kind, &of("")).await.unwrap();
        let (client, _, id) = named(&aws, kind, &found);
        let parameter = if kind.is_network {
            "ResourceArns"
        } else {
            "LoadBalancerNames"
        };
        let tags = async || {
            let all = read(client, Query::new("DescribeTags").set(parameter, [id])).await;
            let all = array(&all["TagDescriptions"][0]["Tags"]);
            let of_key = |key: &str| {
                all.iter()
                    .find(|object| object["Key"] == key)
                    .map(|object| object["Value"].clone())
            };
            ["team", "cost", "theirs"]
                .map(of_key)
                .map(Option::unwrap_or_default)
        };
        assert_eq!(tags().await, [json!("web"), json!("7"), Value::Null]);
        change(
            client,
            Query::new("AddTags")
                .set(parameter, [id])
                .set("Tags", Query::tag_list([("theirs", "x")])),
        )
        .await;
        for (annotation, team) in [
            ("additional-resource-tags=team=mail", json!("mail")),
            ("", Value::Null),
        ] {
            let provider = harness.start().await.unwrap();
            harness.ensure(&provider, &of(annotation)).await.unwrap();
            assert_eq!(tags().await, [team, Value::Null, json!("x")]);
            settled(&harness, &of(annotation)).await;
        }
        end(&harness, kind, &of("")).await;
    }
}

async fn load_balancers_of_others_are_never_taken(harness: Harness) {
    let harness = managed(harness);
    let aws = harness.aws();
    for kind in KINDS {
        let service = service(
            &uid(if kind.is_network { '7' } else { '6' }),
            &kind.of(""),
            &json!({}),
        );
        let name = cloud_provider::default_load_balancer_name(&service);
        let query = Query::new("CreateLoadBalancer");
        let subnets = [&harness.subnets[0]];
        if kind.is_network {
            change(
                &aws.elbv2,
                query
                    .set("Name", &name)
                    .set("Type", "network")
                    .set("Subnets", subnets),
            )
            .await;
        } else {
            let listener = json!({"Protocol": "TCP", "InstanceProtocol": "TCP", "LoadBalancerPort": 81, "InstancePort": 81});
            let query = query
                .set("LoadBalancerName", &name)
                .set("Listeners", [listener]);
            change(&aws.elb, query.set("Subnets", subnets)).await;
        }
        let theirs = balancer(&harness, kind, &service).await.unwrap();
        let provider = harness.start().await.unwrap();
        harness.ensure(&provider, &service).await.unwrap_err();
        assert_eq!(harness.changes(), [""; 0]);
        harness.delete(&provider, &service).await.unwrap();
        let left = balancer(&harness, kind, &service).await.unwrap();
        assert_eq!(left["CreatedTime"], theirs["CreatedTime"]);
        let (client, parameter, id) = named(&aws, kind, &left);
        change(client, Query::new("DeleteLoadBalancer").set(parameter, id)).await;
    }
}

async fn tcp_and_udp_of_one_port_share_a_target_group(harness: Harness) {
    let harness = managed(harness);
    let port = |protocol: &str| json!({"name": protocol.to_lowercase(), "port": 53, "nodePort": 30053, "protocol": protocol});
    for (protocols, expected) in [
        (&["TCP"][..], "TCP"),
        (&["TCP", "UDP"], "TCP_UDP"),
        (&["UDP"], "UDP"),
    ] {
        let ports: Vec<_> = protocols.iter().map(|protocol| port(protocol)).collect();
        let service = service(&uid('8'), "type=nlb", &json!({"ports": ports}));
        let provider = harness.start().await.unwrap();
        harness.ensure(&provider, &service).await.unwrap();
        let groups = target_groups(&harness, &service).await;
        assert_eq!(
            (groups.len(), &groups[0]["Protocol"]),
            (1, &json!(expected))
        );
        assert_eq!(
            targets(&harness, KINDS[1], &service).await,
            instances(&harness)
        );
        settled(&harness, &service).await;
    }
    end(
        &harness,
        KINDS[1],
        &service(&uid('8'), "type=nlb", &json!({"ports": [port("UDP")]})),
    )
    .await;
}
