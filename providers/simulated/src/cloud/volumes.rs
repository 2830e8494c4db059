//! Volumes, as far as their topology goes.

use serde::{Deserialize, Serialize};

use super::DEFAULT_PROJECT;
use super::listing::Listed;
use super::model::Model;

/// A volume of the simulated cloud.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Volume {
    /// ID of the volume, such as `v-1`, chosen by the caller.
    pub id: String,
    /// The zones it can be attached in.
    pub zones: Vec<String>,
    /// Region of the zones.
    pub region: String,
    /// The project it belongs to.
    #[serde(default = "default_project")]
    pub project: String,
}

fn default_project() -> String {
    DEFAULT_PROJECT.to_owned()
}

impl Listed for Volume {
    fn project(&self) -> &str {
        &self.project
    }
    fn id(&self) -> &str {
        &self.id
    }
    fn name(&self) -> &str {
        &self.id
    }
    fn label(&self, _key: &str) -> Option<&str> {
        None
    }
}

impl Model {
    pub(super) fn add_volume(&mut self, volume: Volume) {
        let stored = self.stored(volume.clone());
        self.volumes.insert(volume.id, stored);
    }
}
