//! From an HTTP failure to an error that says what to do.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use cloud_provider::Error;
use http::{HeaderMap, Response, StatusCode, header};
use serde_json::Value;

use super::Call;

/// A pause after a 429 that names none.
const DEFAULT_PAUSE: Duration = Duration::from_secs(5);
/// Longer pauses than this are not believed: a broken header must not silence the program for a day.
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);
/// Above this, `RateLimit-Reset` is a time, in seconds since 1970, and not a number of seconds.
const EPOCH_SECONDS: u64 = 1_000_000_000;

pub(super) struct Failure {
    pub(super) status: Option<StatusCode>,
    pub(super) error: Error,
    /// For the whole client.
    pub(super) pause: Option<Duration>,
}

impl Failure {
    /// A 429 was not applied; after anything else only an idempotent call may be repeated.
    pub(super) fn may_repeat(&self, call: &Call) -> bool {
        match self.status {
            Some(StatusCode::TOO_MANY_REQUESTS) => true,
            Some(status) => call.idempotent && (status.is_server_error() || status == StatusCode::REQUEST_TIMEOUT),
            None => call.idempotent,
        }
    }
}

pub(super) fn no_answer(call: &Call, cause: &str) -> Failure {
    let error = Error::other(format!("{} was not answered: {cause}", call.place()));
    Failure { status: None, error, pause: None }
}

/// A refusal in an API's own words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The machine-readable word, such as `not_found`; empty if there is none.
    pub code: String,
    /// The sentence for people.
    pub message: String,
}

/// Recognises an API's own error body. `None` for anything else: that tells the API's 404 from a proxy's.
pub type RefusalReader = fn(&HeaderMap, &[u8]) -> Option<Refusal>;

impl Refusal {
    /// The usual shapes: `{"error": {"code", "message"}}`, `{"error": "…"}`, `{"code" or "id", "message"}`,
    /// `{"errors": [{"reason" or "message"}]}`.
    #[must_use]
    pub fn read(_headers: &HeaderMap, body: &[u8]) -> Option<Self> {
        let body: Value = serde_json::from_slice(body).ok()?;
        let first = body.pointer("/errors/0");
        let error = body.get("error").filter(|e| e.is_object()).or(first).unwrap_or(&body);
        let text = |keys: &[&str]| keys.iter().find_map(|key| error.get(*key)?.as_str()).map(str::to_owned);
        let message = text(&["message", "reason", "error"])?;
        Some(Self { code: text(&["code", "id"]).unwrap_or_default(), message })
    }
}

/// What a refusal means beyond its status: an error for the code words that a cloud has for it, such as `protected`, made
/// from the finished text. `None`: what the status means.
pub type Meaning = fn(&Refusal) -> Option<fn(String) -> Error>;

pub(super) fn refused(
    call: &Call,
    answer: &Response<Bytes>,
    reader: RefusalReader,
    meaning: Meaning,
    redact: impl Fn(String) -> String,
) -> Failure {
    let status = answer.status();
    let refusal = reader(answer.headers(), answer.body());
    let said = refusal.as_ref().map_or_else(|| beginning(answer.body()), |r| r.message.clone());
    let colon = if said.is_empty() { "" } else { ": " };
    let text = redact(format!("{} answered {}{colon}{said}", call.place(), status.as_u16()));
    let pause =
        (status == StatusCode::TOO_MANY_REQUESTS).then(|| asked_pause(answer.headers()).unwrap_or(DEFAULT_PAUSE));
    if let Some(error) = refusal.as_ref().and_then(meaning) {
        return Failure { status: Some(status), error: error(text), pause };
    }
    let error = match status.as_u16() {
        401 | 403 => Error::unauthorized(text),
        // A gateway speaks JSON too; only the API itself has a word for it. One without words brings its own reader.
        404 | 410 if refusal.as_ref().is_some_and(|refusal| !refusal.code.is_empty()) => Error::not_found(text),
        404 | 410 => Error::other(format!("{text} (not an answer of this API; is the endpoint right?)")),
        409 | 412 | 423 => Error::conflict(text),
        400 | 422 => Error::invalid(text),
        429 => Error::rate_limited(text, pause.unwrap_or(DEFAULT_PAUSE)),
        _ => Error::other(text),
    };
    Failure { status: Some(status), error, pause }
}

/// The beginning of a body that is no JSON, on one line.
fn beginning(body: &[u8]) -> String {
    String::from_utf8_lossy(&body[..body.len().min(200)]).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `Retry-After` in seconds, else `RateLimit-Reset`.
fn asked_pause(headers: &HeaderMap) -> Option<Duration> {
    let seconds = number(headers, header::RETRY_AFTER.as_str()).or_else(|| reset(headers))?;
    Some(Duration::from_secs(seconds.max(1)).min(LONGEST_PAUSE))
}

/// Requests that are left in the window.
pub(super) fn remaining(headers: &HeaderMap) -> Option<u64> {
    ["ratelimit-remaining", "x-ratelimit-remaining"].iter().find_map(|name| number(headers, name))
}

/// The pause after an answer that used up the last request of the window.
pub(super) fn exhausted(headers: &HeaderMap) -> Option<Duration> {
    let seconds = if remaining(headers)? == 0 { reset(headers)? } else { return None };
    Some(Duration::from_secs(seconds).min(LONGEST_PAUSE))
}

fn reset(headers: &HeaderMap) -> Option<u64> {
    let value = ["ratelimit-reset", "x-ratelimit-reset"].iter().find_map(|name| number(headers, name))?;
    if value < EPOCH_SECONDS {
        return Some(value);
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    Some(value.saturating_sub(now))
}

fn number(headers: &HeaderMap, name: &str) -> Option<u64> {
    headers.get(name)?.to_str().ok()?.trim().parse().ok()
}
