//! Standard output, which a reader may close before the end.

use std::io::Write as _;
use std::process::ExitCode;

/// Prints to standard output and returns `code`. A closed pipe (`| head`) is not an error; any other failure, such as a
/// full disk, returns [`ExitCode::FAILURE`].
#[must_use]
pub fn print(text: &str, code: ExitCode) -> ExitCode {
    let mut output = std::io::stdout().lock();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            eprintln!("Error: cannot write to standard output: {error}");
            ExitCode::FAILURE
        }
        _ => code,
    }
}
