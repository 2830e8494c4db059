//! Suite: an item of the queue `service`, processed by the production worker.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use cloud_provider::scripted::{BalancerAction, ScriptedProvider};
use cloud_provider::{LoadBalancerIngress, Service};
use controllers::ServiceController;
use parking_lot::Mutex;
use runtime::cache::Cached;
use runtime::limiter::RateLimiter;
use runtime::queue::{NoMetrics, Queue};
use runtime::workers::run_workers;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::cases::api::ApiRequest;
use crate::cases::comparison::{Comparison, Expected};
use crate::cases::schema::{ApiError, Event, nodes, read, service};
use crate::cases::script::{ProviderError, ProviderScript};
use crate::cases::services::ServiceWorld;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    service: Option<Value>,
    in_store: Option<bool>,
    key: Option<String>,
    cached: Option<Value>,
    nodes: Option<Vec<Value>>,
    node_list_error: Option<ProviderError>,
    prior_failures: Option<u32>,
    provider: Option<ProviderScript>,
    api: Option<Faults>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Faults {
    finalizer_patch_error: Option<ApiError>,
    status_patch_error: Option<ApiError>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    #[serde(default)]
    requeue: Expected<Requeue>,
    #[serde(default)]
    failure_count_after: Expected<u32>,
    #[serde(default)]
    provider_calls: Expected<Vec<String>>,
    #[serde(default)]
    ensure_hosts: Expected<Vec<Vec<String>>>,
    #[serde(default)]
    events: Expected<Vec<Event>>,
    /// The Service; null if the API has none.
    #[serde(default)]
    finalizers: Expected<Option<Vec<String>>>,
    #[serde(default)]
    ingress: Expected<Option<Vec<LoadBalancerIngress>>>,
    #[serde(default)]
    cached_uid: Expected<Option<String>>,
    #[serde(default)]
    last_synced_nodes: Expected<Option<Vec<String>>>,
    #[serde(default)]
    patches: Expected<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Requeue {
    None,
    Backoff,
    #[serde(untagged)]
    After {
        after_ms: u64,
    },
}

pub(super) async fn run(given: Value, expect: Value) -> Result<Comparison> {
    let given: Given = read("given", &given)?;
    let expect: Expect = read("expect", &expect)?;
    let listed = nodes("given.nodes", &given.nodes.unwrap_or_default())?;
    let world = ServiceWorld::new(
        given.provider.unwrap_or_default().provider(),
        given.node_list_error.is_none().then_some(listed),
    );
    let mut key = given.key;
    if let Some(form) = given.service {
        let seeded = service("given.service", &world.api.seed_service(form))?;
        key = Some(seeded.key().into_owned());
        if given.in_store.unwrap_or(true) {
            world.services.insert(seeded);
        }
    }
    let controller = Arc::new(world.controller()?);
    if let Some(form) = given.cached {
        let cached = service("given.cached", &form)?;
        key = Some(cached.key().into_owned());
        controller.remember(Arc::new(cached), None);
    }
    let faults = given.api.unwrap_or_default();
    if let Some(error) = faults.finalizer_patch_error {
        world
            .api
            .refuse(ApiRequest::changes_finalizers, error.kind, None);
    }
    if let Some(error) = faults.status_patch_error {
        world
            .api
            .refuse(ApiRequest::changes_status, error.kind, None);
    }
    let Some(key) = key else {
        anyhow::bail!("given.key: is missing")
    };

    let (requeue, failures) =
        work_once(&controller, &key, given.prior_failures.unwrap_or_default()).await?;

    let mut comparison = Comparison::default();
    comparison.key("requeue", &expect.requeue, &requeue);
    comparison.key(
        "failure_count_after",
        &expect.failure_count_after,
        &failures,
    );
    comparison.key(
        "provider_calls",
        &expect.provider_calls,
        &world.cloud.calls(),
    );
    comparison.key(
        "ensure_hosts",
        &expect.ensure_hosts,
        &ensure_hosts(&world.cloud),
    );
    let (about, events): (Vec<String>, Vec<Event>) = world.take_events().into_iter().unzip();
    comparison.events(&expect.events, &events);
    comparison.forbid(
        about
            .into_iter()
            .filter(|other| *other != key)
            .map(|other| format!("an event about {other}")),
    );
    let now = world
        .api
        .service(&key)
        .map(|object| service("the API's service", &object))
        .transpose()?;
    let finalizers = now
        .as_ref()
        .map(|service| service.metadata.finalizers.clone().unwrap_or_default());
    comparison.key("finalizers", &expect.finalizers, &finalizers);
    comparison.key("ingress", &expect.ingress, &now.map(ingress));
    let uid = controller
        .remembered(&key)
        .and_then(|service| service.metadata.uid.clone());
    comparison.key("cached_uid", &expect.cached_uid, &uid);
    let targets = controller.remembered_targets(&key);
    let targets = targets.map(|members| members.names().map(str::to_owned).collect());
    comparison.key("last_synced_nodes", &expect.last_synced_nodes, &targets);
    let patches = world
        .api
        .requests()
        .iter()
        .filter(|request| request.is_patch())
        .count();
    comparison.key("patches", &expect.patches, &patches);
    world.forbid_surprises(&mut comparison);
    Ok(comparison)
}

/// Processes the key once, after `prior` failures; returns its requeueing and its failures after that.
async fn work_once(
    controller: &Arc<ServiceController>,
    key: &str,
    prior: u32,
) -> Result<(Requeue, u32)> {
    let limiter = RateLimiter::exponential(Duration::from_secs(5), Duration::from_secs(300));
    let queue: Queue<String> = Queue::new("service", limiter, Arc::new(NoMetrics));
    for _ in 0..prior {
        queue.add_rate_limited(key.to_owned());
        ensure!(
            queue.next().await.as_deref() == Some(key),
            "the queue hands out another key"
        );
        queue.done(&key.to_owned());
    }
    queue.add(key.to_owned());
    let stop = CancellationToken::new();
    let worked: Arc<Mutex<Vec<(Instant, u32)>>> = Arc::default();
    let note = |worked: &Mutex<Vec<_>>, failures| {
        worked.lock().push((Instant::now(), failures));
    };
    let worker = {
        let controller = controller.clone();
        let queue = queue.clone();
        let stop = stop.clone();
        let worked = worked.clone();
        move |claim: runtime::claim::Claim<String>| {
            let controller = controller.clone();
            let queue = queue.clone();
            let stop = stop.clone();
            let worked = worked.clone();
            async move {
                if worked.lock().is_empty() {
                    let key = claim.key().clone();
                    controller.work(claim).await;
                    note(&worked, queue.retries(&key));
                } else {
                    // The key was requeued, which is all that the case compares.
                    note(&worked, 0);
                    claim.succeed();
                    stop.cancel();
                }
            }
        }
    };
    // Longer than any back-off.
    let patience = tokio::time::sleep(Duration::from_secs(600));
    tokio::select! {
        () = run_workers(&queue, 1, stop, worker) => {}
        () = patience => {}
    }
    let worked = worked.lock().clone();
    let Some((ended, failures)) = worked.first().copied() else {
        anyhow::bail!("the key was not worked on")
    };
    let requeue = match worked.get(1).map(|(again, _)| *again - ended) {
        None => Requeue::None,
        Some(_) if failures > prior => Requeue::Backoff,
        Some(pause) => Requeue::After {
            after_ms: u64::try_from(pause.as_millis())?,
        },
    };
    Ok((requeue, failures))
}

fn ensure_hosts(cloud: &ScriptedProvider) -> Vec<Vec<String>> {
    let calls = cloud.balancer_calls();
    let ensures = calls
        .iter()
        .filter(|call| call.action == BalancerAction::Ensure);
    let sorted = |mut hosts: Vec<&str>| {
        hosts.sort_unstable();
        hosts.into_iter().map(str::to_owned).collect()
    };
    ensures.map(|call| sorted(call.node_names())).collect()
}

fn ingress(service: Service) -> Vec<LoadBalancerIngress> {
    let status = service.status.and_then(|status| status.load_balancer);
    status.and_then(|status| status.ingress).unwrap_or_default()
}
