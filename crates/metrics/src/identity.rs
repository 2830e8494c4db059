//! Metrics of the build and its feature gates (MET-26).

use runtime::kubernetes::NEWEST;

use crate::samples::Samples;
use crate::series::{BUILD_INFO, FEATURES, OWN_BUILD_INFO};

/// The build information of this project.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Build {
    /// Version of this project.
    pub version: &'static str,
    /// Commit of the build; empty if unknown.
    pub revision: &'static str,
    /// Version of the compiler; empty if unknown.
    pub rustc: &'static str,
}

/// A feature gate and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gate {
    /// Name of the gate.
    pub name: String,
    /// Stage of the gate: `ALPHA`, `BETA` or `DEPRECATED`; empty for a generally available gate.
    pub stage: &'static str,
    /// If set, the gate is enabled.
    pub enabled: bool,
}

impl Build {
    pub(crate) fn samples(&self, out: &mut Samples) {
        let major = &NEWEST.0.to_string();
        let minor = &NEWEST.1.to_string();
        let platform = format!("{}/{}", std::env::consts::OS, architecture());
        let version = format!("v{major}.{minor}.0");
        let labels = [
            major,
            minor,
            &version,
            self.revision,
            "",
            "",
            "",
            "rustc",
            &platform,
        ];
        out.put_by(BUILD_INFO, &labels, 1.0);
        out.put_by(
            OWN_BUILD_INFO,
            &[self.version, self.revision, self.rustc, &platform],
            1.0,
        );
    }
}

/// Returns the architecture of this program in Go's terms, such as `amd64`.
#[must_use]
pub fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

pub(crate) fn gate_samples(gates: &[Gate], out: &mut Samples) {
    for gate in gates {
        out.put_by(
            FEATURES,
            &[&gate.name, gate.stage],
            f64::from(u8::from(gate.enabled)),
        );
    }
}
