//! Changes of a BLB: the requests of each operation.

use std::time::Duration;

use cloud_provider::{Error, EventSubject, Result};
use jiff::Timestamp;
use provider_kit::load_balancers::{
    Applied, Attributes, Change, Machines, ObservedLoadBalancer, Operation, OwnerTags, Port,
    ResourceGraph, ResourceKey, State, Targets, without_refused,
};
use provider_kit::signing::sha256_hex;
use provider_kit::text_tags::ADOPTED;
use provider_kit::transport::Call;
use serde_json::{Map, Value, json};

use super::borrowed::is_in_use;
use super::eip::fixed_eip;
use super::legacy::has_text;
use super::object::{
    Blb, DESCRIPTION, EDITED, EipSettings, FULL_WEIGHT, GENERATED_WORDS, KEPT_EIP, POOL, PROTECTED,
    described, eip_key, public,
};
use super::spec::BlbSpec;
use super::{ALL, BACKENDS, BlbLoadBalancers, ONE, is_fixed, is_lent};
use crate::annotations as key;

/// Time between two attempts while a BLB is busy, and their number.
const PAUSE: Duration = Duration::from_secs(2);
const ATTEMPTS: usize = 30;

/// Returns the request that creates an object. The token makes the request repeatable.
pub(super) fn creation(path: &'static str, uid: &str) -> Call {
    let token = sha256_hex(format!("{path} {uid} {}", Timestamp::now().as_nanosecond()).as_bytes());
    Call::post(path, &[])
        .query("clientToken", &token[..32])
        .repeatable()
}

impl BlbLoadBalancers {
    /// Carries out the first operation, or a whole deletion.
    pub(super) async fn carry_out(&self, change: Change<'_>, spec: &BlbSpec) -> Result<Applied> {
        let Some(actual) = change.actual else {
            return self.create(change, spec).await;
        };
        let is_removal = |operation: &Operation| {
            *operation == Operation::Untag
                || operation.deletes(|resource| *resource == ResourceKey::Balancer)
        };
        if change.operations.iter().any(is_removal) {
            return self.leave(change, actual, spec).await;
        }
        let after = change.outcome(1);
        let is_all = after.is_none();
        let mut outcome = after.unwrap_or_default();
        let id = &*actual.id;
        let call = match &change.operations[0] {
            Operation::Tag => {
                let signed = self.signed(change.identity, actual);
                (outcome.adopted, outcome.labels) = (signed.adopted, signed.labels.clone());
                Some(description(&signed, &change.identity.owner_tags()))
            }
            Operation::AddTargets { targets, .. } => {
                let missing = self.add(change, id, targets).await?;
                let graph = outcome.graph.get_or_insert_default();
                graph
                    .targets
                    .insert(POOL.to_owned(), graph.targets_of(POOL).without(&missing));
                None
            }
            Operation::RemoveTargets { targets, .. } => Some(removal(id, targets)),
            Operation::Update {
                resource: ResourceKey::Pool(pool),
                ..
            } => {
                let targets = outcome
                    .graph
                    .as_ref()
                    .map(|graph| graph.targets_of(pool))
                    .unwrap_or_default();
                Some(
                    Call::put(BACKENDS, &[id])
                        .query("update", "")
                        .json(&backends(&targets)),
                )
            }
            Operation::Update {
                resource: ResourceKey::Balancer,
                attributes,
                changes,
            } => {
                let settings = attributes.clone().matching(|key| key != GENERATED_WORDS);
                match changes
                    .iter()
                    .any(|difference| difference.key == GENERATED_WORDS)
                {
                    true => {
                        let call = description(actual, &change.identity.owner_tags());
                        self.send(change, id, call).await?;
                        changes
                            .iter()
                            .any(|difference| difference.key != GENERATED_WORDS)
                            .then(|| Call::put(ONE, &[id]).json(&settings))
                    }
                    false => Some(Call::put(ONE, &[id]).json(&settings)),
                }
            }
            Operation::Create {
                resource: ResourceKey::Listener(port),
                attributes,
            } => {
                let mut body = attributes
                    .clone()
                    .matching(|key| key != provider_kit::load_balancers::POOL)
                    .nested();
                body["listenerPort"] = port.number.into();
                Some(Call::post(listener(port), &[id]).json(&body))
            }
            Operation::Update {
                resource: ResourceKey::Listener(port),
                changes,
                ..
            } => {
                let body: Map<_, _> = changes
                    .iter()
                    .map(|difference| (difference.key.clone(), difference.to.clone()))
                    .collect();
                Some(
                    Call::put(listener(port), &[id])
                        .query("listenerPort", port.number)
                        .json(&body),
                )
            }
            Operation::Delete {
                resource: ResourceKey::Listener(port),
            } => {
                if actual.adopted {
                    let text = format!(
                        "the listener {port} of {} is deleted: the Service has no such port",
                        actual.place()
                    );
                    let subject = EventSubject::Service(change.identity.service);
                    self.deduplicator
                        .warn(true, subject, "ListenerDeleted", &text);
                }
                Some(listeners_removal(id, [port]))
            }
            Operation::Create { resource, .. } if *resource == eip_key() => {
                self.bind_to(change, spec, &mut outcome).await?;
                None
            }
            Operation::Update {
                resource,
                attributes,
                changes,
            } if *resource == eip_key() => {
                if changes.iter().any(|difference| difference.key == "bound") {
                    self.bind_to(change, spec, &mut outcome).await?;
                }
                let resized = changes
                    .iter()
                    .find(|difference| difference.key == "bandwidthInMbps");
                if let (Some(ip), Some(resized)) = (attributes.text("ip"), resized) {
                    self.resize(ip, &resized.to, change.callbacks).await?;
                }
                None
            }
            Operation::Delete { resource } if *resource == eip_key() => {
                // The EIP that replaces this one must be usable, or else the Service would have none.
                if let Some(ip) = spec
                    .eip
                    .as_ref()
                    .and_then(|eip_spec| eip_spec.fixed_ip.as_ref())
                {
                    fixed_eip(&self.api.eips().await?, ip, id)?;
                }
                self.release_all(change, actual, spec).await?;
                outcome.ingress.retain(|ingress| ingress.ip_mode.is_none());
                None
            }
            _ => None,
        };
        if let Some(call) = call {
            self.send(change, id, call).await?;
        }
        Ok(if is_all {
            Applied::Removed
        } else {
            Applied::Shown(1, Box::new(outcome))
        })
    }

