//! Pod CIDRs that get no route, because the route would take traffic from others (P-42).
//!
//! Whoever may write a Node chooses its Pod CIDR. A route sends all traffic of the cloud's network for that range to
//! the Node, so a range that is not the Node's own would take the traffic of other Nodes, or of hosts outside the cluster.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use cloud_provider::Node;
use ipnet::IpNet;

use super::Destination;
use crate::options::{RouteMode, RouteOptions};
use crate::shared_ids::shared_ids;

/// The reason why a Pod CIDR gets no route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CidrRefusal {
    /// The range is not inside one of the cluster's CIDRs.
    Outside,
    /// The range contains a CIDR of the cluster, and more.
    Encloses {
        /// CIDR of the cluster.
        cluster: IpNet,
    },
    /// The range is a whole CIDR of the cluster, which has further Nodes.
    WholeNetwork,
    /// The range is larger than those of most Nodes.
    TooLarge {
        /// Prefix length of most Nodes' ranges.
        usual: u8,
    },
    /// The range overlaps that of a Node that was created before.
    Overlaps {
        /// Range of the other Node.
        cidr: IpNet,
        /// Name of the other Node.
        node: Box<str>,
    },
    /// A Node that was created before has the same provider ID. The cloud knows only one of them as the target of a
    /// route.
    SharedProviderId {
        /// Name of the other Node.
        node: Box<str>,
    },
}

impl CidrRefusal {
    /// Returns what a person does about the refusal, as a sentence without a full stop.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Outside => "Correct --cluster-cidr",
            Self::Encloses { .. }
            | Self::WholeNetwork
            | Self::TooLarge { .. }
            | Self::Overlaps { .. } => {
                "Correct the podCIDR of the Node: delete the Node, so that it is registered again with a range of its own"
            }
            Self::SharedProviderId { .. } => {
                "Delete the one of the two Nodes that does not run on this machine"
            }
        }
    }
}

impl fmt::Display for CidrRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Outside => f.write_str("it is not inside --cluster-cidr"),
            Self::Encloses { cluster } => write!(
                f,
                "it contains {cluster} of --cluster-cidr, and addresses of others"
            ),
            Self::WholeNetwork => f.write_str("it is the Pod network of the whole cluster"),
            Self::TooLarge { usual } => {
                write!(f, "it is larger than the ranges of other Nodes (/{usual})")
            }
            Self::Overlaps { cidr, node } => write!(
                f,
                "it overlaps {cidr} of Node {node}, which was created before"
            ),
            Self::SharedProviderId { node } => {
                write!(
                    f,
                    "Node {node}, which was created before, has the same provider ID"
                )
            }
        }
    }
}

/// The refused Pod CIDRs of a cluster, by Node name and destination.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RefusedCidrs(HashMap<(Box<str>, Destination), CidrRefusal>);

/// A Pod CIDR with its Node.
#[derive(Clone, Copy)]
struct Range<'a> {
    node: &'a Node,
    net: IpNet,
}

impl RefusedCidrs {
    /// Returns the Pod CIDRs of these Nodes that get no route: none in the modes of the Go program, which creates all.
    #[must_use]
    pub fn in_mode(options: &RouteOptions, nodes: &[Arc<Node>]) -> Self {
        match options.mode {
            RouteMode::Adaptive => Self::of(nodes, &options.cluster_cidrs),
            RouteMode::Periodic | RouteMode::Watch => Self::default(),
        }
    }

    /// Returns the Pod CIDRs of these Nodes that get no route.
    #[must_use]
    pub fn of(nodes: &[Arc<Node>], cluster_cidrs: &[IpNet]) -> Self {
        let mut ranges: Vec<Range<'_>> = nodes.iter().flat_map(|node| ranges_of(node)).collect();
        // The first one of two that overlap is kept. A Node without a time of creation is the newest.
        ranges.sort_by_key(|range| {
            (
                range.node.created.is_none(),
                range.node.created,
                &range.node.name,
            )
        });
        let usual = usual_lengths(&ranges);
        let older: HashMap<Box<str>, Box<str>> = shared_ids(nodes)
            .into_iter()
            .map(|shared| (shared.node.name.clone(), shared.older))
            .collect();
        let shared = |node: &Node| {
            Some(CidrRefusal::SharedProviderId {
                node: older.get(&node.name)?.clone(),
            })
        };
        let mut refused = HashMap::new();
        let mut accepted = Accepted::default();
        for range in &ranges {
            let refusal = shared(range.node)
                .or_else(|| alone(range.net, cluster_cidrs, nodes.len(), &usual))
                .or_else(|| accepted.overlap(*range));
            match refusal {
                Some(refusal) => {
                    refused.insert(
                        (range.node.name.clone(), Destination::Network(range.net)),
                        refusal,
                    );
                }
                None => accepted.add(*range),
            }
        }
        Self(refused)
    }

