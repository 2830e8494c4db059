//! Refusals of AWS: their form, and the meaning of their codes.

use std::marker::PhantomData;
use std::time::Duration;

use cloud_provider::Error;
use http::HeaderMap;
use provider_kit::transport::{Format, Refusal, Xml};
use serde::Deserialize;

/// Time in which nothing is sent after a refusal because of too many requests; the budget grows slower as well.
const PAUSE: Duration = Duration::from_secs(1);

/// Codes of requests that were not carried out because there were too many. `*` stands for any text.
const THROTTLED: &str = "RequestLimitExceeded RequestThrottled TooManyRequestsException SlowDown PriorRequestNotComplete Throttl*";
/// Codes that another credential may end.
const UNAUTHENTICATED: &str = "ExpiredToken* InvalidClientTokenId AuthFailure UnrecognizedClientException \
                               InvalidAccessKeyId RequestExpired";
/// Codes that a wrong clock may cause.
const CLOCK: &str = "RequestExpired RequestTimeTooSkewed RequestInTheFuture SignatureDoesNotMatch AuthFailure InvalidSignature*";

/// Creates an error of a kind from its message.
type Kind = fn(String) -> Error;

/// The kinds of errors that codes mean beyond their status; the first row with the code counts.
const MEANINGS: [(&str, Kind); 7] = [
    (THROTTLED, |text| Error::rate_limited(text, PAUSE)),
    ("*NotFound", Error::not_found),
    (
        "DependencyViolation ResourceInUse OperationNotPermitted IncorrectState *Duplicate* *AlreadyExists",
        Error::conflict,
    ),
    ("*LimitExceeded TooMany*", Error::quota),
    (UNAUTHENTICATED, Error::unauthorized),
    (
        "AccessDenied* UnauthorizedOperation MissingAuthenticationToken IncompleteSignature OptInRequired",
        Error::unauthorized,
    ),
    (
        "InvalidID UnsupportedOperation ValidationError InvalidConfigurationRequest",
        Error::invalid,
    ),
];

/// A refusal in either of its forms: that of EC2, with `errors`, and that of the other APIs.
#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Body {
    errors: Vec<Word>,
    error: Option<Word>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Word {
    code: String,
    #[serde(default)]
    message: String,
}

/// Reads a refusal in XML.
pub(crate) fn read(_headers: &HeaderMap, body: &[u8]) -> Option<Refusal> {
    let Body { errors, error } = Xml::read(body, PhantomData).ok()?;
    let Word { code, message } = error.or(errors.into_iter().next())?;
    Some(Refusal {
        message: format!("{code}: {message}"),
        code,
        details: Vec::new(),
    })
}

fn is_one_of(code: &str, patterns: &str) -> bool {
    patterns.split_whitespace().any(|pattern| {
        match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
            (Some(part), Some(_)) => code.contains(part.trim_end_matches('*')),
            (Some(end), None) => code.ends_with(end),
            (None, Some(start)) => code.starts_with(start),
            (None, None) => code == pattern,
        }
    })
}

/// Returns `true` if the request was not carried out because there were too many.
pub(crate) fn is_throttled(refusal: &Refusal) -> bool {
    is_one_of(&refusal.code, THROTTLED)
}

/// Returns `true` for codes that another credential may end.
pub(crate) fn is_unauthenticated(code: &str) -> bool {
    is_one_of(code, UNAUTHENTICATED)
}

/// Returns `true` for codes that a wrong clock may cause.
pub(crate) fn is_clock(code: &str) -> bool {
    is_one_of(code, CLOCK)
}

/// Returns the kind of error that a code means beyond its status.
pub(crate) fn error_mapping(refusal: &Refusal) -> Option<Kind> {
    let code = &*refusal.code;
    if code == "OperationNotPermitted" && refusal.message.contains("deletion protection") {
        return Some(Error::protected);
    }
    let unauthorized = is_clock(code).then_some(Error::unauthorized as Kind);
    MEANINGS
        .iter()
        .find(|(codes, _)| is_one_of(code, codes))
        .map(|(_, error)| *error)
        .or(unauthorized)
}
