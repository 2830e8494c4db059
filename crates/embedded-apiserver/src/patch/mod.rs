//! The patch formats. Apply is implemented with field ownership, in [`crate::fields::apply`].

pub(crate) mod json;
pub(crate) mod merge;
pub(crate) mod strategic;
