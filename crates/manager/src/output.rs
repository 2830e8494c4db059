//! Standard output, which a reader may close before the end, and error messages.
//!
//! Texts come from annotations, events, tags of clouds and YAML files, whose authors the reader need not trust. All that
//! could control a terminal or reorder a line is therefore escaped here, for all commands. A report is written as
//! [`Lines`], so that no such text can look like a line of the report.

use std::fmt;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use cloud_provider::{is_visible, visible, write_visibly};

/// Set when standard output could not be written, so that the failure is reported once and the exit code keeps it.
static HAS_FAILED: AtomicBool = AtomicBool::new(false);

/// The lines of a report. A line break inside of a line, which comes from a text of others, is escaped.
#[derive(Default)]
pub(crate) struct Lines(String);

impl Lines {
    /// Adds a line, without the spaces at its end.
    pub(crate) fn line(&mut self, line: fmt::Arguments<'_>) {
        self.0.push_str(visible(&fmt::format(line)).trim_end());
        self.0.push('\n');
    }

    /// Adds an empty line.
    pub(crate) fn blank(&mut self) {
        self.0.push('\n');
    }

    /// Returns the text of all lines.
    pub(crate) fn into_text(self) -> String {
        self.0
    }
}

/// Prints text to standard output and returns `code`, with invisible characters escaped. A closed pipe (`| head`) is not an error. Any other failure, such as a
/// full disk, is reported on standard error once; this call and all later ones then return [`ExitCode::FAILURE`].
#[must_use]
pub fn print(text: &str, code: ExitCode) -> ExitCode {
    write(&safe_text(text), code)
}

/// Prints a JSON document as [`print`] prints text, with invisible characters as JSON escapes, so that its value stays
/// the same.
#[must_use]
pub(crate) fn print_json(value: &serde_json::Value, code: ExitCode) -> ExitCode {
    write(&safe_json(&format!("{value:#}\n")), code)
}

fn write(text: &str, code: ExitCode) -> ExitCode {
    if has_failed() {
        return ExitCode::FAILURE;
    }
    let mut output = io::stdout().lock();
    match output
        .write_all(text.as_bytes())
        .and_then(|()| output.flush())
    {
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
    _ = writeln!(io::stderr().lock(), "Error: {}", safe_text(text));
}

/// Returns the text with invisible characters escaped, except for line breaks and tabs.
fn safe_text(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => safe.push(c),
            // A string takes all that is written to it.
            c => _ = write_visibly(&mut safe, c),
        }
    }
    safe
}

/// Returns the JSON document with invisible characters, which only its strings can contain, escaped.
fn safe_json(document: &str) -> String {
    let mut safe = String::with_capacity(document.len());
    for c in document.chars() {
        if c == '\n' || is_visible(c) {
            safe.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            safe.push_str(&format!("\\u{unit:04x}"));
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Clears the screen, sets the window's title (C1 form), reverses a line, and hides a tag character.
    const HOSTILE: &str = "a\u{1b}[2J\u{9d}0;t\u{9c}\u{202e}b\u{e0041}\r\u{7f}";

    #[test]
    fn text_controls_no_terminal() {
        let safe = safe_text(&format!("{HOSTILE}\n\tü ✓ 中\n"));
        assert_eq!(
            safe,
            "a\\x1b[2J\\u009d0;t\\u009c\\u202eb\\U000e0041\\r\\x7f\n\tü ✓ 中\n"
        );
    }

    #[test]
    fn text_of_others_is_no_line_of_its_own() {
        let mut lines = Lines::default();
        let name = "web\nNothing to do.\r\n\tError: x\u{2028}y \n";
        lines.line(format_args!("Service {name}"));
        lines.blank();
        lines.line(format_args!("  end  "));
        let expected = "Service web\\nNothing to do.\\r\\n\\tError: x\\u2028y \\n\n\n  end\n";
        assert_eq!(lines.into_text(), expected);
    }

    #[test]
    fn json_keeps_its_value_and_controls_no_terminal() {
        let value = serde_json::json!({"name": HOSTILE, "ü": ["✓"]});
        let safe = safe_json(&format!("{value:#}\n"));
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&safe).unwrap(),
            value
        );
        assert!(safe.chars().all(|c| c == '\n' || is_visible(c)), "{safe:?}");
        assert!(safe.contains("\"ü\": [\n    \"✓\""), "{safe}");
    }
}
