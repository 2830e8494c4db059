//! Whether this process may change anything.

use std::fmt;
use std::sync::Arc;

use crate::{Error, Result};

/// Whether this process may change anything now (INV-4): it may not unless it leads.
///
/// Whoever sends requests to the cloud asks [`check`](Self::check) as the very last thing before each one that changes
/// something, retries included. `provider-kit`'s transport does it; a provider with a client of its own has to.
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
pub struct Fence(Option<Arc<dyn Fn() -> bool + Send + Sync>>);

impl Fence {
    /// One that lets everything through: for a process that needs no lease.
    #[must_use]
    pub fn open() -> Self {
        Self(None)
    }

    /// One that lets changes through as long as `leads` says so. It is asked before each request: it must be cheap and
    /// must not wait.
    #[must_use]
    pub fn new(leads: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(leads)))
    }

    /// Whether a request that changes something may be sent now.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.0.as_ref().is_none_or(|leads| leads())
    }

    /// As [`is_open`](Self::is_open), as a result.
    ///
    /// # Errors
    /// *Other*: this process does not lead. Trying again is of no use before it does.
    pub fn check(&self) -> Result<()> {
        if self.is_open() {
            return Ok(());
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
        f.write_str(if self.is_open() { "Fence(open)" } else { "Fence(closed)" })
    }
}
