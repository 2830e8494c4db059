//! NodeBalancers as a cloud for the engine of provider-kit: specs of Services, lookup and reads.

mod adoption;
mod apply;
mod firewall;
mod fixed;
mod object;
mod spec;

use std::collections::{BTreeSet, HashMap};
use std::net::Ipv4Addr;
use std::sync::Arc;

use cloud_provider::{
    Cluster, Error, EventSubject, LoadBalancerIngress, LoadBalancerStatus, Node, Result, Service,
    async_trait,
};
use futures::future::try_join_all;
use parking_lot::Mutex;
use provider_kit::annotations::Parsed;
use provider_kit::cluster::ClusterView;
use provider_kit::events::{EventDeduplicator, PendingEvents};
use provider_kit::inventory::SharedPriority;
use provider_kit::key_pair::KeyPair;
use provider_kit::load_balancers::{
    Adoption, Applied, Attributes, Change, DesiredStateInput, Detail, Identity, LoadBalancerCloud,
    NameUniqueness, Naming, Notice, ObservedLoadBalancer, OwnerTags, Published, Query,
    ResourceGraph, ResourceKey, Scope, Targets, check_adoption,
};
use provider_kit::paging::ListResult;
use provider_kit::signing::sha256_hex;
use provider_kit::status::shown;
use provider_kit::transport::{Call, Priority};
use ring::digest::SHA1_FOR_LEGACY_USE_ONLY;
use serde_json::json;

use self::firewall::Firewall;
use self::object::{
    ATTACHED, Backend, NodeBalancer, OWNER_TAGS, POOL, PortConfig, Settings, frontend,
    legacy_owner, requested_id, shown_addresses,
};
use self::spec::NodeBalancerSpec;
use crate::annotations::{FIREWALL_ACL, FIREWALL_ID, ID, PRIVATE_IP, PUBLIC_IPV6, Protocol};
use crate::config::Config;
use crate::linodes::Source;

const ALL: &str = "/nodebalancers";
const ONE: &str = "/nodebalancers/{id}";
const CONFIGS: &str = "/nodebalancers/{id}/configs";

/// The NodeBalancers of an account.
pub(crate) struct NodeBalancers {
    source: Source,
    config: Arc<Config>,
    cluster: ClusterView,
    deduplicator: EventDeduplicator,
    /// IDs of NodeBalancers that annotations of Services name. The legacy owner tag of such a NodeBalancer is its ID;
    /// that of any other, its address.
    requested: Mutex<BTreeSet<String>>,
    /// IDs in annotations that no NodeBalancer had when it was last searched for.
    unknown: Mutex<BTreeSet<String>>,
    /// Services that name a NodeBalancer by its ID: their UID, the addresses that they show, and their legacy owner tag. The
    /// NodeBalancer that they move away from is found by its address.
    moving: Mutex<HashMap<String, (Vec<String>, String)>>,
    /// The firewall of a user that an annotation named last, by the ID of the NodeBalancer.
    named_firewalls: Mutex<HashMap<String, u64>>,
    address_annotations: [String; 2],
}

impl NodeBalancers {
    pub(crate) fn new(source: Source, cluster: ClusterView) -> Self {
        let address_annotations = [PRIVATE_IP, PUBLIC_IPV6].map(str::to_owned);
        let deduplicator = EventDeduplicator::new(cluster.events().clone());
        let config = Arc::clone(&source.config);
        let requested = Mutex::default();
        let unknown = Mutex::default();
        let moving = Mutex::default();
        let named_firewalls = Mutex::default();
        Self {
            source,
            config,
            cluster,
            deduplicator,
            requested,
            unknown,
            moving,
            named_firewalls,
            address_annotations,
        }
    }

    async fn list(
        &self,
        filter: Option<serde_json::Value>,
        shared_priority: &SharedPriority,
    ) -> Result<ListResult<NodeBalancer>> {
        let call = Call::get(ALL, &[]);
        let id = |node_balancer: &NodeBalancer| node_balancer.id;
        self.source
            .api
            .list(
                call,
                filter,
                shared_priority,
                |node_balancer: NodeBalancer| node_balancer,
                id,
            )
            .await
    }

