//! Validation as in the real server: one list of causes for each object, in its order and wording.

mod lists;
mod meta;
pub(crate) mod names;
mod node;
mod others;
mod persistent_volume;
mod service;

use serde_json::Value;

use crate::resources::Resource;
use crate::status::StatusCause;

/// Checks a new object.
pub(crate) fn create(resource: &Resource, object: &Value) -> Vec<StatusCause> {
    let mut causes = meta::create(resource, object);
    causes.extend(kind(resource, object, None));
    causes
}

/// Checks a new version of an object; `fixed` are the fields that only the server sets and the writer wanted to change.
///
/// The real server checks metadata once for all kinds and again for each, and lists what it found each time.
pub(crate) fn update(
    resource: &Resource,
    subresource: &str,
    new: &Value,
    old: &Value,
    fixed: &[StatusCause],
) -> Vec<StatusCause> {
    let again = || meta::update(resource, new, old, fixed);
    let mut causes = meta::accessor(new);
    causes.extend(meta::changes(new, old, fixed));
    match (resource.plural, subresource) {
        ("nodes", _) => {
            causes.extend(meta::object(resource, new));
            causes.extend(node::create(new));
            causes.extend(again());
            causes.extend(node::update(new, old));
        }
        ("services", "status") => {
            causes.extend(again());
            causes.extend(service::status(new));
        }
        (_, "status") => causes.extend(again()),
        ("configmaps", _) => {
            causes.extend(again());
            causes.extend(meta::object(resource, new));
            causes.extend(kind(resource, new, Some(old)));
        }
        _ => {
            causes.extend(again());
            causes.extend(kind(resource, new, Some(old)));
        }
    }
    causes
}

/// Returns the warnings for the writer of a valid object.
pub(crate) fn warnings(resource: &Resource, subresource: &str, object: &Value) -> Vec<String> {
    match (resource.plural, subresource) {
        ("persistentvolumes", "") => persistent_volume::warnings(object),
        _ => Vec::new(),
    }
}

fn kind(resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    match resource.plural {
        "nodes" => node::create(new),
        "services" => service::check(new, old),
        "configmaps" | "secrets" => others::data(resource, new, old),
        "leases" => others::lease(new),
        "events" if resource.group.is_empty() => others::event(new),
        "endpointslices" => others::endpoint_slice(new, old),
        "persistentvolumes" => persistent_volume::check(new, old),
        _ => Vec::new(),
    }
}
