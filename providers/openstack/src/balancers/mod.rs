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

use cloud_provider::{About, Cluster, Error, Node, Result, Service, async_trait};
use futures::future::try_join_all;
use provider_kit::annotations::{Annotations, Parsed};
use provider_kit::events::EventWriter;
use provider_kit::load_balancers::{
    Actual, Adoption, Applied, Balancers, Change, Desire, Detail, Identity, LoadBalancerCloud, Machines, Names, Naming,
    Notice, Options, Published, Query, Recovery, Targets, Tree,
};
use provider_kit::paging::Reading;
use provider_kit::transport::Call;
use serde_json::Value;

use self::asked::Asked;
use self::octavia::{BALANCERS, ID, id, text};
use self::project::{Project, polling};
use self::shown::{addresses, asked_for, is_published};
use self::tags::{SIGN, View, balancer_id, legacy_name, sign};
use crate::config;
use crate::id::ServerId;
use crate::ports::Ports;
use crate::services::Services;

/// From so many on, a list is cheaper than one after the other.
const FEW: usize = 4;

/// The load balancers of a project.
struct OctaviaLoadBalancers(Project);

/// Returns the load balancers of a project.
pub(crate) fn balancers(
    services: &Services,
    config: Arc<config::Balancers>,
    ports: Ports,
    events: EventWriter,
) -> Balancers {
    let options = Options {
        polling: polling(config.wait_steps),
        targets_follow_addresses: true,
        outlives: security_group::has_part,
    };
    let cloud = OctaviaLoadBalancers(Project::new(services.clone(), config, ports, events));
    Balancers::of(cloud, Arc::new(NovaServers(services.clone())), options)
}

#[async_trait]
impl LoadBalancerCloud for OctaviaLoadBalancers {
    /// What the Service asks for, or all that is wrong with it.
    type Spec = Result<Asked>;

    fn names(&self) -> Names {
        Names::NotUnique
    }

    fn spec(&self, service: &Service) -> Parsed<Self::Spec> {
        let spec = Asked::of(service, &self.0.config);
        let follows = wanted::follows_labels(&self.0, service);
        Annotations::of(service).parsed(spec).targets_follow_labels(follows)
    }

    fn naming(&self, cluster: &Cluster, service: &Service) -> Naming {
        let sign = sign(cluster, service);
        Naming {
            name: sign.clone(),
            former_names: service.metadata.uid.as_deref().map(legacy_name).into_iter().collect(),
            legacy_owner: Some(sign),
            writes_legacy_owner: true,
            requested_id: asked_for(service).map(str::to_owned),
            published_addresses: addresses(service).into_iter().map(str::to_owned).collect(),
        }
    }

    async fn desired(&self, desire: &Desire<'_, Self::Spec>) -> Result<Tree> {
        let asked = desire.spec.as_ref().map_err(Clone::clone)?;
        wanted::wanted_tree(&self.0, desire.request, asked, desire.scope).await
    }

    fn fit(&self, desired: Tree, observed: &Actual, _: &Identity<'_>, spec: &Self::Spec) -> Result<Tree> {
        fitted::fitted(desired, observed, spec.as_ref().map_err(Clone::clone)?)
    }

    async fn read(&self, query: Query<'_>) -> Result<Reading<Actual>> {
        match query {
            Query::All(sets) => self.0.everything(sets).await,
            Query::Owner(identity) => self.0.of_service(identity).await.map(Reading::of),
            Query::Ids(ids, Detail::Whole) => Ok(Reading::of(
                try_join_all(ids.iter().map(|id| self.whole(id))).await?.into_iter().flatten().collect(),
            )),
            Query::Ids(ids, Detail::State) => self.states(ids).await.map(Reading::of),
        }
    }

    async fn apply(&self, change: Change<'_>, spec: &Self::Spec) -> Result<Applied> {
        apply::carry_out(&self.0, change, spec).await
    }

    /// The one that the Service names; and one that was made for it, when only others use it by now.
    fn adopts(&self, observed: &Actual, identity: &Identity<'_>) -> Adoption {
        let is_asked_for = asked_for(identity.service) == Some(balancer_id(&observed.id));
        let is_free = is_asked_for || (!observed.id.contains('/') && observed.name.starts_with(SIGN));
        if is_free && !identity.is_leaving() { Adoption::Adopted } else { Adoption::Refused }
    }

    fn published(&self, observed: &Actual, service: &Service, _: &Self::Spec) -> Published {
        let status = status::status(observed, service, &self.0.config);
        Published { status, annotations: status::annotations(observed) }
    }

    fn lock(&self, observed: &Actual) -> Option<String> {
        Some(balancer_id(&observed.id).to_owned())
    }

    /// Only one that nobody was ever told of is replaced.
    fn recovery(&self, observed: &Actual, service: &Service) -> Recovery {
        if !observed.id.contains('/') && !is_published(service) {
            return Recovery::Replace;
        }
        Recovery::ByHand(format!("{}; or delete it, and another one is created", apply::repair(observed)))
    }

    fn report(&self, notice: Notice<'_>) {
        let Notice::Moved { service, from, to } = notice else { return };
        let place = |it: &Actual| {
            let address = it.ingress.iter().find_map(|it| it.ip.as_deref()).unwrap_or("no address");
            format!("load balancer {} ({address})", balancer_id(&it.id))
        };
        let text = format!("is reached by {} now; {} is given back", place(to), place(from));
        self.0.notices.warn(true, About::Service(service), "LoadBalancerMoved", &text);
    }
}

impl OctaviaLoadBalancers {
    async fn whole(&self, id: &str) -> Result<Option<Actual>> {
        let Some(balancer) = self.0.balancer(balancer_id(id)).await? else { return Ok(None) };
        let view = View::with_id(&balancer, id);
        self.0.whole(balancer, view, None, false).await
    }

    async fn states(&self, views: &[String]) -> Result<Vec<Actual>> {
        let project = &self.0;
        let mut ids: Vec<&str> = views.iter().map(|id| balancer_id(id)).collect();
        ids.dedup();
        let found: Vec<Value> = match ids.len() {
            0..FEW => try_join_all(ids.iter().map(|id| project.balancer(id))).await?.into_iter().flatten().collect(),
            _ => project.all_of(&BALANCERS, project.services.in_project(BALANCERS.list("")).await?, id).await?,
        };
        let of = |id: &String| found.iter().find(|it| text(it, ID) == balancer_id(id));
        let seen = views.iter().filter_map(|id| of(id).and_then(|it| read::cheap(View::with_id(it, id), it)));
        // An address of its own is not told in short.
        Ok(seen.map(|actual| Actual { ingress: Vec::new(), ..actual }).collect())
    }
}

struct NovaServers(Services);

#[async_trait]
impl Machines for NovaServers {
    async fn has(&self, node: &Node) -> Result<bool> {
        let id = ServerId::read(&node.provider_id)?;
        if self.0.region().is_some_and(|ours| !id.region.is_empty() && id.region != ours) {
            return Err(Error::invalid(format!("{} is in another region", node.provider_id)));
        }
        let found: Option<Value> = self.0.compute.find(Call::get("/servers/{id}", &[id.server])).await?;
        Ok(found.is_some())
    }

    /// Members are addresses, which Octavia takes whether or not a server has them.
    async fn ids(&self) -> Result<Targets> {
        Err(Error::not_implemented())
    }
}
