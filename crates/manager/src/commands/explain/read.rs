//! Reads the facts of an explanation from Kubernetes and the cloud.

use std::sync::Arc;

use cloud_provider::names::{
    NODE_CONTROLLER, NODE_LIFECYCLE_CONTROLLER, ROUTE_CONTROLLER, SERVICE_CONTROLLER,
};
use cloud_provider::{
    CloudProvider, Cluster, Error, InstanceState, LoadBalancerRequest, LookupRequest, NO_INSTANCES,
    Node, PersistentVolume, Service,
};
use controllers::lifecycle::preview::LifecyclePreview;
use controllers::look_up::look_up;
use controllers::node_identity::{NoIdentity, NodeIdentity, all_are_foreign, why_no_target};
use controllers::route::Destination;
use controllers::service::Operation;
use controllers::service::targets::{is_eligible, is_included, is_tainted_for_deletion};
use controllers::service::wants::may_hold_leftovers;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use runtime::cache::Cache;

use super::cluster::Existing;
use super::facts::{Balancers, EventFact, Facts, Leader, Machine, NodeFacts, Runs, ServiceFacts};
use super::report::{Explanation, LastError, is_same_error};
use super::{Subject, node, rows, service};
use crate::commands::doctor::ElectedBy;
use crate::commands::plan::{
    Kind, NodeAnswers, ObjectPlan, Report, plan_nodes_and_routes, plan_service,
};
use crate::commands::{ask, list};
use crate::controller_set::{Settings, SharedCaches};

/// Maximum number of last errors in an explanation.
const ERRORS: usize = 3;

/// The sources of the facts.
pub struct Reader<'a> {
    /// Settings of the manager.
    pub settings: &'a Settings,
    /// Client that refuses every request that is not a read.
    pub client: Client,
    /// The initialized provider, or the reason why there is none.
    pub provider: Result<Arc<dyn CloudProvider>, String>,
    /// Cluster that the objects belong to.
    pub cluster: Cluster,
    /// The lease of leader election; `None` without leader election.
    pub lease: Option<ElectedBy>,
    /// Time at which the facts are read.
    pub now: Timestamp,
}

/// Explains an object, without changing anything.
///
/// # Errors
/// The reason why Nodes or Services cannot be listed. Other errors are part of the explanation.
pub async fn explain(reader: &Reader<'_>, subject: &Subject) -> Result<Explanation, String> {
    let nodes = list::<Node>(&reader.client).await?;
    // Providers determine owners by the Services that exist.
    let services = match (subject, list::<Service>(&reader.client).await) {
        (_, Ok(services)) => services,
        (Subject::Service { .. }, Err(error)) => return Err(error),
        (Subject::Node(_), Err(_)) => Vec::new(),
    };
    let no_volumes: [PersistentVolume; 0] = [];
    let caches = SharedCaches {
        nodes: Cache::with(nodes),
        services: Cache::with(services),
        volumes: Cache::with(no_volumes),
    };
    if let Ok(provider) = &reader.provider {
        provider.set_caches(Arc::new(caches.clone()));
    }
    let mut errors = Vec::new();
    let facts = Facts {
        leader: reader.leader().await,
        runs: reader.runs(),
        events: reader
            .events(subject, existing(subject, &caches).as_ref())
            .await
            .unwrap_or_else(|error| {
                errors.push(error);
                Vec::new()
            }),
        plan: ObjectPlan::default(),
        cloud_error: reader.provider.as_ref().err().cloned(),
    };
    let mut explanation = match subject {
        Subject::Service { namespace, name } => {
            let key = format!("{namespace}/{name}");
            reader
                .service(subject, &caches, caches.services.get(&key), facts)
                .await
        }
        Subject::Node(name) => reader.node(subject, &caches, name, facts).await?,
    };
    explanation.errors.extend(errors);
    if !explanation.exists {
        explanation.similar = match subject {
            Subject::Node(_) => {
                subject.similar(caches.nodes.list().iter().map(|node| node.name.to_string()))
            }
            Subject::Service { .. } => {
                let name = |metadata: &ObjectMeta| {
                    Some([metadata.namespace.clone()?, metadata.name.clone()?].join("/"))
                };
                subject.similar(
                    caches
                        .services
                        .list()
                        .iter()
                        .filter_map(|service| name(&service.metadata)),
                )
            }
        };
    }
    Ok(explanation)
}

