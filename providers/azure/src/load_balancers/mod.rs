//! Load balancers as a cloud for the engine of provider-kit. All Services of one kind share one load balancer of Azure:
//! what the engine calls a load balancer is a Service's share of it, with its public address and its security rules.

pub(crate) mod address;
pub(crate) mod document;
pub(crate) mod members;
pub(crate) mod security;
pub(crate) mod spec;

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cloud_provider::{
    AddressType, Caches, Cluster, LoadBalancerStatus, Node, Result, Service, async_trait, default_load_balancer_name,
};
use futures::future::try_join_all;
use parking_lot::Mutex;
use provider_kit::annotations::Parsed;
use provider_kit::cached::Cached;
use provider_kit::coalescer::Coalescer;
use provider_kit::inventory::{Found, Inventory};
use provider_kit::load_balancers::{
    Applied, Attributes, Change, DesiredStateInput, Identity, LoadBalancerCloud, NameUniqueness, Naming,
    ObservedLoadBalancer, Operation, OwnerTags, Published, Query, ResourceGraph, ResourceKey, Scope, Targets,
};
use provider_kit::paging::ListResult;
use provider_kit::transport::Priority;
use serde_json::{Value, json};

use self::document::{CLUSTER_TAG, Edit, Frame, Share, prefix};
use self::members::MemberChange;
use self::spec::{Rule, Spec};
use crate::arm::{Arm, LOAD_BALANCERS, PUBLIC_ADDRESSES, name_of, text};
use crate::config::{Config, PoolKind};
use crate::documents::{DocumentKey, DocumentKind, Shared};
use crate::machines::Machines;
use crate::nodes::{compared, is_unmanaged};

/// The kinds of load balancers.
const EXTERNAL: &str = "external";
const INTERNAL: &str = "internal";
/// The time for which the zones of the region are kept.
const ZONES_AGE: Duration = Duration::from_secs(1800);

/// The load balancers of a cluster.
#[derive(Clone)]
pub(crate) struct AzureLoadBalancers(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) config: Arc<Config>,
    documents: Shared,
    machines: Inventory<Machines>,
    caches: OnceLock<Arc<dyn Caches>>,
    cluster_name: OnceLock<String>,
    zones: Cached<Vec<String>>,
    /// Reads of both load balancers and the security group, which concurrent callers share.
    reads: Coalescer<(), AzureLoadBalancers, Arc<Observed>>,
    members: Coalescer<(DocumentKey, String), (Shared, MemberChange)>,
    /// Addresses besides its own to which security rules of a Service must lead.
    further: Mutex<HashMap<String, BTreeSet<IpAddr>>>,
}

impl std::ops::Deref for AzureLoadBalancers {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

/// The documents that Services have shares in, as they were read.
struct Observed {
    /// Load balancers, each with its kind.
    load_balancers: Vec<(&'static str, Value)>,
    security_group: Value,
}

impl AzureLoadBalancers {
    pub(crate) fn new(config: Arc<Config>, documents: Shared, machines: Inventory<Machines>) -> Self {
        let members =
            Coalescer::new(|(key, pool): (DocumentKey, String), items: Vec<(Shared, MemberChange)>| async move {
                let (all, changes): (Vec<_>, Vec<_>) = items.into_iter().unzip();
                members::change(&all[0], &key, &pool, &changes).await
            });
        let reads =
            Coalescer::new(|(), callers: Vec<Self>| async move { callers[0].read_documents().await.map(Arc::new) });
        Self(Arc::new(Inner {
            config,
            documents,
            machines,
            caches: OnceLock::new(),
            cluster_name: OnceLock::new(),
            zones: Cached::default(),
            reads,
            members,
            further: Mutex::default(),
        }))
    }

    pub(crate) fn set_caches(&self, caches: Arc<dyn Caches>) {
        self.caches.get_or_init(|| caches);
    }

    pub(crate) fn learn_cluster(&self, cluster: &Cluster) {
        self.cluster_name.get_or_init(|| cluster.name.clone());
    }

    pub(crate) fn arm(&self) -> &Arm {
        self.documents.store().arm()
    }

