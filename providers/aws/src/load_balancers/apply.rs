//! Changes of load balancers of both kinds: one operation after the other.

use std::collections::BTreeMap;
use std::time::Duration;

use aws_protocol::Query;
use cloud_provider::{Error, Result};
use futures::future::try_join_all;
use provider_kit::firewall::{Peer, Rule};
use provider_kit::load_balancers::{
    Applied, Attributes, Change, Difference, ObservedLoadBalancer, Operation, POOL, Port, ResourceGraph, ResourceKey,
    Targets,
};
use provider_kit::operation::{Polling, until_done};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::groups::read_texts;
use super::model::{ATTRIBUTES, GROUP, ID, INSTANCES, Listener, NODES, Pool, RULES, Settings, TAG};
use super::names::{owner_tags, security_group_description, target_group};
use super::read::{Balancer, LEFT, PROXY_POLICY, TLS_POLICY};
use super::{CLASSIC, ElasticLoadBalancers, NETWORK, client};
use crate::api::{CLUSTER_TAG, LEGACY_TAG};

/// Targets of one request.
const TARGETS_AT_ONCE: usize = 100;

/// Pauses between attempts to delete what is still in use: network interfaces go some time after their load balancer.
const DELETION: Polling = Polling {
    first: Duration::from_secs(10),
    growth: 1.0,
    max_interval: Duration::from_secs(5),
    timeout: Duration::from_secs(120),
    retry_after: Duration::from_secs(10),
};

/// An operation, with the load balancer before and after it.
struct Work<'a> {
    cloud: &'a ElasticLoadBalancers,
    change: Change<'a>,
    kind: &'static str,
    /// Name of the load balancer.
    name: &'a str,
    /// ID of the load balancer.
    id: &'a str,
    before: ResourceGraph,
    after: ResourceGraph,
}

/// An answer to a creation.
#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Created {
    #[serde(rename = "DNSName")]
    dns_name: String,
    load_balancers: Vec<Balancer>,
    target_groups: Vec<CreatedPart>,
    listeners: Vec<CreatedPart>,
    #[serde(alias = "groupId")]
    group_id: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct CreatedPart {
    #[serde(alias = "TargetGroupArn", alias = "ListenerArn")]
    arn: String,
}

impl ElasticLoadBalancers {
    /// Carries out the first operation; the creation of a classic load balancer comprises its listeners.
    pub(super) async fn carry_out(&self, change: Change<'_>) -> Result<Applied> {
        let (kind, name, id) = match change.actual {
            Some(actual) => (actual.kind, &*actual.name, &*actual.id),
            None => (change.identity.kind, &*change.identity.name, ""),
        };
        let before = change.actual.and_then(|it| it.graph.clone()).unwrap_or_default();
        let after = change.outcome(1).and_then(|it| it.graph).unwrap_or_default();
        let work = Work { cloud: self, change, kind, name, id, before, after };
        let operation = &change.operations[0];
        let made = match operation {
            Operation::Tag => work.tag(owner_tags(change.identity), true).await.map(|()| None),
            Operation::Untag => Ok(None),
            Operation::Create { resource: ResourceKey::Balancer, attributes } => return work.create(attributes).await,
            Operation::Update { resource: ResourceKey::Balancer, attributes, changes } => {
                work.update(attributes, changes).await.map(|()| None)
            }
            Operation::Delete { resource: ResourceKey::Balancer } => work.delete().await.map(|()| None),
            it if it.targets_of() == Some(NODES) || it.resource() == Some(&ResourceKey::Pool(NODES.to_owned())) => {
                work.admit(it).await.map(|()| None)
            }
            it if it.resource().is_some_and(|resource| resource.is_of_kind(GROUP)) => work.security_group(it).await,
            Operation::AddTargets { pool, targets } => work.targets(pool, targets, true).await.map(|()| None),
            Operation::RemoveTargets { pool, targets } => work.targets(pool, targets, false).await.map(|()| None),
            it if kind == CLASSIC => work.classic(it).await.map(|()| None),
            it => work.network(it).await,
        };
        Ok(work.shown(made?))
    }
}

