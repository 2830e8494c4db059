//! The admission webhooks of this program.

mod review;
mod services;
mod volumes;

use std::sync::Arc;

use cloud_provider::CloudProvider;
use serving::webhook::Webhook;

use crate::flags::{Configuration, SERVICES, VOLUMES};
pub(crate) use review::review_service;

/// Maximum size of an object that is parsed, in bytes of JSON, because etcd stores no larger one and anybody who
/// reaches the port may send one.
const LARGEST: usize = 3 << 19;

/// Returns this program's webhooks that the flags select.
pub(crate) fn own_webhooks(
    configuration: &Configuration,
    provider: &Arc<dyn CloudProvider>,
) -> Vec<Webhook> {
    let selection = &configuration.webhooks;
    let volumes = selection
        .includes(VOLUMES)
        .then(|| volumes::webhook(Arc::clone(provider)));
    let services = selection.includes(SERVICES).then(|| {
        let options = configuration.options.service.clone();
        let action = configuration.service_validation_action;
        services::webhook(Arc::clone(provider), options, action)
    });
    volumes.into_iter().chain(services).collect()
}
