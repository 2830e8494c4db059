//! How the process ends, for scripts and for people (APP-162).

use std::process::ExitCode;

use runtime::cluster::OtherCluster;

/// Why the process ended otherwise than it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Something before the provider was made: flags, ports, certificates, the API server. Exit code 1.
    #[error("{}", paragraph(.0))]
    Setup(anyhow::Error),
    /// The lease is lost (APP-65, APP-81). The fence is closed; exit code 1.
    #[error("{0}")]
    LostLease(LostLease),
    /// The second signal: it ended in the middle of its work. Exit code 1.
    #[error("stopped at once by a second signal")]
    Impatience,
    /// The program panicked, where nothing goes on without what did. Exit code 2, as the reference's.
    #[error("the program ends because of a defect: {0}")]
    Defect(String),
    /// The provider, or a controller, cannot work; or the API server is not healthy in time. Exit code 255.
    #[error("{}", paragraph(.0))]
    Fatal(anyhow::Error),
}

/// Which lease was lost; the text is what operators search for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LostLease {
    /// The one that the process leads with.
    #[error("leaderelection lost")]
    Main,
    /// The one of the controllers that migrate.
    #[error("migration leaderelection lost")]
    Migration,
}

impl Failure {
    /// The process's exit code.
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

    /// A failure before the provider was made.
    pub fn setup(error: impl Into<anyhow::Error>) -> Self {
        Self::Setup(error.into())
    }

    /// The API server is another cluster's (INV-9). The fence is closed; nothing is waited for.
    pub(crate) fn another_cluster(other: OtherCluster) -> Self {
        Self::Fatal(anyhow::Error::new(other))
    }

    /// A failure after that, in words.
    #[must_use]
    pub fn fatal(text: impl Into<String>) -> Self {
        Self::Fatal(anyhow::Error::msg(text.into()))
    }
}

/// An error and its causes in one paragraph. Many errors repeat their cause in their own text; it is said once.
pub(crate) fn paragraph(error: &anyhow::Error) -> String {
    let mut said = String::new();
    for cause in error.chain() {
        let text = cause.to_string();
        // That a layer of the Kubernetes client failed says nothing.
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
