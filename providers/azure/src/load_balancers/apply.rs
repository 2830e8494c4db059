//! Changes of a Service's share: which documents and addresses are written, and in which order.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cloud_provider::{LoadBalancerIngress, Result};
use provider_kit::load_balancers::{
    Applied, Attributes, Change, Identity, ObservedLoadBalancer, Operation, OwnerTags, Port,
    ResourceGraph, ResourceKey, Targets,
};
use serde_json::{Value, json};

use super::destinations::SecurityChange;
use super::document::{self, FRONTEND, MOST_NAME, Share};
use super::edit::{Edit, set_members};
use super::link::{self, PrivateLink};
use super::members::MemberChange;
use super::spec::{Family, IPV6, Rule, Spec};
use super::{AzureLoadBalancers, address, ingress_of, placement, security, share_id};
use crate::arm::{LOAD_BALANCERS, PUBLIC_ADDRESSES, name_of, text};
use crate::config::PoolKind;
use crate::documents::DocumentKey;

impl AzureLoadBalancers {
    pub(super) async fn carry_out(&self, change: Change<'_>, spec: &Spec) -> Result<Applied> {
        let Change {
            identity,
            actual,
            operations,
            ..
        } = change;
        let kind = actual.map_or(identity.kind, |load_balancer| load_balancer.kind);
        let owner = actual.map_or(&*identity.name, |load_balancer| &load_balancer.name);
        let after = change.outcome_of_all();
        let graph = after
            .as_ref()
            .and_then(|load_balancer| load_balancer.graph.clone())
            .unwrap_or_default();
        let graph_before = actual
            .and_then(|load_balancer| load_balancer.graph.clone())
            .unwrap_or_default();
        let old_key = self.key_in(kind, &graph_before);
        let key = if graph.balancer_attributes().is_some() {
            self.key_in(kind, &graph)
        } else {
            old_key.clone()
        };
        let moves = graph_before.balancer_attributes().is_some() && key != old_key;
        let touches = |is_wanted: &dyn Fn(&ResourceKey) -> bool| {
            operations
                .iter()
                .any(|operation| operation.resource().is_some_and(is_wanted))
        };
        let is_address = |resource: &ResourceKey| resource.is_of_kind(address::KIND);
        let is_tagged = operations.contains(&Operation::Tag);
        let is_rules = |resource: &ResourceKey| *resource == security::resource();
        let before = actual
            .map(|load_balancer| load_balancer.ingress.clone())
            .unwrap_or_default();
        let mut leaving = self.destinations(owner, &before);
        leaving.extend(self.former_destinations(owner));
        // Rules of the other form lead to the addresses of the Service.
        leaving.extend(
            before
                .iter()
                .filter_map(|entry| entry.ip.as_deref()?.parse::<IpAddr>().ok()),
        );
        leaving.extend(
            identity
                .published_addresses
                .iter()
                .filter_map(|published_address| published_address.parse::<IpAddr>().ok()),
        );
        let security = |present, leaving, rules| SecurityChange {
            owner,
            key: &old_key,
            present,
            leaving,
            rules,
        };
        if operations
            .iter()
            .any(|operation| operation.deletes(is_rules))
        {
            self.write_security(
                security(BTreeSet::new(), leaving.clone(), BTreeSet::new()),
                spec,
            )
            .await?;
        }
        let created = |resource: &ResourceKey| {
            operations.iter().any(|operation| {
                operation.resource() == Some(resource) && !operation.deletes(|_| true)
            })
        };
        for resource in graph
            .resources
            .keys()
            .filter(|resource| is_address(resource) && (is_tagged || created(resource)))
        {
            let ResourceKey::CreatedBefore(current) = resource else {
                continue;
            };
            let is_its_family = |family: &&Family| {
                (document::suffix(&current.name) == IPV6) == (family.suffix == IPV6)
            };
            let Some(family) = spec.families.iter().find(is_its_family) else {
                continue;
            };
            let tags = identity.owner_tags();
            let service = identity.service;
            let wanted = address::Wanted {
                spec,
                family,
                service,
                cluster: self.cluster(),
                owner: &tags,
            };
            self.write_address(&current.name, wanted).await?;
        }
        let is_share = |resource: &ResourceKey| {
            matches!(
                resource,
                ResourceKey::Balancer | ResourceKey::Pool(_) | ResourceKey::Listener(_)
            )
        };
        let mut members = member_changes(operations);
        let is_by_address = self.config().file.pool_kind != PoolKind::Nic;
        let mut was_there = true;
        let is_link = |resource: &ResourceKey| resource.is_of_kind(link::KIND);
        if operations
            .iter()
            .any(|operation| operation.deletes(is_link))
            || (moves && spec.link.is_some())
        {
            let document = self.documents.store().get(&old_key).await?;
            self.delete_links_of(&document, owner, identity.service)
                .await?;
        }
        if moves {
            self.write_share(
                &old_key,
                self.edit(&old_key, owner, &ResourceGraph::default(), identity, spec)
                    .await?,
            )
            .await?;
        }
        self.leave_other_form(&key, &mut members).await?;
        if is_tagged || touches(&is_share) || (is_by_address && !members.is_empty()) {
            let mut edit = self.edit(&key, owner, &graph, identity, spec).await?;
            if is_by_address {
                let named = |ip: &str| (self.node_name(ip), ip.to_owned());
                let members = members.iter();
                edit.members = members
                    .map(|(pool, change)| {
                        (
                            pool.clone(),
                            (
                                change.join.iter().map(named).collect(),
                                change.leave.clone(),
                            ),
                        )
                    })
                    .collect();
            }
            let ends = edit.frontends.is_empty();
            let before = self.addresses_of_others(&key, owner);
            was_there = match self.write_share(&key, edit.clone()).await {
                // The annotation of a private link service may have been removed before the Service.
                Err(error)
                    if ends
                        && error
                            .to_string()
                            .to_ascii_lowercase()
                            .contains("privatelinkservice") =>
                {
                    let document = self.documents.store().get(&key).await?;
                    self.delete_links_of(&document, owner, identity.service)
                        .await?;
                    self.write_share(&key, edit).await?
                }
                outcome => outcome?,
            };
            let now = self.addresses_of_others(&key, owner);
            for id in now.difference(&before) {
                self.join_address(id, identity.service).await?;
            }
            for id in before.difference(&now) {
                self.leave_address(id, identity.service).await?;
            }
        }
        if !is_by_address && graph.balancer_attributes().is_some() {
            for (pool, change) in &members {
                let item = (self.documents.clone(), change.clone());
                let refused = self.members.join((key.clone(), pool.clone()), item).await?;
                self.warn_of_refused(&refused).await;
            }
        }
        self.balance(&key).await?;
        let is_pool = |resource: &ResourceKey| matches!(resource, ResourceKey::Pool(_));
        let ingress = match after {
            Some(_) => self.ingress(&key, owner, &before).await?,
            None => before.clone(),
        };
        if let Some((ResourceKey::CreatedAfter(auxiliary), settings)) = graph
            .resources
            .iter()
            .find(|(resource, _)| is_link(resource))
            && (moves || touches(&is_link))
        {
            let base = frontend_name(owner, spec.named_subnet.as_deref());
            let document = self.documents.store().last(&key);
            let share = Share::of(&document, owner);
            let frontend = share
                .frontends
                .get("")
                .map(|object| text(object, "/id"))
                .unwrap_or_default();
            let wanted: PrivateLink = crate::arm::read(&settings.nested())?;
            let name = spec
                .link
                .as_ref()
                .map_or_else(|| auxiliary.name.clone(), |link| link.name(&base));
            self.write_link(&name, identity.service, frontend, &wanted)
                .await?;
        }
        let settings = graph.resources.get(&security::resource());
        // Rules that lead to Nodes are not known from the addresses of a Service that ends.
        let is_left = after.is_none()
            && !operations
                .iter()
                .any(|operation| operation.deletes(is_rules))
            && self.has_node_rules();
        if (settings.is_some() && touches(&is_rules))
            || (!before.is_empty() && before != ingress)
            || is_left
        {
            let rules = settings
                .and_then(|settings| settings.get("rules"))
                .map(crate::arm::read)
                .transpose()?
                .unwrap_or_default();
            let present = self.destinations(owner, &ingress);
            leaving.retain(|ip| !present.contains(ip));
            let security = SecurityChange {
                owner,
                key: &key,
                present,
                leaving,
                rules,
            };
            self.write_security(security, spec).await?;
        }
        for operation in operations {
            if let Operation::Delete {
                resource: resource @ ResourceKey::CreatedBefore(it),
            } = operation
                && is_address(resource)
            {
                self.leave_address(
                    &self.address_group(spec).id(PUBLIC_ADDRESSES.kind, &it.name),
                    identity.service,
                )
                .await?;
            }
        }
        let Some(after) = after else {
            return Ok(if was_there {
                Applied::Removed
            } else {
                Applied::Gone
            });
        };
        let cloud_name_and_id = Some((owner.to_owned(), key.name.clone()));
        let mut shown = ObservedLoadBalancer {
            id: share_id(kind, owner),
            ingress,
            cloud_name_and_id,
            ..after
        };
        // The pool of other Services may have members that no Service wants any more.
        let mut has_others = false;
        if let Some(graph) = shown
            .graph
            .as_mut()
            .filter(|_| moves || created_by(operations, is_pool))
        {
            let document = self.documents.store().last(&key);
            for (pool, targets) in graph
                .targets
                .iter()
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect::<Vec<_>>()
            {
                let current_members = document::members(&document, &pool);
                has_others |= !current_members.without(&targets).is_empty() || moves;
                let all = if moves {
                    current_members
                } else {
                    current_members.with(&targets)
                };
                graph.targets.insert(pool, all);
            }
        }
        Ok(if has_others {
            Applied::PlanAgain(Box::new(shown))
        } else {
            Applied::all(change, shown)
        })
    }

