//! Serving over TCP and TLS.

use std::sync::Arc;

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Service as _;

use crate::server::ApiServer;
use crate::tls::{Certificate, TlsError};

impl ApiServer {
    /// Serves HTTP/1.1 and HTTP/2 without TLS until `shutdown`; open watches are then cut.
    pub async fn serve_tcp(&self, listener: TcpListener, shutdown: CancellationToken) {
        self.accept(listener, shutdown, None).await;
    }

    /// Serves HTTPS with `certificate` until `shutdown`.
    ///
    /// # Errors
    ///
    /// The certificate cannot be used.
    pub async fn serve_tls(
        &self,
        listener: TcpListener,
        certificate: &Certificate,
        shutdown: CancellationToken,
    ) -> Result<(), TlsError> {
        let config = certificate.server_config()?;
        self.accept(
            listener,
            shutdown,
            Some(tokio_rustls::TlsAcceptor::from(Arc::new(config))),
        )
        .await;
        Ok(())
    }

    async fn accept(
        &self,
        listener: TcpListener,
        shutdown: CancellationToken,
        tls: Option<tokio_rustls::TlsAcceptor>,
    ) {
        let connections = TaskTracker::new();
        loop {
            let accepted = tokio::select! {
                () = shutdown.cancelled() => break,
                accepted = listener.accept() => accepted,
            };
            let Ok((stream, peer)) = accepted else {
                // Out of descriptors or the peer gave up already: the next one may do better.
                tokio::task::yield_now().await;
                continue;
            };
            // Small answers must not wait for the next packet.
            let _unsupported = stream.set_nodelay(true);
            let server = self.clone();
            let shutdown = shutdown.clone();
            let tls = tls.clone();
            connections.spawn(async move {
                let Some(tls) = tls else {
                    return server.connection(stream, shutdown).await;
                };
                match tls.accept(stream).await {
                    Ok(stream) => server.connection(stream, shutdown).await,
                    Err(error) => tracing::debug!(%peer, %error, "TLS handshake failed"),
                }
            });
        }
        connections.close();
        connections.wait().await;
    }

    async fn connection<S>(&self, stream: S, shutdown: CancellationToken)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let service = self.service();
        let service =
            hyper::service::service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
                let mut service = service.clone();
                // After an error, hyper closes the connection without a response.
                async move { service.call(request).await }
            });
        let builder = Builder::new(TokioExecutor::new());
        let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
        tokio::select! {
            () = shutdown.cancelled() => {}
            result = connection => {
                if let Err(error) = result {
                    tracing::trace!(%error, "connection ended");
                }
            }
        }
    }
}
