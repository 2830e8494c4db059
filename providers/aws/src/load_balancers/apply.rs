//! Changes of load balancers of both kinds: one operation after the other.

use std::collections::BTreeMap;
use std::time::Duration;

use aws_protocol::Query;
use cloud_provider::{Error, Result};
use provider_kit::firewall::RuleSet;
use provider_kit::load_balancers::{
    Applied, Attributes, Change, Difference, ObservedLoadBalancer, Operation, POOL, Port,
    ResourceGraph, ResourceKey, Targets, changed_tags, tag_key,
};
use provider_kit::operation::{Polling, until_done};
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::admission::WithoutTargets;
use super::groups::{Group, rules_of};
use super::model::{
    Answer, Balancer, ClassicListener, FIRST_OF_GROUP, GROUP, ID, INSTANCES, IS_OURS, NODES,
    POLICY, PROXY, RULES, TargetGroup, is_attribute, parameters, with_first,
};
use super::names::{owner_tags, security_group_description, target_group};
use super::read::{LEFT, PROXY_POLICY, TLS_POLICY, id_parameter, tagged_parameter};
use super::spec::Spec;
use super::{CLASSIC, ElasticLoadBalancers, NETWORK, client};
use crate::api::{CLUSTER_TAG, LEGACY_TAG, Tag};

/// Pauses between attempts to delete what is still in use: network interfaces go some time after their load balancer.
const DELETION: Polling = Polling {
    first: Duration::from_secs(10),
    growth: 1.0,
    max_interval: Duration::from_secs(5),
    timeout: Duration::from_secs(120),
    retry_after: Duration::from_secs(10),
};

/// An operation, with the load balancer before and after it.
pub(super) struct Work<'a> {
    pub(super) cloud: &'a ElasticLoadBalancers,
    pub(super) change: Change<'a>,
    pub(super) spec: &'a Spec,
    pub(super) kind: &'static str,
    /// Name and ID of the load balancer.
    pub(super) name: &'a str,
    pub(super) id: &'a str,
    pub(super) before: ResourceGraph,
    pub(super) after: ResourceGraph,
}

impl ElasticLoadBalancers {
    /// Carries out the first operation; the creation of a classic load balancer comprises its listeners.
    pub(super) async fn carry_out(&self, change: Change<'_>, spec: &Spec) -> Result<Applied> {
        let (kind, name, id) = match change.actual {
            Some(actual) => (actual.kind, &*actual.name, &*actual.id),
            None => (change.identity.kind, &*change.identity.name, ""),
        };
        let before = change
            .actual
            .and_then(|load_balancer| load_balancer.graph.clone())
            .unwrap_or_default();
        let after = change
            .outcome(1)
            .and_then(|load_balancer| load_balancer.graph)
            .unwrap_or_default();
        let work = Work {
            cloud: self,
            change,
            spec,
            kind,
            name,
            id,
            before,
            after,
        };
        if work.is_leaving() {
            work.check_protection().await?;
        }
        let made = match &change.operations[0] {
            Operation::Tag => work.own().await,
            Operation::Untag => Ok(None),
            Operation::Create {
                resource: ResourceKey::Balancer,
                attributes,
            } => return work.create(attributes).await,
            Operation::Update {
                resource: ResourceKey::Balancer,
                attributes,
                changes,
            } => work.update(attributes, changes).await,
            Operation::Delete {
                resource: ResourceKey::Balancer,
            } => {
                work.remove("the load balancer", work.query("DeleteLoadBalancer"), false)
                    .await
            }
            current
                if current.targets_of() == Some(NODES)
                    || current.resource() == Some(&ResourceKey::Pool(NODES.to_owned())) =>
            {
                work.admit(current).await
            }
            entry
                if entry
                    .resource()
                    .is_some_and(|resource| resource.is_of_kind(GROUP)) =>
            {
                work.security_group(entry).await
            }
            Operation::AddTargets { pool, targets } => {
                let refused = work.targets(pool, targets, true).await?;
                return Ok(work.shown(None).without_targets(pool, &refused));
            }
            Operation::RemoveTargets { pool, targets } => {
                work.targets(pool, targets, false).await.map(|_| None)
            }
            object if kind == CLASSIC => work.classic(object).await,
            operation => work.network(operation).await,
        };
        Ok(work.shown(made?))
    }
}

