//! Flags that both HTTPS servers share: certificates, TLS versions and cipher suites.

use std::str::FromStr;

use serving::options::{CertificateFiles, ServingOptions, SniPair};
use serving::tls::{check_cipher_suites, check_curves, parse_sni_pair, parse_version};

use super::values::{PathFlag, go_int, list};

/// The TLS flags of one server.
pub(super) struct TlsFlags<'a> {
    /// Prefix of the flags' names.
    pub(super) prefix: &'static str,
    pub(super) certificate: &'a PathFlag,
    pub(super) key: &'a PathFlag,
    pub(super) sni: &'a [SniFlag],
    pub(super) cipher_suites: Vec<String>,
    pub(super) min_version: &'a str,
    pub(super) curve_preferences: Vec<i32>,
}

impl TlsFlags<'_> {
    /// Returns the options with the TLS options set.
    pub(super) fn options(&self, options: ServingOptions) -> ServingOptions {
        let certificate = match (self.certificate.to_path_buf(), self.key.to_path_buf()) {
            (Some(certificate), Some(key)) => Some(CertificateFiles { certificate, key }),
            _ => None,
        };
        ServingOptions {
            certificate,
            sni: self.sni.iter().map(|flag| flag.0.clone()).collect(),
            // Checked by `validate`.
            min_version: parse_version(self.min_version)
                .map(|(version, _)| version)
                .unwrap_or_default(),
            cipher_suites: self.cipher_suites.clone(),
            curve_preferences: self
                .curve_preferences
                .iter()
                .filter_map(|id| u16::try_from(*id).ok())
                .collect(),
            ..options
        }
    }
}

impl TlsFlags<'_> {
    pub(super) fn validate(&self) -> Vec<String> {
        let prefix = self.prefix;
        let mut errors = Vec::new();
        if self.certificate.as_deref().is_some() != self.key.as_deref().is_some() {
            errors.push(format!(
                "missing filename for serving cert: {prefix}cert-file and {prefix}private-key-file go together"
            ));
        }
        let suites = &self.cipher_suites;
        errors.extend(
            check_cipher_suites(suites)
                .err()
                .map(|error| format!("{error}: {prefix}cipher-suites")),
        );
        errors.extend(parse_version(self.min_version).err().map(|error| {
            format!("{error}: {prefix}min-version is VersionTLS10, VersionTLS11, VersionTLS12 or VersionTLS13")
        }));
        let curves = check_curves(&self.curve_preferences);
        errors.extend(
            curves
                .err()
                .map(|error| format!("{error}: {prefix}curve-preferences")),
        );
        errors
    }

    /// Returns warnings about values that this build does not support and therefore skips or replaces.
    pub(super) fn warnings(&self) -> Vec<String> {
        let prefix = self.prefix;
        let suites = check_cipher_suites(&self.cipher_suites).unwrap_or_default();
        let suites = suites
            .into_iter()
            .map(|name| format!("{prefix}cipher-suites: {name} is not available, skipped"));
        let version = parse_version(self.min_version)
            .ok()
            .and_then(|(_, warning)| warning);
        let version = version.map(|warning| format!("{prefix}min-version: {warning}"));
        let curves = check_curves(&self.curve_preferences).unwrap_or_default();
        let curves = curves
            .into_iter()
            .map(|id| format!("{prefix}curve-preferences: {id} is not available, skipped"));
        suites.chain(version).chain(curves).collect()
    }
}

/// The value of one occurrence of `--tls-sni-cert-key`: `CERT,KEY[:NAME,…]` (FLAG-33).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SniFlag(pub(super) SniPair);

impl FromStr for SniFlag {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse_sni_pair(text)
            .map(Self)
            .map_err(|error| format!("{error}; write CERT,KEY or CERT,KEY:NAME,NAME"))
    }
}

/// The value of one occurrence of a flag that holds a list of numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numbers(Vec<i32>);

impl Numbers {
    /// Returns the numbers of all occurrences.
    pub(super) fn all(occurrences: &[Self]) -> Vec<i32> {
        occurrences
            .iter()
            .flat_map(|numbers| &numbers.0)
            .copied()
            .collect()
    }
}

pub(super) fn numbers(text: &str) -> Result<Numbers, String> {
    let items = list(text)?;
    super::values::List::all(&[items])
        .map(|item| go_int(item.trim()))
        .collect::<Result<_, _>>()
        .map(Numbers)
}
