use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use proptest::prelude::*;

use super::{Direction, Family, Peer, Ports, Protocol, Rule, difference, normalized};

fn rule(text: &str) -> Rule {
    text.parse().unwrap()
}

/// A rule of few values, so that rules often touch, overlap and contain each other.
fn any_rule() -> impl Strategy<Value = Rule> {
    let direction = prop_oneof![Just(Direction::Ingress), Just(Direction::Egress)];
    let icmp = Just(Protocol::Icmp(Some((3, Some(4)))));
    let protocol = prop_oneof![4 => Just(Protocol::Tcp), 1 => Just(Protocol::Udp), 1 => Just(Protocol::Any), 1 => icmp];
    let ports = (0..8_u16, 0..3_u16).prop_map(|(first, more)| Ports {
        first,
        last: first + more,
    });
    let ports = prop_oneof![6 => ports, 1 => Just(Ports::ALL)];
    let network = prop_oneof![
        (0..4_u8, 6..9_u8).prop_map(|(a, length)| IpNet::new(
            Ipv4Addr::new(a, 0, 0, 0).into(),
            length
        )
        .unwrap()),
        (0..4_u8, 102..105_u8).prop_map(|(a, length)| {
            IpNet::new(Ipv4Addr::new(a, 0, 0, 0).to_ipv6_mapped().into(), length).unwrap()
        }),
        (0..2_u16).prop_map(
            |a| IpNet::new(Ipv6Addr::new(0xfd00, a, 0, 0, 0, 0, 0, 0).into(), 32).unwrap()
        ),
        Just("0.0.0.0/0".parse().unwrap()),
    ];
    let owner = prop_oneof![3 => Just(None), 1 => Just(Some("other"))];
    (
        direction,
        protocol,
        ports,
        network,
        prop::bool::weighted(0.2),
        owner,
    )
        .prop_map(|(direction, protocol, ports, network, is_group, owner)| {
            let rule = match is_group {
                true => Rule::group(direction, protocol, ports, Family::of(network), "g"),
                false => Rule::network(direction, protocol, ports, network),
            };
            owner.map_or(rule.clone(), |owner| rule.owned_by(owner))
        })
}

fn rules() -> impl Strategy<Value = Vec<Rule>> {
    prop::collection::vec(any_rule(), 0..8)
}

/// Packets to or from a peer that is in group `g` or in no group.
fn packets() -> Vec<Rule> {
    let peers = (0..6_u8).map(|a| IpAddr::from(Ipv4Addr::new(a, 0, 0, 1)));
    let peers = peers.chain((0..3_u16).map(|a| Ipv6Addr::new(0xfd00, a, 0, 0, 0, 0, 0, 1).into()));
    let peers: Vec<IpNet> = peers.map(IpNet::from).collect();
    let protocols = [
        Protocol::Tcp,
        Protocol::Udp,
        Protocol::Icmp(Some((3, Some(4)))),
        Protocol::Other("ah".into()),
    ];
    let mut packets = Vec::new();
    for direction in [Direction::Ingress, Direction::Egress] {
        for protocol in &protocols {
            for ports in (0..12).map(Ports::one) {
                let of = |peer: &IpNet| Rule::network(direction, protocol.clone(), ports, *peer);
                packets.extend(peers.iter().map(of));
                let families = [Family::Ipv4, Family::Ipv6];
                packets
                    .extend(families.map(|family| {
                        Rule::group(direction, protocol.clone(), ports, family, "g")
                    }));
            }
        }
    }
    packets
}

fn admit_the_same(one: &[Rule], other: &[Rule]) -> bool {
    let admits = |rules: &[Rule], packet: &Rule| rules.iter().any(|rule| rule.contains(packet));
    packets()
        .iter()
        .all(|packet| admits(one, packet) == admits(other, packet))
}

