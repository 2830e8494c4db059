//! Logs the flags at the start.

use super::quote::quoted;

/// Logs each flag at verbosity 1 as `FLAG: --name="value"`, in alphabetical order (FLAG-12). The caller must have
/// replaced secret values.
pub fn log_flags(flags: impl IntoIterator<Item = (String, String)>) {
    let mut flags: Vec<_> = flags.into_iter().collect();
    flags.sort();
    for (name, value) in flags {
        tracing::info!(v = 1, "FLAG: --{name}={}", quoted(&value));
    }
}
