//! kubectl itself against the server: `cargo test -p embedded-apiserver --test kubectl -- --ignored`
//! (`KUBECTL` names another binary than the one on `PATH`).

#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

use std::io::Write as _;
use std::process::Stdio;

use embedded_apiserver::{ApiServer, kubeconfig};
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio_util::sync::CancellationToken;

const SERVICE: &str = r#"{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"type": "LoadBalancer", "selector": {"a": "b"}, "ports": [{"port": 80}]}}"#;
const CONFIG: &str =
    r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm"}, "data": {"a": "b"}}"#;

/// A command line, what it reads, and what its output must contain.
const SESSION: [(&str, &str, &str); 31] = [
    ("version", "", "v1.37.2"),
    ("api-resources", "", "leases"),
    ("get nodes", "", "n1     Ready"),
    ("get nodes -o wide", "", "INTERNAL-IP"),
    ("get nodes -o yaml", "", "providerID: sim://1"),
    ("get node n1 -o json", "", "\"kind\": \"Node\""),
    ("get nodes -l zone=a -o name", "", "node/n1"),
    ("get nodes -l zone=b", "", "No resources found"),
    ("describe node n1", "", "ProviderID:"),
    ("label node n1 x=y", "", "labeled"),
    ("annotate node n1 q=r", "", "node/n1 annotate"),
    ("taint node n1 k=v:NoSchedule", "", "tainted"),
    ("taint node n1 k-", "", "untainted"),
    ("cordon n1", "", "cordoned"),
    (
        "patch node n1 -p {\"metadata\":{\"labels\":{\"p\":\"1\"}}}",
        "",
        "patched",
    ),
    (
        "patch node n1 --type=merge -p {\"metadata\":{\"labels\":{\"p\":\"2\"}}}",
        "",
        "patched",
    ),
    (
        "patch node n1 --type=json -p [{\"op\":\"remove\",\"path\":\"/metadata/labels/p\"}]",
        "",
        "patched",
    ),
    ("create -f -", CONFIG, "configmap/cm created"),
    (
        "create configmap other --from-literal=a=b",
        "",
        "configmap/other created",
    ),
    ("create namespace team", "", "namespace/team created"),
    ("apply -f -", SERVICE, "service/web created"),
    ("apply -f -", SERVICE, "service/web unchanged"),
    (
        "apply --server-side --field-manager=me --force-conflicts -f -",
        CONFIG,
        "configmap/cm serverside-applied",
    ),
    ("get services -A", "", "<pending>"),
    ("describe service web", "", "LoadBalancer"),
    ("get all", "", "service/web"),
    ("auth can-i create nodes", "", "yes"),
    ("explain node.spec.taints", "", "effect"),
    ("delete service web --wait", "", "deleted"),
    ("delete namespace team", "", "deleted"),
    ("delete node n1 --wait", "", "deleted"),
];

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs kubectl on PATH (or KUBECTL); run with --ignored"]
async fn a_session_with_kubectl_works() {
    let server = ApiServer::new();
    let node = json!({
        "kind": "Node", "apiVersion": "v1", "metadata": {"name": "n1", "labels": {"zone": "a"}},
        "spec": {"providerID": "sim://1"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    });
    server.seed(node).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let shutdown = CancellationToken::new();
    let serving = tokio::spawn({
        let server = server.clone();
        let shutdown = shutdown.clone();
        async move { server.serve_tcp(listener, shutdown).await }
    });
    let directory =
        std::env::temp_dir().join(format!("embedded-apiserver-kubectl-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let config = directory.join("kubeconfig");
    std::fs::File::create(&config)
        .unwrap()
        .write_all(kubeconfig(&url, None, None).as_bytes())
        .unwrap();
    for (line, input, wanted) in SESSION {
        let program = std::env::var("KUBECTL").unwrap_or_else(|_| "kubectl".to_owned());
        let mut command = Command::new(program);
        command
            .env("KUBECONFIG", &config)
            .arg("--cache-dir")
            .arg(directory.join("cache"))
            .args(line.split(' '));
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(input.as_bytes())
            .await
            .unwrap();
        let output = child.wait_with_output().await.unwrap();
        let text = format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        assert!(
            output.status.success() && text.contains(wanted),
            "kubectl {line}: {text}"
        );
    }
    std::fs::remove_dir_all(&directory).unwrap();
    shutdown.cancel();
    serving.await.unwrap();
}
