//! Tests of the runtime against a real API server. They need `CCM_TEST_KUBECONFIG`; run them with `cargo test -p
//! runtime --test real_server -- --ignored`. All objects of the tests are called `rt-…` and are removed at the end.

#![allow(clippy::unwrap_used, reason = "a test says enough by failing")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::Node;
use k8s_openapi::api::core::v1::{Event, Node as ApiNode};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Client};
use parking_lot::Mutex;
use runtime::api_error::{api_error, is_conflict, is_not_found};
use runtime::cache::{Cache, CacheEvent, Resync, WatchConfig, watch};
use runtime::client::{ClientOptions, RequestInfo, RequestMetrics, connect};
use runtime::clock::SystemClock;
use runtime::events::{EventType, ObjectRef, recorder};
use runtime::node::NodeObject;
use runtime::writes::{delete_with_uid, strategic_patch};
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

const TIMEOUT: Duration = Duration::from_secs(60);

/// Requests by verb, route and status.
#[derive(Default)]
struct Counts(Mutex<BTreeMap<String, u32>>);

impl RequestMetrics for Counts {
    fn answered(&self, request: &RequestInfo, status: Option<u16>, _: Duration) {
        let key = format!(
            "{} {} {}",
            request.verb,
            request.route,
            status.unwrap_or_default()
        );
        *self.0.lock().entry(key).or_default() += 1;
    }
}

impl Counts {
    fn get(&self, key: &str) -> u32 {
        self.0.lock().get(key).copied().unwrap_or_default()
    }
}

async fn client() -> (Client, Arc<Counts>) {
    let path =
        std::env::var_os("CCM_TEST_KUBECONFIG").expect("CCM_TEST_KUBECONFIG names a kubeconfig");
    let counts = Arc::new(Counts::default());
    let options = ClientOptions {
        kubeconfig: Some(PathBuf::from(path)),
        ..ClientOptions::default()
    };
    let metrics = Arc::clone(&counts) as Arc<dyn RequestMetrics>;
    (
        connect(&options, "runtime-tests", metrics).await.unwrap(),
        counts,
    )
}

async fn until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < TIMEOUT, "{what}: not within {TIMEOUT:?}");
        sleep(Duration::from_millis(10)).await;
    }
}

async fn create(nodes: &Api<ApiNode>, name: &str) -> String {
    _ = nodes.delete(name, &DeleteParams::default()).await;
    let node: ApiNode = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    nodes
        .create(&PostParams::default(), &node)
        .await
        .unwrap()
        .metadata
        .uid
        .unwrap()
}

#[tokio::test]
#[ignore = "needs a real API server: CCM_TEST_KUBECONFIG"]
async fn a_cache_follows_the_nodes_of_a_real_server() {
    for streaming in [true, false] {
        let (client, counts) = client().await;
        let nodes: Api<ApiNode> = Api::all(client.clone());
        let name = format!("rt-cache-{streaming}");
        create(&nodes, &name).await;

        let cache = Cache::<Node>::new();
        let shutdown = CancellationToken::new();
        let log = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&log);
        let wanted = name.clone();
        cache.subscribe(Resync::never(), move |event| {
            if *event.object().name == *wanted {
                heard.lock().push(match event {
                    CacheEvent::Added(_) => "added",
                    CacheEvent::Updated { .. } => "updated",
                    CacheEvent::Deleted(_) => "deleted",
                });
            }
        });
        let config = WatchConfig {
            streaming,
            page_size: 2,
            ..WatchConfig::default()
        };
        let objects: Api<NodeObject> = Api::all(client.clone());
        tokio::spawn(watch(
            objects.clone(),
            config,
            cache.clone(),
            shutdown.clone(),
        ));
        timeout(TIMEOUT, cache.wait_synced()).await.unwrap();
        assert!(
            cache
                .get(&name)
                .is_some_and(|n| !n.uid.is_empty() && n.created.is_some())
        );

        let patch = json!({"metadata": {"labels": {"rt": "1"}}, "spec": {"providerID": format!("rt://{name}")}});
        let written = strategic_patch(&objects, &name, None, &patch)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(written.node.labels.get("rt"), Some("1"));
        until("the label is seen", || {
            cache
                .get(&name)
                .is_some_and(|n| n.labels.get("rt") == Some("1"))
        })
        .await;
        let status =
            json!({"status": {"addresses": [{"type": "InternalIP", "address": "10.9.8.7"}]}});
        strategic_patch(&objects, &name, Some("status"), &status)
            .await
            .unwrap();
        until("the address is seen", || {
            cache.get(&name).is_some_and(|n| n.addresses.len() == 1)
        })
        .await;
        nodes.delete(&name, &DeleteParams::default()).await.unwrap();
        until("the delete is seen", || cache.get(&name).is_none()).await;

        let log = log.lock();
        assert_eq!(
            (log.first(), log.last()),
            (Some(&"added"), Some(&"deleted"))
        );
        assert_eq!(
            counts.get("list nodes 200") == 0,
            streaming,
            "{:?}",
            counts.0.lock()
        );
        shutdown.cancel();
    }
}

