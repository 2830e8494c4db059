//! What every provider can tell `doctor`.

use cloud_provider::Error;

/// What to do about an API that gave no answer. `setting`: what says where it is.
///
/// ```
/// use cloud_provider::Error;
/// use provider_kit::diagnosis::endpoint_remedy;
///
/// let error = Error::other("GET / was not answered: connection refused");
/// assert_eq!(endpoint_remedy("ACME_ENDPOINT", &error), "check ACME_ENDPOINT, and the network and the firewalls on the way");
/// let error = Error::other("GET / was not answered: error sending request: invalid peer certificate: UnknownIssuer");
/// assert!(endpoint_remedy("ACME_ENDPOINT", &error).ends_with("the authority of its certificate is configured"));
/// ```
#[must_use]
pub fn endpoint_remedy(setting: &str, error: &Error) -> String {
    let text = error.to_string();
    if text.contains("dns error") || text.contains("failed to lookup address") {
        return format!(
            "correct {setting}, or set `dnsPolicy: Default` in the Pod, so that the node's own DNS is asked"
        );
    }
    if text.contains("certificate") {
        return format!("check {setting}, and that the authority of its certificate is configured");
    }
    format!("check {setting}, and the network and the firewalls on the way")
}
