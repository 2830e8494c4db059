//! Watching: initial events, changes, bookmarks, 410.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::{BufMut as _, Bytes, BytesMut};
use futures::Stream;
use http::{HeaderValue, Response, header};
use serde_json::{Value, json};
use tokio::sync::watch::Receiver;
use tokio::time::Instant;

use super::Call;
use super::list::{check_options, revision, selector};
use crate::negotiate::{Form, View, to_bytes};
use crate::requests::LoggedRequest;
use crate::schema::{Schema, decode};
use crate::selectors::Selector;
use crate::server::Inner;
use crate::service::ConnectionCut;
use crate::status::ApiError;
use crate::store::{Change, Compacted, Event, Stored};

/// Minimum duration of a watch without `timeoutSeconds`.
const MIN_TIMEOUT: Duration = Duration::from_secs(1800);

/// Maximum number of changes that are buffered for a slow reader.
const BATCH: usize = 64;

/// Time before the end of a watch at which it receives its last bookmark.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);

pub(super) async fn watch(
    call: &Call<'_>,
    entry: &LoggedRequest,
) -> Result<Response<Body>, ApiError> {
    let options = &call.request.options;
    let selector = selector(call)?;
    check_options(call, true)?;
    let timeout = match options.number("timeoutSeconds")? {
        Some(seconds) if seconds > 0 => Duration::from_secs(seconds.unsigned_abs()),
        _ => MIN_TIMEOUT + Duration::from_secs(fastrand::u64(0..1800)),
    };
    let from = revision(call)?.filter(|revision| *revision > 0);
    let wants_initial = match options.get("sendInitialEvents") {
        Some(flag) => flag != "false",
        None => from.is_none(),
    };
    let mut watcher = Watcher {
        view: call.view(),
        selector,
        storage: call.storage(),
        changed: call.inner.store.subscribe(call.storage()),
        faults: call.inner.faults.changes(),
        entry: entry.clone(),
        bookmarks: options.flag("allowWatchBookmarks"),
        cursor: from.unwrap_or(0),
        ends: Instant::now() + timeout,
        next_bookmark: next_bookmark(call.inner, Instant::now() + timeout),
        first_row: true,
        is_new: true,
        pending: BytesMut::new(),
        phase: Phase::Running,
        inner: call.inner.clone(),
    };
    watcher.start(
        wants_initial,
        options.flag("sendInitialEvents") && wants_initial,
    );
    let mut response = Response::new(Body::from_stream(watcher.into_stream()));
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    response.headers_mut().insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("no-cache, private"),
    );
    Ok(response)
}

