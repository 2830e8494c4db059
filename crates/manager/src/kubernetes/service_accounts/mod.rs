//! Clients that act as a ServiceAccount of their own (`--use-service-account-credentials`, APP-50 to APP-52).
//!
//! With these clients, each controller has its own permissions: it authenticates as the ServiceAccount of its client
//! name in namespace `kube-system`, not as the process. The process's identity only creates the accounts and requests
//! their tokens.
//!
//! ```no_run
//! # async fn example(main: kube::Client, options: runtime::client::ClientOptions) -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use cloud_provider::names::ROUTE_CONTROLLER;
//! use manager::ServiceAccountClients;
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
use std::sync::Arc;

use cloud_provider::Fence;
use kube::Client;
use parking_lot::Mutex;
use runtime::client::{ClientOptions, Limits, RequestMetrics, connect_as, wrap};
use runtime::clock::{Clock, SystemClock};

use self::account::Account;
pub use self::error::ServiceAccountError;
use self::token_source::TokenSource;

/// Namespace of the ServiceAccounts.
pub(crate) const NAMESPACE: &str = "kube-system";

/// Creates clients that act as ServiceAccounts. Clones share the tokens; there is one token cache for each client name.
#[derive(Clone)]
pub struct ServiceAccountClients {
    main: Client,
    base: Base,
    clock: Arc<dyn Clock>,
    sources: Arc<Mutex<HashMap<String, Arc<TokenSource>>>>,
}

/// The connection that the clients are built on.
#[derive(Clone)]
enum Base {
    /// A server that a configuration leads to.
    Configured(Box<ClientOptions>),
    /// A client without a credential.
    Bare {
        client: Client,
        options: Box<ClientOptions>,
        limits: Limits,
    },
}

impl ServiceAccountClients {
    /// Returns clients for the server, the limits and the fence of `options`, without the credential of `options`.
    /// `main` has the process's identity; it creates the accounts and requests tokens.
    #[must_use]
    pub fn new(main: Client, options: ClientOptions) -> Self {
        Self::with_base(
            main,
            Base::Configured(Box::new(options)),
            Arc::new(SystemClock),
        )
    }

    /// Returns clients on top of `bare`, which has no credential, such as the client of an API server inside this
    /// process. Of `options`, only the program's name is used. `clock` determines the remaining lifetime of tokens.
    #[must_use]
    pub fn over(
        main: Client,
        bare: Client,
        options: ClientOptions,
        limits: Limits,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self::with_base(
            main,
            Base::Bare {
                client: bare,
                options: Box::new(options),
                limits,
            },
            clock,
        )
    }

    fn with_base(main: Client, base: Base, clock: Arc<dyn Clock>) -> Self {
        Self {
            main,
            base,
            clock,
            sources: Arc::default(),
        }
    }

    /// Returns these clients with another fence (INV-4). The tokens are shared.
    #[must_use]
    pub fn with_fence(mut self, fence: Fence) -> Self {
        match &mut self.base {
            Base::Configured(options) => options.fence = fence,
            Base::Bare { limits, .. } => limits.fence = fence,
        }
        self
    }

    /// Returns a client that acts as the ServiceAccount `name`, and creates the account if it does not exist. `name` is
    /// a controller's [`client_identity`](cloud_provider::names::ControllerNames::client_identity) or a component name
    /// of a provider. The token is requested with the first request.
    ///
    /// # Errors
    /// [`ServiceAccountError`]: the account does not exist and cannot be created, or the configuration names no server.
    pub async fn client(
        &self,
        name: &str,
        metrics: Arc<dyn RequestMetrics>,
    ) -> Result<Client, ServiceAccountError> {
        let source = self.source(name);
        source.account().ensure().await?;
        let identity = format!("system:serviceaccount:{NAMESPACE}:{name}");
        match &self.base {
            Base::Configured(options) => {
                let made = connect_as(options, &identity, metrics, |bare| {
                    bearer::over(bare, source)
                })
                .await;
                made.map_err(Into::into)
            }
            Base::Bare {
                client,
                options,
                limits,
            } => {
                let agent = options.user_agent.with_suffix(&identity);
                Ok(wrap(
                    &bearer::over(client, source),
                    "in-process",
                    &agent,
                    limits,
                    metrics,
                ))
            }
        }
    }

    fn source(&self, name: &str) -> Arc<TokenSource> {
        let mut sources = self.sources.lock();
        let made = || {
            let account = Account::new(self.main.clone(), NAMESPACE, name);
            Arc::new(TokenSource::new(account, Arc::clone(&self.clock)))
        };
        Arc::clone(sources.entry(name.to_owned()).or_insert_with(made))
    }
}
