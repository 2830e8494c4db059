//! Moves of a Service to another load balancer than the one that it has.

use cloud_provider::names::ANNOTATION_SUPERSEDED;
use cloud_provider::{
    Error, Goal, LoadBalancerRequest, LoadBalancerStatus, LoadBalancers, Plan, Result, Service,
    SyncCallbacks, async_trait,
};
use parking_lot::Mutex;

use super::super::{Attributes, Auxiliary, OwnerTags, ResourceGraph, ResourceKey};
use super::small::{Small, Town, with_targets};

/// The status that is published during a sync, with the number of load balancers at that time.
struct Board {
    cloud: Small,
    shown: Mutex<Vec<(String, usize)>>,
    refuses: bool,
}

#[async_trait]
impl SyncCallbacks for Board {
    fn on_plan(&self, _plan: &Plan) {}

    async fn publish(&self, status: &LoadBalancerStatus) -> Result<()> {
        if self.refuses {
            return Err(Error::other("the API server is away"));
        }
        let address = status
            .ingress
            .as_ref()
            .and_then(|ingress| ingress[0].ip.clone())
            .unwrap();
        self.shown
            .lock()
            .push((address, self.cloud.state().balancers.len()));
        Ok(())
    }
}

fn board(town: &Town) -> Board {
    Board {
        cloud: town.cloud.clone(),
        shown: Mutex::default(),
        refuses: false,
    }
}

async fn ensure(town: &Town, service: &Service, board: &Board) -> Result<()> {
    town.change(service);
    let request = LoadBalancerRequest {
        callbacks: board,
        ..town.request(service)
    };
    town.balancers.ensure(request).await.map(drop)
}

fn asks_for(service: &mut Service, id: &str) {
    service
        .metadata
        .annotations
        .get_or_insert_default()
        .insert("id".to_owned(), id.to_owned());
}

fn shows(service: &mut Service, address: &str) {
    let status = serde_json::json!({"loadBalancer": {"ingress": [{"ip": address}]}});
    service.status = Some(serde_json::from_value(status).unwrap());
}

/// Returns a Service with a load balancer, `lb-1`, that now requests `lb-2`, which has no owner.
async fn moving() -> (Town, Service) {
    let town = Town::default();
    town.cloud.state().adopts = true;
    let mut service = town.service("s1", with_targets(&["a"]));
    town.balancers.ensure(town.request(&service)).await.unwrap();
    shows(&mut service, "192.0.2.1");
    let id = town
        .cloud
        .add("as1", OwnerTags::default(), None, with_targets(&["a"]));
    asks_for(&mut service, &id);
    town.cloud.requests();
    (town, service)
}

fn ids(town: &Town) -> Vec<String> {
    town.cloud.state().balancers.keys().cloned().collect()
}

