//! Programs that the tasks run.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Returns the path of a program in `PATH`, if it is installed.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|program| is_executable(program))
}

/// Returns the path of helm: the one that the variable `HELM` names, or the one in `PATH`.
pub(crate) fn helm() -> Option<PathBuf> {
    match std::env::var_os("HELM").filter(|name| !name.is_empty()) {
        Some(named) => Some(PathBuf::from(named)).filter(|program| is_executable(program)),
        None => find("helm"),
    }
}

fn is_executable(program: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    program
        .metadata()
        .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// Runs a program whose output is shown.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("cannot run {}", shown(command)))?;
    if !status.success() {
        bail!("{} failed: {status}", shown(command));
    }
    Ok(())
}

/// Runs a program, and returns its standard output. The error has its standard error.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {}", shown(command)))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        bail!(
            "{} failed: {}: {}",
            shown(command),
            output.status,
            text.trim()
        );
    }
    String::from_utf8(output.stdout)
        .with_context(|| format!("the output of {} is not UTF-8", shown(command)))
}

/// Returns the cargo that runs this program, or the one in `PATH`.
pub(crate) fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    command
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(OsStr::to_string_lossy);
    words.collect::<Vec<_>>().join(" ")
}
