//! Shared parts of the controllers: caches, the work queue, events, the API client, loops and clocks.
//!
//! Queues, back-offs, events and their metrics behave as those of client-go (rules `RT-n`), because operators know
//! them. Decisions are pure state machines that receive the time as an argument ([`limiter`], the inner parts of
//! [`queue`] and [`events`]); the code around them uses tokio's clock, which tests can pause and advance.
//!
//! | module | contents |
//! |---|---|
//! | [`cache`] | shared, read-only cache of all objects of a kind, filled by a watch |
//! | [`node`] | decoding of Nodes directly into the compact form, page by page |
//! | [`queue`] | work queue: each key once, never two workers on one key, delays and back-off |
//! | [`workers`] | tasks that process a queue, key by key or in batches, and survive panics |
//! | [`pulse`] | liveness: reports work that was begun and does not end |
//! | [`claim`] | a key in progress, returned to the queue when the work ends |
//! | [`worker_permit`] | worker permits, released by a worker while it only waits |
//! | [`limiter`] | rate limiters: delay before a failed key is retried |
//! | [`retry`] | retries of writes after a conflict |
//! | [`loops`] | periodic passes, and bounded concurrency over many items |
//! | [`events`] | Kubernetes Events: merged, counted, rate-limited, never blocking |
//! | [`election`] | leader election, and the fence that keeps standbys from writing |
//! | [`cluster`] | identity of the cluster that this process works for; refuses every other one |
//! | [`client`] | the API client: identity, limits, retries, metrics |
//! | [`api_error`] | classification of API errors, and texts with the remedy |
//! | [`writes`] | patches and deletes with preconditions |
//! | [`go_duration`] | durations in Go's notation, as in flags and configuration files |
//! | [`kubernetes`] | range of Kubernetes versions that are supported |
//! | [`clock`] | wall-clock time that tests can set |
//!
//! A minimal controller: a cache feeds a queue, and workers process it.
//!
//! ```
//! use std::{sync::Arc, time::Duration};
//! use cloud_provider::Node;
//! use runtime::cache::{Cache, Resync};
//! use runtime::limiter::RateLimiter;
//! use runtime::queue::{NoMetrics, Queue};
//! use runtime::workers::run_workers;
//! use tokio_util::sync::CancellationToken;
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! let nodes: Cache<Node> = Cache::with([Node { name: "worker-1".into(), ..Node::default() }]);
//! let queue: Queue<String> = Queue::new("Nodes", RateLimiter::standard(), Arc::new(NoMetrics));
//!
//! let feed = queue.clone();
//! nodes.subscribe(Resync::never(), move |event| feed.add(event.object().name.to_string()));
//!
//! let shutdown = CancellationToken::new();
//! let stop = shutdown.clone();
//! run_workers(&queue, 4, shutdown, move |claim| {
//!     let (nodes, stop) = (nodes.clone(), stop.clone());
//!     async move {
//!         assert!(nodes.get(claim.key()).is_some());
//!         claim.succeed();
//!         stop.cancel();
//!     }
//! })
//! .await;
//! # }
//! ```

pub mod api_error;
pub mod cache;
pub mod claim;
pub mod client;
pub mod clock;
pub mod cluster;
pub mod election;
pub mod events;
pub mod kubernetes;
pub mod limiter;
pub mod loops;
pub mod node;
pub mod pulse;
pub mod queue;
pub mod retry;
pub mod worker_permit;
pub mod workers;
pub mod writes;

pub use cloud_provider::go_duration;
