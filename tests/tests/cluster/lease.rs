//! The holders of the Lease, one after the other.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};
use parking_lot::Mutex;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Interval of the polls.
const POLL: Duration = Duration::from_millis(20);
const NAME: &str = "cloud-controller-manager";

/// Returns the holder of the Lease; `None` if it is released or does not exist.
pub(crate) async fn holder(client: &Client) -> Result<Option<String>> {
    let api: Api<Lease> = Api::namespaced(client.clone(), "kube-system");
    let lease = api.get_opt(NAME).await.context("reading the Lease")?;
    Ok(lease
        .and_then(|lease| lease.spec?.holder_identity)
        .filter(|holder| !holder.is_empty()))
}

/// The holders of the Lease, one after the other, while it is polled.
pub(crate) struct Holders {
    terms: Arc<Mutex<Vec<Term>>>,
    _until: DropGuard,
}

/// Time in which one replica holds the Lease: from the first to the last poll that showed it.
struct Term {
    holder: String,
    first: Instant,
    last: Instant,
}

impl Holders {
    /// Begins to poll, until the value is dropped.
    pub(crate) fn watch(client: &Client) -> Self {
        let terms: Arc<Mutex<Vec<Term>>> = Arc::default();
        let stop = CancellationToken::new();
        let client = client.clone();
        let seen = Arc::clone(&terms);
        let stopped = stop.clone();
        tokio::spawn(async move {
            while !stopped.is_cancelled() {
                // A poll that fails shows nothing; the next one follows.
                if let Ok(Some(holder)) = holder(&client).await {
                    Term::add(&mut seen.lock(), holder, Instant::now());
                }
                tokio::time::sleep(POLL).await;
            }
        });
        Self {
            terms,
            _until: stop.drop_guard(),
        }
    }

    /// Returns the holders so far.
    pub(crate) fn all(&self) -> Vec<String> {
        self.terms
            .lock()
            .iter()
            .map(|term| term.holder.clone())
            .collect()
    }

    /// Returns the times between two holders. Each is the longest that the polls allow.
    pub(crate) fn gaps(&self) -> Vec<Duration> {
        self.terms
            .lock()
            .windows(2)
            .map(|pair| pair[1].first.duration_since(pair[0].last))
            .collect()
    }
}

impl Term {
    fn add(terms: &mut Vec<Self>, holder: String, now: Instant) {
        match terms.last_mut().filter(|term| term.holder == holder) {
            Some(term) => term.last = now,
            None => terms.push(Self {
                holder,
                first: now,
                last: now,
            }),
        }
    }
}
