//! Static binaries that do not depend on the folders of the machine that builds them.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::Architecture;
use crate::program;
use crate::project::{PROGRAM, Project};

/// Builds the program, and returns the path of the binary.
pub(super) fn build(
    project: &Project,
    architecture: Architecture,
    profile: &str,
    features: &str,
) -> Result<PathBuf> {
    let target = architecture.target();
    let prefixes = prefixes(project)?;
    let mut cargo = program::cargo(&project.root);
    cargo.args([
        "build",
        "--locked",
        "--package",
        PROGRAM,
        "--no-default-features",
        "--features",
        features,
    ]);
    cargo.args(["--profile", profile, "--target", target]);
    cargo.envs(architecture.variables());
    // This variable takes precedence over flags of the caller, which would change the binary.
    cargo.env("CARGO_ENCODED_RUSTFLAGS", rust_flags(&prefixes));
    cargo
        .env(
            format!("CFLAGS_{}", target.replace('-', "_")),
            c_flags(&prefixes),
        )
        .env("CC_SHELL_ESCAPED_FLAGS", "1");
    cargo.env("CARGO_INCREMENTAL", "0");
    cargo.env("CCM_REVISION", &project.revision);
    cargo.env("SOURCE_DATE_EPOCH", project.epoch.to_string());
    program::run(&mut cargo)?;
    Ok(project
        .target_directory
        .join(target)
        .join(profile_folder(profile))
        .join(PROGRAM))
}

/// Returns the folder of a profile's builds.
fn profile_folder(profile: &str) -> &str {
    match profile {
        "dev" | "test" => "debug",
        "bench" => "release",
        other => other,
    }
}

/// Returns folders of this machine with the names that stand for them in the binary. The compiler uses the last one
/// that fits, so the inner folders follow the outer ones.
fn prefixes(project: &Project) -> Result<Vec<(PathBuf, String)>> {
    let home = match std::env::var_os("CARGO_HOME").filter(|home| !home.is_empty()) {
        Some(home) => PathBuf::from(home),
        None => {
            PathBuf::from(std::env::var_os("HOME").context("neither CARGO_HOME nor HOME is set")?)
                .join(".cargo")
        }
    };
    let mut prefixes = vec![(home.clone(), "/cargo".to_owned())];
    // The name of this folder depends on the address that crates are downloaded from.
    for source in std::fs::read_dir(home.join("registry/src"))
        .into_iter()
        .flatten()
        .flatten()
    {
        prefixes.push((source.path(), "/crates".to_owned()));
    }
    prefixes.push((project.root.clone(), "/ccm-rs".to_owned()));
    prefixes.push((project.target_directory.clone(), "/target".to_owned()));
    // The standard library, where its sources are installed. Elsewhere it has these names already.
    let rustc = |arguments: &[&str]| {
        program::output(
            Command::new("rustc")
                .current_dir(&project.root)
                .args(arguments),
        )
    };
    let sysroot = rustc(&["--print", "sysroot"])?;
    let version = rustc(&["-vV"])?;
    if let Some(commit) = version
        .lines()
        .find_map(|line| line.strip_prefix("commit-hash: "))
    {
        prefixes.push((
            Path::new(sysroot.trim()).join("lib/rustlib/src/rust"),
            format!("/rustc/{commit}"),
        ));
    }
    Ok(prefixes)
}

/// Returns the flags of the Rust compiler as `CARGO_ENCODED_RUSTFLAGS` has them.
fn rust_flags(prefixes: &[(PathBuf, String)]) -> String {
    let flags = prefixes
        .iter()
        .map(|(folder, name)| format!("--remap-path-prefix={}={name}", folder.display()));
    flags.collect::<Vec<_>>().join("\x1f")
}

/// Returns the flags of the C compiler, quoted as in a shell, because folders may have blanks in their names.
fn c_flags(prefixes: &[(PathBuf, String)]) -> String {
    let quoted = |folder: &Path| folder.display().to_string().replace('\'', "'\\''");
    let flags = prefixes
        .iter()
        .map(|(folder, name)| format!("'-ffile-prefix-map={}={name}'", quoted(folder)));
    flags.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_replace_each_folder_of_the_machine() {
        let prefixes = [
            (PathBuf::from("/my work/ccm"), "/ccm-rs".to_owned()),
            (PathBuf::from("/t"), "/target".to_owned()),
        ];
        let expected = "--remap-path-prefix=/my work/ccm=/ccm-rs\x1f--remap-path-prefix=/t=/target";
        assert_eq!(rust_flags(&prefixes), expected);
        assert_eq!(
            c_flags(&prefixes),
            "'-ffile-prefix-map=/my work/ccm=/ccm-rs' '-ffile-prefix-map=/t=/target'"
        );
    }

    #[test]
    fn builds_of_a_profile_are_in_the_folder_of_cargo() {
        assert_eq!(
            [profile_folder("dist"), profile_folder("dev")],
            ["dist", "debug"]
        );
    }
}
