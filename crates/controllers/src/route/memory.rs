//! What one pass of the route controller leaves for the next. All of it can be lost: routes are found again by listing
//! (INV-2).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{Error, Node};
use tokio::time::Instant;

use super::Destination;
use super::backoff::Backoff;
use super::condition::Verdict;
use super::flapping::Flapping;
use super::metrics::Standing;
use super::plan::{Cause, Creation, Decision, Plan, Record, inputs_of};
use super::work::Item;

/// Failed routes are tried again after that long, then after twice as long, and so on (P-2).
const ROUTE_BACKOFF: Duration = Duration::from_secs(10);
/// As [`ROUTE_BACKOFF`], for conditions that cannot be written.
const CONDITION_BACKOFF: Duration = Duration::from_secs(5);
/// No back-off is longer.
const LONGEST_BACKOFF: Duration = Duration::from_secs(300);

/// A destination together with what is to become of it: when that changes, earlier failures do not count.
pub(super) type Key = (Destination, u64);

/// See the module.
pub(super) struct Memory {
    /// By Node name, as of the last pass and what was done since.
    records: BTreeMap<Box<str>, Record>,
    routes: Backoff<Key>,
    lists: Backoff<()>,
    /// By Node name.
    conditions: Backoff<Box<str>>,
    /// By Node UID: the version of the Node at which the condition was written. Until the cache shows another one, it is
    /// not written again.
    written: HashMap<Box<str>, (Box<str>, Verdict)>,
    flapping: Flapping<(Box<str>, Destination)>,
    /// Ranges outside the cluster's, by Node UID, that were told of.
    outside: HashSet<(Box<str>, Destination)>,
    paused_until: Option<Instant>,
    look_again: Option<Instant>,
    /// Routes in the last list that are not ours to change.
    foreign: usize,
    /// What is being done about these is not what is wanted any more.
    superseded: HashSet<Destination>,
}

/// A route of ours that somebody else changed.
pub(super) struct Contested {
    pub(super) creation: Creation,
    /// It is a war: how long to leave the route alone.
    pub(super) rest: Option<Duration>,
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            records: BTreeMap::new(),
            routes: Backoff::new(ROUTE_BACKOFF, LONGEST_BACKOFF),
            lists: Backoff::new(ROUTE_BACKOFF, LONGEST_BACKOFF),
            conditions: Backoff::new(CONDITION_BACKOFF, LONGEST_BACKOFF),
            written: HashMap::new(),
            flapping: Flapping::default(),
            outside: HashSet::new(),
            paused_until: None,
            look_again: None,
            foreign: 0,
            superseded: HashSet::new(),
        }
    }
}

