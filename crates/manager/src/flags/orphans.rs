//! Flags of the subcommand `orphans`.

use clap::{ArgAction, Parser};

use super::values::{List, go_bool, list};
use super::{Flags, ReportFlags};

/// Flags of the report, and flags of the deletion.
#[derive(Parser, Debug)]
pub(crate) struct OrphansFlags {
    #[command(flatten)]
    pub(crate) report: ReportFlags,
    /// Delete the orphans that can be deleted, after a confirmation.
    #[arg(long, default_value = "false", value_parser = go_bool, action = ArgAction::Set, help_heading = "Report")]
    pub(crate) delete: bool,
    /// Delete without a confirmation.
    #[arg(long, default_value = "false", value_parser = go_bool, action = ArgAction::Set, help_heading = "Report")]
    pub(crate) yes: bool,
    /// IDs of the orphans to list and delete; all orphans if empty.
    #[arg(long, default_value = "", value_parser = list, help_heading = "Report")]
    only: Vec<List>,
}

impl OrphansFlags {
    /// Returns the IDs of the chosen orphans.
    pub(crate) fn chosen(&self) -> Vec<&str> {
        List::all(&self.only).filter(|id| !id.is_empty()).collect()
    }
}

impl AsMut<Flags> for OrphansFlags {
    fn as_mut(&mut self) -> &mut Flags {
        &mut self.report.flags
    }
}
