//! Checks of `doctor` that every provider has: endpoint, credential, permissions, rate limit, and configured choices.

use cloud_provider::{Error, Finding, Result};
use http::HeaderMap;
use serde_json::Value;

use crate::transport::{Call, Transport};

/// Returns the remedy for an API that gave no answer. `setting` configures its address.
///
/// ```
/// use cloud_provider::Error;
/// use provider_kit::checks::endpoint_remedy;
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
            "correct {setting}, or set `dnsPolicy: Default` in the Pod, so that the node's own DNS is used"
        );
    }
    if text.contains("certificate") {
        return format!("check {setting}, and that the authority of its certificate is configured");
    }
    format!("check {setting}, and the network and the firewalls on the way")
}

/// Checks that the API at `base` answers, and accepts the credential. Returns `None` if nothing more can be checked.
/// `setting` configures the address; `credential` is the remedy for a credential that is refused.
///
/// ```
/// use cloud_provider::{Error, Severity};
/// use provider_kit::checks::reached;
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
            findings.extend([
                answered,
                Finding::failure("token", error.to_string(), credential),
            ]);
            None
        }
        Err(error) => {
            let remedy = endpoint_remedy(setting, &error);
            findings.push(Finding::failure(
                "endpoint",
                format!("{base}: {error}"),
                remedy,
            ));
            None
        }
    }
}

/// Returns the failure of a request. `credential` is the remedy for a credential that lacks the permission; the address of the
/// API is configured by `setting`.
#[must_use]
pub fn refused(check: &'static str, setting: &str, credential: &str, error: &Error) -> Finding {
    let remedy = match error.is_unauthorized() {
        true => credential.to_owned(),
        false => endpoint_remedy(setting, error),
    };
    Finding::failure(check, error.to_string(), remedy)
}

/// Returns a failure if the configured value `chosen` is not among the `available` ones of the cloud, else `None`.
/// `setting` names the setting in the remedy.
///
/// ```
/// use provider_kit::checks::unavailable;
///
/// assert!(unavailable("region", "ACME_REGION", "north", ["north", "south"]).is_none());
/// let finding = unavailable("region", "ACME_REGION", "nroth", ["south", "north", "north"]).unwrap();
/// assert_eq!(finding.text, r#""nroth" does not exist"#);
/// assert_eq!(finding.remedy.unwrap(), "set ACME_REGION to one of north, south");
/// ```
pub fn unavailable<'a>(
    check: &'static str,
    setting: &str,
    chosen: &str,
    available: impl IntoIterator<Item = &'a str>,
) -> Option<Finding> {
    let mut available: Vec<_> = available.into_iter().collect();
    available.sort_unstable();
    available.dedup();
    let remedy = || format!("set {setting} to one of {}", available.join(", "));
    (!available.contains(&chosen))
        .then(|| Finding::failure(check, format!("{chosen:?} does not exist"), remedy()))
}

/// Returns a warning if nothing is configured although the cloud has several `available` values, and `None` if it has
/// at most one.
#[must_use]
pub fn undecided(check: &'static str, available: &[String], remedy: &str) -> Option<Finding> {
    let text = || {
        format!(
            "none is configured, and there are several: {}",
            available.join(", ")
        )
    };
    (available.len() > 1).then(|| Finding::warning(check, text(), remedy))
}

/// Checks how many requests are left of the rate limit. Less than a tenth is a warning. `None` if the answer lacks the
/// header `ratelimit-limit` or `ratelimit-remaining`.
#[must_use]
pub fn rate_limit(headers: &HeaderMap, remedy: &str) -> Option<Finding> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.parse::<u64>().ok();
    let limit = number("ratelimit-limit")?;
    let left = number("ratelimit-remaining")?;
    let text = format!("{left} of {limit} requests are left");
    Some(match left.saturating_mul(10) >= limit {
        true => Finding::ok("rate limit", text),
        false => Finding::warning("rate limit", text, remedy),
    })
}

/// Checks that each list may be read. Each item of `lists` is the name of the objects and a request for one of them.
pub async fn permissions(
    http: &Transport,
    lists: impl IntoIterator<Item = (&str, Call)>,
) -> Vec<Finding> {
    let mut readable = Vec::new();
    let mut failures = Vec::new();
    for (what, call) in lists {
        let Err(error) = http.read::<Value>(call).await else {
            readable.push(what);
            continue;
        };
        let remedy = match error.is_unauthorized() {
            true => "give the token's role this permission",
            false => "try again; if it stays so, ask the cloud's operators",
        };
        failures.push(Finding::failure(
            "permissions",
            format!("cannot list {what}: {error}"),
            remedy,
        ));
    }
    if failures.is_empty() {
        failures.push(Finding::ok(
            "permissions",
            format!("may list {}", readable.join(", ")),
        ));
    }
    failures
}
