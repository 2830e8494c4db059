//! Load balancers: the Service's spec, and its form in the cloud's API. The kit does the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cloud_provider::{Cluster, Error, Result, Service, TargetHealth, async_trait};
use provider_kit::annotations::{Annotation, Annotations, Parsed};
use provider_kit::declared::Kind;
use provider_kit::health_check::HealthCheck;
use provider_kit::inventory::SharedPriority;
use provider_kit::load_balancers::{
    Applied, Change, DesiredStateInput, Detail, Field, Identity, LoadBalancerCloud,
    LoadBalancerEngine, NameUniqueness, Naming, Object, ObjectApi, ObservedLoadBalancer, Options,
    OwnerTags, Paths, Query, Resource, ResourceGraph, State, Targets, WholeObjects, machine_ids,
    service_ports,
};
use provider_kit::paging::ListResult;
use provider_kit::source_ranges::{allows_all, source_ranges};
use provider_kit::transport::{Call, Transport};
use serde::{Deserialize, Serialize};

use super::{Api, IDS};
use crate::cloud::{HealthCheck as CloudCheck, Listener, LoadBalancerStatus as Status, PAGE_SIZE};

/// The prefix of all annotations.
const PREFIX: &str = "simulated.ccm-rs/";
const TIER: Annotation<&str> = Annotation::new(
    "simulated.ccm-rs/tier",
    Kind::one_of(&[("basic", "basic"), ("premium", "premium")]),
    "How large the load balancer is.",
)
.default("basic");
/// The owner tag of the cloud controller manager that ran this cloud before ccm-rs.
const LEGACY_OWNER: &str = "simulated/service-uid";

/// A load balancer, as the API reads and writes it.
#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct LoadBalancer {
    #[serde(skip_serializing)]
    id: String,
    #[serde(skip_serializing)]
    status: Option<Status>,
    #[serde(skip_serializing)]
    ip: Option<String>,
    name: String,
    labels: BTreeMap<String, String>,
    listeners: Vec<Listener>,
    targets: Targets,
    tier: Option<String>,
    source_ranges: BTreeSet<String>,
    address: String,
    health_check: Option<CloudCheck>,
    sticky: bool,
}

impl Resource for LoadBalancer {
    const FIELDS: &'static [Field] = &[
        Field::update("tier").setting(&TIER),
        Field::update("source_ranges").unordered_list(),
        Field::create_only("address"),
        Field::update("health_check").null_removes(),
        Field::update("sticky"),
        Field::listeners("listeners", "port", "protocol"),
    ];
}

impl Object for LoadBalancer {
    const PATHS: Paths = Paths {
        collection: "/v1/load-balancers",
        item: "/v1/load-balancers/{id}",
        envelope: None,
    };

    fn head(&self) -> ObservedLoadBalancer {
        let mut labels = self.labels.clone();
        ObservedLoadBalancer {
            id: self.id.clone(),
            name: self.name.clone(),
            owner_tags: OwnerTags::take_from(&mut labels),
            legacy_owner: labels.get(LEGACY_OWNER).cloned(),
            labels,
            state: if self.status == Some(Status::Active) {
                State::Ready
            } else {
                State::Busy
            },
            ingress: self
                .ip
                .iter()
                .map(|ip| ObservedLoadBalancer::ip(ip))
                .collect(),
            ..ObservedLoadBalancer::default()
        }
    }

    fn set_owner(&mut self, head: &ObservedLoadBalancer) {
        self.name.clone_from(&head.name);
        self.labels = head.owner_tags.clone().among(head.labels.clone());
    }

    fn targets(&mut self) -> &mut Targets {
        &mut self.targets
    }
}

#[async_trait]
impl ObjectApi for Api {
    type Object = LoadBalancer;

    fn transport(&self) -> &Transport {
        &self.http
    }

    async fn list(
        &self,
        keep: &(dyn Fn(LoadBalancer) -> ObservedLoadBalancer + Send + Sync),
    ) -> Result<ListResult<ObservedLoadBalancer>> {
        let id = |actual: &ObservedLoadBalancer| actual.id.clone();
        let call = Call::get(LoadBalancer::PATHS.collection, &[]);
        self.http
            .list(call, "load_balancers", &SharedPriority::default(), keep, id)
            .await
    }

    async fn candidates(
        &self,
        identity: &Identity<'_>,
        keep: &(dyn Fn(LoadBalancer) -> ObservedLoadBalancer + Send + Sync),
    ) -> Result<ListResult<ObservedLoadBalancer>> {
        Ok(ListResult::of(
            self.some("name", &identity.name, keep).await?,
        ))
    }

