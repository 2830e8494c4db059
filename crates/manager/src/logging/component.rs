//! The component of a record, by the module that logs it.

use cloud_provider::names::{
    NODE_CONTROLLER, NODE_LIFECYCLE_CONTROLLER, ROUTE_CONTROLLER, SERVICE_CONTROLLER,
    VOLUME_LABEL_CONTROLLER,
};

/// Modules and their components. The first matching prefix applies.
const COMPONENTS: [(&str, &str); 15] = [
    (
        "controllers::lifecycle",
        NODE_LIFECYCLE_CONTROLLER.canonical,
    ),
    ("controllers::node", NODE_CONTROLLER.canonical),
    ("controllers::route", ROUTE_CONTROLLER.canonical),
    ("controllers::service", SERVICE_CONTROLLER.canonical),
    ("controllers::volume", VOLUME_LABEL_CONTROLLER.canonical),
    ("runtime::cache", "cache"),
    ("runtime::client", "kubernetes-client"),
    ("runtime::election", "leader-election"),
    ("runtime::events", "events"),
    ("provider_kit::load_balancers", "load-balancers"),
    ("provider_kit::inventory", "instances"),
    ("provider_kit::routes", "routes"),
    ("provider_kit", "cloud-client"),
    ("serving::webhook", "webhook"),
    ("serving", "serving"),
];

/// Returns the component of a module: a controller under its name in `--controllers`, a cloud provider under its own.
pub(super) fn of(module: &'static str) -> Option<&'static str> {
    let is_in = |prefix: &str| {
        module
            .strip_prefix(prefix)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    };
    let known = COMPONENTS
        .iter()
        .find(|(prefix, _)| is_in(prefix))
        .map(|(_, component)| *component);
    known.or_else(|| module.strip_prefix("provider_")?.split("::").next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controllers_and_providers_have_their_own_names() {
        for (module, component) in [
            (
                "controllers::node::controller",
                Some("cloud-node-controller"),
            ),
            (
                "controllers::lifecycle::controller",
                Some("cloud-node-lifecycle-controller"),
            ),
            ("controllers::service", Some("service-lb-controller")),
            ("controllers::node_like", None),
            (
                "provider_kit::load_balancers::change_log",
                Some("load-balancers"),
            ),
            ("provider_kit::transport::retry", Some("cloud-client")),
            ("provider_hetzner::routes", Some("hetzner")),
            ("manager::start", None),
        ] {
            assert_eq!(of(module), component, "{module}");
        }
    }
}
