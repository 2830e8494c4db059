//! ConfigMap `kube-system/extension-apiserver-authentication`, with the CAs of client certificates and front proxies
//! that the API server trusts (APP-122).

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use runtime::api_error::{api_error, is_not_found};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::options::RequestHeaderOptions;

/// Namespace of the ConfigMap with the front proxy's configuration.
pub const NAMESPACE: &str = "kube-system";
/// Name of the ConfigMap with the front proxy's configuration.
pub const NAME: &str = "extension-apiserver-authentication";

/// Time-out of the lookup while the API server does not respond (D-15).
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(120);
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// Errors of the lookup of the ConfigMap.
#[derive(Debug, thiserror::Error)]
pub enum LookupError {
    /// The identity may not read it.
    #[error(
        "cannot read ConfigMap {NAMESPACE}/{NAME}, which says whose client certificates to trust: {0}; bind Role \
         extension-apiserver-authentication-reader in {NAMESPACE} to this component's identity (kubectl create \
         rolebinding -n {NAMESPACE} NAME --role=extension-apiserver-authentication-reader \
         --serviceaccount=NAMESPACE:ACCOUNT), or start with --authentication-skip-lookup or \
         --authentication-tolerate-lookup-failure"
    )]
    Forbidden(String),
    /// The API server does not accept the identity of the request.
    #[error(
        "cannot read ConfigMap {NAMESPACE}/{NAME}, which says whose client certificates to trust: the API server does not \
         accept this component's credential: {0}; renew the token or certificate in --authentication-kubeconfig (in a Pod: \
         its service account), or start with --authentication-skip-lookup"
    )]
    Unauthenticated(String),
    /// The API server did not return the ConfigMap within the timeout.
    #[error(
        "cannot read ConfigMap {NAMESPACE}/{NAME} of the Kubernetes API server within {} s: {problem}; check the \
         server's address, the network and the DNS, or start with --authentication-tolerate-lookup-failure",
        timeout.as_secs()
    )]
    Unreachable {
        /// Time for which the lookup was retried.
        timeout: Duration,
        /// Error of the last attempt.
        problem: String,
    },
    /// The process is stopping.
    #[error("stopped while waiting for the Kubernetes API server")]
    Stopped,
}

/// Reads the ConfigMap; `None` if it does not exist.
///
/// If the API server does not respond, the read is retried with a pause that grows to 15 s, for up to 2 minutes; each
/// attempt is one line in the log.
///
/// # Errors
/// [`LookupError`]; a refusal is one at once.
pub async fn read(
    client: &Client,
    shutdown: &CancellationToken,
) -> Result<Option<ConfigMap>, LookupError> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let deadline = Instant::now() + LOOKUP_TIMEOUT;
    let mut pause = FIRST_PAUSE;
    loop {
        let answer = tokio::select! {
            () = shutdown.cancelled() => return Err(LookupError::Stopped),
            answer = api.get(NAME) => answer,
        };
        let error = match answer {
            Ok(found) => return Ok(Some(found)),
            Err(error) if is_not_found(&error) => return Ok(None),
            Err(error) => error,
        };
        let problem = api_error(&error).to_string();
        match refusal(&error) {
            Some(403) => return Err(LookupError::Forbidden(problem)),
            Some(_) => return Err(LookupError::Unauthenticated(problem)),
            None => {}
        }
        if Instant::now() + pause > deadline {
            return Err(LookupError::Unreachable {
                timeout: LOOKUP_TIMEOUT,
                problem,
            });
        }
        tracing::warn!(problem, again_in = ?pause, "waiting for the Kubernetes API server, to read ConfigMap {NAMESPACE}/{NAME}");
        tokio::select! {
            () = shutdown.cancelled() => return Err(LookupError::Stopped),
            () = sleep(pause) => pause = (pause * 2).min(LONGEST_PAUSE),
        }
    }
}

/// Returns the HTTP status of an error that a retry cannot fix: 401 or 403.
fn refusal(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) if matches!(status.code, 401 | 403) => Some(status.code),
        _ => None,
    }
}

/// Authorities and headers in the ConfigMap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// PEM of the authorities for users.
    pub(super) client_ca: Option<String>,
    /// PEM of the authorities for front proxies, and their headers.
    pub(super) proxy: Option<(String, RequestHeaderOptions)>,
}

impl Found {
    /// Reads the keys that are there.
    ///
    /// # Errors The key that is invalid, and the problem.
    pub(super) fn parse(data: &BTreeMap<String, String>) -> Result<Self, String> {
        let text = |key: &str| {
            data.get(key)
                .filter(|text| !text.trim().is_empty())
                .cloned()
        };
        let list = |key: &str| match data.get(key).filter(|text| !text.trim().is_empty()) {
            None => Ok(Vec::new()),
            Some(text) => serde_json::from_str::<Vec<String>>(text)
                .map_err(|error| format!("key {key} is no JSON list of strings: {error}")),
        };
        let proxy = match text("requestheader-client-ca-file") {
            None => None,
            Some(pem) => {
                let headers = RequestHeaderOptions {
                    client_ca_file: None,
                    allowed_names: list("requestheader-allowed-names")?,
                    username_headers: list("requestheader-username-headers")?,
                    uid_headers: list("requestheader-uid-headers")?,
                    group_headers: list("requestheader-group-headers")?,
                    extra_prefixes: list("requestheader-extra-headers-prefix")?,
                };
                Some((pem, headers))
            }
        };
        Ok(Self {
            client_ca: text("client-ca-file"),
            proxy,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn every_key_is_optional() {
        assert_eq!(Found::parse(&data(&[])), Ok(Found::default()));
        let only = data(&[
            ("client-ca-file", "PEM"),
            ("requestheader-allowed-names", "broken but of no interest"),
        ]);
        let found = Found::parse(&only).unwrap();
        assert_eq!(
            (found.client_ca.as_deref(), found.proxy),
            (Some("PEM"), None)
        );
    }

    #[test]
    fn lists_are_json() {
        let full = data(&[
            ("requestheader-client-ca-file", "PEM"),
            ("requestheader-allowed-names", r#"["front-proxy-client"]"#),
            ("requestheader-username-headers", r#"["X-Remote-User"]"#),
            ("requestheader-uid-headers", "[]"),
            ("requestheader-group-headers", r#"["X-Remote-Group"]"#),
            (
                "requestheader-extra-headers-prefix",
                r#"["X-Remote-Extra-"]"#,
            ),
        ]);
        let (pem, headers) = Found::parse(&full).unwrap().proxy.unwrap();
        assert_eq!(
            (pem.as_str(), headers.allowed_names),
            ("PEM", vec!["front-proxy-client".to_owned()])
        );
        assert_eq!(headers.username_headers, ["X-Remote-User"]);
        assert!(headers.uid_headers.is_empty());
        let mut broken = full;
        broken.insert(
            "requestheader-group-headers".into(),
            "x-remote-group".into(),
        );
        let text = Found::parse(&broken).unwrap_err();
        assert!(
            text.starts_with("key requestheader-group-headers is no JSON list"),
            "{text}"
        );
    }
}