    /// Returns the IDs of addresses that a Service uses and that were made for others.
    fn addresses_of_others(&self, key: &DocumentKey, owner: &str) -> BTreeSet<String> {
        let document = self.documents.store().last(key);
        let share = Share::of(&document, owner);
        let others = share
            .addresses()
            .filter(|id| address::owner_in(name_of(id)).as_deref() != Some(owner));
        others.map(str::to_ascii_lowercase).collect()
    }

    /// Removes members of the form that the configuration no longer has: Azure refuses a pool with both.
    async fn leave_other_form(
        &self,
        key: &DocumentKey,
        members: &mut BTreeMap<String, MemberChange>,
    ) -> Result<()> {
        let is_by_address = self.config().file.pool_kind != PoolKind::Nic;
        let others = |change: &MemberChange| -> Targets {
            change
                .leave
                .iter()
                .filter(|target| target.starts_with('/') == is_by_address)
                .collect()
        };
        let leaving: BTreeMap<&String, Targets> = members
            .iter()
            .map(|(pool, change)| (pool, others(change)))
            .filter(|(_, targets)| !targets.is_empty())
            .collect();
        if leaving.is_empty() {
            return Ok(());
        }
        if is_by_address && self.config().file.migrates_pools {
            let pools: Vec<&String> = leaving.keys().copied().collect();
            self.arm().migrate(&key.group, &key.name, &pools).await?;
        }
        for (pool, leave) in &leaving {
            if is_by_address {
                let change = MemberChange {
                    leave: leave.clone(),
                    leaves_models: true,
                    ..MemberChange::default()
                };
                self.members
                    .join(
                        (key.clone(), (*pool).clone()),
                        (self.documents.clone(), change),
                    )
                    .await?;
            } else {
                let pool = (*pool).clone();
                let leave = leave.clone();
                let edit = move |document: &mut Value| {
                    set_members(document, &pool, (&[], &leave), None);
                    Ok(())
                };
                self.documents.edit(key, edit).await?;
            }
        }
        members
            .values_mut()
            .for_each(|change| change.leave = change.leave.without(&others(change)));
        Ok(())
    }

