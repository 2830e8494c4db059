//! The tagging controller: the instances of Nodes have the tags of `--tags`.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use aws_protocol::Query;
use cloud_provider::{CloudMetrics, Error, Node, Result};
use jiff::Timestamp;
use md5::{Digest, Md5};
use parking_lot::Mutex;
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
    /// Name of the Node.
    node: Box<str>,
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
    /// Instances whose Node was deleted: the tags are removed.
    leaving: HashMap<String, Work>,
    /// Nodes that may be tagged now, and the time of the last addition.
    allowance: Option<(f64, Instant)>,
}

/// Returns the checksum of tags that the Go program writes: MD5 of the sorted `key=value`, with commas.
pub(crate) fn checksum(tags: &BTreeMap<String, String>) -> String {
    let text: Vec<_> = tags.iter().map(|(key, value)| format!("{key}={value}")).collect();
    Md5::digest(text.join(",")).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the pause before a further try.
fn pause(tries: u32) -> Duration {
    FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(tries)).min(LONGEST_PAUSE)
}

impl Tagger {
    pub(crate) fn new(api: Api, tagging: Tagging, cluster: ClusterView, metrics: Arc<dyn CloudMetrics>) -> Self {
        let checksum = checksum(&tagging.tags);
        Self { api, tagging, checksum, cluster, metrics, state: Mutex::default() }
    }

    /// Runs until it is dropped.
    pub(crate) async fn run(&self) {
        loop {
            tokio::time::sleep(INTERVAL).await;
            let Some(nodes) = self.cluster.nodes() else { continue };
            let (tagged, leaving) = self.plan(&nodes);
            for batch in tagged.chunks(BATCH) {
                self.tag(batch, &nodes).await;
            }
            for batch in leaving.chunks(BATCH) {
                self.untag(batch).await;
            }
        }
    }

    /// Compares the Nodes with what was done, and returns the instances to tag and to untag now.
    fn plan(&self, nodes: &[Arc<Node>]) -> (Vec<String>, Vec<String>) {
        let now = Instant::now();
        let mut state = self.state.lock();
        let mut present = HashSet::new();
        for node in nodes {
            // A Node without provider ID gets one soon. Fargate has no instance.
            let Some(id) = node.provider_id().and_then(|id| machine_id(id).ok()).filter(|id| id.starts_with("i-"))
            else {
                continue;
            };
            present.insert(id.to_owned());
            let is_done = node.labels.get(LABEL) == Some(&self.checksum);
            let work = || Work { node: node.name.clone(), tries: 0, due: Some(now) };
            let work = state.work.entry(id.to_owned()).or_insert_with(work);
            if is_done {
                *work = Work { node: node.name.clone(), tries: 0, due: None };
            } else if work.due.is_none() && work.tries == 0 {
                work.due = Some(now);
            }
        }
        let gone: Vec<_> = state.work.keys().filter(|id| !present.contains(*id)).cloned().collect();
        for id in gone {
            if let Some(work) = state.work.remove(&id) {
                state.leaving.insert(id, Work { tries: 0, due: Some(now), ..work });
            }
        }
        state.leaving.retain(|id, _| !present.contains(id));
        let due = |all: &HashMap<String, Work>| -> Vec<String> {
            all.iter().filter(|(_, work)| work.due.is_some_and(|due| due <= now)).map(|(id, _)| id.clone()).collect()
        };
        let (mut tagged, leaving) = (due(&state.work), due(&state.leaving));
        tagged.truncate(self.allowance(&mut state, tagged.len(), now));
        (tagged, leaving)
    }

    /// Returns the number of Nodes that the rate limit allows now, of those that wait.
    fn allowance(&self, state: &mut State, waiting: usize, now: Instant) -> usize {
        let Some((rate, burst)) = self.tagging.limit else { return waiting };
        let (left, since) = state.allowance.unwrap_or((f64::from(burst), now));
        let left = (left + rate * now.duration_since(since).as_secs_f64()).min(f64::from(burst));
        let taken =
            (1..=waiting).take_while(|count| u32::try_from(*count).is_ok_and(|it| f64::from(it) <= left)).count();
        state.allowance = Some((left - u32::try_from(taken).map_or(left, f64::from), now));
        taken
    }

