//! Exec credential plugins: programs that a kubeconfig names, which print a credential.
//!
//! kube-client waits for them without a limit, and three times for each client.

use std::collections::HashMap;
use std::io::{self, IsTerminal as _, Read};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::sleep;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use kube::config::{ExecConfig, ExecInteractiveMode};
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;
use serde_json::{Value, json};

/// Time after which a plugin is killed. Plugins of clouds call a service on the internet, which takes some seconds.
pub(super) const PLUGIN_TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes that a plugin may print. A chain of certificates with its key has some ten thousand.
const LONGEST: usize = 1 << 20;
/// Maximum number of characters that are kept of a plugin's standard error.
const MAX_STDERR: usize = 300;
/// Interval of the checks that a plugin which has closed its output has also exited.
const PERIOD: Duration = Duration::from_millis(5);

/// The credential that a plugin printed.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PluginCredential {
    pub(super) token: Option<String>,
    #[serde(rename = "clientCertificateData")]
    pub(super) certificate: Option<String>,
    #[serde(rename = "clientKeyData")]
    pub(super) key: Option<String>,
    /// Expiry of the credential.
    #[serde(rename = "expirationTimestamp")]
    pub(super) end: Option<Timestamp>,
}

/// Runs a plugin, which is killed after `timeout`.
///
/// # Errors
/// Why there is no credential, without anything secret: neither arguments nor variables, nor what the plugin printed.
pub(super) async fn run(exec: ExecConfig, timeout: Duration) -> Result<PluginCredential, String> {
    let run = tokio::task::spawn_blocking(move || output(&exec, timeout));
    let stdout = run.await.map_err(|error| error.to_string()).flatten();
    stdout
        .and_then(|stdout| parse(&stdout))
        .map_err(|problem| format!("exec plugin: {problem}"))
}

fn parse(stdout: &[u8]) -> Result<PluginCredential, String> {
    let value: Value = serde_saphyr::from_slice(stdout).map_err(|error| {
        let location = error
            .location()
            .map(|at| format!(" in line {}, column {}", at.line(), at.column()));
        format!(
            "its answer is no ExecCredential{}",
            location.unwrap_or_default()
        )
    })?;
    let status = value
        .get("status")
        .filter(|status| status.is_object())
        .ok_or("its answer has no status")?;
    PluginCredential::deserialize(status)
        .map_err(|_| "the status of its answer has a field of another form".to_owned())
}

fn output(exec: &ExecConfig, timeout: Duration) -> Result<Vec<u8>, String> {
    let is_interactive =
        exec.interactive_mode != Some(ExecInteractiveMode::Never) && io::stdin().is_terminal();
    if !is_interactive && exec.interactive_mode == Some(ExecInteractiveMode::Always) {
        return Err(
            "its interactiveMode is Always, which needs a terminal; use a plugin that needs no input".to_owned()
        );
    }
    let mut command = command(exec, is_interactive)?;
    let child = command.spawn().map_err(|error| {
        let hint = exec
            .install_hint
            .as_deref()
            .map(|hint| format!("; {}", words(hint)))
            .unwrap_or_default();
        format!(
            "{} cannot be started: {error}{hint}",
            exec.command.as_deref().unwrap_or_default()
        )
    })?;
    let mut running = Running {
        child,
        is_group: !is_interactive,
    };
    let ended = running.wait(Instant::now() + timeout);
    running.end();
    let Ended {
        stdout,
        stderr,
        status,
    } = ended.map_err(|why| match why {
        Failure::TooLong => format!("it printed more than {LONGEST} bytes and was killed"),
        Failure::TooLate => format!(
            "it did not finish within {} s and was killed",
            timeout.as_secs()
        ),
        Failure::Io(error) => format!("its answer cannot be read: {error}"),
    })?;
    if !status.success() {
        let stderr = words(&String::from_utf8_lossy(&stderr));
        let colon = if stderr.is_empty() { "" } else { ": " };
        return Err(format!("it ended with {status}{colon}{stderr}"));
    }
    Ok(stdout)
}

fn command(exec: &ExecConfig, is_interactive: bool) -> Result<Command, String> {
    let mut command = Command::new(
        exec.command
            .as_ref()
            .ok_or("the kubeconfig names no command")?,
    );
    command
        .args(exec.args.iter().flatten())
        .stdout(Stdio::piped());
    if is_interactive {
        command.stdin(Stdio::inherit()).stderr(Stdio::inherit());
    } else {
        // A separate process group, so that child processes of the plugin are killed with it.
        command
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0);
    }
    let value = |variable: &HashMap<String, String>| {
        Some((
            variable.get("name")?.clone(),
            variable.get("value")?.clone(),
        ))
    };
    command.envs(exec.env.iter().flatten().filter_map(value));
    let cluster = match exec.provide_cluster_info {
        true => Some(exec.cluster.as_ref().ok_or(
            "provideClusterInfo is set, but the kubeconfig has no cluster for the plugin",
        )?),
        false => None,
    };
    let mut spec = json!({"interactive": is_interactive});
    if let Some(cluster) = cluster {
        spec["cluster"] = serde_json::to_value(cluster)
            .map_err(|_| "the cluster information for the plugin cannot be encoded as JSON")?;
    }
    let info = json!({"kind": "ExecCredential", "apiVersion": exec.api_version, "spec": spec});
    command.env("KUBERNETES_EXEC_INFO", info.to_string());
    for name in exec.drop_env.iter().flatten() {
        command.env_remove(name);
    }
    Ok(command)
}

/// Returns `text` on one line, cut to [`MAX_STDERR`] characters.
fn words(text: &str) -> String {
    text.split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .chars()
        .take(MAX_STDERR)
        .collect()
}

struct Running {
    child: Child,
    is_group: bool,
}

