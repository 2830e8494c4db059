//! Event correlation: decides which events are merged, counted or dropped (RT-26). Pure: the time is passed in.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::num::NonZeroUsize;
use std::time::Duration;

use cloud_provider::without_request_ids;
use jiff::Timestamp;
use lru::LruCache;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::record::RecordedEvent;
use crate::limiter::TokenBucket;

/// Maximum number of groups that are remembered in each table.
const GROUPS: NonZeroUsize = NonZeroUsize::new(4096).unwrap();
/// A group ends if nothing is added for that long.
const GROUP_LIFE: Duration = Duration::from_secs(600);
/// Number of different messages of a group from which on its events are merged.
const MERGE_FROM: usize = 10;
/// Prefix of a merged event's message.
const MERGED: &str = "(combined from similar events): ";
/// Events about one object, of one type, that may come at once; then one per [`SPAM_INTERVAL`].
const SPAM_BURST: u32 = 25;
const SPAM_INTERVAL: Duration = Duration::from_secs(300);

/// Decision of the correlator about an event.
#[derive(Clone, Debug, PartialEq)]
pub enum CorrelationOutcome {
    /// A new Event object: core/v1, complete.
    Create {
        /// Namespace of the Event.
        namespace: String,
        /// The complete Event object.
        event: Value,
    },
    /// The event is a repetition: the existing Event object is patched.
    Patch {
        /// Namespace of the Event.
        namespace: String,
        /// Name of the Event.
        name: String,
        /// A strategic-merge patch: count, last time, and the message if it is a merged one or names a request.
        patch: Value,
        /// The whole object, in case the existing one no longer exists: the API server keeps Events for an hour by
        /// default.
        event: Value,
    },
    /// The event is dropped, because too many concern this object.
    Drop,
}

/// Decides about events one after the other. Keeps hashes, not texts: some hundred bytes for each remembered event.
#[derive(Debug)]
pub struct Correlator {
    groups: LruCache<u64, Group>,
    seen: LruCache<u64, Seen>,
    spam: LruCache<u64, TokenBucket>,
}

/// Events with equal (source, object, type, reason).
#[derive(Debug)]
struct Group {
    last: Instant,
    /// The first message, and those that were different, at most [`MERGE_FROM`] − 1 in all. Most groups have one.
    message: Option<u64>,
    others: Vec<u64>,
}

/// An Event object that was created before.
#[derive(Debug)]
struct Seen {
    count: u32,
    first: Timestamp,
}

impl Default for Correlator {
    fn default() -> Self {
        Self::new()
    }
}

impl Correlator {
    /// Creates a correlator without any remembered event.
    #[must_use]
    pub fn new() -> Self {
        Self {
            groups: LruCache::new(GROUPS),
            seen: LruCache::new(GROUPS),
            spam: LruCache::new(GROUPS),
        }
    }

    /// Decides about an event that was recorded at `now` (monotonic time; the time of day is in the event).
    pub fn correlate(&mut self, event: &RecordedEvent, now: Instant) -> CorrelationOutcome {
        let object = ObjectKey::of(event);
        let (merged, seen_key) = self.merge(event, &object, now);
        let message = if merged {
            format!("{MERGED}{}", event.message)
        } else {
            event.message.clone()
        };

        let seen = self.seen.get_or_insert_mut(seen_key, || Seen {
            count: 0,
            first: event.time,
        });
        seen.count = seen.count.saturating_add(1);
        // Dropped events are counted too, so the next event that is sent has the true count.
        let bucket = self
            .spam
            .get_or_insert_mut(key(&(&object, event.type_)), || {
                TokenBucket::new(SPAM_INTERVAL, SPAM_BURST, None)
            });
        if !bucket.try_take(now) {
            return CorrelationOutcome::Drop;
        }

        let namespace = event.regarding.event_namespace().to_owned();
        let name = event_name(&event.regarding.name, seen.first);
        let whole = api_event(event, &name, seen, &message);
        if seen.count == 1 {
            return CorrelationOutcome::Create {
                namespace,
                event: whole,
            };
        }
        let mut patch = json!({"count": seen.count, "lastTimestamp": api_time(event.time)});
        // The ID of the last request is the one that helps: the cloud keeps its logs for a limited time.
        if merged || without_request_ids(&message) != message {
            patch["message"] = message.into();
        }
        CorrelationOutcome::Patch {
            namespace,
            name,
            patch,
            event: whole,
        }
    }

    /// Returns whether the event is replaced by the merged one of its group, and the key under which it is counted.
    fn merge(
        &mut self,
        event: &RecordedEvent,
        object: &ObjectKey<'_>,
        now: Instant,
    ) -> (bool, u64) {
        let of_group = (object, event.type_, &event.reason);
        // Attempts that fail alike differ in the IDs of their requests only, and are one Event with a count.
        let text = without_request_ids(&event.message);
        let group_key = key(&of_group);
        let message = key(&text);
        let fresh = || Group {
            last: now,
            message: None,
            others: Vec::new(),
        };
        let group = self.groups.get_or_insert_mut(group_key, fresh);
        if now.saturating_duration_since(group.last) > GROUP_LIFE {
            *group = fresh();
        }
        group.last = now;
        if *group.message.get_or_insert(message) != message && !group.others.contains(&message) {
            if group.others.len() + 2 >= MERGE_FROM {
                return (true, group_key);
            }
            group.others.push(message);
        }
        (false, key(&(of_group, &text)))
    }
}

/// Fields that distinguish sources and objects. The resource version is not among them.
#[derive(Hash)]
struct ObjectKey<'a> {
    component: &'a str,
    api_version: &'a str,
    kind: &'a str,
    namespace: &'a str,
    name: &'a str,
    uid: &'a str,
}

impl<'a> ObjectKey<'a> {
    fn of(
        RecordedEvent {
            component,
            regarding: r,
            ..
        }: &'a RecordedEvent,
    ) -> Self {
        let api_version = &r.api_version;
        let kind = &r.kind;
        let namespace = &r.namespace;
        let name = &r.name;
        let uid = &r.uid;
        Self {
            component,
            api_version,
            kind,
            namespace,
            name,
            uid,
        }
    }
}

/// Returns a hash of 64 bits; a collision among a few thousand texts is improbable.
fn key(of: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

/// Returns the Event's name as client-go does: `<object>.<nanoseconds since 1970 in hexadecimal>` of its first time.
fn event_name(object: &str, time: Timestamp) -> String {
    format!("{object}.{:x}", time.as_nanosecond())
}

/// Times in Events have whole seconds.
fn api_time(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn api_event(event: &RecordedEvent, name: &str, seen: &Seen, message: &str) -> Value {
    let object = &event.regarding;
    let mut involved =
        json!({"kind": object.kind, "apiVersion": object.api_version, "name": object.name});
    let optional = [
        ("namespace", &object.namespace),
        ("uid", &object.uid),
        ("resourceVersion", &object.resource_version),
    ];
    for (field, value) in optional.into_iter().filter(|(_, value)| !value.is_empty()) {
        involved[field] = value.as_str().into();
    }
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": object.event_namespace()},
        "involvedObject": involved,
        "reason": event.reason,
        "message": message,
        "type": event.type_.as_str(),
        "source": {"component": event.component},
        "reportingComponent": event.component,
        "reportingInstance": "",
        "firstTimestamp": api_time(seen.first),
        "lastTimestamp": api_time(event.time),
        "count": seen.count,
    })
}
