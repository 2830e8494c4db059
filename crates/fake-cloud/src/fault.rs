//! What can be broken, on purpose.

use std::future::pending;
use std::time::Duration;

/// Something that goes wrong with requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The route, `GET /servers/{id}`; empty: all routes. A method alone: all routes with it.
    pub route: String,
    /// What goes wrong.
    pub kind: FaultKind,
    /// So many requests are spared first.
    pub spared: u32,
    /// For how many requests; `None`: until [`Gate::clear_faults`](crate::Gate::clear_faults).
    pub times: Option<u32>,
}

/// The ways in which a request can go wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// Refused in the API's own words; not applied.
    Refused(Refused),
    /// Refused with this status and a body that is not the API's, as by a proxy; not applied.
    Status(u16),
    /// Applied, and the connection cut before the answer.
    LostAnswer,
    /// Applied, and the connection cut in the middle of the answer.
    CutAnswer,
    /// Neither applied nor answered.
    Hang,
    /// Applied and answered after this time.
    Latency(Duration),
    /// What it starts in the background ends in an error, which has this code where the API tells one.
    EndsInError(String),
    /// A list has nothing in it.
    EmptyList,
    /// A page of a list is skipped.
    MissingPage(usize),
    /// A list says that this page is its last.
    EarlyEnd(usize),
    /// Each page of a list says that it is followed by itself.
    EndlessList,
    /// Each page of a list is empty, and says that another one follows.
    EmptyPages,
    /// Applied, and answered with so many bytes of spaces before the answer, which is valid.
    LongAnswer(usize),
    /// Applied, and answered with spaces without an end.
    EndlessAnswer,
}

/// Why a request is not carried out, before the API puts it into its own form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The answer's status; `None`: the one that belongs to the code.
    pub status: Option<u16>,
    /// The API's word for it.
    pub code: String,
    /// What it says.
    pub message: String,
    /// `Retry-After` in seconds.
    pub retry_after: Option<u32>,
}

impl Refused {
    /// With this status, code and message.
    #[must_use]
    pub fn new(status: u16, code: &str, message: &str) -> Self {
        Self { status: Some(status), code: code.to_owned(), message: message.to_owned(), retry_after: None }
    }
}

impl Fault {
    /// A fault until it is cleared.
    #[must_use]
    pub fn new(route: &str, kind: FaultKind) -> Self {
        Self { route: route.to_owned(), kind, spared: 0, times: None }
    }

    /// Refused with this status, in nobody's words.
    #[must_use]
    pub fn status(route: &str, status: u16) -> Self {
        Self::new(route, FaultKind::Status(status))
    }

    /// Refused with this code of the API, and the status that belongs to it.
    #[must_use]
    pub fn code(route: &str, code: &str) -> Self {
        let refused = Refused { status: None, ..Refused::new(0, code, "on purpose") };
        Self::new(route, FaultKind::Refused(refused))
    }

    /// Refused with this status, in the API's own form.
    #[must_use]
    pub fn refused(route: &str, status: u16) -> Self {
        Self::refused_as(route, status, "OnPurpose", "on purpose")
    }

    /// Refused with this status, in the API's own form, with this code (`OverQuota`) and message.
    #[must_use]
    pub fn refused_as(route: &str, status: u16, code: &str, message: &str) -> Self {
        Self::new(route, FaultKind::Refused(Refused::new(status, code, message)))
    }

    /// Refused with this status (429, 503), in the API's own form, and `Retry-After` in seconds.
    #[must_use]
    pub fn retry_after(route: &str, status: u16, seconds: u32) -> Self {
        let refused = Refused::new(status, "", "there are too many requests");
        Self::new(route, FaultKind::Refused(Refused { retry_after: Some(seconds), ..refused }))
    }

    /// What it starts in the background ends in an error with this code; empty where the API tells none.
    #[must_use]
    pub fn ends_in_error(route: &str, code: &str) -> Self {
        Self::new(route, FaultKind::EndsInError(code.to_owned()))
    }

    /// All ways in which an API can be wrong about a list on this route, and about everything else, that no client may take
    /// for an answer.
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

    /// Only for so many requests.
    #[must_use]
    pub fn times(self, times: u32) -> Self {
        Self { times: Some(times), ..self }
    }

    /// Only after so many requests that it would have hit.
    #[must_use]
    pub fn after(self, spared: u32) -> Self {
        Self { spared, ..self }
    }

    /// Whether a request on `route` is hit; it is counted.
    fn hits(&mut self, route: &str) -> bool {
        let is_named = self.route.is_empty() || self.route == route || route.split(' ').next() == Some(&self.route);
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
    /// These.
    #[must_use]
    pub fn of(kinds: impl IntoIterator<Item = FaultKind>) -> Self {
        Self(kinds.into_iter().collect())
    }

    /// Those of `faults` that hit a request on `route`; each counts it.
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

    /// Whether this is among them.
    #[must_use]
    pub fn has(&self, kind: &FaultKind) -> bool {
        self.0.contains(kind)
    }

    /// The code of the error in which what is started now ends, if it does.
    #[must_use]
    pub fn error(&self) -> Option<String> {
        self.find(|it| if let FaultKind::EndsInError(code) = it { Some(code.clone()) } else { None })
    }

    pub(crate) fn missing_page(&self) -> Option<usize> {
        self.find(|it| if let FaultKind::MissingPage(at) = it { Some(*at) } else { None })
    }

    pub(crate) fn early_end(&self) -> Option<usize> {
        self.find(|it| if let FaultKind::EarlyEnd(at) = it { Some(*at) } else { None })
    }

    /// Sends this number of bytes before the answer.
    pub(crate) fn padding(&self) -> Option<usize> {
        self.find(|it| match it {
            FaultKind::LongAnswer(bytes) => Some(*bytes),
            FaultKind::EndlessAnswer => Some(usize::MAX),
            _ => None,
        })
    }

    /// The status that somebody between client and API answers with.
    pub(crate) fn foreign(&self) -> Option<u16> {
        self.find(|it| if let FaultKind::Status(status) = it { Some(*status) } else { None })
    }

    pub(crate) fn refused(&self) -> Option<Refused> {
        self.find(|it| if let FaultKind::Refused(refused) = it { Some(refused.clone()) } else { None })
    }

    /// Waits as they say.
    pub(crate) async fn hold(&self) {
        if self.has(&FaultKind::Hang) {
            pending::<()>().await;
        }
        if let Some(time) = self.find(|it| if let FaultKind::Latency(time) = it { Some(*time) } else { None }) {
            tokio::time::sleep(time).await;
        }
    }
}