struct Ended {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    status: ExitStatus,
}

enum Failure {
    TooLong,
    TooLate,
    Io(io::Error),
}

impl Running {
    fn wait(&mut self, deadline: Instant) -> Result<Ended, Failure> {
        let stdout = self.child.stdout.take().map(read);
        let stderr = self.child.stderr.take().map(read);
        let stdout = received(stdout, deadline)?;
        if stdout.len() > LONGEST {
            return Err(Failure::TooLong);
        }
        let stderr = received(stderr, deadline)?;
        loop {
            match self.child.try_wait().map_err(Failure::Io)? {
                Some(status) => {
                    return Ok(Ended {
                        stdout,
                        stderr,
                        status,
                    });
                }
                None if Instant::now() >= deadline => return Err(Failure::TooLate),
                None => sleep(PERIOD),
            }
        }
    }

    /// Kills the plugin and its child processes if they still run, and waits for their end.
    fn end(&mut self) {
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        if self.is_group {
            _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        }
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// Reads an output to its end, but at most one byte more than is accepted. Uses a separate thread, because child
/// processes of the plugin may keep the output open.
fn read(from: impl Read + Send + 'static) -> Receiver<io::Result<Vec<u8>>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || send_all(from, &sender));
    receiver
}

fn send_all(from: impl Read, to: &Sender<io::Result<Vec<u8>>>) {
    let mut bytes = Vec::new();
    let read = from.take(LONGEST as u64 + 1).read_to_end(&mut bytes);
    // The receiver no longer exists after a time-out.
    _ = to.send(read.map(|_| bytes));
}

fn received(
    from: Option<Receiver<io::Result<Vec<u8>>>>,
    deadline: Instant,
) -> Result<Vec<u8>, Failure> {
    let Some(from) = from else {
        return Ok(Vec::new());
    };
    let left = deadline.saturating_duration_since(Instant::now());
    from.recv_timeout(left)
        .map_err(|_| Failure::TooLate)?
        .map_err(Failure::Io)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn run_script(script: &str, timeout: Duration) -> Result<PluginCredential, String> {
        let exec = json!({
            "apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "interactiveMode": "Never",
            "args": ["-c", script, "s3cr3t-argument"], "env": [{"name": "KEY", "value": "s3cr3t"}],
        });
        run(serde_json::from_value(exec).unwrap(), timeout).await
    }

    fn problem(outcome: Result<PluginCredential, String>) -> String {
        outcome.map(|_| ()).unwrap_err()
    }

    #[tokio::test]
    async fn a_plugin_is_told_its_version_and_gives_token_certificate_and_end() {
        let script = r#"case "$KUBERNETES_EXEC_INFO" in *'"client.authentication.k8s.io/v1"'*) ;; *) exit 1;; esac
            echo "status: {token: $KEY-token, clientCertificateData: c, clientKeyData: k,
                   expirationTimestamp: '2030-01-01T00:00:00Z'}""#;
        let given = run_script(script, PLUGIN_TIMEOUT).await.unwrap();
        assert_eq!(given.token.as_deref(), Some("s3cr3t-token"));
        assert_eq!(
            (given.certificate.as_deref(), given.key.as_deref()),
            (Some("c"), Some("k"))
        );
        assert_eq!(given.end, Some("2030-01-01T00:00:00Z".parse().unwrap()));
    }

    #[tokio::test]
    async fn a_plugin_that_hangs_is_killed_with_what_it_started() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let script = format!("sleep 3600 & echo $! > {}; wait", file.path().display());
        // Long enough for the shell to write the number of its child.
        let problem = problem(run_script(&script, Duration::from_secs(2)).await);
        assert_eq!(
            problem,
            "exec plugin: it did not finish within 2 s and was killed"
        );
        let child = std::fs::read_to_string(file.path()).unwrap();
        let state =
            || std::fs::read_to_string(format!("/proc/{}/stat", child.trim())).unwrap_or_default();
        // An orphan remains a zombie until its new parent has reaped it.
        while !(state().is_empty() || state().contains(") Z ")) {
            std::thread::yield_now();
        }
    }

    #[tokio::test]
    async fn a_plugin_that_prints_without_an_end_is_ended() {
        let problem = problem(run_script("cat /dev/zero", PLUGIN_TIMEOUT).await);
        assert_eq!(
            problem,
            "exec plugin: it printed more than 1048576 bytes and was killed"
        );
    }

    #[tokio::test]
    async fn error_of_a_failed_plugin_has_only_its_status_and_stderr() {
        let table = [
            (
                "echo s3cr3t-token; echo 'please\n log in' >&2; exit 3",
                "it ended with exit status: 3: please log in",
            ),
            ("exit 1", "it ended with exit status: 1"),
            (
                "echo '{status: {token: [s3cr3t}'",
                "its answer is no ExecCredential in line 1",
            ),
            (
                "echo '{status: {token: [s3cr3t]}}'",
                "the status of its answer has a field of another form",
            ),
            ("echo s3cr3t", "its answer has no status"),
        ];
        for (script, expected) in table {
            let problem = problem(run_script(script, PLUGIN_TIMEOUT).await);
            assert!(
                problem.contains(expected) && !problem.contains("s3cr3t"),
                "{problem}"
            );
        }
        let missing =
            json!({"command": "/no/such/plugin", "args": ["s3cr3t"], "installHint": "install\nit"});
        let problem = problem(run(serde_json::from_value(missing).unwrap(), PLUGIN_TIMEOUT).await);
        assert!(
            problem.starts_with("exec plugin: /no/such/plugin cannot be started: "),
            "{problem}"
        );
        assert!(
            problem.ends_with("; install it") && !problem.contains("s3cr3t"),
            "{problem}"
        );
    }
}