    /// Returns the reason why a Pod CIDR of a Node gets no route.
    #[must_use]
    pub fn get(&self, node: &Node, destination: &Destination) -> Option<&CidrRefusal> {
        self.0.get(&(node.name.clone(), destination.clone()))
    }
}

fn ranges_of(node: &Node) -> impl Iterator<Item = Range<'_>> {
    node.pod_cidrs
        .iter()
        .filter_map(move |cidr| match Destination::new(cidr) {
            Destination::Network(net) => Some(Range { node, net }),
            // A text that is not a CIDR is refused by the provider.
            Destination::Text(_) => None,
        })
}

/// Returns the refusal that follows from a range without comparison with each other range.
fn alone(
    net: IpNet,
    cluster_cidrs: &[IpNet],
    nodes: usize,
    usual: &BTreeMap<bool, u8>,
) -> Option<CidrRefusal> {
    let Some(cluster) = cluster_cidrs.iter().find(|range| range.contains(&net)) else {
        let enclosed = cluster_cidrs
            .iter()
            .find(|range| net.contains(*range))
            .copied();
        return Some(
            enclosed.map_or(CidrRefusal::Outside, |cluster| CidrRefusal::Encloses {
                cluster,
            }),
        );
    };
    if *cluster == net && nodes > 1 {
        return Some(CidrRefusal::WholeNetwork);
    }
    let usual = usual.get(&is_ipv6(net)).copied()?;
    (net.prefix_len() < usual).then_some(CidrRefusal::TooLarge { usual })
}

/// Returns the prefix length that more than half of the ranges of a family have, by `is_ipv6`.
fn usual_lengths(ranges: &[Range<'_>]) -> BTreeMap<bool, u8> {
    let mut counts: BTreeMap<bool, BTreeMap<u8, usize>> = BTreeMap::new();
    for range in ranges {
        *counts
            .entry(is_ipv6(range.net))
            .or_default()
            .entry(range.net.prefix_len())
            .or_default() += 1;
    }
    let majority = |lengths: &BTreeMap<u8, usize>| {
        let total: usize = lengths.values().sum();
        lengths
            .iter()
            .find(|(_, count)| **count * 2 > total)
            .map(|(length, _)| *length)
    };
    counts
        .iter()
        .filter_map(|(family, lengths)| Some((*family, majority(lengths)?)))
        .collect()
}

fn is_ipv6(net: IpNet) -> bool {
    matches!(net, IpNet::V6(_))
}

/// Ranges that get routes, by their first address. Ranges of different Nodes do not overlap.
#[derive(Default)]
struct Accepted<'a>(BTreeMap<IpAddr, Range<'a>>);

impl<'a> Accepted<'a> {
    fn add(&mut self, range: Range<'a>) {
        self.0.entry(range.net.network()).or_insert(range);
    }

