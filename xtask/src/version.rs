//! The version stands in `Cargo.toml`; all other places repeat it.

use std::path::{Path, PathBuf};

use crate::dist::{Architecture, archive_name};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
/// Texts that a version follows, wherever they stand.
const MARKS: [&str; 4] = [
    "ccm-rs-",
    "cloud-controller-manager-",
    "/cloud-controller-manager:",
    "app.kubernetes.io/version: ",
];

/// Returns pages and manifests that name the version.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for item in std::fs::read_dir(folder).unwrap() {
        let path = item.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            // The templates of the chart have the version from Chart.yaml.
            if name != "templates" {
                files(&path, found);
            }
        } else if [".md", ".yaml"].iter().any(|ending| name.ends_with(ending)) {
            found.push(path);
        }
    }
}

/// Returns the versions that a text names behind a mark.
fn versions<'a>(text: &'a str, marks: &[&str]) -> Vec<&'a str> {
    let mut found = Vec::new();
    for mark in marks {
        for (at, _) in text.match_indices(mark) {
            let rest = text[at + mark.len()..].trim_start_matches('"');
            let length = rest
                .find(|character: char| !character.is_ascii_digit() && character != '.')
                .unwrap_or(rest.len());
            let version = rest[..length].trim_end_matches('.');
            if version.split('.').count() == 3 {
                found.push(version);
            }
        }
    }
    found
}

#[test]
fn chart_manifests_and_pages_name_the_version_of_the_workspace() {
    let version = env!("CARGO_PKG_VERSION");
    let mut all = vec![Path::new(ROOT).join("README.md")];
    for folder in ["docs", "deploy"] {
        files(&Path::new(ROOT).join(folder), &mut all);
    }
    let mut count = 0;
    for path in all {
        let text = std::fs::read_to_string(&path).unwrap();
        let others: Vec<_> = versions(&text, &MARKS)
            .into_iter()
            .filter(|found| *found != version)
            .collect();
        assert!(
            others.is_empty(),
            "{} names {others:?}, and Cargo.toml {version}",
            path.display()
        );
        count += versions(&text, &MARKS).len();
    }
    assert!(count > 40, "only {count} places are seen");
    let chart =
        std::fs::read_to_string(Path::new(ROOT).join("deploy/helm/ccm-rs/Chart.yaml")).unwrap();
    assert_eq!(
        versions(&chart, &["\nversion: ", "\nappVersion: "]),
        [version; 2]
    );
}

#[test]
fn version_is_found_behind_its_marks_only() {
    let text =
        "ccm-rs-1.2.3.tgz, helm/ccm-rs-x, app.kubernetes.io/version: \"1.2.4\", kubernetes 1.34.0";
    assert_eq!(versions(text, &MARKS), ["1.2.3", "1.2.4"]);
}

/// The metadata of `cargo binstall` has the names of the archives with placeholders.
#[test]
fn cargo_binstall_finds_the_archives_by_their_names() {
    let path = Path::new(ROOT).join("crates/cloud-controller-manager/Cargo.toml");
    let text = std::fs::read_to_string(path).unwrap();
    for (target, architecture) in [
        ("x86_64-unknown-linux-gnu", Architecture::Amd64),
        ("x86_64-unknown-linux-musl", Architecture::Amd64),
        ("aarch64-unknown-linux-gnu", Architecture::Arm64),
        ("aarch64-unknown-linux-musl", Architecture::Arm64),
    ] {
        let section = text
            .split(&format!("[package.metadata.binstall.overrides.{target}]\n"))
            .nth(1)
            .unwrap();
        let value = |name: &str| {
            let line = section
                .lines()
                .find_map(|line| line.strip_prefix(name))
                .unwrap();
            let filled = line
                .replace("{ name }", "cloud-controller-manager")
                .replace("{ version }", "1.2.3");
            filled
                .trim_matches('"')
                .replace("{ bin }", "cloud-controller-manager")
                .replace("{ binary-ext }", "")
        };
        let archive = archive_name("1.2.3", architecture);
        assert_eq!(
            value("pkg-url = "),
            format!("{{ repo }}/releases/download/v1.2.3/{archive}"),
            "{target}"
        );
        let folder = archive.trim_end_matches(".tar.gz");
        assert_eq!(
            value("bin-dir = "),
            format!("{folder}/cloud-controller-manager"),
            "{target}"
        );
    }
}
