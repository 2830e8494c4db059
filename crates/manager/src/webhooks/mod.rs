//! The admission webhooks of this program.

mod services;
mod volumes;

use std::sync::Arc;

use cloud_provider::CloudProvider;
use serving::webhook::Webhook;

use crate::flags::{Flags, SERVICES, VOLUMES};

/// Maximum size of an object that is parsed, in bytes of JSON, because etcd stores no larger one and anybody who
/// reaches the port may send one.
const LARGEST: usize = 3 << 19;

/// Returns this program's webhooks that the flags select.
pub(crate) fn selected(flags: &Flags, provider: &Arc<dyn CloudProvider>) -> Vec<Webhook> {
    let selection = flags.webhooks();
    let volumes = selection.includes(VOLUMES).then(|| volumes::webhook(Arc::clone(provider)));
    let services = selection.includes(SERVICES).then(|| {
        services::webhook(Arc::clone(provider), flags.options().service, flags.webhook.service_validation_action)
    });
    volumes.into_iter().chain(services).collect()
}
