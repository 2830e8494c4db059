//! Changes of load balancers: their order, and the tasks that they begin.

use std::collections::BTreeMap;

use cloud_provider::{Error, EventSubject, Result};
use provider_kit::load_balancers::{
    Applied, Attributes, Change, Difference, ObservedLoadBalancer, Operation, Port, ResourceGraph,
    ResourceKey, each_port,
};
use serde_json::{Value, json};

use super::classic::is_classic;
use super::listeners::shown;
use super::model::is_protected;
use super::spec::Spec;
use super::{CREATED_TAG, ID, RANGES_TAG, TencentLoadBalancers, group_key};
use crate::action::{Action, CLB, TAG};
use crate::api::texts;

/// Tags that a request can name.
const TAGS: usize = 10;

/// The change of an existing load balancer, with its state before and after.
pub(super) struct Work<'a> {
    pub(super) cloud: &'a TencentLoadBalancers,
    pub(super) change: Change<'a>,
    pub(super) spec: &'a Spec,
    pub(super) actual: &'a ObservedLoadBalancer,
    pub(super) before: ResourceGraph,
    pub(super) after: ResourceGraph,
}

impl TencentLoadBalancers {
    pub(super) async fn carry_out(&self, change: Change<'_>, spec: &Spec) -> Result<Applied> {
        let Some(actual) = change.actual else {
            return self.create(change, spec).await;
        };
        let before = actual.graph.clone().unwrap_or_default();
        let after = change
            .outcome_of_all()
            .and_then(|load_balancer| load_balancer.graph)
            .unwrap_or_default();
        let work = Work {
            cloud: self,
            change,
            spec,
            actual,
            before,
            after,
        };
        if change
            .operations
            .iter()
            .any(|operation| operation.deletes(|resource| *resource == ResourceKey::Balancer))
        {
            return work.leave().await;
        }
        match change.operations.contains(&Operation::Untag) {
            true => work.release().await,
            false if is_classic(&work.before) => work.update_classic().await,
            false => work.update().await,
        }
    }
}

