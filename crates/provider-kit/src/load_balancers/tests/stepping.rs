//! Whole syncs of the step function against a cloud in memory: no I/O, no clock, ended anywhere.

use std::collections::BTreeMap;
use std::sync::Arc;

use cloud_provider::{Cluster, Error, Result, Service, async_trait};
use proptest::prelude::*;

use super::super::change::Step;
use super::super::dyn_cloud::TypedCloud;
use super::super::model::{
    ObservedLoadBalancer, OwnerTags, Port, ResourceGraph, ResourceKey, Shared, State,
};
use super::super::ownership::{Others, OwnershipResult};
use super::super::service_sync::ServiceSync;
use super::super::step::{Action, Answer};
use super::super::sync_goal::SyncGoal;
use super::super::{
    Adoption, Applied, Change, DesiredStateInput, Identity, LoadBalancerCloud, NameUniqueness,
    Naming, Operation, Options, Query, Recovery, plan,
};
use super::cloud::StepByStep;
use super::planning::{any_actual, check_possible, graph};
use crate::annotations::{Annotations, Parsed};
use crate::paging::ListResult;

/// The decisions of a cloud that is locked, and replaces what failed.
struct Decisions;

#[async_trait]
impl LoadBalancerCloud for Decisions {
    type Spec = ();

    fn name_uniqueness(&self) -> NameUniqueness {
        NameUniqueness::NotUnique
    }

    fn spec(&self, service: &Service) -> Parsed<()> {
        Annotations::of(service).parsed(())
    }

    fn lock(&self, _observed: &ObservedLoadBalancer) -> Option<String> {
        Some("all".into())
    }

    fn recovery(&self, _observed: &ObservedLoadBalancer, _service: &Service) -> Recovery {
        Recovery::Replace
    }

    async fn desired(&self, _desire: &DesiredStateInput<'_, ()>) -> Result<ResourceGraph> {
        unreachable!("the step function does no I/O")
    }

    async fn read(&self, _query: Query<'_>) -> Result<ListResult<ObservedLoadBalancer>> {
        unreachable!("the step function does no I/O")
    }

    async fn apply(&self, _change: Change<'_>, (): &()) -> Result<Applied> {
        unreachable!("the step function does no I/O")
    }
}

/// The cloud's way to answer a request.
#[derive(Clone, Copy, Debug)]
enum Mood {
    /// The first operation is carried out, and the outcome shown.
    One,
    /// Every operation is carried out, and the outcome shown.
    All,
    /// The first operation is begun.
    Busy,
    /// The first operation is done, and the cloud asks for another plan.
    PlanAgain,
    /// The request is refused, because something has changed.
    Conflict,
}

/// The request at which the process ends, and whether that request is carried out.
type End = Option<(usize, bool)>;

#[derive(Clone, Debug)]
struct Cloud {
    balancers: BTreeMap<String, ObservedLoadBalancer>,
    desired: ResourceGraph,
    moods: Vec<Mood>,
    created: usize,
    /// The load balancer that the Service shows: its ID stands for its address.
    shown: Vec<String>,
}

fn service() -> Service {
    serde_json::from_value(
        serde_json::json!({"metadata": {"namespace": "default", "name": "web", "uid": "s1"}}),
    )
    .unwrap()
}

fn cluster() -> Cluster {
    Cluster {
        name: "kubernetes".into(),
        id: Some("c1".into()),
    }
}

fn owner_tags(cluster: &str, service: &str) -> OwnerTags {
    OwnerTags {
        cluster: Some(cluster.into()),
        service: Some(service.into()),
    }
}

/// Returns `true` if a load balancer carries the Service's owner tags, or its legacy owner tag and no owner tags.
fn is_own(actual: &ObservedLoadBalancer) -> bool {
    let is_legacy = actual.owner_tags == OwnerTags::default()
        && actual.legacy_owner.as_deref() == Some("legacy-s1");
    actual.owner_tags == owner_tags("c1", "s1") || is_legacy
}

impl Cloud {
    fn own(&self) -> Vec<&ObservedLoadBalancer> {
        self.balancers
            .values()
            .filter(|actual| is_own(actual))
            .collect()
    }

    fn others(&self) -> String {
        format!(
            "{:?}",
            self.balancers
                .values()
                .filter(|load_balancer| !is_own(load_balancer) && !load_balancer.adopted)
                .collect::<Vec<_>>()
        )
    }

