//! A run of a program, phase by phase.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::arguments::Arguments;

/// Figures of a phase, as the script reports them.
#[derive(Debug, Deserialize)]
pub(crate) struct Phase {
    #[serde(rename = "phase")]
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) seconds: f64,
    #[serde(default)]
    pub(crate) cpu_seconds: f64,
    #[serde(default)]
    pub(crate) rss_mib_peak: f64,
    #[serde(default)]
    pub(crate) cloud_requests: u64,
    #[serde(default)]
    cloud_by: BTreeMap<String, u64>,
    #[serde(default)]
    kube_by: BTreeMap<String, u64>,
    #[serde(default)]
    pub(crate) mutations: u64,
    #[serde(default)]
    pub(crate) timed_out: bool,
}

/// Phases of a run, and the number of leftover objects.
#[derive(Debug, Default)]
pub(crate) struct Run {
    pub(crate) phases: Vec<Phase>,
    pub(crate) left: u64,
}

impl Run {
    pub(crate) fn phase(&self, name: &str) -> Option<&Phase> {
        self.phases.iter().find(|phase| phase.name == name)
    }

    pub(crate) fn peak(&self) -> f64 {
        self.phases
            .iter()
            .map(|phase| phase.rss_mib_peak)
            .fold(0.0, f64::max)
    }
}

impl Phase {
    /// Requests to the cloud that are not pages of a list.
    pub(crate) fn single_cloud_requests(&self) -> u64 {
        let is_list = |key: &str| {
            let collection = key
                .strip_prefix("GET /")
                .and_then(|path| path.split_once('/'))
                .map(|(_, rest)| rest);
            matches!(
                collection,
                Some("servers" | "droplets" | "load_balancers" | "load_balancer_types")
            )
        };
        self.cloud_by
            .iter()
            .filter(|(key, _)| !is_list(key))
            .map(|(_, count)| count)
            .sum()
    }

    pub(crate) fn events(&self) -> u64 {
        self.kubernetes(|verb, resource| is_write(verb) && resource == "events")
    }

    /// Writes to Nodes and Services.
    pub(crate) fn writes(&self) -> u64 {
        self.kubernetes(|verb, resource| {
            is_write(verb) && (resource.starts_with("nodes") || resource.starts_with("services"))
        })
    }

    fn kubernetes(&self, counts: impl Fn(&str, &str) -> bool) -> u64 {
        let matches = |key: &str| {
            key.split_once(' ')
                .is_some_and(|(verb, resource)| counts(verb, resource))
        };
        self.kube_by
            .iter()
            .filter(|(key, _)| matches(key))
            .map(|(_, count)| count)
            .sum()
    }
}

fn is_write(verb: &str) -> bool {
    !["GET", "LIST", "WATCH"].contains(&verb)
}

/// Runs a program to the end of all phases, and shows its lines as they come.
pub(crate) fn run(arguments: &Arguments, binary: &Path, then: Option<&Path>) -> Result<Run> {
    let mut command = Command::new(&arguments.script);
    command.arg(&arguments.cloud).arg(binary).args([
        "-lb-nodes",
        "5",
        "-steady",
        &arguments.steady,
    ]);
    for (flag, number) in [
        ("-nodes", arguments.nodes),
        ("-services", arguments.services),
        ("-down", arguments.down),
    ] {
        command.arg(flag).arg(number.to_string());
    }
    command.args(
        arguments
            .latency
            .iter()
            .flat_map(|latency| ["-latency", latency.as_str()]),
    );
    command.arg("--").args(&arguments.flags);
    if let Some(then) = then {
        command.env("THEN", then);
    }
    println!("# {}", binary.display());
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .context("the script cannot be run")?;
    let mut run = Run::default();
    for line in BufReader::new(child.stdout.take().context("the script has no output")?).lines() {
        let line = line?;
        println!("{line}");
        if let Some(left) = line.strip_prefix("load balancers left in the cloud: ") {
            run.left = left
                .trim()
                .parse()
                .context("how many load balancers are left")?;
        } else if line.starts_with('{') {
            run.phases
                .push(serde_json::from_str(&line).with_context(|| format!("not a phase: {line}"))?);
        }
    }
    if !child.wait()?.success() {
        bail!("the script failed; it needs the test bed of a real kube-apiserver, and Go");
    }
    Ok(run)
}
