//! The invariants INV-1 … INV-9 of ARCHITECTURE.md that are not about one cloud, each named after its invariant.
//!
//! These proofs are the shortest; `deletion_guard.rs` (INV-1) and the crash and chaos proofs of `ccm-conformance` go
//! further.

#![allow(clippy::unwrap_used)] // helpers are not seen as tests

mod inv_4_fence;
mod inv_5_secrets;
mod inv_9_forgotten_services;
mod scene;
