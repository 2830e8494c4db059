use std::sync::Arc;

use cloud_provider::names::{
    EFFECT_NO_SCHEDULE, LABEL_INSTANCE_TYPE, LABEL_REGION, LABEL_ZONE, TAINT_SHUTDOWN,
    TAINT_UNINITIALIZED,
};
use cloud_provider::{
    AddressType, ConditionStatus, NodeAddress, Service, Taint, default_load_balancer_name,
};
use serde_json::json;

use super::*;
use crate::demo::observed::{Balancer, CloudState, ObservedEvent};

fn new(name: &str) -> Node {
    Node {
        name: name.into(),
        uid: format!("uid-{name}").into(),
        taints: [Taint::new(TAINT_UNINITIALIZED, EFFECT_NO_SCHEDULE)].into(),
        ready: ConditionStatus::True,
        ..Node::default()
    }
}

fn initialised(name: &str) -> Node {
    Node {
        provider_id: "simulated://m-1".into(),
        taints: [].into(),
        labels: [
            (LABEL_ZONE, "z"),
            (LABEL_REGION, "r"),
            (LABEL_INSTANCE_TYPE, "t"),
        ]
        .into_iter()
        .collect(),
        addresses: [NodeAddress::new(AddressType::InternalIP, "10.0.0.1")].into(),
        ..new(name)
    }
}

fn down(name: &str) -> Node {
    Node {
        ready: ConditionStatus::Unknown,
        ..initialised(name)
    }
}

fn seen(nodes: impl IntoIterator<Item = Node>) -> Observed {
    Observed {
        nodes: nodes.into_iter().map(Arc::new).collect(),
        ..Observed::default()
    }
}

fn add_event(observed: &mut Observed, node: &str, reason: &str, message: &str) {
    let kind = "Node".to_owned();
    let event = ObservedEvent {
        kind,
        about: node.into(),
        reason: reason.into(),
        message: message.into(),
        passes: observed.passes,
    };
    observed.events.push(Arc::new(event));
}

fn happened(verdict: &ExpectationVerdict) -> bool {
    matches!(verdict, ExpectationVerdict::Happened(_))
}

#[test]
fn a_node_is_initialised_when_everything_is_there() {
    let before = Baseline::default();
    let expectation = Expectation::Initialised {
        nodes: 2,
        passes: 0,
        show: None,
    };
    assert!(happened(
        &expectation.judge(&before, &seen([initialised("a"), initialised("b")]))
    ));
    let spoil: [fn(&mut Node); 4] = [
        |node| node.provider_id = "".into(),
        |node| node.addresses = [].into(),
        |node| node.labels = [(LABEL_ZONE, "z")].into_iter().collect(),
        |node| node.taints = new("b").taints,
    ];
    for spoil in spoil {
        let mut other = initialised("b");
        spoil(&mut other);
        let verdict = expectation.judge(&before, &seen([initialised("a"), other]));
        assert!(
            matches!(&verdict, ExpectationVerdict::Waiting { done: 1, of: 2, .. }),
            "{verdict:?}"
        );
    }
}

#[test]
fn one_node_too_many_is_not_what_was_expected() {
    let verdict = Expectation::Registered { nodes: 1 }
        .judge(&Baseline::default(), &seen([new("a"), initialised("b")]));
    assert!(!happened(&verdict), "{verdict:?}");
}

#[test]
fn a_node_that_is_replaced_breaks_any_step() {
    let before = Baseline::new(&seen([initialised("a"), initialised("b")]));
    let other = Node {
        uid: "another".into(),
        ..initialised("b")
    };
    for expectation in [
        Expectation::Settled { nodes: 2 },
        Expectation::Deleted { node: "a".into() },
    ] {
        let (_, verdict) = judge(
            &[expectation],
            &before,
            &seen([initialised("a"), other.clone()]),
        );
        assert_eq!(
            verdict,
            ExpectationVerdict::Broken("1 Node deleted or replaced: b".into())
        );
    }
}

