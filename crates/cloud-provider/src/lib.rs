//! The contract between ccm-rs and a cloud: traits, types, errors and well-known names.
