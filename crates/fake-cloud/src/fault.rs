//! Faults that tests inject.

use std::future::pending;
use std::time::Duration;

/// A fault that hits requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Route, such as `GET /servers/{id}`; empty for all routes. A method alone stands for all routes with it.
    pub route: String,
    /// Kind of the fault.
    pub kind: FaultKind,
    /// Number of requests that are spared first.
    pub spared: u32,
    /// Number of requests that are hit; `None` for all until
    /// [`FaultInjector::clear_faults`](crate::FaultInjector::clear_faults).
    pub times: Option<u32>,
}

/// The ways in which a request can fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// Refused in the API's own form; not applied.
    Refused(Refused),
    /// Refused with this status and a body that is not the API's, as by a proxy; not applied.
    Status(u16),
    /// Applied, and the connection is cut before the answer.
    LostAnswer,
    /// Applied, and the connection is cut in the middle of the answer.
    CutAnswer,
    /// Not applied, and never answered.
    Hang,
    /// Applied and answered after this time.
    Latency(Duration),
    /// The operation that the request starts ends in an error, with this code if the API shows one.
    EndsInError(String),
    /// A list is empty.
    EmptyList,
    /// A page of a list is skipped.
    MissingPage(usize),
    /// A list ends with this page.
    EarlyEnd(usize),
    /// Each page of a list names itself as the next page.
    EndlessList,
    /// Each page of a list is empty, and names another one as the next page.
    EmptyPages,
    /// Applied, and answered with this many bytes of spaces before the answer, which is valid.
    LongAnswer(usize),
    /// Applied, and answered with an endless stream of spaces.
    EndlessAnswer,
}

/// A refusal of a request, before the API puts it into its own form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Status of the answer; `None` for the status of the code.
    pub status: Option<u16>,
    /// Error code of the API.
    pub code: String,
    /// Message of the refusal.
    pub message: String,
    /// Value of `Retry-After` in seconds.
    pub retry_after: Option<u32>,
}

impl Refused {
    /// Returns a refusal with this status, code and message.
    #[must_use]
    pub fn new(status: u16, code: &str, message: &str) -> Self {
        Self {
            status: Some(status),
            code: code.to_owned(),
            message: message.to_owned(),
            retry_after: None,
        }
    }

    /// Returns a refusal with this code and message, and the status of the code.
    #[must_use]
    pub fn code(code: &str, message: impl Into<String>) -> Self {
        Self {
            status: None,
            code: code.to_owned(),
            message: message.into(),
            retry_after: None,
        }
    }
}

/// Refuses a request with this code and message.
///
/// # Errors
/// The refusal.
pub fn refuse<T>(code: &str, message: impl Into<String>) -> Result<T, Refused> {
    Err(Refused::code(code, message))
}

/// Refuses a request with this code and message, unless it is right.
///
/// # Errors
/// The refusal.
pub fn check(is_right: bool, code: &str, message: impl Into<String>) -> Result<(), Refused> {
    if is_right {
        Ok(())
    } else {
        refuse(code, message)
    }
}

impl Fault {
    /// Returns a fault that lasts until it is cleared.
    #[must_use]
    pub fn new(route: &str, kind: FaultKind) -> Self {
        Self {
            route: route.to_owned(),
            kind,
            spared: 0,
            times: None,
        }
    }

    /// Returns a refusal with this status, in a form that is not the API's.
    #[must_use]
    pub fn status(route: &str, status: u16) -> Self {
        Self::new(route, FaultKind::Status(status))
    }

    /// Returns a refusal with this code of the API, and its status.
    #[must_use]
    pub fn code(route: &str, code: &str) -> Self {
        let refused = Refused::code(code, "on purpose");
        Self::new(route, FaultKind::Refused(refused))
    }

    /// Returns a refusal with this status, in the API's own form.
    #[must_use]
    pub fn refused(route: &str, status: u16) -> Self {
        Self::refused_as(route, status, "OnPurpose", "on purpose")
    }

    /// Returns a refusal with this status, in the API's own form, with this code (`OverQuota`) and message.
    #[must_use]
    pub fn refused_as(route: &str, status: u16, code: &str, message: &str) -> Self {
        Self::new(
            route,
            FaultKind::Refused(Refused::new(status, code, message)),
        )
    }

    /// Returns a refusal with this status (429, 503), in the API's own form, and `Retry-After` in seconds.
    #[must_use]
    pub fn retry_after(route: &str, status: u16, seconds: u32) -> Self {
        let refused = Refused::new(status, "", "there are too many requests");
        Self::new(
            route,
            FaultKind::Refused(Refused {
                retry_after: Some(seconds),
                ..refused
            }),
        )
    }

