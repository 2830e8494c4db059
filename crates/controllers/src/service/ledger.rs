//! What is remembered of the Services that were worked on.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cloud_provider::Service;

use crate::options::ServiceOptions;
use crate::service::needs_update::{is_news, needs_update};
use crate::service::patch::Annotations;
use crate::service::targets::{Follows, Given, TargetSet};
use crate::service::wants::{has_finalizer, is_abandoned, is_deleting, wants_load_balancer};

/// The service cache of the rules: key → the Service as it was last processed, the targets that its load balancer was
/// last given, and what was said (SVC-37, SVC-64). All of it goes together (SVC-69).
#[derive(Default)]
pub(super) struct Ledger(Mutex<BTreeMap<Box<str>, Entry>>);

struct Entry {
    service: Arc<Service>,
    /// Whether our finalizer was ever seen on it.
    held: bool,
    targets: Option<Given>,
    /// Reason of the condition that was last written.
    told: Option<&'static str>,
    /// The drift that was last reported.
    drift: Option<String>,
    /// Whether an event said that it failed, and none since that it is well.
    failed: bool,
    /// The annotations that the provider asked for.
    annotations: Annotations,
}

impl Entry {
    fn new(service: Arc<Service>) -> Self {
        let (held, annotations) = (has_finalizer(&service), Annotations::default());
        Self { held, service, targets: None, told: None, drift: None, failed: false, annotations }
    }

    /// Whether the change from `old` to `new` makes a difference, but for annotations that we wrote.
    fn differs(&self, old: &Service, new: &Service, differs: impl Fn(&Service, &Service) -> bool) -> bool {
        if !differs(old, new) {
            return false;
        }
        let mut old = old.clone();
        let (before, now) = (old.metadata.annotations.get_or_insert_default(), new.metadata.annotations.as_ref());
        for (key, ours) in &self.annotations {
            match (ours, now.and_then(|now| now.get(*key))) {
                (Some(ours), Some(now)) if ours == now => _ = before.insert((*key).to_owned(), ours.clone()),
                (None, None) => _ = before.remove(*key),
                _ => {}
            }
        }
        old.metadata.annotations = Some(std::mem::take(before)).filter(|all| !all.is_empty() || now.is_some());
        differs(&old, new)
    }
}

impl Ledger {
    /// The Service as it was last processed.
    pub(super) fn service(&self, key: &str) -> Option<Arc<Service>> {
        self.entries().get(key).map(|entry| Arc::clone(&entry.service))
    }

    /// SVC-37. What is remembered of another Service of that name goes.
    pub(super) fn store(&self, key: &str, service: Arc<Service>) {
        let mut entries = self.entries();
        match entries.get_mut(key) {
            Some(entry) if entry.service.metadata.uid == service.metadata.uid => {
                entry.held |= has_finalizer(&service);
                entry.service = service;
            }
            _ => _ = entries.insert(key.into(), Entry::new(service)),
        }
    }

    /// Takes over a newer version of a Service that makes no difference to its load balancer, so that no old version is
    /// kept alive.
    pub(super) fn freshen(&self, key: &str, service: &Arc<Service>, options: &ServiceOptions) {
        if let Some(entry) = self.entries().get_mut(key)
            && entry.service.metadata.uid == service.metadata.uid
            && !entry.differs(&entry.service, service, |old, new| needs_update(old, new, options))
        {
            entry.service = Arc::clone(service);
        }
    }

    /// Before the provider's annotations are written.
    pub(super) fn remember_annotations(&self, key: &str, annotations: &Annotations) {
        self.change(key, |entry| entry.annotations.clone_from(annotations));
    }

    /// Whether the change of this Service is news only for the annotations that we wrote ourselves: a sync for them would find
    /// nothing to do, or try again before the time what has just failed.
    pub(super) fn is_our_annotation(&self, key: &str, old: &Service, new: &Service, options: &ServiceOptions) -> bool {
        let entries = self.entries();
        let entry = entries.get(key).filter(|entry| entry.service.metadata.uid == new.metadata.uid);
        entry.is_some_and(|entry| !entry.differs(old, new, |old, new| is_news(old, new, options)))
    }

