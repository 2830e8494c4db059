//! Load balancers: stacks and services, states and upgrades, links and external services.

use std::time::Duration;

use cloud_provider::Cluster;
use rancher_fake::Fault;
use serde_json::{Value, json};

use crate::harness::{Harness, cluster, service};
use crate::profile::{list, text};

fn rules(balancer: &Value) -> Vec<(u64, u64, String)> {
    let number = |object: &Value| object.as_u64().unwrap();
    let rule = |object: &Value| {
        (
            number(&object["sourcePort"]),
            number(&object["targetPort"]),
            text(&object["protocol"]),
        )
    };
    list(&balancer["lbConfig"]["portRules"]).map(rule).collect()
}

#[tokio::test(start_paused = true)]
async fn service_becomes_a_load_balancer_with_an_external_service_for_each_node() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut web = service(&[80, 443], &[], json!({}));
    let status = harness.ensure(&provider, &mut web).await.unwrap();
    assert_eq!(status.ingress.unwrap().len(), 1, "each address once");
    let balancer = harness.balancer();
    assert_eq!(balancer["name"], "lb-a0b0a1c0f3f3e4c57a1b59f5f2a7d8c1");
    assert_eq!(
        balancer["launchConfig"]["ports"],
        json!(["443:443/tcp", "80:80/tcp"])
    );
    assert_eq!(
        balancer["launchConfig"]["imageUuid"],
        "docker:rancher/lb-service-haproxy:v0.9.1"
    );
    assert_eq!(
        balancer["metadata"],
        json!({"ccm-rs/cluster": "5c1d", "ccm-rs/service": web.metadata.uid})
    );
    assert_eq!(rules(&balancer).len(), 4);
    assert_eq!(balancer["linkedServices"].as_object().unwrap().len(), 2);
    assert_eq!(harness.externals(), ["worker-1", "worker-2"]);
    let stack = harness.fake.lock().stacks[0].clone();
    assert_eq!(
        (&stack["name"], &stack["externalId"]),
        (
            &json!("kubernetes-loadbalancers"),
            &json!("kubernetes-loadbalancers://")
        )
    );

    harness.fake.fault_injector().forget_requests();
    harness.ensure(&provider, &mut web).await.unwrap();
    assert_eq!(harness.changes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn order_of_ports_keeps_the_load_balancer_and_other_ports_upgrade_it() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut web = service(&[80, 443], &[], json!({}));
    harness.ensure(&provider, &mut web).await.unwrap();
    let id = harness.balancer()["id"].clone();
    harness.fake.fault_injector().forget_requests();
    harness
        .ensure(&provider, &mut service(&[443, 80], &[], json!({})))
        .await
        .unwrap();
    assert_eq!(harness.changes(), [""; 0]);

    let all = [("scale", "2")];
    harness
        .ensure(&provider, &mut service(&[80, 8080], &all, json!({})))
        .await
        .unwrap();
    assert_eq!(
        harness.balancer()["scale"],
        2,
        "settings that change together with the ports are written, too"
    );
    for ports in [&[80, 8080][..], &[80]] {
        harness
            .ensure(&provider, &mut service(ports, &[], json!({})))
            .await
            .unwrap();
        let balancer = harness.balancer();
        assert_eq!(
            (&balancer["id"], &balancer["state"]),
            (&id, &json!("active")),
            "the upgrade is finished"
        );
        let published: Vec<_> = ports
            .iter()
            .map(|port| format!("{port}:{port}/tcp"))
            .collect();
        let has = list(&balancer["launchConfig"]["ports"])
            .map(text)
            .collect::<std::collections::BTreeSet<_>>();
        assert_eq!(has, published.into_iter().collect());
        assert!(rules(&balancer).iter().all(|(port, ..)| {
            ports
                .iter()
                .any(|other_port| u64::from(*other_port) == *port)
        }));
    }
}

#[tokio::test(start_paused = true)]
async fn ports_that_change_before_the_first_start_are_published_after_it() {
    let harness = Harness::new();
    let provider = harness.started().await;
    harness
        .fake
        .fault_injector()
        .fail(Fault::status("POST /loadbalancerservices/{id}", 500).times(99));
    harness
        .ensure(&provider, &mut service(&[80], &[], json!({})))
        .await
        .unwrap_err();
    harness.fake.fault_injector().clear_faults();
    assert_eq!(harness.balancer()["state"], "inactive");

    harness
        .ensure(&provider, &mut service(&[443], &[], json!({})))
        .await
        .unwrap();
    let balancer = harness.balancer();
    assert_eq!(
        (&balancer["state"], &balancer["launchConfig"]["ports"]),
        (&json!("active"), &json!(["443:443/tcp"]))
    );
    assert!(rules(&balancer).len() == 2 && rules(&balancer).iter().all(|(port, ..)| *port == 443));
}

