//! Steps of the scenario about Nodes.

use super::{Action, Expectation, ScenarioStep, name, step};

/// Returns the steps in which Nodes register, are initialized and get routes.
pub(super) fn joining(nodes: usize) -> Vec<ScenarioStep> {
    vec![
        step(
            "register",
            &format!("{nodes} kubelets register their Nodes, each with the uninitialized taint"),
            &[Action::StartKubelets],
            &[Expectation::Registered { nodes }],
        ),
        step(
            "initialise",
            "the cloud controller manager starts: Nodes get provider ID, addresses and labels, and lose the taint",
            &[Action::StartControllers],
            &[Expectation::Initialised {
                nodes,
                passes: 0,
                show: None,
            }],
        ),
        step(
            "routes",
            "the cloud gets a route to the Pod CIDR of each Node, and the Nodes' conditions report it",
            &[],
            &[Expectation::Routed { nodes }],
        ),
    ]
}

/// Returns the steps in which machines stop, are terminated and are added, and in which the credential, the inventory
/// and most machines are lost for a while. `ports` are the Services, whose load balancers only follow Nodes that join
/// or are deleted.
pub(super) fn failures(nodes: usize, ports: &[(String, u16)]) -> Vec<ScenarioStep> {
    let [stopped, terminated, silent, joining] = [name(2), name(3), name(4), name(nodes + 1)];
    // One machine was terminated and one was added, so the number of Nodes is the same as before.
    let most: Vec<String> = (1..=nodes + 1)
        .filter(|n| *n != 3)
        .take(nodes / 2 + 1)
        .map(name)
        .collect();
    let balanced = Expectation::Balanced {
        ports: ports.to_vec(),
    };
    let kept = |nodes: &[String], why, refused| Expectation::Kept {
        nodes: nodes.to_vec(),
        why,
        refused,
    };
    let routed = |nodes| Expectation::Routed { nodes };
    // One change of a route, and one of the targets of each load balancer.
    let follows = Expectation::AtMost {
        changes: 1 + ports.len() as u64,
    };
    let nothing_moves = Expectation::AtMost { changes: 0 };
    let quiet = |expectation, nodes| {
        [
            expectation,
            balanced.clone(),
            routed(nodes),
            nothing_moves.clone(),
        ]
    };
    let follow = |expectation, nodes| {
        [
            expectation,
            balanced.clone(),
            routed(nodes),
            follows.clone(),
        ]
    };
    vec![
        step(
            "stop",
            &format!("the machine of {stopped} is stopped: its Node is tainted"),
            &[Action::Stop(stopped.clone())],
            &quiet(
                Expectation::ShutDown {
                    node: stopped.clone(),
                },
                nodes,
            ),
        ),
        step(
            "start",
            &format!("the machine is started again: the taint of {stopped} is removed"),
            &[Action::Start(stopped.clone())],
            &quiet(Expectation::Running { node: stopped }, nodes),
        ),
        step(
            "terminate",
            &format!(
                "the machine of {terminated} is terminated: its Node, route and targets are deleted"
            ),
            &[Action::Terminate(terminated.clone())],
            &follow(Expectation::Deleted { node: terminated }, nodes - 1),
        ),
        step(
            "revoke",
            &format!(
                "{silent} goes silent, the cloud revokes the token, {joining} joins: nothing is deleted"
            ),
            &[
                Action::Silence(vec![silent.clone()]),
                Action::RevokeToken,
                Action::AddMachine(joining.clone()),
            ],
            &[
                kept(
                    std::slice::from_ref(&silent),
                    "the lookup in the cloud failed",
                    Some(joining.clone()),
                ),
                balanced.clone(),
            ],
        ),
        step(
            "restore",
            &format!(
                "the token is good again: {joining} is initialised, gets its route and becomes a target everywhere"
            ),
            &[Action::RestoreToken],
            &follow(
                Expectation::Initialised {
                    nodes,
                    passes: 2,
                    show: Some(joining),
                },
                nodes,
            ),
        ),
        step(
            "empty",
            "the token becomes another project's, and the list of machines empty: nothing is deleted",
            &[Action::Settle, Action::MoveToken],
            &quiet(kept(std::slice::from_ref(&silent), "", None), nodes),
        ),
        step(
            "recover",
            &format!("the token is valid again, {silent} reports again: all Nodes are ready"),
            &[Action::RestoreToken, Action::Wake],
            &quiet(Expectation::Settled { nodes }, nodes),
        ),
        step(
            "landslide",
            &format!(
                "{} of {nodes} machines vanish together: nothing is deleted",
                most.len()
            ),
            &[
                Action::Settle,
                Action::Silence(most.clone()),
                Action::Vanish(most.clone()),
            ],
            &[
                kept(&most, "without a machine", None),
                balanced.clone(),
                nothing_moves.clone(),
            ],
        ),
        step(
            "heal",
            "the machines are back: all Nodes are ready, and none was replaced",
            &[Action::Reappear, Action::Wake],
            &quiet(Expectation::Settled { nodes }, nodes),
        ),
    ]
}
