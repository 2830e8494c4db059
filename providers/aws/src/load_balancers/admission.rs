//! Targets, and the rules by which the security groups of Nodes admit a load balancer: both follow from the set of Nodes.

use std::sync::Arc;

use aws_protocol::Query;
use cloud_provider::{Error, EventSubject, Result};
use futures::future::try_join_all;
use provider_kit::firewall::{Peer, Rule, RuleSet};
use provider_kit::load_balancers::{Applied, Operation, ResourceGraph, ResourceKey, Targets};
use serde_json::{Value, json};

use super::apply::{Made, Work};
use super::groups::{
    Group, REFERENCE, Sources, admit, node_rules, owner_of_rules, read_all, reference, rules_of,
};
use super::model::{GROUP, ID, NODES, RULES};
use super::subnets::AGE;
use super::{CIDRS, ElasticLoadBalancers, NETWORK};

/// Targets of one request, as many as the AWS Load Balancer Controller sends.
const TARGETS_AT_ONCE: usize = 200;

impl Work<'_> {
    /// Writes the rules by which Nodes admit the load balancer. A rule for a security group that other load balancers use stays.
    pub(super) async fn admit(&self, operation: &Operation) -> Made {
        let pool = ResourceKey::Pool(NODES.to_owned());
        let is_wanted = !matches!(
            operation,
            Operation::Delete { .. } | Operation::RemoveTargets { .. }
        );
        let groups = match operation {
            Operation::AddTargets { targets, .. } | Operation::RemoveTargets { targets, .. } => {
                targets.clone()
            }
            _ => self.before.targets_of(NODES),
        };
        let rules = |graph: &ResourceGraph| {
            rules_of(
                graph
                    .resources
                    .get(&pool)
                    .and_then(|settings| settings.get(RULES)),
            )
        };
        let named = |rule: Rule| match &rule.peer {
            Peer::Group(group) => Rule {
                peer: Peer::Group(self.group_id(group)),
                ..rule
            }
            .owned_by(REFERENCE),
            Peer::Network(_) => rule,
        };
        let stated = match self
            .after
            .resources
            .get(&pool)
            .and_then(|settings| settings.get(RULES))
        {
            // The groups of Nodes differ in their rules: those that the load balancer needs are written.
            None if is_wanted => self.needed_rules(&pool),
            _ => rules(&self.after),
        };
        let wanted: Vec<Rule> = stated
            .into_iter()
            .filter(|_| is_wanted)
            .map(named)
            .collect();
        if self.is_leaving() {
            self.cloud.leaving().insert(self.id.to_owned());
        }
        let sources = self.sources(groups.is_empty()).await?;
        let cluster = self.cloud.api.identity().await?;
        let all = self.cloud.security_group_list().await?;
        let is_tagged = |id: &str| {
            all.iter()
                .any(|group| group.group_id == id && cluster.has(&group.tag_set))
        };
        let edits = groups.iter().map(async |group| {
            let name = owner_of_rules(self.kind, self.name).to_owned();
            let sources = sources.clone();
            let wanted = wanted.clone();
            let place = (group.to_owned(), is_tagged(group));
            let edit = move |rules: &mut RuleSet| {
                admit(rules, (&place.0, place.1), &name, &sources, &wanted);
                Ok(())
            };
            self.cloud.rules.edit(&group.to_owned(), edit).await
        });
        try_join_all(edits).await.map(|_| None)
    }

    /// Returns the security groups of the load balancer whose rules in the groups of Nodes may go: those that were created for it,
    /// and those of the user that no other load balancer has.
    async fn sources(&self, has_no_groups: bool) -> Result<Sources> {
        let own_groups = self
            .before
            .resources
            .iter()
            .filter(|(resource, _)| resource.is_of_kind(GROUP));
        let own_ids: Vec<String> = own_groups
            .filter_map(|(_, settings)| settings.text(ID).map(str::to_owned))
            .collect();
        let mut users = Vec::new();
        for id in self
            .before
            .balancer_attributes()
            .and_then(|settings| self.group_ids(settings))
            .unwrap_or_default()
        {
            if !own_ids.contains(&id)
                && !has_no_groups
                && !self.cloud.is_used_beside(&id, self.id).await?
            {
                users.push(id);
            }
        }
        Ok(Sources {
            own: own_ids,
            users,
        })
    }

    /// Returns the rules by which Nodes admit the load balancer as it is.
    fn needed_rules(&self, pool: &ResourceKey) -> Vec<Rule> {
        let groups = self
            .after
            .balancer_attributes()
            .and_then(|settings| self.group_ids(settings))
            .unwrap_or_default();
        if let Some(first) = groups.first() {
            return vec![reference(first)];
        }
        let cidrs = self
            .before
            .resources
            .get(pool)
            .and_then(|settings| settings.get(CIDRS))
            .and_then(Value::as_array);
        let cidrs: Vec<_> = cidrs
            .into_iter()
            .flatten()
            .filter_map(|cidr| cidr.as_str()?.parse().ok())
            .collect();
        node_rules(self.name, self.spec, &cidrs)
    }

    /// Adds or removes targets, and returns those that AWS refuses, such as a stopped instance. One that is refused keeps no
    /// other one out, and is reported.
    pub(super) async fn targets(
        &self,
        pool: &str,
        targets: &Targets,
        is_added: bool,
    ) -> Result<Targets> {
        let target = |text: &str| match (self.kind, text.split_once(':')) {
            (NETWORK, Some((id, port))) => json!({"Id": id, "Port": port}),
            (NETWORK, None) => json!({"Id": text}),
            _ => json!({"InstanceId": text}),
        };
        let arn = self.id_of(Some(&ResourceKey::Pool(pool.to_owned())));
        let query = match (self.kind, is_added) {
            (NETWORK, true) => Query::new("RegisterTargets").set("TargetGroupArn", arn),
            (NETWORK, false) => Query::new("DeregisterTargets").set("TargetGroupArn", arn),
            (_, true) => self.query("RegisterInstancesWithLoadBalancer"),
            (_, false) => self.query("DeregisterInstancesFromLoadBalancer"),
        };
        let list = if self.kind == NETWORK {
            "Targets"
        } else {
            "Instances"
        };
        let send = |targets: &[Value]| self.send(query.clone().set(list, targets));
        let mut refused = Vec::new();
        for targets in targets
            .iter()
            .map(|other_target| (other_target, target(other_target)))
            .collect::<Vec<_>>()
            .chunks(TARGETS_AT_ONCE)
        {
            let bodies: Vec<Value> = targets.iter().map(|(_, body)| body.clone()).collect();
            let Err(error) = send(&bodies).await else {
                continue;
            };
            if !is_about_targets(&error) {
                return Err(error);
            }
            for (target, body) in targets {
                match send(std::slice::from_ref(body)).await {
                    Err(error) if is_about_targets(&error) => {
                        self.cloud.report_refused(target, &error);
                        refused.push(*target);
                    }
                    answer => drop(answer?),
                }
            }
        }
        Ok(refused.into_iter().collect())
    }
}

