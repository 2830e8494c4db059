//! The case runner itself: what must fail does fail, and names the file, the case and the field.

// The helpers of these tests too may fail a test by a panic.
#![allow(clippy::unwrap_used)]

#[path = "cases/mod.rs"]
mod cases;

use std::path::{Path, PathBuf};

use cases::arguments::Arguments;
use cases::files::Sources;

/// Cases that pass and use what `tests/cases` does not.
const PASSING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases/samples/passing");

fn run(arguments: &[&str], sources: &Sources) -> (bool, String) {
    let arguments = Arguments::parse(arguments.iter().map(ToString::to_string)).unwrap();
    let mut out = Vec::new();
    let well = cases::run(&arguments, sources, &mut out).unwrap();
    (well, String::from_utf8(out).unwrap())
}

fn only(directory: impl Into<PathBuf>) -> Sources {
    Sources {
        own: None,
        extra: vec![directory.into()],
    }
}

/// Creates a directory with this one file in it.
fn directory(test: &str, text: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("cases_runner")
        .join(test);
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("file.yaml"), text).unwrap();
    directory
}

/// Returns a case of suite `node-address-change` that passes, as YAML.
fn change(id: &str, given: &str, expect: &str) -> String {
    format!(
        "- {{id: {id}, rules: [], class: normative, title: t, given: {given}, expect: {expect}}}\n"
    )
}

fn fails(test: &str, text: &str, says: &[&str]) {
    let (well, report) = run(&[], &only(directory(test, text)));
    assert!(!well, "{text}\n{report}");
    for part in says.iter().chain(&["file.yaml"]) {
        assert!(
            report.contains(part),
            "{part:?} is not said of\n{text}\n{report}"
        );
    }
    assert!(
        report
            .lines()
            .last()
            .is_some_and(|line| line.ends_with(" failed") && !line.ends_with(" 0 failed"))
    );
}

#[test]
fn all_cases_of_the_repository_pass() {
    let (well, report) = run(&[], &Sources::own_and(""));
    assert!(well, "{report}");
    assert!(
        report.contains("\nsuite lifecycle: 28 passed, 0 failed\n"),
        "{report}"
    );
    assert!(
        report.contains("\nsuite route-reconcile: 31 passed, 0 failed\n"),
        "{report}"
    );
    assert!(report.ends_with("\n610 passed, 0 failed\n"), "{report}");
}

#[test]
fn unusual_fields_work_too() {
    let (well, report) = run(&[], &only(PASSING));
    assert!(well, "{report}");
    assert!(
        report.contains("suite node-initialization: 10 passed, 0 failed"),
        "{report}"
    );
}

#[test]
fn further_directories_are_run_together_with_the_own() {
    let (well, report) = run(
        &["taints"],
        &Sources::own_and(&format!(":{PASSING}:tests/cases:")),
    );
    assert!(well, "{report}");
    assert_eq!(
        report, "suite taints: 36 passed, 0 failed\n36 passed, 0 failed\n",
        "16, 4 and 16"
    );
}

#[test]
fn an_unknown_field_is_named_wherever_it_is() {
    let lists = "{current: [], new: []}";
    let pass = change("A-1", lists, "{changed: false}");
    let suite = "suite: node-address-change\ncases:\n";
    fails("file", &format!("{suite}{pass}extra: 1\n"), &["`extra`"]);
    fails(
        "case",
        &format!("{suite}{}", pass.replace("title: t", "titel: t")),
        &["A-1", "`titel`"],
    );
    fails(
        "given",
        &format!(
            "{suite}{}",
            change("A-1", "{currant: []}", "{changed: false}")
        ),
        &["A-1", "given", "`currant`"],
    );
    fails(
        "expect",
        &format!("{suite}{}", change("A-1", lists, "{chanced: false}")),
        &["A-1", "expect", "`chanced`"],
    );
    fails(
        "address",
        &format!(
            "{suite}{}",
            change(
                "A-1",
                "{new: [{type: A, address: b, x: 1}]}",
                "{changed: true}"
            )
        ),
        &["A-1", "given.new[0]", "`x`"],
    );
    let node = "node: {metadata: {name: n}, status: {conditions: [{type: Ready, status: 'True'}]}}";
    for (test, given, says) in [
        (
            "provider",
            "provider: {instance_ids: {value: a}}",
            "`instance_ids`",
        ),
        ("answer", "provider: {instance_id: {value: a, x: 1}}", "`x`"),
        (
            "error",
            "provider: {instance_id: {error: {kind: Other, message: m, y: 1}}}",
            "`y`",
        ),
        (
            "kind",
            "provider: {instance_id: {error: {kind: Odd}}}",
            "`Odd`",
        ),
        (
            "metadata",
            "provider: {instance_metadata: {value: {zones: a}}}",
            "`zones`",
        ),
        (
            "zone",
            "provider: {zone_by_node_name: {value: {zone: a}}}",
            "`zone`",
        ),
        (
            "neither",
            "provider: {instance_id: {}}",
            "given.provider.instance_id",
        ),
        (
            "both",
            "provider: {instance_id: {value: a, error: {kind: NotImplemented}}}",
            "given.provider.instance_id",
        ),
        ("api", "api: {update_errors: 1}", "`update_errors`"),
        (
            "api-kind",
            "api: {patch_error: {kind: Gone}}",
            "given.api.patch_error.kind",
        ),
    ] {
        let text = format!(
            "suite: lifecycle\ncases:\n{}",
            change("B-7", &format!("{{{node}, {given}}}"), "{deleted: false}")
        );
        fails(test, &text, &["lifecycle::B-7", says]);
    }
    let text = format!(
        "suite: lifecycle\ncases:\n{}",
        change(
            "B-8",
            "{node: {metadata: {name: n, lables: {}}}}",
            "{deleted: false}"
        )
    );
    fails("node", &text, &["B-8", "given.node.metadata.lables"]);
}

