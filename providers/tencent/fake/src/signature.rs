//! The signature of requests, verified as the APIs do.

use fake_cloud::Refused;
use ring::{digest, hmac};

use crate::{ApiRequest, KEY_ID, SECRET, TEMPORARY, check, refuse};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes())
        .as_ref()
        .to_vec()
}

/// Checks `TC3-HMAC-SHA256 Credential=ID/DATE/PRODUCT/tc3_request, SignedHeaders=A;B, Signature=HEX`.
pub(crate) fn verify(request: &ApiRequest) -> Result<(), Refused> {
    let header = |name: &str| request.header(name).unwrap_or_default().trim().to_owned();
    let given = header("authorization");
    let part = |name: &str| {
        let rest = given
            .split_once(name)
            .map(|(_, rest)| rest)
            .unwrap_or_default();
        rest.split(',').next().unwrap_or_default().to_owned()
    };
    let credential = part("Credential=");
    let [id, date, product, end] = credential.split('/').collect::<Vec<_>>()[..] else {
        return refuse(
            "AuthFailure.InvalidAuthorization",
            "Authorization has no credential.",
        );
    };
    let token = header("x-tc-token");
    let secret = match (id, &*token) {
        (KEY_ID, "") => SECRET,
        (id, token) if id == TEMPORARY[0] && token == TEMPORARY[2] => TEMPORARY[1],
        (id, _) if id == TEMPORARY[0] => {
            return refuse("AuthFailure.TokenFailure", "The token is wrong.");
        }
        _ => return refuse("AuthFailure.SecretIdNotFound", "The SecretId is not found."),
    };
    check(
        end == "tc3_request",
        "AuthFailure.InvalidAuthorization",
        "The scope is wrong.",
    )?;
    let names = part("SignedHeaders=");
    let lines: String = names
        .split(';')
        .map(|name| format!("{name}:{}\n", header(name).to_lowercase()))
        .collect();
    let body = hex(digest::digest(&digest::SHA256, &request.bytes).as_ref());
    let canonical = format!("POST\n/\n\n{lines}\n{names}\n{body}");
    let hash = hex(digest::digest(&digest::SHA256, canonical.as_bytes()).as_ref());
    let text = format!(
        "TC3-HMAC-SHA256\n{}\n{date}/{product}/tc3_request\n{hash}",
        header("x-tc-timestamp")
    );
    let key = [date, product, "tc3_request"]
        .iter()
        .fold(format!("TC3{secret}").into_bytes(), |key, tc3_request| {
            mac(&key, tc3_request)
        });
    check(
        hex(&mac(&key, &text)) == part("Signature="),
        "AuthFailure.SignatureFailure",
        "The signature is wrong.",
    )
}
