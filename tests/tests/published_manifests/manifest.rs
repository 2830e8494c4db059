//! The table of published manifests.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;

use manager::flags::{Configuration, Flags, Parsed, Program};
use serde::Deserialize;

use crate::files::Content;
use crate::image::ENTRY_POINT;

/// A container of a published manifest; `manifests.yaml` explains the fields.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Manifest {
    repository: String,
    version: String,
    path: String,
    #[serde(default)]
    pub(crate) image_provider: String,
    #[serde(default)]
    command: Vec<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    pub(crate) env: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) files: BTreeMap<String, Content>,
    pub(crate) probe: Option<Probe>,
    pub(crate) provider: String,
    pub(crate) exception: Option<String>,
    pub(crate) remark: Option<String>,
}

/// The liveness probe of a container, at the path `/healthz`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Probe {
    /// Scheme of the probe: `HTTP` or `HTTPS`.
    pub(crate) scheme: String,
    /// Port on the address of the Pod.
    pub(crate) port: u16,
}

impl fmt::Display for Manifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.repository, self.version, self.path)
    }
}

/// Returns the manifests of the table.
pub(crate) fn manifests() -> Vec<Manifest> {
    serde_saphyr::from_str(include_str!("manifests.yaml")).expect("a table of manifests")
}

impl Manifest {
    /// Returns the words that the container runtime calls: the command of the manifest or the image's entry point, and the
    /// arguments, with `$(NAME)` replaced as the kubelet does.
    pub(crate) fn words(&self) -> Vec<String> {
        let entry_point = [ENTRY_POINT.to_owned()];
        let command = if self.command.is_empty() {
            &entry_point[..]
        } else {
            &self.command
        };
        command
            .iter()
            .chain(&self.args)
            .map(|word| self.expanded(word))
            .collect()
    }

    fn expanded(&self, word: &str) -> String {
        self.env
            .iter()
            .fold(word.to_owned(), |word, (name, value)| {
                word.replace(&format!("$({name})"), value)
            })
    }

    /// Returns the configuration that the manifest's own arguments result in.
    pub(crate) fn configuration(&self) -> Configuration {
        let words = self.words().into_iter().map(OsString::from).collect();
        let (program, arguments) = Program::called_by(words, &self.image_provider);
        match Flags::parse_as(&program, arguments) {
            Parsed::Flags(flags) => flags.configuration(),
            other => panic!("{self}: {other:?}"),
        }
    }
}
