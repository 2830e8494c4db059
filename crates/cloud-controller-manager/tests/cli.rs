//! Tests of the command line of the binary.
//!
//! Rules: APP-1, FLAG-9, FLAG-11, FLAG-13, FLAG-29, P-36, P-41.

#![allow(clippy::unwrap_used)] // helpers are not seen as tests

use std::process::{Command, Output, Stdio};

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cloud-controller-manager"))
        .args(arguments)
        .output()
        .unwrap()
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
    for word in [
        "--cloud-provider",
        "--node-deletion-guard",
        "--cluster-cidr",
        "Service-lb-controller:",
        "plan",
        "demo",
    ] {
        assert!(
            stdout(&help).contains(word),
            "{word} is missing in:\n{}",
            stdout(&help)
        );
    }
    let help = run(&["plan", "--help"]);
    assert!(help.status.success());
    for word in [
        "read-only",
        "--cloud-provider",
        "--output",
        "Exit code: 0 nothing to do",
    ] {
        assert!(
            stdout(&help).contains(word),
            "{word} is missing in:\n{}",
            stdout(&help)
        );
    }
    let help = run(&["demo", "--help"]);
    assert!(help.status.success());
    for word in ["--nodes", "--serve", "--output", "--cloud-port", "NO_COLOR"] {
        assert!(
            stdout(&help).contains(word),
            "{word} is missing in:\n{}",
            stdout(&help)
        );
    }
}

#[test]
fn version_is_that_of_kubernetes_and_of_the_product() {
    let product = concat!("ccm-rs v", env!("CARGO_PKG_VERSION"), " (commit ");
    let table = [
        (&["--version"][..], "Kubernetes v1."),
        (&["--version"], product),
        (&["plan", "--version"], product),
        (&["version"], product),
        (&["--version=raw"], "\"ccm-rs\""),
        (&["demo", "--version"], env!("CARGO_PKG_VERSION")),
    ];
    for (arguments, expected) in table {
        let version = run(arguments);
        assert!(version.status.success());
        assert!(
            stdout(&version).contains(expected),
            "{arguments:?}: {}",
            stdout(&version)
        );
    }
}

#[test]
fn completions_offer_the_flags_of_the_demo() {
    for shell in ["bash", "zsh", "fish"] {
        let script = stdout(&run(&["completion", shell]));
        for flag in ["no-controllers", "cloud-port", "services"] {
            assert!(script.contains(flag), "{shell}: {flag}");
        }
    }
}

#[test]
fn an_unknown_flag_fails_with_a_suggestion() {
    let table = [
        (
            &["--cloud-provder=simulated"][..],
            "did you mean --cloud-provider?",
        ),
        (
            &["--controllers=*,servce"],
            "\"servce\" is not in the list of known controllers",
        ),
        (
            &["--cloud-provider=x", "--feature-gates=Foo=true"],
            "unrecognized feature gate: Foo",
        ),
        (&["plan"], "--cloud-provider cannot be empty"),
        (&["orphans"], "--cloud-provider cannot be empty"),
        (
            &["plan", "--cloud-provider=nowhere"],
            "unknown cloud provider \"nowhere\"; this binary has: ",
        ),
        (&["plan", "--nods"], "did you mean"),
        (&["demo", "--nods", "9"], "did you mean --nodes?"),
        (&["demo", "--nodes", "3"], "the demo needs at least 5 Nodes"),
    ];
    for (arguments, expected) in table {
        let wrong = run(arguments);
        assert_eq!(wrong.status.code(), Some(1), "{arguments:?}");
        assert!(stderr(&wrong).starts_with("Error: "), "{}", stderr(&wrong));
        assert!(
            stderr(&wrong).contains(expected),
            "{arguments:?}: {}",
            stderr(&wrong)
        );
        assert_eq!(stdout(&wrong), "");
    }
}

