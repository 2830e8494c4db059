//! Fault injection: errors, latency and partial lists on purpose.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::model::Model;

/// A fault that is injected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// Kind of the fault.
    pub kind: FaultKind,
    /// Route that the fault applies to, by method and path template: `GET /v1/machines/{id}`; all routes if `None`.
    #[serde(default)]
    pub route: Option<String>,
    /// Number of requests that the fault applies to; each page of a list is one. `None`: until it is cleared.
    #[serde(default)]
    pub count: Option<u32>,
    /// Status code of the answer, for `status`; 500 by default.
    #[serde(default)]
    pub status: Option<u16>,
    /// Delay in milliseconds, for `latency`; 1000 by default.
    #[serde(default)]
    pub milliseconds: Option<u64>,
    /// Number of a page, from 1: for `missing_page` the one that is skipped (2 by default), for `early_end` the last
    /// one that is shown (1 by default).
    #[serde(default)]
    pub page: Option<usize>,
    /// For `missing_page` and `early_end`: if set, answers have no total, which would reveal the fault.
    #[serde(default)]
    pub without_total: bool,
}

/// The ways in which a request can go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// The answer comes late.
    Latency,
    /// The request is refused with a status code, and not applied.
    Status,
    /// The request is applied, and the connection cut before the answer.
    LostAnswer,
    /// A page of a list is skipped.
    MissingPage,
    /// A list ends too early, without a further page.
    EarlyEnd,
    /// A list is empty, as one of the wrong project would be.
    EmptyList,
    /// Every token is refused.
    WrongCredentials,
    /// The answer never comes.
    Hang,
}

impl Fault {
    /// Creates a fault on all routes until it is cleared.
    #[must_use]
    pub fn new(kind: FaultKind) -> Self {
        Self {
            kind,
            route: None,
            count: None,
            status: None,
            milliseconds: None,
            page: None,
            without_total: false,
        }
    }

    /// Restricts the fault to this route.
    #[must_use]
    pub fn on(self, route: &str) -> Self {
        Self {
            route: Some(route.to_owned()),
            ..self
        }
    }

    /// Restricts the fault to a number of requests.
    #[must_use]
    pub fn times(self, count: u32) -> Self {
        Self {
            count: Some(count),
            ..self
        }
    }

    /// Returns a fault that refuses requests with this status code.
    #[must_use]
    pub fn status(code: u16) -> Self {
        Self {
            status: Some(code),
            ..Self::new(FaultKind::Status)
        }
    }

    /// Returns a fault that delays answers by this time.
    #[must_use]
    pub fn latency(milliseconds: u64) -> Self {
        Self {
            milliseconds: Some(milliseconds),
            ..Self::new(FaultKind::Latency)
        }
    }

    /// Restricts the fault to one page.
    #[must_use]
    pub fn at_page(self, page: usize) -> Self {
        Self {
            page: Some(page),
            ..self
        }
    }

    /// Leaves out the total.
    #[must_use]
    pub fn without_total(self) -> Self {
        Self {
            without_total: true,
            ..self
        }
    }
}

/// Effects of the faults on one request.
#[derive(Clone, Debug, Default)]
pub(super) struct Effects {
    pub(super) latency: Duration,
    pub(super) status: Option<u16>,
    pub(super) answer_is_lost: bool,
    pub(super) credentials_are_wrong: bool,
    pub(super) hangs: bool,
    pub(super) list: ListEffects,
}

/// Effects of the faults on one page of a list.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ListEffects {
    pub(super) missing_page: Option<usize>,
    pub(super) last_page: Option<usize>,
    pub(super) is_empty: bool,
    pub(super) hides_total: bool,
}

impl Model {
    /// Returns the faults that hit a request on `route`; each counts it.
    pub(super) fn take_effects(&mut self, route: &str) -> Effects {
        let mut effects = Effects::default();
        self.faults.retain_mut(|fault| {
            if fault.route.as_deref().is_some_and(|on| on != route) {
                return true;
            }
            effects.add(fault);
            match &mut fault.count {
                None => true,
                Some(count) => {
                    *count = count.saturating_sub(1);
                    *count > 0
                }
            }
        });
        effects
    }
}

impl Effects {
    fn add(&mut self, fault: &Fault) {
        match fault.kind {
            FaultKind::Latency => {
                self.latency += Duration::from_millis(fault.milliseconds.unwrap_or(1000));
            }
            FaultKind::Status => self.status = Some(fault.status.unwrap_or(500)),
            FaultKind::LostAnswer => self.answer_is_lost = true,
            FaultKind::WrongCredentials => self.credentials_are_wrong = true,
            FaultKind::Hang => self.hangs = true,
            FaultKind::EmptyList => self.list.is_empty = true,
            FaultKind::MissingPage => self.list.missing_page = Some(fault.page.unwrap_or(2)),
            FaultKind::EarlyEnd => self.list.last_page = Some(fault.page.unwrap_or(1)),
        }
        self.list.hides_total |= fault.without_total;
    }
}
