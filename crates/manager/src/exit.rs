//! Failures of the process and their exit codes (APP-162).

use std::process::ExitCode;

use runtime::cluster::OtherCluster;

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
    Impatience,
    /// The main task panicked. Exit code 2, like the Go program's.
    #[error("the process ends because of a panic: {0}")]
    Defect(String),
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
            Self::Setup(_) | Self::LostLease(_) | Self::Impatience => 1,
            Self::Defect(_) => 2,
            Self::Fatal(_) => 255,
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

impl From<&Failure> for ExitCode {
    fn from(failure: &Failure) -> Self {
        failure.code().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_is_told_once_and_on_one_line() {
        let io = || std::io::Error::other("Address already\n  in use");
        #[derive(Debug, thiserror::Error)]
        #[error("cannot listen on --secure-port: {0}; choose another")]
        struct Repeats(#[source] std::io::Error);
        let error = anyhow::Error::new(Repeats(io())).context("no server");
        let text = "no server: cannot listen on --secure-port: Address already in use; choose another";
        assert_eq!(Failure::Setup(error).to_string(), text);
        assert_eq!(Failure::Fatal(anyhow::Error::new(io()).context("x")).to_string(), "x: Address already in use");
        let client = anyhow::Error::new(kube::Error::Service(Box::new(io())));
        assert_eq!(Failure::Fatal(client.context("x")).to_string(), "x: Address already in use");
    }
}
