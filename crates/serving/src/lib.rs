//! The HTTPS endpoints of a Kubernetes component (APP §10 to §13).

pub mod options;
