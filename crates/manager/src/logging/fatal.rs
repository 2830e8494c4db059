//! The last line of a process that cannot go on.

use std::panic::Location;

/// Records of this target have severity `F`.
pub(super) const TARGET: &str = "manager::fatal";

/// Writes a line of severity `F`, which names the caller. It does not end the process: the caller does, with exit code
/// 255 (APP-162).
#[track_caller]
pub fn fatal(text: &str) {
    let caller = Location::caller();
    tracing::error!(target: TARGET, { log.file = caller.file(), log.line = caller.line() }, "{text}");
}
