//! Orphans: load balancers of Services that no longer exist.
//!
//! Rules: P-19, D-207.

use std::sync::Arc;

use cloud_provider::{Cluster, LoadBalancers, OwnedResource, Owner, RemovalOutcome, Service};

use super::super::{Attributes, ObservedLoadBalancer, OwnerTags, ResourceKey};
use super::small::{Town, with_targets};

#[tokio::test(start_paused = true)]
async fn orphans_are_reported_from_the_cache_without_a_request() {
    let town = Town::default();
    let service = town.service("s1", with_targets(&["a"]));
    let of_another_cluster = OwnerTags {
        cluster: Some("c2".into()),
        ..town.owner_tags("s2")
    };
    let of_no_service = OwnerTags {
        service: None,
        ..town.owner_tags("s2")
    };
    for (name, owner_tags) in [
        ("left", town.owner_tags("dead")),
        ("theirs", of_another_cluster),
        ("odd", of_no_service),
    ] {
        town.cloud.add(name, owner_tags, None, with_targets(&[]));
    }
    town.cloud.add(
        "by-hand",
        OwnerTags::default(),
        Some("legacy-dead"),
        with_targets(&[]),
    );
    let cluster = town.request(&service).cluster.clone();
    let orphans = |cluster: &Cluster| town.balancers.orphans(cluster, &|uid| uid == "s1");
    assert_eq!(orphans(&cluster), None, "nothing was read yet");
    town.balancers.ensure(town.request(&service)).await.unwrap();
    town.cloud.requests();
    assert_eq!(
        orphans(&cluster),
        Some(vec![r#"load balancer "left" (lb-1)"#.to_owned()])
    );
    assert_eq!(
        orphans(&Cluster {
            id: None,
            ..cluster.clone()
        }),
        None,
        "two clusters may have one name"
    );
    assert!(town.cloud.requests().is_empty(), "no request is sent");

    town.balancers.delete(town.request(&service)).await.unwrap();
    assert_eq!(
        town.balancers.orphans(&cluster, &|_| false).unwrap().len(),
        1,
        "a deleted load balancer is no orphan"
    );
}

/// Returns a town with a live Service `s1` and the orphan `left`, and the orphan as it is listed.
async fn with_an_orphan() -> (Town, OwnedResource, Vec<Arc<Service>>) {
    let town = Town::default();
    let service = town.service("s1", with_targets(&["a"]));
    town.balancers.ensure(town.request(&service)).await.unwrap();
    let graph = with_targets(&["a"]).resource(
        ResourceKey::created_after("floating IP", "f-1"),
        Attributes::default(),
    );
    town.cloud.add("left", town.owner_tags("dead"), None, graph);
    let owned = town.balancers.owned(&town.cluster).await.unwrap();
    let uids: Vec<_> = owned
        .iter()
        .map(|resource| resource.owner.clone())
        .collect();
    assert_eq!(
        uids,
        ["s1", "dead"].map(|uid| Owner::Service(uid.to_owned()))
    );
    let orphan = owned[1].clone();
    town.cloud.requests();
    (town, orphan, vec![Arc::new(service)])
}

#[tokio::test(start_paused = true)]
async fn orphan_is_read_by_its_id_and_deleted_with_its_auxiliary_resources() {
    let (town, orphan, services) = with_an_orphan().await;
    assert_eq!(orphan.auxiliaries, ["floating IP \"f-1\""]);
    let removal = town
        .balancers
        .delete_owned(&town.cluster, &orphan, &services)
        .await
        .unwrap();
    assert_eq!(
        (removal, &*town.cloud.requests()),
        (
            RemovalOutcome::Deleted,
            &["read", "delete", "read"].map(String::from)[..]
        )
    );
    assert!(
        town.cloud
            .state()
            .deleted
            .contains(&"floating IP \"f-1\"".to_owned())
    );
    let left: Vec<_> = town
        .cloud
        .state()
        .balancers
        .values()
        .map(|load_balancer| load_balancer.name.clone())
        .collect();
    assert_eq!(left, ["as1"], "the load balancer of the live Service");
    let again = town
        .balancers
        .delete_owned(&town.cluster, &orphan, &services)
        .await
        .unwrap();
    assert_eq!(again, RemovalOutcome::NotFound);
}

#[tokio::test(start_paused = true)]
async fn orphan_that_is_not_what_was_listed_is_left_alone() {
    type Change = fn(&mut ObservedLoadBalancer);
    let changes: [(Change, &str); 3] = [
        (
            |load_balancer| load_balancer.owner_tags.service = Some("s1".into()),
            "does not carry the owner tags",
        ),
        (
            |load_balancer| load_balancer.owner_tags = OwnerTags::default(),
            "does not carry the owner tags",
        ),
        (
            |load_balancer| load_balancer.legacy_owner = Some("legacy-s1".into()),
            "may be adopted by Service default/s1",
        ),
    ];
    for (change, reason) in changes {
        let (town, orphan, services) = with_an_orphan().await;
        change(town.cloud.state().balancers.get_mut(&orphan.id).unwrap());
        let error = town
            .balancers
            .delete_owned(&town.cluster, &orphan, &services)
            .await
            .unwrap_err();
        assert!(
            error.is_invalid() && error.to_string().contains(reason),
            "{error}"
        );
        assert_eq!(town.cloud.requests(), ["read"], "nothing is changed");
    }
}

#[tokio::test(start_paused = true)]
async fn orphan_of_another_cluster_or_of_no_service_is_never_deleted() {
    let (town, orphan, services) = with_an_orphan().await;
    let clusters = [Some("c2"), None].map(|id| Cluster {
        id: id.map(str::to_owned),
        ..town.cluster.clone()
    });
    for cluster in &clusters {
        assert!(
            town.balancers
                .delete_owned(cluster, &orphan, &services)
                .await
                .unwrap_err()
                .is_invalid(),
            "{cluster:?}"
        );
    }
    let unnamed = OwnedResource {
        owner: Owner::Unnamed,
        ..orphan
    };
    assert!(
        town.balancers
            .delete_owned(&town.cluster, &unnamed, &services)
            .await
            .unwrap_err()
            .is_invalid()
    );
    assert_eq!(town.cloud.requests(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn service_that_asks_for_an_orphan_by_name_or_id_is_its_heir() {
    let (town, orphan, _) = with_an_orphan().await;
    for (key, value) in [("name", "left"), ("id", &*orphan.id)] {
        let mut adopting_service = town.service("s2", with_targets(&[]));
        adopting_service.metadata.annotations = Some([(key.to_owned(), value.to_owned())].into());
        let adopting_service = [Arc::new(adopting_service)];
        let read = town
            .balancers
            .read_owned(&town.cluster, &orphan.id, &adopting_service)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(
            read.adopting_service.as_deref(),
            Some("default/s2"),
            "by {key}"
        );
        assert!(
            town.balancers
                .delete_owned(&town.cluster, &orphan, &adopting_service)
                .await
                .unwrap_err()
                .is_invalid()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn protected_orphan_is_an_error_and_adopted_orphan_is_released() {
    let (town, orphan, services) = with_an_orphan().await;
    town.cloud.state().protected.insert(orphan.id.clone());
    let error = town
        .balancers
        .delete_owned(&town.cluster, &orphan, &services)
        .await
        .unwrap_err();
    assert!(
        error.is_protected() && error.to_string().contains("lift the protection"),
        "{error}"
    );
    town.cloud
        .state()
        .balancers
        .get_mut(&orphan.id)
        .unwrap()
        .adopted = true;
    let removal = town
        .balancers
        .delete_owned(&town.cluster, &orphan, &services)
        .await
        .unwrap();
    assert_eq!(
        (removal, town.cloud.one(&orphan.id).owner_tags),
        (RemovalOutcome::Released, OwnerTags::default())
    );
}
