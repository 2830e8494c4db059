//! The annotations of a Service. docs/providers/aws.md is generated from these declarations.
