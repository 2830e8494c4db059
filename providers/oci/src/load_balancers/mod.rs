//! Load balancers and network load balancers as a cloud for the engine of provider-kit.

mod apply;
mod certificates;
mod groups;
mod objects;
mod security;
mod spec;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};

use cloud_provider::{
    Caches, Cluster, Error, LoadBalancerIngress, LoadBalancerStatus, Node, Result, Service, async_trait,
};
use futures::future::{try_join, try_join_all};
use parking_lot::Mutex;
use provider_kit::annotations::Parsed;
use provider_kit::cluster::ClusterView;
use provider_kit::events::{EventDeduplicator, PendingEvents};
use provider_kit::inventory::{Inventory, SharedPriority};
use provider_kit::load_balancers::{
    Applied, Attributes, Change, DesiredStateInput, Detail, Identity, LoadBalancerCloud, NameUniqueness, Naming,
    ObservedLoadBalancer, Port, Published, Query, Recovery, ResourceGraph, Scope, State, Targets,
};
use provider_kit::paging::ListResult;
use provider_kit::status::shown;
use provider_kit::transport::{Call, Priority};
use serde_json::{Value, json};

use self::certificates::Certificates;
use self::groups::Groups;
use self::objects::{
    Form, LB, NLB, PRIVATE_FROM, balancer_settings, listener_settings, observed, set_settings, socket,
};
use self::security::{Places, SecurityLists};
use self::spec::{Families, LoadBalancerSpec, PortSpec};
use crate::annotations::{COMPARTMENT, SecurityMode};
use crate::api::Api;
use crate::config::Config;
use crate::instances::{Source, ocid};
use crate::subnets::Subnet;

/// The load balancers of a compartment.
pub(crate) struct LoadBalancers {
    instances: Inventory<Source>,
    api: Api,
    config: Arc<Config>,
    cluster: ClusterView,
    lists: SecurityLists,
    groups: Groups,
    certificates: Certificates,
    deduplicator: EventDeduplicator,
    caches: Arc<OnceLock<Arc<dyn Caches>>>,
    /// The rules that Services ask for, by the names of their load balancers.
    modes: Mutex<HashMap<String, SecurityMode>>,
    /// Work requests of load balancers. An empty one is looked for: another program's request is in the way.
    pending: Mutex<HashMap<String, String>>,
}

/// The subnets of a load balancer and of its targets, for rules and address families.
struct Facts {
    subnets: Vec<Arc<Subnet>>,
    /// Families of the load balancer's addresses: IPv4, IPv6.
    families: [bool; 2],
}

/// A backend set and the listener that leads to it.
struct PoolOfPort {
    key: Port,
    name: String,
    targets: Option<Targets>,
    /// Position of the port in the spec.
    at: usize,
    is_ipv6: bool,
}

impl LoadBalancers {
    pub(crate) fn new(
        api: Api,
        instances: Inventory<Source>,
        cluster: ClusterView,
        caches: Arc<OnceLock<Arc<dyn Caches>>>,
    ) -> Self {
        let subnets = Arc::clone(&instances.source().subnets);
        Self {
            lists: SecurityLists::new(api.clone(), subnets),
            groups: Groups::new(api.clone()),
            certificates: Certificates::new(cluster.clone()),
            deduplicator: EventDeduplicator::new(cluster.events().clone()),
            config: Arc::clone(&api.config),
            instances,
            api,
            cluster,
            caches,
            modes: Mutex::default(),
            pending: Mutex::default(),
        }
    }

    async fn compartment(&self, service: &Service) -> Result<String> {
        match COMPARTMENT.text_on(service) {
            Some(compartment) => Ok(compartment.to_owned()),
            None => self.api.region.compartment().await,
        }
    }

    async fn list(
        &self,
        form: &'static Form,
        compartment: &str,
        name: Option<&str>,
        priority: &SharedPriority,
    ) -> Result<ListResult<Value>> {
        let call = Call::get(form.all, &[]).query("compartmentId", compartment);
        let call = name.iter().fold(call, |call, name| call.query("displayName", name));
        let all =
            form.http(&self.api).list(call, form.items, priority, |it| it, |it: &Value| it["id"].to_string()).await?;
        let is_there = |it: &Value| it["lifecycleState"] != "DELETED";
        Ok(all.filter(is_there))
    }

