//! The build and the feature gates, as the metrics show them.

use metrics::{Build, Gate, Metrics};

use crate::flags::{ALL_BETA, FeatureGates, GATES, Stage};

/// Records the build and the enabled feature gates in the metrics.
pub(crate) fn record_build(metrics: &Metrics, gates: &FeatureGates) {
    let revision = env!("CCM_REVISION");
    let rustc = env!("CCM_RUSTC");
    metrics.build(Build {
        version: env!("CARGO_PKG_VERSION"),
        revision,
        rustc,
    });
    let acting = GATES.iter().map(|gate| Gate {
        name: gate.name.to_owned(),
        stage: match gate.stage {
            // The gate that sets a stage has that stage, as in the Go program.
            _ if gate.name == ALL_BETA => "BETA",
            Stage::Alpha | Stage::Bulk => "ALPHA",
            Stage::Beta => "BETA",
        },
        enabled: gates.enabled(gate.name),
    });
    metrics.gates(acting.collect());
}
