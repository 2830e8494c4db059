//! Changes of a load balancer: the order of requests, and the handling of answers.

use std::collections::BTreeMap;

use cloud_provider::{Error, EventSubject, Result, SyncCallbacks};
use jiff::Timestamp;
use provider_kit::load_balancers::{
    Applied, Attributes, Change, Difference, Identity, ObservedLoadBalancer, Operation, OwnerTags,
    Port, ResourceGraph, ResourceKey,
};
use provider_kit::transport::Call;
use serde_json::{Map, Value, json};

use super::adoption::{is_adoption, is_record, record, targets_of_others};
use super::create::create;
use super::desired::TO_BE_MADE;
use super::requests::{Request, requests};
use super::spec::{Certificates, ServiceSpec};
use super::wire::{CERTIFICATE, CERTIFICATES, LEGACY_OWNER_LABEL, NETWORK, POOL};
use super::{HcloudLoadBalancers, ONE};
use crate::annotations as key;

impl HcloudLoadBalancers {
    pub(super) async fn carry_out(
        &self,
        change: Change<'_>,
        spec: &ServiceSpec,
        now: Timestamp,
    ) -> Result<Applied> {
        let removes = |operation: &Operation| {
            operation.deletes(|resource| *resource == ResourceKey::Balancer)
        };
        if let Some(actual) = change
            .actual
            .filter(|_| change.operations.iter().any(removes))
        {
            return self.remove(change, actual).await;
        }
        let Some(actual) = change.actual else {
            return create(self, change, spec, now).await;
        };
        if change.operations.contains(&Operation::Untag) {
            return self.disown(change, actual).await;
        }
        let operations = &self.resolved(change, spec).await?;
        let listeners = operations.iter().filter_map(|operation| match operation {
            Operation::Create {
                resource: ResourceKey::Listener(port),
                attributes,
            } => Some((port, attributes)),
            Operation::Update {
                resource: ResourceKey::Listener(port),
                attributes,
                ..
            } => Some((port, attributes)),
            _ => None,
        });
        check_certificates(listeners)?;
        self.change(
            Change {
                operations,
                ..change
            },
            spec,
            actual,
            now,
        )
        .await
    }

    /// Returns the operations with the ID of the certificate, which is created before a listener names it.
    async fn resolved(&self, change: Change<'_>, spec: &ServiceSpec) -> Result<Vec<Operation>> {
        let mut operations = change.operations.to_vec();
        let uid = change.identity.uid();
        if operations.iter().any(|operation| {
            operation
                .resource()
                .is_some_and(|resource| resource.is_of_kind(CERTIFICATE))
        }) && let Certificates::Managed(wanted) = &spec.certificates
            && self.catalogue.managed(uid).await?.is_none()
        {
            self.catalogue
                .make_managed(wanted, uid, change.callbacks)
                .await?;
        }
        for operation in &mut operations {
            if let Operation::Create { attributes, .. } | Operation::Update { attributes, .. } =
                operation
                && attributes.text(CERTIFICATES) == Some(TO_BE_MADE)
            {
                let made = self.catalogue.managed(uid).await?;
                let made = made.ok_or_else(|| {
                    Error::other("the managed certificate is not there although it was made")
                })?;
                *attributes = std::mem::take(attributes).set(CERTIFICATES, [made.id]);
            }
        }
        Ok(operations)
    }

