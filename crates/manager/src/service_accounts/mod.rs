//! Clients that act as a service account of their own (`--use-service-account-credentials`, APP-50 to APP-52).
//!
//! With these, each controller has its own permissions: it speaks as the account of its client name in namespace
//! `kube-system`, not as the process. The process's identity only makes the accounts and asks for their tokens.
//!
//! ```no_run
//! # async fn example(main: kube::Client, options: runtime::client::ClientOptions) -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use cloud_provider::names::ROUTE_CONTROLLER;
//! use manager::service_accounts::ServiceAccountClients;
//! use runtime::client::NoRequestMetrics;
//!
//! let clients = ServiceAccountClients::new(main, options);
//! let client = clients.client(ROUTE_CONTROLLER.client_identity, Arc::new(NoRequestMetrics)).await?;
//! # Ok(())
//! # }
//! ```

mod account;
mod bearer;
mod error;
#[cfg(test)]
mod tests;
mod token;
mod token_source;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use cloud_provider::Fence;
use kube::Client;
use runtime::client::{ClientOptions, Limits, RequestMetrics, connect_as, wrap};
use runtime::clock::{Clock, SystemClock};

use self::account::Account;
pub use self::error::ServiceAccountError;
use self::token_source::TokenSource;

/// Where the accounts are.
pub(crate) const NAMESPACE: &str = "kube-system";

/// Makes clients that act as service accounts. Clones share the tokens: there is one cache for each client name.
#[derive(Clone)]
pub struct ServiceAccountClients {
    main: Client,
    base: Base,
    clock: Arc<dyn Clock>,
    sources: Arc<Mutex<HashMap<String, Arc<TokenSource>>>>,
}

/// What the clients are made of.
#[derive(Clone)]
enum Base {
    /// A server that a configuration leads to.
    Configured(Box<ClientOptions>),
    /// A client without a credential.
    Bare { client: Client, options: Box<ClientOptions>, limits: Limits },
}

impl ServiceAccountClients {
    /// Clients for the server that `options` lead to, with its limits and its fence, but without its credential. `main` has
    /// the process's identity: it makes the accounts and asks for tokens.
    #[must_use]
    pub fn new(main: Client, options: ClientOptions) -> Self {
        Self::with_base(main, Base::Configured(Box::new(options)), Arc::new(SystemClock))
    }

    /// Clients over one that has no credential, as for an API server inside this process. Of `options` only the program's
    /// name is used. `clock` tells how long a token still lives.
    #[must_use]
    pub fn over(main: Client, bare: Client, options: ClientOptions, limits: Limits, clock: Arc<dyn Clock>) -> Self {
        Self::with_base(main, Base::Bare { client: bare, options: Box::new(options), limits }, clock)
    }

    fn with_base(main: Client, base: Base, clock: Arc<dyn Clock>) -> Self {
        Self { main, base, clock, sources: Arc::default() }
    }

    /// The same, with another fence (INV-4) than that of the options; the tokens are shared.
    #[must_use]
    pub fn with_fence(mut self, fence: Fence) -> Self {
        match &mut self.base {
            Base::Configured(options) => options.fence = fence,
            Base::Bare { limits, .. } => limits.fence = fence,
        }
        self
    }

    /// A client that acts as the account `name`, which is made if there is none. `name` is a controller's
    /// [`client_identity`](cloud_provider::names::ControllerNames::client_identity) or what a provider calls itself. Its
    /// token is asked for with the first request.
    ///
    /// # Errors
    /// [`ServiceAccountError`]: the account is not there and cannot be made, or the configuration leads to no server.
    pub async fn client(&self, name: &str, metrics: Arc<dyn RequestMetrics>) -> Result<Client, ServiceAccountError> {
        let source = self.source(name);
        source.account().ensure().await?;
        let identity = format!("system:serviceaccount:{NAMESPACE}:{name}");
        match &self.base {
            Base::Configured(options) => {
                let made = connect_as(options, &identity, metrics, |bare| bearer::over(bare, source)).await;
                made.map_err(Into::into)
            }
            Base::Bare { client, options, limits } => {
                let agent = options.user_agent.with_suffix(&identity);
                Ok(wrap(&bearer::over(client, source), "in-process", &agent, limits, metrics))
            }
        }
    }

    fn source(&self, name: &str) -> Arc<TokenSource> {
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        let made = || {
            let account = Account::new(self.main.clone(), NAMESPACE, name);
            Arc::new(TokenSource::new(account, Arc::clone(&self.clock)))
        };
        Arc::clone(sources.entry(name.to_owned()).or_insert_with(made))
    }
}
