//! Steps of the scenario about Services.

use std::time::Duration;

use super::{Action, Expectation, Moment, ScenarioStep, name, service, step};

/// Time after a flap during which no load balancer may change.
const AFTER_A_FLAP: Duration = Duration::from_secs(1);
/// Time for which a steady state is observed.
const STEADY: Duration = Duration::from_millis(1500);
/// Port that the first Service changes to.
const NEW_PORT: u16 = 8080;

/// Returns the step in which Services get load balancers.
pub(super) fn exposed(ports: &[(String, u16)], nodes: usize) -> ScenarioStep {
    let changes = ports.len() as u64;
    step(
        "expose",
        &format!(
            "{} Services of type LoadBalancer get addresses, and {nodes} Nodes as targets",
            ports.len()
        ),
        &[Action::CreateServices(ports.to_vec())],
        &[balanced(ports, &[]), Expectation::AtMost { changes }],
    )
}

/// Returns the steps in which a Node flaps, a port and a type change, and a Service is deleted.
pub(super) fn changes(ports: &[(String, u16)], nodes: usize) -> Vec<ScenarioStep> {
    let [first, second, third] = [service(1), service(2), service(3)];
    let flapping = name(1);
    let one = Expectation::AtMost { changes: 1 };
    let still = Expectation::Still {
        dwell: AFTER_A_FLAP,
        silent: false,
    };
    let changed = with_new_port(ports);
    vec![
        step(
            "flap",
            &format!("{flapping} is not ready for a moment: nothing changes in the cloud"),
            &[Action::Silence(vec![flapping]), Action::Wake],
            &[Expectation::Settled { nodes }, balanced(ports, &[]), still],
        ),
        step(
            "port",
            &format!(
                "the port of {first} becomes {NEW_PORT}: its listener changes, its address does not"
            ),
            &[Action::ChangePort(first, NEW_PORT)],
            &[balanced(&changed, &[]), one.clone()],
        ),
        step(
            "flip",
            &format!(
                "{second} becomes a ClusterIP: load balancer, address and finalizer are deleted"
            ),
            &[Action::ChangeType(second.clone(), "ClusterIP")],
            &[balanced(&changed, &[&second]), one.clone()],
        ),
        step(
            "flop",
            &format!(
                "{second} becomes a LoadBalancer again: load balancer, address and finalizer are back"
            ),
            &[Action::ChangeType(second, "LoadBalancer")],
            &[balanced(&changed, &[]), one.clone()],
        ),
        step(
            "delete",
            &format!("{third} is deleted: nothing of it is left in the cloud"),
            &[Action::DeleteService(third.clone())],
            &[
                Expectation::Gone {
                    service: third.clone(),
                },
                balanced(&changed, &[&third]),
                one,
            ],
        ),
    ]
}

/// Returns the steps in which the controllers are killed at the worst moments, and once while idle.
pub(super) fn crashes(ports: &[(String, u16)], nodes: usize) -> Vec<ScenarioStep> {
    let [first, third, new] = [service(1), service(3), service(ports.len() + 1)];
    let mut all = with_new_port(ports);
    all.push((new.clone(), 443));
    let at_most = |changes| Expectation::AtMost { changes };
    let gone = |service: &String| Expectation::Gone {
        service: service.clone(),
    };
    let interrupted = |service: &String, deleting, in_cloud| Expectation::Interrupted {
        service: service.clone(),
        deleting,
        in_cloud,
    };
    let left = balanced(&all, &[&first, &third, &new]);
    vec![
        step(
            "lose",
            &format!(
                "the load balancer of {new} is created; the cloud's answer is lost and the controllers are killed"
            ),
            &[
                Action::Arm(Moment::Created),
                Action::CreateServices(vec![(new.clone(), 443)]),
                Action::AwaitStuck,
                Action::KillControllers,
            ],
            &[interrupted(&new, false, true)],
        ),
        step(
            "adopt",
            &format!(
                "the controllers start again: {new} has that load balancer, and no second one"
            ),
            &[Action::StartControllers],
            &[balanced(&all, &[&third]), at_most(0)],
        ),
        step(
            "crash",
            &format!(
                "{new} and {first} are deleted; the controllers are killed when the cloud has done the one, not the other"
            ),
            &[
                Action::Arm(Moment::Deleted(new.clone())),
                Action::DeleteService(new.clone()),
                Action::AwaitStuck,
                Action::Arm(Moment::Deleting),
                Action::DeleteService(first.clone()),
                Action::AwaitStuck,
                Action::KillControllers,
            ],
            &[
                interrupted(&new, true, false),
                interrupted(&first, true, true),
            ],
        ),
        step(
            "restart",
            "the controllers start again: both Services are deleted, and nothing of them is left in the cloud",
            &[Action::StartControllers],
            &[gone(&new), gone(&first), left.clone(), at_most(1)],
        ),
        step(
            "settle",
            "the controllers send their last events",
            &[Action::Settle],
            &[Expectation::Settled { nodes }, left.clone()],
        ),
        step(
            "steady",
            "the controllers are killed and started once more while idle: they read, and change nothing",
            &[Action::KillControllers, Action::StartControllers],
            &[
                Expectation::Settled { nodes },
                left,
                Expectation::Routed { nodes },
                Expectation::Still {
                    dwell: STEADY,
                    silent: true,
                },
            ],
        ),
    ]
}

fn with_new_port(ports: &[(String, u16)]) -> Vec<(String, u16)> {
    let first = service(1);
    ports
        .iter()
        .map(|(name, port)| (name.clone(), if *name == first { NEW_PORT } else { *port }))
        .collect()
}

fn balanced(ports: &[(String, u16)], except: &[&String]) -> Expectation {
    Expectation::Balanced {
        ports: ports
            .iter()
            .filter(|(name, _)| !except.contains(&name))
            .cloned()
            .collect(),
    }
}
