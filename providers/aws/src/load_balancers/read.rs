//! Load balancers of both kinds, and what is left of one, as they are read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use aws_protocol::Query;
use cloud_provider::Result;
use futures::future::try_join_all;
use futures::try_join;
use parking_lot::MutexGuard;
use provider_kit::firewall::{Peer, Rule, texts};
use provider_kit::inventory::SharedPriority;
use provider_kit::load_balancers::{
    Attributes, Identity, ObservedLoadBalancer, OwnerTags, ResourceGraph, State, Targets,
};
use provider_kit::paging::ListResult;

use super::groups::{Group, Sources, is_of, owner_of_rules, read_all};
use super::model::{
    Answer, Balancer, ClassicListener, FIRST_OF_GROUP, ID, INSTANCES, IS_OURS, Listener, NODES,
    POLICY, PROXY, RULES, Settings, TargetDescription, TargetGroup, group_resource, with_first,
};
use super::names::{CLASSIC_GROUP, MANAGED, SERVICE_TAG, managed_groups, owner, security_group};
use super::subnets::{AGE, Subnet};
use super::{CIDRS, CLASSIC, ElasticLoadBalancers, NETWORK, Uses, client};
use crate::api::{Api, Identity as Cluster, Tag, all};

/// Prefix of the ID of what is left of a load balancer; kind and name follow.
pub(super) const LEFT: &str = "left of ";
/// Load balancers that are read with one request, or whose tags are.
const AT_ONCE: usize = 20;
/// Items of a page.
const PAGE: usize = 400;
/// Name of the policy for the PROXY protocol.
pub(super) const PROXY_POLICY: &str = "k8s-proxyprotocol-enabled";
/// Prefix of the name of a TLS policy.
pub(super) const TLS_POLICY: &str = "k8s-SSLNegotiationPolicy-";

type Tags = BTreeMap<String, String>;

fn map(tags: Vec<Tag>) -> Tags {
    tags.into_iter().map(|tag| (tag.key, tag.value)).collect()
}

fn list(tags: &Tags) -> Vec<Tag> {
    tags.iter()
        .map(|(key, value)| Tag {
            key: key.clone(),
            value: value.clone(),
        })
        .collect()
}

/// Returns the name of the load balancer of the Service with this UID.
fn name_of(uid: &str) -> String {
    format!("a{}", uid.replace('-', ""))
        .chars()
        .take(32)
        .collect()
}

impl Balancer {
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
            state: if is_failed {
                State::Failed(self.state.reason.clone())
            } else {
                State::Ready
            },
            ingress: ingress.into_iter().collect(),
            created: self.created_time.parse().ok(),
            ..ObservedLoadBalancer::default()
        }
    }

    fn classic_resources(&self, graph: ResourceGraph) -> Result<ResourceGraph> {
        let targets = self
            .instances
            .iter()
            .map(|instance| &instance.instance_id)
            .collect();
        let mut graph = graph.pool(
            INSTANCES,
            Attributes::observed(&self.health_check)?,
            Some(targets),
        );
        for listener_description in &self.listener_descriptions {
            let policy = listener_description
                .policy_names
                .first()
                .map(|name| name.strip_prefix(TLS_POLICY).unwrap_or(name).to_owned());
            let ClassicListener {
                load_balancer_port: port,
                instance_port,
                ..
            } = listener_description.listener;
            let backend = self
                .backend_server_descriptions
                .iter()
                .find(|backend| backend.instance_port == instance_port);
            let listener = ClassicListener {
                protocol: listener_description.listener.protocol.to_ascii_uppercase(),
                instance_protocol: listener_description
                    .listener
                    .instance_protocol
                    .to_ascii_uppercase(),
                certificate: listener_description
                    .listener
                    .certificate
                    .clone()
                    .filter(|arn| !arn.is_empty()),
                ..listener_description.listener
            };
            let settings = policy
                .iter()
                .fold(Attributes::observed(&listener)?, |all, policy| {
                    all.set(POLICY, policy)
                });
            let has_proxy = backend.is_some_and(|backend| {
                backend
                    .policy_names
                    .iter()
                    .any(|policy_name| policy_name == PROXY_POLICY)
            });
            graph = graph.listener(port, "TCP", INSTANCES, settings.set(PROXY, has_proxy));
        }
        Ok(graph)
    }
}