    async fn by_ids(
        &self,
        ids: &[String],
        detail: Detail,
        keep: &(dyn Fn(LoadBalancer) -> ObservedLoadBalancer + Send + Sync),
    ) -> Result<Vec<ObservedLoadBalancer>> {
        if let ([id], Detail::Whole) = (ids, detail) {
            let found: Option<LoadBalancer> = self
                .http
                .find(Call::get(LoadBalancer::PATHS.item, &[id]))
                .await?;
            return Ok(found.into_iter().map(keep).collect());
        }
        let mut found = Vec::new();
        for ids in ids.chunks(PAGE_SIZE) {
            found.extend(self.some("ids", &ids.join(","), keep).await?);
        }
        Ok(found)
    }
}

impl Api {
    async fn some(
        &self,
        parameter: &str,
        value: &str,
        keep: &(dyn Fn(LoadBalancer) -> ObservedLoadBalancer + Send + Sync),
    ) -> Result<Vec<ObservedLoadBalancer>> {
        let call = Call::get(LoadBalancer::PATHS.collection, &[])
            .query(parameter, value)
            .list();
        let found: Vec<LoadBalancer> = self.http.read(call.inside("load_balancers")).await?;
        Ok(found.into_iter().map(keep).collect())
    }
}

fn health_check(service: &Service) -> Option<CloudCheck> {
    let check = HealthCheck::of(service)?;
    Some(CloudCheck {
        port: u16::try_from(check.port).ok()?,
        path: check.path.to_owned(),
    })
}

/// The health of a target, as the API shows it.
#[derive(Deserialize)]
struct Checked {
    id: String,
    healthy: bool,
    detail: String,
}

struct Cloud {
    objects: WholeObjects<Api>,
    api: Api,
}

/// Returns the load balancers of the cloud.
pub(super) fn load_balancers(api: &Api) -> LoadBalancerEngine {
    let machines = Arc::new(api.clone());
    let objects = WholeObjects::new(api.clone(), Arc::clone(&machines) as _);
    let cloud = Cloud {
        objects,
        api: api.clone(),
    };
    LoadBalancerEngine::of(
        cloud,
        machines,
        Options {
            price: &["tier"],
            ..Options::default()
        },
    )
}

#[async_trait]
impl LoadBalancerCloud for Cloud {
    type Spec = LoadBalancer;

    fn name_uniqueness(&self) -> NameUniqueness {
        NameUniqueness::Unique
    }

    fn spec(&self, service: &Service) -> Parsed<LoadBalancer> {
        let mut annotations = Annotations::of(service);
        let tier = annotations.get(&TIER).map(str::to_owned);
        annotations.unknown(PREFIX, &[&TIER]);
        let mut noted = |error: Error| annotations.mistake(error.to_string());
        let ranges = source_ranges(service)
            .map_err(&mut noted)
            .unwrap_or_default();
        let ports = service_ports(service, &["TCP", "UDP"])
            .map_err(&mut noted)
            .unwrap_or_default();
        let listener = |port: &provider_kit::load_balancers::ServicePort| Listener {
            port: port.number,
            protocol: port.protocol.to_owned(),
            target_port: port.node_port,
        };
        let spec = service.spec.as_ref();
        let load_balancer = LoadBalancer {
            tier,
            source_ranges: ranges
                .iter()
                .filter(|_| !allows_all(&ranges))
                .map(ToString::to_string)
                .collect(),
            address: spec
                .and_then(|spec| spec.load_balancer_ip.clone())
                .unwrap_or_default(),
            health_check: health_check(service),
            sticky: spec.and_then(|spec| spec.session_affinity.as_deref()) == Some("ClientIP"),
            listeners: ports.iter().map(listener).collect(),
            ..LoadBalancer::default()
        };
        annotations.parsed(load_balancer)
    }

    async fn desired(&self, input: &DesiredStateInput<'_, LoadBalancer>) -> Result<ResourceGraph> {
        self.objects
            .desired(input.spec, machine_ids(input.request.nodes, &IDS))
    }

    async fn read(&self, query: Query<'_>) -> Result<ListResult<ObservedLoadBalancer>> {
        self.objects.read(query).await
    }

    async fn apply(&self, change: Change<'_>, _spec: &LoadBalancer) -> Result<Applied> {
        self.objects.apply(change).await
    }

    async fn target_health(
        &self,
        observed: &ObservedLoadBalancer,
    ) -> Result<Option<BTreeMap<String, TargetHealth>>> {
        let call = Call::get("/v1/load-balancers/{id}/targets", &[&observed.id]);
        let checked: Vec<Checked> = self.api.http.read(call.inside("targets")).await?;
        let health = |entry: Checked| {
            (
                entry.id,
                TargetHealth {
                    is_healthy: entry.healthy,
                    detail: entry.detail,
                },
            )
        };
        Ok(Some(checked.into_iter().map(health).collect()))
    }

    fn naming(&self, _cluster: &Cluster, service: &Service) -> Naming {
        Naming {
            legacy_owner: service.metadata.uid.clone(),
            ..Naming::of(service)
        }
    }
}
