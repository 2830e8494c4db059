//! Load balancers: one object in the API for each, written as a whole.

use std::collections::BTreeSet;
use std::sync::Arc;

use cloud_provider::{Error, Result, Service, async_trait};
use provider_kit::annotations::{Annotations, Parsed};
use provider_kit::declared::Kind;
use provider_kit::health_check::HealthCheck;
use provider_kit::inventory::SharedPriority;
use provider_kit::load_balancers::{
    Applied, Change, DesiredStateInput, Field, LoadBalancerCloud, LoadBalancerEngine,
    NameUniqueness, Object, ObjectApi, ObservedLoadBalancer, Options, Paths, Query, Resource,
    ResourceGraph, State, Targets, WholeObjects, machine_ids, service_ports,
};
use provider_kit::paging::ListResult;
use provider_kit::source_ranges::{allows_all, source_ranges};
use provider_kit::text_tags::TextTags;
use provider_kit::transport::{Call, Transport};
use serde::{Deserialize, Serialize};

use crate::{Api, IDS};

provider_kit::declare! {
    /// The annotations of Services.
    pub ANNOTATIONS: "service.beta.kubernetes.io/acme-load-balancer-";

    /// Size of the load balancer.
    pub PLAN: String = "plan", kind(Kind::of("`small`, `large`", plan)), default("small");
    /// Seconds after which an idle connection is closed.
    pub IDLE_TIMEOUT: u32 = "idle-timeout", kind(Kind::number(1, 3600)), default_description("the cloud's: 60");
    /// Sends the PROXY protocol to the Pods, which then see the client's address.
    pub PROXY_PROTOCOL: bool = "proxy-protocol", default("false");
}

fn plan(text: &str) -> Option<String> {
    ["small", "large"].contains(&text).then(|| text.to_owned())
}

/// The owner tags. The cloud's tags are texts of at most 255 characters.
const OWNER: TextTags = TextTags::of_length(255);

/// A load balancer, as the API reads and writes it.
#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct LoadBalancer {
    #[serde(skip_serializing)]
    id: String,
    #[serde(skip_serializing)]
    status: String,
    #[serde(skip_serializing)]
    ip: Option<String>,
    name: String,
    tags: Vec<String>,
    targets: Targets,
    rules: Vec<Rule>,
    plan: Option<String>,
    idle_timeout: Option<u32>,
    proxy_protocol: Option<bool>,
    allowed_ranges: BTreeSet<String>,
    health_check: Option<Check>,
}

#[derive(Deserialize, Serialize)]
struct Rule {
    port: u16,
    protocol: String,
    target_port: u16,
}

#[derive(Deserialize, Serialize)]
struct Check {
    port: i32,
    path: String,
}

impl Resource for LoadBalancer {
    const FIELDS: &'static [Field] = &[
        Field::listeners("rules", "port", "protocol"),
        Field::update("plan").setting(&PLAN),
        Field::update("idle_timeout").setting(&IDLE_TIMEOUT),
        Field::update("proxy_protocol").setting(&PROXY_PROTOCOL),
        Field::update("allowed_ranges").unordered_list(),
        Field::update("health_check").null_removes(),
    ];
}

impl Object for LoadBalancer {
    const PATHS: Paths = Paths {
        collection: "/v1/load_balancers",
        item: "/v1/load_balancers/{id}",
        envelope: None,
    };

