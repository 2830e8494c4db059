//! Tests of `doctor` as a user runs it: a real process, and a Kubernetes API and a cloud on loopback.

use std::path::Path;

use provider_simulated::cloud::DEFAULT_TOKEN;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::served::{Served, run, text};

fn doctor(directory: &Path, flags: &[&str]) -> (i32, String, String) {
    let output = run(
        directory,
        Some("doctor"),
        &[&["--cluster-cidr=10.128.0.0/9"], flags].concat(),
    );
    (
        output.status.code().unwrap(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

#[test]
fn the_exit_code_says_whether_something_fails_and_nothing_is_changed() {
    let served = Served::start();
    let Served { api, cloud, .. } = &served;
    let revision = api.revision();

    let (code, stdout, stderr) = doctor(served.directory(), &[]);
    assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
    for part in [
        "ok    api: http://127.0.0.1:",
        "ok    clock: equal to the API server's\n",
        "ok    cloud token: ",
    ] {
        assert!(stdout.contains(part), "{part:?} is missing in:\n{stdout}");
    }
    assert!(
        stdout.contains("warn  lease: kube-system/cloud-controller-manager does not exist"),
        "{stdout}"
    );

    cloud.revoke_token(DEFAULT_TOKEN);
    let (code, stdout, stderr) = doctor(
        served.directory(),
        &["--output=json", "--leader-elect=false"],
    );
    assert_eq!((code, stderr.as_str()), (1, ""), "{stdout}");
    let value: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(
        (&value["version"], &value["summary"]["exitCode"]),
        (&json!(1), &json!(1))
    );
    let failed: Vec<_> = value["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|finding| finding["severity"] == "failure")
        .collect();
    assert_eq!(failed.len(), 1, "{stdout}");
    assert_eq!(failed[0]["check"], "cloud token");
    assert!(!stdout.contains(DEFAULT_TOKEN), "no secret");

    assert_eq!(api.revision(), revision);
}

#[test]
fn doctor_without_a_kubeconfig_checks_the_rest() {
    let directory = TempDir::with_prefix("ccm-doctor-").unwrap();
    let (code, stdout, stderr) = doctor(directory.path(), &[]);
    assert_eq!((code, stderr.as_str()), (1, ""));
    assert!(
        stdout.starts_with("FAIL  kubeconfig: cannot use the kubeconfig "),
        "{stdout}"
    );
    assert!(
        stdout.contains("FAIL  cloud configuration: couldn't open cloud provider configuration"),
        "{stdout}"
    );
    let (code, stdout, stderr) = doctor(directory.path(), &["--output=yaml"]);
    assert_eq!((code, stdout.as_str()), (1, ""));
    assert!(
        stderr.contains("\"yaml\" is not one of text, json"),
        "{stderr}"
    );
}