    /// Carries out operations in order, up to the first that changes more than itself: detaching from a network removes private
    /// targets, and attaching to one assigns an address.
    async fn change(
        &self,
        change: Change<'_>,
        spec: &ServiceSpec,
        actual: &ObservedLoadBalancer,
        now: Timestamp,
    ) -> Result<Applied> {
        let identity = change.identity;
        let callbacks = change.callbacks;
        let before = actual.graph.clone().unwrap_or_default();
        let network = change.operations.iter().position(|operation| {
            operation
                .resource()
                .is_some_and(|resource| resource.is_of_kind(NETWORK))
        });
        let count = network.map_or(change.operations.len(), |at| at + 1);
        let operations = &change.operations[..count];
        if let Some(kind) = operations
            .iter()
            .flat_map(Operation::changes)
            .find(|difference| difference.key == "type")
        {
            self.can_become(kind.to.as_str(), now).await?;
        }
        self.put(identity, actual, operations, callbacks).await?;
        let subnet = network.and(spec.private_subnet);
        let removes_targets = operations
            .iter()
            .any(|operation| matches!(operation, Operation::RemoveTargets { .. }));
        let mut batch = self.api.actions.batch(callbacks);
        for Request {
            call,
            adds,
            is_alone,
        } in requests(&actual.id, &before, operations, subnet)
        {
            if is_alone {
                batch.finish().await?;
            }
            if let Err(err) = batch.start(call, adds).await {
                // The next plan is made from the state after all actions have ended.
                let _ = batch.finish().await;
                return Err(err);
            }
            if is_alone {
                batch.finish().await?;
            }
        }
        batch.finish().await?;
        let refused = std::mem::take(&mut batch.refused);
        let (over_limit, refused): (Vec<_>, Vec<_>) =
            refused.into_iter().partition(|(_, err)| err.is_quota());
        // Either a server does not exist, or the load balancer; the load balancer is read again to find out.
        let (unknown, invalid): (Vec<_>, Vec<_>) =
            refused.into_iter().partition(|(_, err)| err.is_not_found());
        if let Some((_, err)) = invalid.into_iter().next() {
            return Err(err);
        }
        // After a change of the protocol, the API drops settings that do not apply; after a change of the public
        // interface, there may be new addresses.
        let shows_more = |difference: &Difference| {
            difference.key.ends_with("protocol") || difference.key == "public"
        };
        let is_as_planned = unknown.is_empty()
            && over_limit.is_empty()
            && !operations
                .iter()
                .flat_map(Operation::changes)
                .any(shows_more);
        let shown = match change
            .outcome(count)
            .filter(|_| is_as_planned && network.is_none())
        {
            Some(outcome) => {
                let mut labels = outcome.labels.clone();
                if operations.contains(&Operation::Tag) {
                    labels = self::labels(identity, actual);
                    let _ = OwnerTags::take_from(&mut labels);
                }
                settled(ObservedLoadBalancer {
                    adopted: is_adoption(actual, identity),
                    labels,
                    ..outcome
                })
            }
            None => self.read_again(&actual.id).await?,
        };
        if !unknown.is_empty() {
            self.report_unknown(&unknown.iter().map(|(target, _)| target).collect());
        }
        self.drop_certificates(identity, &before, &shown).await?;
        if let Some((_, err)) = over_limit.first() {
            // The kit removes targets first, and then adds the remaining ones again.
            if removes_targets {
                return Err(err.clone());
            }
            self.over_limit(change, spec, &shown, &over_limit).await?;
        }
        let shown = Box::new(shown);
        Ok(if network.is_some() {
            Applied::PlanAgain(shown)
        } else {
            Applied::Shown(count, shown)
        })
    }

    /// Reports targets beyond the API's limit. If the load balancer has as many as its type permits, nothing else is
    /// done; otherwise the limit is a different one, and may be temporary.
    async fn over_limit(
        &self,
        change: Change<'_>,
        spec: &ServiceSpec,
        shown: &ObservedLoadBalancer,
        refused: &[(String, Error)],
    ) -> Result<()> {
        let service = change.identity.service;
        let graph = shown.graph.as_ref();
        let count = graph
            .map(|graph| graph.targets_of(POOL).len())
            .unwrap_or_default();
        if graph
            .and_then(|graph| graph.limits.get(POOL))
            .is_some_and(|most| count >= *most)
        {
            self.report_left_out(
                service,
                &self.nodes(),
                &refused.iter().map(|(target, _)| target).collect(),
            );
            return Ok(());
        }
        let mut outcome = Ok(());
        for (target, err) in refused {
            let text = format!(
                "load balancer {:?} of Service {} with {count} targets accepts no more: {err}; retried later",
                shown.name,
                service.metadata.name.as_deref().unwrap_or_default()
            );
            // Without the text, which names another request each time.
            self.report_limit(
                &self.nodes(),
                &[target].into_iter().collect(),
                change.identity.uid(),
                &text,
            );
            outcome = outcome.and(Err(Error::quota(text)));
        }
        // The existing targets receive traffic meanwhile.
        change.callbacks.publish(&spec.status(shown)).await?;
        outcome
    }

    /// Writes name and labels, in one request without an action.
    async fn put(
        &self,
        identity: &Identity<'_>,
        actual: &ObservedLoadBalancer,
        operations: &[Operation],
        callbacks: &dyn SyncCallbacks,
    ) -> Result<()> {
        let mut body = Map::new();
        if operations.contains(&Operation::Tag) {
            body.insert("labels".to_owned(), json!(labels(identity, actual)));
        }
        let name = operations
            .iter()
            .flat_map(Operation::changes)
            .find(|difference| difference.key == "name");
        body.extend(name.map(|difference| ("name".to_owned(), difference.to.clone())));
        if !body.is_empty() {
            self.api
                .actions
                .send(Call::put(ONE, &[&actual.id]).json(&body), callbacks)
                .await?;
        }
        Ok(())
    }