impl ElasticLoadBalancers {
    /// Reads load balancers of one kind, by their IDs or names; those that do not exist are left out.
    pub(super) async fn balancers(
        &self,
        kind: &str,
        parameter: &str,
        values: &[&str],
    ) -> Result<Vec<Balancer>> {
        let query = Query::new("DescribeLoadBalancers").set(parameter, values);
        let found: Option<Answer> = client(&self.api, kind).find(query).await?;
        let is_other =
            |load_balancer: &Balancer| kind == NETWORK && load_balancer.r#type != "network";
        Ok(found
            .unwrap_or_default()
            .load_balancers
            .into_iter()
            .filter(|load_balancer| !is_other(load_balancer))
            .collect())
    }

    /// Reads all load balancers of one kind in the VPC whose names are those of Services.
    async fn list(&self, kind: &str) -> Result<ListResult<Balancer>> {
        let vpc = &self.api.identity().await?.vpc;
        let collection = if kind == NETWORK {
            "LoadBalancers"
        } else {
            "LoadBalancerDescriptions"
        };
        let query = Query::new("DescribeLoadBalancers").page(PAGE);
        let shared_priority = SharedPriority::default();
        let id = |load_balancer: &Balancer| load_balancer.id().to_owned();
        let all = client(&self.api, kind)
            .list(
                query,
                collection,
                &shared_priority,
                |load_balancer: Balancer| load_balancer,
                id,
            )
            .await?;
        Ok(all.filter(|load_balancer| {
            load_balancer.vpc_id == *vpc
                && load_balancer.load_balancer_name.starts_with('a')
                && matches!(&*load_balancer.r#type, "" | "network")
        }))
    }

    /// Reads load balancers of a kind with all their resources; `identity`: their Service, if it is known. One without an
    /// answer about its tags has ceased to exist meanwhile, as far as this credential shows, and is left out.
    pub(super) async fn whole(
        &self,
        kind: &'static str,
        found: &[Balancer],
        identity: Option<&Identity<'_>>,
    ) -> Result<Vec<ObservedLoadBalancer>> {
        if found.is_empty() {
            return Ok(Vec::new());
        }
        let (objects, subnets) = try_join!(self.objects(kind), self.subnets())?;
        let own_target_groups = |balancer: &Balancer| -> Vec<&TargetGroup> {
            let has = |group: &&TargetGroup| {
                group
                    .load_balancer_arns
                    .iter()
                    .any(|arn| arn == balancer.id())
            };
            objects.targets.iter().filter(has).collect()
        };
        let ids = |load_balancer| {
            std::iter::once(Balancer::id(load_balancer)).chain(
                own_target_groups(load_balancer)
                    .into_iter()
                    .map(|group| &*group.target_group_arn),
            )
        };
        let tags = tags(
            &self.api,
            kind,
            &found.iter().flat_map(ids).collect::<Vec<_>>(),
        )
        .await?;
        let shared = (&objects, &**subnets, &tags);
        let found = found
            .iter()
            .filter(|load_balancer| tags.contains_key(load_balancer.id()));
        try_join_all(found.map(|load_balancer| {
            self.complete(
                load_balancer,
                own_target_groups(load_balancer),
                shared,
                identity,
            )
        }))
        .await
    }

    /// Reads the rest of a load balancer. What only a change of its settings needs is not read where it is to be deleted.
    async fn complete(
        &self,
        balancer: &Balancer,
        own: Vec<&TargetGroup>,
        (objects, subnets, tags): (&Objects, &[Subnet], &BTreeMap<String, Tags>),
        identity: Option<&Identity<'_>>,
    ) -> Result<ObservedLoadBalancer> {
        let kind = balancer.kind();
        let name = &*balancer.load_balancer_name;
        let attached = &balancer.security_groups;
        let cluster = self.api.identity().await?;
        let is_leaving = identity.is_some_and(Identity::is_leaving);
        let own_tags = tags.get(balancer.id()).cloned().unwrap_or_default();
        let service = own_tags
            .get(SERVICE_TAG)
            .map(String::as_str)
            .unwrap_or_default();
        let wanted = match (identity, self.cluster_name.get()) {
            (Some(it), _) => vec![security_group(kind, &it.cluster.name, it.service, name)],
            (None, Some(cluster)) if kind == NETWORK => managed_groups(cluster, service, name),
            _ => Vec::new(),
        };
        let managed = objects.managed(kind, name, &wanted);
        let named = |id: &String| {
            managed
                .filter(|group| group.group_id == *id)
                .map_or(id, |group| &group.group_name)
                .clone()
        };
        let groups: Vec<_> = attached.iter().map(named).collect();
        let query =
            Query::new("DescribeLoadBalancerAttributes").set(id_parameter(kind), balancer.id());
        let attributes = match is_leaving {
            true => None,
            false => Some(client(&self.api, kind).read::<Answer>(query).await?),
        };
        let mut graph = managed.map_or_else(ResourceGraph::default, |group| {
            group_graph(ResourceGraph::default(), group)
        });
        graph = graph.balancer(settings(balancer, attributes, &groups)?.tagged(&own_tags));
        if self.api.config.has_node_rules {
            let (own, users) = attached
                .iter()
                .cloned()
                .partition(|id| managed.is_some_and(|group| group.group_id == *id));
            let (attributes, groups) = objects.node_pool(
                owner_of_rules(kind, name),
                &Sources { own, users },
                cluster,
                &named,
            );
            let ids = balancer.subnets();
            let ranges = subnets
                .iter()
                .filter(|subnet| ids.contains(&&*subnet.subnet_id))
                .flat_map(Subnet::ranges);
            graph = graph.pool(
                NODES,
                attributes.set(CIDRS, ranges.collect::<Vec<_>>()),
                Some(groups),
            );
        }
        graph = match kind {
            NETWORK => {
                self.network_resources(graph, balancer, &own, tags, is_leaving)
                    .await?
            }
            _ => balancer.classic_resources(graph)?,
        };
        let graph = with_loose(graph, objects.loose(name))?;
        Ok(ObservedLoadBalancer {
            graph: Some(graph),
            ..balancer.head(&own_tags, cluster.has(&list(&own_tags)))
        })
    }

    async fn network_resources(
        &self,
        mut graph: ResourceGraph,
        balancer: &Balancer,
        own: &[&TargetGroup],
        tags: &BTreeMap<String, Tags>,
        is_leaving: bool,
    ) -> Result<ResourceGraph> {
        let query = Query::new("DescribeListeners").set("LoadBalancerArn", balancer.id());
        let listeners = all(
            &self.api.aws.elbv2,
            query,
            "Listeners",
            |listener: &Listener| listener.listener_arn.clone(),
        );
        let (listeners, details) = try_join!(
            listeners,
            try_join_all(own.iter().map(|entry| self.target_group(entry, is_leaving)))
        )?;
        for (group, (targets, settings)) in own.iter().zip(details) {
            let is_ours = tags
                .get(&group.target_group_arn)
                .is_some_and(|target_group_arn| owner(target_group_arn) != OwnerTags::default());
            let settings = if is_ours {
                settings.set(IS_OURS, true)
            } else {
                settings
            };
            graph = graph.pool(&group.pool(), settings, targets);
        }
        for object in listeners {
            let arn = object
                .default_actions
                .first()
                .map(|action| &*action.target_group_arn);
            let pool = own
                .iter()
                .find(|group| arn == Some(&*group.target_group_arn))
                .map(|group| group.pool());
            let transport = if object.protocol == "TLS" {
                "TCP".to_owned()
            } else {
                object.protocol.clone()
            };
            let settings = Attributes::observed(&object)?.set(ID, &object.listener_arn);
            graph = graph.listener(object.port, transport, &pool.unwrap_or_default(), settings);
        }
        Ok(graph)
    }

    /// Reads the targets and attributes of a target group, unless it is to be deleted.
    async fn target_group(
        &self,
        group: &TargetGroup,
        is_leaving: bool,
    ) -> Result<(Option<Targets>, Attributes)> {
        if is_leaving {
            return Ok((None, group.settings()?));
        }
        let read = |action| {
            self.api
                .aws
                .elbv2
                .read::<Answer>(Query::new(action).set("TargetGroupArn", &group.target_group_arn))
        };
        let (health, shown) = try_join!(
            read("DescribeTargetHealth"),
            read("DescribeTargetGroupAttributes")
        )?;
        let stays = |target: &&TargetDescription| {
            target.target_health.reason != "Target.DeregistrationInProgress"
        };
        let text = |target: &TargetDescription| match target.target.port {
            port if port == group.port || port == 0 => target.target.id.clone(),
            port => format!("{}:{port}", target.target.id),
        };
        let compared = shown
            .attributes
            .into_iter()
            .filter(|attribute| FIRST_OF_GROUP.iter().any(|(key, _)| *key == attribute.key));
        let settings = compared.fold(group.settings()?, |all, compared| {
            all.set(compared.key, compared.value)
        });
        Ok((
            Some(
                health
                    .target_health_descriptions
                    .iter()
                    .filter(stays)
                    .map(text)
                    .collect(),
            ),
            settings,
        ))
    }

    /// Reads what a Service has: by name, or what is left of a load balancer that no longer exists.
    pub(super) async fn of_service(
        &self,
        identity: &Identity<'_>,
    ) -> Result<Vec<ObservedLoadBalancer>> {
        let names = [&*identity.name];
        let classic = self.balancers(CLASSIC, "LoadBalancerNames", &names);
        let (classic, network) = try_join!(classic, self.balancers(NETWORK, "Names", &names))?;
        let found = try_join!(
            self.whole(CLASSIC, &classic, Some(identity)),
            self.whole(NETWORK, &network, Some(identity))
        )?;
        let mut seen: Vec<_> = found.0.into_iter().chain(found.1).collect();
        let existing_ids: Vec<_> = seen
            .iter()
            .map(|load_balancer| load_balancer.kind)
            .collect();
        if identity.is_leaving() || !existing_ids.contains(&identity.kind) {
            let objects = self
                .objects(if identity.is_leaving() {
                    NETWORK
                } else {
                    identity.kind
                })
                .await?;
            let cluster = self.api.identity().await?;
            for kind in [CLASSIC, NETWORK]
                .into_iter()
                .filter(|kind| !existing_ids.contains(kind))
            {
                let group = security_group(
                    kind,
                    &identity.cluster.name,
                    identity.service,
                    &identity.name,
                );
                let left =
                    objects.left_of(kind, &identity.name, &[group], self.node_rules_of(cluster))?;
                seen.extend(left.map(|left| ObservedLoadBalancer {
                    owner_tags: identity.owner_tags(),
                    ..left
                }));
            }
        }
        Ok(seen)
    }

    /// Reads load balancers by their IDs, or what is left of them.
    pub(super) async fn by_ids(&self, ids: &[&str]) -> Result<Vec<ObservedLoadBalancer>> {
        let (left, existing_ids): (Vec<_>, Vec<_>) =
            ids.iter().copied().partition(|id| id.starts_with(LEFT));
        let (network, classic): (Vec<_>, Vec<_>) = existing_ids
            .into_iter()
            .partition(|id| id.starts_with("arn:"));
        let left = try_join_all(left.into_iter().map(|id| self.left_by_id(id)));
        let classic = self.wholes(CLASSIC, "LoadBalancerNames", &classic);
        let network = self.wholes(NETWORK, "LoadBalancerArns", &network);
        let (left, classic, network) = try_join!(left, classic, network)?;
        Ok(left
            .into_iter()
            .flatten()
            .chain(classic)
            .chain(network)
            .collect())
    }

    /// Reads load balancers of a kind. AWS refuses a request that names one that does not exist: then they are read one by one.
    async fn wholes(
        &self,
        kind: &'static str,
        parameter: &str,
        ids: &[&str],
    ) -> Result<Vec<ObservedLoadBalancer>> {
        let read = |ids| async move { self.balancers(kind, parameter, ids).await };
        let mut found = Vec::new();
        for ids in ids.chunks(AT_ONCE) {
            found.extend(match read(ids).await? {
                none if none.is_empty() && ids.len() > 1 => {
                    try_join_all(ids.chunks(1).map(read)).await?.concat()
                }
                found => found,
            });
        }
        self.whole(kind, &found, None).await
    }

    /// Reads what is left of a load balancer that does not exist.
    async fn left_by_id(&self, id: &str) -> Result<Option<ObservedLoadBalancer>> {
        let Some((kind, name)) = id.strip_prefix(LEFT).and_then(|text| text.split_once(' ')) else {
            return Ok(None);
        };
        let (kind, names) = if kind == NETWORK {
            (NETWORK, "Names")
        } else {
            (CLASSIC, "LoadBalancerNames")
        };
        if !self.balancers(kind, names, &[name]).await?.is_empty() {
            return Ok(None);
        }
        let cluster = self.api.identity().await?;
        self.objects(kind)
            .await?
            .left_of(kind, name, &[], self.node_rules_of(cluster))
    }

    /// Returns the cluster, if rules in the security groups of its Nodes are written.
    fn node_rules_of<'a>(&self, cluster: &'a Cluster) -> Option<&'a Cluster> {
        self.api.config.has_node_rules.then_some(cluster)
    }

    /// Reads all load balancers of Services without their resources, and what is left of others.
    pub(super) async fn all(&self) -> Result<ListResult<ObservedLoadBalancer>> {
        let cluster = self.api.identity().await?;
        let mut all = Vec::new();
        let mut reason = None;
        // Read first: what is created for a load balancer exists before the load balancer.
        let objects = self.objects(NETWORK).await?;
        let readings = try_join!(self.list(CLASSIC), self.list(NETWORK))?;
        for (kind, reading) in [(CLASSIC, readings.0), (NETWORK, readings.1)] {
            if let ListResult::Partial { reason: it, .. } = &reading {
                reason = Some(it.clone());
            }
            let ids: Vec<_> = reading.items().iter().map(Balancer::id).collect();
            let tags = tags(&self.api, kind, &ids).await?;
            let heads = reading
                .items()
                .iter()
                .filter_map(|load_balancer| Some((load_balancer, tags.get(load_balancer.id())?)));
            all.extend(
                heads.map(|(load_balancer, tags)| {
                    load_balancer.head(tags, cluster.has(&list(tags)))
                }),
            );
        }
        for (kind, name) in objects.owners() {
            if !all
                .iter()
                .any(|load_balancer| (load_balancer.kind, &load_balancer.name) == (kind, &name))
            {
                all.extend(objects.left_of(kind, &name, &[], None)?);
            }
        }
        Ok(match reason {
            Some(reason) => ListResult::Partial {
                items: all,
                pages: 1,
                reason,
            },
            None => ListResult::of(all),
        })
    }

    /// Reads the objects beside load balancers of this kind, with a request that starts now.
    async fn objects(&self, kind: &str) -> Result<Objects> {
        self.objects.join(kind == NETWORK, self.api.clone()).await
    }

    /// Returns `true` if another load balancer has this security group. The list is kept for a while: a load balancer that is created
    /// meanwhile [is noted](Self::note_use), and one that is being deleted counts no more.
    pub(super) async fn is_used_beside(&self, group: &str, balancer: &str) -> Result<bool> {
        let read = async || {
            let (classic, network) = try_join!(self.list(CLASSIC), self.list(NETWORK))?;
            let all = classic
                .complete()?
                .into_items()
                .into_iter()
                .chain(network.complete()?.into_items());
            let uses: Uses = all
                .map(|entry| (entry.id().to_owned(), entry.security_groups))
                .collect();
            self.leaving()
                .retain(|id| uses.iter().any(|(usage, _)| usage == id));
            Ok(uses)
        };
        let (uses, _) = self.uses.get(AGE, read).await?;
        let leaving = self.leaving();
        let is_other = |id: &String| id != balancer && !leaving.contains(id);
        Ok(uses
            .iter()
            .any(|(id, groups)| is_other(id) && groups.iter().any(|id| id == group)))
    }

    /// Notes that a load balancer has other security groups than before.
    pub(super) async fn note_use(&self, balancer: &str) {
        self.leaving().remove(balancer);
        self.uses.forget().await;
    }

    /// Returns the load balancers whose deletion has begun.
    pub(super) fn leaving(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.leaving.lock()
    }
}