    async fn tag(&self, ids: &[String], nodes: &[Arc<Node>]) {
        let tags = Query::tag_list(self.tagging.tags.iter().map(|(key, value)| (key.clone(), value.clone())));
        let outcomes = self.send("CreateTags", ids, &tags).await;
        for (id, outcome) in outcomes {
            let name = self.name_of(&id);
            let Some(node) = nodes.iter().find(|node| Some(&node.name) == name.as_ref()) else { continue };
            let outcome = match outcome {
                Ok(()) => self.label(node).await,
                error => error,
            };
            match outcome {
                Ok(()) => {
                    self.end(&id, false);
                    let age = node.created.map(|created| Timestamp::now().duration_since(created).unsigned_abs());
                    age.into_iter().for_each(|age| tagged_after(&*self.metrics, age));
                }
                // Machines of simulators have such IDs.
                Err(error) if error.code() == "InvalidID" => self.end(&id, true),
                Err(error) if error.is_not_found() && !is_young(node, self.api.config.grace, Timestamp::now()) => {
                    self.end(&id, true);
                }
                Err(error) => self.fail(&id, &error, false),
            }
        }
    }

    async fn untag(&self, ids: &[String]) {
        let keys: Vec<_> = self.tagging.tags.keys().map(|key| json!({"Key": key})).collect();
        for (id, outcome) in self.send("DeleteTags", ids, &json!(keys)).await {
            match outcome {
                Err(error) if !error.is_not_found() => self.fail(&id, &error, true),
                _ => {
                    self.state.lock().leaving.remove(&id);
                }
            }
        }
    }

    /// Sends one request for all instances, or one for each if that is refused.
    async fn send(&self, action: &'static str, ids: &[String], tags: &serde_json::Value) -> Vec<(String, Result<()>)> {
        let request = |ids: &[String]| {
            let query = Query::new(action).set("ResourceId", ids).set("Tag", tags).repeatable();
            async { self.api.aws.ec2.change::<IgnoredAny>(query).await.map(drop) }
        };
        match request(ids).await {
            Err(error) if ids.len() > 1 && !error.is_unanswered() && !error.is_rate_limited() => {
                let mut outcomes = Vec::new();
                for id in ids {
                    outcomes.push((id.clone(), request(std::slice::from_ref(id)).await));
                }
                outcomes
            }
            outcome => ids.iter().map(|id| (id.clone(), outcome.clone())).collect(),
        }
    }

    /// Notes on the Node that its instance has the tags.
    async fn label(&self, node: &Node) -> Result<()> {
        let patch = json!({"metadata": {"uid": node.uid, "labels": {LABEL: self.checksum}}});
        // A Node that has changed meanwhile, or does not exist any more, is looked at again in the next round.
        self.cluster.patch_node(&node.name, &patch).await.map(drop)
    }

    fn name_of(&self, id: &str) -> Option<Box<str>> {
        let state = self.state.lock();
        state.work.get(id).map(|work| work.node.clone())
    }

    /// Ends the work on an instance; `is_skipped`: without tags, until the Node is created again. Otherwise the cache shows the
    /// label soon.
    fn end(&self, id: &str, is_skipped: bool) {
        let mut state = self.state.lock();
        if let Some(work) = state.work.get_mut(id) {
            let shown = Instant::now() + SHOWN;
            (work.due, work.tries) = if is_skipped { (None, RETRIES + 1) } else { (Some(shown), 0) };
        }
    }

    fn fail(&self, id: &str, error: &Error, is_leaving: bool) {
        let mut state = self.state.lock();
        let all = if is_leaving { &mut state.leaving } else { &mut state.work };
        let Some(work) = all.get_mut(id) else { return };
        work.tries += 1;
        let is_last = work.tries > RETRIES;
        work.due = (!is_last).then(|| Instant::now() + pause(work.tries));
        let node = work.node.clone();
        if is_last && is_leaving {
            all.remove(id);
        }
        tracing::warn!(id, node = &*node, %error, is_last, "tags of instance not changed");
        tagging_failed(&*self.metrics, id, is_last);
    }
}
