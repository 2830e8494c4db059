//! An in-memory Kubernetes API server for demos, tests and fault injection.
