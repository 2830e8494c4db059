//! Suite: a reconcile of the route controller.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use cloud_provider::scripted::{Answer, ScriptedProvider};
use cloud_provider::{CloudProvider, Cluster, Route};
use controllers::route::NoRouteMetrics;
use controllers::{ControllerContext, Options, RouteController};
use parking_lot::Mutex;
use runtime::cache::Cache;
use runtime::clock::SystemClock;
use runtime::events::{EventRecorder, RecordedEvent};
use runtime::go_duration::GoDuration;
use runtime::pulse::Pulse;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::route_condition::Condition;
use super::route_responsibility::ranges;
use crate::cases::api::Api;
use crate::cases::comparison::{Comparison, Expected};
use crate::cases::schema::{Address, ErrorText, addresses, node_addresses, read};
use crate::cases::script::ProviderError;
use crate::cases::world::node;

/// Duration of every call to the cloud, so that overlaps show.
const CALL: Duration = Duration::from_secs(1);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    cluster_cidrs: Vec<String>,
    nodes: Vec<Value>,
    routes: Option<Vec<RouteForm>>,
    list_error: Option<ProviderError>,
    create_errors: Option<Vec<CreateError>>,
    delete_errors: Option<Vec<DeleteError>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RouteForm {
    name: Option<String>,
    target_node: Option<String>,
    destination_cidr: Option<String>,
    target_node_addresses: Option<Vec<Address>>,
    enable_node_addresses: Option<bool>,
    blackhole: Option<bool>,
}

#[derive(Deserialize, Clone)]
#[serde(deny_unknown_fields)]
struct CreateError {
    node: String,
    cidr: String,
    error: ProviderError,
}

