//! Just enough of an API server: Nodes with versions, lists in pages, watches with a history, and things that break.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use futures::channel::mpsc;
use futures::future::ready;
use futures::{StreamExt, stream};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};

type Bytes = http_body_util::combinators::BoxBody<hyper_bytes::Bytes, Infallible>;

mod hyper_bytes {
    pub(super) type Bytes = <kube::client::Body as http_body::Body>::Data;
}

#[derive(Clone, Default)]
pub(super) struct Server(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    version: u64,
    objects: BTreeMap<String, u64>,
    /// Version and watch event.
    history: Vec<(u64, Value)>,
    /// Versions before that are forgotten.
    oldest: u64,
    watches: Vec<mpsc::UnboundedSender<Value>>,
    requests: Vec<String>,
    streams_refused: bool,
    down: bool,
    /// Page and how often it still fails.
    failing: (usize, usize),
    /// Lists of more objects never end.
    most_per_page: Option<usize>,
    /// Watches from a forgotten version are refused with an HTTP status instead of an event.
    refuses_by_status: bool,
}

impl Server {
    pub(super) fn client(&self) -> Client {
        let server = self.clone();
        Client::new(
            tower::service_fn(move |request: Request<Body>| ready(server.answer(&request))),
            "default",
        )
    }

    pub(super) fn put(&self, name: &str) {
        let mut state = self.0.lock();
        let kind = if state.objects.contains_key(name) {
            "MODIFIED"
        } else {
            "ADDED"
        };
        state.version += 1;
        let version = state.version;
        state.objects.insert(name.into(), version);
        state.send_event(kind, name);
    }

    pub(super) fn delete(&self, name: &str) {
        let mut state = self.0.lock();
        state.objects.remove(name).unwrap();
        state.version += 1;
        state.send_event("DELETED", name);
    }

    pub(super) fn drop_watches(&self) {
        self.0.lock().watches.clear();
    }

    /// Ends all watches and refuses every request from now on.
    pub(super) fn cut_off(&self) {
        let mut state = self.0.lock();
        state.watches.clear();
        state.down = true;
    }

    pub(super) fn reconnect(&self) {
        self.0.lock().down = false;
    }

    /// Forgets what happened until now.
    pub(super) fn compact(&self) {
        let mut state = self.0.lock();
        state.oldest = state.version;
    }

    /// Makes every version too old for a watch, also the one that was just returned.
    pub(super) fn forget_the_future(&self) {
        self.0.lock().oldest = u64::MAX;
    }

    pub(super) fn refuse_streams(&self) {
        self.0.lock().streams_refused = true;
    }

    /// Lets the n-th page (from 1) of a list fail `times` times.
    pub(super) fn fail_page(&self, page: usize, times: usize) {
        self.0.lock().failing = (page, times);
    }

    /// Makes pages with a higher limit endless.
    pub(super) fn never_end_pages_above(&self, objects: usize) {
        self.0.lock().most_per_page = Some(objects);
    }

    /// Answers a watch from a forgotten version with HTTP 410.
    pub(super) fn refuse_by_status(&self) {
        self.0.lock().refuses_by_status = true;
    }

    pub(super) fn take_requests(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().requests)
    }

    fn answer(&self, request: &Request<Body>) -> Result<Response<Bytes>, std::io::Error> {
        let mut state = self.0.lock();
        assert_eq!(request.uri().path(), "/api/v1/nodes");
        let query: BTreeMap<&str, &str> = request
            .uri()
            .query()
            .unwrap_or_default()
            .split('&')
            .filter_map(|p| p.split_once('='))
            .collect();
        let get = |key: &str| query.get(key).copied().unwrap_or_default();
        let request = match (get("watch"), get("sendInitialEvents")) {
            ("true", "true") => "stream".into(),
            ("true", _) => format!("watch {}", get("resourceVersion")),
            _ if state.most_per_page.is_some() => format!("list {}", get("limit")),
            _ => "list".into(),
        };
        state.requests.push(request);
        if state.down {
            return Err(std::io::Error::new(
                std::io::ErrorKind::ConnectionRefused,
                "nobody listens",
            ));
        }
        Ok(match (get("watch"), get("sendInitialEvents")) {
            ("true", "true") if state.streams_refused => {
                failure(422, "Invalid", "sendInitialEvents is forbidden")
            }
            ("true", "true") => state.stream(),
            ("true", _) => state.watch(get("resourceVersion").parse().unwrap()),
            _ => state.list(get("limit").parse().unwrap(), get("continue")),
        })
    }
}

