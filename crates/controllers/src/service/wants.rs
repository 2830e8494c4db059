//! The Services that this controller handles, and the operation of a sync (SVC-10, SVC-11, SVC-38, P-29).

use cloud_provider::Service;
use cloud_provider::names::{ANNOTATION_ABANDON_LOAD_BALANCER, FINALIZER_LOAD_BALANCER};

use crate::options::ServiceOptions;

/// The operation of a sync on a Service (SVC-38).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// The load balancer is created or updated.
    Ensure,
    /// The load balancer is deleted, as far as it exists, then the finalizer is removed.
    TearDown,
    /// The finalizer is removed and the load balancer stays, as an annotation of the Service asks (P-20).
    Abandon,
    /// No action: the Service is being deleted and lacks the finalizer, so no load balancer may be created (SVC-54). If
    /// the ledger has a load balancer for the Service, it is deleted nevertheless.
    Nothing,
}

impl Operation {
    /// Returns the operation of a sync on this Service.
    #[must_use]
    pub fn of(service: &Service, options: &ServiceOptions) -> Self {
        let cleanup = needs_cleanup(service);
        if cleanup && is_deleting(service) && is_abandoned(service) {
            Self::Abandon
        } else if cleanup || !wants_load_balancer(service, options) {
            Self::TearDown
        } else if is_deleting(service) {
            Self::Nothing
        } else {
            Self::Ensure
        }
    }

    /// Returns the operation on this Service when the controller starts; `None` if the Service is ignored (SVC-15,
    /// SVC-95).
    #[must_use]
    pub fn at_start(service: &Service, options: &ServiceOptions) -> Option<Self> {
        concerns_us(service, options).then(|| Self::of(service, options))
    }
}

/// Returns `true` if a Service wants a load balancer from this controller (SVC-10).
///
/// By default, Services with a class, even an empty one, are ignored; with `--load-balancer-classes`, Services of those
/// classes are handled, and with `--default-load-balancer=false`, Services without a class are ignored (P-29).
#[must_use]
pub fn wants_load_balancer(service: &Service, options: &ServiceOptions) -> bool {
    is_load_balancer(service) && is_our_class(service, options)
}

/// Returns `true` if the Service may need cleanup: it has the finalizer, and it is being deleted or its type is no
/// longer `LoadBalancer`. Its class does not matter (SVC-11).
#[must_use]
pub fn needs_cleanup(service: &Service) -> bool {
    has_finalizer(service) && (is_deleting(service) || !is_load_balancer(service))
}

/// Returns `true` if a Service that is seen for the first time is handled (SVC-15).
#[must_use]
pub fn concerns_us(service: &Service, options: &ServiceOptions) -> bool {
    wants_load_balancer(service, options) || needs_cleanup(service)
}

/// Returns `true` if a Service that needs cleanup may hold another controller's load balancer: it has a class that this
/// controller does not handle, and flags configure the classes. Resources with this controller's owner tags are
/// deleted; if there are none, the finalizer is not this controller's to remove (P-29, INV-7).
#[must_use]
pub fn is_foreign(service: &Service, options: &ServiceOptions) -> bool {
    let has_classes = !options.classes.is_empty() || !options.is_default;
    has_classes && is_load_balancer(service) && !is_our_class(service, options)
}

/// Returns `true` if a Service of another controller's class may hold a load balancer that an earlier run of this
/// controller created. Such a Service has the finalizer, which the other controller may have added as well (D-149).
#[must_use]
pub fn may_hold_leftovers(service: &Service, options: &ServiceOptions) -> bool {
    let foreign = is_load_balancer(service) && !is_our_class(service, options);
    options.leftovers_delay.is_some() && foreign && has_finalizer(service) && !is_deleting(service)
}

/// Returns `true` if the Service has the finalizer of load balancers (HELP-56).
#[must_use]
pub fn has_finalizer(service: &Service) -> bool {
    service
        .metadata
        .finalizers
        .iter()
        .flatten()
        .any(|finalizer| finalizer == FINALIZER_LOAD_BALANCER)
}

pub(super) fn is_deleting(service: &Service) -> bool {
    service.metadata.deletion_timestamp.is_some()
}

/// Returns `true` if an annotation asks to keep the load balancer when the Service is deleted.
pub(super) fn is_abandoned(service: &Service) -> bool {
    let asked = service
        .metadata
        .annotations
        .as_ref()
        .and_then(|all| all.get(ANNOTATION_ABANDON_LOAD_BALANCER));
    asked.is_some_and(|value| value == "true")
}

fn is_load_balancer(service: &Service) -> bool {
    service.spec.as_ref().and_then(|spec| spec.type_.as_deref()) == Some("LoadBalancer")
}

