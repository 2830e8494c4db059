//! Checks that the API server answers, and reads its version and its time.

use std::net::IpAddr;
use std::time::Duration;

use cloud_provider::Finding;
use http::{Request, Uri, header};
use k8s_openapi::jiff::{SignedDuration, Timestamp, fmt::rfc2822};
use kube::Client;
use kube::client::Body;
use runtime::client::Attempt;
use runtime::clock::Clock;
use runtime::kubernetes::{NEWEST, OLDEST, OLDEST_EXPECTED_TO_WORK};
use serde_json::Value;
use tokio::time::Instant;

use crate::diagnosis::{Cause, Situation, explain, remedy_of};

/// The version and the time of the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Version {
    /// Value of `gitVersion`, such as `v1.37.2`.
    pub(super) text: String,
    pub(super) number: Option<(u32, u32)>,
    pub(super) took: Duration,
    /// Time by which the API server's clock is ahead of the local one; `None` if the answer has no `Date` header.
    pub(super) skew: Option<SignedDuration>,
    /// The API server's time; the local time if the answer has no `Date` header.
    pub(super) server_time: Timestamp,
}

/// Reads `/version` and the time from the API server.
pub(super) async fn ask(client: &Client, clock: &dyn Clock) -> Result<Version, kube::Error> {
    let request = Request::get("/version")
        .body(Body::empty())
        .map_err(kube::Error::HttpError)?;
    let before = clock.now();
    let began = Instant::now();
    let answer = client.send(request).await?;
    let took = began.elapsed();
    let after = clock.now();
    let (head, body) = answer.into_parts();
    let body = body.collect_bytes().await?;
    if !head.status.is_success() {
        return Err(refused(head.status.as_u16(), &body));
    }
    let version: Value = serde_json::from_slice(&body).map_err(kube::Error::SerdeError)?;
    let text = version["gitVersion"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let date = head
        .headers
        .get(header::DATE)
        .and_then(|date| date.to_str().ok());
    let date = date
        .and_then(|date| rfc2822::parse(date).ok())
        .map(|date| date.timestamp());
    let skew = date.map(|date| skew(date, before, after));
    let server_time = skew
        .and_then(|skew| after.checked_add(skew).ok())
        .unwrap_or(after);
    Ok(Version {
        number: number(&text),
        text,
        took,
        skew,
        server_time,
    })
}

fn refused(code: u16, body: &[u8]) -> kube::Error {
    let status = serde_json::from_slice::<kube::core::Status>(body).unwrap_or_default();
    kube::Error::Api(status.with_code(code).boxed())
}

/// Returns the clock skew. `Date` has whole seconds and was written between `before` and `after`, so differences that
/// may be measurement errors count as zero.
fn skew(date: Timestamp, before: Timestamp, after: Timestamp) -> SignedDuration {
    let end_of_second = date
        .checked_add(SignedDuration::from_secs(1))
        .unwrap_or(date);
    if end_of_second < before {
        end_of_second.duration_since(before)
    } else if date > after {
        date.duration_since(after)
    } else {
        SignedDuration::ZERO
    }
}

/// Returns the major and minor version: `v1.37.2-eks-1` is 1.37.
fn number(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.trim_start_matches('v').split('.');
    let digits = |part: &str| {
        part.split(|c: char| !c.is_ascii_digit())
            .next()?
            .parse()
            .ok()
    };
    Some((digits(parts.next()?)?, digits(parts.next()?)?))
}

pub(super) fn judge(version: &Version, situation: &Situation) -> Vec<Finding> {
    let server = if situation.server.is_empty() {
        "the API server"
    } else {
        &situation.server
    };
    let mut findings = vec![Finding::ok(
        "api",
        format!(
            "{server} answers in {} ms, from {}",
            version.took.as_millis(),
            situation.origin
        ),
    )];
    if is_open(&situation.server) {
        findings.push(Finding::warning(
            "api transport",
            format!("the connection to {server} is not encrypted: anybody on the network path can read the credential"),
            "write https:// in the server's URL",
        ));
    }
    findings.push(judge_version(version));
    findings
}

/// Compares the version with the supported range. An unsupported version is never a failure: nothing in a cluster
/// depends on a field that only some versions have.
fn judge_version(version: &Version) -> Finding {
    let text = if version.text.is_empty() {
        "unknown"
    } else {
        &version.text
    };
    let of = |(major, minor): (u32, u32)| format!("{major}.{minor}");
    match version.number {
        Some(number) if number < OLDEST_EXPECTED_TO_WORK => Finding::warning(
            "api version",
            format!(
                "{text} is older than {}: the API server drops ipMode, so that Pods bypass load balancers with the \
                 PROXY protocol, and each sync of such a Service writes its status again",
                of(OLDEST_EXPECTED_TO_WORK)
            ),
            format!("upgrade the cluster to {} or later", of(OLDEST)),
        ),
        Some(number) if number < OLDEST => Finding::warning(
            "api version",
            format!(
                "{text} is older than {}, the oldest version that is supported; versions since {} are expected to \
                 work, but are not tested",
                of(OLDEST),
                of(OLDEST_EXPECTED_TO_WORK)
            ),
            format!("upgrade the cluster to {} or later", of(OLDEST)),
        ),
        Some(number) if number > NEWEST => Finding::ok(
            "api version",
            format!(
                "{text}; newer than {}, the newest version that this release is tested with",
                of(NEWEST)
            ),
        ),
        Some(_) => Finding::ok("api version", text),
        None => Finding::warning(
            "api version",
            format!("{text:?} is not a version"),
            "check that this is a Kubernetes API server",
        ),
    }
}

/// Returns a warning for each candidate that was tried before the one in use, and failed (APP-175).
pub(super) fn unused(attempts: &[Attempt]) -> Vec<Finding> {
    let warning = |attempt: &Attempt| {
        let text = format!(
            "{} was tried and cannot be used: {}",
            attempt.url, attempt.problem
        );
        Finding::warning(
            "api candidates",
            text,
            uncapitalized(&remedy_of(std::slice::from_ref(attempt))),
        )
    };
    attempts.iter().map(warning).collect()
}

/// Returns `true` if requests to this URL pass over a network, unencrypted.
fn is_open(server: &str) -> bool {
    let Ok(url) = server.parse::<Uri>() else {
        return false;
    };
    let host = url.host().unwrap_or_default();
    let address = host
        .trim_start_matches('[')
        .trim_end_matches(']')
        .parse::<IpAddr>();
    url.scheme_str() == Some("http")
        && host != "localhost"
        && !address.is_ok_and(|address| address.is_loopback())
}

pub(super) fn unreachable(error: &kube::Error, situation: &Situation) -> Finding {
    let text = explain(error, situation);
    // The explanation has the remedy after its first sentence.
    let (text, remedy) = match text.split_once(". ") {
        Some((what, remedy)) => (what.to_owned(), uncapitalized(remedy)),
        None => (text, "look at the API server's log".to_owned()),
    };
    let check = if Cause::of(error) == Cause::Unauthorized {
        "api credential"
    } else {
        "api"
    };
    Finding::failure(check, text, remedy)
}

/// Returns the text with a lower-case first letter, to follow a semicolon.
fn uncapitalized(text: &str) -> String {
    let mut rest = text.chars();
    let first = rest.next();
    first
        .into_iter()
        .flat_map(char::to_lowercase)
        .chain(rest)
        .collect()
}

#[cfg(test)]
mod tests {
    use cloud_provider::Severity;

    use super::*;

    fn version(text: &str) -> Version {
        let took = Duration::from_millis(7);
        let server_time = Timestamp::UNIX_EPOCH;
        Version {
            number: number(text),
            text: text.to_owned(),
            took,
            skew: None,
            server_time,
        }
    }

    #[test]
    fn versions_are_compared_by_number() {
        let situation = Situation::default();
        for (text, severity, part) in [
            ("v1.37.2", Severity::Ok, "v1.37.2"),
            ("v1.34.0-eks-abc", Severity::Ok, "v1.34.0-eks-abc"),
            ("v1.34+", Severity::Ok, "v1.34+"),
            (
                "v1.38.0-beta.0",
                Severity::Ok,
                "newer than 1.37, the newest version that this release is tested with",
            ),
            ("v2.0.0", Severity::Ok, "newer than 1.37"),
            (
                "v1.33.9",
                Severity::Warning,
                "older than 1.34, the oldest version that is supported",
            ),
            (
                "v1.30.0",
                Severity::Warning,
                "versions since 1.30 are expected to work, but are not tested",
            ),
            ("v1.29.14", Severity::Warning, "drops ipMode"),
            ("v1.9.1", Severity::Warning, "older than 1.30"),
            ("", Severity::Warning, "not a version"),
        ] {
            let finding = judge(&version(text), &situation).remove(1);
            assert_eq!(finding.severity, severity, "{text}");
            assert!(finding.text.contains(part), "{}", finding.text);
        }
    }

    #[test]
    fn failed_candidate_is_a_warning_with_a_remedy() {
        let attempt = |is_refused| Attempt {
            url: "https://10.96.0.1".into(),
            problem: "no answer".into(),
            is_refused,
        };
        for (is_refused, part) in [(false, "kube-proxy"), (true, "not of this cluster")] {
            let [finding] = &unused(&[attempt(is_refused)])[..] else {
                panic!("one finding")
            };
            assert_eq!(
                (finding.severity, finding.check.as_str()),
                (Severity::Warning, "api candidates")
            );
            assert!(
                finding.text.contains("https://10.96.0.1 was tried"),
                "{}",
                finding.text
            );
            assert!(
                finding.remedy.as_ref().unwrap().contains(part),
                "{:?}",
                finding.remedy
            );
        }
    }

    #[test]
    fn plain_http_to_another_machine_is_warned_of() {
        for (server, is_warned) in [
            ("http://10.0.0.1:8080", true),
            ("https://10.0.0.1:6443", false),
            ("http://127.0.0.1:8080", false),
            ("", false),
        ] {
            let situation = Situation {
                server: server.to_owned(),
                ..Situation::default()
            };
            let findings = judge(&version("v1.37.2"), &situation);
            assert_eq!(
                findings
                    .iter()
                    .any(|finding| finding.check == "api transport"),
                is_warned,
                "{server}"
            );
        }
    }

    #[test]
    fn a_date_without_fractions_is_no_skew() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let between = |date, before, after| skew(at(date), at(before), at(after)).as_millis();
        let before = "2026-01-01T00:00:10.900Z";
        let after = "2026-01-01T00:00:11.300Z";
        assert_eq!(between("2026-01-01T00:00:10Z", before, after), 0);
        assert_eq!(between("2026-01-01T00:00:11Z", before, after), 0);
        assert_eq!(between("2026-01-01T00:00:12Z", before, after), 700);
        assert_eq!(between("2026-01-01T00:00:05Z", before, after), -4900);
    }
}
