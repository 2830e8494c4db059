//! What the process was started with.

use super::quote::quoted;

/// Writes each flag at verbosity 1 as `FLAG: --name="value"`, in alphabetical order (FLAG-12). A value that is secret
/// must have been replaced by the caller.
pub fn say_flags<'a>(flags: impl IntoIterator<Item = (&'a str, String)>) {
    let mut flags: Vec<_> = flags.into_iter().collect();
    flags.sort();
    for (name, value) in flags {
        tracing::info!(v = 1, "FLAG: --{name}={}", quoted(&value));
    }
}
