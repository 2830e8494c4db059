//! The Dockerfile: what it builds on.

use anyhow::{Context, Result, ensure};

use crate::documents::deploy;

fn read(file: &str) -> Result<String> {
    std::fs::read_to_string(deploy().join("..").join(file))
        .with_context(|| format!("reading {file}"))
}

/// Returns the images that a Dockerfile fetches: those of `FROM` and `COPY --from`, without stages of its own, and that
/// of `# syntax=`.
fn fetched(dockerfile: &str) -> Vec<&str> {
    let mut stages = vec!["scratch"];
    let mut images = Vec::new();
    for line in dockerfile.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        let image = match words[..] {
            [from, ref rest @ ..] if from.eq_ignore_ascii_case("from") => {
                rest.iter().copied().find(|word| !word.starts_with("--"))
            }
            // The parser directive; every other comment is for people.
            ["#", directive] => directive.strip_prefix("syntax="),
            ["#", ..] => None,
            _ => words.iter().find_map(|word| word.strip_prefix("--from=")),
        };
        images.extend(image.filter(|image| !stages.contains(image)));
        stages.extend(
            words
                .windows(2)
                .filter(|pair| pair[0].eq_ignore_ascii_case("as"))
                .map(|pair| pair[1]),
        );
    }
    images
}

fn is_pinned(image: &str) -> bool {
    image.split_once("@sha256:").is_some_and(|(_, digest)| {
        digest.len() == 64
            && digest
                .bytes()
                .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    })
}

pub(crate) fn every_base_image_is_pinned_by_digest() -> Result<()> {
    let example = "# syntax=a/b:1\nFROM --platform=linux/amd64 rust:1 AS build\nFROM build\nCOPY --from=build /a /b\nCOPY --from=c:1 /a /b";
    ensure!(
        fetched(example) == ["a/b:1", "rust:1", "c:1"],
        "the test itself sees {:?}",
        fetched(example)
    );
    let dockerfile = read("Dockerfile")?;
    let images = fetched(&dockerfile);
    ensure!(!images.is_empty(), "the Dockerfile has no base image");
    let moving: Vec<_> = images
        .into_iter()
        .filter(|image| !is_pinned(image))
        .collect();
    ensure!(
        moving.is_empty(),
        "the Dockerfile fetches {moving:?} by tag; add the digest: IMAGE:TAG@sha256:…"
    );
    Ok(())
}

pub(crate) fn the_image_builds_with_the_pinned_toolchain() -> Result<()> {
    let toolchain = read("rust-toolchain.toml")?;
    let channel = toolchain
        .lines()
        .find_map(|line| line.trim().strip_prefix("channel = "))
        .map(|text| text.trim_matches('"'));
    let channel = channel.context("rust-toolchain.toml names no channel")?;
    let dockerfile = read("Dockerfile")?;
    let wanted = format!("rust:{channel}-alpine@");
    ensure!(
        fetched(&dockerfile)
            .iter()
            .any(|image| image.starts_with(&wanted)),
        "the Dockerfile does not build on {wanted}…"
    );
    Ok(())
}
