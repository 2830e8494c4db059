//! Tests of `plan`, `orphans` and the checks at start as a user runs them: a real process, and a Kubernetes API and a
//! cloud on loopback.
//!
//! Rules: FLAG-21, P-31.

use provider_simulated::cloud::LoadBalancerSpec;
use serde_json::{Value, json};

use crate::served::{Served, text};

fn plan(served: &Served, flags: &[&str]) -> (i32, String, String) {
    let output = served.run(
        Some("plan"),
        &[&["--cluster-cidr=10.244.0.0/16"], flags].concat(),
    );
    (
        output.status.code().unwrap(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

#[test]
fn the_exit_code_says_whether_there_is_anything_to_do_and_nothing_is_changed() {
    let served = Served::start();
    let (code, stdout, stderr) = plan(&served, &[]);
    assert_eq!(
        (code, stdout.as_str(), stderr.as_str()),
        (0, "Nothing to do: 0 Nodes, 0 Routes, 0 Services.\n", "")
    );

    served.seed_untouched_objects("default");
    let revision = served.api.revision();
    let (code, stdout, stderr) = plan(&served, &[]);
    assert_eq!((code, stderr.as_str()), (2, ""), "{stdout}");
    for part in [
        "Node worker-1\n  kubernetes  create  provider id",
        "cloud       create  route",
        "Service default/web\n",
    ] {
        assert!(stdout.contains(part), "{part:?} is missing in:\n{stdout}");
    }
    assert!(
        stdout.trim_end().ends_with("Nothing was changed."),
        "{stdout}"
    );

    let (code, stdout, _) = plan(&served, &["--output=json", "--controllers=*,-service"]);
    let value: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((code, &value["version"]), (2, &json!(1)));
    assert!(
        value["objects"]
            .as_array()
            .unwrap()
            .iter()
            .all(|object| object["kind"] != "Service")
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
}

#[test]
fn plan_that_cannot_be_made_says_what_to_do() {
    let served = Served::start();
    let missing = served.run(Some("plan"), &[]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(
        text(&missing.stderr).contains("--configure-cloud-routes=false"),
        "{}",
        text(&missing.stderr)
    );
    let (code, stdout, stderr) = plan(&served, &["--output=yaml"]);
    assert_eq!((code, stdout.as_str()), (1, ""));
    assert_eq!(
        stderr,
        "Error: invalid argument \"yaml\" for \"--output\" flag: \"yaml\" is not one of text, json\n"
    );
    let (code, _, stderr) = plan(&served, &["--outputs=json"]);
    assert_eq!(code, 1);
    assert!(
        stderr.contains("unknown flag: --outputs; did you mean --output?"),
        "{stderr}"
    );
    assert!(
        stderr.contains("cloud-controller-manager plan --help"),
        "{stderr}"
    );
    let (code, _, stderr) = plan(&served, &["--master=http://127.0.0.1:1"]);
    assert_eq!(code, 1);
    assert!(
        stderr.contains("the Kubernetes API server gave no answer; check its address"),
        "{stderr}"
    );
    std::fs::write(
        served.path("cloud.yaml"),
        "endpoint: http://127.0.0.1:1\ntoken: t\n",
    )
    .unwrap();
    let (code, _, stderr) = plan(&served, &[]);
    assert_eq!(code, 1);
    assert!(
        stderr.contains("cannot start") && stderr.contains("check endpoint"),
        "{stderr}"
    );
}

#[test]
fn a_start_without_the_ranges_of_the_cluster_fails_at_once_and_names_the_flag() {
    let served = Served::start();
    for flags in [
        &[][..],
        &["--cluster-cidr=10.244.0.0"],
        &["--cluster-cidr=10.0.0.0/8,11.0.0.0/8"],
    ] {
        let output = served.run(None, &[&["--secure-port=0"], flags].concat());
        // The exit code of the Go program, but before any request is sent and the lease is acquired (FLAG-21).
        assert_eq!(output.status.code(), Some(255));
        let stderr = text(&output.stderr);
        assert!(
            stderr.contains("--cluster-cidr=\"")
                && stderr.contains("--configure-cloud-routes=false"),
            "{stderr}"
        );
    }
    assert_eq!(served.api.requests().all().len(), 0, "nobody was asked");
}

/// Returns a load balancer with the owner tags of this Service.
fn tagged(name: &str, cluster: &str, service: &str) -> LoadBalancerSpec {
    let labels = [("ccm-rs/cluster", cluster), ("ccm-rs/service", service)];
    let labels = labels
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
    LoadBalancerSpec {
        name: name.to_owned(),
        labels,
        ..LoadBalancerSpec::default()
    }
}

#[test]
fn orphans_are_listed_and_deleted_only_after_a_confirmation() {
    let served = Served::start();
    let orphans = |flags: &[&str]| {
        let output = served.run(Some("orphans"), flags);
        (
            output.status.code().unwrap(),
            text(&output.stdout),
            text(&output.stderr),
        )
    };
    let (code, stdout, stderr) = orphans(&[]);
    let none = "No orphans of cluster \"kubernetes\" in cloud \"simulated\".\n";
    assert_eq!((code, &*stdout, &*stderr), (0, none, ""));

    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default", "uid": "u-web"},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80, "nodePort": 30080}]},
    });
    served.api.seed(service).unwrap();
    let uid = |object: Option<Value>| {
        object.unwrap()["metadata"]["uid"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let cluster = uid(served.api.get("namespaces", None, "kube-system"));
    let web = uid(served.api.get("services", Some("default"), "web"));
    for (name, cluster, service) in [
        ("web", &*cluster, &*web),
        ("web-2", &*cluster, &*web),
        ("web-3", &*cluster, &*web),
        ("left-1", &*cluster, "dead-1"),
        ("left-2", &*cluster, "dead-2"),
        ("named", "kubernetes", "dead-3"),
        ("theirs", "another-cluster", "dead-4"),
    ] {
        served
            .cloud
            .add_load_balancer(tagged(name, cluster, service));
    }
    let left = || {
        served
            .cloud
            .load_balancers()
            .into_iter()
            .map(|load_balancer| load_balancer.spec.name)
            .collect::<Vec<_>>()
    };
    let ids: Vec<_> = served
        .cloud
        .load_balancers()
        .into_iter()
        .map(|load_balancer| load_balancer.id)
        .collect();

    let (code, stdout, stderr) = orphans(&[]);
    assert_eq!((code, &*stderr), (2, ""), "{stdout}");
    for part in [
        &*format!(
            "load balancer \"left-1\" ({}): can be deleted\n  owner             Service with UID dead-1, which no longer",
            ids[3]
        ),
        "  tier              basic\n",
        "\"named\"",
        "kept: its owner tags name the cluster by its name, \"kubernetes\"",
        "3 orphans of cluster \"kubernetes\" in cloud \"simulated\": 2 can be deleted, 1 kept.\n",
    ] {
        assert!(stdout.contains(part), "{part:?} is missing in:\n{stdout}");
    }
    assert!(
        !stdout.contains("\"web\"") && !stdout.contains("theirs"),
        "{stdout}"
    );

    let (code, _, stderr) = orphans(&["--delete"]);
    assert_eq!((code, left().len()), (1, 7));
    assert_eq!(
        stderr,
        "Error: --delete asks before it deletes, and standard input is no terminal: add --yes\n"
    );
    let (code, _, stderr) = orphans(&["--delete", "--output=json"]);
    assert!(
        code == 1 && stderr.contains("add --yes") && left().len() == 7,
        "{stderr}"
    );
    let (code, _, stderr) = orphans(&["--delete", "--yes", "--only=lb-none"]);
    assert!(
        code == 1 && stderr.contains("--only=lb-none names no orphan") && left().len() == 7,
        "{stderr}"
    );

    let (code, stdout, _) = orphans(&["--delete", "--yes", &format!("--only={}", ids[3])]);
    assert_eq!(
        (code, left()),
        (
            0,
            ["web", "web-2", "web-3", "left-2", "named", "theirs"]
                .map(str::to_owned)
                .to_vec()
        ),
        "{stdout}"
    );
    let ending = format!(
        "load balancer \"left-1\" ({}): deleted\n1 of 1 orphan removed, 0 kept, 0 not deleted.\n",
        ids[3]
    );
    assert!(stdout.ends_with(&ending), "{stdout}");

    served.cloud.protect_load_balancer("left-2", true);
    let (code, stdout, _) = orphans(&["--delete", "--yes", "--output=json"]);
    let value: Value = serde_json::from_str(&stdout).unwrap();
    let states: Vec<_> = value["orphans"]
        .as_array()
        .unwrap()
        .iter()
        .map(|orphan| orphan["state"].as_str().unwrap())
        .collect();
    assert_eq!(
        (code, states, left().len()),
        (1, vec!["failed", "kept"], 6),
        "{stdout}"
    );
    served.cloud.protect_load_balancer("left-2", false);
    let (code, stdout, _) = orphans(&["--delete", "--yes", "--output=json"]);
    let value: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(
        (
            code,
            &value["summary"]["removed"],
            &value["summary"]["kept"]
        ),
        (2, &json!(1), &json!(1)),
        "{stdout}"
    );
    assert_eq!(left(), ["web", "web-2", "web-3", "named", "theirs"]);

    for number in 1..=4 {
        served.cloud.add_load_balancer(tagged(
            &format!("vanished-{number}"),
            &cluster,
            &format!("vanished-{number}"),
        ));
    }
    let (code, stdout, stderr) = orphans(&["--delete", "--yes"]);
    assert!(
        stdout.contains("Note: 5 of 8 resources with owner tags of this cluster have no owner; if the API server was")
    );
    assert!(
        code == 1 && stderr.contains("confirm on a terminal") && left().len() == 9,
        "{stderr}"
    );
    assert_eq!(
        served.api.requests().writes().len(),
        0,
        "no write reached the API server"
    );
}
