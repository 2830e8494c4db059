//! The tagging controller: the instances of Nodes have the tags of `--tags`.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use aws_protocol::Query;
use cloud_provider::{CloudMetrics, Error, Node, Result};
use jiff::Timestamp;
use md5::{Digest, Md5};
use parking_lot::{Mutex, MutexGuard};
use provider_kit::cluster::ClusterView;
use serde::de::IgnoredAny;
use serde_json::json;
use tokio::time::Instant;

use crate::api::Api;
use crate::config::Tagging;
use crate::instances::machine_id;
use crate::metrics::{tagged_after, tagging_failed};
use crate::nodes::is_young;

/// Label of Nodes whose instance has the tags: a checksum of them.
pub(crate) const LABEL: &str = "k8s.io/cloud-provider-aws";
const INTERVAL: Duration = Duration::from_secs(1);
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// Time until a label that was written must be in the cache.
const SHOWN: Duration = Duration::from_secs(60);
/// Tries of a Node after the first one.
const RETRIES: u32 = 9;
/// Instances of one request.
const BATCH: usize = 50;

/// Work on one instance.
#[derive(Clone, Debug)]
struct Work {
    node: Arc<Node>,
    /// If set, the Node was deleted: the tags go.
    is_leaving: bool,
    tries: u32,
    /// Time of the next try; `None`: nothing is left to do.
    due: Option<Instant>,
}

/// Controller that tags the instances of Nodes.
pub(crate) struct Tagger {
    api: Api,
    tagging: Tagging,
    checksum: String,
    cluster: ClusterView,
    metrics: Arc<dyn CloudMetrics>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Work by instance ID.
    work: HashMap<String, Work>,
    /// Nodes that may be tagged now, and the time of the last addition.
    allowance: Option<(f64, Instant)>,
}

type Batch = Vec<(String, Arc<Node>)>;

