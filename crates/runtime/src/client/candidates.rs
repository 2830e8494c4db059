//! Candidates for the API server of a Pod's service account, and the decision between them (APP-175).

use std::fmt;
use std::str::FromStr;

use http::Uri;
use http::uri::Scheme;

use super::address;

/// Name that the certificate of each API server contains. Addresses of loopback are in the certificates of few
/// distributions.
pub(super) const SERVER_NAME: &str = "kubernetes.default.svc";

/// Default of `--api-server-candidates`: the API server of kubeadm, k3s and RKE2, and the local load balancers of k3s's
/// agents, of Talos (KubePrism), and the API server of MicroK8s.
pub const DEFAULT_CANDIDATES: &str =
    "https://127.0.0.1:6443,https://127.0.0.1:6444,https://127.0.0.1:7445,https://127.0.0.1:16443";

/// URLs at which a Pod looks for the API server if the address in its environment does not answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApiServerCandidates(Vec<Uri>);

impl ApiServerCandidates {
    /// Returns the URLs in their order.
    pub(super) fn urls(&self) -> &[Uri] {
        &self.0
    }
}

impl FromStr for ApiServerCandidates {
    type Err = String;

    /// Reads URLs, separated by commas. Empty: there is none.
    fn from_str(text: &str) -> Result<Self, String> {
        text.split(',')
            .map(str::trim)
            .filter(|url| !url.is_empty())
            .map(candidate)
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

impl fmt::Display for ApiServerCandidates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let urls: Vec<_> = self.0.iter().map(shown).collect();
        f.write_str(&urls.join(","))
    }
}

/// Returns a URL without the slash at its end.
pub(super) fn shown(url: &Uri) -> String {
    address_of(url).trim_end_matches('/').to_owned()
}

fn address_of(url: &Uri) -> String {
    address::shown_url(&url.to_string())
}

fn candidate(text: &str) -> Result<Uri, String> {
    let refused = |problem: &str| {
        format!(
            "{:?}: {problem}; write https://HOST:PORT",
            address::shown_url(text)
        )
    };
    let url: Uri = text.parse().map_err(|_| refused("it is no URL"))?;
    if url.scheme() != Some(&Scheme::HTTPS) {
        return Err(refused("the token is sent only over https"));
    }
    if url.path() != "/" || url.query().is_some() || text.contains('@') {
        return Err(refused("only a host and a port are accepted"));
    }
    address::checked(&url, true).map_err(|problem| refused(&problem))
}

/// Result of a probe of one candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Probe {
    /// The server is verified and ready.
    Ready,
    /// The server is verified, and answers with an error of its own.
    Unhealthy,
    /// There is no answer of a server that the cluster's CA verifies.
    Failed,
}

/// Decision about the candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// A probe that may decide has not ended.
    Pending,
    /// The candidate at this index is used.
    Use(usize),
    /// No candidate can be used.
    Nothing,
}

/// Decides which candidate is used: the first that is ready; if none is, the first that answers at all (APP-175). A
/// later candidate is used only when the probes of all earlier ones have ended.
pub(super) fn decide(probes: &[Option<Probe>]) -> Decision {
    for (index, probe) in probes.iter().enumerate() {
        match probe {
            None => return Decision::Pending,
            Some(Probe::Ready) => return Decision::Use(index),
            Some(Probe::Unhealthy | Probe::Failed) => {}
        }
    }
    let unhealthy = probes
        .iter()
        .position(|probe| *probe == Some(Probe::Unhealthy));
    unhealthy.map_or(Decision::Nothing, Decision::Use)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_ready_candidate_is_used_once_the_earlier_ones_have_ended() {
        let ready = Some(Probe::Ready);
        let ill = Some(Probe::Unhealthy);
        let failed = Some(Probe::Failed);
        let table: [(&[Option<Probe>], Decision); 9] = [
            (&[], Decision::Nothing),
            (&[None, ready], Decision::Pending),
            (&[ready, None], Decision::Use(0)),
            (&[ready, ready], Decision::Use(0)),
            (&[failed, ready, None], Decision::Use(1)),
            (&[ill, ready], Decision::Use(1)),
            (&[failed, ill, None], Decision::Pending),
            (&[failed, ill, failed], Decision::Use(1)),
            (&[failed, failed], Decision::Nothing),
        ];
        for (probes, expected) in table {
            assert_eq!(decide(probes), expected, "{probes:?}");
        }
    }

    #[test]
    fn only_https_urls_without_path_and_user_are_candidates() {
        for text in [
            "",
            "https://127.0.0.1:6443",
            "https://[::1]:6443,https://api.example.com",
            DEFAULT_CANDIDATES,
        ] {
            assert_eq!(
                text.parse::<ApiServerCandidates>().unwrap().to_string(),
                text
            );
        }
        for (text, problem) in [
            ("http://127.0.0.1:8080", "the token is sent only over https"),
            ("127.0.0.1:6443", "the token is sent only over https"),
            ("https://127.0.0.1:0", "its port is not a number"),
            ("https://127.0.0.1:6443/x", "only a host and a port"),
            (
                "https://admin:s3cr3t@127.0.0.1:6443",
                "only a host and a port",
            ),
        ] {
            let error = text.parse::<ApiServerCandidates>().unwrap_err();
            assert!(
                error.contains(problem) && error.contains("https://HOST:PORT"),
                "{text}: {error}"
            );
            assert!(!error.contains("s3cr3t"), "{error}");
        }
    }
}