#[tokio::test(start_paused = true)]
async fn service_moves_when_the_new_load_balancer_works_and_is_published() {
    let (town, service) = moving().await;
    let plan = town
        .balancers
        .plan(town.request(&service), Goal::Ensured)
        .await
        .unwrap();
    let steps: Vec<_> = plan.steps.iter().map(ToString::to_string).collect();
    assert!(
        steps[0].contains("our owner tags are added") && steps.last().unwrap().contains("delete"),
        "{steps:?}"
    );
    let board = board(&town);
    ensure(&town, &service, &board).await.unwrap();
    assert_eq!(
        *board.shown.lock(),
        [("192.0.2.2".to_owned(), 2)],
        "shown while both are there"
    );
    assert_eq!(ids(&town), ["lb-2"]);
    assert_eq!(town.cloud.one("lb-2").owner_tags, town.owner_tags("s1"));
    assert_eq!(
        town.cloud.state().moved,
        [("s1".to_owned(), "lb-1".to_owned(), "lb-2".to_owned())]
    );
    town.cloud.requests();
    town.balancers.ensure(town.request(&service)).await.unwrap();
    assert_eq!(town.cloud.requests(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn old_load_balancer_stays_until_the_new_address_is_published() {
    let (town, service) = moving().await;
    let away = Board {
        refuses: true,
        ..board(&town)
    };
    assert!(ensure(&town, &service, &away).await.is_err());
    assert_eq!(ids(&town), ["lb-1", "lb-2"]);
    ensure(&town, &service, &board(&town)).await.unwrap();
    assert_eq!(ids(&town), ["lb-2"]);
}

#[tokio::test(start_paused = true)]
async fn interrupted_move_is_finished_after_a_restart() {
    let (mut town, service) = moving().await;
    ensure(
        &town,
        &service,
        &Board {
            refuses: true,
            ..board(&town)
        },
    )
    .await
    .unwrap_err();
    town.restart();
    ensure(&town, &service, &board(&town)).await.unwrap();
    assert_eq!(ids(&town), ["lb-2"]);
    let (mut town, mut service) = moving().await;
    ensure(
        &town,
        &service,
        &Board {
            refuses: true,
            ..board(&town)
        },
    )
    .await
    .unwrap_err();
    town.restart();
    service.metadata.deletion_timestamp =
        Some(serde_json::from_value(serde_json::json!("2026-01-01T00:00:00Z")).unwrap());
    town.balancers.delete(town.request(&service)).await.unwrap();
    assert_eq!(ids(&town), [""; 0], "both are its own by then");
}

#[tokio::test(start_paused = true)]
async fn refused_move_keeps_the_old_load_balancer_up_to_date() {
    let (town, service) = moving().await;
    town.service("s2", with_targets(&["a"]));
    town.cloud
        .state()
        .balancers
        .get_mut("lb-2")
        .unwrap()
        .owner_tags = town.owner_tags("s2");
    town.want("s1", with_targets(&["b"]));
    let err = ensure(&town, &service, &board(&town)).await.unwrap_err();
    assert!(
        err.is_invalid() && err.to_string().contains("belongs to Service default/s2"),
        "{err}"
    );
    let targets = |id: &str| {
        town.cloud
            .one(id)
            .graph
            .unwrap()
            .targets_of("main")
            .to_string()
    };
    assert_eq!(
        (targets("lb-1"), targets("lb-2")),
        ("b".to_owned(), "a".to_owned())
    );
    town.want("s1", with_targets(&["c"]));
    town.balancers
        .update_targets(town.request(&service))
        .await
        .unwrap();
    assert_eq!(
        (targets("lb-1"), targets("lb-2")),
        ("c".to_owned(), "a".to_owned())
    );
}

#[tokio::test(start_paused = true)]
async fn twin_of_another_cluster_is_not_an_own_load_balancer() {
    for is_shown in [false, true] {
        let town = Town::default();
        town.cloud.state().adopts = true;
        let mut service = town.service("s1", with_targets(&["a"]));
        // The Go cloud controller manager created it, for this Service or for one of the same name elsewhere.
        town.cloud.add(
            "twin",
            OwnerTags::default(),
            Some("legacy-s1"),
            with_targets(&["a"]),
        );
        let id = town
            .cloud
            .add("as1", OwnerTags::default(), None, with_targets(&["a"]));
        asks_for(&mut service, &id);
        if is_shown {
            shows(&mut service, "192.0.2.1");
        }
        ensure(&town, &service, &board(&town)).await.unwrap();
        let left = if is_shown {
            vec!["lb-2"]
        } else {
            vec!["lb-1", "lb-2"]
        };
        assert_eq!(ids(&town), left);
        if is_shown {
            assert_eq!(
                town.cloud
                    .requests()
                    .iter()
                    .filter(|request| *request == "Tag")
                    .count(),
                2,
                "tagged before it is deleted"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn resources_of_the_service_outlive_the_old_load_balancer() {
    let town = Town::default();
    town.cloud.state().adopts = true;
    let group = ResourceKey::CreatedBefore(Auxiliary {
        rank: 0,
        kind: "group".into(),
        name: "g".into(),
    });
    let graph = |targets: &[&str]| -> ResourceGraph {
        with_targets(targets).resource(group.clone(), Attributes::default())
    };
    let mut service = town.service("s1", graph(&["a"]));
    town.balancers.ensure(town.request(&service)).await.unwrap();
    shows(&mut service, "192.0.2.1");
    let id = town
        .cloud
        .add("as1", OwnerTags::default(), None, graph(&["a"]));
    asks_for(&mut service, &id);
    let removed = removed_operations(&town, &service).await;
    assert!(
        removed.iter().any(|text| text.contains("load balancer"))
            && !removed.iter().any(|text| text.contains("group"))
    );
    assert_eq!(ids(&town), ["lb-2"]);
    assert!(
        town.cloud
            .one("lb-2")
            .graph
            .unwrap()
            .resources
            .contains_key(&group)
    );
}

/// Moves the Service and returns the deleted resources, as the operations name them.
async fn removed_operations(town: &Town, service: &Service) -> Vec<String> {
    ensure(town, service, &board(town)).await.unwrap();
    std::mem::take(&mut town.cloud.state().deleted)
}

#[tokio::test(start_paused = true)]
async fn missing_requested_load_balancer_keeps_the_old_one() {
    let (town, mut service) = moving().await;
    asks_for(&mut service, "lb-9");
    ensure(&town, &service, &board(&town)).await.unwrap();
    assert_eq!(ids(&town), ["lb-1", "lb-2"]);
    assert_eq!(town.cloud.one("lb-2").owner_tags, OwnerTags::default());
}

/// Returns a Service with a load balancer, `lb-1`, that now requests one of another kind.
async fn changing_kind() -> (Town, Service) {
    let town = Town::default();
    let mut service = town.service("s1", with_targets(&["a"]));
    town.balancers.ensure(town.request(&service)).await.unwrap();
    shows(&mut service, "192.0.2.1");
    service
        .metadata
        .annotations
        .get_or_insert_default()
        .insert("network".to_owned(), String::new());
    town.cloud.requests();
    (town, service)
}

#[tokio::test(start_paused = true)]
async fn service_that_asks_for_another_kind_moves_to_a_new_load_balancer() {
    let (town, service) = changing_kind().await;
    let plan = town
        .balancers
        .plan(town.request(&service), Goal::Ensured)
        .await
        .unwrap();
    let steps: Vec<_> = plan.steps.iter().map(ToString::to_string).collect();
    assert!(
        steps[0].contains("create") && steps.last().unwrap().contains("delete"),
        "{steps:?}"
    );
    let board = board(&town);
    ensure(&town, &service, &board).await.unwrap();
    assert_eq!(
        *board.shown.lock(),
        [("192.0.2.2".to_owned(), 2)],
        "shown while both are there"
    );
    assert_eq!(
        (ids(&town), town.cloud.one("lb-2").kind),
        (vec!["lb-2".to_owned()], "network")
    );
    town.cloud.requests();
    town.balancers.ensure(town.request(&service)).await.unwrap();
    assert_eq!(town.cloud.requests(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn change_of_kind_that_the_user_takes_back_meanwhile_keeps_the_old_load_balancer() {
    let (town, service) = changing_kind().await;
    let mut back = service.clone();
    back.metadata
        .annotations
        .as_mut()
        .unwrap()
        .remove("network");
    town.change(&back);
    let board = board(&town);
    let request = LoadBalancerRequest {
        callbacks: &board,
        ..town.request(&service)
    };
    town.balancers.ensure(request).await.unwrap_err();
    assert_eq!(
        (ids(&town), board.shown.lock().len()),
        (vec!["lb-1".to_owned(), "lb-2".to_owned()], 0)
    );
    back.metadata
        .annotations
        .get_or_insert_default()
        .insert(ANNOTATION_SUPERSEDED.to_owned(), "lb-2".to_owned());
    ensure(&town, &back, &board).await.unwrap();
    assert_eq!(ids(&town), ["lb-1"]);
}

#[tokio::test(start_paused = true)]
async fn change_of_kind_that_ends_in_between_is_finished_after_a_start() {
    let (mut town, service) = changing_kind().await;
    ensure(
        &town,
        &service,
        &Board {
            refuses: true,
            ..board(&town)
        },
    )
    .await
    .unwrap_err();
    assert_eq!(ids(&town), ["lb-1", "lb-2"]);
    town.restart();
    ensure(&town, &service, &board(&town)).await.unwrap();
    assert_eq!(ids(&town), ["lb-2"]);
}

#[tokio::test(start_paused = true)]
async fn load_balancer_serves_on_while_one_of_another_kind_cannot_be_created() {
    let (town, service) = changing_kind().await;
    town.cloud.state().has_no_time = (9, false);
    town.want("s1", with_targets(&["b"]));
    ensure(&town, &service, &board(&town)).await.unwrap_err();
    assert_eq!(
        town.cloud
            .one("lb-1")
            .graph
            .unwrap()
            .targets_of("main")
            .to_string(),
        "b"
    );
    assert_eq!(ids(&town), ["lb-1"]);
}

#[tokio::test(start_paused = true)]
async fn load_balancer_of_the_legacy_tag_alone_is_replaced_by_one_of_another_kind() {
    let town = Town::default();
    let mut service = town.service("s1", with_targets(&["a"]));
    town.cloud.add(
        "as1",
        OwnerTags::default(),
        Some("legacy-s1"),
        with_targets(&["a"]),
    );
    service
        .metadata
        .annotations
        .get_or_insert_default()
        .insert("network".to_owned(), String::new());
    ensure(&town, &service, &board(&town)).await.unwrap();
    assert_eq!(
        (ids(&town), town.cloud.one("lb-2").kind),
        (vec!["lb-2".to_owned()], "network")
    );
}
