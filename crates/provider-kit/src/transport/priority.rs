//! Priorities of calls when requests run short (P-3).

/// The priority of a call. While the cloud leaves few requests, calls of lower priority wait for those of higher
/// priority.
///
/// ```
/// use provider_kit::transport::Priority;
///
/// assert!(Priority::Urgent > Priority::Ordinary && Priority::Ordinary > Priority::Refresh);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// Periodic reads of objects that are probably unchanged.
    Refresh,
    /// Creation and change of load balancers and routes.
    #[default]
    Ordinary,
    /// Initialization of Nodes that wait for it, and deletions.
    Urgent,
}
