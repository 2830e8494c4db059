//! Versions, cipher suites, curves and pairs by server name, as flags write them (FLAG-30 to FLAG-33).
//!
//! Names that Kubernetes knows and this TLS library lacks are accepted and skipped, so that hardened manifests start.

use std::collections::BTreeSet;
use std::path::PathBuf;

use rustls::crypto::ring::{cipher_suite, default_provider, kx_group};
use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::{SupportedCipherSuite, SupportedProtocolVersion};

use crate::options::{CertificateFiles, ServingOptions, SniPair, TlsVersion};

/// Cipher suites that Kubernetes knows and that are not TLS 1.3's or this library's.
const NOT_AVAILABLE: [&str; 16] = [
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_RSA_WITH_RC4_128_SHA",
];

/// Key exchanges that Kubernetes knows and this library lacks: P-521 and the hybrids with ML-KEM.
const NO_SUCH_CURVE: [u16; 4] = [25, 4587, 4588, 4589];

static ONLY_TLS13: [&SupportedProtocolVersion; 1] = [&rustls::version::TLS13];

enum Suite {
    Tls12(SupportedCipherSuite),
    /// Always on in TLS 1.3; naming one is harmless.
    Tls13,
    NotAvailable,
}

fn suite(name: &str) -> Option<Suite> {
    Some(match name {
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256" => {
            Suite::Tls12(cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256)
        }
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384" => {
            Suite::Tls12(cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384)
        }
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305"
        | "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256" => {
            Suite::Tls12(cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256)
        }
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256" => {
            Suite::Tls12(cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256)
        }
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384" => {
            Suite::Tls12(cipher_suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384)
        }
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305" | "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256" => {
            Suite::Tls12(cipher_suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256)
        }
        "TLS_AES_128_GCM_SHA256" | "TLS_AES_256_GCM_SHA384" | "TLS_CHACHA20_POLY1305_SHA256" => {
            Suite::Tls13
        }
        name if NOT_AVAILABLE.contains(&name) => Suite::NotAvailable,
        _ => return None,
    })
}

fn curve(id: u16) -> Option<&'static dyn SupportedKxGroup> {
    match id {
        23 => Some(kx_group::SECP256R1),
        24 => Some(kx_group::SECP384R1),
        29 => Some(kx_group::X25519),
        _ => None,
    }
}

/// Checks `--tls-cipher-suites` (FLAG-30); returns the names that are known but not available, for a warning each.
///
/// ```
/// use serving::tls::check_cipher_suites;
///
/// let names = ["TLS_RSA_WITH_AES_128_CBC_SHA", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"].map(String::from);
/// assert_eq!(check_cipher_suites(&names), Ok(vec![names[0].clone()]));
/// assert!(check_cipher_suites(&["NULL".into()]).is_err_and(|e| e == "Cipher suite NULL not supported or doesn't exist"));
/// ```
///
/// # Errors
/// An unknown name, or none that is available.
pub fn check_cipher_suites(names: &[String]) -> Result<Vec<String>, String> {
    let mut skipped = Vec::new();
    for name in names {
        match suite(name) {
            None => {
                return Err(format!(
                    "Cipher suite {name} not supported or doesn't exist"
                ));
            }
            Some(Suite::NotAvailable) => skipped.push(name.clone()),
            Some(Suite::Tls12(_) | Suite::Tls13) => {}
        }
    }
    if !names.is_empty() && skipped.len() == names.len() {
        let known = "TLS_ECDHE_{ECDSA,RSA}_WITH_{AES_128_GCM_SHA256,AES_256_GCM_SHA384,CHACHA20_POLY1305_SHA256}";
        return Err(format!(
            "none of the cipher suites {} is available in this build; it has {known}",
            names.join(",")
        ));
    }
    Ok(skipped)
}

/// Parses `--tls-min-version` (FLAG-31). The second part is a warning if the requested version is older than those of
/// this build. Empty means the default.
///
/// # Errors
/// The word is not a known version.
pub fn parse_version(word: &str) -> Result<(TlsVersion, Option<String>), String> {
    match word {
        "" | "VersionTLS12" => Ok((TlsVersion::V1_2, None)),
        "VersionTLS13" => Ok((TlsVersion::V1_3, None)),
        "VersionTLS10" | "VersionTLS11" => Ok((
            TlsVersion::V1_2,
            Some(format!(
                "{word} is not available in this build, VersionTLS12 is used instead"
            )),
        )),
        _ => Err(format!("unknown tls version {word:?}")),
    }
}

