//! What a Service wants and what must be found out for it.

mod dual_stack;
mod floating_ips;
mod left;
mod places;
mod security_groups;
mod settings;
