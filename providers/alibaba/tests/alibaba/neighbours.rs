//! Parts of users on load balancers of the program.

use cloud_provider::Service;
use serde_json::{Value, json};

use crate::harness::{Harness, annotate, network, service};

fn of(is_network: bool, annotations: &[(&str, &str)]) -> Service {
    if is_network {
        network(annotations)
    } else {
        service(annotations)
    }
}

fn kinds(is_network: bool) -> [&'static str; 2] {
    if is_network {
        ["group", "listener"]
    } else {
        ["vgroup", "classic listener"]
    }
}

fn with_servers<T>(
    harness: &Harness,
    is_network: bool,
    use_them: impl Fn(&mut Vec<Value>) -> T,
) -> T {
    let mut cloud = harness.fake.lock();
    let object = &mut cloud.each(kinds(is_network)[0])[0];
    let all = if is_network {
        &mut object["_servers"]
    } else {
        &mut object["BackendServers"]["BackendServer"]
    };
    use_them(all.as_array_mut().unwrap())
}

fn events(harness: &Harness) -> String {
    harness
        .cluster
        .take_events()
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("\n")
}

/// Returns the backend that a user has added.
fn database(is_network: bool) -> Value {
    let kind = if is_network { "ServerType" } else { "Type" };
    json!({"ServerId": "i-users", "Port": 5432, "Weight": 10, kind: if is_network { "Ecs" } else { "ecs" }, "Description": "mine",
        "Status": "Available"})
}

#[tokio::test(start_paused = true)]
async fn backend_that_a_user_added_to_a_server_group_stays_and_is_reported() {
    for is_network in [false, true] {
        let harness = Harness::new().at_once();
        let mut service = of(is_network, &[]);
        harness
            .ensure(&harness.started().await, &mut service)
            .await
            .unwrap();
        with_servers(&harness, is_network, |all| all.push(database(is_network)));
        // A backend that the Service needs, under another name.
        with_servers(&harness, is_network, |all| {
            all[0]["Description"] = "mine, too".into();
        });
        events(&harness);
        harness.changes();
        harness
            .ensure(&harness.started().await, &mut service)
            .await
            .unwrap();
        let text = events(&harness);
        assert!(
            text.contains("BackendOfUser") && text.contains("i-users"),
            "{text}"
        );
        assert_eq!(harness.changes(), [""; 0]);
        harness.cluster.remove_node("worker-2");
        harness
            .ensure(&harness.started().await, &mut service)
            .await
            .unwrap();
        let left = with_servers(&harness, is_network, |all| {
            all.iter()
                .map(|object| object["Description"].clone())
                .collect::<Vec<_>>()
        });
        assert_eq!(left, ["mine, too", "mine"]);
    }
}

#[tokio::test(start_paused = true)]
async fn backend_without_a_description_at_the_port_of_its_group_follows_the_nodes() {
    let harness = Harness::new();
    let mut service = service(&[]);
    harness
        .ensure(&harness.started().await, &mut service)
        .await
        .unwrap();
    with_servers(&harness, false, |all| {
        all.iter_mut()
            .for_each(|object| object["Description"] = "".into());
    });
    harness.cluster.remove_node("worker-2");
    harness
        .ensure(&harness.started().await, &mut service)
        .await
        .unwrap();
    assert_eq!(
        with_servers(&harness, false, |all| all.len()),
        1,
        "old versions of the Go program wrote no description"
    );
}

#[tokio::test(start_paused = true)]
async fn listener_of_a_user_on_a_port_of_the_service_is_not_taken() {
    for is_network in [false, true] {
        let harness = Harness::new().at_once();
        let mut service = of(is_network, &[]);
        harness
            .ensure(&harness.started().await, &mut service)
            .await
            .unwrap();
        let [group, listener] = kinds(is_network);
        let (name, pool) = if is_network {
            ("ListenerDescription", "ServerGroupId")
        } else {
            ("Description", "VServerGroupId")
        };
        {
            let mut cloud = harness.fake.lock();
            let mut other = cloud.all(group)[0].clone();
            let names = if is_network {
                "ServerGroupName"
            } else {
                "VServerGroupName"
            };
            (other[pool], other[names]) = ("sgp-users".into(), "mine".into());
            cloud.add(group, other);
            let object = &mut cloud.each(listener)[0];
            (object[name], object[pool]) = ("mine".into(), "sgp-users".into());
        }
        let before = harness.only(listener);
        let error = harness
            .ensure(&harness.started().await, &mut service)
            .await
            .unwrap_err();
        assert!(
            error.is_invalid() && error.to_string().contains("port 80"),
            "{error}"
        );
        assert_eq!(harness.only(listener), before);
    }
}

