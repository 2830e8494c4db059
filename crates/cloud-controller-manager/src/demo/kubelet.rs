//! The kubelets and kube-controller-manager of the demo: they register Nodes, assign Pod CIDRs and report readiness.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Client};
use parking_lot::{Mutex, MutexGuard};
use provider_simulated::cloud::{Cloud, Machine, MachineState};
use runtime::api_error::{api_error, is_already_exists, is_not_found};
use runtime::loops::parallel_for;
use runtime::node::NodeObject;
use runtime::writes::strategic_patch;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::node_object::{conditions, node_object};
use super::pod_ranges::PodRanges;

/// Interval of polls of all machines, which cannot be watched.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum number of requests in flight.
const CONCURRENT: usize = 16;

/// The kubelets of all machines.
#[derive(Clone)]
pub(super) struct Kubelets {
    client: Client,
    cloud: Cloud,
    state: Arc<Mutex<KubeletState>>,
}

#[derive(Default)]
struct KubeletState {
    /// Readiness that was last reported, by Node name.
    registered: BTreeMap<String, bool>,
    /// Pod CIDRs that are still to be assigned to new Nodes, by Node name.
    ranges: BTreeMap<String, String>,
    free: PodRanges,
    /// Machines whose kubelets run but do not report.
    silent: HashSet<String>,
    /// Error of the last request that failed.
    last_error: Option<String>,
}

/// A write to the Kubernetes API.
#[derive(Debug, PartialEq)]
enum Task {
    Register(Box<Machine>),
    Assign {
        node: String,
        range: String,
    },
    Report {
        node: String,
        ready: bool,
        restarted: Option<Box<Machine>>,
    },
}

impl Kubelets {
    pub(super) fn new(client: Client, cloud: Cloud) -> Self {
        Self {
            client,
            cloud,
            state: Arc::default(),
        }
    }

    /// Follows the machines until `shutdown`: a new machine registers a Node, a machine that stops or disappears makes
    /// its Node not ready, and a machine that starts again makes its Node ready.
    pub(super) async fn run(self, shutdown: CancellationToken) {
        while !shutdown.is_cancelled() {
            let tasks = self.state().tasks(&self.cloud.machines());
            parallel_for(tasks, CONCURRENT, &shutdown, |task| self.carry_out(task)).await;
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = tokio::time::sleep(POLL_INTERVAL) => {}
            }
        }
    }

    /// Stops the reports of these kubelets, so that kube-controller-manager marks their Nodes as not ready.
    pub(super) fn silence(&self, nodes: &[String]) {
        self.state().silent.extend(nodes.iter().cloned());
    }

    /// Lets all kubelets report again.
    pub(super) fn wake(&self) {
        self.state().silent.clear();
    }

    /// Returns the error of the last request that failed, if any.
    pub(super) fn last_error(&self) -> Option<String> {
        self.state().last_error.clone()
    }

    fn state(&self) -> MutexGuard<'_, KubeletState> {
        self.state.lock()
    }

    async fn carry_out(&self, task: Task) {
        match task {
            Task::Register(machine) => self.register(&machine).await,
            Task::Assign { node, range } => self.assign(&node, &range).await,
            Task::Report {
                node,
                ready,
                restarted,
            } => {
                let api: Api<NodeObject> = Api::all(self.client.clone());
                let patch = json!({"status": {"conditions": conditions(ready, Timestamp::now())}});
                match strategic_patch(&api, &node, Some("status"), &patch).await {
                    Ok(_) => _ = self.state().registered.insert(node, ready),
                    // A kubelet that starts registers its Node; a running kubelet does not notice.
                    Err(error) if is_not_found(&error) => match restarted {
                        Some(machine) => self.register(&machine).await,
                        None => _ = self.state().registered.insert(node, ready),
                    },
                    Err(error) => self.note(&node, &error),
                }
            }
        }
    }

    async fn register(&self, machine: &Machine) {
        let name = machine.name.clone();
        let body = serde_json::to_vec(&node_object(machine, Timestamp::now())).unwrap_or_default();
        let request =
            kube::core::Request::new("/api/v1/nodes").create(&PostParams::default(), body);
        let answer = match request {
            Ok(request) => self.client.request::<Value>(request).await.map(drop),
            Err(error) => Err(kube::Error::BuildRequest(error)),
        };
        match answer {
            Ok(()) => {
                let range = self.state().join(&name);
                if let Some(range) = range {
                    self.assign(&name, &range).await;
                }
            }
            Err(error) if is_already_exists(&error) => {
                _ = self.state().registered.insert(name, false);
            }
            Err(error) => self.note(&name, &error),
        }
    }

    /// Assigns a Pod CIDR to a Node, like kube-controller-manager with `--allocate-node-cidrs`.
    async fn assign(&self, node: &str, range: &str) {
        let api: Api<NodeObject> = Api::all(self.client.clone());
        let patch = json!({"spec": {"podCIDR": range, "podCIDRs": [range]}});
        match strategic_patch(&api, node, None, &patch).await {
            Err(error) if !is_not_found(&error) => self.note(node, &error),
            _ => _ = self.state().ranges.remove(node),
        }
    }

    /// Records a failed request, which the next poll repeats.
    fn note(&self, node: &str, error: &kube::Error) {
        tracing::warn!(node, error = %api_error(error), "a kubelet's request failed, it is sent again");
        self.state().last_error = Some(format!("the kubelet of {node}: {}", api_error(error)));
    }
}