/// Returns the time of the next bookmark: after the interval, and once more shortly before a watch ends, so that the
/// next watch continues from there.
fn next_bookmark(inner: &Inner, ends: Instant) -> Instant {
    let regular = Instant::now() + inner.options.bookmark_interval;
    match ends.checked_sub(LAST_BOOKMARK) {
        Some(last) if last > Instant::now() => regular.min(last),
        _ => regular,
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Phase {
    Running,
    /// The watch ends after the pending events.
    Ending,
    Done,
}

/// A watch in progress.
struct Watcher {
    inner: Arc<Inner>,
    view: View,
    selector: Selector,
    storage: &'static str,
    changed: Receiver<u64>,
    faults: Receiver<u64>,
    entry: LoggedRequest,
    bookmarks: bool,
    /// Changes up to this revision were sent.
    cursor: u64,
    ends: Instant,
    next_bookmark: Instant,
    first_row: bool,
    /// If set, no event has been read from the history yet.
    is_new: bool,
    pending: BytesMut,
    phase: Phase,
}

/// Reason why the wait ended.
enum Woken {
    Changed,
    Faults,
    Bookmark,
    Ended,
}

impl Watcher {
    /// Queues the objects that exist, and what marks their end.
    fn start(&mut self, initial: bool, mark_end: bool) {
        if !initial {
            // Events that were read here are not lost by a compaction.
            self.collect();
            return;
        }
        let snapshot = self.inner.store.snapshot(self.storage);
        for stored in &snapshot.objects {
            if self.selector.matches(stored) {
                self.queue("ADDED", stored);
            }
        }
        self.cursor = snapshot.revision;
        if mark_end && self.bookmarks {
            self.queue_bookmark(Some(json!({"k8s.io/initial-events-end": "true"})));
        }
    }

    fn into_stream(self) -> impl Stream<Item = Result<Bytes, ConnectionCut>> {
        futures::stream::unfold(self, |mut watcher| async move {
            let item = watcher.next().await?;
            Some((item, watcher))
        })
    }

    async fn next(&mut self) -> Option<Result<Bytes, ConnectionCut>> {
        loop {
            if !self.pending.is_empty() {
                return Some(Ok(self.pending.split().freeze()));
            }
            match self.phase {
                Phase::Done => return None,
                Phase::Ending => {
                    self.phase = Phase::Done;
                    return None;
                }
                Phase::Running => {}
            }
            // Marked as seen before reading, so that no change falls between.
            self.changed.borrow_and_update();
            while self.collect() && self.pending.is_empty() {}
            if !self.pending.is_empty() || self.phase != Phase::Running {
                continue;
            }
            if self.inner.faults.drops(&self.entry) {
                self.phase = Phase::Done;
                return Some(Err(ConnectionCut));
            }
            match self.wait().await {
                Woken::Changed => {}
                Woken::Faults => {
                    if *self.faults.borrow_and_update() == 0 {
                        self.phase = Phase::Done;
                        return Some(Err(ConnectionCut));
                    }
                }
                Woken::Bookmark => {
                    self.next_bookmark = next_bookmark(&self.inner, self.ends);
                    // A bookmark stands for all events before it.
                    while self.collect() {}
                    if self.phase == Phase::Running {
                        self.queue_bookmark(None);
                    }
                }
                Woken::Ended => self.phase = Phase::Ending,
            }
        }
    }

    async fn wait(&mut self) -> Woken {
        let bookmark = if self.bookmarks {
            self.next_bookmark
        } else {
            self.ends
        };
        tokio::select! {
            biased;
            Ok(()) = self.changed.changed() => Woken::Changed,
            Ok(()) = self.faults.changed() => Woken::Faults,
            () = tokio::time::sleep_until(self.ends) => Woken::Ended,
            () = tokio::time::sleep_until(bookmark), if self.bookmarks => Woken::Bookmark,
        }
    }

    /// Queues the next changes after the cursor. Returns `true` if there are more.
    fn collect(&mut self) -> bool {
        match self
            .inner
            .store
            .since(self.storage, self.cursor, self.is_new, BATCH)
        {
            Ok((revision, events)) => {
                for event in &events {
                    self.queue_event(event);
                }
                self.is_new = false;
                self.cursor = self.cursor.max(revision);
                events.len() == BATCH
            }
            Err(Compacted { oldest }) => {
                let message = format!("too old resource version: {} ({})", self.cursor, oldest + 1);
                self.frame("ERROR", &to_bytes(&ApiError::expired(message).to_value()));
                self.phase = Phase::Ending;
                false
            }
        }
    }

    /// Queues the event that a change means to this watch: an object may enter its selection or leave it.
    fn queue_event(&mut self, event: &Event) {
        let was = event
            .previous
            .as_ref()
            .is_some_and(|previous| self.selector.matches(previous));
        let is = event.change != Change::Deleted && self.selector.matches(&event.object);
        match (was, is) {
            (false, true) => self.queue("ADDED", &event.object),
            (true, true) => self.queue("MODIFIED", &event.object),
            (true, false) if event.change == Change::Deleted => {
                self.queue("DELETED", &event.object);
            }
            (true, false) => {
                let Some(previous) = &event.previous else {
                    return;
                };
                let mut value = previous.value();
                value["metadata"]["resourceVersion"] = json!(event.revision.to_string());
                let last = Stored {
                    key: previous.key.clone(),
                    revision: event.revision,
                    body: to_bytes(&value),
                };
                self.queue("DELETED", &last);
            }
            (false, false) => {}
        }
    }

    fn queue(&mut self, kind: &str, stored: &Stored) {
        // Ages are those of now, and not of the start of the watch.
        self.view.now = self.inner.now().as_second();
        // A watch in YAML is one in JSON.
        let object = self.view.object(stored, self.first_row);
        self.first_row = false;
        self.frame(kind, &object);
    }

    fn frame(&mut self, kind: &str, object: &[u8]) {
        self.pending.reserve(object.len() + 40);
        self.pending.put_slice(b"{\"type\":\"");
        self.pending.put_slice(kind.as_bytes());
        self.pending.put_slice(b"\",\"object\":");
        self.pending.put_slice(object);
        self.pending.put_slice(b"}\n");
    }

    fn queue_bookmark(&mut self, annotations: Option<Value>) {
        let mut metadata = json!({"resourceVersion": self.cursor.to_string()});
        if let Some(annotations) = annotations {
            metadata["annotations"] = annotations;
        }
        let object = match self.view.form {
            Form::Metadata => {
                json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
            }
            Form::Table => crate::table::table(
                &self.view,
                json!({"resourceVersion": self.cursor.to_string()}),
                vec![crate::table::bookmark_row(&self.view, &metadata)],
                false,
            ),
            Form::Json | Form::Yaml => {
                let resource = self.view.resource;
                let schema = Schema::get();
                let mut object = decode::zero(&schema.type_of(resource.type_name), schema);
                object["kind"] = json!(resource.kind);
                object["apiVersion"] = json!(resource.api_version());
                object["metadata"] = metadata;
                object
            }
        };
        self.frame("BOOKMARK", &to_bytes(&object));
    }
}
