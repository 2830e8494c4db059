//! Changes of load balancers of both kinds: one operation after the other.

use std::collections::BTreeMap;

use cloud_provider::Result;
use provider_kit::load_balancers::{
    Applied, Attributes, Change, ObservedLoadBalancer, Operation, ResourceGraph, ResourceKey,
};

use super::names::{CLUSTER_TAG, NAME_TAG, Part, REUSED_TAG, Share, is_network};
use super::read::Tags;
use super::source_ranges::{ATTACHED, GROUP, RANGES};
use super::spec::Spec;
use super::{AlibabaLoadBalancers, ID, is_leaving};
use crate::api::{NLB, Product, Query, SLB, tag_list};

/// Tags of a load balancer of the user beyond which the tag for the reuse is left out.
const TAGS: usize = 10;

/// An operation, with the load balancer before and after it.
pub(super) struct Work<'a> {
    pub(super) cloud: &'a AlibabaLoadBalancers,
    pub(super) change: Change<'a>,
    pub(super) spec: &'a Spec,
    pub(super) kind: &'static str,
    pub(super) is_network: bool,
    /// Of a load balancer of the user.
    pub(super) share: Option<Share>,
    pub(super) id: &'a str,
    pub(super) before: ResourceGraph,
    pub(super) after: ResourceGraph,
}

/// ID of a resource that was created, if one was.
pub(super) type Made = Result<Option<String>>;

impl AlibabaLoadBalancers {
    /// Carries out the first operation.
    pub(super) async fn carry_out(&self, change: Change<'_>, spec: &Spec) -> Result<Applied> {
        let (kind, id) = change
            .actual
            .map_or((change.identity.kind, ""), |load_balancer| {
                (load_balancer.kind, &*load_balancer.id)
            });
        let (id, share) = Share::read(id);
        let before = change
            .actual
            .and_then(|load_balancer| load_balancer.graph.clone())
            .unwrap_or_default();
        let after = change
            .outcome(1)
            .and_then(|load_balancer| load_balancer.graph)
            .unwrap_or_default();
        let is_network = is_network(kind);
        let work = Work {
            cloud: self,
            change,
            spec,
            kind,
            is_network,
            share,
            id,
            before,
            after,
        };
        if is_leaving(&change) && work.before.balancer_attributes().is_some() {
            return work.leave().await;
        }
        if let Some(operation) = due_first(change.operations, &work.before) {
            return work.carry_out_first(operation).await;
        }
        let made = match &change.operations[0] {
            Operation::Tag => {
                let has_room = work
                    .before
                    .balancer_attributes()
                    .is_none_or(|settings| settings.tags().len() < TAGS);
                let reused = work.share.iter().filter(|_| has_room);
                let reused = reused.map(|_| (REUSED_TAG.0.to_owned(), REUSED_TAG.1.to_owned()));
                work.set_tags(
                    &work
                        .owner_tags()
                        .into_iter()
                        .chain(reused)
                        .map(|(k, v)| (k, Some(v)))
                        .collect(),
                )
                .await
            }
            Operation::Untag => {
                work.set_tags(
                    &work
                        .owner_tags()
                        .into_keys()
                        .map(|key| (key, None))
                        .collect(),
                )
                .await
            }
            Operation::Create {
                resource: ResourceKey::Balancer,
                attributes,
            } => return work.create(attributes).await,
            Operation::Update {
                resource: ResourceKey::Balancer,
                attributes,
                changes,
            } => {
                let group = work.update(attributes, changes).await?;
                return Ok(match work.shown(1, None) {
                    Applied::Shown(count, outcome)
                        if changes.iter().any(|difference| difference.key == RANGES) =>
                    {
                        Applied::Shown(count, Box::new(with_group(*outcome, group)))
                    }
                    applied => applied,
                });
            }
            Operation::AddTargets { pool, targets } => match work.add(pool, targets).await {
                Err(error) if error.code() == "InstanceBackendServerNumberOverLimit" => {
                    return work.remove_first(pool, error).await;
                }
                outcome => outcome,
            },
            Operation::RemoveTargets { pool, targets } => work.remove(pool, targets).await,
            Operation::Create {
                resource: ResourceKey::Pool(pool),
                attributes,
            } => {
                return work.create_pool(pool, attributes).await;
            }
            Operation::Update {
                resource: ResourceKey::Pool(pool),
                attributes,
                changes,
            } => work.update_pool(pool, attributes, changes).await,
            Operation::Create {
                resource: ResourceKey::Listener(port),
                attributes,
            } => work.create_listener(port, attributes).await,
            Operation::Update {
                resource: ResourceKey::Listener(port),
                attributes,
                changes,
            } => work.update_listener(port, attributes, changes).await,
            Operation::Delete { resource } => return work.delete_one(resource).await,
            _ => Ok(None),
        };
        Ok(work.shown(1, made?))
    }
}