    /// Returns the refusal of a range that overlaps another Node's: either the last one that begins before it contains
    /// it, or it contains the first one that begins after its own beginning.
    fn overlap(&self, range: Range<'_>) -> Option<CidrRefusal> {
        let first = range.net.network();
        let last = range.net.broadcast();
        let is_of_another = |other: &&Range<'_>| other.node.name != range.node.name;
        let before = self
            .0
            .range(..=first)
            .rev()
            .map(|(_, other)| other)
            .find(is_of_another);
        let inside = self
            .0
            .range(first..=last)
            .map(|(_, other)| other)
            .find(is_of_another);
        let overlaps =
            |other: &&Range<'_>| other.net.contains(&range.net) || range.net.contains(&other.net);
        let other = before.into_iter().chain(inside).find(overlaps)?;
        Some(CidrRefusal::Overlaps {
            cidr: other.net,
            node: other.node.name.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;

    fn node(name: &str, age: i64, cidrs: &[&str]) -> Arc<Node> {
        let created = Timestamp::from_second(10_000 - age).ok();
        let pod_cidrs = cidrs.iter().map(|cidr| (*cidr).into()).collect();
        Arc::new(Node {
            name: name.into(),
            created,
            pod_cidrs,
            ..Node::default()
        })
    }

    fn refusals(nodes: &[Arc<Node>]) -> Vec<String> {
        let ranges = [
            "10.244.0.0/16".parse().unwrap(),
            "fd00::/48".parse().unwrap(),
        ];
        let refused = RefusedCidrs::of(nodes, &ranges);
        let mut texts: Vec<String> = refused
            .0
            .iter()
            .map(|((node, cidr), refusal)| format!("{node} {cidr}: {refusal}"))
            .collect();
        texts.sort();
        texts
    }

    #[test]
    fn ordinary_ranges_get_their_routes() {
        let dual = |n: u8| {
            node(
                &format!("n{n}"),
                9,
                &[&format!("10.244.{n}.0/24"), &format!("fd00:0:0:{n}::/64")],
            )
        };
        assert_eq!(refusals(&[dual(1), dual(2), dual(3)]), [""; 0]);
        assert_eq!(
            refusals(&[node("only", 9, &["10.244.0.0/16"])]),
            [""; 0],
            "a cluster of one Node"
        );
        let mixed = [
            node("a", 9, &["10.244.0.0/20"]),
            node("b", 8, &["10.244.16.0/24"]),
        ];
        assert_eq!(refusals(&mixed), [""; 0], "no size is usual");
        let smaller = [
            node("a", 9, &["10.244.0.0/24"]),
            node("b", 8, &["10.244.1.0/24"]),
            node("c", 1, &["10.244.2.0/26"]),
        ];
        assert_eq!(
            refusals(&smaller),
            [""; 0],
            "a smaller range takes nothing from others"
        );
    }

    #[test]
    fn range_that_would_take_the_traffic_of_others_is_refused() {
        for (cidr, expected) in [
            (
                "0.0.0.0/0",
                "it contains 10.244.0.0/16 of --cluster-cidr, and addresses of others",
            ),
            ("192.168.0.0/24", "it is not inside --cluster-cidr"),
            (
                "::/0",
                "it contains fd00::/48 of --cluster-cidr, and addresses of others",
            ),
            (
                "10.244.0.0/15",
                "it contains 10.244.0.0/16 of --cluster-cidr, and addresses of others",
            ),
            (
                "10.244.0.0/16",
                "it is the Pod network of the whole cluster",
            ),
            (
                "10.244.64.0/20",
                "it is larger than the ranges of other Nodes (/24)",
            ),
            (
                "10.244.1.0/24",
                "it overlaps 10.244.1.0/24 of Node a, which was created before",
            ),
            (
                "10.244.1.128/25",
                "it overlaps 10.244.1.0/24 of Node a, which was created before",
            ),
        ] {
            let nodes = [
                node("a", 9, &["10.244.1.0/24"]),
                node("b", 8, &["10.244.2.0/24"]),
                node("evil", 1, &[cidr]),
            ];
            let net = cidr.parse::<IpNet>().unwrap();
            assert_eq!(
                refusals(&nodes),
                [format!("evil {net}: {expected}")],
                "{cidr}"
            );
        }
    }

    #[test]
    fn later_node_cannot_take_a_range_by_its_name() {
        let nodes = [
            node("aaa", 1, &["10.244.1.0/24"]),
            node("zzz", 9, &["10.244.1.0/24"]),
        ];
        assert_eq!(
            refusals(&nodes),
            ["aaa 10.244.1.0/24: it overlaps 10.244.1.0/24 of Node zzz, which was created before"]
        );
    }

    #[test]
    fn younger_node_with_the_provider_id_of_another_gets_no_route() {
        let with_id = |name: &str, age, cidr: &str| {
            let node = node(name, age, &[cidr]);
            Arc::new(Node {
                provider_id: "acme://1".into(),
                ..(*node).clone()
            })
        };
        let nodes = [
            with_id("young", 1, "10.244.2.0/24"),
            with_id("old", 9, "10.244.1.0/24"),
        ];
        let expected =
            "young 10.244.2.0/24: Node old, which was created before, has the same provider ID";
        assert_eq!(refusals(&nodes), [expected]);
        let terminating = Arc::new(Node {
            terminating: true,
            ..(*nodes[1]).clone()
        });
        assert_eq!(
            refusals(&[Arc::clone(&nodes[0]), terminating]),
            [expected],
            "its Pods may still run"
        );
        assert_eq!(refusals(&nodes[..1]), [""; 0]);
    }

    proptest::proptest! {
        #[test]
        fn routes_of_different_nodes_never_overlap(
            ranges in proptest::collection::vec((0_u32..1024, 20_u8..28, 0_i64..5), 1..20)
        ) {
            let nodes: Vec<Arc<Node>> = ranges
                .iter()
                .enumerate()
                .map(|(index, (offset, length, age))| {
                    let address = std::net::Ipv4Addr::from_bits(0x0af4_0000 + offset * 64);
                    node(&format!("n{index}"), *age, &[&format!("{address}/{length}")])
                })
                .collect();
            let refused = RefusedCidrs::of(&nodes, &["10.244.0.0/16".parse().unwrap()]);
            let accepted: Vec<(&str, IpNet)> = nodes
                .iter()
                .flat_map(|node| ranges_of(node))
                .filter(|range| refused.get(range.node, &Destination::Network(range.net)).is_none())
                .map(|range| (&*range.node.name, range.net))
                .collect();
            for (node, net) in &accepted {
                for (other, theirs) in accepted.iter().filter(|(other, _)| other != node) {
                    let overlap = net.contains(theirs) || theirs.contains(net);
                    proptest::prop_assert!(!overlap, "{} of {} and {} of {}", net, node, theirs, other);
                }
            }
        }
    }
}
