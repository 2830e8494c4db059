//! The desired state of a Service's load balancer, from its spec and from facts of the network.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use cloud_provider::{Error, Node, Result, TargetHealth};
use futures::future::{join_all, try_join_all};
use provider_kit::events::PendingEvents;
use provider_kit::inventory::MachineSource;
use provider_kit::load_balancers::{
    Attributes, DesiredStateInput, ObservedLoadBalancer, Port, ResourceGraph, Targets,
};
use provider_kit::transport::{Call, Priority};
use serde_json::{Value, json};

use super::objects::{Form, RULES, balancer_settings, listener_settings, set_settings, socket};
use super::security::{Places, Rule};
use super::spec::{Families, LoadBalancerSpec, PortSpec};
use super::{LoadBalancers, groups, objects, security};
use crate::annotations::{self, SecurityMode, TlsSettings};
use crate::instance::ocid;
use crate::subnets::Subnet;

/// The cipher suite of gRPC listeners.
const GRPC_SUITE: &str = "oci-default-http2-ssl-cipher-suite-v1";

/// The subnets of a load balancer, and the families of its addresses: IPv4, IPv6.
struct Facts {
    subnets: Vec<Arc<Subnet>>,
    families: [bool; 2],
    /// Families of listeners and backends, which depend on the subnets of the Nodes, too.
    listeners: [bool; 2],
}

/// A backend set and the listener that leads to it.
struct PoolOfPort<'a> {
    key: Port,
    name: String,
    targets: Option<Targets>,
    port: &'a PortSpec,
    is_ipv6: bool,
}

impl LoadBalancers {
    pub(super) async fn subnets(
        &self,
        ids: impl Iterator<Item = &str>,
    ) -> Result<Vec<Arc<Subnet>>> {
        let found = try_join_all(ids.map(|id| self.lists.subnets().get(id))).await;
        // A setting names it.
        found.map_err(|error| {
            if error.is_not_found() {
                Error::invalid(error.to_string())
            } else {
                error
            }
        })
    }

    /// Returns the subnets of an existing load balancer. One that was deleted holds no rules.
    async fn remaining_subnets(&self, ids: impl Iterator<Item = &str>) -> Result<Vec<Arc<Subnet>>> {
        let mut found = Vec::new();
        for subnet in join_all(ids.map(|id| self.lists.subnets().get(id))).await {
            match subnet {
                Err(error) if error.is_not_found() => {
                    tracing::warn!(%error, "security rules of a subnet are not read");
                }
                subnet => found.push(subnet?),
            }
        }
        Ok(found)
    }

    /// Returns the OCIDs of the instances of all Nodes. A command without caches, such as `orphans`, lists the Nodes.
    async fn ids_of_nodes(&self) -> Result<Vec<Box<str>>> {
        let id = |provider_id: &str| ocid(provider_id).ok().map(Into::into);
        if let Some(nodes) = self.cluster.nodes() {
            return Ok(nodes
                .iter()
                .filter_map(|node| id(&node.provider_id))
                .collect());
        }
        let nodes = self.cluster.list("/api/v1/nodes").await?;
        Ok(nodes
            .iter()
            .filter_map(|node| id(node.pointer("/spec/providerID")?.as_str()?))
            .collect())
    }

    /// Returns the subnets of the primary VNICs of all Nodes, and `false` if those of some Nodes are not known.
    async fn subnets_of_nodes(&self) -> Result<(Vec<Arc<Subnet>>, bool)> {
        let ids = self.ids_of_nodes().await?;
        if ids
            .iter()
            .any(|id| !self.node_subnets.lock().contains_key(id))
        {
            match self.instances.snapshot(Priority::Ordinary).await {
                Ok(list) => {
                    let subnet = |id: &str| Some((id.into(), list.by_id(id)?.subnet.clone()?));
                    self.node_subnets
                        .lock()
                        .extend(ids.iter().filter_map(|id| subnet(id)));
                }
                // A subnet was deleted, and the list needs it: instances are read one by one.
                Err(error) if error.is_not_found() => {
                    tracing::warn!(%error, "instances cannot be listed");
                }
                Err(error) => return Err(error),
            }
        }
        // The list is that of one compartment: an instance of another one is read by its OCID.
        let missing: Vec<_> = ids
            .iter()
            .filter(|id| !self.node_subnets.lock().contains_key(*id))
            .collect();
        let mut is_complete = true;
        for (id, found) in missing
            .iter()
            .zip(join_all(missing.iter().map(|id| self.subnet_of(id))).await)
        {
            match found {
                Ok(subnet) => self
                    .node_subnets
                    .lock()
                    .extend(subnet.map(|subnet| ((*id).clone(), subnet))),
                Err(error) => {
                    tracing::warn!(id, %error, "subnet of an instance is not known: security rules stay");
                    is_complete = false;
                }
            }
        }
        let subnets: BTreeSet<_> = {
            let known = self.node_subnets.lock();
            ids.iter().filter_map(|id| known.get(id).cloned()).collect()
        };
        let reads = join_all(subnets.iter().map(|id| self.lists.subnets().get(id))).await;
        let mut found = Vec::new();
        for subnet in reads {
            match subnet {
                Ok(subnet) => found.push(subnet),
                // A subnet that was deleted has no rules, and no instance.
                Err(error) if error.is_not_found() => is_complete = false,
                Err(error) => return Err(error),
            }
        }
        Ok((found, is_complete))
    }

