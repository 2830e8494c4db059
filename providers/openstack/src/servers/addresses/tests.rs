use std::collections::BTreeMap;

use serde_json::json;

use super::*;

/// Returns a server with two fixed private addresses, a floating one, addresses for access, a host name, and a network
/// `public` with both families.
fn server() -> Wire {
    let entry = |kind: &str, addr: &str| json!({"addr": addr, "OS-EXT-IPS:type": kind});
    let server = json!({
        "id": "s", "name": "node-1", "accessIPv4": "50.56.176.99", "accessIPv6": "2001:db8::99",
        "metadata": {"hostname": "node-1.example"},
        "addresses": {
            "public": [entry("fixed", "50.56.176.36"), entry("fixed", "2001:db8::36")],
            "private": [entry("fixed", "10.0.0.32"), entry("floating", "50.56.176.37"), entry("fixed", "10.0.0.31")],
        },
    });
    serde_json::from_value(server).unwrap()
}

/// Returns the ports of the server, in the order of the API.
fn attached() -> Attached {
    Attached {
        ips: ["10.0.0.32", "10.0.0.31"].map(Box::from).into(),
        trunk: Vec::new(),
    }
}

fn listed(config: &Networking) -> Vec<String> {
    shown(&addresses(&server(), &attached(), config))
}

