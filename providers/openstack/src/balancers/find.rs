//! Reads load balancers from Octavia, with their floating IPs and security groups from Neutron.

use std::collections::BTreeMap;

use cloud_provider::{Error, EventSubject, Listing, Result, Service};
use futures::future::try_join_all;
use provider_kit::load_balancers::{
    Identity, ObservedLoadBalancer, ResourceGraph, ResourceKey, TargetSets,
};
use provider_kit::paging::ListResult;
use serde_json::Value;

use super::octavia::{
    BALANCERS, ID, Kind, LISTENERS, MEMBERS, MONITORS, Member, Members, POOLS, id, ids, state, text,
};
use super::project::{MEMBERS_AT_ONCE, Project};
use super::published::{had_load_balancer, requested_id};
use super::read::{Pool, Whole, cheap};
use super::security_group::ResourceList;
use super::tags::{Share, balancer_id, cluster_of, legacy_name, owner_tag, service_of};
use super::{floating_ip, security_group};
use crate::annotations as key;

/// Number of pools whose members are read at the same time; fewer if they are large.
const AT_ONCE: usize = 8;
/// Number of load balancers from which their states are read with one list instead of a request for each.
const FEW: usize = 4;

impl Project {
    /// Reads the listeners and pools of a load balancer, without health monitors and members.
    async fn resources(&self, balancer: Value) -> Result<Whole> {
        let of_it = |kind: &Kind| kind.list("").query("loadbalancer_id", text(&balancer, ID));
        let listeners = self.objects(&LISTENERS, of_it(&LISTENERS)).await?;
        let pools = self
            .objects(&POOLS, of_it(&POOLS))
            .await?
            .into_iter()
            .map(Pool::from)
            .collect();
        Ok(Whole {
            balancer,
            listeners,
            pools,
            floating: None,
        })
    }

    /// Reads the listeners and pools of a load balancer, with health monitors.
    pub(super) async fn monitored_resources(&self, balancer: Value) -> Result<Whole> {
        let mut whole = self.resources(balancer).await?;
        let monitors = whole.pools.iter_mut().map(async |Pool { object, .. }| {
            let Some(id) = object.get("healthmonitor_id").and_then(Value::as_str) else {
                return Ok(());
            };
            if let Some(found) = self.services.balancer.find(MONITORS.get(id)).await? {
                object[MONITORS.name] = found;
            }
            Ok::<_, Error>(())
        });
        try_join_all(monitors).await?;
        Ok(whole)
    }

    /// Reads the members of pools; pools that were deleted meanwhile are left out. Most have the same: each set is kept once.
    async fn with_members(&self, mut pools: Vec<Pool>, sets: &TargetSets) -> Result<Vec<Pool>> {
        let (mut all, mut at_once): (Vec<Pool>, _) = (Vec::new(), 1);
        while !pools.is_empty() {
            let some =
                pools
                    .drain(..pools.len().min(at_once))
                    .map(async |Pool { object, .. }| {
                        let members = self.all_of(
                            &MEMBERS,
                            MEMBERS.list(text(&object, ID)),
                            |member: &Member<'_>| member.id.clone(),
                        );
                        match members.await.map(Members::from_iter) {
                            Err(err) if err.is_not_found() => Ok(None),
                            members => {
                                let Members { targets, settings } = members?;
                                let members = Members {
                                    targets: sets.shared(targets),
                                    settings,
                                };
                                Ok::<_, Error>(Some(Pool { object, members }))
                            }
                        }
                    });
            all.extend(try_join_all(some).await?.into_iter().flatten());
            let most = all
                .iter()
                .map(|pool| pool.members.targets.len())
                .max()
                .unwrap_or_default();
            at_once = (MEMBERS_AT_ONCE as usize / most.max(1)).clamp(1, AT_ONCE);
        }
        Ok(all)
    }

