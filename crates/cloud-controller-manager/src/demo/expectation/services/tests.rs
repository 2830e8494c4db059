use std::sync::Arc;

use cloud_provider::Node;
use serde_json::json;

use super::*;
use crate::demo::observed::CloudState;

/// Returns a Service with the finalizer and an address.
fn service(name: &str) -> Service {
    serde_json::from_value(json!({
        "metadata": {"name": name, "uid": format!("uid-{name}"), "finalizers": [FINALIZER_LOAD_BALANCER]},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80, "nodePort": 30080}]},
        "status": {"loadBalancer": {"ingress": [{"ip": "198.19.0.1"}]}},
    }))
    .unwrap()
}

fn balancer(service: &Service) -> Balancer {
    Balancer {
        id: "lb-1".to_owned(),
        name: default_load_balancer_name(service),
        ip: Some("198.19.0.1".to_owned()),
        pending: false,
        listeners: [(80, "TCP".to_owned(), 30080)].into(),
        targets: ["m-1", "m-2"].map(str::to_owned).into(),
    }
}

fn seen(services: Vec<Service>, balancers: Vec<Balancer>) -> Observed {
    let node = |number: usize| {
        Arc::new(Node {
            provider_id: format!("simulated://m-{number}").into(),
            ..Node::default()
        })
    };
    Observed {
        nodes: vec![node(1), node(2), Arc::default()],
        services: services.into_iter().map(Arc::new).collect(),
        cloud: Arc::new(CloudState {
            balancers,
            routes: Vec::new(),
        }),
        ..Observed::default()
    }
}

fn waits_for(verdict: ExpectationVerdict) -> String {
    match verdict {
        ExpectationVerdict::Waiting { seen, .. } => seen,
        other => panic!("{other:?}"),
    }
}

fn ports(names: &[&str]) -> Vec<(String, u16)> {
    names.iter().map(|name| ((*name).to_owned(), 80)).collect()
}

#[test]
fn a_service_with_its_load_balancer_is_as_it_should_be() {
    let web = service("web");
    let now = seen(vec![web.clone()], vec![balancer(&web)]);
    assert_eq!(
        balanced(&now, &ports(&["web"])),
        ExpectationVerdict::Happened(vec![])
    );
}

type Spoil = fn(&mut Service, &mut Balancer);

#[test]
fn each_difference_of_a_load_balancer_is_named() {
    let table: [(Spoil, &str); 7] = [
        (
            |_, balancer| balancer.listeners = [].into(),
            "web has lb-1 at 198.19.0.1, no listener, 2 targets, wanted 80/TCP",
        ),
        (|_, balancer| balancer.pending = true, "(pending)"),
        (
            |_, balancer| _ = balancer.targets.remove("m-1"),
            "web has 1 targets of 2 Nodes",
        ),
        (
            |_, balancer| balancer.name = "other".to_owned(),
            "web has no load balancer",
        ),
        (
            |service, _| service.metadata.finalizers = None,
            "web has no finalizer",
        ),
        (
            |service, _| service.status = None,
            "web says [], the cloud \"198.19.0.1\"",
        ),
        (
            |_, balancer| balancer.ip = Some("198.19.0.2".to_owned()),
            "web says [\"198.19.0.1\"], the cloud \"198.19.0.2\"",
        ),
    ];
    for (spoil, expected) in table {
        let mut web = service("web");
        let mut its = balancer(&web);
        spoil(&mut web, &mut its);
        let seen = waits_for(balanced(&seen(vec![web], vec![its]), &ports(&["web"])));
        assert!(seen.contains(expected), "{seen}");
    }
}

#[test]
fn load_balancers_that_are_left_or_doubled_fail_the_expectation() {
    let web = service("web");
    let left = waits_for(balanced(&seen(vec![web.clone()], vec![]), &[]));
    assert_eq!(
        left,
        "0 of 0 Services are so, 0 load balancers in the cloud; web still has the finalizer"
    );
    let bare = Service {
        metadata: Default::default(),
        ..web.clone()
    };
    assert!(waits_for(balanced(&seen(vec![bare], vec![]), &[])).contains("still says 198.19.0.1"));
    let stray = waits_for(balanced(&seen(vec![], vec![balancer(&web)]), &[]));
    assert!(
        stray.contains("the cloud has lb-1 auidweb too many"),
        "{stray}"
    );
    let twice = vec![
        balancer(&web),
        Balancer {
            id: "lb-2".to_owned(),
            ..balancer(&web)
        },
    ];
    assert!(
        waits_for(balanced(&seen(vec![web], twice), &ports(&["web"])))
            .contains("web has 2 load balancers")
    );
    assert_eq!(
        balanced(&seen(vec![], vec![]), &[]),
        ExpectationVerdict::Happened(vec![])
    );
}

#[test]
fn a_service_is_gone_when_the_api_has_it_no_longer() {
    let web = service("web");
    assert!(matches!(
        gone(&seen(vec![], vec![]), "web"),
        ExpectationVerdict::Happened(_)
    ));
    let seen = waits_for(gone(&seen(vec![web.clone()], vec![balancer(&web)]), "web"));
    let its = "lb-1 at 198.19.0.1, 80/TCP → 30080, 2 targets";
    assert_eq!(
        seen,
        format!("Service web: with finalizer; in the cloud: {its}")
    );
}

#[test]
fn an_interrupted_service_is_neither_here_nor_there() {
    let mut web = service("web");
    let verdict = |web: &Service, balancers, deleting, in_cloud| {
        matches!(
            interrupted(
                &seen(vec![web.clone()], balancers),
                "web",
                deleting,
                in_cloud
            ),
            ExpectationVerdict::Happened(_)
        )
    };
    let its = vec![balancer(&web)];
    assert!(
        !verdict(&web, its.clone(), false, true),
        "it has its address"
    );
    assert!(!verdict(&web, its.clone(), true, true), "nobody deletes it");
    web.metadata.deletion_timestamp =
        serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    assert!(verdict(&web, its.clone(), true, true));
    assert!(verdict(&web, vec![], true, false) && !verdict(&web, its.clone(), true, false));
    web.metadata.deletion_timestamp = None;
    web.status = None;
    assert!(verdict(&web, its, false, true));
}

#[test]
fn expectation_of_many_services_is_one_line() {
    assert_eq!(
        expected(&[]),
        "no load balancer, with address, finalizer and every Node as target, and nothing else in the cloud"
    );
    assert!(
        expected(&ports(&["a", "b", "c", "d", "e"]))
            .starts_with("one each for a (80), b (80), c (80), 2 more, with")
    );
}
