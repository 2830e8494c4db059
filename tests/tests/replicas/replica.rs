//! A replica: one of several processes.

use std::path::Path;

use anyhow::Result;
use ccm_tests::controller::Controller;

/// Log messages of a process: it stands for election, leads, is asked to stop, and has lost leadership.
pub(crate) const WAITS: &str = "Attempting to acquire leader lease";
const ACQUIRED: &str = "Successfully acquired lease";
pub(crate) const STOPPING: &str = "stopping: work in progress is finished";
pub(crate) const LOST: &str = "leaderelection lost";
pub(crate) const RELEASED: &str = "Released the lease";

pub(crate) struct Replica {
    pub(crate) controller: Controller,
}

impl Replica {
    pub(crate) fn start(binary: &Path, arguments: &[String], log: &Path) -> Result<Self> {
        Ok(Self {
            controller: Controller::start(binary, arguments.iter().map(Into::into), log)?,
        })
    }

    /// Returns `true` if this process logged that it acquired the Lease with this identity.
    pub(crate) fn is(&self, identity: &str) -> bool {
        self.controller
            .log()
            .lines()
            .any(|line| line.contains(ACQUIRED) && line.contains(identity))
    }
}
