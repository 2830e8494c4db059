//! Lookup of the networks and subnets of VIPs, members and floating IPs.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{Error, Node, Result};
use ipnet::IpNet;
use parking_lot::Mutex;
use provider_kit::addresses::AddressFamily;
use provider_kit::catalog::Catalog;
use provider_kit::load_balancers::Targets;
use provider_kit::transport::{Call, Priority};
use regex_lite::Regex;
use serde::Deserialize;

use super::spec::{FloatingSubnet, ServiceSpec, VipPlacement};
use crate::id::ServerId;
use crate::ports::{Port, Ports, of_device};
use crate::services::Services;

/// Age at which networks and subnets are read again.
const AGE: Duration = Duration::from_secs(300);
/// Maximum age of the cached ports, and the maximum age if a Node is not found in them.
const PORTS_AGES: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(5)];
/// Most Nodes whose subnets are kept.
const MOST_KEPT: usize = 64;
/// Most Nodes whose ports are read to find a subnet.
const MOST_READ: usize = 3;

/// The networks and subnets that the project sees, read at most every [`AGE`].
pub(super) struct NetworkCatalog {
    services: Services,
    external: Catalog<Network>,
    subnets: Catalog<Subnet>,
    /// The subnets of Nodes, by server and address.
    of_nodes: Mutex<HashMap<(String, String), String>>,
}

#[derive(Clone, Debug, Deserialize)]
struct Network {
    id: String,
    #[serde(default)]
    subnets: Vec<String>,
}

/// A subnet, as far as it is read.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Subnet {
    pub(super) id: String,
    #[serde(default)]
    pub(super) name: String,
    #[serde(rename = "network_id")]
    pub(super) network: String,
    pub(super) cidr: IpNet,
}

impl NetworkCatalog {
    pub(super) fn new(services: Services) -> Self {
        let of_networks = services.clone();
        let of_subnets = services.clone();
        let external = Catalog::new("external network", AGE, move || {
            let services = of_networks.clone();
            async move {
                let call = Call::get("/networks", &[]).query("router:external", true);
                let call = call.query("fields", "id").query("fields", "subnets");
                services
                    .all(&services.network, call, "networks", |network: &Network| {
                        network.id.clone()
                    })
                    .await
            }
        });
        let subnets = Catalog::new("subnet", AGE, move || {
            let services = of_subnets.clone();
            async move { read_subnets(&services, Call::get("/subnets", &[])).await }
        });
        Self {
            services,
            external,
            subnets,
            of_nodes: Mutex::default(),
        }
    }

    /// Returns a subnet that `setting` names.
    ///
    /// # Errors
    /// *Invalid* if the project cannot see the subnet.
    pub(super) async fn subnet(&self, id: &str, setting: &'static str) -> Result<Subnet> {
        self.subnets
            .with_id(id, |subnet| &subnet.id, Subnet::clone)
            .await
            .map_err(|error| match error.is_invalid() {
                true => Error::invalid(format!("{setting}: {error}")),
                false => error,
            })
    }

    /// Returns the subnets of a network.
    ///
    /// # Errors
    /// *Invalid* if the network has none.
    pub(super) async fn subnets_of(&self, network: &str) -> Result<Vec<Subnet>> {
        let found = self
            .subnets
            .select(|subnet| subnet.network == network)
            .await?;
        match found.is_empty() {
            true => Err(Error::invalid(format!(
                "network {network:?} has no subnet that this project sees"
            ))),
            false => Ok(found),
        }
    }

    /// Returns the subnet for a second VIP of this family. If `is_present` is set, the load balancer
    /// already exists, so the cached list of subnets is good enough.
    ///
    /// # Errors
    /// Neutron's answer.
    pub(super) async fn beside(
        &self,
        vip: &VipPlacement,
        family: AddressFamily,
        is_present: bool,
    ) -> Result<Option<String>> {
        match beside(&self.subnets.list().await?, vip, family) {
            None if !is_present => Ok(beside(&self.subnets.refresh().await?, vip, family)),
            found => Ok(found),
        }
    }