/// Returns the identity of the object in the API; `None` if the object does not exist.
fn existing(subject: &Subject, caches: &SharedCaches) -> Option<Existing> {
    let name = subject.name().to_owned();
    match subject {
        Subject::Node(_) => {
            let node = caches.nodes.get(&name)?;
            Some(Existing {
                uid: node.uid.to_string(),
                created: node.created,
                name,
            })
        }
        Subject::Service { namespace, .. } => {
            let metadata = &caches
                .services
                .get(&format!("{namespace}/{name}"))?
                .metadata;
            let created = metadata.creation_timestamp.as_ref().map(|time| time.0);
            Some(Existing {
                uid: metadata.uid.clone().unwrap_or_default(),
                created,
                name,
            })
        }
    }
}

impl Reader<'_> {
    fn runs(&self) -> Runs {
        let wants = |names| self.settings.wants(names);
        Runs {
            node: wants(NODE_CONTROLLER),
            lifecycle: wants(NODE_LIFECYCLE_CONTROLLER),
            service: wants(SERVICE_CONTROLLER),
            route: wants(ROUTE_CONTROLLER),
        }
    }

    fn provider(&self) -> Option<&Arc<dyn CloudProvider>> {
        self.provider.as_ref().ok()
    }

    fn explanation(&self, subject: &Subject, facts: &Facts) -> Explanation {
        Explanation {
            subject: subject.clone(),
            provider: self
                .provider()
                .map(|provider| provider.name().to_owned())
                .unwrap_or_default(),
            cluster: self.cluster.clone(),
            now: self.now,
            exists: true,
            similar: Vec::new(),
            causes: Vec::new(),
            kubernetes: Vec::new(),
            cloud: Vec::new(),
            balancers: Vec::new(),
            claims: Vec::new(),
            plan: facts.plan.clone(),
            last_errors: Vec::new(),
            events: facts.events.clone(),
            leader: facts.leader.clone(),
            unknown: Vec::new(),
            errors: facts.cloud_error.iter().cloned().collect(),
        }
    }

    async fn service(
        &self,
        subject: &Subject,
        caches: &SharedCaches,
        found: Option<Arc<Service>>,
        mut facts: Facts,
    ) -> Explanation {
        let options = self.settings.options.service.clone();
        let nodes = caches.nodes.list();
        let mut errors = Vec::new();
        let mut balancers = Balancers::NotAsked;
        if let (Some(provider), Some(service)) = (self.provider(), &found) {
            let concerns = Operation::at_start(service, &options).is_some()
                || may_hold_leftovers(service, &options);
            if concerns {
                balancers = self.balancers(&**provider, service, &nodes).await;
                let report = plan_service(
                    self.settings,
                    &**provider,
                    &self.cluster,
                    &caches.nodes,
                    service,
                )
                .await;
                facts.plan = of_object(&report, Kind::Service, subject);
                facts.plan.notes.extend(report.notes);
                errors.extend(report.errors);
            }
        }
        let eligible = || {
            nodes
                .iter()
                .map(|node| &**node)
                .filter(|node| is_eligible(node))
        };
        let no_target = |node: &Node| {
            self.provider()
                .and_then(|provider| why_no_target(&**provider, node))
        };
        let why = |node: &Node| why_excluded(node).or_else(|| no_target(node).map(of_identity));
        let excluded = nodes
            .iter()
            .filter_map(|node| Some((node.name.to_string(), why(node)?)))
            .collect();
        let unidentified = self
            .provider()
            .and_then(|provider| NoIdentity::of(&**provider, eligible()));
        let offers = self
            .provider()
            .is_some_and(|provider| provider.load_balancers().is_some());
        let service_facts = ServiceFacts {
            service: found.as_deref().cloned(),
            options,
            offers,
            balancers,
            targets: eligible().filter(|node| no_target(node).is_none()).count(),
            excluded,
            unidentified: unidentified.map(|error| error.to_string()),
        };
        let causes = service::causes(&facts, &service_facts);
        let rows = service_facts
            .service
            .as_ref()
            .map(|service| rows::of_service(&service_facts, service))
            .unwrap_or_default();
        let claims = service::claims(&service_facts);
        let condition = service_facts
            .service
            .as_ref()
            .and_then(service::condition)
            .filter(|condition| condition.status == "False");
        let shown = condition.map(|condition| LastError {
            at: Some(condition.last_transition_time.0),
            source: "condition".to_owned(),
            text: condition.message.clone(),
        });
        let mut explanation = self.explanation(subject, &facts);
        explanation.exists = service_facts.service.is_some();
        explanation.kubernetes = rows;
        explanation.cloud = rows::of_balancers(&service_facts.balancers);
        explanation.claims = claims;
        explanation.errors.extend(errors);
        if let Balancers::Failed(error) = &service_facts.balancers {
            explanation.errors.push(error.clone());
        }
        if let Balancers::Described(all) = service_facts.balancers {
            explanation.balancers = all;
        }
        finish(explanation, causes, shown, &facts)
    }

    async fn balancers(
        &self,
        provider: &dyn CloudProvider,
        service: &Service,
        nodes: &[Arc<Node>],
    ) -> Balancers {
        let Some(balancers) = provider.load_balancers() else {
            return Balancers::NotAsked;
        };
        let request = LoadBalancerRequest {
            cluster: &self.cluster,
            service,
            nodes,
            callbacks: &(),
        };
        match ask(provider.name(), balancers.describe(request)).await {
            Ok(all) => Balancers::Described(all),
            Err(error) if error.is_not_implemented() => {
                match ask(
                    provider.name(),
                    balancers.get(LoadBalancerRequest {
                        nodes: &[],
                        ..request
                    }),
                )
                .await
                {
                    Ok(status) => Balancers::Found(status.map(|status| {
                        let ingress = status.ingress.unwrap_or_default().into_iter();
                        ingress
                            .filter_map(|entry| entry.ip.or(entry.hostname))
                            .collect()
                    })),
                    Err(error) => Balancers::Failed(error.to_string()),
                }
            }
            Err(error) => Balancers::Failed(error.to_string()),
        }
    }

    async fn node(
        &self,
        subject: &Subject,
        caches: &SharedCaches,
        name: &str,
        mut facts: Facts,
    ) -> Result<Explanation, String> {
        let found = caches.nodes.get(name);
        let object = match &found {
            Some(_) => self.node_object(name).await?,
            None => serde_json::Value::Null,
        };
        let mut node_facts = NodeFacts {
            node: found.as_deref().cloned(),
            object,
            offers: self
                .provider()
                .is_some_and(|provider| provider.instances().is_some()),
            is_ours: found.as_ref().is_none_or(|node| {
                self.provider()
                    .is_none_or(|provider| provider.owns_node(node))
            }),
            all_foreign: false,
            is_unidentified: false,
            machine: Machine::NotAsked,
            named: None,
            preview: LifecyclePreview::Leave,
            routes: None,
            route_error: None,
            waits_for_network: self.settings.options.service.exclude_without_network,
        };
        if let (Some(provider), Some(node)) = (self.provider(), &found) {
            let all = caches.nodes.list();
            node_facts.all_foreign = all_are_foreign(&**provider, all.iter().map(|node| &**node));
            let is_adopted = self.settings.options.node.adopt && facts.runs.node;
            node_facts.is_unidentified = node_facts.offers
                && !is_adopted
                && NodeIdentity::of(&**provider, node) == NodeIdentity::Missing;
        }
        if let (Some(provider), Some(node)) = (self.provider(), &found)
            && node_facts.is_ours
        {
            let position = caches
                .nodes
                .list()
                .iter()
                .position(|other_node| other_node.name == node.name);
            let (report, looked_up) =
                plan_nodes_and_routes(self.settings, &**provider, &self.cluster, &caches.nodes)
                    .await;
            facts.plan = of_object(&report, Kind::Node, subject);
            facts.plan.notes.extend(report.notes.iter().cloned());
            add_routes(&report, node, &mut facts.plan);
            if let (Some(position), Some(NodeAnswers { answers, previews })) = (position, looked_up)
            {
                node_facts.machine = machine(&answers[position]);
                node_facts.preview = previews[position].clone();
            }
            if provider.routes().is_some() && facts.runs.route {
                node_facts.route_error = report.errors.first().cloned();
                node_facts.routes = self.routes(&**provider, node).await;
            }
            if matches!(node_facts.machine, Machine::Gone(_)) && node.provider_id().is_some() {
                node_facts.named = named(&**provider, node).await;
            }
        }
        let causes = node::causes(&facts, &node_facts);
        let mut explanation = self.explanation(subject, &facts);
        explanation.exists = node_facts.node.is_some();
        if let Some(node) = &node_facts.node {
            explanation.kubernetes = rows::of_node(node, &node_facts.object);
            explanation.cloud = rows::of_machine(&node_facts);
            explanation.claims = node::claims(&node_facts, node);
        }
        explanation.errors.extend(node_facts.route_error.clone());
        if let Machine::Failed(error) | Machine::Ambiguous(error) = &node_facts.machine {
            explanation.errors.push(error.clone());
        }
        Ok(finish(explanation, causes, None, &facts))
    }

    async fn routes(&self, provider: &dyn CloudProvider, node: &Node) -> Option<Vec<String>> {
        let routes = provider.routes()?;
        let all = ask(provider.name(), async { routes.list(&self.cluster).await })
            .await
            .ok()?;
        let own_destinations: Vec<Destination> = node
            .pod_cidrs
            .iter()
            .map(|cidr| Destination::new(cidr))
            .collect();
        let mut found: Vec<String> = Vec::new();
        for route in all {
            let leads_to = *route.target_node == *node.name;
            if leads_to {
                found.push(route.destination_cidr.clone());
            } else if own_destinations.contains(&Destination::new(&route.destination_cidr)) {
                let target = if route.target_node.is_empty() {
                    "no known Node"
                } else {
                    &route.target_node
                };
                found.push(format!("{} leads to {target}", route.destination_cidr));
            }
        }
        Some(found)
    }
}

