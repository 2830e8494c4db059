//! State of the cloud: the objects of all projects.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fake_cloud::{Bucket, Operation};
use serde_json::Value;

use crate::actions::Action;
use crate::balancers::Balancer;
use crate::catalogue::{BalancerType, types};
use crate::certificates::Certificate;
use crate::networks::Network;
use crate::refusal::Refusal;
use crate::robot::RobotServer;
use crate::routes::ApiRequest;
use crate::servers::Server;
use crate::{Options, PROJECT, TOKEN};

/// An object of a project.
#[derive(Clone, Debug)]
pub(crate) struct Owned<T> {
    pub(crate) project: String,
    pub(crate) object: T,
}

/// Ids of objects: seven digits, so that none is found in a port or an address.
const SERVERS: u64 = 1_000_001;
const BALANCERS: u64 = 2_000_001;
const CERTIFICATES: u64 = 3_000_001;
const ACTIONS: u64 = 5_000_001;
const NETWORKS: u64 = 4711;

const HOUR: Duration = Duration::from_secs(3600);

pub(crate) struct Model {
    pub(crate) options: Options,
    pub(crate) tokens: BTreeMap<String, String>,
    pub(crate) read_only: BTreeSet<String>,
    buckets: BTreeMap<String, Bucket>,
    pub(crate) types: Vec<BalancerType>,
    pub(crate) servers: BTreeMap<u64, Owned<Server>>,
    pub(crate) networks: BTreeMap<u64, Owned<Network>>,
    pub(crate) balancers: BTreeMap<u64, Owned<Balancer>>,
    pub(crate) certificates: BTreeMap<u64, Owned<Certificate>>,
    pub(crate) actions: BTreeMap<u64, Owned<Action>>,
    pub(crate) robot: BTreeMap<u64, RobotServer>,
    pub(crate) robot_limit: Option<u32>,
    pub(crate) robot_used: BTreeMap<String, u32>,
    pub(crate) attached_to: BTreeSet<u64>,
    /// Number of answered requests, which identifies them.
    pub(crate) answered: u64,
    made: [u64; 5],
}

/// Kind of object that an ID belongs to.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Server,
    Balancer,
    Certificate,
    Network,
    Action,
}

impl Model {
    pub(crate) fn new(options: Options) -> Self {
        Self {
            options,
            tokens: [(TOKEN.to_owned(), PROJECT.to_owned())].into(),
            read_only: BTreeSet::new(),
            buckets: BTreeMap::new(),
            types: types(),
            servers: BTreeMap::new(),
            networks: BTreeMap::new(),
            balancers: BTreeMap::new(),
            certificates: BTreeMap::new(),
            actions: BTreeMap::new(),
            robot: BTreeMap::new(),
            robot_limit: None,
            robot_used: BTreeMap::new(),
            attached_to: BTreeSet::new(),
            answered: 0,
            made: [0; 5],
        }
    }

    /// Returns a new ID, and the serial number of its kind, from 1.
    pub(crate) fn next_id(&mut self, kind: Kind) -> (u64, u64) {
        let (slot, first) = match kind {
            Kind::Server => (0, SERVERS),
            Kind::Balancer => (1, BALANCERS),
            Kind::Certificate => (2, CERTIFICATES),
            Kind::Network => (3, NETWORKS),
            Kind::Action => (4, ACTIONS),
        };
        self.made[slot] += 1;
        (first + self.made[slot] - 1, self.made[slot])
    }

    pub(crate) fn bucket(&mut self, project: &str) -> &mut Bucket {
        let Options {
            limit, remaining, ..
        } = self.options;
        self.buckets
            .entry(project.to_owned())
            .or_insert_with(|| Bucket::new(limit, HOUR, remaining))
    }

    pub(crate) fn set_level(&mut self, project: &str, remaining: u32) {
        self.buckets.insert(
            project.to_owned(),
            Bucket::new(self.options.limit, HOUR, remaining),
        );
    }

    /// Counts a request to Robot, and returns `true` if it exceeds the limit of its kind.
    pub(crate) fn is_robot_limited(&mut self, route: &str) -> bool {
        let used = self.robot_used.entry(route.to_owned()).or_default();
        *used += 1;
        self.robot_limit.is_some_and(|limit| *used > limit)
    }

    /// Starts an action.
    ///
    /// # Errors
    /// Another one runs.
    pub(crate) fn act(
        &mut self,
        request: &ApiRequest,
        command: &str,
        resource: (&'static str, u64),
    ) -> Result<Action, Refusal> {
        let busy = match resource.0 {
            "network" if self.options.busy_networks => Some("conflict"),
            "load_balancer" if self.options.busy_balancers => Some("locked"),
            _ => None,
        };
        let runs = |entry: &Owned<Action>| {
            entry.object.resource == resource && !entry.object.operation.is_over()
        };
        if let Some(code) = busy.filter(|_| self.actions.values().any(runs)) {
            return Err(Refusal::new(
                code,
                format!("another action of the {} runs", resource.0),
            ));
        }
        let operation = Operation::begin(self.options.action_time, &request.effects);
        let (id, _) = self.next_id(Kind::Action);
        let action = Action {
            id,
            command: command.to_owned(),
            resource,
            operation,
        };
        self.actions.insert(
            id,
            Owned {
                project: request.project.clone(),
                object: action.clone(),
            },
        );
        Ok(action)
    }
}

type All<T> = BTreeMap<u64, Owned<T>>;

/// Returns the objects of a project.
pub(crate) fn of_project<'a, T>(all: &'a All<T>, project: &'a str) -> impl Iterator<Item = &'a T> {
    all.values()
        .filter(move |object| object.project == project)
        .map(|object| &object.object)
}

/// Returns the objects of the request's project.
pub(crate) fn of<'a, T>(all: &'a All<T>, request: &'a ApiRequest) -> impl Iterator<Item = &'a T> {
    of_project(all, &request.project)
}

/// Returns an object of a project.
pub(crate) fn one<'a, T>(all: &'a All<T>, project: &str, id: u64) -> Option<&'a T> {
    all.get(&id)
        .filter(|object| object.project == project)
        .map(|object| &object.object)
}

/// Returns the object that a path names.
pub(crate) fn asked_for<'a, T>(
    all: &'a All<T>,
    request: &ApiRequest,
    what: &str,
) -> Result<&'a T, Refusal> {
    let found = request
        .id()
        .parse()
        .ok()
        .and_then(|id| one(all, &request.project, id));
    found.ok_or_else(|| Refusal::not_found(what))
}

/// Returns an object for a change.
pub(crate) fn one_mut<T>(all: &mut All<T>, id: u64) -> Option<&mut T> {
    all.get_mut(&id).map(|object| &mut object.object)
}

/// Applies the change of an action to its object, unless the action fails.
pub(crate) fn changed<T>(all: &mut All<T>, action: &Action, change: impl FnOnce(&mut T)) {
    if let Some(object) =
        one_mut(all, action.resource.1).filter(|_| action.operation.error.is_none())
    {
        change(object);
    }
}

/// Creation time of every object; the clients do not depend on it.
pub(crate) const CREATED: &str = "2026-08-01T00:00:00Z";

/// Returns an object's reference in an action.
pub(crate) fn reference(resource: (&'static str, u64)) -> Value {
    serde_json::json!([{"id": resource.1, "type": resource.0}])
}
