//! Flags of the endpoints' HTTPS server.

use std::net::{IpAddr, SocketAddr};

use clap::{ArgAction, Args};
use serving::options::ServingOptions;

use super::tls::{self, SniFlag, TlsFlags};
use super::values::{List, ListenAddress, PathFlag, go_bool, go_int64, ip, list, path};

/// Flags of the HTTPS server for health, metrics and debugging.
#[derive(Args, Debug, Clone, PartialEq)]
#[command(next_help_heading = "Secure serving")]
pub struct SecureServingFlags {
    /// Address to listen on; 0.0.0.0 and :: mean all interfaces.
    #[arg(long, default_value_t = ServingOptions::default().bind_address, value_parser = ip)]
    pub bind_address: IpAddr,
    /// HTTPS port of /healthz, /readyz and /metrics; 0 disables the server.
    #[arg(long, default_value_t = i64::from(ServingOptions::default().port), value_parser = go_int64)]
    pub secure_port: i64,
    /// Address IP:PORT for /metrics without TLS and without authentication; empty to disable.
    #[arg(long, default_value = "", value_parser = str::parse::<ListenAddress>)]
    pub metrics_bind_address: ListenAddress,
    /// Address IP:PORT for /healthz, /livez and /readyz without TLS; empty to disable. Of these paths, only those of
    /// --authorization-always-allow-paths are served.
    #[arg(long, default_value = "", value_parser = str::parse::<ListenAddress>)]
    pub health_bind_address: ListenAddress,
    /// Directory of a generated certificate; empty to keep it in memory. Not used with --tls-cert-file.
    #[arg(long, default_value = "", value_parser = path())]
    pub cert_dir: PathFlag,
    /// File with the serving certificate, leaf first, then its chain, in PEM; reloaded when the file changes.
    #[arg(long, default_value = "", value_parser = path())]
    pub tls_cert_file: PathFlag,
    /// File with the private key of --tls-cert-file, in PEM.
    #[arg(long, default_value = "", value_parser = path())]
    pub tls_private_key_file: PathFlag,
    /// Additional certificate as CERT,KEY[:NAME,...], for these server names or those in the certificate; repeat for
    /// more.
    #[arg(long, value_parser = str::parse::<SniFlag>)]
    pub tls_sni_cert_key: Vec<SniFlag>,
    /// TLS 1.2 cipher suites by their IANA names; the TLS library's defaults if empty.
    #[arg(long, default_value = "", value_parser = list)]
    pub tls_cipher_suites: Vec<List>,
    /// Lowest TLS version: VersionTLS12 or VersionTLS13.
    #[arg(long, default_value = "", value_name = "VERSION")]
    pub tls_min_version: String,
    /// Key exchanges by their TLS numbers: 23 P-256, 24 P-384, 29 X25519; the TLS library's defaults if empty.
    #[arg(long, default_value = "", value_parser = tls::numbers)]
    pub tls_curve_preferences: Vec<tls::Numbers>,
    /// Maximum number of HTTP/2 streams of one connection; 0 means 10.
    #[arg(long, default_value_t = i64::from(ServingOptions::default().http2_max_streams), value_parser = go_int64)]
    pub http2_max_streams_per_connection: i64,
    /// Serve HTTP/1.1 only.
    #[arg(long, default_value_t = ServingOptions::default().disable_http2, value_parser = go_bool, action = ArgAction::Set)]
    pub disable_http2_serving: bool,
    /// Let several processes listen on the port (SO_REUSEPORT).
    #[arg(long, default_value_t = ServingOptions::default().permit_port_sharing, value_parser = go_bool, action = ArgAction::Set)]
    pub permit_port_sharing: bool,
    /// Listen on an address even if closing connections still use it (SO_REUSEADDR).
    #[arg(long, default_value_t = ServingOptions::default().permit_address_sharing, value_parser = go_bool, action = ArgAction::Set)]
    pub permit_address_sharing: bool,
}

/// Addresses of the ports without TLS and authentication.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlainAddresses {
    pub(super) metrics: Option<SocketAddr>,
    pub(super) health: Option<SocketAddr>,
}

impl SecureServingFlags {
    /// Returns the options of the secure port, and the addresses of the ports without TLS.
    pub(super) fn options(&self) -> (ServingOptions, PlainAddresses) {
        let (options, tls, plain) = self.split();
        (tls.options(options), plain)
    }

    /// Returns the TLS flags, which both servers share.
    pub(super) fn tls(&self) -> TlsFlags<'_> {
        self.split().1
    }

    /// Returns the options without those of TLS, the TLS flags, and the addresses of the ports without TLS.
    fn split(&self) -> (ServingOptions, TlsFlags<'_>, PlainAddresses) {
        let SecureServingFlags {
            bind_address,
            secure_port,
            metrics_bind_address,
            health_bind_address,
            cert_dir,
            tls_cert_file,
            tls_private_key_file,
            tls_sni_cert_key,
            tls_cipher_suites,
            tls_min_version,
            tls_curve_preferences,
            http2_max_streams_per_connection,
            disable_http2_serving,
            permit_port_sharing,
            permit_address_sharing,
        } = self;
        let options = ServingOptions {
            bind_address: *bind_address,
            port: u16::try_from(*secure_port).unwrap_or_default(),
            cert_dir: cert_dir.to_path_buf(),
            http2_max_streams: u32::try_from(*http2_max_streams_per_connection).unwrap_or_default(),
            disable_http2: *disable_http2_serving,
            permit_port_sharing: *permit_port_sharing,
            permit_address_sharing: *permit_address_sharing,
            ..ServingOptions::default()
        };
        let tls = TlsFlags {
            prefix: "--tls-",
            certificate: tls_cert_file,
            key: tls_private_key_file,
            sni: tls_sni_cert_key,
            cipher_suites: List::owned(tls_cipher_suites),
            min_version: tls_min_version,
            curve_preferences: tls::Numbers::all(tls_curve_preferences),
        };
        (
            options,
            tls,
            PlainAddresses {
                metrics: metrics_bind_address.get(),
                health: health_bind_address.get(),
            },
        )
    }

    pub(super) fn validate(&self) -> Vec<String> {
        let mut errors = Vec::new();
        let port = self.secure_port;
        if !(0..=65535).contains(&port) {
            errors.push(format!(
                "--secure-port {port} must be between 0 and 65535, inclusive. 0 for turning off secure port"
            ));
        }
        let metrics = self.metrics_bind_address.get();
        let health = self.health_bind_address.get();
        for (flag, address) in [
            ("metrics-bind-address", metrics),
            ("health-bind-address", health),
        ] {
            if address.is_some_and(|address| i64::from(address.port()) == port) {
                errors.push(format!(
                    "--{flag} cannot use the port of --secure-port: both are {port}; choose another port"
                ));
            }
        }
        if let (Some(metrics), Some(health)) = (metrics, health)
            && metrics.port() == health.port()
        {
            let port = health.port();
            errors.push(format!(
                "--health-bind-address cannot use the port of --metrics-bind-address: both are {port}; choose another port"
            ));
        }
        errors.extend(self.tls().validate());
        errors
    }
}