    /// Returns the name of the Node that has this address.
    fn node_name(&self, ip: &str) -> String {
        let nodes = self.nodes();
        let found = nodes
            .iter()
            .find(|node| node.addresses.iter().any(|address| &*address.address == ip));
        found.map_or_else(|| ip.to_owned(), |node| node.name.to_string())
    }

    async fn edit(
        &self,
        key: &DocumentKey,
        owner: &str,
        graph: &ResourceGraph,
        identity: &Identity<'_>,
        spec: &Spec,
    ) -> Result<Edit> {
        let rule = |(port, settings): (&Port, &Attributes)| {
            let pool = settings.text("pool").unwrap_or_default().to_owned();
            Ok((
                port.clone(),
                pool,
                crate::arm::read::<Rule>(&settings.nested())?,
            ))
        };
        let attributes = graph.balancer_attributes();
        let of = |family: &Family| Some((family.suffix, frontend(attributes?, family)?));
        Ok(Edit {
            config: self.config(),
            id: key.group.id(LOAD_BALANCERS.kind, &key.name),
            cluster: OwnerTags::cluster(identity.cluster).to_owned(),
            owner: owner.to_owned(),
            base: frontend_name(owner, spec.named_subnet.as_deref()),
            own_pools: placement::own_pools(identity.service),
            zones: if attributes.is_some() && spec.is_internal {
                self.zones().await?
            } else {
                Vec::new()
            },
            frontends: spec.families.iter().filter_map(of).collect(),
            rules: graph.listeners().map(rule).collect::<Result<_>>()?,
            members: BTreeMap::new(),
        })
    }

