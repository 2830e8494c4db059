//! Handler of the verb `get`.

use axum::body::Body;
use http::Response;

use super::Call;
use super::list::check_not_in_the_future;
use crate::status::ApiError;

pub(super) fn get(call: &Call<'_>) -> Result<Response<Body>, ApiError> {
    check_not_in_the_future(call)?;
    let stored = call.existing()?;
    Ok(call.answer(200, &stored, &[]))
}
