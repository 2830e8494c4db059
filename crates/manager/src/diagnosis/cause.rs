//! Causes of errors of the Kubernetes client.

use std::error::Error;
use std::io;

use runtime::api_error::api_error;
use rustls::CertificateError;

/// The cause that keeps this process from using the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The server's name cannot be resolved.
    Dns,
    /// The connection was refused: no process listens, or a firewall rejects it.
    Refused,
    /// No route leads to the address.
    Unreachable,
    /// The server did not answer in time.
    TimedOut,
    /// The connection was interrupted.
    Cut,
    /// The TLS handshake failed.
    Tls(TlsProblem),
    /// The credential cannot be read, from an exec plugin or a token file.
    Credential,
    /// The API server answered HTTP 401.
    Unauthorized,
    /// The API server answered HTTP 403.
    Forbidden,
    /// The API server answered HTTP 429 or 5xx.
    Busy(u16),
    /// The server answers, but not as a Kubernetes API server.
    NotAnApi,
    /// A cause of any other kind.
    Other,
}

/// The cause of a failed TLS handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsProblem {
    /// The certificate is not signed by a trusted CA.
    UnknownIssuer,
    /// The certificate has expired by this machine's clock.
    Expired,
    /// The certificate is not valid yet by this machine's clock.
    NotValidYet,
    /// The certificate is for other host names.
    WrongName,
    /// The server speaks plain HTTP.
    PlainHttp,
    /// Any other TLS problem.
    Other,
}

impl Cause {
    /// Returns the cause of an error.
    #[must_use]
    pub fn of(error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => match status.code {
                401 => Self::Unauthorized,
                403 => Self::Forbidden,
                code @ (429 | 500..) => Self::Busy(code),
                _ if status.message.contains("HTTP request to an HTTPS server") => Self::NotAnApi,
                // The API server sets a reason on every error; an error without one comes from another server.
                _ if status.reason.is_empty() => Self::NotAnApi,
                _ => Self::Other,
            },
            kube::Error::Auth(_) => Self::Credential,
            kube::Error::SerdeError(_) | kube::Error::FromUtf8(_) => Self::NotAnApi,
            other => Self::of_chain(other),
        }
    }

    /// Returns the cause of a wrapped error. The deepest error is examined first, because it says most.
    fn of_chain(error: &(dyn Error + 'static)) -> Self {
        // `source` skips the error inside an I/O error and continues below it.
        let held = error
            .downcast_ref::<io::Error>()
            .and_then(|error| error.get_ref());
        let below = held
            .map(|held| held as &(dyn Error + 'static))
            .or_else(|| error.source());
        match below.map_or(Self::Other, Self::of_chain) {
            Self::Other => Self::of_one(error),
            known => known,
        }
    }

    fn of_one(error: &(dyn Error + 'static)) -> Self {
        if let Some(error) = error.downcast_ref::<kube::Error>()
            && !matches!(error, kube::Error::Service(_) | kube::Error::HyperError(_))
        {
            return Self::of(error);
        }
        if let Some(error) = error.downcast_ref::<rustls::Error>() {
            return Self::Tls(TlsProblem::of(error));
        }
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return Self::of_io(error);
        }
        let text = error.to_string();
        // Neither the resolver's nor the client's own timeout has a type of its own.
        if text.contains("dns error") || text.contains("failed to lookup address information") {
            return Self::Dns;
        }
        if text.contains("no answer from the API server") || text.contains("deadline has elapsed") {
            return Self::TimedOut;
        }
        Self::Other
    }

    fn of_io(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::ConnectionRefused => Self::Refused,
            io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::AddrNotAvailable => Self::Unreachable,
            io::ErrorKind::TimedOut => Self::TimedOut,
            io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::UnexpectedEof => Self::Cut,
            _ if error
                .to_string()
                .contains("failed to lookup address information") =>
            {
                Self::Dns
            }
            _ => Self::Other,
        }
    }
}

impl TlsProblem {
    fn of(error: &rustls::Error) -> Self {
        match error {
            rustls::Error::InvalidCertificate(problem) => match problem {
                CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                    Self::UnknownIssuer
                }
                CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                    Self::Expired
                }
                CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                    Self::NotValidYet
                }
                CertificateError::NotValidForName
                | CertificateError::NotValidForNameContext { .. } => Self::WrongName,
                _ => Self::Other,
            },
            rustls::Error::InvalidMessage(_) => Self::PlainHttp,
            _ => Self::Other,
        }
    }
}

/// Returns the error's own text, for the end of a paragraph.
pub(super) fn words(error: &kube::Error) -> String {
    let text = api_error(error).to_string();
    text.trim_end_matches('.').to_owned()
}