    /// Creates a BLB without listeners; the engine waits until the BLB is available.
    async fn create(&self, change: Change<'_>, spec: &BlbSpec) -> Result<Applied> {
        let identity = change.identity;
        if let Some(id) = &identity.requested_id {
            let annotation = if is_lent(identity.service, id) {
                key::EXIST_ID.key()
            } else {
                key::ID.key()
            };
            return Err(Error::invalid(format!(
                "annotation {annotation}: there is no BLB {id} in this account and region"
            )));
        }
        let subnet = self.place.subnet(spec.subnet.as_deref()).await?;
        let mut body = json!({
            "name": identity.name, "vpcId": self.place.vpc().await?, "subnetId": subnet,
            "desc": described(&identity.owner_tags(), &self.api.config.description()),
        });
        if spec.has_ipv6 {
            body["allocateIpv6"] = true.into();
        }
        let made: Blb = self
            .api
            .blb
            .read(creation(ALL, identity.uid()).json(&body))
            .await?;
        let made = made.observed(&self.api.config.description());
        let balancer = change
            .outcome(1)
            .and_then(|load_balancer| load_balancer.graph)
            .unwrap_or_default();
        let balancer = balancer.balancer_attributes().cloned().unwrap_or_default();
        let graph = ResourceGraph::default().balancer(balancer);
        let state = State::Busy;
        let owner_tags = identity.owner_tags();
        let name = identity.name.clone();
        let adopted = false;
        let made = ObservedLoadBalancer {
            state,
            owner_tags,
            name,
            adopted,
            graph: Some(graph),
            ..made
        };
        Ok(Applied::Shown(1, Box::new(made)))
    }

    /// Sends a change of a BLB. While the BLB is busy with another change, the request is sent again.
    async fn send(&self, change: Change<'_>, id: &str, call: Call) -> Result<()> {
        for _ in 0..ATTEMPTS {
            let Err(error) = self.api.blb.send(call.clone()).await else {
                return Ok(());
            };
            let is_busy = error.is_conflict() || error.is_invalid();
            let status = if is_busy {
                self.api.blb.find::<Blb>(Call::get(ONE, &[id])).await?
            } else {
                None
            };
            if status
                .is_none_or(|blb| blb.observed(&self.api.config.description()).state != State::Busy)
            {
                return Err(error);
            }
            change.callbacks.release_permit();
            tokio::time::sleep(PAUSE).await;
            change.callbacks.reacquire_permit().await;
        }
        Err(Error::other(format!(
            "BLB {id} was busy for a minute; the change is tried again later"
        )))
    }

