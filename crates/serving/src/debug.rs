//! `/debug/pprof/` and `/debug/flags`: for humans (APP-102, APP-103, APP-108).

mod encoding;
pub mod profile;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Extension, Path, RawQuery, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use bytes::Bytes;
use http::{Method, StatusCode, header};

use crate::answer::text;
use crate::quote::shortened;
use crate::server::RequestTimeout;

/// Sets the verbosity of the log (`-v`).
///
/// # Errors
/// Why not.
pub type SetVerbosity = Arc<dyn Fn(i32) -> Result<(), String> + Send + Sync>;

/// Default duration of a profile.
const DEFAULT_SECONDS: u64 = 30;
/// Longest duration of a profile; a longer one is a mistake.
const MOST_SECONDS: u64 = 600;

const INDEX: &str = "\
/debug/pprof/

profile    CPU profile in pprof format; ?seconds=N chooses its length, 30 if not given

    curl -o cpu.pb 'https://HOST:PORT/debug/pprof/profile?seconds=10'
    go tool pprof -top PROGRAM cpu.pb

Heap, goroutine and other profiles of Go programs do not exist here.
";

/// Returns the routes, for a server whose callers are authorised: only with `--profiling`.
///
/// ```
/// use std::sync::Arc;
/// let _routes = serving::debug::routes(Arc::new(|verbosity| {
///     println!("from now on -v={verbosity}");
///     Ok(())
/// }));
/// ```
pub fn routes(set_verbosity: SetVerbosity) -> Router {
    Router::new()
        .route("/debug/pprof", get(async || found("/debug/pprof/")))
        .route("/debug/pprof/", get(async || text(StatusCode::OK, INDEX)))
        .route("/debug/pprof/profile", get(cpu_profile))
        .route("/debug/pprof/{name}", any(unknown_profile))
        .route("/debug/flags", get(flags))
        .route("/debug/flags/", get(flags))
        .route("/debug/flags/v", any(verbosity).with_state(set_verbosity))
}

/// Returns a redirect with 302, which axum's redirects lack.
fn found(path: &'static str) -> Response {
    (StatusCode::FOUND, [(header::LOCATION, path)]).into_response()
}

async fn flags() -> Response {
    text(
        StatusCode::OK,
        "/debug/flags/\n\nv    PUT an integer to change the verbosity of the log\n",
    )
}

async fn unknown_profile(Path(name): Path<String>) -> Response {
    // `cmdline` is missing deliberately: a command line may contain confidential values.
    let body = match name.as_str() {
        "cmdline" => "Unknown profile\n".to_owned(),
        _ => format!(
            "Unknown profile {:?}: this program has /debug/pprof/profile only (CPU)\n",
            shortened(&name)
        ),
    };
    text(StatusCode::NOT_FOUND, body)
}

async fn cpu_profile(
    timeout: Option<Extension<RequestTimeout>>,
    RawQuery(query): RawQuery,
) -> Response {
    let seconds = match seconds(query.as_deref().unwrap_or_default()) {
        Ok(seconds) => seconds,
        Err(problem) => return text(StatusCode::BAD_REQUEST, problem + "\n"),
    };
    let length = Duration::from_secs(seconds);
    if let Some(Extension(timeout)) = timeout {
        timeout.extend(length);
    }
    match profile::record(length).await {
        Ok(profile) => {
            let headers = [
                (header::CONTENT_TYPE, "application/octet-stream"),
                (
                    header::CONTENT_DISPOSITION,
                    "attachment; filename=\"profile\"",
                ),
                (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            ];
            (headers, profile).into_response()
        }
        Err(problem) => text(
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("Could not enable CPU profiling: {problem}\n"),
        ),
    }
}

fn seconds(query: &str) -> Result<u64, String> {
    let Some(given) = query
        .split('&')
        .find_map(|pair| pair.strip_prefix("seconds="))
    else {
        return Ok(DEFAULT_SECONDS);
    };
    match given.parse() {
        // Zero means the default, as in the Go cloud-controller-manager.
        Ok(0) => Ok(DEFAULT_SECONDS),
        Ok(seconds) if seconds <= MOST_SECONDS => Ok(seconds),
        _ => Err(format!(
            "seconds={} is no number from 1 to {MOST_SECONDS}",
            shortened(given)
        )),
    }
}

async fn verbosity(State(set): State<SetVerbosity>, method: Method, body: Bytes) -> Response {
    if method != Method::PUT {
        return text(StatusCode::NOT_ACCEPTABLE, "unsupported http method\n");
    }
    let given = String::from_utf8_lossy(&body);
    let failed = |problem: String| {
        text(
            StatusCode::BAD_REQUEST,
            format!("failed to set klog.logging.verbosity: {problem}\n"),
        )
    };
    let Ok(verbosity) = given.trim().parse::<i32>() else {
        return failed(format!("{:?} is no integer", shortened(&given)));
    };
    match set(verbosity) {
        Ok(()) => {
            tracing::info!(verbosity, "the verbosity of the log was changed over HTTP");
            text(
                StatusCode::OK,
                format!("successfully set klog.logging.verbosity to {verbosity}"),
            )
        }
        Err(problem) => failed(problem),
    }
}
