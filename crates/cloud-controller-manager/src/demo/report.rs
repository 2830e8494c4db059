//! The cost of the scenario: requests, writes, time and memory.

use std::time::Duration;

use serde_json::{Value, json};

use super::requests::{Requests, Sender};
use super::table::{aligned, row};

/// The cost of a step.
#[derive(Debug, Clone)]
pub(super) struct StepCost {
    /// Name of the step.
    pub(super) name: &'static str,
    /// Duration of the step.
    pub(super) took: Duration,
    /// Requests from the start of the scenario to the end of the step.
    pub(super) requests: Requests,
}

/// The cost of the whole scenario.
#[derive(Debug, Clone)]
pub(super) struct Report {
    /// Number of Nodes at the beginning.
    pub(super) nodes: usize,
    /// Number of Services at the beginning.
    pub(super) services: usize,
    /// If set, every step was successful.
    pub(super) ok: bool,
    /// Steps that were run.
    pub(super) steps: Vec<StepCost>,
    /// Time from the start of the servers to the end of the scenario.
    pub(super) took: Duration,
    /// Peak of resident memory in KiB, if the system reports it.
    pub(super) peak_memory: Option<u64>,
}

/// A table with its heading.
pub(super) struct Section {
    /// Heading above the table.
    pub(super) heading: String,
    /// Lines of the table.
    pub(super) rows: Vec<String>,
    /// If set, the lines have columns and are never wrapped.
    pub(super) is_table: bool,
}

/// The numbers of the controllers' requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct RequestCounts {
    cloud_reads: u64,
    cloud_changes: u64,
    node_writes: u64,
    service_writes: u64,
    event_writes: u64,
}

/// The average cost of one Service.
#[derive(Debug, Clone, Copy, PartialEq)]
struct PerService {
    cloud_reads: f64,
    cloud_changes: f64,
    writes: f64,
    events: f64,
}

impl RequestCounts {
    fn of(requests: &Requests) -> Self {
        let [cloud_reads, cloud_changes] = requests.to_cloud();
        let [node_writes, service_writes, event_writes] =
            ["nodes", "services", "events"].map(|resource| requests.writes_to(resource));
        Self {
            cloud_reads,
            cloud_changes,
            node_writes,
            service_writes,
            event_writes,
        }
    }

    fn since(self, before: Self) -> Self {
        Self {
            cloud_reads: self.cloud_reads.saturating_sub(before.cloud_reads),
            cloud_changes: self.cloud_changes.saturating_sub(before.cloud_changes),
            node_writes: self.node_writes.saturating_sub(before.node_writes),
            service_writes: self.service_writes.saturating_sub(before.service_writes),
            event_writes: self.event_writes.saturating_sub(before.event_writes),
        }
    }

    fn cells(self) -> [String; 5] {
        let Self {
            cloud_reads,
            cloud_changes,
            node_writes,
            service_writes,
            event_writes,
        } = self;
        [
            cloud_reads,
            cloud_changes,
            node_writes,
            service_writes,
            event_writes,
        ]
        .map(|count| count.to_string())
    }
}

#[allow(clippy::cast_precision_loss)] // Everything is counted in thousands.
fn per(count: u64, things: usize) -> f64 {
    count as f64 / things as f64
}

impl Report {
    fn requests(&self) -> Requests {
        self.steps
            .last()
            .map(|step| step.requests.clone())
            .unwrap_or_default()
    }

    /// Returns the cost of each step alone.
    fn costs(&self) -> Vec<(&'static str, Duration, RequestCounts)> {
        let mut before = RequestCounts::default();
        let cost = |step: &StepCost| {
            let now = RequestCounts::of(&step.requests);
            let spent = now.since(before);
            before = now;
            (step.name, step.took, spent)
        };
        self.steps.iter().map(cost).collect()
    }

    /// Returns the requests before and after a step.
    fn around(&self, name: &str) -> Option<[&Requests; 2]> {
        let mut pairs = self.steps.windows(2);
        pairs
            .find(|pair| pair[1].name == name)
            .map(|pair| [&pair[0].requests, &pair[1].requests])
    }

    /// Returns the average number of writes to a Node until it was initialized.
    fn writes_per_node(&self) -> Option<f64> {
        let step = self.steps.iter().find(|step| step.name == "initialise")?;
        Some(per(
            step.requests.writes_of(Sender::NodeControllers, "nodes"),
            self.nodes,
        ))
    }

    /// Returns the average numbers of requests to the cloud and of writes for the route of a Node.
    fn per_route(&self) -> Option<[f64; 2]> {
        let step = self.steps.iter().find(|step| step.name == "routes")?;
        let [_, changes] = step.requests.to_cloud_about("/v1/routes");
        Some(
            [
                changes,
                step.requests.writes_of(Sender::RouteController, "nodes"),
            ]
            .map(|count| per(count, self.nodes)),
        )
    }

    /// Returns the average cost of one of `count` Services in a step.
    fn per_service(&self, step: &str, count: usize) -> Option<PerService> {
        let [before, after] = self.around(step)?;
        let spent = |count: fn(&Requests) -> u64| count(after).saturating_sub(count(before));
        Some(PerService {
            cloud_reads: per(
                spent(|requests| requests.to_cloud_about("/v1/load-balancers")[0]),
                count,
            ),
            cloud_changes: per(
                spent(|requests| requests.to_cloud_about("/v1/load-balancers")[1]),
                count,
            ),
            writes: per(
                spent(|requests| requests.writes_of(Sender::ServiceController, "services")),
                count,
            ),
            events: per(
                spent(|requests| requests.writes_of(Sender::ServiceController, "events")),
                count,
            ),
        })
    }