impl Work<'_> {
    /// Returns the outcome; `made`: the ID of the resource that was created.
    fn shown(&self, made: Option<String>) -> Applied {
        let resource = self.change.operations[0].resource();
        let Some(mut outcome) = self.change.outcome(1) else {
            // AWS also confirms the deletion of a load balancer that is another account's; that of a security group is proof.
            return if resource.is_some_and(|it| it.is_of_kind(GROUP)) { Applied::Removed } else { Applied::Gone };
        };
        if let (Some(graph), Some(resource), Some(id)) = (&mut outcome.graph, resource, made) {
            let attributes = graph.resources.get(resource).cloned().unwrap_or_default();
            graph.resources.insert(resource.clone(), attributes.set(ID, id).set("is_ours", true));
        }
        if self.after.balancer_attributes().is_none() {
            outcome.id = format!("{LEFT}{} {}", self.kind, self.name);
        }
        Applied::Shown(1, Box::new(outcome))
    }

    /// Sends a change that can be sent again, for a load balancer of this kind.
    async fn send(&self, query: Query) -> Result<()> {
        client(&self.cloud.api, self.kind).change::<IgnoredAny>(query.repeatable()).await.map(drop)
    }

    /// Returns a query about the load balancer.
    fn query(&self, action: &'static str) -> Query {
        Query::new(action).set(if self.kind == NETWORK { "LoadBalancerArn" } else { "LoadBalancerName" }, self.id)
    }

    /// Deletes something as soon as nothing uses it any more. A security group that is not found may be another account's: that
    /// is an error, after which everything is read again.
    async fn remove(&self, what: &str, query: Query, is_ec2: bool) -> Result<()> {
        let aws = if is_ec2 { &self.cloud.api.aws.ec2 } else { client(&self.cloud.api, self.kind) };
        let attempt = async || match aws.change::<IgnoredAny>(query.clone().repeatable()).await {
            Err(error) if matches!(error.code(), "DependencyViolation" | "ResourceInUse") => Ok(None),
            Err(error) if error.is_not_found() && !is_ec2 => Ok(Some(())),
            answer => answer.map(|_| Some(())),
        };
        if attempt().await?.is_some() {
            return Ok(());
        }
        self.change.callbacks.release_permit();
        let outcome = until_done(&format!("deletion of {what}, which something uses,"), DELETION, &attempt).await;
        self.change.callbacks.reacquire_permit().await;
        outcome
    }

    /// Returns the ID of a security group, which may be named by its resource.
    fn group_id(&self, graph: &ResourceGraph, group: &str) -> String {
        let resource = super::group_resource(group);
        graph.resources.get(&resource).and_then(|it| it.text(ID)).unwrap_or(group).to_owned()
    }

    fn group_ids(&self, settings: &Settings) -> Option<Vec<String>> {
        let groups = settings.security_groups.as_ref()?;
        Some(groups.iter().map(|group| self.group_id(&self.before, group)).collect())
    }

    async fn tag(&self, tags: BTreeMap<String, String>, with_group: bool) -> Result<()> {
        let resource = self.before.resources.iter().find(|(resource, _)| with_group && resource.is_of_kind(GROUP));
        if let Some(group) = resource.and_then(|(_, it)| it.text(ID)) {
            let query = Query::new("CreateTags").set("ResourceId", [group]).set("Tag", Query::tag_list(tags.clone()));
            self.cloud.api.aws.ec2.change::<IgnoredAny>(query.repeatable()).await?;
        }
        let list = if self.kind == NETWORK { "ResourceArns" } else { "LoadBalancerNames" };
        self.send(Query::new("AddTags").set(list, [self.id]).set("Tags", Query::tag_list(tags))).await
    }

    async fn create(&self, attributes: &Attributes) -> Result<Applied> {
        let settings: Settings = attributes.read()?;
        let mut tags = tags_of(attributes);
        tags.extend(owner_tags(self.change.identity));
        let wanted = self.change.outcome_of_all().and_then(|it| it.graph).unwrap_or_default();
        let is_internal = settings.scheme.as_deref() == Some("internal");
        let query = Query::new("CreateLoadBalancer").set("Scheme", is_internal.then_some("internal"));
        let query = query.set("SecurityGroups", self.group_ids(&settings)).set("Tags", Query::tag_list(tags));
        let query = match self.kind {
            NETWORK => query
                .set("Name", self.name)
                .set("Type", "network")
                .set("SubnetMappings", subnet_mappings(&settings))
                .set("IpAddressType", settings.ip_address_type.as_ref().filter(|it| *it != "ipv4")),
            _ => {
                let listeners = wanted.listeners().map(|(port, it)| Ok(classic_listener(port, &it.read()?)));
                let query = query.set("LoadBalancerName", self.name).set("Subnets", &settings.subnets);
                query.set("Listeners", listeners.collect::<Result<Vec<_>>>()?)
            }
        };
        let created: Created = client(&self.cloud.api, self.kind).change(query).await?;
        let head = created.load_balancers.first().map(|it| it.head(&BTreeMap::new(), true));
        let mut outcome = self.change.outcome(1).unwrap_or_default();
        outcome.id = head.as_ref().map_or_else(|| self.name.to_owned(), |it| it.id.clone());
        outcome.ingress = head.map_or_else(|| vec![ObservedLoadBalancer::host(&created.dns_name)], |it| it.ingress);
        let work = Work {
            id: &outcome.id.clone(),
            before: ResourceGraph::default(),
            after: ResourceGraph::default(),
            ..*self
        };
        let is_new = |(setting, _, _, first): &&(&str, &str, &str, &str)| {
            attributes.text(setting).is_some_and(|it| it != *first)
        };
        if ATTRIBUTES.iter().any(|it| is_new(&it)) {
            work.modify_attributes(attributes).await?;
        }
        if self.kind == CLASSIC
            && let Some(mut graph) = outcome.graph.take()
        {
            for (port, settings) in wanted.listeners() {
                let settings = settings.clone().set("policy", ()).set("proxy_protocol", false);
                graph
                    .resources
                    .insert(ResourceKey::Listener(port.clone()), settings.for_creation().set("proxy_protocol", false));
            }
            outcome.graph = Some(graph.pool(INSTANCES, Attributes::default(), Some(Targets::default())));
            return Ok(Applied::PlanAgain(Box::new(outcome)));
        }
        Ok(Applied::Shown(1, Box::new(outcome)))
    }

    async fn modify_attributes(&self, attributes: &Attributes) -> Result<()> {
        let stated = ATTRIBUTES.iter().filter_map(|it| Some((it, attributes.text(it.0)?)));
        let query = self.query("ModifyLoadBalancerAttributes");
        self.send(if self.kind == NETWORK {
            let pairs = stated.filter(|(it, _)| !it.2.is_empty()).map(|(it, value)| (it.2, value));
            query.set("Attributes", Query::tag_list(pairs))
        } else {
            let nested = stated.fold(Attributes::default(), |all, (it, value)| all.set(it.1, value));
            query.set("LoadBalancerAttributes", nested.nested())
        })
        .await
    }

    async fn update(&self, attributes: &Attributes, changes: &[Difference]) -> Result<()> {
        let settings: Settings = attributes.read()?;
        let changed = |key: &str| changes.iter().find(|it| it.key == key);
        if let Some(subnets) = changed("subnets") {
            self.set_subnets(&settings, subnets).await?;
        }
        if changed("ip_address_type").is_some() {
            self.send(self.query("SetIpAddressType").set("IpAddressType", &settings.ip_address_type)).await?;
        }
        if changed("security_groups").is_some() {
            let action = if self.kind == NETWORK { "SetSecurityGroups" } else { "ApplySecurityGroupsToLoadBalancer" };
            self.send(self.query(action).set("SecurityGroups", self.group_ids(&settings))).await?;
        }
        let mut tags = tags_of(attributes);
        tags.retain(|key, _| changed(&format!("{TAG}{key}")).is_some());
        if !tags.is_empty() {
            self.tag(tags, false).await?;
        }
        if ATTRIBUTES.iter().any(|it| changed(it.0).is_some()) {
            self.modify_attributes(attributes).await?;
        }
        Ok(())
    }

    async fn set_subnets(&self, settings: &Settings, change: &Difference) -> Result<()> {
        if self.kind == NETWORK {
            return self.send(self.query("SetSubnets").set("SubnetMappings", subnet_mappings(settings))).await;
        }
        let list = |value: &Value| -> Vec<Value> { value.as_array().cloned().unwrap_or_default() };
        let (from, to) = (list(&change.from), list(&change.to));
        let without = |all: &[Value], others: &[Value]| -> Vec<Value> {
            all.iter().filter(|it| !others.contains(it)).cloned().collect()
        };
        for (action, subnets) in [
            ("DetachLoadBalancerFromSubnets", without(&from, &to)),
            ("AttachLoadBalancerToSubnets", without(&to, &from)),
        ] {
            if !subnets.is_empty() {
                self.send(self.query(action).set("Subnets", subnets)).await?;
            }
        }
        Ok(())
    }

    async fn delete(&self) -> Result<()> {
        self.remove("the load balancer", self.query("DeleteLoadBalancer"), false).await
    }

    async fn security_group(&self, operation: &Operation) -> Result<Option<String>> {
        let (api, identity) = (&self.cloud.api, self.change.identity);
        let Some(resource @ ResourceKey::CreatedBefore(auxiliary)) = operation.resource() else { return Ok(None) };
        let known = self.before.resources.get(resource).and_then(|it| it.text(ID)).unwrap_or_default().to_owned();
        match operation {
            Operation::Create { attributes, .. } => {
                let mut tags = tags_of(attributes);
                tags.extend(owner_tags(identity));
                let query = Query::new("CreateSecurityGroup").set("GroupName", &auxiliary.name);
                let description = security_group_description(self.kind, identity.service, self.name);
                let query = query.set("GroupDescription", description).set("VpcId", &api.identity().await?.vpc);
                let created: Created = api.aws.ec2.change(query.tags("security-group", tags)).await?;
                let rules = read_texts(attributes.get(RULES));
                self.cloud
                    .rules
                    .edit(&created.group_id, move |ingress| {
                        ingress.set(&rules);
                        Ok(())
                    })
                    .await?;
                Ok(Some(created.group_id))
            }
            Operation::Update { attributes, changes, .. } => {
                let mut tags = tags_of(attributes);
                tags.retain(|key, _| changes.iter().any(|it| it.key.strip_prefix(TAG) == Some(key)));
                let of_cluster = |it: &&Difference| {
                    let key = it.key.strip_prefix(TAG).unwrap_or_default();
                    !it.from.is_null() && (key.starts_with(CLUSTER_TAG) || key == LEGACY_TAG)
                };
                if let Some(tag) = changes.iter().find(of_cluster) {
                    return Err(Error::invalid(format!(
                        "security group {known} ({}): {} is {}, and not {}; correct it, or delete the group",
                        auxiliary.name, tag.key, tag.from, tag.to
                    )));
                }
                if !tags.is_empty() {
                    let query = Query::new("CreateTags").set("ResourceId", [&known]).set("Tag", Query::tag_list(tags));
                    api.aws.ec2.change::<IgnoredAny>(query.repeatable()).await?;
                }
                let rules = read_texts(attributes.get(RULES));
                self.cloud
                    .rules
                    .edit(&known, move |ingress| {
                        ingress.set(&rules);
                        Ok(())
                    })
                    .await
                    .map(|()| None)
            }
            _ => {
                let query = Query::new("DeleteSecurityGroup").set("GroupId", &known);
                self.remove(&format!("security group {known}"), query, true).await.map(|()| None)
            }
        }
    }

    /// Writes the rules by which Nodes admit the load balancer. A rule for a security group that other load balancers use stays.
    async fn admit(&self, operation: &Operation) -> Result<()> {
        let (there, pool) = (self.before.targets_of(NODES), ResourceKey::Pool(NODES.to_owned()));
        let is_wanted = !matches!(operation, Operation::Delete { .. } | Operation::RemoveTargets { .. });
        let groups = match operation {
            Operation::AddTargets { targets, .. } | Operation::RemoveTargets { targets, .. } => targets.clone(),
            _ => there,
        };
        let stated = self.after.resources.get(&pool).filter(|_| is_wanted).and_then(|it| it.get(RULES));
        let named = |rule: Rule| match &rule.peer {
            Peer::Group(group) => Rule { peer: Peer::Group(self.group_id(&self.before, group)), ..rule },
            Peer::Network(_) => rule,
        };
        let wanted: Vec<Rule> = read_texts(stated).into_iter().map(named).collect();
        let before = read_texts(self.before.resources.get(&pool).and_then(|it| it.get(RULES)));
        let mut references = Vec::new();
        for rule in before {
            let Peer::Group(group) = &rule.peer else { continue };
            let id = self.group_id(&self.before, group);
            if id != *group || !groups.is_empty() && !self.cloud.is_used_beside(&id, self.id).await? {
                references.push(id);
            }
        }
        let edits = groups.iter().map(async |group| {
            let (name, references, wanted) = (self.name.to_owned(), references.clone(), wanted.clone());
            let edit = move |ingress: &mut super::groups::Ingress| {
                ingress.admit(&name, &references, &wanted);
                Ok(())
            };
            self.cloud.rules.edit(&group.to_owned(), edit).await
        });
        try_join_all(edits).await.map(drop)
    }

    /// Adds or removes targets. One that AWS refuses keeps no other one out.
    async fn targets(&self, pool: &str, targets: &Targets, is_added: bool) -> Result<()> {
        let arn = self.before.pool_attributes(pool).and_then(|it| it.text(ID));
        let target = |text: &str| match (self.kind, text.split_once(':')) {
            (NETWORK, Some((id, port))) => json!({"Id": id, "Port": port}),
            (NETWORK, None) => json!({"Id": text}),
            _ => json!({"InstanceId": text}),
        };
        let targets: Vec<_> = targets.iter().map(target).collect();
        let send = |targets: &[Value]| {
            let query = match (self.kind, is_added) {
                (NETWORK, true) => Query::new("RegisterTargets").set("TargetGroupArn", arn).set("Targets", targets),
                (NETWORK, false) => Query::new("DeregisterTargets").set("TargetGroupArn", arn).set("Targets", targets),
                (_, true) => self.query("RegisterInstancesWithLoadBalancer").set("Instances", targets),
                (_, false) => self.query("DeregisterInstancesFromLoadBalancer").set("Instances", targets),
            };
            self.send(query)
        };
        let mut outcome = Ok(());
        for targets in targets.chunks(TARGETS_AT_ONCE) {
            match send(targets).await {
                Err(error) if error.is_invalid() && targets.len() > 1 => {
                    for target in targets {
                        outcome = outcome.and(send(std::slice::from_ref(target)).await);
                    }
                }
                answer => answer?,
            }
        }
        outcome
    }

    async fn classic(&self, operation: &Operation) -> Result<()> {
        let is_leaving =
            self.change.operations.iter().any(|it| it.deletes(|resource| *resource == ResourceKey::Balancer));
        match operation {
            // They go with the load balancer.
            Operation::Delete { .. } if is_leaving => Ok(()),
            Operation::Update { resource: ResourceKey::Pool(_), attributes, .. } => {
                let Pool { health, .. } = nested(attributes)?;
                let check = json!({
                    "Target": health.target(), "Interval": health.interval, "Timeout": health.timeout,
                    "HealthyThreshold": health.healthy, "UnhealthyThreshold": health.unhealthy,
                });
                self.send(self.query("ConfigureHealthCheck").set("HealthCheck", check)).await
            }
            Operation::Create { resource: ResourceKey::Listener(port), attributes } => {
                self.create_classic_listener(port, &attributes.read()?).await
            }
            Operation::Update { resource: resource @ ResourceKey::Listener(port), attributes, changes } => {
                let before: Listener =
                    self.before.resources.get(resource).map(Attributes::read).transpose()?.unwrap_or_default();
                let listener = attributes.read()?;
                if changes.iter().all(|it| matches!(&*it.key, "policy" | "proxy_protocol")) {
                    return self.set_policies(port, &before, &listener).await;
                }
                self.delete_classic_listener(port, &before).await?;
                self.create_classic_listener(port, &listener).await
            }
            Operation::Delete { resource: resource @ ResourceKey::Listener(port) } => {
                let before: Option<Listener> = self.before.resources.get(resource).map(Attributes::read).transpose()?;
                self.delete_classic_listener(port, &before.unwrap_or_default()).await
            }
            _ => Ok(()),
        }
    }

    async fn create_classic_listener(&self, port: &Port, listener: &Listener) -> Result<()> {
        let query = self.query("CreateLoadBalancerListeners").set("Listeners", [classic_listener(port, listener)]);
        self.send(query).await?;
        self.set_policies(port, &Listener::default(), listener).await
    }

    async fn delete_classic_listener(&self, port: &Port, listener: &Listener) -> Result<()> {
        let without = Listener { proxy_protocol: Some(false), policy: None, ..listener.clone() };
        self.set_policies(port, listener, &without).await?;
        self.send(self.query("DeleteLoadBalancerListeners").set("LoadBalancerPorts", [port.number])).await
    }

    /// Sets the policies of a classic listener and of its instance port.
    async fn set_policies(&self, port: &Port, before: &Listener, listener: &Listener) -> Result<()> {
        let (had_proxy, has_proxy) = [before, listener].map(|it| it.proxy_protocol == Some(true)).into();
        if had_proxy != has_proxy {
            let names = if has_proxy { json!([PROXY_POLICY]) } else { json!("") };
            if has_proxy {
                self.create_policy(PROXY_POLICY, "ProxyProtocolPolicyType", "ProxyProtocol", "true").await?;
            }
            let query =
                self.query("SetLoadBalancerPoliciesForBackendServer").set("InstancePort", listener.instance_port);
            self.send(query.set("PolicyNames", names)).await?;
        }
        let Some(policy) = listener.policy.as_ref().filter(|_| before.policy != listener.policy && listener.is_tls())
        else {
            return Ok(());
        };
        let name = format!("{TLS_POLICY}{policy}");
        self.create_policy(&name, "SSLNegotiationPolicyType", "Reference-Security-Policy", policy).await?;
        let query = self.query("SetLoadBalancerPoliciesOfListener").set("LoadBalancerPort", port.number);
        self.send(query.set("PolicyNames", [name])).await
    }

    async fn create_policy(&self, name: &str, kind: &str, attribute: &str, value: &str) -> Result<()> {
        let query = self.query("CreateLoadBalancerPolicy").set("PolicyName", name).set("PolicyTypeName", kind);
        let attributes = json!([{"AttributeName": attribute, "AttributeValue": value}]);
        match self.send(query.set("PolicyAttributes", attributes)).await {
            Err(error) if error.code() == "DuplicatePolicyName" => Ok(()),
            answer => answer,
        }
    }

    async fn network(&self, operation: &Operation) -> Result<Option<String>> {
        let id =
            operation.resource().and_then(|resource| self.before.resources.get(resource)).and_then(|it| it.text(ID));
        match operation {
            Operation::Create { resource: ResourceKey::Pool(_), attributes } => {
                self.create_target_group(attributes).await.map(Some)
            }
            Operation::Update { resource: ResourceKey::Pool(name), attributes, changes } => {
                self.update_target_group(name, id.unwrap_or_default(), attributes, changes).await
            }
            Operation::Delete { resource: ResourceKey::Pool(name) } => {
                let query = Query::new("DeleteTargetGroup").set("TargetGroupArn", id);
                self.remove(&format!("target group {name}"), query, false).await.map(|()| None)
            }
            Operation::Create { resource: ResourceKey::Listener(port), attributes } => {
                let is_taken =
                    |(it, _): &(&Port, &Attributes)| it.number == port.number && it.protocol != port.protocol;
                if let Some(other) = self.before.listeners().find(is_taken).and_then(|(_, it)| it.text(ID)) {
                    self.send(Query::new("DeleteListener").set("ListenerArn", other)).await?;
                }
                let tags = super::tags(self.cloud.api.identity().await?, None, &BTreeMap::new());
                let tags = tags.into_iter().chain(owner_tags(self.change.identity));
                let query = self.query("CreateListener").set("Port", port.number).set("Tags", Query::tag_list(tags));
                let created: Created = self.cloud.api.aws.elbv2.change(self.listener(query, attributes)?).await?;
                Ok(created.listeners.into_iter().next().map(|it| it.arn))
            }
            Operation::Update { resource: ResourceKey::Listener(_), attributes, .. } => self
                .send(self.listener(Query::new("ModifyListener").set("ListenerArn", id), attributes)?)
                .await
                .map(|()| None),
            Operation::Delete { resource: ResourceKey::Listener(_) } => {
                let query = Query::new("DeleteListener").set("ListenerArn", id);
                self.cloud.api.aws.elbv2.remove(query).await.map(|()| None)
            }
            _ => Ok(None),
        }
    }

    /// Adds the settings of a listener to a query.
    fn listener(&self, query: Query, attributes: &Attributes) -> Result<Query> {
        let listener: Listener = attributes.read()?;
        let pool = attributes.text(POOL).and_then(|pool| self.before.pool_attributes(pool));
        let action = json!([{"Type": "forward", "TargetGroupArn": pool.and_then(|it| it.text(ID))}]);
        let certificates = listener.certificate.iter().map(|arn| json!({"CertificateArn": arn})).collect::<Vec<_>>();
        let policy = listener.policy.as_ref().filter(|_| listener.is_tls());
        let query = query.set("Protocol", &listener.protocol).set("DefaultActions", action);
        Ok(query.set("Certificates", certificates).set("SslPolicy", policy))
    }

    async fn create_target_group(&self, attributes: &Attributes) -> Result<String> {
        let (identity, cluster) = (self.change.identity, self.cloud.api.identity().await?);
        let pool: Pool = nested(attributes)?;
        let wanted = self.change.outcome_of_all().and_then(|it| it.graph).unwrap_or_default();
        let name = format!("{}/{}", pool.port, pool.protocol);
        let port = wanted.listeners().find(|(_, it)| it.text(POOL) == Some(&name)).map_or(0, |(port, _)| port.number);
        let name = target_group(cluster.cluster.as_deref().unwrap_or_default(), identity.service, port, &pool);
        let tags = super::tags(cluster, None, &BTreeMap::new()).into_iter().chain(owner_tags(identity));
        let query =
            Query::new("CreateTargetGroup").set("Name", name).set("VpcId", &cluster.vpc).set("TargetType", "instance");
        let query = query.set("Port", pool.port).set("Protocol", &pool.protocol).set("IpAddressType", &pool.family);
        let query = query.fields(health_fields(&pool, |_| true)).set("Tags", Query::tag_list(tags));
        let created: Created = self.cloud.api.aws.elbv2.change(query).await?;
        let arn = created.target_groups.into_iter().next().map(|it| it.arn).unwrap_or_default();
        let first = Pool { client_ip: Some("true".into()), proxy_protocol: Some("false".into()), ..Pool::default() };
        self.set_attributes(&arn, &pool, &first).await?;
        Ok(arn)
    }

    async fn set_attributes(&self, arn: &str, pool: &Pool, before: &Pool) -> Result<()> {
        let all = [
            ("preserve_client_ip.enabled", &pool.client_ip, &before.client_ip),
            ("proxy_protocol_v2.enabled", &pool.proxy_protocol, &before.proxy_protocol),
        ];
        let changed = all.into_iter().filter(|(_, value, before)| value != before && value.is_some());
        let changed: Vec<_> = changed.filter_map(|(key, value, _)| Some((key, value.clone()?))).collect();
        if changed.is_empty() {
            return Ok(());
        }
        let query = Query::new("ModifyTargetGroupAttributes").set("TargetGroupArn", arn);
        self.send(query.set("Attributes", Query::tag_list(changed))).await
    }

    /// Changes a target group in place. One whose health check cannot change is replaced: its listeners move.
    async fn update_target_group(
        &self,
        name: &str,
        arn: &str,
        attributes: &Attributes,
        changes: &[Difference],
    ) -> Result<Option<String>> {
        let pool: Pool = nested(attributes)?;
        let before: Pool = self.before.pool_attributes(name).map(nested).transpose()?.unwrap_or_default();
        self.set_attributes(arn, &pool, &before).await?;
        let is_changed = |key: &str| changes.iter().any(|it| it.key == key);
        // A path is only accepted beside its protocol.
        let is_sent = |key: &str| is_changed(key) || key == "health.protocol" && is_changed("health.path");
        let health = health_fields(&pool, is_sent);
        if health.as_object().is_none_or(serde_json::Map::is_empty) {
            return Ok(None);
        }
        match self.send(Query::new("ModifyTargetGroup").set("TargetGroupArn", arn).fields(health)).await {
            Err(error) if error.code() == "InvalidConfigurationRequest" => {}
            answer => return answer.map(|()| None),
        }
        let replacement = self.create_target_group(attributes).await?;
        let made = attributes.clone().set(ID, &replacement);
        let work = Work {
            before: self.before.clone().resource(ResourceKey::Pool(name.to_owned()), made),
            after: ResourceGraph::default(),
            ..*self
        };
        work.targets(name, &self.before.targets_of(name), true).await?;
        for (_, listener) in self.before.listeners().filter(|(_, it)| it.text(POOL) == Some(name)) {
            let query = Query::new("ModifyListener").set("ListenerArn", listener.text(ID));
            self.send(work.listener(query, listener)?).await?;
        }
        let query = Query::new("DeleteTargetGroup").set("TargetGroupArn", arn);
        self.remove(&format!("target group {name}"), query, false).await?;
        Ok(Some(replacement))
    }
}