    fn head(&self) -> ObservedLoadBalancer {
        let mut tags = self.tags.clone();
        ObservedLoadBalancer {
            id: self.id.clone(),
            name: self.name.clone(),
            owner_tags: OWNER.take_from(&mut tags),
            // Other tags are kept here, and written back.
            labels: tags.into_iter().map(|tag| (tag, String::new())).collect(),
            state: if self.status == "active" {
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
        self.tags = OWNER.among(&head.owner_tags, head.labels.keys().cloned().collect());
    }

    fn targets(&mut self) -> &mut Targets {
        &mut self.targets
    }
}

#[async_trait]
impl ObjectApi for Api {
    type Object = LoadBalancer;

    fn transport(&self) -> &Transport {
        &self.0
    }

    async fn list(
        &self,
        keep: &(dyn Fn(LoadBalancer) -> ObservedLoadBalancer + Send + Sync),
    ) -> Result<ListResult<ObservedLoadBalancer>> {
        let call = Call::get(LoadBalancer::PATHS.collection, &[]);
        self.0
            .list(
                call,
                "load_balancers",
                &SharedPriority::default(),
                keep,
                |actual: &ObservedLoadBalancer| actual.id.clone(),
            )
            .await
    }
}

struct AcmeLoadBalancers(WholeObjects<Api>);

pub(crate) fn load_balancers(api: &Api) -> LoadBalancerEngine {
    let objects = WholeObjects::new(api.clone(), Arc::new(api.clone()));
    LoadBalancerEngine::of(
        AcmeLoadBalancers(objects),
        Arc::new(api.clone()),
        Options {
            price: &["plan"],
            ..Options::default()
        },
    )
}

#[async_trait]
impl LoadBalancerCloud for AcmeLoadBalancers {
    type Spec = LoadBalancer;

    /// Returns `NotUnique`: the cloud accepts a second load balancer of the same name.
    fn name_uniqueness(&self) -> NameUniqueness {
        NameUniqueness::NotUnique
    }

    fn spec(&self, service: &Service) -> Parsed<LoadBalancer> {
        let mut annotations = Annotations::of(service);
        let plan = annotations.get(&PLAN);
        let idle_timeout = annotations.get(&IDLE_TIMEOUT);
        let proxy_protocol = annotations.get(&PROXY_PROTOCOL);
        annotations.unknown(
            "service.beta.kubernetes.io/acme-load-balancer-",
            ANNOTATIONS,
        );
        let mut note = |error: Error| annotations.mistake(error.to_string());
        let ranges = source_ranges(service)
            .map_err(&mut note)
            .unwrap_or_default();
        let ports = service_ports(service, &["TCP", "UDP"])
            .map_err(&mut note)
            .unwrap_or_default();
        let rules = ports.iter().map(|port| Rule {
            port: port.number,
            protocol: port.protocol.to_owned(),
            target_port: port.node_port,
        });
        let rules = rules.collect();
        let allowed_ranges = ranges
            .iter()
            .filter(|_| !allows_all(&ranges))
            .map(ToString::to_string)
            .collect();
        let health_check = HealthCheck::of(service).map(|health_check| Check {
            port: health_check.port,
            path: health_check.path.to_owned(),
        });
        let spec = LoadBalancer {
            rules,
            plan,
            idle_timeout,
            proxy_protocol,
            allowed_ranges,
            health_check,
            ..LoadBalancer::default()
        };
        annotations.parsed(spec)
    }

    async fn desired(&self, input: &DesiredStateInput<'_, LoadBalancer>) -> Result<ResourceGraph> {
        self.0
            .desired(input.spec, machine_ids(input.request.nodes, &IDS))
    }

    async fn read(&self, query: Query<'_>) -> Result<ListResult<ObservedLoadBalancer>> {
        self.0.read(query).await
    }

    async fn apply(&self, change: Change<'_>, _spec: &LoadBalancer) -> Result<Applied> {
        self.0.apply(change).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_of_a_load_balancer_has_a_rule() {
        let sample = LoadBalancer {
            health_check: Some(Check {
                port: 1,
                path: "/".into(),
            }),
            ..LoadBalancer::default()
        };
        let unknown = LoadBalancer::undeclared_fields(&sample).unwrap();
        assert_eq!(
            unknown,
            ["name", "tags", "targets"],
            "`head`, `set_owner` and `targets` read and write these"
        );
    }
}