    /// Reads load balancers of both kinds that have a name of the Service.
    async fn find(&self, identity: &Identity<'_>) -> Result<Vec<ObservedLoadBalancer>> {
        let urgency = if identity.is_leaving() { Priority::Urgent } else { Priority::Ordinary };
        let (priority, compartment) = (SharedPriority::of(urgency), self.compartment(identity.service).await?);
        let names = names(&self.config, identity.service);
        let read = [(&LB, &names[0]), (&NLB, &names[1])].map(|(form, name)| {
            let (priority, compartment) = (&priority, &compartment);
            async move {
                let found = self.list(form, compartment, Some(name), priority).await?.complete()?.into_items();
                self.whole(form, found.into_iter().filter(|it| it["displayName"] == name.as_str()).collect()).await
            }
        });
        let mut all: Vec<_> = try_join_all(read).await?.into_iter().flatten().collect();
        if all.is_empty() && LoadBalancerSpec::of(identity.service, &self.config).spec.mode == SecurityMode::Groups {
            all.extend(self.groups.leftover(identity, &compartment).await?);
        }
        Ok(all)
    }

    /// Converts load balancers, with the rules that lists do not show.
    async fn whole(&self, form: &'static Form, balancers: Vec<Value>) -> Result<Vec<ObservedLoadBalancer>> {
        let convert = |balancer: Value| async move {
            let mut it = observed(form, &balancer, &self.config.prefix);
            if self.pending.lock().contains_key(&it.id) && self.is_working(form, &it.id).await? {
                it.state = State::Busy;
            }
            if it.state == State::Ready {
                self.add_rules(&mut it).await?;
            }
            Ok::<_, Error>(it)
        };
        try_join_all(balancers.into_iter().map(convert)).await
    }

    async fn by_id(&self, id: &str, detail: Detail) -> Result<Option<ObservedLoadBalancer>> {
        let form = Form::of_id(id);
        if detail == Detail::State
            && !form.is_network()
            && self.pending.lock().contains_key(id)
            && self.is_working(form, id).await?
        {
            return Ok(Some(ObservedLoadBalancer {
                id: id.to_owned(),
                kind: form.name,
                state: State::Busy,
                ..Default::default()
            }));
        }
        let found: Option<Value> = form.http(&self.api).find(Call::get(form.one, &[id])).await?;
        let found = found.filter(|it| it["lifecycleState"] != "DELETED");
        Ok(self.whole(form, found.into_iter().collect()).await?.pop())
    }

    /// Returns `true` while the cloud carries out a work request of a load balancer.
    async fn is_working(&self, form: &Form, id: &str) -> Result<bool> {
        let is_open = |state: &Value| ["ACCEPTED", "IN_PROGRESS"].iter().any(|it| state == it);
        let request = self.pending.lock().get(id).cloned().unwrap_or_default();
        if form.is_network() {
            self.pending.lock().remove(id);
            return Ok(false);
        }
        let working = if request.is_empty() {
            let call = Call::get("/20170115/loadBalancers/{id}/workRequests", &[id]);
            let all: Vec<Value> = match self.api.all(call, |it: &Value| it["id"].to_string()).await {
                Err(error) if error.is_not_found() => Vec::new(),
                all => all?,
            };
            all.iter().any(|it| is_open(&it["lifecycleState"]))
        } else {
            let call = Call::get("/20170115/loadBalancerWorkRequests/{id}", &[&request]);
            let found = self.api.iaas.find::<Value>(call).await?.unwrap_or_default();
            if found["lifecycleState"] == "FAILED" {
                let cause = found.pointer("/errorDetails/0/message").unwrap_or(&found["message"]);
                tracing::warn!(load_balancer = id, %cause, "the cloud could not change a load balancer");
            }
            is_open(&found["lifecycleState"])
        };
        if !working {
            self.pending.lock().remove(id);
        }
        Ok(working)
    }

