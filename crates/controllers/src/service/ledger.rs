//! State of the Services that were synced.

use std::collections::BTreeMap;
use std::sync::Arc;

use cloud_provider::Service;
use parking_lot::{Mutex, MutexGuard};

use crate::options::ServiceOptions;
use crate::service::condition::ShownCondition;
use crate::service::needs_update::{needs_sync, needs_update};
use crate::service::patch::Annotations;
use crate::service::targets::{Follows, Given, TargetSet};
use crate::service::wants::{has_finalizer, is_abandoned, is_deleting, wants_load_balancer};

/// Ledger of the Services that this run has synced (the "service cache" of docs/rules): for each key the Service as
/// last synced, the targets of its load balancer, and the reported condition (SVC-37, SVC-64). An entry is removed as a
/// whole (SVC-69).
#[derive(Default)]
pub(super) struct Ledger(Mutex<BTreeMap<Box<str>, Entry>>);

struct Entry {
    service: Arc<Service>,
    /// If set, the Service has had this controller's finalizer.
    had_finalizer: bool,
    targets: Option<Given>,
    /// Condition that was last written.
    condition: Option<ShownCondition>,
    /// Drift that was last reported.
    drift: Option<String>,
    /// If set, the last event reported a failure.
    failed: bool,
    /// Annotations that the provider requested during the last sync.
    annotations: Annotations,
}

impl Entry {
    fn new(service: Arc<Service>) -> Self {
        let had_finalizer = has_finalizer(&service);
        let annotations = Annotations::default();
        Self {
            had_finalizer,
            service,
            targets: None,
            condition: None,
            drift: None,
            failed: false,
            annotations,
        }
    }

    /// Returns `true` if the change from `old` to `new` matters according to `differs`, apart from annotations that
    /// this controller wrote.
    fn differs(
        &self,
        old: &Service,
        new: &Service,
        differs: impl Fn(&Service, &Service) -> bool,
    ) -> bool {
        if !differs(old, new) {
            return false;
        }
        let mut old = old.clone();
        let before = old.metadata.annotations.get_or_insert_default();
        let now = new.metadata.annotations.as_ref();
        for (key, ours) in &self.annotations {
            match (ours, now.and_then(|now| now.get(*key))) {
                (Some(ours), Some(now)) if ours == now => {
                    _ = before.insert((*key).to_owned(), ours.clone());
                }
                (None, None) => _ = before.remove(*key),
                _ => {}
            }
        }
        old.metadata.annotations =
            Some(std::mem::take(before)).filter(|all| !all.is_empty() || now.is_some());
        differs(&old, new)
    }
}

impl Ledger {
    /// Returns the Service as last synced.
    pub(super) fn service(&self, key: &str) -> Option<Arc<Service>> {
        self.entries()
            .get(key)
            .map(|entry| Arc::clone(&entry.service))
    }

    /// Stores a Service (SVC-37). The entry of another Service of the same name is removed.
    pub(super) fn store(&self, key: &str, service: Arc<Service>) {
        let mut entries = self.entries();
        match entries.get_mut(key) {
            Some(entry) if entry.service.metadata.uid == service.metadata.uid => {
                entry.had_finalizer |= has_finalizer(&service);
                entry.service = service;
            }
            _ => _ = entries.insert(key.into(), Entry::new(service)),
        }
    }

    /// Replaces the stored Service by a newer version that does not change its load balancer, so that the old version
    /// is freed.
    pub(super) fn freshen(&self, key: &str, service: &Arc<Service>, options: &ServiceOptions) {
        if let Some(entry) = self.entries().get_mut(key)
            && entry.service.metadata.uid == service.metadata.uid
            && !entry.differs(&entry.service, service, |old, new| {
                needs_update(old, new, options)
            })
        {
            entry.service = Arc::clone(service);
        }
    }

    /// Stores the provider's annotations before they are written.
    pub(super) fn remember_annotations(&self, key: &str, annotations: &Annotations) {
        self.change(key, |entry| entry.annotations.clone_from(annotations));
    }

    /// Returns `true` if a change of this Service matters only because of annotations that this controller wrote. A
    /// sync would find nothing to do, or retry a failure too early.
    pub(super) fn is_our_annotation(
        &self,
        key: &str,
        old: &Service,
        new: &Service,
        options: &ServiceOptions,
    ) -> bool {
        let entries = self.entries();
        let entry = entries
            .get(key)
            .filter(|entry| entry.service.metadata.uid == new.metadata.uid);
        entry
            .is_some_and(|entry| !entry.differs(old, new, |old, new| needs_sync(old, new, options)))
    }

