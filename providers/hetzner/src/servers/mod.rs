//! Machines of Nodes, from two products (Hetzner Cloud and Robot), each with its own credential.

mod cloud;
mod control_reads;
pub(crate) mod dedicated;

use std::sync::Arc;

use cloud_provider::{
    Error, EventSubject, Gone, InstanceState, Instances, LookupRequest, Node, Result, async_trait,
};
use provider_kit::cluster::ClusterView;
use provider_kit::events::EventDeduplicator;
use provider_kit::inventory::{Found, Inventory, Machine, Mode, priority};

use crate::api::Api;
use crate::config::{self, Config};
use crate::id::MachineId;
use crate::metrics::ServerCache;
use crate::network::PrivateNetwork;
use crate::robot::Robot;
pub(crate) use cloud::{CloudServer, CloudServers};
use dedicated::DedicatedServer;

/// The machines of a cluster.
pub(crate) struct Servers {
    cloud: Inventory<CloudServers>,
    /// The dedicated servers; `None` without `ROBOT_ENABLED`, or without a credential for Robot.
    robot: Option<Robot>,
    /// Set if there are dedicated servers, and no credential for Robot.
    robot_is_unasked: bool,
    cluster: ClusterView,
    deduplicator: EventDeduplicator,
}

type CloudAnswer = Result<Found<CloudServer>>;
type RobotAnswer = Result<Found<DedicatedServer>>;

impl Servers {
    pub(crate) fn new(
        api: Api,
        robot: Option<Robot>,
        config: &Config,
        network: Option<PrivateNetwork>,
        cluster: ClusterView,
    ) -> Self {
        let (mode, max_age, name) = match config.instances.cache {
            config::CachePolicy::Shared => (Mode::Shared, None, "all"),
            config::CachePolicy::All(age) => (Mode::AlwaysList, Some(age), "all"),
            config::CachePolicy::One(age) => (Mode::AlwaysSingle, Some(age), "one"),
            config::CachePolicy::Off => (Mode::Off, None, "off"),
        };
        let heard = ServerCache {
            metrics: api.http.metrics(),
            subsystem: "instances_v2",
            mode: name,
        };
        let source = CloudServers {
            api,
            config: config.instances.clone(),
            network,
        };
        let mut cloud = Inventory::new(source).mode(mode).measured(Arc::new(heard));
        if let Some(age) = max_age {
            cloud = cloud.max_age(age);
        }
        let robot_is_unasked = config.robot.is_some() && robot.is_none();
        let deduplicator = EventDeduplicator::new(cluster.events().clone());
        Self {
            cloud,
            robot,
            robot_is_unasked,
            cluster,
            deduplicator,
        }
    }

    /// Returns the inventory of cloud servers, which shares what is read.
    pub(crate) fn cloud(&self) -> Inventory<CloudServers> {
        self.cloud.clone()
    }

    /// Queries both products, each once for all its Nodes. Of the Nodes without a provider ID, those that the cloud
    /// does not know are looked up in Robot; for the others, the cached list of Robot shows whether they have a
    /// namesake there. Otherwise each new cloud server would cost one of Robot's few requests.
    async fn ask(
        &self,
        nodes: &[Arc<Node>],
        request: LookupRequest,
    ) -> (Vec<Option<CloudAnswer>>, Vec<Option<RobotAnswer>>) {
        let mut in_cloud = Vec::new();
        let mut in_robot = Vec::new();
        let mut in_either = Vec::new();
        for (at, node) in nodes.iter().enumerate() {
            match node.provider_id().map(MachineId::read) {
                None => in_either.push(at),
                Some(Ok(MachineId::Cloud(_))) => in_cloud.push(at),
                Some(Ok(MachineId::Robot(_))) => in_robot.push(at),
                Some(Err(_)) => {}
            }
        }
        let pick = |part: &[usize]| {
            part.iter()
                .map(|at| Arc::clone(&nodes[*at]))
                .collect::<Vec<_>>()
        };
        in_cloud.extend(&in_either);
        let cloud = self.ask_cloud(pick(&in_cloud), request).await;
        let cloud = scattered(nodes.len(), in_cloud, cloud);
        let is_found = |at: &usize| matches!(cloud[*at], Some(Ok(Found::Present(_))));
        let (found, lost): (Vec<_>, Vec<_>) = in_either.into_iter().partition(is_found);
        in_robot.extend(
            lost.into_iter()
                .filter(|at| matches!(cloud[*at], Some(Ok(_)))),
        );
        let listed = match &self.robot {
            Some(robot) if !found.is_empty() => robot
                .inventory()
                .snapshot(priority(request))
                .await
                .map(Some),
            _ => Ok(None),
        };
        if let Ok(Some(list)) = &listed {
            in_robot.extend(
                found
                    .iter()
                    .filter(|at| list.by_name(&nodes[**at].name).len() > 0),
            );
        }
        let robot = self.ask_robot(pick(&in_robot), request).await;
        let mut robot = scattered(nodes.len(), in_robot, robot);
        if let Err(err) = listed {
            found
                .into_iter()
                .for_each(|at| robot[at] = Some(Err(err.clone())));
        }
        (cloud, robot)
    }