    /// Deletes certificates that were created for the Service and that its load balancer no longer uses.
    async fn drop_certificates(
        &self,
        identity: &Identity<'_>,
        before: &ResourceGraph,
        after: &ObservedLoadBalancer,
    ) -> Result<()> {
        let mut unused = certificates(before);
        let used = after.graph.as_ref().map(certificates).unwrap_or_default();
        unused.retain(|id| !used.contains(id));
        if unused.is_empty() {
            return Ok(());
        }
        let kept = self
            .catalogue
            .delete_managed(identity.uid(), Some(&unused), &after.id)
            .await?;
        self.deduplicator.record_new(identity.service, "", &kept);
        Ok(())
    }

    /// Deletes the load balancer. Its managed certificates are deleted first, while its listeners are still known, so
    /// that an interrupted deletion finds them again.
    async fn remove(&self, change: Change<'_>, actual: &ObservedLoadBalancer) -> Result<Applied> {
        let identity = change.identity;
        let callbacks = change.callbacks;
        let graph = actual.graph.clone().unwrap_or_default();
        if graph
            .balancer_attributes()
            .is_some_and(|settings| settings.get("protected").is_some())
        {
            return Ok(self.kept(identity, actual));
        }
        if !certificates(&graph).is_empty() || is_managed(identity) {
            let is_secured = |settings: &Attributes| settings.get(CERTIFICATES).is_some();
            let secured = graph
                .listeners()
                .filter(|(_, settings)| is_secured(settings));
            let deletions = secured.map(|(port, _)| Operation::Delete {
                resource: ResourceKey::Listener(port.clone()),
            });
            let mut batch = self.api.actions.batch(callbacks);
            for Request { call, .. } in
                requests(&actual.id, &graph, &deletions.collect::<Vec<_>>(), None)
            {
                batch.start(call, None).await?;
            }
            batch.finish().await?;
            let kept = self
                .catalogue
                .delete_managed(identity.uid(), None, &actual.id)
                .await?;
            self.deduplicator.record_if(true, identity.service, &kept);
        }
        match self
            .api
            .actions
            .send(Call::delete(ONE, &[&actual.id]), callbacks)
            .await
        {
            Ok(_) => Ok(Applied::Removed),
            Err(err) if err.is_not_found() => Ok(Applied::Gone),
            Err(err) if err.is_protected() => Ok(self.kept(identity, actual)),
            Err(err) => Err(err),
        }
    }

    fn kept(&self, identity: &Identity<'_>, actual: &ObservedLoadBalancer) -> Applied {
        let text = format!(
            "load balancer {:?} ({}) is protected and was not deleted; remove the protection, and delete it by hand",
            actual.name, actual.id
        );
        self.deduplicator.warn(
            true,
            EventSubject::Service(identity.service),
            "LoadBalancerProtected",
            &text,
        );
        Applied::Protected
    }

    /// Removes the Service's listeners and targets from a load balancer that was not created for the Service, and then its
    /// owner labels, by which an interrupted removal is found again.
    pub(super) async fn disown(
        &self,
        change: Change<'_>,
        actual: &ObservedLoadBalancer,
    ) -> Result<Applied> {
        let graph = actual.graph.clone().unwrap_or_default();
        let listeners = graph
            .listeners()
            .map(|(port, _)| ResourceKey::Listener(port.clone()));
        let mut operations: Vec<_> = listeners
            .map(|resource| Operation::Delete { resource })
            .collect();
        let targets = graph.targets_of(POOL).without(&targets_of_others(actual));
        if !targets.is_empty() {
            operations.push(Operation::RemoveTargets {
                pool: POOL.to_owned(),
                targets,
            });
        }
        match self
            .take_back(change, &actual.id, &graph, &operations)
            .await
        {
            Err(err) if err.is_not_found() && self.by_id(&actual.id).await?.is_none() => {
                return Ok(Applied::Gone);
            }
            outcome => outcome?,
        }
        let mut labels = actual.labels.clone();
        labels.retain(|key, _| key != LEGACY_OWNER_LABEL && !is_record(key));
        let call = Call::put(ONE, &[&actual.id]).json(&json!({ "labels": labels }));
        match self.api.actions.send(call, change.callbacks).await {
            Err(err) if err.is_not_found() => return Ok(Applied::Gone),
            outcome => drop(outcome?),
        }
        let text = format!(
            "load balancer {:?} ({}) was adopted by its name, not created for this Service, so only its owner \
             labels, and listeners and targets of the Service, were removed; delete it by hand if it is no longer needed",
            actual.name, actual.id
        );
        self.deduplicator.warn(
            true,
            EventSubject::Service(change.identity.service),
            "LoadBalancerNotDeleted",
            &text,
        );
        Ok(Applied::Protected)
    }

