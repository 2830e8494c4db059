use super::*;
use cloud_provider::names::{LABEL_REGION, LABEL_ZONE, LABEL_ZONE_BETA, VOLUME_PLACEHOLDER};
use cloud_provider::{Volumes, async_trait};

fn create(object: Value) -> Value {
    let mut review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "17", "operation": "CREATE",
            "kind": {"group": "", "version": "v1", "kind": "PersistentVolume"},
        },
    });
    review["request"]["object"] = object;
    review
}

fn volume(labels: Value, affinity: Value) -> Value {
    let mut volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv"},
        "spec": {"csi": {"driver": "acme", "volumeHandle": "v-1"}, "fieldOfTheFuture": 1},
    });
    if !labels.is_null() {
        volume["metadata"]["labels"] = labels;
    }
    if !affinity.is_null() {
        volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"] = affinity;
    }
    volume
}

fn says(zone: &str, region: &str) -> Result<Option<BTreeMap<String, String>>> {
    Ok(Some(
        [
            (LABEL_ZONE.to_owned(), zone.to_owned()),
            (LABEL_REGION.to_owned(), region.to_owned()),
        ]
        .into(),
    ))
}

/// Returns the response without its UID and with the patch decoded.
fn answer(request: &Value, cloud: &Result<Option<BTreeMap<String, String>>>) -> Value {
    let response = review(request, cloud).unwrap()["response"].clone();
    assert_eq!(response["uid"], "17");
    assert_eq!(response["allowed"], true, "nothing is ever refused");
    assert_eq!(
        response.get("patchType").is_some(),
        response.get("patch").is_some()
    );
    match response["patch"].as_str() {
        None => json!({"warnings": response["warnings"]}),
        Some(patch) => {
            let patch = base64::engine::general_purpose::STANDARD
                .decode(patch)
                .unwrap();
            let patch: Value = serde_json::from_slice(&patch).unwrap();
            json!({"patch": patch, "warnings": response["warnings"]})
        }
    }
}

fn requires(key: &str, values: &[&str]) -> Value {
    json!({"key": key, "operator": "In", "values": values})
}

const ZONE_PATH: &str = "/metadata/labels/topology.kubernetes.io~1zone";
const REGION_PATH: &str = "/metadata/labels/topology.kubernetes.io~1region";
const TERMS: &str = "/spec/nodeAffinity/required/nodeSelectorTerms";

#[test]
fn a_bare_volume_gets_everything() {
    let found = answer(
        &create(volume(Value::Null, Value::Null)),
        &says("b__a", "r"),
    );
    let expressions = [
        requires(LABEL_ZONE, &["a", "b"]),
        requires(LABEL_REGION, &["r"]),
    ];
    let expected = json!([
        {"op": "add", "path": "/metadata/labels", "value": {LABEL_ZONE: "a__b", LABEL_REGION: "r"}},
        {"op": "add", "path": "/spec/nodeAffinity",
         "value": {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}},
    ]);
    assert_eq!(found["patch"], expected);
}

#[test]
fn labels_and_terms_that_are_there_stay() {
    let hostname = requires("kubernetes.io/hostname", &["n"]);
    let affinity = json!([
        {"matchExpressions": [hostname]},
        {"matchFields": [requires("metadata.name", &["n"])]},
        {"matchExpressions": [requires(LABEL_ZONE_BETA, &["a"]), requires(LABEL_REGION, &["r"])]},
        {},
    ]);
    let found = answer(
        &create(volume(json!({"app": "x"}), affinity)),
        &says("a", "r"),
    );
    let zone = requires(LABEL_ZONE, &["a"]);
    let region = requires(LABEL_REGION, &["r"]);
    let expected = json!([
        {"op": "add", "path": REGION_PATH, "value": "r"},
        {"op": "add", "path": ZONE_PATH, "value": "a"},
        {"op": "add", "path": format!("{TERMS}/0/matchExpressions/-"), "value": zone},
        {"op": "add", "path": format!("{TERMS}/0/matchExpressions/-"), "value": region},
        {"op": "add", "path": format!("{TERMS}/1/matchExpressions"), "value": [zone, region]},
    ]);
    assert_eq!(found["patch"], expected);
}

