//! Names that users, dashboards and other programs rely on.
//!
//! The names are a contract: none of them may change. Each is listed with its rule, and the table test at the end of
//! this file checks every one of them.

/// Taint that the kubelet sets on a Node that no cloud controller manager has initialized yet (PROV-71).
pub const TAINT_UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";
/// Taint on a Node whose instance is shut down; effect [`EFFECT_NO_SCHEDULE`], no value (PROV-72).
pub const TAINT_SHUTDOWN: &str = "node.cloudprovider.kubernetes.io/shutdown";
/// Taint that cluster-autoscaler sets on a Node before it deletes the Node (PROV-76).
pub const TAINT_TO_BE_DELETED: &str = "ToBeDeletedByClusterAutoscaler";
/// Taint effect: no new Pods without a toleration.
pub const EFFECT_NO_SCHEDULE: &str = "NoSchedule";

/// Annotation with the kubelet's `--node-ip`: one address, or an IPv4/IPv6 pair separated by a comma (PROV-73).
pub const ANNOTATION_NODE_IP: &str = "alpha.kubernetes.io/provided-node-ip";
/// Annotation with a load balancer's source ranges; `spec.loadBalancerSourceRanges` takes precedence (PROV-77).
pub const ANNOTATION_SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";

/// Finalizer that keeps a Service until its load balancer is deleted (PROV-74).
pub const FINALIZER_LOAD_BALANCER: &str = "service.kubernetes.io/load-balancer-cleanup";

/// Label that excludes a Node from load balancers, with any value (PROV-75).
pub const LABEL_EXCLUDE_BALANCER: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
/// Label that keeps a Node from being deleted or tainted because of its machine's state, unless its value is `false`
/// (P-15).
pub const LABEL_EXCLUDE_LIFECYCLE: &str = "node.kubernetes.io/exclude-from-lifecycle-management";
/// Label of the instance type (PROV-54).
pub const LABEL_INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
/// Deprecated label of the instance type (PROV-54). If both labels exist and differ, the stable label gets the value of
/// this one (NODE-50).
pub const LABEL_INSTANCE_TYPE_BETA: &str = "beta.kubernetes.io/instance-type";
/// Label of the zone (PROV-54).
pub const LABEL_ZONE: &str = "topology.kubernetes.io/zone";
/// Deprecated label of the zone (PROV-54, NODE-50).
pub const LABEL_ZONE_BETA: &str = "failure-domain.beta.kubernetes.io/zone";
/// Label of the region (PROV-54).
pub const LABEL_REGION: &str = "topology.kubernetes.io/region";
/// Deprecated label of the region (PROV-54, NODE-50).
pub const LABEL_REGION_BETA: &str = "failure-domain.beta.kubernetes.io/region";

/// Node condition: the kubelet is healthy and accepts Pods (LIFE-11).
pub const CONDITION_READY: &str = "Ready";
/// Node condition: the route to the Node's Pods is missing; set by the route controller.
pub const CONDITION_NETWORK_UNAVAILABLE: &str = "NetworkUnavailable";
/// Service condition of ccm-rs: the state of the load balancer, with the reason of a wait or a failure (D-3).
pub const CONDITION_LOAD_BALANCER_READY: &str = "ccm-rs/LoadBalancerReady";
/// Service annotation of ccm-rs: a Service that is being deleted is released without changing the cloud.
pub const ANNOTATION_ABANDON_LOAD_BALANCER: &str = "ccm-rs/abandon-load-balancer";
/// Service annotation of ccm-rs: the ID of the load balancer in the cloud, if the provider has no annotation of its own
/// for it.
pub const ANNOTATION_LOAD_BALANCER_ID: &str = "ccm-rs/load-balancer-id";
/// Service annotation of ccm-rs: the IDs of the load balancers that the Service has left in a move and that are being
/// deleted, separated by commas. Removed when they are deleted.
pub const ANNOTATION_SUPERSEDED: &str = "ccm-rs/superseded-load-balancers";

