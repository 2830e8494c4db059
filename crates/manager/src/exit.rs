//! Failures of the process and their exit codes (APP-162).

use std::any::Any;
use std::process::ExitCode;

use runtime::cluster::OtherCluster;

use crate::logging;

/// Error that ends the process. Its exit code is [`code`](Failure::code).
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The start failed before the provider was created: flags, ports, certificates or API server. Exit code 1.
    #[error("{}", paragraph(.0))]
    Setup(anyhow::Error),
    /// The lease was lost (APP-65, APP-81). The fence is closed. Exit code 1.
    #[error("{0}")]
    LostLease(LostLease),
    /// A second SIGTERM or SIGINT ended the process without a graceful shutdown. Exit code 1.
    #[error("stopped at once by a second signal")]
    SecondSignal,
    /// The main task panicked. Exit code 2, like the Go program's.
    #[error("the process ends because of a panic: {0}")]
    Panic(String),
    /// The provider or a controller cannot work, or the API server did not become healthy in time. Exit code 255.
    #[error("{}", paragraph(.0))]
    Fatal(anyhow::Error),
}

/// The lost lease. The texts are those of the Go program, because alerts match them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LostLease {
    /// The lease of the process.
    #[error("leaderelection lost")]
    Main,
    /// The lease of the controllers that migrate.
    #[error("migration leaderelection lost")]
    Migration,
}

impl Failure {
    /// Returns the exit code of the process: 1, 2 or 255.
    ///
    /// ```
    /// use manager::{Failure, LostLease};
    ///
    /// assert_eq!(Failure::LostLease(LostLease::Main).code(), 1);
    /// assert_eq!(Failure::fatal("no such cloud").code(), 255);
    /// ```
    #[must_use]
    pub fn code(&self) -> u8 {
        match self {
            Self::Setup(_) | Self::LostLease(_) | Self::SecondSignal => 1,
            Self::Panic(_) => 2,
            Self::Fatal(_) => 255,
        }
    }

    /// Logs the failure. A fatal one is logged as the Go program logs it.
    pub(crate) fn log(&self) {
        match self {
            Self::Fatal(_) => logging::fatal(&self.to_string()),
            _ => tracing::error!("{self}"),
        }
    }

    /// Returns a failure from before the provider was created.
    pub fn setup(error: impl Into<anyhow::Error>) -> Self {
        Self::Setup(error.into())
    }

    /// Returns the failure for an API server that belongs to another cluster (INV-9). The fence is closed, and the
    /// process ends without waiting.
    pub(crate) fn another_cluster(other: OtherCluster) -> Self {
        Self::Fatal(anyhow::Error::new(other))
    }

    /// Returns a failure with this text from after the provider was created.
    #[must_use]
    pub fn fatal(text: impl Into<String>) -> Self {
        Self::Fatal(anyhow::Error::msg(text.into()))
    }
}

/// Formats an error and its causes as one paragraph. A cause that another error's text already contains is not
/// repeated.
pub(crate) fn paragraph(error: &anyhow::Error) -> String {
    let mut said = String::new();
    for cause in error.chain() {
        let text = cause.to_string();
        // The name of the client's layer that failed has no information.
        let text = text.trim_start_matches("ServiceError: ");
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        if !said.contains(&text) {
            let colon = if said.is_empty() { "" } else { ": " };
            said.push_str(colon);
            said.push_str(&text);
        }
    }
    said
}

/// Returns the message of a panic, whose location the panic hook has logged already.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic".to_owned())
}

impl From<&Failure> for ExitCode {
    fn from(failure: &Failure) -> Self {
        failure.code().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panic_of_the_main_task_ends_the_process_with_2_and_second_signal_with_1() {
        let panic = std::panic::catch_unwind(|| panic!("no {}", "zone")).unwrap_err();
        let failure = Failure::Panic(panic_message(&*panic));
        assert_eq!(
            (failure.code(), failure.to_string().contains("no zone")),
            (2, true),
            "{failure}"
        );
        assert_eq!(Failure::SecondSignal.code(), 1);
    }

    #[test]
    fn each_cause_is_told_once_and_on_one_line() {
        let io = || std::io::Error::other("Address already\n  in use");
        #[derive(Debug, thiserror::Error)]
        #[error("cannot listen on --secure-port: {0}; choose another")]
        struct Repeats(#[source] std::io::Error);
        let error = anyhow::Error::new(Repeats(io())).context("no server");
        let text =
            "no server: cannot listen on --secure-port: Address already in use; choose another";
        assert_eq!(Failure::Setup(error).to_string(), text);
        assert_eq!(
            Failure::Fatal(anyhow::Error::new(io()).context("x")).to_string(),
            "x: Address already in use"
        );
        let client = anyhow::Error::new(kube::Error::Service(Box::new(io())));
        assert_eq!(
            Failure::Fatal(client.context("x")).to_string(),
            "x: Address already in use"
        );
    }
}
