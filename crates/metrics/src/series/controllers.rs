//! Series of the controllers (MET-10, MET-11).

use super::Presence::{Leader, Start, Use};
use super::Stability::{Alpha, Beta};
use super::{DOUBLING, Series, table};

/// Bounds that double from a millisecond to 16 s.
const PASSES: &[f64] = &[
    0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096,
    8.192, 16.384,
];
const NODE_AGES: &[f64] = &[1.0, 4.0, 16.0, 64.0, 256.0, 1024.0];

table!(CONTROLLERS {
    RUNNING_CONTROLLERS = Series::gauge("running_managed_controllers").by(&["name", "manager"]).is(Beta).from(Use)
        .help("1 while the controller runs, 0 after its end.");
    NODE_SYNC_DELAY = Series::histogram("node_controller_initial_node_sync_delay_seconds", NODE_AGES).is(Alpha).from(Start)
        .help("Time from Node creation until the Node is initialized, in seconds.");
    TAINT_REMOVAL_DELAY = Series::histogram("node_controller_cloud_provider_taint_removal_delay_seconds", NODE_AGES)
        .is(Alpha).from(Start)
        .help("Time from Node creation until the uninitialized taint is removed, in seconds.");
    LOAD_BALANCER_SYNC = Series::counter("service_controller_loadbalancer_sync_total").is(Alpha).from(Leader)
        .help("Updates of a load balancer's targets.");
    NODE_SYNC_ERRORS = Series::counter("service_controller_nodesync_error_total").is(Alpha).from(Leader)
        .help("Failed updates of a load balancer's targets after changes of Nodes.");
    NODE_SYNC_LATENCY = Series::histogram("service_controller_nodesync_latency_seconds", DOUBLING).is(Alpha).from(Leader)
        .help("Time to update the targets of all load balancers after changes of Nodes, in seconds.");
    TARGETS_LATENCY = Series::histogram("service_controller_update_loadbalancer_host_latency_seconds", DOUBLING)
        .is(Alpha).from(Leader)
        .help("Time to update the targets of one load balancer, in seconds.");
    ROUTE_SYNC = Series::counter("route_controller_route_sync_total").by(&["outcome", "trigger"]).is(Alpha).from(Use)
        .help("Reconciliations of routes, by outcome (changed, noop, error) and trigger (node_change, periodic).");
    MONITOR_NODES = Series::histogram("cloud_node_lifecycle_controller_monitor_nodes_duration_seconds", PASSES)
        .is(Alpha).from(Leader)
        .help("Time of one pass over all Nodes, in seconds.");
    MONITOR_CALLS = Series::counter("cloud_node_lifecycle_controller_cloud_provider_calls_total").by(&["operation", "result"])
        .is(Alpha).from(Use)
        .help("Look-ups of machines, by operation (instance_exists, instance_shutdown) and result (success, error, \
            instance_not_found, not_implemented).");
});