    async fn ask_cloud(&self, nodes: Vec<Arc<Node>>, request: LookupRequest) -> Vec<CloudAnswer> {
        let answers = self
            .cloud
            .find_all(&nodes, request.fresh, priority(request))
            .await;
        if request.existence && request.fresh {
            self.verify_cloud_absences(&nodes, answers).await
        } else {
            answers
        }
    }

    /// Queries Robot, if there is a credential. Its list is cached for long, because its rate limit is low: servers in
    /// the cached list exist, and missing ones are looked up in a new list.
    async fn ask_robot(&self, nodes: Vec<Arc<Node>>, request: LookupRequest) -> Vec<RobotAnswer> {
        let Some(robot) = self.robot.as_ref().filter(|_| !nodes.is_empty()) else {
            return Vec::new();
        };
        let mut answers = robot
            .inventory()
            .find_all(&nodes, false, priority(request))
            .await;
        if request.existence && request.fresh {
            if nodes
                .iter()
                .zip(&answers)
                .any(|(node, answer)| is_renamed(node, answer))
            {
                answers = robot
                    .inventory()
                    .find_all(&nodes, true, priority(request))
                    .await;
            }
            self.verify_robot_absences(robot, &mut answers).await;
        }
        answers
    }

    /// Determines the state of a Node's machine from the answers. A Node without a provider ID is looked up by its name
    /// in both products.
    async fn judge(
        &self,
        node: &Node,
        request: LookupRequest,
        cloud: Option<CloudAnswer>,
        robot: Option<RobotAnswer>,
    ) -> Result<InstanceState> {
        match (cloud.transpose()?, robot.transpose()?) {
            (Some(Found::Gone(gone)), None)
                if self.robot_is_unasked && node.provider_id().is_none() =>
            {
                Err(Error::not_found(format!(
                    "{}; whether it is a dedicated server is not known without ROBOT_USER and ROBOT_PASSWORD",
                    gone.reason()
                )))
            }
            (Some(Found::Gone(gone)), None | Some(Found::Gone(_))) if is_foreign(node) => {
                Err(self.foreign(node, &gone))
            }
            (Some(Found::Present(cloud)), Some(Found::Present(dedicated))) => {
                Err(self.ambiguous(node, &cloud, &dedicated))
            }
            (Some(Found::Gone(gone)), Some(Found::Gone(_))) => Ok(InstanceState::Gone(
                gone.with_hint("Robot has no server of this name either"),
            )),
            (None | Some(Found::Gone(_)), Some(found)) => {
                self.dedicated(node, request, found).await
            }
            (Some(found), None | Some(Found::Gone(_))) => {
                Ok(self.cloud.state_of(found, node, request))
            }
            (None, None) => Err(match MachineId::read(&node.provider_id) {
                Err(err) => err.into(),
                Ok(id) => Error::invalid(format!(
                    "{id} is a dedicated server, and there is no access to Robot; set ROBOT_ENABLED, ROBOT_USER and \
                     ROBOT_PASSWORD"
                )),
            }),
        }
    }