/// Returns the typed form of settings whose names have places in other structs.
fn nested<T: serde::de::DeserializeOwned>(attributes: &Attributes) -> Result<T> {
    serde_json::from_value(attributes.nested())
        .map_err(|error| Error::other(format!("settings cannot be read: {error}")))
}

/// Returns the tags among the settings of a resource.
fn tags_of(attributes: &Attributes) -> BTreeMap<String, String> {
    let all = serde_json::to_value(attributes).unwrap_or_default();
    let tags = all.as_object().into_iter().flatten();
    tags.filter_map(|(key, value)| Some((key.strip_prefix(TAG)?.to_owned(), value.as_str()?.to_owned()))).collect()
}

/// Returns the subnets of a network load balancer with their addresses.
fn subnet_mappings(settings: &Settings) -> Vec<Value> {
    let (eips, addresses) = (&settings.eip_allocations, &settings.private_addresses);
    let at = |all: &Option<Vec<String>>, number: usize| all.as_ref().and_then(|all| all.get(number).cloned());
    let mapping = |(number, subnet): (usize, &String)| json!({"SubnetId": subnet, "AllocationId": at(eips, number), "PrivateIPv4Address": at(addresses, number)});
    settings.subnets.iter().flatten().enumerate().map(mapping).collect()
}