#[tokio::test(start_paused = true)]
async fn only_the_difference_of_nodes_changes_and_shared_external_services_stay() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut web = service(&[80], &[], json!({}));
    let mut other = service(&[81], &[], json!({}));
    other.metadata.uid = Some("1c0a1c0f-3f3e-4c57-a1b5-9f5f2a7d8c11".to_owned());
    harness.ensure(&provider, &mut web).await.unwrap();
    harness.ensure(&provider, &mut other).await.unwrap();
    let before = harness.live("externalService");
    harness.add_node("worker-3");
    harness.ensure(&provider, &mut web).await.unwrap();
    assert_eq!(harness.externals(), ["worker-1", "worker-2", "worker-3"]);
    assert_eq!(
        harness.live("externalService")[..2],
        before[..],
        "the others stay"
    );

    harness.delete(&provider, &web).await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(
        harness.externals(),
        ["worker-1", "worker-2"],
        "the other load balancer uses them"
    );
    harness.delete(&provider, &other).await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(harness.externals(), [""; 0]);
    assert_eq!(harness.live("loadBalancerService"), [Value::Null; 0]);
}

#[tokio::test(start_paused = true)]
async fn rules_that_were_removed_by_hand_are_written_again() {
    let harness = Harness::new();
    let mut web = service(&[80], &[], json!({}));
    harness
        .ensure(&harness.started().await, &mut web)
        .await
        .unwrap();
    harness
        .fake
        .lock()
        .services
        .iter_mut()
        .for_each(|service| service["lbConfig"]["portRules"] = json!([]));
    harness
        .ensure(&harness.started().await, &mut web)
        .await
        .unwrap();
    assert_eq!(
        rules(&harness.balancer()).len(),
        2,
        "{:#?}",
        harness.changes()
    );
}

#[tokio::test(start_paused = true)]
async fn external_service_gets_the_new_address_of_its_host() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let mut web = service(&[80], &[], json!({}));
    harness.ensure(&provider, &mut web).await.unwrap();
    let uuid = text(&harness.host("worker-1")["uuid"]);
    harness.set_node("worker-1", &uuid, "10.9.9.9");
    harness.ensure(&provider, &mut web).await.unwrap();
    let addresses: Vec<_> = harness
        .live("externalService")
        .iter()
        .map(|object| text(&object["externalIpAddresses"][0]))
        .collect();
    assert!(
        addresses.contains(&"10.9.9.9".to_owned()) && addresses.len() == 2,
        "{addresses:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn deletion_waits_for_no_load_balancer_that_cannot_start() {
    let harness = Harness::new();
    harness.fake.lock().has_no_free_port = true;
    let provider = harness.started().await;
    let mut web = service(&[80], &[], json!({}));
    let _ =
        tokio::time::timeout(Duration::from_secs(30), harness.ensure(&provider, &mut web)).await;
    assert_eq!(harness.balancer()["state"], "activating");
    harness.delete(&provider, &web).await.unwrap();
    assert_eq!(harness.live("loadBalancerService"), [Value::Null; 0]);
}

#[tokio::test(start_paused = true)]
async fn load_balancer_whose_port_is_taken_is_reported_and_gets_another_port() {
    let harness = Harness::new();
    harness.fake.lock().has_no_free_port = true;
    let provider = harness.started().await;
    let error = harness
        .ensure(&provider, &mut service(&[80], &[], json!({})))
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("Scheduling failed") && error.contains("Free the port on the hosts"),
        "{error}"
    );
    let id = harness.balancer()["id"].clone();
    harness
        .ensure(&provider, &mut service(&[80], &[], json!({})))
        .await
        .unwrap_err();
    assert_eq!(
        harness.balancer()["id"],
        id,
        "the same ports are no reason for another load balancer"
    );

    let mut web = service(&[443], &[], json!({}));
    let _ = harness.ensure(&provider, &mut web).await;
    assert_ne!(
        harness.balancer()["id"],
        id,
        "other ports need another load balancer"
    );
    harness.fake.lock().has_no_free_port = false;
    tokio::time::sleep(Duration::from_secs(5)).await;
    for _ in 0..3 {
        if harness.ensure(&provider, &mut web).await.is_ok() {
            break;
        }
    }
    let balancer = harness.balancer();
    assert_eq!(
        (&balancer["state"], &balancer["launchConfig"]["ports"]),
        (&json!("active"), &json!(["443:443/tcp"]))
    );
}

