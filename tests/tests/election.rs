//! Leader election against an API server: several electors in one process, in virtual time.
//!
//! The decisions themselves are proven by `runtime`'s own tests (`--test elections`); here it is what they are carried by.

#![allow(clippy::unwrap_used)] // helpers are not seen as tests

#[path = "election/candidates.rs"]
mod candidates;
#[path = "election/hand_over.rs"]
mod hand_over;
#[path = "election/record.rs"]
mod record;
#[path = "election/troubles.rs"]
mod troubles;