impl Memory {
    /// A pass has planned; `ended`: what was still worked on when it asked for the list, which is taken out of the plan.
    /// The answer is what somebody else changed since the last one.
    pub(super) fn planned(&mut self, now: Instant, plan: &mut Plan, ended: &HashSet<Destination>) -> Vec<Contested> {
        self.lists.succeeded(&());
        self.look_again = None;
        self.flapping.forget_old(now);
        if self.set_aside(plan, ended) {
            self.look_again(now);
        }
        // A route that leads nowhere is the work of nobody: its machine went.
        let blackholes: HashSet<&Destination> = plan
            .deletes
            .iter()
            .filter(|deletion| deletion.cause == Cause::Blackhole)
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
                Contested { rest: self.flapping.observe(now, key), creation }
            })
            .collect()
    }

    /// The list may show what was worked on meanwhile as it is or as it was: of that nothing new is concluded. Whether it
    /// is to be looked at again, as everything is but what was made well.
    fn set_aside(&self, plan: &mut Plan, ended: &HashSet<Destination>) -> bool {
        let creates = plan.creates.iter().map(|creation| &creation.destination);
        let changes = plan.deletes.iter().map(|deletion| &deletion.destination).chain(creates);
        let mut open: HashSet<Destination> = changes.filter(|it| ended.contains(it)).cloned().collect();
        plan.deletes.retain(|deletion| !ended.contains(&deletion.destination));
        plan.creates.retain(|creation| !ended.contains(&creation.destination));
        for (name, record) in &mut plan.records {
            let of_same = |old: &&Record| (&old.uid, old.inputs) == (&record.uid, record.inputs);
            let old = self.records.get(name).filter(of_same);
            for (destination, decision) in record.decisions.iter_mut().filter(|(it, _)| ended.contains(it)) {
                let known = old.and_then(|old| old.decisions.get(destination)).copied().unwrap_or(Decision::Wait);
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

    /// The cloud is to be looked at again then, though nothing else changed.
    pub(super) fn look_again(&mut self, at: Instant) {
        self.look_again = Some(self.look_again.map_or(at, |earlier| earlier.min(at)));
    }

    /// A pass leaves alone what is under way. Whatever is not what it wants is looked at again as soon as it has ended:
    /// the Nodes' change is used up by then.
    pub(super) fn supersede(&mut self, items: &[Item], in_flight: &HashMap<Destination, Item>) {
        let wanted: HashMap<&Destination, &Item> = items.iter().map(|item| (&item.destination, item)).collect();
        let is_old = |(destination, item): &(&Destination, &Item)| !self.still_stands(item, wanted.get(destination));
        self.superseded = in_flight.iter().filter(is_old).map(|(destination, _)| destination.clone()).collect();
    }

    /// Whether what is under way leads to what is wanted; `wanted`: what the list that was just read lacks of it.
    fn still_stands(&self, under_way: &Item, wanted: Option<&&Item>) -> bool {
        let is_right = |creation: &Creation| {
            let record = self.records.get(&creation.node.name).filter(|record| record.is_of(&creation.node));
            record.is_some_and(|record| record.decisions.contains_key(&creation.destination))
        };
        let is_made = |wanted: &Creation| {
            under_way.creates.iter().any(|creation| inputs_of(&creation.node) == inputs_of(&wanted.node))
        };
        under_way.creates.iter().all(is_right)
            && wanted.into_iter().flat_map(|item| &item.creates).all(is_made)
            && wanted.into_iter().flat_map(|item| item.deleted()).eq(under_way.deleted())
    }

    /// What was under way has ended, well or not.
    pub(super) fn ended(&mut self, now: Instant, destination: &Destination) {
        if !self.superseded.remove(destination) {
            return;
        }
        self.look_again(now);
        // Until then nobody knows how it stands, and nothing is said of it.
        for decision in self.records.values_mut().filter_map(|record| record.decisions.get_mut(destination)) {
            *decision = Decision::Wait;
        }
    }

    /// So many routes of a list are not ours to change.
    pub(super) fn listed_foreign(&mut self, routes: usize) {
        self.foreign = routes;
    }

    /// How many routes there are, and how many there should be, as far as is known.
    pub(super) fn standing(&self) -> Standing {
        let decisions = || self.records.values().flat_map(|record| record.decisions.values());
        Standing {
            desired: decisions().count(),
            present: decisions().filter(|decision| **decision == Decision::Keep).count(),
            foreign: self.foreign,
            failed: self.routes.len(),
        }
    }

    /// The list failed.
    pub(super) fn list_failed(&mut self, now: Instant) {
        self.lists.failed(now, ());
    }

    /// When something that failed is due again. While the list fails only the list counts: without it nothing can be done.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.lists.next_due().or_else(|| [self.routes.next_due(), self.look_again].into_iter().flatten().min())
    }

    /// The cloud throttles until then.
    pub(super) fn paused_until(&self, now: Instant) -> Option<Instant> {
        self.paused_until.filter(|until| now < *until)
    }

    /// Takes a pause if this error asks for one of everybody.
    pub(super) fn pause_for(&mut self, now: Instant, error: &Error) {
        if let (true, Some(pause)) = (error.chain().any(Error::is_rate_limited), error.retry_after()) {
            self.paused_until = self.paused_until.max(now.checked_add(pause));
        }
    }

    /// Keeps only those back-offs that belong to these items, or to destinations of which nothing is concluded yet.
    pub(super) fn retain(&mut self, items: &[Item], is_open: impl Fn(&Destination) -> bool) {
        let wanted: HashSet<Key> = items.iter().map(Item::key).collect();
        self.routes.retain(|key| wanted.contains(key) || is_open(&key.0));
    }

    /// Whether a destination may be worked on now; if so, that begins.
    pub(super) fn start(&mut self, now: Instant, key: &Key) -> bool {
        let may = !self.routes.waits(now, key);
        if may {
            self.routes.started(key);
        }
        may
    }

    /// A destination is left alone until then.
    pub(super) fn hold(&mut self, until: Instant, key: Key) {
        self.routes.hold(until, key);
    }

    /// A destination failed.
    pub(super) fn failed(&mut self, now: Instant, key: Key, error: &Error) {
        self.pause_for(now, error);
        match error.retry_after().and_then(|delay| now.checked_add(delay)) {
            Some(at) => self.routes.hold(at, key),
            None => self.routes.failed(now, key),
        }
    }

    /// A destination is as it should be.
    pub(super) fn succeeded(&mut self, key: &Key) {
        self.routes.succeeded(key);
    }

    /// A route was created (ROUTE-32). Of a Node that has changed since it says nothing.
    pub(super) fn created(&mut self, creation: &Creation) {
        if let Some(record) = self.records.get_mut(&creation.node.name).filter(|record| record.is_of(&creation.node))
            && let Some(decision) = record.decisions.get_mut(&creation.destination)
        {
            *decision = Decision::Keep;
        }
    }

    /// Whether it was not told yet that this range of the Node lies outside the cluster's; then it counts as told.
    pub(super) fn is_news(&mut self, node: &Node, destination: &Destination) -> bool {
        self.outside.insert((node.uid.clone(), destination.clone()))
    }

    /// It could not be told after all.
    pub(super) fn untell(&mut self, node: &Node, destination: &Destination) {
        self.outside.remove(&(node.uid.clone(), destination.clone()));
    }

    /// The conditions that are to be written now. Who has nothing to be told is forgotten, and what failed of it.
    pub(super) fn due_conditions(
        &mut self,
        now: Instant,
        nodes: Vec<Arc<Node>>,
        in_flight: &HashSet<Destination>,
    ) -> Vec<(Arc<Node>, Verdict)> {
        let verdict = |node: Arc<Node>| self.verdict(&node, in_flight).map(|verdict| (node, verdict));
        let mut wanted: Vec<_> = nodes.into_iter().filter_map(verdict).collect();
        let names: HashSet<&str> = wanted.iter().map(|(node, _)| &*node.name).collect();
        self.conditions.retain(|name| names.contains(&**name));
        wanted.retain(|(node, _)| !self.conditions.waits(now, &node.name));
        wanted
    }

    /// When a condition that could not be written is due again.
    pub(super) fn next_condition(&self) -> Option<Instant> {
        self.conditions.next_due()
    }

    /// What is to be written into a Node's condition. Nothing as long as one of its destinations is being worked on.
    fn verdict(&self, node: &Node, in_flight: &HashSet<Destination>) -> Option<Verdict> {
        let record = self.records.get(&node.name).filter(|record| record.uid == node.uid)?;
        let is_open = |(destination, decision): (&Destination, &Decision)| {
            *decision != Decision::Keep && in_flight.contains(destination)
        };
        if record.decisions.iter().any(is_open) {
            return None;
        }
        let verdict = record.verdict().filter(|verdict| !verdict.is_said_by(node))?;
        let is_written = self.written.get(&node.uid) == Some(&(node.resource_version.clone(), verdict));
        (!is_written).then_some(verdict)
    }

    /// The condition was written.
    pub(super) fn condition_written(&mut self, node: &Node, verdict: Verdict) {
        self.conditions.succeeded(&node.name);
        self.written.insert(node.uid.clone(), (node.resource_version.clone(), verdict));
    }

    /// The condition could not be written.
    pub(super) fn condition_failed(&mut self, now: Instant, node: &Node) {
        self.conditions.failed(now, node.name.clone());
    }

    /// Forgets Nodes that are gone.
    pub(super) fn forget_nodes(&mut self, has_uid: impl Fn(&str) -> bool) {
        self.written.retain(|uid, _| has_uid(uid));
        self.outside.retain(|(uid, _)| has_uid(uid));
    }
}
