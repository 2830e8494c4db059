//! The requests that kubectl sends, as `-v=8` shows them, without kubectl.

#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

mod support;

use std::time::Duration;

use embedded_apiserver::ApiServer;
use serde_json::{Value, json};
use support::{Watch, get, patch, post, send};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
const DISCOVERY: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";

fn cluster() -> ApiServer {
    let server = ApiServer::new();
    let node = json!({
        "kind": "Node", "apiVersion": "v1", "metadata": {"name": "n", "labels": {"node-role.kubernetes.io/worker": ""}},
        "status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}], "conditions": [{"type": "Ready", "status": "True"}]},
    });
    server.seed(node).unwrap();
    server
}

fn cells(table: &Value) -> &Value {
    assert_eq!(table["kind"], "Table");
    &table["rows"][0]["cells"]
}

#[tokio::test(start_paused = true)]
async fn discovery_comes_in_two_documents_or_as_legacy_lists() {
    let server = cluster();
    let core = send(&server, "GET", "/api?timeout=32s", DISCOVERY, None).await;
    assert!(
        core.headers["content-type"]
            .to_str()
            .unwrap()
            .contains("as=APIGroupDiscoveryList")
    );
    let nodes = core.body["items"][0]["versions"][0]["resources"]
        .as_array()
        .unwrap()
        .iter()
        .find(|r| r["resource"] == "nodes");
    assert_eq!(nodes.unwrap()["shortNames"], json!(["no"]));
    let legacy = get(&server, "/apis/coordination.k8s.io/v1").await.body;
    assert_eq!(legacy["resources"][0]["kind"], "Lease");
}

#[tokio::test(start_paused = true)]
async fn get_asks_for_a_table() {
    let server = cluster();
    let list = send(&server, "GET", "/api/v1/nodes?limit=500", TABLE, None)
        .await
        .body;
    assert_eq!(
        cells(&list).slice()[1..3],
        [json!("Ready"), json!("worker")]
    );
    assert_eq!(
        list["columnDefinitions"].as_array().unwrap().len(),
        cells(&list).as_array().unwrap().len()
    );
    let single = send(&server, "GET", "/api/v1/nodes/n", TABLE, None)
        .await
        .body;
    assert_eq!(cells(&single)[5], "10.0.0.1");
}

#[tokio::test(start_paused = true)]
async fn get_with_watch_lists_a_table_and_watches_rows_from_its_version() {
    let server = cluster();
    let list = send(&server, "GET", "/api/v1/nodes", TABLE, None)
        .await
        .body;
    let version = list["metadata"]["resourceVersion"].as_str().unwrap();
    let mut watch = Watch::open(
        &server,
        &format!("/api/v1/nodes?resourceVersion={version}&watch=true"),
        TABLE,
    )
    .await;
    patch(
        &server,
        "merge",
        "/api/v1/nodes/n",
        json!({"spec": {"unschedulable": true}}),
    )
    .await;
    let event = watch.event().await;
    assert_eq!(
        (&event["type"], &cells(&event["object"])[1]),
        (&json!("MODIFIED"), &json!("Ready,SchedulingDisabled"))
    );
}

#[tokio::test(start_paused = true)]
async fn ages_in_a_watched_table_are_those_of_the_event() {
    let server = cluster();
    let list = send(&server, "GET", "/api/v1/nodes", TABLE, None)
        .await
        .body;
    let version = list["metadata"]["resourceVersion"].as_str().unwrap();
    let mut watch = Watch::open(
        &server,
        &format!("/api/v1/nodes?resourceVersion={version}&watch=true"),
        TABLE,
    )
    .await;
    tokio::time::sleep(Duration::from_secs(90)).await;
    patch(
        &server,
        "merge",
        "/api/v1/nodes/n",
        json!({"spec": {"unschedulable": true}}),
    )
    .await;
    assert_eq!(cells(&watch.event().await["object"])[3], "90s");
    post(&server, "/api/v1/nodes", json!({"metadata": {"name": "m"}})).await;
    assert_eq!(
        cells(&watch.event().await["object"])[3],
        "0s",
        "it is younger than the watch"
    );
}

trait Slice {
    fn slice(&self) -> &[Value];
}

impl Slice for Value {
    fn slice(&self) -> &[Value] {
        self.as_array().map_or(&[], Vec::as_slice)
    }
}

#[tokio::test(start_paused = true)]
async fn describe_asks_for_lease_pods_and_events_of_a_node() {
    let server = cluster();
    let lease = get(
        &server,
        "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n",
    )
    .await;
    assert_eq!(
        (lease.status, &lease.body["details"]["group"]),
        (404, &json!("coordination.k8s.io"))
    );
    let selector = "fieldSelector=spec.nodeName%3Dn%2Cstatus.phase%21%3DFailed%2Cstatus.phase%21%3DSucceeded&limit=500";
    assert_eq!(
        get(&server, &format!("/api/v1/pods?{selector}")).await.body["items"],
        json!([])
    );
    let event = json!({
        "metadata": {"name": "e"}, "involvedObject": {"kind": "Node", "name": "n", "uid": "n"}, "reason": "Synced", "message": "m",
    });
    post(&server, "/api/v1/namespaces/default/events", event).await;
    let selector = "involvedObject.kind%3DNode%2CinvolvedObject.uid%3Dn%2CinvolvedObject.name%3Dn%2CinvolvedObject.namespace%3D";
    let events = get(
        &server,
        &format!("/api/v1/events?fieldSelector={selector}&limit=500"),
    )
    .await
    .body;
    assert_eq!(events["items"].slice().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn create_sends_its_manager_and_asks_for_strict_fields() {
    let server = cluster();
    let path =
        "/api/v1/namespaces/default/configmaps?fieldManager=kubectl-create&fieldValidation=Strict";
    let wrong = post(
        &server,
        path,
        json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "c"}, "dta": {}}),
    )
    .await;
    assert!(
        wrong.body["message"]
            .as_str()
            .unwrap()
            .ends_with("strict decoding error: unknown field \"dta\"")
    );
    let right = post(
        &server,
        path,
        json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "c"}, "data": {"a": "b"}}),
    )
    .await;
    let entry = &right.body["metadata"]["managedFields"][0];
    assert_eq!(
        (right.status, &entry["manager"]),
        (201, &json!("kubectl-create"))
    );
    assert_eq!(entry["fieldsV1"], json!({"f:data": {".": {}, "f:a": {}}}));
}

