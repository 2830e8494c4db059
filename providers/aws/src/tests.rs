//! Tests of pure decisions, and the reference page, whose tables are made from the declarations.

use std::time::Duration;

use cloud_provider::{ConfigFile, Environment, Node, Setup};
use provider_kit::declared::Declared;
use provider_kit::declared::reference::{put, table};
use serde_json::json;

use crate::api::{Identity, Tag, cluster_of};
use crate::config::{Config, FLAGS, Family, GLOBAL, OVERRIDE, region_of};
use crate::instances::{Instance, addresses, id_in_name, machine_id};
use crate::nodes::is_young;
use crate::permissions::{PERMISSIONS, Permissions, controllers_of, policy};
use crate::tagging::checksum;
use crate::{annotations, fargate};

fn policy_block() -> String {
    let all = policy(&["node-route-controller", "service-lb-controller", "tagging"]);
    let text = serde_json::to_string_pretty(&all).unwrap();
    format!("```json\n{text}\n```\n")
}

fn permissions_table() -> String {
    let mut actions: Vec<_> = PERMISSIONS.iter().flat_map(Permissions::actions).collect();
    actions.sort_unstable();
    actions.dedup();
    let rows = actions
        .iter()
        .map(|action| format!("| `{action}` | {} |\n", controllers_of(action)));
    format!(
        "| action | controllers |\n|---|---|\n{}",
        rows.collect::<String>()
    )
}

#[test]
fn reference_page_has_the_tables_of_the_declarations() {
    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/providers/aws.md");
    let page = std::fs::read_to_string(PAGE).unwrap();
    let tables = [
        ("policy", policy_block()),
        ("permissions", permissions_table()),
        ("keys", table("key", GLOBAL)),
        ("overrides", table("key", OVERRIDE)),
        ("flags", table("flag", FLAGS)),
        ("annotations", table("annotation", annotations::ALL)),
    ];
    let fresh = tables.iter().fold(page.clone(), |page, (name, text)| {
        put(&page, name, text).expect("a place for it")
    });
    if std::env::var_os("CCM_WRITE_REFERENCE").is_some() {
        std::fs::write(PAGE, &fresh).unwrap();
    } else {
        assert_eq!(
            page, fresh,
            "CCM_WRITE_REFERENCE=1 cargo test --workspace --lib reference_page writes the page"
        );
    }
    let accepted = |setting: &&dyn Declared| setting.row().default_is_accepted;
    assert!(
        [GLOBAL, OVERRIDE, FLAGS, annotations::ALL]
            .iter()
            .all(|all| all.iter().all(accepted))
    );
}

fn tags(of: &[(&str, &str)]) -> Vec<Tag> {
    of.iter()
        .map(|(key, value)| Tag {
            key: (*key).to_owned(),
            value: (*value).to_owned(),
        })
        .collect()
}

fn config(text: &str) -> Result<Config, String> {
    let file = ConfigFile {
        path: "cloud.conf".to_owned(),
        text: text.to_owned(),
    };
    Config::read(&Setup::of(file)).map_err(|error| error.to_string())
}

#[test]
fn provider_ids_name_instances_and_fargate_pods() {
    for id in [
        "aws:///us-west-2a/i-abc",
        "i-abc",
        "aws:////i-abc",
        "aws:///us-west-2a/rack-1/i-abc",
    ] {
        assert_eq!(machine_id(id).unwrap(), "i-abc", "{id}");
    }
    assert_eq!(
        machine_id("aws:///us-west-2a/fargate-10.0.0.1").unwrap(),
        "fargate-10.0.0.1"
    );
    for id in [
        "aws://us-west-2a/abc",
        "gce:///us-west-2a/i-abc",
        "aws:///us-west-2a/",
        "",
        "aws:///i-abc/x",
    ] {
        assert!(
            machine_id(id).is_err_and(|error| error.is_invalid()),
            "{id}"
        );
    }
    assert_eq!(
        id_in_name("i-0abc.us-west-2.compute.internal"),
        Some("i-0abc")
    );
    assert_eq!(id_in_name("ip-10-0-0-1.ec2.internal"), None);
    assert_eq!(
        fargate::address("fargate-10.0.0.1").as_deref(),
        Some("10.0.0.1")
    );
    assert_eq!(
        fargate::address("fargate-ip-10-0-0-1.us-west-2.compute.internal").as_deref(),
        Some("10.0.0.1")
    );
}

#[test]
fn zones_name_their_region() {
    let table = [
        ("us-west-2a", Some("us-west-2")),
        ("us-gov-west-1a", Some("us-gov-west-1")),
        ("us-west-2-lax-1a", Some("us-west-2")),
        ("", None),
        ("2a", None),
        ("moon", None),
    ];
    for (zone, region) in table {
        assert_eq!(region_of(zone).as_deref(), region, "{zone}");
    }
}

