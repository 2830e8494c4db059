//! Reviews of permissions, answered by an API server in this process (DEP-31).

use std::sync::Arc;

use http::{Request, Response};
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tower::service_fn;

use super::super::Election;
use super::*;

/// An API server that allows what `allows` returns, and the reviews that it received.
fn server(allows: fn(&Value) -> Option<bool>) -> (Client, Arc<Mutex<Vec<Value>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&asked);
    let service = service_fn(move |request: Request<Body>| {
        let log = Arc::clone(&log);
        async move {
            let body = request.into_body().collect_bytes().await.unwrap();
            let review: Value = serde_json::from_slice(&body).unwrap();
            log.lock().push(review["spec"].clone());
            let (code, answer) = match allows(&review["spec"]) {
                Some(allowed) => {
                    let mut answer = review.clone();
                    answer["status"] = json!({"allowed": allowed});
                    (201, answer)
                }
                None => (
                    403,
                    json!({"kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden", "message": "no reviews"}),
                ),
            };
            let response = Response::builder()
                .status(code)
                .body(Body::from(serde_json::to_vec(&answer).unwrap()));
            Ok::<_, std::convert::Infallible>(response.unwrap())
        }
    });
    (Client::new(service, "default"), asked)
}

fn verb_and_resource(spec: &Value) -> (&str, &str) {
    let attributes = &spec["resourceAttributes"];
    (
        attributes["verb"].as_str().unwrap_or_default(),
        attributes["resource"].as_str().unwrap_or_default(),
    )
}

#[tokio::test]
async fn every_permission_is_asked_for_once_with_all_that_tells_it_apart() {
    let (client, asked) = server(|_| Some(true));
    let features = Features::default();
    let checked = check(&client, &features).await;
    assert_eq!((checked.missing.len(), checked.unknown), (0, 0));
    let asked = asked.lock();
    assert_eq!(asked.len(), grants(&needed(&features)).len());
    for expected in [
        json!({"resourceAttributes": {"verb": "delete", "resource": "nodes"}}),
        json!({"resourceAttributes": {"verb": "patch", "resource": "services", "subresource": "status"}}),
        json!({"resourceAttributes": {"verb": "update", "group": "coordination.k8s.io", "resource": "leases",
            "namespace": "kube-system", "name": "cloud-controller-manager"}}),
        json!({"nonResourceAttributes": {"path": "/healthz", "verb": "get"}}),
    ] {
        assert!(
            asked.contains(&expected),
            "{expected} is missing in {asked:#?}"
        );
    }
}

#[tokio::test]
async fn missing_permission_is_reported_with_the_rule_to_add() {
    let (client, _) = server(|spec| {
        Some(!matches!(
            verb_and_resource(spec),
            ("delete" | "watch", "nodes") | (_, "leases")
        ))
    });
    let checked = check(&client, &Features::default()).await;
    let lines: Vec<_> = checked.missing.iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            "watch nodes: every controller works on Nodes; add to its ClusterRole: \
             - {apiGroups: [\"\"], resources: [nodes], verbs: [watch]}",
            "create leases: the first leader election creates the lease; add to its Role in kube-system: \
             - {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [create]}",
            "get, update leases \"cloud-controller-manager\": election; add to its Role in kube-system: \
             - {apiGroups: [coordination.k8s.io], resources: [leases], resourceNames: [cloud-controller-manager], \
             verbs: [get, update]}",
            "watch leases \"cloud-controller-manager\": a standby notices a free lease at once; without the \
             permission, it polls every few seconds; add to its Role in kube-system: \
             - {apiGroups: [coordination.k8s.io], resources: [leases], resourceNames: [cloud-controller-manager], \
             verbs: [watch]}",
            "delete nodes: deleting Nodes whose machine does not exist; add to its ClusterRole: \
             - {apiGroups: [\"\"], resources: [nodes], verbs: [delete]}",
        ]
    );
    let vital: Vec<_> = checked
        .vital()
        .map(|missing| missing.rule.verbs.join(",") + " " + missing.rule.resource)
        .collect();
    assert_eq!(vital, ["watch nodes", "get,update leases"]);
}

#[tokio::test]
async fn a_server_that_answers_no_reviews_leaves_everything_unknown_and_nothing_missing() {
    let (client, _) = server(|_| None);
    let checked = check(&client, &Features::default()).await;
    assert_eq!(
        (checked.missing.as_slice(), checked.unknown),
        ([].as_slice(), checked.asked)
    );
    assert_eq!(checked.error.as_deref(), Some("no reviews"));
}

#[tokio::test]
async fn process_reviews_the_permissions_of_controllers_with_accounts_of_their_own() {
    let (client, asked) =
        server(|spec| Some(spec["user"] != "system:serviceaccount:kube-system:service-controller"));
    let features = Features {
        service_account_credentials: true,
        ..Features::default()
    };
    let checked = check(&client, &features).await;
    assert!(asked.lock().iter().any(|spec| {
        spec["user"] == "system:serviceaccount:kube-system:node-controller"
            && verb_and_resource(spec) == ("delete", "nodes")
    }));
    let text: Vec<_> = checked.missing.iter().map(ToString::to_string).collect();
    assert_eq!(text.len(), 3, "{text:#?}");
    assert!(text.iter().all(|line| line.contains(
        "ServiceAccount kube-system/service-controller needs it: bind ClusterRole system:controller:service-controller to it, or add"
    )), "{text:#?}");
}

#[tokio::test]
async fn missing_permission_names_only_the_lease_that_lacks_it() {
    let (client, _) = server(|spec| Some(spec["resourceAttributes"]["name"] != "migration"));
    let election = Election {
        namespace: "ccm".into(),
        leases: vec!["migration".into(), "main".into()],
        ..Election::default()
    };
    let features = Features {
        election: Some(election),
        ..Features::default()
    };
    let checked = check(&client, &features).await;
    assert_eq!(checked.missing.len(), 2, "get and update, watch");
    assert!(
        checked
            .missing
            .iter()
            .all(|missing| missing.rule.names == ["migration"])
    );
    assert!(
        checked.missing[0]
            .to_string()
            .contains("add to its Role in ccm: - {"),
        "{}",
        checked.missing[0]
    );
}