    fn mode_of(&self, balancer: &ObservedLoadBalancer) -> SecurityMode {
        let default = if balancer.kind == NLB.name { SecurityMode::None } else { self.config.security_mode };
        self.modes.lock().get(&balancer.name).copied().unwrap_or(default)
    }

    /// Adds the rules of security lists and of the network security group to the graph of a load balancer.
    async fn add_rules(&self, balancer: &mut ObservedLoadBalancer) -> Result<()> {
        let mode = self.mode_of(balancer);
        let (name, Some(graph)) = (balancer.name.clone(), balancer.graph.take()) else { return Ok(()) };
        let mut graph = self.groups.observed(graph, &mut balancer.labels, &name).await?;
        if [SecurityMode::All, SecurityMode::Frontend].contains(&mode) {
            let places = self.places(&graph, mode, None).await?;
            let rules = self.lists.observed(&places).await?;
            if !rules.is_empty() {
                graph = graph.resource(security::resource(), security::settings(&rules));
            }
        }
        balancer.graph = Some(graph);
        Ok(())
    }

    async fn subnets(&self, ids: impl Iterator<Item = &str>) -> Result<Vec<Arc<Subnet>>> {
        try_join_all(ids.map(|id| self.lists.subnets().get(id))).await
    }

    /// Returns the places and ports of the rules of a load balancer, from its desired or observed resources.
    async fn places(
        &self,
        graph: &ResourceGraph,
        mode: SecurityMode,
        spec: Option<&LoadBalancerSpec>,
    ) -> Result<Places> {
        let settings = graph.balancer_attributes().cloned().unwrap_or_default();
        let ids = settings.get("subnetIds").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        let balancer = self.subnets(ids.chain(settings.text("subnetId"))).await?;
        let is_all = mode == SecurityMode::All;
        let nodes = if is_all { self.node_subnets().await? } else { Vec::new() };
        let health = graph.resources.iter().filter_map(|(_, it)| it.number::<u16>("healthChecker.port"));
        let targets = graph
            .targets
            .iter()
            .flat_map(|(_, targets)| targets.iter().filter_map(|it| Some(socket(it)?.1)).collect::<Vec<_>>());
        let stated = spec.iter().flat_map(|it| it.ports.iter().map(|port| port.node_port));
        let node_ports = if is_all { health.chain(targets).chain(stated).collect() } else { BTreeSet::new() };
        Ok(Places {
            balancer,
            nodes,
            listeners: graph.listeners().map(|(port, _)| port.number).collect(),
            node_ports,
            sources: spec
                .iter()
                .flat_map(|it| &it.sources)
                .filter(|it| it.addr().is_ipv4())
                .map(ToString::to_string)
                .collect(),
            preserves_source: spec.is_some_and(|it| it.preserves_source),
        })
    }

    /// Returns the subnets of the primary VNICs of all Nodes.
    async fn node_subnets(&self) -> Result<Vec<Arc<Subnet>>> {
        let nodes = self.cluster.nodes().unwrap_or_default();
        if nodes.is_empty() {
            return Ok(Vec::new());
        }
        let list = self.instances.snapshot(Priority::Ordinary).await?;
        let of = |node: &Arc<Node>| list.by_id(ocid(&node.provider_id).ok()?)?.subnet.clone();
        let ids: BTreeSet<_> = nodes.iter().filter_map(of).collect();
        self.subnets(ids.iter().map(|id| &**id)).await
    }

