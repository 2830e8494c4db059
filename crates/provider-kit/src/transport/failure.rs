//! Conversion of HTTP failures into errors that tell the user what to do.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use cloud_provider::{Error, excerpt};
use http::{HeaderMap, Response, StatusCode, header};
use jiff::fmt::rfc2822::DateTimeParser;
use serde_json::Value;

use super::attempt::Attempt;
use super::{BodyLimit, Call, Refill};

/// The pause after a 429 without a `Retry-After`.
const DEFAULT_PAUSE: Duration = Duration::from_secs(5);
/// The longest pause that is accepted: one broken header must not stop all requests. Afterwards, one request is sent
/// ahead of all others to find out if the cloud answers.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// The longest rate-limit window that is accepted.
const LONGEST_WINDOW: Duration = Duration::from_secs(3600);
/// The value above which `RateLimit-Reset` is a time, in seconds since 1970, and not a number of seconds.
const EPOCH_SECONDS: u64 = 1_000_000_000;
/// The bytes that are read, and the characters that are shown, of a body that is not JSON.
const MOST_READ: usize = 64 << 10;
const MOST_SAID: usize = 200;

/// A failed call, and the consequences for retries and for other calls.
pub(super) struct Failure {
    /// Status of the answer; `None` if there was no answer.
    pub(super) status: Option<StatusCode>,
    pub(super) error: Error,
    /// Pause for the whole client.
    pub(super) pause: Option<Duration>,
    /// Delay for this call only.
    pub(super) delay: Option<Duration>,
    /// Rate limits that the answer reports.
    pub(super) report: RateLimitReport,
    /// If set, the request may have left this process.
    pub(super) sent: bool,
    /// If set, another signature may be accepted.
    pub(super) sign_again: bool,
    repeat: Repeat,
}

#[derive(Clone, Copy, PartialEq)]
enum Repeat {
    Never,
    /// The request may have been applied.
    IfIdempotent,
    /// The request was not applied.
    Always,
}

impl Failure {
    /// Returns the failure of a call that did not leave this process, and will not.
    pub(super) fn not_sent(error: Error) -> Self {
        let report = RateLimitReport::default();
        let sent = false;
        let sign_again = false;
        Self {
            status: None,
            error,
            pause: None,
            delay: None,
            report,
            sent,
            sign_again,
            repeat: Repeat::Never,
        }
    }

    /// Returns the failure of a call that was in flight and must not go on.
    pub(super) fn cut_off(error: Error) -> Self {
        Self {
            sent: true,
            ..Self::not_sent(error)
        }
    }

    pub(super) fn no_answer(call: &Call, cause: &str) -> Self {
        let error = Error::unanswered(format!("{} was not answered: {cause}", call.place()));
        Self {
            repeat: Repeat::IfIdempotent,
            ..Self::cut_off(error)
        }
    }

    /// Returns the failure of a call that got no connection.
    pub(super) fn no_connection(call: &Call, cause: &str) -> Self {
        Self {
            repeat: Repeat::Always,
            sent: false,
            ..Self::no_answer(call, cause)
        }
    }

    pub(super) fn may_repeat(&self, call: &Call) -> bool {
        self.repeat == Repeat::Always || self.repeat == Repeat::IfIdempotent && call.idempotent
    }

    /// Returns `true` if the cloud accepts no more requests for a while.
    pub(super) fn is_throttled(&self) -> bool {
        let throttles = self.pause.is_some() || self.error.is_rate_limited();
        self.status == Some(StatusCode::TOO_MANY_REQUESTS) || self.status.is_some() && throttles
    }
}

/// A refusal, as the API words it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusal {
    /// Machine-readable code, such as `not_found`; empty if there is none.
    pub code: String,
    /// Message in words for people.
    pub message: String,
    /// Details by field, such as `http.timeout_idle: must be at least 30`.
    pub details: Vec<String>,
}

/// Reader of an API's own error body. Returns `None` for any other body, which distinguishes the API's 404 from a
/// proxy's.
pub type RefusalReader = fn(&HeaderMap, &[u8]) -> Option<Refusal>;