    fn cluster(&self) -> &str {
        self.cluster_name.get().map_or("kubernetes", String::as_str)
    }

    fn key(&self, kind: &str) -> DocumentKey {
        let name = self.config.load_balancer_name(self.cluster(), kind == INTERNAL);
        DocumentKey { kind: DocumentKind::LoadBalancer, group: self.config.load_balancers.clone(), name }
    }

    fn security_key(&self) -> DocumentKey {
        let (group, name) = (self.config.security_group.clone(), self.config.file.security_group_name.clone());
        DocumentKey { kind: DocumentKind::SecurityGroup, group, name }
    }

    /// Returns the zones of the region; none in an edge zone.
    pub(crate) async fn zones(&self) -> Result<Vec<String>> {
        if self.extended_location().is_some() {
            return Ok(Vec::new());
        }
        let read = async || {
            self.arm().zones(&self.config.nodes.subscription, "publicIPAddresses", &self.config.region()).await
        };
        let (zones, _) = self
            .zones
            .get(ZONES_AGE, read)
            .await
            .map_err(|error| error.context("cannot read the zones of the region"))?;
        Ok((*zones).clone())
    }

    pub(crate) fn extended_location(&self) -> Option<Value> {
        let file = &self.config.file;
        (!file.extended_location_name.is_empty())
            .then(|| json!({"name": file.extended_location_name, "type": file.extended_location_type}))
    }

    async fn read_documents(&self) -> Result<Observed> {
        let store = self.documents.store();
        let kinds = [EXTERNAL, INTERNAL];
        let keys = kinds.map(|kind| self.key(kind));
        let (balancers, security_group) =
            futures::try_join!(try_join_all(keys.iter().map(|key| store.get(key))), self.security_group())?;
        let load_balancers = kinds.into_iter().zip(balancers).filter(|(_, it)| !it.is_null()).collect();
        Ok(Observed { load_balancers, security_group })
    }

    async fn security_group(&self) -> Result<Value> {
        match self.config.file.security_group_name.is_empty() {
            true => Ok(Value::Null),
            false => self.documents.store().get(&self.security_key()).await,
        }
    }

    /// Returns the UID of the Service whose elements begin with `owner`. The name lacks the last digit of the UID: for a
    /// Service that no longer exists, so does the result.
    fn uid(&self, owner: &str, service: Option<&Service>) -> Option<String> {
        let services = self.caches.get().map(|it| it.services()).unwrap_or_default();
        let mut services = service.into_iter().chain(services.iter().map(|it| &**it));
        let known = services.find(|it| default_load_balancer_name(it) == owner).and_then(|it| it.metadata.uid.clone());
        let digits = &owner[1..];
        let resources = [0..8, 8..12, 12..16, 16..20, 20..31].map(|range| digits.get(range).unwrap_or_default());
        known.or_else(|| Some(resources.join("-")))
    }

