//! Failed shared load balancers: no Service can leave one, so it is deleted with the last Service.
//!
//! Rules: D-211.

use std::sync::Arc;

use cloud_provider::{LoadBalancers, Service};
use serde_json::json;

use super::super::{Auxiliary, OwnerTags, ResourceKey, State};
use super::small::{Town, with_targets};

/// Returns a Service `s1` with a load balancer that failed and that `s2` shares.
async fn shared() -> (Town, Service) {
    let town = Town::default();
    let service = town.service("s1", with_targets(&["a"]));
    town.service("s2", with_targets(&["a"]));
    town.balancers.ensure(town.request(&service)).await.unwrap();
    let user = ResourceKey::CreatedBefore(Auxiliary {
        rank: 0,
        kind: "user".into(),
        name: "s2".into(),
    });
    let sharers = Some(vec![town.owner_tags("s2")]);
    let mut state = town.cloud.state();
    let shared = state.balancers.get_mut("lb-1").unwrap();
    shared.foreign.insert(user, "used by s2".to_owned());
    (shared.state, shared.sharers) = (State::Failed("broken".to_owned()), sharers);
    drop(state);
    (town, leaving(&service))
}

fn leaving(service: &Service) -> Service {
    let mut service = service.clone();
    service.metadata.deletion_timestamp =
        Some(serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap());
    service
}

/// Changes or removes `s2` in the cluster's cache.
fn let_other(town: &Town, change: impl Fn(&Service) -> Option<Service>) {
    let mut services = town.cached.services.lock();
    *services = services
        .iter()
        .filter_map(|service| {
            if service.metadata.uid.as_deref() == Some("s2") {
                change(service).map(Arc::new)
            } else {
                Some(Arc::clone(service))
            }
        })
        .collect();
}

async fn is_removed(mut town: Town, service: &Service) -> bool {
    town.restart();
    let _ = town.balancers.delete(town.request(service)).await;
    town.cloud.state().balancers.is_empty()
}

#[tokio::test(start_paused = true)]
async fn failed_shared_load_balancer_is_deleted_when_all_its_services_leave() {
    let (town, service) = shared().await;
    assert!(!is_removed(town, &service).await, "the other one lives");
    let (town, service) = shared().await;
    let_other(&town, |let_other| Some(leaving(let_other)));
    assert!(is_removed(town, &service).await);
    let (town, service) = shared().await;
    let_other(&town, |_| None);
    assert!(is_removed(town, &service).await);
}

#[tokio::test(start_paused = true)]
async fn failed_shared_load_balancer_stays_if_a_service_may_remain() {
    type Doubt = fn(&Town);
    let doubts: [(&str, Doubt); 5] = [
        ("it works", |town| {
            town.cloud.state().balancers.get_mut("lb-1").unwrap().state = State::Ready;
        }),
        ("a sharer is not known", |town| {
            town.cloud
                .state()
                .balancers
                .get_mut("lb-1")
                .unwrap()
                .sharers = None;
        }),
        ("another cluster's", |town| {
            let owner_tags = OwnerTags {
                cluster: Some("c2".to_owned()),
                service: Some("s2".to_owned()),
            };
            town.cloud
                .state()
                .balancers
                .get_mut("lb-1")
                .unwrap()
                .sharers = Some(vec![owner_tags]);
        }),
        ("one of two lives", |town| {
            town.service("s3", with_targets(&[]));
            let owner_tags = vec![town.owner_tags("s2"), town.owner_tags("s3")];
            town.cloud
                .state()
                .balancers
                .get_mut("lb-1")
                .unwrap()
                .sharers = Some(owner_tags);
        }),
        ("a cache that knows nothing", |town| {
            town.cached.services.lock().clear();
        }),
    ];
    for (text, mark_stale) in doubts {
        let (town, service) = shared().await;
        let_other(&town, |_| None);
        mark_stale(&town);
        assert!(!is_removed(town, &service).await, "{text}");
    }
}
