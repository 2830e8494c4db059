//! Reads of load balancers: all of them, those of a Service, and those that the cloud is creating.

use std::collections::BTreeSet;
use std::sync::Arc;

use cloud_provider::names::FINALIZER_LOAD_BALANCER;
use cloud_provider::{Result, Service};
use futures::future::{join_all, try_join, try_join_all};
use parking_lot::Mutex;
use provider_kit::inventory::SharedPriority;
use provider_kit::load_balancers::{Detail, Identity, ObservedLoadBalancer, OwnerTags, State};
use provider_kit::paging::ListResult;
use provider_kit::status::shown;
use provider_kit::transport::{Call, Priority};
use serde_json::Value;

use super::objects::{Form, LB, NLB, observed};
use super::spec::LoadBalancerSpec;
use super::work::Work;
use super::{LoadBalancers, groups, names, security, service_of};
use crate::annotations::{COMPARTMENT, SecurityMode};

/// The number of load balancers in creation from which one list is read instead of the work request of each.
const LISTED_FROM: usize = 3;

impl LoadBalancers {
    async fn list(
        &self,
        form: &'static Form,
        compartment: &str,
        name: Option<&str>,
        priority: &SharedPriority,
    ) -> Result<ListResult<Value>> {
        let call = Call::get(form.all, &[]).query("compartmentId", compartment);
        let call = name
            .iter()
            .fold(call, |call, name| call.query("displayName", name));
        let all = form
            .http(&self.api)
            .list(
                call,
                form.items,
                priority,
                |http| http,
                |http: &Value| http["id"].to_string(),
            )
            .await?;
        Ok(all.filter(|object| object["lifecycleState"] != "DELETED"))
    }

    /// Takes a list that the policy does not permit for empty, if no Service has a load balancer of this kind: a policy for
    /// the other kind alone is enough.
    async fn unless_unused(
        &self,
        list: impl Future<Output = Result<ListResult<Value>>>,
        form: &'static Form,
    ) -> Result<ListResult<Value>> {
        let error = match list.await {
            Err(error) if error.is_not_found() || error.is_unauthorized() => error,
            list => return list,
        };
        let kind = |service: &Service| LoadBalancerSpec::of(service, &self.config).spec.kind;
        let is_balanced = |service: &Service| {
            service.spec.as_ref().and_then(|spec| spec.type_.as_deref()) == Some("LoadBalancer")
        };
        let mut services = self
            .services()
            .into_iter()
            .filter(|service| is_balanced(service));
        if services.any(|service| Form::of_kind(kind(&service)) == form) {
            return Err(error);
        }
        tracing::warn!(%error, kind = form.name, "load balancers of this kind cannot be listed, and no Service asks for one");
        Ok(ListResult::of(Vec::new()))
    }