    /// Returns the cost by action on a Service: the words for people, the name for programs, and the cost.
    fn service_costs(&self) -> Vec<(&'static str, &'static str, PerService)> {
        let steps = [
            ("created", "expose", self.services),
            ("with another port", "port", 1),
            ("deleted", "delete", 1),
        ];
        let costs = steps.into_iter();
        costs
            .filter_map(|(what, step, count)| Some((what, step, self.per_service(step, count)?)))
            .collect()
    }

    /// Returns the tables for people.
    pub(super) fn sections(&self) -> Vec<Section> {
        let requests = self.requests();
        let heading = [
            "step", "seconds", "reads", "changes", "Nodes", "Services", "events",
        ];
        let mut steps = vec![row(heading)];
        steps.extend(self.costs().into_iter().map(|(name, took, counts)| {
            let seconds = format!("{:.2}", took.as_secs_f64());
            [vec![name.to_owned(), seconds], counts.cells().to_vec()].concat()
        }));
        let mut cloud = vec![row(["route", "requests"])];
        cloud.extend(
            requests
                .cloud
                .iter()
                .map(|(route, count)| row([route, &count.to_string()])),
        );
        let mut kubernetes = vec![row(["sender", "resource", "verb", "requests"])];
        kubernetes.extend(
            requests
                .kubernetes
                .iter()
                .map(|((sender, resource, verb), count)| {
                    let resource = if resource.is_empty() { "-" } else { resource };
                    row([sender.name(), resource, verb, &count.to_string()])
                }),
        );
        let mut services = vec![row([
            "a Service is",
            "cloud reads",
            "cloud changes",
            "Service writes",
            "event writes",
        ])];
        services.extend(self.service_costs().into_iter().map(|(what, _, cost)| {
            let figures = [
                cost.cloud_reads,
                cost.cloud_changes,
                cost.writes,
                cost.events,
            ];
            [
                vec![what.to_owned()],
                figures.map(|figure| format!("{figure:.2}")).to_vec(),
            ]
            .concat()
        }));
        let section = |heading: &str, rows: Vec<Vec<String>>| Section {
            heading: heading.to_owned(),
            rows: aligned(&rows),
            is_table: true,
        };
        vec![
            section(
                "Steps: reads and changes of the cloud, writes to Nodes, Services and events",
                steps,
            ),
            section("Requests to the cloud", cloud),
            section("Requests to Kubernetes", kubernetes),
            section("For each Service", services),
            Section {
                heading: "In all".to_owned(),
                rows: self.totals(),
                is_table: false,
            },
        ]
    }

    fn totals(&self) -> Vec<String> {
        let mut rows = vec![format!(
            "{} Nodes, {} Services, {:.1} s",
            self.nodes,
            self.services,
            self.took.as_secs_f64()
        )];
        if let Some(writes) = self.writes_per_node() {
            rows.push(format!(
                "{writes:.2} writes to initialise a Node, conflict retries included"
            ));
        }
        if let Some([changes, writes]) = self.per_route() {
            rows.push(format!(
                "{changes:.2} cloud requests and {writes:.2} writes for the route of a Node"
            ));
        }
        if let Some(kib) = self.peak_memory {
            let mib = kib / 1024;
            rows.push(format!(
                "{mib} MiB resident at the peak, for everything: API server, cloud, kubelets, observer and controllers"
            ));
        }
        rows
    }

    /// Returns the report as JSON for programs.
    pub(super) fn object(&self) -> Value {
        let requests = self.requests();
        let steps = self.costs().into_iter().map(|(name, took, counts)| {
            json!({
                "step": name,
                "seconds": rounded(took),
                "cloudRequests": counts.cloud_reads + counts.cloud_changes,
                "cloudChanges": counts.cloud_changes,
                "nodeWrites": counts.node_writes,
                "serviceWrites": counts.service_writes,
                "eventWrites": counts.event_writes,
            })
        });
        let kubernetes = requests.kubernetes.iter().map(|((sender, resource, verb), count)| {
            json!({"sender": sender.name(), "resource": resource, "verb": verb, "requests": count})
        });
        let services = self.service_costs().into_iter().map(|(_, step, cost)| {
            json!({
                "step": step,
                "cloudReads": cost.cloud_reads,
                "cloudChanges": cost.cloud_changes,
                "serviceWrites": cost.writes,
                "eventWrites": cost.events,
            })
        });
        json!({
            "ok": self.ok,
            "nodes": self.nodes,
            "services": self.services,
            "seconds": rounded(self.took),
            "steps": steps.collect::<Vec<_>>(),
            "cloud": requests.cloud,
            "kubernetes": kubernetes.collect::<Vec<_>>(),
            "writesPerNode": self.writes_per_node(),
            "writesPerRoute": self.per_route().map(|[_, writes]| writes),
            "perService": services.collect::<Vec<_>>(),
            "peakMemoryKiB": self.peak_memory,
        })
    }
}

/// Returns seconds, rounded to milliseconds.
pub(super) fn rounded(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1000.0).round() / 1000.0
}

/// Returns the peak of this process's resident memory so far in KiB, on Linux only.
pub(super) fn peak_memory() -> Option<u64> {
    vm_hwm(&std::fs::read_to_string("/proc/self/status").ok()?)
}

fn vm_hwm(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
pub(super) mod tests;
