//! Standard output, which a reader may close before the end, and error messages.

use std::io::{self, Write as _};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// Set when standard output could not be written, so that the failure is reported once and the exit code keeps it.
static HAS_FAILED: AtomicBool = AtomicBool::new(false);

/// Prints to standard output and returns `code`. A closed pipe (`| head`) is not an error. Any other failure, such as a
/// full disk, is reported on standard error once; this call and all later ones then return [`ExitCode::FAILURE`].
#[must_use]
pub fn print(text: &str, code: ExitCode) -> ExitCode {
    if has_failed() {
        return ExitCode::FAILURE;
    }
    let mut output = io::stdout().lock();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            HAS_FAILED.store(true, Ordering::Relaxed);
            print_error(&unwritable(&error));
            ExitCode::FAILURE
        }
        _ => code,
    }
}

/// Returns `true` if [`print`] could not write, for a reason other than a closed pipe.
pub(crate) fn has_failed() -> bool {
    HAS_FAILED.load(Ordering::Relaxed)
}

/// Returns the message about a failure to write to standard output.
#[must_use]
pub fn unwritable(error: &io::Error) -> String {
    format!("cannot write to standard output: {error}")
}

/// Prints `Error: TEXT` to standard error. A failure to print is ignored, because no other place is left for it.
pub fn print_error(text: &str) {
    _ = writeln!(io::stderr().lock(), "Error: {text}");
}