    /// Reads all load balancers of the cluster's compartment, and of those that Services name.
    pub(super) async fn all(&self) -> Result<ListResult<ObservedLoadBalancer>> {
        let services = self.services();
        let named = services
            .iter()
            .filter_map(|service| COMPARTMENT.text_on(service).map(str::to_owned));
        let compartments: BTreeSet<_> = named
            .chain([self.api.region.compartment().await?])
            .collect();
        let mut all = ListResult::of(Vec::new());
        for compartment in &compartments {
            let priority = SharedPriority::default();
            let [lbs, nlbs] = [&LB, &NLB].map(|form| self.list(form, compartment, None, &priority));
            let (lbs, nlbs) =
                try_join(self.unless_unused(lbs, &LB), self.unless_unused(nlbs, &NLB)).await?;
            let convert = |form: &'static Form| {
                move |object: Value| [observed(form, &object, &self.config.prefix)]
            };
            all = merge(
                all,
                merge(lbs.flat_map(convert(&LB)), nlbs.flat_map(convert(&NLB))),
            );
        }
        let found = Mutex::new(Vec::new());
        let positions = all.flat_map(|load_balancer| {
            found.lock().push(load_balancer);
            [found.lock().len() - 1]
        });
        let whole = join_all(
            found
                .into_inner()
                .into_iter()
                .map(|load_balancer| self.listed(load_balancer, &services)),
        )
        .await;
        let whole = Mutex::new(whole);
        Ok(positions.flat_map(|at| [std::mem::take(&mut whole.lock()[at])]))
    }

    /// Adds what can be added without a request for each load balancer; others get no graph, and are read by OCID.
    async fn listed(
        &self,
        mut load_balancer: ObservedLoadBalancer,
        services: &[Arc<Service>],
    ) -> ObservedLoadBalancer {
        // Subnets of others may not be readable.
        let is_of_others = load_balancer.owner_tags == OwnerTags::default()
            && service_of(&load_balancer, services).is_none();
        if is_of_others
            || self.work.is_known(&load_balancer.id)
            || load_balancer.state != State::Ready
            || groups::has_any(&load_balancer)
        {
            load_balancer.graph = None;
            return load_balancer;
        }
        self.spare_parts(&mut load_balancer, None);
        if let Err(error) = self.add_rules(&mut load_balancer, services).await {
            tracing::warn!(id = load_balancer.id, %error, "rules of a load balancer cannot be read with the list; it is read by its OCID");
            load_balancer.graph = None;
        }
        load_balancer
    }

    /// Reads load balancers of both kinds that have a name of the Service, and the one that the Service requests.
    pub(super) async fn find(&self, identity: &Identity<'_>) -> Result<Vec<ObservedLoadBalancer>> {
        let urgency = if identity.is_leaving() {
            Priority::Urgent
        } else {
            Priority::Ordinary
        };
        let priority = SharedPriority::of(urgency);
        let compartment = self.compartment(identity.service).await?;
        let names = names(&self.config, identity.service);
        let is_new = is_new(identity.service);
        let read = [(&LB, &names[0]), (&NLB, &names[1])].map(|(form, name)| {
            let priority = &priority;
            let compartment = &compartment;
            async move {
                if is_new && form.name != identity.kind {
                    return Ok(Vec::new());
                }
                let list = self.list(form, compartment, Some(name), priority);
                let found = self
                    .unless_unused(list, form)
                    .await?
                    .complete()?
                    .into_items();
                let found = found
                    .iter()
                    .filter(|object| object["displayName"] == name.as_str());
                try_join_all(found.map(async |object| {
                    let work = self
                        .work
                        .state(&self.api, form, object["id"].as_str().unwrap_or_default())
                        .await?;
                    self.whole(form, object, work, Some(identity.uid())).await
                }))
                .await
            }
        });
        let mut all: Vec<_> = try_join_all(read).await?.into_iter().flatten().collect();
        if let Some(id) = identity
            .requested_id
            .as_ref()
            .filter(|id| !all.iter().any(|load_balancer| load_balancer.id == **id))
        {
            let requested = self.by_id(id, Detail::Whole, Some(identity.uid())).await?;
            all.extend(requested.map(|load_balancer| {
                match load_balancer.owner_tags == OwnerTags::default() {
                    // It has no owner yet, and any name: the Service's own one stands for it.
                    true => ObservedLoadBalancer {
                        cloud_name_and_id: Some((
                            load_balancer.name.clone(),
                            load_balancer.id.clone(),
                        )),
                        name: identity.name.clone(),
                        ..load_balancer
                    },
                    false => load_balancer,
                }
            }));
        }
        let has_group = LoadBalancerSpec::of(identity.service, &self.config)
            .spec
            .mode
            == SecurityMode::Groups;
        if all.is_empty() && (has_group || identity.is_leaving()) {
            match self.groups.leftover(identity, &compartment).await {
                // Without the mode, the policy may not allow to list groups.
                Err(error) if !has_group && (error.is_not_found() || error.is_unauthorized()) => {}
                found => all.extend(found?),
            }
        }
        Ok(all)
    }

    /// Converts a load balancer, with its work request and the rules that it does not show itself.
    async fn whole(
        &self,
        form: &'static Form,
        balancer: &Value,
        work: Work,
        service: Option<&str>,
    ) -> Result<ObservedLoadBalancer> {
        let mut load_balancer = observed(form, balancer, &self.config.prefix);
        self.spare_parts(&mut load_balancer, service);
        match work {
            Work::Running => load_balancer.state = State::Busy,
            Work::Failed(text) => load_balancer.state = State::Failed(text),
            Work::Done => {}
        }
        // A failed load balancer may be deleted, and its rules are found only now.
        if load_balancer.state != State::Busy {
            self.add_rules(&mut load_balancer, &self.services()).await?;
        }
        Ok(load_balancer)
    }

    pub(super) async fn by_id(
        &self,
        id: &str,
        detail: Detail,
        service: Option<&str>,
    ) -> Result<Option<ObservedLoadBalancer>> {
        let form = Form::of_id(id);
        let work = self.work.state(&self.api, form, id).await?;
        if detail == Detail::State && matches!(work, Work::Running) {
            let head = ObservedLoadBalancer {
                id: id.to_owned(),
                kind: form.name,
                ..ObservedLoadBalancer::default()
            };
            return Ok(Some(ObservedLoadBalancer {
                state: State::Busy,
                ..head
            }));
        }
        match form
            .http(&self.api)
            .find::<Value>(Call::get(form.one, &[id]))
            .await?
        {
            Some(object) if object["lifecycleState"] != "DELETED" => {
                self.whole(form, &object, work, service).await.map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Adds the rules of security lists and of the network security group to the graph of a load balancer.
    async fn add_rules(
        &self,
        balancer: &mut ObservedLoadBalancer,
        services: &[Arc<Service>],
    ) -> Result<()> {
        let Some(graph) = balancer.graph.take() else {
            return Ok(());
        };
        let mode = self.mode_of(balancer, services);
        let mut graph = self.groups.observed(graph, balancer).await?;
        if mode.has_lists() {
            let places = self.places(&graph, mode, None).await?;
            let rules = self.lists.observed(&places).await?;
            if !rules.is_empty() {
                graph = graph.resource(security::resource(), security::settings(&rules));
            }
        }
        balancer.graph = Some(graph);
        Ok(())
    }

    /// Reads the load balancers among these that the cloud is creating from one list, if there are several.
    pub(super) async fn polled(&self, ids: &[String]) -> Result<Vec<ObservedLoadBalancer>> {
        let created: Vec<_> = ids.iter().filter(|id| self.work.creates(id)).collect();
        let mut all = Vec::new();
        for form in [&LB, &NLB] {
            let created: Vec<_> = created
                .iter()
                .filter(|id| Form::of_id(id) == form)
                .collect();
            if created.len() < LISTED_FROM {
                continue;
            }
            let compartment = self.api.region.compartment().await?;
            let list = self
                .list(form, &compartment, None, &SharedPriority::default())
                .await?;
            for entry in list
                .items()
                .iter()
                .filter(|object| created.iter().any(|id| object["id"] == id.as_str()))
            {
                // Failures are read by their work requests, which explain them.
                match entry["lifecycleState"].as_str() {
                    Some("CREATING") => all.push(observed(form, entry, &self.config.prefix)),
                    Some("ACTIVE") => {
                        self.work.succeeded(
                            &self.api,
                            form,
                            entry["id"].as_str().unwrap_or_default(),
                        );
                        all.push(self.whole(form, entry, Work::Done, None).await?);
                    }
                    _ => {}
                }
            }
        }
        Ok(all)
    }
}

/// Returns `true` for a Service that never had a load balancer, of whatever kind: the finalizer is written first.
fn is_new(service: &Service) -> bool {
    let finalizers = service.metadata.finalizers.as_deref().unwrap_or_default();
    shown(service).is_empty()
        && !finalizers
            .iter()
            .any(|finalizer| finalizer == FINALIZER_LOAD_BALANCER)
}

/// Joins two lists; a partial one makes the whole partial.
fn merge<T>(a: ListResult<T>, b: ListResult<T>) -> ListResult<T> {
    let pages = a.pages() + b.pages();
    match (a, b) {
        (ListResult::Complete { listing: a, .. }, ListResult::Complete { listing: b, .. }) => {
            ListResult::of(a.into_items().into_iter().chain(b.into_items()).collect())
        }
        (ListResult::Partial { reason, items, .. }, other)
        | (other, ListResult::Partial { reason, items, .. }) => ListResult::Partial {
            items: items.into_iter().chain(other.into_items()).collect(),
            pages,
            reason,
        },
    }
}
