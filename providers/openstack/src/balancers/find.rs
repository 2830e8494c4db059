//! Reading load balancers from Octavia, with what belongs to them in Neutron (§3.4).

use std::collections::BTreeMap;

use cloud_provider::{About, Error, Listing, Result, Service};
use futures::future::try_join_all;
use provider_kit::load_balancers::{Actual, Attributes, Identity, Part, TargetSets, Tree};
use provider_kit::paging::Reading;
use serde_json::Value;

use super::octavia::{BALANCERS, ID, Kind, LISTENERS, MEMBERS, MONITORS, Member, Members, POOLS, id, ids, state, text};
use super::project::{MEMBERS_AT_ONCE, Project};
use super::read::{Pool, Whole};
use super::security_group::Parts;
use super::shown::{asked_for, was_made};
use super::tags::{View, cluster_of, legacy_name, mark, signed_for};
use super::{floating_ip, security_group};
use crate::annotations as key;

/// So many pools' members are read at the same time, or fewer if they are large.
const AT_ONCE: usize = 8;

type Groups = BTreeMap<String, Parts>;

impl Project {
    /// Its listeners and pools, without health monitors and members.
    async fn parts(&self, balancer: Value) -> Result<Whole> {
        let of_it = |kind: &Kind| kind.list("").query("loadbalancer_id", text(&balancer, ID));
        let listeners = self.objects(&LISTENERS, of_it(&LISTENERS)).await?;
        let pools = self.objects(&POOLS, of_it(&POOLS)).await?.into_iter().map(Pool::from).collect();
        Ok(Whole { balancer, listeners, pools, floating: None })
    }

    /// The same with health monitors.
    pub(super) async fn monitored_parts(&self, balancer: Value) -> Result<Whole> {
        let mut whole = self.parts(balancer).await?;
        let monitors = whole.pools.iter_mut().map(async |Pool { object, .. }| {
            let Some(id) = object.get("healthmonitor_id").and_then(Value::as_str) else { return Ok(()) };
            if let Some(found) = self.services.balancer.find(MONITORS.get(id)).await? {
                object[MONITORS.name] = found;
            }
            Ok::<_, Error>(())
        });
        try_join_all(monitors).await?;
        Ok(whole)
    }