#[test]
fn what_cannot_be_run_fails() {
    fails(
        "suite",
        "suite: life-cycle\ncases: [{id: A}]\n",
        &["\"life-cycle\""],
    );
    fails("empty", "", &["no cases"]);
    fails("comment", "# nothing here\n", &["no cases"]);
    fails("no-cases", "suite: lifecycle\ncases: []\n", &["cases"]);
    fails("no-suite", "cases: [{id: A}]\n", &["`suite`"]);
    fails("yaml", "suite: [\n", &["YAML"]);
    fails(
        "function",
        &format!(
            "suite: taints\ncases:\n{}",
            change("A", "{fn: toggle}", "{error: null}")
        ),
        &["\"toggle\""],
    );
    fails(
        "function-missing",
        &format!(
            "suite: taints\ncases:\n{}",
            change("A", "{}", "{error: null}")
        ),
        &["given.fn"],
    );
    let suite = "suite: node-address-change\ncases:\n";
    fails(
        "no-expect",
        &format!("{suite}{}", change("A", "{}", "{}")),
        &["A", "expect"],
    );
    fails(
        "class",
        &format!(
            "{suite}{}",
            change("A", "{}", "{changed: false}").replace("normative", "n")
        ),
        &["class"],
    );
    fails(
        "no-id",
        &format!(
            "{suite}{}",
            change("A", "{}", "{changed: false}").replace("id: A, ", "")
        ),
        &["#1", "`id`"],
    );
    let twice = change("A", "{}", "{changed: false}");
    fails(
        "twice",
        &format!("{suite}{twice}{twice}"),
        &["A", "1 passed, 1 failed"],
    );
}

#[test]
fn a_missing_directory_and_one_without_files_fail() {
    let empty = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cases_runner_without_files");
    std::fs::create_dir_all(&empty).unwrap();
    for directory in [Path::new("/nowhere/cases"), &empty] {
        let (well, report) = run(&[], &only(directory));
        assert!(
            !well && report.contains(directory.to_str().unwrap()),
            "{report}"
        );
        assert!(report.ends_with("0 passed, 1 failed\n"), "{report}");
    }
}

#[test]
fn a_suite_that_lost_its_file_is_missed() {
    let sources = Sources {
        own: Some(PASSING.into()),
        extra: Vec::new(),
    };
    let (well, report) = run(&["taints"], &sources);
    assert!(
        !well && report.contains("no case of suite queue-and-retry"),
        "{report}"
    );
}

#[test]
fn a_wrong_expectation_fails_with_both_values() {
    let text = format!(
        "suite: node-address-change\ncases:\n{}",
        change("A", "{}", "{changed: true}")
    );
    fails(
        "wrong",
        &text,
        &["node-address-change::A", "expected true", "found    false"],
    );
    let node = "{node: {metadata: {name: n}}, provider: {instances_v2: true}}";
    let text = format!(
        "suite: lifecycle\ncases:\n{}",
        change("A", node, "{deleted: false}")
    );
    fails(
        "violation",
        &text,
        &["instance_exists was called, but the script has no answer for it"],
    );
    let text = "suite: node-initialization\ncases:\n".to_owned()
        + &change("A", "{node: {metadata: {name: n}}}", "{node: {}}");
    fails("nothing", &text, &["nothing in it can be compared"]);
}

#[test]
fn words_select_cases_as_with_any_test() {
    let own = Sources::own_and("");
    assert_eq!(
        run(&["NIN-030"], &own).1,
        "suite node-initialization: 1 passed, 0 failed\n1 passed, 0 failed\n"
    );
    assert!(
        run(&["lifecycle"], &own)
            .1
            .ends_with("\n28 passed, 0 failed\n")
    );
    assert!(
        run(&["lifecycle", "taints", "--skip", "LIF-00"], &own)
            .1
            .ends_with("\n35 passed, 0 failed\n")
    );
    assert!(
        run(&["--exact", "node-address"], &own)
            .1
            .ends_with("0 passed, 0 failed\n")
    );
    assert!(
        run(&["--exact", "taints", "LIF-001", "taints::TNT-001"], &own)
            .1
            .ends_with("\n17 passed, 0 failed\n")
    );
    assert_eq!(run(&["--ignored"], &own).1, "0 passed, 0 failed\n");
    let harness = [
        "--nocapture",
        "--test-threads=1",
        "--test-threads",
        "4",
        "--format=pretty",
        "--format",
        "terse",
    ];
    let harness = [
        &harness[..],
        &[
            "-q",
            "--quiet",
            "--include-ignored",
            "--color",
            "never",
            "NAC",
        ],
    ]
    .concat();
    assert!(run(&harness, &own).1.ends_with("\n8 passed, 0 failed\n"));
    assert!(Arguments::parse(["--nonsense".to_owned()]).is_err());
}

#[test]
fn names_are_listed_without_running() {
    let (well, names) = run(&["--list", "NAC"], &Sources::own_and(""));
    assert!(
        well && names.starts_with("node-address-change::NAC-001: test\n"),
        "{names}"
    );
    assert!(names.ends_with("\n8 tests, 0 benchmarks\n"), "{names}");
    assert_eq!(
        run(
            &["--list", "--format", "terse", "NAC-008"],
            &only(Sources::own_and("").own.unwrap())
        )
        .1,
        "node-address-change::NAC-008: test\n"
    );
}
