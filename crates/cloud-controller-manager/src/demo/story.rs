//! The story, as data: what is done, and what must be seen in the Kubernetes API and in the cloud after that.

mod nodes;
mod services;

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
    /// What must come of it, all of it.
    pub(super) expectations: Vec<Expectation>,
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
    /// The cloud controller manager is killed: nothing of its state is left, no task ends in order.
    KillControllers,
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
    /// Services of type LoadBalancer are made, each with a port.
    CreateServices(Vec<(String, u16)>),
    /// A Service gets another port.
    ChangePort(String, u16),
    /// A Service gets another type.
    ChangeType(String, &'static str),
    /// A Service is deleted.
    DeleteService(String),
    /// From now on the controllers get stuck at this moment of their work.
    Arm(Moment),
    /// Done when they are stuck there.
    AwaitStuck,
    /// Done when the controllers have been quiet for a while, except for asking about Nodes that are not ready.
    Settle,
}

/// A moment in the controllers' work at which a crash would hurt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Moment {
    /// The cloud has made a load balancer and the answer is lost.
    Created,
    /// The cloud has not begun to delete a load balancer.
    Deleting,
    /// The load balancer of this Service is deleted, and its finalizer not yet removed.
    Deleted(String),
}

/// The name of the n-th machine and its Node.
pub(super) fn name(number: usize) -> String {
    format!("worker-{number}")
}

/// The prefix of all names.
pub(super) const PREFIX: &str = "worker-";

/// The story of `nodes` Nodes, at least five, and of `services` Services, at least three.
pub(super) fn story(nodes: usize, services: usize) -> Vec<Step> {
    let Services { ports, .. } = &Services::new(services);
    let each = |count: usize| Duration::from_millis(20) * u32::try_from(count).unwrap_or(u32::MAX);
    let within = Duration::from_secs(60) + each(nodes) + each(services);
    let mut steps = nodes::joining(nodes);
    steps.push(services::exposed(ports, nodes));
    steps.extend(nodes::trouble(nodes, ports));
    steps.extend(services::changes(ports, nodes));
    steps.extend(services::crashes(ports, nodes));
    steps.iter_mut().for_each(|step| step.within = within);
    steps
}

/// The Services that the story begins with, by name and port.
struct Services {
    ports: Vec<(String, u16)>,
}

impl Services {
    fn new(count: usize) -> Self {
        Self { ports: (1..=count).map(|number| (service(number), 80)).collect() }
    }
}

/// Names and ports of the Services that the story begins with.
pub(super) fn services(count: usize) -> Vec<(String, u16)> {
    Services::new(count).ports
}

/// The name of the n-th Service.
fn service(number: usize) -> String {
    format!("web-{number}")
}

fn step(name: &'static str, title: &str, actions: &[Action], expectations: &[Expectation]) -> Step {
    let (actions, expectations) = (actions.to_vec(), expectations.to_vec());
    Step { name, title: title.to_owned(), actions, expectations, within: Duration::ZERO }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vanished(nodes: usize) -> Vec<String> {
        let actions = story(nodes, 3).into_iter().flat_map(|step| step.actions);
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
        let steps = story(5, 3);
        let names: std::collections::BTreeSet<_> = steps.iter().map(|step| step.name).collect();
        assert_eq!(names.len(), steps.len());
    }

    #[test]
    fn the_controllers_are_started_again_whenever_they_were_killed() {
        let mut running = false;
        for action in story(5, 3).into_iter().flat_map(|step| step.actions) {
            match action {
                Action::StartControllers => assert!(!std::mem::replace(&mut running, true), "started twice"),
                Action::KillControllers => assert!(std::mem::replace(&mut running, false), "killed twice"),
                _ => {}
            }
        }
        assert!(running, "demo --serve needs them");
    }

    #[test]
    fn what_is_still_under_way_is_no_part_of_the_steady_state() {
        let steps = story(5, 3);
        let steady = steps.iter().position(|step| step.name == "steady").unwrap();
        assert_eq!(steps[steady - 1].actions, [Action::Settle]);
    }

    #[test]
    fn every_step_with_services_says_what_the_cloud_must_have() {
        let steps = story(5, 3);
        let judges_cloud = |step: &Step| {
            let judges =
                |it: &Expectation| matches!(it, Expectation::Balanced { .. } | Expectation::Interrupted { .. });
            step.expectations.iter().any(judges)
        };
        let first = steps.iter().position(|step| step.name == "expose").unwrap();
        let silent: Vec<_> = steps[first..].iter().filter(|step| !judges_cloud(step)).map(|step| step.name).collect();
        assert!(silent.is_empty(), "{silent:?}");
    }
}
