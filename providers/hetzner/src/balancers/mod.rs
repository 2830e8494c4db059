//! Load balancers: the cloud as the kit's engine sees it.

pub(crate) mod adoption;
mod apply;
pub(crate) mod catalogue;
mod create;
mod requests;
mod spec;
mod targets;
mod wanted;
mod wire;

use std::collections::BTreeMap;
use std::sync::Arc;

use cloud_provider::{
    About, CloudMetrics, Cluster, LoadBalancerRequest, Node, Result, Service, TargetHealth, async_trait,
};
use futures::future::try_join_all;
use jiff::Timestamp;
use provider_kit::annotations::Parsed;
use provider_kit::cluster::ClusterView;
use provider_kit::declared::Defaults;
use provider_kit::events::{Notes, Notices};
use provider_kit::inventory::Inventory;
use provider_kit::load_balancers::{
    Actual, Adoption, Applied, Attributes, Change, Desire, Identity, LoadBalancerCloud, Names, Naming, Notice,
    Published, Query, Scope, Targets, Tree,
};
use provider_kit::paging::Reading;
use provider_kit::transport::{Call, Priority};

use self::catalogue::{BalancerType, Catalogue};
use self::spec::{Certificates, ServiceSpec};
use self::targets::Dedicated;
use self::wanted::Facts;
use self::wire::{LOCATION, LoadBalancer, NETWORK_ZONE, POOL, SIGN};
use crate::annotations::{self as key, DEFAULT_TYPE};
use crate::api::Api;
use crate::id::MachineId;
use crate::metrics::balancer_types;
use crate::network::PrivateNetwork;
use crate::robot::Robot;
use crate::servers::CloudServers;
use crate::variables::LOAD_BALANCERS_ADOPTION_LABEL;

/// Settings that decide about the price of a load balancer.
pub(crate) const PRICE: &[&str] = &["type", LOCATION];

const ALL: &str = "/load_balancers";
const ONE: &str = "/load_balancers/{id}";

/// The load balancers of a project.
pub(crate) struct HcloudLoadBalancers {
    api: Api,
    defaults: Defaults,
    network: Option<PrivateNetwork>,
    dedicated: Option<Option<Robot>>,
    catalogue: Catalogue,
    notices: Notices,
    servers: Inventory<CloudServers>,
    cluster: ClusterView,
    metrics: Arc<dyn CloudMetrics>,
}

impl HcloudLoadBalancers {
    /// `dedicated`: `None` if dedicated servers are no targets, `Some(None)` if Robot cannot be queried about them.
    pub(crate) fn new(
        api: Api,
        defaults: Defaults,
        network: Option<PrivateNetwork>,
        dedicated: Option<Option<Robot>>,
        servers: Inventory<CloudServers>,
        cluster: ClusterView,
    ) -> Self {
        let (catalogue, metrics) = (Catalogue::new(api.clone()), api.http.metrics());
        let notices = Notices::new(cluster.events().clone());
        Self { catalogue, notices, metrics, api, defaults, network, dedicated, servers, cluster }
    }

    fn nodes(&self) -> Vec<Arc<Node>> {
        self.cluster.nodes().unwrap_or_default()
    }

    fn network(&self) -> Result<Option<u64>> {
        self.network.as_ref().map(PrivateNetwork::id).transpose()
    }

    fn actual(&self, shown: LoadBalancer) -> Actual {
        shown.into_actual(self.network().ok().flatten())
    }

    async fn some(&self, key: &str, value: &str, priority: Priority) -> Result<Vec<Actual>> {
        let call = Call::get(ALL, &[]).query(key, value).priority(priority);
        let actual = |shown: LoadBalancer| self.actual(shown);
        let found = self.api.list("load_balancers", call, actual, |it| it.id.clone()).await?;
        // The result is incomplete if another page follows, so it does not prove an absence.
        Ok(found.complete()?.into_items())
    }

    async fn find(&self, identity: &Identity<'_>) -> Result<Vec<Actual>> {
        // A deletion and the read at its beginning are urgent (P-3).
        let priority = if identity.is_leaving() { Priority::Urgent } else { Priority::Ordinary };
        let signed = self.some("label_selector", &format!("{SIGN}={}", identity.uid()), priority).await?;
        // A load balancer that is to be deleted was tagged when it was created or adopted.
        if !signed.is_empty() || identity.is_leaving() {
            return Ok(signed);
        }
        self.some("name", &identity.name, priority).await
    }

    async fn by_id(&self, id: &str) -> Result<Option<Actual>> {
        let found: Option<LoadBalancer> = self.api.http.find(Call::get(ONE, &[id]).inside("load_balancer")).await?;
        Ok(found.map(|shown| self.actual(shown)))
    }

