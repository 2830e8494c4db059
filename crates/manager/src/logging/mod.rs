//! Logs on standard error.

mod options;

pub use self::options::{Format, LoggingOptions, Streams, Vmodule};

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// Starts logging. `verbosity` is klog's `-v`: 4 shows debug lines, 6 everything. Later calls do nothing.
pub fn init(verbosity: u8) {
    init_at(level(verbosity));
}

/// Starts logging of a command whose output is what matters: without `-v` it warns only.
pub(crate) fn init_for_output(verbosity: u8) {
    init_at(if verbosity == 0 { LevelFilter::WARN } else { level(verbosity) });
}

fn level(verbosity: u8) -> LevelFilter {
    match verbosity {
        0..=3 => LevelFilter::INFO,
        4..=5 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    }
}

fn init_at(level: LevelFilter) {
    // kube_client warns with the whole body of an answer that it cannot read, which may hold a secret (INV-5).
    // Libraries below us are told apart: their debug lines are not what an operator asked for with -v=4.
    let filter = EnvFilter::builder().with_default_directive(LevelFilter::WARN.into()).parse_lossy("kube_client=error");
    let ours = [
        "manager",
        "controllers",
        "runtime",
        "cloud_provider",
        "provider_kit",
        "provider_simulated",
        "cloud_controller_manager",
    ];
    let filter = ours.into_iter().fold(filter, |filter, name| match format!("{name}={level}").parse() {
        Ok(directive) => filter.add_directive(directive),
        Err(_) => filter,
    });
    // Escape codes are for terminals; a log file or `kubectl logs | grep` has no use for them.
    let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colour);
    _ = log.with_writer(std::io::stderr).try_init();
}