    /// Reads all that belongs to a view. For a Service that is deleted, without what goes with the load balancer. `service`:
    /// the view's Service, if it is known.
    async fn whole(
        &self,
        balancer: Value,
        view: Share,
        service: Option<&Service>,
        leaves: bool,
    ) -> Result<Option<ObservedLoadBalancer>> {
        let floating = match text(&balancer, "vip_port_id") {
            "" => None,
            port => floating_ip::of_port(&self.services, port).await?,
        };
        let group = match service
            .map(security_group::name)
            .or_else(|| group_name(&view))
        {
            Some(name) => self.groups.of_service(&name).await?,
            None if view.legacy_owner_tag.is_some() => group_of(&view, &self.groups.all().await?),
            None => Vec::new(),
        };
        let mut whole = if leaves {
            self.resources(balancer).await?
        } else {
            self.monitored_resources(balancer).await?
        };
        if !leaves {
            whole.pools = self
                .with_members(whole.pools, &TargetSets::default())
                .await?;
        }
        Ok(Whole { floating, ..whole }.seen(view, group))
    }

    /// Reads the views with these IDs, with all that belongs to them.
    pub(super) async fn by_ids(&self, ids: &[String]) -> Result<Vec<ObservedLoadBalancer>> {
        let read = ids.iter().map(async |id| {
            let Some(balancer) = self.balancer(balancer_id(id)).await? else {
                return Ok(None);
            };
            let view = Share::with_id(&balancer, id);
            self.whole(balancer, view, None, false).await
        });
        Ok(try_join_all(read).await?.into_iter().flatten().collect())
    }

    /// Reads the states of the views with these IDs.
    pub(super) async fn states(&self, views: &[String]) -> Result<Vec<ObservedLoadBalancer>> {
        let mut ids: Vec<&str> = views.iter().map(|id| balancer_id(id)).collect();
        ids.dedup();
        let found: Vec<Value> = match ids.len() {
            0..FEW => try_join_all(ids.iter().map(|id| self.balancer(id)))
                .await?
                .into_iter()
                .flatten()
                .collect(),
            _ => {
                self.objects(
                    &BALANCERS,
                    self.services.in_project(BALANCERS.list("")).await?,
                )
                .await?
            }
        };
        let of = |id: &String| {
            found
                .iter()
                .find(|object| text(object, ID) == balancer_id(id))
        };
        let seen = views
            .iter()
            .filter_map(|id| of(id).and_then(|object| cheap(Share::with_id(object, id), object)));
        // The floating IP is not read for a state.
        Ok(seen
            .map(|actual| ObservedLoadBalancer {
                ingress: Vec::new(),
                ..actual
            })
            .collect())
    }

    /// Reads all load balancers of Services, with a few lists and the members of each pool.
    pub(super) async fn everything(
        &self,
        sets: &TargetSets,
    ) -> Result<ListResult<ObservedLoadBalancer>> {
        let call = self.services.in_project(BALANCERS.list("")).await?;
        let read = self.services.list(
            &self.services.balancer,
            call,
            BALANCERS.names,
            |balancer: Value| balancer,
            id,
        );
        let read = read
            .await?
            .filter(|object| !Share::all(object).is_empty() && state(object).is_some());
        let pages = read.pages();
        let (balancers, reason) = match read {
            ListResult::Complete { listing, .. } => (listing.into_items(), None),
            ListResult::Partial { items, reason, .. } => (items, Some(reason)),
        };
        let mut seen = Vec::new();
        if !balancers.is_empty() {
            let groups = self.groups.all().await?;
            for whole in self.resources_of(balancers, sets).await? {
                for view in Share::all(&whole.balancer) {
                    let group = group_of(&view, &groups);
                    seen.extend(whole.seen(view, group).map(|actual| actual.sharing(sets)));
                }
            }
        }
        if let Some(reason) = reason {
            return Ok(ListResult::Partial {
                items: seen,
                pages,
                reason,
            });
        }
        let mut listing = Listing::new();
        listing.add_page(seen, false);
        Ok(ListResult::Complete {
            listing: listing.finish()?,
            pages,
        })
    }

