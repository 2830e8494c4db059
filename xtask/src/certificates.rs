//! Certificates of public authorities in the image. Their version is that of a crate in `Cargo.lock`, so that the image
//! does not depend on the machine that makes it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Bundle in the repository, from which `deploy/image/layout` copies.
pub(crate) const FILE: &str = "deploy/image/certificates.pem";

/// Length of a line in PEM.
const LINE: usize = 64;

/// Returns the bundle in the form of PEM.
pub(crate) fn bundle() -> String {
    let mut text = String::from(
        "# Certificates of Mozilla's root program, under CDLA-Permissive-2.0. Written by `cargo xtask certificates` from\n\
         # the crate webpki-root-certs; `cargo update --package webpki-root-certs` has newer ones.\n",
    );
    for certificate in webpki_root_certs::TLS_SERVER_ROOT_CERTS {
        text += "-----BEGIN CERTIFICATE-----\n";
        let encoded = STANDARD.encode(certificate);
        let mut rest = encoded.as_str();
        while !rest.is_empty() {
            let (line, more) = rest.split_at(rest.len().min(LINE));
            text += line;
            text.push('\n');
            rest = more;
        }
        text += "-----END CERTIFICATE-----\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn certificates_of_the_image_are_those_of_the_locked_crate() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(FILE);
        let written = std::fs::read_to_string(&path).unwrap();
        assert!(
            written == bundle(),
            "{FILE} is out of date; run cargo xtask certificates"
        );
        assert!(written.matches("BEGIN CERTIFICATE").count() > 100);
    }
}
