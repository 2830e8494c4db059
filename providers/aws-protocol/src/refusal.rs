//! Refusals of AWS: their form, and the meaning of their codes.

use std::time::Duration;

use cloud_provider::Error;
use http::HeaderMap;
use provider_kit::transport::{Format, Refusal, Xml};
use serde::Deserialize;

/// Time in which nothing is sent after a refusal because of too many requests; the budget grows slower as well.
const PAUSE: Duration = Duration::from_secs(1);

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Body {
    /// Form of the EC2 API.
    errors: Vec<Word>,
    /// Form of the other APIs.
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
    let Body { errors, error } = Xml::read(body, std::marker::PhantomData).ok()?;
    let Word { code, message } = error.or(errors.into_iter().next())?;
    Some(Refusal { message: format!("{code}: {message}"), code, details: Vec::new() })
}

/// Returns `true` for codes of which the request was not carried out because there were too many.
pub(crate) fn is_throttled(refusal: &Refusal) -> bool {
    let codes =
        ["RequestLimitExceeded", "RequestThrottled", "TooManyRequestsException", "SlowDown", "PriorRequestNotComplete"];
    refusal.code.starts_with("Throttl") || codes.contains(&&*refusal.code)
}

/// Returns `true` for codes that another credential may end.
pub(crate) fn is_unauthenticated(code: &str) -> bool {
    code.starts_with("ExpiredToken")
        || [
            "InvalidClientTokenId",
            "AuthFailure",
            "UnrecognizedClientException",
            "InvalidAccessKeyId",
            "RequestExpired",
        ]
        .contains(&code)
}

/// Returns `true` for codes that a wrong clock may cause.
pub(crate) fn is_clock(code: &str) -> bool {
    let codes =
        ["RequestExpired", "RequestTimeTooSkewed", "RequestInTheFuture", "SignatureDoesNotMatch", "AuthFailure"];
    codes.contains(&code) || code.starts_with("InvalidSignature")
}

/// Returns the kind of error that a code means beyond its status.
pub(crate) fn error_mapping(refusal: &Refusal) -> Option<fn(String) -> Error> {
    let code = &*refusal.code;
    let is_one_of = |codes: &[&str]| codes.contains(&code);
    let is_protected = || refusal.message.contains("deletion protection");
    Some(match code {
        _ if is_throttled(refusal) => |text| Error::rate_limited(text, PAUSE),
        _ if code.ends_with("NotFound") => Error::not_found,
        "OperationNotPermitted" if is_protected() => Error::protected,
        _ if is_one_of(&["DependencyViolation", "ResourceInUse", "OperationNotPermitted", "IncorrectState"])
            || code.contains("Duplicate")
            || code.ends_with("AlreadyExists") =>
        {
            Error::conflict
        }
        _ if code.ends_with("LimitExceeded") || code.starts_with("TooMany") => Error::quota,
        _ if is_unauthenticated(code) || is_clock(code) || code.starts_with("AccessDenied") => Error::unauthorized,
        "UnauthorizedOperation" | "MissingAuthenticationToken" | "IncompleteSignature" | "OptInRequired" => {
            Error::unauthorized
        }
        "InvalidID" | "UnsupportedOperation" | "ValidationError" | "InvalidConfigurationRequest" => Error::invalid,
        _ => return None,
    })
}
