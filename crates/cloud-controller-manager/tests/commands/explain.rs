//! Tests of `explain` as a user runs it: a real process, and a Kubernetes API and a cloud on loopback.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::served::{Served, text};

/// The page that lists the permissions.
const PAGE: &str = include_str!("../../../../docs/explain.md");

fn explain(served: &Served, arguments: &str) -> (i32, String, String) {
    let arguments: Vec<&str> = arguments
        .split(' ')
        .chain(["--cluster-cidr=10.244.0.0/16"])
        .collect();
    let output = served.run(Some("explain"), &arguments);
    (
        output.status.code().unwrap(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

/// Returns a cluster with a Node and a Service that no manager has handled yet.
fn untouched() -> Served {
    let served = Served::start();
    served.seed_untouched_objects("shop");
    served
}

/// Returns the pairs of verb and resource that the page's role allows.
fn documented() -> BTreeSet<(String, String)> {
    let list = |line: &str, key: &str| -> Vec<String> {
        let rest = line
            .split_once(&format!("{key}: ["))
            .map(|(_, rest)| rest)
            .unwrap_or_default();
        let items = rest
            .split_once(']')
            .map(|(items, _)| items)
            .unwrap_or_default();
        items
            .split(", ")
            .filter(|item| !item.is_empty())
            .map(str::to_owned)
            .collect()
    };
    let rules = PAGE
        .lines()
        .filter(|line| line.trim_start().starts_with("- {apiGroups"));
    rules
        .flat_map(|rule| {
            let verbs = list(rule, "verbs");
            list(rule, "resources")
                .into_iter()
                .flat_map(move |resource| {
                    verbs
                        .clone()
                        .into_iter()
                        .map(move |verb| (verb, resource.clone()))
                })
        })
        .collect()
}

#[test]
fn an_object_is_explained_on_one_screen_and_nothing_is_changed() {
    let served = untouched();
    let revision = served.api.revision();
    let (code, stdout, stderr) = explain(&served, "service shop/web");
    assert_eq!((code, stderr.as_str()), (2, ""), "{stdout}");
    for part in [
        "Service shop/web (cloud provider simulated, cluster kubernetes)\n",
        "  NobodyLeads: ",
        "  NotWorkedOnYet, since ",
        "\nKubernetes:\n",
        "cloud       create  load balancer",
        "\nAlso claimed by:\n  nobody\n",
    ] {
        assert!(stdout.contains(part), "{part:?} is missing in:\n{stdout}");
    }
    assert!(stdout.lines().count() <= 50, "one screen:\n{stdout}");
    let (code, stdout, _) = explain(&served, "svc/web -n shop --output=json");
    let value: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(
        (code, &value["version"], &value["exitCode"]),
        (2, &json!(1), &json!(2))
    );
    assert_eq!(value["causes"][0]["state"], "NobodyLeads");
    let (code, stdout, stderr) = explain(&served, "node worker-1");
    assert_eq!((code, stderr.as_str()), (2, ""), "{stdout}");
    assert!(
        stdout.contains("  Uninitialized, since ") && stdout.contains("Machine:  "),
        "{stdout}"
    );

    assert_eq!(served.api.revision(), revision);
    assert_eq!(
        served.api.requests().writes().len(),
        0,
        "no write reached the API server"
    );
    let changes = served
        .cloud
        .requests()
        .into_keys()
        .filter(|route| !route.starts_with("GET "))
        .collect::<Vec<_>>();
    assert_eq!(changes, [""; 0], "no change was asked of the cloud");
    let sent: BTreeSet<_> = served
        .api
        .requests()
        .all()
        .into_iter()
        .map(|request| (request.verb.to_owned(), request.resource))
        .collect();
    let documented = documented();
    let undocumented: Vec<_> = sent.difference(&documented).collect();
    assert!(
        undocumented.is_empty(),
        "not in the role of docs/explain.md: {undocumented:?}"
    );
}

#[test]
fn explain_of_a_missing_object_ends_with_1() {
    let served = untouched();
    let (code, stdout, stderr) = explain(&served, "service shop/api");
    assert_eq!((code, stderr.as_str()), (1, ""), "{stdout}");
    assert!(
        stdout.contains("There is no Service shop/api in the API."),
        "{stdout}"
    );
    for (arguments, error) in [
        (
            "pod web",
            "\"pod\" cannot be explained; write `explain node NAME`",
        ),
        ("node", "no name is given; write"),
        (
            "node worker-1 --output=yaml",
            "\"yaml\" is not one of text, json",
        ),
        ("node worker-1 --outputs=json", "did you mean --output?"),
    ] {
        let (code, stdout, stderr) = explain(&served, arguments);
        assert_eq!((code, stdout.as_str()), (1, ""), "{arguments}");
        assert!(stderr.contains(error), "{arguments}: {stderr}");
    }
    let (code, stdout, stderr) = explain(
        &served,
        "node worker-1 --output=json --master=http://127.0.0.1:1",
    );
    let value: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(
        (code, stderr.as_str(), &value["exitCode"]),
        (1, "", &json!(1))
    );
    assert!(
        value["errors"][0]
            .as_str()
            .unwrap()
            .contains("gave no answer"),
        "{stdout}"
    );
}

#[test]
fn explain_without_the_cloud_describes_the_cluster() {
    let served = untouched();
    std::fs::write(
        served.path("cloud.yaml"),
        "endpoint: http://127.0.0.1:1\ntoken: t\n",
    )
    .unwrap();
    let (code, stdout, stderr) = explain(&served, "service shop/web");
    assert_eq!((code, stderr.as_str()), (1, ""), "{stdout}");
    assert!(
        stdout.contains("CloudUnreachable: ") && stdout.contains("check endpoint"),
        "{stdout}"
    );
    assert!(stdout.contains("80/TCP → 30080"), "{stdout}");
}