/// Returns an NLB with the security group for source ranges that it has now.
fn with_group(mut outcome: ObservedLoadBalancer, group: Option<String>) -> ObservedLoadBalancer {
    let graph = outcome.graph.take().unwrap_or_default();
    let settings = graph.balancer_attributes().cloned().unwrap_or_default();
    let attached: Vec<_> = super::texts(settings.get(ATTACHED))
        .into_iter()
        .map(str::to_owned)
        .chain(group.clone())
        .collect();
    outcome.graph = Some(graph.balancer(settings.set(ATTACHED, attached).set(GROUP, group)));
    outcome
}

/// Returns the port that a listener of a CLB redirects to.
fn redirect(settings: &Attributes) -> Option<u64> {
    settings.get("ForwardPort")?.as_u64()
}

/// Returns a later operation that has to come before the first one: the target of a redirect is created before the
/// redirect, and deleted after it.
fn due_first<'o>(operations: &'o [Operation], before: &ResourceGraph) -> Option<&'o Operation> {
    let (first, later) = operations.split_first()?;
    match first {
        Operation::Create {
            resource: ResourceKey::Listener(_),
            attributes,
        } => {
            let to = redirect(attributes)?;
            later.iter().find(|operation| {
                matches!(operation, Operation::Create { resource: resource @ ResourceKey::Listener(port), .. }
                    if u64::from(port.number) == to && !later.iter().any(|operation| operation.deletes(|other| other == resource)))
            })
        }
        Operation::Delete {
            resource: ResourceKey::Listener(port),
        } => {
            let leads_here = |resource: &ResourceKey| {
                before
                    .resources
                    .get(resource)
                    .and_then(redirect)
                    .is_some_and(|to| to == u64::from(port.number))
            };
            later.iter().find(|operation| operation.deletes(leads_here))
        }
        _ => None,
    }
}

