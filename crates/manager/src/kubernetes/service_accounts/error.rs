//! Errors of ServiceAccount clients.

use std::fmt;
use std::sync::Arc;

use runtime::api_error::{api_error, is_forbidden};
use runtime::client::ClientError;

/// The reason why there is no client that acts as a ServiceAccount.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ServiceAccountError {
    /// The account cannot be read or created, or no token is issued. The text names the missing permission.
    #[error("{doing} {namespace}/{name}: {text}")]
    Account {
        /// Request about the account that failed.
        doing: Doing,
        /// Namespace of the account.
        namespace: String,
        /// Name of the account.
        name: String,
        /// Answer of the API server, and the remedy.
        text: String,
        /// If set, the process's identity lacks a permission (DEP-10, DEP-11).
        forbidden: bool,
    },
    /// The client cannot be built.
    #[error("{0}")]
    Client(Arc<ClientError>),
}

/// A request for an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// The request that reads the account.
    Get,
    /// The request that creates the account.
    Create,
    /// The request for a token of the account.
    RequestToken,
}

impl fmt::Display for Doing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Get => "failed to get service account",
            Self::Create => "failed to create service account",
            // The wording of the Go program.
            Self::RequestToken => "failed to get token for",
        })
    }
}

impl ServiceAccountError {
    pub(super) fn of(namespace: &str, name: &str, doing: Doing, error: kube::Error) -> Self {
        let forbidden = is_forbidden(&error);
        let mut text = match error {
            // The error's text might quote an answer that holds a token.
            kube::Error::SerdeError(_) => "the API server's answer cannot be read".to_owned(),
            error => api_error(&error).to_string(),
        };
        if forbidden {
            text = format!("{text}; {}", remedy(namespace, name, doing));
        }
        Self::Account {
            doing,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            text,
            forbidden,
        }
    }

    /// Returns the same failure as a failure to get a token.
    pub(super) fn while_getting_a_token(self) -> Self {
        match self {
            Self::Account {
                doing,
                namespace,
                name,
                text,
                forbidden,
            } if doing != Doing::RequestToken => {
                let text = format!("{doing}: {text}");
                Self::Account {
                    doing: Doing::RequestToken,
                    namespace,
                    name,
                    text,
                    forbidden,
                }
            }
            error => error,
        }
    }
}

impl From<ClientError> for ServiceAccountError {
    fn from(error: ClientError) -> Self {
        Self::Client(Arc::new(error))
    }
}

/// Returns the permission to grant to the process's own identity.
fn remedy(namespace: &str, name: &str, doing: Doing) -> String {
    let role = format!(
        "with --use-service-account-credentials this process's identity needs, in namespace {namespace},"
    );
    let otherwise = "or leave the flag out";
    match doing {
        Doing::Get => {
            format!("{role} verbs get and create on serviceaccounts; grant them {otherwise}")
        }
        Doing::Create => {
            format!(
                "{role} verb create on serviceaccounts; grant it, create the account {name} yourself, {otherwise}"
            )
        }
        Doing::RequestToken => {
            format!(
                "{role} verb create on serviceaccounts/token for the name {name}; grant it {otherwise}"
            )
        }
    }
}
