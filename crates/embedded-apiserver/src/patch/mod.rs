//! The patch formats. Apply lives with field ownership, in [`crate::fields::apply`].

pub(crate) mod json;
pub(crate) mod merge;
pub(crate) mod strategic;