    /// Returns the rules of security lists that other Services need: they stay.
    fn retained(&self, service: &Service) -> (BTreeSet<u16>, BTreeSet<u16>) {
        let (mut listeners, mut node_ports) = (BTreeSet::new(), BTreeSet::new());
        for other in self.caches.get().map(|it| it.services()).unwrap_or_default() {
            let is_leaving = other.metadata.deletion_timestamp.is_some();
            let is_balanced = other.spec.as_ref().and_then(|it| it.type_.as_deref()) == Some("LoadBalancer");
            if other.metadata.uid == service.metadata.uid || is_leaving || !is_balanced {
                continue;
            }
            let spec = LoadBalancerSpec::of(&other, &self.config).spec;
            if [SecurityMode::All, SecurityMode::Frontend].contains(&spec.mode) {
                listeners.extend(spec.ports.iter().map(|port| port.number));
                node_ports.insert(spec.health_port);
                node_ports.extend(spec.ports.iter().map(|port| port.node_port));
            }
        }
        (listeners, node_ports)
    }

    /// Chooses the subnets, and the families of the addresses that they allow.
    async fn facts(&self, spec: &LoadBalancerSpec) -> Result<Facts> {
        let mut subnets = Vec::new();
        for (at, id) in spec.subnets.iter().enumerate() {
            let Some(id) = id.as_deref() else { continue };
            let subnet = self.lists.subnets().get(id).await?;
            let is_alone = !subnet.is_of_one_domain();
            if is_alone && (at == 0 || spec.is_subnet_named[1]) {
                // A regional subnet is the only one. That of the second annotation replaces the first.
                let second =
                    spec.subnets.get(1).and_then(Option::as_deref).filter(|_| at == 0 && spec.is_subnet_named[1]);
                let other = match second {
                    Some(id) => Some(self.lists.subnets().get(id).await?).filter(|it| !it.is_of_one_domain()),
                    None => None,
                };
                subnets = vec![other.unwrap_or(subnet)];
                break;
            }
            subnets.push(subnet);
        }
        let has = |is_ipv6| !subnets.is_empty() && subnets.iter().all(|it| it.has(is_ipv6));
        let families = match spec.families {
            Families::Ipv4 => [true, false],
            Families::Ipv6 => [false, true],
            Families::RequireBoth => [true, true],
            Families::PreferBoth => [has(false) || !has(true), has(true)],
        };
        for (wanted, is_ipv6) in [(families[0], false), (families[1], true)] {
            if wanted && !has(is_ipv6) {
                let (family, ids): (_, Vec<_>) =
                    (if is_ipv6 { "IPv6" } else { "IPv4" }, subnets.iter().map(|it| &*it.id).collect());
                return Err(Error::invalid(format!(
                    "subnet {} has no {family} range, which the Service asks for",
                    ids.join(", ")
                )));
            }
        }
        Ok(Facts { subnets, families })
    }

    /// Returns the targets of a port: addresses of the Nodes with its node port.
    fn targets(
        &self,
        spec: &LoadBalancerSpec,
        nodes: &[Arc<Node>],
        port: &PortSpec,
        is_ipv6: bool,
        events: &mut PendingEvents,
    ) -> Option<Targets> {
        let selected = spec.selector.as_ref().map_or_else(|| nodes.to_vec(), |selector| selector.select(nodes));
        let mut found = Vec::new();
        for node in &selected {
            match LoadBalancerSpec::backend_address(node, is_ipv6).filter(|_| !node.provider_id.is_empty()) {
                Some(ip) => found.push(std::net::SocketAddr::new(ip, port.node_port).to_string()),
                None if node.is_uninitialized() => {}
                None => {
                    let text = "this Node is no backend: it has no provider ID, or no internal address of the Service's family";
                    events.warn_node(node, "NoBackendAddress", text);
                }
            }
        }
        (selected.is_empty() || !found.is_empty()).then(|| found.into_iter().collect())
    }

    fn pools(
        &self,
        input: &DesiredStateInput<'_, LoadBalancerSpec>,
        families: [bool; 2],
        events: &mut PendingEvents,
    ) -> Vec<PoolOfPort> {
        let spec = input.spec;
        let mut all: Vec<PoolOfPort> = Vec::new();
        for (at, port) in spec.ports.iter().enumerate() {
            for is_ipv6 in [false, true].into_iter().filter(|is_ipv6| families[usize::from(*is_ipv6)]) {
                let is_ipv6 = is_ipv6 && spec.is_network();
                let suffix = if is_ipv6 { "-IPv6" } else { "" };
                let name = format!("{}-{}{suffix}", port.transport, port.number);
                if all.iter().any(|it| it.name == name) {
                    continue;
                }
                let key = Port { number: port.number, protocol: format!("{}{suffix}", port.transport).into() };
                let targets = self.targets(spec, input.request.nodes, port, is_ipv6, events);
                all.push(PoolOfPort { key, name, targets, at, is_ipv6 });
            }
        }
        all
    }