    /// Reads NodeBalancers that may be the Service's: by owner tag, by name, by the addresses in its status and by the
    /// ID in its annotation.
    async fn find(&self, identity: &Identity<'_>) -> Result<Vec<ObservedLoadBalancer>> {
        let shared_priority = SharedPriority::of(if identity.is_leaving() {
            Priority::Urgent
        } else {
            Priority::Ordinary
        });
        let owner = owner_tag(identity);
        let mut any = vec![json!({"tags": owner}), json!({"label": identity.name})];
        let ipv4 = identity
            .legacy_owner
            .as_deref()
            .map(|legacy_owner| legacy_owner.split(' ').next().unwrap_or(legacy_owner));
        let ipv4 = ipv4.filter(|ipv4| ipv4.parse::<Ipv4Addr>().is_ok());
        any.extend(ipv4.map(|ip| json!({"ipv4": ip})));
        let left = shown_addresses(identity.service);
        any.extend(
            left.iter()
                .filter(|_| identity.requested_id.is_some())
                .map(|ip| json!({"ipv4": ip})),
        );
        // A host name and an IPv6 address cannot be filtered by: the whole list is compared.
        let is_vague = ipv4.is_none()
            && identity.requested_id.is_none()
            && !shown(identity.service).is_empty();
        let filter = (!is_vague).then(|| json!({"+or": any}));
        let mut found = self
            .list(filter, &shared_priority)
            .await?
            .complete()?
            .into_items();
        let requested = identity.requested_id.as_ref().filter(|id| {
            !found
                .iter()
                .any(|node_balancer| node_balancer.id.to_string() == **id)
        });
        if let Some(id) = requested {
            let by_id = self
                .source
                .api
                .http
                .find::<NodeBalancer>(Call::get(ONE, &[id]))
                .await?;
            if by_id.is_some() {
                self.unknown.lock().remove(id);
            } else {
                self.unknown.lock().insert(id.clone());
            }
            found.extend(by_id);
        }
        let actual = |node_balancer: NodeBalancer| {
            let is_shown = identity
                .legacy_owner
                .as_deref()
                .is_some_and(|owner| node_balancer.is_found_by(owner));
            let mut actual = self.actual(node_balancer);
            if is_shown {
                actual.legacy_owner.clone_from(&identity.legacy_owner);
            }
            let is_its_object =
                actual.legacy_owner.is_some() && actual.legacy_owner == identity.legacy_owner;
            let is_its_match = is_its_object || actual.name == identity.name;
            (is_its_match || actual.owner_tags.service.as_deref() == Some(identity.uid()))
                .then_some(actual)
        };
        let found: Vec<_> = found.into_iter().filter_map(actual).collect();
        let has_acl = || self.spec(identity.service).spec.acl.is_some();
        if found.is_empty() && identity.is_leaving() && has_acl() {
            return firewall::find_left(&self.source.api, identity, &owner).await;
        }
        Ok(found)
    }

    fn actual(&self, shown: NodeBalancer) -> ObservedLoadBalancer {
        let mut actual = shown.into_actual();
        // Also if somebody has removed the mark of the adoption.
        actual.adopted |= self
            .config
            .adoptable_tag
            .as_ref()
            .is_some_and(|tag| tag.is_among(actual.labels.keys()));
        if self.requested.lock().contains(&actual.id) {
            actual.legacy_owner = Some(format!("ID {}", actual.id));
            return actual;
        }
        let has = |ips: &[String]| {
            actual
                .ingress
                .iter()
                .any(|ingress| ingress.ip.as_ref().is_some_and(|ip| ips.contains(ip)))
        };
        if let Some((_, owner)) = self.moving.lock().values().find(|(ips, _)| has(ips)) {
            actual.legacy_owner = Some(owner.clone());
        }
        actual
    }

    /// Reads a NodeBalancer with all its resources.
    async fn by_id(&self, id: &str, detail: Detail) -> Result<Option<ObservedLoadBalancer>> {
        if let Some(firewall) = firewall::left(id) {
            return firewall::read_left(&self.source.api, firewall).await;
        }
        let Some(found) = self
            .source
            .api
            .http
            .find::<NodeBalancer>(Call::get(ONE, &[id]))
            .await?
        else {
            return Ok(None);
        };
        if detail == Detail::State {
            return Ok(Some(self.actual(found)));
        }
        let actual = self.actual(found.clone());
        let configs = self.configs(id).await?;
        let backends =
            try_join_all(configs.iter().map(|config| self.backends(id, config.id))).await?;
        let firewalls = firewall::of(&self.source.api, id).await?;
        let is_own = |firewall: &&Firewall| firewall.is_own(&actual);
        let attached: Vec<u64> = firewalls
            .iter()
            .filter(|firewall| !is_own(firewall))
            .map(|firewall| firewall.id)
            .collect();
        let mut graph = found.graph(configs.into_iter().zip(backends).collect(), &attached)?;
        if let Some(own_firewall) = firewalls.iter().find(is_own) {
            graph = graph.resource(firewall::resource(), own_firewall.observed());
        }
        Ok(Some(ObservedLoadBalancer {
            graph: Some(graph),
            ..actual
        }))
    }

