use super::*;
use cloud_provider::names::{EFFECT_NO_SCHEDULE, TAINT_UNINITIALIZED};
use cloud_provider::{NodeAddress, Taint};

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
        labels: [(LABEL_ZONE, "z"), (LABEL_REGION, "r"), (LABEL_INSTANCE_TYPE, "t")].into_iter().collect(),
        addresses: [NodeAddress::new(AddressType::InternalIP, "10.0.0.1")].into(),
        ..new(name)
    }
}

fn down(name: &str) -> Node {
    Node { ready: ConditionStatus::Unknown, ..initialised(name) }
}

fn seen(nodes: impl IntoIterator<Item = Node>) -> Observed {
    Observed { nodes: nodes.into_iter().map(Arc::new).collect(), said: Vec::new(), passes: 0 }
}

fn say(observed: &mut Observed, node: &str, reason: &str, message: &str) {
    let said = Said { node: node.into(), reason: reason.into(), message: message.into(), passes: observed.passes };
    observed.said.push(Arc::new(said));
}

fn happened(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Happened(_))
}

#[test]
fn a_node_is_initialised_when_everything_is_there() {
    let before = Baseline::default();
    let expectation = Expectation::Initialised { nodes: 2, passes: 0, show: None };
    assert!(happened(&expectation.judge(&before, &seen([initialised("a"), initialised("b")]))));
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
        assert!(matches!(&verdict, Verdict::Waiting { done: 1, of: 2, .. }), "{verdict:?}");
    }
}

#[test]
fn one_node_too_many_is_not_what_was_expected() {
    let verdict = Expectation::Registered { nodes: 1 }.judge(&Baseline::default(), &seen([new("a"), initialised("b")]));
    assert!(!happened(&verdict), "{verdict:?}");
}

#[test]
fn a_node_that_is_replaced_breaks_any_step() {
    let before = Baseline::new(&seen([initialised("a"), initialised("b")]));
    let other = Node { uid: "another".into(), ..initialised("b") };
    for expectation in [Expectation::Settled { nodes: 2 }, Expectation::Deleted { node: "a".into() }] {
        let verdict = expectation.judge(&before, &seen([initialised("a"), other.clone()]));
        assert_eq!(verdict, Verdict::Broken("1 Node(s) deleted or replaced: b".into()));
    }
}

#[test]
fn a_deletion_counts_once_its_event_is_there() {
    let before = Baseline::new(&seen([initialised("a"), initialised("b")]));
    let expectation = Expectation::Deleted { node: "b".into() };
    assert!(matches!(expectation.judge(&before, &seen([initialised("a"), down("b")])), Verdict::Waiting { .. }));
    let mut now = seen([initialised("a")]);
    assert!(matches!(expectation.judge(&before, &now), Verdict::Waiting { .. }));
    say(&mut now, "b", "DeletingNode", "Deleting node b");
    assert!(happened(&expectation.judge(&before, &now)));
}

#[test]
fn a_kept_node_needs_its_reason_and_two_further_passes() {
    let mut now = seen([initialised("a"), down("b")]);
    say(&mut now, "b", "NodeDeletionHeld", "of an earlier step: could not be asked");
    let before = Baseline::new(&now);
    let expectation = Expectation::Kept { nodes: vec!["b".into()], why: "could not be asked", refused: None };
    now.passes = 9;
    assert!(!happened(&expectation.judge(&before, &now)), "the old event does not count");
    say(&mut now, "b", "NodeDeletionHeld", "gone together");
    assert!(!happened(&expectation.judge(&before, &now)), "that is another reason");
    say(&mut now, "b", "NodeDeletionHeld", "the cloud could not be asked");
    now.passes = 10;
    assert!(!happened(&expectation.judge(&before, &now)), "one further pass");
    now.passes = 11;
    assert!(happened(&expectation.judge(&before, &now)));
}

#[test]
fn a_refused_node_must_say_so_and_stay_tainted() {
    let mut now = seen([new("c"), down("b")]);
    let expectation = Expectation::Kept { nodes: vec!["b".into()], why: "", refused: Some("c".into()) };
    say(&mut now, "b", "NodeDeletionHeld", "why");
    now.passes = 5;
    assert!(!happened(&expectation.judge(&Baseline::default(), &now)));
    say(&mut now, "c", "InitializationFailed", "401");
    assert!(happened(&expectation.judge(&Baseline::default(), &now)));
    now.nodes[0] = Arc::new(initialised("c"));
    assert!(!happened(&expectation.judge(&Baseline::default(), &now)));
}

#[test]
fn a_shutdown_taint_is_expected_of_a_node_that_is_not_ready() {
    let shut_down = Expectation::ShutDown { node: "a".into() };
    let running = Expectation::Running { node: "a".into() };
    let tainted =
        |ready| Node { taints: [Taint::new(TAINT_SHUTDOWN, EFFECT_NO_SCHEDULE)].into(), ready, ..initialised("a") };
    let before = Baseline::default();
    assert!(happened(&shut_down.judge(&before, &seen([tainted(ConditionStatus::Unknown)]))));
    assert!(!happened(&shut_down.judge(&before, &seen([down("a")]))));
    assert!(!happened(&running.judge(&before, &seen([tainted(ConditionStatus::True)]))));
    assert!(happened(&running.judge(&before, &seen([initialised("a")]))));
    assert!(matches!(running.judge(&before, &seen([])), Verdict::Broken(_)));
}

#[test]
fn after_a_refusal_the_cloud_must_have_been_asked_again() {
    let expectation = Expectation::Initialised { nodes: 2, passes: 2, show: Some("b".into()) };
    let mut now = seen([initialised("a"), initialised("b")]);
    now.passes = 1;
    assert!(!happened(&expectation.judge(&Baseline::default(), &now)));
    now.passes = 2;
    let shown = vec!["b: simulated://m-1, 10.0.0.1, z, t".to_owned()];
    assert_eq!(expectation.judge(&Baseline::default(), &now), Verdict::Happened(shown));
}
