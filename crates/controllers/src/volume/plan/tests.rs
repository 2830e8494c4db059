use super::*;

fn volume(labels: Value, affinity: Value) -> PersistentVolume {
    let mut volume = json!({
        "metadata": {"name": "pv", "resourceVersion": "7"},
        "spec": {"csi": {"driver": "acme", "volumeHandle": "v-1"}},
    });
    volume["metadata"]["labels"] = labels;
    if !affinity.is_null() {
        volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"] = affinity;
    }
    serde_json::from_value(volume).unwrap()
}

fn topology(zone: &str, region: &str) -> Topology {
    let labels = [(LABEL_ZONE, zone), (LABEL_REGION, region)]
        .map(|(key, value)| (key.to_owned(), value.to_owned()));
    Topology::from_labels(&labels.into()).unwrap()
}

fn requires(key: &str, operator: &str, values: &[&str]) -> Value {
    json!({"key": key, "operator": operator, "values": values})
}

fn term(requirements: &[Value]) -> Value {
    json!({"matchExpressions": requirements})
}

/// Returns the patch without its precondition, or the conflict.
fn outcome(volume: &PersistentVolume, topology: &Topology) -> Result<Value, String> {
    let plan = Plan::make(volume, topology).map_err(|conflicts| conflicts[0].to_string())?;
    let mut patch = plan.patch(volume);
    assert_eq!(patch["metadata"]["resourceVersion"], "7");
    patch["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("resourceVersion");
    Ok(patch)
}

#[test]
fn a_bare_volume_gets_labels_and_affinity() {
    let found = outcome(&volume(json!({}), Value::Null), &topology("b__a", "r")).unwrap();
    let zones = requires(LABEL_ZONE, "In", &["a", "b"]);
    let affinity = json!({"required": {"nodeSelectorTerms": [term(&[zones, requires(LABEL_REGION, "In", &["r"])])]}});
    let expected = json!({
        "metadata": {"labels": {LABEL_ZONE: "a__b", LABEL_REGION: "r"}},
        "spec": {"nodeAffinity": affinity},
    });
    assert_eq!(found, expected);
}

#[test]
fn plan_sets_only_missing_labels() {
    let other = json!([term(&[requires("kubernetes.io/hostname", "In", &["n"])])]);
    let all = json!({LABEL_ZONE: "a", LABEL_REGION: "r"});
    let table = [
        (
            "the region",
            json!({LABEL_ZONE: "a"}),
            other.clone(),
            Some(json!({LABEL_REGION: "r"})),
        ),
        (
            "labels beside an affinity",
            json!({"app": "x"}),
            other.clone(),
            Some(all.clone()),
        ),
        ("nothing", all, other.clone(), None),
        (
            "nothing beside deprecated keys",
            json!({LABEL_ZONE_BETA: "a", LABEL_REGION_BETA: "r"}),
            other.clone(),
            None,
        ),
        (
            "the region beside a deprecated zone",
            json!({LABEL_ZONE_BETA: "a"}),
            other,
            Some(json!({LABEL_REGION: "r"})),
        ),
    ];
    for (what, labels, affinity, expected) in table {
        let found = outcome(&volume(labels, affinity), &topology("a", "r")).unwrap();
        let expected = expected.map_or_else(
            || json!({"metadata": {}}),
            |labels| json!({"metadata": {"labels": labels}}),
        );
        assert_eq!(found, expected, "{what}");
    }
    let deprecated = volume(
        json!({LABEL_ZONE_BETA: "a", LABEL_REGION_BETA: "r"}),
        Value::Null,
    );
    let found = outcome(&deprecated, &topology("a", "r")).unwrap();
    assert!(
        found["metadata"] == json!({}) && found["spec"]["nodeAffinity"].is_object(),
        "{found}"
    );
}

#[test]
fn a_cloud_that_says_nothing_changes_nothing() {
    let found = outcome(
        &volume(json!({LABEL_ZONE: "a"}), Value::Null),
        &Topology::default(),
    )
    .unwrap();
    assert_eq!(found, json!({"metadata": {}}));
    let found = outcome(&volume(json!({}), Value::Null), &topology("a", "")).unwrap();
    assert_eq!(
        found["metadata"]["labels"],
        json!({LABEL_ZONE: "a"}),
        "a cloud without regions"
    );
}

#[test]
fn conflict_with_a_label_of_the_user_is_reported_and_nothing_changed() {
    let hint = "correct the label or remove it";
    let table = [
        (
            json!({LABEL_ZONE: "b"}),
            format!("label {LABEL_ZONE} is \"b\", but the cloud says \"a\": {hint}"),
        ),
        (
            json!({LABEL_ZONE: "a__b"}),
            format!("label {LABEL_ZONE} is \"a__b\", but the cloud says \"a\": {hint}"),
        ),
        (
            json!({LABEL_ZONE: ""}),
            format!("label {LABEL_ZONE} is \"\", but the cloud says \"a\": {hint}"),
        ),
        (
            json!({LABEL_REGION_BETA: "s"}),
            format!("label {LABEL_REGION_BETA} is \"s\", but the cloud says \"r\": {hint}"),
        ),
        (
            json!({LABEL_ZONE: "a", LABEL_ZONE_BETA: "b"}),
            format!("label {LABEL_ZONE_BETA} is \"b\", but the cloud says \"a\": {hint}"),
        ),
    ];
    for (labels, expected) in table {
        assert_eq!(
            outcome(&volume(labels.clone(), Value::Null), &topology("a", "r")),
            Err(expected),
            "{labels}"
        );
    }
    let same = volume(json!({LABEL_ZONE: "b__a"}), Value::Null);
    assert!(
        outcome(&same, &topology("a__b", "r")).is_ok(),
        "the order of zones is no difference"
    );
}

#[test]
fn an_affinity_is_a_conflict_only_if_it_leaves_no_node() {
    let here = requires(LABEL_ZONE, "In", &["a", "c"]);
    let there = requires(LABEL_ZONE, "In", &["b"]);
    let table = [
        (json!([term(std::slice::from_ref(&here))]), None),
        (json!([term(std::slice::from_ref(&there))]), Some("In [b]")),
        (
            json!([term(std::slice::from_ref(&there)), term(&[here])]),
            None,
        ),
        (
            json!([term(std::slice::from_ref(&there)), {}]),
            Some("In [b]"),
        ),
        (
            json!([term(&[requires(LABEL_ZONE_BETA, "NotIn", &["a"])])]),
            Some("NotIn [a]"),
        ),
        (
            json!([term(&[requires(LABEL_ZONE, "NotIn", &["b"])])]),
            None,
        ),
        (
            json!([term(&[requires("x", "In", &["y"]), there])]),
            Some("In [b]"),
        ),
        (json!([{}]), None),
    ];
    for (affinity, expected) in table {
        let found = Plan::make(&volume(json!({}), affinity.clone()), &topology("a", "r"));
        let found = found.err().map(|conflicts| conflicts[0].to_string());
        match expected {
            None => assert_eq!(found, None, "{affinity}"),
            Some(demands) => {
                assert!(
                    found.as_ref().is_some_and(|text| text.contains(demands)),
                    "{affinity}: {found:?}"
                );
            }
        }
    }
}

#[test]
fn zones_that_are_too_long_for_a_label_stand_in_the_affinity() {
    let zones: Vec<String> = (0..5)
        .map(|n| format!("very-long-region-name-{n}"))
        .collect();
    let plan = Plan::make(
        &volume(json!({}), Value::Null),
        &topology(&zones.join("__"), "r"),
    )
    .unwrap();
    assert_eq!(plan.labels.keys().collect::<Vec<_>>(), [LABEL_REGION]);
    let affinity = json!(plan.affinity);
    assert_eq!(
        affinity["required"]["nodeSelectorTerms"][0]["matchExpressions"][0]["values"],
        json!(zones)
    );
    assert!(
        plan.note()
            .unwrap()
            .starts_with("label topology.kubernetes.io/zone cannot hold")
    );
}

#[test]
fn only_volumes_that_lack_something_are_open() {
    let bare = || volume(json!({}), Value::Null);
    assert!(is_open(&bare()));
    assert!(
        is_open(&volume(
            json!({LABEL_ZONE: "a", LABEL_REGION: "r"}),
            Value::Null
        )),
        "no affinity"
    );
    let affinity = json!([term(&[requires(LABEL_ZONE, "In", &["a"])])]);
    assert!(
        is_open(&volume(json!({LABEL_ZONE: "a"}), affinity.clone())),
        "no region"
    );
    assert!(
        !is_open(&volume(
            json!({LABEL_ZONE: "a", LABEL_REGION_BETA: "r"}),
            affinity
        )),
        "complete"
    );

    let mut terminating = bare();
    terminating.metadata.deletion_timestamp = Some(
        k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH),
    );
    assert!(!is_open(&terminating));

    let id = VOLUME_PLACEHOLDER;
    for source in [
        json!({"csi": {"driver": "acme", "volumeHandle": id}}),
        json!({"gcePersistentDisk": {"pdName": id}}),
        json!({"awsElasticBlockStore": {"volumeID": id}}),
        json!({"azureDisk": {"diskName": id, "diskURI": "x"}}),
        json!({"cinder": {"volumeID": id}}),
        json!({"vsphereVolume": {"volumePath": id}}),
    ] {
        let volume: PersistentVolume =
            serde_json::from_value(json!({"metadata": {}, "spec": source})).unwrap();
        assert!(!is_open(&volume), "{source}");
    }
}