    /// Adds backends, and returns those whose instances do not exist, and those that the cloud refuses: one of them must
    /// not keep the other Nodes from being served.
    async fn add(&self, change: Change<'_>, id: &str, targets: &Targets) -> Result<Targets> {
        let call = |targets: &Targets| Call::post(BACKENDS, &[id]).json(&backends(targets));
        match self.send(change, id, call(targets)).await {
            Err(error) if error.is_invalid() || error.is_not_found() => {
                let known = Machines::ids(&self.source).await?;
                let mut left_out = targets.without(&known);
                let present = change
                    .outcome(0)
                    .and_then(|load_balancer| load_balancer.graph)
                    .unwrap_or_default()
                    .targets_of(POOL);
                // If no instance is known, the credential may be another account's.
                let is_ours = known
                    .iter()
                    .any(|id| targets.contains(id) || present.contains(id));
                if !is_ours || left_out.is_empty() && targets.len() == 1 && present.is_empty() {
                    return Err(error);
                }
                let subject = EventSubject::Service(change.identity.service);
                if !left_out.is_empty() {
                    let text = format!(
                        "instances are no backends of BLB {id}, because the VPC has none of them: {left_out}"
                    );
                    self.deduplicator
                        .warn(true, subject, "BackendRefused", &text);
                }
                let rest: Vec<String> = targets
                    .without(&left_out)
                    .iter()
                    .map(str::to_owned)
                    .collect();
                if rest.is_empty() {
                    return Ok(left_out);
                }
                let send = async |part: Vec<String>| {
                    self.send(change, id, call(&part.into_iter().collect()))
                        .await
                };
                for (target, error) in without_refused(&rest, !present.is_empty(), send).await? {
                    let text = format!(
                        "instance {target} is no backend of BLB {id}, because the cloud refuses it: {error}"
                    );
                    self.deduplicator
                        .warn(true, subject, "BackendRefused", &text);
                    left_out = left_out.with(&[target].into_iter().collect());
                }
                Ok(left_out)
            }
            outcome => outcome.map(|()| Targets::default()),
        }
    }

    /// Binds the EIP, and shows its address in the outcome.
    async fn bind_to(
        &self,
        change: Change<'_>,
        spec: &BlbSpec,
        outcome: &mut ObservedLoadBalancer,
    ) -> Result<()> {
        let Some(wanted) = &spec.eip else {
            return Ok(());
        };
        let eip = self
            .bind(change.identity, &outcome.id, wanted, change.callbacks)
            .await?;
        outcome.ingress.retain(|ingress| ingress.ip_mode.is_none());
        outcome.ingress.push(public(&eip.eip));
        let is_own = self.is_own(&eip, outcome);
        let shown = Attributes::observed(&EipSettings::observed(&eip, &outcome.id, is_own))?;
        outcome
            .graph
            .get_or_insert_default()
            .resources
            .insert(eip_key(), shown);
        Ok(())
    }

    /// Releases the EIPs of a BLB: the bound one, and those that were created for its Service and are not bound. The EIP
    /// that a user has bound to a BLB of their own stays bound, unless it was bound for the Service. An EIP that
    /// `spec.loadBalancerIP` names is the user's, even if it was created for the Service.
    async fn release_all(
        &self,
        change: Change<'_>,
        actual: &ObservedLoadBalancer,
        spec: &BlbSpec,
    ) -> Result<()> {
        let service = change.identity.service;
        // The owner tags may have been removed with the rest of the description; the tags of the EIP stay.
        let mut owned = self.signed(change.identity, actual);
        if actual.labels.contains_key(EDITED) && actual.owner_tags == OwnerTags::default() {
            owned.owner_tags = change.identity.owner_tags();
        }
        let keeps_eip = owned.adopted
            && owned
                .labels
                .get(DESCRIPTION)
                .is_some_and(|text| has_text(text, KEPT_EIP));
        for eip in self.api.eips().await?.iter() {
            let is_own = self.is_own(eip, &owned) && !is_fixed(service, &eip.eip);
            let named = spec.eip.as_ref();
            let is_named = named.is_some_and(|eip_spec| {
                eip_spec.fixed_ip.as_ref() == Some(&eip.eip)
                    || eip_spec.name.is_some() && eip_spec.name == eip.name
            });
            let is_due = match eip.instance() {
                Some(id) => id == actual.id && (is_own || is_named && !keeps_eip || !owned.adopted),
                None => is_own,
            };
            if is_due {
                self.release(eip, is_own, service, change.callbacks).await?;
            }
        }
        Ok(())
    }