/// Returns the checksum of tags that the Go program writes: MD5 of the sorted `key=value`, with commas.
pub(crate) fn checksum(tags: &BTreeMap<String, String>) -> String {
    let text: Vec<_> = tags
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    Md5::digest(text.join(","))
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Returns the pause before a further try.
fn pause(tries: u32) -> Duration {
    FIRST_PAUSE
        .saturating_mul(2_u32.saturating_pow(tries))
        .min(LONGEST_PAUSE)
}

impl Tagger {
    pub(crate) fn new(
        api: Api,
        tagging: Tagging,
        cluster: ClusterView,
        metrics: Arc<dyn CloudMetrics>,
    ) -> Self {
        let checksum = checksum(&tagging.tags);
        Self {
            api,
            tagging,
            checksum,
            cluster,
            metrics,
            state: Mutex::default(),
        }
    }

    /// Runs until it is dropped.
    pub(crate) async fn run(&self) {
        loop {
            tokio::time::sleep(INTERVAL).await;
            let Some(nodes) = self.cluster.nodes() else {
                continue;
            };
            let (tagged, leaving) = self.plan(nodes);
            for batch in tagged.chunks(BATCH) {
                self.tag(batch).await;
            }
            for batch in leaving.chunks(BATCH) {
                self.untag(batch).await;
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Compares the Nodes with what was done, and returns the instances to tag and to untag now.
    fn plan(&self, nodes: Vec<Arc<Node>>) -> (Batch, Batch) {
        let now = Instant::now();
        let mut state = self.state();
        let mut missing: HashSet<_> = state.work.keys().cloned().collect();
        for node in nodes {
            // A Node without provider ID gets one soon. Fargate has no instance.
            let id = node
                .provider_id()
                .and_then(|id| machine_id(id).ok())
                .filter(|id| id.starts_with("i-"));
            let Some(id) = id.map(str::to_owned) else {
                continue;
            };
            missing.remove(&id);
            let is_done = node.labels.get(LABEL) == Some(&self.checksum);
            let work = state.work.get(&id).filter(|work| !work.is_leaving);
            let (tries, due) = work.map_or((0, Some(now)), |work| (work.tries, work.due));
            let (tries, due) = match tries {
                _ if is_done => (0, None),
                0 => (0, due.or(Some(now))),
                _ => (tries, due),
            };
            state.work.insert(
                id,
                Work {
                    node,
                    is_leaving: false,
                    tries,
                    due,
                },
            );
        }
        for (_, work) in state
            .work
            .iter_mut()
            .filter(|(id, work)| missing.contains(*id) && !work.is_leaving)
        {
            (work.is_leaving, work.tries, work.due) = (true, 0, Some(now));
        }
        let due = state
            .work
            .iter()
            .filter(|(_, work)| work.due.is_some_and(|due| due <= now));
        let (leaving, tagged): (Vec<_>, Vec<_>) = due.partition(|(_, work)| work.is_leaving);
        let batch = |all: Vec<(&String, &Work)>| -> Batch {
            all.into_iter()
                .map(|(id, work)| (id.clone(), Arc::clone(&work.node)))
                .collect()
        };
        let mut tagged = batch(tagged);
        let leaving = batch(leaving);
        tagged.truncate(self.allowance(&mut state, tagged.len(), now));
        (tagged, leaving)
    }

    /// Returns the number of Nodes that the rate limit allows now, of those that wait.
    fn allowance(&self, state: &mut State, waiting: usize, now: Instant) -> usize {
        let Some((rate, burst)) = self.tagging.limit else {
            return waiting;
        };
        let (left, since) = state.allowance.unwrap_or((f64::from(burst), now));
        let left = (left + rate * now.duration_since(since).as_secs_f64()).min(f64::from(burst));
        let taken = (1..=waiting)
            .take_while(|count| u32::try_from(*count).is_ok_and(|number| f64::from(number) <= left))
            .count();
        state.allowance = Some((left - u32::try_from(taken).map_or(left, f64::from), now));
        taken
    }

    async fn tag(&self, batch: &[(String, Arc<Node>)]) {
        let tags = Query::tag_list(
            self.tagging
                .tags
                .iter()
                .map(|(key, value)| (key.clone(), value.clone())),
        );
        for ((id, node), outcome) in self.send("CreateTags", batch, &tags).await {
            let outcome = match outcome {
                Ok(()) => self.label(node).await,
                error => error,
            };
            let is_old = !is_young(node, self.api.config.grace, Timestamp::now());
            match outcome {
                Ok(()) => {
                    // Soon the cache shows the label.
                    self.end(id, 0, Some(Instant::now() + SHOWN));
                    let age = node
                        .created
                        .map(|created| Timestamp::now().duration_since(created).unsigned_abs());
                    age.into_iter()
                        .for_each(|age| tagged_after(&*self.metrics, age));
                }
                // Machines of simulators have such IDs. The instance stays without tags until the Node is created again.
                Err(error) if error.code() == "InvalidID" || error.is_not_found() && is_old => {
                    self.end(id, RETRIES + 1, None);
                }
                Err(error) => self.fail(id, node, &error),
            }
        }
    }

    async fn untag(&self, batch: &[(String, Arc<Node>)]) {
        let keys: Vec<_> = self
            .tagging
            .tags
            .keys()
            .map(|key| json!({"Key": key}))
            .collect();
        for ((id, node), outcome) in self.send("DeleteTags", batch, &json!(keys)).await {
            match outcome {
                Err(error) if !error.is_not_found() => self.fail(id, node, &error),
                _ => drop(self.state().work.remove(id)),
            }
        }
    }

    /// Sends one request for all instances, or one for each if that is refused.
    async fn send<'a>(
        &self,
        action: &'static str,
        batch: &'a [(String, Arc<Node>)],
        tags: &serde_json::Value,
    ) -> Vec<(&'a (String, Arc<Node>), Result<()>)> {
        match self.request(action, batch, tags).await {
            Err(error) if batch.len() > 1 && !error.is_unanswered() && !error.is_rate_limited() => {
                let mut outcomes = Vec::new();
                for pair in batch {
                    outcomes.push((
                        pair,
                        self.request(action, std::slice::from_ref(pair), tags).await,
                    ));
                }
                outcomes
            }
            outcome => batch.iter().map(|batch| (batch, outcome.clone())).collect(),
        }
    }

    async fn request(
        &self,
        action: &'static str,
        batch: &[(String, Arc<Node>)],
        tags: &serde_json::Value,
    ) -> Result<()> {
        let ids: Vec<_> = batch.iter().map(|(id, _)| id).collect();
        let query = Query::new(action)
            .set("ResourceId", ids)
            .set("Tag", tags)
            .repeatable();
        self.api.aws.ec2.change::<IgnoredAny>(query).await.map(drop)
    }

    /// Notes on the Node that its instance has the tags.
    async fn label(&self, node: &Node) -> Result<()> {
        let patch = json!({"metadata": {"uid": node.uid, "labels": {LABEL: self.checksum}}});
        // A Node that has changed meanwhile, or does not exist any more, is looked at again in the next round.
        self.cluster.patch_node(&node.name, &patch).await.map(drop)
    }

    fn end(&self, id: &str, tries: u32, due: Option<Instant>) {
        if let Some(work) = self.state().work.get_mut(id) {
            (work.tries, work.due) = (tries, due);
        }
    }

    fn fail(&self, id: &str, node: &Node, error: &Error) {
        let mut state = self.state();
        let Some(work) = state.work.get_mut(id) else {
            return;
        };
        work.tries += 1;
        let is_last = work.tries > RETRIES;
        work.due = (!is_last).then(|| Instant::now() + pause(work.tries));
        if is_last && work.is_leaving {
            state.work.remove(id);
        }
        drop(state);
        tracing::warn!(id, node = &*node.name, %error, is_last, "tags of instance not changed");
        tagging_failed(&*self.metrics, id, is_last);
    }
}
