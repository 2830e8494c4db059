//! The load balancer that the annotation of a Service names by its ID.

use std::collections::{BTreeMap, BTreeSet};

use cloud_provider::{Error, Service};
use parking_lot::Mutex;
use provider_kit::status::shown;

use crate::annotations::{ID, load_balancer_id};

/// Returns the ID in the annotation. A text that is not an ID is a mistake of the spec.
pub(crate) fn id_of(service: &Service) -> Option<String> {
    load_balancer_id(ID.text_on(service)?)
}

/// The annotation with the ID of the load balancer that this program created last. It stays when the Service needs none any
/// more, like the ID itself: it proves that no user wrote that ID.
pub(super) const CREATED: &str = "ccm-rs/created-load-balancer";

fn created(service: &Service) -> Option<&str> {
    service
        .metadata
        .annotations
        .as_ref()?
        .get(CREATED)
        .map(String::as_str)
}

/// Returns `true` if this program created a load balancer with this ID for the Service.
pub(super) fn was_created(service: &Service, id: &str) -> bool {
    created(service) == Some(id)
}

/// Returns the value of [`CREATED`] to write, if it is due: with the first address, or with another load balancer. Services
/// in an upgraded cluster are not written for it alone.
pub(super) fn created_to_write(service: &Service, id: &str) -> Option<String> {
    let is_first = shown(service).is_empty() || id_of(service).is_none_or(|known| known != id);
    (is_first || created(service).is_some()).then(|| id.to_owned())
}

/// Returns the error for an ID that no load balancer has.
pub(super) fn unknown(id: &str, what_to_do: &str) -> Error {
    let key = ID.key();
    Error::invalid(format!(
        "annotation {key}: there is no load balancer {id} in this account; {what_to_do}"
    ))
}

/// IDs that annotations name, and that no load balancer has any more.
#[derive(Debug, Default)]
pub(crate) struct RequestedIds {
    unknown: Mutex<BTreeSet<String>>,
    /// The Service's UID, by the ID of the load balancer that was deleted for it.
    deleted: Mutex<BTreeMap<String, String>>,
}

impl RequestedIds {
    /// Stores if a load balancer with this ID exists.
    pub(super) fn note(&self, id: &str, exists: bool) {
        let mut unknown = self.unknown.lock();
        if exists {
            unknown.remove(id);
        } else {
            unknown.insert(id.to_owned());
        }
    }

    /// Returns `true` if no load balancer had this ID when it was last searched for.
    pub(super) fn is_unknown(&self, id: &str) -> bool {
        self.unknown.lock().contains(id)
    }

    /// Stores that this process has deleted a load balancer of the Service with this UID.
    pub(super) fn note_deletion(&self, id: &str, uid: &str) {
        self.deleted.lock().insert(id.to_owned(), uid.to_owned());
    }

    /// Returns `true` if this process has deleted the load balancer of the Service with this UID.
    pub(super) fn was_deleted(&self, id: &str, uid: &str) -> bool {
        self.deleted.lock().get(id).is_some_and(|of| of == uid)
    }
}
