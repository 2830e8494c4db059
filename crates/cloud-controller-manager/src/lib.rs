//! The cloud controller manager: one binary, every provider, and a demo.
