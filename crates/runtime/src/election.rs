//! Leader election: one of several replicas leads, and the others learn within a second when the leader stops.
//!
//! The Lease, its timings and its events are those of client-go (APP-60 to APP-70), so that replicas of this program
//! and of the Go program that it replaces can compete for the same Lease. Every decision is a pure step of a state
//! machine ([`Election`]), from an observation and the time to the next request or wait. The [`Elector`] sends the
//! requests and passes the answers and the time to the state machine.
//!
//! Differences from client-go, with their reasons:
//!
//! * **The fence.** A leader may write while less than the renew deadline has passed since the *start* of its last
//!   successful renewal, by the monotonic clock ([`Leadership::fence`]). The check needs no timer, so a process that
//!   was frozen finds the fence closed the moment it resumes, and loses leadership at that same moment (client-go: up
//!   to a retry period later).
//! * **A leader that reads another holder in the Lease has lost it**, at once and not at the renew deadline.
//! * **A deleted Lease is not free.** A candidate that has seen it waits for a whole lease duration, as if it had just
//!   been renewed, because the holder creates it again. Only a candidate that has never seen it creates it at once,
//!   because on a new cluster there is nothing to wait for. One case remains: a process that *starts* between the
//!   deletion by a person and the moment at which the holder notices (at once if it may watch, else within the retry
//!   period), or that misses the new Lease because it is deleted again, leads together with the holder until then.
//! * **Candidates watch the Lease** if RBAC permits, in addition to polling (D-13): they notice a release at once, and
//!   wait exactly until the expiry. The holder watches, too, and creates a Lease again at once that a person deletes.
//! * **A graceful stop releases the Lease** (APP-67).
//!
//! ```no_run
//! use std::sync::Arc;
//! use std::time::Duration;
//! use runtime::client::{ClientOptions, NoRequestMetrics, connect};
//! use runtime::clock::SystemClock;
//! use runtime::election::{ElectionConfig, Elector, NoElectionMetrics, ElectionOutcome};
//! use tokio_util::sync::CancellationToken;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let config = ElectionConfig::new("kube-system", "cloud-controller-manager");
//! // Its own client: no retries, a short time-out, and no fence.
//! let options = config.client_options(&ClientOptions::default());
//! let client = connect(&options, "leader-election", Arc::new(NoRequestMetrics)).await?;
//! let (events, sender) = runtime::events::recorder(client.clone(), "cloud-controller-manager", Arc::new(SystemClock));
//! tokio::spawn(sender.run(CancellationToken::new()));
//!
//! let elector = Elector::new(client, config, events, Arc::new(NoElectionMetrics));
//! let leadership = elector.leadership();
//! // Everything that a leader writes goes through clients with this fence.
//! let options = ClientOptions { fence: leadership.fence(), ..ClientOptions::default() };
//!
//! let stop = CancellationToken::new();
//! let election = tokio::spawn(elector.run(stop.clone()));
//! leadership.acquired().await;
//! // … work; when it has ended:
//! stop.cancel();
//! assert_eq!(election.await?, ElectionOutcome::Released);
//! # Ok(()) }
//! ```

mod api;
mod config;
mod elector;
mod leadership;
mod lease;
mod metrics;
pub mod migration;
mod step;
mod watch;

pub use config::{ElectionConfig, identity, validate};
pub use elector::Elector;
pub use leadership::{ElectionOutcome, Leadership, fence_of_both, fence_until_either_is_lost};
pub use lease::{Lease, Record};
pub use metrics::{ElectionMetrics, NoElectionMetrics};
pub use step::{Action, Election, Failure, Input};
