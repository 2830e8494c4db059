//! Load balancers (§3): what a Service wants, how Octavia and Neutron show it, and the requests. The rest is the kit's.

mod apply;
mod asked;
mod create;
mod find;
mod fitted;
mod floating_ip;
mod octavia;
mod places;
mod project;
mod read;
mod rename;
mod requests;
mod second_vip;
mod security_group;
mod sharers;
mod shown;
mod status;
mod tags;
mod wanted;

use std::sync::Arc;

use cloud_provider::{
    About, Cluster, Error, LoadBalancerRequest, LoadBalancerStatus, Node, Result, Service, async_trait,
};
use futures::future::try_join_all;
use provider_kit::events::EventWriter;
use provider_kit::load_balancers::{Actual, Adoption, Applied, Backend, Change, Identity, Part, TargetSets, Tree};
use provider_kit::operation::Polling;
use provider_kit::paging::Reading;
use provider_kit::transport::Call;
use serde_json::Value;

use self::octavia::{BALANCERS, ID, id, text};
use self::project::Project;
use self::shown::{addresses, asked_for, is_published};
use self::tags::{SIGN, View, balancer_id, legacy_name, sign};
use self::wanted::Wanted;
use crate::config;
use crate::id::ServerId;
use crate::ports::Ports;
use crate::services::Services;

/// From so many on, a list is cheaper than one after the other.
const FEW: usize = 4;

/// The load balancers of a project.
pub(crate) struct OctaviaLoadBalancers(Project);

impl OctaviaLoadBalancers {
    pub(crate) fn new(services: Services, config: Arc<config::Balancers>, ports: Ports, events: EventWriter) -> Self {
        Self(Project::new(services, config, ports, events))
    }
}

#[async_trait]
impl Backend for OctaviaLoadBalancers {
    fn name(&self, cluster: &Cluster, service: &Service) -> String {
        sign(cluster, service)
    }

    fn other_names(&self, _cluster: &Cluster, service: &Service) -> Vec<String> {
        service.metadata.uid.as_deref().map(legacy_name).into_iter().collect()
    }

    fn sign(&self, cluster: &Cluster, service: &Service) -> Option<String> {
        Some(sign(cluster, service))
    }

    fn signs(&self) -> bool {
        true
    }

    fn names_are_unique(&self) -> bool {
        false
    }

    /// The one that the Service names; and one that was made for it, when only others use it by now.
    fn adopts(&self, actual: &Actual, identity: &Identity<'_>) -> Adoption {
        let is_asked_for = asked_for(identity.service) == Some(balancer_id(&actual.id));
        let is_free = is_asked_for || (!actual.id.contains('/') && actual.name.starts_with(SIGN));
        if is_free && !identity.is_leaving() { Adoption::Adopted } else { Adoption::Refused }
    }

    fn is_asked_for(&self, actual: &Actual, identity: &Identity<'_>) -> Option<bool> {
        asked_for(identity.service).map(|id| id == balancer_id(&actual.id))
    }

    fn is_shown(&self, actual: &Actual, identity: &Identity<'_>) -> bool {
        let shown = addresses(identity.service);
        actual.ingress.iter().any(|it| it.ip.as_deref().is_some_and(|address| shown.contains(&address)))
    }

    fn moved(&self, service: &Service, from: &Actual, to: &Actual) {
        let place = |it: &Actual| {
            let address = it.ingress.iter().find_map(|it| it.ip.as_deref()).unwrap_or("no address");
            format!("load balancer {} ({address})", balancer_id(&it.id))
        };
        let text = format!("is reached by {} now; {} is given back", place(to), place(from));
        self.0.notices.warn(true, About::Service(service), "LoadBalancerMoved", &text);
    }

    fn outlives(&self, part: &Part) -> bool {
        security_group::has_part(part)
    }

    fn targets_follow_labels(&self, service: &Service) -> bool {
        wanted::follows_labels(&self.0, service)
    }

    fn targets_follow_addresses(&self) -> bool {
        true
    }

    async fn wanted(&self, request: &LoadBalancerRequest<'_>, _identity: &Identity<'_>) -> Result<Tree> {
        wanted::wanted_tree(&self.0, request, Wanted::Whole).await
    }

    async fn wanted_targets(&self, request: &LoadBalancerRequest<'_>, _identity: &Identity<'_>) -> Result<Tree> {
        wanted::wanted_tree(&self.0, request, Wanted::Members).await
    }

    fn fitted(&self, wanted: Tree, actual: &Actual, identity: &Identity<'_>) -> Result<Tree> {
        fitted::fitted(wanted, actual, identity.service, &self.0.config)
    }

    async fn list(&self, sets: &TargetSets) -> Result<Reading<Actual>> {
        self.0.everything(sets).await
    }

    async fn find(&self, identity: &Identity<'_>) -> Result<Vec<Actual>> {
        self.0.of_service(identity).await
    }

    async fn read(&self, id: &str) -> Result<Option<Actual>> {
        let Some(balancer) = self.0.balancer(balancer_id(id)).await? else { return Ok(None) };
        let view = View::with_id(&balancer, id);
        self.0.whole(balancer, view, None, false).await
    }

    async fn read_many(&self, views: &[String]) -> Result<Vec<Actual>> {
        let mut ids: Vec<&str> = views.iter().map(|id| balancer_id(id)).collect();
        ids.dedup();
        let found: Vec<Value> = match ids.len() {
            0..FEW => try_join_all(ids.iter().map(|id| self.0.balancer(id))).await?.into_iter().flatten().collect(),
            _ => self.0.all_of(&BALANCERS, self.0.services.in_project(BALANCERS.list("")).await?, id).await?,
        };
        let of = |id: &String| found.iter().find(|it| text(it, ID) == balancer_id(id));
        let seen = views.iter().filter_map(|id| of(id).and_then(|it| read::cheap(View::with_id(it, id), it)));
        // An address of its own is not told in short.
        Ok(seen.map(|actual| Actual { ingress: Vec::new(), ..actual }).collect())
    }

    async fn has_machine(&self, node: &Node) -> Result<bool> {
        let id = ServerId::read(&node.provider_id)?;
        if self.0.services.region().is_some_and(|ours| !id.region.is_empty() && id.region != ours) {
            return Err(Error::invalid(format!("{} is in another region", node.provider_id)));
        }
        let found: Option<Value> = self.0.services.compute.find(Call::get("/servers/{id}", &[id.server])).await?;
        Ok(found.is_some())
    }

    async fn apply(&self, change: Change<'_>) -> Result<Applied> {
        apply::carry_out(&self.0, change).await
    }

    fn status(&self, actual: &Actual, identity: &Identity<'_>) -> Result<LoadBalancerStatus> {
        Ok(status::status(actual, identity.service, &self.0.config))
    }

    fn annotations(&self, actual: &Actual, _identity: &Identity<'_>) -> Vec<(&'static str, Option<String>)> {
        status::annotations(actual)
    }

    fn lock(&self, actual: &Actual) -> Option<String> {
        Some(balancer_id(&actual.id).to_owned())
    }

    /// Only one that nobody was ever told of.
    fn replaces(&self, actual: &Actual, service: &Service) -> bool {
        !actual.id.contains('/') && !is_published(service)
    }

    fn repair_hint(&self, actual: &Actual) -> Option<String> {
        Some(format!("{}; or delete it, and another one is created", apply::repair(actual)))
    }

    fn polling(&self) -> Polling {
        self.0.polling
    }
}
