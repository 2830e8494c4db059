//! Texts and classification of API errors: the object and request that failed, and the remedy.

use std::error::Error as _;
use std::fmt;

use cloud_provider::excerpt;
use kube::core::response::reason;

/// Returns the text of an API error for people: the server's message alone if the server answered, else the chain of
/// causes. Events and logs contain it as `Failed deleting node x: <text>`.
///
/// ```
/// use kube::core::Status;
///
/// let error = kube::Error::Api(Status::failure(r#"nodes "x" not found"#, "NotFound").with_code(404).boxed());
/// assert_eq!(runtime::api_error::api_error(&error).to_string(), r#"nodes "x" not found"#);
/// assert!(runtime::api_error::is_not_found(&error));
/// ```
#[must_use]
pub fn api_error(error: &kube::Error) -> ApiErrorText<'_> {
    ApiErrorText(error)
}

/// Displays an API error with the remedy; see [`api_error`].
#[derive(Clone, Copy)]
pub struct ApiErrorText<'a>(&'a kube::Error);

impl fmt::Display for ApiErrorText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        self.write(&mut text)?;
        f.write_str(&excerpt(text))
    }
}

impl ApiErrorText<'_> {
    fn write(self, f: &mut impl fmt::Write) -> fmt::Result {
        match self.0 {
            kube::Error::Api(status) if status.message.is_empty() => {
                write!(f, "{} (HTTP {})", status.reason, status.code)
            }
            kube::Error::Api(status) => f.write_str(&status.message),
            other => {
                // The error of a client layer has no details of its own.
                let (mut message, mut cause) = match other {
                    kube::Error::Service(inner) => (inner.to_string(), inner.source()),
                    other => (other.to_string(), other.source()),
                };
                f.write_str(&message)?;
                // Many errors repeat their cause in their own text; print each text once.
                while let Some(next) = cause {
                    let text = next.to_string();
                    let text = text.trim_start_matches("ServiceError: ").to_owned();
                    if !message.contains(&text) {
                        write!(f, ": {text}")?;
                        message = text;
                    }
                    cause = next.source();
                }
                Ok(())
            }
        }
    }
}

impl fmt::Debug for ApiErrorText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Returns `true` if another client wrote the object first: HTTP 409 with the reason `Conflict`, not `AlreadyExists`
/// (RT-10).
#[must_use]
pub fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409 && status.reason == reason::CONFLICT)
}

/// Returns `true` if the API server reports that the object does not exist: a bare 404 of a proxy in between is not
/// enough.
#[must_use]
pub fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.reason == reason::NOT_FOUND)
}

/// Returns `true` if an object of that name exists already.
#[must_use]
pub fn is_already_exists(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.reason == reason::ALREADY_EXISTS)
}

/// Returns `true` if RBAC forbids the request to this identity.
#[must_use]
pub fn is_forbidden(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 403)
}

/// Returns `true` if the requested or watched version is too old: list again (HTTP 410).
#[must_use]
pub fn is_gone(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 410)
}

/// Returns `true` if the server answered, so that a retry will hardly help; `false` means that the server could not be
/// reached, or its response was cut off.
#[must_use]
pub fn is_answer(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::Status;

    fn status(code: u16, reason: &str, message: &str) -> kube::Error {
        kube::Error::Api(Status::failure(message, reason).with_code(code).boxed())
    }

    #[test]
    fn reasons_decide_over_codes() {
        let taken = status(409, "AlreadyExists", r#"nodes "x" already exists"#);
        let lost = status(409, "Conflict", "the object has been modified");
        assert!(is_conflict(&lost) && !is_conflict(&taken) && is_already_exists(&taken));
        assert!(
            is_forbidden(&status(403, "Forbidden", "no"))
                && is_gone(&status(410, "Expired", "too old"))
        );
        assert!(is_not_found(&status(404, "NotFound", "no")));
        assert!(
            !is_not_found(&status(404, "", "404 page not found")),
            "that was some proxy"
        );
    }

    #[test]
    fn the_servers_words_are_repeated_alone() {
        let error = status(
            403,
            "Forbidden",
            r#"nodes "x" is forbidden: User "ccm" cannot delete resource"#,
        );
        assert_eq!(
            api_error(&error).to_string(),
            r#"nodes "x" is forbidden: User "ccm" cannot delete resource"#
        );
        assert_eq!(
            api_error(&status(502, "Bad Gateway", "")).to_string(),
            "Bad Gateway (HTTP 502)"
        );
    }

    #[test]
    fn a_long_message_is_cut_to_one_kibibyte() {
        let text = api_error(&status(403, "Forbidden", &"é".repeat(1_000_000))).to_string();
        assert!(
            text.len() <= 1024 && text.ends_with('…'),
            "{} bytes",
            text.len()
        );
    }

    #[test]
    fn causes_are_shown_once() {
        let io = std::io::Error::new(std::io::ErrorKind::ConnectionRefused, "connection refused");
        let error = kube::Error::Service(Box::new(io));
        assert_eq!(api_error(&error).to_string(), "connection refused");
    }
}