#[test]
fn a_deletion_counts_once_its_event_is_there() {
    let before = Baseline::new(&seen([initialised("a"), initialised("b")]));
    let expectation = Expectation::Deleted { node: "b".into() };
    assert!(matches!(
        expectation.judge(&before, &seen([initialised("a"), down("b")])),
        ExpectationVerdict::Waiting { .. }
    ));
    let mut now = seen([initialised("a")]);
    assert!(matches!(
        expectation.judge(&before, &now),
        ExpectationVerdict::Waiting { .. }
    ));
    add_event(&mut now, "b", "DeletingNode", "Deleting node b");
    assert!(happened(&expectation.judge(&before, &now)));
}

#[test]
fn a_kept_node_needs_its_reason_and_two_further_passes() {
    let mut now = seen([initialised("a"), down("b")]);
    add_event(
        &mut now,
        "b",
        "NodeDeletionHeld",
        "of an earlier step: the lookup in the cloud failed",
    );
    let before = Baseline::new(&now);
    let expectation = Expectation::Kept {
        nodes: vec!["b".into()],
        why: "the lookup in the cloud failed",
        refused: None,
    };
    now.passes = 9;
    assert!(
        !happened(&expectation.judge(&before, &now)),
        "the old event does not count"
    );
    add_event(&mut now, "b", "NodeDeletionHeld", "without a machine");
    assert!(
        !happened(&expectation.judge(&before, &now)),
        "that is another reason"
    );
    add_event(
        &mut now,
        "b",
        "NodeDeletionHeld",
        "the lookup in the cloud failed",
    );
    now.passes = 10;
    assert!(
        !happened(&expectation.judge(&before, &now)),
        "one further pass"
    );
    now.passes = 11;
    assert!(happened(&expectation.judge(&before, &now)));
}

#[test]
fn a_refused_node_must_say_so_and_stay_tainted() {
    let mut now = seen([new("c"), down("b")]);
    let expectation = Expectation::Kept {
        nodes: vec!["b".into()],
        why: "",
        refused: Some("c".into()),
    };
    add_event(&mut now, "b", "NodeDeletionHeld", "why");
    now.passes = 5;
    assert!(!happened(&expectation.judge(&Baseline::default(), &now)));
    add_event(&mut now, "c", "InitializationFailed", "401");
    assert!(happened(&expectation.judge(&Baseline::default(), &now)));
    now.nodes[0] = Arc::new(initialised("c"));
    assert!(!happened(&expectation.judge(&Baseline::default(), &now)));
}

#[test]
fn a_shutdown_taint_is_expected_of_a_node_that_is_not_ready() {
    let shut_down = Expectation::ShutDown { node: "a".into() };
    let running = Expectation::Running { node: "a".into() };
    let tainted = |ready| Node {
        taints: [Taint::new(TAINT_SHUTDOWN, EFFECT_NO_SCHEDULE)].into(),
        ready,
        ..initialised("a")
    };
    let before = Baseline::default();
    assert!(happened(
        &shut_down.judge(&before, &seen([tainted(ConditionStatus::Unknown)]))
    ));
    assert!(!happened(&shut_down.judge(&before, &seen([down("a")]))));
    assert!(!happened(
        &running.judge(&before, &seen([tainted(ConditionStatus::True)]))
    ));
    assert!(happened(&running.judge(&before, &seen([initialised("a")]))));
    assert!(matches!(
        running.judge(&before, &seen([])),
        ExpectationVerdict::Broken(_)
    ));
}

#[test]
fn refusal_holds_only_after_the_cloud_was_read_again() {
    let expectation = Expectation::Initialised {
        nodes: 2,
        passes: 2,
        show: Some("b".into()),
    };
    let mut now = seen([initialised("a"), initialised("b")]);
    now.passes = 1;
    assert!(!happened(&expectation.judge(&Baseline::default(), &now)));
    now.passes = 2;
    let shown = vec!["b: simulated://m-1, 10.0.0.1, z, t".to_owned()];
    assert_eq!(
        expectation.judge(&Baseline::default(), &now),
        ExpectationVerdict::Happened(shown)
    );
}

