//! Selection of the certificate by server name (FLAG-33).

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

/// Certificate pairs by name, and the default pair.
pub(super) struct Names {
    default: Arc<CertifiedKey>,
    by_name: HashMap<String, Arc<CertifiedKey>>,
}

/// A pair and the names it is for.
pub(super) struct Named {
    pub(super) pair: Arc<CertifiedKey>,
    /// Names that the operator wrote. If there are none, the names in the certificate apply, after all written names.
    pub(super) explicit: Vec<String>,
    pub(super) in_certificate: Vec<String>,
}

impl Names {
    /// Indexes the pairs. The first of two pairs for one name applies, but an explicit name takes precedence over one
    /// in a certificate.
    pub(super) fn new(default: Arc<CertifiedKey>, pairs: &[Named]) -> Self {
        let mut by_name = HashMap::new();
        let written = pairs
            .iter()
            .flat_map(|named| named.explicit.iter().map(move |name| (name, named)));
        let extracted = pairs
            .iter()
            .filter(|named| named.explicit.is_empty())
            .flat_map(|named| named.in_certificate.iter().map(move |name| (name, named)));
        for (name, named) in written.chain(extracted) {
            by_name
                .entry(normal(name))
                .or_insert_with(|| Arc::clone(&named.pair));
        }
        Self { default, by_name }
    }

    /// Selects the certificate: the name itself takes precedence over a wildcard for its first label.
    pub(super) fn choose(&self, server_name: Option<&str>) -> &Arc<CertifiedKey> {
        let Some(name) = server_name.map(normal) else {
            return &self.default;
        };
        let wildcard = || self.by_name.get(&format!("*.{}", name.split_once('.')?.1));
        self.by_name
            .get(&name)
            .or_else(wildcard)
            .unwrap_or(&self.default)
    }
}

fn normal(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}

impl ResolvesServerCert for Names {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(self.choose(hello.server_name())))
    }
}

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Names")
            .field("names", &self.by_name.keys())
            .finish_non_exhaustive()
    }
}
