//! What the controllers share: caches, the work queue, events, the API client, loops and clocks.
//!
//! Everything behaves as Kubernetes' own client library does (rules `RT-n`), because operators know its metrics, its
//! back-offs and its events. Decisions are pure state machines that are told the time ([`limiter`], the inner parts
//! of [`queue`] and [`events`]); the shells around them use tokio's clock, which tests stop and wind forward.
//!
//! | module | what it is |
//! |---|---|
//! | [`cache`] | one shared, read-only copy of all objects of a kind, kept fresh by a watch |
//! | [`node`] | how Nodes are read: straight into the compact form, a page at a time |
//! | [`queue`] | keys to work on: once each, never two workers on one key, with delays and back-off |
//! | [`workers`] | the tasks that empty a queue, alone or in batches; survive panics |
//! | [`pulse`] | whether work that is begun also ends |
//! | [`claim`] | a key that is being worked on, given back when that ends |
//! | [`place`] | a worker's place, which whoever only waits leaves to others |
//! | [`limiter`] | how long a failed key waits |
//! | [`retry`] | again, if somebody else wrote first |
//! | [`loops`] | periodic passes, and many items with few workers |
//! | [`events`] | Kubernetes Events: merged, counted, limited, never blocking |
//! | [`election`] | one of several replicas leads; the fence that holds back all others |
//! | [`cluster`] | which cluster this process works for; every other one is refused |
//! | [`client`] | the API client: identity, limits, retries, metrics |
//! | [`api_error`] | what an API error says and what to do about it |
//! | [`writes`] | patches and deletes as this project sends them |
//! | [`go_duration`] | durations as flags and configuration files write them |
//! | [`clock`] | wall-clock time that tests can set |
//!
//! A controller in small: a cache feeds a queue, workers empty it.
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
pub mod limiter;
pub mod loops;
pub mod node;
pub mod place;
pub mod pulse;
pub mod queue;
pub mod retry;
pub mod workers;
pub mod writes;

mod lru;

pub use cloud_provider::go_duration;