fn classic_listener(port: &Port, listener: &Listener) -> Value {
    json!({
        "Protocol": listener.protocol, "LoadBalancerPort": port.number, "InstanceProtocol": listener.instance_protocol,
        "InstancePort": listener.instance_port, "SSLCertificateId": listener.certificate,
    })
}

/// Returns the health check of a target group in the form of requests, as far as it is `wanted`.
fn health_fields(pool: &Pool, wanted: impl Fn(&str) -> bool) -> Value {
    let health = &pool.health;
    let fields = [
        ("health.protocol", "HealthCheckProtocol", json!(health.protocol)),
        ("health.port", "HealthCheckPort", json!(health.port)),
        ("health.path", "HealthCheckPath", json!(health.path)),
        ("health.interval", "HealthCheckIntervalSeconds", json!(health.interval)),
        ("health.timeout", "HealthCheckTimeoutSeconds", json!(health.timeout)),
        ("health.healthy", "HealthyThresholdCount", json!(health.healthy)),
        ("health.unhealthy", "UnhealthyThresholdCount", json!(health.unhealthy)),
    ];
    fields
        .into_iter()
        .filter(|(key, ..)| wanted(key))
        .map(|(_, name, value)| (name.to_owned(), value))
        .collect::<serde_json::Map<_, _>>()
        .into()
}
