//! The route controller as a whole: over the embedded API server and a watch, under virtual time.

// The helpers of these tests too may fail a test by a panic.
#![allow(clippy::unwrap_used)]

#[path = "routes/adaptive.rs"]
mod adaptive;
#[path = "routes/failures.rs"]
mod failures;
#[path = "routes/modes.rs"]
mod modes;
#[path = "routes/overlap.rs"]
mod overlap;
#[path = "routes/simulated.rs"]
mod simulated;
#[path = "routes/table.rs"]
mod table;
#[path = "routes/world.rs"]
mod world;
