//! The binary under test as a process of its own.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

use crate::usage::{self, Usage};

/// Lines of the log that a failure shows.
const TAIL: usize = 40;

/// A running binary, which is killed on drop.
pub struct Controller {
    child: Child,
    pid: u32,
    log: PathBuf,
}

impl Controller {
    /// Starts `binary`; what it writes goes to `log`.
    ///
    /// # Errors
    /// The binary cannot be started.
    pub fn start(
        binary: &Path,
        arguments: impl IntoIterator<Item = OsString>,
        log: &Path,
    ) -> Result<Self> {
        Self::start_with(binary, arguments, &[], log)
    }

    /// Starts the binary like [`start`](Self::start), with further environment variables.
    ///
    /// # Errors
    /// The binary cannot be started.
    pub fn start_with(
        binary: &Path,
        arguments: impl IntoIterator<Item = OsString>,
        environment: &[(String, String)],
        log: &Path,
    ) -> Result<Self> {
        Self::spawn(Command::new(binary), arguments, environment, log)
    }

    /// Starts the binary with these environment variables and none of this process.
    ///
    /// # Errors
    /// The binary cannot be started.
    pub fn start_alone(
        binary: &Path,
        arguments: impl IntoIterator<Item = OsString>,
        environment: &[(String, String)],
        log: &Path,
    ) -> Result<Self> {
        let mut command = Command::new(binary);
        command.env_clear();
        Self::spawn(command, arguments, environment, log)
    }

    fn spawn(
        mut command: Command,
        arguments: impl IntoIterator<Item = OsString>,
        environment: &[(String, String)],
        log: &Path,
    ) -> Result<Self> {
        let file =
            std::fs::File::create(log).with_context(|| format!("creating {}", log.display()))?;
        let child = command
            .args(arguments)
            .env("NO_COLOR", "1")
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("starting {}", command.as_std().get_program().display()))?;
        let pid = child.id().context("the process has no id")?;
        Ok(Self {
            child,
            pid,
            log: log.to_owned(),
        })
    }

    /// Returns the ID of the process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns the processor time and memory that the process has used so far.
    ///
    /// # Errors
    /// The process has ended.
    pub fn usage(&self) -> Result<Usage> {
        usage::of(self.pid)
    }

    /// Checks that the process still runs.
    ///
    /// # Errors The process has ended; the text names its exit status.
    pub fn check(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("the binary ended by itself ({status})"),
        }
    }

    /// Freezes it: it misses what happens until [`resume`](Self::resume).
    ///
    /// # Errors
    /// The process has ended.
    pub fn freeze(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// Continues the frozen process.
    ///
    /// # Errors
    /// The process has ended.
    pub fn resume(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    /// Asks it to end, as an operator does, and waits for that.
    ///
    /// # Errors
    /// The process does not end within `limit`.
    pub async fn stop(&mut self, limit: Duration) -> Result<ExitStatus> {
        self.ask_to_end()?;
        self.ended(limit).await.context("after SIGTERM")
    }

    /// Asks it to end, as an operator does.
    ///
    /// # Errors
    /// The process has already ended.
    pub fn ask_to_end(&mut self) -> Result<()> {
        self.check()?;
        self.signal(Signal::TERM)
    }

    /// Waits until it has ended.
    ///
    /// # Errors
    /// The process does not end within `limit`.
    pub async fn ended(&mut self, limit: Duration) -> Result<ExitStatus> {
        match tokio::time::timeout(limit, self.child.wait()).await {
            Ok(status) => Ok(status?),
            Err(_) => bail!("the binary did not end within {limit:?}"),
        }
    }

    /// Kills the process like a crash or the kernel, so that it cannot finish or log anything. Returns when it has
    /// ended.
    ///
    /// # Errors
    /// The process has already ended.
    pub async fn kill(&mut self) -> Result<()> {
        self.check()?;
        Ok(self.child.kill().await?)
    }

    /// Returns the path of the log.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.log
    }

    /// Returns the log so far.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_else(|error| format!("(no log: {error})"))
    }

    /// Returns the last lines of what it wrote.
    #[must_use]
    pub fn tail(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(TAIL)..].join("\n")
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.pid)
            .ok()
            .and_then(Pid::from_raw)
            .context("an impossible process id")?;
        kill_process(pid, signal).with_context(|| format!("signal to process {}", self.pid))
    }
}