#[tokio::test(start_paused = true)]
async fn listener_with_another_name_that_leads_to_the_server_group_of_the_service_is_taken_over() {
    for is_network in [false, true] {
        let harness = Harness::new().at_once();
        let mut service = of(is_network, &[]);
        harness
            .ensure(&harness.started().await, &mut service)
            .await
            .unwrap();
        let name = if is_network {
            "ListenerDescription"
        } else {
            "Description"
        };
        let listener = kinds(is_network)[1];
        let ours = harness.only(listener)[name].clone();
        harness.fake.lock().each(listener)[0][name] = "tcp_80".into();
        harness
            .ensure(&harness.started().await, &mut service)
            .await
            .unwrap();
        assert_eq!(harness.only(listener)[name], ours);
    }
}

#[tokio::test(start_paused = true)]
async fn address_type_that_changes_right_after_the_creation_is_refused_or_done() {
    let harness = Harness::new().at_once();
    let provider = harness.started().await;
    let mut classic = service(&[]);
    harness.ensure(&provider, &mut classic).await.unwrap();
    annotate(&mut classic, "address-type", "intranet");
    let error = harness.ensure(&provider, &mut classic).await.unwrap_err();
    assert!(
        error.is_invalid() && error.to_string().contains("AddressType"),
        "{error}"
    );
    let harness = Harness::new().at_once();
    let provider = harness.started().await;
    let mut network = network(&[]);
    harness.ensure(&provider, &mut network).await.unwrap();
    annotate(&mut network, "address-type", "intranet");
    harness.ensure(&provider, &mut network).await.unwrap();
    assert_eq!(harness.only("network")["AddressType"], "Intranet");
}

#[tokio::test(start_paused = true)]
async fn security_groups_that_may_not_be_read_stay() {
    let harness = Harness::new().at_once();
    let mut service = network(&[("security-group-ids", "sg-1")]);
    harness
        .ensure(&harness.started().await, &mut service)
        .await
        .unwrap();
    let fault = alibaba_fake::Fault::refused_as(
        "GET /ecs/DescribeSecurityGroups",
        403,
        "Forbidden.RAM",
        "not allowed",
    );
    harness.fake.fault_injector().fail(fault);
    annotate(&mut service, "security-group-ids", "sg-2");
    let provider = harness.started().await;
    harness.changes();
    harness.ensure(&provider, &mut service).await.unwrap();
    let text = events(&harness);
    assert!(text.contains("SecurityGroupsUnknown"), "{text}");
    assert_eq!(harness.changes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn backend_that_the_cloud_refuses_keeps_no_other_one_out() {
    for (is_network, is_new) in [(false, true), (false, false), (true, true), (true, false)] {
        let harness = Harness::new().at_once();
        let mut service = of(is_network, &[]);
        if !is_new {
            harness
                .ensure(&harness.started().await, &mut service)
                .await
                .unwrap();
        }
        harness.add_node("worker-3");
        harness.fake.lock().each("instance")[2]["VpcAttributes"]["VpcId"] = "vpc-other".into();
        harness
            .ensure(&harness.started().await, &mut service)
            .await
            .unwrap();
        assert_eq!(
            with_servers(&harness, is_network, |all| all.len()),
            2,
            "{is_network} {is_new}"
        );
        let text = events(&harness);
        assert!(
            text.contains("BackendRefused") && text.contains("another VPC"),
            "{text}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn setting_that_has_no_effect_is_reported() {
    for (is_network, setting, value) in [
        (false, "security-group-ids", "sg-1"),
        (false, "bandwidth", "10"),
        (false, "weight", "10"),
        (true, "spec", "slb.s1.small"),
        (true, "forward-port", "80:443"),
    ] {
        let harness = Harness::new().at_once();
        harness
            .ensure(
                &harness.started().await,
                &mut of(is_network, &[(setting, value)]),
            )
            .await
            .unwrap();
        let text = events(&harness);
        assert!(
            text.contains("SettingIgnored") && text.contains(setting),
            "{setting}: {text}"
        );
    }
    for is_network in [false, true] {
        let harness = Harness::new().at_once();
        harness
            .ensure(&harness.started().await, &mut of(is_network, &[]))
            .await
            .unwrap();
        assert_eq!(events(&harness), "");
    }
}
