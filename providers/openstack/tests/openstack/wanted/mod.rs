//! Desired state of a Service, and the facts that it needs from the cloud.

mod dual_stack;
mod floating_ips;
mod left;
mod places;
mod security_groups;
mod settings;