fn machine(answer: &Result<InstanceState, Error>) -> Machine {
    match answer {
        Ok(InstanceState::Present { shutdown, metadata }) => Machine::Present {
            shutdown: *shutdown,
            metadata: metadata.clone(),
        },
        Ok(InstanceState::Gone(gone)) => Machine::Gone(gone.reason().to_owned()),
        // Several machines of one name, or an invalid provider ID.
        Err(error) if error.chain().any(Error::is_invalid) => Machine::Ambiguous(error.to_string()),
        Err(error) => Machine::Failed(error.to_string()),
    }
}

/// Returns the provider ID of the machine that has the Node's name.
async fn named(provider: &dyn CloudProvider, node: &Node) -> Option<String> {
    let nameless = Arc::new(Node {
        provider_id: "".into(),
        ..node.clone()
    });
    let answers = look_up(
        provider,
        &[nameless],
        LookupRequest {
            existence: true,
            ..LookupRequest::METADATA
        },
        NO_INSTANCES,
    )
    .await;
    match answers.into_iter().next() {
        Some(Ok(InstanceState::Present {
            metadata: Some(metadata),
            ..
        })) => Some(metadata.provider_id).filter(|id| !id.is_empty() && **id != *node.provider_id),
        _ => None,
    }
}

fn of_object(report: &Report, kind: Kind, subject: &Subject) -> ObjectPlan {
    let is_this_key = |key: &&crate::commands::plan::Key| {
        key.kind == kind && key.namespace == subject.namespace() && key.name == subject.name()
    };
    report
        .objects
        .iter()
        .find(|(key, _)| is_this_key(key))
        .map(|(_, plan)| plan.clone())
        .unwrap_or_default()
}

