//! Firewall rules: compared as sets, changed rule by rule.
//!
//! | cloud | rules of one set | owner |
//! |---|---|---|
//! | OpenStack security group | the Service's group | – |
//! | AWS security group | the node group, shared by Services; rules with equal content exist once, so a refusal of a duplicate counts as success | description |
//! | GCP firewall | one firewall; `allowed` and `sourceRanges` from [`normalized`] rules | name of the firewall |
//! | Azure NSG | the rules of one destination, in a document that Services share | destination |
//! | DigitalOcean, Linode firewall | one firewall, written as a whole from [`normalized`] rules when a [`Difference`] is not empty | name or tag |
//!
//! A deny list is a set of its own: rules that deny are never compared with rules that allow.

mod difference;
mod rule;
mod set;

pub use difference::{Difference, difference, normalized};
pub use rule::{Direction, Family, Peer, Ports, Protocol, Rule, RuleError};
pub use set::{RuleSet, of_texts, texts};

#[cfg(test)]
mod tests;
