//! What the real server refuses: one list of causes per object, in its order and wording.

mod lists;
mod meta;
pub(crate) mod names;
mod node;
mod others;
mod service;

use serde_json::Value;

use crate::resources::Resource;
use crate::status::Cause;

/// Checks a new object.
pub(crate) fn create(resource: &Resource, object: &Value) -> Vec<Cause> {
    let mut causes = meta::create(resource, object);
    causes.extend(kind(resource, object, None));
    causes
}

/// Checks a new version of an object.
pub(crate) fn update(resource: &Resource, subresource: &str, new: &Value, old: &Value) -> Vec<Cause> {
    let mut causes = meta::update(resource, new, old);
    match (resource.plural, subresource) {
        ("services", "status") => causes.extend(service::status(new)),
        ("nodes", _) => causes.extend(node::update(new, old)),
        (_, "status") => {}
        _ => causes.extend(kind(resource, new, Some(old))),
    }
    causes
}

fn kind(resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<Cause> {
    match resource.plural {
        "nodes" => node::create(new),
        "services" => service::check(new, old),
        "configmaps" | "secrets" => others::data(resource, new, old),
        "leases" => others::lease(new),
        "events" if resource.group.is_empty() => others::event(new),
        "endpointslices" => others::endpoint_slice(new, old),
        "persistentvolumes" => others::volume(new, old),
        _ => Vec::new(),
    }
}
