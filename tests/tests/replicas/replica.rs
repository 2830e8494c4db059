//! One of several processes.

use std::path::Path;

use anyhow::Result;
use ccm_tests::controller::Controller;

/// What a process says when it stands for election, when it leads, when it is asked to end, and when it leads no more.
pub(crate) const WAITS: &str = "Attempting to acquire leader lease";
const ACQUIRED: &str = "Successfully acquired lease";
pub(crate) const STOPPING: &str = "stopping: what is in work is finished";
pub(crate) const LOST: &str = "leaderelection lost";
pub(crate) const RELEASED: &str = "Released the lease";

pub(crate) struct Replica {
    pub(crate) controller: Controller,
}

impl Replica {
    pub(crate) fn start(binary: &Path, arguments: &[String], log: &Path) -> Result<Self> {
        Ok(Self { controller: Controller::start(binary, arguments.iter().map(Into::into), log)? })
    }

    /// Whether this is the process that stands in the Lease by this name.
    pub(crate) fn is(&self, identity: &str) -> bool {
        self.controller.log().lines().any(|line| line.contains(ACQUIRED) && line.contains(identity))
    }
}
