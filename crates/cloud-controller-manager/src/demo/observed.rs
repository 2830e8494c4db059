//! The observed state of the Kubernetes API and the cloud at one moment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{Node, Service, default_load_balancer_name};
use provider_simulated::cloud::{Cloud, CloudRoute, LoadBalancer, LoadBalancerStatus};

use super::changes::Inventory;
use super::tally::Tally;

/// The state of the Kubernetes API and the cloud, and the numbers of the controllers' requests.
#[derive(Debug, Clone, Default)]
pub(super) struct Observed {
    /// Time since the start.
    pub(super) at: Duration,
    /// Nodes of the cluster.
    pub(super) nodes: Vec<Arc<Node>>,
    /// Services of the cluster.
    pub(super) services: Vec<Arc<Service>>,
    /// Events about Nodes and Services so far.
    pub(super) events: Vec<Arc<ObservedEvent>>,
    /// Number of passes so far in which machines were read from the cloud.
    pub(super) passes: u32,
    /// Load balancers and routes in the cloud.
    pub(super) cloud: Arc<CloudState>,
    /// Number of the controllers' requests for changes in the cloud so far.
    pub(super) changes: Tally,
    /// Number of the controllers' writes to the Kubernetes API so far, including events.
    pub(super) writes: Tally,
}

/// An event about a Node or a Service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ObservedEvent {
    /// Kind of the event's object.
    pub(super) kind: String,
    /// Name of the event's object.
    pub(super) about: String,
    /// Reason of the event, one word.
    pub(super) reason: String,
    /// Message of the event.
    pub(super) message: String,
    /// Number of passes when the event was read.
    pub(super) passes: u32,
}

/// The load balancers and routes in the cloud.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CloudState {
    /// Load balancers, including those that the controllers did not create.
    pub(super) balancers: Vec<Balancer>,
    /// Routes, including those that the controllers did not create.
    pub(super) routes: Vec<CloudRoute>,
}

/// A load balancer in the cloud.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Balancer {
    /// ID of the load balancer in the cloud.
    pub(super) id: String,
    /// Name of the load balancer, which is derived from the Service's UID.
    pub(super) name: String,
    /// Address of the load balancer, as soon as it is active.
    pub(super) ip: Option<String>,
    /// If set, the cloud is still changing the load balancer.
    pub(super) pending: bool,
    /// Listeners: port, protocol and port on the machines.
    pub(super) listeners: BTreeSet<(u16, String, u16)>,
    /// IDs of the target machines.
    pub(super) targets: BTreeSet<String>,
}

impl CloudState {
    /// Reads the load balancers and routes of the cloud.
    pub(super) fn of(cloud: &Cloud) -> Self {
        let balancers = cloud
            .load_balancers()
            .into_iter()
            .map(Balancer::from)
            .collect();
        Self {
            balancers,
            routes: cloud.routes(),
        }
    }
}

impl Balancer {
    /// Formats address, listeners and number of targets.
    pub(super) fn state(&self) -> String {
        let address = self.ip.as_deref().unwrap_or("no address");
        let pending = if self.pending { " (pending)" } else { "" };
        format!(
            "{address}{pending}, {}, {} targets",
            listed(&self.listeners),
            self.targets.len()
        )
    }
}

/// Formats the listeners on one line.
pub(super) fn listed(listeners: &BTreeSet<(u16, String, u16)>) -> String {
    let listener =
        |(port, protocol, target): &(u16, String, u16)| format!("{port}/{protocol} → {target}");
    let texts: Vec<String> = listeners.iter().map(listener).collect();
    if texts.is_empty() {
        "no listener".to_owned()
    } else {
        texts.join(", ")
    }
}

impl From<LoadBalancer> for Balancer {
    fn from(load_balancer: LoadBalancer) -> Self {
        let listeners = load_balancer.spec.listeners.into_iter();
        Self {
            id: load_balancer.id,
            name: load_balancer.spec.name,
            ip: load_balancer.ip,
            pending: load_balancer.status == LoadBalancerStatus::Pending,
            listeners: listeners
                .map(|listener| (listener.port, listener.protocol, listener.target_port))
                .collect(),
            targets: load_balancer.spec.targets.into_iter().collect(),
        }
    }
}

impl Observed {
    /// Returns the Service with this name.
    pub(super) fn service(&self, name: &str) -> Option<&Arc<Service>> {
        self.services
            .iter()
            .find(|service| service.metadata.name.as_deref() == Some(name))
    }

    /// Returns the load balancers with a Service's name. There should never be two.
    pub(super) fn balancers(&self, service: &Service) -> Vec<&Balancer> {
        let name = default_load_balancer_name(service);
        self.cloud
            .balancers
            .iter()
            .filter(|balancer| balancer.name == name)
            .collect()
    }
}

/// The state at the beginning of a step.
#[derive(Debug, Default)]
pub(super) struct Baseline {
    uids: BTreeMap<Box<str>, Box<str>>,
    /// ID and address of each Service's load balancer, by the Service's name.
    balancers: BTreeMap<String, (String, Option<String>)>,
    /// Load balancers and routes in the cloud.
    pub(super) inventory: Inventory,
    /// Number of events so far.
    pub(super) events: usize,
    /// Number of passes so far.
    pub(super) passes: u32,
    /// Number of requests for changes in the cloud.
    pub(super) changes: Tally,
    /// Number of writes to the Kubernetes API.
    pub(super) writes: Tally,
    /// Time at which the step's actions were done.
    pub(super) acted: Duration,
}

impl Baseline {
    pub(super) fn new(observed: &Observed) -> Self {
        let balancer = |service: &Arc<Service>| {
            let balancer = *observed.balancers(service).first()?;
            Some((
                service.metadata.name.clone()?,
                (balancer.id.clone(), balancer.ip.clone()),
            ))
        };
        Self {
            uids: observed
                .nodes
                .iter()
                .map(|node| (node.name.clone(), node.uid.clone()))
                .collect(),
            balancers: observed.services.iter().filter_map(balancer).collect(),
            inventory: Inventory::of(observed),
            events: observed.events.len(),
            passes: observed.passes,
            changes: observed.changes.clone(),
            writes: observed.writes.clone(),
            acted: observed.at,
        }
    }

    /// Returns the Nodes that have been deleted or replaced since, except `except`.
    pub(super) fn lost(&self, observed: &Observed, except: Option<&str>) -> Vec<&str> {
        let now: BTreeMap<&str, &str> = observed
            .nodes
            .iter()
            .map(|node| (&*node.name, &*node.uid))
            .collect();
        let lost = self
            .uids
            .iter()
            .filter(|(name, uid)| now.get(&***name) != Some(&&***uid));
        lost.map(|(name, _)| &**name)
            .filter(|name| Some(*name) != except)
            .collect()
    }

    /// Returns the Services whose load balancer has been replaced or has got another address since, with the old and
    /// the new state.
    pub(super) fn moved(&self, observed: &Observed) -> Vec<String> {
        let moved = self.balancers.iter().filter_map(|(name, (id, ip))| {
            let now = *observed.balancers(observed.service(name)?).first()?;
            let address =
                |ip: &Option<String>| ip.clone().unwrap_or_else(|| "no address".to_owned());
            let same = now.id == *id && (ip.is_none() || now.ip == *ip);
            (!same).then(|| {
                format!(
                    "{name}: {id} ({}) is now {} ({})",
                    address(ip),
                    now.id,
                    address(&now.ip)
                )
            })
        });
        moved.collect()
    }
}