#[test]
fn tags_of_an_instance_name_one_cluster() {
    assert_eq!(cluster_of(&tags(&[("Name", "x")])).unwrap(), None);
    assert_eq!(
        cluster_of(&tags(&[("kubernetes.io/cluster/a", "owned")])).unwrap(),
        Some(("a".to_owned(), false))
    );
    let both = tags(&[
        ("kubernetes.io/cluster/a", "shared"),
        ("KubernetesCluster", "a"),
    ]);
    assert_eq!(cluster_of(&both).unwrap(), Some(("a".to_owned(), true)));
    let several = tags(&[
        ("kubernetes.io/cluster/a", "owned"),
        ("kubernetes.io/cluster/b", "owned"),
    ]);
    assert!(
        cluster_of(&several)
            .unwrap_err()
            .to_string()
            .contains("several clusters (a, b)")
    );
}

#[test]
fn shared_objects_belong_to_the_cluster() {
    let identity = Identity {
        cluster: Some("a".to_owned()),
        ..Identity::default()
    };
    assert!(identity.has(&tags(&[("kubernetes.io/cluster/a", "shared")])));
    assert!(identity.has(&tags(&[("KubernetesCluster", "a")])));
    assert!(!identity.has(&tags(&[
        ("kubernetes.io/cluster/b", "owned"),
        ("KubernetesCluster", "b")
    ])));
    assert!(
        Identity::default().has(&[]),
        "without a cluster ID all objects do"
    );
}

#[test]
fn addresses_are_grouped_by_family_in_the_order_of_the_devices() {
    let xml = |number: u32, device: u32, card: u32| {
        json!({"status": "in-use", "attachment": {"deviceIndex": device, "networkCardIndex": card},
            "privateIpAddressesSet": [{"privateIpAddress": format!("10.0.0.{number}")}],
            "ipv6AddressesSet": [{"ipv6Address": format!("2001:db8::{number}")}, {"ipv6Address": "2001:db8::ff"}]})
    };
    let detached =
        json!({"status": "available", "privateIpAddressesSet": [{"privateIpAddress": "10.0.0.9"}]});
    let instance = json!({"instanceId": "i-1", "privateDnsName": "ip-10-0-0-1.ec2.internal",
        "dnsName": "ec2-203-0-113-7.example", "ipAddress": "203.0.113.7",
        "networkInterfaceSet": [xml(3, 2, 0), detached, xml(2, 1, 1), xml(1, 0, 0)]});
    let instance = serde_json::from_value::<Instance>(instance).unwrap().kept();
    assert_eq!(instance.odd_address(), None);
    let odd = Instance {
        ip_address: "203.0.113".into(),
        ..instance.clone()
    };
    assert_eq!(odd.odd_address(), Some("203.0.113"));
    let shown = |families: &[Family], instance: &Instance| -> Vec<String> {
        let all = addresses(families, instance).into_iter();
        all.map(|address| format!("{} {}", address.kind.as_str(), address.address))
            .collect()
    };
    let all = shown(&[Family::Ipv6, Family::Ipv4], &instance);
    let expected = [
        "InternalIP 2001:db8::1",
        "InternalIP 2001:db8::2",
        "InternalIP 2001:db8::3",
        "InternalIP 10.0.0.1",
        "InternalIP 10.0.0.2",
        "InternalIP 10.0.0.3",
        "ExternalIP 203.0.113.7",
        "InternalDNS ip-10-0-0-1.ec2.internal",
        "Hostname ip-10-0-0-1.ec2.internal",
        "ExternalDNS ec2-203-0-113-7.example",
    ];
    assert_eq!(all, expected);
    let fargate = Instance {
        instance_id: "fargate-10.0.0.1".into(),
        ..instance
    };
    assert_eq!(
        shown(&[Family::Ipv4], &fargate)[3..],
        ["InternalDNS ip-10-0-0-1.ec2.internal"]
    );
}

#[test]
fn young_nodes_stay_for_the_grace_period() {
    let now = "2026-01-01T00:10:00Z".parse().unwrap();
    let grace = Duration::from_secs(300);
    for (created, is_kept) in [
        ("2026-01-01T00:09:00Z", true),
        ("2026-01-01T00:05:00Z", false),
        ("2026-01-01T00:11:00Z", false),
    ] {
        let node = Node {
            created: created.parse().ok(),
            ..Node::default()
        };
        assert_eq!(is_young(&node, grace, now), is_kept, "{created}");
    }
}

