//! What is left of Services that are gone.

use cloud_provider::{Cluster, LoadBalancers};

use super::super::OwnerTags;
use super::small::{Town, with_targets};

#[tokio::test(start_paused = true)]
async fn what_is_marked_for_a_dead_service_of_this_cluster_is_told_from_what_was_read_anyhow() {
    let town = Town::default();
    let service = town.service("s1", with_targets(&["a"]));
    let of_another_cluster = OwnerTags { cluster: Some("c2".into()), ..town.owner_tags("s2") };
    let of_no_service = OwnerTags { service: None, ..town.owner_tags("s2") };
    for (name, owner_tags) in
        [("left", town.owner_tags("dead")), ("theirs", of_another_cluster), ("odd", of_no_service)]
    {
        town.cloud.add(name, owner_tags, None, with_targets(&[]));
    }
    town.cloud.add("by-hand", OwnerTags::default(), Some("sign-dead"), with_targets(&[]));
    let cluster = town.request(&service).cluster.clone();
    let orphans = |cluster: &Cluster| town.balancers.orphans(cluster, &|uid| uid == "s1");
    assert_eq!(orphans(&cluster), None, "nothing was read yet");
    town.balancers.ensure(town.request(&service)).await.unwrap();
    town.cloud.requests();
    assert_eq!(orphans(&cluster), Some(vec![r#"load balancer "left" (lb-1)"#.to_owned()]));
    assert_eq!(orphans(&Cluster { id: None, ..cluster.clone() }), None, "two clusters may have one name");
    assert!(town.cloud.requests().is_empty(), "nobody is asked for it");

    town.balancers.delete(town.request(&service)).await.unwrap();
    assert_eq!(town.balancers.orphans(&cluster, &|_| false).unwrap().len(), 1, "what was deleted is no orphan");
}
