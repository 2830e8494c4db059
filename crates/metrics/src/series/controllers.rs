//! Series of the controllers (MET-10, MET-11).

use super::Presence::{Leader, Start, Use};
use super::Stability::{Alpha, Beta};
use super::{DOUBLING, Series, table};

const NODE_AGES: &[f64] = &[1.0, 4.0, 16.0, 64.0, 256.0, 1024.0];

table!(CONTROLLERS {
    RUNNING_CONTROLLERS = Series::gauge("running_managed_controllers").by(&["name", "manager"]).is(Beta).from(Use)
        .help("1 while the loop of this controller runs, 0 after it ended.");
    NODE_SYNC_DELAY = Series::histogram("node_controller_initial_node_sync_delay_seconds", NODE_AGES).is(Alpha).from(Start)
        .help("Age of a Node when it was initialised for the first time, counted from its creation.");
    TAINT_REMOVAL_DELAY = Series::histogram("node_controller_cloud_provider_taint_removal_delay_seconds", NODE_AGES)
        .is(Alpha).from(Start)
        .help("Age of a Node when its start-up taint was removed, counted from its creation.");
    LOAD_BALANCER_SYNC = Series::counter("service_controller_loadbalancer_sync_total").is(Alpha).from(Leader)
        .help("Times that the targets of one load balancer were to be brought up to date.");
    NODE_SYNC_ERRORS = Series::counter("service_controller_nodesync_error_total").is(Alpha).from(Leader)
        .help("Load balancers whose targets could not be brought up to date after Nodes changed.");
    NODE_SYNC_LATENCY = Series::histogram("service_controller_nodesync_latency_seconds", DOUBLING).is(Alpha).from(Leader)
        .help("Time until all load balancers were through after Nodes changed.");
    TARGETS_LATENCY = Series::histogram("service_controller_update_loadbalancer_host_latency_seconds", DOUBLING)
        .is(Alpha).from(Leader)
        .help("Time that bringing the targets of one load balancer up to date took.");
    ROUTE_SYNC = Series::counter("route_controller_route_sync_total").is(Alpha).from(Leader)
        .help("Passes over the routes that began.");
});
