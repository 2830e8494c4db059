//! Not yet.
use crate::{request::Request, server::Inner, status::ApiError};
use axum::body::Body;
use http::Response;
use std::sync::Arc;
pub(crate) fn answer(_inner: &Arc<Inner>, _request: &Request) -> Option<Result<Response<Body>, ApiError>> {
    None
}
