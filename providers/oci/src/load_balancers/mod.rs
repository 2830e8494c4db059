//! Load balancers and network load balancers as a cloud for the engine of provider-kit.

mod adopted;
mod apply;
pub(crate) mod certificates;
mod create;
mod desired;
mod fit;
mod groups;
mod objects;
mod read;
mod reader;
mod remove;
mod security;
mod spec;
mod work;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use cloud_provider::{
    Cluster, LoadBalancerIngress, LoadBalancerStatus, Result, Service, TargetHealth, async_trait,
};
use futures::future::try_join_all;
use parking_lot::Mutex;
use provider_kit::annotations::Parsed;
use provider_kit::cluster::ClusterView;
use provider_kit::events::{EventDeduplicator, PendingEvents};
use provider_kit::inventory::Inventory;
use provider_kit::load_balancers::{
    Adoption, Applied, Change, DesiredStateInput, Detail, Identity, LoadBalancerCloud,
    NameUniqueness, Naming, ObservedLoadBalancer, Published, Query, Recovery, ResourceGraph,
    ResourceKey, Scope,
};
use provider_kit::paging::ListResult;
use provider_kit::status::shown;

use self::certificates::Certificates;
use self::groups::Groups;
use self::objects::{Form, NLB, PRIVATE_FROM, RULES};
use self::security::SecurityLists;
use self::spec::LoadBalancerSpec;
use self::work::WorkRequests;
use crate::annotations::{COMPARTMENT, LOAD_BALANCER_ID, SecurityMode, WORKLOAD_ACCOUNT};
use crate::api::Api;
use crate::config::Config;
use crate::credentials::Account;
use crate::instances::Source;

/// Creates the APIs for the workload identity of a ServiceAccount.
pub(crate) type ApiOfAccount = Box<dyn Fn(Account) -> Result<Api> + Send + Sync>;

/// The load balancers of a compartment, with one credential.
pub(crate) struct LoadBalancers {
    instances: Inventory<Source>,
    api: Api,
    config: Arc<Config>,
    cluster: ClusterView,
    lists: SecurityLists,
    groups: Groups,
    certificates: Certificates,
    deduplicator: Arc<EventDeduplicator>,
    work: Arc<WorkRequests>,
    /// Subnets of the primary VNICs of instances, by OCID. They never change.
    node_subnets: Mutex<HashMap<Box<str>, Box<str>>>,
    /// UIDs of Services whose rules are not all known, because subnets of Nodes are not.
    partial_rules: Mutex<BTreeSet<String>>,
    api_of_account: Option<ApiOfAccount>,
    /// The same load balancers with the credentials of ServiceAccounts, by namespace and name.
    accounts: Mutex<HashMap<(String, String), Arc<Self>>>,
}

/// Returns the Service of a load balancer.
fn service_of<'a>(
    balancer: &ObservedLoadBalancer,
    all: &'a [Arc<Service>],
) -> Option<&'a Arc<Service>> {
    let uid = balancer
        .owner_tags
        .service
        .as_ref()
        .or(balancer.legacy_owner.as_ref());
    all.iter()
        .find(|entry| uid.is_some() && entry.metadata.uid.as_ref() == uid)
}

impl LoadBalancers {
    pub(crate) fn new(
        api: Api,
        instances: Inventory<Source>,
        cluster: ClusterView,
        api_of_account: Option<ApiOfAccount>,
    ) -> Self {
        let subnets = Arc::clone(&instances.source().subnets);
        Self {
            lists: SecurityLists::new(api.clone(), subnets, cluster.clone()),
            groups: Groups::new(api.clone()),
            certificates: Certificates::new(cluster.clone()),
            deduplicator: Arc::new(EventDeduplicator::new(cluster.events().clone())),
            config: Arc::clone(&api.config),
            instances,
            api,
            cluster,
            work: Arc::default(),
            node_subnets: Mutex::default(),
            partial_rules: Mutex::default(),
            api_of_account,
            accounts: Mutex::default(),
        }
    }

    /// Returns the certificates of Services, which are followed in the background.
    pub(crate) fn certificates(&self) -> Certificates {
        self.certificates.clone()
    }