    /// Returns the maximum number of targets of this Service's load balancer.
    async fn most_targets(&self, spec: &ServiceSpec, notes: &mut Notes) -> Result<usize> {
        let name = spec.balancer_type.as_deref().unwrap_or(DEFAULT_TYPE);
        if spec.balancer_type.is_none() {
            let text = format!(
                "no load balancer type is configured, so a new load balancer gets {DEFAULT_TYPE}; set annotation {} or \
                 HCLOUD_LOAD_BALANCERS_TYPE",
                key::TYPE.key()
            );
            notes.warn("LoadBalancerTypeUnconfigured", text);
        }
        let (most, deprecated) = self.balancer_type(name, |it| (it.max_targets, it.deprecated())).await?;
        if let Some(text) = deprecated {
            notes.warn("LoadBalancerTypeDeprecated", text);
        }
        Ok(most)
    }

    async fn balancer_type<T>(&self, name: &str, read: impl Fn(&BalancerType) -> T) -> Result<T> {
        let (found, hit) = self.catalogue.types.named(name, |it| &it.name, read).await?;
        balancer_types(&*self.metrics, hit);
        Ok(found)
    }

    async fn targets(&self, spec: &ServiceSpec, nodes: &[Arc<Node>], notes: &mut Notes) -> Result<Option<Targets>> {
        let mut nodes = nodes.to_vec();
        let has_nodes = !nodes.is_empty();
        nodes.retain(|node| spec.node_selector.as_ref().is_none_or(|selector| selector.matches(&node.labels)));
        if nodes.is_empty() && has_nodes {
            let text = format!("annotation {}: no Node matches, so there are no targets", key::NODE_SELECTOR.key());
            notes.warn("QuestionableAnnotation", text);
        }
        let dedicated = self.dedicated(&nodes).await?;
        Ok(targets::targets(&nodes, spec.use_private_ip, &dedicated, notes))
    }

    async fn dedicated(&self, nodes: &[Arc<Node>]) -> Result<Dedicated> {
        let is_dedicated = |node: &Arc<Node>| matches!(MachineId::read(&node.provider_id), Ok(MachineId::Robot(_)));
        Ok(match &self.dedicated {
            None => Dedicated::Off,
            Some(None) => Dedicated::Unasked,
            Some(Some(robot)) if nodes.iter().any(is_dedicated) => {
                let servers = robot.servers().await?;
                let public = servers.machines().iter().filter_map(|it| Some((it.number, it.ipv4?.to_string())));
                Dedicated::Known(public.collect())
            }
            Some(Some(_)) => Dedicated::Known(BTreeMap::new()),
        })
    }

    async fn certificates(&self, spec: &ServiceSpec, uid: &str, notes: &mut Notes) -> Result<Option<Vec<u64>>> {
        match &spec.certificates {
            Certificates::Unstated => Ok(None),
            Certificates::Uploaded(certificates) => self.catalogue.uploaded(certificates).await.map(Some),
            Certificates::Managed(wanted) => {
                let found = self.catalogue.managed(uid).await?;
                if let Some(text) = found.as_ref().and_then(|found| found.for_others(&wanted.domains)) {
                    notes.warn("CertificateForOtherDomains", text);
                }
                Ok(found.map(|found| vec![found.id]))
            }
        }
    }

    /// Reports targets whose server does not exist; their Nodes will be deleted, too.
    fn report_unknown(&self, targets: &Targets) {
        let text = "as a target of load balancers: its server does not exist; it is left out";
        for node in self.nodes().iter().filter(|node| targets::is_among(node, targets)) {
            self.notices.warn(true, About::Node(node), "ServerNotFound", text);
        }
    }

    /// Reports a location annotation that was set after the load balancer's creation.
    fn report_place(&self, service: &Service, actual: &Actual) {
        let is_at = actual.tree.as_ref().and_then(Tree::balancer_attributes);
        let places = [(&key::LOCATION, LOCATION), (&key::NETWORK_ZONE, NETWORK_ZONE)];
        let stated = places.iter().find_map(|(annotation, setting)| {
            let wanted = annotation.text_on(service).map(str::trim).filter(|text| !text.is_empty())?;
            Some((annotation.key(), wanted, is_at?.text(setting).filter(|place| !place.is_empty())?))
        });
        let mut notes = Notes::default();
        if let Some((key, wanted, place)) = stated.filter(|(_, wanted, place)| wanted != place) {
            let text = format!(
                "annotation {key}: {wanted:?} has no effect: load balancer {:?} ({}) is in {place}, and cannot be \
                 moved; set {place:?}, or delete and create the Service again",
                actual.name, actual.id
            );
            notes.warn("QuestionableAnnotation", text);
        }
        self.notices.tell(service, "place", &notes);
    }

    fn report_left_out(&self, service: &Service, nodes: &[Arc<Node>], targets: &Targets) {
        let text = format!(
            "this Node is not a target of Service {}: the load balancer has the maximum number of targets of its type; \
             choose a larger type with annotation {}",
            service.metadata.name.as_deref().unwrap_or_default(),
            key::TYPE.key()
        );
        self.report_limit(nodes, targets, "", &text);
    }