impl Refusal {
    /// The code of a refusal without a code in a form that only APIs use: a 404 in that form is the API's own.
    pub const UNSPECIFIED: &'static str = "unspecified";

    /// Reads the common forms: `{"error": {"code", "message"}}`, `{"error": "…"}`, `{"code" or "id", "message"}`,
    /// `{"errors": [{"field", "reason" or "message"}]}`; with `{"details": {"fields": [{"name", "messages"}]}}` beside
    /// the message. A refusal without a code gets the code [`UNSPECIFIED`](Self::UNSPECIFIED), unless it is only
    /// `{"message": "…"}`, which gateways answer too.
    #[must_use]
    pub fn read(headers: &HeaderMap, body: &[u8]) -> Option<Self> {
        let mut refusal = Self::read_with_code(headers, body)?;
        let body: Value = serde_json::from_slice(body).ok()?;
        if refusal.code.is_empty()
            && (body.get("error").is_some() || body.pointer("/errors/0").is_some())
        {
            Self::UNSPECIFIED.clone_into(&mut refusal.code);
        }
        Some(refusal)
    }

    /// Reads the forms of [`read`](Self::read) for an API whose every refusal has a code: a 404 without a code is a
    /// gateway's.
    #[must_use]
    pub fn read_with_code(_headers: &HeaderMap, body: &[u8]) -> Option<Self> {
        let body: Value = serde_json::from_slice(body).ok()?;
        let errors = body
            .get("errors")
            .and_then(Value::as_array)
            .map(Vec::as_slice)
            .unwrap_or_default();
        let error = body
            .get("error")
            .filter(|error| error.is_object())
            .or(errors.first())
            .unwrap_or(&body);
        let message = match body.get("error") {
            None if !errors.is_empty() => errors
                .iter()
                .filter_map(said)
                .collect::<Vec<_>>()
                .join("; "),
            _ => said(error)?,
        };
        let fields = error.pointer("/details/fields").and_then(Value::as_array);
        let details = fields.into_iter().flatten().filter_map(detail).collect();
        Some(Self {
            code: text(error, &["code", "id"]).unwrap_or_default().to_owned(),
            message,
            details,
        })
    }

    /// Returns the text for people: `message (field: detail; field: detail)`.
    fn said(&self) -> String {
        match &*self.details {
            [] => self.message.clone(),
            details => format!("{} ({})", self.message, details.join("; ")),
        }
    }
}

fn text<'a>(error: &'a Value, keys: &[&str]) -> Option<&'a str> {
    keys.iter().find_map(|key| error.get(*key)?.as_str())
}

/// Returns the message of one error, prefixed with the field that it is about.
fn said(error: &Value) -> Option<String> {
    let message = text(error, &["message", "reason", "error"])?;
    let field = text(error, &["field"]).filter(|field| !field.is_empty());
    Some(field.map_or_else(|| message.to_owned(), |field| format!("{field}: {message}")))
}

/// Returns `{"name", "messages"}` on one line.
fn detail(field: &Value) -> Option<String> {
    let messages = field
        .get("messages")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let messages = messages
        .filter_map(Value::as_str)
        .collect::<Vec<_>>()
        .join(", ");
    let name = field.get("name")?.as_str()?;
    Some(if messages.is_empty() {
        name.to_owned()
    } else {
        format!("{name}: {messages}")
    })
}

/// Meaning of a refusal beyond its status: returns the constructor of the error for a code that the cloud uses, such as
/// `protected`, to be called with the finished text. `None` means that the status decides.
pub type ErrorMapping = fn(&Refusal) -> Option<fn(String) -> Error>;

/// The API-specific rules for reading refusals.
#[derive(Clone, Copy)]
pub(super) struct RefusalRules {
    pub(super) reader: RefusalReader,
    pub(super) is_not_applied: fn(&Refusal) -> bool,
    /// The header that names a request to the cloud's support.
    pub(super) correlation: Option<&'static str>,
    pub(super) refill: Refill,
    pub(super) rate_limits: RateLimitReader,
}