    /// Returns one Service's share.
    fn actual(
        &self,
        owner: &str,
        kind: &'static str,
        observed: &Observed,
        addresses: &[Value],
        service: Option<&Service>,
    ) -> Result<Option<ObservedLoadBalancer>> {
        let none = Value::Null;
        let balancer = observed.load_balancers.iter().find(|(its, _)| *its == kind).map_or(&none, |(_, it)| it);
        let share = Share::of(balancer, owner);
        let id = share.frontend.map(|it| text(it, "/properties/publicIPAddress/id").to_ascii_lowercase());
        let is_used = |it: &&Value| id.as_ref().is_some_and(|id| text(it, "/id").eq_ignore_ascii_case(id));
        let is_own = |it: &&Value| {
            kind == EXTERNAL
                && address::is_managed(it, self.cluster())
                && address::owner_in(text(it, "/name")).as_deref() == Some(owner)
        };
        let used = addresses.iter().find(is_used);
        let mut graph = share.graph(balancer, self.cluster(), ResourceGraph::default())?;
        let own: Vec<&Value> = addresses.iter().filter(is_own).collect();
        for address in &own {
            graph = graph.resource(address::resource(text(address, "/name")), address::observed(address));
        }
        if graph.resources.is_empty() {
            return Ok(None);
        }
        let private = share.frontend.map(|it| text(it, "/properties/privateIPAddress")).filter(|it| !it.is_empty());
        let public = used.map(|it| text(it, "/properties/ipAddress")).filter(|it| !it.is_empty());
        let ingress: Vec<_> = public.or(private).map(ObservedLoadBalancer::ip).into_iter().collect();
        let rules = security::observed(&observed.security_group, &self.destinations(owner, &ingress));
        if !rules.is_empty() {
            graph = graph.resource(security::resource(), security::settings(&rules));
        }
        let cluster = balancer["tags"][CLUSTER_TAG].as_str().map(str::to_owned);
        let owner_tags = match (own.first().map(|it| address::owner_tags(it)), cluster) {
            (Some(tags), _) => tags,
            (None, Some(cluster)) => OwnerTags { cluster: Some(cluster), service: self.uid(owner, service) },
            (None, None) => OwnerTags::default(),
        };
        let owner_tags = if owner_tags.service.is_none() { OwnerTags::default() } else { owner_tags };
        Ok(Some(ObservedLoadBalancer {
            id: share_id(kind, owner),
            name: owner.to_owned(),
            cloud_name_and_id: Some((owner.to_owned(), self.key(kind).name)),
            owner_tags,
            legacy_owner: Some(owner.to_owned()),
            kind,
            ingress,
            graph: Some(graph),
            ..ObservedLoadBalancer::default()
        }))
    }

    /// Returns the addresses to which the security rules of a Service lead.
    fn destinations(&self, owner: &str, ingress: &[cloud_provider::LoadBalancerIngress]) -> BTreeSet<IpAddr> {
        let further = self.further.lock().get(owner).cloned().unwrap_or_default();
        let own = ingress.iter().filter_map(|it| it.ip.as_deref()?.parse().ok());
        own.chain(further).collect()
    }

    /// Reads the shares of one Service, of both kinds. The Service, if it is known, may name the resource group of its
    /// address.
    async fn find(&self, owner: &str, service: Option<&Service>) -> Result<Vec<ObservedLoadBalancer>> {
        let observed = self.reads.join((), self.clone()).await?;
        let mut addresses = Vec::new();
        let default = address::default_name(self.cluster(), owner, None);
        let mut place = self.config.load_balancers.clone();
        let annotations = service.and_then(|it| it.metadata.annotations.as_ref());
        let group = annotations.and_then(|it| it.get(crate::annotations::GROUP.key()));
        place.name = group.map_or(place.name, |it| it.to_ascii_lowercase());
        addresses.extend(self.arm().get::<Value>(&PUBLIC_ADDRESSES, &place, &default).await?);
        for (_, balancer) in &observed.load_balancers {
            let id = Share::of(balancer, owner)
                .frontend
                .map(|it| text(it, "/properties/publicIPAddress/id"))
                .unwrap_or_default();
            let is_known = addresses.iter().any(|it| text(it, "/id").eq_ignore_ascii_case(id));
            if !id.is_empty() && !is_known {
                addresses.extend(self.address_by_id(id).await?);
            }
        }
        let actuals = [EXTERNAL, INTERNAL].map(|kind| self.actual(owner, kind, &observed, &addresses, service));
        actuals.into_iter().filter_map(Result::transpose).collect()
    }