/// Adds the steps for routes of a Node.
fn add_routes(report: &Report, node: &Node, plan: &mut ObjectPlan) {
    let own_destinations: Vec<Destination> = node
        .pod_cidrs
        .iter()
        .map(|cidr| Destination::new(cidr))
        .collect();
    for (key, route) in report
        .objects
        .iter()
        .filter(|(key, _)| key.kind == Kind::Route)
    {
        let leads_to = |step: &&crate::commands::plan::Step| {
            step.step.detail.contains(&format!("→ {}", node.name))
        };
        if own_destinations.contains(&Destination::new(&key.name))
            || route.steps.iter().any(|step| leads_to(&step))
        {
            plan.steps.extend(route.steps.iter().cloned());
        }
    }
}

fn why_excluded(node: &Node) -> Option<&'static str> {
    match node {
        node if node.terminating => Some("it is being deleted"),
        node if !is_included(node) => Some("a label excludes it"),
        node if is_tainted_for_deletion(node) => {
            Some("the cluster autoscaler is about to remove it")
        }
        _ => None,
    }
}

/// Returns the reason why an eligible Node is no target of a load balancer.
fn of_identity(identity: NodeIdentity) -> &'static str {
    match identity {
        NodeIdentity::Ours | NodeIdentity::Pending => "it waits for its initialisation",
        NodeIdentity::Missing => "it has neither a provider ID nor the uninitialized taint",
        NodeIdentity::Foreign => "its provider ID is another cloud's",
    }
}

