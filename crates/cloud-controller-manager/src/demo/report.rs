//! What it cost: requests, writes, seconds, memory.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

/// Who sends requests to the Kubernetes API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sender {
    /// The cloud controller manager.
    Controllers,
    /// The demo's kubelets.
    Kubelets,
    /// The demo's own eyes.
    Observer,
    /// Everybody else, such as kubectl.
    Others,
}

/// Binary names in the `User-Agent` of the demo's own clients.
pub(super) const KUBELETS: &str = "demo-kubelets";
pub(super) const OBSERVER: &str = "demo-observer";

impl Sender {
    /// Who it is, from the `User-Agent`.
    pub(super) fn of(user_agent: &str) -> Self {
        match user_agent.split('/').next() {
            Some("cloud-controller-manager") => Self::Controllers,
            Some(KUBELETS) => Self::Kubelets,
            Some(OBSERVER) => Self::Observer,
            _ => Self::Others,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Controllers => "controllers",
            Self::Kubelets => "the demo's kubelets",
            Self::Observer => "the demo's observer",
            Self::Others => "others",
        }
    }
}

/// Requests so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Requests {
    /// To the cloud, by method and path template.
    pub(super) cloud: BTreeMap<String, u64>,
    /// To the Kubernetes API, by sender, resource and verb.
    pub(super) kubernetes: BTreeMap<(Sender, String, String), u64>,
}

impl Requests {
    fn to_cloud(&self) -> u64 {
        self.cloud.values().sum()
    }

    /// Writes of the controllers to a resource and its subresources.
    fn writes(&self, resource: &str) -> u64 {
        let is_write = |verb: &str| !matches!(verb, "get" | "list" | "watch");
        let own = self.kubernetes.iter().filter(|((sender, name, verb), _)| {
            *sender == Sender::Controllers && is_write(verb) && name.split('/').next() == Some(resource)
        });
        own.map(|(_, count)| count).sum()
    }
}

/// What a step cost.
#[derive(Debug, Clone)]
pub(super) struct StepCost {
    /// The step.
    pub(super) name: &'static str,
    /// How long it took.
    pub(super) took: Duration,
    /// All requests from the start to its end.
    pub(super) requests: Requests,
}

/// What everything cost.
#[derive(Debug, Clone)]
pub(super) struct Report {
    /// Number of Nodes.
    pub(super) nodes: usize,
    /// Whether every step happened.
    pub(super) ok: bool,
    /// The steps that were run.
    pub(super) steps: Vec<StepCost>,
    /// From the start of the servers to the end of the story.
    pub(super) took: Duration,
    /// The most memory that was resident, in KiB, where the system tells.
    pub(super) peak_memory: Option<u64>,
}

/// A table with its heading.
pub(super) struct Section {
    /// Above the table.
    pub(super) heading: String,
    /// Its lines.
    pub(super) rows: Vec<String>,
}

impl Report {
    fn requests(&self) -> Requests {
        self.steps.last().map(|step| step.requests.clone()).unwrap_or_default()
    }

    /// Seconds, cloud requests, writes to Nodes and event writes of each step alone.
    fn costs(&self) -> Vec<(&'static str, Duration, [u64; 3])> {
        let figures = |requests: &Requests| [requests.to_cloud(), requests.writes("nodes"), requests.writes("events")];
        let mut before = [0; 3];
        let cost = |step: &StepCost| {
            let now = figures(&step.requests);
            let spent = std::array::from_fn(|i| now[i].saturating_sub(before[i]));
            before = now;
            (step.name, step.took, spent)
        };
        self.steps.iter().map(cost).collect()
    }

    /// Writes to a Node until it was initialised, on average.
    fn writes_per_node(&self) -> Option<f64> {
        let step = self.steps.iter().find(|step| step.name == "initialise")?;
        #[allow(clippy::cast_precision_loss)] // Nodes are counted in thousands.
        Some(step.requests.writes("nodes") as f64 / self.nodes as f64)
    }

    /// The tables for people.
    pub(super) fn sections(&self) -> Vec<Section> {
        let requests = self.requests();
        let mut steps = vec![row(["step", "seconds", "cloud requests", "writes to Nodes", "event writes"])];
        steps.extend(self.costs().into_iter().map(|(name, took, [cloud, nodes, events])| {
            let seconds = format!("{:.2}", took.as_secs_f64());
            row([name, &seconds, &cloud.to_string(), &nodes.to_string(), &events.to_string()])
        }));
        let mut cloud = vec![row(["route", "requests"])];
        cloud.extend(requests.cloud.iter().map(|(route, count)| row([route, &count.to_string()])));
        let mut kubernetes = vec![row(["sender", "resource", "verb", "requests"])];
        kubernetes.extend(requests.kubernetes.iter().map(|((sender, resource, verb), count)| {
            let resource = if resource.is_empty() { "-" } else { resource };
            row([sender.name(), resource, verb, &count.to_string()])
        }));
        let section =
            |heading: &str, rows: Vec<Vec<String>>| Section { heading: heading.to_owned(), rows: aligned(&rows) };
        vec![
            section("Steps (requests of the controllers)", steps),
            section("Requests to the cloud", cloud),
            section("Requests to Kubernetes", kubernetes),
            Section { heading: "In all".to_owned(), rows: self.totals() },
        ]
    }