    /// Removes listeners and targets from a load balancer, and the managed certificates of the Service.
    async fn take_back(
        &self,
        change: Change<'_>,
        id: &str,
        graph: &ResourceGraph,
        operations: &[Operation],
    ) -> Result<()> {
        let mut batch = self.api.actions.batch(change.callbacks);
        for Request { call, .. } in requests(id, graph, operations, None) {
            batch.start(call, None).await?;
        }
        batch.finish().await?;
        if !certificates(graph).is_empty() || is_managed(change.identity) {
            let kept = self
                .catalogue
                .delete_managed(change.identity.uid(), None, id)
                .await?;
            self.deduplicator
                .record_if(true, change.identity.service, &kept);
        }
        Ok(())
    }

    pub(super) async fn read_again(&self, id: &str) -> Result<ObservedLoadBalancer> {
        Ok(self.actual(
            self.api
                .http
                .read(Call::get(ONE, &[id]).inside("load_balancer"))
                .await?,
        ))
    }

    /// Checks that the API still creates load balancers of this type.
    pub(super) async fn can_become(&self, kind: Option<&str>, now: Timestamp) -> Result<()> {
        let Some(kind) = kind else { return Ok(()) };
        self.balancer_type(kind, |balancer_type| balancer_type.available(now))
            .await?
    }
}

/// Ids of the certificates that listeners name.
fn certificates(graph: &ResourceGraph) -> Vec<u64> {
    let named = graph
        .listeners()
        .filter_map(|(_, settings)| settings.get(CERTIFICATES)?.as_array());
    named.flatten().filter_map(Value::as_u64).collect()
}

fn is_managed(identity: &Identity<'_>) -> bool {
    key::CERTIFICATE_TYPE
        .text_on(identity.service)
        .is_some_and(|text| text.trim().eq_ignore_ascii_case("managed"))
}

/// Checks that `https` listeners have a certificate: the API refuses them without, and its error names no annotation.
pub(super) fn check_certificates<'a>(
    mut listeners: impl Iterator<Item = (&'a Port, &'a Attributes)>,
) -> Result<()> {
    let is_bare = |settings: &Attributes| {
        let certificates = settings.get(CERTIFICATES);
        let has_none = certificates
            .is_none_or(|certificates| certificates.as_array().is_some_and(Vec::is_empty));
        settings.text("protocol") == Some("https") && has_none
    };
    match listeners.find(|(_, settings)| is_bare(settings)) {
        Some((port, _)) => Err(Error::invalid(format!(
            "port {}: {}",
            port.number,
            needs_certificate()
        ))),
        None => Ok(()),
    }
}

/// Returns how a Service with `https` gets a certificate.
pub(super) fn needs_certificate() -> String {
    format!(
        "https needs a certificate: name one in annotation {}, or set {} to managed, and {}",
        key::HTTP_CERTIFICATES.key(),
        key::CERTIFICATE_TYPE.key(),
        key::HTTP_MANAGED_CERTIFICATE_DOMAINS.key()
    )
}

/// A certificate is not part of a load balancer's state once it is created.
fn settled(mut outcome: ObservedLoadBalancer) -> ObservedLoadBalancer {
    if let Some(graph) = &mut outcome.graph {
        graph
            .resources
            .retain(|resource, _| !resource.is_of_kind(CERTIFICATE));
    }
    outcome
}

/// Returns all labels of a load balancer: the legacy owner tag, the owner tags, and labels of other programs.
pub(super) fn labels(
    identity: &Identity<'_>,
    actual: &ObservedLoadBalancer,
) -> BTreeMap<String, String> {
    let mut labels = identity.owner_tags().among(actual.labels.clone());
    labels.insert(LEGACY_OWNER_LABEL.to_owned(), identity.uid().to_owned());
    if !actual.id.is_empty() && !actual.adopted && is_adoption(actual, identity) {
        record(&mut labels, actual);
    }
    // The name of a cluster may be more than a label can hold; the Service's mark is enough.
    labels.retain(|key, value| !key.starts_with("ccm-rs/") || is_label(value));
    labels
}

fn is_label(value: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let ends = [value.bytes().next(), value.bytes().next_back()];
    value.len() <= 63
        && value.bytes().all(is_inner)
        && ends.iter().flatten().all(u8::is_ascii_alphanumeric)
}
