//! Certificates and keys of a server: their source (APP-110), and their renewal without a restart (APP-114).

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
    /// Pair in the directory for generated pairs.
    Directory,
    /// Pair that is not stored.
    Memory,
}

struct Loaded {
    origin: Origin,
    /// Paths of the files; names for messages if the pair is in memory.
    files: CertificateFiles,
    pem: PemPair,
    pair: Arc<CertifiedKey>,
    /// A broken new file that has been complained about already.
    refused: Option<String>,
}

impl Certificates {
    /// Reads or generates all pairs.
    pub(crate) fn load(options: &ServingOptions, now: Timestamp) -> Result<Self, ServingError> {
        let provider = TlsChoices::new(options).provider;
        let default = match (&options.certificate, &options.cert_dir) {
            (Some(files), _) => Loaded::read(files, Origin::Given, &provider)?,
            (None, Some(directory)) => {
                let file = |ending: &str| directory.join(format!("{}.{ending}", options.pair_name));
                let files = CertificateFiles {
                    certificate: file("crt"),
                    key: file("key"),
                };
                Loaded::in_directory(files, options.bind_address, now, &provider)?
            }
            (None, None) => Loaded::in_memory(options, now, &provider)?,
        };
        let mut sni = Vec::new();
        for pair in &options.sni {
            sni.push((
                Loaded::read(&pair.files, Origin::Given, &provider)?,
                pair.names.clone(),
            ));
        }
        Ok(Self {
            provider,
            bind_address: options.bind_address,
            default,
            sni,
        })
    }

    pub(super) fn names(&self) -> Names {
        let named = |(loaded, explicit): &(Loaded, Vec<String>)| Named {
            pair: Arc::clone(&loaded.pair),
            explicit: explicit.clone(),
            in_certificate: Leaf::of(&loaded.pair)
                .map(|leaf| leaf.names)
                .unwrap_or_default(),
        };
        let pairs: Vec<_> = self.sni.iter().map(named).collect();
        Names::new(Arc::clone(&self.default.pair), &pairs)
    }

    /// Reads everything again and returns `true` if anything changed. Invalid files are logged, and the old pair stays
    /// in use.
    pub(super) fn refresh(&mut self, now: Timestamp) -> bool {
        // Read first: another process may have written a new one there.
        let mut changed = self.default.refresh(&self.provider);
        changed |= self.default.renew(self.bind_address, now, &self.provider);
        for (loaded, _) in &mut self.sni {
            changed |= loaded.refresh(&self.provider);
        }
        changed
    }
}

impl Loaded {
    fn read(
        files: &CertificateFiles,
        origin: Origin,
        provider: &CryptoProvider,
    ) -> Result<Self, ServingError> {
        let pem = PemPair::read(files)?;
        let pair = pem.parse(files, provider)?;
        Ok(Self {
            origin,
            files: files.clone(),
            pem,
            pair,
            refused: None,
        })
    }

    /// Returns the pair in the directory. It is generated if neither file exists, or if a generated pair is not valid
    /// now (APP-112) or incomplete, because a process ended while it was written.
    fn in_directory(
        files: CertificateFiles,
        bind_address: IpAddr,
        now: Timestamp,
        provider: &CryptoProvider,
    ) -> Result<Self, ServingError> {
        let is_there = || (files.certificate.exists(), files.key.exists());
        // A pair that is complete needs no right to write.
        let _held = if is_there() == (true, true) {
            None
        } else {
            generate::hold(&files)?
        };
        match is_there() {
            (true, true) => match Self::read(&files, Origin::Directory, provider) {
                Ok(mut loaded) => {
                    loaded.renew(bind_address, now, provider);
                    Ok(loaded)
                }
                Err(error) => {
                    let _held = generate::hold(&files)?;
                    // Perhaps it was being written.
                    let again = Self::read(&files, Origin::Directory, provider);
                    if again.is_ok()
                        || !PemPair::read(&files)?
                            .leaf()
                            .is_some_and(|leaf| generate::is_ours(&leaf))
                    {
                        return again;
                    }
                    tracing::warn!(%error, "generating the self-signed cert again");
                    Self::make(files, bind_address, now, provider)
                }
            },
            (false, false) => Self::make(files, bind_address, now, provider),
            (there, _) => {
                let (one, other) = if there {
                    (&files.certificate, &files.key)
                } else {
                    (&files.key, &files.certificate)
                };
                let one = one.display();
                let other = other.display();
                Err(ServingError::Generate(format!(
                    "{one} exists but {other} does not: add the missing file, or remove the existing one to generate \
                     both"
                )))
            }
        }
    }

