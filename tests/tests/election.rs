//! Leader election against an API server: several electors in one process, in virtual time.
//!
//! The decisions themselves are tested in `runtime` (`--test elections`); these tests cover the requests and the Lease.

#![allow(clippy::unwrap_used)] // helpers are not seen as tests

#[path = "election/candidates.rs"]
mod candidates;
#[path = "election/hand_over.rs"]
mod hand_over;
#[path = "election/record.rs"]
mod record;
#[path = "election/troubles.rs"]
mod troubles;
