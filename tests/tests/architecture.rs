//! Dependencies between crates (ARCHITECTURE.md), read from the manifests. Development dependencies are free. The
//! structure of `manager`, read from its files.

#![allow(clippy::unwrap_used)] // helpers are not seen as tests

#[path = "architecture/json_writes.rs"]
mod json_writes;
#[path = "architecture/manager.rs"]
mod manager;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

fn directories(of: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(of)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    entries.filter(|path| path.is_dir()).collect()
}

/// Returns the name of a crate, and the lines of its `[dependencies]` up to the name.
fn manifest(directory: &Path) -> Option<(String, BTreeSet<String>)> {
    let text = std::fs::read_to_string(directory.join("Cargo.toml")).ok()?;
    let name = text
        .lines()
        .find_map(|line| line.strip_prefix("name = "))?
        .trim_matches('"')
        .to_owned();
    let lines = text
        .lines()
        .skip_while(|line| *line != "[dependencies]")
        .skip(1);
    let lines = lines.take_while(|line| !line.starts_with('['));
    let dependency = |line: &str| {
        line.split(['.', ' ', '='])
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    Some((name, lines.map(dependency).collect()))
}

/// Returns the crates of the workspace, and the workspace crates that each depends on.
fn crates() -> BTreeMap<String, BTreeSet<String>> {
    let root = Path::new(ROOT);
    let providers = directories(&root.join("providers"));
    let fakes: Vec<PathBuf> = providers.iter().map(|path| path.join("fake")).collect();
    let others =
        ["tests", "tests/conformance", "templates/provider", "xtask"].map(|text| root.join(text));
    let all = [
        directories(&root.join("crates")),
        providers,
        fakes,
        others.into(),
    ]
    .concat();
    let all: BTreeMap<_, _> = all.iter().filter_map(|path| manifest(path)).collect();
    let ours: BTreeSet<String> = all.keys().cloned().collect();
    all.into_iter()
        .map(|(name, known)| (name, known.intersection(&ours).cloned().collect()))
        .collect()
}

fn is_fake(name: &str) -> bool {
    name == "fake-cloud" || name.ends_with("-fake")
}

fn is_provider(name: &str) -> bool {
    name.starts_with("provider-") && name != "provider-kit"
}

/// Crates that every provider may know.
const KIT: [&str; 2] = ["provider-kit", "cloud-provider"];
/// Crates that the provider kit and the runtime may know.
const BELOW: [&str; 2] = ["cloud-provider", "trusted-roots"];

/// Returns the name of the crate with the protocol of a provider's cloud: `aws-protocol` of `provider-aws`.
fn protocol_of(provider: &str) -> Option<String> {
    Some(format!("{}-protocol", provider.strip_prefix("provider-")?))
}

fn is_test(name: &str) -> bool {
    ["ccm-tests", "ccm-conformance"].contains(&name)
}

/// Returns the reason for which `name` must not depend on `known`, if any.
fn objection(name: &str, known: &str) -> Option<&'static str> {
    let knows_all = ["cloud-controller-manager", "ccm-tests"].contains(&name);
    match name {
        _ if is_fake(known) && !is_fake(name) && !is_test(name) => Some("fakes are for tests"),
        _ if is_test(known) && !is_test(name) => Some("nothing that is shipped knows a test"),
        _ if is_fake(name) && known != "fake-cloud" => Some("a fake knows nobody of ours"),
        "cloud-provider" | "embedded-apiserver" | "fake-cloud" | "trusted-roots" | "xtask" => {
            Some("it knows nobody of ours")
        }
        _ if known == "xtask" => Some("nothing that is shipped knows a task"),
        _ if is_provider(known) && !knows_all => Some("nobody names a provider but the binary"),
        _ if is_provider(name)
            && !KIT.contains(&known)
            && Some(known) != protocol_of(name).as_deref() =>
        {
            Some("a provider knows the contract, the kit and its own protocol")
        }
        _ if name.ends_with("-protocol") && !KIT.contains(&known) => {
            Some("a protocol knows the contract and the kit")
        }
        "provider-kit" | "runtime" if !BELOW.contains(&known) => {
            Some("it knows the contract and the trusted roots only")
        }
        _ => None,
    }
}