/// Placeholder name of a volume that is still being provisioned (PROV-79).
pub const VOLUME_PLACEHOLDER: &str = "placeholder-for-provisioning";
/// Delimiter of several zones in one PersistentVolume zone label (PROV-79).
pub const ZONE_DELIMITER: &str = "__";

/// Secure port of the manager (PROV-8).
pub const SECURE_PORT: u16 = 10258;
/// Default value of `--cluster-name`.
pub const DEFAULT_CLUSTER_NAME: &str = "kubernetes";
/// Value of the label `manager` of `running_managed_controllers` (PROV-78).
pub const MANAGER_NAME: &str = "cloud-controller-manager";
/// Value of `--cloud-provider` that means "an external component is responsible". `Registry` returns no provider for
/// it, so the program exits (PROV-4, PROV-6).
pub const PROVIDER_EXTERNAL: &str = "external";

/// The names of one controller, in all visible places (PROV-78).
///
/// ```
/// use cloud_provider::names::NODE_CONTROLLER;
///
/// assert_eq!((NODE_CONTROLLER.canonical, NODE_CONTROLLER.alias), ("cloud-node-controller", "cloud-node"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ControllerNames {
    /// Name in `--controllers`, logs and health checks.
    pub canonical: &'static str,
    /// Older name, which `--controllers` accepts forever.
    pub alias: &'static str,
    /// Client identity: user agent suffix and, with `--use-service-account-credentials`, the ServiceAccount.
    pub client_identity: &'static str,
    /// Value of the label `name` of `running_managed_controllers`.
    pub metric: &'static str,
    /// Value of `source.component` of the controller's events.
    pub event_source: &'static str,
}

/// The cloud-node-controller, which initializes Nodes and updates their addresses.
pub const NODE_CONTROLLER: ControllerNames = ControllerNames {
    canonical: "cloud-node-controller",
    alias: "cloud-node",
    client_identity: "node-controller",
    metric: "cloud-node",
    event_source: "cloud-node-controller",
};
/// The cloud-node-lifecycle-controller, which deletes Nodes whose instance is gone, and taints Nodes whose instance is
/// shut down.
pub const NODE_LIFECYCLE_CONTROLLER: ControllerNames = ControllerNames {
    canonical: "cloud-node-lifecycle-controller",
    alias: "cloud-node-lifecycle",
    client_identity: "node-controller",
    metric: "cloud-node-lifecycle",
    event_source: "cloud-node-lifecycle-controller",
};
/// The service-lb-controller, which manages load balancers.
pub const SERVICE_CONTROLLER: ControllerNames = ControllerNames {
    canonical: "service-lb-controller",
    alias: "service",
    client_identity: "service-controller",
    metric: "service",
    event_source: "service-controller",
};
/// The node-route-controller, which manages the cloud's routes for Pod CIDRs. Its event source is spelled with an
/// underscore.
pub const ROUTE_CONTROLLER: ControllerNames = ControllerNames {
    canonical: "node-route-controller",
    alias: "route",
    client_identity: "route-controller",
    metric: "route",
    event_source: "route_controller",
};

/// The persistent-volume-label-controller, which sets topology labels of volumes (D-14). The Go cloud controller
/// manager once had it; it is off by default.
pub const VOLUME_LABEL_CONTROLLER: ControllerNames = ControllerNames {
    canonical: "persistent-volume-label-controller",
    alias: "pvlabel",
    client_identity: "pvl-controller",
    metric: "pvlabel",
    event_source: "persistent-volume-label-controller",
};

/// The controllers, in the order in which they start (APP-35).
pub const CONTROLLERS: [ControllerNames; 5] = [
    NODE_CONTROLLER,
    NODE_LIFECYCLE_CONTROLLER,
    ROUTE_CONTROLLER,
    SERVICE_CONTROLLER,
    VOLUME_LABEL_CONTROLLER,
];

