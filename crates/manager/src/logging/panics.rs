//! Logs panics as error records.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::{PanicHookInfo, set_hook};

/// Maximum length of a panic's text in the log, in bytes.
const LONGEST: usize = 1024;

/// Replaces the standard panic report by one error record with the location. The record has a backtrace if
/// `RUST_BACKTRACE` asks for one.
pub(super) fn log_panics() {
    set_hook(Box::new(log_panic));
}

pub(super) fn log_panic(info: &PanicHookInfo<'_>) {
    let payload = info.payload();
    let text = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let text = one_line(text.unwrap_or("of a kind that has no text"));
    let (file, line) = info
        .location()
        .map_or(("unknown", 0), |place| (place.file(), place.line()));
    let thread = std::thread::current();
    let thread = thread.name().unwrap_or("unnamed");
    let stack = Backtrace::capture();
    let stack = (stack.status() == BacktraceStatus::Captured).then(|| stack.to_string());
    tracing::error!(
        log.file = file,
        log.line = line,
        error = text,
        thread,
        stack,
        "panic"
    );
}

/// Returns the text on one line, cut to the maximum length.
fn one_line(text: &str) -> String {
    let mut line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.len() > LONGEST {
        line.truncate(line.floor_char_boundary(LONGEST));
        line.push('…');
    }
    line
}
