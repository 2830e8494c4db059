//! Options of the endpoints, filled in from the flags.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use cloud_provider::names::SECURE_PORT;

/// Options of an HTTPS server: its address and its certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServingOptions {
    /// Address to listen on; `0.0.0.0` and `::` mean all interfaces.
    pub bind_address: IpAddr,
    /// Port; 0 disables the server (APP-107).
    pub port: u16,
    /// Directory of the generated certificate and key; `None` keeps them in memory (APP-112).
    pub cert_dir: Option<PathBuf>,
    /// Base name of the generated files, without `.crt` and `.key`.
    pub pair_name: &'static str,
    /// Files of the serving certificate and its key; `None` generates a certificate.
    pub certificate: Option<CertificateFiles>,
    /// Further certificates, selected by server name (FLAG-33).
    pub sni: Vec<SniPair>,
    /// The lowest TLS version.
    pub min_version: TlsVersion,
    /// IANA names of the cipher suites for TLS 1.2; empty: the library's (FLAG-30).
    pub cipher_suites: Vec<String>,
    /// TLS NamedGroup ids of the key exchanges; empty: the library's (FLAG-32).
    pub curve_preferences: Vec<u16>,
    /// Maximum number of HTTP/2 streams of a connection; 0 means 10.
    pub http2_max_streams: u32,
    /// If set, the server offers HTTP/1.1 only.
    pub disable_http2: bool,
    /// If set, the listener has the socket option `SO_REUSEPORT`.
    pub permit_port_sharing: bool,
    /// If set, the listener has the socket option `SO_REUSEADDR`.
    pub permit_address_sharing: bool,
    /// The flag that sets [`port`](Self::port), for messages (P-36).
    pub port_flag: &'static str,
}

impl Default for ServingOptions {
    /// Returns the options of a cloud controller manager's secure port.
    fn default() -> Self {
        Self {
            bind_address: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            port: SECURE_PORT,
            cert_dir: None,
            pair_name: "cloud-controller-manager",
            certificate: None,
            sni: Vec::new(),
            min_version: TlsVersion::V1_2,
            cipher_suites: Vec::new(),
            curve_preferences: Vec::new(),
            http2_max_streams: 0,
            disable_http2: false,
            permit_port_sharing: false,
            permit_address_sharing: false,
            port_flag: "--secure-port",
        }
    }
}

/// A certificate (leaf first, then its chain) and its key, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// Path of the certificate's file.
    pub certificate: PathBuf,
    /// Path of the key's file.
    pub key: PathBuf,
}

/// A pair for some server names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SniPair {
    /// Files of the pair.
    pub files: CertificateFiles,
    /// Names, `*.` in front matches one label; empty: the names in the certificate.
    pub names: Vec<String>,
}

/// A TLS version that this build speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsVersion {
    /// TLS 1.2 (RFC 5246).
    #[default]
    V1_2,
    /// TLS 1.3 (RFC 8446).
    V1_3,
}

/// Options of the authentication of callers (APP-120 to APP-126).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthenticationOptions {
    /// Identity for TokenReview and the front-proxy ConfigMap; `None`: the Pod's.
    pub kubeconfig: Option<PathBuf>,
    /// If set, ConfigMap `kube-system/extension-apiserver-authentication` is not read.
    pub skip_lookup: bool,
    /// If set, a failure to read that ConfigMap is only a warning.
    pub tolerate_lookup_failure: bool,
    /// TTL of cached TokenReview answers; zero disables the cache.
    pub token_cache_ttl: Duration,
    /// CA bundle for client certificates instead of the ConfigMap's.
    pub client_ca_file: Option<PathBuf>,
    /// Options of the front proxy.
    pub request_header: RequestHeaderOptions,
}

impl Default for AuthenticationOptions {
    fn default() -> Self {
        Self {
            kubeconfig: None,
            skip_lookup: false,
            tolerate_lookup_failure: false,
            token_cache_ttl: Duration::from_secs(10),
            client_ca_file: None,
            request_header: RequestHeaderOptions::default(),
        }
    }
}

/// The front proxy and the headers by which it names its caller; they take effect with a CA file only (FLAG-40).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHeaderOptions {
    /// CA bundle of the proxy.
    pub client_ca_file: Option<PathBuf>,
    /// Common names that a front proxy's certificate may have; any if empty.
    pub allowed_names: Vec<String>,
    /// Headers with the user's name; the first that is there counts.
    pub username_headers: Vec<String>,
    /// Headers with the user's UID.
    pub uid_headers: Vec<String>,
    /// Headers with the groups of the caller.
    pub group_headers: Vec<String>,
    /// Prefixes of headers with further attributes.
    pub extra_prefixes: Vec<String>,
}

impl Default for RequestHeaderOptions {
    fn default() -> Self {
        Self {
            client_ca_file: None,
            allowed_names: Vec::new(),
            username_headers: vec!["x-remote-user".into()],
            uid_headers: Vec::new(),
            group_headers: vec!["x-remote-group".into()],
            extra_prefixes: vec!["x-remote-extra-".into()],
        }
    }
}

/// Options of the authorization of callers (APP-127).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorizationOptions {
    /// Identity for SubjectAccessReview; `None`: the Pod's.
    pub kubeconfig: Option<PathBuf>,
    /// Paths that need no permission; a `*` at the end means any ending.
    pub always_allow_paths: Vec<String>,
    /// TTL of cached answers that allow a request.
    pub allowed_ttl: Duration,
    /// TTL of cached answers that deny a request.
    pub denied_ttl: Duration,
}

impl Default for AuthorizationOptions {
    fn default() -> Self {
        Self {
            kubeconfig: None,
            always_allow_paths: ["/healthz", "/readyz", "/livez"].map(String::from).to_vec(),
            allowed_ttl: Duration::from_secs(10),
            denied_ttl: Duration::from_secs(10),
        }
    }
}
