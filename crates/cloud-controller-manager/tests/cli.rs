//! The binary as a user runs it.

#![allow(clippy::unwrap_used)] // helpers are not seen as tests

use std::process::{Command, Output};

use serde_json::Value;

fn run(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cloud-controller-manager"));
    command.args(arguments).env_remove("NO_COLOR").env("TERM", "xterm-256color").envs(environment.iter().copied());
    command.output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn help_names_the_flags_and_the_subcommands() {
    let help = run(&["--help"], &[]);
    assert!(help.status.success());
    for word in
        ["--cloud-provider", "--node-deletion-guard", "--cluster-cidr", "Service-lb-controller:", "plan", "demo"]
    {
        assert!(stdout(&help).contains(word), "{word} is missing in:\n{}", stdout(&help));
    }
    let help = run(&["plan", "--help"], &[]);
    assert!(help.status.success());
    for word in ["changes nothing", "--cloud-provider", "--output", "Exit code: 0 nothing to do"] {
        assert!(stdout(&help).contains(word), "{word} is missing in:\n{}", stdout(&help));
    }
    let help = run(&["demo", "--help"], &[]);
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
        let version = run(arguments, &[]);
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
        (&["plan", "--cloud-provider=nowhere"], "unknown cloud provider \"nowhere\"; this binary has: "),
        (&["plan", "--nods"], "did you mean"),
        (&["demo", "--nods", "9"], "did you mean --nodes?"),
        (&["demo", "--nodes", "3"], "the story needs at least 5"),
    ];
    for (arguments, expected) in table {
        let wrong = run(arguments, &[]);
        assert_eq!(wrong.status.code(), Some(1), "{arguments:?}");
        assert!(stderr(&wrong).starts_with("Error: "), "{}", stderr(&wrong));
        assert!(stderr(&wrong).contains(expected), "{arguments:?}: {}", stderr(&wrong));
        assert_eq!(stdout(&wrong), "");
    }
}

#[test]
fn a_historic_flag_is_accepted_with_one_line_on_standard_error() {
    let start =
        |flag: &str| run(&["--cloud-provider=simulated", "--kubeconfig=/nowhere", "--secure-port=0", flag], &[]);
    let lines = stderr(&start("--logtostderr=true"));
    assert_eq!(lines.matches("Flag --logtostderr has been deprecated, ").count(), 1, "{lines}");
    assert!(!stderr(&start("--profiling")).contains("deprecated"), "{lines}");
}

#[test]
fn a_port_that_is_taken_ends_the_demo_with_the_flag_that_helps() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let output = run(&["demo", "--port", &port], &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("choose another port with --port"), "{}", stderr(&output));
}

#[test]
fn the_demo_for_programs_is_one_object_for_each_step_and_a_summary() {
    let output = run(&["demo", "--nodes", "5", "--output", "json"], &[]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{text}{}", stderr(&output));
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (summary, steps) = lines.split_last().unwrap();
    assert!(steps.len() > 20, "the whole story: {text}");
    assert!(steps.iter().all(|step| step["ok"] == true), "{text}");
    let summary = &summary["summary"];
    assert_eq!((&summary["ok"], &summary["nodes"]), (&true.into(), &5.into()));
    assert_eq!(summary["steps"].as_array().unwrap().len(), steps.len());
    assert!(summary["writesPerNode"].as_f64().unwrap() <= 2.0, "{summary}");
    assert!(summary["cloud"]["GET /v1/machines"].as_u64().unwrap() > 0);
    assert_eq!(stderr(&output), "", "nothing is logged without -v");
}

#[test]
fn the_demo_for_people_is_plain_where_there_is_no_terminal_or_no_color() {
    let output = run(&["demo", "--nodes", "6"], &[("NO_COLOR", "1")]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{text}{}", stderr(&output));
    assert!(!text.contains('\x1b') && !text.contains('\r'), "{text:?}");
    for word in
        ["ok     the machine of worker-3 is terminated", "NodeDeletionHeld", "Requests to Kubernetes", "MiB resident"]
    {
        assert!(text.contains(word), "{word:?} is missing in:\n{text}");
    }
}

#[test]
fn a_demo_that_serves_prints_where_until_it_is_stopped() {
    use std::io::{BufRead as _, BufReader};
    use std::process::Stdio;

    let mut command = Command::new(env!("CARGO_BIN_EXE_cloud-controller-manager"));
    let mut demo = command.args(["demo", "--serve", "--output", "json"]).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(demo.stdout.take().unwrap()).lines().map(Result::unwrap);
    let objects = lines.map(|line| serde_json::from_str::<Value>(&line).unwrap());
    let places = objects.map(|object| object["serve"].clone()).find(|serve| !serve.is_null()).unwrap();
    let kubeconfig = std::path::PathBuf::from(places["kubeconfig"].as_str().unwrap());
    assert!(std::fs::read_to_string(&kubeconfig).unwrap().contains(places["kubernetes"].as_str().unwrap()));
    let address = places["cloud"].as_str().unwrap().strip_prefix("http://").unwrap();
    std::net::TcpStream::connect(address).unwrap();
    let stopped = Command::new("kill").args(["-INT", &demo.id().to_string()]).status().unwrap();
    assert!(stopped.success());
    assert_eq!(demo.wait().unwrap().code(), Some(0));
    assert!(!kubeconfig.exists(), "the temporary directory is left");
}
