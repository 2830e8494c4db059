//! Load balancers of users, and what Services share: nothing of others is changed, and nothing of the Service is left.

use std::time::Duration;

use cloud_provider::Service;
use oci_fake::Fault;
use serde_json::{Value, json};

use crate::harness::{Harness, UID, service};

const KIND: &str = "oci.oraclecloud.com/load-balancer-type";
const MODE: &str = "oci.oraclecloud.com/security-rule-management-mode";
const ID: &str = "oci.oraclecloud.com/load-balancer-id";
const LISTS: [&str; 2] = [
    "ocid1.securitylist.oc1.phx.balancers",
    "ocid1.securitylist.oc1.phx.nodes",
];

/// Adds a load balancer of a user, with two listeners and a network security group, and returns the OCIDs of both.
fn add_balancer_of_user(harness: &Harness) -> [String; 2] {
    let mut cloud = harness.fake.lock();
    let id = cloud.add_balancer("theirs");
    let group = cloud.add_group("theirs");
    let balancer = cloud.objects.get_mut(&id).unwrap();
    let set = balancer["backendSets"]["TCP-80"].clone();
    let listener = |port: u16, set: &str| json!({"port": port, "protocol": "TCP", "defaultBackendSetName": set});
    balancer["backendSets"] = json!({"TCP-22": set, "site": set});
    balancer["listeners"] =
        json!({"TCP-22": listener(22, "TCP-22"), "web-443": listener(443, "site")});
    balancer["networkSecurityGroupIds"] = json!([group]);
    [id, group]
}

fn names(of: &Value) -> Vec<&str> {
    of.as_object().unwrap().keys().map(String::as_str).collect()
}

/// Returns the number of rules in security lists, without those of a user with a description.
fn rules(harness: &Harness) -> usize {
    let cloud = harness.fake.lock();
    let all = LISTS.map(|list| {
        ["ingress", "egress"].map(|direction| {
            let rules = cloud.objects[list][format!("{direction}SecurityRules")]
                .as_array()
                .unwrap()
                .clone();
            rules
                .iter()
                .filter(|rule| rule["description"] != "ssh")
                .count()
        })
    });
    all.iter().flatten().sum()
}

fn with_status(service: Service, of: &Service) -> Service {
    Service {
        status: of.status.clone(),
        ..service
    }
}