    /// Returns a fault that makes started operations end in an error with this code; empty if the API shows none.
    #[must_use]
    pub fn ends_in_error(route: &str, code: &str) -> Self {
        Self::new(route, FaultKind::EndsInError(code.to_owned()))
    }

    /// Returns all faults of an API, of a list on this route and in general, that no client may take for an answer.
    #[must_use]
    pub fn of_list(list: &str) -> Vec<Self> {
        vec![
            Self::refused("", 500),
            Self::refused("", 401),
            Self::refused("", 403),
            Self::retry_after("", 429, 30),
            Self::retry_after("", 503, 30),
            Self::status("", 404),
            Self::new(list, FaultKind::EmptyList),
            Self::new(list, FaultKind::MissingPage(2)),
            Self::new(list, FaultKind::EarlyEnd(1)),
            Self::new(list, FaultKind::EndlessList),
            Self::new(list, FaultKind::EmptyPages),
            Self::new(list, FaultKind::EndlessAnswer),
            Self::new("", FaultKind::LostAnswer),
            Self::new("", FaultKind::CutAnswer),
            Self::new("", FaultKind::Hang),
        ]
    }

    /// Limits the fault to this number of requests.
    #[must_use]
    pub fn times(self, times: u32) -> Self {
        Self {
            times: Some(times),
            ..self
        }
    }

    /// Spares this number of requests first.
    #[must_use]
    pub fn after(self, spared: u32) -> Self {
        Self { spared, ..self }
    }

    /// Returns `true` if a request on `route` is hit, and counts the request.
    fn hits(&mut self, route: &str) -> bool {
        let is_named = self.route.is_empty()
            || self.route == route
            || route.split(' ').next() == Some(&self.route);
        if is_named && self.spared > 0 {
            self.spared -= 1;
            return false;
        }
        is_named
    }
}

/// The faults that hit one request.
#[derive(Clone, Debug, Default)]
pub struct Effects(Vec<FaultKind>);

impl Effects {
    /// Returns these faults as effects.
    #[must_use]
    pub fn of(kinds: impl IntoIterator<Item = FaultKind>) -> Self {
        Self(kinds.into_iter().collect())
    }

    /// Returns those of `faults` that hit a request on `route`, and counts the request.
    pub(crate) fn take(faults: &mut Vec<Fault>, route: &str) -> Self {
        let mut taken = Vec::new();
        faults.retain_mut(|fault| {
            if fault.hits(route) {
                taken.push(fault.kind.clone());
                fault.times = fault.times.map(|times| times.saturating_sub(1));
            }
            fault.times != Some(0)
        });
        Self(taken)
    }

    fn find<T>(&self, choose: impl Fn(&FaultKind) -> Option<T>) -> Option<T> {
        self.0.iter().find_map(choose)
    }

    /// Returns `true` if a fault of this kind hits the request.
    #[must_use]
    pub fn has(&self, kind: &FaultKind) -> bool {
        self.0.contains(kind)
    }

    /// Returns the error code of operations that the request starts, if they fail.
    #[must_use]
    pub fn error(&self) -> Option<String> {
        self.find(|fault| {
            if let FaultKind::EndsInError(code) = fault {
                Some(code.clone())
            } else {
                None
            }
        })
    }

    pub(crate) fn missing_page(&self) -> Option<usize> {
        self.find(|fault| {
            if let FaultKind::MissingPage(at) = fault {
                Some(*at)
            } else {
                None
            }
        })
    }

    pub(crate) fn early_end(&self) -> Option<usize> {
        self.find(|fault| {
            if let FaultKind::EarlyEnd(at) = fault {
                Some(*at)
            } else {
                None
            }
        })
    }

    /// Returns the number of bytes to send before the answer.
    pub(crate) fn padding(&self) -> Option<usize> {
        self.find(|fault| match fault {
            FaultKind::LongAnswer(bytes) => Some(*bytes),
            FaultKind::EndlessAnswer => Some(usize::MAX),
            _ => None,
        })
    }

    /// Returns the status that a proxy between client and API answers with.
    pub(crate) fn foreign(&self) -> Option<u16> {
        self.find(|fault| {
            if let FaultKind::Status(status) = fault {
                Some(*status)
            } else {
                None
            }
        })
    }

    pub(crate) fn refused(&self) -> Option<Refused> {
        self.find(|fault| {
            if let FaultKind::Refused(refused) = fault {
                Some(refused.clone())
            } else {
                None
            }
        })
    }

    /// Waits as long as the faults require.
    pub(crate) async fn hold(&self) {
        if self.has(&FaultKind::Hang) {
            pending::<()>().await;
        }
        if let Some(time) = self.find(|fault| {
            if let FaultKind::Latency(time) = fault {
                Some(*time)
            } else {
                None
            }
        }) {
            tokio::time::sleep(time).await;
        }
    }
}
