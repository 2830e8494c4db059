//! The log in klog's text format or as JSON, with a verbosity that can be changed at runtime.
//!
//! Records are `tracing` events. Informational records have verbosity 0 or the value of their field `v`, debug records
//! 4 and trace records 6. Warnings and errors are always written. Libraries log only warnings and errors, whatever the
//! verbosity, because their debug records may quote secrets (INV-5). Crates whose name begins with `provider_` do not
//! count as libraries.
//!
//! ```
//! use manager::logging::{Format, LoggingOptions, subscriber};
//!
//! let options = LoggingOptions { format: Format::Json, ..LoggingOptions::default() };
//! let (log, handle) = subscriber(&options, std::io::stdout(), std::io::stderr());
//! tracing::subscriber::with_default(log, || tracing::info!(target: "manager", node = "a", "node initialised"));
//! handle.set_verbosity(4); // PUT /debug/flags/v
//! assert_eq!(handle.verbosity(), 4);
//! handle.flush();
//! ```

mod component;
mod fatal;
mod filter;
mod flag_dump;
mod json;
mod logger;
mod options;
mod panics;
mod quote;
mod record;
mod sink;
#[cfg(test)]
mod tests;
mod text;

use std::io::{Write, stderr, stdout};

pub use self::fatal::fatal;
pub use self::flag_dump::log_flags;
pub use self::logger::{Handle, Logger};
pub use self::options::{Format, LoggingOptions, Streams, Vmodule};

/// Starts the log of this process (APP-2) and logs panics. Later calls have no effect.
///
/// The handle flushes buffered records; call [`Handle::flush`] before the process ends.
pub fn start(options: &LoggingOptions) -> Handle {
    let (log, handle) = subscriber(options, stdout(), stderr());
    if tracing::subscriber::set_global_default(log).is_ok() {
        handle.flush_regularly(options);
        panics::log_panics();
    }
    handle
}

/// Returns a subscriber that writes to other streams, for the subscriber of a thread in tests.
pub fn subscriber(
    options: &LoggingOptions,
    info: impl Write + Send + 'static,
    errors: impl Write + Send + 'static,
) -> (Logger, Handle) {
    Logger::new(options, Box::new(info), Box::new(errors))
}

/// Starts the log with the default options and this verbosity. Later calls have no effect.
pub fn init(verbosity: u8) {
    start(&LoggingOptions {
        verbosity: verbosity.into(),
        ..LoggingOptions::default()
    });
}

/// Starts the log of a subcommand that prints a report: without `-v`, only warnings and errors are
/// logged, as sentences.
pub(crate) fn init_for_report(verbosity: u8) {
    let (verbosity, format) = match verbosity {
        0 => (filter::WARNINGS_ONLY, Format::Report),
        _ => (verbosity.into(), Format::Text),
    };
    start(&LoggingOptions {
        verbosity,
        format,
        ..LoggingOptions::default()
    });
}
