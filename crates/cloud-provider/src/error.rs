//! One opaque error whose predicates say what to *do* (D-7).

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

/// What went wrong in a call to a cloud.
///
/// There is one error type for all calls, one word wide, so that errors compose without conversion. What a controller
/// does with it is asked by predicate: [`is_not_found`](Self::is_not_found), [`retry_after`](Self::retry_after),
/// [`is_invalid`](Self::is_invalid) … . Its text is read by operators, in events and logs: name the object, the value
/// and what is accepted; never put a secret into it.
///
/// A predicate looks at this error alone, not at what it wraps: an error that merely *mentions* a missing instance
/// somewhere in its chain must never pass for "the instance is gone" (PROV-69). [`chain`](Self::chain) walks the causes.
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
    /// The cloud's own word for the refusal; empty without one.
    code: Box<str>,
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
        Self(Arc::new(Inner { kind, message: message.into(), code: Box::default(), cause: None }))
    }

    /// The sentinel "instance not found" with the reference's text (PROV-67).
    #[must_use]
    pub fn instance_not_found() -> Self {
        Self::of(Kind::NotFound, "instance not found")
    }

    /// The thing asked for does not exist, with a text of your own.
    ///
    /// From [`InstancesV2::instance_exists`](crate::InstancesV2::instance_exists) this is "unknown", not "gone": say
    /// `Ok(false)` there.
    pub fn not_found(message: impl Into<Cow<'static, str>>) -> Self {
        Self::of(Kind::NotFound, message)
    }

    /// The sentinel "disk is not found" (PROV-65).
    #[must_use]
    pub fn disk_not_found() -> Self {
        Self::of(Kind::DiskNotFound, "disk is not found")
    }

    /// The provider does not offer this (PROV-68).
    #[must_use]
    pub fn not_implemented() -> Self {
        Self::of(Kind::NotImplemented, "unimplemented")
    }

    /// Another controller runs this object (PROV-66, PROV-35).
    #[must_use]
    pub fn implemented_elsewhere() -> Self {
        Self::of(Kind::ImplementedElsewhere, "implemented by alternate to cloud provider")
    }

    /// Try again after a fixed delay instead of exponential back-off (PROV-37, PROV-62).
    pub fn retry_in(message: impl Into<Cow<'static, str>>, delay: Duration) -> Self {
        Self::of(Kind::RetryAfter(delay), message)
    }

    /// The cloud throttles this credential; nothing should be sent for `pause`.
    pub fn rate_limited(message: impl Into<Cow<'static, str>>, pause: Duration) -> Self {
        Self::of(Kind::RateLimited(pause), message)
    }

    /// The object changed, or is locked, at the same time: read again and retry.
    pub fn conflict(message: impl Into<Cow<'static, str>>) -> Self {
        Self::of(Kind::Conflict, message)
    }

    /// The credential is missing, wrong, expired, or may not do this.
    pub fn unauthorized(message: impl Into<Cow<'static, str>>) -> Self {
        Self::of(Kind::Unauthorized, message)
    }

    /// A quota or limit of the account is reached; retrying soon does not help.
    pub fn quota(message: impl Into<Cow<'static, str>>) -> Self {
        Self::of(Kind::Quota, message)
    }

    /// The user must change something (an annotation, a field, a flag). Becomes an event on the object.
    pub fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Self::of(Kind::Invalid, message)
    }

    /// The cloud refuses because the object is locked or protected, and will refuse until a person lifts that (P-20). Say
    /// in the text what to lift. Becomes an event and a condition on the object.
    pub fn protected(message: impl Into<Cow<'static, str>>) -> Self {
        Self::of(Kind::Protected, message)
    }

    /// A volume cannot be deleted because it is in use (PROV-80).
    pub fn deleted_volume_in_use(message: impl Into<Cow<'static, str>>) -> Self {
        Self::of(Kind::VolumeInUse, message)
    }

    /// A volume is attached to a node it should not be attached to (PROV-80).
    #[must_use]
    pub fn dangling_attach(message: &str, current_node: &str, device_path: &str) -> Self {
        Self::of(Kind::DanglingAttach, format!("{message} (node {current_node:?}, device {device_path:?})"))
    }

    /// The API gave no answer: no address, no connection, no TLS session, or a time-out. Nobody knows what was carried out.
    pub fn unanswered(message: impl Into<Cow<'static, str>>) -> Self {
        Self::of(Kind::Unanswered, message)
    }

    /// Anything else: transient faults, 5xx, broken answers. Retried with back-off.
    pub fn other(message: impl Into<Cow<'static, str>>) -> Self {
        Self::of(Kind::Other, message)
    }

    /// Wraps this error: the text becomes `<message>: <this>`, the kind *other*, and this error its cause.
    #[must_use]
    pub fn context(self, message: impl Into<Cow<'static, str>>) -> Self {
        Self(Arc::new(Inner { kind: Kind::Other, message: message.into(), code: Box::default(), cause: Some(self) }))
    }

    /// Adds the cloud's own machine-readable word for the refusal, such as `locked`.
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
        let Inner { kind, message, cause, .. } = &*self.0;
        Self(Arc::new(Inner { kind: *kind, message: message.clone(), code: code.into(), cause: cause.clone() }))
    }

    /// Returns the cloud's own word for the refusal, for a provider that must tell refusals of one kind apart; empty if the
    /// cloud said none.
    #[must_use]
    pub fn code(&self) -> &str {
        &self.0.code
    }

    /// The object is locked or protected; a person must lift that.
    #[must_use]
    pub fn is_protected(&self) -> bool {
        self.0.kind == Kind::Protected
    }

    /// The thing asked for does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.0.kind == Kind::NotFound
    }
    /// The disk does not exist.
    #[must_use]
    pub fn is_disk_not_found(&self) -> bool {
        self.0.kind == Kind::DiskNotFound
    }
    /// The provider does not offer this call.
    #[must_use]
    pub fn is_not_implemented(&self) -> bool {
        self.0.kind == Kind::NotImplemented
    }
    /// Another controller runs this object.
    #[must_use]
    pub fn is_implemented_elsewhere(&self) -> bool {
        self.0.kind == Kind::ImplementedElsewhere
    }
    /// Read again and retry.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.0.kind == Kind::Conflict
    }
    /// The cloud throttles; see [`retry_after`](Self::retry_after) for how long.
    #[must_use]
    pub fn is_rate_limited(&self) -> bool {
        matches!(self.0.kind, Kind::RateLimited(_))
    }
    /// The credential is missing, wrong, expired, or may not do this.
    #[must_use]
    pub fn is_unauthorized(&self) -> bool {
        self.0.kind == Kind::Unauthorized
    }
    /// A quota is reached.
    #[must_use]
    pub fn is_quota(&self) -> bool {
        self.0.kind == Kind::Quota
    }
    /// The user must change something.
    #[must_use]
    pub fn is_invalid(&self) -> bool {
        self.0.kind == Kind::Invalid
    }
    /// The volume is in use.
    #[must_use]
    pub fn is_deleted_volume_in_use(&self) -> bool {
        self.0.kind == Kind::VolumeInUse
    }
    /// The volume is attached where it should not be.
    #[must_use]
    pub fn is_dangling_attach(&self) -> bool {
        self.0.kind == Kind::DanglingAttach
    }

    /// Returns `true` if this error or one of its causes is that the API gave no answer.
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

    /// How long to wait before the next try, when the provider says so. Causes are looked at too (PROV-69: for a
    /// retry-after error, wrapped counts).
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.chain().find_map(|e| match e.0.kind {
            Kind::RetryAfter(d) | Kind::RateLimited(d) => Some(d),
            _ => None,
        })
    }

    /// This error, then what it wraps, and so on.
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

// The cause is part of the text (`Display`), as the reference's messages have it; `source` would print it twice.
impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentinels_have_the_texts_that_events_show() {
        let table = [
            (Error::disk_not_found(), "disk is not found"),
            (Error::implemented_elsewhere(), "implemented by alternate to cloud provider"),
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
