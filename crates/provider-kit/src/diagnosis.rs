//! What every provider can tell `doctor`.

use cloud_provider::{Error, Finding, Result};

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

/// The first look: whether the API at `base` answers, and takes the credential. `None`: there is nothing more to find out.
/// `setting` says where the API is, `credential` what to do about one that is refused.
///
/// ```
/// use cloud_provider::{Error, Severity};
/// use provider_kit::diagnosis::reached;
///
/// let mut findings = Vec::new();
/// let answer: Result<(), _> = Err(Error::unauthorized("GET /v1/project was refused"));
/// let told = reached("https://api.acme.example", "ACME_ENDPOINT", "put a token into ACME_TOKEN", answer, &mut findings);
/// assert!(told.is_none());
/// assert_eq!((&*findings[0].check, findings[0].severity), ("endpoint", Severity::Ok));
/// assert_eq!((&*findings[1].check, findings[1].severity), ("token", Severity::Failure));
/// ```
pub fn reached<T>(
    base: &str,
    setting: &str,
    credential: &str,
    answer: Result<T>,
    findings: &mut Vec<Finding>,
) -> Option<T> {
    let answered = Finding::ok("endpoint", format!("{base} answers"));
    match answer {
        Ok(answer) => {
            findings.push(answered);
            Some(answer)
        }
        Err(error) if error.is_unauthorized() => {
            findings.extend([answered, Finding::failure("token", error.to_string(), credential)]);
            None
        }
        Err(error) => {
            let remedy = endpoint_remedy(setting, &error);
            findings.push(Finding::failure("endpoint", format!("{base}: {error}"), remedy));
            None
        }
    }
}
