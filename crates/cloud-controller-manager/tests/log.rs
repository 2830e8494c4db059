//! What the program writes on standard error while it works: klog's layout, and nothing that is secret (INV-5).

#![allow(clippy::unwrap_used)] // helpers are not seen as tests

use std::process::Command;

/// The demo's credential at its cloud.
const SECRET: &str = "demo-token";
const SECRET_IN_BASE64: &str = "ZGVtby10b2tlb";

/// Both streams of a run.
fn told(arguments: &[&str]) -> (String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cloud-controller-manager"));
    let output = command.args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let told = (text(output.stdout), text(output.stderr));
    assert_eq!(output.status.code(), Some(0), "{}{}", told.0, told.1);
    told
}

/// `Lmmdd hh:mm:ss.uuuuuu <pid> file:line] …`
fn is_record(line: &str) -> bool {
    let Some((header, _)) = line.split_once("] ") else { return false };
    let words: Vec<&str> = header.split_whitespace().collect();
    let [severity, time, pid, caller] = words[..] else { return false };
    let shape = |text: &str| text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect::<String>();
    let severity_fits = matches!(shape(severity).as_str(), "I0000" | "W0000" | "E0000" | "F0000");
    let caller_fits =
        caller.rsplit_once(':').is_some_and(|(file, line)| file.ends_with(".rs") && line.parse::<u32>().is_ok());
    severity_fits && shape(time) == "00:00:00.000000" && pid.parse::<u32>().is_ok() && caller_fits
}

#[test]
fn the_demos_story_and_its_log_hold_no_secret_and_the_log_has_klogs_layout() {
    let (story, log) = told(&["demo", "-vvv"]);
    for (name, text) in [("story", &story), ("log", &log)] {
        let told: Vec<&str> =
            text.lines().filter(|line| line.contains(SECRET) || line.contains(SECRET_IN_BASE64)).collect();
        assert!(told.is_empty(), "a secret in the {name}:\n{}", told.join("\n"));
    }
    let (mut records, mut others) = (0, Vec::new());
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
    assert!(log.contains(r#" node=""#) && !log.contains('\u{1b}'), "fields, and no colours");
}
