//! Deletion of a load balancer, with its rules and its network security group.

use std::collections::BTreeSet;
use std::time::Duration;

use cloud_provider::{Error, Result};
use provider_kit::load_balancers::{
    Applied, Change, Identity, ObservedLoadBalancer, Operation, ResourceGraph, State,
};
use provider_kit::transport::Call;
use serde_json::{Value, json};

use super::apply::group_ids;
use super::objects::{Form, PROTECTED};
use super::spec::LoadBalancerSpec;
use super::work::{Work, busy, named};
use super::{LoadBalancers, groups, security};
use crate::annotations::SecurityMode;

/// Pauses between two reads of a load balancer whose group is deleted with it.
const PAUSE: Duration = Duration::from_secs(2);
/// The number of these reads.
const READS: usize = 60;

impl LoadBalancers {
    /// Creates or changes the load balancer's own network security group, or takes it away.
    pub(super) async fn update_group(
        &self,
        change: Change<'_>,
        actual: &ObservedLoadBalancer,
        spec: &LoadBalancerSpec,
    ) -> Result<Applied> {
        let form = Form::of_id(&actual.id);
        let id = &*actual.id;
        let uid = change.identity.uid();
        let outcome = change.outcome(1).unwrap_or_default();
        let kept_group = match &change.operations[0] {
            Operation::Delete { .. } => None,
            _ => {
                let graph = outcome.graph.clone().unwrap_or_default();
                Some(self.ensure_group(change.identity, spec, &graph).await?)
            }
        };
        if kept_group.is_some() && groups::own(actual).is_some() {
            return Ok(Applied::Shown(1, Box::new(outcome)));
        }
        let graph = outcome.graph.clone().unwrap_or_default();
        let ids = group_ids(
            &graph.balancer_attributes().cloned().unwrap_or_default(),
            kept_group.as_deref(),
        )?;
        self.send(
            form,
            id,
            Call::put(form.groups, &[id]).json(&json!({ "networkSecurityGroupIds": ids })),
        )
        .await?;
        let mut labels = outcome.labels.clone();
        match kept_group {
            Some(own_group) => drop(labels.insert(groups::OWN.to_owned(), own_group)),
            None => {
                self.settle(change, form, id).await?;
                if let Some(own_group) = groups::own(actual) {
                    self.groups.delete(own_group, uid).await?;
                }
                labels.remove(groups::OWN);
            }
        }
        Ok(Applied::Shown(
            1,
            Box::new(ObservedLoadBalancer {
                state: State::Busy,
                labels,
                ..outcome
            }),
        ))
    }

    /// Waits until the cloud has finished, where a group can be deleted only afterwards. Returns `false` if the load
    /// balancer no longer exists.
    pub(super) async fn settle(
        &self,
        change: Change<'_>,
        form: &'static Form,
        id: &str,
    ) -> Result<bool> {
        change.callbacks.release_permit();
        let settled = self.settled(form, id).await;
        change.callbacks.reacquire_permit().await;
        settled
    }

    async fn settled(&self, form: &'static Form, id: &str) -> Result<bool> {
        for _ in 0..READS {
            let is_working = matches!(self.work.state(&self.api, form, id).await?, Work::Running);
            let found: Option<Value> = form
                .http(&self.api)
                .find(Call::get(form.one, &[id]))
                .await?;
            match found
                .as_ref()
                .and_then(|object| object["lifecycleState"].as_str())
            {
                None | Some("DELETED") => return Ok(false),
                Some("ACTIVE" | "FAILED") if !is_working => return Ok(true),
                Some(_) => tokio::time::sleep(PAUSE).await,
            }
        }
        Err(busy(id))
    }

