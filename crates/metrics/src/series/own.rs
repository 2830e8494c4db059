//! Series that the Go cloud-controller-manager does not have (MET-50).

use super::Presence::{Leader, Start, Use};
use super::{CONVENTIONAL, Series, table};

const WORK: &[f64] = &[
    0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0,
];
const PAUSES: &[f64] = &[0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0];

table!(OWN {
    OWN_BUILD_INFO = Series::gauge("ccm_build_info").by(&["version", "revision", "rustc", "platform"]).from(Start)
        .help("Always 1; the labels have the build information of this process.");
    RECONCILES = Series::counter("ccm_reconcile_total").by(&["controller", "result"]).from(Leader)
        .help("Reconciled objects or passes of a controller, by result.");
    RECONCILE_DURATION = Series::histogram("ccm_reconcile_duration_seconds", WORK).by(&["controller"]).from(Leader)
        .help("Time to reconcile an object or to complete a pass, in seconds.");
    RECONCILE_LAST_SUCCESS = Series::gauge("ccm_reconcile_last_success_timestamp_seconds").by(&["controller"]).from(Use)
        .help("Time of a controller's last successful reconciliation, in seconds since the Unix epoch.");
    NODES_UNINITIALIZED = Series::gauge("ccm_node_uninitialized").from(Leader)
        .help("Nodes of this cloud with the uninitialized taint.");
    NODES_UNINITIALIZED_OLDEST = Series::gauge("ccm_node_uninitialized_oldest_seconds").from(Leader)
        .help("Age of the oldest Node of this cloud with the uninitialized taint, in seconds; 0 if there is none.");
    NODE_DELETIONS = Series::counter("ccm_node_deletions_total").by(&["reason"]).from(Leader)
        .help("Nodes deleted because their machine does not exist.");
    NODE_DELETIONS_SUPPRESSED = Series::counter("ccm_node_deletion_suppressed_total").by(&["reason"]).from(Use)
        .help("Nodes without a machine that were kept, by reason; counted once per Node and reason.");
    NODE_SHUTDOWN_TAINTS = Series::counter("ccm_node_shutdown_taints_total").by(&["operation"]).from(Leader)
        .help("Shutdown taints that were added or removed.");
    NODE_LOOKUP_ERRORS = Series::counter("ccm_node_lookup_errors_total").from(Leader)
        .help("Nodes whose machine a pass of the lifecycle controller could not look up.");
    NODES_SKIPPED = Series::gauge("ccm_node_lifecycle_skipped").from(Leader)
        .help("Nodes that are not ready and that the last pass of the lifecycle controller skipped: of another cloud, or \
            excluded by a label.");
    LOAD_BALANCERS = Series::gauge("ccm_loadbalancer_state").by(&["state"]).from(Leader)
        .help("Services that this controller handles, by state of their load balancer.");
    LOAD_BALANCER_OLDEST_PENDING = Series::gauge("ccm_loadbalancer_oldest_pending_seconds").from(Leader)
        .help("Longest time that a load balancer has been out of sync with its Service, in seconds; 0 if all are in sync.");
    LOAD_BALANCER_CALLS = Series::histogram("ccm_loadbalancer_call_duration_seconds", WORK).by(&["operation", "result"])
        .from(Use)
        .help("Time to ensure or delete a load balancer, in seconds.");
    LOAD_BALANCER_DRIFTS = Series::counter("ccm_loadbalancer_drift_total").from(Leader)
        .help("Detected drift of load balancers.");
    LOAD_BALANCER_DELETIONS_SUPPRESSED = Series::counter("ccm_loadbalancer_deletion_suppressed_total").by(&["reason"]).from(Use)
        .help("Load balancers that were kept although their Service vanished from the Kubernetes API, by reason; counted once per \
            Service and reason.");
    VANISHED = Series::gauge("ccm_vanished_objects_held").by(&["kind"]).from(Leader)
        .help("Services and Nodes that vanished from the Kubernetes API without being deleted, and are still treated as \
            existing.");
    ORPHANS = Series::gauge("ccm_orphaned_resources").by(&["kind"]).from(Use)
        .help("Resources in the cloud with owner tags of a deleted object of this cluster, as of the last complete list.");
    ROUTES = Series::gauge("ccm_routes").by(&["state"]).from(Use)
        .help("Routes at the last pass, by state: desired by the Nodes, present, foreign, and failed.");
    ROUTE_CHANGES = Series::counter("ccm_route_changes_total").by(&["operation", "result"]).from(Leader)
        .help("Creations and deletions of routes, by result.");
    ROUTE_FLAPPING = Series::counter("ccm_route_flapping_total").from(Leader)
        .help("Routes that another writer changes repeatedly.");
    ROUTE_OUTSIDE = Series::counter("ccm_route_outside_cluster_cidr_total").from(Leader)
        .help("Pod CIDRs of Nodes outside every CIDR of --cluster-cidr; counted once per Node and CIDR.");
    CLOUD_API_REQUESTS = Series::counter("ccm_cloud_api_requests_total").by(&["operation", "code"]).from(Use)
        .help("Requests to the cloud, by HTTP status; <error> if there was no answer.");
    CLOUD_API_DURATION = Series::histogram("ccm_cloud_api_duration_seconds", CONVENTIONAL).by(&["operation"]).from(Use)
        .help("Latency of requests to the cloud, in seconds.");
    CLOUD_API_REMAINING = Series::gauge("ccm_cloud_api_rate_limit_remaining").from(Use)
        .help("Requests left before the cloud throttles, according to its last response.");
    CLOUD_API_PAUSES = Series::histogram("ccm_cloud_api_throttle_wait_seconds", PAUSES).from(Start)
        .help("Pauses that the cloud asked for.");
    CLOUD_API_CACHE = Series::counter("ccm_cloud_api_cache_requests_total").by(&["result"]).from(Start)
        .help("Look-ups that were answered from the cache, or needed a request to the cloud.");
    CREDENTIAL_RELOADS = Series::counter("ccm_credential_reloads_total").by(&["credential", "result"]).from(Start)
        .help("Changes of a kubeconfig, of the cloud's configuration, or of a file with a credential, that came into use \
            (success), need a restart (restart), or could not be used (error; each try counts).");
    SERVER_LIMITED = Series::counter("ccm_server_limited_total").by(&["limit"]).from(Use)
        .help("Requests that were refused and connections that were closed because of a limit of the HTTP servers, by limit.");
    RUNTIME_WORKERS = Series::gauge("ccm_runtime_workers").from(Start)
        .help("Worker threads of the asynchronous runtime.");
    RUNTIME_TASKS = Series::gauge("ccm_runtime_alive_tasks").from(Start)
        .help("Asynchronous tasks that have not ended.");
    RUNTIME_QUEUE = Series::gauge("ccm_runtime_global_queue_depth").from(Start)
        .help("Asynchronous tasks that wait for a worker thread.");
    RUNTIME_BUSY = Series::counter("ccm_runtime_busy_seconds_total").from(Start)
        .help("Total time that worker threads were busy, in seconds.");
    RUNTIME_PARKS = Series::counter("ccm_runtime_parks_total").from(Start)
        .help("Number of times that a worker thread became idle.");
});