#[test]
fn arrows_point_downwards() {
    let crates = crates();
    assert!(
        crates.len() >= 15 && crates["openstack-fake"].contains("fake-cloud"),
        "{crates:#?}"
    );
    let pairs = crates
        .iter()
        .flat_map(|(name, known)| known.iter().map(move |known| (name, known)));
    let wrong = pairs
        .filter_map(|(name, known)| Some(format!("{name} → {known}: {}", objection(name, known)?)));
    assert_eq!(wrong.collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn arrows_that_point_elsewhere_are_told() {
    let wrong = [
        ("manager", "fake-cloud"),
        ("provider-acme", "acme-fake"),
        ("acme-fake", "provider-kit"),
        ("fake-cloud", "cloud-provider"),
        ("controllers", "provider-hetzner"),
        ("provider-acme", "controllers"),
        ("provider-acme", "aws-protocol"),
        ("aws-protocol", "provider-aws"),
        ("provider-kit", "runtime"),
        ("xtask", "manager"),
        ("manager", "xtask"),
    ];
    for (name, known) in wrong {
        assert!(objection(name, known).is_some(), "{name} → {known}");
    }
    assert_eq!(objection("acme-fake", "fake-cloud"), None);
}

/// Returns the scenarios on a real OpenStack by name, each with `true` if it runs also where the code for OpenStack did
/// not change.
fn openstack_scenarios(source: &str) -> BTreeMap<String, bool> {
    let line =
        regex_lite::Regex::new(r"(?m)^    (Cloud|CloudAfterChange|Services|Trunks) \w+::(\w+),$")
            .unwrap();
    line.captures_iter(source)
        .map(|found| (found[2].to_owned(), &found[1] != "CloudAfterChange"))
        .collect()
}

/// Returns the rows of the page's table of these scenarios: `| \`NAME\` | always | … |`.
fn documented_scenarios(page: &str) -> BTreeMap<String, bool> {
    let row = regex_lite::Regex::new(r"(?m)^\| `(\w+)` \| (always|after a change) \|").unwrap();
    row.captures_iter(page)
        .map(|found| (found[1].to_owned(), &found[2] == "always"))
        .collect()
}

#[test]
fn testing_page_says_when_each_openstack_scenario_runs() {
    let source = std::fs::read_to_string(format!("{ROOT}/tests/tests/openstack/main.rs")).unwrap();
    let page = std::fs::read_to_string(format!("{ROOT}/docs/testing.md")).unwrap();
    let scenarios = openstack_scenarios(&source);
    assert!(
        scenarios.len() >= 19 && scenarios.values().any(|always| !always),
        "{scenarios:?}"
    );
    assert_eq!(documented_scenarios(&page), scenarios);
}

/// Adds the files and directories under `of` as paths from the root: `docs/index.md`, `docs/providers/`.
fn collect_paths(of: &Path, paths: &mut Vec<String>) {
    for entry in std::fs::read_dir(of).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name();
        let is_directory = path.is_dir();
        if is_directory && (name == "target" || name == ".git") {
            continue;
        }
        let relative = path
            .strip_prefix(ROOT)
            .map(|path| path.to_string_lossy().into_owned())
            .unwrap_or_default();
        paths.push(format!(
            "/{relative}{}",
            if is_directory { "/" } else { "" }
        ));
        if is_directory {
            collect_paths(&path, paths);
        }
    }
}

/// Returns the paths in code marks of a page that are the end of no path in `all`. `NAME` stands for a name of the
/// reader's.
fn missing_paths(page: &str, all: &[String]) -> Vec<String> {
    let path = regex_lite::Regex::new(r"`([\w./-]+(?:\.rs|\.md|\.toml|\.sh|/))`").unwrap();
    let named = path.captures_iter(page).map(|found| found[1].to_owned());
    let named = named.filter(|path| !path.contains("NAME") && !path.starts_with('/'));
    named
        .filter(|path| !all.iter().any(|known| known.ends_with(&format!("/{path}"))))
        .collect()
}

#[test]
fn every_path_that_a_page_names_exists() {
    let mut all = Vec::new();
    collect_paths(Path::new(ROOT), &mut all);
    let is_page = |path: &&String| {
        path.ends_with(".md") && !path.contains("/design/") && !path.starts_with("/CHANGELOG")
    };
    let pages: Vec<_> = all.iter().filter(is_page).collect();
    assert!(pages.len() > 10, "{pages:?}");
    let missing = pages.iter().flat_map(|page| {
        let text = std::fs::read_to_string(format!("{ROOT}{page}")).unwrap();
        missing_paths(&text, &all)
            .into_iter()
            .map(move |path| format!("{page}: {path}"))
    });
    assert_eq!(missing.collect::<Vec<_>>(), [""; 0]);
    assert_eq!(
        missing_paths("see `plan/gone.rs` and `docs/`", &all),
        ["plan/gone.rs"]
    );
}
