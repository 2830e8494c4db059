//! Programs that the scenarios call, as users do.

use std::ffi::OsStr;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

/// Runs a program to its end, and returns its standard output.
///
/// # Errors
/// The program fails; the text is its standard error.
pub(crate) async fn output(command: &mut Command) -> Result<String> {
    output_of(command, None).await
}

/// Runs a program with this text as its standard input, and returns its standard output.
///
/// # Errors
/// The program fails; the text is its standard error.
pub(crate) async fn output_for(command: &mut Command, input: &str) -> Result<String> {
    output_of(command, Some(input)).await
}

async fn output_of(command: &mut Command, input: Option<&str>) -> Result<String> {
    let name = shown(command);
    command.stdin(if input.is_some() {
        Stdio::piped()
    } else {
        Stdio::null()
    });
    command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let mut child = command
        .spawn()
        .with_context(|| format!("starting {name}"))?;
    if let (Some(input), Some(mut pipe)) = (input, child.stdin.take()) {
        pipe.write_all(input.as_bytes()).await?;
    }
    let output = child.wait_with_output().await?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{name}: {}: {}",
        output.status,
        complaint.trim()
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns program and arguments, without what may be long.
fn shown(command: &Command) -> String {
    let command = command.as_std();
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words
        .map(OsStr::to_string_lossy)
        .filter(|word| word.len() < 80)
        .collect::<Vec<_>>()
        .join(" ")
}
