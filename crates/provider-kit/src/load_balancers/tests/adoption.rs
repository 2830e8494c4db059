//! Adoption by name of load balancers that other tools created, or that deleted Services left.
//!
//! Rules: D-183.

use cloud_provider::{Goal, LoadBalancers, Service};

use super::super::{MAX_AGE, OwnerTags};
use super::small::{Town, with_targets};

/// Returns a town in which load balancers are adopted by their name.
fn adopting() -> Town {
    let town = Town::default();
    town.cloud.state().adopts = true;
    town
}

/// Returns a Service whose annotation names its load balancer `web`.
fn wants_web(town: &Town, uid: &str) -> Service {
    let mut service = town.service(uid, with_targets(&["a"]));
    service.metadata.annotations = Some([("name".to_owned(), "web".to_owned())].into());
    service
}

#[tokio::test(start_paused = true)]
async fn adopted_load_balancer_is_tagged_even_without_another_change() {
    for legacy_owner in [None, Some("legacy-of-a-service-elsewhere")] {
        let town = adopting();
        let service = wants_web(&town, "s1");
        let id = town.cloud.add(
            "web",
            OwnerTags::default(),
            legacy_owner,
            with_targets(&["a"]),
        );
        let plan = town
            .balancers
            .plan(town.request(&service), Goal::Ensured)
            .await
            .unwrap();
        assert_eq!(
            plan.steps[0].to_string(),
            "update load balancer \"web\": our owner tags are added"
        );
        town.cloud.requests();
        let status = town
            .balancers
            .ensure(town.request(&service))
            .await
            .unwrap()
            .unwrap();
        assert_eq!(
            status.ingress.unwrap()[0].ip.as_deref(),
            Some("192.0.2.1"),
            "it keeps its address"
        );
        assert_eq!(
            town.cloud.requests(),
            ["find", "Tag"],
            "read for certain, then tagged"
        );
        let adopted = town.cloud.one(&id);
        assert_eq!(
            (adopted.owner_tags, adopted.legacy_owner.as_deref()),
            (town.owner_tags("s1"), Some("legacy-s1"))
        );
        town.balancers.ensure(town.request(&service)).await.unwrap();
        assert!(town.cloud.requests().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn owner_tags_are_written_before_every_other_change() {
    let town = adopting();
    let service = wants_web(&town, "s1");
    town.cloud
        .add("web", OwnerTags::default(), None, with_targets(&["b"]));
    town.balancers
        .update_targets(town.request(&service))
        .await
        .unwrap();
    assert!(
        !town.cloud.requests().iter().any(|request| request == "Tag"),
        "a sync of targets adopts nothing"
    );
    town.balancers.ensure(town.request(&service)).await.unwrap();
    let requests = town.cloud.requests();
    let changes: Vec<_> = requests
        .iter()
        .filter(|request| !["find", "read", "list", "machine"].contains(&request.as_str()))
        .collect();
    assert_eq!(changes, ["Tag", "AddTargets", "RemoveTargets"]);
}

#[tokio::test(start_paused = true)]
async fn load_balancer_created_since_the_list_is_adopted_after_a_conflict() {
    let town = adopting();
    let service = wants_web(&town, "s1");
    let other = town.service("s2", with_targets(&[]));
    town.balancers.ensure(town.request(&other)).await.unwrap();
    let id = town
        .cloud
        .add("web", OwnerTags::default(), None, with_targets(&["a"]));
    town.cloud.requests();
    town.balancers.ensure(town.request(&service)).await.unwrap();
    assert_eq!(town.cloud.requests(), ["create", "find", "Tag"]);
    assert_eq!(town.cloud.one(&id).owner_tags, town.owner_tags("s1"));
}

#[tokio::test(start_paused = true)]
async fn load_balancer_is_not_deleted_before_it_is_tagged() {
    let town = adopting();
    let service = wants_web(&town, "s1");
    let id = town.cloud.add(
        "web",
        OwnerTags::default(),
        Some("legacy-dead"),
        with_targets(&["a"]),
    );
    assert!(
        town.balancers
            .get(town.request(&service))
            .await
            .unwrap()
            .is_none(),
        "nothing of it is ours"
    );
    town.balancers.delete(town.request(&service)).await.unwrap();
    let plan = town
        .balancers
        .plan(town.request(&service), Goal::Deleted)
        .await
        .unwrap();
    assert!(plan.is_empty() && town.cloud.state().balancers.contains_key(&id));
    town.balancers.ensure(town.request(&service)).await.unwrap();
    town.balancers.delete(town.request(&service)).await.unwrap();
    assert!(town.cloud.state().balancers.is_empty());
}

#[tokio::test(start_paused = true)]
async fn legacy_owner_tag_of_another_service_is_respected() {
    let town = adopting();
    let service = wants_web(&town, "s1");
    town.service("s2", with_targets(&["a"]));
    let id = town.cloud.add(
        "web",
        OwnerTags::default(),
        Some("legacy-s2"),
        with_targets(&["a"]),
    );
    let err = town
        .balancers
        .ensure(town.request(&service))
        .await
        .unwrap_err();
    assert!(
        err.is_invalid() && err.to_string().contains("belongs to Service default/s2"),
        "{err}"
    );
    assert_eq!(town.cloud.one(&id).owner_tags, OwnerTags::default());
    // The other Service is deleted.
    town.cached
        .services
        .lock()
        .retain(|service| service.metadata.uid.as_deref() != Some("s2"));
    town.balancers.ensure(town.request(&service)).await.unwrap();
    assert_eq!(town.cloud.one(&id).owner_tags, town.owner_tags("s1"));
}

#[tokio::test(start_paused = true)]
async fn adoption_needs_the_cache_of_services() {
    let town = adopting();
    let service = wants_web(&town, "s1");
    town.cached.services.lock().clear();
    town.cloud.add(
        "web",
        OwnerTags::default(),
        Some("legacy-dead"),
        with_targets(&["a"]),
    );
    assert!(
        town.balancers
            .ensure(town.request(&service))
            .await
            .unwrap_err()
            .is_invalid()
    );
}

#[tokio::test(start_paused = true)]
async fn only_one_of_two_services_adopts_a_load_balancer() {
    for restarts in [false, true] {
        let mut town = adopting();
        let one = wants_web(&town, "s1");
        let two = wants_web(&town, "s2");
        let id = town
            .cloud
            .add("web", OwnerTags::default(), None, with_targets(&["a"]));
        let (first, second) = tokio::join!(
            town.balancers.ensure(town.request(&one)),
            town.balancers.ensure(town.request(&two))
        );
        assert_eq!(
            [&first, &second]
                .iter()
                .filter(|entry| entry.is_ok())
                .count(),
            1
        );
        let (winner, loser) = if first.is_ok() {
            (&one, &two)
        } else {
            (&two, &one)
        };
        assert_eq!(
            town.cloud
                .requests()
                .iter()
                .filter(|request| *request == "Tag")
                .count(),
            1,
            "no Service overwrites the other's tags"
        );
        if restarts {
            town.restart();
        }
        for waits in [MAX_AGE / 2, MAX_AGE * 2] {
            tokio::time::sleep(waits).await;
            town.balancers.ensure(town.request(winner)).await.unwrap();
            let err = town
                .balancers
                .ensure(town.request(loser))
                .await
                .unwrap_err();
            assert!(
                err.is_invalid() && err.to_string().contains("of this cluster"),
                "{err}"
            );
            assert_eq!(town.cloud.one(&id).owner_tags.service, winner.metadata.uid);
        }
        // The Service that has the load balancer is deleted without deleting it, as if it were protected.
        let gone = winner.metadata.uid.clone();
        town.cached
            .services
            .lock()
            .retain(|service| service.metadata.uid != gone);
        town.balancers.ensure(town.request(loser)).await.unwrap();
        let taken = town.cloud.one(&id);
        assert_eq!(
            (taken.owner_tags.service, taken.legacy_owner),
            (
                loser.metadata.uid.clone(),
                Some(format!("legacy-{}", loser.metadata.uid.clone().unwrap()))
            )
        );
    }
}

#[tokio::test(start_paused = true)]
async fn wrong_legacy_owner_tag_is_rewritten_with_the_next_change() {
    let town = Town::default();
    let service = wants_web(&town, "s1");
    let id = town.cloud.add(
        "web",
        town.owner_tags("s1"),
        Some("legacy-dead"),
        with_targets(&["a"]),
    );
    town.balancers.ensure(town.request(&service)).await.unwrap();
    assert_eq!(town.cloud.requests(), ["list"], "owned by its owner tags");
    town.want("s1", with_targets(&["b"]));
    town.balancers.ensure(town.request(&service)).await.unwrap();
    assert_eq!(town.cloud.requests()[0], "Tag");
    assert_eq!(
        town.cloud.one(&id).legacy_owner.as_deref(),
        Some("legacy-s1")
    );
}

#[tokio::test(start_paused = true)]
async fn removed_legacy_owner_tag_is_written_again_at_once() {
    let town = Town::default();
    let service = wants_web(&town, "s1");
    let id = town
        .cloud
        .add("web", town.owner_tags("s1"), None, with_targets(&["a"]));
    town.balancers.ensure(town.request(&service)).await.unwrap();
    assert_eq!(town.cloud.requests(), ["list", "Tag"]);
    assert_eq!(
        town.cloud.one(&id).legacy_owner.as_deref(),
        Some("legacy-s1")
    );
}

#[tokio::test(start_paused = true)]
async fn two_load_balancers_with_one_legacy_owner_tag_are_left_alone() {
    let town = Town::default();
    let service = wants_web(&town, "s1");
    for name in ["web", "copy"] {
        town.cloud.add(
            name,
            OwnerTags::default(),
            Some("legacy-s1"),
            with_targets(&["b"]),
        );
    }
    let err = town
        .balancers
        .ensure(town.request(&service))
        .await
        .unwrap_err();
    assert!(
        err.is_invalid() && err.to_string().contains("both carry the legacy owner tag"),
        "{err}"
    );
    assert!(
        town.balancers
            .delete(town.request(&service))
            .await
            .unwrap_err()
            .is_invalid()
    );
    let writes = town
        .cloud
        .requests()
        .into_iter()
        .filter(|request| !["list", "find", "read"].contains(&&**request))
        .count();
    assert_eq!((writes, town.cloud.state().balancers.len()), (0, 2));
}

#[tokio::test(start_paused = true)]
async fn adopted_load_balancer_is_released_and_not_deleted() {
    let town = adopting();
    let service = wants_web(&town, "s1");
    let id = town.cloud.add(
        "web",
        town.owner_tags("s1"),
        Some("legacy-s1"),
        with_targets(&["a"]),
    );
    town.cloud.state().balancers.get_mut(&id).unwrap().adopted = true;
    let plan = town
        .balancers
        .plan(town.request(&service), Goal::Deleted)
        .await
        .unwrap();
    assert_eq!(
        plan.steps
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>(),
        ["update load balancer \"web\": our owner tags are removed"]
    );
    town.balancers.delete(town.request(&service)).await.unwrap();
    let left = town.cloud.one(&id);
    assert_eq!(
        (left.owner_tags, left.graph),
        (OwnerTags::default(), Some(with_targets(&["a"])))
    );
}

/// Returns a town in which an annotation is the legacy owner tag, and a load balancer made by hand whose ID a Service names.
fn stated_by_an_author(town: &Town, name: &str, shows: bool) -> (Service, String) {
    town.cloud.state().states_legacy_owner = true;
    let id = town.cloud.add(
        name,
        OwnerTags::default(),
        Some("legacy-s1"),
        with_targets(&["a"]),
    );
    let mut service = wants_web(town, "s1");
    service
        .metadata
        .annotations
        .get_or_insert_default()
        .insert("id".to_owned(), id.clone());
    if shows {
        let status = serde_json::json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}});
        service.status = Some(serde_json::from_value(status).unwrap());
    }
    (service, id)
}

