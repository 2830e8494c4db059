//! Generates a self-signed CA and serving certificate if the operator provides none (APP-111, APP-112).

use std::fs;
use std::io::{self, Write as _};
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, SanType, date_time_ymd,
};

use super::pair::{Leaf, PemPair};
use crate::error::ServingError;
use crate::options::CertificateFiles;

const LEAF: &str = "localhost@";
const AUTHORITY: &str = "localhost-ca@";
const HOUR: Duration = Duration::from_secs(3600);
/// Attempts to lock the files; another process writes them within milliseconds.
const HOLD_TRIES: u32 = 100;
const HOLD_PAUSE: Duration = Duration::from_millis(50);
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// Generates a CA and a serving certificate signed by it; the certificate file has both.
pub(super) fn generate(bind_address: IpAddr, now: Timestamp) -> Result<PemPair, ServingError> {
    make(bind_address, now).map_err(|error| ServingError::Generate(error.to_string()))
}

fn make(bind_address: IpAddr, now: Timestamp) -> Result<PemPair, rcgen::Error> {
    let authority_key = KeyPair::generate()?;
    let mut authority = params(&format!("{AUTHORITY}{}", now.as_second()), now);
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![
        KeyUsagePurpose::DigitalSignature,
        KeyUsagePurpose::KeyEncipherment,
        KeyUsagePurpose::KeyCertSign,
    ];
    let authority_certificate = authority.self_signed(&authority_key)?;

    let key = KeyPair::generate()?;
    let mut leaf = params(&format!("{LEAF}{}", now.as_second()), now);
    leaf.key_usages = vec![
        KeyUsagePurpose::DigitalSignature,
        KeyUsagePurpose::KeyEncipherment,
    ];
    leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    leaf.subject_alt_names = vec![
        SanType::DnsName("localhost".try_into()?),
        SanType::IpAddress(IpAddr::from([127, 0, 0, 1])),
    ];
    if !bind_address.is_unspecified() && bind_address != IpAddr::from([127, 0, 0, 1]) {
        leaf.subject_alt_names
            .push(SanType::IpAddress(bind_address));
    }
    leaf.use_authority_key_identifier_extension = true;
    let leaf = leaf.signed_by(&key, &Issuer::new(authority, authority_key))?;
    let certificate = leaf.pem() + &authority_certificate.pem();
    Ok(PemPair {
        certificate: certificate.into_bytes(),
        key: key.serialize_pem().into_bytes(),
    })
}

fn params(common_name: &str, now: Timestamp) -> CertificateParams {
    let now = date_time_ymd(1970, 1, 1)
        + Duration::from_secs(u64::try_from(now.as_second()).unwrap_or_default());
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::CommonName, common_name);
    (params.not_before, params.not_after) = (now - HOUR, now + YEAR);
    params
}

/// Returns `true` if [`generate`] created this certificate.
pub(super) fn is_ours(leaf: &Leaf) -> bool {
    leaf.subject.starts_with(LEAF) && leaf.issuer.starts_with(AUTHORITY)
}

/// Creates the directory of a pair if necessary, and locks it until the result is dropped: of several processes that
/// share it one writes at a time, or each would write half of a pair. On file systems without locks nothing is locked.
pub(super) fn hold(files: &CertificateFiles) -> Result<Option<fs::File>, ServingError> {
    let Some(directory) = files.certificate.parent() else {
        return Ok(None);
    };
    let mut builder = fs::DirBuilder::new();
    builder
        .recursive(true)
        .mode(0o755)
        .create(directory)
        .map_err(|error| failed(directory, &error))?;
    let Ok(held) = fs::File::open(directory) else {
        return Ok(None);
    };
    for _ in 0..HOLD_TRIES {
        match held.try_lock() {
            Ok(()) => return Ok(Some(held)),
            Err(fs::TryLockError::WouldBlock) => std::thread::sleep(HOLD_PAUSE),
            Err(fs::TryLockError::Error(_)) => break,
        }
    }
    Ok(None)
}

fn failed(path: &Path, error: &io::Error) -> ServingError {
    let remedy = "make the directory writable, or choose another one with --cert-dir (--webhook-cert-dir); an empty \
                  value keeps the certificate in memory";
    ServingError::Generate(format!(
        "cannot write {}: {error}; {remedy}",
        path.display()
    ))
}

/// Stores a generated pair, with a key that only the owner can read. Each file is replaced atomically; both change
/// while the directory is [locked](hold).
pub(super) fn store(pair: &PemPair, files: &CertificateFiles) -> Result<(), ServingError> {
    // The key first: a certificate without its key could never be used.
    for (path, content, mode) in [
        (&files.key, &pair.key, 0o600),
        (&files.certificate, &pair.certificate, 0o644),
    ] {
        write(path, content, mode).map_err(|error| failed(path, &error))?;
    }
    Ok(())
}

fn write(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    // A partial file of an earlier process must not pass on its mode.
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&temporary)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&temporary, path)
}
