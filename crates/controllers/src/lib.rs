//! The control loops: decisions and their thin shells.
