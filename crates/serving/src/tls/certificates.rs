//! The pairs of a server: where they come from (APP-110), and how they are renewed without a restart (APP-114).

use std::net::IpAddr;
use std::sync::Arc;

use jiff::Timestamp;
use rustls::crypto::CryptoProvider;
use rustls::sign::CertifiedKey;

use super::choices::TlsChoices;
use super::generate;
use super::names::{Named, Names};
use super::pair::{Leaf, PemPair};
use crate::error::ServingError;
use crate::options::{CertificateFiles, ServingOptions};

/// The pairs of a server as they are now.
pub(crate) struct Certificates {
    provider: CryptoProvider,
    bind_address: IpAddr,
    default: Loaded,
    sni: Vec<(Loaded, Vec<String>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// Given by the operator.
    Given,
    /// In the directory for generated pairs.
    Directory,
    /// Not stored at all.
    Memory,
}

struct Loaded {
    origin: Origin,
    /// Where it is; names for messages if it is in memory.
    files: CertificateFiles,
    pem: PemPair,
    pair: Arc<CertifiedKey>,
    /// A broken new file that has been complained about already.
    refused: Option<String>,
}

impl Certificates {
    /// Reads or makes all pairs.
    pub(crate) fn load(options: &ServingOptions, now: Timestamp) -> Result<Self, ServingError> {
        let provider = TlsChoices::new(options).provider;
        let default = match (&options.certificate, &options.cert_dir) {
            (Some(files), _) => Loaded::read(files, Origin::Given, &provider)?,
            (None, Some(directory)) => {
                let file = |ending: &str| directory.join(format!("{}.{ending}", options.pair_name));
                let files = CertificateFiles { certificate: file("crt"), key: file("key") };
                Loaded::in_directory(files, options.bind_address, now, &provider)?
            }
            (None, None) => Loaded::in_memory(options, now, &provider)?,
        };
        let mut sni = Vec::new();
        for pair in &options.sni {
            sni.push((Loaded::read(&pair.files, Origin::Given, &provider)?, pair.names.clone()));
        }
        Ok(Self { provider, bind_address: options.bind_address, default, sni })
    }

    pub(super) fn names(&self) -> Names {
        let named = |(loaded, explicit): &(Loaded, Vec<String>)| Named {
            pair: Arc::clone(&loaded.pair),
            explicit: explicit.clone(),
            in_certificate: Leaf::of(&loaded.pair).map(|leaf| leaf.names).unwrap_or_default(),
        };
        let pairs: Vec<_> = self.sni.iter().map(named).collect();
        Names::new(Arc::clone(&self.default.pair), &pairs)
    }

    /// Reads everything again; whether anything is new. What cannot be used is said, and the old stays.
    pub(super) fn refresh(&mut self, now: Timestamp) -> bool {
        let mut changed = self.default.renew(self.bind_address, now, &self.provider);
        changed |= self.default.refresh(&self.provider);
        for (loaded, _) in &mut self.sni {
            changed |= loaded.refresh(&self.provider);
        }
        changed
    }
}

impl Loaded {
    fn read(files: &CertificateFiles, origin: Origin, provider: &CryptoProvider) -> Result<Self, ServingError> {
        let pem = PemPair::read(files)?;
        let pair = pem.parse(files, provider)?;
        Ok(Self { origin, files: files.clone(), pem, pair, refused: None })
    }

    /// The pair in the directory, made if neither file is there or if ours has expired (APP-112).
    fn in_directory(
        files: CertificateFiles,
        bind_address: IpAddr,
        now: Timestamp,
        provider: &CryptoProvider,
    ) -> Result<Self, ServingError> {
        match (files.certificate.exists(), files.key.exists()) {
            (true, true) => {
                let mut loaded = Self::read(&files, Origin::Directory, provider)?;
                loaded.renew(bind_address, now, provider);
                Ok(loaded)
            }
            (false, false) => {
                let pem = generate::generate(bind_address, now)?;
                generate::store(&pem, &files)?;
                let (certificate, key) = (files.certificate.display(), files.key.display());
                tracing::info!("Generated self-signed cert ({certificate}, {key})");
                let pair = pem.parse(&files, provider)?;
                Ok(Self { origin: Origin::Directory, files, pem, pair, refused: None })
            }
            (there, _) => {
                let (one, other) =
                    if there { (&files.certificate, &files.key) } else { (&files.key, &files.certificate) };
                let (one, other) = (one.display(), other.display());
                Err(ServingError::Generate(format!(
                    "there is {one} but no {other}: put the other file there, or remove this one to have both made"
                )))
            }
        }
    }

    fn in_memory(options: &ServingOptions, now: Timestamp, provider: &CryptoProvider) -> Result<Self, ServingError> {
        let pem = generate::generate(options.bind_address, now)?;
        let files = CertificateFiles { certificate: "(generated certificate)".into(), key: "(generated key)".into() };
        let pair = pem.parse(&files, provider)?;
        tracing::info!("Generated self-signed cert in-memory");
        Ok(Self { origin: Origin::Memory, files, pem, pair, refused: None })
    }

    /// Makes a new pair if this is one of ours that has expired.
    fn renew(&mut self, bind_address: IpAddr, now: Timestamp, provider: &CryptoProvider) -> bool {
        let expired = Leaf::of(&self.pair).is_some_and(|leaf| generate::is_ours_and_expired(&leaf, now));
        if self.origin == Origin::Given || !expired {
            return false;
        }
        let made = generate::generate(bind_address, now).and_then(|pem| {
            if self.origin == Origin::Directory {
                generate::store(&pem, &self.files)?;
            }
            Ok((pem.parse(&self.files, provider)?, pem))
        });
        match made {
            Ok((pair, pem)) => {
                tracing::info!(certificate = %self.files.certificate.display(), "the self-signed cert had expired and was made anew");
                (self.pair, self.pem) = (pair, pem);
                true
            }
            Err(error) => {
                self.complain(&error);
                false
            }
        }
    }

    fn refresh(&mut self, provider: &CryptoProvider) -> bool {
        if self.origin == Origin::Memory {
            return false;
        }
        let read = PemPair::read(&self.files);
        if read.as_ref().is_ok_and(|pem| *pem == self.pem) {
            self.refused = None;
            return false;
        }
        match read.and_then(|pem| Ok((pem.parse(&self.files, provider)?, pem))) {
            Ok((pair, pem)) => {
                (self.pair, self.pem, self.refused) = (pair, pem, None);
                tracing::info!(certificate = %self.files.certificate.display(), "serving certificate reloaded");
                true
            }
            // Perhaps one of the two files is written a moment later than the other.
            Err(error) => {
                self.complain(&error);
                false
            }
        }
    }

    fn complain(&mut self, error: &ServingError) {
        let said = error.to_string();
        if self.refused.as_ref() != Some(&said) {
            tracing::warn!(error = said, "the serving certificate cannot be renewed, the old one stays");
            self.refused = Some(said);
        }
    }
}
