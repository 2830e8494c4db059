//! Metrics of an election.

/// The hook for the metrics of an election. All methods do nothing by default.
pub trait ElectionMetrics: Send + Sync {
    /// Reports whether this process leads by the Lease of that name; also called once at the start, with `false`.
    fn leading(&self, _lease: &str, _leads: bool) {}
    /// Counts a renewal that could not be written directly and needed a read before.
    fn slow_path(&self, _lease: &str) {}
}

/// An [`ElectionMetrics`] that records nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoElectionMetrics;

impl ElectionMetrics for NoElectionMetrics {}
