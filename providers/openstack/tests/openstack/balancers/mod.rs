//! Load balancers in Octavia, by what changes about them.

mod adverse;
mod changed;
mod made;
mod moved;
mod odd;
mod predecessor;
mod removed;
pub(crate) mod scene;
mod serial;
mod shared;
mod troubles;
mod untouched;
