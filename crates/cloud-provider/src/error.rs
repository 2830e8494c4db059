//! An opaque error whose predicates tell what to *do* (D-7).

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The result of a call to a provider.
///
/// ```
/// use cloud_provider::{Error, Result};
///
/// fn zone(number: u8) -> Result<String> {
///     match number {
///         1..=3 => Ok(format!("acme-1{}", char::from(b'a' + number - 1))),
///         _ => Err(Error::invalid(format!("zone {number}: use 1, 2 or 3"))),
///     }
/// }
/// assert!(zone(9).is_err_and(|err| err.is_invalid()));
/// ```
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The error of a call to a cloud.
///
/// There is one error type for all calls, one word wide, so that errors compose without conversion. A controller
/// decides by predicates: [`is_not_found`](Self::is_not_found), [`retry_after`](Self::retry_after),
/// [`is_invalid`](Self::is_invalid) … . Operators read the text in events and logs: name the object, the value and the
/// accepted values; never put a secret into it.
///
/// A predicate checks this error alone, not its causes: an error that merely *mentions* a missing instance somewhere in
/// its chain must never pass for "the instance is gone" (PROV-69). Exceptions are
/// [`is_unanswered`](Self::is_unanswered) and [`retry_after`](Self::retry_after), which also check the causes.
/// [`chain`](Self::chain) walks the causes.
///
/// ```
/// use cloud_provider::Error;
/// use std::time::Duration;
///
/// let err = Error::not_found("no machine with id 17 in project demo");
/// assert!(err.is_not_found());
///
/// // Wrapped, it is an ordinary error with a cause.
/// let err = err.context("looking up node worker-1");
/// assert!(!err.is_not_found());
/// assert!(err.chain().any(Error::is_not_found));
/// assert_eq!(err.to_string(), "looking up node worker-1: no machine with id 17 in project demo");
///
/// let err = Error::rate_limited("429 from the compute API", Duration::from_secs(7));
/// assert_eq!(err.retry_after(), Some(Duration::from_secs(7)));
/// ```
#[derive(Clone)]
pub struct Error(Arc<Inner>);

struct Inner {
    kind: Kind,
    message: Cow<'static, str>,
    /// Code of the refusal in the cloud's API; empty if there is none.
    code: Box<str>,
    /// HTTP status of the refusal; `None` if the cloud did not answer, or not by HTTP.
    status: Option<u16>,
    cause: Option<Error>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    NotFound,
    DiskNotFound,
    NotImplemented,
    ImplementedElsewhere,
    RetryAfter(Duration),
    RateLimited(Duration),
    Conflict,
    Unauthorized,
    Quota,
    Invalid,
    Protected,
    VolumeInUse,
    DanglingAttach,
    Unanswered,
    Other,
}

impl Error {
    fn of(kind: Kind, message: impl Into<Cow<'static, str>>) -> Self {
        Self(Arc::new(Inner {
            kind,
            message: message.into(),
            code: Box::default(),
            status: None,
            cause: None,
        }))
    }

    /// Returns a copy with these details of the refusal.
    fn with_details(&self, code: Box<str>, status: Option<u16>) -> Self {
        let Inner {
            kind,
            message,
            cause,
            ..
        } = &*self.0;
        Self(Arc::new(Inner {
            kind: *kind,
            message: message.clone(),
            code,
            status,
            cause: cause.clone(),
        }))
    }

    /// Returns the sentinel "instance not found", with the text of the Go cloud controller manager (PROV-67).
    #[must_use]
    pub fn instance_not_found() -> Self {
        Self::of(Kind::NotFound, "instance not found")
    }

    /// Returns an error for an object that does not exist, with a text of your own.
    ///
    /// In [`InstancesV2::instance_exists`](crate::InstancesV2::instance_exists), this error means "unknown", not
    /// "gone": return `Ok(false)` there.
    pub fn not_found(message: impl Into<Cow<'static, str>>) -> Self {
        Self::of(Kind::NotFound, message)
    }

    /// Returns the sentinel "disk is not found" (PROV-65).
    #[must_use]
    pub fn disk_not_found() -> Self {
        Self::of(Kind::DiskNotFound, "disk is not found")
    }

    /// Returns an error for a call that the provider does not offer (PROV-68).
    #[must_use]
    pub fn not_implemented() -> Self {
        Self::of(Kind::NotImplemented, "unimplemented")
    }

    /// Returns an error for an object that another controller manages (PROV-66, PROV-35).
    #[must_use]
    pub fn implemented_elsewhere() -> Self {
        Self::of(
            Kind::ImplementedElsewhere,
            "implemented by alternate to cloud provider",
        )
    }

    /// Returns an error with a fixed delay until the next attempt, instead of exponential back-off (PROV-37, PROV-62).
    pub fn retry_in(message: impl Into<Cow<'static, str>>, delay: Duration) -> Self {
        Self::of(Kind::RetryAfter(delay), message)
    }

