//! Tests of the demo as a user runs it: its output for programs and people, its log (klog's format, without secrets:
//! INV-5), and its servers.

#![allow(clippy::unwrap_used)] // helpers are not seen as tests

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Output, Stdio};
use std::sync::LazyLock;

use serde_json::Value;

/// Credential of the demo at its cloud.
const SECRET: &str = "demo-token";
const SECRET_IN_BASE64: &str = "ZGVtby10b2tlb";

/// Two runs that all tests here read. A demo mostly waits, so the runs are concurrent.
static TOLD: LazyLock<Told> = LazyLock::new(|| {
    let programs = start(&["--nodes", "7", "--services", "4", "--output", "json"]);
    let people = start(&["--nodes", "5", "-vvv"]);
    // Both outputs are read while the demos run, so that neither blocks on a full pipe.
    let told =
        [programs, people].map(|demo| std::thread::spawn(|| demo.wait_with_output().unwrap()));
    let [programs, people] = told.map(|output| output.join().unwrap());
    Told { programs, people }
});

struct Told {
    /// Output of a run with 7 Nodes and 4 Services, as JSON.
    programs: Output,
    /// Output of the smallest scenario, as text, with the log at the highest verbosity.
    people: Output,
}

fn start(arguments: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cloud-controller-manager"));
    command
        .arg("demo")
        .args(arguments)
        .env_remove("NO_COLOR")
        .env("TERM", "xterm-256color");
    command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Returns standard output and standard error of a successful run.
fn streams(output: &Output) -> (&str, &str) {
    let text = |bytes| str::from_utf8(bytes).unwrap();
    let scenario = text(&output.stdout);
    let log = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{scenario}{log}");
    (scenario, log)
}

/// Returns the steps and the summary of the JSON output.
fn steps_and_summary() -> (Vec<Value>, Value) {
    let (scenario, _) = streams(&TOLD.programs);
    let mut lines: Vec<Value> = scenario
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let summary = lines.pop().unwrap()["summary"].clone();
    (lines, summary)
}

fn step<'a>(steps: &'a [Value], name: &str) -> &'a Value {
    steps
        .iter()
        .find(|step| step["step"] == name)
        .unwrap_or_else(|| panic!("no step {name}"))
}

#[test]
fn the_demo_for_programs_is_one_object_for_each_step_and_a_summary() {
    let (steps, summary) = steps_and_summary();
    assert!(steps.len() > 20, "the whole scenario: {steps:?}");
    assert!(steps.iter().all(|step| step["ok"] == true), "{steps:?}");
    assert_eq!(
        (&summary["ok"], &summary["nodes"], &summary["services"]),
        (&true.into(), &7.into(), &4.into())
    );
    assert_eq!(summary["steps"].as_array().unwrap().len(), steps.len());
    assert!(
        summary["writesPerNode"].as_f64().unwrap() <= 2.0,
        "{summary}"
    );
    assert!(summary["cloud"]["GET /v1/machines"].as_u64().unwrap() > 0);
    assert_eq!(
        streams(&TOLD.programs).1,
        "",
        "nothing is logged without -v"
    );
}

#[test]
fn services_routes_and_crashes_are_part_of_the_story_and_of_the_figures() {
    let (steps, summary) = steps_and_summary();
    for name in [
        "routes", "expose", "flap", "port", "flip", "flop", "delete", "lose", "adopt", "crash",
        "restart",
    ] {
        assert_eq!(step(&steps, name)["ok"], true);
    }
    let seen = |name| step(&steps, name)["seen"].to_string();
    assert!(
        seen("expose").contains("of web-1: ") && seen("expose").contains(", 80/TCP → 3"),
        "{steps:?}"
    );
    assert!(
        seen("port").contains(", 8080/TCP → 3") && seen("delete").contains("gone: lb-"),
        "{steps:?}"
    );
    assert!(
        format!("{}{}", seen("initialise"), seen("routes")).contains("route 10.128."),
        "{steps:?}"
    );
    let costs = summary["steps"].as_array().unwrap();
    let steady = step(costs, "steady");
    let written = ["cloudChanges", "nodeWrites", "serviceWrites", "eventWrites"]
        .map(|figure| &steady[figure]);
    assert_eq!(
        written,
        [&Value::from(0); 4],
        "in the steady state nobody is written to"
    );
    let figure = |step: &str, figure: &str| {
        let cost = summary["perService"]
            .as_array()
            .unwrap()
            .iter()
            .find(|cost| cost["step"] == step)
            .unwrap();
        cost[figure].as_f64().unwrap()
    };
    assert!(figure("expose", "cloudChanges") <= 1.0, "{summary}");
    assert!(
        figure("expose", "serviceWrites") <= 3.0 && figure("expose", "eventWrites") <= 2.0,
        "{summary}"
    );
    assert!(figure("delete", "serviceWrites") <= 2.0, "{summary}");
}