    fn seen(&self, id: &str) -> Option<Shared> {
        self.balancers.get(id).cloned().map(Arc::new)
    }

    fn found(&self, identity: &Identity<'_>) -> OwnershipResult {
        let is_candidate = |load_balancer: &&ObservedLoadBalancer| {
            load_balancer.name == identity.name
                || load_balancer.owner_tags.service.as_deref() == Some("s1")
                || load_balancer.legacy_owner == identity.legacy_owner
        };
        let with_address = |load_balancer: &ObservedLoadBalancer| {
            Arc::new(ObservedLoadBalancer {
                ingress: vec![ObservedLoadBalancer::ip(&load_balancer.id)],
                ..load_balancer.clone()
            })
        };
        let found = self
            .balancers
            .values()
            .filter(is_candidate)
            .map(with_address)
            .collect();
        let others = Others {
            caches: None,
            naming: &Naming::of,
            is_shared: &|_| false,
            adopts: &|_| Adoption::Refuse,
        };
        OwnershipResult::new(found, identity, &others)
    }

    /// Fails if an operation must not be sent for a load balancer.
    fn check(stored: &ObservedLoadBalancer, operation: &Operation) {
        let is_shared = !stored.foreign.is_empty();
        check_possible(&stored.known_graph(), operation);
        assert!(
            is_own(stored),
            "{operation:?} for another owner's load balancer: {stored:?}"
        );
        if operation.deletes(|resource| *resource == ResourceKey::Balancer) {
            assert!(
                !stored.adopted && !is_shared,
                "a load balancer that was not ours to delete: {stored:?}"
            );
        }
    }

    fn send(&mut self, change: Change<'_>, mood: Mood) -> Result<Step<Shared>> {
        let count = match mood {
            Mood::Conflict => return Err(Error::conflict("it has changed")),
            Mood::All => change.operations.len(),
            _ => 1,
        };
        let id = change.actual.map_or_else(
            || {
                self.created += 1;
                format!("new-{}", self.created)
            },
            |actual| actual.id.clone(),
        );
        let new = ObservedLoadBalancer {
            id: id.clone(),
            owner_tags: owner_tags("c1", "s1"),
            ..change.outcome(count).unwrap_or_default()
        };
        let mut stored = match change.actual {
            Some(_) => self
                .balancers
                .remove(&id)
                .ok_or_else(|| Error::not_found("gone"))?,
            None => ObservedLoadBalancer { graph: None, ..new },
        };
        for operation in &change.operations[..count] {
            Self::check(&stored, operation);
            let one = Change {
                actual: Some(&stored),
                operations: std::slice::from_ref(operation),
                ..change
            };
            let Some(outcome) = one.outcome(1) else {
                return Ok(Step::Gone);
            };
            stored = outcome;
        }
        self.balancers.insert(id, stored.clone());
        let applied = match mood {
            Mood::Busy if change.actual.is_some() => Applied::Begun(count),
            Mood::PlanAgain => Applied::PlanAgain(Box::new(stored)),
            _ => Applied::Shown(count, Box::new(stored)),
        };
        Ok(applied.step(change).map(Arc::new))
    }

    /// Syncs until the end, or until the process ends. Returns the outcome, if there is one, and the number of
    /// requests.
    fn sync(&mut self, goal: SyncGoal, end: End) -> (Option<Result<()>>, usize) {
        let cluster = cluster();
        let service = service();
        let legacy_owner = Some("legacy-s1".to_owned());
        let published_addresses = self.shown.clone();
        let naming = Naming {
            name: "web".into(),
            legacy_owner,
            published_addresses,
            ..Naming::default()
        };
        let identity = Identity::new(&cluster, &service, naming);
        let cloud = TypedCloud {
            cloud: Decisions,
            machines: Arc::new(StepByStep::default()),
            options: Options::default(),
        };
        let desired = goal.has_desired().then(|| self.desired.clone());
        let (mut sync, mut action) = ServiceSync::start(goal, desired, &cloud, &identity, None);
        let mut sent = 0;
        for _ in 0..1000 {
            let answer = match action {
                Action::Find { .. } | Action::VerifyAbsence { .. } => {
                    Ok(Answer::Found(self.found(&identity)))
                }
                Action::Claim(_) => Ok(Answer::Claimed),
                Action::Lock { actual, .. }
                | Action::Wait { actual, .. }
                | Action::Read(actual)
                | Action::Refresh(actual) => Ok(Answer::Seen(self.seen(&actual.id))),
                Action::Publish(_) => Ok(Answer::Published),
                Action::Recheck { .. } => Ok(Answer::Rechecked(true)),
                Action::Compare { .. } => Ok(Answer::Compared(true)),
                Action::Done(outcome) => {
                    if let (Ok(Some(actual)), SyncGoal::Ensured) = (&outcome, goal) {
                        self.shown = vec![actual.id.clone()];
                    }
                    return (Some(outcome.map(drop)), sent);
                }
                Action::Send { actual, operations } => {
                    let change = Change {
                        identity: &identity,
                        actual: actual.as_deref(),
                        operations: &operations,
                        callbacks: &(),
                    };
                    let mood = self.moods[sent % self.moods.len()];
                    let number = sent;
                    sent += 1;
                    match end {
                        Some((at, false)) if at == number => return (None, sent),
                        Some((at, true)) if at == number => {
                            let _lost_answer = self.send(change, mood);
                            return (None, sent);
                        }
                        _ => self.send(change, mood).map(Answer::Sent),
                    }
                }
            };
            action = sync.step(answer);
            sync.take_reports();
        }
        panic!("a sync without an end: {self:?}")
    }

