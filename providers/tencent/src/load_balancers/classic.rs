//! Load balancers of the kind `classic`, which other programs have created: their targets are those of all listeners,
//! and API 3.0 changes nothing but the targets.

use std::collections::BTreeSet;

use cloud_provider::{Error, Result, Service};
use futures::try_join;
use provider_kit::events::PendingEvents;
use provider_kit::load_balancers::{
    Applied, Attributes, ObservedLoadBalancer, POOL, ResourceGraph,
};
use serde_json::{Value, json};

use super::apply::Work;
use super::model::Balancer;
use super::spec::{WEIGHT, pool};
use super::targets::{parts, target};
use super::{TencentLoadBalancers, group_key};
use crate::action::{Action, CLB};
use crate::api::{list, text};

/// The setting of load balancers of the kind `classic`.
const CLASSIC: &str = "IsClassic";
/// The port of targets, a setting of their listeners.
const TARGET_PORT: &str = "InstancePort";
/// Targets that a request can name.
const TARGETS: usize = 20;

/// Returns `true` for the state of a load balancer of the kind `classic`.
pub(super) fn is_classic(graph: &ResourceGraph) -> bool {
    graph
        .balancer_attributes()
        .is_some_and(|settings| settings.get(CLASSIC).is_some())
}

/// Returns the instances that are targets.
fn instances(graph: &ResourceGraph) -> BTreeSet<&str> {
    graph
        .targets
        .iter()
        .flat_map(|(_, all)| all.iter())
        .map(|text| parts(text).0)
        .collect()
}

/// Returns the port of a pool's targets.
fn target_port(graph: &ResourceGraph, pool: &str) -> Option<u16> {
    let (_, listener) = graph
        .listeners()
        .find(|(_, settings)| settings.text(POOL) == Some(pool))?;
    listener.number(TARGET_PORT)
}

impl TencentLoadBalancers {
    /// Reads the listeners and targets of a load balancer of the kind `classic`. One that a user named shows none.
    pub(super) async fn classic(
        &self,
        entry: &Value,
        head: ObservedLoadBalancer,
    ) -> Result<ObservedLoadBalancer> {
        let settings =
            Attributes::observed(&Balancer::observed(entry, "", &[]))?.set(CLASSIC, true);
        let mut graph = ResourceGraph::default().balancer(settings);
        if !head.adopted {
            let of = |action| {
                self.api
                    .send::<Value>(Action::new(CLB, action).set("LoadBalancerId", &head.id))
            };
            let (listeners, targets) = try_join!(
                of("DescribeClassicalLBListeners"),
                of("DescribeClassicalLBTargets")
            )?;
            for object in list(&listeners["Listeners"]) {
                let protocol = text(object, "Protocol").to_ascii_uppercase();
                let number = |key: &str| {
                    u16::try_from(object[key].as_u64().unwrap_or_default()).unwrap_or_default()
                };
                let port = number("ListenerPort");
                let target_port = number(TARGET_PORT);
                let Some(transport) = ["TCP", "UDP"].into_iter().find(|text| *text == protocol)
                else {
                    continue;
                };
                let ids = list(&targets["Targets"])
                    .map(|targets| target(text(targets, "InstanceId"), target_port, WEIGHT));
                let name = pool(transport, port);
                let settings = Attributes::default().set(TARGET_PORT, target_port);
                graph = graph.pool(&name, Attributes::default(), Some(ids.collect()));
                graph = graph.listener(port, transport, &name, settings);
            }
        }
        Ok(ObservedLoadBalancer {
            graph: Some(graph),
            ..head
        })
    }

    /// Fits the desired state to a load balancer of the kind `classic`: all but the targets stays as it is `seen`, and
    /// settings that have no effect are reported.
    ///
    /// # Errors
    /// *Invalid* if the load balancer needs other listeners.
    pub(super) fn fit_classic(
        &self,
        desired: &ResourceGraph,
        seen: &ResourceGraph,
        service: &Service,
        place: &str,
    ) -> Result<ResourceGraph> {
        let place =
            format!("{place} is of the kind classic, of which only the targets can be changed");
        let refused = |what: String| {
            let remedy = "restore the Service, or create it again, which gives it another address";
            Err(Error::invalid(format!("{place}: {what}; {remedy}")))
        };
        let mut fitted = seen.clone();
        for (name, targets) in desired.targets.iter() {
            let Some(port) = target_port(seen, name) else {
                continue;
            };
            let is_other =
                |text: &&str| parts(text).1 != u64::from(port) || !text.starts_with("ins-");
            if let Some(other) = targets.iter().find(is_other) {
                let (id, wanted, _) = parts(other);
                return refused(format!(
                    "{name} leads to port {port} of instances, not to port {wanted} of {id}"
                ));
            }
            let targets = targets
                .iter()
                .map(|other_target| target(parts(other_target).0, port, WEIGHT));
            fitted.targets.insert(name.clone(), targets.collect());
        }
        let Some(wanted) = desired.balancer_attributes() else {
            return Ok(fitted);
        };
        let is_in = |graph: &ResourceGraph, port: &_| {
            graph.listeners().any(|(listener, _)| listener == port)
        };
        if let Some((port, _)) = desired.listeners().find(|(port, _)| !is_in(seen, port)) {
            return refused(format!("it has no listener for port {port}"));
        }
        if let Some((port, _)) = seen.listeners().find(|(port, _)| !is_in(desired, port)) {
            return refused(format!("its listener for port {port} stays"));
        }
        let mut events = PendingEvents::default();
        let observed_settings = seen.balancer_attributes().cloned().unwrap_or_default();
        for difference in wanted.differences(&observed_settings) {
            events.warn(
                "ImmutableSetting",
                format!("{place}: {difference} has no effect"),
            );
        }
        if desired.resources.contains_key(&group_key()) {
            events.warn(
                "SourceRangesIgnored",
                format!("{place}: loadBalancerSourceRanges has no effect"),
            );
        }
        self.deduplicator.record_new(service, "classic", &events);
        Ok(fitted)
    }
}

impl Work<'_> {
    /// Registers new targets, then removes old ones.
    pub(super) async fn update_classic(&self) -> Result<Applied> {
        self.write_tags().await?;
        let before = instances(&self.before);
        let after = instances(&self.after);
        let new: Vec<_> = after
            .difference(&before)
            .map(|id| json!({"InstanceId": id, "Weight": WEIGHT}))
            .collect();
        let gone: Vec<_> = before.difference(&after).collect();
        let mut are_all_there = true;
        for targets in new.chunks(TARGETS) {
            are_all_there &= self
                .register("RegisterTargetsWithClassicalLB", targets)
                .await?;
        }
        for ids in gone.chunks(TARGETS) {
            self.send(
                self.action("DeregisterTargetsFromClassicalLB")
                    .set("InstanceIds", ids),
            )
            .await?;
        }
        let mut outcome = self.change.outcome_of_all().unwrap_or_default();
        outcome.graph = outcome.graph.filter(|_| are_all_there);
        Ok(Applied::all(self.change, outcome))
    }
}
