//! Read-only access to the Kubernetes API.

use http::{Method, Request, Response};
use kube::api::ListParams;
use kube::client::Body;
use kube::{Api, Client};
use runtime::api_error::api_error;
use runtime::cache::Cached;
use runtime::client::is_too_large;
use tower::{BoxError, service_fn};

use crate::controller_set::Settings;

/// Maximum number of objects per page. The client also limits the size of a page in bytes.
const PAGE: u32 = 500;

/// Returns a client for one component that refuses every write before it is sent.
pub(super) async fn read_only_client(
    settings: &Settings,
    component: &str,
) -> anyhow::Result<Client> {
    Ok(read_only(settings.client(component).await?))
}

/// Returns a client that refuses every request that is not a read, including events, before it is sent.
fn read_only(client: Client) -> Client {
    let namespace = client.default_namespace().to_owned();
    let guarded = service_fn(move |request: Request<Body>| {
        let client = client.clone();
        async move { forward(client, request).await }
    });
    Client::new(guarded, namespace)
}

async fn forward(client: Client, request: Request<Body>) -> Result<Response<Body>, BoxError> {
    if ![Method::GET, Method::HEAD, Method::OPTIONS].contains(request.method()) {
        let method = request.method();
        let path = request.uri().path();
        return Err(format!("{method} {path} is not sent: this subcommand is read-only").into());
    }
    Ok(client.send(request).await?)
}

/// Lists all objects of a kind, page by page.
///
/// # Errors
/// The reason why the objects cannot be listed, and the remedy.
pub(super) async fn list<T: Cached>(client: &Client) -> Result<Vec<T>, String> {
    let api: Api<T::Wire> = Api::all(client.clone());
    let mut objects = Vec::new();
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let page = match api.list(&params).await {
            Err(error) if is_too_large(&error) && params.limit > Some(1) => {
                params.limit = params.limit.map(|limit| limit / 2);
                continue;
            }
            page => page.map_err(|error| {
                let kind = <T::Wire as kube::Resource>::plural(&());
                format!(
                    "cannot list {kind}: {}; the identity needs the verb \"list\" on them",
                    api_error(&error)
                )
            })?,
        };
        objects.extend(page.items.into_iter().map(T::from_wire));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(objects),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[tokio::test]
    async fn read_only_client_sends_only_reads() {
        let sent = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&sent);
        let server = service_fn(move |_: Request<Body>| {
            count.fetch_add(1, Ordering::Relaxed);
            async { Ok::<_, std::convert::Infallible>(Response::new(Body::from(b"{}".to_vec()))) }
        });
        let client = read_only(Client::new(server, "default"));
        let ask = |method: Method| {
            let client = client.clone();
            async move {
                let request = Request::builder()
                    .method(method)
                    .uri("/api/v1/events")
                    .body(Body::empty())
                    .unwrap();
                client
                    .send(request)
                    .await
                    .map(drop)
                    .map_err(|error| api_error(&error).to_string())
            }
        };
        for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
            let error = ask(method.clone()).await.unwrap_err();
            assert!(
                error.contains(&format!("{method} /api/v1/events is not sent")),
                "{error}"
            );
        }
        assert_eq!(sent.load(Ordering::Relaxed), 0);
        ask(Method::GET).await.unwrap();
        assert_eq!(sent.load(Ordering::Relaxed), 1);
    }
}