#[test]
fn plan_that_fails_prints_an_object_with_the_error_to_programs() {
    for arguments in [
        &["--cloud-provider=nowhere"][..],
        &["--cloud-provider=hcloud", "--kubeconfig=/nowhere"],
    ] {
        let failed = run(&[&["plan", "--output=json"], arguments].concat());
        assert_eq!(failed.status.code(), Some(1), "{}", stderr(&failed));
        let report: serde_json::Value = serde_json::from_str(&stdout(&failed)).unwrap();
        let error = report["errors"][0].as_str().unwrap();
        assert!(
            error.contains("nowhere") || error.contains("HCLOUD_TOKEN"),
            "{error}"
        );
        assert_eq!(
            (&report["version"], &report["summary"]["exitCode"]),
            (&1.into(), &1.into()),
            "{report}"
        );
    }
}

/// Runs the program with standard output and standard error in these files.
fn run_into(arguments: &[&str], stdout: &str, stderr: Stdio) -> Output {
    let open = std::fs::File::options().write(true).open(stdout).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_cloud-controller-manager"));
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(open)
        .stderr(stderr)
        .output()
        .unwrap()
}

/// Subcommands that fail before they reach a cluster print their report to standard output, too.
const NOWHERE: [&str; 3] = [
    "--cloud-provider=simulated",
    "--kubeconfig=/nowhere",
    "--output=json",
];

#[test]
fn output_that_cannot_be_written_is_one_error() {
    let report = |words: &[&'static str]| [words, &NOWHERE].concat();
    let table = [
        vec!["--help"],
        vec!["--version"],
        vec!["version"],
        vec!["plan", "--help"],
        vec!["help"],
        vec!["completion", "bash"],
        vec!["demo", "--help"],
        vec!["demo"],
        vec!["demo", "--no-controllers"],
        vec!["man"],
        vec!["check", "--cloud-provider=simulated", "-f", "/dev/null"],
        vec![
            "doctor",
            "--cloud-provider=simulated",
            "--kubeconfig=/nowhere",
        ],
        report(&["plan"]),
        report(&["doctor"]),
        report(&["orphans"]),
        report(&["explain", "node", "worker-1"]),
    ];
    for arguments in table {
        let output = run_into(&arguments, "/dev/full", Stdio::piped());
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        let complaint = stderr(&output);
        let is_one = complaint.matches("Error: ").count() == 1;
        assert!(
            is_one && complaint.contains("Error: cannot write to standard output: "),
            "{arguments:?}: {complaint}"
        );
    }
}

#[test]
fn error_message_that_cannot_be_written_does_not_change_the_exit_code() {
    for arguments in [&["--cloud-provder=x"][..], &["plan"], &["demo", "--nods"]] {
        let full = std::fs::File::options()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let output = run_into(arguments, "/dev/null", full.into());
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    }
}

#[test]
fn a_historic_flag_is_accepted_with_one_line_on_standard_error() {
    let start = |flag: &str| {
        run(&[
            "--cloud-provider=simulated",
            "--kubeconfig=/nowhere",
            "--secure-port=0",
            flag,
        ])
    };
    let lines = stderr(&start("--logtostderr=true"));
    assert_eq!(
        lines
            .matches("Flag --logtostderr has been deprecated, ")
            .count(),
        1,
        "{lines}"
    );
    assert!(
        !stderr(&start("--profiling")).contains("deprecated"),
        "{lines}"
    );
}

#[test]
fn a_port_that_is_taken_ends_the_demo_with_the_flag_that_helps() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let output = run(&["demo", "--port", &port]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("choose another port with --port"),
        "{}",
        stderr(&output)
    );
}

/// Programs of the README that are not built here.
const OTHERS: [&str; 3] = ["cargo", "helm", "ln"];

#[test]
fn commands_of_the_readme_exist_after_its_build() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let page = std::fs::read_to_string(path).unwrap();
    let words = page.lines().filter_map(|line| line.strip_prefix("    "));
    let programs =
        words.filter_map(|line| line.split_whitespace().find(|word| !word.contains('=')));
    let built = env!("CARGO_PKG_NAME");
    let unknown: Vec<_> = programs
        .filter(|word| *word != built && !OTHERS.contains(word))
        .collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}
