//! Versions of Services that this controller wrote and that the cache does not have yet.

use std::collections::HashMap;

use cloud_provider::Service;
use parking_lot::{Mutex, MutexGuard};
use runtime::cache::Cache;

/// Versions of Services that this controller wrote and that the cache does not have yet.
///
/// A Service can be synced again before the watch delivers this controller's last write. If its finalizer was just
/// removed, the cache still has the finalizer, and a load balancer would be created without one, so that nothing holds
/// the Service when it is deleted (INV-2). A sync that finds the cache behind reads the Service from the API.
#[derive(Default)]
pub(super) struct OwnWrites(Mutex<HashMap<Box<str>, u64>>);

impl OwnWrites {
    /// Records a write. A version that `cache` has already is not recorded, because the watch may be faster than the
    /// answer, and nothing is recorded for a Service that no longer exists.
    pub(super) fn note(&self, key: &str, written: &Service, cache: &Cache<Service>) {
        if let Some(version) = version(written) {
            self.lock().insert(key.into(), version);
        }
        match cache.get(key) {
            Some(cached) => self.seen(key, &cached),
            None => self.forget(key),
        }
    }

    /// Returns `true` if the cached Service is older than this controller's last write.
    pub(super) fn are_missing_in(&self, key: &str, cached: &Service) -> bool {
        let Some(written) = self.lock().get(key).copied() else {
            return false;
        };
        version(cached).is_some_and(|cached| cached < written)
    }

    /// Records that the cache has this version.
    pub(super) fn seen(&self, key: &str, cached: &Service) {
        let mut writes = self.lock();
        if let Some(written) = writes.get(key)
            && version(cached).is_none_or(|cached| cached >= *written)
        {
            writes.remove(key);
        }
    }

    /// Returns `true` if the cache does not have this controller's last write yet.
    pub(super) fn are_outstanding(&self, key: &str) -> bool {
        self.lock().contains_key(key)
    }

    /// Forgets a Service that was deleted.
    pub(super) fn forget(&self, key: &str) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, u64>> {
        self.0.lock()
    }
}

/// Returns the resourceVersion as a number; `None` if the server's versions are no numbers, so that no write is waited
/// for.
fn version(service: &Service) -> Option<u64> {
    service.metadata.resource_version.as_deref()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(version: &str) -> Service {
        let mut service = Service::default();
        (service.metadata.namespace, service.metadata.name) = (Some("a".into()), Some("b".into()));
        service.metadata.resource_version = Some(version.into());
        service
    }

    #[test]
    fn a_cache_is_behind_until_it_shows_the_write() {
        let writes = OwnWrites::default();
        let cache = Cache::with([at("9")]);
        assert!(!writes.are_missing_in("a/b", &at("1")));
        writes.note("a/b", &at("10"), &cache);
        assert!(writes.are_missing_in("a/b", &at("9")) && !writes.are_missing_in("a/c", &at("9")));
        writes.seen("a/b", &at("9"));
        assert!(writes.are_missing_in("a/b", &at("9")));
        assert!(
            !writes.are_missing_in("a/b", &at("10")) && !writes.are_missing_in("a/b", &at("x"))
        );
        writes.seen("a/b", &at("11"));
        assert!(
            !writes.are_missing_in("a/b", &at("9")),
            "nothing is remembered of what was seen"
        );
    }

    #[test]
    fn write_that_the_watch_delivered_first_is_not_recorded() {
        let writes = OwnWrites::default();
        let cache = Cache::with([at("10")]);
        writes.note("a/b", &at("10"), &cache);
        assert!(writes.lock().is_empty(), "it is shown");
        cache.remove("a/b");
        writes.note("a/b", &at("11"), &cache);
        assert!(writes.lock().is_empty(), "it is gone");
    }
}
