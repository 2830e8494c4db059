//! Every series of the cloud controller manager (MET-*). The only crate that knows the metrics library.
