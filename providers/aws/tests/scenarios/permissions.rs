//! The IAM policy: everything works with it, and something fails without any of its actions.

use std::time::Duration;

use aws_fake::{Fault, Kind};
use cloud_provider::{Caches, CloudProvider, Error, InstanceState, LookupRequest, Result, Route};
use provider_aws::Ec2;
use provider_aws::permissions::{PERMISSIONS, Permissions};
use serde_json::{Value, json};

use crate::harness::{Harness, cluster, node_of, service};

/// Needed by AWS itself, for the first load balancer of an account.
const NOT_SENT: &str = "iam:CreateServiceLinkedRole";
/// Steps in the life of a classic load balancer: annotations and ports.
const CLASSIC: [(&str, &[u16]); 3] = [
    ("subnets=subnet-00000000,subnet-00000001", &[80, 443]),
    (
        "subnets=subnet-00000000 ssl-cert=arn:aws:acm:us-east-1:111122223333:certificate/a ssl-ports=443 \
         ssl-negotiation-policy=ELBSecurityPolicy-TLS-1-2-2017-01 proxy-protocol=* additional-resource-tags=a=b \
         healthcheck-interval=20 connection-idle-timeout=65 extra-security-groups=sg-own",
        &[443, 8080],
    ),
    ("subnets=subnet-00000000,subnet-00000001", &[80]),
];
/// Steps in the life of a network load balancer.
const NETWORK: [(&str, &[u16]); 3] = [
    (
        "type=nlb subnets=subnet-00000000 ssl-cert=arn:aws:acm:us-east-1:111122223333:certificate/a ssl-ports=443",
        &[80, 443],
    ),
    (
        "type=nlb subnets=subnet-00000000,subnet-00000001 additional-resource-tags=a=b \
         ssl-cert=arn:aws:acm:us-east-1:111122223333:certificate/b ssl-ports=443 healthcheck-healthy-threshold=5 \
         cross-zone-load-balancing-enabled=true target-group-attributes=proxy_protocol_v2.enabled=true \
         security-groups=sg-own",
        &[443],
    ),
    (
        "type=nlb subnets=subnet-00000000,subnet-00000001",
        &[443, 8080],
    ),
];

/// Nodes of all kinds are read, and a route is created, moved and deleted.
async fn nodes_and_routes(harness: &Harness, provider: &Ec2) -> Result<()> {
    let nodes = harness.cluster.nodes();
    let mut layers = 0;
    for state in provider
        .instances()
        .unwrap()
        .lookup(&nodes, LookupRequest::METADATA)
        .await
    {
        if let InstanceState::Present {
            metadata: Some(metadata),
            ..
        } = state?
        {
            layers += metadata
                .additional_labels
                .keys()
                .filter(|key| key.contains("network-node-layer"))
                .count();
        }
    }
    expect(
        layers == 3,
        "the Node of the large instance has no labels of its place in the network",
    )?;
    let routes = provider.routes().unwrap();
    let cluster = cluster();
    let to = |node: &str| Route {
        target_node: node.into(),
        destination_cidr: "10.244.7.0/24".to_owned(),
        ..Route::default()
    };
    for node in ["worker-1", "worker-2"] {
        routes.list(&cluster).await?;
        routes.create(&cluster, "hint", &to(node)).await?;
    }
    routes.delete(&cluster, &to("worker-2")).await
}

/// A Service goes through these steps, with one Node less after the first, and is deleted.
async fn balancer(
    harness: &Harness,
    name: &str,
    steps: &[(&str, &[u16])],
    more: [Value; 3],
) -> Result<()> {
    let of = |(annotations, ports): &(&str, &[u16]), mut spec: Value| {
        let port = |port: &u16| json!({"name": format!("p{port}"), "port": port, "nodePort": 30000 + port % 1000});
        spec["ports"] = ports.iter().map(port).collect();
        service(name, annotations, &spec)
    };
    for (step, more) in steps.iter().zip(more) {
        // Each step is a run of its own: nothing is known from the one before.
        let provider = harness.start().await?;
        harness.ensure(&provider, &of(step, more)).await?;
        harness.cluster.remove_node("worker-2");
    }
    let provider = harness.start().await?;
    harness.delete(&provider, &of(&steps[2], json!({}))).await
}

