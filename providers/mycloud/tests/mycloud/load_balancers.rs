//! Load balancers from creation to deletion.

use std::time::Duration;

use cloud_provider::{CloudProvider, LoadBalancerStatus};
use fake_cloud::Fault;
use serde_json::json;
use tokio::time::Instant;

use crate::harness::{Harness, PREFIX, UID, annotate, cluster, service, service_of};

fn shown(status: &LoadBalancerStatus) -> Vec<String> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let ingress = status.ingress.iter().flatten();
    ingress
        .map(|ingress| {
            format!(
                "{}{} {}",
                text(&ingress.ip),
                text(&ingress.hostname),
                text(&ingress.ip_mode)
            )
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn load_balancer_is_created_once_and_shown_with_its_address() {
    let harness = Harness::new("").await;
    let mut service = service(&[]);
    let status = harness.ensure(&mut service).await.unwrap();
    let made = harness.load_balancer();
    assert_eq!(made["name"], "prod-default-web");
    assert!(
        made["key"].as_str().unwrap().starts_with(UID),
        "{}",
        made["key"]
    );
    for (label, value) in [
        ("cluster-id", "prod"),
        ("service", "default/web"),
        ("service-uid", UID),
    ] {
        assert_eq!(made["labels"][format!("kubernetes.io/{label}")], value);
    }
    assert_eq!(
        shown(&status),
        [format!(
            "{} VIP",
            made["vips"][0]["address"].as_str().unwrap()
        )]
    );
    assert_eq!(
        json!(service.metadata.annotations.as_ref().unwrap()[&format!("{PREFIX}id")]),
        made["id"]
    );
    assert_eq!(harness.listener(443)["owner"], "k8s:prod");
    harness.changes();

    harness.ensure(&mut service).await.unwrap();
    assert_eq!(harness.changes(), [""; 0], "nothing has changed");
    harness.delete(&service).await.unwrap();
    assert!(harness.cloud.0.lock().load_balancers.is_empty());
    harness.delete(&service).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn long_name_is_cut_and_ends_with_a_hash() {
    let harness = Harness::new("").await;
    let balancers = harness.provider.load_balancers().unwrap();
    let mut service = service(&[]);
    assert_eq!(balancers.name(&cluster(), &service), "prod-default-web");
    let mut names = [63, 62].map(|length| {
        service.metadata.namespace = Some("n".repeat(30));
        service.metadata.name = Some("s".repeat(length));
        balancers.name(&cluster(), &service)
    });
    names.sort();
    assert!(
        names
            .iter()
            .all(|name| name.len() == 80 && name.as_bytes()[71] == b'-'),
        "{names:?}"
    );
    assert_ne!(names[0], names[1]);
}

#[tokio::test(start_paused = true)]
async fn changed_ports_change_only_their_listeners() {
    let harness = Harness::new("").await;
    let mut service = service(&[]);
    harness.ensure(&mut service).await.unwrap();
    harness.changes();
    let ports = json!([{"name": "http", "port": 80, "nodePort": 30080}, {"name": "dns", "port": 53, "nodePort": 30053, "protocol": "UDP"}]);
    service.spec.as_mut().unwrap().ports = serde_json::from_value(ports).unwrap();
    harness.ensure(&mut service).await.unwrap();
    let balancer = harness.load_balancer();
    let mut ports: Vec<_> = crate::profile::list(&balancer["listeners"])
        .map(|listeners| listeners["port"].as_u64())
        .collect();
    ports.sort();
    assert_eq!(
        (ports, balancer["groups"].as_array().unwrap().len()),
        (vec![Some(53), Some(80)], 2)
    );
    harness.changes();
    annotate(&mut service, "listener-protocol.80", "http");
    harness.ensure(&mut service).await.unwrap();
    let listener = "/loadbalancers/{id}/listeners";
    assert_eq!(
        harness.changes(),
        [
            format!("DELETE {listener}/{{part}}"),
            format!("POST {listener}")
        ]
    );
    assert_eq!(harness.listener(80)["protocol"], "http");
}

#[tokio::test(start_paused = true)]
async fn settings_that_need_another_load_balancer_are_refused_unless_the_user_allows_it() {
    let harness = Harness::new("").await;
    let mut service = service(&[]);
    harness.ensure(&mut service).await.unwrap();
    let before = harness.load_balancer()["id"].clone();
    annotate(&mut service, "spec", "large");
    annotate(&mut service, "network-type", "internet");
    let error = harness.ensure(&mut service).await.unwrap_err().to_string();
    assert!(
        error.contains("network-type: intranet → internet")
            && error.contains("allow-recreate: \"true\""),
        "{error}"
    );
    assert_eq!(harness.load_balancer()["id"], before);
    annotate(&mut service, "allow-recreate", "true");
    annotate(&mut service, "bandwidth-mbps", "100");
    harness.ensure(&mut service).await.unwrap();
    let after = harness.load_balancer();
    assert_ne!(after["id"], before);
    assert_eq!(
        (
            &after["network_type"],
            &after["spec"],
            &after["bandwidth_mbps"]
        ),
        (&json!("internet"), &json!("large"), &json!(100))
    );
    let requests: Vec<_> = harness
        .changes()
        .into_iter()
        .filter(|change| change.ends_with("/loadbalancers") || change.starts_with("DELETE"))
        .collect();
    assert_eq!(
        requests.last().map(String::as_str),
        Some("DELETE /loadbalancers/{id}"),
        "the new one first: {requests:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn refused_replacement_leaves_the_load_balancer_in_use() {
    let harness = Harness::new("").await;
    let mut service = service(&[("allow-recreate", "true")]);
    harness.ensure(&mut service).await.unwrap();
    let before = harness.load_balancer()["id"].clone();
    annotate(&mut service, "network-type", "internet");
    harness
        .cloud
        .0
        .fault_injector()
        .fail(Fault::code("POST /loadbalancers", "QuotaExceeded").times(1));
    harness.ensure(&mut service).await.unwrap_err();
    assert_eq!(harness.load_balancer()["id"], before);
    harness.ensure(&mut service).await.unwrap();
    assert_ne!(harness.load_balancer()["id"], before);
}

#[tokio::test(start_paused = true)]
async fn replacement_with_the_same_address_needs_the_permission_to_interrupt() {
    let harness = Harness::new("").await;
    let mut service = service(&[("allow-recreate", "true"), ("ip", "203.0.113.7")]);
    harness.ensure(&mut service).await.unwrap();
    let before = harness.load_balancer()["id"].clone();
    annotate(&mut service, "network-type", "internet");
    let error = harness.ensure(&mut service).await.unwrap_err().to_string();
    assert!(error.contains("allow-interruption: \"true\""), "{error}");
    assert_eq!(harness.load_balancer()["id"], before);
    annotate(&mut service, "allow-interruption", "true");
    harness.ensure(&mut service).await.unwrap();
    assert_ne!(harness.load_balancer()["id"], before);
}

#[tokio::test(start_paused = true)]
async fn source_ranges_become_an_access_list_of_all_listeners() {
    let harness = Harness::new("").await;
    let mut service = service_of(
        &[],
        json!({"loadBalancerSourceRanges": ["10.2.0.0/16", "10.1.0.0/16", "10.2.0.0/16"]}),
    );
    harness.ensure(&mut service).await.unwrap();
    let list = harness.load_balancer()["access_lists"][0].clone();
    assert_eq!(list["entries"], json!(["10.1.0.0/16", "10.2.0.0/16"]));
    for port in [80, 443] {
        assert_eq!(
            harness.listener(port)["acl"],
            json!({"type": "white", "id": list["id"]})
        );
    }
    harness.changes();
    harness.ensure(&mut service).await.unwrap();
    assert_eq!(harness.changes(), [""; 0]);
    service.spec.as_mut().unwrap().load_balancer_source_ranges =
        Some(vec!["10.3.0.0/16".to_owned()]);
    harness.ensure(&mut service).await.unwrap();
    assert_eq!(harness.changes(), ["PATCH /access-lists/{id}"]);
    service.spec.as_mut().unwrap().load_balancer_source_ranges = None;
    harness.ensure(&mut service).await.unwrap();
    assert_eq!(
        (
            &harness.listener(80)["acl"]["type"],
            &harness.load_balancer()["access_lists"]
        ),
        (&json!("off"), &json!([]))
    );
    annotate(&mut service, "acl-id", "acl-shared");
    annotate(&mut service, "acl-type", "black");
    harness.ensure(&mut service).await.unwrap();
    assert_eq!(
        harness.listener(443)["acl"],
        json!({"type": "black", "id": "acl-shared"})
    );
    service.spec.as_mut().unwrap().load_balancer_source_ranges =
        Some(vec!["10.3.0.0/16".to_owned()]);
    let error = harness.ensure(&mut service).await.unwrap_err().to_string();
    assert!(
        error.contains("acl-id does not go with source ranges"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn status_shows_addresses_host_name_and_mode() {
    let harness = Harness::new("").await;
    let mut service = service_of(
        &[("listener-proxy-protocol", "v2")],
        json!({"ipFamilies": ["IPv4", "IPv6"]}),
    );
    let status = shown(&harness.ensure(&mut service).await.unwrap());
    assert!(
        status.len() == 2 && status.iter().all(|status| status.ends_with(" Proxy")),
        "{status:?}"
    );
    annotate(&mut service, "hostname", "web.example.com");
    assert_eq!(
        shown(&harness.ensure(&mut service).await.unwrap()),
        ["web.example.com "]
    );
}

#[tokio::test(start_paused = true)]
async fn failed_task_is_reported_with_code_and_message() {
    let harness = Harness::new("").await;
    let mut service = service(&[]);
    harness
        .cloud
        .0
        .fault_injector()
        .fail(Fault::ends_in_error("POST /loadbalancers/{id}/listeners", "QuotaExceeded").times(1));
    let error = harness.ensure(&mut service).await.unwrap_err();
    assert!(
        error.is_quota()
            && error
                .to_string()
                .contains("failed: on purpose (QuotaExceeded)"),
        "{error}"
    );
    harness.ensure(&mut service).await.unwrap();
    assert_eq!(
        harness.load_balancer()["listeners"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
}

#[tokio::test(start_paused = true)]
async fn creation_that_takes_long_is_tried_again_later() {
    let harness = Harness::new("[LoadBalancer]\naction-timeout = 20s\n").await;
    harness.cloud.0.lock().task_time = Duration::from_secs(90);
    let mut service = service(&[]);
    let begun = Instant::now();
    let error = harness.ensure(&mut service).await.unwrap_err();
    assert_eq!(error.retry_after(), Some(Duration::from_secs(5)), "{error}");
    assert!((20..25).contains(&begun.elapsed().as_secs()));
    harness.cloud.0.lock().task_time = Duration::ZERO;
    tokio::time::sleep(Duration::from_secs(60)).await;
    harness.ensure(&mut service).await.unwrap();
    assert_eq!(
        harness
            .cloud
            .0
            .fault_injector()
            .count("POST /loadbalancers"),
        1
    );
}

#[tokio::test(start_paused = true)]
async fn requests_keep_to_the_limit_of_the_configuration() {
    let harness = Harness::new("[Global]\nqps = 1\nburst = 2\n").await;
    let begun = Instant::now();
    harness.ensure(&mut service(&[])).await.unwrap();
    let sent = harness.cloud.0.fault_injector().requests().len() as u64;
    let seconds = begun.elapsed().as_secs();
    assert!(
        sent > 8 && seconds + 3 >= sent,
        "{sent} requests in {seconds} s"
    );
}

#[tokio::test(start_paused = true)]
async fn protected_load_balancer_is_deleted_and_a_preserved_one_is_let_go() {
    let harness = Harness::new("").await;
    let mut protected = service(&[("delete-protection", "true"), ("drain-timeout", "60")]);
    harness.ensure(&mut protected).await.unwrap();
    assert_eq!(harness.load_balancer()["delete_protection"], true);
    harness.delete(&protected).await.unwrap();
    assert!(harness.cloud.0.lock().load_balancers.is_empty());

    let mut preserved = service_of(
        &[("preserve", "true")],
        json!({"loadBalancerSourceRanges": ["10.2.0.0/16"]}),
    );
    harness.ensure(&mut preserved).await.unwrap();
    harness.delete(&preserved).await.unwrap();
    let left = harness.load_balancer();
    assert_eq!(
        (
            &left["listeners"],
            &left["groups"],
            &left["access_lists"],
            &left["labels"]
        ),
        (&json!([]), &json!([]), &json!([]), &json!({}))
    );
}

#[tokio::test(start_paused = true)]
async fn load_balancer_of_another_service_with_the_same_name_is_left_alone() {
    let harness = Harness::new("").await;
    harness.cloud.add_load_balancer("prod-default-web");
    harness.cloud.change_all(|cloud| {
        cloud["labels"] = json!({"kubernetes.io/cluster-id": "prod-default", "kubernetes.io/service": "web/x"});
    });
    let mut service = service(&[("adopt", "true")]);
    assert!(harness.ensure(&mut service).await.is_err());
    assert_eq!(harness.changes(), [""; 0]);
    let events = harness.events();
    assert!(
        events
            .iter()
            .any(|event| event.starts_with("LoadBalancerNameCollision") && event.contains("web/x")),
        "{events:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn unowned_load_balancer_is_adopted_on_request_and_kept_with_its_listeners() {
    let harness = Harness::new("").await;
    let id = harness.cloud.add_load_balancer("by-hand");
    harness.cloud.change_all(|cloud| {
        cloud["groups"] = json!([{"id": "gro-x", "name": "x", "owner": "", "health_check": {"port": 1}, "members": []}]);
        cloud["listeners"] =
            json!([{"id": "lis-x", "port": 22, "protocol": "tcp", "group_id": "gro-x", "owner": "admin"}]);
    });
    let mut service = service(&[("id", &id), ("adopt", "true")]);
    harness.ensure(&mut service).await.unwrap();
    let balancer = harness.load_balancer();
    assert_eq!(
        (
            balancer["listeners"].as_array().unwrap().len(),
            &balancer["labels"]["team"]
        ),
        (3, &json!("db"))
    );
    harness.changes();
    harness.ensure(&mut service).await.unwrap();
    assert_eq!(harness.changes(), [""; 0]);
    harness.delete(&service).await.unwrap();
    let left = harness.load_balancer();
    assert_eq!(
        (left["listeners"].as_array().unwrap().len(), &left["labels"]),
        (1, &json!({"team": "db"}))
    );
}

#[tokio::test(start_paused = true)]
async fn load_balancer_without_the_required_label_is_not_adopted() {
    for (tag, is_adopted) in [("team=db", true), ("team=web", false)] {
        let harness = Harness::requiring(tag).await;
        let id = harness.cloud.add_load_balancer("by-hand");
        let mut service = service(&[("id", &id), ("adopt", "true")]);
        let outcome = harness.ensure(&mut service).await;
        assert_eq!(outcome.is_ok(), is_adopted, "{tag}: {outcome:?}");
        if let Err(error) = outcome {
            assert!(
                error
                    .to_string()
                    .contains("give it the tag team=web, which --adoptable"),
                "{error}"
            );
            assert_eq!(harness.changes(), [""; 0]);
        }
    }
}
