//! A cloud that takes one operation at a time, in the background, and whose lists show no resources: the opposite of a
//! cloud with a single PUT.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{Error, Node, Result, Service, async_trait};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::super::{
    Applied, Attributes, Change, DesiredStateInput, Detail, Identity, LoadBalancerCloud,
    LoadBalancerEngine, Machines, NameUniqueness, ObservedLoadBalancer, Operation, Options,
    OwnerTags, Port, Published, Query, Recovery, ResourceGraph, ResourceKey, State, Targets,
};
use crate::annotations::{Annotations, Parsed};
use crate::paging::ListResult;

#[derive(Default)]
pub(super) struct Model {
    pub(super) balancers: BTreeMap<String, ObservedLoadBalancer>,
    busy_until: BTreeMap<String, Instant>,
    pub(super) wanted: ResourceGraph,
    pub(super) reads: Vec<String>,
    pub(super) writes: Vec<String>,
    /// The write after which every request fails, carried out or not, as if the process had ended.
    pub(super) breaks_at: Option<(usize, bool)>,
    pub(super) most_listeners: Option<usize>,
    pub(super) names_are_not_unique: bool,
    pub(super) foreign: BTreeMap<ResourceKey, String>,
    /// Load balancers of which the next change is refused, with a conflict.
    pub(super) contested: BTreeSet<String>,
    /// Load balancers that cannot be read.
    pub(super) unreadable: BTreeSet<String>,
    /// The answer about the Node's machine; `None` if the machine is another cloud's.
    pub(super) machines: BTreeMap<String, Option<bool>>,
    /// If set, a query of states returns only IDs and states.
    pub(super) is_read_in_short: bool,
    /// The number of future load balancers that fail on creation.
    pub(super) fails: usize,
    /// If set, a failed load balancer is created again.
    pub(super) is_replaced: bool,
    /// The key by which all load balancers are locked.
    pub(super) lock: Option<String>,
    /// Ports that only load balancers may serve that do so already.
    pub(super) keeps: Vec<u16>,
    /// If set, a request adds one target only.
    pub(super) adds_singly: bool,
    /// The Service of each write.
    pub(super) turns: Vec<String>,
    made: usize,
}

#[derive(Clone, Default)]
pub(super) struct StepByStep(pub(super) Arc<Mutex<Model>>);

pub(super) const TAKES: Duration = Duration::from_millis(700);

impl Model {
    fn show(&self, id: &str) -> Option<ObservedLoadBalancer> {
        let mut shown = self.balancers.get(id)?.clone();
        if self
            .busy_until
            .get(id)
            .is_some_and(|until| *until > Instant::now())
        {
            shown.state = State::Busy;
        }
        shown.foreign.clone_from(&self.foreign);
        Some(shown)
    }

    fn begin(&mut self, what: &Operation) -> Result<bool> {
        self.writes.push(
            format!("{what:?}")
                .split([' ', '('])
                .next()
                .unwrap_or_default()
                .to_owned(),
        );
        match self.breaks_at {
            Some((at, _)) if self.writes.len() > at + 1 => Err(Error::other("dead")),
            Some((at, is_applied)) if self.writes.len() > at => Ok(is_applied),
            _ => Ok(true),
        }
    }

    /// Lets the cloud change a load balancer in the background.
    pub(super) fn begin_work(&mut self, id: &str) {
        self.busy_until
            .insert(id.to_owned(), Instant::now() + TAKES);
    }

    fn is_answered(&self) -> Result<()> {
        let is_lost = self.breaks_at.is_some_and(|(at, _)| self.writes.len() > at);
        if is_lost {
            Err(Error::other("the answer was lost"))
        } else {
            Ok(())
        }
    }

    pub(super) fn add(
        &mut self,
        name: &str,
        owner_tags: OwnerTags,
        graph: ResourceGraph,
    ) -> String {
        self.made += 1;
        let id = format!("lb-{}", self.made);
        let ingress = vec![ObservedLoadBalancer::ip(&format!("192.0.2.{}", self.made))];
        let actual = ObservedLoadBalancer {
            id: id.clone(),
            name: name.into(),
            owner_tags,
            ingress,
            graph: Some(graph),
            ..ObservedLoadBalancer::default()
        };
        self.balancers.insert(id.clone(), actual);
        id
    }
}

