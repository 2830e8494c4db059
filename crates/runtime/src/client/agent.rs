//! The `User-Agent` header of requests.

use std::env::consts::{ARCH, OS};

/// Makes the `User-Agent` header of a client (APP-40).
///
/// ```
/// use runtime::client::UserAgent;
///
/// let agent = UserAgent { binary: "ccm".into(), version: "v1.2.0".into(), commit: "0123456789ab".into() };
/// let text = agent.with_suffix("shared-informers");
/// assert!(text.starts_with("ccm/v1.2.0 (") && text.ends_with(") kubernetes/0123456/shared-informers"));
/// assert!(agent.with_suffix("").ends_with("kubernetes/0123456"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserAgent {
    /// Base name of the program.
    pub binary: String,
    /// Version of the program.
    pub version: String,
    /// The commit it was built from; `unknown` if empty.
    pub commit: String,
}

impl Default for UserAgent {
    fn default() -> Self {
        let binary = "cloud-controller-manager".into();
        let version = concat!("v", env!("CARGO_PKG_VERSION")).into();
        Self {
            binary,
            version,
            commit: String::new(),
        }
    }
}

impl UserAgent {
    /// Returns the header's text; `suffix` names the component that sends the request (the identity of a controller).
    #[must_use]
    pub fn with_suffix(&self, suffix: &str) -> String {
        let Self {
            binary,
            version,
            commit,
        } = self;
        let commit: String = if commit.is_empty() {
            "unknown".into()
        } else {
            commit.chars().take(7).collect()
        };
        let slash = if suffix.is_empty() { "" } else { "/" };
        let text = format!(
            "{binary}/{version} ({}/{}) kubernetes/{commit}{slash}{suffix}",
            go_os(OS),
            go_arch(ARCH)
        );
        // A header holds visible ASCII only.
        text.chars()
            .map(|c| if matches!(c, ' '..='~') { c } else { '?' })
            .collect()
    }
}

fn go_os(os: &str) -> &str {
    match os {
        "macos" => "darwin",
        other => other,
    }
}

fn go_arch(arch: &str) -> &str {
    match arch {
        "x86_64" => "amd64",
        "x86" => "386",
        "aarch64" => "arm64",
        "powerpc64" => "ppc64le",
        other => other,
    }
}