    /// Pools with their members; without those that went away meanwhile. Most have the same: each set is kept once.
    async fn with_members(&self, mut pools: Vec<Pool>, sets: &TargetSets) -> Result<Vec<Pool>> {
        let (mut all, mut at_once): (Vec<Pool>, _) = (Vec::new(), 1);
        while !pools.is_empty() {
            let some = pools.drain(..pools.len().min(at_once)).map(async |Pool { object, .. }| {
                let members = self.all_of(&MEMBERS, MEMBERS.list(text(&object, ID)), |it: &Member<'_>| it.id.clone());
                match members.await.map(Members::from_iter) {
                    Err(err) if err.is_not_found() => Ok(None),
                    members => {
                        let Members { targets, settings } = members?;
                        let members = Members { targets: sets.shared(targets), settings };
                        Ok::<_, Error>(Some(Pool { object, members }))
                    }
                }
            });
            all.extend(try_join_all(some).await?.into_iter().flatten());
            let most = all.iter().map(|pool| pool.members.targets.len()).max().unwrap_or_default();
            at_once = (MEMBERS_AT_ONCE as usize / most.max(1)).clamp(1, AT_ONCE);
        }
        Ok(all)
    }

    /// A view of it with all that there is; for whoever leaves without what goes along with it. `service`: whose it is, if that
    /// is known.
    pub(super) async fn whole(
        &self,
        balancer: Value,
        view: View,
        service: Option<&Service>,
        leaves: bool,
    ) -> Result<Option<Actual>> {
        let floating = match text(&balancer, "vip_port_id") {
            "" => None,
            port => floating_ip::of_port(&self.services, port).await?,
        };
        let group = match service.map(security_group::name).or_else(|| group_name(&view)) {
            Some(name) => security_group::of_service(&self.groups, &name).await?,
            None if view.sign.is_some() => group_of(&view, &security_group::all(&self.groups).await?),
            None => Vec::new(),
        };
        let mut whole = if leaves { self.parts(balancer).await? } else { self.monitored_parts(balancer).await? };
        if !leaves {
            whole.pools = self.with_members(whole.pools, &TargetSets::default()).await?;
        }
        Ok(Whole { floating, ..whole }.seen(view, group))
    }

    /// All that Services have, with a few lists, and the members of each pool.
    pub(super) async fn everything(&self, sets: &TargetSets) -> Result<Reading<Actual>> {
        let call = self.services.in_project(BALANCERS.list("")).await?;
        let read = self.services.list(&self.services.balancer, call, BALANCERS.names, |it: Value| it, id);
        let read = read.await?;
        let pages = read.pages();
        let (mut balancers, flaw) = match read {
            Reading::Complete { listing, .. } => (listing.into_items(), None),
            Reading::Flawed { items, flaw, .. } => (items, Some(flaw)),
        };
        balancers.retain(|it| !View::all(it).is_empty() && state(it).is_some());
        let mut seen = Vec::new();
        if !balancers.is_empty() {
            let groups = security_group::all(&self.groups).await?;
            for whole in self.parts_of(balancers, sets).await? {
                for view in View::all(&whole.balancer) {
                    let group = group_of(&view, &groups);
                    seen.extend(whole.seen(view, group).map(|actual| actual.sharing(sets)));
                }
            }
        }
        if let Some(flaw) = flaw {
            return Ok(Reading::Flawed { items: seen, pages, flaw });
        }
        let mut listing = Listing::new();
        listing.page(seen, false);
        Ok(Reading::Complete { listing: listing.finish()?, pages })
    }

    /// The parts of all of these.
    async fn parts_of(&self, balancers: Vec<Value>, sets: &TargetSets) -> Result<Vec<Whole>> {
        let listeners = self.objects(&LISTENERS, LISTENERS.list("")).await?;
        let mut pools = self.objects(&POOLS, POOLS.list("")).await?;
        let monitors = self.objects(&MONITORS, MONITORS.list("")).await?;
        let mut floating: BTreeMap<_, _> =
            floating_ip::all(&self.services).await?.into_iter().map(|it| (it.port.clone(), it)).collect();
        let whole = |balancer: Value| {
            let port = balancer.get("vip_port_id").and_then(Value::as_str).map(str::to_owned);
            let floating = port.and_then(|port| floating.remove(&Some(port)));
            (text(&balancer, ID).to_owned(), Whole { balancer, floating, ..Whole::default() })
        };
        let mut all: BTreeMap<String, Whole> = balancers.into_iter().map(whole).collect();
        let parent = |it: &Value| ids(it, BALANCERS.names).next().unwrap_or_default().to_owned();
        for listener in listeners {
            all.entry(parent(&listener)).and_modify(|whole| whole.listeners.push(listener));
        }
        let mut monitors: BTreeMap<String, Value> = monitors
            .into_iter()
            .filter_map(|monitor| {
                let pool = ids(&monitor, POOLS.names).next()?.to_owned();
                Some((pool, monitor))
            })
            .collect();
        pools.retain(|pool| all.contains_key(&parent(pool)));
        for pool in &mut pools {
            pool[MONITORS.name] = monitors.remove(text(pool, ID)).unwrap_or_default();
        }
        for pool in self.with_members(pools.into_iter().map(Pool::from).collect(), sets).await? {
            all.entry(parent(&pool.object)).and_modify(|whole| whole.pools.push(pool));
        }
        Ok(all.into_values().collect())
    }

    /// What a Service has, or is to share; or what is left of it.
    pub(super) async fn of_service(&self, identity: &Identity<'_>) -> Result<Vec<Actual>> {
        // Those first, for there can be two: one that it has, and one that it moves to.
        let mut found = self.tagged(identity).await?;
        let asked = asked_for(identity.service).filter(|id| !found.iter().any(|it| text(it, ID) == *id));
        let mut trouble = None;
        if let Some(id) = asked {
            match self.balancer(id).await {
                Ok(named) => {
                    trouble = named.is_none().then(|| unknown(id));
                    found.extend(named);
                }
                // Another project's.
                Err(err) if err.is_unauthorized() => trouble = Some(err),
                Err(err) => return Err(err),
            }
        }
        if !found.iter().flat_map(View::all).any(|view| view.is_of(identity)) {
            let named = self.called(identity).await?;
            found.extend(named.into_iter().filter(|it| asked != Some(text(it, ID))));
        }
        if let Some(err) = trouble {
            self.doubt_choice(identity, err, found.is_empty())?;
        }
        // What goes away does not count beside what stays; but whoever goes, too, waits for it.
        let goes_away = |it: &Value| text(it, "provisioning_status") == "PENDING_DELETE";
        if !identity.is_leaving() && !found.iter().all(goes_away) {
            found.retain(|it| !goes_away(it));
        }
        let mut seen = Vec::new();
        for balancer in found {
            let is_asked_for = asked_for(identity.service) == Some(text(&balancer, ID));
            if let Some(view) = View::of(&balancer, identity, is_asked_for) {
                seen.extend(self.whole(balancer, view, Some(identity.service), identity.is_leaving()).await?);
            }
        }
        if seen.is_empty() {
            seen.extend(self.left_over(identity).await?);
        }
        Ok(seen)
    }

    /// The load balancer that the Service names is not to be had. Nobody wants one that was not asked for; but one that is there
    /// serves on, and the annotation of one that is gone, because somebody has deleted it, or it failed, is forgotten.
    fn doubt_choice(&self, identity: &Identity<'_>, err: Error, has_none: bool) -> Result<()> {
        let (service, leaves) = (identity.service, identity.is_leaving());
        // Of one that was there, a refusal may be the word of another project, which knows nothing of it.
        let is_final = match leaves {
            true => err.is_unauthorized() && was_made(service),
            false => err.is_unauthorized() || !was_made(service),
        };
        if has_none && is_final {
            return Err(err);
        }
        if !has_none && !leaves {
            let text = format!("{err}; the Service keeps the load balancer that it has");
            self.notices.warn(true, About::Service(service), "QuestionableAnnotation", &text);
        }
        Ok(())
    }

    /// What carries its tags.
    async fn tagged(&self, identity: &Identity<'_>) -> Result<Vec<Value>> {
        if !self.services.octavia().await?.tags {
            return Ok(Vec::new());
        }
        let tags = format!("{},{}", identity.sign.as_deref().unwrap_or_default(), mark(identity));
        self.found_by("tags-any", tags).await
    }

    /// What has its name, or the name that it had once.
    async fn called(&self, identity: &Identity<'_>) -> Result<Vec<Value>> {
        let found = self.found_by("name", identity.name.clone()).await?;
        if found.is_empty() { self.found_by("name", legacy_name(identity.uid())).await } else { Ok(found) }
    }

    /// What outlived its load balancer.
    async fn left_over(&self, identity: &Identity<'_>) -> Result<Option<Actual>> {
        let (mut tree, mut id) = (Tree::default(), None);
        for (part, settings, targets) in
            security_group::of_service(&self.groups, &security_group::name(identity.service)).await?
        {
            id = id.or_else(|| settings.text(ID).map(str::to_owned));
            if let (Part::Pool(name), Some(targets)) = (&part, targets) {
                tree.targets.insert(name.clone(), targets);
            }
            tree = tree.part(part, settings);
        }
        // Whoever gets another load balancer gets it back.
        if identity.is_leaving() {
            for floating in floating_ip::left_over(&self.services, identity.cluster, identity.service).await? {
                let (part, settings): (Part, Attributes) = floating.part();
                id = id.or(Some(floating.id));
                tree = tree.part(part, settings);
            }
        }
        let (name, sign, marks) = (identity.name.clone(), identity.sign.clone(), identity.marks());
        Ok(id.map(|id| Actual { id, name, sign, marks, tree: Some(tree), ..Actual::default() }))
    }
}

fn unknown(id: &str) -> Error {
    let key = key::LOAD_BALANCER_ID.key();
    Error::invalid(format!(
        "annotation {key}: there is no load balancer {id:?} in this project; correct it, or remove it to get a new one"
    ))
}

/// The name of the security group of a view's Service, if all of it is known.
fn group_name(view: &View) -> Option<String> {
    let (namespace, name) = signed_for(view.sign.as_deref()?)?;
    let mut service = Service::default();
    service.metadata.uid = Some(view.marks.service.clone()?);
    (service.metadata.namespace, service.metadata.name) = (Some(namespace.to_owned()), Some(name.to_owned()));
    Some(security_group::name(&service))
}

/// The security group of a view's Service. Of one that is not marked its UID is not known.
fn group_of(view: &View, groups: &Groups) -> Parts {
    if view.marks.service.is_some() {
        return group_name(view).and_then(|name| groups.get(&name)).cloned().unwrap_or_default();
    }
    let sign = view.sign.as_deref();
    let Some(((namespace, name), cluster)) = sign.and_then(|sign| signed_for(sign).zip(cluster_of(sign))) else {
        return Vec::new();
    };
    // Other clusters have Services of the same name; one without others, or so described, is this one's.
    let (end, described) = (format!("-{namespace}-{name}"), security_group::described(cluster, namespace, name));
    let is_described =
        |parts: &&Parts| parts.iter().any(|(_, settings, _)| settings.text("description") == Some(&described));
    let named: Vec<&Parts> = groups.iter().filter(|(group, _)| group.ends_with(&end)).map(|(_, parts)| parts).collect();
    let sole = (named.len() == 1).then(|| named[0]);
    named.into_iter().find(is_described).or(sole).cloned().unwrap_or_default()
}