#[tokio::test]
#[ignore = "needs a real API server: CCM_TEST_KUBECONFIG"]
async fn a_delete_spares_another_node_of_the_same_name() {
    let (client, _) = client().await;
    let (nodes, objects): (Api<ApiNode>, Api<NodeObject>) =
        (Api::all(client.clone()), Api::all(client));
    let old = create(&nodes, "rt-delete").await;
    let new = create(&nodes, "rt-delete").await;
    let refused = delete_with_uid(&objects, "rt-delete", &old)
        .await
        .unwrap_err();
    assert!(is_conflict(&refused), "{}", api_error(&refused));
    delete_with_uid(&objects, "rt-delete", &new).await.unwrap();
    let missing = delete_with_uid(&objects, "rt-delete", &new)
        .await
        .unwrap_err();
    assert!(is_not_found(&missing));
    assert_eq!(
        api_error(&missing).to_string(),
        r#"nodes "rt-delete" not found"#
    );
}

#[tokio::test]
#[ignore = "needs a real API server: CCM_TEST_KUBECONFIG"]
async fn events_reach_a_real_server_merged_and_counted() {
    let (client, counts) = client().await;
    let events: Api<Event> = Api::namespaced(client.clone(), "default");
    let ours = ListParams::default().fields("involvedObject.name=rt-events");
    for event in events.list(&ours).await.unwrap() {
        events
            .delete(&event.metadata.name.unwrap(), &DeleteParams::default())
            .await
            .unwrap();
    }

    let (recorder, sender) = recorder(client, "rt-controller", Arc::new(SystemClock));
    let shutdown = CancellationToken::new();
    let sending = tokio::spawn(sender.run(shutdown.clone()));
    let node = ObjectRef::node("rt-events", "rt-uid");
    for _ in 0..3 {
        recorder.event(&node, EventType::Normal, "Repeated", "the same each time");
    }
    for i in 1..=12 {
        recorder.event(&node, EventType::Warning, "Varied", format!("message {i}"));
    }
    shutdown.cancel();
    sending.await.unwrap();

    let mut seen: Vec<_> = events.list(&ours).await.unwrap().into_iter().collect();
    seen.sort_by(|a, b| a.message.cmp(&b.message));
    assert_eq!(seen.len(), 11, "one repeated, nine varied, one merged");
    let by_count: Vec<_> = seen
        .iter()
        .filter(|e| e.count != Some(1))
        .map(|e| (e.message.clone().unwrap(), e.count))
        .collect();
    let merged = "(combined from similar events): message 12".to_owned();
    assert_eq!(
        by_count,
        [
            (merged, Some(3)),
            ("the same each time".to_owned(), Some(3))
        ]
    );
    let first = &seen[0];
    assert_eq!(first.reporting_component.as_deref(), Some("rt-controller"));
    assert_eq!(
        first.source.as_ref().unwrap().component.as_deref(),
        Some("rt-controller")
    );
    assert_eq!(first.involved_object.uid.as_deref(), Some("rt-uid"));
    assert_eq!(
        (
            counts.get("create events 201"),
            counts.get("patch events 200")
        ),
        (11, 4)
    );
    for event in seen {
        events
            .delete(&event.metadata.name.unwrap(), &DeleteParams::default())
            .await
            .unwrap();
    }
}
