//! Generates a kubeconfig for the server.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::tls::Certificate;

/// Returns a kubeconfig for the server at `url` (`http://127.0.0.1:8080`, or `https://…` with its certificate), with a
/// token if the server knows one.
#[must_use]
pub fn kubeconfig(url: &str, certificate: Option<&Certificate>, token: Option<&str>) -> String {
    let authority = certificate
        .map(|certificate| {
            format!(
                "\n    certificate-authority-data: {}",
                STANDARD.encode(certificate.pem())
            )
        })
        .unwrap_or_default();
    // Over TLS, kubectl prompts for a user and password if the kubeconfig's user has no credential.
    let token = token.unwrap_or("embedded");
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: embedded\nclusters:\n- name: embedded\n  cluster:\n    server: {url}{authority}\nusers:\n- name: admin\n  user:\n    token: {token}\ncontexts:\n- name: embedded\n  context:\n    cluster: embedded\n    user: admin\n    namespace: default\n"
    )
}
