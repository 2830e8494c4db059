//! The process: flags, start-up and shutdown.
