//! INV-1 … INV-9 (ARCHITECTURE.md §7), each by its name.
//!
//! They are the shortest proof of each; the long ones are `deletion_guard.rs` (INV-1), `crash.rs` (INV-2) and `chaos.rs`.

#![allow(clippy::unwrap_used)] // helpers are not seen as tests

mod inv_4_fence;
mod inv_5_secrets;
mod inv_9_forgotten_services;
mod scene;
