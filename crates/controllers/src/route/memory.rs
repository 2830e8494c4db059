//! State that a pass of the route controller leaves for the next. All of it may be lost, because routes are found again
//! by listing (INV-2).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{Error, Node};
use tokio::time::Instant;

use super::Destination;
use super::backoff::Backoff;
use super::condition::RouteCondition;
use super::flapping::Flapping;
use super::metrics::RouteCounts;
use super::plan::{Creation, Decision, DeletionCause, Plan, Record, inputs_of};
use super::pod_cidrs::CidrRefusal;
use super::work::Item;

/// First back-off of a failed route (P-2).
const ROUTE_BACKOFF: Duration = Duration::from_secs(10);
/// First back-off of a condition that could not be written.
const CONDITION_BACKOFF: Duration = Duration::from_secs(5);
/// Maximum back-off of a list that failed, without which no new Node gets a route.
const LONGEST_LIST_BACKOFF: Duration = Duration::from_secs(60);
/// Maximum back-off of routes and conditions.
const LONGEST_BACKOFF: Duration = Duration::from_secs(300);

/// A destination and a digest of its intended routes. Failures are forgotten when the intention changes.
pub(super) type Key = (Destination, u64);

/// The memory of the route controller between passes.
pub(super) struct Memory {
    /// Records by Node name, as of the last pass and the changes since.
    records: BTreeMap<Box<str>, Record>,
    routes: Backoff<Key>,
    lists: Backoff<()>,
    /// Back-off of conditions that could not be written, by Node name.
    conditions: Backoff<Box<str>>,
    /// Version of the Node at which the condition was written, by Node UID. The condition is not written again until
    /// the cache shows another version.
    written: HashMap<Box<str>, (Box<str>, RouteCondition)>,
    flapping: Flapping<(Box<str>, Destination)>,
    /// Pod CIDRs that were reported, by Node UID, with the reason why they get no route.
    reported: HashMap<(Box<str>, Destination), Option<CidrRefusal>>,
    paused_until: Option<Instant>,
    next_list: Option<Instant>,
    /// Number of routes in the last list that this controller may not change.
    foreign: usize,
    /// Destinations whose work in progress is no longer wanted.
    superseded: HashSet<Destination>,
}

/// A route of this cluster that another writer changed.
pub(super) struct Contested {
    pub(super) creation: Creation,
    /// Time for which the route is left alone, if it is changed repeatedly.
    pub(super) rest: Option<Duration>,
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            records: BTreeMap::new(),
            routes: Backoff::new(ROUTE_BACKOFF, LONGEST_BACKOFF),
            lists: Backoff::new(ROUTE_BACKOFF, LONGEST_LIST_BACKOFF),
            conditions: Backoff::new(CONDITION_BACKOFF, LONGEST_BACKOFF),
            written: HashMap::new(),
            flapping: Flapping::default(),
            reported: HashMap::new(),
            paused_until: None,
            next_list: None,
            foreign: 0,
            superseded: HashSet::new(),
        }
    }
}

impl Memory {
    /// Records the plan of a pass and removes the destinations in `ended`, whose work was still in progress when the
    /// list was requested. Returns the routes that another writer changed since the last pass.
    pub(super) fn planned(
        &mut self,
        now: Instant,
        plan: &mut Plan,
        ended: &HashSet<Destination>,
    ) -> Vec<Contested> {
        self.lists.succeeded(&());
        self.next_list = None;
        self.flapping.forget_old(now);
        if self.remove_ended(plan, ended) {
            self.schedule_list(now);
        }
        // No writer changed a route whose target is missing: its machine was deleted.
        let blackholes: HashSet<&Destination> = plan
            .deletes
            .iter()
            .filter(|deletion| deletion.cause == DeletionCause::Blackhole)
            .map(|deletion| &deletion.destination)
            .collect();
        let was_right = |creation: &&Creation| {
            if blackholes.contains(&creation.destination) {
                return false;
            }
            let node = &creation.node;
            match (self.records.get(&node.name), plan.records.get(&node.name)) {
                (Some(old), Some(new)) => {
                    (&old.uid, old.inputs) == (&new.uid, new.inputs)
                        && old.decisions.get(&creation.destination) == Some(&Decision::Keep)
                }
                _ => false,
            }
        };
        let changed: Vec<Creation> = plan.creates.iter().filter(was_right).cloned().collect();
        self.records.clone_from(&plan.records);
        changed
            .into_iter()
            .map(|creation| {
                let key = (creation.node.uid.clone(), creation.destination.clone());
                Contested {
                    rest: self.flapping.observe(now, key),
                    creation,
                }
            })
            .collect()
    }

