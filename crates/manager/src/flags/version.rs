//! The flag `--version`, and the version that the program reports.

use std::env::consts::OS;
use std::str::FromStr;

use super::subcommand;
use super::values::go_bool;

/// Newest Kubernetes version that this program supports. It is reported where the Go program reports its own
/// version.
pub const KUBERNETES_VERSION: &str = "v1.37.0";

/// The value of `--version`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum VersionFlag {
    /// Run the program, without printing a version.
    #[default]
    Run,
    /// Print the version and exit.
    Print,
    /// Print the complete build information and exit.
    PrintRaw,
    /// Run and report this version.
    Report(String),
}

impl FromStr for VersionFlag {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "raw" => Ok(Self::PrintRaw),
            _ if text.starts_with('v') => {
                let same = |rest: &str| rest.is_empty() || rest.starts_with(['-', '+']);
                match text.strip_prefix(KUBERNETES_VERSION) {
                    Some(rest) if same(rest) => Ok(Self::Report(text.to_owned())),
                    _ => Err(format!(
                        "version {text:?} must match major/minor/patch of default version {KUBERNETES_VERSION:?}"
                    )),
                }
            }
            _ => go_bool(text)
                .map(|print| if print { Self::Print } else { Self::Run })
                .map_err(|error| format!("{error}, raw, or {KUBERNETES_VERSION}-SOMETHING")),
        }
    }
}

impl VersionFlag {
    /// Returns the text to print, if any.
    pub(super) fn text(&self) -> Option<String> {
        match self {
            Self::Run | Self::Report(_) => None,
            // The first line is that of the Go program.
            Self::Print => Some(format!(
                "Kubernetes {KUBERNETES_VERSION}\n{}\n",
                subcommand::product()
            )),
            Self::PrintRaw => Some(record()),
        }
    }

    /// Returns the version to report (user agent, `kubernetes_build_info`).
    #[must_use]
    pub fn reported(&self) -> &str {
        match self {
            Self::Report(version) => version,
            _ => KUBERNETES_VERSION,
        }
    }
}

/// Returns the build information in the format of the Go program, with this program's own version.
fn record() -> String {
    let mut parts = KUBERNETES_VERSION.trim_start_matches('v').split('.');
    let major = parts.next().unwrap_or_default();
    let minor = parts.next().unwrap_or_default();
    format!(
        "version.Info{{Major:{major:?}, Minor:{minor:?}, GitVersion:{KUBERNETES_VERSION:?}, Program:\"ccm-rs\", \
         ProgramVersion:\"v{}\", Compiler:\"rustc\", Platform:\"{OS}/{}\"}}\n",
        env!("CARGO_PKG_VERSION"),
        metrics::architecture()
    )
}