proptest! {
    #[test]
    fn normalizing_admits_the_same_and_twice_changes_nothing(rules in rules()) {
        let once = normalized(&rules);
        prop_assert!(admit_the_same(&once, &rules));
        prop_assert_eq!(normalized(&once), once);
    }

    #[test]
    fn applied_difference_admits_the_desired_traffic_and_leaves_none(wanted in rules(), present in rules()) {
        let of = |owner: Option<&str>, rules: &[Rule]| -> Vec<Rule> {
            rules.iter().filter(|rule| rule.owner.as_deref() == owner).cloned().collect()
        };
        let present: Vec<(usize, Rule)> = present.into_iter().enumerate().collect();
        let (add, remove) = {
            let object = difference(None, &wanted, &present);
            (object.add.into_iter().cloned().collect::<Vec<_>>(), object.remove.into_iter().copied().collect::<Vec<_>>())
        };
        let stays = present.iter().filter(|(id, _)| !remove.contains(id)).cloned();
        let added = add.iter().enumerate().map(|(at, rule)| (100 + at, rule.clone()));
        let after: Vec<(usize, Rule)> = stays.chain(added).collect();
        let rules = |all: &[(usize, Rule)]| all.iter().map(|(_, rule)| rule.clone()).collect::<Vec<_>>();
        prop_assert!(admit_the_same(&of(None, &rules(&after)), &of(None, &wanted)));
        prop_assert_eq!(of(Some("other"), &rules(&after)), of(Some("other"), &rules(&present)));
        prop_assert!(difference(None, &wanted, &after).is_empty());
    }

    #[test]
    fn text_of_a_rule_reads_back(rule in any_rule()) {
        let rule = Rule { owner: None, ..rule };
        prop_assert_eq!(rule.to_string().parse::<Rule>(), Ok(rule));
    }
}

#[test]
fn difference_keeps_rules_that_cover_the_wanted_ones_in_another_division() {
    let one = "ingress IPv4 tcp 80 10.0.0.0/8";
    let two = "ingress IPv4 tcp 81 10.0.0.0/8";
    let both = "ingress IPv4 tcp 80-81 10.0.0.0/8";
    let wider = "ingress IPv4 tcp 80-82 10.0.0.0/8";
    let inner = "ingress IPv4 tcp 80 10.1.0.0/16";
    type Row<'a> = (&'a [&'a str], &'a [&'a str], &'a [&'a str], &'a [usize]);
    let table: [Row<'_>; 8] = [
        (&[], &[], &[], &[]),
        (&[one, two], &[both], &[], &[]),
        (&[both], &[one, two], &[], &[]),
        (&[one, two], &[one], &[two], &[]),
        (&[one, two], &[wider], &[one, two], &[0]),
        (&[one], &[inner], &[one], &[0]),
        (&[one, one, inner], &[], &[one], &[]),
        (&[both], &[one, both, two, both], &[], &[0, 2, 3]),
    ];
    for (wanted, present, add, remove) in table {
        let wanted: Vec<Rule> = wanted.iter().map(|text| rule(text)).collect();
        let present: Vec<(usize, Rule)> = present
            .iter()
            .map(|present| rule(present))
            .enumerate()
            .collect();
        let difference = difference(None, &wanted, &present);
        let added: Vec<String> = difference.add.iter().map(ToString::to_string).collect();
        assert_eq!(
            (&*added, difference.remove),
            (
                &*add.iter().map(ToString::to_string).collect::<Vec<_>>(),
                remove.iter().collect()
            ),
            "{wanted:?}"
        );
    }
}

#[test]
fn rules_of_other_owners_do_not_cover_and_are_not_removed() {
    let http = rule("ingress IPv4 tcp 80 10.0.0.0/8");
    let ours = http.clone().owned_by("web");
    let theirs = http.clone().owned_by("shop");
    let present = [("r1", theirs), ("r2", http)];
    let wanted = [ours];
    let difference = difference(Some("web"), &wanted, &present);
    assert_eq!(
        (difference.add, difference.remove),
        (vec![&wanted[0]], vec![])
    );
}

#[test]
fn icmp_types_are_not_merged_as_ports_are() {
    let rules = [
        "ingress IPv4 icmp/3/4 any 10.0.0.0/8",
        "ingress IPv4 icmp/3/5 any 10.0.0.0/8",
    ]
    .map(rule);
    assert_eq!(normalized(&rules).len(), 2);
    assert!(rule("ingress IPv4 icmp/3 any 10.0.0.0/8").contains(&rules[0]));
    assert!(rule("ingress IPv4 any any 10.0.0.0/8").contains(&rules[0]));
    assert!(!rules[0].contains(&rule("ingress IPv4 icmp any 10.0.0.0/8")));
}

#[test]
fn text_that_is_no_rule_is_refused() {
    for text in [
        "",
        "ingress IPv4 tcp 80",
        "in IPv4 tcp 80 10.0.0.0/8",
        "ingress IPv6 tcp 80 10.0.0.0/8",
        "ingress IPv4 tcp x 10.0.0.0/8",
    ] {
        let error = text.parse::<Rule>().unwrap_err().to_string();
        assert!(error.contains("is no firewall rule"), "{error}");
    }
    let group = rule("egress IPv6 any any group sg-1");
    assert_eq!(group.peer, Peer::Group("sg-1".into()));
}
