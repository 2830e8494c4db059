//! The service controller over an API server with real watches and a cloud that watches how it is called.

// The helpers of these tests too may fail a test by a panic.
#![allow(clippy::unwrap_used)]

#[path = "services/annotations.rs"]
mod annotations;
#[path = "services/cloud.rs"]
mod cloud;
#[path = "services/drift.rs"]
mod drift;
#[path = "services/explain.rs"]
mod explain;
#[path = "services/forgotten.rs"]
mod forgotten;
#[path = "services/leftovers.rs"]
mod leftovers;
#[path = "services/life.rs"]
mod life;
#[path = "services/loss.rs"]
mod loss;
#[path = "services/nodes.rs"]
mod nodes;
#[path = "services/turns.rs"]
mod turns;
#[path = "services/waiting.rs"]
mod waiting;
#[path = "services/world.rs"]
mod world;