    fn totals(&self) -> Vec<String> {
        let mut rows = vec![format!("{} Nodes, {:.1} s", self.nodes, self.took.as_secs_f64())];
        if let Some(writes) = self.writes_per_node() {
            rows.push(format!("{writes:.2} writes to initialise a Node, conflict retries included"));
        }
        if let Some(kib) = self.peak_memory {
            let mib = kib / 1024;
            rows.push(format!(
                "{mib} MiB resident at the peak, for everything: API server, cloud, kubelets, observer and controllers"
            ));
        }
        rows
    }

    /// The same for programs.
    pub(super) fn object(&self) -> Value {
        let requests = self.requests();
        let steps = self.costs().into_iter().map(|(name, took, [cloud, nodes, events])| {
            json!({"step": name, "seconds": rounded(took), "cloudRequests": cloud, "nodeWrites": nodes, "eventWrites": events})
        });
        let kubernetes = requests.kubernetes.iter().map(|((sender, resource, verb), count)| {
            json!({"sender": sender.name(), "resource": resource, "verb": verb, "requests": count})
        });
        json!({
            "ok": self.ok,
            "nodes": self.nodes,
            "seconds": rounded(self.took),
            "steps": steps.collect::<Vec<_>>(),
            "cloud": requests.cloud,
            "kubernetes": kubernetes.collect::<Vec<_>>(),
            "writesPerNode": self.writes_per_node(),
            "peakMemoryKiB": self.peak_memory,
        })
    }
}

/// Seconds, to the millisecond.
pub(super) fn rounded(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1000.0).round() / 1000.0
}

/// The most memory of this process that was resident so far, in KiB; Linux only.
pub(super) fn peak_memory() -> Option<u64> {
    vm_hwm(&std::fs::read_to_string("/proc/self/status").ok()?)
}

fn vm_hwm(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(str::to_owned).to_vec()
}

/// Columns under each other: text to the left, numbers to the right.
fn aligned(rows: &[Vec<String>]) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let is_number = |column: usize| rows.iter().skip(1).all(|row| row[column].parse::<f64>().is_ok());
    let shape: Vec<(usize, bool)> = (0..columns).map(|c| (width(c).unwrap_or(0), is_number(c))).collect();
    let line = |row: &Vec<String>| {
        let mut text = String::new();
        for (cell, (width, number)) in row.iter().zip(&shape) {
            _ = if *number { write!(text, "{cell:>width$}  ") } else { write!(text, "{cell:<width$}  ") };
        }
        text.trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests(list: u64, patches: u64) -> Requests {
        let key = |resource: &str, verb: &str| (Sender::Controllers, resource.to_owned(), verb.to_owned());
        Requests {
            cloud: [("GET /v1/machines".to_owned(), list)].into(),
            kubernetes: [
                (key("nodes", "patch"), patches),
                (key("nodes/status", "patch"), patches),
                (key("nodes", "watch"), 1),
                (key("events", "create"), 5),
                ((Sender::Kubelets, "nodes".to_owned(), "create".to_owned()), 5),
            ]
            .into(),
        }
    }

    fn report() -> Report {
        let step = |name, millis, requests| StepCost { name, took: Duration::from_millis(millis), requests };
        Report {
            nodes: 5,
            ok: true,
            steps: vec![
                step("register", 20, Requests::default()),
                step("initialise", 130, requests(1, 5)),
                step("stop", 640, requests(4, 6)),
            ],
            took: Duration::from_secs(2),
            peak_memory: Some(30 * 1024),
        }
    }

    #[test]
    fn tables_are_aligned_and_each_step_shows_its_own_share() {
        let sections = report().sections();
        assert_eq!(
            sections[0].rows,
            [
                "step        seconds  cloud requests  writes to Nodes  event writes",
                "register       0.02               0                0             0",
                "initialise     0.13               1               10             5",
                "stop           0.64               3                2             0",
            ]
        );
        assert_eq!(sections[2].rows.len(), 6);
        assert!(sections[3].rows[1].starts_with("2.00 writes"), "{:?}", sections[3].rows);
    }

    #[test]
    fn programs_get_the_same_figures() {
        let object = report().object();
        assert_eq!((&object["ok"], &object["writesPerNode"]), (&json!(true), &json!(2.0)));
        assert_eq!(
            object["steps"][2],
            json!({"step": "stop", "seconds": 0.64, "cloudRequests": 3, "nodeWrites": 2, "eventWrites": 0})
        );
    }

    #[test]
    fn senders_are_told_apart_by_their_user_agent() {
        assert_eq!(
            Sender::of("cloud-controller-manager/v0.1.0 (linux/amd64) kubernetes/unknown/node-controller"),
            Sender::Controllers
        );
        assert_eq!(Sender::of("demo-kubelets/v0.1.0 (linux/amd64)"), Sender::Kubelets);
        assert_eq!(Sender::of("kubectl/v1.32.0"), Sender::Others);
    }

    #[test]
    fn peak_memory_is_read_from_the_status_file() {
        assert_eq!(vm_hwm("Name:\tx\nVmPeak:\t  99 kB\nVmHWM:\t   12345 kB\n"), Some(12345));
        assert_eq!(vm_hwm(""), None);
    }
}