    /// Returns an error for a credential that the cloud throttles: no request may be sent for `pause`.
    pub fn rate_limited(message: impl Into<Cow<'static, str>>, pause: Duration) -> Self {
        Self::of(Kind::RateLimited(pause), message)
    }

    /// Returns an error for an object that changed, or is locked, at the same time: read it again and retry.
    pub fn conflict(message: impl Into<Cow<'static, str>>) -> Self {
        Self::of(Kind::Conflict, message)
    }

    /// Returns an error for a credential that is missing, wrong or expired, or lacks a permission.
    pub fn unauthorized(message: impl Into<Cow<'static, str>>) -> Self {
        Self::of(Kind::Unauthorized, message)
    }

    /// Returns an error for a quota or limit of the account; retrying soon does not help.
    pub fn quota(message: impl Into<Cow<'static, str>>) -> Self {
        Self::of(Kind::Quota, message)
    }

    /// Returns an error that the user must correct (an annotation, a field, a flag). Becomes an event on the object.
    pub fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Self::of(Kind::Invalid, message)
    }

    /// Returns an error for an object that a user has locked or protected against changes (P-20). Name the lock or
    /// protection in the text, so that the user can remove it. Becomes an event and a condition on the object.
    pub fn protected(message: impl Into<Cow<'static, str>>) -> Self {
        Self::of(Kind::Protected, message)
    }

    /// Returns an error for a volume that cannot be deleted because it is in use (PROV-80).
    pub fn deleted_volume_in_use(message: impl Into<Cow<'static, str>>) -> Self {
        Self::of(Kind::VolumeInUse, message)
    }

    /// Returns an error for a volume that is attached to the wrong Node (PROV-80).
    #[must_use]
    pub fn dangling_attach(message: &str, current_node: &str, device_path: &str) -> Self {
        Self::of(
            Kind::DanglingAttach,
            format!("{message} (node {current_node:?}, device {device_path:?})"),
        )
    }

    /// Returns an error for an API that gave no answer: no address, no connection, no TLS session, or a timeout. It is
    /// unknown if the request was carried out.
    pub fn unanswered(message: impl Into<Cow<'static, str>>) -> Self {
        Self::of(Kind::Unanswered, message)
    }

    /// Returns an error of any other kind: transient faults, 5xx, broken answers. Retried with back-off.
    pub fn other(message: impl Into<Cow<'static, str>>) -> Self {
        Self::of(Kind::Other, message)
    }

    /// Wraps this error: the text becomes `<message>: <this>`, the kind *other*, and this error the cause.
    #[must_use]
    pub fn context(self, message: impl Into<Cow<'static, str>>) -> Self {
        let message = message.into();
        let code = Box::default();
        let status = None;
        Self(Arc::new(Inner {
            kind: Kind::Other,
            message,
            code,
            status,
            cause: Some(self),
        }))
    }

    /// Adds the cloud's own machine-readable code of the refusal, such as `locked`.
    ///
    /// ```
    /// use cloud_provider::Error;
    ///
    /// let error = Error::conflict("server 17 is locked").with_code("locked");
    /// assert_eq!(error.code(), "locked");
    /// assert_eq!(error.context("attach the network").code(), "");
    /// ```
    #[must_use]
    pub fn with_code(self, code: impl Into<Box<str>>) -> Self {
        self.with_details(code.into(), self.0.status)
    }

    /// Adds the HTTP status of the cloud's refusal, such as 401.
    ///
    /// ```
    /// use cloud_provider::Error;
    ///
    /// let error = Error::unauthorized("the token is wrong").with_status(401).with_code("unauthorized");
    /// assert_eq!((error.status(), error.code()), (Some(401), "unauthorized"));
    /// assert_eq!(error.context("list the servers").status(), None);
    /// ```
    #[must_use]
    pub fn with_status(self, status: u16) -> Self {
        self.with_details(self.0.code.clone(), Some(status))
    }

    /// Returns the HTTP status of the refusal; `None` if the cloud did not answer, or not by HTTP.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        self.0.status
    }

    /// Returns the cloud's own code of the refusal, for a provider that must distinguish refusals of one kind; empty if
    /// there is none.
    #[must_use]
    pub fn code(&self) -> &str {
        &self.0.code
    }

    /// Returns `true` if the object is locked or protected, and a user must remove the lock or protection.
    #[must_use]
    pub fn is_protected(&self) -> bool {
        self.0.kind == Kind::Protected
    }

    /// Returns `true` if the object does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.0.kind == Kind::NotFound
    }
    /// Returns `true` if the disk does not exist.
    #[must_use]
    pub fn is_disk_not_found(&self) -> bool {
        self.0.kind == Kind::DiskNotFound
    }
    /// Returns `true` if the provider does not offer this call.
    #[must_use]
    pub fn is_not_implemented(&self) -> bool {
        self.0.kind == Kind::NotImplemented
    }
    /// Returns `true` if another controller manages this object.
    #[must_use]
    pub fn is_implemented_elsewhere(&self) -> bool {
        self.0.kind == Kind::ImplementedElsewhere
    }
    /// Returns `true` if the object changed at the same time: read it again and retry.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.0.kind == Kind::Conflict
    }
    /// Returns `true` if the cloud throttles; see [`retry_after`](Self::retry_after) for the pause.
    #[must_use]
    pub fn is_rate_limited(&self) -> bool {
        matches!(self.0.kind, Kind::RateLimited(_))
    }
    /// Returns `true` if the credential is missing, wrong or expired, or lacks a permission.
    #[must_use]
    pub fn is_unauthorized(&self) -> bool {
        self.0.kind == Kind::Unauthorized
    }
    /// Returns `true` if a quota is reached.
    #[must_use]
    pub fn is_quota(&self) -> bool {
        self.0.kind == Kind::Quota
    }
    /// Returns `true` if the user must correct something.
    #[must_use]
    pub fn is_invalid(&self) -> bool {
        self.0.kind == Kind::Invalid
    }
    /// Returns `true` if the volume is in use.
    #[must_use]
    pub fn is_deleted_volume_in_use(&self) -> bool {
        self.0.kind == Kind::VolumeInUse
    }
    /// Returns `true` if the volume is attached to the wrong Node.
    #[must_use]
    pub fn is_dangling_attach(&self) -> bool {
        self.0.kind == Kind::DanglingAttach
    }

    /// Returns `true` if the API gave no answer, according to this error or one of its causes.
    ///
    /// ```
    /// use cloud_provider::Error;
    ///
    /// let error = Error::unanswered("GET / was not answered: connection refused");
    /// assert!(error.context("the cloud cannot be used").is_unanswered());
    /// assert!(!Error::other("GET / was answered 500").is_unanswered());
    /// ```
    #[must_use]
    pub fn is_unanswered(&self) -> bool {
        self.chain().any(|error| error.0.kind == Kind::Unanswered)
    }

    /// Returns the time to wait before the next attempt, if this error or one of its causes has one (PROV-69).
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.chain().find_map(|e| match e.0.kind {
            Kind::RetryAfter(d) | Kind::RateLimited(d) => Some(d),
            _ => None,
        })
    }

    /// Returns this error and its causes, outermost first.
    pub fn chain(&self) -> impl Iterator<Item = &Error> {
        std::iter::successors(Some(self), |e| e.0.cause.as_ref())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        match &self.0.cause {
            Some(cause) => write!(f, ": {cause}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}({:?})", self.0.kind, self.to_string())
    }
}

