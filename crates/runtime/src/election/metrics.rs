//! What is measured of an election.

/// The hook for the metrics of an election. All methods do nothing by default.
pub trait ElectionMetrics: Send + Sync {
    /// Whether this process leads by the Lease of that name; also told once at the start, with `false`.
    fn leading(&self, _lease: &str, _leads: bool) {}
    /// A renewal could not be written directly and needed a read before.
    fn slow_path(&self, _lease: &str) {}
}

/// Nobody listens.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoElectionMetrics;

impl ElectionMetrics for NoElectionMetrics {}