    /// Syncs until the end. Returns the number of requests.
    fn finish(&mut self, goal: SyncGoal) -> usize {
        let (outcome, sent) = self.sync(goal, None);
        outcome.unwrap().unwrap();
        sent
    }

    /// Fails unless the Service has the desired load balancer and no operation is left. Twins stay.
    fn check_reached(&mut self) {
        let own = self.own();
        let is_desired =
            |actual: &&ObservedLoadBalancer| plan(&self.desired, &actual.known_graph()).is_empty();
        assert!(own.iter().any(is_desired), "{own:?}");
        assert!(
            own.iter()
                .all(|load_balancer| load_balancer.known_graph().balancer_attributes().is_some()),
            "remnants are deleted: {own:?}"
        );
        assert_eq!(
            self.finish(SyncGoal::Ensured),
            0,
            "a second sync has nothing to do"
        );
    }
}

/// Load balancers of the Service: up to two, complete or half created; one may have failed, or carry the legacy owner
/// tag only.
fn own() -> impl Strategy<Value = Vec<ObservedLoadBalancer>> {
    let one = (any_actual(), any::<bool>(), 0..5_u8).prop_map(|(graph, is_adopted, kind)| {
        let failed = kind == 0 && graph.balancer_attributes().is_some() && !is_adopted;
        let state = if failed {
            State::Failed("no host".into())
        } else {
            State::Ready
        };
        ObservedLoadBalancer {
            name: "web".into(),
            owner_tags: owner_tags("c1", "s1"),
            state,
            graph: Some(graph),
            adopted: is_adopted,
            ..ObservedLoadBalancer::default()
        }
    });
    (proptest::collection::vec(one, 0..3), any::<bool>()).prop_map(|(mut own, is_legacy)| {
        own.retain(|actual| !actual.known_graph().resources.is_empty());
        if let ([only], true) = (&mut own[..], is_legacy) {
            (only.owner_tags, only.legacy_owner, only.adopted) =
                (OwnerTags::default(), Some("legacy-s1".into()), false);
        }
        own.iter_mut()
            .skip(1)
            .for_each(|second| second.state = State::Ready);
        own
    })
}

/// Load balancers of another cluster, of another Service, and of no owner.
fn others() -> impl Strategy<Value = Vec<ObservedLoadBalancer>> {
    let owners = vec![
        owner_tags("c2", "s9"),
        owner_tags("c1", "s2"),
        OwnerTags::default(),
    ];
    let one = (graph(false), prop::sample::select(owners)).prop_map(|(graph, owner_tags)| {
        ObservedLoadBalancer {
            name: format!("other-{}", owner_tags.service.clone().unwrap_or_default()),
            owner_tags,
            graph: Some(graph),
            ..ObservedLoadBalancer::default()
        }
    });
    proptest::collection::vec(one, 0..3)
}

fn moods() -> impl Strategy<Value = Vec<Mood>> {
    let usual = prop::sample::select(vec![Mood::One, Mood::All, Mood::Busy, Mood::PlanAgain]);
    proptest::collection::vec(usual, 1..4)
}