#[derive(Deserialize, Clone)]
#[serde(deny_unknown_fields)]
struct DeleteError {
    name: String,
    error: ProviderError,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    #[serde(default)]
    error: Expected<Option<ErrorText>>,
    #[serde(default)]
    created: Expected<Vec<Created>>,
    #[serde(default)]
    deleted: Expected<Vec<String>>,
    #[serde(default)]
    conditions: Expected<Vec<Condition>>,
    #[serde(default)]
    events: Expected<Vec<NodeEvent>>,
    /// Null if not both kinds of call happen; false: they may overlap.
    #[serde(default)]
    creates_wait_for_deletes: Expected<Option<bool>>,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Created {
    target_node: String,
    destination_cidr: String,
    name_hint: String,
    #[serde(default)]
    target_node_addresses: Vec<Address>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeEvent {
    node: String,
    uid: String,
    #[serde(rename = "type")]
    type_: String,
    reason: String,
    message_prefix: String,
    message_suffix: String,
}

impl From<RouteForm> for Route {
    fn from(form: RouteForm) -> Self {
        Self {
            name: form.name.unwrap_or_default(),
            target_node: form.target_node.unwrap_or_default(),
            enable_node_addresses: form.enable_node_addresses.unwrap_or(false),
            target_node_addresses: node_addresses(form.target_node_addresses),
            destination_cidr: form.destination_cidr.unwrap_or_default(),
            blackhole: form.blackhole.unwrap_or(false),
            owned: None,
        }
    }
}

/// Times at which calls ended.
#[derive(Default)]
struct Ends {
    creates: Mutex<Vec<Instant>>,
    deletes: Mutex<Vec<Instant>>,
}

impl Ends {
    fn note(list: &Mutex<Vec<Instant>>) {
        list.lock().push(Instant::now());
    }

    /// Returns `true` if all deletes ended before the first create began; `None` if not both happened.
    fn creates_waited(&self) -> Option<bool> {
        let creates = self.creates.lock();
        let deletes = self.deletes.lock();
        Some(*creates.iter().min()? - CALL >= *deletes.iter().max()?)
    }
}

pub(super) async fn run(given: Value, expect: Value) -> Result<Comparison> {
    let given: Given = read("given", &given)?;
    let expect: Expect = read("expect", &expect)?;
    let api = Api::default();
    let ends = Arc::new(Ends::default());
    let nodes = given
        .nodes
        .into_iter()
        .map(|form| node(&api.seed(form)))
        .collect::<Result<Vec<_>>>()?;
    let mut options = Options::reference();
    options.route.cluster_cidrs = ranges(&given.cluster_cidrs)?;
    let cloud = Arc::new(ScriptedProvider::new());
    let routes: Vec<Route> = given
        .routes
        .unwrap_or_default()
        .into_iter()
        .map(Route::from)
        .collect();
    let list = given.list_error.map_or(Ok(routes), |error| Err(error.0));
    let created = Arc::clone(&ends);
    let deleted = Arc::clone(&ends);
    let create_errors = given.create_errors.unwrap_or_default();
    let delete_errors = given.delete_errors.unwrap_or_default();
    cloud.delay(CALL).script(|script| {
        // The case's order, which the scripted cloud's own list does not keep. That list stays empty: a route that
        // could not be deleted must not prevent its successor (RRC-023).
        script.list_routes = Some(Answer::always(list));
        script.create_route = Some(Answer::by(move |route: &Route| {
            Ends::note(&created.creates);
            let is = |error: &&CreateError| {
                (&error.node, &error.cidr) == (&route.target_node, &route.destination_cidr)
            };
            create_errors
                .iter()
                .find(is)
                .map_or(Ok(()), |error| Err(error.error.0.clone()))
        }));
        script.delete_route = Some(Answer::by(move |route: &Route| {
            Ends::note(&deleted.deletes);
            let is = |error: &&DeleteError| error.name == route.name;
            delete_errors
                .iter()
                .find(is)
                .map_or(Ok(()), |error| Err(error.error.0.clone()))
        }));
    });
    let (recorder, events) = EventRecorder::to_memory("route_controller", Arc::new(SystemClock));
    let context = ControllerContext {
        client: api.client(),
        nodes: Cache::with(nodes),
        provider: Arc::clone(&cloud) as Arc<dyn CloudProvider>,
        clock: Arc::new(SystemClock),
        pulse: Pulse::default(),
    };
    let cluster = Cluster {
        name: "test-cluster".to_owned(),
        id: None,
    };
    let controller = RouteController::new(
        context,
        cluster,
        &options,
        recorder,
        Arc::new(NoRouteMetrics),
    )?;

    let result = controller.reconcile(&CancellationToken::new()).await;

    let mut comparison = Comparison::default();
    comparison.error(
        &expect.error,
        result.err().map(|error| error.to_string()).as_deref(),
    );
    comparison.key("created", &expect.created, &created_routes(&cloud));
    let mut deleted: Vec<String> = cloud
        .deleted_routes()
        .into_iter()
        .map(|route| route.name)
        .collect();
    deleted.sort();
    comparison.key("deleted", &expect.deleted, &deleted);
    let patches = api
        .requests()
        .into_iter()
        .map(|request| Condition::of(&request, &request.name));
    let mut conditions = patches.collect::<Result<Vec<_>>>()?;
    conditions.sort_by(|a, b| a.node.cmp(&b.node));
    comparison.key("conditions", &expect.conditions, &conditions);
    let events = events.lock().clone();
    compare_events(&mut comparison, &expect.events, events);
    let waited = ends.creates_waited();
    // Calls that may overlap need not.
    let may = matches!(
        expect.creates_wait_for_deletes,
        Expected::Exactly(Some(false))
    );
    comparison.key(
        "creates_wait_for_deletes",
        &expect.creates_wait_for_deletes,
        &waited.map(|waited| waited && !may),
    );
    comparison.forbid(cloud.violations());
    Ok(comparison)
}

fn created_routes(cloud: &ScriptedProvider) -> Vec<Created> {
    let created = |(name_hint, route): (String, Route)| Created {
        target_node_addresses: addresses(&route.target_node_addresses),
        target_node: route.target_node,
        destination_cidr: route.destination_cidr,
        name_hint,
    };
    let mut list: Vec<Created> = cloud.created_routes().into_iter().map(created).collect();
    list.sort_by(|a, b| {
        (&a.target_node, &a.destination_cidr).cmp(&(&b.target_node, &b.destination_cidr))
    });
    list
}

/// Compares events by prefix and suffix of their messages; the duration between them is free.
fn compare_events(
    comparison: &mut Comparison,
    expected: &Expected<Vec<NodeEvent>>,
    mut events: Vec<RecordedEvent>,
) {
    events.sort_by(|a, b| a.message.cmp(&b.message));
    let Expected::Exactly(wanted) = expected else {
        return;
    };
    let actual: Vec<NodeEvent> = events
        .into_iter()
        .enumerate()
        .map(|(index, event)| {
            let about = event.regarding;
            if (
                about.kind.as_str(),
                about.api_version.as_str(),
                about.namespace.as_str(),
            ) != ("Node", "v1", "")
            {
                comparison.forbid([format!("an event is about {about}, not about a v1 Node")]);
            }
            let split = wanted.get(index).and_then(|wanted| {
                let rest = event.message.strip_prefix(&wanted.message_prefix)?;
                rest.strip_suffix(&wanted.message_suffix)?
                    .parse::<GoDuration>()
                    .ok()?;
                Some((wanted.message_prefix.clone(), wanted.message_suffix.clone()))
            });
            let (message_prefix, message_suffix) = split.unwrap_or((event.message, String::new()));
            NodeEvent {
                node: about.name,
                uid: about.uid,
                type_: event.type_.to_string(),
                reason: event.reason,
                message_prefix,
                message_suffix,
            }
        })
        .collect();
    comparison.key("events", expected, &actual);
}
