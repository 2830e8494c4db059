//! The invariants (ARCHITECTURE.md) on any cloud. A provider has all of them by one call each; INV-2 is
//! [`crash::proof`](crate::crash::proof) and [`chaos::proof`](crate::chaos::proof).
//!
//! All times are virtual: they are for tests with a paused clock.

mod cost;
mod endless;
mod forgotten;
mod invariants;
mod take_over;

pub use cost::{Cost, Limit, inv_8};
pub use endless::{endless_answers, endless_lists};
pub use forgotten::inv_9;
pub use invariants::{inv_1, inv_1_with, inv_3, inv_4, inv_7};
pub use take_over::objections;
