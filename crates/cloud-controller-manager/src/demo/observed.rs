//! What is seen at one moment: in the Kubernetes API, and in the cloud itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{Node, Service, default_load_balancer_name};
use provider_simulated::cloud::{Cloud, CloudRoute, LoadBalancer, LoadBalancerStatus};

use super::news::Inventory;
use super::tally::Tally;

/// What was read from the Kubernetes API and from the cloud, and how often the controllers asked for something.
#[derive(Debug, Clone, Default)]
pub(super) struct Observed {
    /// Since the start.
    pub(super) at: Duration,
    /// All Nodes.
    pub(super) nodes: Vec<Arc<Node>>,
    /// All Services.
    pub(super) services: Vec<Arc<Service>>,
    /// All events so far.
    pub(super) said: Vec<Arc<Said>>,
    /// Passes in which the cloud was asked for machines so far.
    pub(super) passes: u32,
    /// What the cloud has.
    pub(super) cloud: Arc<CloudState>,
    /// Requests of the controllers to the cloud so far that ask for a change.
    pub(super) changes: Tally,
    /// Writes of the controllers to the Kubernetes API so far, events included.
    pub(super) writes: Tally,
}

/// An event about a Node or a Service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Said {
    /// The kind of its object.
    pub(super) kind: String,
    /// Its name.
    pub(super) about: String,
    /// The reason, one word.
    pub(super) reason: String,
    /// The message.
    pub(super) message: String,
    /// Passes at the time it was read.
    pub(super) passes: u32,
}

/// The cloud's load balancers and routes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CloudState {
    /// All of them, whoever made them.
    pub(super) balancers: Vec<Balancer>,
    /// All of them, whoever made them.
    pub(super) routes: Vec<CloudRoute>,
}

/// A load balancer of the cloud.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Balancer {
    /// The cloud's id.
    pub(super) id: String,
    /// Its name: the Service's UID in another form.
    pub(super) name: String,
    /// Its address, once it works.
    pub(super) ip: Option<String>,
    /// Whether the cloud still works on it.
    pub(super) pending: bool,
    /// Port, protocol and port on the machines.
    pub(super) listeners: BTreeSet<(u16, String, u16)>,
    /// Ids of machines.
    pub(super) targets: BTreeSet<String>,
}

impl CloudState {
    /// Reads the cloud.
    pub(super) fn of(cloud: &Cloud) -> Self {
        let balancers = cloud.load_balancers().into_iter().map(Balancer::from).collect();
        Self { balancers, routes: cloud.routes() }
    }
}

impl Balancer {
    /// Address, listeners and number of targets.
    pub(super) fn state(&self) -> String {
        let address = self.ip.as_deref().unwrap_or("no address");
        let pending = if self.pending { " (pending)" } else { "" };
        format!("{address}{pending}, {}, {} targets", listed(&self.listeners), self.targets.len())
    }
}

/// Listeners in one line.
pub(super) fn listed(listeners: &BTreeSet<(u16, String, u16)>) -> String {
    let listener = |(port, protocol, target): &(u16, String, u16)| format!("{port}/{protocol} → {target}");
    let texts: Vec<String> = listeners.iter().map(listener).collect();
    if texts.is_empty() { "no listener".to_owned() } else { texts.join(", ") }
}

impl From<LoadBalancer> for Balancer {
    fn from(it: LoadBalancer) -> Self {
        let listeners = it.spec.listeners.into_iter();
        Self {
            id: it.id,
            name: it.spec.name,
            ip: it.ip,
            pending: it.status == LoadBalancerStatus::Pending,
            listeners: listeners.map(|listener| (listener.port, listener.protocol, listener.target_port)).collect(),
            targets: it.spec.targets.into_iter().collect(),
        }
    }
}

impl Observed {
    /// A Service by name.
    pub(super) fn service(&self, name: &str) -> Option<&Arc<Service>> {
        self.services.iter().find(|service| service.metadata.name.as_deref() == Some(name))
    }

    /// The load balancers that carry a Service's name; there should never be two.
    pub(super) fn balancers(&self, service: &Service) -> Vec<&Balancer> {
        let name = default_load_balancer_name(service);
        self.cloud.balancers.iter().filter(|balancer| balancer.name == name).collect()
    }
}

/// What was there when a step began.
#[derive(Debug, Default)]
pub(super) struct Baseline {
    uids: BTreeMap<Box<str>, Box<str>>,
    /// Id and address of the load balancer of each Service, by the Service's name.
    balancers: BTreeMap<String, (String, Option<String>)>,
    /// What the cloud had.
    pub(super) inventory: Inventory,
    /// Number of events.
    pub(super) said: usize,
    /// Passes.
    pub(super) passes: u32,
    /// Requests to the cloud that ask for a change.
    pub(super) changes: Tally,
    /// Writes to the Kubernetes API.
    pub(super) writes: Tally,
    /// When the step's actions were done.
    pub(super) acted: Duration,
}

impl Baseline {
    pub(super) fn new(observed: &Observed) -> Self {
        let balancer = |service: &Arc<Service>| {
            let balancer = *observed.balancers(service).first()?;
            Some((service.metadata.name.clone()?, (balancer.id.clone(), balancer.ip.clone())))
        };
        Self {
            uids: observed.nodes.iter().map(|node| (node.name.clone(), node.uid.clone())).collect(),
            balancers: observed.services.iter().filter_map(balancer).collect(),
            inventory: Inventory::of(observed),
            said: observed.said.len(),
            passes: observed.passes,
            changes: observed.changes.clone(),
            writes: observed.writes.clone(),
            acted: observed.at,
        }
    }

    /// Nodes that have disappeared or been replaced since, except `except`.
    pub(super) fn lost(&self, observed: &Observed, except: Option<&str>) -> Vec<&str> {
        let now: BTreeMap<&str, &str> = observed.nodes.iter().map(|node| (&*node.name, &*node.uid)).collect();
        let lost = self.uids.iter().filter(|(name, uid)| now.get(&***name) != Some(&&***uid));
        lost.map(|(name, _)| &**name).filter(|name| Some(*name) != except).collect()
    }

    /// Services whose load balancer was replaced by another one or has got another address since, with what it was and
    /// is.
    pub(super) fn moved(&self, observed: &Observed) -> Vec<String> {
        let moved = self.balancers.iter().filter_map(|(name, (id, ip))| {
            let now = *observed.balancers(observed.service(name)?).first()?;
            let address = |ip: &Option<String>| ip.clone().unwrap_or_else(|| "no address".to_owned());
            let same = now.id == *id && (ip.is_none() || now.ip == *ip);
            (!same).then(|| format!("{name}: {id} ({}) is now {} ({})", address(ip), now.id, address(&now.ip)))
        });
        moved.collect()
    }
}