    /// Reads the listeners and pools of these load balancers.
    async fn resources_of(&self, balancers: Vec<Value>, sets: &TargetSets) -> Result<Vec<Whole>> {
        let listeners = self.objects(&LISTENERS, LISTENERS.list("")).await?;
        let mut pools = self.objects(&POOLS, POOLS.list("")).await?;
        let monitors = self.objects(&MONITORS, MONITORS.list("")).await?;
        let floating = floating_ip::list(&self.services, None).await?;
        let mut floating: BTreeMap<_, _> = floating
            .into_iter()
            .filter_map(|floating_ip| Some((floating_ip.port.clone()?, floating_ip)))
            .collect();
        let whole = |balancer: Value| {
            let floating = floating.remove(text(&balancer, "vip_port_id"));
            (
                id(&balancer),
                Whole {
                    balancer,
                    floating,
                    ..Whole::default()
                },
            )
        };
        let mut all: BTreeMap<String, Whole> = balancers.into_iter().map(whole).collect();
        let parent = |object: &Value, kind: &Kind| {
            ids(object, kind.names)
                .next()
                .unwrap_or_default()
                .to_owned()
        };
        for listener in listeners {
            all.entry(parent(&listener, &BALANCERS))
                .and_modify(|whole| whole.listeners.push(listener));
        }
        let mut monitors: BTreeMap<_, _> = monitors
            .into_iter()
            .map(|monitor| (parent(&monitor, &POOLS), monitor))
            .collect();
        pools.retain(|pool| all.contains_key(&parent(pool, &BALANCERS)));
        for pool in &mut pools {
            pool[MONITORS.name] = monitors.remove(text(pool, ID)).unwrap_or_default();
        }
        for pool in self
            .with_members(pools.into_iter().map(Pool::from).collect(), sets)
            .await?
        {
            all.entry(parent(&pool.object, &BALANCERS))
                .and_modify(|whole| whole.pools.push(pool));
        }
        Ok(all.into_values().collect())
    }

    /// Reads the load balancers that a Service has, or is to share; or what is left of one.
    pub(super) async fn of_service(
        &self,
        identity: &Identity<'_>,
    ) -> Result<Vec<ObservedLoadBalancer>> {
        let service = identity.service;
        let leaves = identity.is_leaving();
        // Tagged ones first, for there can be two: one that the Service has, and one that it moves to.
        let mut found = self.tagged(identity).await?;
        let requested =
            requested_id(service).filter(|id| !found.iter().any(|object| text(object, ID) == *id));
        let mut trouble = None;
        if let Some(id) = requested {
            match self.balancer(id).await {
                Ok(named) => {
                    trouble = named.is_none().then(|| unknown(id));
                    found.extend(named);
                }
                // A load balancer of another project is ignored.
                Err(err) if err.is_unauthorized() => trouble = Some(err),
                Err(err) => return Err(err),
            }
        }
        if !found
            .iter()
            .flat_map(Share::all)
            .any(|view| view.is_of(identity))
        {
            let named = self.called(identity).await?;
            found.extend(
                named
                    .into_iter()
                    .filter(|object| requested != Some(text(object, ID))),
            );
        }
        if let Some(err) = trouble {
            self.report_request(identity, err, found.is_empty())?;
        }
        // A load balancer that is being deleted is ignored if there is another one; but the deletion of a Service
        // waits for it.
        let goes_away = |object: &Value| text(object, "provisioning_status") == "PENDING_DELETE";
        if !leaves && !found.iter().all(goes_away) {
            found.retain(|object| !goes_away(object));
        }
        let mut seen = Vec::new();
        for balancer in found {
            let is_requested = requested_id(service) == Some(text(&balancer, ID));
            if let Some(view) = Share::of(&balancer, identity, is_requested) {
                seen.extend(self.whole(balancer, view, Some(service), leaves).await?);
            }
        }
        if seen.is_empty() {
            seen.extend(self.left_over(identity).await?);
        }
        Ok(seen)
    }

    /// Reports that the load balancer in the Service's annotation does not exist, or belongs to another project. If the
    /// Service has no load balancer (`has_none`), this is an error, and none is created; otherwise, the Service keeps
    /// the one that it has. The annotation is ignored if the controller itself wrote it, and the load balancer was
    /// deleted since.
    fn report_request(&self, identity: &Identity<'_>, err: Error, has_none: bool) -> Result<()> {
        let service = identity.service;
        let leaves = identity.is_leaving();
        // If the credential is another project's, a refusal (403) proves nothing about a load balancer that the Service
        // had.
        let is_final = match leaves {
            true => err.is_unauthorized() && had_load_balancer(service),
            false => err.is_unauthorized() || !had_load_balancer(service),
        };
        if has_none && is_final {
            return Err(err);
        }
        if !has_none && !leaves {
            let text = format!("{err}; the Service keeps the load balancer that it has");
            self.deduplicator.warn(
                true,
                EventSubject::Service(service),
                "QuestionableAnnotation",
                &text,
            );
        }
        Ok(())
    }

