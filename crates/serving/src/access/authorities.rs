//! The authorities of the moment: they change while the process runs (APP-114, APP-122).

use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::DistinguishedName;

use super::bundle::Bundle;
use crate::options::RequestHeaderOptions;

/// The authorities that client certificates are checked against; clones share them, and all see them change.
#[derive(Clone, Default)]
pub struct Authorities(Arc<ArcSwap<Trust>>);

/// Certificate authorities that are trusted for users and for front proxies.
#[derive(Debug, Default)]
pub(super) struct Trust {
    /// Authorities of users' client certificates.
    pub(super) clients: Option<Arc<Bundle>>,
    /// Authorities of front proxies' certificates, and the headers in which a proxy names its caller.
    pub(super) proxies: Option<Proxies>,
    generation: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Proxies {
    pub(super) bundle: Arc<Bundle>,
    /// Names and headers; the path of the file is not used here.
    pub(super) headers: RequestHeaderOptions,
}

impl Authorities {
    pub(super) fn trust(&self) -> Arc<Trust> {
        self.0.load_full()
    }

    /// Replaces the authorities; callers must not call it concurrently.
    pub(super) fn set(&self, clients: Option<Arc<Bundle>>, proxies: Option<Proxies>) {
        let generation = self.generation().wrapping_add(1);
        self.0.store(Arc::new(Trust { clients, proxies, generation }));
    }

    /// Returns a number that differs after each change.
    pub(crate) fn generation(&self) -> u64 {
        self.0.load().generation
    }

    /// Returns the subjects of the authorities that clients receive (APP-113), each once.
    pub(crate) fn subjects(&self) -> Vec<DistinguishedName> {
        let trust = self.0.load();
        let bundles = trust.clients.iter().chain(trust.proxies.iter().map(|proxies| &proxies.bundle));
        let mut subjects: Vec<DistinguishedName> = Vec::new();
        for subject in bundles.flat_map(|bundle| bundle.subjects()) {
            if !subjects.iter().any(|known| known.as_ref() == subject.as_ref()) {
                subjects.push(subject.clone());
            }
        }
        subjects
    }
}