/// Validates `--tls-curve-preferences` (FLAG-32); returns the known but unavailable IDs, for a warning each. The
/// remaining IDs fit `u16`.
///
/// # Errors
/// An id out of range, twice, or unknown; or none that is available.
pub fn check_curves(ids: &[i32]) -> Result<Vec<u16>, String> {
    let mut seen = BTreeSet::new();
    let mut skipped = Vec::new();
    for id in ids {
        let Some(small) = u16::try_from(*id).ok().filter(|id| *id != 0) else {
            return Err(format!(
                "curve preference {id} is out of range (must be 1-65535)"
            ));
        };
        if !seen.insert(small) {
            return Err(format!("duplicate curve preference {id}"));
        }
        match curve(small) {
            Some(_) => {}
            None if NO_SUCH_CURVE.contains(&small) => skipped.push(small),
            None => {
                return Err(format!(
                    "curve preference {id} is not supported by this build"
                ));
            }
        }
    }
    if !ids.is_empty() && skipped.len() == ids.len() {
        return Err(format!(
            "none of the curve preferences {skipped:?} is available in this build; it has 23, 24 and 29"
        ));
    }
    Ok(skipped)
}

/// Reads one `--tls-sni-cert-key` (FLAG-33): `CERTIFICATE,KEY` or `CERTIFICATE,KEY:NAME,…`.
///
/// ```
/// let pair = serving::tls::parse_sni_pair("a.crt,a.key:*.example.com,example.com")?;
/// assert_eq!((pair.files.key.to_str(), pair.names.len()), (Some("a.key"), 2));
/// # Ok::<(), String>(())
/// ```
///
/// # Errors
/// If there are not two paths.
pub fn parse_sni_pair(value: &str) -> Result<SniPair, String> {
    let (paths, names) = value.split_once(':').unwrap_or((value, ""));
    let parts: Vec<_> = paths.split(',').map(str::trim).collect();
    let &[certificate, key] = parts.as_slice() else {
        return Err("expected comma separated certificate and key file paths".to_owned());
    };
    if certificate.is_empty() || key.is_empty() {
        return Err("expected comma separated certificate and key file paths".to_owned());
    }
    let names = names
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect();
    Ok(SniPair {
        files: CertificateFiles {
            certificate: PathBuf::from(certificate),
            key: PathBuf::from(key),
        },
        names,
    })
}

/// TLS versions and cipher suites of the TLS library that the options permit.
#[derive(Clone, Debug)]
pub(crate) struct TlsChoices {
    pub(crate) provider: CryptoProvider,
    pub(crate) versions: &'static [&'static SupportedProtocolVersion],
}

