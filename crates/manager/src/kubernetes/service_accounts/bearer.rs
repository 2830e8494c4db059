//! The client layer that adds the token to each request.

use std::sync::Arc;

use http::header::AUTHORIZATION;
use http::{Request, Response, StatusCode};
use kube::Client;
use kube::client::Body;
use tokio::time::Instant;
use tower::{BoxError, service_fn};

use super::token_source::TokenSource;

/// Returns a client over `bare`, which has no credential, that acts as the source's account.
pub(super) fn over(bare: &Client, source: Arc<TokenSource>) -> Client {
    let below = bare.clone();
    let service = service_fn(move |request| send(below.clone(), Arc::clone(&source), request));
    Client::new(service, bare.default_namespace())
}

async fn send(
    below: Client,
    source: Arc<TokenSource>,
    mut request: Request<Body>,
) -> Result<Response<Body>, BoxError> {
    let token = source.token().await?;
    let again = copy(&request);
    request.headers_mut().insert(AUTHORIZATION, token.header());
    let answer = below.send(request).await?;
    if answer.status() != StatusCode::UNAUTHORIZED {
        return Ok(answer);
    }
    source.discard(&token);
    // The server did nothing, so the request may be sent again, once. If the token was just issued, a new one would be
    // rejected as well.
    let Some(mut request) = again.filter(|_| token.lifetime().may_be_outdated(Instant::now()))
    else {
        return Ok(answer);
    };
    tracing::debug!(
        account = source.account().name(),
        "the API server refused the token, requesting a new one"
    );
    request
        .headers_mut()
        .insert(AUTHORIZATION, source.token().await?.header());
    Ok(below.send(request).await?)
}

fn copy(request: &Request<Body>) -> Option<Request<Body>> {
    let mut copy = Request::new(request.body().try_clone()?);
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.version_mut() = request.version();
    *copy.headers_mut() = request.headers().clone();
    *copy.extensions_mut() = request.extensions().clone();
    Some(copy)
}
