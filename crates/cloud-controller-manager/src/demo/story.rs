//! The story, as data: what is done, and what must be seen in the Kubernetes API after that.

use std::time::Duration;

use super::expectation::Expectation;

/// One step of the story.
#[derive(Debug, Clone)]
pub(super) struct Step {
    /// One word, for tables and programs.
    pub(super) name: &'static str,
    /// What happens, for people.
    pub(super) title: String,
    /// What is done, in this order.
    pub(super) actions: Vec<Action>,
    /// What must come of it.
    pub(super) expectation: Expectation,
    /// How long it may take.
    pub(super) within: Duration,
}

/// What is done to the cluster or the cloud. Nodes and machines have the same names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    /// The kubelets of all machines start, and register their Nodes.
    StartKubelets,
    /// The cloud controller manager starts.
    StartControllers,
    /// A new machine is made; its kubelet registers a Node.
    AddMachine(String),
    /// A machine is shut down.
    Stop(String),
    /// A machine is started.
    Start(String),
    /// A machine is removed for good.
    Terminate(String),
    /// Kubelets do not report any more, though their machines run. Done when the controllers know.
    Silence(Vec<String>),
    /// Silent kubelets report again.
    Wake,
    /// The cloud refuses the controllers' token.
    RevokeToken,
    /// The token becomes one of another project, which has no machines.
    MoveToken,
    /// The token is good again.
    RestoreToken,
    /// The cloud shows machines no longer, all from the same moment on, between two passes of the controllers.
    Vanish(Vec<String>),
    /// Vanished machines are there again.
    Reappear,
}

/// The name of the n-th machine and its Node.
pub(super) fn name(number: usize) -> String {
    format!("worker-{number}")
}

/// The prefix of all names.
pub(super) const PREFIX: &str = "worker-";

/// The story of `nodes` Nodes, at least five.
pub(super) fn story(nodes: usize) -> Vec<Step> {
    let within = Duration::from_secs(30) + Duration::from_millis(10) * u32::try_from(nodes).unwrap_or(u32::MAX);
    let step = |name, title: &str, actions: &[Action], expectation| Step {
        name,
        title: title.to_owned(),
        actions: actions.to_vec(),
        expectation,
        within,
    };
    let [stopped, terminated, silent, joining] = [name(2), name(3), name(4), name(nodes + 1)];
    // After one was terminated and one joined there are as many Nodes as before.
    let most: Vec<String> = (1..=nodes + 1).filter(|n| *n != 3).take(nodes / 2 + 1).map(name).collect();
    vec![
        step(
            "register",
            &format!("{nodes} kubelets register their Nodes, each with the start-up taint"),
            &[Action::StartKubelets],
            Expectation::Registered { nodes },
        ),
        step(
            "initialise",
            "the cloud controller manager starts: provider id, addresses, labels; the taint goes",
            &[Action::StartControllers],
            Expectation::Initialised { nodes, passes: 0, show: None },
        ),
        step(
            "stop",
            &format!("the machine of {stopped} is stopped: its Node is tainted"),
            &[Action::Stop(stopped.clone())],
            Expectation::ShutDown { node: stopped.clone() },
        ),
        step(
            "start",
            &format!("it is started again: the taint of {stopped} is lifted"),
            &[Action::Start(stopped.clone())],
            Expectation::Running { node: stopped },
        ),
        step(
            "terminate",
            &format!("the machine of {terminated} is terminated: its Node is deleted"),
            &[Action::Terminate(terminated.clone())],
            Expectation::Deleted { node: terminated },
        ),
        step(
            "revoke",
            &format!("{silent} goes silent, the cloud revokes the token, {joining} joins: nothing is deleted"),
            &[Action::Silence(vec![silent.clone()]), Action::RevokeToken, Action::AddMachine(joining.clone())],
            Expectation::Kept {
                nodes: vec![silent.clone()],
                why: "could not be asked",
                refused: Some(joining.clone()),
            },
        ),
        step(
            "restore",
            &format!("the token is good again: {joining} is initialised"),
            &[Action::RestoreToken],
            Expectation::Initialised { nodes, passes: 2, show: Some(joining) },
        ),
        step(
            "empty",
            "the token becomes another project's, and the list of machines empty: nothing is deleted",
            &[Action::MoveToken],
            Expectation::Kept { nodes: vec![silent.clone()], why: "", refused: None },
        ),
        step(
            "recover",
            &format!("the token is back, {silent} reports again: all is well"),
            &[Action::RestoreToken, Action::Wake],
            Expectation::Settled { nodes },
        ),
        step(
            "landslide",
            &format!("{} of {nodes} machines vanish together: nothing is deleted", most.len()),
            &[Action::Silence(most.clone()), Action::Vanish(most.clone())],
            Expectation::Kept { nodes: most, why: "gone together", refused: None },
        ),
        step(
            "heal",
            "the machines are back: all is well, and every Node is the one it was",
            &[Action::Reappear, Action::Wake],
            Expectation::Settled { nodes },
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vanished(nodes: usize) -> Vec<String> {
        let actions = story(nodes).into_iter().flat_map(|step| step.actions);
        actions
            .filter_map(|action| if let Action::Vanish(names) = action { Some(names) } else { None })
            .flatten()
            .collect()
    }

    #[test]
    fn more_than_half_vanish_and_somebody_is_left() {
        for nodes in [5, 6, 7, 100, 5000] {
            let vanished = vanished(nodes).len();
            assert!(vanished * 2 > nodes && vanished < nodes, "{vanished} of {nodes}");
        }
    }

    #[test]
    fn a_terminated_machine_does_not_vanish_again() {
        assert_eq!(vanished(5), ["worker-1", "worker-2", "worker-4"]);
    }

    #[test]
    fn steps_have_names_of_their_own() {
        let steps = story(5);
        let names: std::collections::BTreeSet<_> = steps.iter().map(|step| step.name).collect();
        assert_eq!(names.len(), steps.len());
    }
}