/// Returns a Service with a load balancer of this ID and address.
fn served(id: &str, ip: &str) -> Observed {
    let service: Service =
        serde_json::from_value(json!({"metadata": {"name": "web", "uid": "u"}})).unwrap();
    let balancer = Balancer {
        id: id.into(),
        name: default_load_balancer_name(&service),
        ip: Some(ip.into()),
        ..Balancer::default()
    };
    let cloud = Arc::new(CloudState {
        balancers: vec![balancer],
        routes: Vec::new(),
    });
    Observed {
        services: vec![Arc::new(service)],
        cloud,
        ..Observed::default()
    }
}

#[test]
fn a_load_balancer_that_is_replaced_or_moves_breaks_any_step() {
    let before = Baseline::new(&served("lb-1", "198.19.0.1"));
    let verdict = |now: &Observed| judge(&[Expectation::Settled { nodes: 0 }], &before, now).1;
    assert!(happened(&verdict(&served("lb-1", "198.19.0.1"))));
    assert!(
        happened(&verdict(&Observed::default())),
        "gone is another expectation's business"
    );
    for now in [served("lb-2", "198.19.0.1"), served("lb-1", "198.19.0.2")] {
        let ExpectationVerdict::Broken(seen) = verdict(&now) else {
            panic!("{:?}", verdict(&now))
        };
        assert!(
            seen.starts_with("load balancer replaced: web: lb-1 (198.19.0.1) is now lb-"),
            "{seen}"
        );
    }
}

#[test]
fn a_step_happens_when_all_of_it_does_and_says_what_is_missing() {
    let now = seen([initialised("a")]);
    let both = Expectation::Settled { nodes: 1 };
    let none = Expectation::Gone {
        service: "web".into(),
    };
    let before = Baseline::default();
    let (text, verdict) = judge(&[none.clone(), both.clone()], &before, &now);
    assert_eq!(text, "no Service web; 1 Nodes, all ready and untainted");
    assert_eq!(
        verdict,
        ExpectationVerdict::Happened(vec!["no Service web".to_owned()])
    );
    let (text, verdict) = judge(&[none, both], &before, &seen([]));
    assert_eq!(text, "1 Nodes, all ready and untainted");
    assert!(matches!(verdict, ExpectationVerdict::Waiting { .. }));
}

fn tally(what: &str, count: u64) -> Tally {
    let mut tally = Tally::default();
    tally.add(what, count);
    tally
}

/// Returns a state this many seconds after the start, after this many requests.
fn at(seconds: u64, changes: u64, writes: u64) -> Observed {
    let changes = tally("PUT /a", changes);
    let writes = tally("patch nodes", writes);
    Observed {
        at: Duration::from_secs(seconds),
        changes,
        writes,
        ..Observed::default()
    }
}

#[test]
fn stillness_takes_its_time_and_ends_with_the_first_change() {
    let still = |silent| Expectation::Still {
        dwell: Duration::from_secs(2),
        silent,
    };
    let mut before = Baseline::new(&at(5, 7, 9));
    before.acted = Duration::from_secs(6);
    let verdict = |now: Observed, silent| judge(&[still(silent)], &before, &now).1;
    assert!(matches!(
        verdict(at(7, 7, 9), true),
        ExpectationVerdict::Waiting {
            done: 1000,
            of: 2000,
            ..
        }
    ));
    assert!(happened(&verdict(at(8, 7, 9), true)));
    assert!(
        happened(&verdict(at(8, 7, 10), false)),
        "an event is allowed"
    );
    let broken = |seen: &str| ExpectationVerdict::Broken(seen.to_owned());
    let written = "changes asked of the cloud: 0; writes to Kubernetes: 1 (1 × patch nodes)";
    assert_eq!(verdict(at(7, 7, 10), true), broken(written));
    let changed = "changes asked of the cloud: 1 (1 × PUT /a); writes to Kubernetes: 0";
    assert_eq!(verdict(at(7, 8, 9), false), broken(changed));
}

#[test]
fn one_change_too_many_is_not_forgiven() {
    let before = Baseline::new(&at(0, 7, 0));
    let verdict = |changes| {
        judge(
            &[Expectation::AtMost { changes: 1 }],
            &before,
            &at(1, changes, 0),
        )
        .1
    };
    assert!(happened(&verdict(8)));
    assert_eq!(
        verdict(9),
        ExpectationVerdict::Broken("changes asked of the cloud: 2 (2 × PUT /a)".to_owned())
    );
}