fn is_our_class(service: &Service, options: &ServiceOptions) -> bool {
    match service
        .spec
        .as_ref()
        .and_then(|spec| spec.load_balancer_class.as_ref())
    {
        None => options.is_default,
        Some(class) => options.classes.contains(class),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn service(
        class: Option<&str>,
        deleting: bool,
        finalizer: bool,
        annotations: &[(&str, &str)],
    ) -> Service {
        let mut service = json!({"metadata": {"name": "web"}, "spec": {"type": "LoadBalancer"}});
        if let Some(class) = class {
            service["spec"]["loadBalancerClass"] = json!(class);
        }
        if deleting {
            service["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        if finalizer {
            service["metadata"]["finalizers"] = json!(["x", FINALIZER_LOAD_BALANCER]);
        }
        for (key, value) in annotations {
            service["metadata"]["annotations"][key] = json!(value);
        }
        serde_json::from_value(service).unwrap()
    }

    fn options(classes: &[&str], is_default: bool) -> ServiceOptions {
        let classes = classes.iter().map(ToString::to_string).collect();
        ServiceOptions {
            classes,
            is_default,
            ..ServiceOptions::default()
        }
    }

    #[test]
    fn classes_of_the_options_are_ours() {
        type Row<'a> = (&'a [&'a str], bool, Option<&'a str>, bool);
        let table: [Row<'_>; 9] = [
            (&[], true, None, true),
            (&[], true, Some("a"), false),
            (&[], true, Some(""), false),
            (&[], false, None, false),
            (&["a", "b"], true, None, true),
            (&["a", "b"], true, Some("b"), true),
            (&["a", "b"], false, Some("a"), true),
            (&["a", "b"], false, None, false),
            (&["a"], true, Some("c"), false),
        ];
        for (classes, is_default, class, wants) in table {
            let service = service(class, false, false, &[]);
            let options = options(classes, is_default);
            assert_eq!(
                wants_load_balancer(&service, &options),
                wants,
                "{classes:?} {is_default} {class:?}"
            );
        }
    }

    #[test]
    fn service_of_another_class_is_foreign_only_if_classes_are_set() {
        let other = service(Some("other"), true, true, &[]);
        assert!(needs_cleanup(&other));
        assert!(!is_foreign(&other, &options(&[], true)));
        assert!(is_foreign(&other, &options(&["ours"], true)));
        assert!(is_foreign(
            &service(None, true, true, &[]),
            &options(&["ours"], false)
        ));
        assert!(!is_foreign(
            &service(Some("ours"), true, true, &[]),
            &options(&["ours"], false)
        ));
    }

    #[test]
    fn leftovers_are_searched_where_an_interrupted_run_may_have_left_them() {
        let table = [
            (Some("other"), false, true, true),
            (Some("other"), false, false, false),
            (Some("other"), true, true, false),
            (None, false, true, false),
            (Some("ours"), false, true, false),
        ];
        let product = options(&["ours"], true);
        let reference = crate::Options::reference().service;
        for (class, deleting, finalizer, expected) in table {
            let service = service(class, deleting, finalizer, &[]);
            assert_eq!(
                may_hold_leftovers(&service, &product),
                expected,
                "{class:?} {deleting} {finalizer}"
            );
            assert!(!may_hold_leftovers(&service, &reference));
        }
    }

    #[test]
    fn a_sync_does_one_thing() {
        let abandon = [(ANNOTATION_ABANDON_LOAD_BALANCER, "true")];
        let table = [
            (service(None, false, false, &[]), Some(Operation::Ensure)),
            (service(None, false, true, &[]), Some(Operation::Ensure)),
            (service(None, true, true, &[]), Some(Operation::TearDown)),
            (service(None, true, false, &[]), Some(Operation::Nothing)),
            (
                service(None, true, true, &abandon),
                Some(Operation::Abandon),
            ),
            (
                service(None, false, true, &abandon),
                Some(Operation::Ensure),
            ),
            (
                service(
                    None,
                    true,
                    true,
                    &[(ANNOTATION_ABANDON_LOAD_BALANCER, "yes")],
                ),
                Some(Operation::TearDown),
            ),
            (service(Some("x"), false, false, &[]), None),
            (
                service(Some("x"), true, true, &[]),
                Some(Operation::TearDown),
            ),
        ];
        for (service, operation) in table {
            assert_eq!(
                Operation::at_start(&service, &options(&[], true)),
                operation,
                "{:?}",
                service.metadata
            );
        }
        let gained_a_class = service(Some("x"), false, false, &[]);
        assert_eq!(
            Operation::of(&gained_a_class, &options(&[], true)),
            Operation::TearDown,
            "SVC-49"
        );
    }
}
