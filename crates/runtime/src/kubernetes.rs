//! Range of Kubernetes versions that this project supports, and is tested with. `docs/kubernetes-versions.md` explains
//! the range to users; `ccm-tests --test kubernetes_versions` compares the page, the chart and the types with it.

/// Newest minor version of Kubernetes that this project supports, as major and minor.
pub const NEWEST: (u32, u32) = (1, 37);

/// Oldest minor version that this project supports. The API types are those of this version, so that the compiler
/// refuses a field that a supported API server may lack.
pub const OLDEST: (u32, u32) = (1, 34);

/// Oldest minor version on which everything is expected to work, although nothing is tested there. Older API servers
/// drop `ipMode` from the status of a Service.
pub const OLDEST_EXPECTED_TO_WORK: (u32, u32) = (1, 30);
