//! Comparison with the flags and the feature gates of a Go program, which `tests/go-manager/record` writes down.

use super::rows::{declared, default};
use crate::flags::reference::REFERENCE_DEFAULTS;
use crate::flags::{FeatureGates, GATES, Stage};

/// Returns the lines of a kind, without the kind, split at tabs.
fn recorded(kind: &str) -> Vec<Vec<String>> {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/go-manager/flags.txt"
    );
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text
        .lines()
        .map(|line| line.split('\t').map(str::to_owned).collect::<Vec<_>>());
    lines
        .filter(|fields| fields[0] == kind)
        .map(|fields| fields[1..].to_vec())
        .collect()
}

/// Returns a default as our declarations write it: lists without brackets, and no value for an empty list.
fn normalized<'a>(kind: &str, default: &'a str) -> &'a str {
    match kind {
        "stringSlice" | "int32Slice" | "namedCertKey" => default.trim_matches(['[', ']']),
        _ => default,
    }
}

#[test]
fn recorded_minor_version_is_the_newest_that_is_supported() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/go-manager/flags.txt"
    );
    let text = std::fs::read_to_string(path).unwrap();
    let framework = format!(
        "k8s.io/cloud-provider v0.{}.",
        runtime::kubernetes::NEWEST.1
    );
    assert!(
        text.lines().next().unwrap().contains(&framework),
        "{framework}"
    );
}

#[test]
fn each_flag_of_the_go_program_has_its_section_and_its_default() {
    let command = declared();
    let flags = recorded("flag");
    assert!(flags.len() > 80, "{}", flags.len());
    for flag in &flags {
        let [name, section, kind, theirs, shown] = &flag[..] else {
            panic!("{flag:?}")
        };
        let ours = command
            .get_arguments()
            .find(|ours| ours.get_long() == Some(name));
        let ours = ours.unwrap_or_else(|| panic!("--{name} of the Go program is unknown"));
        assert_eq!(
            ours.is_hide_set(),
            !shown.is_empty(),
            "--{name} is {shown:?} in the Go program"
        );
        let heading = ours.get_help_heading().unwrap_or_default().to_lowercase();
        assert!(
            ours.is_hide_set() || heading == *section,
            "--{name} is in the section {heading:?}, not {section:?}"
        );
        let theirs = normalized(kind, theirs);
        match REFERENCE_DEFAULTS
            .into_iter()
            .find(|(differs, _)| differs == name)
        {
            Some((_, listed)) => assert_eq!(listed, theirs, "--{name}, listed as a difference"),
            // The help is no value that a program reads.
            None => assert!(
                default(ours) == theirs || name == "help",
                "--{name}: {:?}, not {theirs:?}",
                default(ours)
            ),
        }
    }
    for (name, _) in REFERENCE_DEFAULTS {
        assert!(
            flags.iter().any(|flag| flag[0] == name),
            "--{name} is no flag of the Go program"
        );
    }
}

#[test]
fn each_gate_of_the_go_program_is_accepted_and_has_its_stage_and_its_default() {
    let gates = recorded("gate");
    assert!(gates.len() > 40, "{}", gates.len());
    for gate in &gates {
        let [name, stage, default, _] = &gate[..] else {
            panic!("{gate:?}")
        };
        let parsed = format!("{name}={default}").parse::<FeatureGates>();
        assert!(parsed.is_ok(), "{parsed:?}");
        let Some(ours) = GATES.into_iter().find(|ours| ours.name == name) else {
            continue;
        };
        let ours_stage = match ours.stage {
            Stage::Alpha => "ALPHA",
            Stage::Beta => "BETA",
            // The Go program gives the gate of a stage that stage.
            Stage::Bulk => stage,
        };
        assert_eq!(
            (ours_stage, ours.default.to_string()),
            (&**stage, default.clone()),
            "{name}"
        );
    }
}