    /// Returns the first external network with an IPv4 subnet. A subnet that the project cannot see counts as IPv4.
    ///
    /// # Errors
    /// Neutron's answer.
    pub(super) async fn external_network(&self) -> Result<Option<String>> {
        let networks = self.external.list().await?;
        let seen = self.subnets.list().await?;
        let is_usable = |id: &String| {
            seen.iter()
                .find(|subnet| subnet.id == *id)
                .is_none_or(|subnet| subnet.cidr.addr().is_ipv4())
        };
        let found = networks
            .iter()
            .find(|network| network.subnets.iter().any(is_usable))
            .map(|network| network.id.clone());
        if found.is_none() {
            // The next call reads the list again, so that a new network is found at once.
            self.external.forget().await;
        }
        Ok(found)
    }

    /// Reads the subnets of a network that a floating IP may come from, in turn. Neutron matches the tags.
    ///
    /// # Errors
    /// *Invalid* if no subnet fits, or the pattern is invalid.
    pub(super) async fn floating_subnets(
        &self,
        network: &str,
        name: Option<&str>,
        tags: Option<&str>,
    ) -> Result<Vec<Subnet>> {
        let pattern = name.map(NamePattern::parse).transpose()?;
        let call = Call::get("/subnets", &[]).query("network_id", network);
        let call = tags
            .map(tag_query)
            .iter()
            .fold(call, |call, (key, tags)| call.query(key, tags));
        let mut found = read_subnets(&self.services, call).await?;
        found.retain(|subnet| {
            pattern
                .as_ref()
                .is_none_or(|pattern| pattern.matches(&subnet.name))
        });
        if found.is_empty() {
            let name = name.unwrap_or_default();
            let tags = tags.unwrap_or_default();
            return Err(Error::invalid(format!(
                "no subnet of network {network:?} has a name like {name:?} and tags {tags:?} (floating-subnet, floating-subnet-tags)"
            )));
        }
        Ok(found)
    }

    /// Checks that the named subnet of floating IPs is in their network, or that the pattern is valid.
    ///
    /// # Errors
    /// *Invalid* if not.
    pub(super) async fn check_floating(
        &self,
        network: &str,
        subnet: &FloatingSubnet,
    ) -> Result<()> {
        match subnet {
            FloatingSubnet::Id(id) => {
                let other = self.subnet(id, "floating-subnet-id").await?.network;
                let text = || {
                    format!(
                        "floating-subnet-id: subnet {id:?} is in network {other:?}, not in {network:?}"
                    )
                };
                if other == network {
                    Ok(())
                } else {
                    Err(Error::invalid(text()))
                }
            }
            FloatingSubnet::Like {
                name: Some(name), ..
            } => NamePattern::parse(name).map(drop),
            FloatingSubnet::Like { .. } | FloatingSubnet::Any => Ok(()),
        }
    }

    /// Returns the subnet of the first Node whose port is found: the default subnet of load balancers. `None` without
    /// Nodes. A Node whose server, and with it the port, was deleted is skipped.
    ///
    /// # Errors
    /// *Invalid* if Neutron shows no port with the Node's address.
    pub(super) async fn of_nodes(
        &self,
        ports: &Ports,
        spec: &ServiceSpec,
        nodes: &[Arc<Node>],
    ) -> Result<Option<String>> {
        let placed = nodes
            .iter()
            .filter_map(|node| Some((&*node.name, server_and_address(spec, node)?)));
        let mut placed: Vec<_> = placed.collect();
        placed.sort_unstable();
        for (_, (server, ip)) in placed.iter().take(MOST_READ) {
            let subnet = self.of_node(ports, server, ip).await?;
            if subnet.is_some() {
                return Ok(subnet);
            }
        }
        let Some((name, (_, ip))) = placed.first() else {
            return Ok(None);
        };
        Err(Error::invalid(format!(
            "the load balancer has no subnet: no port of node {name} has its address {ip}; set subnet-id or network-id"
        )))
    }

    async fn of_node(&self, ports: &Ports, server: &str, ip: &str) -> Result<Option<String>> {
        let key = (server.to_owned(), ip.to_owned());
        let known = self.of_nodes.lock().get(&key).cloned();
        if known.is_some() {
            return Ok(known);
        }
        let server_ports = ports.of(server, Priority::Ordinary).await?;
        let found = server_ports
            .iter()
            .find_map(|port| subnet_at(port, ip))
            .map(str::to_owned);
        let mut known = self.of_nodes.lock();
        if known.len() >= MOST_KEPT {
            known.clear();
        }
        known.extend(found.clone().map(|subnet| (key, subnet)));
        Ok(found)
    }
}

