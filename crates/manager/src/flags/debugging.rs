//! Flags for debugging the process.

use clap::{ArgAction, Args};

use super::values::go_bool;

/// Flags for debugging the process.
#[derive(Args, Debug, Clone, PartialEq)]
#[command(next_help_heading = "Debugging")]
pub struct DebuggingFlags {
    /// Serve CPU profiles and the log's verbosity under /debug/ on the secure port.
    #[arg(long, default_value = "true", value_parser = go_bool, action = ArgAction::Set)]
    pub profiling: bool,
    /// Accepted without effect: no lock profiles exist.
    #[arg(long, default_value = "false", value_parser = go_bool, action = ArgAction::Set)]
    pub contention_profiling: bool,
}
