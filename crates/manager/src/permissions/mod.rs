//! Permissions at the Kubernetes API: what the selected features need, as data, and whether the identity has it (DEP-31).
//!
//! [`needed`] lists every permission. The self-check at the start, `doctor` and the test of the manifests use this
//! list. The list has only the requests that this program sends; the roles of the Go programs may grant more.
//!
//! ```
//! use cloud_provider::names::{NODE_CONTROLLER, SERVICE_CONTROLLER};
//! use manager::permissions::{Features, grants, needed};
//!
//! let nodes_only = needed(&Features { controllers: vec![NODE_CONTROLLER], ..Features::default() });
//! assert!(!grants(&nodes_only).iter().any(|grant| grant.resource == "services"));
//! let services = needed(&Features { controllers: vec![SERVICE_CONTROLLER], ..Features::default() });
//! assert!(grants(&services).iter().any(|grant| grant.resource == "services/status" && grant.verb == "patch"));
//! ```

mod features;
mod missing;
mod needed;
mod review;
mod rule;

pub use features::{Election, Features, controllers_that_run};
pub use missing::{Missing, yaml_rule};
pub use needed::needed;
pub use review::{Checked, check, check_rules};
pub use rule::{Grant, Identity, Rule, Scope, grants};
