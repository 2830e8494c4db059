//! Errors of opening an endpoint.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Errors of starting a server. Each message names what was tried and what to change.
#[derive(Debug, thiserror::Error)]
pub enum ServingError {
    /// The port cannot be opened (FLAG-29); names the flag that chooses it (P-36).
    #[error("failed to create listener: failed to listen on {address}: {problem}; {}", remedy(.problem, .flag))]
    Listen {
        /// Address of the endpoint.
        address: SocketAddr,
        /// The flag that sets the port.
        flag: &'static str,
        /// The operating system's error. The message contains it, so it is not the `source`, which would print it
        /// twice.
        problem: io::Error,
    },
    /// A certificate, key or CA file cannot be read.
    #[error("cannot read {}: {problem}", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// The operating system's error. The message contains it, so it is not the `source`, which would print it
        /// twice.
        problem: io::Error,
    },
    /// A file was read but cannot be used.
    #[error("cannot use {}: {problem}", path.display())]
    Unusable {
        /// Path of the file.
        path: PathBuf,
        /// Description of the error.
        problem: String,
    },
    /// The self-signed pair cannot be generated or stored (APP-112).
    #[error("error creating self-signed certificates: {0}")]
    Generate(String),
    /// Versions, cipher suites and curves that do not go together.
    #[error("the TLS options cannot be used together: {0}")]
    Tls(String),
}

fn remedy(error: &io::Error, flag: &str) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            format!(
                "something else listens there (another instance on this machine?): choose another port with {flag}"
            )
        }
        io::ErrorKind::AddrNotAvailable => {
            "this machine has no such address: choose another with the bind-address flag".to_owned()
        }
        io::ErrorKind::PermissionDenied => {
            format!("ports below 1024 need a privilege: choose a higher one with {flag}")
        }
        _ => format!("the port is chosen with {flag}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error as _;

    #[test]
    fn error_of_the_operating_system_is_shown_once() {
        let listen = ServingError::Listen {
            address: ([127, 0, 0, 1], 10258).into(),
            flag: "--secure-port",
            problem: io::Error::from(io::ErrorKind::AddrInUse),
        };
        let read = ServingError::Read {
            path: "tls.crt".into(),
            problem: io::Error::from(io::ErrorKind::NotFound),
        };
        for error in [listen, read] {
            assert!(error.source().is_none(), "{error}");
        }
    }
}