/// Returns the parameter with the ID of a load balancer.
pub(super) fn id_parameter(kind: &str) -> &'static str {
    if kind == NETWORK {
        "LoadBalancerArn"
    } else {
        "LoadBalancerName"
    }
}

/// Returns the parameter with the IDs of what has tags.
pub(super) fn tagged_parameter(kind: &str) -> &'static str {
    if kind == NETWORK {
        "ResourceArns"
    } else {
        "LoadBalancerNames"
    }
}

/// Returns the settings of a load balancer. Attributes that AWS does not tell have their first values; those that were not
/// read are missing.
fn settings(balancer: &Balancer, shown: Option<Answer>, groups: &[String]) -> Result<Attributes> {
    let is_read = shown.is_some();
    let shown = shown.unwrap_or_default();
    let told = shown
        .attributes
        .into_iter()
        .filter(|tag| !tag.value.is_empty());
    let told = told
        .fold(Attributes::default(), |all, tag| {
            all.set(tag.key, tag.value)
        })
        .nested();
    let mut settings = if balancer.kind() == NETWORK {
        told
    } else {
        shown.load_balancer_attributes
    };
    settings["Scheme"] = balancer.scheme.clone().into();
    settings["Subnets"] = balancer.subnets().into();
    settings["SecurityGroups"] = groups.into();
    settings["IpAddressType"] = balancer.ip_address_type.clone().into();
    let settings = Attributes::observed(&Settings(settings))?;
    Ok(if is_read {
        with_first(balancer.kind(), settings)
    } else {
        settings
    })
}

