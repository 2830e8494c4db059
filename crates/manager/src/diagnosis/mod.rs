//! Explanations of problems at the start in one paragraph: the failure, the attempts and the remedy (P-37, P-40).
//!
//! A port conflict needs no explanation here: its error names the flag (P-36).
//!
//! ```
//! use kube::core::Status;
//! use manager::diagnosis::{Situation, explain};
//!
//! let error = kube::Error::Api(Status::failure("Unauthorized", "Unauthorized").with_code(401).boxed());
//! let text = explain(&error, &Situation::default());
//! assert!(text.contains("does not know who asks") && text.contains("expired"));
//! ```

mod cause;
mod explanation;
mod lookup;
mod situation;

pub use cause::{Cause, TlsProblem};
pub use explanation::explain;
pub(crate) use explanation::remedy_of;
pub use lookup::explain_authentication_lookup;
pub use situation::{Origin, Situation};