    fn make(
        files: CertificateFiles,
        bind_address: IpAddr,
        now: Timestamp,
        provider: &CryptoProvider,
    ) -> Result<Self, ServingError> {
        let pem = generate::generate(bind_address, now)?;
        generate::store(&pem, &files)?;
        let certificate = files.certificate.display();
        let key = files.key.display();
        tracing::info!("Generated self-signed cert ({certificate}, {key})");
        let pair = pem.parse(&files, provider)?;
        Ok(Self {
            origin: Origin::Directory,
            files,
            pem,
            pair,
            refused: None,
        })
    }

    fn in_memory(
        options: &ServingOptions,
        now: Timestamp,
        provider: &CryptoProvider,
    ) -> Result<Self, ServingError> {
        let pem = generate::generate(options.bind_address, now)?;
        let files = CertificateFiles {
            certificate: "(generated certificate)".into(),
            key: "(generated key)".into(),
        };
        let pair = pem.parse(&files, provider)?;
        tracing::info!("Generated self-signed cert in-memory");
        Ok(Self {
            origin: Origin::Memory,
            files,
            pem,
            pair,
            refused: None,
        })
    }

    /// Generates a new pair if this is a generated one that has expired or is not valid yet.
    fn renew(&mut self, bind_address: IpAddr, now: Timestamp, provider: &CryptoProvider) -> bool {
        if self.origin == Origin::Given || !self.is_ours_and_invalid(now) {
            return false;
        }
        let held = match self.origin {
            Origin::Directory => generate::hold(&self.files),
            _ => Ok(None),
        };
        let _held = match held {
            Ok(held) => held,
            Err(error) => {
                self.log_failure(&error);
                return false;
            }
        };
        // Another process may have generated one in the meantime.
        if self.refresh(provider) && !self.is_ours_and_invalid(now) {
            return true;
        }
        let made = generate::generate(bind_address, now).and_then(|pem| {
            if self.origin == Origin::Directory {
                generate::store(&pem, &self.files)?;
            }
            Ok((pem.parse(&self.files, provider)?, pem))
        });
        match made {
            Ok((pair, pem)) => {
                tracing::info!(certificate = %self.files.certificate.display(), "the self-signed cert had expired or was not valid yet, and was generated again");
                (self.pair, self.pem) = (pair, pem);
                true
            }
            Err(error) => {
                self.log_failure(&error);
                false
            }
        }
    }

