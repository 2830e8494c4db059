//! What is read of a server, as Nova writes it.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::flavors::Flavor;

/// A server.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Wire {
    pub(super) id: Box<str>,
    pub(super) name: Box<str>,
    pub(super) status: Box<str>,
    #[serde(rename = "accessIPv4")]
    pub(super) access_ipv4: Option<Box<str>>,
    #[serde(rename = "accessIPv6")]
    pub(super) access_ipv6: Option<Box<str>>,
    pub(super) metadata: Metadata,
    /// By the name of the network.
    pub(super) addresses: BTreeMap<Box<str>, Vec<Address>>,
    pub(super) flavor: Flavor,
    #[serde(rename = "OS-EXT-AZ:availability_zone")]
    pub(super) zone: Option<Box<str>>,
}

/// What its owner says of a server.
#[derive(Default, Deserialize)]
pub(super) struct Metadata {
    pub(super) hostname: Option<Box<str>>,
}

/// An address in a network.
#[derive(Deserialize)]
pub(super) struct Address {
    pub(super) addr: Box<str>,
    /// `fixed` or `floating`.
    #[serde(rename = "OS-EXT-IPS:type")]
    pub(super) kind: Option<Box<str>>,
}
