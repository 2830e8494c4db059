//! Errors of requests that got no answer, with the method and the URL.

use std::error::Error;
use std::fmt;

use http::{Method, Request};
use kube::Client;
use kube::client::Body;
use tower::service_fn;

use super::redacted_errors::redact;
use crate::api_error::api_error;

/// Error for a request that the API server at this URL did not answer.
#[derive(Debug)]
struct Unanswered {
    method: Method,
    url: String,
    source: kube::Error,
}

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {}: {}",
            self.method,
            self.url,
            api_error(&self.source)
        )
    }
}

impl Error for Unanswered {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.source)
    }
}

/// Returns a client whose errors name method and URL of a request that was not answered. `server`: the URL that `below`
/// sends requests to, without user and password. Queries are left out.
pub(super) fn naming_urls(below: Client, server: &str) -> Client {
    let namespace = below.default_namespace().to_owned();
    let server = server.trim_end_matches('/').to_owned();
    let service = service_fn(move |request: Request<Body>| {
        let below = below.clone();
        let server = server.clone();
        let method = request.method().clone();
        let uri = request.uri().clone();
        async move {
            below
                .send(request)
                .await
                .map_err(|error| match redact(error) {
                    // Errors of the credential, and responses, are not about the connection.
                    error @ (kube::Error::Auth(_) | kube::Error::Api(_)) => error,
                    source => kube::Error::Service(
                        Unanswered {
                            method,
                            url: format!("{server}{}", uri.path()),
                            source,
                        }
                        .into(),
                    ),
                })
        }
    });
    Client::new(service, namespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn error_of_an_unanswered_request_names_method_and_url_once() {
        let refused =
            || std::io::Error::new(std::io::ErrorKind::ConnectionRefused, "connection refused");
        let below =
            service_fn(
                move |_: Request<Body>| async move { Err::<http::Response<Body>, _>(refused()) },
            );
        let client = naming_urls(Client::new(below, "default"), "https://10.0.0.1:6443/");
        let error = client
            .request_text(
                Request::get("/api/v1/nodes?limit=500")
                    .body(Vec::new())
                    .unwrap(),
            )
            .await;
        assert_eq!(
            api_error(&error.unwrap_err()).to_string(),
            "GET https://10.0.0.1:6443/api/v1/nodes: connection refused"
        );
    }
}
