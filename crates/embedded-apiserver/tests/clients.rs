//! Client compatibility: kube-rs' watcher and writes, watches under a clock that jumps, TCP and TLS.

#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

mod support;

use std::time::Duration;

use embedded_apiserver::{ApiServer, Certificate, kubeconfig};
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Service};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::watcher::{self, Event};
use serde_json::{Value, json};
use support::{Watch, get, patch, post, put};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

fn node(name: &str) -> Value {
    json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": name}})
}

fn client(server: &ApiServer) -> kube::Client {
    kube::Client::new(server.service(), "default")
}

async fn names_until_ready(
    mut events: impl futures::Stream<Item = watcher::Result<Event<Node>>> + Unpin,
) -> Vec<String> {
    let mut names = Vec::new();
    while let Some(event) = events.try_next().await.unwrap() {
        match event {
            Event::InitApply(node) => names.extend(node.metadata.name),
            Event::InitDone => break,
            _ => {}
        }
    }
    names
}

#[tokio::test(start_paused = true)]
async fn a_watcher_of_kube_lists_and_streams_both_ways() {
    let server = ApiServer::new();
    for name in ["a", "b", "c"] {
        server.seed(node(name)).unwrap();
    }
    for config in [
        watcher::Config::default().page_size(2),
        watcher::Config::default().streaming_lists(),
    ] {
        let mut events =
            std::pin::pin!(watcher::watcher(Api::<Node>::all(client(&server)), config));
        assert_eq!(names_until_ready(&mut events).await, ["a", "b", "c"]);
        server.seed(node("b")).unwrap();
        assert!(
            matches!(events.try_next().await.unwrap(), Some(Event::Apply(node)) if node.metadata.name.as_deref() == Some("b"))
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_watcher_lists_again_after_its_version_is_gone() {
    let server = ApiServer::new();
    server.seed(node("a")).unwrap();
    let mut events = watcher::watcher(
        Api::<Node>::all(client(&server)),
        watcher::Config::default(),
    )
    .boxed();
    assert_eq!(names_until_ready(&mut events).await, ["a"]);
    server.seed(node("b")).unwrap();
    server.compact();
    server.faults().drop_watches();
    let mut names = Vec::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::InitApply(node)) => names.extend(node.metadata.name),
            Ok(Event::InitDone) => break,
            _ => {}
        }
    }
    assert_eq!(names, ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn a_compaction_ends_only_watches_from_before_and_a_burst_reaches_a_slow_reader_whole() {
    let server = ApiServer::new();
    let mut open = Watch::open(
        &server,
        "/api/v1/nodes?watch=1&resourceVersion=204",
        "application/json",
    )
    .await;
    post(
        &server,
        "/api/v1/namespaces/default/configmaps",
        json!({"metadata": {"name": "c"}}),
    )
    .await;
    let path = "/api/v1/nodes?watch=1&resourceVersion=204&labelSelector=x%3Dy";
    let mut selective = Watch::open(&server, path, "application/json").await;
    server.compact();
    for index in 0..300 {
        server.seed(node(&format!("n{index}"))).unwrap();
    }
    server.seed(json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": "z", "labels": {"x": "y"}}})).unwrap();
    for _ in 0..301 {
        assert_eq!(open.event().await["type"], "ADDED");
    }
    assert_eq!(selective.event().await["object"]["metadata"]["name"], "z");
    let mut late = Watch::open(
        &server,
        "/api/v1/nodes?watch=1&resourceVersion=204",
        "application/json",
    )
    .await;
    assert_eq!(late.event().await["object"]["reason"], "Expired");
    let from = format!(
        "/api/v1/nodes?watch=1&resourceVersion={}&labelSelector=x%3Dy",
        server.revision() - 300
    );
    let mut selective = Watch::open(&server, &from, "application/json").await;
    assert_eq!(selective.event().await["object"]["metadata"]["name"], "z");
}

#[tokio::test(start_paused = true)]
async fn an_idle_watch_gets_bookmarks_and_ends_in_time() {
    let server = ApiServer::new();
    let path =
        "/api/v1/nodes?watch=1&allowWatchBookmarks=true&timeoutSeconds=150&resourceVersion=204";
    let start = tokio::time::Instant::now();
    let mut watch = Watch::open(&server, path, "application/json").await;
    let mut bookmarks = 0;
    while let Some(event) = watch.next().await {
        assert_eq!(event.unwrap()["type"], "BOOKMARK");
        bookmarks += 1;
    }
    assert_eq!((bookmarks, start.elapsed()), (3, Duration::from_secs(150)));
}

#[tokio::test(start_paused = true)]
async fn a_stale_write_conflicts_and_a_provider_id_is_set_once() {
    let server = ApiServer::new();
    let nodes: Api<Node> = Api::all(client(&server));
    let created = nodes
        .create(
            &PostParams::default(),
            &serde_json::from_value(node("a")).unwrap(),
        )
        .await
        .unwrap();
    let set = |id: &str| Patch::Strategic(json!({"spec": {"providerID": id}}));
    nodes
        .patch("a", &PatchParams::default(), &set("sim://1"))
        .await
        .unwrap();
    let stale = nodes
        .replace("a", &PostParams::default(), &created)
        .await
        .unwrap_err();
    assert!(
        stale.to_string().contains("the object has been modified"),
        "{stale}"
    );
    let again = nodes
        .patch("a", &PatchParams::default(), &set("sim://2"))
        .await
        .unwrap_err();
    assert!(
        again
            .to_string()
            .contains("field cannot be modified once set"),
        "{again}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_main_resource_keeps_the_status_and_the_status_keeps_the_spec() {
    let server = ApiServer::new();
    server.seed(node("a")).unwrap();
    let both = json!({"spec": {"unschedulable": true}, "status": {"phase": "Running"}});
    let main = patch(&server, "merge", "/api/v1/nodes/a", both.clone())
        .await
        .body;
    assert_eq!(
        (&main["spec"]["unschedulable"], &main["status"]["phase"]),
        (&json!(true), &Value::Null)
    );
    let undo = json!({"spec": {"unschedulable": null}, "status": {"phase": "Running"}});
    let status = patch(&server, "merge", "/api/v1/nodes/a/status", undo)
        .await
        .body;
    assert_eq!(
        (&status["spec"]["unschedulable"], &status["status"]["phase"]),
        (&json!(true), &json!("Running"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_write_that_changes_nothing_has_no_version_and_no_event() {
    let server = ApiServer::new();
    server.seed(node("a")).unwrap();
    let before = server.revision();
    patch(
        &server,
        "strategic-merge",
        "/api/v1/nodes/a",
        json!({"metadata": {"name": "a"}}),
    )
    .await;
    assert_eq!(server.revision(), before);
}

#[tokio::test(start_paused = true)]
async fn the_last_finalizer_is_taken_by_directive_and_with_it_the_object() {
    let server = ApiServer::new();
    let services: Api<Service> = Api::namespaced(client(&server), "default");
    let service = json!({"metadata": {"name": "s", "finalizers": ["x.io/f"]}, "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}});
    services
        .create(
            &PostParams::default(),
            &serde_json::from_value(service).unwrap(),
        )
        .await
        .unwrap();
    services
        .delete("s", &DeleteParams::default())
        .await
        .unwrap();
    assert!(
        services
            .get("s")
            .await
            .unwrap()
            .metadata
            .deletion_timestamp
            .is_some()
    );
    let directive = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["x.io/f"]}});
    let answer = patch(
        &server,
        "strategic-merge",
        "/api/v1/namespaces/default/services/s/status",
        directive,
    )
    .await;
    assert_eq!(answer.status, 200);
    assert!(services.get_opt("s").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn an_ingress_gets_its_default_so_that_writing_it_again_changes_nothing() {
    let server = ApiServer::new();
    post(
        &server,
        "/api/v1/namespaces/default/services",
        json!({"metadata": {"name": "s"}, "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}}),
    )
    .await;
    let status = json!({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}});
    let path = "/api/v1/namespaces/default/services/s/status";
    let first = patch(&server, "merge", path, status.clone()).await.body;
    assert_eq!(
        first["status"]["loadBalancer"]["ingress"],
        json!([{"ip": "192.0.2.1", "ipMode": "VIP"}])
    );
    let second = patch(&server, "merge", path, status).await.body;
    assert_eq!(
        first["metadata"]["resourceVersion"],
        second["metadata"]["resourceVersion"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_taken_only_from_the_version_that_was_read() {
    let server = ApiServer::new();
    let leases: Api<Lease> = Api::namespaced(client(&server), "kube-system");
    let lease = json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15}});
    let mine = leases
        .create(
            &PostParams::default(),
            &serde_json::from_value(lease).unwrap(),
        )
        .await
        .unwrap();
    leases
        .replace("l", &PostParams::default(), &mine)
        .await
        .unwrap();
    let mut other = mine.clone();
    other.spec.as_mut().unwrap().holder_identity = Some("b".to_owned());
    leases
        .replace("l", &PostParams::default(), &other)
        .await
        .unwrap();
    assert!(
        leases
            .replace("l", &PostParams::default(), &mine)
            .await
            .is_err()
    );
    let path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/l";
    assert_eq!(
        put(&server, path, json!({"metadata": {"name": "l"}}))
            .await
            .status,
        422
    );
}

#[tokio::test]
async fn server_is_reached_over_tcp_and_tls_with_kubeconfigs() {
    let server = ApiServer::new();
    server.seed(node("a")).unwrap();
    let shutdown = CancellationToken::new();
    let certificate = Certificate::self_signed(&["localhost", "127.0.0.1"]).unwrap();
    let plain = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let secure = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let configs = [
        kubeconfig(
            &format!("http://{}", plain.local_addr().unwrap()),
            None,
            None,
        ),
        kubeconfig(
            &format!("https://{}", secure.local_addr().unwrap()),
            Some(&certificate),
            None,
        ),
    ];
    let serve = async {
        tokio::join!(
            server.serve_tcp(plain, shutdown.clone()),
            server.serve_tls(secure, &certificate, shutdown.clone())
        )
        .1
        .unwrap();
    };
    let ask = async {
        for config in configs {
            let config = kube::config::Kubeconfig::from_yaml(&config).unwrap();
            let config = kube::Config::from_custom_kubeconfig(config, &Default::default())
                .await
                .unwrap();
            let nodes: Api<Node> = Api::all(kube::Client::try_from(config).unwrap());
            assert_eq!(
                nodes
                    .list(&ListParams::default())
                    .await
                    .unwrap()
                    .items
                    .len(),
                1
            );
            server.faults().add(
                embedded_apiserver::Matcher::any().times(1),
                embedded_apiserver::Action::Refused,
            );
            assert!(nodes.get("a").await.is_err());
        }
        shutdown.cancel();
    };
    tokio::join!(serve, ask);
    assert_eq!(get(&server, "/healthz").await.body, "ok");
}
