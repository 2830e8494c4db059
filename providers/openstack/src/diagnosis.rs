//! What `doctor` finds out about the cloud.

use cloud_provider::Finding;

use crate::config::Config;
use crate::services::Services;

/// What is looked at.
pub(crate) struct Diagnosis<'a> {
    pub(crate) services: &'a Services,
    pub(crate) config: &'a Config,
}

impl Diagnosis<'_> {
    pub(crate) async fn findings(&self) -> Vec<Finding> {
        let _ = (self.services, self.config);
        Vec::new()
    }
}