fn expect(is_so: bool, what: &str) -> Result<()> {
    if is_so {
        Ok(())
    } else {
        Err(Error::other(what.to_owned()))
    }
}

/// An instance is tagged, and loses the tags when its Node is deleted.
async fn tagging(harness: Harness) -> Result<()> {
    let flags = [
        ("--controllers", "*,tagging"),
        ("--tags", "team=a"),
        ("--resources", "instance"),
    ];
    let harness = harness.flags(&flags);
    let _provider = harness.start().await?;
    let has_tag = || {
        let has_tag = |object: &Value| {
            object["tagSet"]
                .as_array()
                .unwrap()
                .iter()
                .any(|tag_set| tag_set["key"] == "team")
        };
        harness.fake.lock().all("instance").iter().any(has_tag)
    };
    tokio::time::sleep(Duration::from_secs(10)).await;
    expect(has_tag(), "no instance was tagged")?;
    ["worker-1", "worker-2"]
        .into_iter()
        .for_each(|name| harness.cluster.remove_node(name));
    tokio::time::sleep(Duration::from_secs(10)).await;
    expect(!has_tag(), "the tags are still there")
}

/// Runs each kind of work of the program in an account that denies one action, or none.
async fn everything(denied: &str) -> Result<()> {
    let families = json!({"ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack"});
    let none = json!({});
    let account = || {
        let harness = Harness::new()
            .without_delays_and_limits()
            .with("NLBSecurityGroupMode = Managed");
        harness
            .cluster
            .set_node(node_of("fargate", "aws:///us-east-1a/fargate-10.0.9.9"));
        let mut world = harness.fake.lock();
        world.add_interface("10.0.9.9");
        world.each(Kind::Instance)[0]["instanceType"] = "p5.48xlarge".into();
        let mut own = world.each(Kind::Group)[0].clone();
        (own["groupId"], own["groupName"]) = ("sg-own".into(), "own".into());
        world.each(Kind::Group).push(own);
        drop(world);
        deny(&harness, denied);
        harness
    };
    let harness = account();
    let provider = harness.start().await?;
    nodes_and_routes(&harness, &provider).await?;
    balancer(
        &harness,
        "classic",
        &CLASSIC,
        [none.clone(), none.clone(), none.clone()],
    )
    .await?;
    balancer(
        &account(),
        "network",
        &NETWORK,
        [none.clone(), families, none],
    )
    .await?;
    tagging(account()).await
}

/// Denies an action as IAM does.
fn deny(harness: &Harness, action: &str) {
    let Some((service, name)) = action.split_once(':') else {
        return;
    };
    let method = match name {
        _ if name.starts_with("Describe") => "GET",
        _ if name.starts_with("Delete") => "DELETE",
        _ => "POST",
    };
    for (api, of, code) in [
        ("ec2", "ec2", "UnauthorizedOperation"),
        ("elb", "elasticloadbalancing", "AccessDenied"),
        ("elbv2", "elasticloadbalancing", "AccessDenied"),
    ] {
        for named in ["", "/named"].into_iter().filter(|_| service == of) {
            harness
                .fake
                .fault_injector()
                .fail(Fault::code(&format!("{method} /{api}/{name}{named}"), code));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn policy_without_any_one_of_its_actions_is_not_enough() {
    everything("").await.unwrap();
    let mut actions: Vec<_> = PERMISSIONS
        .iter()
        .flat_map(Permissions::actions)
        .filter(|action| *action != NOT_SENT)
        .collect();
    actions.sort_unstable();
    actions.dedup();
    let mut needless = Vec::new();
    for action in &actions {
        if everything(action).await.is_ok() {
            needless.push(&**action);
        }
    }
    assert_eq!(needless, [""; 0], "of {} actions", actions.len());
}
