//! What goes wrong with accounts.

use std::fmt;
use std::sync::Arc;

use runtime::api_error::{api_error, is_forbidden};
use runtime::client::ClientError;

/// Why there is no client that acts as a service account.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ServiceAccountError {
    /// The account cannot be read or made, or gives no token. The text names the permission that is missing.
    #[error("{doing} {namespace}/{name}: {text}")]
    Account {
        /// What was tried.
        doing: Doing,
        /// The account's namespace.
        namespace: String,
        /// The account's name.
        name: String,
        /// What was answered, and what to do.
        text: String,
        /// Whether the process's identity lacks a permission (DEP-10, DEP-11).
        forbidden: bool,
    },
    /// No client can be made at all.
    #[error("{0}")]
    Client(Arc<ClientError>),
}

/// A request for an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// Looking for it.
    Get,
    /// Making it.
    Create,
    /// Asking for its token.
    RequestToken,
}

impl fmt::Display for Doing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Get => "failed to get service account",
            Self::Create => "failed to create service account",
            // Known from the reference.
            Self::RequestToken => "failed to get token for",
        })
    }
}

impl ServiceAccountError {
    pub(super) fn of(namespace: &str, name: &str, doing: Doing, error: kube::Error) -> Self {
        let forbidden = is_forbidden(&error);
        let mut text = match error {
            // Its text might quote from an answer that holds a token.
            kube::Error::SerdeError(_) => "the API server's answer cannot be read".to_owned(),
            error => api_error(&error).to_string(),
        };
        if forbidden {
            text = format!("{text}; {}", remedy(namespace, name, doing));
        }
        Self::Account { doing, namespace: namespace.to_owned(), name: name.to_owned(), text, forbidden }
    }

    /// The same failure, seen from the token that was wanted.
    pub(super) fn while_getting_a_token(self) -> Self {
        match self {
            Self::Account { doing, namespace, name, text, forbidden } if doing != Doing::RequestToken => {
                let text = format!("{doing}: {text}");
                Self::Account { doing: Doing::RequestToken, namespace, name, text, forbidden }
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

/// What to grant to the process's own identity.
fn remedy(namespace: &str, name: &str, doing: Doing) -> String {
    let role =
        format!("with --use-service-account-credentials this process's identity needs, in namespace {namespace},");
    let otherwise = "or leave the flag out";
    match doing {
        Doing::Get => format!("{role} verbs get and create on serviceaccounts; grant them {otherwise}"),
        Doing::Create => {
            format!("{role} verb create on serviceaccounts; grant it, create the account {name} yourself, {otherwise}")
        }
        Doing::RequestToken => {
            format!("{role} verb create on serviceaccounts/token for the name {name}; grant it {otherwise}")
        }
    }
}
