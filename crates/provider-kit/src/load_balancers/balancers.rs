//! [`LoadBalancers`] for any [`LoadBalancerCloud`].

use std::sync::{Arc, OnceLock};

use cloud_provider::{
    Caches, Cluster, Error, Goal, LoadBalancerDescription, LoadBalancerRequest, LoadBalancerStatus,
    LoadBalancers, OwnedResource, Plan, RemovalOutcome, Result, Service, ServiceReview,
    TargetIdentity, async_trait,
};

use super::cache::{Found, LoadBalancerCache};
use super::cloud::{LoadBalancerCloud, NameUniqueness, Options, Replacement, Scope};
use super::control_read::ControlReads;
use super::dyn_cloud::{DynLoadBalancerCloud, TypedCloud};
use super::left_out::LeftOut;
use super::locks::Locks;
use super::machines::Machines;
use super::model::{ObservedLoadBalancer, Shared};
use super::ownership::{Identity, Others, OwnershipResult, living};
use super::plan::steps;
use super::run::Run;
use super::surplus::{Warned, stays};
use super::sync_goal::{SyncGoal, operations};

/// The load balancers of a cloud: implements `get`, `ensure`, `update_targets`, `delete` and `plan` on top of a
/// [`LoadBalancerCloud`].
pub struct LoadBalancerEngine {
    pub(super) cache: LoadBalancerCache,
    caches: OnceLock<Arc<dyn Caches>>,
    control_reads: ControlReads,
    pub(super) left_out: LeftOut,
    pub(super) locks: Locks,
    /// The warnings that were reported.
    pub(super) warned: Warned,
}

impl LoadBalancerEngine {
    /// Returns the load balancers of a cloud, before anything is read.
    #[must_use]
    pub fn of(
        cloud: impl LoadBalancerCloud,
        machines: Arc<dyn Machines>,
        options: Options,
    ) -> Self {
        Self {
            cache: LoadBalancerCache::new(Box::new(TypedCloud {
                cloud,
                machines,
                options,
            })),
            caches: OnceLock::new(),
            control_reads: ControlReads::default(),
            left_out: LeftOut::default(),
            locks: Locks::default(),
            warned: Warned::default(),
        }
    }

    pub(super) fn cloud(&self) -> &dyn DynLoadBalancerCloud {
        self.cache.cloud()
    }

    /// Sets the caches, which tell which Services exist, so that a load balancer of a deleted Service can be adopted.
    /// Call it from [`CloudProvider::set_caches`](cloud_provider::CloudProvider::set_caches).
    pub fn set_caches(&self, caches: Arc<dyn Caches>) {
        self.caches.get_or_init(|| caches);
    }

    pub(super) fn caches(&self) -> Option<&dyn Caches> {
        self.caches.get().map(|caches| &**caches)
    }

    async fn sync(
        &self,
        request: &LoadBalancerRequest<'_>,
        identity: &Identity<'_>,
        goal: SyncGoal,
    ) -> Result<Option<Shared>> {
        Run {
            balancers: self,
            request,
            identity,
            held: None,
            only: None,
        }
        .sync(goal)
        .await
    }

