//! The scenario as data: the actions of each step, and the expected state of the Kubernetes API and the cloud after
//! them.

mod nodes;
mod services;

use std::time::Duration;

use super::expectation::Expectation;

/// A step of the scenario.
#[derive(Debug, Clone)]
pub(super) struct ScenarioStep {
    /// Name of the step, one word, for tables and programs.
    pub(super) name: &'static str,
    /// Title of the step, for people.
    pub(super) title: String,
    /// Actions in their order.
    pub(super) actions: Vec<Action>,
    /// Expectations, all of which must be fulfilled.
    pub(super) expectations: Vec<Expectation>,
    /// Maximum duration of the step.
    pub(super) within: Duration,
}

/// An action on the cluster or the cloud. Nodes and machines have the same names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    /// The kubelets of all machines start and register their Nodes.
    StartKubelets,
    /// The cloud controller manager starts.
    StartControllers,
    /// The cloud controller manager is killed: its state is lost, and no task ends in order.
    KillControllers,
    /// A machine is created; its kubelet registers a Node.
    AddMachine(String),
    /// A machine is shut down.
    Stop(String),
    /// A machine is started.
    Start(String),
    /// A machine is deleted permanently.
    Terminate(String),
    /// Kubelets stop reporting although their machines run. Done when the controllers have noticed.
    Silence(Vec<String>),
    /// Silenced kubelets report again.
    Wake,
    /// The cloud refuses the controllers' token.
    RevokeToken,
    /// The token becomes that of another project without machines.
    MoveToken,
    /// The token becomes valid again.
    RestoreToken,
    /// The cloud stops listing these machines, all at the same moment between two passes of the controllers.
    Vanish(Vec<String>),
    /// Vanished machines are listed again.
    Reappear,
    /// Services of type LoadBalancer are created, each with a port.
    CreateServices(Vec<(String, u16)>),
    /// A Service gets another port.
    ChangePort(String, u16),
    /// A Service gets another type.
    ChangeType(String, &'static str),
    /// A Service is deleted.
    DeleteService(String),
    /// A fault is injected that stops the controllers at this moment of their work.
    Arm(Moment),
    /// Waits until the controllers have stopped at that moment.
    AwaitStuck,
    /// Done when the controllers have been idle for a while, except for reading the machines of Nodes that are not
    /// ready.
    Settle,
}

/// A moment in the controllers' work at which a crash would do harm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Moment {
    /// The cloud has created a load balancer, and its answer is lost.
    Created,
    /// The cloud has not begun to delete a load balancer.
    Deleting,
    /// The load balancer of this Service is deleted, but its finalizer is not removed yet.
    Deleted(String),
}

/// Returns the name of the n-th machine and its Node.
pub(super) fn name(number: usize) -> String {
    format!("worker-{number}")
}

/// Prefix of the names of all machines and Nodes.
pub(super) const PREFIX: &str = "worker-";

/// Returns the scenario of `nodes` Nodes, at least five, and of `services` Services, at least three.
pub(super) fn scenario(nodes: usize, services: usize) -> Vec<ScenarioStep> {
    let Services { ports, .. } = &Services::new(services);
    let each = |count: usize| Duration::from_millis(20) * u32::try_from(count).unwrap_or(u32::MAX);
    let within = Duration::from_secs(60) + each(nodes) + each(services);
    let mut steps = nodes::joining(nodes);
    steps.push(services::exposed(ports, nodes));
    steps.extend(nodes::failures(nodes, ports));
    steps.extend(services::changes(ports, nodes));
    steps.extend(services::crashes(ports, nodes));
    steps.iter_mut().for_each(|step| step.within = within);
    steps
}

/// The Services at the beginning of the scenario, by name and port.
struct Services {
    ports: Vec<(String, u16)>,
}

impl Services {
    fn new(count: usize) -> Self {
        Self {
            ports: (1..=count).map(|number| (service(number), 80)).collect(),
        }
    }
}

/// Returns names and ports of the Services at the beginning of the scenario.
pub(super) fn services(count: usize) -> Vec<(String, u16)> {
    Services::new(count).ports
}

/// Returns the name of the n-th Service.
fn service(number: usize) -> String {
    format!("web-{number}")
}

fn step(
    name: &'static str,
    title: &str,
    actions: &[Action],
    expectations: &[Expectation],
) -> ScenarioStep {
    let actions = actions.to_vec();
    let expectations = expectations.to_vec();
    ScenarioStep {
        name,
        title: title.to_owned(),
        actions,
        expectations,
        within: Duration::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vanished(nodes: usize) -> Vec<String> {
        let actions = scenario(nodes, 3).into_iter().flat_map(|step| step.actions);
        actions
            .filter_map(|action| {
                if let Action::Vanish(names) = action {
                    Some(names)
                } else {
                    None
                }
            })
            .flatten()
            .collect()
    }

    #[test]
    fn more_than_half_vanish_and_somebody_is_left() {
        for nodes in [5, 6, 7, 100, 5000] {
            let vanished = vanished(nodes).len();
            assert!(
                vanished * 2 > nodes && vanished < nodes,
                "{vanished} of {nodes}"
            );
        }
    }

    #[test]
    fn a_terminated_machine_does_not_vanish_again() {
        assert_eq!(vanished(5), ["worker-1", "worker-2", "worker-4"]);
    }

    #[test]
    fn steps_have_names_of_their_own() {
        let steps = scenario(5, 3);
        let names: std::collections::BTreeSet<_> = steps.iter().map(|step| step.name).collect();
        assert_eq!(names.len(), steps.len());
    }

    #[test]
    fn the_controllers_are_started_again_whenever_they_were_killed() {
        let mut running = false;
        for action in scenario(5, 3).into_iter().flat_map(|step| step.actions) {
            match action {
                Action::StartControllers => {
                    assert!(!std::mem::replace(&mut running, true), "started twice");
                }
                Action::KillControllers => {
                    assert!(std::mem::replace(&mut running, false), "killed twice");
                }
                _ => {}
            }
        }
        assert!(running, "demo --serve needs them");
    }

    #[test]
    fn pending_work_is_no_part_of_the_steady_state() {
        let steps = scenario(5, 3);
        let steady = steps.iter().position(|step| step.name == "steady").unwrap();
        assert_eq!(steps[steady - 1].actions, [Action::Settle]);
    }

    #[test]
    fn every_step_with_services_says_what_the_cloud_must_have() {
        let steps = scenario(5, 3);
        let judges_cloud = |step: &ScenarioStep| {
            let judges = |expectation: &Expectation| {
                matches!(
                    expectation,
                    Expectation::Balanced { .. } | Expectation::Interrupted { .. }
                )
            };
            step.expectations.iter().any(judges)
        };
        let first = steps.iter().position(|step| step.name == "expose").unwrap();
        let silent: Vec<_> = steps[first..]
            .iter()
            .filter(|step| !judges_cloud(step))
            .map(|step| step.name)
            .collect();
        assert!(silent.is_empty(), "{silent:?}");
    }
}
