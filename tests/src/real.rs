//! Shared parts of the suites on real software: environment variables, scripts of its test bed, and scenarios that are
//! ignored, with the reason, if it is missing.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use libtest_mimic::{Completion, Failed, Trial};

use crate::binary;

/// Returns the path that a variable names; `None`: it is not set, or empty.
///
/// # Errors
/// There is nothing of this name.
pub fn path(variable: &str) -> Result<Option<PathBuf>> {
    let Some(path) = std::env::var_os(variable).filter(|path| !path.is_empty()) else {
        return Ok(None);
    };
    let path = PathBuf::from(path);
    ensure!(
        path.exists(),
        "{variable} names {}, which is not there",
        path.display()
    );
    Ok(Some(path))
}

/// Returns the binary under test, where there is something to test it on and scenarios are not only listed.
///
/// # Errors
/// There is none.
pub fn binary(has_use: bool) -> Result<Option<PathBuf>> {
    let lists = std::env::args_os().any(|argument| argument == OsStr::new("--list"));
    let binary = (has_use && !lists).then(binary::path);
    binary.transpose()
}

/// Runs a script of a test bed with these arguments and variables to its end.
///
/// # Errors
/// The script fails; the text is its output.
pub async fn run(script: &Path, words: &[&str], variables: &[(&str, &str)]) -> Result<()> {
    let mut command = tokio::process::Command::new(script);
    command
        .args(words)
        .envs(variables.iter().copied())
        .stdin(Stdio::null());
    let output = command
        .output()
        .await
        .with_context(|| format!("running {}", script.display()))?;
    ensure!(
        output.status.success(),
        "{} {}: {}: {}",
        script.display(),
        words.join(" "),
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

/// Creates a trial of a scenario, which is ignored if a requirement is missing.
pub fn trial(
    name: &'static str,
    lacks: Option<&'static str>,
    play: impl FnOnce() -> Result<()> + Send + 'static,
) -> Trial {
    Trial::ignorable_test(name, move || {
        if let Some(reason) = lacks {
            return Ok(Completion::ignored_with(reason));
        }
        play().map_err(|error| Failed::from(format!("{error:#}")))?;
        Ok(Completion::Completed)
    })
}

/// Runs a scenario to its end, on a runtime of its own.
///
/// # Errors
/// Errors of the scenario.
pub fn play(scenario: impl Future<Output = Result<()>>) -> Result<()> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?
        .block_on(scenario)
}