    /// Returns the settings of TLS for a certificate.
    fn tls(name: &str, settings: Option<&crate::annotations::TlsSettings>, default_suite: Option<&str>) -> Value {
        let mut tls = json!({"certificateName": name, "verifyDepth": 0, "verifyPeerCertificate": false});
        if let Some(suite) = settings.and_then(|it| it.suite.as_deref()).or(default_suite) {
            tls["cipherSuiteName"] = suite.into();
        }
        if let Some(settings) = settings.filter(|it| !it.protocols.is_empty()) {
            tls["protocols"] = json!(settings.protocols);
        }
        tls
    }

    async fn whole_graph(
        &self,
        input: &DesiredStateInput<'_, LoadBalancerSpec>,
        events: &mut PendingEvents,
    ) -> Result<ResourceGraph> {
        let spec = input.spec;
        let facts = self.facts(spec).await?;
        let ids: Vec<_> = facts.subnets.iter().map(|it| &*it.id).collect();
        let mut balancer = json!({"isPrivate": spec.is_internal, "networkSecurityGroupIds": spec.groups});
        if spec.is_network() {
            balancer["subnetId"] = ids.first().copied().into();
            balancer["nlbIpVersion"] = match facts.families {
                [true, true] => "IPV4_AND_IPV6",
                [false, true] => "IPV6",
                _ => "IPV4",
            }
            .into();
        } else {
            balancer["subnetIds"] = json!(ids);
            balancer["ipMode"] = if facts.families[1] { json!("IPV6") } else { Value::Null };
        }
        if let Some((name, limits)) = &spec.shape {
            balancer["shapeName"] = name.as_str().into();
            if let Some((min, max)) = limits {
                balancer["shapeDetails"] = json!({"minimumBandwidthInMbps": min, "maximumBandwidthInMbps": max});
            }
        }
        let mut graph = ResourceGraph::default().balancer(balancer_settings(&balancer));
        let has_tls = spec.ports.iter().any(|port| port.is_tls) && !spec.is_network();
        for secret in [&spec.tls_secret, &spec.tls_backend_secret].into_iter().flatten().filter(|_| has_tls) {
            let pair = self.certificates.read(secret).await?;
            graph = graph.resource(objects::certificate(&secret.1), objects::certificate_settings(&pair.certificate));
        }
        for (name, set) in spec.rule_sets.iter().flatten() {
            graph = graph.resource(objects::rule_set(name), objects::rule_set_settings(set));
        }
        for PoolOfPort { key, name, targets, at, is_ipv6 } in self.pools(input, facts.families, events) {
            let port = &spec.ports[at];
            let (mut set, mut listener) = (spec.set.clone(), port.listener.clone());
            listener["protocol"] = port.protocol.into();
            if spec.is_network() {
                let version = if is_ipv6 { "IPV6" } else { "IPV4" };
                (set["ipVersion"], listener["ipVersion"]) = (version.into(), version.into());
            }
            if let (true, Some((_, secret))) = (port.is_tls, &spec.tls_secret) {
                let suite = (port.protocol == "GRPC").then_some("oci-default-http2-ssl-cipher-suite-v1");
                listener["sslConfiguration"] = Self::tls(secret, spec.tls.as_ref(), suite);
            }
            if let (true, Some((_, secret))) = (port.is_tls, &spec.tls_backend_secret) {
                set["sslConfiguration"] = Self::tls(secret, spec.backend_tls.as_ref(), None);
                set["healthChecker"]["isForcePlainText"] = true.into();
            }
            if let Some(sets) = &spec.rule_sets {
                listener["ruleSetNames"] = json!(sets.keys().collect::<Vec<_>>());
            }
            let with_tls =
                |settings: Attributes| if spec.is_network() { settings } else { objects::without_other_tls(settings) };
            graph = graph.pool(&name, with_tls(set_settings(&set)), targets);
            graph = graph.listener(key.number, key.protocol, &name, with_tls(listener_settings(&listener)));
        }
        match spec.mode {
            SecurityMode::All | SecurityMode::Frontend => {
                let places = self.places(&graph, spec.mode, Some(spec)).await?;
                let rules = self.lists.desired(&places).await?;
                graph = graph.resource(security::resource(), security::settings(&rules));
            }
            SecurityMode::Groups => graph = graph.resource(groups::resource(), groups::desired(spec)),
            SecurityMode::None => {}
        }
        Ok(graph)
    }
}

