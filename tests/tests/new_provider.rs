//! Tests of `templates/new-provider` on a copy of this workspace. The template itself, `templates/provider`, is a
//! member of the workspace: the conformance suite runs on it, and the script's output differs from it only in names.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// Copies everything that git and cargo did not make.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a directory");
    for entry in std::fs::read_dir(from)
        .expect("a directory")
        .map(|entry| entry.expect("an entry"))
    {
        let source = entry.path();
        let target = to.join(entry.file_name());
        match entry.file_type().expect("a type") {
            kind if kind.is_dir()
                && ![".git", "target"].contains(&&*entry.file_name().to_string_lossy()) =>
            {
                copy(&source, &target);
            }
            kind if kind.is_file() => drop(std::fs::copy(&source, &target).expect("a copy")),
            _ => {}
        }
    }
}

fn new_provider(root: &Path, arguments: &[&str]) -> Output {
    Command::new(root.join("templates/new-provider"))
        .args(arguments)
        .output()
        .expect("bash")
}

/// Returns the packages of a workspace, as cargo reads its manifests.
fn packages(root: &Path) -> Vec<Value> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args([
        "metadata",
        "--offline",
        "--no-deps",
        "--format-version",
        "1",
    ]);
    let output = cargo.current_dir(root).output().expect("cargo");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    metadata["packages"].as_array().cloned().expect("a list")
}

fn package(all: &[Value], name: &str) -> Value {
    all.iter()
        .find(|object| object["name"] == name)
        .unwrap_or_else(|| panic!("no package {name}"))
        .clone()
}

/// Panics if a file still has the template's name in it.
fn has_no_template_name(directory: &Path) {
    for entry in std::fs::read_dir(directory)
        .expect("a directory")
        .map(|entry| entry.expect("an entry").path())
    {
        assert!(!entry.to_string_lossy().contains("acme"), "{entry:?}");
        if entry.is_dir() {
            has_no_template_name(&entry);
        } else {
            let text = std::fs::read_to_string(&entry).expect("a text");
            let line = text
                .lines()
                .find(|line| line.to_lowercase().contains("acme") || line.ends_with(' '));
            assert_eq!(line, None, "{entry:?}");
        }
    }
}

#[test]
fn generated_provider_is_registered_and_a_second_one_is_refused() {
    let copied = tempfile::tempdir().expect("a directory");
    let root = copied.path();
    copy(Path::new(ROOT), root);
    let output = new_provider(root, &["cloud-nine"]);
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    has_no_template_name(&root.join("providers/cloud-nine"));

    let all = packages(root);
    let tests = package(&all, "provider-cloud-nine")["targets"].clone();
    assert!(
        tests
            .as_array()
            .is_some_and(|test| test.iter().any(|object| object["name"] == "cloud-nine")),
        "{tests}"
    );
    let features = package(&all, "cloud-controller-manager")["features"].clone();
    assert_eq!(features["cloud-nine"][0], "dep:provider-cloud-nine");
    assert!(
        features["clouds"]
            .as_array()
            .is_some_and(|cloud| cloud.contains(&"cloud-nine".into())),
        "{features}"
    );
    for (file, line) in [
        (
            "crates/cloud-controller-manager/src/main.rs",
            "provider_cloud_nine::factory",
        ),
        ("deny.toml", "\"provider-cloud-nine\""),
        (
            "README.md",
            "| CloudNine | `cloud-nine` | | [its page](docs/providers/cloud-nine.md) |",
        ),
        (
            "docs/providers/cloud-nine.md",
            "`service.beta.kubernetes.io/cloud-nine-load-balancer-plan`",
        ),
        (
            "deploy/helm/ccm-rs/presets/cloud-nine.yaml",
            "page: docs/providers/cloud-nine.md\n",
        ),
    ] {
        assert!(
            std::fs::read_to_string(root.join(file))
                .expect(file)
                .contains(line),
            "{file} without {line}"
        );
    }

    for (name, why) in [
        ("cloud-nine", "exists"),
        ("kit", "already"),
        ("Nine", "not valid"),
        ("acme", "template's own"),
    ] {
        let output = new_provider(root, &[name]);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            !output.status.success() && text.contains(why),
            "{name}: {text}"
        );
    }
}

#[test]
fn generated_crate_outside_the_workspace_names_paths_and_versions_of_its_own() {
    let directory = tempfile::tempdir().expect("a directory");
    let root = directory.path().join("nine");
    let output = new_provider(
        Path::new(ROOT),
        &["nine", "--crate", &root.to_string_lossy()],
    );
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    has_no_template_name(&root.join("src"));
    let all = packages(&root);
    assert_eq!(all.len(), 1, "a workspace of its own");
    let dependencies = package(&all, "provider-nine")["dependencies"].clone();
    let has_path = |name: &str| {
        let mut all = dependencies.as_array().into_iter().flatten();
        all.any(|object| object["name"] == name && object["path"].is_string())
    };
    for name in [
        "cloud-provider",
        "provider-kit",
        "manager",
        "ccm-conformance",
        "fake-cloud",
    ] {
        assert!(has_path(name), "{name}: {dependencies:#}");
    }
}
