//! Explanations of real errors: each was produced by what it is about.
//!
//! Rules: P-37, P-40.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use embedded_apiserver::{Action, ApiServer, Certificate, Matcher, Options, kubeconfig};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use manager::diagnosis::{Cause, Origin, Situation, TlsProblem, explain};
use runtime::client::{ClientOptions, NoRequestMetrics, connect};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Returns the error of asking for a namespace with this kubeconfig, and the situation that is found for it.
async fn failure(text: &str) -> (kube::Error, Situation) {
    failure_within(Duration::from_secs(60), text).await
}

async fn failure_within(limit: Duration, text: &str) -> (kube::Error, Situation) {
    manager::install_crypto();
    let directory = TempDir::with_prefix("ccm-diagnosis-").expect("a directory");
    let path: PathBuf = directory.path().join("kubeconfig");
    std::fs::write(&path, text).expect("a file");
    let options = ClientOptions {
        kubeconfig: Some(path),
        request_timeout: Some(limit),
        ..ClientOptions::default()
    };
    let client = connect(&options, "test", Arc::new(NoRequestMetrics))
        .await
        .expect("a client");
    let error = Api::<Namespace>::all(client)
        .get("kube-system")
        .await
        .expect_err("it cannot work");
    (error, Situation::find(&options))
}

/// Starts a server on loopback; returns its URL, and the guard that stops it.
async fn serve(server: ApiServer, certificate: Option<Certificate>) -> (String, DropGuard) {
    manager::install_crypto();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let scheme = if certificate.is_some() {
        "https"
    } else {
        "http"
    };
    let url = format!("{scheme}://{}", listener.local_addr().expect("bound"));
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    tokio::spawn(async move {
        match certificate {
            Some(certificate) => server
                .serve_tls(listener, &certificate, stopped)
                .await
                .expect("a certificate"),
            None => server.serve_tcp(listener, stopped).await,
        }
    });
    (url, stop.drop_guard())
}

fn assert_explained(error: &kube::Error, situation: &Situation, cause: &Cause, parts: &[&str]) {
    assert_eq!(Cause::of(error), *cause, "{error:?}");
    let text = explain(error, situation);
    for part in parts {
        assert!(text.contains(part), "{part:?} is missing in: {text}");
    }
    assert!(
        !text.contains('\n') && !text.ends_with('.'),
        "one paragraph that others can go on with: {text}"
    );
}

fn in_pod(server: &str) -> Situation {
    Situation {
        server: server.to_owned(),
        origin: Origin::Pod,
        ..Situation::default()
    }
}

#[tokio::test]
async fn nobody_listens() {
    let (error, situation) = failure(&kubeconfig("http://127.0.0.1:1", None, None)).await;
    let parts = [
        "nothing listens at http://127.0.0.1:1 (from the kubeconfig ",
        "host, port and the firewalls",
    ];
    assert_explained(&error, &situation, &Cause::Refused, &parts);
    // In a Pod it matters which address that is.
    let parts = [
        "tried for 120 s",
        "kube-proxy",
        "KUBERNETES_SERVICE_HOST=127.0.0.1",
        "KUBERNETES_SERVICE_PORT=6443",
    ];
    let service = in_pod("https://10.96.0.1:443").tried_for(Duration::from_secs(120));
    assert_explained(&error, &service, &Cause::Refused, &parts);
    assert_explained(
        &error,
        &in_pod("https://127.0.0.1:6443"),
        &Cause::Refused,
        &["only on control-plane nodes"],
    );
}

#[tokio::test]
async fn the_name_does_not_resolve() {
    let (error, situation) =
        failure(&kubeconfig("https://api.example.invalid:6443", None, None)).await;
    let situation = Situation {
        resolvers: vec!["10.96.0.10".into()],
        ..situation
    };
    let parts = [
        "\"api.example.invalid\"",
        "asked 10.96.0.10, from /etc/resolv.conf",
        "dnsPolicy: Default",
        "hostNetwork",
    ];
    // On a machine without a network the message differs; the cause is the name all the same.
    assert_explained(&error, &situation, &Cause::Dns, &parts);
}

