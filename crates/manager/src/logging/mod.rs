//! The log: klog's text or JSON, with a verbosity that can be changed while the process runs.
//!
//! Records are `tracing` events. Information has verbosity 0, or what its field `v` says; debug lines have 4, trace lines
//! 6. Warnings and errors are always written. Of libraries only warnings are written, whatever was asked for: their debug
//! lines may quote what is secret (INV-5), and are not what an operator asked for with `-v=4`. A provider's crate is no
//! library if its name begins with `provider_`.
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
mod glob;
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
pub use self::flag_dump::say_flags;
pub use self::logger::{Handle, Logger};
pub use self::options::{Format, LoggingOptions, Streams, Vmodule};

/// Starts the log of this process (APP-2), and makes panics part of it. Later calls change nothing.
///
/// The handle flushes what is buffered; call [`Handle::flush`] before the process ends.
pub fn start(options: &LoggingOptions) -> Handle {
    let (log, handle) = subscriber(options, stdout(), stderr());
    if tracing::subscriber::set_global_default(log).is_ok() {
        handle.flush_regularly(options);
        panics::log_panics();
    }
    handle
}

/// A log that writes elsewhere: to be set as a thread's subscriber, in tests.
pub fn subscriber(
    options: &LoggingOptions,
    info: impl Write + Send + 'static,
    errors: impl Write + Send + 'static,
) -> (Logger, Handle) {
    Logger::new(options, Box::new(info), Box::new(errors))
}

/// Starts the log with the defaults and a verbosity. Later calls do nothing.
pub fn init(verbosity: u8) {
    start(&LoggingOptions { verbosity: verbosity.into(), ..LoggingOptions::default() });
}

/// Starts the log of a command whose output is what matters: without `-v` it warns only.
pub(crate) fn init_for_output(verbosity: u8) {
    let verbosity = if verbosity == 0 { filter::WARNINGS_ONLY } else { verbosity.into() };
    start(&LoggingOptions { verbosity, ..LoggingOptions::default() });
}
