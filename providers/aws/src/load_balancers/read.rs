//! Load balancers of both kinds, and what is left of one, as they are read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use aws_protocol::Query;
use cloud_provider::Result;
use futures::future::try_join_all;
use futures::try_join;
use provider_kit::firewall::{Peer, Rule};
use provider_kit::inventory::SharedPriority;
use provider_kit::load_balancers::{
    Attributes, Identity, ObservedLoadBalancer, OwnerTags, ResourceGraph, State, Targets,
};
use provider_kit::paging::ListResult;
use serde::Deserialize;

use super::groups::{Group, is_of, read_all, texts};
use super::model::{ATTRIBUTES, Health, ID, INSTANCES, Listener, NODES, Pool, RULES, Settings, group_resource, tagged};
use super::names::{CLASSIC_GROUP, MANAGED, owner, security_group};
use super::subnets::Subnet;
use super::{CIDRS, CLASSIC, ElasticLoadBalancers, NETWORK, client};
use crate::api::{Api, Tag};

/// Prefix of the ID of what is left of a load balancer; kind and name follow.
pub(super) const LEFT: &str = "left of ";
/// Load balancers whose tags are read with one request.
const TAGGED_AT_ONCE: usize = 20;
/// Items of a page.
const PAGE: usize = 400;
/// Name of the policy for the PROXY protocol.
pub(super) const PROXY_POLICY: &str = "k8s-proxyprotocol-enabled";
/// Prefix of the name of a TLS policy.
pub(super) const TLS_POLICY: &str = "k8s-SSLNegotiationPolicy-";

type Tags = BTreeMap<String, String>;

/// A load balancer of either kind: what one kind does not have is empty.
#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Balancer {
    pub(super) load_balancer_arn: String,
    load_balancer_name: String,
    #[serde(rename = "DNSName")]
    dns_name: String,
    r#type: String,
    state: BalancerState,
    scheme: String,
    #[serde(alias = "VPCId")]
    vpc_id: String,
    created_time: String,
    ip_address_type: Option<String>,
    security_groups: Vec<String>,
    availability_zones: Vec<ZoneSubnet>,
    subnets: Vec<String>,
    listener_descriptions: Vec<ListenerDescription>,
    backend_server_descriptions: Vec<BackendDescription>,
    instances: Vec<Instance>,
    health_check: ClassicHealth,
}

#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct BalancerState {
    code: String,
    reason: String,
}

/// A zone of a network load balancer; of a classic one, a text.
#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct ZoneSubnet {
    subnet_id: String,
}