/// Adds the causes, the last errors and the facts that cannot be known.
fn finish(
    mut explanation: Explanation,
    causes: Vec<super::Cause>,
    shown: Option<LastError>,
    facts: &Facts,
) -> Explanation {
    explanation.last_errors = last_errors(&explanation.errors, shown, facts);
    for text in causes.iter().filter_map(|cause| cause.state.unknown()) {
        if !explanation.unknown.iter().any(|known| known == text) {
            explanation.unknown.push(text.to_owned());
        }
    }
    if let Leader::Unknown(why) = &facts.leader {
        explanation
            .unknown
            .push(format!("whether a manager leads: {why}"));
    }
    explanation.causes = causes;
    explanation
}

/// Returns the last errors: those of this run, then `shown` from the condition, then warnings about states that last.
pub(super) fn last_errors(
    errors: &[String],
    shown: Option<LastError>,
    facts: &Facts,
) -> Vec<LastError> {
    let now = facts.plan.errors.iter().chain(errors);
    let now = now.map(|text| LastError {
        at: None,
        source: "now".to_owned(),
        text: text.clone(),
    });
    let warning = |event: &EventFact| LastError {
        at: event.last,
        source: event.reason.clone(),
        text: event.message.clone(),
    };
    let reported = facts
        .events
        .iter()
        .filter(|event| event.is_warning && !facts.is_over(event))
        .map(warning);
    let mut last: Vec<LastError> = now.chain(shown).collect();
    last.extend(reported);
    let mut told: Vec<LastError> = Vec::new();
    for error in last {
        if told.len() < ERRORS
            && !told
                .iter()
                .any(|known| is_same_error(&known.text, &error.text))
        {
            told.push(error);
        }
    }
    told
}