    /// Returns the load balancers with the credential of the Service's ServiceAccount, if the Service names one.
    fn of_account(&self, service: &Service) -> Result<Option<Arc<Self>>> {
        let (Some(name), Some(api)) = (WORKLOAD_ACCOUNT.text_on(service), &self.api_of_account)
        else {
            return Ok(None);
        };
        let namespace = service.metadata.namespace.clone().unwrap_or_default();
        let mut accounts = self.accounts.lock();
        if let Some(known) = accounts.get(&(namespace.clone(), name.to_owned())) {
            return Ok(Some(Arc::clone(known)));
        }
        let account = Account {
            cluster: self.cluster.clone(),
            namespace: namespace.clone(),
            name: name.to_owned(),
        };
        let clone_for_account = Self {
            work: Arc::clone(&self.work),
            deduplicator: Arc::clone(&self.deduplicator),
            certificates: self.certificates.clone(),
            ..Self::new(
                api(account)?,
                self.instances.clone(),
                self.cluster.clone(),
                None,
            )
        };
        Ok(Some(Arc::clone(
            accounts
                .entry((namespace, name.to_owned()))
                .or_insert(Arc::new(clone_for_account)),
        )))
    }

    /// Returns the Services that the caches show.
    fn services(&self) -> Vec<Arc<Service>> {
        self.cluster.services().unwrap_or_default()
    }

    /// Returns the rules that a load balancer may have: those of its mode, which its tag shows, and of its Service's mode. A
    /// load balancer with neither has none, because rules in security lists have no owner.
    fn mode_of(&self, balancer: &ObservedLoadBalancer, all: &[Arc<Service>]) -> SecurityMode {
        let recorded = balancer
            .labels
            .get(RULES)
            .and_then(|rules| SecurityMode::of_name(rules));
        let is_network = balancer.kind == NLB.name;
        let wanted = service_of(balancer, all)
            .map(|entry| LoadBalancerSpec::mode_of(entry, is_network, &self.config));
        let modes = [wanted, recorded];
        let widest = [SecurityMode::All, SecurityMode::Frontend]
            .into_iter()
            .find(|security_mode| modes.contains(&Some(*security_mode)));
        widest.or(wanted).or(recorded).unwrap_or(SecurityMode::None)
    }

    async fn compartment(&self, service: &Service) -> Result<String> {
        match COMPARTMENT.text_on(service) {
            Some(compartment) => Ok(compartment.to_owned()),
            None => self.api.region.compartment().await,
        }
    }

    /// Reports messages of a Service, each of them once.
    fn report(&self, service: &Service, kind: &str, events: &PendingEvents) {
        self.deduplicator.record_new(service, kind, events);
    }
}

/// Returns `true` for the network security group of a Service, which all of its load balancers share.
pub(crate) fn is_group(resource: &ResourceKey) -> bool {
    *resource == groups::resource()
}

/// Returns the names of a Service's load balancer and of its network load balancer.
fn names(config: &Config, service: &Service) -> [String; 2] {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let [namespace, name, uid] = [
        &service.metadata.namespace,
        &service.metadata.name,
        &service.metadata.uid,
    ]
    .map(text);
    let network = format!("{namespace}/{name}/{uid}");
    [
        format!("{}{uid}", config.prefix),
        network.chars().take(1024).collect(),
    ]
}

#[async_trait]
impl LoadBalancerCloud for LoadBalancers {
    type Spec = LoadBalancerSpec;

    fn name_uniqueness(&self) -> NameUniqueness {
        NameUniqueness::NotUnique
    }

    fn naming(&self, _cluster: &Cluster, service: &Service) -> Naming {
        let spec = LoadBalancerSpec::of(service, &self.config).spec;
        let [lb, nlb] = names(&self.config, service);
        let (name, other) = if spec.is_network() {
            (nlb, lb)
        } else {
            (lb, nlb)
        };
        let requested_id = LOAD_BALANCER_ID.text_on(service).map(str::to_owned);
        Naming {
            name,
            former_names: vec![other],
            legacy_owner: service.metadata.uid.clone(),
            // A load balancer that the Service requests is read with the name of its own.
            is_name_chosen: requested_id.is_some(),
            requested_id,
            kind: Form::of_kind(spec.kind).name,
            ..Naming::of(service)
        }
    }

