//! Field ownership: who set which field (`metadata.managedFields`), and server-side apply on top of it.

pub(crate) mod apply;
pub(crate) mod compare;
pub(crate) mod managers;
pub(crate) mod set;
