//! A [`LoadBalancerCloud`] without its type parameters: the engine is compiled once for all clouds.

use std::collections::BTreeMap;
use std::sync::Arc;

use cloud_provider::{
    Cluster, LoadBalancerRequest, Result, Service, ServiceReview, TargetHealth, async_trait,
};

use super::adoption::needed;
use super::change::{Applied, Change};
use super::cloud::{
    Adoption, DesiredStateInput, LoadBalancerCloud, NameUniqueness, Notice, Options, Published,
    Query, Recovery, Replacement, Scope,
};
use super::machines::Machines;
use super::model::{ObservedLoadBalancer, ResourceGraph};
use super::naming::Naming;
use super::ownership::Identity;
use crate::annotations::Parsed;
use crate::paging::ListResult;

/// A [`LoadBalancerCloud`] whose spec is kept in the [`Identity`] of a sync, with its machines and options.
#[async_trait]
pub(super) trait DynLoadBalancerCloud: Send + Sync + 'static {
    fn options(&self) -> &Options;
    fn name_uniqueness(&self) -> NameUniqueness;
    fn naming(&self, cluster: &Cluster, service: &Service) -> Naming;
    fn targets_follow_labels(&self, service: &Service) -> bool;
    fn target_annotations(&self) -> &[String];
    fn review(&self, service: &Service) -> ServiceReview;
    fn adopts(&self, observed: &ObservedLoadBalancer, identity: &Identity<'_>) -> Adoption;
    fn fit(
        &self,
        desired: ResourceGraph,
        observed: &ObservedLoadBalancer,
        identity: &Identity<'_>,
    ) -> Result<ResourceGraph>;
    fn published(&self, observed: &ObservedLoadBalancer, identity: &Identity<'_>) -> Published;
    fn lock(&self, observed: &ObservedLoadBalancer) -> Option<String>;
    fn owner_name(&self, observed: &ObservedLoadBalancer) -> Option<(String, String)>;
    fn replacement(
        &self,
        desired: &ResourceGraph,
        observed: &ObservedLoadBalancer,
        identity: &Identity<'_>,
    ) -> Result<Replacement>;
    fn recovery(&self, observed: &ObservedLoadBalancer, service: &Service) -> Recovery;
    fn report(&self, notice: Notice<'_>);
    async fn desired(
        &self,
        request: &LoadBalancerRequest<'_>,
        identity: &Identity<'_>,
        scope: Scope,
    ) -> Result<ResourceGraph>;
    async fn read(&self, query: Query<'_>) -> Result<ListResult<ObservedLoadBalancer>>;
    async fn check_creation(&self, identity: &Identity<'_>, desired: &ResourceGraph) -> Result<()>;
    async fn apply(&self, change: Change<'_>) -> Result<Applied>;
    fn machines(&self) -> &dyn Machines;
    async fn target_health(
        &self,
        observed: &ObservedLoadBalancer,
    ) -> Result<Option<BTreeMap<String, TargetHealth>>>;
}

pub(super) struct TypedCloud<C> {
    pub(super) cloud: C,
    pub(super) machines: Arc<dyn Machines>,
    pub(super) options: Options,
}

impl<C: LoadBalancerCloud> TypedCloud<C> {
    fn parsed(&self, identity: &Identity<'_>) -> Arc<Parsed<C::Spec>> {
        identity.parsed(|service| self.cloud.spec(service))
    }
}

#[async_trait]
impl<C: LoadBalancerCloud> DynLoadBalancerCloud for TypedCloud<C> {
    fn options(&self) -> &Options {
        &self.options
    }

    fn name_uniqueness(&self) -> NameUniqueness {
        self.cloud.name_uniqueness()
    }

    fn naming(&self, cluster: &Cluster, service: &Service) -> Naming {
        self.cloud.naming(cluster, service)
    }

    fn targets_follow_labels(&self, service: &Service) -> bool {
        self.cloud.spec(service).targets_follow_labels
    }

    fn target_annotations(&self) -> &[String] {
        self.cloud.target_annotations()
    }

    fn review(&self, service: &Service) -> ServiceReview {
        self.cloud.spec(service).review()
    }

    fn adopts(&self, observed: &ObservedLoadBalancer, identity: &Identity<'_>) -> Adoption {
        let adoption = self.cloud.adopts(observed, identity);
        let Some(tag) = self
            .options
            .adoptable_tag
            .as_ref()
            .filter(|_| identity.is_adoption(observed))
        else {
            return adoption;
        };
        match adoption {
            Adoption::Adopt if !tag.is_among(self.cloud.adoption_tags(observed)) => {
                Adoption::RefuseUnless(format!("or {}", needed(tag)))
            }
            adoption => adoption,
        }
    }

    fn fit(
        &self,
        desired: ResourceGraph,
        observed: &ObservedLoadBalancer,
        identity: &Identity<'_>,
    ) -> Result<ResourceGraph> {
        self.cloud
            .fit(desired, observed, identity, &self.parsed(identity).spec)
    }

    fn published(&self, observed: &ObservedLoadBalancer, identity: &Identity<'_>) -> Published {
        self.cloud
            .published(observed, identity.service, &self.parsed(identity).spec)
    }

    fn lock(&self, observed: &ObservedLoadBalancer) -> Option<String> {
        self.cloud.lock(observed)
    }

    fn owner_name(&self, observed: &ObservedLoadBalancer) -> Option<(String, String)> {
        self.cloud.owner_name(observed)
    }

    fn replacement(
        &self,
        desired: &ResourceGraph,
        observed: &ObservedLoadBalancer,
        identity: &Identity<'_>,
    ) -> Result<Replacement> {
        // A load balancer that was not created for the Service is never replaced: nobody else deletes it.
        if identity.is_adoption(observed) {
            return Ok(Replacement::None);
        }
        self.cloud.replacement(
            desired,
            observed,
            identity.service,
            &self.parsed(identity).spec,
        )
    }

    fn recovery(&self, observed: &ObservedLoadBalancer, service: &Service) -> Recovery {
        self.cloud.recovery(observed, service)
    }

    fn report(&self, notice: Notice<'_>) {
        self.cloud.report(notice);
    }

    async fn desired(
        &self,
        request: &LoadBalancerRequest<'_>,
        identity: &Identity<'_>,
        scope: Scope,
    ) -> Result<ResourceGraph> {
        let parsed = self.parsed(identity);
        match scope {
            Scope::Everything => parsed.check()?,
            Scope::Targets => parsed.check_targets()?,
        }
        self.cloud
            .desired(&DesiredStateInput {
                request,
                spec: &parsed.spec,
                scope,
            })
            .await
    }

    async fn read(&self, query: Query<'_>) -> Result<ListResult<ObservedLoadBalancer>> {
        self.cloud.read(query).await
    }

    async fn check_creation(&self, identity: &Identity<'_>, desired: &ResourceGraph) -> Result<()> {
        self.cloud
            .check_creation(identity, &self.parsed(identity).spec, desired)
            .await
    }

    async fn apply(&self, change: Change<'_>) -> Result<Applied> {
        if change.actual.is_none() {
            let desired = change
                .outcome_of_all()
                .and_then(|outcome| outcome.graph)
                .unwrap_or_default();
            self.check_creation(change.identity, &desired).await?;
        }
        self.cloud
            .apply(change, &self.parsed(change.identity).spec)
            .await
    }

    fn machines(&self) -> &dyn Machines {
        &*self.machines
    }

    async fn target_health(
        &self,
        observed: &ObservedLoadBalancer,
    ) -> Result<Option<BTreeMap<String, TargetHealth>>> {
        self.cloud.target_health(observed).await
    }
}
