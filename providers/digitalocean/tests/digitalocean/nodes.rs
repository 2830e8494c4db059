//! Nodes and their droplets.

use std::sync::Arc;

use cloud_provider::{CloudProvider, InstanceState, LookupRequest, MetadataLevel, Node, Result};
use digitalocean_fake::Fault;
use provider_digitalocean::DigitalOcean;

use crate::harness::Harness;

async fn look_up(harness: &Harness, name: &str, provider_id: &str) -> Result<InstanceState> {
    look_up_with(&harness.started().await, name, provider_id).await
}

async fn look_up_with(
    provider: &DigitalOcean,
    name: &str,
    provider_id: &str,
) -> Result<InstanceState> {
    let node = Node {
        name: name.into(),
        uid: "u".into(),
        provider_id: provider_id.into(),
        ..Node::default()
    };
    let request = LookupRequest {
        existence: true,
        shutdown: true,
        metadata: MetadataLevel::Full,
        fresh: true,
    };
    provider
        .instances()
        .unwrap()
        .lookup(&[Arc::new(node)], request)
        .await
        .remove(0)
}

#[tokio::test(start_paused = true)]
async fn a_node_has_the_addresses_type_and_region_of_its_droplet() {
    let harness = Harness::new();
    let droplet = harness
        .fake
        .change_droplet("worker-1", |droplet| {
            droplet.private_v4.insert(0, "10.19.0.5".parse().unwrap());
        })
        .unwrap();
    for (name, id) in [
        ("worker-1", ""),
        ("other", &*format!("digitalocean://{}", droplet.id)),
        ("198.18.0.1", ""),
    ] {
        let InstanceState::Present {
            metadata: Some(metadata),
            shutdown: Some(false),
        } = look_up(&harness, name, id).await.unwrap()
        else {
            panic!("{name} {id}")
        };
        let addresses: Vec<_> = metadata
            .node_addresses
            .iter()
            .map(|address| format!("{} {}", address.kind.as_str(), address.address))
            .collect();
        let wanted = [
            "Hostname worker-1",
            "InternalIP 10.110.0.1",
            "ExternalIP 198.18.0.1",
            "ExternalIP 2001:db8:1::1",
        ];
        assert_eq!(addresses, wanted);
        assert_eq!(
            (&*metadata.instance_type, &*metadata.region, &*metadata.zone),
            ("s-2vcpu-4gb", "fra1", "")
        );
        assert_eq!(
            metadata.provider_id,
            format!("digitalocean://{}", droplet.id)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_droplet_that_is_off_is_shut_down_and_one_that_is_deleted_is_gone() {
    let harness = Harness::new();
    let id = format!(
        "digitalocean://{}",
        harness.fake.droplet("worker-1").unwrap().id
    );
    harness
        .fake
        .change_droplet("worker-1", |droplet| droplet.status = "off".to_owned());
    assert!(matches!(
        look_up(&harness, "worker-1", &id).await,
        Ok(InstanceState::Present {
            shutdown: Some(true),
            ..
        })
    ));
    harness.fake.delete_droplet("worker-1");
    assert!(matches!(
        look_up(&harness, "worker-1", &id).await,
        Ok(InstanceState::Gone(_))
    ));
    let provider = harness.started().await;
    harness.fake.fail(Fault::refused("", 500));
    assert!(look_up_with(&provider, "worker-1", &id).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn what_is_no_droplet_of_this_account_is_an_error_and_not_gone() {
    let harness = Harness::new();
    for id in [
        "digitalocean://",
        "digitalocean://x",
        "digitalocean://0",
        "foo://123",
        "digitalocean://1/2",
    ] {
        assert!(
            look_up(&harness, "worker-1", id)
                .await
                .unwrap_err()
                .is_invalid(),
            "{id}"
        );
    }
    harness.fake.add_droplet("worker-1");
    let error = look_up(&harness, "worker-1", "").await.unwrap_err();
    assert!(
        error.to_string().contains("several machines are named"),
        "{error}"
    );
    harness
        .fake
        .change_droplet("worker-2", |droplet| droplet.private_v4.clear());
    let error = look_up(&harness, "worker-2", "").await.unwrap_err();
    assert!(
        error.to_string().contains("has no private IPv4 address"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn node_named_by_its_private_address_is_the_droplet_in_the_vpc_of_the_cluster() {
    let name = "10.110.0.1";
    for (vpc, region, expected) in [
        ("other", "fra1", "both have address"),
        ("other", "nyc3", ""),
        (digitalocean_fake::VPC, "fra1", "both have address"),
    ] {
        let harness = Harness::new();
        let ours = harness.fake.droplet("worker-1").unwrap();
        // The other droplet comes first in the list.
        harness.fake.change_droplet("worker-1", |droplet| {
            (droplet.vpc_uuid, droplet.region) = (vpc.to_owned(), region.to_owned());
        });
        harness.fake.change_droplet("worker-2", |droplet| {
            droplet.private_v4.clone_from(&ours.private_v4);
        });
        let outcome = look_up(&harness, name, "").await;
        match outcome {
            Ok(InstanceState::Present {
                metadata: Some(metadata),
                ..
            }) => {
                assert!(expected.is_empty(), "{vpc} {region}");
                assert_eq!(metadata.node_addresses[0].address, "worker-2".into());
            }
            Err(error) => assert!(
                !expected.is_empty() && error.to_string().contains(expected),
                "{error}"
            ),
            other => panic!("{other:?}"),
        }
        let harness = harness.set("DO_CLUSTER_VPC_ID", digitalocean_fake::VPC);
        let outcome = look_up(&harness, name, "").await;
        assert_eq!(
            outcome.is_err(),
            vpc == digitalocean_fake::VPC && region == "fra1",
            "{vpc}: {outcome:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_thousand_nodes_are_read_with_pages_of_200() {
    let harness = Harness::new();
    (0..998).for_each(|number| drop(harness.fake.add_droplet(&format!("node-{number}"))));
    let provider = harness.started().await;
    let node = |number| {
        Arc::new(Node {
            name: format!("node-{number}").into(),
            uid: format!("{number}").into(),
            ..Node::default()
        })
    };
    let nodes: Vec<_> = (0..998).map(node).collect();
    let request = LookupRequest {
        existence: true,
        shutdown: true,
        metadata: MetadataLevel::Full,
        fresh: true,
    };
    let found = provider.instances().unwrap().lookup(&nodes, request).await;
    assert!(
        found
            .iter()
            .all(|state| matches!(state, Ok(InstanceState::Present { .. })))
    );
    assert_eq!(
        harness.fake.counts(),
        [("GET /droplets".to_owned(), 5)].into()
    );
}