/// Returns `true` if AWS refused targets, and not the request as a whole.
fn is_about_targets(error: &Error) -> bool {
    error.is_invalid()
        || matches!(
            error.code(),
            "InvalidTarget" | "InvalidInstance" | "InvalidEndPoint"
        )
}

/// An outcome with fewer targets.
pub(super) trait WithoutTargets {
    fn without_targets(self, pool: &str, refused: &Targets) -> Self;
}

impl WithoutTargets for Applied {
    fn without_targets(self, pool: &str, refused: &Targets) -> Self {
        let Self::Shown(count, mut shown) = self else {
            return self;
        };
        if let Some(graph) = &mut shown.graph {
            graph
                .targets
                .insert(pool.to_owned(), graph.targets_of(pool).without(refused));
        }
        Self::Shown(count, shown)
    }
}

impl ElasticLoadBalancers {
    /// Returns the security groups of the VPC, read at most [`AGE`] ago.
    async fn security_group_list(&self) -> Result<Arc<Vec<Group>>> {
        Ok(self
            .groups
            .get(AGE, async || read_all(&self.api).await)
            .await?
            .0)
    }

    /// Reports that AWS refuses an instance as a target, on its Node if that is known.
    fn report_refused(&self, target: &str, error: &Error) {
        let id = target.split(':').next().unwrap_or_default();
        let nodes = self.cluster.nodes().unwrap_or_default();
        let node = nodes
            .iter()
            .find(|node| node.provider_id.ends_with(&format!("/{id}")));
        let text = format!(
            "instance {id} is no target of load balancers until AWS accepts it ({})",
            error.code()
        );
        match node {
            Some(node) => {
                self.deduplicator
                    .warn(true, EventSubject::Node(node), "TargetRefused", &text);
            }
            None => tracing::warn!("{text}"),
        }
    }
}