    /// Notes if the subnets of all Nodes are known, on which the rules of a Service depend.
    fn note_partial_rules(&self, uid: String, is_complete: bool) {
        let mut partial = self.partial_rules.lock();
        let _is_changed = if is_complete {
            partial.remove(&uid)
        } else {
            partial.insert(uid)
        };
    }

    /// Reads the subnet of one instance; `None` if the instance does not exist.
    async fn subnet_of(&self, id: &str) -> Result<Option<Box<str>>> {
        let found = self
            .instances
            .source()
            .by_id(id, Priority::Ordinary)
            .await?;
        Ok(found.and_then(|instance| instance.subnet.clone()))
    }

    /// Returns the places and ports of the rules of a load balancer, from its desired or observed resources.
    pub(super) async fn places(
        &self,
        graph: &ResourceGraph,
        mode: SecurityMode,
        spec: Option<&LoadBalancerSpec>,
    ) -> Result<Places> {
        let settings = graph.balancer_attributes().cloned().unwrap_or_default();
        let ids = settings
            .get("subnetIds")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str);
        let ids = ids.chain(settings.text("subnetId"));
        let balancer = match spec {
            Some(_) => self.subnets(ids).await?,
            None => self.remaining_subnets(ids).await?,
        };
        let is_all = mode == SecurityMode::All;
        let (nodes, is_complete) = if is_all {
            self.subnets_of_nodes().await?
        } else {
            (Vec::new(), true)
        };
        let health: Vec<u16> = graph
            .resources
            .iter()
            .filter_map(|(_, settings)| settings.number("healthChecker.port"))
            .collect();
        let targets = graph
            .targets
            .iter()
            .flat_map(|(_, targets)| targets.iter())
            .filter_map(|text| Some(socket(text)?.1));
        let stated = spec
            .iter()
            .flat_map(|spec| spec.ports.iter().map(|port| port.node_port));
        let (ranges, is_dual) = match settings.text("nlbIpVersion") {
            Some("IPV4_AND_IPV6") => ([true, true], true),
            Some("IPV6") => ([false, true], false),
            // Backends of a load balancer have IPv4, whatever its own addresses are.
            _ => ([true, false], settings.text("ipMode") == Some("IPV6")),
        };
        let sources = spec.iter().flat_map(|spec| &spec.sources);
        let sources =
            sources.filter(|network| is_dual || ranges[usize::from(network.addr().is_ipv6())]);
        Ok(Places {
            balancer,
            nodes,
            is_complete,
            listeners: graph.listeners().map(|(port, _)| port.number).collect(),
            node_ports: targets.chain(stated).filter(|_| is_all).collect(),
            health_ports: health.into_iter().filter(|_| is_all).collect(),
            sources: sources.map(ToString::to_string).collect(),
            families: ranges,
            preserves_source: spec.is_some_and(|spec| spec.preserves_source),
        })
    }

    /// Chooses the subnets, and the families of the addresses that they allow.
    async fn facts(&self, spec: &LoadBalancerSpec) -> Result<Facts> {
        if spec.subnets.iter().all(Option::is_none) {
            let annotation = if spec.is_network() {
                &annotations::NETWORK_SUBNET
            } else {
                &annotations::SUBNET1
            };
            let text =
                "no subnet: set loadBalancer.subnet1 in the cloud configuration, or annotation";
            return Err(Error::invalid(format!("{text} {}", annotation.key())));
        }
        let mut subnets = self
            .subnets(spec.subnets.iter().flatten().map(String::as_str))
            .await?;
        // A regional subnet is the only one: that of an annotation, else the first.
        if subnets.len() == 2 {
            let is_regional = |at: &usize| !subnets[*at].is_of_one_domain();
            let named = (0..2).find(|at| spec.is_subnet_named[*at] && is_regional(at));
            if let Some(at) = named.or(Some(0).filter(is_regional)) {
                subnets = vec![subnets.swap_remove(at)];
            }
        }
        if spec.is_internal {
            subnets.truncate(1);
        }
        let has = |subnets: &[Arc<Subnet>], is_ipv6| {
            !subnets.is_empty() && subnets.iter().all(|subnet| subnet.has(is_ipv6))
        };
        let families = match spec.families {
            Families::Ipv4 => [true, false],
            Families::Ipv6 => [false, true],
            Families::RequireBoth => [true, true],
            Families::PreferBoth => [
                has(&subnets, false) || !has(&subnets, true),
                has(&subnets, true),
            ],
        };
        for (is_wanted, is_ipv6) in [(families[0], false), (families[1], true)] {
            if is_wanted && !has(&subnets, is_ipv6) {
                let ids: Vec<_> = subnets.iter().map(|subnet| &*subnet.id).collect();
                let family = if is_ipv6 { "IPv6" } else { "IPv4" };
                let text = format!(
                    "subnet {} has no {family} range, which the Service needs",
                    ids.join(", ")
                );
                return Err(Error::invalid(text));
            }
        }
        let mut listeners = families;
        if families == [true, true] && spec.is_network() {
            let (nodes, _) = self.subnets_of_nodes().await?;
            let of_nodes =
                [false, true].map(|is_ipv6| nodes.iter().any(|subnet| subnet.has(is_ipv6)));
            if of_nodes.contains(&true) {
                listeners = [families[0] && of_nodes[0], families[1] && of_nodes[1]];
            }
        }
        Ok(Facts {
            subnets,
            families,
            listeners,
        })
    }

    /// Returns the network of the load balancer.
    pub(super) async fn vcn(&self, spec: &LoadBalancerSpec) -> Result<String> {
        match &self.config.vcn {
            Some(vcn) => Ok(vcn.clone()),
            None => Ok(self
                .facts(spec)
                .await?
                .subnets
                .first()
                .map(|subnet| subnet.vcn_id.clone())
                .unwrap_or_default()),
        }
    }

    /// Returns the targets of a port: addresses of the Nodes with its node port. `None` keeps the present ones.
    fn targets(
        &self,
        input: &DesiredStateInput<'_, LoadBalancerSpec>,
        port: &PortSpec,
        is_ipv6: bool,
        events: &mut PendingEvents,
    ) -> Option<Targets> {
        let spec = input.spec;
        let nodes = input.request.nodes;
        let selected = spec
            .selector
            .as_ref()
            .map_or_else(|| nodes.to_vec(), |selector| selector.select(nodes));
        let mut found = Vec::new();
        for node in &selected {
            match LoadBalancerSpec::backend_address(node, is_ipv6)
                .filter(|_| !node.provider_id.is_empty())
            {
                Some(ip) => found.push(SocketAddr::new(ip, port.node_port).to_string()),
                None if node.is_uninitialized() => {}
                None => {
                    let text = "this Node is no backend: it has no provider ID, or no address of the Service's family";
                    events.warn_node(node, "NoBackendAddress", text);
                }
            }
        }
        (selected.is_empty() || !found.is_empty()).then(|| found.into_iter().collect())
    }

    fn pools<'a>(
        &self,
        input: &DesiredStateInput<'a, LoadBalancerSpec>,
        families: [bool; 2],
        events: &mut PendingEvents,
    ) -> Vec<PoolOfPort<'a>> {
        let spec = input.spec;
        let families: &[bool] = match (spec.is_network(), families) {
            (true, [true, true]) => &[false, true],
            (true, [false, true]) => &[true],
            _ => &[false],
        };
        let mut all = Vec::new();
        for (port, is_ipv6) in spec
            .ports
            .iter()
            .flat_map(|port| families.iter().map(move |family| (port, *family)))
        {
            let suffix = if is_ipv6 { "-IPv6" } else { "" };
            let key = Port {
                number: port.number,
                protocol: format!("{}{suffix}", port.transport).into(),
            };
            let name = format!("{}-{}{suffix}", port.transport, port.number);
            all.push(PoolOfPort {
                key,
                name,
                targets: self.targets(input, port, is_ipv6, events),
                port,
                is_ipv6,
            });
        }
        all
    }

    /// Returns the pools with their targets, and nothing else.
    pub(super) async fn desired_targets(
        &self,
        input: &DesiredStateInput<'_, LoadBalancerSpec>,
        events: &mut PendingEvents,
    ) -> Result<ResourceGraph> {
        let families = match input.spec.families {
            Families::Ipv4 => [true, false],
            Families::Ipv6 => [false, true],
            _ => self.facts(input.spec).await?.listeners,
        };
        let pools = self.pools(input, families, events);
        let rules = match input.spec.mode {
            SecurityMode::All => self.rules_of_targets(input.spec, &pools).await,
            _ => Ok(None),
        };
        let add = |graph: ResourceGraph, pool_of_port: PoolOfPort<'_>| {
            graph.pool(
                &pool_of_port.name,
                Attributes::default(),
                pool_of_port.targets,
            )
        };
        let graph = pools.into_iter().fold(ResourceGraph::default(), add);
        // Rules that cannot be determined keep no Node from becoming a target.
        let rules =
            rules.inspect_err(|error| tracing::warn!(%error, "security rules stay as they are"));
        Ok(match rules.ok().flatten() {
            Some(rules) => {
                graph.resource_of_nodes(security::resource(), security::settings(&rules))
            }
            None => graph,
        })
    }

    /// Returns the rules that traffic to these targets needs: Nodes may have joined in another subnet.
    async fn rules_of_targets(
        &self,
        spec: &LoadBalancerSpec,
        pools: &[PoolOfPort<'_>],
    ) -> Result<Option<BTreeSet<Rule>>> {
        let facts = self.facts(spec).await?;
        let mut graph =
            ResourceGraph::default().balancer(balancer_settings(&balancer(spec, &facts)));
        for PoolOfPort {
            key, name, targets, ..
        } in pools
        {
            graph = graph.pool(name, set_settings(&spec.set), targets.clone());
            graph = graph.listener(
                key.number,
                key.protocol.clone(),
                name,
                Attributes::default(),
            );
        }
        let places = self.places(&graph, spec.mode, Some(spec)).await?;
        self.lists.desired(&places).await.map(Some)
    }

    pub(super) async fn whole_graph(
        &self,
        input: &DesiredStateInput<'_, LoadBalancerSpec>,
        events: &mut PendingEvents,
    ) -> Result<ResourceGraph> {
        let spec = input.spec;
        let facts = self.facts(spec).await?;
        let settings = balancer_settings(&balancer(spec, &facts)).set(RULES, spec.mode.name());
        let mut graph = ResourceGraph::default().balancer(settings);
        let has_tls = spec.ports.iter().any(|port| port.is_tls);
        let secrets = [&spec.tls_secret, &spec.tls_backend_secret]
            .into_iter()
            .flatten()
            .filter(|_| has_tls);
        for (secret, settings) in self
            .certificates
            .of_service(input.request.service, secrets)
            .await?
        {
            graph = graph.resource(objects::certificate(secret), settings);
        }
        for (name, set) in spec.rule_sets.iter().flatten() {
            graph = graph.resource(objects::rule_set(name), objects::rule_set_settings(set));
        }
        for PoolOfPort {
            key,
            name,
            targets,
            port,
            is_ipv6,
        } in self.pools(input, facts.listeners, events)
        {
            let mut set = spec.set.clone();
            let mut listener = port.listener.clone();
            listener["protocol"] = port.protocol.into();
            if spec.is_network() {
                let version = if is_ipv6 { "IPV6" } else { "IPV4" };
                (set["ipVersion"], listener["ipVersion"]) = (version.into(), version.into());
            }
            if port.is_tls && (spec.tls_secret.is_some() || !spec.certificate_ids.is_empty()) {
                let suite = (port.protocol == "GRPC").then_some(GRPC_SUITE);
                let secret = spec.tls_secret.as_ref().map(|tls_secret| &*tls_secret.1);
                listener["sslConfiguration"] =
                    tls(secret, &spec.certificate_ids, spec.tls.as_ref(), suite);
            }
            if let (true, Some((_, secret))) = (port.is_tls, &spec.tls_backend_secret) {
                set["sslConfiguration"] = tls(Some(secret), &[], spec.backend_tls.as_ref(), None);
                set["healthChecker"]["isForcePlainText"] = true.into();
            }
            if let Some(sets) = &spec.rule_sets {
                listener["ruleSetNames"] = json!(sets.keys().collect::<Vec<_>>());
            }
            let with_tls = |settings: Attributes| {
                if spec.is_network() {
                    settings
                } else {
                    objects::without_other_tls(settings)
                }
            };
            graph = graph.pool(&name, with_tls(set_settings(&set)), targets);
            graph = graph.listener(
                key.number,
                key.protocol,
                &name,
                with_tls(listener_settings(&listener)),
            );
        }
        match spec.mode {
            SecurityMode::All | SecurityMode::Frontend => {
                let places = self.places(&graph, spec.mode, Some(spec)).await?;
                let rules = self.lists.desired(&places).await?;
                let uid = input
                    .request
                    .service
                    .metadata
                    .uid
                    .clone()
                    .unwrap_or_default();
                self.note_partial_rules(uid, places.is_complete);
                graph = graph.resource(security::resource(), security::settings(&rules));
            }
            SecurityMode::Groups => {
                graph = graph.resource(groups::resource(), groups::desired(spec));
            }
            SecurityMode::None => {}
        }
        Ok(graph)
    }

    /// Reads the health of the backends of a load balancer.
    pub(super) async fn health(
        &self,
        observed: &ObservedLoadBalancer,
    ) -> Result<BTreeMap<String, TargetHealth>> {
        let form = Form::of_id(&observed.id);
        let mut all = BTreeMap::new();
        for (pool, targets) in observed.graph.iter().flat_map(|graph| &graph.targets) {
            let health: Value = form
                .http(&self.api)
                .read(Call::get(form.health, &[&observed.id, pool]))
                .await?;
            for target in targets.iter() {
                let is_in = |list: &str| {
                    health[list]
                        .as_array()
                        .is_some_and(|all| all.iter().any(|object| object.as_str() == Some(target)))
                };
                let bad = ["critical", "warning", "unknown"]
                    .into_iter()
                    .find(|text| is_in(&format!("{text}StateBackendNames")));
                let detail = bad.unwrap_or("ok").to_owned();
                all.insert(
                    target.to_owned(),
                    TargetHealth {
                        is_healthy: bad.is_none(),
                        detail,
                    },
                );
            }
        }
        Ok(all)
    }
}