fn clouds() -> impl Strategy<Value = Cloud> {
    (own(), others(), graph(true), moods()).prop_map(|(own, others, desired, moods)| {
        let numbered = own.into_iter().chain(others).enumerate();
        let balancers = numbered
            .map(|(n, load_balancer)| {
                (
                    format!("lb-{n}"),
                    ObservedLoadBalancer {
                        id: format!("lb-{n}"),
                        ..load_balancer
                    },
                )
            })
            .collect();
        Cloud {
            balancers,
            desired,
            moods,
            created: 0,
            shown: Vec::new(),
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_sync_reaches_the_desired_state_and_the_next_sends_nothing(mut cloud in clouds()) {
        let others = cloud.others();
        cloud.finish(SyncGoal::Ensured);
        cloud.check_reached();
        prop_assert_eq!(cloud.others(), others);
    }

    #[test]
    fn a_sync_that_ends_anywhere_is_finished_by_the_next(before in clouds(), is_carried_out in any::<bool>()) {
        for at in 0..200 {
            let mut cloud = before.clone();
            let others = cloud.others();
            let is_whole = cloud.sync(SyncGoal::Ensured, Some((at, is_carried_out))).0.is_some();
            cloud.finish(SyncGoal::Ensured);
            cloud.check_reached();
            prop_assert_eq!(cloud.others(), others);
            if is_whole {
                break;
            }
        }
    }

    #[test]
    fn a_deletion_that_ends_anywhere_leaves_nothing_of_ours_after_the_next(
        before in clouds(), is_carried_out in any::<bool>()
    ) {
        for at in 0..200 {
            let mut cloud = before.clone();
            let others = before.others();
            let is_whole = cloud.sync(SyncGoal::Deleted, Some((at, is_carried_out))).0.is_some();
            cloud.finish(SyncGoal::Deleted);
            prop_assert!(cloud.own().is_empty());
            prop_assert_eq!(cloud.others(), others);
            if is_whole {
                break;
            }
        }
    }

    #[test]
    fn a_conflict_is_planned_again_from_what_the_cloud_has(mut cloud in clouds(), at in 0..6_usize) {
        let mut moods: Vec<Mood> = cloud.moods.iter().copied().cycle().take(400).collect();
        moods[at] = Mood::Conflict;
        cloud.moods = moods;
        cloud.balancers.values_mut().for_each(|load_balancer| load_balancer.state = State::Ready);
        cloud.finish(SyncGoal::Ensured);
        cloud.check_reached();
    }

    #[test]
    fn a_load_balancer_of_our_name_and_of_other_owner_is_refused(
        stranger in (graph(false), prop::sample::select(vec![owner_tags("c2", "s9"), owner_tags("c1", "s2"), OwnerTags::default()])),
        desired in graph(true), goal in prop::sample::select(vec![SyncGoal::Ensured, SyncGoal::Targets, SyncGoal::Deleted])
    ) {
        let (graph, owner_tags) = stranger;
        let stranger = ObservedLoadBalancer { id: "lb-0".into(), name: "web".into(), owner_tags, graph: Some(graph), ..ObservedLoadBalancer::default() };
        let balancers = [("lb-0".to_owned(), stranger)].into();
        let mut cloud = Cloud { balancers, desired, moods: vec![Mood::One], created: 0, shown: Vec::new() };
        let others = cloud.others();
        let (outcome, sent) = cloud.sync(goal, None);
        prop_assert_eq!((outcome.unwrap().is_ok(), sent), (goal == SyncGoal::Deleted, 0));
        prop_assert_eq!(cloud.others(), others);
    }

    #[test]
    fn a_load_balancer_with_parts_of_others_outlives_its_service(actual in graph(false), moods in moods()) {
        let theirs = ResourceKey::Listener(Port { number: 8443, protocol: "TCP".into() });
        let foreign = [(theirs, "Service default/other's".to_owned())].into();
        let shared = ObservedLoadBalancer { id: "lb-0".into(), name: "web".into(), owner_tags: owner_tags("c1", "s1"), graph: Some(actual), foreign, ..ObservedLoadBalancer::default() };
        let balancers = [("lb-0".to_owned(), shared)].into();
        let mut cloud = Cloud { balancers, desired: ResourceGraph::default(), moods, created: 0, shown: Vec::new() };
        cloud.finish(SyncGoal::Deleted);
        let left = &cloud.balancers["lb-0"];
        prop_assert!(left.known_graph().listeners().next().is_none() && left.owner_tags == OwnerTags::default());
    }
}