/// Reads the tags of objects; those that do not exist are left out.
async fn tags(api: &Api, kind: &str, ids: &[&str]) -> Result<BTreeMap<String, Tags>> {
    let read = |ids: &[&str]| {
        let query = Query::new("DescribeTags").set(tagged_parameter(kind), ids);
        async move { client(api, kind).find::<Answer>(query).await }
    };
    let mut all = BTreeMap::new();
    for ids in ids.chunks(AT_ONCE) {
        let mut answers = vec![read(ids).await?];
        if answers[0].is_none() && ids.len() > 1 {
            answers = try_join_all(ids.chunks(1).map(read)).await?;
        }
        let described = answers
            .into_iter()
            .flatten()
            .flat_map(|answer| answer.tag_descriptions);
        all.extend(described.map(|tagged| (tagged.resource_arn, map(tagged.tags))));
    }
    Ok(all)
}

/// Reads all target groups of the region; those without a load balancer with their tags.
async fn target_groups(api: &Api) -> Result<Vec<TargetGroup>> {
    let query = Query::new("DescribeTargetGroups").page(PAGE);
    let mut all = all(
        &api.aws.elbv2,
        query,
        "TargetGroups",
        |group: &TargetGroup| group.target_group_arn.clone(),
    )
    .await?;
    let is_loose = |group: &TargetGroup| {
        group.load_balancer_arns.is_empty() && group.target_group_name.starts_with("k8s-")
    };
    let loose: Vec<_> = all
        .iter()
        .filter(|group| is_loose(group))
        .map(|group| &*group.target_group_arn)
        .collect();
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
        let targets = async {
            if with_targets {
                target_groups(api).await
            } else {
                Ok(Vec::new())
            }
        };
        let (groups, targets) = try_join!(read_all(api), targets)?;
        Ok(Self {
            groups: Arc::new(groups),
            targets: Arc::new(targets),
        })
    }

    /// Returns the security group that was created for a load balancer: it has one of the `wanted` names, which are computed, or
    /// the owner tags. Its description alone proves nothing: a Service may name the group of another one.
    fn managed(&self, kind: &str, balancer: &str, wanted: &[String]) -> Option<&Group> {
        self.groups.iter().find(|group| {
            let is_of = group
                .balancer()
                .is_some_and(|(of, name)| of == kind && name == balancer);
            wanted.contains(&group.group_name) || is_of
        })
    }

    /// Returns the target groups without a load balancer that were created for this one.
    fn loose<'a>(&'a self, balancer: &'a str) -> impl Iterator<Item = &'a TargetGroup> {
        self.targets.iter().filter(move |group| {
            owner(&group.tags)
                .service
                .is_some_and(|uid| name_of(&uid) == balancer)
        })
    }

    /// Returns the load balancers that these objects were created for.
    fn owners(&self) -> BTreeSet<(&'static str, String)> {
        let of_targets = self
            .targets
            .iter()
            .filter_map(|group| Some((NETWORK, name_of(&owner(&group.tags).service?))));
        self.groups
            .iter()
            .filter_map(Group::balancer)
            .chain(of_targets)
            .collect()
    }

    /// Returns what is left of a load balancer.
    fn left_of(
        &self,
        kind: &'static str,
        name: &str,
        groups: &[String],
        node_rules_of: Option<&Cluster>,
    ) -> Result<Option<ObservedLoadBalancer>> {
        let mut graph = ResourceGraph::default();
        let mut tags = Vec::new();
        let mut sources = Sources::default();
        if let Some(group) = self.managed(kind, name, groups) {
            tags.push(map(group.tag_set.clone()));
            sources.own.push(group.group_id.clone());
            graph = group_graph(graph, group);
        }
        if kind == NETWORK {
            tags.extend(self.loose(name).map(|group| group.tags.clone()));
            graph = with_loose(graph, self.loose(name))?;
        }
        let nodes = node_rules_of.map(|cluster| {
            self.node_pool(
                owner_of_rules(kind, name),
                &sources,
                cluster,
                &String::clone,
            )
        });
        if let Some((attributes, groups)) = nodes.filter(|(_, groups)| !groups.is_empty()) {
            graph = graph.pool(NODES, attributes, Some(groups));
        }
        Ok((!graph.resources.is_empty()).then(|| ObservedLoadBalancer {
            id: format!("{LEFT}{kind} {name}"),
            name: name.to_owned(),
            legacy_owner: Some(name.to_owned()),
            owner_tags: tags.first().map(owner).unwrap_or_default(),
            kind,
            graph: Some(graph),
            ..ObservedLoadBalancer::default()
        }))
    }

    /// Returns the security groups that admit a load balancer, and the rules by which all of them do.
    fn node_pool(
        &self,
        balancer: &str,
        sources: &Sources,
        cluster: &Cluster,
        named: &dyn Fn(&String) -> String,
    ) -> (Attributes, Targets) {
        let name = |rule: Rule| match &rule.peer {
            Peer::Group(id) => Rule {
                peer: Peer::Group(named(id)),
                owner: None,
                ..rule
            },
            Peer::Network(_) => rule,
        };
        let own_rules = |group: &Group| -> Vec<String> {
            let place = (&*group.group_id, cluster.has(&group.tag_set));
            let rules = group
                .rules()
                .into_iter()
                .filter(|rule| is_of(rule, place, balancer, sources))
                .map(name);
            texts(&rules.collect::<Vec<_>>())
        };
        let admitting: Vec<_> = self
            .groups
            .iter()
            .map(|group| (&group.group_id, own_rules(group)))
            .filter(|(_, entry)| !entry.is_empty())
            .collect();
        let rules = admitting.first().map(|(_, rules)| rules.clone());
        let rules = rules.filter(|first| admitting.iter().all(|(_, rules)| rules == first));
        let attributes = rules
            .into_iter()
            .fold(Attributes::default(), |all, rules| all.set(RULES, rules));
        (
            attributes,
            admitting.into_iter().map(|(id, _)| id).collect(),
        )
    }
}