impl TlsChoices {
    /// Creates the choices from validated options, without values that this build does not support.
    pub(crate) fn new(options: &ServingOptions) -> Self {
        let mut provider = default_provider();
        let chosen: Vec<_> = options
            .cipher_suites
            .iter()
            .filter_map(|name| suite(name))
            .collect();
        if !chosen.is_empty() {
            let named = |wanted: &SupportedCipherSuite| {
                chosen.iter().any(
                    |suite| matches!(suite, Suite::Tls12(suite) if suite.suite() == wanted.suite()),
                )
            };
            // The order of the TLS library applies, as in the Go cloud-controller-manager.
            provider
                .cipher_suites
                .retain(|suite| suite.tls13().is_some() || named(suite));
        }
        if options
            .curve_preferences
            .iter()
            .any(|id| curve(*id).is_some())
        {
            provider
                .kx_groups
                .retain(|group| options.curve_preferences.contains(&u16::from(group.name())));
        }
        let versions: &[&SupportedProtocolVersion] = match options.min_version {
            TlsVersion::V1_2 => rustls::ALL_VERSIONS,
            TlsVersion::V1_3 => &ONLY_TLS13,
        };
        Self { provider, versions }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn every_cipher_suite_that_kubernetes_knows_is_accepted() {
        let mut all = strings(&NOT_AVAILABLE);
        for key in ["ECDSA", "RSA"] {
            for rest in [
                "AES_128_GCM_SHA256",
                "AES_256_GCM_SHA384",
                "CHACHA20_POLY1305",
                "CHACHA20_POLY1305_SHA256",
            ] {
                all.push(format!("TLS_ECDHE_{key}_WITH_{rest}"));
            }
        }
        all.extend(strings(&[
            "TLS_AES_128_GCM_SHA256",
            "TLS_AES_256_GCM_SHA384",
            "TLS_CHACHA20_POLY1305_SHA256",
        ]));
        assert_eq!(check_cipher_suites(&all), Ok(strings(&NOT_AVAILABLE)));
    }

    #[test]
    fn a_list_of_nothing_usable_is_an_error_that_says_what_there_is() {
        let text = check_cipher_suites(&strings(&["TLS_RSA_WITH_RC4_128_SHA"])).unwrap_err();
        assert!(
            text.contains("none of the cipher suites TLS_RSA_WITH_RC4_128_SHA is available"),
            "{text}"
        );
        assert_eq!(check_cipher_suites(&[]), Ok(vec![]));
        assert_eq!(
            check_cipher_suites(&strings(&["TLS_AES_128_GCM_SHA256"])),
            Ok(vec![])
        );
    }

    #[test]
    fn old_versions_are_accepted_with_a_warning() {
        assert_eq!(parse_version(""), Ok((TlsVersion::V1_2, None)));
        assert_eq!(parse_version("VersionTLS13"), Ok((TlsVersion::V1_3, None)));
        let (version, warning) = parse_version("VersionTLS10").unwrap();
        assert!(
            version == TlsVersion::V1_2
                && warning.is_some_and(|text| text.contains("VersionTLS10"))
        );
        assert_eq!(
            parse_version("1.2"),
            Err("unknown tls version \"1.2\"".to_owned())
        );
    }

    #[test]
    fn curves_are_checked_one_by_one() {
        assert_eq!(check_curves(&[29, 4588, 23, 25]), Ok(vec![4588, 25]));
        let table: [(&[i32], &str); 5] = [
            (&[0], "curve preference 0 is out of range (must be 1-65535)"),
            (
                &[65536],
                "curve preference 65536 is out of range (must be 1-65535)",
            ),
            (&[29, 29], "duplicate curve preference 29"),
            (&[7], "curve preference 7 is not supported by this build"),
            (
                &[25],
                "none of the curve preferences [25] is available in this build; it has 23, 24 and 29",
            ),
        ];
        for (ids, text) in table {
            assert_eq!(check_curves(ids), Err(text.to_owned()), "{ids:?}");
        }
    }

    #[test]
    fn a_pair_needs_two_paths() {
        let expected = Err("expected comma separated certificate and key file paths".to_owned());
        for value in ["", "a.crt", "a.crt,", "a,b,c", "a.crt:example.com"] {
            assert_eq!(parse_sni_pair(value), expected, "{value:?}");
        }
        assert_eq!(
            parse_sni_pair("a.crt,a.key").map(|pair| pair.names),
            Ok(vec![])
        );
    }

    #[test]
    fn only_chosen_cipher_suites_and_curves_are_offered() {
        let options = ServingOptions {
            cipher_suites: strings(&[
                "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
                "TLS_RSA_WITH_RC4_128_SHA",
            ]),
            curve_preferences: vec![24, 25],
            min_version: TlsVersion::V1_3,
            ..ServingOptions::default()
        };
        let choices = TlsChoices::new(&options);
        let tls12 = choices
            .provider
            .cipher_suites
            .iter()
            .filter(|suite| suite.tls13().is_none())
            .count();
        let groups: Vec<_> = choices
            .provider
            .kx_groups
            .iter()
            .map(|group| u16::from(group.name()))
            .collect();
        assert_eq!((tls12, groups, choices.versions.len()), (1, vec![24], 1));
        let all = TlsChoices::new(&ServingOptions::default());
        assert_eq!(
            (all.provider.cipher_suites.len(), all.versions.len()),
            (9, 2)
        );
    }
}