    /// Reads the load balancers with the Service's tags.
    async fn tagged(&self, identity: &Identity<'_>) -> Result<Vec<Value>> {
        if !self.services.octavia().await?.tags {
            return Ok(Vec::new());
        }
        let tags = format!(
            "{},{}",
            identity.legacy_owner.as_deref().unwrap_or_default(),
            owner_tag(identity)
        );
        self.found_by("tags-any", tags).await
    }

    /// Reads the load balancers with the Service's name, or else with its former name.
    async fn called(&self, identity: &Identity<'_>) -> Result<Vec<Value>> {
        let found = self.found_by("name", identity.name.clone()).await?;
        if found.is_empty() {
            self.found_by("name", legacy_name(identity.uid())).await
        } else {
            Ok(found)
        }
    }

    /// Reads what outlived its load balancer.
    async fn left_over(&self, identity: &Identity<'_>) -> Result<Option<ObservedLoadBalancer>> {
        let mut graph = ResourceGraph::default();
        let mut id = None;
        for (resource, settings, targets) in self
            .groups
            .of_service(&security_group::name(identity.service))
            .await?
        {
            id = id.or_else(|| settings.text(ID).map(str::to_owned));
            if let (ResourceKey::Pool(name), Some(targets)) = (&resource, targets) {
                graph.targets.insert(name.clone(), targets);
            }
            graph = graph.resource(resource, settings);
        }
        // A Service that gets another load balancer gets it back.
        if identity.is_leaving() {
            for floating in
                floating_ip::left_over(&self.services, identity.cluster, identity.service).await?
            {
                let (resource, settings) = floating.resource();
                id = id.or(Some(floating.id));
                graph = graph.resource(resource, settings);
            }
        }
        let name = identity.name.clone();
        let legacy_owner = identity.legacy_owner.clone();
        let owner_tags = identity.owner_tags();
        Ok(id.map(|id| ObservedLoadBalancer {
            id,
            name,
            legacy_owner,
            owner_tags,
            graph: Some(graph),
            ..ObservedLoadBalancer::default()
        }))
    }
}

fn unknown(id: &str) -> Error {
    let key = key::LOAD_BALANCER_ID.key();
    Error::invalid(format!(
        "annotation {key}: there is no load balancer {id:?} in this project; correct it, or remove it to get a new one"
    ))
}

/// Returns the name of the security group of a view's Service, if all of it is known.
fn group_name(view: &Share) -> Option<String> {
    let (namespace, name) = service_of(view.legacy_owner_tag.as_deref()?)?;
    let mut service = Service::default();
    service.metadata.uid = Some(view.owner_tags.service.clone()?);
    (service.metadata.namespace, service.metadata.name) =
        (Some(namespace.to_owned()), Some(name.to_owned()));
    Some(security_group::name(&service))
}

/// Returns the security group of a view's Service, whose UID is not known without an owner tag.
fn group_of(view: &Share, groups: &BTreeMap<String, ResourceList>) -> ResourceList {
    if view.owner_tags.service.is_some() {
        return group_name(view)
            .and_then(|name| groups.get(&name))
            .cloned()
            .unwrap_or_default();
    }
    let legacy_owner_tag = view.legacy_owner_tag.as_deref();
    let Some(((namespace, name), cluster)) = legacy_owner_tag.and_then(|legacy_owner_tag| {
        service_of(legacy_owner_tag).zip(cluster_of(legacy_owner_tag))
    }) else {
        return Vec::new();
    };
    // Other clusters have Services of the same name: the group so described is this one's, or the only one.
    let end = format!("-{namespace}-{name}");
    let described = security_group::described(cluster, namespace, name);
    let is_described = |resources: &&ResourceList| {
        resources
            .iter()
            .any(|(_, settings, _)| settings.text("description") == Some(&described))
    };
    let named: Vec<&ResourceList> = groups
        .iter()
        .filter(|(group, _)| group.ends_with(&end))
        .map(|(_, resources)| resources)
        .collect();
    let sole = (named.len() == 1).then(|| named[0]);
    named
        .into_iter()
        .find(is_described)
        .or(sole)
        .cloned()
        .unwrap_or_default()
}
