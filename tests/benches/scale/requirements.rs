//! Requirements and measured figures.

use provider_simulated::cloud::PAGE_SIZE;
use serde::Serialize;

use crate::arguments::Arguments;
use crate::measurement::Phase;
use crate::service_requirements;

/// Nodes per second on a real server: 20 times the rate of the Go cloud-controller-manager with its defaults.
const NODES_PER_SECOND: f64 = 20.0 * 6.7;
/// Resident memory at its peak, in MiB.
const MEMORY: f64 = 45.0;
/// The same with Services.
const MEMORY_WITH_SERVICES: f64 = 30.0;

/// A requirement and its figure.
#[derive(Debug, Serialize)]
pub(crate) struct Requirement {
    requirement: &'static str,
    limit: f64,
    measured: f64,
    ok: bool,
}

/// The last line of the output.
#[derive(Debug, Serialize)]
pub(crate) struct Verdict {
    phase: &'static str,
    api: &'static str,
    nodes: usize,
    services: usize,
    pub(crate) ok: bool,
    requirements: Vec<Requirement>,
}

impl Requirement {
    /// Returns `true` if the limit is about the simulated cloud's pages and requests, or about events, of which other providers
    /// write some of their own.
    fn is_of_the_simulated_cloud(&self) -> bool {
        [
            "pages",
            "changes of a load balancer",
            "events about a Service",
        ]
        .iter()
        .any(|events_about_a_service| self.requirement.contains(events_about_a_service))
    }

    pub(crate) fn at_most(requirement: &'static str, limit: f64, measured: f64) -> Self {
        Self {
            requirement,
            limit,
            measured,
            ok: measured <= limit,
        }
    }
}

/// Holds the figures of a run against what is required.
pub(crate) fn judge(arguments: &Arguments, is_real: bool, phases: &[Phase]) -> Verdict {
    let at_most = Requirement::at_most;
    let pages = arguments.nodes.div_ceil(PAGE_SIZE) as f64;
    let mut requirements = Vec::new();
    let mut peak: f64 = 0.0;
    for phase in phases {
        peak = peak.max(phase.rss_peak_mib);
        match phase.phase {
            "burst" => {
                requirements.push(at_most(
                    "burst: cloud reads, pages + 5",
                    pages + 5.0,
                    phase.cloud_requests as f64,
                ));
                requirements.push(at_most(
                    "burst: writes a Node, Events apart",
                    2.0,
                    phase.writes_per_node,
                ));
                if is_real {
                    let speed = arguments.nodes as f64 / phase.seconds;
                    let ok = speed >= NODES_PER_SECOND;
                    let requirement = "burst: Nodes per second, at least";
                    requirements.push(Requirement {
                        requirement,
                        limit: NODES_PER_SECOND,
                        measured: speed.round(),
                        ok,
                    });
                }
            }
            "gone" => {
                requirements.push(at_most(
                    "gone: cloud reads, 3 × pages",
                    3.0 * pages,
                    phase.cloud_requests as f64,
                ));
            }
            "steady" => {
                let writes = (phase.mutations + phase.events) as f64;
                requirements.push(at_most("steady: writes, Events included", 0.0, writes));
            }
            _ => requirements.extend(service_requirements::judge(phase)),
        }
    }
    if arguments.cloud != "simulated" {
        requirements.retain(|requirement| !requirement.is_of_the_simulated_cloud());
    }
    let memory = if arguments.services == 0 {
        MEMORY
    } else {
        MEMORY_WITH_SERVICES
    };
    requirements.push(at_most("resident memory at its peak, MiB", memory, peak));
    let ok = requirements.iter().all(|requirement| requirement.ok);
    let api = if is_real {
        "kube-apiserver"
    } else {
        "embedded"
    };
    Verdict {
        phase: "requirements",
        api,
        nodes: arguments.nodes,
        services: arguments.services,
        ok,
        requirements,
    }
}
