//! Classic load balancers: policies, tags, and a security group that several share.

use serde_json::{Value, json};

use crate::harness::{Harness, service, tags};

const CERTIFICATE: &str = "ssl-cert=arn:aws:acm:us-east-1:111122223333:certificate/a";

#[tokio::test(start_paused = true)]
async fn proxy_protocol_comes_and_goes_with_its_annotation() {
    let harness = Harness::new();
    let provider = harness.start().await.unwrap();
    harness
        .ensure(&provider, &service("a", "proxy-protocol=*", &json!({})))
        .await
        .unwrap();
    let backend = harness.only("classic")["BackendServerDescriptions"][0].clone();
    assert_eq!(
        backend,
        json!({"InstancePort": "30443", "PolicyNames": ["k8s-proxyprotocol-enabled"]})
    );
    harness.changes();
    harness
        .ensure(&provider, &service("a", "", &json!({})))
        .await
        .unwrap();
    assert_eq!(
        harness.changes(),
        ["SetLoadBalancerPoliciesForBackendServer"]
    );
    assert_eq!(
        harness.only("classic")["BackendServerDescriptions"],
        json!([])
    );
}

#[tokio::test(start_paused = true)]
async fn tls_policy_is_created_and_set_on_listeners_with_a_certificate() {
    let harness = Harness::new();
    let provider = harness.start().await.unwrap();
    let spec = json!({"ports": [{"name": "web", "port": 443, "nodePort": 30443}, {"port": 80, "nodePort": 30080}]});
    let annotations = format!(
        "{CERTIFICATE} ssl-ports=web ssl-negotiation-policy=ELBSecurityPolicy-TLS-1-2-2017-01"
    );
    harness
        .ensure(&provider, &service("a", &annotations, &spec))
        .await
        .unwrap();
    let balancer = harness.only("classic");
    let policy = &balancer["_policies"][0];
    assert_eq!(
        policy["PolicyName"],
        "k8s-SSLNegotiationPolicy-ELBSecurityPolicy-TLS-1-2-2017-01"
    );
    assert_eq!(
        policy["PolicyAttributeDescriptions"][0]["AttributeName"],
        "Reference-Security-Policy"
    );
    let listeners = balancer["ListenerDescriptions"].as_array().unwrap();
    let shown: Vec<_> = listeners
        .iter()
        .map(|listener| (&listener["Listener"]["Protocol"], &listener["PolicyNames"]))
        .collect();
    assert!(
        shown.contains(&(&json!("SSL"), &json!([policy["PolicyName"]]))),
        "{shown:?}"
    );
    assert!(shown.contains(&(&json!("TCP"), &json!([]))), "{shown:?}");
    harness.changes();
    let other = annotations.replace("1-2-2017-01", "1-1-2017-01");
    harness
        .ensure(&provider, &service("a", &other, &spec))
        .await
        .unwrap();
    assert_eq!(
        harness.changes(),
        [
            "CreateLoadBalancerPolicy",
            "SetLoadBalancerPoliciesOfListener"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn tags_that_leave_the_annotation_go_and_those_of_others_stay() {
    for kind in ["classic", "network"] {
        let harness = Harness::new().with("NLBSecurityGroupMode = Managed");
        let provider = harness.start().await.unwrap();
        let of = |tags: &str| {
            let kind = if kind == "network" { "type=nlb " } else { "" };
            service("a", &format!("{kind}{tags}"), &json!({}))
        };
        harness
            .ensure(&provider, &of("additional-resource-tags=team=web,cost=7"))
            .await
            .unwrap();
        let group = |harness: &Harness| {
            let cloud = harness.fake.lock();
            cloud
                .all("group")
                .iter()
                .find(|object| object["groupId"] != "sg-nodes")
                .cloned()
                .unwrap()
        };
        for current in [harness.only(kind), group(&harness)] {
            assert_eq!(
                (&*tags(&current)["team"], &*tags(&current)["cost"]),
                ("web", "7"),
                "{current}"
            );
        }
        let theirs = json!({"Key": "theirs", "Value": "x"});
        let all = if kind == "network" {
            aws_fake::Kind::Network
        } else {
            aws_fake::Kind::Classic
        };
        harness.fake.lock().each(all)[0]["_tags"]
            .as_array_mut()
            .unwrap()
            .push(theirs);
        let provider = harness.start().await.unwrap();
        for (annotation, left) in [
            ("additional-resource-tags=team=mail", Some("mail")),
            ("", None),
        ] {
            harness.ensure(&provider, &of(annotation)).await.unwrap();
            for entry in [harness.only(kind), group(&harness)] {
                let tags = tags(&entry);
                assert_eq!(
                    (tags.get("team").map(|text| &**text), tags.get("cost")),
                    (left, None),
                    "{kind}: {tags:?}"
                );
            }
        }
        assert_eq!(tags(&harness.only(kind))["theirs"], "x");
        harness.changes();
        harness.ensure(&provider, &of("")).await.unwrap();
        assert_eq!(harness.changes(), [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn nodes_admit_a_shared_security_group_until_its_last_load_balancer_goes() {
    let harness = shared();
    let provider = harness.start().await.unwrap();
    let services = ["a", "b", "c"].map(|uid| service(uid, "", &json!({})));
    for entry in &services {
        harness.ensure(&provider, entry).await.unwrap();
    }
    assert_eq!(harness.admitted(), ["sg-shared"]);
    harness.delete(&provider, &services[0]).await.unwrap();
    assert_eq!(harness.admitted(), ["sg-shared"], "two others use it");
    harness.delete(&provider, &services[1]).await.unwrap();
    assert_eq!(harness.admitted(), ["sg-shared"], "one other uses it");
    harness.delete(&provider, &services[2]).await.unwrap();
    assert_eq!(harness.admitted(), [""; 0]);
    assert!(
        harness
            .fake
            .lock()
            .all("group")
            .iter()
            .any(|object| object["groupId"] == "sg-shared"),
        "it is the user's"
    );
}

#[tokio::test(start_paused = true)]
async fn load_balancers_that_go_together_leave_no_rule_and_are_listed_once() {
    let harness = shared();
    let provider = harness.start().await.unwrap();
    let services: Vec<_> = (0..10)
        .map(|number| service(&format!("s{number}"), "", &json!({})))
        .collect();
    for object in &services {
        harness.ensure(&provider, object).await.unwrap();
    }
    harness.fake.fault_injector().forget_requests();
    futures::future::try_join_all(
        services
            .iter()
            .map(|service| harness.delete(&provider, service)),
    )
    .await
    .unwrap();
    assert_eq!(harness.admitted(), [""; 0]);
    let lists = harness
        .fake
        .fault_injector()
        .count("GET /elb/DescribeLoadBalancers");
    assert!(lists <= 2, "{lists} lists of all load balancers");
}

fn shared() -> Harness {
    let harness = Harness::new().with("ElbSecurityGroup = sg-shared");
    let group: Value = json!({"groupId": "sg-shared", "groupName": "shared", "groupDescription": "shared",
        "vpcId": aws_fake::VPC, "ownerId": aws_fake::ACCOUNT, "tagSet": [], "ipPermissions": [], "_rules": [],
        "_account": aws_fake::ACCOUNT});
    harness.fake.lock().each(aws_fake::Kind::Group).push(group);
    harness
}

#[tokio::test(start_paused = true)]
async fn rule_by_which_the_group_of_nodes_admits_itself_stays() {
    let harness = Harness::new();
    harness.fake.lock().add_rule(
        "sg-nodes",
        &json!({"ipProtocol": "-1", "groupId": "sg-nodes"}),
    );
    let provider = harness.start().await.unwrap();
    let one = service("a", "extra-security-groups=sg-nodes", &json!({}));
    harness.ensure(&provider, &one).await.unwrap();
    assert_eq!(harness.admitted().len(), 2, "{:?}", harness.admitted());
    harness.delete(&provider, &one).await.unwrap();
    assert_eq!(harness.admitted(), ["sg-nodes"]);
}
