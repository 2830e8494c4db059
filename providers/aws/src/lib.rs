//! AWS: the provider `aws`.

pub mod annotations;
mod load_balancers;

use std::sync::Arc;

use cloud_provider::{CloudProvider, Error, Result, Setup};

/// The provider's name, and the scheme of its provider IDs.
pub const NAME: &str = "aws";

/// The source of its events.
pub const EVENT_SOURCE: &str = "aws-cloud-controller-manager";

/// Creates the provider from the configuration file.
///
/// # Errors
/// *Invalid*, with everything that is wrong with the configuration.
pub fn factory(_setup: &Setup) -> Result<Arc<dyn CloudProvider>> {
    Err(Error::invalid("provider aws is incomplete"))
}
