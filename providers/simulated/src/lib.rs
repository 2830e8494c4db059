//! A simulated cloud as an HTTP service, and the provider that talks to it.
