//! The TLS configuration of the moment.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use jiff::Timestamp;
use parking_lot::Mutex;
use rustls::{DistinguishedName, ServerConfig};
use tokio::time::MissedTickBehavior;

use super::certificates::Certificates;
use super::choices::TlsChoices;
use super::client::AnyCertificate;
use super::names::Names;
use crate::access::ClientCas;
use crate::error::ServingError;
use crate::options::ServingOptions;

/// Configuration of handshakes. Changes replace it for new connections; existing connections keep theirs.
pub(crate) struct Tls {
    choices: TlsChoices,
    disable_http2: bool,
    certificates: Arc<Mutex<Certificates>>,
    client_cas: Option<ClientCas>,
    current: ArcSwap<Current>,
}

struct Current {
    config: Arc<ServerConfig>,
    /// Generation of the authorities in the configuration.
    generation: u64,
}

impl Tls {
    pub(crate) fn new(
        options: &ServingOptions,
        certificates: Certificates,
    ) -> Result<Self, ServingError> {
        let choices = TlsChoices::new(options);
        let config = build(&choices, options.disable_http2, certificates.names(), None)?;
        Ok(Self {
            choices,
            disable_http2: options.disable_http2,
            certificates: Arc::new(Mutex::new(certificates)),
            client_cas: None,
            current: ArcSwap::from_pointee(Current {
                config: Arc::new(config),
                generation: 0,
            }),
        })
    }

    pub(crate) fn ask_clients(&mut self, client_cas: ClientCas) {
        self.client_cas = Some(client_cas);
        self.rebuild();
    }

    /// Returns the configuration for the next connection.
    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        let generation = self.client_cas.as_ref().map_or(0, ClientCas::generation);
        if self.current.load().generation != generation {
            self.rebuild();
        }
        Arc::clone(&self.current.load().config)
    }

    /// Reads the files again, each `period`, for ever.
    pub(crate) async fn reload(&self, period: Duration) {
        let mut ticks = tokio::time::interval(period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.tick().await;
        loop {
            ticks.tick().await;
            let certificates = Arc::clone(&self.certificates);
            // Files may be slow; a panic in there is a defect that must not end the server.
            let refresh =
                tokio::task::spawn_blocking(move || certificates.lock().refresh(Timestamp::now()));
            if refresh.await.unwrap_or(false) {
                self.rebuild();
            }
        }
    }

    fn rebuild(&self) {
        let names = self.certificates.lock().names();
        // The generation is read first: authorities that change in between are taken the next time.
        let generation = self.client_cas.as_ref().map_or(0, ClientCas::generation);
        let hints = self.client_cas.as_ref().map(ClientCas::subjects);
        match build(&self.choices, self.disable_http2, names, hints) {
            Ok(config) => self.current.store(Arc::new(Current {
                config: Arc::new(config),
                generation,
            })),
            Err(error) => tracing::error!(%error, "keeping the previous TLS configuration"),
        }
    }
}

/// Builds the configuration of handshakes. `hints` are the authorities that clients receive; with `None`, no
/// certificate is requested.
fn build(
    choices: &TlsChoices,
    disable_http2: bool,
    names: Names,
    hints: Option<Vec<DistinguishedName>>,
) -> Result<ServerConfig, ServingError> {
    let provider = Arc::new(choices.provider.clone());
    let algorithms = provider.signature_verification_algorithms;
    let builder = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(choices.versions)
        .map_err(|error| ServingError::Tls(error.to_string()))?;
    let builder = match hints {
        Some(hints) => {
            builder.with_client_cert_verifier(Arc::new(AnyCertificate { algorithms, hints }))
        }
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(Arc::new(names));
    let protocols: &[&[u8]] = if disable_http2 {
        &[b"http/1.1"]
    } else {
        &[b"h2", b"http/1.1"]
    };
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    Ok(config)
}