async fn read_subnets(services: &Services, call: Call) -> Result<Vec<Subnet>> {
    let call = ["id", "name", "network_id", "cidr"]
        .iter()
        .fold(call, |call, field| call.query("fields", field));
    services
        .all(&services.network, call, "subnets", |subnet: &Subnet| {
            subnet.id.clone()
        })
        .await
}

/// Returns the first subnet by name, in the VIP's network, of this family and not of the VIP's, which Octavia takes to be IPv4
/// if only the network is given.
fn beside(seen: &[Subnet], vip: &VipPlacement, family: AddressFamily) -> Option<String> {
    let first = match (&vip.subnet, &vip.network) {
        (Some(id), _) => seen.iter().find(|subnet| subnet.id == *id),
        (None, network) => seen.iter().find(|subnet| {
            Some(&subnet.network) == network.as_ref() && subnet.cidr.addr().is_ipv4()
        }),
    }?;
    let is_beside = |subnet: &&Subnet| {
        subnet.network == first.network
            && subnet.cidr.addr().is_ipv4() != first.cidr.addr().is_ipv4()
            && family.has(subnet.cidr.addr())
    };
    seen.iter()
        .filter(is_beside)
        .min_by_key(|subnet| (&subnet.name, &subnet.id))
        .map(|subnet| subnet.id.clone())
}

/// Translates a tag expression to Neutron's parameter and the tags: `a,b` means any of them, `&` all of them, and `!` negates
/// either. Neutron's `not-tags-any` is NOT(any), its `not-tags` is NOT(all).
fn tag_query(expression: &str) -> (&'static str, &str) {
    let (is_not, rest) = prefixed(expression, '!');
    let (is_all, tags) = prefixed(rest, '&');
    let key = match (is_not, is_all) {
        (false, false) => "tags-any",
        (false, true) => "tags",
        (true, false) => "not-tags-any",
        (true, true) => "not-tags",
    };
    (key, tags)
}

fn prefixed(text: &str, prefix: char) -> (bool, &str) {
    text.strip_prefix(prefix)
        .map_or((false, text), |rest| (true, rest))
}

/// A pattern of names: a glob, or after `~` a regular expression; after `!` all names but those.
struct NamePattern {
    is_not: bool,
    regex: Regex,
}

impl NamePattern {
    fn parse(text: &str) -> Result<Self> {
        let (is_not, rest) = prefixed(text, '!');
        let expression = match rest.strip_prefix('~') {
            Some(expression) => expression.to_owned(),
            None => regex_lite::escape(rest)
                .replace("\\*", ".*")
                .replace("\\?", "."),
        };
        let regex = Regex::new(&format!("^(?s:{expression})$")).map_err(|err| {
            Error::invalid(format!(
                "floating-subnet: {text:?} is no regular expression: {err}"
            ))
        })?;
        Ok(Self { is_not, regex })
    }

    fn matches(&self, name: &str) -> bool {
        self.regex.is_match(name) != self.is_not
    }
}

/// Returns server and address of a Node as a member.
fn server_and_address<'a>(spec: &ServiceSpec, node: &'a Node) -> Option<(&'a str, &'a str)> {
    Some((
        ServerId::read(&node.provider_id).ok()?.server,
        spec.member_address(node)?,
    ))
}

/// Returns the IDs of the ports at which Nodes are reached as members, in this subnet if there is one, if they take security
/// groups. If a Node is not found, which may just have joined, ports are read again.
///
/// # Errors
/// Neutron's answer.
pub(super) async fn member_ports(
    ports: &Ports,
    spec: &ServiceSpec,
    nodes: &[Arc<Node>],
    subnet: Option<&str>,
) -> Result<Targets> {
    let members: Vec<_> = nodes
        .iter()
        .filter_map(|node| server_and_address(spec, node))
        .collect();
    let mut found = Vec::new();
    for age in PORTS_AGES {
        let all = ports.all(age).await?;
        found.clear();
        let mut is_whole = true;
        for (server, ip) in &members {
            let server_ports = of_device(&all, server);
            is_whole &= server_ports
                .iter()
                .any(|port| subnet_at(port, ip).is_some());
            let fits = |port: &&Port| {
                port.is_secured
                    && subnet_at(port, ip)
                        .is_some_and(|its| subnet.is_none_or(|subnet| its == subnet))
            };
            found.extend(server_ports.iter().filter(fits).map(|port| port.id.clone()));
        }
        if is_whole {
            break;
        }
    }
    Ok(found.into_iter().collect())
}