#[test]
fn volume_that_needs_nothing_is_admitted_without_a_look_up() {
    let open = || volume(Value::Null, Value::Null);
    let with = |path: &str, value: Value| {
        let mut review = create(open());
        *review.pointer_mut(path).unwrap() = value;
        review
    };
    let mut status = create(open());
    status["request"]["subResource"] = json!("status");
    let mut terminating = open();
    terminating["metadata"]["deletionTimestamp"] = json!("2024-01-01T00:00:00Z");
    let complete = volume(
        json!({LABEL_ZONE: "x", LABEL_REGION: "y"}),
        json!([{"matchExpressions": [requires(LABEL_ZONE, &["x"])]}]),
    );
    let table = [
        ("an update", with("/request/operation", json!("UPDATE"))),
        (
            "another kind",
            with("/request/kind/kind", json!("PersistentVolumeClaim")),
        ),
        (
            "another group",
            with("/request/kind/group", json!("example.com")),
        ),
        ("no volume", with("/request/object", json!({"spec": 1}))),
        ("a status", status),
        ("a deletion", create(terminating)),
        ("complete", create(complete)),
        (
            "a placeholder",
            with(
                "/request/object/spec/csi/volumeHandle",
                json!(VOLUME_PLACEHOLDER),
            ),
        ),
    ];
    for (what, request) in table {
        assert!(subject(&request).is_none(), "{what}");
        assert_eq!(
            answer(&request, &says("a", "r")),
            json!({"warnings": null}),
            "{what}"
        );
    }
    assert!(subject(&create(open())).is_some());
    assert_eq!(
        answer(&create(open()), &Ok(None)),
        json!({"warnings": null}),
        "another driver"
    );
    assert_eq!(
        answer(&create(open()), &Ok(Some(BTreeMap::new()))),
        json!({"warnings": null}),
        "nothing known"
    );
}

#[test]
fn a_user_who_knows_better_is_warned_and_not_overruled() {
    let found = answer(
        &create(volume(json!({LABEL_ZONE: "b"}), Value::Null)),
        &says("a", "r"),
    );
    let warning = format!(
        "label {LABEL_ZONE} is \"b\", but the cloud says \"a\": correct the label or remove it"
    );
    assert_eq!(found, json!({"warnings": [warning]}));
}

#[test]
fn a_cloud_that_fails_stops_no_volume() {
    let request = create(volume(Value::Null, Value::Null));
    let found = answer(&request, &Err(Error::other("503 from the volume API")));
    assert_eq!(
        found,
        json!({"warnings": ["zone and region were not set: 503 from the volume API"]})
    );
    let found = answer(&request, &says("a__", "r"));
    assert!(
        found["warnings"][0]
            .as_str()
            .unwrap()
            .starts_with("zone and region were not set: the cloud's value")
    );
}

#[test]
fn request_that_is_no_review_is_refused_with_the_reason() {
    let good = create(volume(Value::Null, Value::Null));
    for (path, value) in [
        ("/apiVersion", json!("admission.k8s.io/v1beta1")),
        ("/kind", json!("Pod")),
        ("/request", Value::Null),
        ("/request/uid", Value::Null),
    ] {
        let mut bad = good.clone();
        *bad.pointer_mut(path).unwrap() = value;
        assert!(
            review(&bad, &Ok(None)).is_err_and(|error| error.is_invalid()),
            "{path}"
        );
    }
}

struct Acme {
    hangs: bool,
}

#[async_trait]
impl Volumes for Acme {
    async fn labels(&self, _volume: &PersistentVolume) -> Result<Option<BTreeMap<String, String>>> {
        match self.hangs {
            true => std::future::pending().await,
            false => panic!("a defect of the provider"),
        }
    }
}

impl CloudProvider for Acme {
    fn name(&self) -> &'static str {
        "acme"
    }
    fn volumes(&self) -> Option<&dyn Volumes> {
        Some(self)
    }
}

#[tokio::test(start_paused = true)]
async fn answer_comes_in_time_whatever_the_provider_does() {
    let request = create(volume(Value::Null, Value::Null));
    for (hangs, why) in [
        (true, "acme gave no answer within 8 s"),
        (false, "acme panicked"),
    ] {
        let start = tokio::time::Instant::now();
        let found = handle(&Acme { hangs }, &request).await.unwrap();
        assert!(start.elapsed() < Duration::from_secs(10));
        assert!(
            found["response"]["warnings"][0]
                .as_str()
                .unwrap()
                .ends_with(why),
            "{found}"
        );
    }
}