    pub(super) fn identity<'a>(&self, request: &LoadBalancerRequest<'a>) -> Result<Identity<'a>> {
        let LoadBalancerRequest {
            cluster, service, ..
        } = *request;
        let identity = Identity::new(cluster, service, self.cloud().naming(cluster, service));
        if identity.uid().is_empty() {
            return Err(Error::invalid(
                "a Service without a UID cannot have a load balancer, because no owner tags could be written",
            ));
        }
        Ok(identity)
    }

    pub(super) fn decide_ownership(
        &self,
        found: Found,
        identity: &Identity<'_>,
    ) -> OwnershipResult {
        let cloud = self.cloud();
        let others = Others {
            caches: self.caches(),
            naming: &|service| cloud.naming(identity.cluster, service),
            is_shared: &|actual| cloud.lock(actual).is_some(),
            adopts: &|actual| cloud.adopts(actual, identity),
        };
        OwnershipResult::new(found.actuals, identity, &others)
    }

    /// Returns the Service's load balancers. An empty answer is confirmed by a read by name: a list may lag behind, and
    /// a finalizer may depend on the answer (D-16).
    async fn find_own(&self, identity: &Identity<'_>) -> Result<OwnershipResult> {
        let found = match identity.is_leaving() {
            true => self.cache.look_up_to_remove(identity).await?,
            false => self.cache.look_up(identity).await?,
        };
        let is_certain = found.is_certain;
        let result = self.decide_ownership(found, identity);
        if is_certain || !result.ours.is_empty() {
            return self.confirm_empty(result, identity).await;
        }
        self.read(identity).await
    }

    /// Returns the load balancers that a change starts from.
    pub(super) async fn find_for_change(
        &self,
        identity: &Identity<'_>,
        goal: SyncGoal,
        fresh: bool,
    ) -> Result<OwnershipResult> {
        match goal {
            SyncGoal::Targets if !fresh => self.find_own(identity).await,
            SyncGoal::Ensured if !fresh => self.find_for_ensure(identity).await,
            SyncGoal::Deleted if !fresh => self.find_for_deletion(identity).await,
            _ => self.read(identity).await,
        }
    }

    /// Returns the load balancers to delete, read immediately before the deletion.
    async fn find_for_deletion(&self, identity: &Identity<'_>) -> Result<OwnershipResult> {
        if let Some(found) = self.cache.find_before_deletion(identity).await? {
            let result = self.decide_ownership(found, identity);
            if !result.ours.is_empty() {
                return Ok(result);
            }
        }
        self.read(identity).await
    }

    /// Reads the Service's load balancers from a source that does not lag behind.
    async fn read(&self, identity: &Identity<'_>) -> Result<OwnershipResult> {
        let result = self.decide_ownership(self.cache.find(identity).await?, identity);
        self.confirm_empty(result, identity).await
    }

    /// Accepts an empty answer only after a control read. The load balancers are then read once more, because the first
    /// answer is older than the control read: with a credential that was corrected in between, the first answer would
    /// prove nothing.
    pub(super) async fn confirm_empty(
        &self,
        result: OwnershipResult,
        identity: &Identity<'_>,
    ) -> Result<OwnershipResult> {
        // What this process saw and deleted needs no control read.
        if !result.is_empty() || identity.is_leaving() && self.cache.was_removed(identity.uid()) {
            return Ok(result);
        }
        if self
            .control_reads
            .verify(&self.cache, identity, self.caches.get())
            .await?
        {
            return Ok(self.decide_ownership(self.cache.find(identity).await?, identity));
        }
        Ok(result)
    }

    /// Reads the Service's load balancers again after the cloud confirmed their deletion.
    pub(super) async fn read_again(&self, identity: &Identity<'_>) -> Result<OwnershipResult> {
        Ok(self.decide_ownership(self.cache.find(identity).await?, identity))
    }

    /// Claims a free load balancer for the Service. If two Services of this cluster want to adopt it at the same time,
    /// the first one gets it, unless that Service is deleted.
    pub(super) fn claim(&self, free: &ObservedLoadBalancer, identity: &Identity<'_>) -> Result<()> {
        let lives = |uid: &str| living(uid, self.caches());
        match self.cache.claim(&free.id, identity.uid(), lives) {
            None => Ok(()),
            Some(other) => Err(Error::invalid(format!(
                "{} is being adopted by Service {other} of this cluster; it is left alone. Give one of the two another name for its load balancer",
                free.place()
            ))),
        }
    }

    async fn find_for_ensure(&self, identity: &Identity<'_>) -> Result<OwnershipResult> {
        let names_are_unique = self.cloud().name_uniqueness() == NameUniqueness::Unique;
        if names_are_unique && self.cache.has_never_seen(identity) {
            if self.cache.is_creation_deferred(identity) {
                return Ok(OwnershipResult::default());
            }
            return self
                .confirm_empty(OwnershipResult::default(), identity)
                .await;
        }
        let found = self.cache.look_up(identity).await?;
        let is_certain = found.is_certain;
        let result = self.decide_ownership(found, identity);
        match result.for_changes() {
            Ok(Some(_)) if result.needs_certain_read() && !is_certain => self.read(identity).await,
            Ok(Some(_)) => Ok(result),
            Ok(None) if names_are_unique => self.confirm_empty(result, identity).await,
            _ if is_certain => self.confirm_empty(result, identity).await,
            // A refusal must be certain, and so must a creation where the cloud would accept a second load balancer.
            _ => self.read(identity).await,
        }
    }
}

#[async_trait]
impl LoadBalancers for LoadBalancerEngine {
    fn name(&self, cluster: &Cluster, service: &Service) -> String {
        self.cloud().naming(cluster, service).name
    }

    async fn get(&self, request: LoadBalancerRequest<'_>) -> Result<Option<LoadBalancerStatus>> {
        let identity = self.identity(&request)?;
        let result = self.find_own(&identity).await?;
        Ok(result
            .ours
            .first()
            .map(|actual| self.cloud().published(actual, &identity).status))
    }