/// Returns the subnet of this address, if it is the port's.
fn subnet_at<'a>(port: &'a Port, ip: &str) -> Option<&'a str> {
    let same = |other: &str| {
        other == ip
            || matches!((other.parse::<IpAddr>(), ip.parse::<IpAddr>()), (Ok(a), Ok(b)) if a == b)
    };
    port.fixed_ips
        .iter()
        .find(|fixed| same(&fixed.ip))
        .map(|fixed| &*fixed.subnet)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subnet_is_chosen_by_a_glob_or_a_regular_expression_and_what_is_negated_is_the_others() {
        let table = [
            ("test-*", true),
            ("~test-.*", true),
            ("other*", false),
            ("~other.*", false),
            ("*", true),
            ("~.*", true),
            ("~test", false),
            ("test", false),
            ("test-1?3", true),
            ("~test-\\d{3}", true),
            ("test.123", false),
            ("~a|test-123", true),
        ];
        for (pattern, expected) in table {
            for (pattern, expected) in [
                (pattern.to_owned(), expected),
                (format!("!{pattern}"), !expected),
            ] {
                assert_eq!(
                    NamePattern::parse(&pattern).unwrap().matches("test-123"),
                    expected,
                    "{pattern}"
                );
            }
        }
        let error = NamePattern::parse("~(").err().unwrap();
        assert!(
            error.is_invalid()
                && error
                    .to_string()
                    .contains("\"~(\" is no regular expression"),
            "{error}"
        );
    }

    #[test]
    fn a_second_vip_is_in_the_first_subnet_by_name_of_the_other_family_in_the_network_of_the_first()
    {
        let subnet = |id: &str, name: &str, network: &str, cidr: &str| {
            let cidr = cidr.parse().unwrap();
            Subnet {
                id: id.into(),
                name: name.into(),
                network: network.into(),
                cidr,
            }
        };
        let seen = [
            subnet("v4", "a", "net", "10.0.0.0/16"),
            subnet("z6", "z", "net", "fd00:1::/64"),
            subnet("b6", "b", "net", "fd00:2::/64"),
            subnet("other6", "a", "other", "fd00:3::/64"),
            subnet("only6", "a", "six", "fd00:4::/64"),
        ];
        let at = |subnet: &str| VipPlacement {
            subnet: Some(subnet.into()),
            ..VipPlacement::default()
        };
        let of = |network: &str| VipPlacement {
            network: Some(network.into()),
            ..VipPlacement::default()
        };
        let v4 = AddressFamily::Ipv4;
        let v6 = AddressFamily::Ipv6;
        let table = [
            (at("v4"), v6, Some("b6")),
            (of("net"), v6, Some("b6")),
            (
                VipPlacement {
                    network: Some("other".into()),
                    ..at("v4")
                },
                v6,
                Some("b6"),
            ),
            (at("z6"), v4, Some("v4")),
            // The first VIP is itself of the family that the second one would have.
            (at("v4"), v4, None),
            (of("net"), v4, None),
            // Octavia would take this one for the first VIP.
            (of("six"), v6, None),
            (at("other6"), v4, None),
            (at("unknown"), v6, None),
            (VipPlacement::default(), v6, None),
        ];
        for (vip, family, expected) in table {
            assert_eq!(
                beside(&seen, &vip, family).as_deref(),
                expected,
                "{vip:?} {family:?}"
            );
        }
    }

    #[test]
    fn tag_expression_becomes_the_parameter_of_the_same_meaning() {
        let table = [
            ("alice,peter", ("tags-any", "alice,peter")),
            ("&alice,bob", ("tags", "alice,bob")),
            ("!alice,bob", ("not-tags-any", "alice,bob")),
            ("!&alice,bob", ("not-tags", "alice,bob")),
        ];
        for (expression, expected) in table {
            assert_eq!(tag_query(expression), expected);
        }
    }
}
