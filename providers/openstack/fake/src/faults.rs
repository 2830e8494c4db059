//! What can be broken, on purpose.

use std::time::Duration;

/// Something that goes wrong with requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Method and path template, `GET /servers/{id}`; empty: all routes. A method alone: all routes with it.
    pub route: String,
    /// What goes wrong.
    pub kind: FaultKind,
    /// For how many requests; `None`: until [`Fake::clear_faults`](crate::Fake::clear_faults).
    pub times: Option<u32>,
}

/// The ways in which a request can go wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// Refused with this status, and a body as the service writes it with this type and message; not applied.
    Refused(u16, String, String),
    /// Refused with this status and a body that is nobody's; not applied.
    Status(u16),
    /// Refused with this status and `Retry-After` in seconds; not applied.
    RetryAfter(u16, u32),
    /// Applied, and the connection cut before the answer.
    LostAnswer,
    /// Neither applied nor answered.
    Hang,
    /// Applied and answered after this time.
    Latency(Duration),
    /// Applied by Octavia's API, but its worker fails: the load balancer ends in `ERROR`.
    EndsInError,
    /// A list has nothing in it.
    EmptyList,
    /// A page of a list is skipped.
    MissingPage(usize),
    /// A list says that this page is its last.
    EarlyEnd(usize),
    /// Each page of a list says that it is followed by itself.
    EndlessList,
}

impl Fault {
    /// A fault until it is cleared.
    #[must_use]
    pub fn new(route: &str, kind: FaultKind) -> Self {
        Self { route: route.to_owned(), kind, times: None }
    }

    /// Refused with this status, in the service's own form.
    #[must_use]
    pub fn refused(route: &str, status: u16) -> Self {
        Self::refused_as(route, status, "OnPurpose", "on purpose")
    }

    /// Refused with this status, in the service's own form, with this type (`OverQuota`) and message.
    #[must_use]
    pub fn refused_as(route: &str, status: u16, kind: &str, message: &str) -> Self {
        Self::new(route, FaultKind::Refused(status, kind.to_owned(), message.to_owned()))
    }

    /// Refused with this status, in nobody's words.
    #[must_use]
    pub fn status(route: &str, status: u16) -> Self {
        Self::new(route, FaultKind::Status(status))
    }

    /// Only for so many requests.
    #[must_use]
    pub fn times(self, times: u32) -> Self {
        Self { times: Some(times), ..self }
    }

    fn hits(&self, route: &str) -> bool {
        self.route.is_empty() || self.route == route || route.split(' ').next() == Some(&self.route)
    }
}

/// The faults that hit one request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Effects(Vec<FaultKind>);

impl Effects {
    /// Those of `faults` that hit a request on `route`; each counts it.
    pub(crate) fn take(faults: &mut Vec<Fault>, route: &str) -> Self {
        let mut taken = Vec::new();
        faults.retain_mut(|fault| {
            if !fault.hits(route) {
                return true;
            }
            taken.push(fault.kind.clone());
            match &mut fault.times {
                None => true,
                Some(times) => {
                    *times = times.saturating_sub(1);
                    *times > 0
                }
            }
        });
        Self(taken)
    }

    pub(crate) fn find<T>(&self, choose: impl Fn(&FaultKind) -> Option<T>) -> Option<T> {
        self.0.iter().find_map(choose)
    }

    pub(crate) fn has(&self, kind: &FaultKind) -> bool {
        self.0.contains(kind)
    }
}
