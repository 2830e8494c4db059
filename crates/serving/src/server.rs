//! An HTTP server: the port, TLS, limits, and a graceful end (APP-110 to APP-115).

mod accept;
mod activity;
mod admission;
mod budget;
mod connection;
mod limits;
mod share;
mod socket;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub use activity::RequestTimeout;
pub use budget::Budget;
pub use connection::Peer;
pub use limits::{Limit, Limits, NoServerMetrics, ServerMetrics};

use crate::access::ClientCas;
use crate::error::ServingError;
use crate::options::ServingOptions;
use crate::tls::{Certificates, Tls};

/// An open port that is not served yet.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), serving::ServingError> {
/// use serving::options::ServingOptions;
/// use serving::server::Listener;
/// use tokio_util::sync::CancellationToken;
///
/// // Port 0 is any free port.
/// let listener = Listener::bind(&ServingOptions { port: 0, ..ServingOptions::default() })?;
/// println!("https://localhost:{}", listener.local_address().port());
/// let shutdown = CancellationToken::new();
/// # shutdown.cancel();
/// listener.serve(axum::Router::new().fallback(serving::not_found), shutdown).await;
/// # Ok(())
/// # }
/// ```
pub struct Listener {
    tcp: TcpListener,
    address: SocketAddr,
    tls: Option<Tls>,
    /// Routes for callers without TLS on a port that has TLS.
    plain: Option<Router>,
    limits: Limits,
    budget: Budget,
    metrics: Arc<dyn ServerMetrics>,
}

impl Listener {
    /// Opens the port, and loads or generates the certificates, so that their errors are reported before anything else
    /// is done (APP-4, APP-7).
    ///
    /// Port 0 opens any free port; callers that treat 0 as "disabled" (APP-107) must not call this function. Must be
    /// called within a tokio runtime.
    ///
    /// # Errors
    /// [`ServingError`] names the remedy; for a port that is in use it names the flag (P-36).
    pub fn bind(options: &ServingOptions) -> Result<Self, ServingError> {
        // The order of APP-4 and APP-7: an invalid certificate is reported before a port that is in use.
        let certificates = Certificates::load(options, jiff::Timestamp::now())?;
        let tls = Tls::new(options, certificates)?;
        let (tcp, address) = socket::listen(options)?;
        let limits = Limits::standard(options.http2_max_streams);
        Ok(Self::new(tcp, address, Some(tls), limits))
    }

    /// Opens a port for plain HTTP/1.1: the optional listener for metrics (P-38, APP-128).
    ///
    /// # Errors
    /// Errors of [`bind`](Self::bind).
    pub fn bind_plain(
        address: IpAddr,
        port: u16,
        port_flag: &'static str,
    ) -> Result<Self, ServingError> {
        let options = ServingOptions {
            bind_address: address,
            port,
            port_flag,
            ..ServingOptions::default()
        };
        let (tcp, address) = socket::listen(&options)?;
        Ok(Self::new(tcp, address, None, Limits::standard(0)))
    }

    fn new(tcp: TcpListener, address: SocketAddr, tls: Option<Tls>, limits: Limits) -> Self {
        Self {
            tcp,
            address,
            tls,
            plain: None,
            limits,
            budget: Budget::default(),
            metrics: Arc::new(NoServerMetrics),
        }
    }

    /// Replaces the server's limits.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Shares requests and bytes in flight with other listeners.
    #[must_use]
    pub fn with_budget(mut self, budget: Budget) -> Self {
        self.budget = budget;
        self
    }

    /// Sets the metrics that count exceeded limits.
    #[must_use]
    pub fn with_metrics(mut self, metrics: Arc<dyn ServerMetrics>) -> Self {
        self.metrics = metrics;
        self
    }

    /// Requests a certificate from callers and sends them these authorities (APP-113). The certificate is verified for
    /// each request ([`Access`](crate::access::Access)), not here.
    #[must_use]
    pub fn with_client_cas(mut self, client_cas: ClientCas) -> Self {
        if let Some(tls) = &mut self.tls {
            tls.ask_clients(client_cas);
        }
        self
    }

    /// Answers callers without TLS with these routes, on a port that has TLS. The first byte of a connection tells HTTP
    /// and TLS apart. Without this call, such callers get 400. Nothing authenticates them
    /// ([`Health::plain_routes`](crate::health::Health::plain_routes)).
    #[must_use]
    pub fn with_plain_routes(mut self, routes: Router) -> Self {
        self.plain = Some(routes);
        self
    }

    /// Returns the address on which the server listens.
    #[must_use]
    pub fn local_address(&self) -> SocketAddr {
        self.address
    }

    /// Serves `router` until `shutdown`; then no connection is accepted any more, requests that are being answered are
    /// finished within [`Limits::drain`], and it returns.
    ///
    /// A handler that panics answers 500 and is logged. Certificates are read again every few seconds
    /// ([`Limits::reload`], APP-114).
    pub async fn serve(self, router: Router, shutdown: CancellationToken) {
        let Self {
            tcp,
            address,
            tls,
            plain,
            limits,
            budget,
            metrics,
        } = self;
        tracing::info!(%address, tls = tls.is_some(), "serving");
        let reload = async {
            match &tls {
                Some(tls) => tls.reload(limits.reload).await,
                None => std::future::pending().await,
            }
        };
        let service = connection::Service {
            router,
            plain,
            limits,
            budget,
            metrics,
            shutdown,
        };
        let accept = accept::accept(&tcp, tls.as_ref(), &service);
        tokio::select! {
            () = accept => {}
            () = reload => {}
        }
        tracing::info!(%address, "serving ended");
    }
}