impl State {
    fn send_event(&mut self, kind: &str, name: &str) {
        let event = json!({"type": kind, "object": object(name, self.version)});
        self.history.push((self.version, event.clone()));
        self.watches
            .retain(|watch| watch.unbounded_send(event.clone()).is_ok());
    }

    fn list(&mut self, limit: usize, after: &str) -> Response<Bytes> {
        if self.most_per_page.is_some_and(|most| limit > most) {
            let endless = stream::repeat_with(|| Ok(Frame::data(vec![b' '; 1 << 20].into())));
            return Response::new(Bytes::new(StreamBody::new(endless)));
        }
        let page: Vec<_> = self
            .objects
            .iter()
            .filter(|(name, _)| name.as_str() > after)
            .collect();
        let number = (self.objects.len() - page.len()) / limit + 1;
        if self.failing.0 == number && self.failing.1 > 0 {
            self.failing.1 -= 1;
            return failure(500, "InternalError", "etcdserver: request timed out");
        }
        let more = page.len() > limit;
        let page = &page[..limit.min(page.len())];
        let mut metadata = json!({"resourceVersion": self.version.to_string()});
        if more {
            metadata["continue"] = page.last().unwrap().0.as_str().into();
        }
        let items: Vec<_> = page
            .iter()
            .map(|(name, version)| object(name, **version))
            .collect();
        let list =
            json!({"apiVersion": "v1", "kind": "NodeList", "metadata": metadata, "items": items});
        body(200, stream::iter([list]))
    }

    fn stream(&mut self) -> Response<Bytes> {
        let mut events: Vec<_> = self
            .objects
            .iter()
            .map(|(name, v)| json!({"type": "ADDED", "object": object(name, *v)}))
            .collect();
        let metadata = json!({
            "resourceVersion": self.version.to_string(),
            "annotations": {"k8s.io/initial-events-end": "true"},
        });
        events.push(json!({"type": "BOOKMARK", "object": {"apiVersion": "v1", "kind": "Node", "metadata": metadata}}));
        self.follow(events)
    }

    fn watch(&mut self, from: u64) -> Response<Bytes> {
        if from < self.oldest && self.refuses_by_status {
            return failure(410, "Expired", "too old resource version");
        }
        if from < self.oldest {
            let status = json!({"status": "Failure", "code": 410, "reason": "Expired", "message": "too old resource version"});
            return body(
                200,
                stream::iter([json!({"type": "ERROR", "object": status})]),
            );
        }
        self.follow(
            self.history
                .iter()
                .filter(|(v, _)| *v > from)
                .map(|(_, event)| event.clone())
                .collect(),
        )
    }

    fn follow(&mut self, past: Vec<Value>) -> Response<Bytes> {
        let (sender, future) = mpsc::unbounded();
        self.watches.push(sender);
        body(200, stream::iter(past).chain(future))
    }
}

fn object(name: &str, version: u64) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "resourceVersion": version.to_string()}})
}

fn failure(code: u16, reason: &str, message: &str) -> Response<Bytes> {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message});
    body(code, stream::iter([status]))
}

fn body(
    code: u16,
    parts: impl futures::Stream<Item = Value> + Send + Sync + 'static,
) -> Response<Bytes> {
    let frames = parts.map(|part| Ok(Frame::data(format!("{part}\n").into())));
    Response::builder()
        .status(code)
        .body(Bytes::new(StreamBody::new(frames)))
        .unwrap()
}
