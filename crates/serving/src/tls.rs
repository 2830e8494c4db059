//! TLS: flags, certificates and their reload (APP-110 to APP-114).

mod certificates;
mod choices;
mod client;
mod config;
mod generate;
mod names;
mod pair;

pub use choices::{check_cipher_suites, check_curves, parse_sni_pair, parse_version};

pub(crate) use certificates::Certificates;
pub(crate) use config::Tls;
