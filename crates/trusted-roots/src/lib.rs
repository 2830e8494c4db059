//! Certificates of the authorities that this system trusts, from the usual places of all distributions (D-371).
//!
//! Clients of clouds and of the Kubernetes API trust them, unless a configuration names an authority. An image has no
//! distribution, and a manifest may mount a directory of the host over that of the image, so the usual places are tried
//! in order, and then a place of this project's image that no manifest hides.
//!
//! ```no_run
//! let roots = trusted_roots::load()?;
//! println!("{} authorities are trusted", roots.len());
//! # Ok::<(), trusted_roots::NoCertificates>(())
//! ```

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

/// Bundles of certificates, in the order in which they are tried.
const BUNDLES: [&str; 6] = [
    // Debian, Ubuntu, Gentoo, Alpine, and this project's image.
    "/etc/ssl/certs/ca-certificates.crt",
    // Fedora, RHEL and its relatives.
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    // SUSE.
    "/etc/ssl/ca-bundle.pem",
    "/var/lib/ca-certificates/ca-bundle.pem",
    // Alpine.
    "/etc/ssl/cert.pem",
];
/// Directories with one certificate in each file, which are read in addition to a bundle.
const DIRECTORIES: [&str; 2] = ["/etc/ssl/certs", "/etc/pki/tls/certs"];
/// The bundle of this project's image where no manifest mounts a directory of the host (`deploy/image/layout`).
const IMAGE_BUNDLE: &str = "/usr/share/ccm-rs/ca-certificates.crt";
/// Number of bytes of a file that are read. The certificates of all authorities have some 300 KiB.
const LARGEST: u64 = 16 << 20;
/// Variable that names the only bundle.
const FILE_VARIABLE: &str = "SSL_CERT_FILE";
/// Variable that names the only directories, separated by colons.
const DIRECTORIES_VARIABLE: &str = "SSL_CERT_DIR";

/// There is no certificate, so that no server could be verified. The text names the places that were tried, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no server can be verified: {0}")]
pub struct NoCertificates(String);

/// Loads the certificates of the authorities that this system trusts: those of `SSL_CERT_FILE` and `SSL_CERT_DIR`, if one
/// of them is set; otherwise those of the first usual bundle that has any, and of the usual directories; otherwise those of
/// this project's image. Files that cannot be read, and certificates that cannot be parsed, are left out.
///
/// # Errors
/// [`NoCertificates`] if there is no certificate.
pub fn load() -> Result<Vec<CertificateDer<'static>>, NoCertificates> {
    CertificatePlaces::of_this_system().load()
}

/// Places of certificates on a system.
#[derive(Debug)]
struct CertificatePlaces {
    /// Value of `SSL_CERT_FILE`; empty if the variable is not set.
    file: OsString,
    /// Value of `SSL_CERT_DIR`; empty if the variable is not set.
    directories: OsString,
    bundles: Vec<PathBuf>,
    usual_directories: Vec<PathBuf>,
    image_bundle: PathBuf,
}

impl CertificatePlaces {
    /// Returns the places of this system.
    fn of_this_system() -> Self {
        Self {
            file: std::env::var_os(FILE_VARIABLE).unwrap_or_default(),
            directories: std::env::var_os(DIRECTORIES_VARIABLE).unwrap_or_default(),
            bundles: BUNDLES.map(PathBuf::from).to_vec(),
            usual_directories: DIRECTORIES.map(PathBuf::from).to_vec(),
            image_bundle: PathBuf::from(IMAGE_BUNDLE),
        }
    }

