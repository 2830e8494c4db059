//! The Dockerfile and the Containerfile: both make the container that `deploy/image/config.json` describes.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::dist::IMAGE_CONFIG;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
/// Labels that depend on the build.
const OF_A_BUILD: [&str; 3] = ["version", "revision", "created"];

fn read(file: &str) -> String {
    std::fs::read_to_string(Path::new(ROOT).join(file)).unwrap()
}

/// Returns the instructions of the last stage, with continued lines joined and without comments.
fn last_stage(file: &str) -> Vec<(String, String)> {
    let text: Vec<&str> = file
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'))
        .collect();
    let text = text.join("\n").replace("\\\n", " ");
    let lines = text.lines().filter_map(|line| line.trim().split_once(' '));
    let all: Vec<_> = lines
        .map(|(word, rest)| (word.to_uppercase(), rest.trim().to_owned()))
        .collect();
    let from = all.iter().rposition(|(word, _)| word == "FROM").unwrap();
    all[from..].to_vec()
}

/// Returns the pairs of `name=value name="value"`. Arguments of the build are empty, as by default.
fn pairs(text: &str) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    let mut rest = text.trim();
    while let Some((name, after)) = rest.split_once('=') {
        let (value, more) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap(),
            None => after.split_once(' ').unwrap_or((after, "")),
        };
        let value = if value.starts_with('$') { "" } else { value };
        pairs.push((name.trim().to_owned(), value.to_owned()));
        rest = more.trim();
    }
    pairs
}

/// Returns the container that a file describes.
fn container(file: &str) -> Value {
    let mut container = Map::new();
    for (word, rest) in last_stage(file) {
        match word.as_str() {
            "USER" => _ = container.insert("User".to_owned(), rest.into()),
            "ENTRYPOINT" => {
                _ = container.insert(
                    "Entrypoint".to_owned(),
                    serde_json::from_str(&rest).unwrap(),
                );
            }
            "ENV" => {
                let variables: Vec<_> = pairs(&rest)
                    .into_iter()
                    .map(|(name, value)| format!("{name}={value}"))
                    .collect();
                container.insert("Env".to_owned(), json!(variables));
            }
            "LABEL" => {
                let labels: Map<_, _> = pairs(&rest)
                    .into_iter()
                    .map(|(name, value)| (name, value.into()))
                    .collect();
                container.insert("Labels".to_owned(), labels.into());
            }
            "FROM" => assert_eq!(rest, "scratch"),
            "ARG" | "COPY" | "ADD" => {}
            other => panic!("{other} is not in {IMAGE_CONFIG}"),
        }
    }
    container.into()
}

#[test]
fn dockerfile_and_containerfile_make_the_described_container() {
    let mut expected: Value = serde_json::from_str(&read(IMAGE_CONFIG)).unwrap();
    for label in OF_A_BUILD {
        expected["Labels"][format!("org.opencontainers.image.{label}")] = "".into();
    }
    for file in ["Dockerfile", "Containerfile"] {
        assert_eq!(container(&read(file)), expected, "{file}");
    }
}

#[test]
fn both_files_take_the_same_file_system() {
    let of = |file: &str, word: &str| -> Vec<String> {
        last_stage(&read(file))
            .into_iter()
            .filter(|(last_stage, _)| last_stage == word)
            .map(|(_, rest)| rest)
            .collect()
    };
    // The script that makes /image also makes what `dist` packs.
    assert_eq!(of("Dockerfile", "COPY"), ["--from=build /image /"]);
    assert!(read("Dockerfile").contains("deploy/image/layout /image "));
    assert_eq!(
        of("Containerfile", "ADD"),
        ["rootfs-linux-${TARGETARCH}.tar.gz /"]
    );
    assert!(of("Dockerfile", "ADD").is_empty() && of("Containerfile", "COPY").is_empty());
}

/// Returns the files that the sources of a folder include, relative to the root of the repository.
fn included(folder: &str, found: &mut Vec<String>) {
    for item in std::fs::read_dir(Path::new(ROOT).join(folder))
        .into_iter()
        .flatten()
    {
        let item = item.unwrap();
        let path = format!("{folder}/{}", item.file_name().to_string_lossy());
        // Tests are not built for the image.
        if item.path().is_dir() && !path.ends_with("/tests") {
            included(&path, found);
        } else if path.ends_with(".rs") {
            for text in read(&path)
                .split("include_str!(\"")
                .chain(read(&path).split("include_bytes!(\""))
                .skip(1)
            {
                let mut parts: Vec<&str> = folder.split('/').collect();
                for part in text.split('"').next().unwrap().split('/') {
                    match part {
                        ".." => _ = parts.pop(),
                        part => parts.push(part),
                    }
                }
                found.push(parts.join("/"));
            }
        }
    }
}

#[test]
fn context_of_the_dockerfile_has_all_that_a_build_reads() {
    let ignored = read(".dockerignore");
    let kept: Vec<&str> = ignored
        .lines()
        .filter_map(|line| line.strip_prefix('!'))
        .collect();
    let manifest = read("Cargo.toml");
    let members = manifest
        .lines()
        .find_map(|line| line.strip_prefix("members = "))
        .unwrap();
    // Cargo wants every member of the workspace.
    let mut needed: Vec<String> = serde_json::from_str(members).unwrap();
    let patched = manifest
        .lines()
        .filter_map(|line| line.split("path = \"").nth(1)?.split('"').next());
    needed.extend(patched.map(str::to_owned));
    for folder in ["crates", "providers"] {
        included(folder, &mut needed);
    }
    for path in ["xtask", "patches/jsonpath-rust", "docs/embedding.md"] {
        assert!(
            needed.iter().any(|needed| needed == path),
            "{path} is not seen: {needed:?}"
        );
    }
    needed.retain(|path| Path::new(ROOT).join(path).exists() || path.contains('*'));
    let is_kept = |path: &String| {
        kept.iter()
            .any(|text| path == text || path.starts_with(&format!("{text}/")))
    };
    needed.retain(|path| !is_kept(path));
    assert!(needed.is_empty(), ".dockerignore leaves out {needed:?}");
}

#[test]
fn pairs_are_read_with_and_without_quotes() {
    let expected = [("a", "1 2"), ("b", ""), ("c", "/x:/y")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(pairs("a=\"1 2\"   b=\"$B\" c=/x:/y"), expected);
}