impl StepByStep {
    pub(super) fn model(&self) -> parking_lot::MutexGuard<'_, Model> {
        self.0.lock()
    }
}

impl StepByStep {
    pub(super) fn balancers(&self) -> LoadBalancerEngine {
        LoadBalancerEngine::of(self.clone(), Arc::new(self.clone()), Options::default())
    }

    fn one(&self, id: &str) -> Result<Option<ObservedLoadBalancer>> {
        let mut model = self.model();
        model.reads.push(format!("read {id}"));
        if model.unreadable.contains(id) {
            Err(Error::other("500"))
        } else {
            Ok(model.show(id))
        }
    }
}

#[async_trait]
impl Machines for StepByStep {
    async fn has(&self, node: &Node) -> Result<Option<bool>> {
        Ok(self
            .model()
            .machines
            .get(&*node.name)
            .copied()
            .unwrap_or(Some(true)))
    }

    async fn ids(&self) -> Result<Targets> {
        Ok(Targets::default())
    }
}

#[async_trait]
impl LoadBalancerCloud for StepByStep {
    type Spec = ();

    fn name_uniqueness(&self) -> NameUniqueness {
        if self.model().names_are_not_unique {
            NameUniqueness::NotUnique
        } else {
            NameUniqueness::Unique
        }
    }

    fn spec(&self, service: &Service) -> Parsed<()> {
        Annotations::of(service).parsed(())
    }

    async fn desired(&self, _desire: &DesiredStateInput<'_, ()>) -> Result<ResourceGraph> {
        Ok(self.model().wanted.clone())
    }

    async fn read(&self, query: Query<'_>) -> Result<ListResult<ObservedLoadBalancer>> {
        let is_short = self.model().is_read_in_short;
        if let Query::Ids(ids, detail) = query
            && !(is_short && detail == Detail::State)
        {
            let read: Vec<_> = ids.iter().map(|id| self.one(id)).collect::<Result<_>>()?;
            return Ok(ListResult::of(read.into_iter().flatten().collect()));
        }
        let mut model = self.model();
        let found: Vec<ObservedLoadBalancer> = match query {
            Query::All(_) => {
                model.reads.push("list".into());
                let heads = model.balancers.keys().filter_map(|id| model.show(id));
                heads
                    .map(|head| ObservedLoadBalancer {
                        graph: None,
                        ..head
                    })
                    .collect()
            }
            Query::Owner(identity) => {
                model.reads.push("find".into());
                let all = model.balancers.keys().filter_map(|id| model.show(id));
                let of_it = |load_balancer: &ObservedLoadBalancer| {
                    load_balancer.name == identity.name
                        || load_balancer.owner_tags == identity.owner_tags()
                };
                all.filter(of_it)
                    .map(|head| ObservedLoadBalancer {
                        graph: None,
                        ..head
                    })
                    .collect()
            }
            Query::Ids(ids, _) => {
                model
                    .reads
                    .extend(ids.iter().map(|id| format!("look {id}")));
                let shown = ids.iter().filter_map(|id| model.show(id));
                shown
                    .map(|load_balancer| ObservedLoadBalancer {
                        id: load_balancer.id,
                        state: load_balancer.state,
                        ..ObservedLoadBalancer::default()
                    })
                    .collect()
            }
        };
        Ok(ListResult::of(found))
    }

    fn fit(
        &self,
        mut wanted: ResourceGraph,
        _actual: &ObservedLoadBalancer,
        _identity: &Identity<'_>,
        (): &(),
    ) -> Result<ResourceGraph> {
        for port in &self.model().keeps {
            wanted
                .resources
                .remove(&ResourceKey::Pool(format!("pool-{port}")));
            wanted.resources.remove(&ResourceKey::Listener(Port {
                number: *port,
                protocol: "TCP".into(),
            }));
        }
        Ok(wanted)
    }

    fn published(&self, actual: &ObservedLoadBalancer, _service: &Service, (): &()) -> Published {
        Published {
            status: actual.status(),
            annotations: vec![("example.com/id", Some(actual.id.clone()))],
        }
    }

