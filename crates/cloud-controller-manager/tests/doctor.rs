//! Tests of `doctor` as a user runs it: a real process, and a Kubernetes API and a cloud on loopback.

#![allow(clippy::unwrap_used)] // helpers are not seen as tests

use std::process::{Command, Output};

use embedded_apiserver::{ApiServer, kubeconfig};
use provider_simulated::cloud::{Cloud, DEFAULT_TOKEN};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

fn doctor(directory: &TempDir, flags: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cloud-controller-manager"));
    command.args(["doctor", "--cloud-provider=simulated", "--cluster-cidr=10.128.0.0/9"]);
    command.arg("--kubeconfig").arg(directory.path().join("kubeconfig"));
    command.arg("--cloud-config").arg(directory.path().join("cloud.yaml"));
    let Output { status, stdout, stderr } = command.args(flags).output().unwrap();
    (status.code().unwrap(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

#[test]
fn the_exit_code_says_whether_something_fails_and_nothing_is_changed() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (api, cloud, shutdown) = (ApiServer::new(), Cloud::default(), CancellationToken::new());
    let directory = TempDir::with_prefix("ccm-doctor-").unwrap();
    runtime.block_on(async {
        let listen = || TcpListener::bind("127.0.0.1:0");
        let (for_api, for_cloud) = (listen().await.unwrap(), listen().await.unwrap());
        let url = |listener: &TcpListener| format!("http://{}", listener.local_addr().unwrap());
        std::fs::write(directory.path().join("kubeconfig"), kubeconfig(&url(&for_api), None, None)).unwrap();
        let config = format!("endpoint: {}\ntoken: {DEFAULT_TOKEN}\n", url(&for_cloud));
        std::fs::write(directory.path().join("cloud.yaml"), config).unwrap();
        let (served, stop) = (api.clone(), shutdown.clone());
        tokio::spawn(async move { served.serve_tcp(for_api, stop).await });
        let (served, stop) = (cloud.clone(), shutdown.clone());
        tokio::spawn(async move { served.serve(for_cloud, stop).await });
    });
    let revision = api.revision();

    let (code, stdout, stderr) = doctor(&directory, &[]);
    assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
    for part in ["ok    api: http://127.0.0.1:", "ok    clock: as the API server's\n", "ok    cloud token: valid"] {
        assert!(stdout.contains(part), "{part:?} is missing in:\n{stdout}");
    }
    assert!(stdout.contains("warn  lease: kube-system/cloud-controller-manager is not there"), "{stdout}");

    cloud.revoke_token(DEFAULT_TOKEN);
    let (code, stdout, stderr) = doctor(&directory, &["--output=json", "--leader-elect=false"]);
    assert_eq!((code, stderr.as_str()), (1, ""), "{stdout}");
    let value: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((&value["version"], &value["summary"]["exitCode"]), (&json!(1), &json!(1)));
    let failed: Vec<_> =
        value["findings"].as_array().unwrap().iter().filter(|it| it["severity"] == "failure").collect();
    assert_eq!(failed.len(), 1, "{stdout}");
    assert_eq!(failed[0]["check"], "cloud token");
    assert!(!stdout.contains(DEFAULT_TOKEN), "no secret");

    shutdown.cancel();
    assert_eq!(api.revision(), revision);
}

#[test]
fn without_a_kubeconfig_the_rest_is_checked() {
    let directory = TempDir::with_prefix("ccm-doctor-").unwrap();
    let (code, stdout, stderr) = doctor(&directory, &[]);
    assert_eq!((code, stderr.as_str()), (1, ""));
    assert!(stdout.starts_with("FAIL  kubeconfig: cannot use the kubeconfig "), "{stdout}");
    assert!(stdout.contains("FAIL  cloud configuration: couldn't open cloud provider configuration"), "{stdout}");
    let (code, stdout, stderr) = doctor(&directory, &["--output=yaml"]);
    assert_eq!((code, stdout.as_str()), (1, ""));
    assert!(stderr.contains("\"yaml\" is not one of text, json"), "{stderr}");
}