#[tokio::test(start_paused = true)]
async fn adopted_load_balancer_keeps_the_parts_of_its_user_and_loses_those_of_the_service() {
    for mode in ["SL-All", "NSG"] {
        let harness = Harness::new();
        let provider = harness.started().await;
        let [id, group] = add_balancer_of_user(&harness);
        let before = harness.balancer("loadbalancer");
        let annotations = [(ID, &*id), (MODE, mode)];
        let mut web = service(&annotations, json!({}));
        harness.ensure(&provider, &mut web).await.unwrap();
        let made = harness.balancer("loadbalancer");
        assert_eq!(names(&made["listeners"]), ["TCP-22", "TCP-80", "web-443"]);
        let groups = made["networkSecurityGroupIds"].as_array().unwrap();
        assert_eq!(
            (groups[0].as_str(), groups.len()),
            (Some(&*group), if mode == "NSG" { 2 } else { 1 }),
            "{mode}"
        );
        assert_eq!(made["freeformTags"]["ccm-rs/adopted"], "TCP-22");
        harness.fake.fault_injector().forget_requests();
        harness.ensure(&provider, &mut web).await.unwrap();
        assert_eq!(harness.changes(), [""; 0]);

        let ports =
            |port: u16| json!({"ports": [{"port": port, "nodePort": 30081, "protocol": "TCP"}]});
        let mut taken = with_status(service(&annotations, ports(22)), &web);
        let error = harness
            .ensure(&provider, &mut taken)
            .await
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("a part that a user created; choose another port"),
            "{error}"
        );
        let mut moved = with_status(service(&annotations, ports(81)), &web);
        harness.ensure(&provider, &mut moved).await.unwrap();
        assert_eq!(
            names(&harness.balancer("loadbalancer")["listeners"]),
            ["TCP-22", "TCP-81", "web-443"]
        );

        harness.delete(&provider, &moved).await.unwrap();
        let after = harness.balancer("loadbalancer");
        for key in [
            "listeners",
            "backendSets",
            "networkSecurityGroupIds",
            "freeformTags",
        ] {
            assert_eq!(after[key], before[key], "{mode}");
        }
        assert_eq!(
            (
                rules(&harness),
                harness.fake.lock().all("networksecuritygroup").count()
            ),
            (0, 1),
            "{mode}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn certificate_of_the_service_leaves_an_adopted_load_balancer_and_one_of_the_same_name_stays()
{
    let harness = Harness::new();
    let provider = harness.started().await;
    let [id, _] = add_balancer_of_user(&harness);
    let theirs = json!({"web-tls": {"certificateName": "web-tls", "publicCertificate": "theirs", "caCertificate": ""}});
    harness.fake.lock().objects.get_mut(&id).unwrap()["certificates"] = theirs.clone();
    harness.set_certificate("-----BEGIN CERTIFICATE-----\nAAEC\n-----END CERTIFICATE-----\n");
    let lb = |key: &str| format!("service.beta.kubernetes.io/oci-load-balancer-{key}");
    let ports = lb("ssl-ports");
    let secret = lb("tls-secret");
    let mut web = service(
        &[(ID, &id), (&ports, "80"), (&secret, "web-tls")],
        json!({}),
    );
    harness.ensure(&provider, &mut web).await.unwrap();
    assert_eq!(
        names(&harness.balancer("loadbalancer")["certificates"]).len(),
        2
    );
    harness.delete(&provider, &web).await.unwrap();
    assert_eq!(harness.balancer("loadbalancer")["certificates"], theirs);
}

#[tokio::test(start_paused = true)]
async fn rule_sets_of_the_service_leave_an_adopted_load_balancer_and_those_of_its_user_stay() {
    const RULE_SETS: &str = "oci.oraclecloud.com/oci-load-balancer-rule-sets";
    let harness = Harness::new();
    let provider = harness.started().await;
    let [id, _] = add_balancer_of_user(&harness);
    let theirs = json!({"headers": {"name": "headers", "items": [{"action": "CONTROL_ACCESS_USING_HTTP_METHODS"}]}});
    harness.fake.lock().objects.get_mut(&id).unwrap()["ruleSets"] = theirs.clone();
    let long = "redirects_of_the_whole_company";
    let mut before = service(&[], json!({}));
    let steps = [
        ("headers", "headers_0b0a1c0f"),
        ("other", "other_0b0a1c0f"),
        (long, "redirects_of_t_0772510d_0b0a1c0f"),
    ];
    for (name, expected) in steps {
        let sets = json!({name: {"items": [{"action": "ADD_HTTP_REQUEST_HEADER", "header": "a", "value": "b"}]}});
        let mut web = with_status(
            service(&[(ID, &id), (RULE_SETS, &sets.to_string())], json!({})),
            &before,
        );
        harness.ensure(&provider, &mut web).await.unwrap();
        let made = harness.balancer("loadbalancer");
        let mut all = vec!["headers", expected];
        all.sort_unstable();
        assert_eq!(names(&made["ruleSets"]), all);
        assert_eq!(made["ruleSets"]["headers"], theirs["headers"]);
        assert_eq!(
            made["listeners"]["TCP-80"]["ruleSetNames"],
            json!([expected])
        );
        harness.fake.fault_injector().forget_requests();
        harness.ensure(&provider, &mut web).await.unwrap();
        assert_eq!(harness.changes(), [""; 0]);
        before = web;
    }
    harness.delete(&provider, &before).await.unwrap();
    assert_eq!(harness.balancer("loadbalancer")["ruleSets"], theirs);
}

#[tokio::test(start_paused = true)]
async fn move_to_a_load_balancer_of_a_user_keeps_the_rules_and_the_group_of_the_service() {
    for mode in ["SL-All", "NSG"] {
        let harness = Harness::new();
        let provider = harness.started().await;
        let mut web = service(&[(MODE, mode)], json!({}));
        harness.ensure(&provider, &mut web).await.unwrap();
        let before = rules(&harness);
        let [id, _] = add_balancer_of_user(&harness);
        let mut moved = with_status(service(&[(ID, &id), (MODE, mode)], json!({})), &web);
        harness.fake.fault_injector().forget_requests();
        harness.ensure(&provider, &mut moved).await.unwrap();
        assert_eq!(
            harness.balancer("loadbalancer")["id"],
            *id,
            "the former one is deleted"
        );
        assert_eq!((rules(&harness), mode == "NSG"), (before, before == 0));
        for list in harness
            .fake
            .fault_injector()
            .bodies("PUT /securityLists/{id}")
        {
            assert!(list.to_string().contains("10256"), "{list}");
        }
        let groups: Vec<_> = harness
            .fake
            .lock()
            .all("networksecuritygroup")
            .cloned()
            .collect();
        let own = groups
            .iter()
            .filter(|group| group["freeformTags"]["CreatedBy"] == "CCM")
            .count();
        assert_eq!(own, usize::from(mode == "NSG"));
        harness.delete(&provider, &moved).await.unwrap();
        assert_eq!(
            (
                rules(&harness),
                harness.fake.lock().all("networksecuritygroup").count()
            ),
            (0, 1)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn rules_of_a_user_survive_a_change_of_kind_in_mode_none() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut web = service(&[(MODE, "None")], json!({}));
    harness.ensure(&provider, &mut web).await.unwrap();
    for (list, port) in LISTS.into_iter().zip([80, 30080]) {
        let rule = json!({"protocol": "6", "source": "0.0.0.0/0", "isStateless": false,
            "tcpOptions": {"destinationPortRange": {"min": port, "max": port}}});
        let mut cloud = harness.fake.lock();
        cloud.objects.get_mut(list).unwrap()["ingressSecurityRules"]
            .as_array_mut()
            .unwrap()
            .push(rule);
    }
    let mut moved = with_status(service(&[(MODE, "None"), (KIND, "nlb")], json!({})), &web);
    harness.ensure(&provider, &mut moved).await.unwrap();
    assert_eq!(
        (
            rules(&harness),
            harness.fake.lock().all("loadbalancer").count()
        ),
        (2, 0)
    );
    harness.delete(&provider, &moved).await.unwrap();
    assert_eq!(rules(&harness), 2);
}

#[tokio::test(start_paused = true)]
async fn rules_are_removed_when_the_mode_becomes_none_and_those_of_a_user_stay_from_then_on() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut web = service(&[], json!({}));
    harness.ensure(&provider, &mut web).await.unwrap();
    assert_eq!(
        harness.balancer("loadbalancer")["freeformTags"]["ccm-rs/security-rules"],
        "All"
    );
    let mut none = with_status(service(&[(MODE, "None")], json!({})), &web);
    harness.ensure(&provider, &mut none).await.unwrap();
    let tags = harness.balancer("loadbalancer")["freeformTags"].clone();
    assert_eq!(
        (rules(&harness), &tags["ccm-rs/security-rules"]),
        (0, &json!("None"))
    );
    assert_eq!(tags["ccm-rs/service"], UID, "the other tags stay");
    let rule = json!({"protocol": "6", "source": "0.0.0.0/0", "isStateless": false,
        "tcpOptions": {"destinationPortRange": {"min": 80, "max": 80}}});
    harness.fake.lock().objects.get_mut(LISTS[0]).unwrap()["ingressSecurityRules"]
        .as_array_mut()
        .unwrap()
        .push(rule);
    harness.delete(&provider, &none).await.unwrap();
    assert_eq!(rules(&harness), 1);
}

#[tokio::test(start_paused = true)]
async fn rules_are_removed_with_a_load_balancer_whose_last_change_failed() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut web = service(&[], json!({}));
    harness.ensure(&provider, &mut web).await.unwrap();
    harness.add_node("worker-3");
    let route = "PUT /loadBalancers/{id}/{part}/{name}";
    harness
        .fake
        .fault_injector()
        .fail(Fault::ends_in_error(route, "backend is not allowed"));
    let interrupted =
        tokio::time::timeout(Duration::from_secs(1), harness.ensure(&provider, &mut web)).await;
    assert!(interrupted.is_err(), "the work request is running");
    tokio::time::sleep(Duration::from_secs(5)).await;
    harness.fake.fault_injector().clear_faults();
    harness.delete(&provider, &web).await.unwrap();
    assert_eq!(
        (
            rules(&harness),
            harness.fake.lock().all("loadbalancer").count()
        ),
        (0, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn group_goes_with_a_load_balancer_that_could_not_be_created() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut web = service(&[(MODE, "NSG")], json!({}));
    harness
        .fake
        .fault_injector()
        .fail(Fault::ends_in_error("POST /loadBalancers", "no capacity"));
    let refusal = Fault::refused_as(
        "PUT /loadBalancers/{id}/networkSecurityGroups",
        409,
        "IncorrectState",
        "FAILED",
    );
    harness.fake.fault_injector().fail(refusal);
    harness.ensure(&provider, &mut web).await.unwrap_err();
    harness.delete(&provider, &web).await.unwrap();
    let cloud = harness.fake.lock();
    assert_eq!(
        (
            cloud.all("loadbalancer").count(),
            cloud.all("networksecuritygroup").count()
        ),
        (0, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn group_is_created_again_although_the_token_of_the_former_one_is_known() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut web = service(&[(MODE, "NSG")], json!({}));
    harness.ensure(&provider, &mut web).await.unwrap();
    for (mode, groups) in [("None", 0), ("NSG", 1)] {
        let mut changed = with_status(service(&[(MODE, mode)], json!({})), &web);
        harness.ensure(&provider, &mut changed).await.unwrap();
        assert_eq!(
            harness.fake.lock().all("networksecuritygroup").count(),
            groups
        );
    }
}

#[tokio::test(start_paused = true)]
async fn list_does_not_read_subnets_of_load_balancers_of_others() {
    let harness = Harness::new();
    let [id, _] = add_balancer_of_user(&harness);
    let subnet = "ocid1.subnet.oc1.phx.unreadable";
    let balancer = |object: &mut Value| {
        object["subnetIds"] = json!([subnet]);
        object["networkSecurityGroupIds"] = json!([]);
    };
    balancer(harness.fake.lock().objects.get_mut(&id).unwrap());
    let provider = harness.started().await;
    let mut web = service(&[], json!({}));
    harness.ensure(&provider, &mut web).await.unwrap();
    let problems: Vec<_> = cloud_provider::CloudProvider::diagnose(&provider).await;
    assert!(
        problems
            .iter()
            .all(|finding| finding.severity == cloud_provider::Severity::Ok),
        "{problems:?}"
    );
    let requests = harness.fake.fault_injector().requests();
    assert!(
        requests
            .iter()
            .any(|request| request.route == "GET /loadBalancers")
    );
    assert!(
        !requests.iter().any(|request| request.path.contains(subnet)),
        "it is not ours"
    );
}

#[tokio::test(start_paused = true)]
async fn load_balancer_without_the_required_tag_is_not_adopted() {
    for (value, is_adopted) in [("web", true), ("db", false)] {
        let harness = Harness::new();
        let provider = harness.requiring("team=web").await;
        let [id, _] = add_balancer_of_user(&harness);
        harness.fake.lock().objects.get_mut(&id).unwrap()["freeformTags"] = json!({"team": value});
        let before = harness.balancer("loadbalancer");
        let mut web = service(&[(ID, &*id)], json!({}));
        let outcome = harness.ensure(&provider, &mut web).await;
        assert_eq!(outcome.is_ok(), is_adopted, "{value}: {outcome:?}");
        if let Err(error) = outcome {
            assert!(
                error.is_invalid() && error.to_string().contains("give it the tag team=web"),
                "{error}"
            );
            assert_eq!(harness.balancer("loadbalancer"), before);
        }
    }
}
