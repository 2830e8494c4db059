//! What the process was started with.

use super::quote::quoted;

/// Writes each flag at verbosity 1 as `FLAG: --name="value"`, in alphabetical order (FLAG-12). A value that is secret
/// must have been replaced by the caller.
pub fn say_flags(flags: impl IntoIterator<Item = (String, String)>) {
    let mut flags: Vec<_> = flags.into_iter().collect();
    flags.sort();
    for (name, value) in flags {
        tracing::info!(v = 1, "FLAG: --{name}={}", quoted(&value));
    }
}
