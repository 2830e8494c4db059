//! Load balancers: Octavia's side of §3, and its rows of §8.

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
