//! Services that vanish from the API without being deleted, and the deletion of their load balancers (INV-9, D-220).
//!
//! A Service with the finalizer cannot be deleted without a deletion timestamp. A Service that is missing without one
//! was forgotten by its API server, as after a restore of etcd from an old backup, or lost its finalizer while no
//! controller watched. Its load balancer is deleted once two reads, `delay` apart, did not find the Service. Nothing is
//! deleted while so many Services are missing at once that the API server is the likelier cause.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::Service;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use crate::options::GuardOptions;

/// Pause after a read that failed or that found the Service.
const RETRY_PAUSE: Duration = Duration::from_secs(30);
/// Minimum pause between two checks of a missing Service.
const MIN_PAUSE: Duration = Duration::from_secs(1);

/// The reason why a load balancer is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServiceHoldReason {
    /// The second read has not confirmed yet that the Service does not exist.
    Unconfirmed {
        /// Time between the two reads.
        delay: Duration,
    },
    /// Too many Services are missing at once.
    Landslide {
        /// Number of Services that are missing.
        gone: usize,
        /// Number of Services with a load balancer.
        of: usize,
    },
}

impl ServiceHoldReason {
    /// Returns the cause as the value of a metric label.
    pub(super) fn cause(self) -> &'static str {
        match self {
            Self::Unconfirmed { .. } => "unconfirmed",
            Self::Landslide { .. } => "landslide",
        }
    }
}

impl fmt::Display for ServiceHoldReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unconfirmed { delay } => {
                write!(
                    f,
                    "it is deleted if a second read after {} s does not find the Service either",
                    delay.as_secs()
                )
            }
            Self::Landslide { gone, of } => write!(
                f,
                "{gone} of {of} Services with load balancers are missing together; check the API server and its storage. \
                 If Services were deleted on purpose, delete their load balancers in the cloud"
            ),
        }
    }
}

/// Next step for a Service that the API no longer shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VanishedStep {
    /// Keeps the load balancer without a report.
    Keep,
    /// Keeps the load balancer, and reports the reason in an event.
    Report(ServiceHoldReason),
    /// Reads the Service from the API.
    Read,
}

/// A Service that is missing.
struct Absence {
    service: Arc<Service>,
    /// If set, another Service of the same name exists.
    is_replaced: bool,
    /// Time of the first read that did not find the Service, if all later reads did not find it either.
    first_read: Option<Instant>,
    /// Time at which the Service is checked again.
    due: Instant,
    reported: Option<&'static str>,
}

/// The missing Services, by key and UID. A state machine without a clock of its own. The state is lost with the
/// process, which then no longer knows their load balancers.
struct VanishedState {
    options: GuardOptions,
    absent: BTreeMap<(String, String), Absence>,
    /// Times at which load balancers of missing Services were deleted, kept for the delay.
    removed: Vec<Instant>,
    is_landslide: bool,
    /// Keys of Services that a write did not find.
    unwritten: BTreeSet<String>,
}

impl VanishedState {
    fn new(options: GuardOptions) -> Self {
        Self {
            options,
            absent: BTreeMap::new(),
            removed: Vec::new(),
            is_landslide: false,
            unwritten: BTreeSet::new(),
        }
    }

    /// Returns the hold if too many Services are missing. `remembered` is the number of Services in the ledger, which
    /// includes missing Services unless another Service has their name.
    fn landslide(&mut self, now: Instant, remembered: usize) -> Option<ServiceHoldReason> {
        let Self {
            options,
            absent,
            removed,
            ..
        } = self;
        removed.retain(|at| now.duration_since(*at) < options.delay);
        let replaced = absent
            .values()
            .filter(|absence| absence.is_replaced)
            .count();
        let gone = absent.len() + removed.len();
        let of = remembered + replaced + removed.len();
        #[allow(clippy::cast_precision_loss)] // Services are counted in thousands.
        let slides =
            of >= GuardOptions::SMALLEST_LANDSLIDE && gone as f64 > options.share * of as f64;
        slides.then_some(ServiceHoldReason::Landslide { gone, of })
    }

    fn step(&mut self, now: Instant, key: &(String, String), remembered: usize) -> VanishedStep {
        let landslide = self.landslide(now, remembered);
        if std::mem::replace(&mut self.is_landslide, landslide.is_some()) && landslide.is_none() {
            // Reads during a landslide prove nothing.
            self.absent
                .values_mut()
                .for_each(|absence| absence.first_read = None);
        }
        let delay = self.options.delay;
        let Some(absence) = self
            .absent
            .get_mut(key)
            .filter(|absence| now >= absence.due)
        else {
            return VanishedStep::Keep;
        };
        let Some(held) = landslide else {
            return VanishedStep::Read;
        };
        (absence.first_read, absence.due) = (None, now + delay.max(RETRY_PAUSE));
        report_once(absence, held)
    }

    /// Records that a read did not find the Service. Returns `true` if this was the second read, so that the load
    /// balancer may be deleted.
    fn not_found(&mut self, now: Instant, key: &(String, String)) -> (bool, VanishedStep) {
        let delay = self.options.delay;
        let Some(absence) = self.absent.get_mut(key) else {
            return (false, VanishedStep::Keep);
        };
        let confirmed = *absence.first_read.get_or_insert(now) + delay;
        if now >= confirmed {
            absence.due = now + RETRY_PAUSE;
            return (true, VanishedStep::Keep);
        }
        absence.due = confirmed;
        (
            false,
            report_once(absence, ServiceHoldReason::Unconfirmed { delay }),
        )
    }
}

