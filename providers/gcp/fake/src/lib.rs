//! A stateful fake of the Compute Engine API, for tests.
