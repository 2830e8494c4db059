//! What a Service wants and what must be found out for it (§3.2, §3.3, §3.7, §3.8).

mod dual_stack;
mod floating_ips;
mod left;
mod places;
mod security_groups;
mod settings;