    async fn ensure(&self, request: LoadBalancerRequest<'_>) -> Result<Option<LoadBalancerStatus>> {
        let identity = self.identity(&request)?;
        let actual = self.sync(&request, &identity, SyncGoal::Ensured).await?;
        Ok(actual.map(|actual| self.cloud().published(&actual, &identity).status))
    }

    async fn update_targets(&self, request: LoadBalancerRequest<'_>) -> Result<()> {
        self.sync(&request, &self.identity(&request)?, SyncGoal::Targets)
            .await
            .map(drop)
    }

    async fn delete(&self, request: LoadBalancerRequest<'_>) -> Result<()> {
        let identity = self.identity(&request)?;
        self.left_out.forget(identity.uid());
        self.warned.forget(identity.uid());
        self.sync(&request, &identity, SyncGoal::Deleted)
            .await
            .map(drop)
    }

    fn targets_follow_labels(&self, service: &Service) -> bool {
        self.cloud().targets_follow_labels(service)
    }

    fn targets_follow_addresses(&self) -> bool {
        self.cloud().options().targets_follow_addresses
    }

    fn target_identity(&self) -> TargetIdentity {
        self.cloud().options().target_identity
    }

    fn target_annotations(&self) -> &[String] {
        self.cloud().target_annotations()
    }

    fn orphans(&self, cluster: &Cluster, lives: &dyn Fn(&str) -> bool) -> Option<Vec<String>> {
        self.cache.orphans(cluster, lives)
    }

    fn review(&self, service: &Service) -> ServiceReview {
        self.cloud().review(service)
    }

    async fn owned(&self, cluster: &Cluster) -> Result<Vec<OwnedResource>> {
        self.all_owned(cluster).await
    }

    async fn read_owned(
        &self,
        cluster: &Cluster,
        id: &str,
        services: &[Arc<Service>],
    ) -> Result<Option<OwnedResource>> {
        self.read_one_owned(cluster, id, services).await
    }

    async fn delete_owned(
        &self,
        cluster: &Cluster,
        resource: &OwnedResource,
        services: &[Arc<Service>],
    ) -> Result<RemovalOutcome> {
        self.delete_orphan(cluster, resource, services).await
    }

    fn has_plans(&self) -> bool {
        true
    }

    async fn plan(&self, request: LoadBalancerRequest<'_>, goal: Goal) -> Result<Plan> {
        let identity = self.identity(&request)?;
        if goal == Goal::Deleted {
            return removal(&self.find_own(&identity).await?.ours, &identity);
        }
        let wanted = self
            .cloud()
            .desired(&request, &identity, Scope::Everything)
            .await?;
        let result = self.decide_ownership(self.cache.look_up(&identity).await?, &identity);
        let mut result = match result.needs_certain_read() {
            true => self.read(&identity).await?,
            false => self.confirm_empty(result, &identity).await?,
        };
        let replacement = result.replace(self.cloud(), &wanted, &identity)?;
        let is_first = matches!(replacement, Some((_, Replacement::OldFirst(_))));
        let actual = result.for_changes()?.filter(|_| !is_first);
        let name = actual.map_or(&*identity.name, |actual| actual.shown_name());
        if actual.is_none() {
            self.cloud().check_creation(&identity, &wanted).await?;
        }
        let wanted = match actual {
            Some(actual) => self.cloud().fit(wanted, actual, &identity)?,
            None => wanted,
        };
        let mut plan = Plan::default();
        if let Some((old, Replacement::OldFirst(_))) = replacement {
            plan.steps.extend(removal(&[old], &identity)?.steps);
        }
        let changes = operations(
            Some(&wanted),
            actual.map(|actual| &**actual),
            &identity,
            SyncGoal::Ensured,
        )?;
        plan.steps.extend(steps(&changes, name).steps);
        let is_moving_now = result.is_moving_now();
        let (superseded, twins) =
            result.sorted_surplus(self.cloud(), Some(&wanted), &identity, is_moving_now);
        plan.steps.extend(removal(&superseded, &identity)?.steps);
        plan.notes.extend(
            twins
                .iter()
                .zip(actual.into_iter().cycle())
                .map(|(twin, kept)| stays(twin, kept)),
        );
        Ok(plan)
    }

    async fn describe(
        &self,
        request: LoadBalancerRequest<'_>,
    ) -> Result<Vec<LoadBalancerDescription>> {
        self.descriptions(&request).await
    }
}

/// Returns the steps that delete these load balancers.
fn removal(ours: &[Shared], identity: &Identity<'_>) -> Result<Plan> {
    let mut plan = Plan::default();
    for actual in ours {
        plan.steps.extend(
            steps(
                &operations(None, Some(actual), identity, SyncGoal::Deleted)?,
                actual.shown_name(),
            )
            .steps,
        );
    }
    Ok(plan)
}
