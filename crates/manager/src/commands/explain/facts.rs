//! The facts that an explanation is made of, as they were read.

use std::time::Duration;

use cloud_provider::{InstanceMetadata, LoadBalancerDescription, Node, Service};
use controllers::EventReason;
use controllers::lifecycle::preview::LifecyclePreview;
use controllers::options::ServiceOptions;
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::state::State;
use crate::commands::plan::ObjectPlan;

/// Facts about any object.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    /// The leading manager, if one leads.
    pub(super) leader: Leader,
    /// Controllers that are selected.
    pub(super) runs: Runs,
    /// Events about the object, the newest first.
    pub(super) events: Vec<EventFact>,
    /// The plan for the object.
    pub(super) plan: ObjectPlan,
    /// Error that kept the cloud from being asked at all.
    pub(super) cloud_error: Option<String>,
}

/// Controllers that are selected by the flags.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Runs {
    pub(super) node: bool,
    pub(super) lifecycle: bool,
    pub(super) service: bool,
    pub(super) route: bool,
}

/// The leading manager, as the lease shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leader {
    /// A replica holds the lease and renews it.
    Leads {
        /// Identity of the holder.
        holder: String,
        /// Time since it renewed the lease.
        renewed: Duration,
    },
    /// No replica leads, for this reason.
    Nobody(String),
    /// The lease does not tell, for this reason.
    Unknown(String),
}

/// An event about the object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventFact {
    /// Reason, as the API shows it.
    pub reason: String,
    /// If set, the event is a warning.
    pub is_warning: bool,
    /// Message of the event.
    pub message: String,
    /// Component that wrote the event.
    pub source: String,
    /// Number of times that the event was reported.
    pub count: i32,
    /// Time of the first report.
    pub first: Option<Timestamp>,
    /// Time of the last report.
    pub last: Option<Timestamp>,
}

impl From<Event> for EventFact {
    fn from(event: Event) -> Self {
        let created = event.metadata.creation_timestamp.map(|time| time.0);
        let micro = event.event_time.map(|time| time.0);
        let source = event
            .source
            .and_then(|source| source.component)
            .or(event.reporting_component);
        Self {
            reason: event.reason.unwrap_or_default(),
            is_warning: event.type_.as_deref() == Some("Warning"),
            message: event.message.unwrap_or_default(),
            source: source.unwrap_or_default(),
            count: event.count.unwrap_or(1),
            first: event
                .first_timestamp
                .map(|time| time.0)
                .or(micro)
                .or(created),
            last: event
                .last_timestamp
                .map(|time| time.0)
                .or(micro)
                .or(created),
        }
    }
}

impl Facts {
    /// Returns the newest event of a reason, unless one of the reasons that end it was reported later, or in the same
    /// second: events have whole seconds, and a state begins before it ends.
    pub(super) fn current(&self, reason: EventReason, ends: &[EventReason]) -> Option<&EventFact> {
        let newest = |reason: EventReason| {
            self.events
                .iter()
                .filter(move |event| event.reason == reason.as_str())
                .max_by_key(|event| event.last)
        };
        let event = newest(reason)?;
        let is_over = ends
            .iter()
            .filter_map(|end| newest(*end))
            .any(|end| end.last >= event.last);
        (!is_over).then_some(event)
    }

    /// Returns `true` if a later event ended the state that `event` reports.
    pub(super) fn is_over(&self, event: &EventFact) -> bool {
        let reason = EventReason::ALL
            .iter()
            .find(|reason| event.reason == reason.as_str());
        let state = reason.and_then(|reason| Some((*reason, State::of_event(*reason)?)));
        state.is_some_and(|(reason, (_, ends))| self.current(reason, ends).is_none())
    }
}

/// Facts about a Service.
#[derive(Clone, Debug)]
pub(super) struct ServiceFacts {
    /// The Service; `None` if the API has no Service of this name.
    pub(super) service: Option<Service>,
    /// Settings of the controller.
    pub(super) options: ServiceOptions,
    /// If set, the provider offers load balancers.
    pub(super) offers: bool,
    /// Load balancers in the cloud that concern the Service.
    pub(super) balancers: Balancers,
    /// Number of Nodes that can be targets.
    pub(super) targets: usize,
    /// Nodes that cannot be targets, with the reason.
    pub(super) excluded: Vec<(String, &'static str)>,
    /// Reason why no Node is a target although some are eligible: their provider IDs.
    pub(super) unidentified: Option<String>,
}

/// Load balancers of the cloud that concern a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Balancers {
    /// The provider described them.
    Described(Vec<LoadBalancerDescription>),
    /// The provider describes no load balancers: only the addresses of an existing load balancer are known.
    Found(Option<Vec<String>>),
    /// The request to the cloud failed.
    Failed(String),
    /// The cloud was not asked.
    NotAsked,
}

/// Facts about a Node.
#[derive(Clone, Debug)]
pub(super) struct NodeFacts {
    /// The Node; `None` if the API has no Node of this name.
    pub(super) node: Option<Node>,
    /// The Node as the API shows it.
    pub(super) object: Value,
    /// If set, the provider offers machines.
    pub(super) offers: bool,
    /// If set, the Node belongs, or may belong, to this provider.
    pub(super) is_ours: bool,
    /// If set, all Nodes of the cluster have the provider ID of another cloud.
    pub(super) all_foreign: bool,
    /// If set, the Node lacks a provider ID, and no controller will set it.
    pub(super) is_unidentified: bool,
    /// The cloud's answer about the machine of the Node.
    pub(super) machine: Machine,
    /// Provider ID of the machine that has the Node's name, if its provider ID names none.
    pub(super) named: Option<String>,
    /// Next action of the lifecycle controller.
    pub(super) preview: LifecyclePreview,
    /// Routes in the cloud that lead to the Node, such as `10.244.1.0/24`; `None` if the cloud has no routes or was not
    /// asked.
    pub(super) routes: Option<Vec<String>>,
    /// Error that kept routes from being planned.
    pub(super) route_error: Option<String>,
    /// If set, Nodes without a network are no targets.
    pub(super) waits_for_network: bool,
}

/// The cloud's answer about the machine of a Node.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Machine {
    /// The machine exists, running or not.
    Present {
        /// If set, the machine is shut down.
        shutdown: Option<bool>,
        /// Metadata; `None` if the cloud has none yet, or was not asked for it.
        metadata: Option<Box<InstanceMetadata>>,
    },
    /// The machine does not exist, with the cloud's text.
    Gone(String),
    /// The machine is ambiguous until an operator changes something.
    Ambiguous(String),
    /// The cloud gave no answer.
    Failed(String),
    /// The cloud was not asked.
    NotAsked,
}
