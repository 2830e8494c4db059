//! Who goes first when requests run short (P-3).

/// How urgent a call is. While the cloud leaves few requests, the less urgent wait for the more urgent.
///
/// ```
/// use provider_kit::transport::Priority;
///
/// assert!(Priority::Urgent > Priority::Ordinary && Priority::Ordinary > Priority::Refresh);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// What is read again to see whether it is still so.
    Refresh,
    /// Load balancers and routes are made and changed.
    #[default]
    Ordinary,
    /// Nodes that wait for their initialisation, and deletions.
    Urgent,
}
