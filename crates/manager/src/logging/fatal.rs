//! The last record of a process that cannot continue.

use std::panic::Location;

/// Target of records with severity `F`.
pub(super) const TARGET: &str = "manager::fatal";

/// Writes a record of severity `F` with the caller's location. The caller ends the process with exit code 255
/// (APP-162).
#[track_caller]
pub fn fatal(text: &str) {
    let caller = Location::caller();
    tracing::error!(target: TARGET, { log.file = caller.file(), log.line = caller.line() }, "{text}");
}
