//! Middleware that authenticates and authorizes each request, and answers 401 or 403 otherwise (APP-106).

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::StatusCode;

use super::Access;
use crate::answer::refusal;
use crate::quote::shortened;
use crate::server::Peer;

pub(super) async fn guard(
    State(access): State<Access>,
    mut request: Request,
    next: Next,
) -> Response {
    let certificates = request
        .extensions()
        .get::<Peer>()
        .map(|peer| peer.certificates.clone())
        .unwrap_or_default();
    let Ok(user) = access
        .0
        .authentication
        .user(&certificates, request.headers_mut())
        .await
    else {
        return refusal(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized");
    };
    let verb = request.method().as_str().to_ascii_lowercase();
    let path = request.uri().path();
    if !access.0.authorization.allows(&user, &verb, path).await {
        // User name and path are chosen by the caller, so they are shortened before they are held in memory.
        let name = shortened(&user.name);
        let path = shortened(path);
        let message = format!("forbidden: User {name:?} cannot {verb} path {path:?}");
        return refusal(StatusCode::FORBIDDEN, "Forbidden", &message);
    }
    request.extensions_mut().insert(user);
    next.run(request).await
}