/// Returns the failure for a successful answer whose body has more than `most`. The body is not used at all, and the
/// request is not sent again at once, because the answer would be as long.
pub(super) fn too_large(
    call: &Call,
    answer: &Response<Bytes>,
    report: RateLimitReport,
    most: &str,
) -> Failure {
    let status = answer.status();
    let error = Error::other(format!(
        "{} answered {} with a body of more than {most}; nothing is read from it",
        call.place(),
        status.as_u16()
    ));
    Failure {
        status: Some(status),
        report,
        ..Failure::cut_off(error)
    }
}

/// Returns the failure for a refusal. `exceeded` is the limit, if the body is longer: then the refusal is not parsed,
/// and the request is not sent again at once.
pub(super) fn refused(
    attempt: &Attempt,
    answer: &Response<Bytes>,
    exceeded: Option<BodyLimit>,
    refusal_rules: RefusalRules,
) -> (Failure, Option<Refusal>) {
    let status = answer.status();
    let headers = answer.headers();
    let call = &attempt.call;
    let refusal = if exceeded.is_none() {
        (refusal_rules.reader)(headers, answer.body())
    } else {
        None
    };
    // Redacted before it is cut, because half a secret would not be recognized.
    let said = match &refusal {
        Some(refusal) => excerpt(attempt.redact(refusal.said())),
        None => beginning(attempt, answer.body()),
    };
    let said = match exceeded {
        Some(limit) => format!(
            "a body of more than {}, which begins: {said}",
            limit.describe(status)
        ),
        None => said,
    };
    let colon = if said.is_empty() { "" } else { ": " };
    let text = format!(
        "{} answered {}{colon}{said}{}",
        call.place(),
        status.as_u16(),
        correlation(headers, refusal_rules)
    );
    let text = attempt.redact(text);
    let report = (refusal_rules.rate_limits)(headers);
    // Some APIs answer 413 with a time instead.
    let too_large =
        status == StatusCode::PAYLOAD_TOO_LARGE && headers.contains_key(header::RETRY_AFTER);
    let throttled = status == StatusCode::TOO_MANY_REQUESTS || too_large;
    // It is unknown if the request was applied: it is not sent again blindly, but a caller that waits knows until when.
    let overloaded = retry_after(headers).filter(|_| status == StatusCode::SERVICE_UNAVAILABLE);
    let pause = if throttled {
        pause(headers, &report, refusal_rules.refill)
    } else {
        overloaded
    };
    let error = match (refusal.as_ref().and_then(attempt.error_mapping), overloaded) {
        (Some(error), _) => error(text),
        (None, _) if throttled => Error::rate_limited(text, pause.unwrap_or(DEFAULT_PAUSE)),
        (None, Some(delay)) => Error::retry_in(text, delay),
        (None, None) => by_status(status, refusal.as_ref(), text),
    };
    let error = error.with_status(status.as_u16());
    let error = match &refusal {
        Some(refusal) if !refusal.code.is_empty() => error.with_code(&*refusal.code),
        _ => error,
    };
    let repeat = if exceeded.is_some() {
        Repeat::Never
    } else if throttled || refusal.as_ref().is_some_and(refusal_rules.is_not_applied) {
        Repeat::Always
    } else if status.is_server_error() || status == StatusCode::REQUEST_TIMEOUT {
        Repeat::IfIdempotent
    } else {
        Repeat::Never
    };
    let pause = if error.is_rate_limited() {
        pause.or(error.retry_after().filter(|_| !throttled))
    } else {
        pause
    };
    let delay = retry_after(headers).filter(|_| repeat != Repeat::Never);
    let status = Some(status);
    let sent = true;
    let sign_again = false;
    (
        Failure {
            status,
            error,
            pause,
            delay,
            report,
            sent,
            sign_again,
            repeat,
        },
        refusal,
    )
}