    /// Loads the certificates; see [`load`].
    fn load(&self) -> Result<Vec<CertificateDer<'static>>, NoCertificates> {
        if !self.file.is_empty() || !self.directories.is_empty() {
            return self.load_named();
        }
        let mut found: BTreeSet<Vec<u8>> = self
            .bundles
            .iter()
            .map(|bundle| in_file(bundle))
            .find(|found| !found.is_empty())
            .unwrap_or_default();
        found.extend(
            self.usual_directories
                .iter()
                .flat_map(|directory| in_directory(directory)),
        );
        if found.is_empty() {
            found = in_file(&self.image_bundle);
            if !found.is_empty() {
                let path = self.image_bundle.display();
                tracing::info!(%path, "no usual place has certificates of authorities: those of the image are trusted");
            }
        }
        let tried = self
            .bundles
            .iter()
            .chain(&self.usual_directories)
            .chain([&self.image_bundle]);
        loaded(found, || {
            let tried: Vec<_> = tried.map(|path| path.display().to_string()).collect();
            format!(
                "no certificate could be loaded from {}; mount a bundle of certificates at one of these paths, or name one with \
                 {FILE_VARIABLE}",
                tried.join(", ")
            )
        })
    }

    /// Loads the certificates that the variables name. Others are not trusted instead, because an operator who names
    /// authorities trusts only these.
    fn load_named(&self) -> Result<Vec<CertificateDer<'static>>, NoCertificates> {
        let mut found = if self.file.is_empty() {
            BTreeSet::new()
        } else {
            in_file(Path::new(&self.file))
        };
        let directories =
            std::env::split_paths(&self.directories).filter(|path| !path.as_os_str().is_empty());
        found.extend(directories.flat_map(|directory| in_directory(&directory)));
        loaded(found, || {
            let file = self.file.to_string_lossy();
            let directories = self.directories.to_string_lossy();
            format!(
                "no certificate could be loaded from {FILE_VARIABLE}={file:?} and {DIRECTORIES_VARIABLE}={directories:?}; name \
                 readable files with certificates in the form of PEM, or remove the variables"
            )
        })
    }
}

/// Returns the certificates, if there are any.
fn loaded(
    found: BTreeSet<Vec<u8>>,
    problem: impl FnOnce() -> String,
) -> Result<Vec<CertificateDer<'static>>, NoCertificates> {
    if found.is_empty() {
        return Err(NoCertificates(problem()));
    }
    tracing::debug!(
        certificates = found.len(),
        "certificates of authorities loaded"
    );
    Ok(found.into_iter().map(CertificateDer::from).collect())
}

/// Returns the certificates of all files of a directory, but not of directories in it.
fn in_directory(directory: &Path) -> BTreeSet<Vec<u8>> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let files = entries
        .map(|entry| entry.path())
        .filter(|path| path.is_file());
    files.flat_map(|file| in_file(&file)).collect()
}