    /// Reports on each Node of these targets, once for each `subject`, that a load balancer has no room for it.
    fn report_limit(&self, nodes: &[Arc<Node>], targets: &Targets, subject: &str, text: &str) {
        for node in nodes.iter().filter(|node| targets::is_among(node, targets)) {
            let (about, reason) = (About::Node(node), "MaxTargetsReached");
            if self.notices.is_first(about, reason, subject) {
                self.notices.warn(true, about, reason, text);
            }
        }
    }
}

#[async_trait]
impl LoadBalancerCloud for HcloudLoadBalancers {
    type Spec = ServiceSpec;

    fn names(&self) -> Names {
        Names::Unique
    }

    fn spec(&self, service: &Service) -> Parsed<ServiceSpec> {
        ServiceSpec::of(service, &self.defaults).targets_follow_labels(key::NODE_SELECTOR.text_on(service).is_some())
    }

    async fn desired(&self, desire: &Desire<'_, ServiceSpec>) -> Result<Tree> {
        let LoadBalancerRequest { service, nodes, .. } = *desire.request;
        let (spec, mut notes) = (desire.spec, Notes::default());
        if desire.scope == Scope::Targets {
            spec.check_network(self.network()?)?;
            let targets = self.targets(spec, nodes, &mut notes).await?;
            self.notices.tell(service, "targets", &notes);
            return Ok(Tree::default().pool(POOL, Attributes::default(), targets));
        }
        let uid = service.metadata.uid.as_deref().unwrap_or_default();
        let facts = Facts {
            network: self.network()?,
            ports: spec.ports.clone(),
            most_targets: self.most_targets(spec, &mut notes).await?,
            certificates: self.certificates(spec, uid, &mut notes).await?,
            targets: self.targets(spec, nodes, &mut notes).await?,
        };
        spec.warnings.iter().for_each(|&(reason, ref text)| notes.warn(reason, text));
        self.notices.tell(service, "", &notes);
        wanted::wanted(spec, facts)
    }

    async fn read(&self, query: Query<'_>) -> Result<Reading<Actual>> {
        match query {
            Query::All(sets) => {
                let keep = |shown| self.actual(shown).sharing(sets);
                self.api.list("load_balancers", Call::get(ALL, &[]), keep, |actual| actual.id.clone()).await
            }
            Query::Owner(identity) => self.find(identity).await.map(Reading::of),
            Query::Ids(ids, _) => {
                let found = try_join_all(ids.iter().map(|id| self.by_id(id))).await?;
                Ok(Reading::of(found.into_iter().flatten().collect()))
            }
        }
    }

    async fn apply(&self, change: Change<'_>, spec: &ServiceSpec) -> Result<Applied> {
        self.carry_out(change, spec, Timestamp::now()).await
    }

    fn naming(&self, _cluster: &Cluster, service: &Service) -> Naming {
        let naming = Naming::of(service);
        let name = key::NAME.text_on(service).map_or_else(|| naming.name.clone(), str::to_owned);
        Naming { name, legacy_owner: service.metadata.uid.clone(), writes_legacy_owner: true, ..naming }
    }

    fn fit(&self, desired: Tree, observed: &Actual, identity: &Identity<'_>, _: &ServiceSpec) -> Result<Tree> {
        self.report_place(identity.service, observed);
        Ok(desired)
    }

    /// Adopts by name, which is how users import load balancers that they created themselves. A load balancer whose
    /// legacy owner tag names a Service that this cluster does not know may belong to another cluster: it is adopted
    /// only if its targets are machines of this cluster.
    fn adopts(&self, observed: &Actual, identity: &Identity<'_>) -> Adoption {
        let targets = observed.tree.as_ref().map(|tree| tree.targets_of(POOL)).unwrap_or_default();
        let is_free = observed.legacy_owner.is_none() || targets::are_of(&targets, &self.nodes());
        match &self.defaults.get(&LOAD_BALANCERS_ADOPTION_LABEL) {
            label if is_free && label.as_ref().is_none_or(|label| label.allows(observed, identity)) => {
                Adoption::Adopted
            }
            Some(label) => Adoption::RefusedUnless(label.hint()),
            None => Adoption::Refused,
        }
    }

    fn published(&self, observed: &Actual, _: &Service, spec: &ServiceSpec) -> Published {
        Published { status: spec.status(observed), annotations: Vec::new() }
    }

    async fn target_health(&self, observed: &Actual) -> Result<Option<BTreeMap<String, TargetHealth>>> {
        let call = Call::get(ONE, &[&observed.id]).inside("load_balancer");
        let found: Option<LoadBalancer> = self.api.http.find(call).await?;
        Ok(found.map(|shown| shown.health()))
    }

    fn report(&self, notice: Notice<'_>) {
        if let Notice::TargetsLeftOut { request, targets, .. } = notice {
            self.report_left_out(request.service, request.nodes, targets);
        }
    }
}