/// Feature gate: if enabled, Node events trigger the sync of routes (ROUTE-11); if disabled, routes are synced
/// periodically (ROUTE-10). For the default, see D-5.
pub const FEATURE_GATE_WATCH_BASED_ROUTES: &str =
    "CloudControllerManagerWatchBasedRoutesReconciliation";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_users_rely_on_do_not_change() {
        let table = [
            (
                TAINT_UNINITIALIZED,
                "node.cloudprovider.kubernetes.io/uninitialized",
            ),
            (TAINT_SHUTDOWN, "node.cloudprovider.kubernetes.io/shutdown"),
            (TAINT_TO_BE_DELETED, "ToBeDeletedByClusterAutoscaler"),
            (EFFECT_NO_SCHEDULE, "NoSchedule"),
            (ANNOTATION_NODE_IP, "alpha.kubernetes.io/provided-node-ip"),
            (
                ANNOTATION_SOURCE_RANGES,
                "service.beta.kubernetes.io/load-balancer-source-ranges",
            ),
            (
                FINALIZER_LOAD_BALANCER,
                "service.kubernetes.io/load-balancer-cleanup",
            ),
            (
                LABEL_EXCLUDE_BALANCER,
                "node.kubernetes.io/exclude-from-external-load-balancers",
            ),
            (
                LABEL_EXCLUDE_LIFECYCLE,
                "node.kubernetes.io/exclude-from-lifecycle-management",
            ),
            (LABEL_INSTANCE_TYPE, "node.kubernetes.io/instance-type"),
            (LABEL_INSTANCE_TYPE_BETA, "beta.kubernetes.io/instance-type"),
            (LABEL_ZONE, "topology.kubernetes.io/zone"),
            (LABEL_ZONE_BETA, "failure-domain.beta.kubernetes.io/zone"),
            (LABEL_REGION, "topology.kubernetes.io/region"),
            (
                LABEL_REGION_BETA,
                "failure-domain.beta.kubernetes.io/region",
            ),
            (CONDITION_READY, "Ready"),
            (CONDITION_NETWORK_UNAVAILABLE, "NetworkUnavailable"),
            (CONDITION_LOAD_BALANCER_READY, "ccm-rs/LoadBalancerReady"),
            (
                ANNOTATION_ABANDON_LOAD_BALANCER,
                "ccm-rs/abandon-load-balancer",
            ),
            (ANNOTATION_LOAD_BALANCER_ID, "ccm-rs/load-balancer-id"),
            (ANNOTATION_SUPERSEDED, "ccm-rs/superseded-load-balancers"),
            (VOLUME_PLACEHOLDER, "placeholder-for-provisioning"),
            (ZONE_DELIMITER, "__"),
            (DEFAULT_CLUSTER_NAME, "kubernetes"),
            (MANAGER_NAME, "cloud-controller-manager"),
            (PROVIDER_EXTERNAL, "external"),
        ];
        for (ours, contract) in table {
            assert_eq!(ours, contract);
        }
        assert_eq!(SECURE_PORT, 10258);
    }

    #[test]
    fn controllers_have_the_names_of_the_go_controller_manager() {
        let row = |c: ControllerNames| {
            [
                c.canonical,
                c.alias,
                c.client_identity,
                c.metric,
                c.event_source,
            ]
        };
        assert_eq!(
            row(NODE_CONTROLLER),
            [
                "cloud-node-controller",
                "cloud-node",
                "node-controller",
                "cloud-node",
                "cloud-node-controller"
            ]
        );
        assert_eq!(
            row(NODE_LIFECYCLE_CONTROLLER),
            [
                "cloud-node-lifecycle-controller",
                "cloud-node-lifecycle",
                "node-controller",
                "cloud-node-lifecycle",
                "cloud-node-lifecycle-controller"
            ]
        );
        assert_eq!(
            row(SERVICE_CONTROLLER),
            [
                "service-lb-controller",
                "service",
                "service-controller",
                "service",
                "service-controller"
            ]
        );
        assert_eq!(
            row(ROUTE_CONTROLLER),
            [
                "node-route-controller",
                "route",
                "route-controller",
                "route",
                "route_controller"
            ]
        );
    }
}