impl Group {
    /// Returns kind and name of the load balancer that the group was created for.
    fn balancer(&self) -> Option<(&'static str, String)> {
        let owner = owner(&map(self.tag_set.clone()))
            .service
            .map(|uid| name_of(&uid));
        match self.group_name.strip_prefix(CLASSIC_GROUP) {
            Some(name) => Some((CLASSIC, name.to_owned())),
            None => owner
                .filter(|_| self.group_description == MANAGED)
                .map(|name| (NETWORK, name)),
        }
    }
}

fn group_graph(graph: ResourceGraph, group: &Group) -> ResourceGraph {
    let rules: Vec<_> = group
        .rules()
        .into_iter()
        .map(|rule| Rule {
            owner: None,
            ..rule
        })
        .collect();
    let attributes = Attributes::default()
        .set(ID, &group.group_id)
        .set(RULES, texts(&rules));
    graph.resource(
        group_resource(&group.group_name),
        attributes.tagged(&map(group.tag_set.clone())),
    )
}

/// Adds target groups without a load balancer, of a change that was interrupted.
fn with_loose<'a>(
    graph: ResourceGraph,
    loose: impl Iterator<Item = &'a TargetGroup>,
) -> Result<ResourceGraph> {
    loose.into_iter().try_fold(graph, |graph, group| {
        let is_taken = graph.pool_attributes(&group.pool()).is_some();
        let name = if is_taken {
            format!("unused {}", group.target_group_name)
        } else {
            group.pool()
        };
        Ok(graph.pool(&name, group.settings()?, Some(Targets::default())))
    })
}