    /// Reads the shares of all Services.
    async fn all(&self) -> Result<Vec<ObservedLoadBalancer>> {
        let group = &self.config.load_balancers;
        let (balancers, addresses, security_group) = futures::try_join!(
            self.arm().all(&LOAD_BALANCERS, group),
            self.arm().all(&PUBLIC_ADDRESSES, group),
            self.security_group()
        )?;
        let kind = |it: &Value| {
            let name = text(it, "/name");
            [EXTERNAL, INTERNAL].into_iter().find(|kind| self.key(kind).name.eq_ignore_ascii_case(name))
        };
        let load_balancers: Vec<_> = balancers.into_iter().filter_map(|it| Some((kind(&it)?, it))).collect();
        let observed = Observed { load_balancers, security_group };
        let mut owners: BTreeSet<(&'static str, String)> = BTreeSet::new();
        for (kind, balancer) in &observed.load_balancers {
            let lists = ["frontendIPConfigurations", "loadBalancingRules"].into_iter();
            let names = lists
                .flat_map(|list| crate::arm::items(balancer, list))
                .map(|it| text(it, "/name").to_ascii_lowercase());
            owners.extend(names.filter_map(|name| Some((*kind, prefix(&name)?.to_owned()))));
        }
        let managed = addresses.iter().filter(|it| address::is_managed(it, self.cluster()));
        owners.extend(managed.filter_map(|it| Some((EXTERNAL, address::owner_in(text(it, "/name"))?))));
        let actuals = owners.iter().map(|(kind, owner)| self.actual(owner, kind, &observed, &addresses, None));
        actuals.filter_map(Result::transpose).collect()
    }

    /// Returns the members that these Nodes are; `None` if none of them is known.
    async fn targets(&self, nodes: &[Arc<Node>], is_ipv6: bool) -> Result<Option<Targets>> {
        let is_left_out = |node: &&Arc<Node>| {
            let is_control = ["control-plane", "master"]
                .iter()
                .any(|it| node.labels.get(&format!("node-role.kubernetes.io/{it}")).is_some());
            is_unmanaged(node) || (is_control && self.config.file.exclude_master_from_standard_lb != Some(false))
        };
        let nodes: Vec<_> = nodes.iter().filter(|node| !is_left_out(node)).cloned().collect();
        let found: Vec<String> = match self.config.file.pool_kind {
            PoolKind::Nic => {
                let known: Vec<_> = nodes.iter().filter(|it| it.provider_id().is_some()).map(compared).collect();
                let machines = self.machines.find_all(&known, false, Priority::Ordinary).await;
                let there = machines.into_iter().filter_map(|found| match found {
                    Ok(Found::Present(machine)) => Some(Ok(machine.interface.to_string())),
                    Ok(Found::Gone(_)) => None,
                    Err(error) if error.is_invalid() => None,
                    Err(error) => Some(Err(error)),
                });
                there.collect::<Result<_>>()?
            }
            _ => nodes.iter().filter_map(|node| internal(node, is_ipv6)).map(|ip| ip.to_string()).collect(),
        };
        let found: Targets = found.iter().filter(|it| !it.is_empty()).collect();
        Ok((nodes.is_empty() || !found.is_empty()).then_some(found))
    }

    fn frame(&self, kind: &str, identity: &Identity<'_>) -> Frame {
        let (file, key) = (&self.config.file, self.key(kind));
        let vnet = (!file.vnet_name.is_empty())
            .then(|| self.config.vnet.id("Microsoft.Network/virtualNetworks", &file.vnet_name));
        Frame {
            id: key.group.id(LOAD_BALANCERS.kind, &key.name),
            location: file.location.clone(),
            extended_location: self.extended_location().unwrap_or_default(),
            tags: self.config.tags.clone(),
            cluster: OwnerTags::cluster(identity.cluster).to_owned(),
            pool: self.cluster().to_owned(),
            maximum_rules: self.config.maximum_rules,
            vnet,
        }
    }

    async fn carry_out(&self, change: Change<'_>, spec: &Spec) -> Result<Applied> {
        let Change { identity, actual, operations, .. } = change;
        let (kind, owner) = (actual.map_or(identity.kind, |it| it.kind), actual.map_or(&*identity.name, |it| &it.name));
        let after = change.outcome_of_all();
        let graph = after.as_ref().and_then(|it| it.graph.clone()).unwrap_or_default();
        let touches =
            |is_it: &dyn Fn(&ResourceKey) -> bool| operations.iter().any(|it| it.resource().is_some_and(is_it));
        let is_address = |resource: &ResourceKey| resource.is_of_kind(address::KIND);
        let is_tagged = operations.contains(&Operation::Tag);
        let is_rules = |resource: &ResourceKey| *resource == security::resource();
        let before = actual.map(|it| it.ingress.clone()).unwrap_or_default();
        let mut leaving = self.destinations(owner, &before);
        leaving.extend(identity.published_addresses.iter().filter_map(|it| it.parse::<IpAddr>().ok()));
        let security = |present, leaving, rules| SecurityChange { owner, kind, present, leaving, rules };
        if operations.iter().any(|it| it.deletes(is_rules)) {
            self.write_security(security(BTreeSet::new(), leaving.clone(), BTreeSet::new()), spec).await?;
        }
        let names = |graph: &ResourceGraph| -> Vec<String> {
            let auxiliary = |resource: &ResourceKey| {
                if let ResourceKey::CreatedBefore(it) = resource { Some(it.name.clone()) } else { None }
            };
            graph.resources.keys().filter_map(auxiliary).collect()
        };
        let created = |resource: &ResourceKey| {
            operations.iter().any(|it| it.resource() == Some(resource) && !it.deletes(|_| true))
        };
        for name in names(&graph) {
            if is_tagged || created(&address::resource(&name)) {
                let tags = identity.owner_tags();
                let wanted = address::Wanted { spec, service: identity.service, cluster: self.cluster(), owner: &tags };
                self.write_address(&name, wanted).await?;
            }
        }
        let is_share = |resource: &ResourceKey| {
            matches!(resource, ResourceKey::Balancer | ResourceKey::Pool(_) | ResourceKey::Listener(_))
        };
        let (join, leave) = member_changes(operations);
        let is_by_address = self.config.file.pool_kind != PoolKind::Nic;
        let mut was_there = true;
        if is_tagged || touches(&is_share) || (is_by_address && !(join.is_empty() && leave.is_empty())) {
            let mut edit = self.edit(kind, owner, &graph, identity, spec).await?;
            if is_by_address {
                edit.join = join.iter().map(|ip| (self.node_name(ip), ip.to_owned())).collect();
                edit.leave = leave.clone();
            }
            was_there = self.write_share(&self.key(kind), edit).await?;
        }
        let has_changes = !join.is_empty() || !leave.is_empty();
        if has_changes && !is_by_address && graph.balancer_attributes().is_some() {
            let (key, members) = (self.key(kind), MemberChange { join, leave });
            self.members.join((key, self.cluster().to_owned()), (self.documents.clone(), members)).await?;
        }
        let is_pool = |resource: &ResourceKey| matches!(resource, ResourceKey::Pool(_));
        // The pool of other Services may have members that no Service wants any more.
        let others = match created_by(operations, is_pool) {
            true => {
                let document = self.documents.store().last(&self.key(kind));
                document::members(&document, self.cluster()).without(&graph.targets_of(self.cluster()))
            }
            false => Targets::default(),
        };
        let ingress = match after {
            Some(_) => self.ingress(kind, owner, &before).await?,
            None => before.clone(),
        };
        let settings = graph.resources.get(&security::resource());
        if (settings.is_some() && touches(&is_rules)) || (!before.is_empty() && before != ingress) {
            let rules = settings.and_then(|it| it.get("rules")).map(crate::arm::read).transpose()?.unwrap_or_default();
            let present = self.destinations(owner, &ingress);
            leaving.retain(|ip| !present.contains(ip));
            self.write_security(security(present, leaving, rules), spec).await?;
        }
        for operation in operations {
            if let Operation::Delete { resource: resource @ ResourceKey::CreatedBefore(it) } = operation
                && is_address(resource)
            {
                self.delete_address(&it.name, spec).await?;
            }
        }
        Ok(match after {
            Some(after) => {
                let mut shown = ObservedLoadBalancer {
                    id: share_id(kind, owner),
                    ingress,
                    cloud_name_and_id: Some((owner.to_owned(), self.key(kind).name)),
                    ..after
                };
                match shown.graph.as_mut().filter(|_| !others.is_empty()) {
                    Some(graph) => {
                        let all = graph.targets_of(self.cluster()).with(&others);
                        graph.targets.insert(self.cluster().to_owned(), all);
                        Applied::PlanAgain(Box::new(shown))
                    }
                    None => Applied::all(change, shown),
                }
            }
            None if was_there => Applied::Removed,
            None => Applied::Gone,
        })
    }

    /// Returns the name of the Node that has this address.
    fn node_name(&self, ip: &str) -> String {
        let nodes = self.caches.get().map(|it| it.nodes()).unwrap_or_default();
        let found = nodes.iter().find(|node| node.addresses.iter().any(|it| &*it.address == ip));
        found.map_or_else(|| ip.to_owned(), |node| node.name.to_string())
    }

    async fn edit(
        &self,
        kind: &str,
        owner: &str,
        graph: &ResourceGraph,
        identity: &Identity<'_>,
        spec: &Spec,
    ) -> Result<Edit> {
        let mut base =
            spec.named_subnet.as_ref().map_or_else(|| owner.to_owned(), |subnet| format!("{owner}-{subnet}"));
        base.truncate(75);
        let base = base.trim_end_matches(['-', '_', '.']).to_owned();
        let frontend = match graph.balancer_attributes() {
            Some(attributes) => Some((frontend(attributes, spec.is_ipv6), self.zones().await?)),
            None => None,
        };
        let rule = |(port, settings): (&provider_kit::load_balancers::Port, &Attributes)| {
            Ok((port.clone(), crate::arm::read::<Rule>(&settings.nested())?))
        };
        Ok(Edit {
            frame: self.frame(kind, identity),
            owner: owner.to_owned(),
            base,
            frontend,
            rules: graph.listeners().map(rule).collect::<Result<_>>()?,
            join: Vec::new(),
            leave: Targets::default(),
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

    /// Returns the address of a share after a change.
    async fn ingress(
        &self,
        kind: &str,
        owner: &str,
        before: &[cloud_provider::LoadBalancerIngress],
    ) -> Result<Vec<cloud_provider::LoadBalancerIngress>> {
        let document = self.documents.store().last(&self.key(kind));
        let Some(frontend) = Share::of(&document, owner).frontend else { return Ok(before.to_vec()) };
        let ip = match text(frontend, "/properties/publicIPAddress/id") {
            "" => text(frontend, "/properties/privateIPAddress").to_owned(),
            id => {
                let address = self.address_by_id(id).await?.unwrap_or_default();
                text(&address, "/properties/ipAddress").to_owned()
            }
        };
        Ok((!ip.is_empty()).then(|| ObservedLoadBalancer::ip(&ip)).into_iter().collect())
    }

    /// Writes the security rules of a Service, together with those of other Services.
    async fn write_security(&self, change: SecurityChange<'_>, spec: &Spec) -> Result<()> {
        if self.config.file.security_group_name.is_empty() {
            return Ok(());
        }
        let SecurityChange { owner, kind, present, leaving, rules } = change;
        let mut retained = retained(&self.documents.store().last(&self.key(kind)), owner);
        retained.extend(self.retained_by_services(owner, &leaving));
        let edit = security::Edit {
            addresses: present,
            leaving,
            rules,
            retained,
            node_ports: spec.to_nodes.then(|| spec.ports.iter().map(|it| it.rule.backend_port.to_string()).collect()),
        };
        self.documents.edit(&self.security_key(), move |group| edit.apply(group)).await
    }

    /// Returns protocols and ports of other Services that show one of these addresses.
    fn retained_by_services(&self, owner: &str, addresses: &BTreeSet<IpAddr>) -> BTreeSet<String> {
        let services = self.caches.get().map(|it| it.services()).unwrap_or_default();
        let shows = |it: &Service| {
            let ingress = it.status.as_ref().and_then(|it| it.load_balancer.as_ref()?.ingress.as_ref());
            let mut ips = ingress.into_iter().flatten().filter_map(|it| it.ip.as_deref()?.parse().ok());
            ips.any(|ip: IpAddr| addresses.contains(&ip))
        };
        let others = services.iter().filter(|it| default_load_balancer_name(it) != owner && shows(it));
        let ports = others.filter_map(|it| it.spec.as_ref()?.ports.as_ref()).flatten();
        ports
            .map(|port| match port.protocol.as_deref() {
                Some("UDP") => format!("Udp {}", port.port),
                Some("SCTP") => format!("* {}", port.port),
                _ => format!("Tcp {}", port.port),
            })
            .collect()
    }
}

/// A change of a Service's security rules.
struct SecurityChange<'a> {
    owner: &'a str,
    kind: &'a str,
    /// The addresses that rules lead to.
    present: BTreeSet<IpAddr>,
    /// Addresses that the Service had.
    leaving: BTreeSet<IpAddr>,
    rules: BTreeSet<String>,
}

/// Returns the ID of a Service's share.
fn share_id(kind: &str, owner: &str) -> String {
    format!("{kind}/{owner}")
}

/// Returns the internal address of a Node of this family.
fn internal(node: &Node, is_ipv6: bool) -> Option<IpAddr> {
    let internal = node.addresses.iter().filter(|it| it.kind == AddressType::InternalIP);
    { internal }.filter_map(|it| it.address.parse().ok()).find(|ip: &IpAddr| ip.is_ipv6() == is_ipv6)
}

/// Returns `true` if the operations create a resource for which `is_it` holds.
fn created_by(operations: &[Operation], is_it: impl Fn(&ResourceKey) -> bool) -> bool {
    operations.iter().any(|it| matches!(it, Operation::Create { resource, .. } if is_it(resource)))
}

/// Returns the targets that join and leave the pool.
fn member_changes(operations: &[Operation]) -> (Targets, Targets) {
    let empty = || (Targets::default(), Targets::default());
    operations.iter().fold(empty(), |(join, leave), operation| match operation {
        Operation::AddTargets { targets, .. } => (join.with(targets), leave),
        Operation::RemoveTargets { targets, .. } => (join, leave.with(targets)),
        _ => (join, leave),
    })
}

/// Returns a frontend as the API reads it.
fn frontend(attributes: &Attributes, is_ipv6: bool) -> Value {
    let text = |key: &str| attributes.text(key);
    let properties = match (text("publicIPAddress"), text("subnet")) {
        (Some(id), _) => json!({"publicIPAddress": {"id": id}, "subnet": null, "privateIPAddress": null}),
        (None, subnet) => json!({
            "subnet": {"id": subnet}, "publicIPAddress": null,
            "privateIPAllocationMethod": text("privateIPAddress").map_or("Dynamic", |_| "Static"),
            "privateIPAddress": text("privateIPAddress"),
            "privateIPAddressVersion": if is_ipv6 { "IPv6" } else { "IPv4" },
        }),
    };
    json!({ "properties": properties })
}

/// Returns protocols and ports of other Services that use the frontend of this one.
fn retained(document: &Value, owner: &str) -> BTreeSet<String> {
    let frontend = Share::of(document, owner).frontend.map(|it| text(it, "/name")).unwrap_or_default();
    let others = crate::arm::items(document, "loadBalancingRules").filter(|it| {
        let its = name_of(text(it, "/properties/frontendIPConfiguration/id"));
        prefix(text(it, "/name")) != Some(owner) && !frontend.is_empty() && its.eq_ignore_ascii_case(frontend)
    });
    others.map(|it| format!("{} {}", text(it, "/properties/protocol"), it["properties"]["frontendPort"])).collect()
}

#[async_trait]
impl LoadBalancerCloud for AzureLoadBalancers {
    type Spec = Spec;

    /// Returns `Unique`: the elements of a Service are known by their names, and a second one of a name is the first one.
    fn name_uniqueness(&self) -> NameUniqueness {
        NameUniqueness::Unique
    }

    fn naming(&self, cluster: &Cluster, service: &Service) -> Naming {
        self.learn_cluster(cluster);
        let key = format!("{}{}", crate::annotations::PREFIX, "azure-load-balancer-internal");
        let annotation = service.metadata.annotations.as_ref().and_then(|it| it.get(&key));
        let is_internal = annotation.is_some_and(|it| it.eq_ignore_ascii_case("true"));
        Naming {
            legacy_owner: Some(default_load_balancer_name(service)),
            kind: if is_internal { INTERNAL } else { EXTERNAL },
            ..Naming::of(service)
        }
    }

    fn spec(&self, service: &Service) -> Parsed<Spec> {
        Spec::of(service, &self.config)
    }

    async fn desired(&self, input: &DesiredStateInput<'_, Spec>) -> Result<ResourceGraph> {
        let (spec, request) = (input.spec, input.request);
        let pool = request.cluster.name.as_str();
        let targets = self.targets(request.nodes, spec.is_ipv6).await?;
        if input.scope == Scope::Targets {
            return Ok(ResourceGraph::default().pool(pool, Attributes::default(), targets));
        }
        let owner = default_load_balancer_name(request.service);
        let mut further: BTreeSet<IpAddr> = spec.additional.iter().copied().collect();
        if spec.to_nodes {
            further.extend(request.nodes.iter().filter_map(|node| internal(node, spec.is_ipv6)));
        }
        self.further.lock().insert(owner.clone(), further);
        let mut graph = ResourceGraph::default();
        let mut frontend = Attributes::default();
        if spec.is_internal {
            let vnet = self.config.vnet.id("Microsoft.Network/virtualNetworks", &self.config.file.vnet_name);
            let subnet = spec.subnet.as_deref().unwrap_or_default();
            frontend = frontend.set("subnet", format!("{vnet}/subnets/{subnet}").to_ascii_lowercase());
            if let Some(ip) = spec.address {
                frontend = frontend.set("privateIPAddress", ip.to_string());
            }
        } else {
            let default = address::default_name(pool, &owner, spec.prefix.as_deref());
            let stated = self.stated_address(spec).await?;
            let stated = stated.filter(|it| !text(it, "/name").eq_ignore_ascii_case(&default));
            let id = match &stated {
                Some(address) => text(address, "/id").to_owned(),
                None => {
                    let settings = self.desired_address(spec, request.service, pool);
                    graph = graph.resource(address::resource(&default), settings);
                    self.address_group(spec).id(PUBLIC_ADDRESSES.kind, &default)
                }
            };
            frontend = frontend.set("publicIPAddress", id.to_ascii_lowercase());
        }
        graph = graph.balancer(frontend).pool(pool, Attributes::default(), targets);
        for port in &spec.ports {
            graph = graph.listener(port.number, port.transport, pool, Attributes::desired(&port.rule)?);
        }
        if let Some(rules) = spec.security.as_ref().filter(|it| !it.is_empty()) {
            graph = graph.resource(security::resource(), security::settings(rules));
        }
        Ok(graph)
    }

    async fn read(&self, query: Query<'_>) -> Result<ListResult<ObservedLoadBalancer>> {
        match query {
            Query::All(sets) => Ok(ListResult::of(self.all().await?.into_iter().map(|it| it.sharing(sets)).collect())),
            Query::Owner(identity) => self.find(&identity.name, Some(identity.service)).await.map(ListResult::of),
            Query::Ids(ids, _) => {
                let owners: BTreeSet<&str> = ids.iter().map(|id| name_of(id)).collect();
                let found = try_join_all(owners.iter().map(|owner| self.find(owner, None))).await?;
                Ok(ListResult::of(found.into_iter().flatten().filter(|it| ids.contains(&it.id)).collect()))
            }
        }
    }

    async fn apply(&self, change: Change<'_>, spec: &Spec) -> Result<Applied> {
        // Other Services are synced meanwhile, so that their changes join the same write.
        change.callbacks.release_permit();
        let outcome = self.carry_out(change, spec).await;
        change.callbacks.reacquire_permit().await;
        outcome
    }

    fn published(&self, observed: &ObservedLoadBalancer, _: &Service, spec: &Spec) -> Published {
        let mut ingress = observed.ingress.clone();
        if !ingress.is_empty() {
            ingress.extend(spec.additional.iter().map(|ip| ObservedLoadBalancer::ip(&ip.to_string())));
        }
        Published {
            status: LoadBalancerStatus { ingress: (!ingress.is_empty()).then_some(ingress) },
            annotations: Vec::new(),
        }
    }
}