    /// Stores the last version of a deleted Service if its annotation `ccm-rs/abandon-load-balancer` is set, even if
    /// the annotation was set after the last sync.
    pub(super) fn remember_deleted(&self, key: &str, last: &Arc<Service>) {
        self.change(key, |entry| {
            if entry.service.metadata.uid == last.metadata.uid && is_abandoned(last) {
                entry.service = Arc::clone(last);
            }
        });
    }

    /// Returns the number of stored Services.
    pub(super) fn len(&self) -> usize {
        self.entries().len()
    }

    /// Removes the entry of a Service (SVC-40, SVC-69).
    pub(super) fn forget(&self, key: &str) {
        self.entries().remove(key);
    }

    /// Returns the targets of the last call to the cloud, whether the call succeeded or not.
    pub(super) fn targets(&self, key: &str) -> Option<Given> {
        self.entries().get(key)?.targets.clone()
    }

    /// Stores the targets before the call to the cloud, whatever its result (SVC-50, SVC-64).
    pub(super) fn remember_targets(&self, key: &str, targets: Given) {
        self.change(key, |entry| entry.targets = Some(targets));
    }

    /// Returns `true` if a load balancer may exist, because the finalizer and the targets are set before its creation.
    pub(super) fn may_have_balancer(&self, key: &str) -> bool {
        self.entries()
            .get(key)
            .is_some_and(|entry| entry.had_finalizer || entry.targets.is_some())
    }

    /// Returns the condition that was last written on this Service.
    pub(super) fn reported(&self, key: &str, service: &Service) -> Option<ShownCondition> {
        let entries = self.entries();
        let entry = entries
            .get(key)
            .filter(|entry| entry.service.metadata.uid == service.metadata.uid)?;
        entry.condition.clone()
    }

    pub(super) fn remember_condition(
        &self,
        key: &str,
        service: &Service,
        condition: Option<ShownCondition>,
    ) {
        self.change(key, |entry| {
            if entry.service.metadata.uid == service.metadata.uid {
                entry.condition = condition;
            }
        });
    }

    /// Stores the drift. Returns `true` if it differs from the previous one.
    pub(super) fn remember_drift(&self, key: &str, drift: Option<String>) -> bool {
        let mut entries = self.entries();
        let Some(entry) = entries.get_mut(key) else {
            return false;
        };
        let is_new = drift.is_some() && entry.drift != drift;
        entry.drift = drift;
        is_new
    }

    /// Stores whether the last event on the Service reported a failure. Returns `true` if the previous event reported a
    /// failure.
    pub(super) fn remember_failed(&self, key: &str, failed: bool) -> bool {
        let mut before = false;
        self.change(key, |entry| {
            before = std::mem::replace(&mut entry.failed, failed);
        });
        before
    }

    /// Returns `true` if the last event on the Service reported a failure.
    pub(super) fn has_failed(&self, key: &str) -> bool {
        self.entries().get(key).is_some_and(|entry| entry.failed)
    }

    /// Returns the keys of all load balancers whose targets differ from `now`, in order; with `None`, of all load
    /// balancers (SVC-64, SVC-68). `follows` returns the labels that a Service's targets depend on.
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
        let stale = entries
            .iter()
            .filter(|(_, entry)| gets_targets(&entry.service, options) && has_others(entry));
        stale.map(|(key, _)| key.to_string()).collect()
    }

    /// Returns `true` if a load balancer exists whose Service matches `is_one`.
    pub(super) fn has_any(
        &self,
        is_one: impl Fn(&Service) -> bool,
        options: &ServiceOptions,
    ) -> bool {
        self.entries()
            .values()
            .any(|entry| gets_targets(&entry.service, options) && is_one(&entry.service))
    }

    fn change(&self, key: &str, change: impl FnOnce(&mut Entry)) {
        if let Some(entry) = self.entries().get_mut(key) {
            change(entry);
        }
    }

    fn entries(&self) -> MutexGuard<'_, BTreeMap<Box<str>, Entry>> {
        self.0.lock()
    }
}

/// Returns `true` if the targets of this Service's load balancer are kept up to date, which is not the case while the
/// Service is being deleted (P-20).
pub(super) fn gets_targets(service: &Service, options: &ServiceOptions) -> bool {
    wants_load_balancer(service, options) && !is_deleting(service)
}