    fn spec(&self, service: &Service) -> Parsed<LoadBalancerSpec> {
        LoadBalancerSpec::of(service, &self.config)
    }

    async fn desired(
        &self,
        input: &DesiredStateInput<'_, LoadBalancerSpec>,
    ) -> Result<ResourceGraph> {
        let of_account = self.of_account(input.request.service)?;
        let mut events = PendingEvents::default();
        let cloud = of_account.as_deref().unwrap_or(self);
        let graph = match input.scope {
            Scope::Targets => cloud.desired_targets(input, &mut events).await?,
            Scope::Everything => cloud.whole_graph(input, &mut events).await?,
        };
        input
            .spec
            .warnings
            .iter()
            .for_each(|text| events.warn("QuestionableAnnotation", text));
        let kind = if input.scope == Scope::Targets {
            "targets"
        } else {
            ""
        };
        self.report(input.request.service, kind, &events);
        Ok(graph)
    }

    async fn read(&self, query: Query<'_>) -> Result<ListResult<ObservedLoadBalancer>> {
        match query {
            Query::All(sets) => Ok(self
                .all()
                .await?
                .flat_map(|load_balancer| [load_balancer.sharing(sets)])),
            Query::Owner(identity) => {
                let of_account = self.of_account(identity.service)?;
                of_account
                    .as_deref()
                    .unwrap_or(self)
                    .find(identity)
                    .await
                    .map(ListResult::of)
            }
            Query::Ids(ids, detail) => {
                let found = if detail == Detail::State {
                    self.polled(ids).await?
                } else {
                    Vec::new()
                };
                let rest = ids
                    .iter()
                    .filter(|id| !found.iter().any(|load_balancer| load_balancer.id == **id));
                let rest = try_join_all(rest.map(|id| self.by_id(id, detail, None))).await?;
                Ok(ListResult::of(
                    found
                        .into_iter()
                        .chain(rest.into_iter().flatten())
                        .collect(),
                ))
            }
        }
    }

    fn fit(
        &self,
        desired: ResourceGraph,
        observed: &ObservedLoadBalancer,
        identity: &Identity<'_>,
        spec: &LoadBalancerSpec,
    ) -> Result<ResourceGraph> {
        self.fitted(desired, observed, identity, spec)
    }

    fn adopts(&self, observed: &ObservedLoadBalancer, identity: &Identity<'_>) -> Adoption {
        let is_requested = identity.requested_id.as_deref() == Some(&*observed.id);
        if is_requested {
            Adoption::Adopt
        } else {
            Adoption::Refuse
        }
    }

    fn recovery(&self, observed: &ObservedLoadBalancer, service: &Service) -> Recovery {
        let is_new = shown(service).is_empty() && observed.ingress.is_empty();
        if is_new {
            Recovery::Replace
        } else {
            Recovery::Never
        }
    }

    async fn check_creation(
        &self,
        identity: &Identity<'_>,
        spec: &LoadBalancerSpec,
        desired: &ResourceGraph,
    ) -> Result<()> {
        let of_account = self.of_account(identity.service)?;
        of_account
            .as_deref()
            .unwrap_or(self)
            .check_new(identity, spec, desired)
            .await
    }

    async fn apply(&self, change: Change<'_>, spec: &LoadBalancerSpec) -> Result<Applied> {
        let of_account = self.of_account(change.identity.service)?;
        of_account
            .as_deref()
            .unwrap_or(self)
            .carry_out(change, spec)
            .await
    }

    fn published(
        &self,
        observed: &ObservedLoadBalancer,
        _: &Service,
        spec: &LoadBalancerSpec,
    ) -> Published {
        let mut ingress = observed.ingress.clone();
        let private_from = observed
            .labels
            .get(PRIVATE_FROM)
            .and_then(|private_from| private_from.parse().ok());
        ingress.truncate(
            private_from
                .filter(|_| spec.external_only)
                .unwrap_or(usize::MAX),
        );
        let mode = |ingress: LoadBalancerIngress| LoadBalancerIngress {
            ip_mode: spec.ip_mode.map(str::to_owned),
            ..ingress
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

    async fn target_health(
        &self,
        observed: &ObservedLoadBalancer,
    ) -> Result<Option<BTreeMap<String, TargetHealth>>> {
        self.health(observed).await.map(Some)
    }
}