    /// Writes a share, together with those of other Services. Returns `false` if there was no load balancer.
    async fn write_share(&self, key: &DocumentKey, edit: Edit) -> Result<bool> {
        let was_there = Arc::new(AtomicBool::new(true));
        let seen = Arc::clone(&was_there);
        let apply = move |document: &mut Value| {
            seen.store(!document.is_null(), Ordering::Relaxed);
            edit.apply(document)
        };
        self.documents.edit(key, apply).await?;
        Ok(was_there.load(Ordering::Relaxed))
    }

    /// Returns the addresses of a share after a change.
    async fn ingress(
        &self,
        key: &DocumentKey,
        owner: &str,
        before: &[LoadBalancerIngress],
    ) -> Result<Vec<LoadBalancerIngress>> {
        let document = self.documents.store().last(key);
        let share = Share::of(&document, owner);
        if share.frontends.is_empty() {
            return Ok(before.to_vec());
        }
        let mut addresses = Vec::new();
        for id in share.addresses() {
            addresses.extend(self.address_by_id(id).await?);
        }
        Ok(ingress_of(&share, &addresses))
    }
}

/// Returns `true` if the operations create a resource for which `is_wanted` holds.
fn created_by(operations: &[Operation], is_wanted: impl Fn(&ResourceKey) -> bool) -> bool {
    operations.iter().any(
        |operation| matches!(operation, Operation::Create { resource, .. } if is_wanted(resource)),
    )
}

/// Returns the targets that join and leave each pool.
fn member_changes(operations: &[Operation]) -> BTreeMap<String, MemberChange> {
    let mut changes: BTreeMap<String, MemberChange> = BTreeMap::new();
    for operation in operations {
        match operation {
            Operation::AddTargets { pool, targets } => {
                let change = changes.entry(pool.clone()).or_default();
                change.join = change.join.with(targets);
            }
            Operation::RemoveTargets { pool, targets } => {
                let change = changes.entry(pool.clone()).or_default();
                change.leave = change.leave.with(targets);
            }
            _ => {}
        }
    }
    changes
}

/// Returns the name of a frontend. One that is cut ends in a letter or an underscore, as with the Go program.
pub(super) fn frontend_name(owner: &str, subnet: Option<&str>) -> String {
    let Some(subnet) = subnet else {
        return owner.to_owned();
    };
    let mut name = format!("{owner}-{subnet}");
    if name.len() > MOST_NAME {
        name.truncate(MOST_NAME);
        if !name.ends_with(|character: char| character.is_alphabetic() || character == '_') {
            name.pop();
            name.push('_');
        }
    }
    name
}

/// Returns the frontend of a family as the API reads it; `None` if the family has none.
fn frontend(attributes: &Attributes, family: &Family) -> Option<Value> {
    let [address, subnet, _] =
        FRONTEND.map(|(key, _)| attributes.text(&format!("{key}{}", family.suffix)));
    // An address that the Service does not state is the subnet's to choose, and may not be in another subnet.
    let ip = family.address.map(|ip| ip.to_string());
    let properties = match (address, subnet) {
        (Some(id), _) => {
            json!({"publicIPAddress": {"id": id}, "subnet": null, "privateIPAddress": null})
        }
        (None, None) => return None,
        (None, subnet) => json!({
            "subnet": {"id": subnet}, "publicIPAddress": null, "privateIPAddress": ip,
            "privateIPAllocationMethod": ip.as_ref().map_or("Dynamic", |_| "Static"), "privateIPAddressVersion": family.name(),
        }),
    };
    Some(json!({ "properties": properties }))
}
