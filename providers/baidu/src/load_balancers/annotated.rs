//! The BLBs and EIPs that annotations and fields of a Service name.

use cloud_provider::Service;

use crate::annotations as key;

/// Returns the value of an annotation, unless it is empty.
pub(super) fn text_on(service: &Service, annotation: &str) -> Option<String> {
    service
        .metadata
        .annotations
        .as_ref()?
        .get(annotation)
        .filter(|text| !text.is_empty())
        .cloned()
}

/// Returns the ID of the BLB that a user asks for. An ID that was written together with `…-cce-add-id` is a record.
pub(super) fn requested_id(service: &Service) -> Option<String> {
    let added = text_on(service, key::ADDED_ID.key());
    text_on(service, key::EXIST_ID.key())
        .or_else(|| text_on(service, key::ID.key()).filter(|id| Some(id) != added.as_ref()))
}

/// Returns `true` if the annotation `…-exist-id` names this BLB.
pub(super) fn is_lent(service: &Service, id: &str) -> bool {
    text_on(service, key::EXIST_ID.key()).as_deref() == Some(id)
}

/// Returns `true` if `spec.loadBalancerIP` names this EIP.
pub(super) fn is_fixed(service: &Service, ip: &str) -> bool {
    service
        .spec
        .as_ref()
        .and_then(|spec| spec.load_balancer_ip.as_deref())
        == Some(ip)
}
