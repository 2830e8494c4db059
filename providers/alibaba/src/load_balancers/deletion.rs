//! The deletion of load balancers of both kinds, and of their resources.

use cloud_provider::{Error, Result};
use provider_kit::load_balancers::{Applied, Attributes, Operation, ResourceKey};

use super::ID;
use super::apply::{Made, Work};
use super::groups::is_of_user;
use super::names::is_reused;
use super::read::LEFT;
use super::source_ranges::{GROUP, group_key};
use crate::api::{ECS, NLB, Query, SLB};

/// Server groups that are untagged with one request.
const GROUPS: usize = 20;

impl Work<'_> {
    /// Deletes the load balancer with its listeners; server groups of an NLB remain.
    pub(super) async fn leave(&self) -> Result<Applied> {
        if self.share.is_some() || is_reused(self.kind) {
            return Err(Error::other(format!(
                "load balancer {} of the user is not deleted",
                self.id
            )));
        }
        let is_listener = |operation: &&Operation| {
            operation.deletes(|resource| matches!(resource, ResourceKey::Listener(_)))
        };
        if self.spec.is_preserved {
            self.unprotect().await?;
            if !self.is_network {
                let query = self.query("SetLoadBalancerModificationProtection");
                self.send(query.set("ModificationProtectionStatus", "NonProtection"))
                    .await?;
            }
            self.release_groups().await?;
            self.set_tags(
                &self
                    .owner_tags()
                    .into_keys()
                    .map(|key| (key, None))
                    .collect(),
            )
            .await?;
            return Ok(Applied::Protected);
        }
        let service = self.change.identity.service;
        let place = format!("load balancer {}", self.id);
        self.cloud.report_deleted_with(
            self.before.balancer_attributes(),
            "listeners",
            &place,
            service,
        );
        match self.unprotect().await {
            Err(error) if error.is_not_found() => return Ok(Applied::Gone),
            outcome => drop(outcome?),
        }
        let is_there = match self.send(self.query("DeleteLoadBalancer")).await {
            Err(error) if error.is_not_found() => false,
            outcome => outcome.map(|_| true)?,
        };
        let listeners = self
            .change
            .operations
            .iter()
            .take_while(is_listener)
            .count();
        let pools = self
            .before
            .resources
            .keys()
            .any(|resource| matches!(resource, ResourceKey::Pool(_)));
        let group = self
            .before
            .balancer_attributes()
            .and_then(|settings| settings.text(GROUP))
            .map(str::to_owned);
        if !self.is_network || !(pools || group.is_some()) || !is_there {
            return Ok(if is_there {
                Applied::Removed
            } else {
                Applied::Gone
            });
        }
        let mut left = self.change.outcome(listeners).unwrap_or_default();
        let mut graph = left.graph.take().unwrap_or_default();
        graph
            .resources
            .retain(|resource, _| matches!(resource, ResourceKey::Pool(_)));
        if let Some(id) = group {
            graph = graph.resource(group_key(), Attributes::default().set(ID, id));
        }
        left.graph = Some(graph);
        left.id = format!("{LEFT}{}", self.name_tag());
        left.ingress.clear();
        Ok(Applied::PlanAgain(Box::new(left)))
    }

    /// Removes our tags from the server groups of an NLB that stays.
    async fn release_groups(&self) -> Made {
        let is_pool =
            |resource: &&ResourceKey| self.is_network && matches!(resource, ResourceKey::Pool(_));
        let ids: Vec<_> = self
            .before
            .resources
            .keys()
            .filter(is_pool)
            .filter_map(|resource| self.id_of(resource))
            .collect();
        for ids in ids.chunks(GROUPS) {
            let query = Query::new(NLB, "UntagResources")
                .set("ResourceType", "servergroup")
                .set("ResourceId", ids);
            self.send(query.set("TagKey", self.group_tags().into_keys().collect::<Vec<_>>()))
                .await?;
        }
        Ok(None)
    }

    async fn unprotect(&self) -> Made {
        if !self.is_network {
            return self
                .send(
                    self.query("SetLoadBalancerDeleteProtection")
                        .set("DeleteProtection", "off"),
                )
                .await;
        }
        let query = self
            .query("UpdateLoadBalancerProtection")
            .set("DeletionProtectionEnabled", false);
        self.send(query.set("ModificationProtectionStatus", "NonProtection"))
            .await
    }

    /// Deletes a resource; what is gone with its load balancer needs no request.
    pub(super) async fn delete(&self, resource: &ResourceKey) -> Made {
        let existing_settings = self.before.resources.get(resource);
        if let ResourceKey::Pool(pool) = resource
            && is_of_user(pool)
        {
            return self.remove(pool, &self.before.targets_of(pool)).await;
        }
        if let ResourceKey::Pool(pool) = resource {
            let place = format!("server group {pool:?}");
            self.cloud.report_deleted_with(
                existing_settings,
                "backends",
                &place,
                self.change.identity.service,
            );
        }
        let query = match (self.is_network, resource) {
            (_, ResourceKey::Balancer) => return Ok(None),
            (_, resource) if *resource == group_key() => {
                Query::new(ECS, "DeleteSecurityGroup").set("SecurityGroupId", self.id_of(resource))
            }
            (false, ResourceKey::Pool(pool)) => {
                Query::new(SLB, "DeleteVServerGroup").set("VServerGroupId", self.pool_id(pool))
            }
            (_, ResourceKey::Pool(pool)) => {
                Query::new(NLB, "DeleteServerGroup").set("ServerGroupId", self.pool_id(pool))
            }
            (false, ResourceKey::Listener(port)) => {
                let protocol = existing_settings.and_then(|settings| settings.text("Protocol"));
                let query = self
                    .query("DeleteLoadBalancerListener")
                    .set("ListenerPort", port.number);
                query.set("ListenerProtocol", protocol)
            }
            (_, resource) => {
                let id = self
                    .id_of(resource)
                    .ok_or_else(|| Error::conflict("the listener has no known ID"))?;
                Query::new(NLB, "DeleteListener").set("ListenerId", id)
            }
        };
        self.send(query).await
    }

    /// Deletes a resource that may be gone already. If it was the last one, the cloud has confirmed the deletion, unless
    /// the resource was not found.
    pub(super) async fn delete_one(&self, resource: &ResourceKey) -> Result<Applied> {
        let is_there = match self.delete(resource).await {
            Err(error) if error.is_not_found() => false,
            outcome => outcome.map(|_| true)?,
        };
        Ok(match self.shown(1, None) {
            Applied::Gone if is_there => Applied::ReadAgain,
            applied => applied,
        })
    }
}