/// ID of a resource that was created, if one was.
pub(super) type Made = Result<Option<String>>;

impl Work<'_> {
    /// Returns the outcome; `made`: the ID of the resource that was created.
    fn shown(&self, made: Option<String>) -> Applied {
        let resource = self.change.operations[0].resource();
        let Some(mut outcome) = self.change.outcome(1) else {
            // AWS also confirms the deletion of a load balancer that is another account's; that of a security group is proof.
            return if resource.is_some_and(|resource| resource.is_of_kind(GROUP)) {
                Applied::Removed
            } else {
                Applied::Gone
            };
        };
        if let (Some(graph), Some(resource), Some(id)) = (&mut outcome.graph, resource, made) {
            let attributes = graph.resources.get(resource).cloned().unwrap_or_default();
            graph
                .resources
                .insert(resource.clone(), attributes.set(ID, id).set(IS_OURS, true));
        }
        if self.after.balancer_attributes().is_none() {
            outcome.id = format!("{LEFT}{} {}", self.kind, self.name);
        }
        Applied::Shown(1, Box::new(outcome))
    }

    /// Sends a change that can be sent again, for a load balancer of this kind.
    pub(super) async fn send(&self, query: Query) -> Made {
        client(&self.cloud.api, self.kind)
            .change::<IgnoredAny>(query.repeatable())
            .await
            .map(|_| None)
    }

    /// Sends a change of an object of EC2 that can be sent again.
    async fn send_to_ec2(&self, query: Query) -> Made {
        self.cloud
            .api
            .aws
            .ec2
            .change::<IgnoredAny>(query.repeatable())
            .await
            .map(|_| None)
    }

    /// Returns a query about the load balancer.
    pub(super) fn query(&self, action: &'static str) -> Query {
        Query::new(action).set(id_parameter(self.kind), self.id)
    }

    /// Deletes something as soon as nothing uses it any more. A security group that is not found may be another account's: that
    /// is an error, after which everything is read again.
    async fn remove(&self, what: &str, query: Query, is_ec2: bool) -> Made {
        let attempt = async || {
            let query = query.clone();
            match if is_ec2 {
                self.send_to_ec2(query).await
            } else {
                self.send(query).await
            } {
                Err(error) if matches!(error.code(), "DependencyViolation" | "ResourceInUse") => {
                    Ok(None)
                }
                Err(error) if error.is_not_found() && !is_ec2 => Ok(Some(None)),
                answer => answer.map(Some),
            }
        };
        if attempt().await?.is_some() {
            return Ok(None);
        }
        self.change.callbacks.release_permit();
        let outcome = until_done(
            &format!("deletion of {what}, which something uses,"),
            DELETION,
            &attempt,
        )
        .await;
        self.change.callbacks.reacquire_permit().await;
        outcome
    }

    /// Returns `true` if the plan deletes the load balancer.
    pub(super) fn is_leaving(&self) -> bool {
        self.change
            .operations
            .iter()
            .any(|operation| operation.deletes(|resource| *resource == ResourceKey::Balancer))
    }

    /// Checks that AWS will delete the load balancer, before anything that belongs to it is deleted.
    async fn check_protection(&self) -> Result<()> {
        if self.kind != NETWORK || !self.is_there() || self.cloud.leaving().contains(self.id) {
            return Ok(());
        }
        let query = self.query("DescribeLoadBalancerAttributes");
        let shown: Option<Answer> = self.cloud.api.aws.elbv2.find(query).await?;
        let is_protection =
            |tag: &Tag| tag.key == "deletion_protection.enabled" && tag.value == "true";
        if shown.is_some_and(|shown| shown.attributes.iter().any(is_protection)) {
            return Err(Error::other(format!(
                "load balancer {:?} has deletion protection: it and everything that belongs to it stay. Set attribute \
                 deletion_protection.enabled to false to let it be deleted",
                self.name
            )));
        }
        self.cloud.leaving().insert(self.id.to_owned());
        Ok(())
    }

    /// Returns `true` if there is a load balancer, and not only what is left of one.
    fn is_there(&self) -> bool {
        self.before.balancer_attributes().is_some()
    }

    /// Returns the ID of a resource.
    pub(super) fn id_of(&self, resource: Option<&ResourceKey>) -> Option<&str> {
        self.before.resources.get(resource?)?.text(ID)
    }

    /// Returns the ID of a security group, which may be named by its resource.
    pub(super) fn group_id(&self, group: &str) -> String {
        self.id_of(Some(&super::group_resource(group)))
            .unwrap_or(group)
            .to_owned()
    }

    pub(super) fn group_ids(&self, settings: &Attributes) -> Option<Vec<String>> {
        Some(
            settings
                .get("SecurityGroups")?
                .as_array()?
                .iter()
                .filter_map(Value::as_str)
                .map(|text| self.group_id(text))
                .collect(),
        )
    }

    /// Writes tags of the load balancer, or of the security group with this ID, and removes those without a value.
    async fn set_tags(&self, group: Option<&str>, tags: &BTreeMap<String, Option<String>>) -> Made {
        let new = Query::tag_list(
            tags.iter()
                .filter_map(|(key, value)| Some((key, value.as_ref()?))),
        );
        let gone: Vec<_> = tags
            .iter()
            .filter(|(_, value)| value.is_none())
            .map(|(key, _)| key)
            .collect();
        let keys: Vec<_> = gone.iter().map(|key| json!({"Key": key})).collect();
        let of = |action| match group {
            Some(id) => Query::new(action).set("ResourceId", [id]),
            None => Query::new(action).set(tagged_parameter(self.kind), [self.id]),
        };
        if gone.len() < tags.len() {
            match group {
                Some(_) => self.send_to_ec2(of("CreateTags").set("Tag", new)).await?,
                None => self.send(of("AddTags").set("Tags", new)).await?,
            };
        }
        match group {
            _ if gone.is_empty() => Ok(None),
            Some(_) => self.send_to_ec2(of("DeleteTags").set("Tag", keys)).await,
            None if self.kind == NETWORK => self.send(of("RemoveTags").set("TagKeys", gone)).await,
            None => self.send(of("RemoveTags").set("Tags", keys)).await,
        }
    }

    /// Writes the owner tags.
    async fn own(&self) -> Made {
        let tags = owner_tags(self.change.identity)
            .into_iter()
            .map(|(key, value)| (key, Some(value)))
            .collect();
        if let Some(id) = self.id_of(
            self.before
                .resources
                .keys()
                .find(|resource| resource.is_of_kind(GROUP)),
        ) {
            self.set_tags(Some(id), &tags).await?;
        }
        self.set_tags(None, &tags).await
    }

    async fn create(&self, settings: &Attributes) -> Result<Applied> {
        let mut tags = settings.tags();
        tags.extend(owner_tags(self.change.identity));
        let wanted = self
            .change
            .outcome_of_all()
            .and_then(|load_balancer| load_balancer.graph)
            .unwrap_or_default();
        let is_internal = settings.text("Scheme") == Some("internal");
        let query =
            Query::new("CreateLoadBalancer").set("Scheme", is_internal.then_some("internal"));
        let query = query
            .set("SecurityGroups", self.group_ids(settings))
            .set("Tags", Query::tag_list(tags));
        let query = match self.kind {
            NETWORK => query
                .set("Name", self.name)
                .set("Type", "network")
                .set("SubnetMappings", subnet_mappings(settings))
                .set(
                    "IpAddressType",
                    settings
                        .text("IpAddressType")
                        .filter(|ip_address_type| *ip_address_type != "ipv4"),
                ),
            _ => {
                let listeners = wanted
                    .listeners()
                    .map(|(port, settings)| classic_listener(port, settings));
                let query = query
                    .set("LoadBalancerName", self.name)
                    .set("Subnets", settings.get("Subnets"));
                query.set("Listeners", listeners.collect::<Result<Vec<_>>>()?)
            }
        };
        let created: Answer = client(&self.cloud.api, self.kind).change(query).await?;
        self.cloud
            .note_use(
                created
                    .load_balancers
                    .first()
                    .map_or(self.name, Balancer::id),
            )
            .await;
        let head = created
            .load_balancers
            .first()
            .map(|load_balancer| load_balancer.head(&BTreeMap::new(), true));
        let mut outcome = self.change.outcome(1).unwrap_or_default();
        outcome.id = head.as_ref().map_or_else(
            || self.name.to_owned(),
            |load_balancer| load_balancer.id.clone(),
        );
        outcome.ingress = head.map_or_else(
            || vec![ObservedLoadBalancer::host(&created.dns_name)],
            |load_balancer| load_balancer.ingress,
        );
        let mut graph = outcome.graph.take().unwrap_or_default();
        graph = graph.balancer(with_first(
            self.kind,
            settings.clone().matching(|key| !is_attribute(key)),
        ));
        if self.kind == CLASSIC {
            for (port, settings) in wanted.listeners() {
                let settings = settings
                    .clone()
                    .matching(|key| key != POLICY)
                    .set(PROXY, false);
                graph = graph.resource(ResourceKey::Listener(port.clone()), settings);
            }
            graph = graph.pool(INSTANCES, Attributes::default(), Some(Targets::default()));
        }
        Ok(Applied::PlanAgain(Box::new(ObservedLoadBalancer {
            graph: Some(graph),
            ..outcome
        })))
    }

    async fn update(&self, settings: &Attributes, changes: &[Difference]) -> Made {
        // A setting that the cloud refuses does not keep the others from being changed.
        let made = [
            self.update_subnets(settings, changes).await,
            self.update_address_type(settings, changes).await,
            self.update_security_groups(settings, changes).await,
            self.set_tags(None, &changed_tags(changes))
                .await
                .map(|_| None),
            self.update_attributes(settings, changes).await,
        ];
        made.into_iter().collect::<Result<Vec<_>>>().map(|_| None)
    }

    async fn update_subnets(&self, settings: &Attributes, changes: &[Difference]) -> Made {
        match changes.iter().find(|change| change.key == "Subnets") {
            Some(subnets) => self.set_subnets(settings, subnets).await,
            None => Ok(None),
        }
    }

    async fn update_address_type(&self, settings: &Attributes, changes: &[Difference]) -> Made {
        if !changes.iter().any(|change| change.key == "IpAddressType") {
            return Ok(None);
        }
        self.send(
            self.query("SetIpAddressType")
                .set("IpAddressType", settings.get("IpAddressType")),
        )
        .await
    }

    async fn update_security_groups(&self, settings: &Attributes, changes: &[Difference]) -> Made {
        if !changes.iter().any(|change| change.key == "SecurityGroups") {
            return Ok(None);
        }
        let action = if self.kind == NETWORK {
            "SetSecurityGroups"
        } else {
            "ApplySecurityGroupsToLoadBalancer"
        };
        let made = self
            .send(
                self.query(action)
                    .set("SecurityGroups", self.group_ids(settings)),
            )
            .await?;
        self.cloud.note_use(self.id).await;
        Ok(made)
    }

    async fn update_attributes(&self, settings: &Attributes, changes: &[Difference]) -> Made {
        if !changes.iter().any(|change| is_attribute(&change.key)) {
            return Ok(None);
        }
        let query = self.query("ModifyLoadBalancerAttributes");
        let stated = settings.clone().matching(is_attribute);
        let query = match self.kind {
            NETWORK => query.set("Attributes", pairs(&stated)),
            _ => query.set("LoadBalancerAttributes", stated.nested()),
        };
        self.send(query).await
    }

    async fn set_subnets(&self, settings: &Attributes, change: &Difference) -> Made {
        if self.kind == NETWORK {
            return self
                .send(
                    self.query("SetSubnets")
                        .set("SubnetMappings", subnet_mappings(settings)),
                )
                .await;
        }
        let without = |all: &Value, others: &Value| -> Vec<Value> {
            let is_other = |object: &&Value| {
                others
                    .as_array()
                    .is_some_and(|others| others.contains(object))
            };
            all.as_array()
                .into_iter()
                .flatten()
                .filter(|object| !is_other(object))
                .cloned()
                .collect()
        };
        for (action, subnets) in [
            (
                "DetachLoadBalancerFromSubnets",
                without(&change.from, &change.to),
            ),
            (
                "AttachLoadBalancerToSubnets",
                without(&change.to, &change.from),
            ),
        ] {
            if !subnets.is_empty() {
                self.send(self.query(action).set("Subnets", subnets))
                    .await?;
            }
        }
        Ok(None)
    }

    /// Writes all rules of the load balancer's own security group.
    async fn set_rules(&self, group: &str, settings: &Attributes) -> Made {
        let rules = rules_of(settings.get(RULES));
        let edit = move |group_rules: &mut RuleSet| {
            group_rules.replace(&rules, |_| true);
            Ok(())
        };
        self.cloud
            .rules
            .edit(&group.to_owned(), edit)
            .await
            .map(|()| None)
    }

    async fn security_group(&self, operation: &Operation) -> Made {
        let api = &self.cloud.api;
        let identity = self.change.identity;
        let Some(resource @ ResourceKey::CreatedBefore(auxiliary)) = operation.resource() else {
            return Ok(None);
        };
        let known = self.id_of(Some(resource)).unwrap_or_default();
        match operation {
            Operation::Create { attributes, .. } => {
                let mut tags = attributes.tags();
                tags.extend(owner_tags(identity));
                let query = Query::new("CreateSecurityGroup").set("GroupName", &auxiliary.name);
                let description =
                    security_group_description(self.kind, identity.service, self.name);
                let query = query
                    .set("GroupDescription", description)
                    .set("VpcId", &api.identity().await?.vpc);
                let created: Group = api
                    .aws
                    .ec2
                    .change(query.tags("security-group", tags))
                    .await?;
                self.set_rules(&created.group_id, attributes).await?;
                Ok(Some(created.group_id))
            }
            Operation::Update {
                attributes,
                changes,
                ..
            } => {
                let of_cluster = |difference: &&Difference| {
                    let key = tag_key(&difference.key).unwrap_or_default();
                    !difference.from.is_null()
                        && (key.starts_with(CLUSTER_TAG) || key == LEGACY_TAG)
                };
                if let Some(tag) = changes.iter().find(of_cluster) {
                    return Err(Error::invalid(format!(
                        "security group {known} ({}): {} is {}, and not {}; correct it, or delete the group",
                        auxiliary.name, tag.key, tag.from, tag.to
                    )));
                }
                self.set_tags(Some(known), &changed_tags(changes)).await?;
                self.set_rules(known, attributes).await
            }
            _ => {
                let query = Query::new("DeleteSecurityGroup").set("GroupId", known);
                self.remove(&format!("security group {known}"), query, true)
                    .await
            }
        }
    }

    async fn classic(&self, operation: &Operation) -> Made {
        let none = Attributes::default();
        let before = operation
            .resource()
            .and_then(|resource| self.before.resources.get(resource))
            .unwrap_or(&none);
        match operation {
            // They go with the load balancer.
            Operation::Delete { .. } if self.is_leaving() => Ok(None),
            Operation::Update {
                resource: ResourceKey::Pool(_),
                attributes,
                ..
            } => {
                self.send(
                    self.query("ConfigureHealthCheck")
                        .set("HealthCheck", parameters(attributes)),
                )
                .await
            }
            Operation::Create {
                resource: ResourceKey::Listener(port),
                attributes,
            } => self.create_classic_listener(port, attributes).await,
            Operation::Update {
                resource: ResourceKey::Listener(port),
                attributes,
                changes,
            } => {
                if changes
                    .iter()
                    .all(|difference| [POLICY, PROXY].contains(&&*difference.key))
                {
                    return self.set_policies(port, before, attributes).await;
                }
                self.delete_classic_listener(port, before).await?;
                self.create_classic_listener(port, attributes).await
            }
            Operation::Delete {
                resource: ResourceKey::Listener(port),
            } => self.delete_classic_listener(port, before).await,
            _ => Ok(None),
        }
    }

    async fn create_classic_listener(&self, port: &Port, settings: &Attributes) -> Made {
        let query = self
            .query("CreateLoadBalancerListeners")
            .set("Listeners", [classic_listener(port, settings)?]);
        self.send(query).await?;
        self.set_policies(port, &Attributes::default(), settings)
            .await
    }

    async fn delete_classic_listener(&self, port: &Port, settings: &Attributes) -> Made {
        self.set_policies(port, settings, &settings.clone().set(PROXY, false))
            .await?;
        self.send(
            self.query("DeleteLoadBalancerListeners")
                .set("LoadBalancerPorts", [port.number]),
        )
        .await
    }

    /// Sets the policies of a classic listener and of its instance port.
    async fn set_policies(&self, port: &Port, before: &Attributes, settings: &Attributes) -> Made {
        let has_proxy =
            |settings: &Attributes| settings.get(PROXY).is_some_and(|proxy| *proxy == true);
        if has_proxy(before) != has_proxy(settings) {
            let names = if has_proxy(settings) {
                json!([PROXY_POLICY])
            } else {
                json!("")
            };
            if has_proxy(settings) {
                self.create_policy(
                    PROXY_POLICY,
                    "ProxyProtocolPolicyType",
                    "ProxyProtocol",
                    "true",
                )
                .await?;
            }
            let query = self.query("SetLoadBalancerPoliciesForBackendServer");
            let query = query.set("InstancePort", settings.get("InstancePort"));
            self.send(query.set("PolicyNames", names)).await?;
        }
        let is_tls = matches!(settings.text("Protocol"), Some("SSL" | "HTTPS"));
        let Some(policy) = settings
            .text(POLICY)
            .filter(|policy| is_tls && before.text(POLICY) != Some(policy))
        else {
            return Ok(None);
        };
        let name = format!("{TLS_POLICY}{policy}");
        self.create_policy(
            &name,
            "SSLNegotiationPolicyType",
            "Reference-Security-Policy",
            policy,
        )
        .await?;
        let query = self
            .query("SetLoadBalancerPoliciesOfListener")
            .set("LoadBalancerPort", port.number);
        self.send(query.set("PolicyNames", [name])).await
    }

    async fn create_policy(&self, name: &str, kind: &str, attribute: &str, value: &str) -> Made {
        let query = self
            .query("CreateLoadBalancerPolicy")
            .set("PolicyName", name)
            .set("PolicyTypeName", kind);
        let attributes = json!([{"AttributeName": attribute, "AttributeValue": value}]);
        match self.send(query.set("PolicyAttributes", attributes)).await {
            Err(error) if error.code() == "DuplicatePolicyName" => Ok(None),
            answer => answer,
        }
    }

    async fn network(&self, operation: &Operation) -> Made {
        let id = self.id_of(operation.resource());
        match operation {
            Operation::Create {
                resource: ResourceKey::Pool(_),
                attributes,
            } => self.create_target_group(attributes).await.map(Some),
            Operation::Update {
                resource: ResourceKey::Pool(name),
                attributes,
                changes,
            } => {
                self.update_target_group(name, id.unwrap_or_default(), attributes, changes)
                    .await
            }
            Operation::Delete {
                resource: ResourceKey::Pool(name),
            } => self.delete_target_group(name, id).await,
            Operation::Create {
                resource: ResourceKey::Listener(port),
                attributes,
            } => {
                let is_taken = |(other_port, _): &(&Port, &Attributes)| {
                    other_port.number == port.number && other_port.protocol != port.protocol
                };
                if let Some(other) = self
                    .before
                    .listeners()
                    .find(is_taken)
                    .and_then(|(_, settings)| settings.text(ID))
                {
                    self.send(Query::new("DeleteListener").set("ListenerArn", other))
                        .await?;
                }
                let query = self
                    .query("CreateListener")
                    .set("Port", port.number)
                    .set("Tags", self.part_tags().await?);
                let created: Answer = self
                    .cloud
                    .api
                    .aws
                    .elbv2
                    .change(self.listener(query, attributes))
                    .await?;
                Ok(created
                    .listeners
                    .into_iter()
                    .next()
                    .map(|listener| listener.listener_arn))
            }
            Operation::Update {
                resource: ResourceKey::Listener(_),
                attributes,
                ..
            } => {
                self.send(self.listener(
                    Query::new("ModifyListener").set("ListenerArn", id),
                    attributes,
                ))
                .await
            }
            Operation::Delete {
                resource: ResourceKey::Listener(_),
            } => {
                let query = Query::new("DeleteListener").set("ListenerArn", id);
                self.cloud.api.aws.elbv2.remove(query).await.map(|()| None)
            }
            _ => Ok(None),
        }
    }

    /// Returns the tags of a new listener or target group.
    async fn part_tags(&self) -> Result<Value> {
        let tags = super::tags(self.cloud.api.identity().await?, None, &self.spec.tags);
        Ok(Query::tag_list(
            tags.into_iter().chain(owner_tags(self.change.identity)),
        ))
    }

    /// Adds the settings of a listener to a query.
    fn listener(&self, query: Query, settings: &Attributes) -> Query {
        let pool = settings
            .text(POOL)
            .map(|pool| ResourceKey::Pool(pool.to_owned()));
        let action = json!([{"Type": "forward", "TargetGroupArn": self.id_of(pool.as_ref())}]);
        let is_tls = settings.text("Protocol") == Some("TLS");
        let settings = parameters(settings).matching(|key| key != "SslPolicy" || is_tls);
        query.fields(settings).set("DefaultActions", action)
    }

    async fn create_target_group(&self, settings: &Attributes) -> Result<String> {
        let identity = self.change.identity;
        let cluster = self.cloud.api.identity().await?;
        let group: TargetGroup = settings.read()?;
        let wanted = self
            .change
            .outcome_of_all()
            .and_then(|load_balancer| load_balancer.graph)
            .unwrap_or_default();
        let pool = group.pool();
        let port = wanted
            .listeners()
            .find(|(_, settings)| settings.text(POOL) == Some(&pool))
            .map_or(0, |(port, _)| port.number);
        let name = target_group(
            cluster.cluster.as_deref().unwrap_or_default(),
            identity.service,
            port,
            &group,
        );
        let query = Query::new("CreateTargetGroup")
            .fields(parameters(settings))
            .set("Name", name);
        let query = query
            .set("VpcId", &cluster.vpc)
            .set("TargetType", "instance")
            .set("Tags", self.part_tags().await?);
        let created: Answer = self.cloud.api.aws.elbv2.change(query).await?;
        let arn = created
            .target_groups
            .into_iter()
            .next()
            .map(|group| group.target_group_arn)
            .unwrap_or_default();
        let is_first = |key: &str| {
            FIRST_OF_GROUP
                .iter()
                .any(|(first, value)| *first == key && settings.text(key) == Some(*value))
        };
        self.set_attributes(
            &arn,
            &settings
                .clone()
                .matching(|key| is_attribute(key) && !is_first(key)),
        )
        .await?;
        Ok(arn)
    }

    async fn delete_target_group(&self, name: &str, arn: Option<&str>) -> Made {
        self.remove(
            &format!("target group {name}"),
            Query::new("DeleteTargetGroup").set("TargetGroupArn", arn),
            false,
        )
        .await
    }

    async fn set_attributes(&self, arn: &str, attributes: &Attributes) -> Made {
        if attributes.iter().next().is_none() {
            return Ok(None);
        }
        let query = Query::new("ModifyTargetGroupAttributes").set("TargetGroupArn", arn);
        self.send(query.set("Attributes", pairs(attributes))).await
    }

    /// Changes a target group in place. One whose health check cannot change is replaced: its listeners move.
    async fn update_target_group(
        &self,
        name: &str,
        arn: &str,
        settings: &Attributes,
        changes: &[Difference],
    ) -> Made {
        let is_changed = |key: &str| changes.iter().any(|difference| difference.key == key);
        let attributes = settings
            .clone()
            .matching(|key| is_attribute(key) && is_changed(key));
        // An attribute that is refused does not keep the health check from being changed.
        let attributes = self.set_attributes(arn, &attributes).await;
        // A path is only accepted beside its protocol.
        let is_sent = |key: &str| {
            is_changed(key) || key == "HealthCheckProtocol" && is_changed("HealthCheckPath")
        };
        let health = parameters(settings).matching(is_sent);
        if health.iter().next().is_none() {
            return attributes;
        }
        match self
            .send(
                Query::new("ModifyTargetGroup")
                    .set("TargetGroupArn", arn)
                    .fields(health),
            )
            .await
        {
            Err(error) if error.code() == "InvalidConfigurationRequest" => attributes?,
            answer => return answer.and(attributes),
        };
        let replacement = self.create_target_group(settings).await?;
        let made = settings.clone().set(ID, &replacement);
        let work = Work {
            before: self
                .before
                .clone()
                .resource(ResourceKey::Pool(name.to_owned()), made),
            after: ResourceGraph::default(),
            ..*self
        };
        work.targets(name, &self.before.targets_of(name), true)
            .await?;
        for (_, listener) in self
            .before
            .listeners()
            .filter(|(_, settings)| settings.text(POOL) == Some(name))
        {
            let query = Query::new("ModifyListener").set("ListenerArn", listener.text(ID));
            self.send(work.listener(query, listener)).await?;
        }
        self.delete_target_group(name, Some(arn)).await?;
        Ok(Some(replacement))
    }
}

/// Returns attributes in the form of network load balancers.
fn pairs(attributes: &Attributes) -> Value {
    Query::tag_list(
        attributes
            .iter()
            .filter_map(|(key, value)| Some((key, value.as_str()?))),
    )
}

/// Returns the subnets of a network load balancer with their addresses.
fn subnet_mappings(settings: &Attributes) -> Vec<Value> {
    let at =
        |list: &str, number: usize| settings.get(list).and_then(|all| all.get(number)).cloned();
    let mapping = |(number, subnet): (usize, &Value)| {
        json!({
            "SubnetId": subnet, "AllocationId": at("EipAllocations", number),
            "PrivateIPv4Address": at("PrivateAddresses", number),
        })
    };
    let subnets = settings
        .get("Subnets")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    subnets.enumerate().map(mapping).collect()
}

fn classic_listener(port: &Port, settings: &Attributes) -> Result<ClassicListener> {
    Ok(ClassicListener {
        load_balancer_port: port.number,
        ..settings.read()?
    })
}
