//! Changes of a load balancer: a request for each operation, and one wait for all tasks.

use std::collections::BTreeMap;

use cloud_provider::{Error, Result, SyncCallbacks};
use provider_kit::key_pair::KeyPair;
use provider_kit::load_balancers::{
    Applied, Attributes, Change, Difference, Machines, ObservedLoadBalancer, Operation, POOL,
    ResourceKey,
};
use provider_kit::signing::sha256_hex;
use provider_kit::transport::Call;
use secrecy::ExposeSecret;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::objects::{
    CERTIFICATE, LABEL_KEEP_ON_DELETE, MANAGED, Member, PRESERVED, Settings, UPLOADED,
    access_list_resource, certificate_resource,
};
use super::spec::Spec;
use super::{ALL, MycloudLoadBalancers, ONE};

const ADD: &str = "/v1/loadbalancers/{id}/groups/{group}/members:batchAdd";
const UPDATE: &str = "/v1/loadbalancers/{id}/groups/{group}/members:batchUpdate";
const REMOVE: &str = "/v1/loadbalancers/{id}/groups/{group}/members:batchRemove";
/// The most members of one request.
const BATCH: usize = 100;

/// The paths of resources of one kind.
struct Collection {
    all: &'static str,
    one: &'static str,
    /// If set, the paths begin with the load balancer; otherwise the body of a new resource names it.
    is_inside: bool,
}

impl Collection {
    fn of(resource: &ResourceKey) -> Self {
        let (all, one, is_inside) = match resource {
            ResourceKey::Pool(_) => (
                "/v1/loadbalancers/{id}/groups",
                "/v1/loadbalancers/{id}/groups/{group}",
                true,
            ),
            ResourceKey::Listener(_) => (
                "/v1/loadbalancers/{id}/listeners",
                "/v1/loadbalancers/{id}/listeners/{listener}",
                true,
            ),
            _ if resource.is_of_kind(CERTIFICATE) => {
                ("/v1/certificates", "/v1/certificates/{id}", false)
            }
            _ => ("/v1/access-lists", "/v1/access-lists/{id}", false),
        };
        Self {
            all,
            one,
            is_inside,
        }
    }
}

/// The change of one load balancer that is under way.
struct ChangeRun<'a> {
    cloud: &'a MycloudLoadBalancers,
    change: Change<'a>,
    spec: &'a Spec,
    actual: &'a ObservedLoadBalancer,
    /// IDs of what was created, by resource.
    ids: BTreeMap<ResourceKey, String>,
    tasks: Vec<String>,
    /// The earliest time at which a draining member can be removed.
    drained_at: Option<Instant>,
}

impl MycloudLoadBalancers {
    pub(super) async fn carry_out(&self, change: Change<'_>, spec: &Spec) -> Result<Applied> {
        let Some(actual) = change.actual else {
            return self.create(change, spec).await;
        };
        if change
            .operations
            .iter()
            .any(|operation| operation.deletes(|resource| *resource == ResourceKey::Balancer))
        {
            return self.remove(actual, change.callbacks).await;
        }
        let ids = BTreeMap::new();
        let tasks = Vec::new();
        let mut session = ChangeRun {
            cloud: self,
            change,
            spec,
            actual,
            ids,
            tasks,
            drained_at: None,
        };
        let is_left = change.operations.contains(&Operation::Untag);
        if is_left {
            // The resources are deleted first. The owner labels are removed last, because the resources are found by
            // means of them.
            for resource in actual
                .graph
                .iter()
                .flat_map(|graph| graph.resources.keys().rev())
                .filter(|resource| **resource != ResourceKey::Balancer)
            {
                session.delete(resource).await?;
            }
        }
        session.settings(is_left).await?;
        for operation in change.operations.iter().filter(|_| !is_left) {
            session.carry_out(operation).await?;
        }
        let tasks = session.tasks;
        let drained_at = session.drained_at;
        self.api.wait_for_tasks(&tasks, change.callbacks).await?;
        if let Some(time) = drained_at {
            let left = time.saturating_duration_since(Instant::now());
            return Err(Error::retry_in(
                format!(
                    "members of {} are drained for {left:?} more",
                    actual.place()
                ),
                left,
            ));
        }
        Ok(match self.by_id(&actual.id).await? {
            _ if is_left => Applied::Protected,
            Some(shown) => Applied::all(change, shown),
            None => Applied::Gone,
        })
    }