/// Returns the names of a Service's load balancer and of its network load balancer.
fn names(config: &Config, service: &Service) -> [String; 2] {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let [namespace, name, uid] = [&service.metadata.namespace, &service.metadata.name, &service.metadata.uid].map(text);
    [format!("{}{uid}", config.prefix), format!("{namespace}/{name}/{uid}")]
}

#[async_trait]
impl LoadBalancerCloud for LoadBalancers {
    type Spec = LoadBalancerSpec;

    fn name_uniqueness(&self) -> NameUniqueness {
        NameUniqueness::NotUnique
    }

    fn naming(&self, _cluster: &Cluster, service: &Service) -> Naming {
        let spec = LoadBalancerSpec::of(service, &self.config).spec;
        let (names, form) = (names(&self.config, service), Form::of_kind(spec.kind));
        let [own, other] = if spec.is_network() { [1, 0] } else { [0, 1] };
        self.modes.lock().insert(names[own].clone(), spec.mode);
        Naming {
            name: names[own].clone(),
            former_names: vec![names[other].clone()],
            legacy_owner: service.metadata.uid.clone(),
            kind: form.name,
            ..Naming::of(service)
        }
    }

    fn spec(&self, service: &Service) -> Parsed<LoadBalancerSpec> {
        LoadBalancerSpec::of(service, &self.config)
    }

    async fn desired(&self, input: &DesiredStateInput<'_, LoadBalancerSpec>) -> Result<ResourceGraph> {
        let mut events = PendingEvents::default();
        if input.scope == Scope::Targets {
            let families = match input.spec.families {
                Families::Ipv4 => [true, false],
                Families::Ipv6 => [false, true],
                _ => self.facts(input.spec).await?.families,
            };
            let pools = self.pools(input, families, &mut events);
            self.deduplicator.record_new(input.request.service, "targets", &events);
            let add = |graph: ResourceGraph, it: PoolOfPort| graph.pool(&it.name, Attributes::default(), it.targets);
            return Ok(pools.into_iter().fold(ResourceGraph::default(), add));
        }
        let graph = self.whole_graph(input, &mut events).await?;
        input.spec.warnings.iter().for_each(|text| events.warn("QuestionableAnnotation", text));
        self.deduplicator.record_new(input.request.service, "", &events);
        Ok(graph)
    }