#[tokio::test(start_paused = true)]
async fn apply_reads_the_rules_from_openapi_and_patches_by_them() {
    let server = cluster();
    let index = get(&server, "/openapi/v3").await.body;
    let url = index["paths"]["api/v1"]["serverRelativeURL"]
        .as_str()
        .unwrap()
        .to_owned();
    let document = get(&server, &url).await.body;
    let parameters =
        &document["paths"]["/api/v1/namespaces/{namespace}/services/{name}"]["patch"]["parameters"];
    for wanted in ["fieldValidation", "dryRun"] {
        assert!(
            parameters
                .slice()
                .iter()
                .any(|parameter| parameter["name"] == wanted),
            "{wanted}"
        );
    }
    let ports =
        &document["components"]["schemas"]["io.k8s.api.core.v1.ServiceSpec"]["properties"]["ports"];
    assert_eq!(ports["x-kubernetes-patch-merge-key"], "port");
    let service = json!({"metadata": {"name": "s"}, "spec": {"selector": {"a": "b"}, "ports": [{"port": 80}]}});
    post(&server, "/api/v1/namespaces/default/services", service).await;
    // The second apply of a file in which the port changed.
    let change = json!({"spec": {"$setElementOrder/ports": [{"port": 81}], "ports": [{"port": 81}, {"$patch": "delete", "port": 80}]}});
    let path = "/api/v1/namespaces/default/services/s?fieldManager=kubectl-client-side-apply&fieldValidation=Strict";
    let patched = patch(&server, "strategic-merge", path, change).await;
    assert_eq!(
        patched.body["spec"]["ports"],
        json!([{"port": 81, "protocol": "TCP", "targetPort": 81}]),
        "{}",
        patched.body
    );
}

#[tokio::test(start_paused = true)]
async fn server_side_apply_creates_and_updates() {
    let server = cluster();
    let path = "/api/v1/namespaces/default/configmaps/c?fieldManager=kubectl&fieldValidation=Strict&force=false";
    let config = |value: &str| json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "c"}, "data": {"a": value}});
    let apply = |value: &str| Some(("application/apply-patch+yaml", config(value)));
    assert_eq!(
        send(&server, "PATCH", path, "application/json", apply("1"))
            .await
            .status,
        201
    );
    let second = send(&server, "PATCH", path, "application/json", apply("2")).await;
    assert_eq!(
        (second.status, &second.body["data"]["a"]),
        (200, &json!("2"))
    );
}

#[tokio::test(start_paused = true)]
async fn taint_and_label_and_annotate_patch_the_node() {
    let server = cluster();
    let taint = json!({"spec": {"taints": [{"effect": "NoSchedule", "key": "k", "value": "v"}]}});
    let tainted = patch(
        &server,
        "strategic-merge",
        "/api/v1/nodes/n?fieldManager=kubectl-taint",
        taint,
    )
    .await
    .body;
    assert_eq!(
        tainted["spec"]["taints"],
        json!([{"effect": "NoSchedule", "key": "k", "value": "v"}])
    );
    let untainted = patch(
        &server,
        "strategic-merge",
        "/api/v1/nodes/n",
        json!({"spec": {"taints": null}}),
    )
    .await
    .body;
    assert_eq!(untainted["spec"]["taints"], Value::Null);
    let label = json!({"metadata": {"labels": {"x": "y"}, "annotations": {"q": "r"}}});
    let labelled = patch(
        &server,
        "merge",
        "/api/v1/nodes/n?fieldManager=kubectl-label",
        label,
    )
    .await
    .body;
    assert_eq!(
        (
            &labelled["metadata"]["labels"]["x"],
            &labelled["metadata"]["annotations"]["q"]
        ),
        (&json!("y"), &json!("r"))
    );
}

#[tokio::test(start_paused = true)]
async fn delete_with_wait_watches_the_object_until_it_is_gone() {
    let server = cluster();
    let options = json!({"propagationPolicy": "Background"});
    let finalizer = json!({"metadata": {"finalizers": ["x.io/y"]}});
    patch(&server, "merge", "/api/v1/nodes/n", finalizer).await;
    let deleted = send(
        &server,
        "DELETE",
        "/api/v1/nodes/n",
        "application/json",
        Some(("application/json", options)),
    )
    .await;
    assert_eq!(
        (deleted.status, &deleted.body["kind"]),
        (200, &json!("Node"))
    );
    let list = get(&server, "/api/v1/nodes?fieldSelector=metadata.name%3Dn")
        .await
        .body;
    let version = list["metadata"]["resourceVersion"].as_str().unwrap();
    let path = format!(
        "/api/v1/nodes?fieldSelector=metadata.name%3Dn&resourceVersion={version}&watch=true"
    );
    let mut watch = Watch::open(&server, &path, "application/json").await;
    patch(
        &server,
        "merge",
        "/api/v1/nodes/n",
        json!({"metadata": {"finalizers": null}}),
    )
    .await;
    assert_eq!(watch.event().await["type"], "DELETED");
    assert_eq!(get(&server, "/api/v1/nodes/n").await.status, 404);
}