impl Work<'_> {
    /// Returns an action about the load balancer.
    pub(super) fn action(&self, name: &'static str) -> Action {
        Action::new(CLB, name).set("LoadBalancerId", &self.actual.id)
    }

    /// Sends a change and waits for its task, while others use the worker.
    pub(super) async fn send(&self, action: Action) -> Result<Value> {
        let answer: Value = self.cloud.api.send(action).await?;
        self.change.callbacks.release_permit();
        let outcome = self.cloud.api.wait(&answer).await;
        self.change.callbacks.reacquire_permit().await;
        outcome.map(|_| answer)
    }

    /// Removes the tags without a value, then adds the others: a load balancer of a user is never seen as one that the
    /// program may delete.
    async fn set_tags(&self, tags: BTreeMap<String, Option<String>>) -> Result<()> {
        let region = self.cloud.api.metadata.region().await?;
        let resource = format!("qcs::clb:{region}:uin/:clb/{}", self.actual.id);
        let (new, gone): (Vec<_>, Vec<_>) = tags.iter().partition(|(_, value)| value.is_some());
        let new: Vec<_> = new
            .into_iter()
            .map(|(key, value)| json!({"TagKey": key, "TagValue": value}))
            .collect();
        let gone: Vec<_> = gone
            .into_iter()
            .map(|(key, _)| json!({"TagKey": key}))
            .collect();
        for (field, tags) in [("DeleteTags", gone), ("ReplaceTags", new)] {
            for tags in tags.chunks(TAGS) {
                let action = Action::new(TAG, "ModifyResourceTags")
                    .set("Resource", &resource)
                    .set(field, tags);
                self.cloud.api.send::<Value>(action).await?;
            }
        }
        Ok(())
    }

    /// Writes the owner tags, if they are to be written.
    ///
    /// # Errors
    /// *Conflict* if the load balancer has become one of the user's since it was read: listeners of the user looked like
    /// those of a Service.
    pub(super) async fn write_tags(&self) -> Result<()> {
        let identity = self.change.identity;
        let is_requested = identity.requested_id.as_ref() == Some(&self.actual.id);
        let mut tags = BTreeMap::new();
        if self.change.operations.contains(&Operation::Tag) {
            let owner = self
                .cloud
                .tags(identity, !self.actual.adopted && !is_requested);
            tags.extend(owner.into_iter().map(|(key, value)| (key, Some(value))));
        }
        let is_rescued = is_requested && !self.actual.adopted;
        if is_rescued
            || self
                .change
                .operations
                .iter()
                .flat_map(Operation::changes)
                .any(|difference| difference.key == "IsCreated")
        {
            tags.insert(CREATED_TAG.to_owned(), None);
        }
        self.set_tags(tags).await?;
        match is_rescued {
            true => Err(Error::conflict(format!(
                "load balancer {} has become one of yours",
                self.actual.id
            ))),
            false => Ok(()),
        }
    }

    async fn update(&self) -> Result<Applied> {
        self.write_tags().await?;
        let wants_group = self.after.resources.get(&group_key());
        let had_group = self.before.resources.get(&group_key());
        let managed = match wants_group {
            Some(settings) if had_group != wants_group => Some(self.ensure_group(settings).await?),
            Some(_) => had_group
                .and_then(|settings| settings.text(ID))
                .map(str::to_owned),
            None => None,
        };
        // Security groups are written once, before the first listener.
        let groups = self.wanted_groups(managed.as_deref(), had_group);
        let is_same =
            |all: &[String], others: &[String]| all.iter().all(|text| others.contains(text));
        let has = self.groups();
        if !(is_same(&groups, &has) && is_same(&has, &groups)) {
            self.send(
                self.action("SetLoadBalancerSecurityGroups")
                    .set("SecurityGroups", groups),
            )
            .await?;
        }
        for operation in
            self.change.operations.iter().filter(|operation| {
                operation.updates(|resource| *resource == ResourceKey::Balancer)
            })
        {
            self.update_balancer(operation.changes()).await?;
        }
        let deleted = self.deleted_listeners();
        // A port must be free before it gets another listener.
        let is_replaced = |port: &&Port| {
            self.after
                .listeners()
                .any(|(listener, _)| listener == *port)
        };
        let (first, last): (Vec<_>, Vec<_>) = deleted.iter().partition(is_replaced);
        self.delete_listeners(first.into_iter()).await?;
        let mut ids: BTreeMap<Port, String> = self
            .before
            .listeners()
            .map(|(port, _)| (port.clone(), self.listener_id(port).to_owned()))
            .collect();
        ids.extend(self.create_listeners().await?);
        for operation in self.change.operations {
            if let Operation::Update {
                resource: ResourceKey::Listener(port),
                attributes,
                changes,
            } = operation
            {
                self.update_listener(port, attributes, changes).await?;
            }
        }
        let are_all_there = self.change_targets(&ids, &deleted).await?;
        self.delete_listeners(last.into_iter()).await?;
        if let (None, Some(group)) = (wants_group, had_group) {
            self.delete_group(group).await?;
        }
        let mut outcome = self.change.outcome_of_all().unwrap_or_default();
        if let Some(graph) = &mut outcome.graph {
            for (port, id) in ids {
                let resource = ResourceKey::Listener(port);
                if let Some(settings) = graph.resources.get(&resource).cloned() {
                    graph.resources.insert(resource, settings.set(ID, id));
                }
            }
        }
        // The ID of a new security group, the groups of the load balancer, and the targets without those that were left
        // out are read when they are needed.
        let changes_groups = self
            .change
            .operations
            .iter()
            .flat_map(Operation::changes)
            .any(|difference| difference.key == "SecurityGroups");
        if wants_group != had_group || changes_groups || !are_all_there {
            outcome.graph = None;
        }
        Ok(Applied::all(self.change, outcome))
    }

    /// Returns the IDs of the security groups that the load balancer has.
    fn groups(&self) -> Vec<String> {
        self.before
            .balancer_attributes()
            .and_then(|settings| settings.get("Groups"))
            .map(texts)
            .unwrap_or_default()
    }

    /// Returns the security groups that the load balancer is to have: those of the annotation, or else those that it has,
    /// and the managed one.
    fn wanted_groups(&self, managed: Option<&str>, had: Option<&Attributes>) -> Vec<String> {
        let mut changes = self.change.operations.iter().flat_map(Operation::changes);
        let others = match changes.find(|difference| difference.key == "SecurityGroups") {
            Some(change) => texts(&change.to),
            None => self.groups(),
        };
        let left = had.and_then(|settings| settings.text(ID));
        let is_kept = |id: &String| Some(&**id) != left && Some(&**id) != managed;
        others
            .into_iter()
            .filter(is_kept)
            .chain(managed.map(str::to_owned))
            .collect()
    }

    /// Lets the security group for source ranges admit these ranges, and returns its ID. The tag says that there is one,
    /// before it exists.
    async fn ensure_group(&self, settings: &Attributes) -> Result<String> {
        let ranges = settings.get("Ranges").map(texts).unwrap_or_default();
        self.set_tags([(RANGES_TAG.to_owned(), Some("yes".to_owned()))].into())
            .await?;
        self.cloud.ensure_group(self.change.identity, &ranges).await
    }

    /// Deletes the security group for source ranges, which the load balancer no longer has.
    async fn delete_group(&self, settings: &Attributes) -> Result<()> {
        self.cloud
            .delete_group(settings.text(ID).unwrap_or_default())
            .await?;
        self.set_tags([(RANGES_TAG.to_owned(), None)].into()).await
    }

    async fn update_balancer(&self, changes: &[Difference]) -> Result<()> {
        let mut body = json!({});
        for difference in changes {
            match &*difference.key {
                "InternetMaxBandwidthOut" => {
                    body["InternetChargeInfo"] = json!({"InternetMaxBandwidthOut": difference.to});
                }
                "LoadBalancerPassToTarget" | "DeleteProtect" => {
                    body[&difference.key] = difference.to.clone();
                }
                _ => {}
            }
        }
        if body.as_object().is_some_and(|body| !body.is_empty()) {
            self.send(self.action("ModifyLoadBalancerAttributes").fields(body))
                .await?;
        }
        Ok(())
    }

    /// Checks that the cloud does not refuse the deletion, before the load balancer loses anything.
    async fn check_protection(&self) -> Result<()> {
        let found = self
            .cloud
            .with_ids(std::slice::from_ref(&self.actual.id))
            .await?;
        match found.first().is_some_and(is_protected) {
            true => Err(Error::protected(format!(
                "{} is protected against deletion; end the protection (DeleteProtect)",
                self.actual.place()
            ))),
            false => Ok(()),
        }
    }

    /// Deletes the load balancer. Its security group is deleted first, while the load balancer still names its owner.
    async fn leave(&self) -> Result<Applied> {
        let identity = self.change.identity;
        let of_users = self.cloud.ports.of_users(identity.uid(), &self.before);
        // Ports of this run are known only if the Service was synced in it.
        let ports = each_port(identity.service, &["TCP", "UDP"]).flatten();
        let port_list: Vec<_> = ports
            .map(|port| Port {
                number: port.number,
                protocol: port.protocol.into(),
            })
            .collect();
        let of_users: Vec<_> = of_users
            .into_iter()
            .filter(|port| !port_list.contains(port))
            .collect();
        if self.spec.is_protected {
            self.send(
                self.action("ModifyLoadBalancerAttributes")
                    .set("DeleteProtect", false),
            )
            .await?;
        } else if self.before.resources.contains_key(&group_key()) {
            self.check_protection().await?;
        }
        if !of_users.is_empty() {
            let text = format!(
                "the listener on port {} is deleted with {}",
                shown(&of_users),
                self.actual.place()
            );
            let subject = EventSubject::Service(identity.service);
            self.cloud
                .deduplicator
                .warn(true, subject, "ListenerOfUser", &text);
        }
        if let Some(group) = self.before.resources.get(&group_key()) {
            let ports: Vec<_> = self.before.listeners().map(|(port, _)| port).collect();
            self.delete_listeners(ports.into_iter()).await?;
            let groups = self.wanted_groups(None, Some(group));
            if groups != self.groups() {
                self.send(
                    self.action("SetLoadBalancerSecurityGroups")
                        .set("SecurityGroups", groups),
                )
                .await?;
            }
            self.delete_group(group).await?;
        }
        let action =
            Action::new(CLB, "DeleteLoadBalancer").set("LoadBalancerIds", [&self.actual.id]);
        match self.send(action.set("ForceDelete", true)).await {
            Err(error) if error.is_not_found() => Ok(Applied::Gone),
            outcome => {
                outcome?;
                self.cloud.ports.forget(identity.uid());
                Ok(Applied::Removed)
            }
        }
    }

    /// Removes the listeners of the Service, and the tags, from a load balancer of a user.
    async fn release(&self) -> Result<Applied> {
        let ports: Vec<_> = self.before.listeners().map(|(port, _)| port).collect();
        self.delete_listeners(ports.into_iter()).await?;
        let tags = self.cloud.tags(self.change.identity, true);
        self.set_tags(tags.into_keys().map(|key| (key, None)).collect())
            .await?;
        Ok(Applied::Protected)
    }
}
