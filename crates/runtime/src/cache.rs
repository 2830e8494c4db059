//! Shared, read-only cache of all objects of a kind, as client-go's informers keep it.
//!
//! A [`Cache`] is filled by [`watch`] and read by every controller: objects are handed out as `Arc`s and never copied.
//! Subscribers receive an event for every change ([`CacheEvent`]), and one for every object at each of their own resync
//! periods (RT-20). After a lost watch the objects are listed again: known objects are reported as updates, missing
//! ones as deletions (RT-22). An object that did not change meanwhile keeps its `Arc`, so the cache never exists twice
//! in memory. A [`Watch`] can hold objects that a new list lacks ([`HoldOptions`]), and refuse lists of another cluster
//! ([`ClusterIdentity`](crate::cluster::ClusterIdentity)).

mod hold;
mod store;
#[cfg(test)]
mod tests;
mod watch;

use std::borrow::Cow;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{PersistentVolume, Service};
use serde::de::DeserializeOwned;

pub use hold::{HoldObserver, HoldOptions};
pub use store::Cache;
pub use watch::{Watch, WatchConfig, watch};

/// An object that a [`Cache`] can hold: the object returns its own key and is decoded from the API's JSON.
pub trait Cached: Send + Sync + Sized + 'static {
    /// The form that the API returns. If that is the type itself, `type Wire = Self`.
    type Wire: kube::Resource<DynamicType = ()>
        + DeserializeOwned
        + Clone
        + Debug
        + Send
        + Sync
        + 'static;

    /// Converts to the cached form, without the fields that no controller reads.
    fn from_wire(wire: Self::Wire) -> Self;

    /// Returns the key: `<namespace>/<name>`, or `<name>` for objects without a namespace (RT-23).
    fn key(&self) -> Cow<'_, str>;

    /// Returns `metadata.resourceVersion`; two objects with the same key and version are equal.
    fn resource_version(&self) -> &str;
}

impl Cached for Service {
    type Wire = Self;

    /// Shrinks the capacity of the object's lists to their length, because cached objects never grow.
    fn from_wire(mut wire: Self) -> Self {
        wire.metadata.managed_fields = None;
        if let Some(spec) = &mut wire.spec {
            spec.ports.iter_mut().for_each(Vec::shrink_to_fit);
            for texts in [
                &mut spec.cluster_ips,
                &mut spec.ip_families,
                &mut spec.external_ips,
            ] {
                texts.iter_mut().for_each(Vec::shrink_to_fit);
            }
        }
        wire.metadata
            .finalizers
            .iter_mut()
            .for_each(Vec::shrink_to_fit);
        if let Some(balancer) = wire
            .status
            .as_mut()
            .and_then(|status| status.load_balancer.as_mut())
        {
            balancer.ingress.iter_mut().for_each(Vec::shrink_to_fit);
        }
        wire
    }

    fn key(&self) -> Cow<'_, str> {
        let namespace = self.metadata.namespace.as_deref();
        let name = self.metadata.name.as_deref();
        Cow::Owned(format!(
            "{}/{}",
            namespace.unwrap_or_default(),
            name.unwrap_or_default()
        ))
    }

    fn resource_version(&self) -> &str {
        self.metadata
            .resource_version
            .as_deref()
            .unwrap_or_default()
    }
}

impl Cached for PersistentVolume {
    type Wire = Self;

    fn from_wire(mut wire: Self) -> Self {
        wire.metadata.managed_fields = None;
        wire
    }

    fn key(&self) -> Cow<'_, str> {
        Cow::Borrowed(self.metadata.name.as_deref().unwrap_or_default())
    }

    fn resource_version(&self) -> &str {
        self.metadata
            .resource_version
            .as_deref()
            .unwrap_or_default()
    }
}

/// A change of a cached object.
#[derive(Debug)]
pub enum CacheEvent<T> {
    /// The object is new. A late subscriber receives one such event for each cached object.
    Added(Arc<T>),
    /// The object changed. After a resync or a re-list without a change, `old` and `new` are the same `Arc`.
    Updated {
        /// The object before the change.
        old: Arc<T>,
        /// The object after the change.
        new: Arc<T>,
    },
    /// The object was deleted. The event carries its last known state, which may be older than the deletion.
    Deleted(Arc<T>),
}

impl<T> CacheEvent<T> {
    /// Returns the current object; for a deletion the last known state.
    #[must_use]
    pub fn object(&self) -> &Arc<T> {
        match self {
            Self::Added(object) | Self::Updated { new: object, .. } | Self::Deleted(object) => {
                object
            }
        }
    }

    /// Returns `true` if the object did not change, as in the updates of a resync or re-list.
    #[must_use]
    pub fn is_resync(&self) -> bool {
        matches!(self, Self::Updated { old, new } if Arc::ptr_eq(old, new))
    }
}

impl<T> Clone for CacheEvent<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Added(object) => Self::Added(Arc::clone(object)),
            Self::Updated { old, new } => Self::Updated {
                old: Arc::clone(old),
                new: Arc::clone(new),
            },
            Self::Deleted(object) => Self::Deleted(Arc::clone(object)),
        }
    }
}

/// Interval at which a subscriber receives an event for every object again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resync(Option<Duration>);

impl Resync {
    /// Disables the periodic resyncs.
    #[must_use]
    pub fn never() -> Self {
        Self(None)
    }

    /// Resyncs exactly at this period; zero means never.
    #[must_use]
    pub fn every(period: Duration) -> Self {
        Self(Some(period).filter(|p| !p.is_zero()))
    }

    /// Resyncs at a period drawn once, uniformly from one to two times `period`, so that replicas do not resync
    /// together (RT-20); zero means never.
    #[must_use]
    pub fn jittered(period: Duration) -> Self {
        Self::every(period.saturating_add(period.mul_f64(fastrand::f64())))
    }

    /// Returns the period, if there is one.
    #[must_use]
    pub fn period(self) -> Option<Duration> {
        self.0
    }
}
