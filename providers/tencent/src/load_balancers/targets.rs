//! Targets of listeners, and their changes: `<ID of an instance or address> <port> <weight>`.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use cloud_provider::{AddressType, Error, EventSubject, Node, Result, Service};
use futures::future::try_join_all;
use provider_kit::events::PendingEvents;
use provider_kit::inventory::MachineSource;
use provider_kit::load_balancers::{Port, Targets, without_refused};
use provider_kit::transport::Priority;
use serde_json::{Value, json};

use super::TencentLoadBalancers;
use super::apply::Work;
use super::spec::{Spec, pool};
use crate::api::{list, text};
use crate::endpoints::Endpoints;
use crate::instances::machine_id;

/// Targets that a request can name, in all and of one listener.
const TARGETS: usize = 500;
const TARGETS_OF_A_RULE: usize = 50;

/// Returns the text form of a target: ID or address, port and weight, separated by spaces.
pub(super) fn target(id: &str, port: u16, weight: u32) -> String {
    format!("{id} {port} {weight}")
}

/// Returns a target without its weight.
pub(super) fn server_of(target: &str) -> &str {
    target.rsplit_once(' ').map_or(target, |(server, _)| server)
}

/// Returns ID, port and weight of a target.
pub(super) fn parts(target: &str) -> (&str, u64, u64) {
    let mut all = target.split(' ');
    let id = all.next().unwrap_or_default();
    let mut number = || {
        all.next()
            .and_then(|text| text.parse().ok())
            .unwrap_or_default()
    };
    let port = number();
    (id, port, number())
}

/// Returns a target as the API takes it.
fn server(target: &str, has_weight: bool) -> Value {
    let (id, port, weight) = parts(target);
    let field = if id.starts_with("ins-") {
        "InstanceId"
    } else {
        "EniIp"
    };
    let mut object = json!({field: id, "Port": port});
    if has_weight {
        object["Weight"] = weight.into();
    }
    object
}

impl TencentLoadBalancers {
    /// Returns IDs or addresses of the Nodes that are targets, with weights; `None` if none of the Nodes is known.
    pub(super) fn machines(
        &self,
        spec: &Spec,
        nodes: &[Arc<Node>],
        pods: Option<&Endpoints>,
        events: &mut PendingEvents,
    ) -> Option<Vec<(String, u32)>> {
        let selected = spec.selector.select(nodes);
        let mut found = Vec::new();
        for node in &selected {
            let weight = match pods {
                Some(pods) => match pods.on_node(&node.name) {
                    0 => continue,
                    count if spec.pods.as_ref().is_some_and(|pods| pods.has_weights) => {
                        count.min(100)
                    }
                    _ => spec.weight,
                },
                None => spec.weight,
            };
            let internal = node
                .addresses
                .iter()
                .filter(|address| address.kind == AddressType::InternalIP);
            let ipv6 = internal
                .filter(|address| address.address.parse().is_ok_and(|ip: IpAddr| ip.is_ipv6()));
            let id = match (node.provider_id(), spec.has_ipv6) {
                (None, _) => continue,
                (Some(_), true) => ipv6.map(|address| address.address.to_string()).next().ok_or_else(|| {
                    Error::invalid("the load balancer is reached by IPv6, and the Node has no internal IPv6 address")
                }),
                (Some(id), false) => machine_id(id).map(str::to_owned),
            };
            match id {
                Ok(id) => found.push((id, weight)),
                Err(error) => {
                    events.warn_node(node, "NoTarget", format!("this Node is no target: {error}"));
                }
            }
        }
        let is_known = nodes.is_empty() || nodes.iter().any(|node| node.provider_id().is_some());
        is_known.then_some(found)
    }

    /// Returns the endpoints of a Service whose targets follow its Pods, or `None` if they are not known.
    pub(super) async fn endpoints(
        &self,
        spec: &Spec,
        service: &Service,
    ) -> Result<Option<Endpoints>> {
        match &spec.pods {
            Some(_) => self
                .endpoint_nodes
                .slices(service)
                .await?
                .map(Endpoints::of)
                .transpose(),
            None => Ok(None),
        }
    }
}

