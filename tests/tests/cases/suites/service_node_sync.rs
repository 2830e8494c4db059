//! Node syncs: each step is one item of the node queue.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Result;
use cloud_provider::scripted::{Answer, BalancerAction, ScriptedProvider};
use cloud_provider::{Error, Service};
use controllers::service::TargetSet;
use parking_lot::Mutex;
use runtime::cache::Cached;
use serde::Deserialize;
use serde_json::Value;

use crate::cases::comparison::{Comparison, Expected};
use crate::cases::schema::{Event, nodes, read, service};
use crate::cases::script::{ProviderError, Scripted, existing};
use crate::cases::services::ServiceWorld;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    services: Vec<Value>,
    last_synced: Option<BTreeMap<String, Vec<Value>>>,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    nodes: Vec<Value>,
    list_error: Option<ProviderError>,
    update_load_balancer: Option<BTreeMap<String, Scripted<()>>>,
    get_load_balancer: Option<BTreeMap<String, Scripted<bool>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    steps: Vec<ExpectedStep>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectedStep {
    #[serde(default)]
    update_calls: Expected<Vec<Update>>,
    #[serde(default)]
    get_calls: Expected<Vec<String>>,
    #[serde(default)]
    retry: Expected<Vec<String>>,
    #[serde(default)]
    events: Expected<Vec<ServiceEvent>>,
    #[serde(default)]
    loadbalancer_sync_total: Expected<u64>,
    #[serde(default)]
    nodesync_error_total: Expected<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(deny_unknown_fields)]
struct Update {
    service: String,
    hosts: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(deny_unknown_fields)]
struct ServiceEvent {
    service: String,
    #[serde(rename = "type")]
    type_: String,
    reason: String,
    message: String,
}

pub(super) async fn run(given: Value, expect: Value) -> Result<Comparison> {
    let given: Given = read("given", &given)?;
    let expect: Expect = read("expect", &expect)?;
    anyhow::ensure!(
        given.steps.len() == expect.steps.len(),
        "expect.steps: one for each of given.steps"
    );
    let last_synced = given.last_synced.unwrap_or_default();
    let mut known = Vec::new();
    for (i, form) in given.services.iter().enumerate() {
        let service = service(&format!("given.services[{i}]"), form)?;
        let last = match last_synced.get(&*service.key()) {
            Some(forms) => Some(nodes("given.last_synced", forms)?),
            None => None,
        };
        let last = last.map(|nodes| {
            TargetSet::eligible(&nodes.into_iter().map(Arc::new).collect::<Vec<_>>()).members
        });
        known.push((Arc::new(service), last));
    }
    let mut comparison = Comparison::default();
    for (i, (step, expected)) in given.steps.into_iter().zip(expect.steps).enumerate() {
        let listed = nodes(&format!("given.steps[{i}].nodes"), &step.nodes)?;
        let cloud = Arc::new(ScriptedProvider::new());
        let gets = Arc::<Mutex<Vec<String>>>::default();
        script(
            &cloud,
            step.update_load_balancer,
            step.get_load_balancer,
            &gets,
        );
        // A list that fails is one that never came, so each step has caches of its own; what is remembered is handed on.
        let world = ServiceWorld::new(cloud, step.list_error.is_none().then_some(listed));
        let controller = world.controller()?;
        for (service, targets) in &known {
            controller.remember(Arc::clone(service), targets.as_ref());
        }

        let retry = controller.node_sync().await;

        for (service, targets) in &mut known {
            *targets = controller.remembered_targets(&service.key());
        }
        let at = |key: &str| format!("steps[{i}].{key}");
        comparison.key(
            &at("update_calls"),
            &expected.update_calls,
            &updates(&world.cloud),
        );
        let mut gets = gets.lock().clone();
        gets.sort_unstable();
        comparison.key(&at("get_calls"), &expected.get_calls, &gets);
        comparison.key(&at("retry"), &expected.retry, &retry);
        comparison.key(&at("events"), &expected.events, &events(&world));
        let (syncs, errors) = world.counters.get();
        comparison.key(
            &at("loadbalancer_sync_total"),
            &expected.loadbalancer_sync_total,
            &syncs,
        );
        comparison.key(
            &at("nodesync_error_total"),
            &expected.nodesync_error_total,
            &errors,
        );
        world.forbid_surprises(&mut comparison);
    }
    Ok(comparison)
}

/// Scripts updates as successes, unless the case does otherwise, and records reads of load balancers.
fn script(
    cloud: &ScriptedProvider,
    updates: Option<BTreeMap<String, Scripted<()>>>,
    exist: Option<BTreeMap<String, Scripted<bool>>>,
    gets: &Arc<Mutex<Vec<String>>>,
) {
    let updates = updates.unwrap_or_default();
    let exist = exist.unwrap_or_default();
    let gets = Arc::clone(gets);
    cloud.script(move |script| {
        script.update_load_balancer = Some(Answer::by(move |service: &Service| {
            updates
                .get(&*service.key())
                .map_or(Ok(()), |scripted| scripted.0.clone())
        }));
        script.get_load_balancer = Some(Answer::by(move |service: &Service| {
            let key = service.key().into_owned();
            let answer = exist
                .get(&key)
                .map(|scripted| scripted.0.clone().map(existing));
            gets.lock().push(key);
            answer.unwrap_or_else(|| Err(Error::other("not scripted")))
        }));
    });
}

fn updates(cloud: &ScriptedProvider) -> Vec<Update> {
    let calls = cloud.balancer_calls();
    let mut updates: Vec<Update> = calls
        .iter()
        .filter(|call| call.action == BalancerAction::Update)
        .map(|call| {
            let mut hosts: Vec<String> = call.node_names().into_iter().map(str::to_owned).collect();
            hosts.sort_unstable();
            Update {
                service: call.service.key().into_owned(),
                hosts,
            }
        })
        .collect();
    updates.sort_unstable();
    updates
}

fn events(world: &ServiceWorld) -> Vec<ServiceEvent> {
    let text = |field: Option<String>| field.unwrap_or_default();
    let mut events: Vec<ServiceEvent> = world
        .take_events()
        .into_iter()
        .map(
            |(
                service,
                Event {
                    type_,
                    reason,
                    message,
                },
            )| {
                let type_ = text(type_);
                let reason = text(reason);
                let message = text(message);
                ServiceEvent {
                    service,
                    type_,
                    reason,
                    message,
                }
            },
        )
        .collect();
    events.sort_by(|a, b| a.service.cmp(&b.service));
    events
}