impl Work<'_> {
    /// Carries out the creation or deletion of a listener before its turn.
    async fn carry_out_first(&self, operation: &Operation) -> Result<Applied> {
        let mut graph = self.before.clone();
        match operation {
            Operation::Create {
                resource: resource @ ResourceKey::Listener(port),
                attributes,
            } => {
                self.create_listener(port, attributes).await?;
                graph.resources.insert(resource.clone(), attributes.clone());
            }
            Operation::Delete { resource } => {
                match self.delete(resource).await {
                    Err(error) if !error.is_not_found() => return Err(error),
                    _ => {}
                }
                graph
                    .resources
                    .retain(|other_resource, _| other_resource != resource);
            }
            _ => {}
        }
        let observed = self.change.actual.cloned().unwrap_or_default();
        Ok(Applied::PlanAgain(Box::new(ObservedLoadBalancer {
            graph: Some(graph),
            ..observed
        })))
    }

    pub(super) fn product(&self) -> Product {
        if self.is_network { NLB } else { SLB }
    }

    /// Returns an action about the load balancer.
    pub(super) fn query(&self, action: &'static str) -> Query {
        Query::new(self.product(), action).set("LoadBalancerId", self.id)
    }

    /// Sends a change, and lets others use the worker while its job runs.
    pub(super) async fn send(&self, query: Query) -> Made {
        let answer = self.cloud.api.change(query);
        if !self.is_network {
            return answer.await.map(|_| None);
        }
        self.change.callbacks.release_permit();
        let outcome = answer.await;
        self.change.callbacks.reacquire_permit().await;
        outcome.map(|_| None)
    }

    /// Returns the outcome of `count` operations; `made`: the ID of the resource that the first one created.
    pub(super) fn shown(&self, count: usize, made: Option<String>) -> Applied {
        let resource = self.change.operations[0].resource();
        let Some(mut outcome) = self.change.outcome(count) else {
            return Applied::Gone;
        };
        if let (Some(graph), Some(resource), Some(id)) = (&mut outcome.graph, resource, made) {
            let attributes = graph.resources.get(resource).cloned().unwrap_or_default();
            graph
                .resources
                .insert(resource.clone(), attributes.set(ID, id));
        }
        Applied::Shown(count, Box::new(outcome))
    }

    pub(super) fn id_of(&self, resource: &ResourceKey) -> Option<&str> {
        self.before.resources.get(resource)?.text(ID)
    }

    pub(super) fn pool_id<'p>(&'p self, pool: &'p str) -> &'p str {
        self.id_of(&ResourceKey::Pool(pool.to_owned()))
            .unwrap_or(pool)
    }

    pub(super) fn part_name(&self, part: &str) -> String {
        Part::name(
            self.kind,
            part,
            self.change.identity.service,
            &self.cloud.api.config.cluster,
        )
    }

    pub(super) fn name_tag(&self) -> String {
        let identity = self.change.identity;
        identity
            .legacy_owner
            .clone()
            .unwrap_or_else(|| identity.name.clone())
    }

    /// Returns the tags that show the owner.
    pub(super) fn owner_tags(&self) -> Tags {
        let cluster = self.cloud.api.config.cluster.clone();
        let legacy = [
            (NAME_TAG.to_owned(), self.name_tag()),
            (CLUSTER_TAG.to_owned(), cluster),
        ];
        let identity = self.change.identity;
        match &self.share {
            // The tags of the owner would be those of one Service among several.
            Some(share) => [(
                share.tag(),
                identity.owner_tags().cluster.unwrap_or_default(),
            )]
            .into(),
            None => identity.owner_tags().among(legacy.into()),
        }
    }

    /// Returns the tags of a server group of an NLB.
    pub(super) fn group_tags(&self) -> Tags {
        let cluster = self.cloud.api.config.cluster.clone();
        let mut tags = self.spec.balancer.tags();
        tags.extend([
            (NAME_TAG.to_owned(), self.name_tag()),
            (CLUSTER_TAG.to_owned(), cluster),
        ]);
        tags.extend(self.owner_tags());
        tags
    }

    /// Writes tags of the load balancer, and removes those without a value.
    pub(super) async fn set_tags(&self, tags: &BTreeMap<String, Option<String>>) -> Made {
        let kind = if self.is_network {
            "loadbalancer"
        } else {
            "instance"
        };
        let of = |action| {
            Query::new(self.product(), action)
                .set("ResourceType", kind)
                .set("ResourceId", [self.id])
        };
        let new: Tags = tags
            .iter()
            .filter_map(|(key, value)| Some((key.clone(), value.clone()?)))
            .collect();
        let gone: Vec<_> = tags
            .iter()
            .filter(|(_, value)| value.is_none())
            .map(|(key, _)| key)
            .collect();
        if !new.is_empty() {
            self.send(of("TagResources").set("Tag", tag_list(&new)))
                .await?;
        }
        if !gone.is_empty() {
            self.send(of("UntagResources").set("TagKey", gone)).await?;
        }
        Ok(None)
    }
}