impl Work<'_> {
    /// Returns the targets whose instances exist, and those that are addresses.
    async fn existing(&self, targets: &[Value]) -> Result<Vec<Value>> {
        let existing_targets = try_join_all(targets.iter().map(async |target| {
            let exists = match target["InstanceId"].as_str() {
                // An instance of another VPC exists; the cloud says if it can be a target.
                Some(id) => match self.cloud.source.state_by_id(id, Priority::Ordinary).await {
                    Err(error) if error.is_invalid() => true,
                    found => found?.is_some(),
                },
                None => true,
            };
            Ok::<_, Error>(exists.then(|| target.clone()))
        }));
        Ok(existing_targets.await?.into_iter().flatten().collect())
    }

    /// Registers new targets, then removes old ones, then changes weights. Returns `false` if targets were left out,
    /// because their instances no longer exist.
    pub(super) async fn change_targets(
        &self,
        ids: &BTreeMap<Port, String>,
        deleted: &[Port],
    ) -> Result<bool> {
        let (mut new, mut gone, mut weights) = (Vec::new(), Vec::new(), Vec::new());
        let listeners = ids.iter().filter(|(port, _)| {
            self.after
                .listeners()
                .any(|(listener, _)| listener == *port)
        });
        for (port, id) in listeners {
            let name = pool(&port.protocol, port.number);
            // A listener that was created again has no targets.
            let before = if deleted.contains(port) {
                Targets::default()
            } else {
                self.before.targets_of(&name)
            };
            let after = self.after.targets_of(&name);
            let is_in = |target: &str, all: &Targets| {
                all.iter().any(|text| server_of(text) == server_of(target))
            };
            let with_id = |target: &str, has_weight| {
                let mut object = server(target, has_weight);
                object["ListenerId"] = id.as_str().into();
                object
            };
            let (changed, added): (Vec<_>, Vec<_>) = after
                .without(&before)
                .iter()
                .map(str::to_owned)
                .partition(|text| is_in(text, &before));
            new.extend(added.iter().map(|text| with_id(text, true)));
            gone.extend(
                before
                    .without(&after)
                    .iter()
                    .filter(|text| !is_in(text, &after))
                    .map(|text| with_id(text, false)),
            );
            let changed: Vec<_> = changed
                .iter()
                .map(|changed| server(changed, true))
                .collect();
            let rules = changed.chunks(TARGETS_OF_A_RULE);
            weights.extend(rules.map(|targets| json!({"ListenerId": id, "Targets": targets})));
        }
        let mut are_all_there = true;
        for targets in new.chunks(TARGETS) {
            are_all_there &= self.register("BatchRegisterTargets", targets).await?;
        }
        for targets in gone.chunks(TARGETS) {
            self.send_targets("BatchDeregisterTargets", targets).await?;
        }
        for rules in weights.chunks(TARGETS / TARGETS_OF_A_RULE) {
            self.send(
                self.action("BatchModifyTargetWeight")
                    .set("ModifyList", rules),
            )
            .await?;
        }
        Ok(are_all_there)
    }

    /// Registers targets, except for those whose instance no longer exists, and those that the cloud refuses: they must
    /// neither keep the others out nor fail the sync of the Service. Returns `false` if there were such targets.
    pub(super) async fn register(&self, action: &'static str, targets: &[Value]) -> Result<bool> {
        let error = match self.send_targets(action, targets).await {
            Err(error) if error.is_not_found() || error.is_invalid() => error,
            outcome => return outcome.map(|()| true),
        };
        let existing_targets = self.existing(targets).await?;
        let has_others = self.before.targets.iter().any(|(_, all)| !all.is_empty());
        if existing_targets.len() == targets.len() && existing_targets.len() == 1 && !has_others {
            return Err(error);
        }
        // A credential of another account sees no instance, and not the load balancer either.
        self.cloud.check_account().await?;
        if existing_targets.len() < targets.len() {
            tracing::warn!(%error, id = self.actual.id, "targets without an instance are left out");
        }
        let send = async |part: Vec<Value>| self.send_targets(action, &part).await;
        let refused = if existing_targets.is_empty() {
            Vec::new()
        } else {
            without_refused(&existing_targets, has_others, send).await?
        };
        for (target, error) in refused {
            let id = ["InstanceId", "EniIp"]
                .map(|key| text(&target, key))
                .concat();
            let text = format!(
                "{id} is no target of {}, because the cloud refuses it: {error}",
                self.actual.place()
            );
            let subject = EventSubject::Service(self.change.identity.service);
            self.cloud
                .deduplicator
                .warn(true, subject, "TargetRefused", &text);
        }
        Ok(false)
    }

    async fn send_targets(&self, action: &'static str, targets: &[Value]) -> Result<()> {
        let answer = self
            .send(self.action(action).set("Targets", targets))
            .await?;
        match list(&answer["FailListenerIdSet"]).next() {
            Some(listener) => {
                let message = text(&answer, "Message");
                Err(Error::other(format!(
                    "{action} failed for listener {listener}: {message}"
                )))
            }
            None => Ok(()),
        }
    }
}
