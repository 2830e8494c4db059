//! Names that users, dashboards and other programs rely on.
//!
//! They are a contract: none of them may change. Each is listed with its rule, and the table test at the end of this
//! file holds every one of them.

/// Taint that the kubelet sets on a Node which no cloud has looked at yet (PROV-71).
pub const TAINT_UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";
/// Taint on a Node whose instance is shut down; effect [`EFFECT_NO_SCHEDULE`], no value (PROV-72).
pub const TAINT_SHUTDOWN: &str = "node.cloudprovider.kubernetes.io/shutdown";
/// Taint that cluster-autoscaler puts on a Node before it removes it (PROV-76).
pub const TAINT_TO_BE_DELETED: &str = "ToBeDeletedByClusterAutoscaler";
/// Taint effect: no new Pods without a toleration.
pub const EFFECT_NO_SCHEDULE: &str = "NoSchedule";

/// Annotation with the kubelet's `--node-ip`: one address, or an IPv4/IPv6 pair separated by a comma (PROV-73).
pub const ANNOTATION_NODE_IP: &str = "alpha.kubernetes.io/provided-node-ip";
/// Annotation with a load balancer's source ranges; `spec.loadBalancerSourceRanges` goes before it (PROV-77).
pub const ANNOTATION_SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";

/// Finalizer that holds a Service until its load balancer is gone (PROV-74).
pub const FINALIZER_LOAD_BALANCER: &str = "service.kubernetes.io/load-balancer-cleanup";

/// Label that keeps a Node out of load balancers, whatever its value (PROV-75).
pub const LABEL_EXCLUDE_BALANCER: &str = "node.kubernetes.io/exclude-from-external-load-balancers";
/// Label that keeps a Node from being deleted or tainted because of what the cloud says of its machine, unless its value is
/// `false` (P-15).
pub const LABEL_EXCLUDE_LIFECYCLE: &str = "node.kubernetes.io/exclude-from-lifecycle-management";
/// Label: instance type (PROV-54).
pub const LABEL_INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
/// Label: instance type, the deprecated key (PROV-54). For reconciliation it is the source of truth (NODE-50).
pub const LABEL_INSTANCE_TYPE_BETA: &str = "beta.kubernetes.io/instance-type";
/// Label: zone (PROV-54).
pub const LABEL_ZONE: &str = "topology.kubernetes.io/zone";
/// Label: zone, the deprecated key (PROV-54, NODE-50).
pub const LABEL_ZONE_BETA: &str = "failure-domain.beta.kubernetes.io/zone";
/// Label: region (PROV-54).
pub const LABEL_REGION: &str = "topology.kubernetes.io/region";
/// Label: region, the deprecated key (PROV-54, NODE-50).
pub const LABEL_REGION_BETA: &str = "failure-domain.beta.kubernetes.io/region";

/// Node condition: the kubelet is healthy and takes Pods (LIFE-11).
pub const CONDITION_READY: &str = "Ready";
/// Node condition: the route to the Node's Pods is missing; kept by the route controller.
pub const CONDITION_NETWORK_UNAVAILABLE: &str = "NetworkUnavailable";
/// Service condition, ours: why a load balancer waits or fails (D-3).
pub const CONDITION_LOAD_BALANCER_READY: &str = "ccm-rs/LoadBalancerReady";
/// Service annotation, ours: let a Service that is being deleted go without touching the cloud.
pub const ANNOTATION_ABANDON_LOAD_BALANCER: &str = "ccm-rs/abandon-load-balancer";
/// The ID of the Service's load balancer in the cloud, where the provider has no annotation of its own for it.
pub const ANNOTATION_LOAD_BALANCER_ID: &str = "ccm-rs/load-balancer-id";

/// Placeholder name of a volume that is still being provisioned (PROV-79).
pub const VOLUME_PLACEHOLDER: &str = "placeholder-for-provisioning";
/// Delimiter of several zones in one PersistentVolume zone label (PROV-79).
pub const ZONE_DELIMITER: &str = "__";

/// The manager's secure port (PROV-8).
pub const SECURE_PORT: u16 = 10258;
/// `--cluster-name` when it is not given.
pub const DEFAULT_CLUSTER_NAME: &str = "kubernetes";
/// `manager` label of `running_managed_controllers` (PROV-78).
pub const MANAGER_NAME: &str = "cloud-controller-manager";
/// The provider name that means "somebody else runs it"; a cloud controller manager refuses it (PROV-4, PROV-6).
pub const PROVIDER_EXTERNAL: &str = "external";

/// The names of one controller, wherever they are visible (PROV-78).
///
/// ```
/// use cloud_provider::names::NODE_CONTROLLER;
///
/// assert_eq!((NODE_CONTROLLER.canonical, NODE_CONTROLLER.alias), ("cloud-node-controller", "cloud-node"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ControllerNames {
    /// The name in `--controllers`, logs and health checks.
    pub canonical: &'static str,
    /// The older name that `--controllers` accepts for ever.
    pub alias: &'static str,
    /// Client identity: user agent suffix and, with `--use-service-account-credentials`, the ServiceAccount.
    pub client_identity: &'static str,
    /// `name` label of `running_managed_controllers`.
    pub metric: &'static str,
    /// `source.component` of the events it writes.
    pub event_source: &'static str,
}