#[test]
fn checksum_of_tags_is_that_of_the_go_program() {
    let tags = [("b", "2"), ("a", "1")].map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!(
        checksum(&tags.into()),
        "9dc867b7f2bf1e40160f90e46628512e",
        "MD5 of a=1,b=2"
    );
}

#[test]
fn mistakes_of_the_file_are_refused() {
    let override_of = |url: &str| {
        format!(
            "[ServiceOverride \"1\"]\nService = ec2\nRegion = r\nURL = {url}\nSigningRegion = r\n"
        )
    };
    let twice = format!(
        "{}{}",
        override_of("http://x"),
        override_of("http://y")
            .replace("\"1\"", "\"2\"")
            .replace("ec2", "EC2")
    );
    let table = [
        ("[Global]\nZone = moon\n".to_owned(), "availability zone"),
        (
            "[Global]\nKubernetesClusterTag = a\nKubernetesClusterID = b\n".to_owned(),
            "another ID",
        ),
        ("[Global]\nNodeIPFamilies = ipv5\n".to_owned(), "no family"),
        (
            "[Global]\nNLBSecurityGroupMode = managed\n".to_owned(),
            "NLBSecurityGroupMode",
        ),
        (override_of(""), "lacks URL"),
        (twice, "second one of EC2 in r"),
    ];
    for (text, expected) in table {
        let error = config(&text).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn program_runs_elsewhere_with_vpc_cluster_and_subnet_or_role() {
    let all = "[Global]\nZone = us-west-2a\nVPC = vpc-1\nKubernetesClusterID = a\n";
    let here = config(all).unwrap();
    assert_eq!(
        (here.region.as_deref(), here.is_elsewhere()),
        (Some("us-west-2"), false)
    );
    for more in [
        "SubnetID = subnet-1\n",
        "RoleARN = arn:aws:iam::123456789012:role/x\n",
    ] {
        assert!(
            config(&format!("{all}{more}")).unwrap().is_elsewhere(),
            "{more}"
        );
    }
    let families =
        config("[Global]\nNodeIPFamilies = ipv6\nNodeIPFamilies = ipv4\nUnknown = 1\n").unwrap();
    assert_eq!(families.families, [Family::Ipv6, Family::Ipv4]);
    assert_eq!(families.warnings.len(), 1, "{:?}", families.warnings);
}

#[test]
fn tagging_controller_needs_tags_and_resources() {
    let read = |flags: &[(&str, &str)]| {
        let setup = Setup {
            flags: Environment::of(flags.iter().copied()),
            ..Setup::default()
        };
        Config::read(&setup)
            .map(|config| config.tagging)
            .map_err(|error| error.to_string())
    };
    assert_eq!(
        read(&[("--tags", "a=b"), ("--resources", "instance")]).unwrap(),
        None,
        "it does not run"
    );
    let error = read(&[("--controllers", "*,tagging")]).unwrap_err();
    assert!(
        error.contains("--tags is required") && error.contains("--resources is required"),
        "{error}"
    );
    let limits = [
        ("--tagging-controller-rate-limit", "1.5"),
        ("--tagging-controller-burst-limit", "10"),
    ];
    let all = [
        ("--controllers", "*,tagging"),
        ("--tags", "a=b,c=d=e"),
        ("--resources", "instance"),
    ];
    let tagging = read(&[&all[..], &limits].concat()).unwrap().unwrap();
    assert_eq!(
        (tagging.tags.len(), &*tagging.tags["c"], tagging.limit),
        (2, "d=e", Some((1.5, 10)))
    );
}

/// Returns the source of the provider, but for tests and the table of permissions.
fn source(directory: &std::path::Path) -> String {
    let mut text = String::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            text.push_str(&source(&path));
        } else if !["tests.rs", "permissions.rs"]
            .iter()
            .any(|name| path.ends_with(name))
        {
            text.push_str(&std::fs::read_to_string(path).unwrap());
        }
    }
    text
}

#[test]
fn policy_allows_each_action_that_is_sent_and_no_other() {
    let text = source(std::path::Path::new(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/src"
    )));
    let name = |action: String| action.split(':').nth(1).unwrap().to_owned();
    let allowed = || PERMISSIONS.iter().flat_map(Permissions::actions).map(name);
    for part in text.split("Query::new(\"").skip(1) {
        let action = part.split('"').next().unwrap();
        assert!(
            allowed().any(|text| text == action),
            "{action} is sent and not allowed"
        );
    }
    for action in allowed().filter(|text| *text != "CreateServiceLinkedRole") {
        assert!(
            text.contains(&format!("\"{action}\"")),
            "{action} is allowed and never sent"
        );
    }
}
