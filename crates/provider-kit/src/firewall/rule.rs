//! A firewall rule and its text form.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use serde::{Deserialize, Serialize};

/// The direction of traffic, seen from the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// Traffic to the machine.
    Ingress,
    /// Traffic from the machine.
    Egress,
}

/// An IP address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// Internet Protocol version 4.
    Ipv4,
    /// Internet Protocol version 6.
    Ipv6,
}

impl Family {
    /// Returns the family of a network.
    #[must_use]
    pub fn of(network: IpNet) -> Self {
        if network.addr().is_ipv4() {
            Self::Ipv4
        } else {
            Self::Ipv6
        }
    }

    fn everything(self) -> IpNet {
        match self {
            Self::Ipv4 => IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::UNSPECIFIED, 0)),
            Self::Ipv6 => IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::UNSPECIFIED, 0)),
        }
    }
}

/// A protocol above IP.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// Any protocol at all.
    Any,
    /// Transmission Control Protocol (TCP).
    Tcp,
    /// User Datagram Protocol (UDP).
    Udp,
    /// Stream Control Transmission Protocol (SCTP).
    Sctp,
    /// ICMP or ICMPv6: all types, one type with all its codes, or one type and code.
    Icmp(Option<(u8, Option<u8>)>),
    /// Any other protocol, by its name or number in lower case.
    Other(String),
}

impl Protocol {
    /// Reads a protocol's name or number in any case, as clouds write it; `*`, `all` and `-1` mean every protocol.
    ///
    /// ```
    /// use provider_kit::firewall::Protocol;
    ///
    /// assert_eq!(["TCP", "6", "-1", "ah"].map(Protocol::named), [
    ///     Protocol::Tcp,
    ///     Protocol::Tcp,
    ///     Protocol::Any,
    ///     Protocol::Other("ah".into()),
    /// ]);
    /// ```
    #[must_use]
    pub fn named(name: &str) -> Self {
        match &*name.to_ascii_lowercase() {
            "" | "*" | "-1" | "any" | "all" => Self::Any,
            "tcp" | "6" => Self::Tcp,
            "udp" | "17" => Self::Udp,
            "sctp" | "132" => Self::Sctp,
            "icmp" | "1" | "icmpv6" | "ipv6-icmp" | "58" => Self::Icmp(None),
            other => Self::Other(other.to_owned()),
        }
    }

    fn contains(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Any, _) | (Self::Icmp(None), Self::Icmp(_)) => true,
            (Self::Icmp(Some((kind, None))), Self::Icmp(Some((other, _)))) => kind == other,
            _ => self == other,
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("any"),
            Self::Tcp => f.write_str("tcp"),
            Self::Udp => f.write_str("udp"),
            Self::Sctp => f.write_str("sctp"),
            Self::Icmp(None) => f.write_str("icmp"),
            Self::Icmp(Some((kind, None))) => write!(f, "icmp/{kind}"),
            Self::Icmp(Some((kind, Some(code)))) => write!(f, "icmp/{kind}/{code}"),
            Self::Other(name) => f.write_str(name),
        }
    }
}

/// A range of ports, from the first to the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ports {
    /// The lowest port of the range.
    pub first: u16,
    /// The highest port of the range.
    pub last: u16,
}

impl Ports {
    /// The range of every port.
    pub const ALL: Self = Self {
        first: 0,
        last: u16::MAX,
    };

    /// Returns a range of a single port.
    #[must_use]
    pub fn one(port: u16) -> Self {
        Self {
            first: port,
            last: port,
        }
    }
}

/// The other end of the traffic.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Peer {
    /// The addresses of a network.
    Network(IpNet),
    /// The machines of a group or with a tag, as the cloud names it.
    Group(String),
}

/// A firewall rule. The constructors bring a rule into the normal form in which rules are compared. Its serialized form
/// is a text such as `ingress IPv4 tcp 80-81 10.0.0.0/8`, without the owner.
///
/// ```
/// use provider_kit::firewall::{Direction, Ports, Protocol, Rule};
///
/// let rule = Rule::network(Direction::Ingress, Protocol::Tcp, Ports::one(80), "::ffff:10.1.2.3/104".parse()?);
/// assert_eq!(rule.to_string(), "ingress IPv4 tcp 80 10.0.0.0/8");
/// assert_eq!("ingress IPv4 tcp 80 10.0.0.0/8".parse(), Ok(rule));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Rule {
    /// Direction of the traffic.
    pub direction: Direction,
    /// Address family of the traffic.
    pub family: Family,
    /// Protocol of the traffic.
    pub protocol: Protocol,
    /// Ports of the machine; all of them for protocols without ports.
    pub ports: Ports,
    /// Other end of the traffic.
    pub peer: Peer,
    /// Owner, where rules of several owners are in one set: a description or tag.
    pub owner: Option<String>,
}

impl Rule {
    /// Returns a rule for the addresses of a network. Host bits are dropped, and an IPv4-mapped network becomes IPv4.
    #[must_use]
    pub fn network(direction: Direction, protocol: Protocol, ports: Ports, network: IpNet) -> Self {
        let network = canonical(network);
        Self {
            direction,
            family: Family::of(network),
            protocol,
            ports,
            peer: Peer::Network(network),
            owner: None,
        }
    }