    /// Deletes a load balancer: its rules first, because they can no longer be found afterwards. Its group is taken away and
    /// deleted before it, too: a group does not tell which cluster it is of.
    pub(super) async fn remove(
        &self,
        change: Change<'_>,
        actual: &ObservedLoadBalancer,
        spec: &LoadBalancerSpec,
    ) -> Result<Applied> {
        let form = Form::of_id(&actual.id);
        let id = &*actual.id;
        let identity = change.identity;
        if actual.labels.contains_key(PROTECTED) {
            return Ok(Applied::Protected);
        }
        let graph = actual.graph.clone().unwrap_or_default();
        let rules = security::rules(graph.resources.get(&security::resource()));
        // Rules and group belong to the Service: another load balancer of it needs them.
        let is_superseded = self.has_another(identity, id).await?;
        self.lists
            .write(identity.service, is_superseded, &BTreeSet::new(), &rules)
            .await?;
        let removes_group = !is_superseded || spec.mode != SecurityMode::Groups;
        // A load balancer that could not be created may refuse to leave its group.
        let is_failed = matches!(actual.state, State::Failed(_));
        if removes_group && !is_failed {
            self.remove_group(change, form, actual, true).await?;
        }
        match form
            .http(&self.api)
            .send(Call::delete(form.one, &[id]))
            .await
        {
            Err(error) if error.is_not_found() => {
                let shown: Option<Value> = form
                    .http(&self.api)
                    .find(Call::get(form.one, &[id]))
                    .await?;
                return match shown {
                    Some(object) if object["lifecycleState"] != "DELETED" => {
                        Err(Error::unauthorized(format!(
                            "load balancer {id} exists, and may not be deleted: allow the principal to manage load balancers"
                        )))
                    }
                    _ => Ok(Applied::Gone),
                };
            }
            answer => {
                let answer = answer.map_err(|error| self.refused(error, id))?;
                self.work.begin(id, named(&answer), "DELETE");
            }
        }
        if removes_group && is_failed {
            if self.settle(change, form, id).await? {
                return Err(Error::other(format!(
                    "the cloud could not delete load balancer {id}"
                )));
            }
            if let Some(own_group) = self.group_of(change.identity, actual).await? {
                self.groups.delete(&own_group, identity.uid()).await?;
            }
            return Ok(Applied::Removed);
        }
        Ok(Applied::Begun(change.operations.len()))
    }

    /// Returns `true` if the Service stays, and has a load balancer besides this one.
    pub(super) async fn has_another(&self, identity: &Identity<'_>, id: &str) -> Result<bool> {
        if identity.is_leaving() {
            return Ok(false);
        }
        let is_own = |load_balancer: &ObservedLoadBalancer| match &load_balancer.owner_tags.service
        {
            Some(uid) => uid == identity.uid(),
            None => load_balancer.legacy_owner == identity.legacy_owner,
        };
        let is_balancer = |load_balancer: &ObservedLoadBalancer| {
            load_balancer
                .graph
                .as_ref()
                .is_some_and(|graph| graph.balancer_attributes().is_some())
        };
        Ok(self.find(identity).await?.iter().any(|load_balancer| {
            load_balancer.id != id && is_own(load_balancer) && is_balancer(load_balancer)
        }))
    }

    /// Returns the group of a Service's load balancer. A former deletion may have been interrupted after it took the group
    /// away.
    async fn group_of(
        &self,
        identity: &Identity<'_>,
        actual: &ObservedLoadBalancer,
    ) -> Result<Option<String>> {
        match groups::own(actual) {
            Some(own_group) => Ok(Some(own_group.to_owned())),
            None => {
                self.groups
                    .id_of(identity.uid(), &self.compartment(identity.service).await?)
                    .await
            }
        }
    }

    /// Takes the Service's group away from a load balancer, and deletes it if `deletes`.
    pub(super) async fn remove_group(
        &self,
        change: Change<'_>,
        form: &'static Form,
        actual: &ObservedLoadBalancer,
        deletes: bool,
    ) -> Result<()> {
        let id = &*actual.id;
        if groups::own(actual).is_some() {
            let settings = actual
                .graph
                .as_ref()
                .and_then(ResourceGraph::balancer_attributes);
            let ids = settings
                .and_then(|settings| settings.get("networkSecurityGroupIds"))
                .cloned()
                .unwrap_or(json!([]));
            let call =
                Call::put(form.groups, &[id]).json(&json!({ "networkSecurityGroupIds": ids }));
            self.send(form, id, call)
                .await
                .map_err(|error| self.refused(error, id))?;
            self.settle(change, form, id).await?;
        }
        if deletes && let Some(own_group) = self.group_of(change.identity, actual).await? {
            self.groups
                .delete(&own_group, change.identity.uid())
                .await?;
        }
        Ok(())
    }
}
