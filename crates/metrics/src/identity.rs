//! Metrics of the build and its feature gates (MET-26).

use crate::samples::Samples;
use crate::series::{BUILD_INFO, FEATURES, OWN_BUILD_INFO};

/// Major and minor version of the Kubernetes API types that this project is built with.
pub const KUBERNETES: (&str, &str) = ("1", "35");

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
        let (major, minor) = KUBERNETES;
        let platform = format!("{}/{}", std::env::consts::OS, architecture());
        let version = format!("v{major}.{minor}.0");
        let labels = [major, minor, &version, self.revision, "", "", "", "rustc", &platform];
        out.put_by(BUILD_INFO, &labels, 1.0);
        out.put_by(OWN_BUILD_INFO, &[self.version, self.revision, self.rustc, &platform], 1.0);
    }
}

/// Returns the architecture in Go's terms.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

pub(crate) fn gate_samples(gates: &[Gate], out: &mut Samples) {
    for gate in gates {
        out.put_by(FEATURES, &[&gate.name, gate.stage], f64::from(u8::from(gate.enabled)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_kubernetes_is_that_of_the_types() {
        let manifest = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml")).unwrap();
        let feature = format!("v{}_{}", KUBERNETES.0, KUBERNETES.1);
        let line = manifest.lines().find(|line| line.starts_with("k8s-openapi"));
        assert!(line.is_some_and(|line| line.contains(&feature)), "{line:?}");
    }
}
