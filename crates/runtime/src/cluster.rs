//! Identity of the cluster that a process works for, and the refusal of every other cluster (INV-9, D-222).

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cloud_provider::Fence;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::api_error::{api_error, is_forbidden, is_not_found};

/// The namespace whose UID identifies a cluster (D-11).
pub const IDENTIFYING_NAMESPACE: &str = "kube-system";
/// Timeout of reading the identifying namespace.
const CLUSTER_READ_TIMEOUT: Duration = Duration::from_secs(10);

/// The identity of the cluster that a process works for: the UID of namespace `kube-system`. Clones share it.
///
/// A server with another UID belongs to another cluster. That is final: the [`fence`](Self::fence) closes, so that no
/// further change is sent, and the process has to end.
#[derive(Clone, Default)]
pub struct ClusterIdentity(Arc<Shared>);

struct Shared {
    uid: Mutex<Option<String>>,
    other: watch::Sender<Option<OtherCluster>>,
    is_warned: AtomicBool,
}

/// Error for a server that belongs to another cluster than the one that this process works for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{origin} leads to another cluster: namespace kube-system has the UID {found} there, and {expected} in the cluster \
     that this process works for; nothing more is changed in either cluster or in the cloud. Correct the kubeconfig or \
     the address of the API server; if this process is to work for the other cluster from now on, start it again"
)]
pub struct OtherCluster {
    /// UID of the cluster that this process works for.
    pub expected: String,
    /// UID that the server showed.
    pub found: String,
    /// Source of the server's address: a kubeconfig, or the API server itself.
    pub origin: String,
}

/// The answer to the question which cluster a server belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The cluster that this process works for.
    Same,
    /// Reading the namespace is forbidden, or the identity was never known: the check is not possible.
    Unknown,
    /// The server belongs to another cluster.
    Other(OtherCluster),
    /// The server did not answer, for this reason; check again later.
    Unanswered(String),
}

impl Default for Shared {
    fn default() -> Self {
        Self {
            uid: Mutex::default(),
            other: watch::Sender::new(None),
            is_warned: AtomicBool::new(false),
        }
    }
}

impl ClusterIdentity {
    /// Returns the identity of the cluster with this UID; `None` if it could not be read.
    #[must_use]
    pub fn of(uid: Option<String>) -> Self {
        let identity = Self::default();
        identity.learn(uid);
        identity
    }

    /// Sets the UID, unless one is known already.
    pub fn learn(&self, uid: Option<String>) {
        let mut known = self.0.uid.lock();
        if known.is_none() {
            *known = uid;
        }
    }

    /// Sets the UID that a server shows, or compares it with the known one. A UID that could not be read is no mismatch.
    /// `origin` names the source of the server's address in messages.
    ///
    /// # Errors
    /// If another UID is known: the server belongs to another cluster.
    pub fn confirm(&self, uid: Option<&str>, origin: &str) -> Result<(), OtherCluster> {
        self.learn(uid.map(str::to_owned));
        let (Some(expected), Some(found)) = (self.uid(), uid) else {
            return Ok(());
        };
        match expected == found {
            true => Ok(()),
            false => Err(self.refuse(OtherCluster {
                expected,
                found: found.to_owned(),
                origin: origin.to_owned(),
            })),
        }
    }

    /// Reads the UID from the server of `client` until it is known, so that a replica that waits for its lease knows its
    /// cluster before it works for it. Ends without the UID if it may not be read.
    pub async fn learn_from(&self, client: &Client) {
        let namespaces: Api<Namespace> = Api::all(client.clone());
        while self.uid().is_none() {
            match timeout(CLUSTER_READ_TIMEOUT, namespaces.get(IDENTIFYING_NAMESPACE)).await {
                Ok(Ok(namespace)) => return self.learn(namespace.metadata.uid),
                Ok(Err(error)) if is_forbidden(&error) || is_not_found(&error) => return,
                Ok(Err(_)) | Err(_) => sleep(CLUSTER_READ_TIMEOUT).await,
            }
        }
    }

    fn uid(&self) -> Option<String> {
        self.0.uid.lock().clone()
    }

    /// Reads which cluster the server of `client` belongs to. `origin` names the source of the server's address in
    /// messages.
    pub async fn check(&self, client: &Client, origin: &str) -> Finding {
        if let Some(other) = self.other() {
            return Finding::Other(other);
        }
        let Some(expected) = self.uid() else {
            return Finding::Unknown;
        };
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let unanswered = |problem: String| {
            Finding::Unanswered(format!(
                "the UID of namespace {IDENTIFYING_NAMESPACE} cannot be read from {origin}: {problem}"
            ))
        };
        match timeout(CLUSTER_READ_TIMEOUT, namespaces.get(IDENTIFYING_NAMESPACE)).await {
            Ok(Ok(namespace)) => match namespace.metadata.uid {
                Some(found) if found == expected => Finding::Same,
                Some(found) => Finding::Other(self.refuse(OtherCluster {
                    expected,
                    found,
                    origin: origin.to_owned(),
                })),
                None => unanswered("it has none".to_owned()),
            },
            Ok(Err(error)) if is_forbidden(&error) => {
                if !self.0.is_warned.swap(true, Ordering::Relaxed) {
                    tracing::warn!(
                        error = %api_error(&error),
                        "namespace {IDENTIFYING_NAMESPACE} may not be read, so that another cluster cannot be told from this \
                         one; allow this process to get that namespace"
                    );
                }
                Finding::Unknown
            }
            Ok(Err(error)) => unanswered(api_error(&error).to_string()),
            Err(_) => unanswered(format!(
                "no answer within {} s",
                CLUSTER_READ_TIMEOUT.as_secs()
            )),
        }
    }

    fn refuse(&self, other: OtherCluster) -> OtherCluster {
        let is_first = self.0.other.send_if_modified(|refused| {
            let is_first = refused.is_none();
            refused.get_or_insert_with(|| other.clone());
            is_first
        });
        if is_first {
            tracing::error!("{other}");
        }
        self.other().unwrap_or(other)
    }

    /// Returns the mismatch that was found, if any.
    #[must_use]
    pub fn other(&self) -> Option<OtherCluster> {
        self.0.other.borrow().clone()
    }

    /// Waits until a server of another cluster is found, and returns the mismatch.
    pub async fn refused(&self) -> OtherCluster {
        let mut other = self.0.other.subscribe();
        match other
            .wait_for(Option::is_some)
            .await
            .map(|other| other.clone())
        {
            Ok(Some(other)) => other,
            // The sender lives as long as `self`.
            _ => std::future::pending().await,
        }
    }

    /// Returns a fence that is open while `below` is open and no server of another cluster was found.
    #[must_use]
    pub fn fence(&self, below: Fence) -> Fence {
        let this = self.clone();
        Fence::new(move || this.0.other.borrow().is_none() && below.is_open())
    }
}

impl fmt::Debug for ClusterIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterIdentity")
            .field("uid", &self.uid())
            .finish_non_exhaustive()
    }
}