    async fn read(&self, query: Query<'_>) -> Result<ListResult<ObservedLoadBalancer>> {
        match query {
            Query::All(sets) => {
                let (compartment, priority) = (self.api.region.compartment().await?, SharedPriority::default());
                let [lbs, nlbs] = [&LB, &NLB].map(|form| self.list(form, &compartment, None, &priority));
                let (lbs, nlbs) = try_join(lbs, nlbs).await?;
                let convert = |form: &'static Form, it: &Value| {
                    // Rules are read with the load balancer itself.
                    let all = observed(form, it, &self.config.prefix);
                    let has_rules = self.mode_of(&all) != SecurityMode::None;
                    let is_pending = self.pending.lock().contains_key(&all.id);
                    let graph = all.graph.clone().filter(|_| !has_rules && !is_pending);
                    ObservedLoadBalancer { graph, ..all }.sharing(sets)
                };
                Ok(merge(lbs.flat_map(|it| [convert(&LB, &it)]), nlbs.flat_map(|it| [convert(&NLB, &it)])))
            }
            Query::Owner(identity) => self.find(identity).await.map(ListResult::of),
            Query::Ids(ids, detail) => {
                let found = try_join_all(ids.iter().map(|id| self.by_id(id, detail))).await?;
                Ok(ListResult::of(found.into_iter().flatten().collect()))
            }
        }
    }

    /// Keeps what the Service does not decide: rule sets without its annotation, rules of security lists that other
    /// Services need, certificates of others, and the names of listeners.
    fn fit(
        &self,
        desired: ResourceGraph,
        observed: &ObservedLoadBalancer,
        identity: &Identity<'_>,
        spec: &LoadBalancerSpec,
    ) -> Result<ResourceGraph> {
        let Some(seen) = &observed.graph else { return Ok(desired) };
        let before = seen.balancer_attributes().and_then(|it| it.text("shapeName"));
        if let (Some("flexible"), Some((wanted, None))) = (before, &spec.shape) {
            return Err(Error::invalid(format!(
                "the load balancer has a flexible shape, which cannot become the fixed shape {wanted}; remove the annotation"
            )));
        }
        let mut desired = certificates::fitted(desired, seen, spec);
        for (resource, settings) in seen.resources.iter() {
            let is_rule_set = resource.is_of_kind("rule set") && spec.rule_sets.is_none();
            if is_rule_set && !desired.resources.contains_key(resource) {
                desired.resources.insert(resource.clone(), settings.clone());
            }
        }
        let (listeners, node_ports) = self.retained(identity.service);
        let seen_rules = security::rules(seen.resources.get(&security::resource()));
        if let Some(wanted) = desired.resources.get(&security::resource()) {
            let mut rules = security::rules(Some(wanted));
            let stays = |it: &&security::Rule| {
                if it.is_ingress {
                    listeners.contains(&it.port) || node_ports.contains(&it.port)
                } else {
                    node_ports.contains(&it.port)
                }
            };
            rules.extend(seen_rules.iter().filter(stays).cloned());
            desired.resources.insert(security::resource(), security::settings(&rules));
        }
        Ok(desired)
    }

    fn recovery(&self, _observed: &ObservedLoadBalancer, service: &Service) -> Recovery {
        if shown(service).is_empty() { Recovery::Replace } else { Recovery::Never }
    }

    async fn apply(&self, change: Change<'_>, spec: &LoadBalancerSpec) -> Result<Applied> {
        self.carry_out(change, spec).await
    }

    fn published(&self, observed: &ObservedLoadBalancer, _: &Service, spec: &LoadBalancerSpec) -> Published {
        let mut ingress = observed.ingress.clone();
        if let (true, Some(public)) =
            (spec.external_only, observed.labels.get(PRIVATE_FROM).and_then(|it| it.parse().ok()))
        {
            ingress.truncate(public);
        }
        let mode = |it: LoadBalancerIngress| LoadBalancerIngress { ip_mode: spec.ip_mode.map(str::to_owned), ..it };
        let ingress: Vec<_> = ingress.into_iter().map(mode).collect();
        Published {
            status: LoadBalancerStatus { ingress: (!ingress.is_empty()).then_some(ingress) },
            annotations: Vec::new(),
        }
    }
}

/// Joins two lists; a partial one makes the whole partial.
fn merge<T>(a: ListResult<T>, b: ListResult<T>) -> ListResult<T> {
    let pages = a.pages() + b.pages();
    match (a, b) {
        (ListResult::Complete { listing: a, .. }, ListResult::Complete { listing: b, .. }) => {
            ListResult::of(a.into_items().into_iter().chain(b.into_items()).collect())
        }
        (ListResult::Partial { reason, items, .. }, other) | (other, ListResult::Partial { reason, items, .. }) => {
            ListResult::Partial { items: items.into_iter().chain(other.into_items()).collect(), pages, reason }
        }
    }
}