/// Returns the certificates of a file in the form of PEM that are certificates of authorities. A pipe or a device has
/// none, because the read might not end.
fn in_file(file: &Path) -> BTreeSet<Vec<u8>> {
    let mut pem = Vec::new();
    let mut read = || File::open(file)?.take(LARGEST).read_to_end(&mut pem);
    if !file.is_file() || read().is_err() {
        return BTreeSet::new();
    }
    let certificates = CertificateDer::pem_slice_iter(&pem).filter_map(Result::ok);
    certificates
        .filter(|root| RootCertStore::empty().add(root.clone()).is_ok())
        .map(|root| root.to_vec())
        .collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
    use tempfile::TempDir;

    use super::*;

    /// A system whose usual places are in a temporary directory.
    struct System {
        root: TempDir,
    }

    impl System {
        fn new() -> Self {
            let system = Self {
                root: tempfile::tempdir().unwrap(),
            };
            for directory in ["etc/ssl/certs", "usr/share/ccm-rs"] {
                fs::create_dir_all(system.path(directory)).unwrap();
            }
            system
        }

        fn path(&self, path: &str) -> PathBuf {
            self.root.path().join(path)
        }

        /// Writes a file with certificates of `count` new authorities.
        fn write(&self, path: &str, count: usize) {
            fs::create_dir_all(self.path(path).parent().unwrap()).unwrap();
            let pem: String = (0..count).map(|_| authority()).collect();
            fs::write(self.path(path), pem).unwrap();
        }

        fn places(&self) -> CertificatePlaces {
            CertificatePlaces {
                file: OsString::new(),
                directories: OsString::new(),
                bundles: vec![
                    self.path("etc/ssl/certs/ca-certificates.crt"),
                    self.path("etc/pki/tls/certs/ca-bundle.crt"),
                ],
                usual_directories: vec![self.path("etc/ssl/certs")],
                image_bundle: self.path("usr/share/ccm-rs/ca-certificates.crt"),
            }
        }

        fn count(&self) -> usize {
            self.places()
                .load()
                .map(|roots| roots.len())
                .unwrap_or_default()
        }
    }

    /// Returns the certificate of a new authority.
    fn authority() -> String {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap())
            .unwrap()
            .pem()
    }

    #[test]
    fn first_bundle_with_certificates_is_trusted() {
        let system = System::new();
        system.write("usr/share/ccm-rs/ca-certificates.crt", 5);
        system.write("etc/pki/tls/certs/ca-bundle.crt", 2);
        assert_eq!(system.count(), 2, "the only one that exists");
        fs::write(system.path("etc/ssl/certs/ca-certificates.crt"), "").unwrap();
        assert_eq!(system.count(), 2, "an empty file is none");
        system.write("etc/ssl/certs/ca-certificates.crt", 3);
        assert_eq!(system.count(), 3);
    }

    #[test]
    fn certificates_of_the_directory_are_trusted_as_well_each_once() {
        let system = System::new();
        system.write("etc/ssl/certs/ca-certificates.crt", 3);
        system.write("etc/ssl/certs/own.pem", 1);
        fs::copy(
            system.path("etc/ssl/certs/own.pem"),
            system.path("etc/ssl/certs/5ed36f99.0"),
        )
        .unwrap();
        fs::write(system.path("etc/ssl/certs/README"), "no certificate").unwrap();
        std::os::unix::fs::symlink("/no/such/file", system.path("etc/ssl/certs/dangling.pem"))
            .unwrap();
        fs::create_dir(system.path("etc/ssl/certs/java")).unwrap();
        assert_eq!(system.count(), 4);
    }

    /// A manifest mounts the host's `/etc/ssl/certs` over that of the image, and the host keeps its bundle elsewhere.
    #[test]
    fn certificates_of_the_image_are_trusted_if_a_mount_hides_the_usual_ones() {
        let system = System::new();
        system.write("usr/share/ccm-rs/ca-certificates.crt", 5);
        std::os::unix::fs::symlink(
            "/no/such/tls-ca-bundle.pem",
            system.path("etc/ssl/certs/ca-bundle.crt"),
        )
        .unwrap();
        assert_eq!(system.count(), 5);
    }

    #[test]
    fn variables_name_the_only_certificates() {
        let system = System::new();
        system.write("etc/ssl/certs/ca-certificates.crt", 3);
        system.write("own/bundle.pem", 1);
        system.write("more/a.pem", 1);
        system.write("most/b.pem", 2);
        let load = |file: &str, directories: &[&str]| {
            let file = if file.is_empty() {
                OsString::new()
            } else {
                system.path(file).into_os_string()
            };
            let directories =
                std::env::join_paths(directories.iter().map(|path| system.path(path))).unwrap();
            CertificatePlaces {
                file,
                directories,
                ..system.places()
            }
            .load()
        };
        assert_eq!(load("own/bundle.pem", &[]).unwrap().len(), 1);
        assert_eq!(load("", &["more", "most"]).unwrap().len(), 3);
        assert_eq!(load("own/bundle.pem", &["most"]).unwrap().len(), 3);
        let error = load("no/such.pem", &[]).unwrap_err().to_string();
        assert!(
            error.contains("SSL_CERT_FILE") && error.contains("no/such.pem"),
            "{error}"
        );
    }

    #[test]
    fn absence_of_certificates_is_an_error_that_names_the_places_and_the_remedy() {
        let system = System::new();
        fs::write(
            system.path("etc/ssl/certs/ca-certificates.crt"),
            "-----BEGIN CERTIFICATE-----\nAAAA\n",
        )
        .unwrap();
        let error = system.places().load().unwrap_err().to_string();
        for word in [
            "no certificate could be loaded",
            "ca-certificates.crt",
            "ca-bundle.crt",
            "ccm-rs",
            "mount",
            "SSL_CERT_FILE",
        ] {
            assert!(error.contains(word), "{word}: {error}");
        }
    }
}