    /// Reads a Secret of the Service's namespace.
    async fn key_pair(&self, service: &Service, secret: &str) -> Result<KeyPair> {
        KeyPair::read(
            &self.cluster,
            service.metadata.namespace.as_deref().unwrap_or("default"),
            secret,
        )
        .await
    }

    async fn configs(&self, id: &str) -> Result<Vec<PortConfig>> {
        self.source
            .api
            .all(Call::get(CONFIGS, &[id]), |config: &PortConfig| config.id)
            .await
    }

    async fn backends(&self, id: &str, config: u64) -> Result<Vec<Backend>> {
        let call = Call::get(
            "/nodebalancers/{id}/configs/{config}/nodes",
            &[id, &config.to_string()],
        );
        self.source
            .api
            .all(call, |backend: &Backend| backend.id)
            .await
    }

    /// Refuses to sync a NodeBalancer of the Service, while its annotation names another one that does not exist.
    fn check_requested(
        &self,
        identity: &Identity<'_>,
        observed: &ObservedLoadBalancer,
    ) -> Result<()> {
        match identity
            .requested_id
            .as_ref()
            .filter(|id| **id != observed.id && self.unknown.lock().contains(*id))
        {
            Some(id) => Err(Error::invalid(format!(
                "annotation {}: there is no NodeBalancer {id} in this account; set {} to keep {}",
                ID.key(),
                observed.id,
                observed.place()
            ))),
            None => Ok(()),
        }
    }

    /// Keeps what users attached: no firewall is changed if the one in the annotation is attached already, and an ACL is not
    /// in effect beside the firewall of a user.
    fn fit_firewalls(
        &self,
        mut desired: ResourceGraph,
        observed: &ObservedLoadBalancer,
        identity: &Identity<'_>,
        spec: &NodeBalancerSpec,
    ) -> Result<ResourceGraph> {
        let Some(graph) = &observed.graph else {
            return Ok(desired);
        };
        let settings = graph.balancer_attributes();
        let first = settings.and_then(|settings| settings.number::<u64>("firewall_id"));
        let attached = settings
            .and_then(|settings| settings.get(ATTACHED))
            .and_then(|ids| ids.as_array());
        let mut attached: Vec<u64> = attached
            .into_iter()
            .flatten()
            .filter_map(serde_json::Value::as_u64)
            .collect();
        attached.extend(first);
        if let Some(wanted) = spec.firewall_id.filter(|id| attached.contains(id)) {
            self.named_firewalls
                .lock()
                .insert(observed.id.clone(), wanted);
            desired.keep(graph, &ResourceKey::Balancer, &["firewall_id"]);
        }
        let (Some(foreign), Some(_)) = (attached.first(), &spec.acl) else {
            return Ok(desired);
        };
        if graph.resources.contains_key(&firewall::resource()) {
            return Ok(desired);
        }
        let text = format!(
            "firewall {foreign} is attached to {} and was not created for its Service",
            observed.place()
        );
        if spec.states_acl {
            let id = FIREWALL_ID.key();
            let acl = FIREWALL_ACL.key();
            return Err(Error::invalid(format!(
                "{text}; detach it, or name it in annotation {id} and remove {acl}"
            )));
        }
        let text = format!(
            "source ranges are not in effect: {text}. Detach it, or restrict clients in its rules"
        );
        self.deduplicator.warn(
            true,
            EventSubject::Service(identity.service),
            "SourceRangesIgnored",
            &text,
        );
        desired.resources.remove(&firewall::resource());
        Ok(desired)
    }

    /// Returns the tags of a NodeBalancer but for its owner tags, in the order of the Go cloud controller manager.
    fn tags(&self, cluster: &Cluster, spec: &NodeBalancerSpec) -> Vec<String> {
        let all = std::iter::once(&cluster.name)
            .chain(&self.config.tags)
            .chain(&spec.tags);
        let mut seen = BTreeSet::new();
        all.filter(|tag| !tag.is_empty() && seen.insert(*tag))
            .cloned()
            .collect()
    }

