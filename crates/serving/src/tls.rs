//! TLS: what flags say of it, certificates and their reload (APP-110 to APP-114).

mod choices;

pub use choices::{TlsChoices, check_cipher_suites, check_curves, parse_sni_pair, parse_version};
