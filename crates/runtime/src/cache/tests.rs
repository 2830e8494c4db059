//! The cache against a small scripted API server, in virtual time.
//!
//! Rules: RT-20 to RT-23, APP-152.

mod server;

use std::sync::Arc;
use std::time::Duration;

use cloud_provider::Node;
use kube::Api;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::*;
use crate::client::{Limits, NoRequestMetrics, wrap};
use crate::node::NodeObject;
use server::Server;

fn s(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn node(name: &str, version: &str) -> Node {
    Node {
        name: name.into(),
        resource_version: version.into(),
        ..Node::default()
    }
}

/// The events that a subscriber received: `+a@1`, `a@1>2`, `a@2=` (resync), `-a@2`.
type Heard = Arc<Mutex<Vec<String>>>;

fn listen(cache: &Cache<Node>, resync: Resync) -> Heard {
    let heard = Heard::default();
    let log = Arc::clone(&heard);
    cache.subscribe(resync, move |event| {
        let text = match event {
            CacheEvent::Added(n) => format!("+{}@{}", n.name, n.resource_version),
            CacheEvent::Updated { .. } if event.is_resync() => {
                format!(
                    "{}@{}=",
                    event.object().name,
                    event.object().resource_version
                )
            }
            CacheEvent::Updated { old, new } => {
                format!(
                    "{}@{}>{}",
                    new.name, old.resource_version, new.resource_version
                )
            }
            CacheEvent::Deleted(n) => format!("-{}@{}", n.name, n.resource_version),
        };
        log.lock().push(text);
    });
    heard
}

fn take(heard: &Heard) -> Vec<String> {
    std::mem::take(&mut *heard.lock())
}

struct Harness {
    server: Server,
    cache: Cache<Node>,
    heard: Heard,
    _running: DropGuard,
}

/// Creates a server with the Nodes `a`, `b`, … of version 1, 2, …, and a cache that begins to watch it.
fn harness(nodes: u8, streaming: bool) -> Harness {
    let server = Server::default();
    (0..nodes).for_each(|i| server.put(&char::from(b'a' + i).to_string()));
    watched(server, streaming)
}

fn watched(server: Server, streaming: bool) -> Harness {
    watched_in_pages_of(2, server, streaming)
}

fn watched_in_pages_of(page_size: u32, server: Server, streaming: bool) -> Harness {
    let cache = Cache::new();
    let shutdown = CancellationToken::new();
    let heard = listen(&cache, Resync::never());
    let limited = wrap(
        &server.client(),
        "h:443",
        "ccm/v1",
        &Limits::default(),
        Arc::new(NoRequestMetrics),
    );
    let api: Api<NodeObject> = Api::all(limited);
    let config = WatchConfig {
        page_size,
        streaming,
        ..WatchConfig::default()
    };
    tokio::spawn(watch(api, config, cache.clone(), shutdown.clone()));
    Harness {
        server,
        cache,
        heard,
        _running: shutdown.drop_guard(),
    }
}

fn names(cache: &Cache<Node>) -> String {
    cache.list().iter().map(|n| &*n.name).collect()
}

#[tokio::test(start_paused = true)]
async fn a_cache_is_filled_in_pages() {
    let w = harness(5, false);
    assert!(!w.cache.is_synced());
    w.cache.wait_synced().await;
    assert_eq!(names(&w.cache), "abcde");
    assert_eq!(take(&w.heard), ["+a@1", "+b@2", "+c@3", "+d@4", "+e@5"]);
    sleep(s(1)).await;
    assert_eq!(
        w.server.take_requests(),
        ["list", "list", "list", "watch 5"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_cache_is_filled_through_the_watch() {
    let w = harness(5, true);
    w.cache.wait_synced().await;
    w.server.put("f");
    sleep(s(1)).await;
    assert_eq!(names(&w.cache), "abcdef");
    assert_eq!(w.server.take_requests(), ["stream"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_stream_is_read_in_pages() {
    let server = Server::default();
    ["a", "b", "c"].iter().for_each(|name| server.put(name));
    server.refuse_streams();
    let w = watched(server, true);
    w.cache.wait_synced().await;
    assert_eq!(names(&w.cache), "abc");
    sleep(s(1)).await;
    assert_eq!(
        w.server.take_requests(),
        ["stream", "list", "list", "watch 3"]
    );
}

#[tokio::test(start_paused = true)]
async fn changes_are_told_in_order_with_old_and_new() {
    for streaming in [false, true] {
        let w = harness(2, streaming);
        w.cache.wait_synced().await;
        take(&w.heard);
        w.server.put("b");
        w.server.put("c");
        w.server.delete("a");
        w.server.delete("c");
        sleep(s(1)).await;
        assert_eq!(
            take(&w.heard),
            ["b@2>3", "+c@4", "-a@5", "-c@6"],
            "a delete shows the version of its end"
        );
        assert_eq!(names(&w.cache), "b");
    }
}

#[tokio::test(start_paused = true)]
async fn a_broken_connection_is_taken_up_where_it_broke() {
    let w = harness(3, false);
    w.cache.wait_synced().await;
    sleep(s(1)).await;
    take(&w.heard);
    w.server.take_requests();
    w.server.drop_watches();
    w.server.put("a");
    w.server.delete("b");
    sleep(s(60)).await;
    assert_eq!(take(&w.heard), ["a@1>4", "-b@5"]);
    assert_eq!(w.server.take_requests(), ["watch 3"], "no list");
}

#[tokio::test(start_paused = true)]
async fn list_after_a_lost_watch_updates_known_and_deletes_missing_objects() {
    for streaming in [false, true] {
        let w = harness(4, streaming);
        w.cache.wait_synced().await;
        sleep(s(1)).await;
        take(&w.heard);
        let before = w.cache.get("a").unwrap();
        w.server.cut_off();
        w.server.put("b");
        w.server.delete("c");
        w.server.put("e");
        w.server.compact();
        w.server.reconnect();
        sleep(s(60)).await;
        let mut heard = take(&w.heard);
        assert_eq!(
            heard.pop().as_deref(),
            Some("-c@3"),
            "with the last state known"
        );
        assert_eq!(heard, ["a@1=", "b@2>5", "d@4=", "+e@7"]);
        assert!(
            Arc::ptr_eq(&before, &w.cache.get("a").unwrap()),
            "what did not change is not replaced"
        );
        assert_eq!(names(&w.cache), "abde");
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_refused_with_http_410_is_followed_by_a_list() {
    let w = harness(3, false);
    w.cache.wait_synced().await;
    sleep(s(1)).await;
    w.server.refuse_by_status();
    w.server.cut_off();
    w.server.delete("b");
    w.server.put("d");
    w.server.compact();
    w.server.reconnect();
    w.server.take_requests();
    let start = Instant::now();
    while names(&w.cache) != "acd" {
        assert!(
            start.elapsed() < s(60),
            "{} after {:?}",
            names(&w.cache),
            w.server.take_requests()
        );
        sleep(s(1)).await;
    }
    sleep(s(60)).await;
    let requests = w.server.take_requests();
    assert_eq!(
        requests[requests.len() - 3..],
        ["list", "list", "watch 5"],
        "{requests:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_every_watch_with_410_is_listed_ever_more_rarely() {
    let server = Server::default();
    server.put("a");
    server.refuse_by_status();
    server.forget_the_future();
    let w = watched(server, false);
    sleep(s(600)).await;
    let lists = w
        .server
        .take_requests()
        .iter()
        .filter(|request| *request == "list")
        .count();
    assert!((10..60).contains(&lists), "{lists} lists in ten minutes");
}

#[tokio::test(start_paused = true)]
async fn a_page_that_is_too_large_is_read_again_later_with_half_as_many_objects() {
    let server = Server::default();
    ["a", "b", "c"].iter().for_each(|name| server.put(name));
    server.never_end_pages_above(30);
    let begin = Instant::now();
    let w = watched_in_pages_of(100, server, false);
    w.cache.wait_synced().await;
    assert_eq!(names(&w.cache), "abc");
    assert_eq!(
        w.server.take_requests()[..3],
        ["list 100", "list 50", "list 25"]
    );
    assert!(
        begin.elapsed() > s(2),
        "no pause between attempts: {:?}",
        begin.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_list_that_never_ends_is_asked_for_ever_more_rarely() {
    let server = Server::default();
    server.put("a");
    server.never_end_pages_above(0);
    let w = watched_in_pages_of(1, server, false);
    sleep(s(300)).await;
    let lists = w.server.take_requests().len();
    assert!(
        !w.cache.is_synced() && (8..40).contains(&lists),
        "{lists} lists in five minutes"
    );
}

#[tokio::test(start_paused = true)]
async fn a_list_that_breaks_off_deletes_nothing() {
    let w = harness(6, false);
    w.cache.wait_synced().await;
    sleep(s(1)).await;
    take(&w.heard);
    w.server.cut_off();
    w.server.delete("f");
    w.server.compact();
    w.server.fail_page(2, 3);
    w.server.reconnect();
    let start = Instant::now();
    while names(&w.cache).contains('f') {
        assert!(start.elapsed() < s(600), "never recovers");
        assert_eq!(names(&w.cache), "abcdef");
        sleep(s(1)).await;
    }
    let deleted: Vec<_> = take(&w.heard)
        .into_iter()
        .filter(|t| t.starts_with('-'))
        .collect();
    assert_eq!(deleted, ["-f@6"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_down_at_first_is_asked_again_with_patience() {
    let server = Server::default();
    server.put("a");
    server.cut_off();
    let w = watched(server, true);
    assert!(timeout(s(300), w.cache.wait_synced()).await.is_err());
    let asked = w.server.take_requests().len();
    assert!((8..40).contains(&asked), "{asked} requests in five minutes");
    w.server.reconnect();
    timeout(s(61), w.cache.wait_synced()).await.unwrap();
    assert_eq!(names(&w.cache), "a");
}

#[tokio::test(start_paused = true)]
async fn each_subscriber_is_told_again_at_its_own_period() {
    let w = harness(2, true);
    let often = listen(&w.cache, Resync::every(s(30)));
    let seldom = listen(&w.cache, Resync::every(s(100)));
    w.cache.wait_synced().await;
    for heard in [&w.heard, &often, &seldom] {
        take(heard);
    }
    sleep(s(301)).await;
    assert_eq!(take(&often), ["a@1=", "b@2="].repeat(10));
    assert_eq!(take(&seldom), ["a@1=", "b@2="].repeat(3));
    assert_eq!(take(&w.heard), [""; 0], "never means never");
}

#[tokio::test(start_paused = true)]
async fn a_late_subscriber_hears_of_everything_and_is_resynced_too() {
    let w = harness(2, true);
    w.cache.wait_synced().await;
    sleep(s(1000)).await;
    let late = listen(&w.cache, Resync::every(s(7)));
    assert_eq!(take(&late), ["+a@1", "+b@2"]);
    sleep(s(8)).await;
    assert_eq!(take(&late), ["a@1=", "b@2="]);
}

#[tokio::test(start_paused = true)]
async fn cancelling_ends_the_watch() {
    let server = Server::default();
    let cache = Cache::<Node>::new();
    let shutdown = CancellationToken::new();
    let running = tokio::spawn(watch(
        Api::all(server.client()),
        WatchConfig::default(),
        cache.clone(),
        shutdown.clone(),
    ));
    cache.wait_synced().await;
    shutdown.cancel();
    timeout(s(1), running).await.unwrap().unwrap();
}

#[test]
fn a_resync_period_is_drawn_between_one_and_two_times() {
    let periods: Vec<_> = (0..200)
        .map(|_| Resync::jittered(s(100)).period().unwrap())
        .collect();
    assert!(periods.iter().all(|p| (s(100)..s(200)).contains(p)));
    assert!(
        periods
            .iter()
            .max()
            .unwrap()
            .abs_diff(*periods.iter().min().unwrap())
            > s(50)
    );
    assert_eq!(Resync::jittered(Duration::ZERO), Resync::never());
}

#[test]
fn a_cache_can_be_filled_by_hand() {
    let cache = Cache::with([node("b", "1"), node("a", "1")]);
    let heard = listen(&cache, Resync::never());
    let before = cache.get("a").unwrap();
    cache.insert(node("a", "1"));
    assert!(Arc::ptr_eq(&before, &cache.get("a").unwrap()));
    cache.insert(node("a", "2"));
    cache.insert(node("c", ""));
    cache.insert(node("c", ""));
    cache.remove("b");
    cache.remove("nobody");
    cache.resync();
    assert_eq!(
        take(&heard),
        [
            "+a@1", "+b@1", "a@1=", "a@1>2", "+c@", "c@>", "-b@1", "a@2=", "c@="
        ],
        "without a version an object counts as changed"
    );
    assert_eq!(
        (cache.len(), cache.is_empty(), names(&cache).as_str()),
        (2, false, "ac")
    );
}

#[test]
fn a_subscriber_that_panics_disturbs_nobody() {
    let cache = Cache::<Node>::new();
    cache.subscribe(Resync::never(), |event| {
        assert!(*event.object().name != *"b", "unlucky");
    });
    let heard = listen(&cache, Resync::never());
    ["a", "b", "c"]
        .iter()
        .for_each(|name| cache.insert(node(name, "1")));
    assert_eq!(take(&heard), ["+a@1", "+b@1", "+c@1"]);
    assert_eq!(names(&cache), "abc");
}

#[test]
fn a_service_is_known_by_namespace_and_name() {
    let service: Service = serde_json::from_value(serde_json::json!({
        "metadata": {"name": "web", "namespace": "shop", "resourceVersion": "3", "managedFields": [{"manager": "x"}]}
    }))
    .unwrap();
    let cache = Cache::with([Service::from_wire(service)]);
    assert!(
        cache
            .get("shop/web")
            .unwrap()
            .metadata
            .managed_fields
            .is_none()
    );
}
