//! The authorities of the moment: they change while the process runs (APP-114, APP-122).

use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::DistinguishedName;

use super::ca_bundle::CaBundle;
use crate::options::RequestHeaderOptions;

/// The authorities that client certificates are checked against; clones share them, and all see them change.
#[derive(Clone, Default)]
pub struct ClientCas(Arc<ArcSwap<TrustedCas>>);

/// Certificate authorities that are trusted for users and for front proxies.
#[derive(Debug, Default)]
pub(super) struct TrustedCas {
    /// Authorities of users' client certificates.
    pub(super) clients: Option<Arc<CaBundle>>,
    /// Authorities of front proxies' certificates, and the headers in which a proxy names its caller.
    pub(super) proxies: Option<Proxies>,
    generation: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Proxies {
    pub(super) bundle: Arc<CaBundle>,
    /// Names and headers; the path of the file is not used here.
    pub(super) headers: RequestHeaderOptions,
}

impl ClientCas {
    pub(super) fn trusted(&self) -> Arc<TrustedCas> {
        self.0.load_full()
    }

    /// Replaces the authorities; callers must not call it concurrently.
    pub(super) fn set(&self, clients: Option<Arc<CaBundle>>, proxies: Option<Proxies>) {
        let generation = self.generation().wrapping_add(1);
        self.0.store(Arc::new(TrustedCas {
            clients,
            proxies,
            generation,
        }));
    }

    /// Returns a number that differs after each change.
    pub(crate) fn generation(&self) -> u64 {
        self.0.load().generation
    }

    /// Returns the subjects of the authorities that clients receive (APP-113), each once.
    pub(crate) fn subjects(&self) -> Vec<DistinguishedName> {
        let trusted = self.0.load();
        let bundles = trusted
            .clients
            .iter()
            .chain(trusted.proxies.iter().map(|proxies| &proxies.bundle));
        let mut subjects: Vec<DistinguishedName> = Vec::new();
        for subject in bundles.flat_map(|bundle| bundle.subjects()) {
            if !subjects
                .iter()
                .any(|known| known.as_ref() == subject.as_ref())
            {
                subjects.push(subject.clone());
            }
        }
        subjects
    }
}