#[tokio::test(start_paused = true)]
async fn load_balancer_that_a_user_renamed_is_deleted_with_its_service_after_a_restart() {
    let harness = Harness::new();
    let web = service(&[80], &[], json!({}));
    harness
        .ensure(&harness.started().await, &mut web.clone())
        .await
        .unwrap();
    let rename = |object: &mut Value| object["name"] = "shop".into();
    harness
        .fake
        .lock()
        .services
        .iter_mut()
        .filter(|service| service["type"] == "loadBalancerService")
        .for_each(rename);
    harness
        .delete(&harness.started().await, &web)
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(harness.live("loadBalancerService"), [Value::Null; 0]);
}

#[tokio::test(start_paused = true)]
async fn annotations_become_settings_of_the_load_balancer() {
    let harness = Harness::new();
    let provider = harness.started().await;
    let all = [
        ("scale", "2"),
        ("protocols", "80=http,443=https"),
        ("certificate-ids", "1c5,1c6"),
        ("stickiness-cookie", "node"),
    ];
    let mut web = service(&[80, 443], &all, json!({}));
    harness.ensure(&provider, &mut web).await.unwrap();
    let balancer = harness.balancer();
    let config = &balancer["lbConfig"];
    assert_eq!(
        (&balancer["scale"], &config["certificateIds"]),
        (&json!(2), &json!(["1c5", "1c6"]))
    );
    assert_eq!(
        (
            &config["defaultCertificateId"],
            &config["stickinessPolicy"]["cookie"]
        ),
        (&json!("1c5"), &json!("node"))
    );
    assert!(
        rules(&balancer)
            .iter()
            .any(|rule| *rule == (443, 30443, "https".to_owned()))
    );

    harness
        .fake
        .lock()
        .services
        .iter_mut()
        .for_each(|service| service["lbConfig"]["config"] = "global".into());
    let all = [
        ("scale", "3"),
        ("protocols", "443=tls"),
        ("certificate-ids", "1c6"),
    ];
    harness
        .ensure(&provider, &mut service(&[80, 443], &all, json!({})))
        .await
        .unwrap();
    let balancer = harness.balancer();
    assert_eq!(
        (
            &balancer["scale"],
            &balancer["lbConfig"]["defaultCertificateId"]
        ),
        (&json!(3), &json!("1c6"))
    );
    assert_eq!(
        balancer["lbConfig"]["config"], "global",
        "a configuration by hand stays"
    );
}

