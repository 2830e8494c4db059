//! [`LoadBalancers`] for any [`LoadBalancerCloud`].

use std::sync::{Arc, OnceLock};

use cloud_provider::{
    Caches, Cluster, Error, Goal, LoadBalancerDescription, LoadBalancerRequest, LoadBalancerStatus, LoadBalancers,
    OwnedResource, Plan, Removal, Result, Service, ServiceReview, async_trait,
};

use super::aim::{Aim, operations};
use super::cloud::{LoadBalancerCloud, Names, Options, Scope};
use super::control_read::ControlReads;
use super::erased::{AnyCloud, Erased};
use super::known::{Found, Known};
use super::left_out::LeftOut;
use super::locks::Locks;
use super::machines::Machines;
use super::model::{Actual, Shared};
use super::ownership::{Identity, Others, Sorted, living};
use super::plan::steps;
use super::run::Run;

/// The load balancers of a cloud: implements `get`, `ensure`, `update_targets`, `delete` and `plan` on top of a
/// [`LoadBalancerCloud`].
pub struct Balancers {
    pub(super) known: Known,
    caches: OnceLock<Arc<dyn Caches>>,
    control_reads: ControlReads,
    pub(super) left_out: LeftOut,
    pub(super) locks: Locks,
}

impl Balancers {
    /// Returns the load balancers of a cloud, before anything is read.
    #[must_use]
    pub fn of(cloud: impl LoadBalancerCloud, machines: Arc<dyn Machines>, options: Options) -> Self {
        Self {
            known: Known::new(Box::new(Erased { cloud, machines, options })),
            caches: OnceLock::new(),
            control_reads: ControlReads::default(),
            left_out: LeftOut::default(),
            locks: Locks::default(),
        }
    }

    pub(super) fn cloud(&self) -> &dyn AnyCloud {
        self.known.cloud()
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
        aim: Aim,
    ) -> Result<Option<Shared>> {
        Run { balancers: self, request, identity, held: None, only: None }.sync(aim).await
    }

    pub(super) fn identity<'a>(&self, request: &LoadBalancerRequest<'a>) -> Result<Identity<'a>> {
        let LoadBalancerRequest { cluster, service, .. } = *request;
        let identity = Identity::new(cluster, service, self.cloud().naming(cluster, service));
        if identity.uid().is_empty() {
            return Err(Error::invalid(
                "a Service without a UID cannot have a load balancer, because no owner tags could be written",
            ));
        }
        Ok(identity)
    }

    fn sorted(&self, found: Found, identity: &Identity<'_>) -> Sorted {
        let cloud = self.cloud();
        let others = Others {
            caches: self.caches(),
            legacy_owner: &|service| cloud.naming(identity.cluster, service).legacy_owner,
            adopts: &|actual| cloud.adopts(actual, identity),
        };
        Sorted::new(found.actuals, identity, &others)
    }

    /// Returns the Service's load balancers. An empty answer is confirmed by a read by name: a list may lag behind, and
    /// a finalizer may depend on the answer (D-16).
    async fn ours(&self, identity: &Identity<'_>) -> Result<Sorted> {
        let found = match identity.is_leaving() {
            true => self.known.look_up_to_remove(identity).await?,
            false => self.known.look_up(identity).await?,
        };
        let is_certain = found.is_certain;
        let sorted = self.sorted(found, identity);
        if is_certain || !sorted.ours.is_empty() {
            return self.believed(sorted, identity).await;
        }
        self.read(identity).await
    }

    /// Returns the load balancers that a change starts from.
    pub(super) async fn found(&self, identity: &Identity<'_>, aim: Aim, fresh: bool) -> Result<Sorted> {
        match aim {
            Aim::Targets if !fresh => self.ours(identity).await,
            Aim::Ensured if !fresh => self.found_to_ensure(identity).await,
            Aim::Deleted if !fresh => self.found_to_remove(identity).await,
            _ => self.read(identity).await,
        }
    }

    /// Returns the load balancers to delete, read immediately before the deletion.
    async fn found_to_remove(&self, identity: &Identity<'_>) -> Result<Sorted> {
        if let Some(found) = self.known.found_right_before(identity).await? {
            let sorted = self.sorted(found, identity);
            if !sorted.ours.is_empty() {
                return Ok(sorted);
            }
        }
        self.read(identity).await
    }

    /// Reads the Service's load balancers from a source that does not lag behind.
    async fn read(&self, identity: &Identity<'_>) -> Result<Sorted> {
        let sorted = self.sorted(self.known.find(identity).await?, identity);
        self.believed(sorted, identity).await
    }

    /// Accepts an empty answer only after a control read. The load balancers are then read once more, because the first
    /// answer is older than the control read: with a credential that was corrected in between, the first answer would
    /// prove nothing.
    pub(super) async fn believed(&self, sorted: Sorted, identity: &Identity<'_>) -> Result<Sorted> {
        if !sorted.is_empty() {
            return Ok(sorted);
        }
        if self.control_reads.verify(&self.known, identity, self.caches.get()).await? {
            return Ok(self.sorted(self.known.find(identity).await?, identity));
        }
        Ok(sorted)
    }

    /// Claims a free load balancer for the Service. If two Services of this cluster want to adopt it at the same time,
    /// the first one gets it, unless that Service is deleted.
    pub(super) fn claim(&self, free: &Actual, identity: &Identity<'_>) -> Result<()> {
        let lives = |uid: &str| living(uid, self.caches());
        match self.known.claim(&free.id, identity.uid(), lives) {
            None => Ok(()),
            Some(other) => Err(Error::invalid(format!(
                "{} is being adopted by Service {other} of this cluster; it is left alone. Give one of the two another name for its load balancer",
                free.place()
            ))),
        }
    }

    async fn found_to_ensure(&self, identity: &Identity<'_>) -> Result<Sorted> {
        let names_are_unique = self.cloud().names() == Names::Unique;
        if names_are_unique && self.known.has_never_seen(identity) {
            if self.known.is_creation_deferred(identity) {
                return Ok(Sorted::default());
            }
            return self.believed(Sorted::default(), identity).await;
        }
        let found = self.known.look_up(identity).await?;
        let is_certain = found.is_certain;
        let sorted = self.sorted(found, identity);
        match sorted.for_changes() {
            Ok(Some(_)) if sorted.is_vague() && !is_certain => self.read(identity).await,
            Ok(Some(_)) => Ok(sorted),
            Ok(None) if names_are_unique => self.believed(sorted, identity).await,
            _ if is_certain => self.believed(sorted, identity).await,
            // A refusal must be certain, and so must a creation where the cloud would accept a second load balancer.
            _ => self.read(identity).await,
        }
    }
}