#[test]
fn the_demo_for_people_is_plain_where_there_is_no_terminal() {
    let (text, _) = streams(&TOLD.people);
    assert!(!text.contains('\x1b') && !text.contains('\r'), "{text:?}");
    for word in [
        "ok     the machine of worker-3 is terminated",
        "NodeDeletionHeld",
        "Requests to Kubernetes",
        "MiB resident",
    ] {
        assert!(text.contains(word), "{word:?} is missing in:\n{text}");
    }
}

/// Returns `true` for a klog record: `Lmmdd hh:mm:ss.uuuuuu <pid> file:line] …`.
fn is_record(line: &str) -> bool {
    let Some((header, _)) = line.split_once("] ") else {
        return false;
    };
    let words: Vec<&str> = header.split_whitespace().collect();
    let [severity, time, pid, caller] = words[..] else {
        return false;
    };
    let shape = |text: &str| {
        text.chars()
            .map(|c| if c.is_ascii_digit() { '0' } else { c })
            .collect::<String>()
    };
    let severity_fits = matches!(
        shape(severity).as_str(),
        "I0000" | "W0000" | "E0000" | "F0000"
    );
    let caller_fits = caller
        .rsplit_once(':')
        .is_some_and(|(file, line)| file.ends_with(".rs") && line.parse::<u32>().is_ok());
    severity_fits && shape(time) == "00:00:00.000000" && pid.parse::<u32>().is_ok() && caller_fits
}