fn shown(addresses: &[NodeAddress]) -> Vec<String> {
    addresses.iter().map(ToString::to_string).collect()
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn a_nodes_addresses_stand_in_the_order_in_which_they_are_looked_for() {
    let config = Networking {
        public: names(&["public"]),
        ..Networking::default()
    };
    let expected = [
        "InternalIP 10.0.0.32",
        "InternalIP 10.0.0.31",
        "ExternalIP 50.56.176.99",
        "ExternalIP 2001:db8::99",
        "Hostname node-1.example",
        "ExternalIP 50.56.176.37",
        "ExternalIP 50.56.176.36",
        "ExternalIP 2001:db8::36",
    ];
    assert_eq!(listed(&config), expected);
}

#[test]
fn another_network_may_be_the_public_one_and_a_server_may_have_no_host_name() {
    let mut server = server();
    server.metadata.hostname = None;
    server.addresses = BTreeMap::from([
        ("pub-net".into(), server.addresses.remove("public").unwrap()),
        (
            "private".into(),
            server.addresses.remove("private").unwrap(),
        ),
    ]);
    let config = Networking {
        public: names(&["pub-net"]),
        ..Networking::default()
    };
    let expected = [
        "InternalIP 10.0.0.32",
        "InternalIP 10.0.0.31",
        "ExternalIP 50.56.176.99",
        "ExternalIP 2001:db8::99",
        "ExternalIP 50.56.176.37",
        "ExternalIP 50.56.176.36",
        "ExternalIP 2001:db8::36",
    ];
    assert_eq!(shown(&addresses(&server, &attached(), &config)), expected);
}

#[test]
fn only_addresses_of_the_networks_that_are_named_are_internal() {
    let config = Networking {
        internal: names(&["private", "also"]),
        ..Networking::default()
    };
    let listed = listed(&config);
    assert_eq!(
        listed[..2],
        ["InternalIP 10.0.0.32", "InternalIP 10.0.0.31"]
    );
    assert!(
        !listed
            .iter()
            .any(|address| address.contains("50.56.176.36") || address.contains("2001:db8::36"))
    );
    // A port's address goes again if its network is not among them.
    let config = Networking {
        internal: names(&["other"]),
        ..Networking::default()
    };
    let listed = shown(&addresses(&server(), &attached(), &config));
    assert!(
        !listed
            .iter()
            .any(|address| address.starts_with("InternalIP")),
        "{listed:?}"
    );
    assert!(
        listed.contains(&"ExternalIP 50.56.176.37".to_owned()),
        "floating addresses stay: {listed:?}"
    );
}

#[test]
fn with_ipv6_switched_off_no_address_of_it_is_left() {
    let config = Networking {
        ipv6_disabled: true,
        public: names(&["public"]),
        ..Networking::default()
    };
    let attached = Attached {
        ips: vec!["2001:db8::5".into(), "10.0.0.31".into()],
        trunk: vec![("vlan".into(), "2001:db8:1::5".into())],
    };
    let listed = shown(&addresses(&server(), &attached, &config));
    assert!(
        !listed.iter().any(|address| address.contains(':')),
        "{listed:?}"
    );
    assert_eq!(listed.len(), 6);
}

#[test]
fn an_address_of_a_public_network_is_not_internal_too() {
    let attached = Attached {
        ips: vec!["50.56.176.36".into()],
        trunk: Vec::new(),
    };
    let config = Networking {
        public: names(&["public"]),
        ..Networking::default()
    };
    let listed = shown(&addresses(&server(), &attached, &config));
    assert!(!listed.contains(&"InternalIP 50.56.176.36".to_owned()));
    assert!(listed.contains(&"ExternalIP 50.56.176.36".to_owned()));
}

#[test]
fn what_a_trunk_carries_stands_with_its_network_after_the_servers_own() {
    let attached = Attached {
        ips: Vec::new(),
        trunk: vec![
            ("vlan-a".into(), "10.1.0.5".into()),
            ("private".into(), "10.0.0.77".into()),
        ],
    };
    let listed = shown(&addresses(&server(), &attached, &Networking::default()));
    let internal: Vec<_> = listed
        .iter()
        .filter_map(|address| address.strip_prefix("InternalIP "))
        .collect();
    assert_eq!(
        internal,
        [
            "10.0.0.32",
            "10.0.0.31",
            "10.0.0.77",
            "50.56.176.36",
            "2001:db8::36",
            "10.1.0.5"
        ]
    );
    let config = Networking {
        public: names(&["vlan-a"]),
        ..Networking::default()
    };
    let listed = shown(&addresses(&server(), &attached, &config));
    assert!(listed.contains(&"ExternalIP 10.1.0.5".to_owned()));
}

/// Entries that are not ranges are dropped when the key is read, and the others keep their positions.
#[test]
fn addresses_of_named_ranges_come_first_and_in_their_numbers_order() {
    let order = ["50.56.176.0/24", "10.0.0.0/8"].map(|range| range.parse().unwrap());
    let config = Networking {
        public: names(&["public"]),
        sort_order: order.into(),
        ..Networking::default()
    };
    let expected = [
        "ExternalIP 50.56.176.36",
        "ExternalIP 50.56.176.37",
        "ExternalIP 50.56.176.99",
        "InternalIP 10.0.0.31",
        "InternalIP 10.0.0.32",
        "ExternalIP 2001:db8::99",
        "Hostname node-1.example",
        "ExternalIP 2001:db8::36",
    ];
    assert_eq!(listed(&config), expected);
}

#[test]
fn addresses_of_both_families_are_compared_as_numbers() {
    let order = ["2001:db8::/32", "0.0.0.0/0"].map(|range| range.parse().unwrap());
    let mut list = [
        "10.0.0.9",
        "2001:db8::20",
        "9.9.9.9",
        "2001:db8::3",
        "10.0.0.10",
    ]
    .map(|ip| NodeAddress::new(AddressType::InternalIP, ip));
    sort(&mut list, &order);
    assert_eq!(
        list.map(|address| address.address.into_string()),
        [
            "2001:db8::3",
            "2001:db8::20",
            "9.9.9.9",
            "10.0.0.9",
            "10.0.0.10"
        ]
    );
}

#[test]
fn an_addresses_priority_is_how_far_before_the_end_its_range_stands() {
    let order = ["192.168.0.0/16", "10.0.0.0/8"].map(|range| range.parse().unwrap());
    for (address, expected) in [
        ("192.168.1.1", 2),
        ("10.1.1.1", 1),
        ("172.16.1.1", 0),
        ("node-1.example", 0),
    ] {
        assert_eq!(priority(&order, address), expected, "{address}");
    }
}