    /// Creates the load balancer itself. The rest is planned from what the cloud shows then.
    async fn create(&self, change: Change<'_>, spec: &Spec) -> Result<Applied> {
        let mut body = json!(spec.settings);
        body["name"] = change.identity.name.as_str().into();
        body["labels"] = json!(change.identity.owner_tags().among(spec.labels.clone()));
        // The replacement of a load balancer is another request than its creation.
        let fixed = Settings::FIXED
            .map(|field| body[field].to_string())
            .join(" ");
        let key = format!(
            "{}-{}",
            change.identity.uid(),
            &sha256_hex(fixed.as_bytes())[..16]
        );
        let (task, created) = self
            .api
            .submit(Call::post(ALL, &[]).json(&body), Some(&key))
            .await?;
        self.api.wait_for_tasks(&[task], change.callbacks).await?;
        let shown = self
            .by_id(created["id"].as_str().unwrap_or_default())
            .await?;
        let shown = shown.ok_or_else(|| {
            Error::other("the load balancer that was just created does not exist")
        })?;
        Ok(Applied::PlanAgain(Box::new(shown)))
    }

    /// Deletes the load balancer with everything that belongs to it. The program itself set the protection, and removes
    /// it.
    async fn remove(
        &self,
        actual: &ObservedLoadBalancer,
        callbacks: &dyn SyncCallbacks,
    ) -> Result<Applied> {
        let delete = || {
            self.api.submit_and_wait(
                Call::delete(ONE, &[&actual.id]).query("cascade", true),
                callbacks,
            )
        };
        let outcome = match delete().await {
            Err(error) if error.is_protected() => {
                let body = json!({"delete_protection": false});
                self.api
                    .submit_and_wait(Call::patch(ONE, &[&actual.id]).json(&body), callbacks)
                    .await?;
                delete().await
            }
            outcome => outcome,
        };
        match outcome {
            Err(error) if error.is_not_found() => Ok(Applied::Gone),
            outcome => outcome.map(|()| Applied::Removed),
        }
    }
}