fn by_status(status: StatusCode, refusal: Option<&Refusal>, text: String) -> Error {
    match status.as_u16() {
        401 | 403 => Error::unauthorized(text),
        // A gateway answers JSON too: an answer without a code is accepted only in a form that gateways do not use.
        404 | 410 if refusal.is_some_and(|refusal| !refusal.code.is_empty()) => {
            Error::not_found(text)
        }
        404 | 410 => Error::other(format!(
            "{text} (not an answer of this API; is the endpoint right?)"
        )),
        409 | 412 | 423 => Error::conflict(text),
        400 | 422 => Error::invalid(text),
        _ => Error::other(text),
    }
}

/// Returns the correlation ID for the cloud's support: ` (x-request-id 7f3a)`.
fn correlation(headers: &HeaderMap, refusal_rules: RefusalRules) -> String {
    let id = refusal_rules
        .correlation
        .and_then(|name| Some((name, headers.get(name)?.to_str().ok()?)));
    id.filter(|(_, id)| id.len() <= 128)
        .map_or_else(String::new, |(name, id)| format!(" ({name} {id})"))
}

/// Returns the beginning of a body that is not JSON, on one line.
fn beginning(attempt: &Attempt, body: &[u8]) -> String {
    let text =
        attempt.redact(String::from_utf8_lossy(&body[..body.len().min(MOST_READ)]).into_owned());
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    text.chars().take(MOST_SAID).collect()
}

/// Returns the pause after a 429: as long as the cloud requests. Where requests come back one by one, the budget knows
/// better than a time at which all of them are back, unless the cloud does not report how many are left.
fn pause(headers: &HeaderMap, report: &RateLimitReport, refill: Refill) -> Option<Duration> {
    let known = matches!(refill, Refill::Evenly(_)) && report.remaining.is_some();
    retry_after(headers).or_else(|| {
        let reset = report
            .reset
            .map(|reset| reset.clamp(Duration::from_secs(1), LONGEST_PAUSE));
        (!known).then(|| reset.unwrap_or(DEFAULT_PAUSE))
    })
}

/// Reads `Retry-After`, in seconds or as a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let date = || {
        let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?;
        let then = DateTimeParser::new().parse_timestamp(text.trim()).ok()?;
        Some(u64::try_from(then.as_second()).ok()?.saturating_sub(now()))
    };
    let seconds = number(headers, &[header::RETRY_AFTER.as_str()]).or_else(date)?;
    Some(Duration::from_secs(seconds.max(1)).min(LONGEST_PAUSE))
}

/// The rate limit that an answer reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateLimitReport {
    /// Number of requests in a window.
    pub limit: Option<u64>,
    /// Number of requests left in the window.
    pub remaining: Option<u64>,
    /// Time until all requests are back.
    pub reset: Option<Duration>,
}

/// A function that reads the rate limit that an answer reports from its headers.
pub type RateLimitReader = fn(&HeaderMap) -> RateLimitReport;

impl RateLimitReport {
    /// Reads `RateLimit-Limit`, `-Remaining` and `-Reset`, also with `X-`.
    pub(super) fn read(headers: &HeaderMap) -> Self {
        Self {
            limit: number(headers, &["ratelimit-limit", "x-ratelimit-limit"]),
            remaining: number(headers, &["ratelimit-remaining", "x-ratelimit-remaining"]),
            reset: number(headers, &["ratelimit-reset", "x-ratelimit-reset"]).map(from_now),
        }
    }
}

/// Returns the current time in seconds since 1970.
fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs()
}

fn from_now(reset: u64) -> Duration {
    let seconds = if reset < EPOCH_SECONDS {
        reset
    } else {
        reset.saturating_sub(now())
    };
    Duration::from_secs(seconds).min(LONGEST_WINDOW)
}

/// Returns the number at the beginning of the first of these headers that is present: `3600, 3600;w=3600` is 3600.
fn number(headers: &HeaderMap, names: &[&str]) -> Option<u64> {
    let text = names
        .iter()
        .find_map(|name| headers.get(*name))?
        .to_str()
        .ok()?
        .trim();
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .map_or(text, |end| &text[..end]);
    digits.parse().ok().filter(|_| {
        text[digits.len()..].is_empty() || text[digits.len()..].starts_with([',', ';', '.'])
    })
}