#[tokio::test(start_paused = true)]
async fn legacy_owner_tag_that_an_author_states_is_an_adoption_unless_the_status_or_the_name_proves_it()
 {
    for (name, shows, is_taken) in [
        ("theirs", false, false),
        ("theirs", true, true),
        ("as1", false, true),
    ] {
        let town = Town::default();
        let (service, id) = stated_by_an_author(&town, name, shows);
        let outcome = town.balancers.ensure(town.request(&service)).await;
        assert_eq!(outcome.is_ok(), is_taken, "{name} {shows}: {outcome:?}");
        if !is_taken {
            assert_eq!(town.cloud.one(&id).owner_tags, OwnerTags::default());
            town.balancers.delete(town.request(&service)).await.unwrap();
            assert_eq!(town.cloud.one(&id).id, id, "it is not deleted");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn load_balancer_without_the_required_tag_is_not_adopted() {
    for (label, is_adopted) in [("team", false), ("adoptable", true)] {
        let town = Town::requiring("adoptable");
        town.cloud.state().adopts = true;
        let service = wants_web(&town, "s1");
        let id = town
            .cloud
            .add("web", OwnerTags::default(), None, with_targets(&["a"]));
        town.cloud.label(&id, label);
        let outcome = town.balancers.ensure(town.request(&service)).await;
        assert_eq!(outcome.is_ok(), is_adopted, "{label}: {outcome:?}");
        if let Err(error) = outcome {
            let expected =
                "give it the tag adoptable, which --adoptable-load-balancer-tag requires";
            assert!(
                error.is_invalid() && error.to_string().contains(expected),
                "{error}"
            );
        }
    }
}
