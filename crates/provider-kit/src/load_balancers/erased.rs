//! A [`LoadBalancerCloud`] without its type parameters: the engine is compiled once for all clouds.

use std::sync::Arc;

use cloud_provider::{Cluster, LoadBalancerRequest, LoadBalancerStatus, Node, Result, Service, async_trait};

use super::backend::{Applied, Backend, Change};
use super::cloud::{Adoption, Desire, Detail, LoadBalancerCloud, Names, Notice, Options, Query, Recovery, Scope};
use super::machines::Machines;
use super::model::{Actual, Part, Tree};
use super::naming::Naming;
use super::ownership::Identity;
use super::targets::{TargetSets, Targets};
use crate::annotations::Parsed;
use crate::operation::Polling;
use crate::paging::Reading;

pub(super) struct Erased<C> {
    pub(super) cloud: C,
    pub(super) machines: Arc<dyn Machines>,
    pub(super) options: Options,
}

impl<C: LoadBalancerCloud> Erased<C> {
    fn parsed(&self, identity: &Identity<'_>) -> Arc<Parsed<C::Spec>> {
        identity.parsed(|service| self.cloud.spec(service))
    }

    async fn desired(&self, request: &LoadBalancerRequest<'_>, spec: &C::Spec, scope: Scope) -> Result<Tree> {
        self.cloud.desired(&Desire { request, spec, scope }).await
    }
}

#[async_trait]
impl<C: LoadBalancerCloud> Backend for Erased<C> {
    fn naming(&self, cluster: &Cluster, service: &Service) -> Naming {
        self.cloud.naming(cluster, service)
    }

    fn names_are_unique(&self) -> bool {
        self.cloud.names() == Names::Unique
    }

    fn adopts(&self, actual: &Actual, identity: &Identity<'_>) -> Adoption {
        self.cloud.adopts(actual, identity)
    }

    fn is_asked_for(&self, actual: &Actual, identity: &Identity<'_>) -> Option<bool> {
        let id = actual.id.split('/').next();
        identity.requested_id.as_deref().map(|requested| Some(requested) == id)
    }

    fn is_shown(&self, actual: &Actual, identity: &Identity<'_>) -> bool {
        let mut addresses = actual.ingress.iter().filter_map(|ingress| ingress.ip.as_ref());
        addresses.any(|address| identity.published_addresses.contains(address))
    }

    fn moved(&self, service: &Service, from: &Actual, to: &Actual) {
        self.cloud.report(Notice::Moved { service, from, to });
    }

    fn outlives(&self, part: &Part) -> bool {
        (self.options.outlives)(part)
    }

    fn targets_follow_labels(&self, service: &Service) -> bool {
        self.cloud.spec(service).targets_follow_labels
    }

    fn targets_follow_addresses(&self) -> bool {
        self.options.targets_follow_addresses
    }

    fn left_out(&self, request: &LoadBalancerRequest<'_>, pool: &str, targets: &Targets) {
        self.cloud.report(Notice::TargetsLeftOut { request, pool, targets });
    }

    async fn wanted(&self, request: &LoadBalancerRequest<'_>, identity: &Identity<'_>) -> Result<Tree> {
        let parsed = self.parsed(identity);
        parsed.check()?;
        self.desired(request, &parsed.spec, Scope::Everything).await
    }

    async fn wanted_targets(&self, request: &LoadBalancerRequest<'_>, identity: &Identity<'_>) -> Result<Tree> {
        let parsed = self.parsed(identity);
        parsed.check_targets()?;
        self.desired(request, &parsed.spec, Scope::Targets).await
    }

    fn fitted(&self, wanted: Tree, actual: &Actual, identity: &Identity<'_>) -> Result<Tree> {
        self.cloud.fit(wanted, actual, identity, &self.parsed(identity).spec)
    }

    async fn list(&self, sets: &TargetSets) -> Result<Reading<Actual>> {
        self.cloud.read(Query::All(sets)).await
    }

    async fn find(&self, identity: &Identity<'_>) -> Result<Vec<Actual>> {
        // What a list lacks that is not whole may exist all the same.
        Ok(self.cloud.read(Query::Owner(identity)).await?.complete()?.into_items())
    }

    async fn read(&self, id: &str) -> Result<Option<Actual>> {
        let ids = [id.to_owned()];
        let read = self.cloud.read(Query::Ids(&ids, Detail::Whole)).await?.complete()?;
        Ok(read.into_items().into_iter().next())
    }

    async fn read_many(&self, ids: &[String]) -> Result<Vec<Actual>> {
        Ok(self.cloud.read(Query::Ids(ids, Detail::State)).await?.complete()?.into_items())
    }

    async fn has_machine(&self, node: &Node) -> Result<bool> {
        self.machines.has(node).await
    }

    async fn apply(&self, change: Change<'_>) -> Result<Applied> {
        self.cloud.apply(change, &self.parsed(change.identity).spec).await
    }

    fn status(&self, actual: &Actual, identity: &Identity<'_>) -> Result<LoadBalancerStatus> {
        Ok(self.cloud.published(actual, identity.service, &self.parsed(identity).spec).status)
    }

    fn annotations(&self, actual: &Actual, identity: &Identity<'_>) -> Vec<(&'static str, Option<String>)> {
        self.cloud.published(actual, identity.service, &self.parsed(identity).spec).annotations
    }

    fn lock(&self, actual: &Actual) -> Option<String> {
        self.cloud.lock(actual)
    }

    fn replaces(&self, actual: &Actual, service: &Service) -> bool {
        self.cloud.recovery(actual, service) == Recovery::Replace
    }

    fn repair_hint(&self, actual: &Actual, service: &Service) -> Option<String> {
        match self.cloud.recovery(actual, service) {
            Recovery::ByHand(hint) => Some(hint),
            Recovery::Never | Recovery::Replace => None,
        }
    }

    fn polling(&self) -> Polling {
        self.options.polling
    }
}