    /// Returns the backend addresses of these Nodes; `None` if none is known.
    fn targets(
        &self,
        spec: &NodeBalancerSpec,
        nodes: &[Arc<Node>],
        pending_events: &mut PendingEvents,
    ) -> Option<Targets> {
        let mut found = Vec::new();
        for node in nodes {
            match spec.backend_address(node, &self.config) {
                Some(address) => found.push(address),
                None if node.is_uninitialized() => {}
                None => {
                    let text = "this Node is no backend: it has no address of the kind that the Service asks for";
                    pending_events.warn_node(node, "NoBackendAddress", text);
                }
            }
        }
        (nodes.is_empty() || !found.is_empty()).then(|| found.into_iter().collect())
    }
}

/// Returns the owner tag of a Service.
fn owner_tag(identity: &Identity<'_>) -> String {
    let owner = identity.owner_tags();
    let only = OwnerTags {
        cluster: None,
        ..owner
    };
    OWNER_TAGS.among(&only, Vec::new()).remove(0)
}

#[async_trait]
impl LoadBalancerCloud for NodeBalancers {
    type Spec = NodeBalancerSpec;

    fn name_uniqueness(&self) -> NameUniqueness {
        NameUniqueness::NotUnique
    }

    fn naming(&self, _cluster: &Cluster, service: &Service) -> Naming {
        let uid = service.metadata.uid.as_deref().unwrap_or_default();
        if let Some(id) = requested_id(service) {
            let owner = format!("ID {id}");
            self.moving
                .lock()
                .insert(uid.to_owned(), (shown_addresses(service), owner));
            self.requested.lock().insert(id);
        } else {
            self.moving.lock().remove(uid);
        }
        Naming {
            name: format!(
                "{}-{}",
                self.config.prefix,
                &sha256_hex(uid.as_bytes())[..12]
            ),
            legacy_owner: legacy_owner(service),
            is_legacy_owner_stated: requested_id(service).is_some(),
            requested_id: requested_id(service),
            ..Naming::of(service)
        }
    }

    fn spec(&self, service: &Service) -> Parsed<NodeBalancerSpec> {
        NodeBalancerSpec::of(service, &self.config)
    }

    async fn desired(
        &self,
        input: &DesiredStateInput<'_, NodeBalancerSpec>,
    ) -> Result<ResourceGraph> {
        let spec = input.spec;
        let request = input.request;
        let mut pending_events = PendingEvents::default();
        let targets = self.targets(spec, request.nodes, &mut pending_events);
        if input.scope == Scope::Targets {
            self.deduplicator
                .record_new(request.service, "targets", &pending_events);
            return Ok(ResourceGraph::default().pool(POOL, Attributes::default(), targets));
        }
        let settings = Settings {
            region: Some(self.config.region.clone()),
            kind: Some(spec.kind.text().to_owned()),
            ipv4: spec.reserved_ip.map(|ip| ip.to_string()),
            client_conn_throttle: spec.throttle,
            tags: self.tags(request.cluster, spec),
            firewall_id: spec.firewall_id,
            frontend: Some(frontend(self.frontend_subnet(spec).await?)),
        };
        let mut graph = ResourceGraph::default().balancer(Attributes::desired(&settings)?);
        graph = graph.pool(POOL, Attributes::default(), targets);
        for port in &spec.ports {
            let mut config = port.config.clone();
            if let Some(name) = &port.secret {
                config.ssl_fingerprint = self
                    .key_pair(request.service, name)
                    .await?
                    .fingerprint(&SHA1_FOR_LEGACY_USE_ONLY);
            }
            graph = graph.listener(
                port.number,
                config.transport(),
                POOL,
                Attributes::desired(&config)?,
            );
        }
        if let Some(settings) = firewall::desired(spec) {
            graph = graph.resource(firewall::resource(), settings);
        }
        spec.warnings
            .iter()
            .for_each(|text| pending_events.warn("QuestionableAnnotation", text));
        self.deduplicator
            .record_new(request.service, "", &pending_events);
        Ok(graph)
    }

    async fn read(&self, query: Query<'_>) -> Result<ListResult<ObservedLoadBalancer>> {
        match query {
            Query::All(_) => {
                let call = Call::get(ALL, &[]);
                let id = |load_balancer: &ObservedLoadBalancer| load_balancer.id.clone();
                self.source
                    .api
                    .list(
                        call,
                        None,
                        &SharedPriority::default(),
                        |node_balancer| self.actual(node_balancer),
                        id,
                    )
                    .await
            }
            Query::Owner(identity) => self.find(identity).await.map(ListResult::of),
            Query::Ids(ids, detail) => {
                let found = try_join_all(ids.iter().map(|id| self.by_id(id, detail))).await?;
                Ok(ListResult::of(found.into_iter().flatten().collect()))
            }
        }
    }