fn report_once(absence: &mut Absence, held: ServiceHoldReason) -> VanishedStep {
    if absence.reported.replace(held.cause()) == Some(held.cause()) {
        VanishedStep::Keep
    } else {
        VanishedStep::Report(held)
    }
}

/// The missing Services. Clones share them. Without options, no Service counts as missing.
#[derive(Clone)]
pub(super) struct Vanished(Option<Arc<Mutex<VanishedState>>>);

impl Vanished {
    pub(super) fn new(options: Option<GuardOptions>) -> Self {
        Self(options.map(|options| Arc::new(Mutex::new(VanishedState::new(options)))))
    }

    /// Returns `true` if missing Services are handled.
    pub(super) fn is_enabled(&self) -> bool {
        self.0.is_some()
    }

    /// Records a Service that vanished in this state.
    pub(super) fn note(&self, key: &str, service: &Arc<Service>, is_replaced: bool) {
        let Some(mut state) = self.state() else {
            return;
        };
        let service = Arc::clone(service);
        let due = Instant::now();
        let absence = Absence {
            is_replaced,
            first_read: None,
            due,
            reported: None,
            service,
        };
        state
            .absent
            .entry(id(key, &absence.service))
            .or_insert(absence);
    }

    /// Records that another Service now has the name of this missing Service.
    pub(super) fn note_replaced(&self, key: &str, service: &Service) {
        if let Some(mut state) = self.state()
            && let Some(absence) = state.absent.get_mut(&id(key, service))
        {
            absence.is_replaced = true;
        }
    }

    /// Records that the cache shows this Service. Returns `true` if the Service was missing.
    pub(super) fn note_present(&self, key: &str, service: &Service) -> bool {
        self.state().is_some_and(|mut state| {
            !state.absent.is_empty() && state.absent.remove(&id(key, service)).is_some()
        })
    }

    /// Returns `true` if this Service is missing.
    pub(super) fn has(&self, key: &str, service: &Service) -> bool {
        self.state().is_some_and(|state| {
            !state.absent.is_empty() && state.absent.contains_key(&id(key, service))
        })
    }

    /// Returns the missing Services of this key.
    pub(super) fn of(&self, key: &str) -> Vec<Arc<Service>> {
        let Some(state) = self.state() else {
            return Vec::new();
        };
        of(&state, key)
            .map(|absence| Arc::clone(&absence.service))
            .collect()
    }

    /// Returns the time until a missing Service of this key is due; `None` if there is none.
    pub(super) fn pause(&self, key: &str) -> Option<Duration> {
        let state = self.state()?;
        let due = of(&state, key).map(|absence| absence.due).min()?;
        // A Service that is due but was not checked, because its sync failed before, is not urgent.
        Some(due.saturating_duration_since(Instant::now()).max(MIN_PAUSE))
    }

    /// Records that a write did not find the Service of this key. The Service may exist again before the cache notices.
    pub(super) fn note_unwritten(&self, key: &str) {
        if let Some(mut state) = self.state() {
            state.unwritten.insert(key.to_owned());
        }
    }

    /// Returns and removes the time until a Service that a write did not find is synced again.
    pub(super) fn take_unwritten(&self, key: &str) -> Option<Duration> {
        self.state()?.unwritten.remove(key).then_some(RETRY_PAUSE)
    }

    /// Returns the number of missing Services.
    pub(super) fn len(&self) -> usize {
        self.state().map_or(0, |state| state.absent.len())
    }

    pub(super) fn step(&self, key: &str, service: &Service, remembered: usize) -> VanishedStep {
        self.state().map_or(VanishedStep::Keep, |mut state| {
            state.step(Instant::now(), &id(key, service), remembered)
        })
    }

    pub(super) fn not_found(&self, key: &str, service: &Service) -> (bool, VanishedStep) {
        self.state()
            .map_or((false, VanishedStep::Keep), |mut state| {
                state.not_found(Instant::now(), &id(key, service))
            })
    }

    /// Records that a read found the Service, which the cache will show.
    pub(super) fn found(&self, key: &str, service: &Service) {
        self.wait(key, service, true);
    }

    /// Records a failure, after which the Service is due again soon.
    pub(super) fn failed(&self, key: &str, service: &Service) {
        self.wait(key, service, false);
    }

    fn wait(&self, key: &str, service: &Service, is_found: bool) {
        if let Some(mut state) = self.state()
            && let Some(absence) = state.absent.get_mut(&id(key, service))
        {
            absence.due = Instant::now() + RETRY_PAUSE;
            if is_found {
                absence.first_read = None;
            }
        }
    }

    /// Records that the load balancer of this Service was deleted.
    pub(super) fn removed(&self, key: &str, service: &Service) {
        if let Some(mut state) = self.state()
            && state.absent.remove(&id(key, service)).is_some()
        {
            state.removed.push(Instant::now());
        }
    }

    fn state(&self) -> Option<MutexGuard<'_, VanishedState>> {
        self.0.as_ref().map(|state| state.lock())
    }
}

fn id(key: &str, service: &Service) -> (String, String) {
    (
        key.to_owned(),
        service.metadata.uid.clone().unwrap_or_default(),
    )
}

fn of<'a>(state: &'a VanishedState, key: &str) -> impl Iterator<Item = &'a Absence> {
    let (key, first) = (key.to_owned(), (key.to_owned(), String::new()));
    state
        .absent
        .range(first..)
        .take_while(move |((of, _), _)| *of == key)
        .map(|(_, absence)| absence)
}

#[cfg(test)]
mod tests;
