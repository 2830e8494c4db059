//! Authorities and certificates, for tests.

use std::path::Path;
use std::time::Duration;

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, date_time_ymd,
};
use rustls::pki_types::CertificateDer;

use crate::options::CertificateFiles;

pub(crate) struct Authority {
    pub(crate) pem: String,
    issuer: Issuer<'static, KeyPair>,
}

pub(crate) struct Issued {
    certificate: Certificate,
    key: KeyPair,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self {
            pem,
            issuer: Issuer::new(params, key),
        }
    }

    pub(crate) fn client(&self, name: &str, groups: &[&str]) -> Issued {
        self.issue(name, groups, &[], ExtendedKeyUsagePurpose::ClientAuth, 2100)
    }

    pub(crate) fn expired_client(&self, name: &str) -> Issued {
        self.issue(name, &[], &[], ExtendedKeyUsagePurpose::ClientAuth, 2001)
    }

    pub(crate) fn server(&self, names: &[&str]) -> Issued {
        self.issue(
            names[0],
            &[],
            names,
            ExtendedKeyUsagePurpose::ServerAuth,
            2100,
        )
    }

    fn issue(
        &self,
        name: &str,
        groups: &[&str],
        names: &[&str],
        usage: ExtendedKeyUsagePurpose,
        until: i32,
    ) -> Issued {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        for group in groups {
            params
                .distinguished_name
                .push(DnType::CustomDnType(vec![2, 5, 4, 10]), *group);
        }
        params.extended_key_usages = vec![usage];
        (params.not_before, params.not_after) =
            (date_time_ymd(2000, 1, 1), date_time_ymd(until, 1, 1));
        let key = KeyPair::generate().unwrap();
        Issued {
            certificate: params.signed_by(&key, &self.issuer).unwrap(),
            key,
        }
    }
}

impl Issued {
    pub(crate) fn der(&self) -> CertificateDer<'static> {
        self.certificate.der().clone()
    }

    /// Returns certificate and key in one PEM text.
    pub(crate) fn pem(&self) -> String {
        self.certificate.pem() + &self.key.serialize_pem()
    }

    pub(crate) fn key_pem(&self) -> String {
        self.key.serialize_pem()
    }

    pub(crate) fn write(&self, directory: &Path, name: &str) -> CertificateFiles {
        let file = |ending: &str| directory.join(format!("{name}.{ending}"));
        let files = CertificateFiles {
            certificate: file("crt"),
            key: file("key"),
        };
        std::fs::write(&files.certificate, self.certificate.pem()).unwrap();
        std::fs::write(&files.key, self.key.serialize_pem()).unwrap();
        files
    }
}

/// A limit for what needs real sockets.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);