    /// Returns the state of a Node's dedicated server, if the server is still the Node's own: dedicated servers are used again,
    /// under another name, for another cluster.
    async fn dedicated(
        &self,
        node: &Node,
        request: LookupRequest,
        found: Found<DedicatedServer>,
    ) -> Result<InstanceState> {
        let robot = self
            .robot
            .as_ref()
            .ok_or_else(|| Error::other("there is no access to Robot"))?;
        let number = match &found {
            Found::Present(server) if *server.name != *node.name => {
                let why = format!(
                    "dedicated server {} is named {:?} now",
                    server.number, server.name
                );
                let message =
                    format!("{why}, so that this node counts as not existing and may be deleted");
                self.cluster.events().warning(
                    EventSubject::Node(node),
                    "PossibleNodeDeletion",
                    message,
                );
                return Ok(InstanceState::Gone(
                    Gone::no_such_name(&node.name).with_hint(why),
                ));
            }
            Found::Present(server) => Some(server.number),
            Found::Gone(_) => None,
        };
        let mut state = robot.inventory().state_of(found, node, request);
        // The list lacks the power state of servers.
        if let (
            InstanceState::Present {
                shutdown: Some(shutdown),
                ..
            },
            Some(number),
        ) = (&mut state, number)
        {
            *shutdown = robot.is_shut_down(number, priority(request)).await?;
        }
        Ok(state)
    }

    /// Reports a Node that no cloud controller manager has initialised, and that neither product has: a dedicated server
    /// of another account, or a machine of somebody else.
    fn foreign(&self, node: &Node, gone: &Gone) -> Error {
        let robot = match self.robot {
            Some(_) => "",
            None => {
                ", or set ROBOT_ENABLED, ROBOT_USER and ROBOT_PASSWORD if it is a dedicated server"
            }
        };
        let message = format!(
            "{}, and the node had no provider id when it was looked up, nor the start-up taint of a cloud's node, so it is \
             kept. Delete it yourself if its machine no longer exists, or set its provider id{robot}",
            gone.reason()
        );
        self.deduplicator.warn(
            true,
            EventSubject::Node(node),
            "InstanceLookupFailed",
            &message,
        );
        Error::invalid(message)
    }

    fn ambiguous(&self, node: &Node, cloud: &CloudServer, dedicated: &DedicatedServer) -> Error {
        let message = format!(
            "cloud server {} and dedicated server {} are both named {:?}; rename one of them, or set the node's provider id",
            cloud.id(),
            dedicated.number,
            node.name
        );
        self.cluster
            .events()
            .warning(EventSubject::Node(node), "InstanceLookupFailed", &message);
        Error::invalid(message)
    }
}

#[async_trait]
impl Instances for Servers {
    async fn lookup(
        &self,
        nodes: &[Arc<Node>],
        request: LookupRequest,
    ) -> Vec<Result<InstanceState>> {
        let (cloud, robot) = self.ask(nodes, request).await;
        let mut states = Vec::with_capacity(nodes.len());
        for (node, (cloud, robot)) in nodes.iter().zip(cloud.into_iter().zip(robot)) {
            // Sequential, because Robot receives one request at a time.
            states.push(self.judge(node, request, cloud, robot).await);
        }
        states
    }
}

/// Returns `true` for a Node that was never a machine of this provider, as far as the Node shows: a kubelet that expects a
/// cloud provider starts with a taint, which is removed when the provider ID is set.
fn is_foreign(node: &Node) -> bool {
    node.provider_id().is_none() && !node.is_uninitialized()
}

fn is_renamed(node: &Node, answer: &RobotAnswer) -> bool {
    matches!(answer, Ok(Found::Present(server)) if *server.name != *node.name)
}

/// Returns the answers at the indices of their Nodes.
fn scattered<T>(places: usize, asked: Vec<usize>, answers: Vec<T>) -> Vec<Option<T>> {
    let mut scattered = Vec::new();
    scattered.resize_with(places, || None);
    for (at, answer) in asked.into_iter().zip(answers) {
        scattered[at] = Some(answer);
    }
    scattered
}