impl KubeletState {
    /// Records that a Node has registered, and returns its Pod CIDR.
    fn join(&mut self, node: &str) -> Option<String> {
        self.registered.insert(node.to_owned(), true);
        let range = self.free.take()?;
        self.ranges.insert(node.to_owned(), range.clone());
        Some(range)
    }

    /// Returns the writes for all differences between the machines and the Kubernetes API.
    fn tasks(&self, machines: &[Machine]) -> Vec<Task> {
        let assign = |(node, range): (&String, &String)| Task::Assign {
            node: node.clone(),
            range: range.clone(),
        };
        let mut tasks: Vec<Task> = self.ranges.iter().map(assign).collect();
        let mut running: HashSet<&str> = HashSet::with_capacity(machines.len());
        for machine in machines
            .iter()
            .filter(|machine| machine.state == MachineState::Running)
        {
            running.insert(&machine.name);
            if self.silent.contains(&machine.name) {
                continue;
            }
            match self.registered.get(&machine.name) {
                None => tasks.push(Task::Register(Box::new(machine.clone()))),
                Some(false) => tasks.push(Task::Report {
                    node: machine.name.clone(),
                    ready: true,
                    restarted: Some(Box::new(machine.clone())),
                }),
                Some(true) => {}
            }
        }
        for (name, ready) in &self.registered {
            let reports = running.contains(name.as_str()) && !self.silent.contains(name);
            if *ready && !reports {
                tasks.push(Task::Report {
                    node: name.clone(),
                    ready: false,
                    restarted: None,
                });
            }
        }
        tasks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns two machines, the first of which is registered and ready.
    fn environment() -> (Cloud, KubeletState) {
        let cloud = Cloud::default();
        cloud.create_machines("n", 2);
        let state = KubeletState {
            registered: [("n1".to_owned(), true)].into(),
            ..KubeletState::default()
        };
        (cloud, state)
    }

    fn tasks_of(state: &KubeletState, cloud: &Cloud) -> Vec<(String, Option<bool>)> {
        let tasks = state.tasks(&cloud.machines());
        let listed = tasks.into_iter().map(|task| match task {
            Task::Register(machine) => (machine.name, None),
            Task::Report { node, ready, .. } => (node, Some(ready)),
            Task::Assign { node, range } => (format!("{node} {range}"), None),
        });
        listed.collect()
    }

    #[test]
    fn a_new_machine_registers_and_a_running_one_has_nothing_to_say() {
        let (cloud, state) = environment();
        assert_eq!(tasks_of(&state, &cloud), [("n2".to_owned(), None)]);
    }

    #[test]
    fn a_machine_that_stops_or_disappears_or_is_silent_leaves_its_node_not_ready() {
        let lost = ("n1".to_owned(), Some(false));
        let (cloud, state) = environment();
        cloud.stop("n1");
        assert!(tasks_of(&state, &cloud).contains(&lost));
        let (cloud, state) = environment();
        cloud.terminate("n1");
        assert!(tasks_of(&state, &cloud).contains(&lost));
        let (cloud, mut state) = environment();
        state.silent.insert("n1".to_owned());
        assert!(tasks_of(&state, &cloud).contains(&lost));
    }

    #[test]
    fn a_machine_that_starts_again_makes_its_node_ready() {
        let (cloud, mut state) = environment();
        state.registered.insert("n1".to_owned(), false);
        assert!(tasks_of(&state, &cloud).contains(&("n1".to_owned(), Some(true))));
        cloud.stop("n1");
        assert!(
            !tasks_of(&state, &cloud)
                .iter()
                .any(|(node, _)| node == "n1"),
            "nothing new"
        );
    }

    #[test]
    fn a_node_that_joins_gets_a_pod_range_and_keeps_asking_for_it() {
        let (cloud, mut state) = environment();
        assert_eq!(state.join("n2"), Some("10.128.0.0/24".to_owned()));
        assert_eq!(
            tasks_of(&state, &cloud),
            [("n2 10.128.0.0/24".to_owned(), None)]
        );
        state.ranges.clear();
        assert_eq!(tasks_of(&state, &cloud), []);
    }

    #[test]
    fn a_stopped_machine_does_not_register() {
        let (cloud, state) = environment();
        cloud.stop("n2");
        assert_eq!(tasks_of(&state, &cloud), []);
    }
}