#[tokio::test]
async fn the_certificate_is_not_of_the_ca_that_is_trusted() {
    let names = ["127.0.0.1"];
    let shown = Certificate::self_signed(&names).expect("one");
    let trusted = Certificate::self_signed(&names).expect("another");
    let (url, _stop) = serve(ApiServer::new(), Some(shown)).await;
    let (error, situation) = failure(&kubeconfig(&url, Some(&trusted), None)).await;
    let cause = Cause::Tls(TlsProblem::UnknownIssuer);
    assert_explained(
        &error,
        &situation,
        &cause,
        &[
            "not signed by the CA that this process trusts",
            "certificate-authority",
        ],
    );
    assert_explained(&error, &in_pod(&url), &cause, &["serviceaccount/ca.crt"]);
}

#[tokio::test]
async fn the_certificate_is_for_another_name() {
    let certificate = Certificate::self_signed(&["other.example.com"]).expect("a certificate");
    let trusted = kubeconfig("https://URL", Some(&certificate), None);
    let (url, _stop) = serve(ApiServer::new(), Some(certificate)).await;
    let (error, situation) = failure(&trusted.replace("https://URL", &url)).await;
    let parts = ["is for other names", "other.example.com", "tls-server-name"];
    assert_explained(
        &error,
        &situation,
        &Cause::Tls(TlsProblem::WrongName),
        &parts,
    );
}

#[tokio::test]
async fn the_server_speaks_no_tls() {
    let (url, _stop) = serve(ApiServer::new(), None).await;
    let (error, situation) =
        failure(&kubeconfig(&url.replace("http:", "https:"), None, None)).await;
    assert_explained(
        &error,
        &situation,
        &Cause::Tls(TlsProblem::PlainHttp),
        &["does not speak TLS", "Check scheme and port"],
    );
}

#[tokio::test]
async fn nobody_answers_in_time_or_the_server_is_busy_or_forbids() {
    let server = ApiServer::new();
    let (url, _stop) = serve(server.clone(), None).await;
    let text = kubeconfig(&url, None, None);
    let rule = server.faults().add(Matcher::any(), Action::Hang);
    let (error, situation) = failure_within(Duration::from_millis(300), &text).await;
    assert_explained(
        &error,
        &situation,
        &Cause::TimedOut,
        &["gave no answer", "firewalls"],
    );
    server.faults().remove(rule);
    for (code, reason, cause, part) in [
        (
            403,
            "Forbidden",
            Cause::Forbidden,
            "`cloud-controller-manager doctor` lists all that are missing",
        ),
        (500, "InternalError", Cause::Busy(500), "/readyz?verbose"),
    ] {
        let reason = reason.to_owned();
        let message = "no".to_owned();
        let rule = server.faults().add(
            Matcher::any(),
            Action::Status {
                code,
                reason,
                message,
                retry_after_seconds: None,
            },
        );
        let (error, situation) = failure(&text).await;
        assert_explained(&error, &situation, &cause, &[part]);
        server.faults().remove(rule);
    }
}

#[tokio::test]
async fn the_credential_is_not_known() {
    let options = Options {
        require_token: true,
        ..Options::default()
    };
    let (url, _stop) = serve(ApiServer::with_options(options), None).await;
    let (error, situation) = failure(&kubeconfig(&url, None, Some("expired"))).await;
    assert_explained(
        &error,
        &situation,
        &Cause::Unauthorized,
        &["does not know who asks (401)", "create a new one", "clock"],
    );
    assert_explained(
        &error,
        &in_pod(&url),
        &Cause::Unauthorized,
        &["serviceaccount/token", "restart the Pod"],
    );
    assert!(
        !explain(&error, &situation).contains("\"expired\""),
        "no secret"
    );
}

#[tokio::test]
async fn something_else_answers() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    let page = axum::Router::new().fallback(async || "<html>welcome</html>");
    tokio::spawn(async move { axum::serve(listener, page).await });
    let (error, situation) = failure(&kubeconfig(&url, None, None)).await;
    assert_explained(
        &error,
        &situation,
        &Cause::NotAnApi,
        &["is no Kubernetes API server", "Check scheme, host and port"],
    );
}