#[test]
fn the_demos_story_and_its_log_hold_no_secret_and_the_log_has_klogs_layout() {
    let (scenario, log) = streams(&TOLD.people);
    for (name, text) in [("scenario", scenario), ("log", log)] {
        let told: Vec<&str> = text
            .lines()
            .filter(|line| line.contains(SECRET) || line.contains(SECRET_IN_BASE64))
            .collect();
        assert!(
            told.is_empty(),
            "a secret in the {name}:\n{}",
            told.join("\n")
        );
    }
    let mut records = 0;
    let mut others = Vec::new();
    for line in log.lines() {
        match line.starts_with(['\t', ' ']) {
            // A value of several lines.
            true => {}
            false if is_record(line) => records += 1,
            false => others.push(line),
        }
    }
    assert!(records > 50, "{log}");
    assert!(others.is_empty(), "no records:\n{}", others.join("\n"));
    assert!(
        log.contains(r#" node=""#) && !log.contains('\u{1b}'),
        "fields, and no colours"
    );
}

#[test]
fn a_demo_that_serves_prints_where_until_it_is_stopped() {
    let mut demo = start(&["--serve", "--output", "json"]);
    let lines = BufReader::new(demo.stdout.take().unwrap())
        .lines()
        .map(Result::unwrap);
    let objects = lines.map(|line| serde_json::from_str::<Value>(&line).unwrap());
    let places = objects
        .map(|object| object["serve"].clone())
        .find(|serve| !serve.is_null())
        .unwrap();
    let kubeconfig = std::path::PathBuf::from(places["kubeconfig"].as_str().unwrap());
    assert!(
        std::fs::read_to_string(&kubeconfig)
            .unwrap()
            .contains(places["kubernetes"].as_str().unwrap())
    );
    let address = places["cloud"]
        .as_str()
        .unwrap()
        .strip_prefix("http://")
        .unwrap();
    std::net::TcpStream::connect(address).unwrap();
    // The demo leads: `explain` and `doctor` find its Lease.
    let report = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cloud-controller-manager"));
        command
            .args(words)
            .args(["--cloud-provider=simulated", "--output=json"]);
        for (flag, key) in [
            ("--kubeconfig", "kubeconfig"),
            ("--cloud-config", "cloudConfig"),
            ("--cluster-cidr", "clusterCIDR"),
        ] {
            command.arg(format!("{flag}={}", places[key].as_str().unwrap()));
        }
        serde_json::from_slice::<Value>(&command.output().unwrap().stdout).unwrap()
    };
    let explained = report(&["explain", "node", "worker-1"]);
    assert!(explained["leader"]["holder"].is_string(), "{explained}");
    let states: Vec<_> = explained["causes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cause| &cause["state"])
        .collect();
    assert!(!states.contains(&&"NobodyLeads".into()), "{explained}");
    assert_eq!(
        explained["lastErrors"].as_array().map(Vec::len),
        Some(0),
        "the hold was averted: {explained}"
    );
    let findings = report(&["doctor"])["findings"].clone();
    let lease = findings
        .as_array()
        .unwrap()
        .iter()
        .find(|finding| finding["check"] == "lease")
        .unwrap();
    assert_eq!(lease["severity"], "ok", "{lease}");
    let stopped = Command::new("kill")
        .args(["-INT", &demo.id().to_string()])
        .status()
        .unwrap();
    assert!(stopped.success());
    assert_eq!(demo.wait().unwrap().code(), Some(0));
    assert!(!kubeconfig.exists(), "the temporary directory is left");
}

/// Starts a demo without controllers that writes its kubeconfig to `path`, and returns it with the addresses that it
/// prints.
fn without_controllers(path: &std::path::Path) -> (Child, Value, impl Iterator<Item = Value>) {
    let mut demo = start(&[
        "--no-controllers",
        "--output",
        "json",
        "--kubeconfig",
        path.to_str().unwrap(),
    ]);
    let lines = BufReader::new(demo.stdout.take().unwrap())
        .lines()
        .map(Result::unwrap);
    let mut objects = lines.map(|line| serde_json::from_str::<Value>(&line).unwrap());
    let places = objects.next().unwrap()["serve"].clone();
    (demo, places, objects)
}

fn kill(demo: &Child, signal: &str) {
    assert!(
        Command::new("kill")
            .args([signal, &demo.id().to_string()])
            .status()
            .unwrap()
            .success()
    );
}

#[test]
fn demo_without_controllers_serves_a_manager_of_ones_own_and_removes_its_files_on_sighup() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("config");
    let (mut demo, places, objects) = without_controllers(&path);
    assert_eq!(places["kubeconfig"], path.to_str().unwrap());
    let config = std::path::PathBuf::from(places["cloudConfig"].as_str().unwrap());
    let mut manager = Command::new(env!("CARGO_BIN_EXE_cloud-controller-manager"));
    let flags = [
        "--cloud-provider=simulated",
        "--secure-port=0",
        "--leader-elect=false",
        "--configure-cloud-routes=false",
    ];
    manager
        .args(flags)
        .arg(format!("--cloud-config={}", config.display()))
        .arg(format!("--kubeconfig={}", path.display()));
    let mut manager = manager
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut events = objects.map(|object| object["event"].clone());
    let ensured = events
        .find(|event| event["reason"] == "EnsuredLoadBalancer")
        .expect("an event in the feed");
    assert!(
        ensured["name"].as_str().unwrap().starts_with("web-"),
        "{ensured}"
    );
    kill(&manager, "-TERM");
    manager.wait().unwrap();
    kill(&demo, "-HUP");
    demo.wait().unwrap();
    assert!(!path.exists() && !config.exists(), "nothing is left behind");
}
