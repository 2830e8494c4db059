//! The provider, by its promises: one file for each part.

mod annotations;
mod reference;
mod variables;
