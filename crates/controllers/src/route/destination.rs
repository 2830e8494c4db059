//! The destination of a route: a Pod CIDR, independent of its spelling.

use std::fmt;

use ipnet::IpNet;

use super::cluster_cidr::cidr;

/// A destination CIDR. Two spellings of one network are the same destination (ROUTE-24).
///
/// ```
/// use controllers::route::Destination;
///
/// assert_eq!(Destination::new("fd00:0:0:5::/64"), Destination::new("fd00:0000:0:5::1/64"));
/// assert_ne!(Destination::new("garbage"), Destination::new("Garbage"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Destination {
    /// A network in canonical form.
    Network(IpNet),
    /// A text that is not a CIDR, compared literally.
    Text(Box<str>),
}

impl Destination {
    /// Returns the destination that a text names.
    #[must_use]
    pub fn new(text: &str) -> Self {
        cidr(text).map_or_else(|| Self::Text(text.into()), Self::Network)
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(net) => net.fmt(f),
            Self::Text(text) => f.write_str(text),
        }
    }
}