    fn is_ours_and_invalid(&self, now: Timestamp) -> bool {
        // A pair that is not valid yet was generated while the clock was ahead.
        let is_invalid = |leaf: &Leaf| now < leaf.not_before || leaf.not_after <= now;
        Leaf::of(&self.pair).is_some_and(|leaf| generate::is_ours(&leaf) && is_invalid(&leaf))
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
                self.log_failure(&error);
                false
            }
        }
    }

    fn log_failure(&mut self, error: &ServingError) {
        let text = error.to_string();
        if self.refused.as_ref() != Some(&text) {
            tracing::warn!(
                error = text,
                "the serving certificate cannot be renewed, keeping the old one"
            );
            self.refused = Some(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::issuing::Authority;
    use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

    const YEAR: i64 = 365 * 24 * 3600;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    fn shown(certificates: &Certificates) -> Vec<u8> {
        certificates.names().choose(None).cert[0].to_vec()
    }

    #[test]
    fn a_generated_certificate_is_as_the_reference_makes_it() {
        let options = ServingOptions {
            bind_address: "10.0.0.7".parse().unwrap(),
            ..ServingOptions::default()
        };
        let certificates = Certificates::load(&options, at(0)).unwrap();
        let pair = Arc::clone(&certificates.default.pair);
        assert_eq!(pair.cert.len(), 2, "leaf and authority");
        let (_, leaf) = X509Certificate::from_der(&pair.cert[0]).unwrap();
        let (_, authority) = X509Certificate::from_der(&pair.cert[1]).unwrap();
        assert_eq!(leaf.subject().to_string(), "CN=localhost@1800000000");
        assert_eq!(leaf.issuer().to_string(), "CN=localhost-ca@1800000000");
        assert_eq!(authority.subject(), leaf.issuer());
        assert!(authority.is_ca() && !leaf.is_ca());
        let validity = leaf.validity();
        assert_eq!(validity.not_before.timestamp(), at(-3600).as_second());
        assert_eq!(validity.not_after.timestamp(), at(YEAR).as_second());
        let usage = leaf.key_usage().unwrap().unwrap().value;
        assert!(usage.digital_signature() && usage.key_encipherment());
        let extended = leaf.extended_key_usage().unwrap().unwrap().value;
        assert!(extended.server_auth && !extended.client_auth);
        let names = &leaf
            .subject_alternative_name()
            .unwrap()
            .unwrap()
            .value
            .general_names;
        let expected = [
            GeneralName::DNSName("localhost"),
            GeneralName::IPAddress(&[127, 0, 0, 1]),
            GeneralName::IPAddress(&[10, 0, 0, 7]),
        ];
        assert_eq!(names.as_slice(), expected);
    }

    #[test]
    fn expired_generated_certificate_is_replaced_in_memory_and_in_the_directory() {
        let directory = tempfile::tempdir().unwrap();
        let stored = ServingOptions {
            cert_dir: Some(directory.path().to_owned()),
            ..ServingOptions::default()
        };
        for options in [ServingOptions::default(), stored.clone()] {
            let mut certificates = Certificates::load(&options, at(0)).unwrap();
            let first = shown(&certificates);
            assert!(!certificates.refresh(at(YEAR - 1)));
            assert!(certificates.refresh(at(YEAR)), "its time is over");
            assert_ne!(shown(&certificates), first);
            assert!(!certificates.refresh(at(YEAR + 1)));
        }
        let before = shown(&Certificates::load(&stored, at(YEAR + 2)).unwrap());
        assert_eq!(
            shown(&Certificates::load(&stored, at(2 * YEAR - 1)).unwrap()),
            before
        );
        assert_ne!(
            shown(&Certificates::load(&stored, at(3 * YEAR)).unwrap()),
            before,
            "expired while nobody ran"
        );
    }

    #[test]
    fn ours_is_made_again_if_it_was_made_while_the_clock_was_ahead() {
        let directory = tempfile::tempdir().unwrap();
        let stored = ServingOptions {
            cert_dir: Some(directory.path().to_owned()),
            ..ServingOptions::default()
        };
        for options in [ServingOptions::default(), stored.clone()] {
            let mut certificates = Certificates::load(&options, at(YEAR / 2)).unwrap();
            let first = shown(&certificates);
            assert!(certificates.refresh(at(0)), "it is not valid yet");
            assert_ne!(shown(&certificates), first);
            assert!(
                !certificates.refresh(at(-3600)),
                "an hour of difference is allowed for"
            );
        }
        let before = shown(&Certificates::load(&stored, at(0)).unwrap());
        assert_ne!(
            shown(&Certificates::load(&stored, at(-3601)).unwrap()),
            before,
            "corrected while nobody ran"
        );
    }

    #[test]
    fn processes_that_share_a_directory_make_one_pair_between_them() {
        for round in 0..10 {
            let directory = tempfile::tempdir().unwrap();
            let options = ServingOptions {
                cert_dir: Some(directory.path().join("new/one")),
                ..ServingOptions::default()
            };
            let together = |now| {
                let load = || {
                    Certificates::load(&options, at(now)).map(|certificates| shown(&certificates))
                };
                std::thread::scope(|scope| {
                    let threads: Vec<_> = (0..4).map(|_| scope.spawn(load)).collect();
                    threads
                        .into_iter()
                        .map(|thread| thread.join().unwrap())
                        .collect::<Result<Vec<_>, _>>()
                })
            };
            let made = together(0).unwrap();
            assert!(
                made.iter().all(|certificate| *certificate == made[0]),
                "round {round}"
            );
            let renewed = together(2 * YEAR).unwrap();
            assert!(
                renewed[0] != made[0] && renewed.iter().all(|one| *one == renewed[0]),
                "round {round}"
            );
        }
    }

    #[test]
    fn half_of_a_pair_of_ours_is_made_whole_and_that_of_somebody_else_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let options = ServingOptions {
            cert_dir: Some(directory.path().to_owned()),
            ..ServingOptions::default()
        };
        let first = shown(&Certificates::load(&options, at(0)).unwrap());
        let theirs = Authority::new("theirs").server(&["localhost"]);
        let file = |ending| {
            directory
                .path()
                .join(format!("cloud-controller-manager.{ending}"))
        };
        std::fs::write(file("key"), theirs.key_pem()).unwrap();
        let second = shown(&Certificates::load(&options, at(1)).unwrap());
        assert_ne!(first, second);
        assert_eq!(
            shown(&Certificates::load(&options, at(2)).unwrap()),
            second,
            "it is whole now"
        );

        let ours = std::fs::read(file("key")).unwrap();
        theirs.write(directory.path(), "cloud-controller-manager");
        std::fs::write(file("key"), ours).unwrap();
        assert!(Certificates::load(&options, at(3)).is_err());
    }

    #[test]
    fn the_pair_of_somebody_else_is_used_even_if_it_has_expired() {
        let directory = tempfile::tempdir().unwrap();
        let theirs = Authority::new("theirs").server(&["localhost"]);
        theirs.write(directory.path(), "cloud-controller-manager");
        let options = ServingOptions {
            cert_dir: Some(directory.path().to_owned()),
            ..ServingOptions::default()
        };
        let mut certificates = Certificates::load(&options, at(200 * YEAR)).unwrap();
        assert!(!certificates.refresh(at(201 * YEAR)));
        assert_eq!(shown(&certificates), theirs.der().to_vec());
    }

    #[test]
    fn unusable_certificate_never_replaces_a_usable_one() {
        let directory = tempfile::tempdir().unwrap();
        let authority = Authority::new("ca");
        let old = authority.server(&["localhost"]);
        let new = authority.server(&["localhost"]);
        let files = old.write(directory.path(), "tls");
        let options = ServingOptions {
            certificate: Some(files.clone()),
            ..ServingOptions::default()
        };
        let mut certificates = Certificates::load(&options, at(0)).unwrap();
        std::fs::write(&files.key, new.key_pem()).unwrap();
        assert!(
            !certificates.refresh(at(1)),
            "the key of another certificate"
        );
        std::fs::write(&files.certificate, "half a fi").unwrap();
        assert!(!certificates.refresh(at(2)));
        std::fs::remove_file(&files.certificate).unwrap();
        assert!(!certificates.refresh(at(3)));
        assert_eq!(shown(&certificates), old.der().to_vec());
        new.write(directory.path(), "tls");
        assert!(certificates.refresh(at(4)), "complete at last");
        assert_eq!(shown(&certificates), new.der().to_vec());
    }
}