/// cloud-node-controller: initialises Nodes and keeps their addresses.
pub const NODE_CONTROLLER: ControllerNames = ControllerNames {
    canonical: "cloud-node-controller",
    alias: "cloud-node",
    client_identity: "node-controller",
    metric: "cloud-node",
    event_source: "cloud-node-controller",
};
/// cloud-node-lifecycle-controller: removes Nodes whose instance is gone, taints those shut down.
pub const NODE_LIFECYCLE_CONTROLLER: ControllerNames = ControllerNames {
    canonical: "cloud-node-lifecycle-controller",
    alias: "cloud-node-lifecycle",
    client_identity: "node-controller",
    metric: "cloud-node-lifecycle",
    event_source: "cloud-node-lifecycle-controller",
};
/// service-lb-controller: runs load balancers.
pub const SERVICE_CONTROLLER: ControllerNames = ControllerNames {
    canonical: "service-lb-controller",
    alias: "service",
    client_identity: "service-controller",
    metric: "service",
    event_source: "service-controller",
};
/// node-route-controller: keeps the cloud's routes for Pod CIDRs. Its event source is spelt with an underscore.
pub const ROUTE_CONTROLLER: ControllerNames = ControllerNames {
    canonical: "node-route-controller",
    alias: "route",
    client_identity: "route-controller",
    metric: "route",
    event_source: "route_controller",
};

/// persistent-volume-label-controller: topology labels of volumes (D-14). The reference had it once; it is off by default.
pub const VOLUME_LABEL_CONTROLLER: ControllerNames = ControllerNames {
    canonical: "persistent-volume-label-controller",
    alias: "pvlabel",
    client_identity: "pvl-controller",
    metric: "pvlabel",
    event_source: "persistent-volume-label-controller",
};

/// All controllers, in the order in which they start (APP-35).
pub const CONTROLLERS: [ControllerNames; 5] =
    [NODE_CONTROLLER, NODE_LIFECYCLE_CONTROLLER, ROUTE_CONTROLLER, SERVICE_CONTROLLER, VOLUME_LABEL_CONTROLLER];

/// Feature gate: routes follow Node events (ROUTE-11) or a clock (ROUTE-10). Unset: D-5.
pub const GATE_WATCH_BASED_ROUTES: &str = "CloudControllerManagerWatchBasedRoutesReconciliation";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_what_users_rely_on() {
        let table = [
            (TAINT_UNINITIALIZED, "node.cloudprovider.kubernetes.io/uninitialized"),
            (TAINT_SHUTDOWN, "node.cloudprovider.kubernetes.io/shutdown"),
            (TAINT_TO_BE_DELETED, "ToBeDeletedByClusterAutoscaler"),
            (EFFECT_NO_SCHEDULE, "NoSchedule"),
            (ANNOTATION_NODE_IP, "alpha.kubernetes.io/provided-node-ip"),
            (ANNOTATION_SOURCE_RANGES, "service.beta.kubernetes.io/load-balancer-source-ranges"),
            (FINALIZER_LOAD_BALANCER, "service.kubernetes.io/load-balancer-cleanup"),
            (LABEL_EXCLUDE_BALANCER, "node.kubernetes.io/exclude-from-external-load-balancers"),
            (LABEL_EXCLUDE_LIFECYCLE, "node.kubernetes.io/exclude-from-lifecycle-management"),
            (LABEL_INSTANCE_TYPE, "node.kubernetes.io/instance-type"),
            (LABEL_INSTANCE_TYPE_BETA, "beta.kubernetes.io/instance-type"),
            (LABEL_ZONE, "topology.kubernetes.io/zone"),
            (LABEL_ZONE_BETA, "failure-domain.beta.kubernetes.io/zone"),
            (LABEL_REGION, "topology.kubernetes.io/region"),
            (LABEL_REGION_BETA, "failure-domain.beta.kubernetes.io/region"),
            (CONDITION_READY, "Ready"),
            (CONDITION_NETWORK_UNAVAILABLE, "NetworkUnavailable"),
            (CONDITION_LOAD_BALANCER_READY, "ccm-rs/LoadBalancerReady"),
            (ANNOTATION_ABANDON_LOAD_BALANCER, "ccm-rs/abandon-load-balancer"),
            (ANNOTATION_LOAD_BALANCER_ID, "ccm-rs/load-balancer-id"),
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
    fn controllers_carry_the_names_of_the_reference() {
        let row = |c: ControllerNames| [c.canonical, c.alias, c.client_identity, c.metric, c.event_source];
        assert_eq!(
            row(NODE_CONTROLLER),
            ["cloud-node-controller", "cloud-node", "node-controller", "cloud-node", "cloud-node-controller"]
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
            ["service-lb-controller", "service", "service-controller", "service", "service-controller"]
        );
        assert_eq!(
            row(ROUTE_CONTROLLER),
            ["node-route-controller", "route", "route-controller", "route", "route_controller"]
        );
    }
}