#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct ListenerDescription {
    listener: ClassicListener,
    policy_names: Vec<String>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct ClassicListener {
    protocol: String,
    load_balancer_port: u16,
    instance_protocol: String,
    instance_port: u16,
    #[serde(rename = "SSLCertificateId")]
    certificate: Option<String>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct BackendDescription {
    instance_port: u16,
    policy_names: Vec<String>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Instance {
    instance_id: String,
}

#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct ClassicHealth {
    target: String,
    interval: u32,
    timeout: u32,
    healthy_threshold: u32,
    unhealthy_threshold: u32,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct NetworkListener {
    listener_arn: String,
    port: u16,
    protocol: String,
    ssl_policy: Option<String>,
    certificates: Vec<Certificate>,
    default_actions: Vec<Action>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Certificate {
    certificate_arn: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Action {
    target_group_arn: String,
}

/// A target group, as AWS returns it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct TargetGroup {
    pub(super) target_group_arn: String,
    target_group_name: String,
    protocol: String,
    port: u16,
    health_check_protocol: String,
    health_check_port: String,
    health_check_path: Option<String>,
    health_check_interval_seconds: u32,
    health_check_timeout_seconds: Option<u32>,
    healthy_threshold_count: u32,
    unhealthy_threshold_count: u32,
    load_balancer_arns: Vec<String>,
    /// Tags of a target group without a load balancer.
    #[serde(skip)]
    tags: Tags,
}

impl TargetGroup {
    /// Returns the name of the pool.
    fn name(&self) -> String {
        format!("{}/{}", self.port, self.protocol)
    }

    fn pool(&self) -> Pool {
        let path = self.health_check_path.clone().filter(|_| self.health_check_protocol.starts_with("HTTP"));
        let health = Health {
            protocol: self.health_check_protocol.clone(),
            port: self.health_check_port.clone(),
            path,
            interval: self.health_check_interval_seconds,
            timeout: self.health_check_timeout_seconds,
            healthy: self.healthy_threshold_count,
            unhealthy: self.unhealthy_threshold_count,
        };
        let id = Some(self.target_group_arn.clone());
        Pool { protocol: self.protocol.clone(), port: self.port, health, id, ..Pool::default() }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Answer {
    #[serde(alias = "LoadBalancerDescriptions", alias = "LoadBalancers")]
    balancers: Vec<Balancer>,
    #[serde(alias = "TagDescriptions")]
    tags: Vec<TagDescription>,
    #[serde(alias = "Attributes")]
    attributes: Vec<Tag>,
    #[serde(alias = "LoadBalancerAttributes")]
    classic: ClassicAttributes,
    #[serde(alias = "TargetHealthDescriptions")]
    targets: Vec<TargetDescription>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct ClassicAttributes {
    cross_zone_load_balancing: Tags,
    access_log: Tags,
    connection_draining: Tags,
    connection_settings: Tags,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct TagDescription {
    #[serde(alias = "ResourceArn", alias = "LoadBalancerName")]
    id: String,
    #[serde(alias = "Tags")]
    tags: Vec<Tag>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct TargetDescription {
    target: Target,
    target_health: TargetState,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Target {
    id: String,
    port: u16,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct TargetState {
    state: String,
    reason: String,
}

fn map(tags: Vec<Tag>) -> Tags {
    tags.into_iter().map(|tag| (tag.key, tag.value)).collect()
}

fn list(tags: &Tags) -> Vec<Tag> {
    tags.iter().map(|(key, value)| Tag { key: key.clone(), value: value.clone() }).collect()
}

/// Returns the name of the load balancer of the Service with this UID.
fn name_of(uid: &str) -> String {
    format!("a{}", uid.replace('-', "")).chars().take(32).collect()
}

impl Balancer {
    fn kind(&self) -> &'static str {
        if self.load_balancer_arn.is_empty() { CLASSIC } else { NETWORK }
    }

    pub(super) fn id(&self) -> &str {
        if self.kind() == NETWORK { &self.load_balancer_arn } else { &self.load_balancer_name }
    }

    /// Returns the load balancer without its resources.
    pub(super) fn head(&self, tags: &Tags, is_of_cluster: bool) -> ObservedLoadBalancer {
        let is_failed = self.state.code == "failed";
        let ingress = Some(&self.dns_name)
            .filter(|name| !name.is_empty() && !is_failed)
            .map(|name| ObservedLoadBalancer::host(name));
        ObservedLoadBalancer {
            id: self.id().to_owned(),
            name: self.load_balancer_name.clone(),
            owner_tags: owner(tags),
            legacy_owner: is_of_cluster.then(|| self.load_balancer_name.clone()),
            kind: self.kind(),
            state: if is_failed { State::Failed(self.state.reason.clone()) } else { State::Ready },
            ingress: ingress.into_iter().collect(),
            created: self.created_time.parse().ok(),
            ..ObservedLoadBalancer::default()
        }
    }

    fn subnets(&self) -> Vec<String> {
        let zones = self.availability_zones.iter().map(|zone| zone.subnet_id.clone());
        self.subnets.iter().cloned().chain(zones).filter(|id| !id.is_empty()).collect()
    }

    fn classic_resources(&self, mut graph: ResourceGraph) -> Result<ResourceGraph> {
        let ClassicHealth { target, interval, timeout, healthy_threshold: healthy, unhealthy_threshold: unhealthy } =
            self.health_check.clone();
        let health = Health { interval, timeout: Some(timeout), healthy, unhealthy, ..Health::default() }.at(&target);
        let targets = self.instances.iter().map(|it| &it.instance_id).collect();
        graph = graph.pool(INSTANCES, Attributes::observed(&Pool { health, ..Pool::default() })?, Some(targets));
        for ListenerDescription { listener: it, policy_names } in &self.listener_descriptions {
            let backend =
                self.backend_server_descriptions.iter().find(|backend| backend.instance_port == it.instance_port);
            let listener = Listener {
                protocol: it.protocol.to_ascii_uppercase(),
                certificate: it.certificate.clone().filter(|arn| !arn.is_empty()),
                policy: policy_names.first().map(|name| name.strip_prefix(TLS_POLICY).unwrap_or(name).to_owned()),
                instance_protocol: Some(it.instance_protocol.to_ascii_uppercase()),
                instance_port: Some(it.instance_port),
                proxy_protocol: Some(backend.is_some_and(|it| it.policy_names.iter().any(|it| it == PROXY_POLICY))),
                id: None,
            };
            graph = graph.listener(it.load_balancer_port, "TCP", INSTANCES, Attributes::observed(&listener)?);
        }
        Ok(graph)
    }
}

impl ElasticLoadBalancers {
    /// Reads load balancers of one kind, by their IDs or names; those that do not exist are left out.
    pub(super) async fn balancers(&self, kind: &str, parameter: &str, values: &[&str]) -> Result<Vec<Balancer>> {
        let query = Query::new("DescribeLoadBalancers").set(parameter, values);
        let found: Option<Answer> = client(&self.api, kind).find(query).await?;
        let is_other = |it: &Balancer| kind == NETWORK && it.r#type != "network";
        Ok(found.unwrap_or_default().balancers.into_iter().filter(|it| !is_other(it)).collect())
    }

    /// Reads all load balancers of one kind in the VPC whose names are those of Services.
    async fn list(&self, kind: &str) -> Result<ListResult<Balancer>> {
        let vpc = &self.api.identity().await?.vpc;
        let collection = if kind == NETWORK { "LoadBalancers" } else { "LoadBalancerDescriptions" };
        let query = Query::new("DescribeLoadBalancers").page(PAGE);
        let (shared_priority, id) = (SharedPriority::default(), |it: &Balancer| it.id().to_owned());
        let all = client(&self.api, kind).list(query, collection, &shared_priority, |it: Balancer| it, id).await?;
        Ok(all.filter(|it| {
            it.vpc_id == *vpc && it.load_balancer_name.starts_with('a') && matches!(&*it.r#type, "" | "network")
        }))
    }
}

impl ElasticLoadBalancers {
    /// Reads one load balancer with all its resources; `identity`: its Service, if it is known.
    pub(super) async fn whole(
        &self,
        balancer: &Balancer,
        identity: Option<&Identity<'_>>,
    ) -> Result<ObservedLoadBalancer> {
        let (kind, name, attached) = (balancer.kind(), &*balancer.load_balancer_name, &balancer.security_groups);
        let (cluster, objects) = try_join!(self.api.identity(), self.objects(kind))?;
        let is_own = |it: &&TargetGroup| it.load_balancer_arns.iter().any(|arn| arn == balancer.id());
        let own: Vec<_> = objects.targets.iter().filter(is_own).collect();
        let ids: Vec<_> = std::iter::once(balancer.id()).chain(own.iter().map(|it| &*it.target_group_arn)).collect();
        let (mut tags, attributes, subnets) =
            try_join!(tags(&self.api, kind, &ids), self.attributes(balancer), self.subnets())?;
        let own_tags = tags.remove(balancer.id()).unwrap_or_default();
        let wanted = identity.map(|it| security_group(kind, &it.cluster.name, it.service, name));
        let managed = objects.managed(kind, name, wanted.as_deref(), attached);
        let named = |id: &String| managed.filter(|it| it.group_id == *id).map_or(id, |it| &it.group_name).clone();
        let settings = Settings {
            scheme: Some(balancer.scheme.clone()),
            subnets: Some(balancer.subnets()),
            security_groups: Some(attached.iter().map(named).collect()),
            ip_address_type: balancer.ip_address_type.clone(),
            ..Settings::default()
        };
        let settings = Attributes::observed(&settings)?;
        let settings = attributes.into_iter().fold(settings, |all, (key, value)| all.set(key, value));
        let mut graph =
            managed.map_or_else(ResourceGraph::default, |group| group_graph(ResourceGraph::default(), group));
        graph = graph.balancer(tagged(settings, &own_tags));
        if self.api.config.has_node_rules {
            let (attributes, groups) = objects.node_pool(name, attached, &named);
            let ids = balancer.subnets();
            let ranges = subnets.iter().filter(|it| ids.contains(&it.subnet_id)).flat_map(Subnet::ranges);
            graph = graph.pool(NODES, attributes.set(CIDRS, ranges.collect::<Vec<_>>()), Some(groups));
        }
        graph = match kind {
            NETWORK => self.network_resources(graph, balancer, &own, &tags).await?,
            _ => balancer.classic_resources(graph)?,
        };
        let graph = with_loose(graph, objects.loose(name))?;
        Ok(ObservedLoadBalancer { graph: Some(graph), ..balancer.head(&own_tags, cluster.has(&list(&own_tags))) })
    }

    /// Reads the attributes of a load balancer; those that AWS does not tell have their first values.
    async fn attributes(&self, balancer: &Balancer) -> Result<Vec<(&'static str, String)>> {
        let is_network = balancer.kind() == NETWORK;
        let parameter = if is_network { "LoadBalancerArn" } else { "LoadBalancerName" };
        let query = Query::new("DescribeLoadBalancerAttributes").set(parameter, balancer.id());
        let Answer { attributes, classic: it, .. } = client(&self.api, balancer.kind()).read(query).await?;
        let mut values = map(attributes);
        for (group, fields) in [
            ("CrossZoneLoadBalancing", it.cross_zone_load_balancing),
            ("AccessLog", it.access_log),
            ("ConnectionDraining", it.connection_draining),
            ("ConnectionSettings", it.connection_settings),
        ] {
            values.extend(fields.into_iter().map(|(field, value)| (format!("{group}.{field}"), value)));
        }
        let value = |(setting, classic, network, first): &(&'static str, &str, &str, &str)| {
            let name = if is_network { *network } else { *classic };
            let value = values.get(name).map_or(*first, String::as_str);
            (!name.is_empty() && !value.is_empty()).then(|| (*setting, value.to_owned()))
        };
        Ok(ATTRIBUTES.iter().filter_map(value).collect())
    }

    async fn network_resources(
        &self,
        mut graph: ResourceGraph,
        balancer: &Balancer,
        own: &[&TargetGroup],
        tags: &BTreeMap<String, Tags>,
    ) -> Result<ResourceGraph> {
        let query = Query::new("DescribeListeners").set("LoadBalancerArn", balancer.id());
        let (shared_priority, id) = (SharedPriority::default(), |it: &NetworkListener| it.listener_arn.clone());
        let listeners = self.api.aws.elbv2.list(query, "Listeners", &shared_priority, |it: NetworkListener| it, id);
        let details = try_join_all(own.iter().map(|it| self.target_group(it)));
        let (listeners, details) = try_join!(listeners, details)?;
        for (group, (targets, pool)) in own.iter().zip(details) {
            let is_ours = tags.get(&group.target_group_arn).is_some_and(|it| owner(it) != OwnerTags::default());
            graph = graph.pool(
                &group.name(),
                Attributes::observed(&Pool { is_ours: Some(is_ours), ..pool })?,
                Some(targets),
            );
        }
        for it in listeners.complete()?.into_items() {
            let arn = it.default_actions.first().map(|action| &*action.target_group_arn);
            let pool = own.iter().find(|group| arn == Some(&*group.target_group_arn)).map(|group| group.name());
            let transport = if it.protocol == "TLS" { "TCP".to_owned() } else { it.protocol.clone() };
            let listener = Listener {
                certificate: it.certificates.into_iter().next().map(|it| it.certificate_arn),
                policy: it.ssl_policy.filter(|policy| !policy.is_empty()),
                protocol: it.protocol,
                id: Some(it.listener_arn),
                ..Listener::default()
            };
            graph = graph.listener(it.port, transport, &pool.unwrap_or_default(), Attributes::observed(&listener)?);
        }
        Ok(graph)
    }

    /// Reads the targets and attributes of a target group.
    async fn target_group(&self, group: &TargetGroup) -> Result<(Targets, Pool)> {
        let query = |action| Query::new(action).set("TargetGroupArn", &group.target_group_arn);
        let client = &self.api.aws.elbv2;
        let health = client.read::<Answer>(query("DescribeTargetHealth"));
        let (health, attributes) = try_join!(health, client.read::<Answer>(query("DescribeTargetGroupAttributes")))?;
        let mut values = map(attributes.attributes);
        let pool = Pool {
            client_ip: values.remove("preserve_client_ip.enabled"),
            proxy_protocol: values.remove("proxy_protocol_v2.enabled"),
            ..group.pool()
        };
        let stays = |it: &&TargetDescription| it.target_health.reason != "Target.DeregistrationInProgress";
        let text = |it: &TargetDescription| match it.target.port {
            port if port == group.port || port == 0 => it.target.id.clone(),
            port => format!("{}:{port}", it.target.id),
        };
        Ok((health.targets.iter().filter(stays).map(text).collect(), pool))
    }

    /// Reads what a Service has: by name, or what is left of a load balancer that no longer exists.
    pub(super) async fn of_service(&self, identity: &Identity<'_>) -> Result<Vec<ObservedLoadBalancer>> {
        let names = [&*identity.name];
        let classic = self.balancers(CLASSIC, "LoadBalancerNames", &names);
        let (classic, network) = try_join!(classic, self.balancers(NETWORK, "Names", &names))?;
        let found: Vec<_> = classic.into_iter().chain(network).collect();
        let mut seen = try_join_all(found.iter().map(|it| self.whole(it, Some(identity)))).await?;
        let is_there = |kind| found.iter().any(|it| it.kind() == kind);
        if identity.is_leaving() || !is_there(identity.kind) {
            let objects = self.objects(if identity.is_leaving() { NETWORK } else { identity.kind }).await?;
            for kind in [CLASSIC, NETWORK].into_iter().filter(|kind| !is_there(kind)) {
                let group = security_group(kind, &identity.cluster.name, identity.service, &identity.name);
                let left = objects.left_of(kind, &identity.name, Some(&group), self.api.config.has_node_rules)?;
                seen.extend(left.map(|left| ObservedLoadBalancer { owner_tags: identity.owner_tags(), ..left }));
            }
        }
        Ok(seen)
    }

    /// Reads a load balancer by its ID, or what is left of one.
    pub(super) async fn by_id(&self, id: &str) -> Result<Option<ObservedLoadBalancer>> {
        if let Some((kind, name)) = id.strip_prefix(LEFT).and_then(|it| it.split_once(' ')) {
            let (kind, names) = if kind == NETWORK { (NETWORK, "Names") } else { (CLASSIC, "LoadBalancerNames") };
            if !self.balancers(kind, names, &[name]).await?.is_empty() {
                return Ok(None);
            }
            return self.objects(kind).await?.left_of(kind, name, None, self.api.config.has_node_rules);
        }
        let (kind, parameter) =
            if id.starts_with("arn:") { (NETWORK, "LoadBalancerArns") } else { (CLASSIC, "LoadBalancerNames") };
        match self.balancers(kind, parameter, &[id]).await?.first() {
            Some(balancer) => self.whole(balancer, None).await.map(Some),
            None => Ok(None),
        }
    }

    /// Reads all load balancers of Services without their resources, and what is left of others.
    pub(super) async fn all(&self) -> Result<ListResult<ObservedLoadBalancer>> {
        let (cluster, mut all, mut reason) = (self.api.identity().await?, Vec::new(), None);
        // Read first: what is created for a load balancer exists before the load balancer.
        let objects = self.objects(NETWORK).await?;
        let readings = try_join!(self.list(CLASSIC), self.list(NETWORK))?;
        for (kind, reading) in [(CLASSIC, readings.0), (NETWORK, readings.1)] {
            if let ListResult::Partial { reason: it, .. } = &reading {
                reason = Some(it.clone());
            }
            let ids: Vec<_> = reading.items().iter().map(Balancer::id).collect();
            let tags = tags(&self.api, kind, &ids).await?;
            let heads = reading.items().iter().filter_map(|it| Some((it, tags.get(it.id())?)));
            all.extend(heads.map(|(it, tags)| it.head(tags, cluster.has(&list(tags)))));
        }
        for (kind, name) in objects.owners() {
            if !all.iter().any(|it| (it.kind, &it.name) == (kind, &name)) {
                all.extend(objects.left_of(kind, &name, None, false)?);
            }
        }
        Ok(match reason {
            Some(reason) => ListResult::Partial { items: all, pages: 1, reason },
            None => ListResult::of(all),
        })
    }

    /// Reads the objects beside load balancers of this kind, with a request that starts now.
    async fn objects(&self, kind: &str) -> Result<Objects> {
        self.objects.join(kind == NETWORK, self.api.clone()).await
    }
}

/// Reads the tags of objects; those that do not exist are left out.
async fn tags(api: &Api, kind: &str, ids: &[&str]) -> Result<BTreeMap<String, Tags>> {
    let parameter = if kind == NETWORK { "ResourceArns" } else { "LoadBalancerNames" };
    let read = |ids: &[&str]| {
        let query = Query::new("DescribeTags").set(parameter, ids);
        async move { client(api, kind).find::<Answer>(query).await }
    };
    let mut all = BTreeMap::new();
    for ids in ids.chunks(TAGGED_AT_ONCE) {
        let mut answers = vec![read(ids).await?];
        if answers[0].is_none() && ids.len() > 1 {
            answers = try_join_all(ids.chunks(1).map(read)).await?;
        }
        let described = answers.into_iter().flatten().flat_map(|it| it.tags);
        all.extend(described.map(|it| (it.id, map(it.tags))));
    }
    Ok(all)
}

/// Reads all target groups of the region; those without a load balancer with their tags.
async fn target_groups(api: &Api) -> Result<Vec<TargetGroup>> {
    let query = Query::new("DescribeTargetGroups").page(PAGE);
    let (shared_priority, id) = (SharedPriority::default(), |it: &TargetGroup| it.target_group_arn.clone());
    let all = api.aws.elbv2.list(query, "TargetGroups", &shared_priority, |it: TargetGroup| it, id).await?;
    let mut all = all.complete()?.into_items();
    let is_loose = |it: &TargetGroup| it.load_balancer_arns.is_empty() && it.target_group_name.starts_with("k8s-");
    let loose: Vec<_> = all.iter().filter(|it| is_loose(it)).map(|it| &*it.target_group_arn).collect();
    let mut tags = tags(api, NETWORK, &loose).await?;
    for group in &mut all {
        group.tags = tags.remove(&group.target_group_arn).unwrap_or_default();
    }
    Ok(all)
}

/// Security groups and target groups.
#[derive(Clone, Default)]
pub(super) struct Objects {
    groups: Arc<Vec<Group>>,
    targets: Arc<Vec<TargetGroup>>,
}

impl Objects {
    /// Reads the security groups of the VPC, and all target groups if `with_targets`.
    pub(super) async fn read(api: &Api, with_targets: bool) -> Result<Self> {
        let targets = async { if with_targets { target_groups(api).await } else { Ok(Vec::new()) } };
        let (groups, targets) = try_join!(read_all(api), targets)?;
        Ok(Self { groups: Arc::new(groups), targets: Arc::new(targets) })
    }

    /// Returns the security group that was created for a load balancer. `wanted`: the name of such a group; `attached`: the
    /// groups of the load balancer.
    fn managed(&self, kind: &str, balancer: &str, wanted: Option<&str>, attached: &[String]) -> Option<&Group> {
        self.groups.iter().find(|it| {
            let is_attached = it.group_description == MANAGED && attached.contains(&it.group_id);
            Some(&*it.group_name) == wanted
                || kind == NETWORK && is_attached
                || it
                    .balancer()
                    .is_some_and(|of| of == (if kind == NETWORK { NETWORK } else { CLASSIC }, balancer.to_owned()))
        })
    }

    /// Returns the target groups without a load balancer that were created for this one.
    fn loose<'a>(&'a self, balancer: &'a str) -> impl Iterator<Item = &'a TargetGroup> {
        self.targets.iter().filter(move |it| owner(&it.tags).service.is_some_and(|uid| name_of(&uid) == balancer))
    }

    /// Returns the load balancers that these objects were created for.
    fn owners(&self) -> BTreeSet<(&'static str, String)> {
        let of_targets = self.targets.iter().filter_map(|it| Some((NETWORK, name_of(&owner(&it.tags).service?))));
        self.groups.iter().filter_map(Group::balancer).chain(of_targets).collect()
    }

    /// Returns what is left of a load balancer.
    fn left_of(
        &self,
        kind: &'static str,
        name: &str,
        group: Option<&str>,
        has_node_rules: bool,
    ) -> Result<Option<ObservedLoadBalancer>> {
        let (mut graph, mut tags, mut references) = (ResourceGraph::default(), Vec::new(), Vec::new());
        if let Some(group) = self.managed(kind, name, group, &[]) {
            tags.push(map(group.tag_set.clone()));
            references.push(group.group_id.clone());
            graph = group_graph(graph, group);
        }
        if kind == NETWORK {
            tags.extend(self.loose(name).map(|it| it.tags.clone()));
            graph = with_loose(graph, self.loose(name))?;
        }
        let nodes = self.node_pool(name, &references, &|id| id.clone());
        if has_node_rules && !nodes.1.is_empty() {
            graph = graph.pool(NODES, nodes.0, Some(nodes.1));
        }
        let is_empty = graph.resources.is_empty();
        let id = format!("{LEFT}{kind} {name}");
        let owner_tags = tags.first().map(owner).unwrap_or_default();
        let (name, legacy_owner) = (name.to_owned(), Some(name.to_owned()));
        Ok((!is_empty).then(|| ObservedLoadBalancer {
            id,
            name,
            legacy_owner,
            owner_tags,
            kind,
            graph: Some(graph),
            ..ObservedLoadBalancer::default()
        }))
    }

    /// Returns the security groups that admit a load balancer, and the rules by which all of them do.
    fn node_pool(
        &self,
        balancer: &str,
        references: &[String],
        named: &dyn Fn(&String) -> String,
    ) -> (Attributes, Targets) {
        let name = |rule: Rule| match &rule.peer {
            Peer::Group(id) => Rule { peer: Peer::Group(named(id)), owner: None, ..rule },
            Peer::Network(_) => rule,
        };
        let own = |group: &Group| -> Vec<String> {
            let own: Vec<_> =
                group.rules().into_iter().filter(|it| is_of(it, balancer, references)).map(name).collect();
            texts(&own)
        };
        let admitting: Vec<_> =
            self.groups.iter().map(|it| (&it.group_id, own(it))).filter(|(_, it)| !it.is_empty()).collect();
        let rules = admitting.first().map(|(_, rules)| rules.clone());
        let rules = rules.filter(|first| admitting.iter().all(|(_, rules)| rules == first));
        let attributes = rules.map_or_else(Attributes::default, |rules| Attributes::default().set(RULES, rules));
        (attributes, admitting.into_iter().map(|(id, _)| id).collect())
    }
}

impl Group {
    /// Returns kind and name of the load balancer that the group was created for.
    fn balancer(&self) -> Option<(&'static str, String)> {
        let owner = owner(&map(self.tag_set.clone())).service.map(|uid| name_of(&uid));
        match self.group_name.strip_prefix(CLASSIC_GROUP) {
            Some(name) => Some((CLASSIC, name.to_owned())),
            None => owner.filter(|_| self.group_description == MANAGED).map(|name| (NETWORK, name)),
        }
    }
}

fn group_graph(graph: ResourceGraph, group: &Group) -> ResourceGraph {
    let rules: Vec<_> = group.rules().into_iter().map(|rule| Rule { owner: None, ..rule }).collect();
    let attributes = Attributes::default().set(ID, &group.group_id).set(RULES, texts(&rules));
    graph.resource(group_resource(&group.group_name), tagged(attributes, &map(group.tag_set.clone())))
}

/// Adds target groups without a load balancer, of a change that was interrupted.
fn with_loose<'a>(graph: ResourceGraph, loose: impl Iterator<Item = &'a TargetGroup>) -> Result<ResourceGraph> {
    loose.into_iter().try_fold(graph, |graph, group| {
        let is_taken = graph.pool_attributes(&group.name()).is_some();
        let name = if is_taken { format!("unused {}", group.target_group_name) } else { group.name() };
        Ok(graph.pool(&name, Attributes::observed(&group.pool())?, Some(Targets::default())))
    })
}

impl ElasticLoadBalancers {
    /// Returns `true` if another load balancer has this security group.
    pub(super) async fn is_used_beside(&self, group: &str, balancer: &str) -> Result<bool> {
        let (classic, network) = try_join!(self.list(CLASSIC), self.list(NETWORK))?;
        let all = [classic.complete()?.into_items(), network.complete()?.into_items()];
        Ok(all.iter().flatten().any(|it| it.id() != balancer && it.security_groups.iter().any(|id| id == group)))
    }
}