    /// Refuses and keeps settings that cannot change, and keeps the firewalls of users. Without backends, the node port of a
    /// configuration is unknown.
    fn fit(
        &self,
        mut desired: ResourceGraph,
        observed: &ObservedLoadBalancer,
        identity: &Identity<'_>,
        spec: &NodeBalancerSpec,
    ) -> Result<ResourceGraph> {
        check_adoption(
            observed,
            identity,
            self.config.adoptable_tag.as_ref(),
            &self.adoption_tags(observed),
        )?;
        // A sync of targets alone has no settings.
        if desired.balancer_attributes().is_none() {
            return Ok(desired);
        }
        self.check_requested(identity, observed)?;
        if identity.is_adoption(observed) {
            desired = adoption::with_own_tags(desired, observed);
        }
        fixed::check(&desired, observed)?;
        for (reason, text) in fixed::ignored(&desired, observed, spec) {
            self.deduplicator
                .warn(true, EventSubject::Service(identity.service), reason, &text);
        }
        desired = self.fit_firewalls(desired, observed, identity, spec)?;
        let empty = Targets::default();
        let has_none = |graph: &ResourceGraph| {
            graph
                .targets
                .get(POOL)
                .is_none_or(|targets| *targets == empty)
        };
        if has_none(&desired) && observed.graph.as_ref().is_none_or(has_none) {
            let listeners: Vec<_> = desired
                .listeners()
                .map(|(port, settings)| (port.clone(), settings.clone()))
                .collect();
            for (port, settings) in listeners {
                desired.resources.insert(
                    ResourceKey::Listener(port),
                    settings.only(&PortConfig::WITHOUT_BACKENDS),
                );
            }
        }
        Ok(desired)
    }

    /// Adopts a NodeBalancer that the Service names by its ID.
    fn adopts(&self, _: &ObservedLoadBalancer, _: &Identity<'_>) -> Adoption {
        Adoption::Adopt
    }

    async fn check_creation(
        &self,
        identity: &Identity<'_>,
        _: &NodeBalancerSpec,
        _: &ResourceGraph,
    ) -> Result<()> {
        adoption::check_requested_exists(identity)
    }

    fn target_annotations(&self) -> &[String] {
        &self.address_annotations
    }

    async fn apply(&self, change: Change<'_>, spec: &NodeBalancerSpec) -> Result<Applied> {
        self.carry_out(change, spec).await
    }

    fn report(&self, notice: Notice<'_>) {
        if let Notice::Moved { service, from, to } = notice {
            let text = format!(
                "the Service uses {} from now on; {} is deleted, unless it is preserved",
                to.place(),
                from.place()
            );
            self.deduplicator.warn(
                true,
                EventSubject::Service(service),
                "NodeBalancerMoved",
                &text,
            );
        }
    }

    fn published(
        &self,
        observed: &ObservedLoadBalancer,
        _: &Service,
        spec: &NodeBalancerSpec,
    ) -> Published {
        // Pods must connect to the NodeBalancer's address (`ipMode: Proxy`), because a shortcut would omit its TLS and
        // its PROXY header.
        let speaks = |port: &spec::PortSpec| {
            port.config
                .proxy_protocol
                .as_deref()
                .is_some_and(|proxy_protocol| proxy_protocol != "none")
                || port.config.protocol == Protocol::Https
        };
        let is_proxy = spec.ports.iter().any(speaks);
        let mut ingress = observed.ingress.clone();
        if !spec.ipv6_ingress {
            ingress.truncate(1);
        }
        let name = ingress.first().and_then(|ingress| ingress.hostname.clone());
        if let (true, Some(name)) = (spec.hostname_only, name) {
            ingress = vec![ObservedLoadBalancer::host(&name)];
        }
        let mode = |mut ingress: LoadBalancerIngress| {
            ingress.ip_mode = (is_proxy && ingress.ip.is_some()).then(|| "Proxy".to_owned());
            ingress
        };
        let ingress: Vec<_> = ingress.into_iter().map(mode).collect();
        let status = LoadBalancerStatus {
            ingress: (!ingress.is_empty()).then_some(ingress),
        };
        Published {
            status,
            annotations: Vec::new(),
        }
    }
}