    /// Remembers the last version of a deleted Service if that asks to leave the load balancer behind, however late it came.
    pub(super) fn remember_deleted(&self, key: &str, last: &Arc<Service>) {
        self.change(key, |entry| {
            if entry.service.metadata.uid == last.metadata.uid && is_abandoned(last) {
                entry.service = Arc::clone(last);
            }
        });
    }

    /// Number of Services that are remembered.
    pub(super) fn len(&self) -> usize {
        self.entries().len()
    }

    /// SVC-40, SVC-69.
    pub(super) fn forget(&self, key: &str) {
        self.entries().remove(key);
    }

    /// The targets that the load balancer was last given, or was to be given.
    pub(super) fn targets(&self, key: &str) -> Option<Given> {
        self.entries().get(key)?.targets.clone()
    }

    /// SVC-50, SVC-64: remembered before the call, whatever becomes of it.
    pub(super) fn remember_targets(&self, key: &str, targets: Given) {
        self.change(key, |entry| entry.targets = Some(targets));
    }

    /// Whether a load balancer may have been made for it: our finalizer comes before, and its targets with it.
    pub(super) fn may_have_balancer(&self, key: &str) -> bool {
        self.entries().get(key).is_some_and(|entry| entry.held || entry.targets.is_some())
    }

    /// Reason of the condition that was last written on this very Service.
    pub(super) fn told(&self, key: &str, service: &Service) -> Option<&'static str> {
        let entries = self.entries();
        let entry = entries.get(key).filter(|entry| entry.service.metadata.uid == service.metadata.uid)?;
        entry.told
    }

    pub(super) fn remember_told(&self, key: &str, service: &Service, reason: Option<&'static str>) {
        self.change(key, |entry| {
            if entry.service.metadata.uid == service.metadata.uid {
                entry.told = reason;
            }
        });
    }

    /// Remembers the drift, and returns `true` if it is another one than before.
    pub(super) fn remember_drift(&self, key: &str, drift: Option<String>) -> bool {
        let mut entries = self.entries();
        let Some(entry) = entries.get_mut(key) else { return false };
        let is_new = drift.is_some() && entry.drift != drift;
        entry.drift = drift;
        is_new
    }

    /// Remembers that the last event on the Service reported a failure, or a success. Returns `true` if the one before reported
    /// a failure.
    pub(super) fn remember_failed(&self, key: &str, failed: bool) -> bool {
        let mut before = false;
        self.change(key, |entry| before = std::mem::replace(&mut entry.failed, failed));
        before
    }

    /// Whether the last that was said of it is that it failed.
    pub(super) fn has_failed(&self, key: &str) -> bool {
        self.entries().get(key).is_some_and(|entry| entry.failed)
    }

    /// All keys whose load balancer was last given other targets than these, in order; with `None` all that have a load
    /// balancer (SVC-64, SVC-68). `follows`: whose targets depend on labels.
    pub(super) fn with_other_targets<'a>(
        &self,
        now: Option<&TargetSet>,
        follows: impl Fn(&Service) -> Follows<'a>,
        options: &ServiceOptions,
    ) -> Vec<String> {
        let has_others = |entry: &Entry| match (now, &entry.targets) {
            (Some(now), Some(then)) => !then.is(&now.given(follows(&entry.service))),
            _ => true,
        };
        let entries = self.entries();
        let stale = entries.iter().filter(|(_, entry)| gets_targets(&entry.service, options) && has_others(entry));
        stale.map(|(key, _)| key.to_string()).collect()
    }

    /// Whether there is a load balancer whose Service is one of these.
    pub(super) fn has_any(&self, is_one: impl Fn(&Service) -> bool, options: &ServiceOptions) -> bool {
        self.entries().values().any(|entry| gets_targets(&entry.service, options) && is_one(&entry.service))
    }

    fn change(&self, key: &str, change: impl FnOnce(&mut Entry)) {
        if let Some(entry) = self.entries().get_mut(key) {
            change(entry);
        }
    }

    fn entries(&self) -> MutexGuard<'_, BTreeMap<Box<str>, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the targets of this Service's load balancer are kept up to date. Not if it is being deleted: then it is only
/// cleaned up (P-20).
pub(super) fn gets_targets(service: &Service, options: &ServiceOptions) -> bool {
    wants_load_balancer(service, options) && !is_deleting(service)
}
