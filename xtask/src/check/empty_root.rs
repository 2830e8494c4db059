//! Programs in a root folder that has nothing else, as in the image.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::dist::Architecture;
use crate::program;

/// Bytes of an ELF file that are read: its header, and the headers of its segments.
const ELF_HEADER: usize = 64;
/// Kind of the segment that names the dynamic linker.
const INTERPRETER: u32 = 3;

/// Runs a program in a root folder. Returns `None` if this machine cannot run programs of the architecture.
pub(super) fn output(
    root: &Path,
    architecture: Architecture,
    arguments: &[&str],
) -> Result<Option<String>> {
    let mut words = Vec::new();
    if !architecture.is_own() {
        let Some(emulator) = program::find(architecture.emulator()) else {
            return Ok(None);
        };
        // The emulator is static, so it runs in an empty root, too.
        let inside = root.join(architecture.emulator());
        if !inside.exists() {
            std::fs::copy(&emulator, &inside)
                .with_context(|| format!("cannot copy {}", emulator.display()))?;
        }
        words.push(format!("/{}", architecture.emulator()));
    }
    words.extend(arguments.iter().map(|word| (*word).to_owned()));
    // Its folder is often not in the PATH of users.
    let chroot = program::find("chroot").unwrap_or_else(|| "/usr/sbin/chroot".into());
    let mut command = if is_root() {
        Command::new(chroot)
    } else {
        let mut command = Command::new(
            program::find("unshare").context("install util-linux: there is no unshare")?,
        );
        command.args(["--user", "--map-root-user"]).arg(chroot);
        command
    };
    Ok(Some(program::output(
        command.arg(root).args(words).env_clear(),
    )?))
}

/// Returns `true` if this process may change its root folder.
fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

/// Fails unless the file is a static program of the architecture.
pub(super) fn ensure_static(content: &[u8], architecture: Architecture) -> Result<()> {
    let at = |from: usize, length: usize| {
        content
            .get(from..from + length)
            .context("the program is cut off")
    };
    let number = |from: usize, length: usize| -> Result<u64> {
        Ok(at(from, length)?
            .iter()
            .rev()
            .fold(0, |number, byte| (number << 8) | u64::from(*byte)))
    };
    ensure!(
        at(0, ELF_HEADER)?.starts_with(b"\x7fELF\x02\x01"),
        "the program is no 64-bit ELF file"
    );
    let machine = number(18, 2)?;
    ensure!(
        machine == u64::from(architecture.elf_machine()),
        "the program is for machine {machine}, not {architecture}"
    );
    let table = number(32, 8)?;
    let size = number(54, 2)?;
    let count = number(56, 2)?;
    for index in 0..count {
        let kind = number(usize::try_from(table + index * size)?, 4)?;
        ensure!(
            kind != u64::from(INTERPRETER),
            "the program needs a dynamic linker"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_of_this_test_is_dynamic_and_of_one_architecture() {
        let own_binary = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let [same, other] = match Architecture::Amd64.is_own() {
            true => [Architecture::Amd64, Architecture::Arm64],
            false => [Architecture::Arm64, Architecture::Amd64],
        };
        assert_eq!(
            ensure_static(&own_binary, same).unwrap_err().to_string(),
            "the program needs a dynamic linker"
        );
        assert!(
            ensure_static(&own_binary, other)
                .unwrap_err()
                .to_string()
                .starts_with("the program is for machine")
        );
        assert_eq!(
            ensure_static(b"#!/bin/sh", same).unwrap_err().to_string(),
            "the program is cut off"
        );
    }
}
