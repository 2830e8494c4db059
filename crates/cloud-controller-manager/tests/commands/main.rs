//! `plan`, `explain`, `orphans` and `doctor` as a user runs them: a real process, a Kubernetes API and a cloud on loopback.

#![allow(clippy::unwrap_used)] // helpers are not seen as tests

mod doctor;
mod explain;
mod plan;
mod served;
