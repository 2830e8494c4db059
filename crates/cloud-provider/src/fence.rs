//! The fence, which allows or forbids changes by this process.

use std::fmt;
use std::sync::Arc;

use crate::{Error, Result};

/// A fence that allows requests that change the cloud only while this process is the leader (INV-4).
///
/// A client of the cloud calls [`check`](Self::check) immediately before each request that changes something, retries
/// included. `provider-kit`'s transport does so; a provider with a client of its own has to do it as well.
///
/// ```
/// use cloud_provider::Fence;
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
///
/// let leads = Arc::new(AtomicBool::new(true));
/// let fence = Fence::new({ let leads = leads.clone(); move || leads.load(Relaxed) });
/// assert!(fence.check().is_ok());
/// leads.store(false, Relaxed);
/// assert!(fence.check().is_err());
/// ```
#[derive(Clone)]
pub struct Fence(Kind);

#[derive(Clone)]
enum Kind {
    Open,
    WhileLeading(Arc<dyn Fn() -> bool + Send + Sync>),
    Closed(&'static str),
}

impl Fence {
    /// Returns a fence that allows all changes: for a process that needs no lease.
    #[must_use]
    pub fn open() -> Self {
        Self(Kind::Open)
    }

    /// Returns a fence that forbids all changes, for this reason: `plan changes nothing`.
    #[must_use]
    pub fn closed(reason: &'static str) -> Self {
        Self(Kind::Closed(reason))
    }

    /// Returns a fence that allows changes as long as `leads` returns `true`. It is called before each request, so it
    /// must be cheap and must not block.
    #[must_use]
    pub fn new(leads: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Kind::WhileLeading(Arc::new(leads)))
    }

    /// Returns `true` if a request that changes something may be sent now.
    #[must_use]
    pub fn is_open(&self) -> bool {
        match &self.0 {
            Kind::Open => true,
            Kind::WhileLeading(leads) => leads(),
            Kind::Closed(_) => false,
        }
    }

    /// Returns an error unless the fence [is open](Self::is_open).
    ///
    /// # Errors
    /// *Other*, if this process is not the leader (a retry is useless until it is), or with the reason of a
    /// [closed](Self::closed) fence.
    pub fn check(&self) -> Result<()> {
        if self.is_open() {
            return Ok(());
        }
        if let Kind::Closed(reason) = self.0 {
            return Err(Error::other(format!("not sent: {reason}")));
        }
        Err(Error::other(
            "not sent: this process does not hold the lease (or could not renew it in time), so it changes nothing",
        ))
    }
}

impl Default for Fence {
    fn default() -> Self {
        Self::open()
    }
}

impl fmt::Debug for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_open() {
            "Fence(open)"
        } else {
            "Fence(closed)"
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_fence_names_its_reason_and_no_lease() {
        let fence = Fence::closed("plan changes nothing");
        assert!(!fence.is_open());
        assert_eq!(
            fence.check().unwrap_err().to_string(),
            "not sent: plan changes nothing"
        );
    }
}
