//! Tests of the command line of the binary.
//!
//! Rules: APP-1, FLAG-9, FLAG-11, FLAG-13, FLAG-29, P-36, P-41.

#![allow(clippy::unwrap_used)] // helpers are not seen as tests

use std::process::{Command, Output};

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cloud-controller-manager")).args(arguments).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn help_names_the_flags_and_the_subcommands() {
    let help = run(&["--help"]);
    assert!(help.status.success());
    for word in
        ["--cloud-provider", "--node-deletion-guard", "--cluster-cidr", "Service-lb-controller:", "plan", "demo"]
    {
        assert!(stdout(&help).contains(word), "{word} is missing in:\n{}", stdout(&help));
    }
    let help = run(&["plan", "--help"]);
    assert!(help.status.success());
    for word in ["read-only", "--cloud-provider", "--output", "Exit code: 0 nothing to do"] {
        assert!(stdout(&help).contains(word), "{word} is missing in:\n{}", stdout(&help));
    }
    let help = run(&["demo", "--help"]);
    assert!(help.status.success());
    for word in ["--nodes", "--serve", "--output", "--cloud-port", "NO_COLOR"] {
        assert!(stdout(&help).contains(word), "{word} is missing in:\n{}", stdout(&help));
    }
}

#[test]
fn version_is_that_of_kubernetes_and_raw_names_the_workspaces() {
    let table = [
        (&["--version"][..], "Kubernetes v1."),
        (&["plan", "--version"], "Kubernetes v1."),
        (&["--version=raw"], env!("CARGO_PKG_VERSION")),
        (&["demo", "--version"], env!("CARGO_PKG_VERSION")),
    ];
    for (arguments, expected) in table {
        let version = run(arguments);
        assert!(version.status.success());
        assert!(stdout(&version).contains(expected), "{}", stdout(&version));
    }
}

#[test]
fn an_unknown_flag_fails_with_a_suggestion() {
    let table = [
        (&["--cloud-provder=simulated"][..], "did you mean --cloud-provider?"),
        (&["--controllers=*,servce"], "\"servce\" is not in the list of known controllers"),
        (&["--cloud-provider=x", "--feature-gates=Foo=true"], "unrecognized feature gate: Foo"),
        (&["plan"], "--cloud-provider cannot be empty"),
        (&["orphans"], "--cloud-provider cannot be empty"),
        (&["plan", "--cloud-provider=nowhere"], "unknown cloud provider \"nowhere\"; this binary has: "),
        (&["plan", "--nods"], "did you mean"),
        (&["demo", "--nods", "9"], "did you mean --nodes?"),
        (&["demo", "--nodes", "3"], "the demo needs at least 5 Nodes"),
    ];
    for (arguments, expected) in table {
        let wrong = run(arguments);
        assert_eq!(wrong.status.code(), Some(1), "{arguments:?}");
        assert!(stderr(&wrong).starts_with("Error: "), "{}", stderr(&wrong));
        assert!(stderr(&wrong).contains(expected), "{arguments:?}: {}", stderr(&wrong));
        assert_eq!(stdout(&wrong), "");
    }
}

#[test]
fn plan_that_fails_prints_an_object_with_the_error_to_programs() {
    for arguments in [&["--cloud-provider=nowhere"][..], &["--cloud-provider=hcloud", "--kubeconfig=/nowhere"]] {
        let failed = run(&[&["plan", "--output=json"], arguments].concat());
        assert_eq!(failed.status.code(), Some(1), "{}", stderr(&failed));
        let report: serde_json::Value = serde_json::from_str(&stdout(&failed)).unwrap();
        let error = report["errors"][0].as_str().unwrap();
        assert!(error.contains("nowhere") || error.contains("HCLOUD_TOKEN"), "{error}");
        assert_eq!((&report["version"], &report["summary"]["exitCode"]), (&1.into(), &1.into()), "{report}");
    }
}

#[test]
fn help_that_cannot_be_written_is_an_error() {
    for arguments in [&["--help"][..], &["plan", "--help"], &["help"], &["demo", "--help"], &["man"]] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_cloud-controller-manager")).args(arguments).stdout(full).output();
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        let complaint = stderr(&output);
        assert!(
            complaint.starts_with("Error: cannot write to standard output: ") && complaint.lines().count() == 1,
            "{complaint}"
        );
    }
}

#[test]
fn a_historic_flag_is_accepted_with_one_line_on_standard_error() {
    let start = |flag: &str| run(&["--cloud-provider=simulated", "--kubeconfig=/nowhere", "--secure-port=0", flag]);
    let lines = stderr(&start("--logtostderr=true"));
    assert_eq!(lines.matches("Flag --logtostderr has been deprecated, ").count(), 1, "{lines}");
    assert!(!stderr(&start("--profiling")).contains("deprecated"), "{lines}");
}

#[test]
fn a_port_that_is_taken_ends_the_demo_with_the_flag_that_helps() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let output = run(&["demo", "--port", &port]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("choose another port with --port"), "{}", stderr(&output));
}