    /// Deletes a BLB. One that was not created for the Service, or that is reserved, loses its listeners, its backends
    /// and its owner tags instead.
    async fn leave(
        &self,
        change: Change<'_>,
        actual: &ObservedLoadBalancer,
        spec: &BlbSpec,
    ) -> Result<Applied> {
        let id = &*actual.id;
        let is_adoption = self.is_adoption(change.identity, actual);
        let is_kept = is_adoption || spec.is_reserved || is_lent(change.identity.service, id);
        if !is_kept && actual.labels.contains_key(PROTECTED) {
            return Err(Error::protected(format!(
                "{} is protected against deletion; end the protection (allowDelete)",
                actual.place()
            )));
        }
        let is_chosen = is_lent(change.identity.service, id)
            || change.identity.requested_id.as_deref() == Some(id);
        if is_kept && !spec.is_reserved && !is_chosen {
            self.report_kept(change.identity.service, &actual.place());
        }
        if is_adoption && !is_in_use(change.identity.service, actual) {
            // A BLB of the user that was refused.
            return Ok(Applied::Protected);
        }
        self.release_all(change, actual, spec).await?;
        if !is_kept {
            return match self.api.blb.send(Call::delete(ONE, &[id])).await {
                Ok(_) => Ok(Applied::Removed),
                Err(error) if error.is_not_found() => Ok(Applied::Gone),
                Err(error) => Err(error),
            };
        }
        let graph = actual.graph.clone().unwrap_or_default();
        let ports = graph.listeners().map(|(port, _)| port).collect::<Vec<_>>();
        let targets = graph.targets_of(POOL);
        let is_tagged = actual.owner_tags != OwnerTags::default();
        let calls = [
            (!ports.is_empty()).then(|| listeners_removal(id, ports)),
            (!targets.is_empty()).then(|| removal(id, &targets)),
            is_tagged.then(|| description(actual, &OwnerTags::default())),
        ];
        for call in calls.into_iter().flatten() {
            self.send(change, id, call).await?;
        }
        self.named.lock().remove(id);
        Ok(Applied::Protected)
    }
}

fn listener(port: &Port) -> &'static str {
    if port.protocol == "UDP" {
        "/v1/blb/{blbId}/UDPlistener"
    } else {
        "/v1/blb/{blbId}/TCPlistener"
    }
}

fn listeners_removal<'a>(id: &str, ports: impl IntoIterator<Item = &'a Port>) -> Call {
    let ports: Vec<_> = ports
        .into_iter()
        .map(|port| json!({"port": port.number, "type": port.protocol}))
        .collect();
    let call = Call::put("/v1/blb/{blbId}/listener", &[id]).query("batchdelete", "");
    call.json(&json!({"portTypeList": ports}))
}

fn removal(id: &str, targets: &Targets) -> Call {
    Call::put(BACKENDS, &[id]).json(&json!({"backendServerList": targets}))
}

fn backends(targets: &Targets) -> Value {
    let list: Vec<_> = targets
        .iter()
        .map(|id| json!({"instanceId": id, "weight": FULL_WEIGHT}))
        .collect();
    json!({"backendServerList": list})
}

/// Returns the request that writes owner tags behind the other text of a description. Without owner tags, the BLB is
/// free again.
fn description(actual: &ObservedLoadBalancer, owner: &OwnerTags) -> Call {
    let is_released = *owner == OwnerTags::default();
    let text = actual.labels.get(DESCRIPTION).map_or("", String::as_str);
    let is_kept = |word: &&str| !(is_released && [ADOPTED, KEPT_EIP].contains(word));
    let words: Vec<_> = text.split(' ').filter(is_kept).collect();
    Call::put(ONE, &[&actual.id])
        .json(&json!({"name": actual.name, "desc": described(owner, &words.join(" "))}))
}
