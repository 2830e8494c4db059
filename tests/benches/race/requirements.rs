//! Requirements and measured figures.

use std::fmt;

use crate::arguments::Arguments;
use crate::phases::{Phase, Run};

/// A phase of the other program that takes less is too short for a ratio of CPU time.
const LONG_ENOUGH: f64 = 2.0;

/// Lines of the report.
#[derive(Default)]
pub(crate) struct Report(Vec<Line>);

struct Line {
    what: String,
    measured: f64,
    most: f64,
    /// The other program's figure, where it ran.
    peer: Option<f64>,
}

impl Report {
    /// Returns `true` if every requirement is met.
    pub(crate) fn holds(&self) -> bool {
        self.0.iter().all(Line::holds)
    }

    fn at_most(&mut self, what: impl Into<String>, measured: f64, most: f64) {
        self.0.push(Line {
            what: what.into(),
            measured,
            most,
            peer: None,
        });
    }

    fn ratio(&mut self, what: String, measured: f64, peer: f64, divisor: f64) {
        self.0.push(Line {
            what,
            measured,
            most: peer / divisor,
            peer: Some(peer),
        });
    }
}

impl Line {
    fn holds(&self) -> bool {
        self.measured <= self.most
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<72} {:>9} {:>9} {:>9}",
            "figure", "measured", "at most", "peer"
        )?;
        for line in &self.0 {
            let Line {
                what,
                measured,
                most,
                peer,
            } = line;
            let peer = peer.map_or_else(String::new, |peer| format!("{peer:.2}"));
            let missed = if line.holds() { "" } else { "  MISSED" };
            writeln!(
                f,
                "{what:<72} {measured:>9.2} {most:>9.2} {peer:>9}{missed}"
            )?;
        }
        Ok(())
    }
}

/// Holds a run against what is required of this program, and against the other program's.
pub(crate) fn judge(arguments: &Arguments, run: &Run, peer: Option<&Run>) -> Report {
    let mut report = Report::default();
    for phase in &run.phases {
        counts(arguments, phase, &mut report);
        if phase.timed_out {
            report.at_most(format!("{}: did not end in time", phase.name), 1.0, 0.0);
        }
    }
    report.at_most("load balancers left in the cloud", run.left as f64, 0.0);
    // 23 MiB at 1,000 Nodes, 48 at 5,000: most of the first is the program itself, with fourteen clouds.
    let memory = 23.0 + 25.0 * (arguments.nodes.max(1000) - 1000) as f64 / 4000.0;
    report.at_most("resident memory at its peak, MiB", run.peak(), memory);
    if let Some(peer) = peer {
        compare(arguments, run, peer, &mut report);
    }
    report
}

fn counts(arguments: &Arguments, phase: &Phase, report: &mut Report) {
    let nodes = arguments.nodes as u64;
    let services = arguments.services as u64;
    let down = arguments.down as u64;
    // Machines and load balancers on the longest page of a list.
    let pages = nodes.div_ceil(if arguments.cloud == "digitalocean" {
        200
    } else {
        50
    });
    let name = &phase.name;
    let per = |count: u64, of: u64| count as f64 / of.max(1) as f64;
    // The script's own write of one a Service is taken off.
    let own = |count: u64| count.saturating_sub(services);
    match name.as_str() {
        "initialise nodes" => {
            report.at_most(
                format!("{name}: cloud requests"),
                phase.cloud_requests as f64,
                (pages + 5) as f64,
            );
            report.at_most(
                format!("{name}: writes a Node"),
                per(phase.writes(), nodes),
                2.0,
            );
            // The Lease is acquired at the start of this phase or just before it, with one event.
            report.at_most(
                format!("{name}: events"),
                phase.events() as f64,
                (nodes + 1) as f64,
            );
        }
        "create load balancers" => {
            let requests = per(phase.single_cloud_requests(), services);
            report.at_most(
                format!("{name}: cloud requests each, lists aside"),
                requests,
                2.0,
            );
            report.at_most(
                format!("{name}: Kubernetes writes each"),
                per(own(phase.writes()), services),
                3.0,
            );
            report.at_most(
                format!("{name}: events each"),
                per(phase.events(), services),
                3.0,
            );
        }
        "one node joins the targets" => {
            let requests = per(phase.single_cloud_requests(), services);
            report.at_most(
                format!("{name}: cloud requests each, lists aside"),
                requests,
                2.0,
            );
        }
        "delete load balancers" => {
            // In clouds without unique names, a deletion is verified by two lists, a machine and the load balancer
            // itself.
            let most = if arguments.cloud == "digitalocean" {
                5.0
            } else {
                2.0
            };
            report.at_most(
                format!("{name}: cloud requests each"),
                per(phase.cloud_requests, services),
                most,
            );
        }
        "delete gone nodes" => {
            let slack = if nodes > 1000 { 10 } else { 5 };
            report.at_most(
                format!("{name}: cloud requests"),
                phase.cloud_requests as f64,
                (3 * pages + slack) as f64,
            );
            report.at_most(
                format!("{name}: Kubernetes writes each"),
                per(phase.writes(), down),
                1.0,
            );
            // One event each, and events of the phase before that are still in flight, in which each of these Nodes
            // got its shutdown taint.
            report.at_most(
                format!("{name}: events each"),
                per(phase.events(), down),
                2.0,
            );
        }
        "steady" | "steady with load balancers" | "another binary takes over" => {
            report.at_most(format!("{name}: changes"), phase.mutations as f64, 0.0);
        }
        _ => {}
    }
    if ["create load balancers", "delete load balancers"].contains(&name.as_str())
        && arguments.latency.is_none()
    {
        // 4 s for 200; the server shares the machine, so it is the number that counts beyond.
        let most = 4.0 * (services.max(200) as f64 / 200.0);
        report.at_most(format!("{name}: seconds"), phase.seconds, most);
    }
}

fn compare(arguments: &Arguments, run: &Run, peer: &Run, report: &mut Report) {
    let (nodes, balancers) = if arguments.latency.is_some() {
        (10.0, 5.0)
    } else {
        (20.0, 1.0)
    };
    let raised = !arguments.flags.is_empty();
    for ours in &run.phases {
        let Some(theirs) = peer.phase(&ours.name) else {
            continue;
        };
        match ours.name.as_str() {
            "initialise nodes" if !raised => {
                report.ratio(
                    format!("{}: seconds", ours.name),
                    ours.seconds,
                    theirs.seconds,
                    nodes,
                );
            }
            "create load balancers" if arguments.latency.is_some() => {
                report.ratio(
                    format!("{}: seconds", ours.name),
                    ours.seconds,
                    theirs.seconds,
                    balancers,
                );
            }
            _ => {}
        }
        if theirs.cpu_seconds > LONG_ENOUGH {
            report.ratio(
                format!("{}: CPU seconds", ours.name),
                ours.cpu_seconds,
                theirs.cpu_seconds,
                5.0,
            );
        }
    }
}