impl ChangeRun<'_> {
    async fn send(&mut self, call: Call) -> Result<Value> {
        let (task, created) = self.cloud.api.submit(call, None).await?;
        self.tasks.push(task);
        Ok(created)
    }

    /// Returns the ID of a resource that exists, or was just created.
    fn id(&self, resource: &ResourceKey) -> Result<String> {
        let seen = || {
            self.actual
                .graph
                .as_ref()?
                .resources
                .get(resource)?
                .text("id")
                .map(str::to_owned)
        };
        let missing = || {
            Error::conflict(format!(
                "{resource} of {} has changed meanwhile",
                self.actual.place()
            ))
        };
        self.ids
            .get(resource)
            .cloned()
            .or_else(seen)
            .ok_or_else(missing)
    }

    /// Writes labels and settings of the load balancer itself.
    async fn settings(&mut self, is_left: bool) -> Result<()> {
        let is_own = |operation: &&Operation| {
            matches!(operation, Operation::Tag | Operation::Untag)
                || operation.updates(|resource| *resource == ResourceKey::Balancer)
        };
        let operations: Vec<_> = self.change.operations.iter().filter(is_own).collect();
        if operations.is_empty() {
            return Ok(());
        }
        let identity = self.change.identity;
        let mut labels = self.actual.labels.clone();
        if is_left {
            labels.retain(|label, _| {
                !self.spec.labels.contains_key(label) && label != LABEL_KEEP_ON_DELETE
            });
        } else {
            let is_preserved = labels
                .get(LABEL_KEEP_ON_DELETE)
                .is_some_and(|value| value == PRESERVED);
            labels.retain(|label, _| label != LABEL_KEEP_ON_DELETE || !is_preserved);
            labels.extend(self.spec.labels.clone());
            labels = identity.owner_tags().among(labels);
            let is_free =
                self.actual.owner_tags.service.is_none() && self.actual.legacy_owner.is_none();
            if self.actual.adopted && !is_preserved || is_free {
                labels.insert(LABEL_KEEP_ON_DELETE.to_owned(), "adopted".to_owned());
            }
        }
        let changes = operations.into_iter().flat_map(Operation::changes);
        let changes = changes
            .filter(|difference| !difference.key.starts_with("label "))
            .map(|difference| (difference.key.clone(), difference.to.clone()));
        let mut body: Map<String, Value> = changes.collect();
        body.insert("labels".to_owned(), json!(labels));
        self.send(Call::patch(ONE, &[&self.actual.id]).json(&body))
            .await
            .map(drop)
    }

    async fn carry_out(&mut self, operation: &Operation) -> Result<()> {
        match operation {
            Operation::Create {
                resource,
                attributes,
            } => self.create(resource, attributes).await,
            Operation::Update {
                resource, changes, ..
            } => self.update(resource, changes).await,
            Operation::Delete { resource } => self.delete(resource).await,
            Operation::AddTargets { pool, .. } => self.add_members(pool).await,
            Operation::RemoveTargets { pool, .. } => self.remove_members(pool).await,
            Operation::Tag | Operation::Untag => Ok(()),
        }
    }

    async fn create(&mut self, resource: &ResourceKey, attributes: &Attributes) -> Result<()> {
        let mut body = attributes.nested();
        let mut hidden = None;
        body["owner"] = self.cloud.api.config.owner().into();
        match resource {
            ResourceKey::Pool(name) => body["name"] = name.as_str().into(),
            ResourceKey::Listener(port) => {
                body["port"] = port.number.into();
                self.resolve(&mut body)?;
            }
            ResourceKey::CreatedBefore(auxiliary) if resource.is_of_kind(CERTIFICATE) => {
                let pair = self.key_pair(&auxiliary.name).await?;
                body["name"] = auxiliary.name.as_str().into();
                body["certificate"] = pair.certificate.into();
                body["private_key"] = pair.key.expose_secret().into();
                hidden = Some(pair.key);
            }
            _ => body["name"] = self.actual.name.as_str().into(),
        }
        let lb = &*self.actual.id;
        let collection = Collection::of(resource);
        if !collection.is_inside {
            body["loadbalancer_id"] = lb.into();
        }
        let call =
            Call::post(collection.all, &[lb][..usize::from(collection.is_inside)]).json(&body);
        let created = self.send(hidden.into_iter().fold(call, Call::hide)).await?;
        self.ids.insert(
            resource.clone(),
            created["id"].as_str().unwrap_or_default().to_owned(),
        );
        Ok(())
    }

    /// Returns the certificate of this name, from the Secret of a listener.
    async fn key_pair(&self, wanted: &str) -> Result<KeyPair> {
        for secret in self
            .spec
            .ports
            .iter()
            .filter_map(|port| port.secret.as_ref())
        {
            let (name, pair) = self
                .cloud
                .upload(self.change.identity.service, secret)
                .await?;
            if name == wanted {
                return Ok(pair);
            }
        }
        Err(Error::conflict(format!(
            "the Secret with certificate {wanted} has changed meanwhile"
        )))
    }

    async fn update(&mut self, resource: &ResourceKey, changes: &[Difference]) -> Result<()> {
        if *resource == ResourceKey::Balancer {
            return Ok(());
        }
        let settings = changes
            .iter()
            .fold(Attributes::default(), |all, difference| {
                all.set(difference.key.clone(), &difference.to)
            });
        let mut body = settings.nested();
        if matches!(resource, ResourceKey::Listener(_)) {
            self.resolve(&mut body)?;
        }
        let call = self.one(resource, Call::patch)?.json(&body);
        self.send(call).await.map(drop)
    }

    async fn delete(&mut self, resource: &ResourceKey) -> Result<()> {
        let call = self.one(resource, Call::delete)?;
        match self.send(call).await {
            Err(error) if error.is_not_found() => Ok(()),
            outcome => outcome.map(drop),
        }
    }

    /// Returns a call to a resource that exists.
    fn one(&self, resource: &ResourceKey, call: fn(&'static str, &[&str]) -> Call) -> Result<Call> {
        let collection = Collection::of(resource);
        let id = self.id(resource)?;
        let ids = [&*self.actual.id, &*id];
        Ok(call(
            collection.one,
            &ids[usize::from(!collection.is_inside)..],
        ))
    }

    /// Replaces names in a listener by the IDs of what they name: the group, the managed access list, uploaded
    /// certificates.
    fn resolve(&self, listener: &mut Value) -> Result<()> {
        let pool = listener
            .as_object_mut()
            .and_then(|listener| listener.remove(POOL));
        if let Some(name) = pool.as_ref().and_then(Value::as_str) {
            listener["group_id"] = self.id(&ResourceKey::Pool(name.to_owned()))?.into();
        }
        if listener["acl"]["id"] == MANAGED {
            listener["acl"]["id"] = self.id(&access_list_resource())?.into();
        }
        for id in listener["certificate_ids"]
            .as_array_mut()
            .into_iter()
            .flatten()
        {
            if let Some(name) = id.as_str().and_then(|id| id.strip_prefix(UPLOADED)) {
                *id = self.id(&certificate_resource(name))?.into();
            }
        }
        Ok(())
    }

    /// Returns the members that the change adds to a group, or removes from it.
    fn members(&self, of: &str, adds: bool) -> Vec<Member> {
        let targets = self
            .change
            .operations
            .iter()
            .filter_map(|operation| match operation {
                Operation::AddTargets { pool, targets } if adds && pool == of => Some(targets),
                Operation::RemoveTargets { pool, targets } if !adds && pool == of => Some(targets),
                _ => None,
            });
        targets
            .flat_map(|targets| targets.iter().filter_map(Member::of).collect::<Vec<_>>())
            .collect()
    }

    /// Adds members. An existing member with another weight gets the new weight.
    async fn add_members(&mut self, pool: &str) -> Result<()> {
        let group = self.id(&ResourceKey::Pool(pool.to_owned()))?;
        let added = self.members(pool, true);
        let removed = self.members(pool, false);
        self.cloud.forget_drains(&group, &added);
        let is_there = |member: &Member| {
            removed
                .iter()
                .any(|other_member| other_member.is_same(member))
        };
        let (known, new): (Vec<_>, Vec<_>) = added.into_iter().partition(is_there);
        self.batch(UPDATE, &group, &known).await?;
        match self.batch(ADD, &group, &new).await {
            Err(refused) if refused.is_invalid() => {
                // An instance that no longer exists is left out, so that the other members are still added.
                let instances = self.cloud.api.ids().await?;
                let exists = |member: &Member| instances.contains(&member.instance_id);
                let existing: Vec<_> = new
                    .iter()
                    .filter(|member| exists(member))
                    .cloned()
                    .collect();
                if existing.len() == new.len() {
                    return Err(refused);
                }
                self.batch(ADD, &group, &existing).await
            }
            outcome => outcome,
        }
    }

    /// Removes members. A member first gets the weight 0, so that it gets no new connections, and is removed after the
    /// drain timeout.
    async fn remove_members(&mut self, pool: &str) -> Result<()> {
        let group = self.id(&ResourceKey::Pool(pool.to_owned()))?;
        let added = self.members(pool, true);
        let mut removed = self.members(pool, false);
        removed.retain(|member| {
            !added
                .iter()
                .any(|other_member| other_member.is_same(member))
        });
        let now = Instant::now();
        let (drained, waiting): (Vec<_>, Vec<_>) = removed.into_iter().partition(|member| {
            let due = self.cloud.drained_at(&group, member, now) + self.spec.drain;
            if due > now {
                self.drained_at = Some(self.drained_at.map_or(due, |other| other.min(due)));
            }
            due <= now
        });
        let weightless = |member: Member| Member {
            weight: 0,
            ..member
        };
        let waiting: Vec<_> = waiting
            .into_iter()
            .filter(|member| member.weight > 0)
            .map(weightless)
            .collect();
        self.batch(UPDATE, &group, &waiting).await?;
        self.batch(REMOVE, &group, &drained).await?;
        self.cloud.forget_drains(&group, &drained);
        Ok(())
    }

    async fn batch(&mut self, action: &'static str, group: &str, members: &[Member]) -> Result<()> {
        for members in members.chunks(BATCH) {
            let call =
                Call::post(action, &[&self.actual.id, group]).json(&json!({"members": members}));
            self.send(call).await?;
        }
        Ok(())
    }
}

impl MycloudLoadBalancers {
    /// Returns the time at which the drain of a member began, which is `now` for a member that is not draining yet.
    fn drained_at(&self, group: &str, member: &Member, now: Instant) -> Instant {
        let mut draining = self.draining.lock();
        let day = std::time::Duration::from_secs(24 * 3600);
        draining.retain(|_, began| now.saturating_duration_since(*began) < day);
        *draining.entry(drain_key(group, member)).or_insert(now)
    }

    /// Forgets the drains of members that were removed or serve again: the next drain starts from the beginning.
    fn forget_drains(&self, group: &str, members: &[Member]) {
        let mut draining = self.draining.lock();
        for member in members {
            draining.remove(&drain_key(group, member));
        }
    }
}

/// Returns the key of a drain: the group, and the member whatever its weight is.
fn drain_key(group: &str, member: &Member) -> (String, String) {
    (
        group.to_owned(),
        Member {
            weight: 0,
            ..member.clone()
        }
        .target(),
    )
}