// The cause is part of the text (`Display`), as in the Go messages; `source` would print it twice.
impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentinels_have_the_texts_that_events_show() {
        let table = [
            (Error::disk_not_found(), "disk is not found"),
            (
                Error::implemented_elsewhere(),
                "implemented by alternate to cloud provider",
            ),
            (Error::instance_not_found(), "instance not found"),
            (Error::not_implemented(), "unimplemented"),
            (Error::retry_in("busy", Duration::from_secs(1)), "busy"),
        ];
        for (error, text) in table {
            assert_eq!(error.to_string(), text);
        }
    }

    #[test]
    fn each_kind_answers_to_its_own_predicate_only() {
        let second = Duration::from_secs(1);
        let errors = [
            Error::instance_not_found(),
            Error::disk_not_found(),
            Error::not_implemented(),
            Error::implemented_elsewhere(),
            Error::rate_limited("x", second),
            Error::conflict("x"),
            Error::unauthorized("x"),
            Error::quota("x"),
            Error::invalid("x"),
            Error::protected("x"),
            Error::deleted_volume_in_use("x"),
            Error::dangling_attach("x", "n", "/dev/x"),
        ];
        let predicates = [
            Error::is_not_found,
            Error::is_disk_not_found,
            Error::is_not_implemented,
            Error::is_implemented_elsewhere,
            Error::is_rate_limited,
            Error::is_conflict,
            Error::is_unauthorized,
            Error::is_quota,
            Error::is_invalid,
            Error::is_protected,
            Error::is_deleted_volume_in_use,
            Error::is_dangling_attach,
        ];
        for (i, error) in errors.iter().enumerate() {
            for (j, predicate) in predicates.iter().enumerate() {
                assert_eq!(predicate(error), i == j, "{error:?} and predicate {j}");
            }
        }
    }

    #[test]
    fn a_wrapped_sentinel_is_an_ordinary_error_but_keeps_its_delay() {
        let wrapped = Error::instance_not_found().context("lookup");
        assert!(!wrapped.is_not_found());
        assert_eq!(wrapped.to_string(), "lookup: instance not found");
        let delayed = Error::retry_in("busy", Duration::from_secs(3)).context("ensure");
        assert_eq!(delayed.retry_after(), Some(Duration::from_secs(3)));
    }

    #[test]
    fn an_error_is_one_word_wide() {
        assert_eq!(size_of::<Error>(), size_of::<usize>());
    }
}