    /// Removes the destinations that were worked on meanwhile from the plan, because the list may show their old or
    /// their new state. Returns `true` if the cloud must be listed again soon, which is the case unless all of them
    /// were successfully created.
    fn remove_ended(&self, plan: &mut Plan, ended: &HashSet<Destination>) -> bool {
        let creates = plan.creates.iter().map(|creation| &creation.destination);
        let changes = plan
            .deletes
            .iter()
            .map(|deletion| &deletion.destination)
            .chain(creates);
        let mut open: HashSet<Destination> = changes
            .filter(|destination| ended.contains(destination))
            .cloned()
            .collect();
        plan.deletes
            .retain(|deletion| !ended.contains(&deletion.destination));
        plan.creates
            .retain(|creation| !ended.contains(&creation.destination));
        for (name, record) in &mut plan.records {
            let of_same = |old: &&Record| (&old.uid, old.inputs) == (&record.uid, record.inputs);
            let old = self.records.get(name).filter(of_same);
            for (destination, decision) in record
                .decisions
                .iter_mut()
                .filter(|(destination, _)| ended.contains(destination))
            {
                let known = old
                    .and_then(|old| old.decisions.get(destination))
                    .copied()
                    .unwrap_or(Decision::Wait);
                if known == Decision::Keep {
                    open.remove(destination);
                } else if known != *decision {
                    open.insert(destination.clone());
                }
                *decision = known;
            }
        }
        !open.is_empty()
    }

    /// Schedules a list of the cloud's routes at this time, even if nothing else changes.
    pub(super) fn schedule_list(&mut self, at: Instant) {
        self.next_list = Some(self.next_list.map_or(at, |earlier| earlier.min(at)));
    }

    /// Marks work in progress that differs from the plan, so that the cloud is listed again as soon as that work has
    /// ended. By then no change of a Node would trigger it.
    pub(super) fn supersede(&mut self, items: &[Item], in_flight: &HashMap<Destination, Item>) {
        let wanted: HashMap<&Destination, &Item> =
            items.iter().map(|item| (&item.destination, item)).collect();
        let is_old = |(destination, item): &(&Destination, &Item)| {
            !self.still_stands(item, wanted.get(destination))
        };
        self.superseded = in_flight
            .iter()
            .filter(is_old)
            .map(|(destination, _)| destination.clone())
            .collect();
    }

    /// Returns `true` if the item in progress (`in_progress`) still leads to the wanted state. `wanted` is the plan for
    /// the destination after the last list.
    fn still_stands(&self, in_progress: &Item, wanted: Option<&&Item>) -> bool {
        let is_right = |creation: &Creation| {
            let record = self
                .records
                .get(&creation.node.name)
                .filter(|record| record.is_of(&creation.node));
            record.is_some_and(|record| record.decisions.contains_key(&creation.destination))
        };
        let is_made = |wanted: &Creation| {
            in_progress
                .creates
                .iter()
                .any(|creation| inputs_of(&creation.node) == inputs_of(&wanted.node))
        };
        in_progress.creates.iter().all(is_right)
            && wanted
                .into_iter()
                .flat_map(|item| &item.creates)
                .all(is_made)
            && wanted
                .into_iter()
                .flat_map(|item| item.deleted())
                .eq(in_progress.deleted())
    }

    /// Records that work on a destination has ended, successfully or not.
    pub(super) fn ended(&mut self, now: Instant, destination: &Destination) {
        if !self.superseded.remove(destination) {
            return;
        }
        self.schedule_list(now);
        // The state is unknown until then, so the condition is not written.
        for decision in self
            .records
            .values_mut()
            .filter_map(|record| record.decisions.get_mut(destination))
        {
            *decision = Decision::Wait;
        }
    }

    /// Records the number of listed routes that this controller may not change.
    pub(super) fn listed_foreign(&mut self, routes: usize) {
        self.foreign = routes;
    }

    /// Returns the numbers of wanted, present, foreign and failed routes.
    pub(super) fn route_counts(&self) -> RouteCounts {
        let decisions = || {
            self.records
                .values()
                .flat_map(|record| record.decisions.values())
        };
        RouteCounts {
            desired: decisions().count(),
            present: decisions()
                .filter(|decision| **decision == Decision::Keep)
                .count(),
            foreign: self.foreign,
            failed: self.routes.len(),
        }
    }

    /// Records that the list failed.
    pub(super) fn list_failed(&mut self, now: Instant) {
        self.lists.failed(now, ());
    }

