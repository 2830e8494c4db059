//! Suggestions for misspelt names: "did you mean …?"

pub(crate) use cloud_provider::closest;