    /// Returns a rule for every address of a family.
    #[must_use]
    pub fn anywhere(
        direction: Direction,
        protocol: Protocol,
        ports: Ports,
        family: Family,
    ) -> Self {
        Self::network(direction, protocol, ports, family.everything())
    }

    /// Returns a rule for the machines of a group.
    #[must_use]
    pub fn group(
        direction: Direction,
        protocol: Protocol,
        ports: Ports,
        family: Family,
        group: &str,
    ) -> Self {
        Self {
            direction,
            family,
            protocol,
            ports,
            peer: Peer::Group(group.to_owned()),
            owner: None,
        }
    }

    /// Sets the owner of the rule.
    #[must_use]
    pub fn owned_by(self, owner: &str) -> Self {
        Self {
            owner: Some(owner.to_owned()),
            ..self
        }
    }

    /// Returns `true` if both rules are the same but for their owners.
    #[must_use]
    pub fn admits_same(&self, other: &Self) -> bool {
        let Self {
            direction,
            family,
            protocol,
            ports,
            peer,
            owner: _,
        } = self;
        (direction, family, protocol, ports, peer)
            == (
                &other.direction,
                &other.family,
                &other.protocol,
                &other.ports,
                &other.peer,
            )
    }

    /// Returns `true` if this rule admits all traffic that the other one admits.
    #[must_use]
    pub fn contains(&self, other: &Self) -> bool {
        let peer = match (&self.peer, &other.peer) {
            (Peer::Network(network), Peer::Network(other)) => network.contains(other),
            // A group has some addresses, and this network has every address.
            (Peer::Network(network), Peer::Group(_)) => network.prefix_len() == 0,
            (peer, other) => peer == other,
        };
        (self.direction, self.family) == (other.direction, other.family)
            && self.protocol.contains(&other.protocol)
            && self.ports.first <= other.ports.first
            && other.ports.last <= self.ports.last
            && peer
    }
}

fn canonical(network: IpNet) -> IpNet {
    let mapped = match network.addr() {
        IpAddr::V6(address) => address.to_ipv4_mapped(),
        IpAddr::V4(_) => None,
    };
    let length = network.prefix_len().checked_sub(96);
    let unmapped = mapped
        .zip(length)
        .and_then(|(address, length)| Ipv4Net::new(address, length).ok());
    unmapped.map_or(network, IpNet::V4).trunc()
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let direction = if self.direction == Direction::Ingress {
            "ingress"
        } else {
            "egress"
        };
        let family = if self.family == Family::Ipv4 {
            "IPv4"
        } else {
            "IPv6"
        };
        write!(f, "{direction} {family} {} ", self.protocol)?;
        match self.ports {
            Ports::ALL => f.write_str("any ")?,
            Ports { first, last } if first == last => write!(f, "{first} ")?,
            Ports { first, last } => write!(f, "{first}-{last} ")?,
        }
        match &self.peer {
            Peer::Network(network) => write!(f, "{network}"),
            Peer::Group(group) => write!(f, "group {group}"),
        }
    }
}

/// The error for a text that is not a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleError(String);

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is no firewall rule such as \"ingress IPv4 tcp 80 10.0.0.0/8\"",
            self.0
        )
    }
}

impl std::error::Error for RuleError {}

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        read(text).ok_or_else(|| RuleError(text.to_owned()))
    }
}

fn read(text: &str) -> Option<Rule> {
    let [direction, family, protocol, ports, peer] =
        text.splitn(5, ' ').collect::<Vec<_>>().try_into().ok()?;
    let direction = match direction {
        "ingress" => Direction::Ingress,
        "egress" => Direction::Egress,
        _ => return None,
    };
    let family = match family {
        "IPv4" => Family::Ipv4,
        "IPv6" => Family::Ipv6,
        _ => return None,
    };
    let protocol = match protocol
        .strip_prefix("icmp/")
        .map(|kind| kind.split_once('/').unwrap_or((kind, "")))
    {
        Some((kind, "")) => Protocol::Icmp(Some((kind.parse().ok()?, None))),
        Some((kind, code)) => Protocol::Icmp(Some((kind.parse().ok()?, Some(code.parse().ok()?)))),
        None => Protocol::named(protocol),
    };
    let ports = match ports.split_once('-').unwrap_or((ports, ports)) {
        ("any", _) => Ports::ALL,
        (first, last) => Ports {
            first: first.parse().ok()?,
            last: last.parse().ok()?,
        },
    };
    match peer.strip_prefix("group ") {
        Some(group) => Some(Rule::group(direction, protocol, ports, family, group)),
        None => Some(Rule::network(
            direction,
            protocol,
            ports,
            peer.parse().ok()?,
        ))
        .filter(|rule| rule.family == family),
    }
}

impl From<Rule> for String {
    fn from(rule: Rule) -> Self {
        rule.to_string()
    }
}

impl TryFrom<String> for Rule {
    type Error = RuleError;

    fn try_from(text: String) -> Result<Self, RuleError> {
        text.parse()
    }
}
