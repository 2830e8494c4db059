//! What a Service shows of its load balancer: addresses in its status, and annotations.

use cloud_provider::Service;
use provider_kit::status::shown;

use crate::annotations as key;

/// Returns the load balancer that the Service names.
pub(super) fn asked_for(service: &Service) -> Option<&str> {
    key::LOAD_BALANCER_ID.text_on(service).map(str::trim).filter(|id| !id.is_empty())
}

/// Returns `true` if its users were told of an address.
pub(super) fn is_published(service: &Service) -> bool {
    !shown(service).is_empty()
}

/// Returns `true` if it had a load balancer, whose annotations are still there: address and ID are written together.
pub(super) fn was_made(service: &Service) -> bool {
    is_published(service) || key::LOAD_BALANCER_ADDRESS.text_on(service).is_some()
}

/// Returns `true` if it has or had a load balancer, or names one.
pub(super) fn is_made(service: &Service) -> bool {
    is_published(service) || key::LOAD_BALANCER_ID.text_on(service).is_some()
}

/// Returns the addresses that it shows.
pub(super) fn addresses(service: &Service) -> Vec<&str> {
    let shown = shown(service).iter().filter_map(|it| it.ip.as_deref()).filter(|address| !address.is_empty());
    shown.chain(key::LOAD_BALANCER_ADDRESS.text_on(service)).collect()
}