    fn lock(&self, _actual: &ObservedLoadBalancer) -> Option<String> {
        self.model().lock.clone()
    }

    fn recovery(&self, _actual: &ObservedLoadBalancer, _service: &Service) -> Recovery {
        if self.model().is_replaced {
            Recovery::Replace
        } else {
            Recovery::Never
        }
    }

    async fn apply(&self, change: Change<'_>, (): &()) -> Result<Applied> {
        let mut model = self.model();
        let operation = &change.operations[0];
        let is_applied = model.begin(operation)?;
        model.turns.push(change.identity.uid().to_owned());
        let id = change.actual.map(|actual| actual.id.clone());
        if id.as_ref().is_some_and(|id| model.contested.remove(id)) {
            return Err(Error::conflict("it is changing"));
        }
        if let Some(id) = &id {
            assert_ne!(
                model.show(id).map(|load_balancer| load_balancer.state),
                Some(State::Busy),
                "one thing after the other"
            );
        }
        if let Operation::Create {
            resource: ResourceKey::Listener(Port { .. }),
            ..
        } = operation
            && let Some(most) = model.most_listeners
            && change
                .actual
                .is_some_and(|actual| actual.known_graph().listeners().count() >= most)
        {
            return Err(Error::quota("no more listeners"));
        }
        let mut outcome = change.outcome(1);
        let mut is_whole = true;
        if let (Some(outcome), Operation::AddTargets { pool, targets }) = (&mut outcome, operation)
            && model.adds_singly
            && let Some(graph) = &mut outcome.graph
        {
            let surplus: Targets = targets.iter().skip(1).collect();
            is_whole = surplus.is_empty();
            graph
                .targets
                .insert(pool.clone(), graph.targets_of(pool).without(&surplus));
        }
        if !is_applied {
            return Err(Error::other("not sent"));
        }
        let id = match (id, &outcome) {
            (Some(id), None) => {
                model.balancers.remove(&id);
                model.is_answered()?;
                return Ok(Applied::Begun(1));
            }
            (Some(id), Some(outcome)) => {
                let stored = model
                    .balancers
                    .get_mut(&id)
                    .ok_or_else(|| Error::not_found("gone"))?;
                stored.graph.clone_from(&outcome.graph);
                stored.owner_tags.clone_from(&outcome.owner_tags);
                id
            }
            (None, _) => {
                let name = change.identity.name.clone();
                if !model.names_are_not_unique
                    && model
                        .balancers
                        .values()
                        .any(|load_balancer| load_balancer.name == name)
                {
                    return Err(Error::conflict("name taken"));
                }
                let graph = outcome
                    .and_then(|outcome| outcome.graph)
                    .unwrap_or_default();
                let id = model.add(&name, change.identity.owner_tags(), graph);
                if model.fails > 0 {
                    model.fails -= 1;
                    model.balancers.get_mut(&id).unwrap().state =
                        State::Failed("no compute host".into());
                }
                id
            }
        };
        model.busy_until.insert(id.clone(), Instant::now() + TAKES);
        model.is_answered()?;
        let shown = model.show(&id).unwrap();
        if !is_whole {
            return Ok(Applied::PlanAgain(Box::new(shown)));
        }
        // A creation returns the result, a change does not.
        Ok(if change.actual.is_none() {
            Applied::Shown(1, Box::new(shown))
        } else {
            Applied::Begun(1)
        })
    }
}

/// Returns a load balancer with two pools and two ports.
pub(super) fn wish(ports: &[u16], targets: &[&str]) -> ResourceGraph {
    let graph = ResourceGraph::default()
        .resource(
            ResourceKey::CreatedBefore(super::super::Auxiliary {
                rank: 0,
                kind: "firewall".into(),
                name: "f".into(),
            }),
            Attributes::default(),
        )
        .balancer(Attributes::default().set("tier", "basic"));
    ports.iter().fold(graph, |graph, port| {
        let pool = format!("pool-{port}");
        graph
            .pool(
                &pool,
                Attributes::default(),
                Some(targets.iter().copied().collect()),
            )
            .listener(
                *port,
                "TCP",
                &pool,
                Attributes::default().set("target_port", 30_000 + port),
            )
    })
}
