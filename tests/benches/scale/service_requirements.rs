//! Requirements on phases with Services.

use provider_simulated::cloud::PAGE_SIZE;

use crate::measurement::Phase;
use crate::requirements::Requirement;

/// Holds one phase of Services against what is required; nothing for a phase of Nodes.
pub(crate) fn judge(phase: &Phase) -> Vec<Requirement> {
    let Some(of) = &phase.services else {
        return Vec::new();
    };
    let at_most = Requirement::at_most;
    let one_list = of.services.div_ceil(PAGE_SIZE) as f64;
    let reads = of.load_balancer_reads as f64;
    let services = of.services as f64;
    let changes_each = of.load_balancer_writes as f64 / services;
    let writes = (phase.mutations + phase.events) as f64;
    match phase.phase {
        "create" => vec![
            at_most(
                "create: reads of load balancers, one list in pages",
                one_list,
                reads,
            ),
            at_most("create: changes of a load balancer", 1.0, changes_each),
            at_most("create: writes to a Service", 3.0, of.writes_per_service),
            at_most("create: events about a Service", 2.0, of.events_per_service),
        ],
        "quiet" => vec![at_most("quiet: writes, Events included", 0.0, writes)],
        "node joins" => vec![
            at_most("node joins: changes of a load balancer", 1.0, changes_each),
            at_most(
                "node joins: writes to a Service",
                0.0,
                of.writes_per_service,
            ),
        ],
        "node flaps" => vec![at_most("node flaps: writes, Events included", 0.0, writes)],
        "restart" => vec![
            at_most(
                "restart: reads of load balancers, one list in pages",
                one_list,
                reads,
            ),
            at_most("restart: writes, Events included", 0.0, writes),
        ],
        "delete" => vec![
            at_most("delete: changes of a load balancer", 1.0, changes_each),
            at_most("delete: writes to a Service", 2.0, of.writes_per_service),
            at_most("delete: events about a Service", 2.0, of.events_per_service),
        ],
        _ => Vec::new(),
    }
}