#[async_trait]
impl LoadBalancers for Balancers {
    fn name(&self, cluster: &Cluster, service: &Service) -> String {
        self.cloud().naming(cluster, service).name
    }

    async fn get(&self, request: LoadBalancerRequest<'_>) -> Result<Option<LoadBalancerStatus>> {
        let identity = self.identity(&request)?;
        let sorted = self.ours(&identity).await?;
        Ok(sorted.ours.first().map(|actual| self.cloud().published(actual, &identity).status))
    }

    async fn ensure(&self, request: LoadBalancerRequest<'_>) -> Result<Option<LoadBalancerStatus>> {
        let identity = self.identity(&request)?;
        let actual = self.sync(&request, &identity, Aim::Ensured).await?;
        Ok(actual.map(|actual| self.cloud().published(&actual, &identity).status))
    }

    async fn update_targets(&self, request: LoadBalancerRequest<'_>) -> Result<()> {
        self.sync(&request, &self.identity(&request)?, Aim::Targets).await.map(drop)
    }

    async fn delete(&self, request: LoadBalancerRequest<'_>) -> Result<()> {
        let identity = self.identity(&request)?;
        self.left_out.forget(identity.uid());
        self.sync(&request, &identity, Aim::Deleted).await.map(drop)
    }

    fn targets_follow_labels(&self, service: &Service) -> bool {
        self.cloud().targets_follow_labels(service)
    }

    fn targets_follow_addresses(&self) -> bool {
        self.cloud().options().targets_follow_addresses
    }

    fn target_annotations(&self) -> &[String] {
        self.cloud().target_annotations()
    }

    fn orphans(&self, cluster: &Cluster, lives: &dyn Fn(&str) -> bool) -> Option<Vec<String>> {
        self.known.orphans(cluster, lives)
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
    ) -> Result<Removal> {
        self.delete_orphan(cluster, resource, services).await
    }

    fn has_plans(&self) -> bool {
        true
    }

    async fn plan(&self, request: LoadBalancerRequest<'_>, goal: Goal) -> Result<Plan> {
        let identity = self.identity(&request)?;
        if goal == Goal::Deleted {
            return removal(&self.ours(&identity).await?.ours, &identity);
        }
        let wanted = self.cloud().desired(&request, &identity, Scope::Everything).await?;
        let sorted = self.sorted(self.known.look_up(&identity).await?, &identity);
        let sorted = match sorted.is_vague() {
            true => self.read(&identity).await?,
            false => self.believed(sorted, &identity).await?,
        };
        let actual = sorted.for_changes()?;
        let name = actual.map_or(&*identity.name, |actual| actual.shown_name());
        let wanted = match actual {
            Some(actual) => self.cloud().fit(wanted, actual, &identity)?,
            None => wanted,
        };
        let mut plan =
            steps(&operations(Some(&wanted), actual.map(|actual| &**actual), &identity, Aim::Ensured)?, name);
        plan.steps.extend(removal(sorted.surplus(), &identity)?.steps);
        Ok(plan)
    }

    async fn describe(&self, request: LoadBalancerRequest<'_>) -> Result<Vec<LoadBalancerDescription>> {
        self.descriptions(&request).await
    }
}

/// Returns the steps that delete these load balancers.
fn removal(ours: &[Shared], identity: &Identity<'_>) -> Result<Plan> {
    let mut plan = Plan::default();
    for actual in ours {
        plan.steps.extend(steps(&operations(None, Some(actual), identity, Aim::Deleted)?, actual.shown_name()).steps);
    }
    Ok(plan)
}