/// Returns the load balancer itself in the form of the API.
fn balancer(spec: &LoadBalancerSpec, facts: &Facts) -> Value {
    let ids: Vec<_> = facts.subnets.iter().map(|subnet| &*subnet.id).collect();
    let mut balancer =
        json!({"isPrivate": spec.is_internal, "networkSecurityGroupIds": spec.groups});
    if spec.is_network() {
        balancer["subnetId"] = ids.first().copied().into();
        let version = match facts.families {
            [true, true] => "IPV4_AND_IPV6",
            [false, true] => "IPV6",
            _ => "IPV4",
        };
        balancer["nlbIpVersion"] = version.into();
        return balancer;
    }
    balancer["subnetIds"] = json!(ids);
    balancer["ipMode"] = if facts.families[1] {
        "IPV6".into()
    } else {
        Value::Null
    };
    if let Some((name, limits)) = &spec.shape {
        balancer["shapeName"] = name.as_str().into();
        if let Some((min, max)) = limits {
            balancer["shapeDetails"] =
                json!({"minimumBandwidthInMbps": min, "maximumBandwidthInMbps": max});
        }
    }
    balancer
}

/// Returns the settings of TLS for a certificate of a Secret, or for certificates of the Certificates service.
fn tls(
    secret: Option<&str>,
    ids: &[String],
    settings: Option<&TlsSettings>,
    default_suite: Option<&str>,
) -> Value {
    let mut tls = json!({"verifyDepth": 0, "verifyPeerCertificate": false});
    match secret.filter(|_| ids.is_empty()) {
        Some(secret) => tls["certificateName"] = secret.into(),
        None => tls["certificateIds"] = json!(ids),
    }
    if let Some(suite) = settings
        .and_then(|tls_settings| tls_settings.suite.as_deref())
        .or(default_suite)
    {
        tls["cipherSuiteName"] = suite.into();
    }
    if let Some(settings) = settings.filter(|tls_settings| !tls_settings.protocols.is_empty()) {
        tls["protocols"] = json!(settings.protocols);
    }
    tls
}

/// Returns the OCIDs of instances by the addresses that are backends, for network load balancers.
pub(super) fn instances(nodes: &[Arc<Node>]) -> BTreeMap<String, String> {
    let pair = |node: &Arc<Node>| {
        let ip = LoadBalancerSpec::backend_address(node, false)?;
        Some((ip.to_string(), ocid(&node.provider_id).ok()?.to_owned()))
    };
    nodes.iter().filter_map(pair).collect()
}