#[tokio::test(start_paused = true)]
async fn mistakes_of_a_service_are_reported_before_any_request() {
    for (ports, all, more, expected) in [
        (
            &[80][..],
            &[][..],
            json!({"loadBalancerIP": "192.0.2.1"}),
            "spec.loadBalancerIP",
        ),
        (
            &[80],
            &[],
            json!({"sessionAffinity": "ClientIP"}),
            "sessionAffinity: \"ClientIP\"",
        ),
        (&[42], &[], json!({}), "port 42"),
        (
            &[80],
            &[],
            json!({"ports": [{"port": 53, "protocol": "UDP", "nodePort": 30053}]}),
            "\"UDP\"",
        ),
        (
            &[80],
            &[("protocols", "80=https")],
            json!({}),
            "certificate-ids",
        ),
        (&[80], &[("protocols", "81=http")], json!({}), "no port 81"),
        (&[80], &[("protocols", "80=ftp")], json!({}), "443=https"),
        (
            &[80],
            &[("stickiness-cookie", "x")],
            json!({}),
            "only http and https have cookies",
        ),
        (&[80], &[("scale", "0")], json!({}), "scale"),
    ] {
        let harness = Harness::new();
        let provider = harness.started().await;
        let error = harness
            .ensure(&provider, &mut service(ports, all, more))
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected), "{error}");
        assert_eq!(harness.changes(), [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn limits_of_the_program_hold_for_containers_and_ports() {
    let harness = Harness::new()
        .set("CATTLE_MAX_SCALE", "2")
        .set("CATTLE_SERVICE_PORTS", "80, 8000-8999");
    let provider = harness.started().await;
    for (ports, scale, expected) in [
        (
            &[80][..],
            "3",
            "scale: 3 is more than CATTLE_MAX_SCALE of the program allows; use at most 2",
        ),
        (
            &[22],
            "1",
            "port 22: load balancers may not publish it on hosts",
        ),
        (
            &[8000, 7999],
            "1",
            "CATTLE_SERVICE_PORTS of the program allows: 80, 8000-8999",
        ),
    ] {
        let mut web = service(ports, &[("scale", scale)], json!({}));
        let error = harness.ensure(&provider, &mut web).await.unwrap_err();
        assert!(
            error.is_invalid() && error.to_string().contains(expected),
            "{error}"
        );
        assert_eq!(harness.changes(), [""; 0]);
    }
    harness
        .ensure(
            &provider,
            &mut service(&[80, 8999], &[("scale", "2")], json!({})),
        )
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn message_of_a_load_balancer_that_failed_is_reported() {
    let harness = Harness::new();
    let provider = harness.started().await;
    harness
        .fake
        .fault_injector()
        .fail(Fault::ends_in_error("POST /loadbalancerservices/{id}", "x").times(9));
    let error = harness
        .ensure(&provider, &mut service(&[80], &[], json!({})))
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("state error. Restart the load balancer in Rancher"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn canceled_upgrade_is_reported_until_a_user_ends_it() {
    let harness = Harness::new();
    let provider = harness.started().await;
    harness
        .ensure(&provider, &mut service(&[80], &[], json!({})))
        .await
        .unwrap();
    for (state, ends) in [
        ("canceled-upgrade", "active"),
        ("canceled-rollback", "upgraded"),
    ] {
        let set = |state: &str| {
            let mut cloud = harness.fake.lock();
            cloud
                .services
                .iter_mut()
                .filter(|service| service["launchConfig"].is_object())
                .for_each(|service| service["state"] = state.into());
        };
        set(state);
        let provider = harness.started().await;
        let error = harness
            .ensure(&provider, &mut service(&[443], &[], json!({})))
            .await
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(state)
                && error.contains("Finish the upgrade or roll it back in Rancher"),
            "{error}"
        );
        assert_eq!(harness.changes(), [""; 0]);
        set(ends);
        harness
            .ensure(&provider, &mut service(&[443], &[], json!({})))
            .await
            .unwrap();
        assert_eq!(
            harness.balancer()["launchConfig"]["ports"],
            json!(["443:443/tcp"])
        );
        harness
            .ensure(&provider, &mut service(&[80], &[], json!({})))
            .await
            .unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn missing_image_is_explained() {
    let harness = Harness::new();
    harness.fake.lock().image = String::new();
    let provider = harness.started().await;
    let error = harness
        .ensure(&provider, &mut service(&[80], &[], json!({})))
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("lb.instance.image"), "{error}");
    assert_eq!(
        harness.fake.lock().stacks,
        [Value::Null; 0],
        "nothing is created without it"
    );
}

#[tokio::test(start_paused = true)]
async fn unused_external_services_of_this_cluster_are_swept() {
    let harness = Harness::new();
    let provider = harness.started().await;
    harness
        .ensure(&provider, &mut service(&[80], &[], json!({})))
        .await
        .unwrap();
    for (name, metadata) in [
        ("left", json!({"ccm-rs/cluster": "5c1d"})),
        ("hand", json!({})),
        ("other", json!({"ccm-rs/cluster": "x"})),
    ] {
        let mut cloud = harness.fake.lock();
        let id = format!("1s{}", cloud.number());
        cloud.services.push(json!({
            "id": id, "type": "externalService", "environment": "ours", "name": name, "state": "active", "removed": null,
            "stackId": "1st1", "metadata": metadata, "externalIpAddresses": ["192.0.2.9"],
        }));
    }
    tokio::time::sleep(Duration::from_secs(90)).await;
    assert_eq!(
        harness.externals(),
        ["worker-1", "worker-2", "hand", "other"]
    );
}

#[tokio::test(start_paused = true)]
async fn nothing_is_swept_without_the_id_of_the_cluster() {
    let harness = Harness::new();
    let _provider = harness
        .started_in(Cluster {
            id: None,
            ..cluster()
        })
        .await;
    harness.fake.lock().services.push(json!({
        "id": "1s99", "type": "externalService", "environment": "ours", "name": "theirs", "state": "active",
        "removed": null, "stackId": "1st1", "metadata": {"ccm-rs/cluster": "kubernetes"},
    }));
    tokio::time::sleep(Duration::from_secs(90)).await;
    assert_eq!(
        harness.externals(),
        ["theirs"],
        "another cluster may have the same name"
    );
}

#[tokio::test(start_paused = true)]
async fn names_of_external_services_are_those_of_the_go_program() {
    let harness = Harness::new();
    let long = "n".repeat(70);
    for (number, name) in ["node-1.example.org", "a..b", &long]
        .into_iter()
        .enumerate()
    {
        harness.set_node(
            name,
            &text(&harness.host("worker-1")["uuid"]),
            &format!("10.2.0.{}", number + 1),
        );
    }
    let provider = harness.started().await;
    harness
        .ensure(&provider, &mut service(&[80], &[], json!({})))
        .await
        .unwrap();
    let names = harness.externals();
    for expected in ["node-1-example-org", "a-b", &long[..63]] {
        assert!(names.iter().any(|name| name == expected), "{names:?}");
    }
}
