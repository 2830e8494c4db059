//! The demo's story of Services, routes and a crash, as a program reads it.

#![allow(clippy::unwrap_used)] // helpers are not seen as tests

use std::process::Command;

use serde_json::Value;

/// The steps and the summary of a run.
fn told(arguments: &[&str]) -> (Vec<Value>, Value) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cloud-controller-manager"));
    let output = command.args(["demo", "--output", "json"]).args(arguments).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let mut lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let summary = lines.pop().unwrap()["summary"].clone();
    (lines, summary)
}

fn step<'a>(steps: &'a [Value], name: &str) -> &'a Value {
    steps.iter().find(|step| step["step"] == name).unwrap_or_else(|| panic!("no step {name}"))
}

#[test]
fn services_routes_and_crashes_are_part_of_the_story_and_of_the_figures() {
    let (steps, summary) = told(&["--nodes", "7", "--services", "4"]);
    for name in ["routes", "expose", "flap", "port", "flip", "flop", "delete", "lose", "adopt", "crash", "restart"] {
        assert_eq!(step(&steps, name)["ok"], true);
    }
    let seen = |name| step(&steps, name)["seen"].to_string();
    assert!(seen("expose").contains("of web-1: ") && seen("expose").contains(", 80/TCP → 3"), "{steps:?}");
    assert!(seen("port").contains(", 8080/TCP → 3") && seen("delete").contains("gone: lb-"), "{steps:?}");
    assert!(format!("{}{}", seen("initialise"), seen("routes")).contains("route 10.128."), "{steps:?}");
    assert_eq!((&summary["nodes"], &summary["services"]), (&7.into(), &4.into()));
    let costs = summary["steps"].as_array().unwrap();
    let steady = step(costs, "steady");
    let written = ["cloudChanges", "nodeWrites", "serviceWrites", "eventWrites"].map(|figure| &steady[figure]);
    assert_eq!(written, [&Value::from(0); 4], "in the steady state nobody is written to");
    let figure = |step: &str, figure: &str| {
        let cost = summary["perService"].as_array().unwrap().iter().find(|cost| cost["step"] == step).unwrap();
        cost[figure].as_f64().unwrap()
    };
    assert!(figure("expose", "cloudChanges") <= 1.0, "{summary}");
    assert!(figure("expose", "serviceWrites") <= 3.0 && figure("expose", "eventWrites") <= 2.0, "{summary}");
    assert!(figure("delete", "serviceWrites") <= 2.0, "{summary}");
    assert!(summary["writesPerNode"].as_f64().unwrap() <= 2.0, "{summary}");
}