    /// Returns the time at which a failed route or condition is due again; after a failed list, the time of the next
    /// list, which all other work needs.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.lists.next_due().or_else(|| {
            [self.routes.next_due(), self.next_list]
                .into_iter()
                .flatten()
                .min()
        })
    }

    /// Returns the time until which the cloud throttles.
    pub(super) fn paused_until(&self, now: Instant) -> Option<Instant> {
        self.paused_until.filter(|until| now < *until)
    }

    /// Records a pause if the cloud throttles all requests.
    pub(super) fn pause_for(&mut self, now: Instant, error: &Error) {
        if let (true, Some(pause)) = (
            error.chain().any(Error::is_rate_limited),
            error.retry_after(),
        ) {
            self.paused_until = self.paused_until.max(now.checked_add(pause));
        }
    }

    /// Removes the back-offs of all other items, except those of destinations without a conclusion yet.
    pub(super) fn retain(&mut self, items: &[Item], is_open: impl Fn(&Destination) -> bool) {
        let wanted: HashSet<Key> = items.iter().map(Item::key).collect();
        self.routes
            .retain(|key| wanted.contains(key) || is_open(&key.0));
    }

    /// Returns `true` if work on the item may begin now, and records its beginning.
    pub(super) fn start(&mut self, now: Instant, key: &Key) -> bool {
        let may = !self.routes.waits(now, key);
        if may {
            self.routes.started(key);
        }
        may
    }

    /// Holds an item until then.
    pub(super) fn hold(&mut self, until: Instant, key: Key) {
        self.routes.hold(until, key);
    }

    /// Records that an item failed.
    pub(super) fn failed(&mut self, now: Instant, key: Key, error: &Error) {
        self.pause_for(now, error);
        match error.retry_after().and_then(|delay| now.checked_add(delay)) {
            Some(at) => self.routes.hold(at, key),
            None => self.routes.failed(now, key),
        }
    }

    /// Records that an item succeeded.
    pub(super) fn succeeded(&mut self, key: &Key) {
        self.routes.succeeded(key);
    }

    /// Records that a route was created (ROUTE-32), unless the Node has changed since.
    pub(super) fn created(&mut self, creation: &Creation) {
        if let Some(record) = self
            .records
            .get_mut(&creation.node.name)
            .filter(|record| record.is_of(&creation.node))
            && let Some(decision) = record.decisions.get_mut(&creation.destination)
        {
            *decision = Decision::Keep;
        }
    }

    /// Returns `true` if this Pod CIDR of the Node was not reported yet for this reason, and records the report.
    pub(super) fn record_if_new(
        &mut self,
        node: &Node,
        destination: &Destination,
        refusal: Option<&CidrRefusal>,
    ) -> bool {
        let key = (node.uid.clone(), destination.clone());
        let is_known = self
            .reported
            .get(&key)
            .is_some_and(|known| known.as_ref() == refusal);
        if !is_known {
            self.reported.insert(key, refusal.cloned());
        }
        !is_known
    }

    /// Removes the record of a report that failed.
    pub(super) fn forget_report(&mut self, node: &Node, destination: &Destination) {
        self.reported
            .remove(&(node.uid.clone(), destination.clone()));
    }

    /// Returns the conditions that are to be written now. Forgets the failures of Nodes without a new condition.
    pub(super) fn due_conditions(
        &mut self,
        now: Instant,
        nodes: Vec<Arc<Node>>,
        in_flight: &HashSet<Destination>,
    ) -> Vec<(Arc<Node>, RouteCondition)> {
        let condition = |node: Arc<Node>| {
            self.condition(&node, in_flight)
                .map(|condition| (node, condition))
        };
        let mut wanted: Vec<_> = nodes.into_iter().filter_map(condition).collect();
        let names: HashSet<&str> = wanted.iter().map(|(node, _)| &*node.name).collect();
        self.conditions.retain(|name| names.contains(&**name));
        wanted.retain(|(node, _)| !self.conditions.waits(now, &node.name));
        wanted
    }

    /// Returns the time at which a condition that could not be written is due again.
    pub(super) fn next_condition(&self) -> Option<Instant> {
        self.conditions.next_due()
    }

    /// Returns the new condition of a Node; `None` while one of its destinations is being worked on.
    fn condition(&self, node: &Node, in_flight: &HashSet<Destination>) -> Option<RouteCondition> {
        let record = self
            .records
            .get(&node.name)
            .filter(|record| record.uid == node.uid)?;
        let is_open = |(destination, decision): (&Destination, &Decision)| {
            *decision != Decision::Keep && in_flight.contains(destination)
        };
        if record.decisions.iter().any(is_open) {
            return None;
        }
        let condition = record
            .condition()
            .filter(|condition| !condition.is_shown_by(node))?;
        let is_written =
            self.written.get(&node.uid) == Some(&(node.resource_version.clone(), condition));
        (!is_written).then_some(condition)
    }

    /// Records that the condition was written.
    pub(super) fn condition_written(&mut self, node: &Node, condition: RouteCondition) {
        self.conditions.succeeded(&node.name);
        self.written
            .insert(node.uid.clone(), (node.resource_version.clone(), condition));
    }

    /// Records that the condition could not be written.
    pub(super) fn condition_failed(&mut self, now: Instant, node: &Node) {
        self.conditions.failed(now, node.name.clone());
    }

    /// Forgets Nodes that were deleted.
    pub(super) fn forget_nodes(&mut self, has_uid: impl Fn(&str) -> bool) {
        self.written.retain(|uid, _| has_uid(uid));
        self.reported.retain(|(uid, _), _| has_uid(uid));
    }
}
