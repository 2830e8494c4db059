//! Clouds with one object for each load balancer, which is written as a whole: the object is all that reads and changes
//! need.

use std::sync::Arc;

use cloud_provider::{Error, Result, async_trait};
use futures::future::try_join_all;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::change::{Applied, Change};
use super::cloud::{Detail, Query};
use super::machines::Machines;
use super::model::{ObservedLoadBalancer, ResourceGraph, State};
use super::ownership::Identity;
use super::resource::{Field, Resource, Rule, desired_of, object, observed_of};
use super::{Attributes, POOL, Targets};
use crate::paging::ListResult;
use crate::transport::{Call, Transport};

/// The name of the one pool of such a load balancer.
const TARGETS: &str = "main";
/// The number of load balancers from which their states are read with one list.
const FEW: usize = 4;

/// A load balancer that is read and written as one object.
///
/// A field that is `None` is left out of requests. The [fields](Resource::FIELDS) are settings of the load balancer,
/// except for its [listeners](Field::listeners) and its targets. The field list does not name the targets:
/// [`targets`](Self::targets) returns them.
pub trait Object: Resource + DeserializeOwned + Send + Sync + 'static {
    /// URL paths of the objects.
    const PATHS: Paths;

    /// Returns everything but the resources: ID, name, owner tags, state, addresses. [`ObservedLoadBalancer::graph`]
    /// stays `None`.
    fn head(&self) -> ObservedLoadBalancer;

    /// Writes name and owner tags where [`head`](Self::head) reads them.
    fn set_owner(&mut self, head: &ObservedLoadBalancer);

    /// Returns the targets, which the engine takes out to share them, and puts back to write them. See [`numeric`] for
    /// IDs that are numbers.
    fn targets(&mut self) -> &mut Targets;
}

/// URL paths of one kind of object in an API.
#[derive(Clone, Copy, Debug)]
pub struct Paths {
    /// Path of all objects, to which a new one is posted: `/v2/load_balancers`.
    pub collection: &'static str,
    /// Path of one object: `/v2/load_balancers/{id}`.
    pub item: &'static str,
    /// Field of an answer that holds one object, if there is one: `load_balancer`.
    pub envelope: Option<&'static str>,
}

/// The API of a cloud with one object for each load balancer.
#[async_trait]
pub trait ObjectApi: Send + Sync + 'static {
    /// Type of the cloud's load balancers.
    type Object: Object;

    /// Returns the connection to the API.
    fn transport(&self) -> &Transport;

    /// Reads all load balancers; `keep` is called with each as soon as its page is read.
    ///
    /// # Errors
    /// The cloud's answer.
    async fn list(
        &self,
        keep: &(dyn Fn(Self::Object) -> ObservedLoadBalancer + Send + Sync),
    ) -> Result<ListResult<ObservedLoadBalancer>>;

    /// Reads the load balancers that may belong to a Service: by default all of them, for APIs that cannot search by
    /// name.
    ///
    /// # Errors
    /// The cloud's answer.
    async fn candidates(
        &self,
        _identity: &Identity<'_>,
        keep: &(dyn Fn(Self::Object) -> ObservedLoadBalancer + Send + Sync),
    ) -> Result<ListResult<ObservedLoadBalancer>> {
        self.list(keep).await
    }

    /// Reads load balancers by their IDs; IDs that do not exist are left out. By default, many states are read with one
    /// list, and load balancers that the list lacks are read one by one, because a list may lag behind.
    ///
    /// # Errors
    /// The cloud's answer.
    async fn by_ids(
        &self,
        ids: &[String],
        detail: Detail,
        keep: &(dyn Fn(Self::Object) -> ObservedLoadBalancer + Send + Sync),
    ) -> Result<Vec<ObservedLoadBalancer>> {
        let mut found = Vec::new();
        if detail == Detail::State && ids.len() >= FEW {
            found = self.list(keep).await?.into_items();
            found.retain(|actual| ids.contains(&actual.id));
        }
        let missing = ids
            .iter()
            .filter(|id| !found.iter().any(|actual| actual.id == **id));
        let reads = missing.map(|id| {
            let call = answered::<Self::Object>(Call::get(Self::Object::PATHS.item, &[id]));
            self.transport().find::<Self::Object>(call)
        });
        let read = try_join_all(reads).await?;
        found.extend(read.into_iter().flatten().map(keep));
        Ok(found)
    }
}

/// Reads and changes load balancers that are one object each.
pub struct WholeObjects<A> {
    api: A,
    machines: Arc<dyn Machines>,
}

impl<A: ObjectApi> WholeObjects<A> {
    /// Returns the load balancers of an API; `machines` are the targets.
    #[must_use]
    pub fn new(api: A, machines: Arc<dyn Machines>) -> Self {
        Self { api, machines }
    }

    /// Returns the API that the load balancers are read from.
    #[must_use]
    pub fn api(&self) -> &A {
        &self.api
    }

    /// Builds the desired state. `targets` is `None` if they are unknown, and stay as they are. The object's own
    /// targets are ignored.
    ///
    /// # Errors
    /// *Other*, if the object does not serialize to a JSON object.
    pub fn desired(&self, desired: &A::Object, targets: Option<Targets>) -> Result<ResourceGraph> {
        let value = object(desired)?;
        Ok(graph(
            &value,
            desired_of(&value, A::Object::FIELDS),
            A::Object::FIELDS,
            targets,
        ))
    }

    /// Answers a [`Query`].
    ///
    /// # Errors
    /// The cloud's answer.
    pub async fn read(&self, query: Query<'_>) -> Result<ListResult<ObservedLoadBalancer>> {
        match query {
            Query::All(sets) => {
                self.api
                    .list(&|object| observed(object).sharing(sets))
                    .await
            }
            Query::Owner(identity) => {
                let is_candidate = |actual: &ObservedLoadBalancer| {
                    let is_named =
                        identity.name == actual.name || identity.other_names.contains(&actual.name);
                    let is_tagged = actual.legacy_owner.is_some()
                        && actual.legacy_owner == identity.legacy_owner;
                    is_named
                        || is_tagged
                        || actual.owner_tags.service.as_deref() == Some(identity.uid())
                };
                Ok(self
                    .api
                    .candidates(identity, &observed)
                    .await?
                    .filter(is_candidate))
            }
            Query::Ids(ids, detail) => Ok(ListResult::of(
                self.api.by_ids(ids, detail, &observed).await?,
            )),
        }
    }

    /// Carries out all operations of a change with one request. A target that no longer exists is left out: the Node of
    /// a deleted machine must not keep the other Nodes from being served.
    ///
    /// # Errors
    /// The cloud's answer.
    pub async fn apply(&self, change: Change<'_>) -> Result<Applied> {
        let id = change.actual.map(|actual| &*actual.id);
        let Some(mut outcome) = change.outcome_of_all() else {
            let call = Call::delete(A::Object::PATHS.item, &[id.unwrap_or_default()]);
            // An answer that confirms the deletion needs no control read, for which the machines may be missing.
            return match self.api.transport().send(call).await {
                Ok(_) => Ok(Applied::Removed),
                Err(error) if error.is_not_found() => Ok(Applied::Gone),
                Err(error) => Err(error),
            };
        };
        let shown = match self.write(id, &outcome).await {
            Err(refused) if refused.is_invalid() => {
                let graph = outcome.graph.get_or_insert_default();
                let wanted = graph.targets_of(TARGETS);
                let known = self.machines.ids().await?;
                let unknown = wanted.without(&known);
                // If no target is known, the credential may be another project's.
                if unknown.is_empty() || unknown.len() == wanted.len() {
                    return Err(refused);
                }
                tracing::warn!(load_balancer = outcome.name, %unknown, "machines that do not exist are left out of the targets");
                graph
                    .targets
                    .insert(TARGETS.to_owned(), wanted.without(&unknown));
                self.write(id, &outcome).await?
            }
            shown => shown?,
        };
        Ok(Applied::all(change, shown))
    }

    async fn write(
        &self,
        id: Option<&str>,
        outcome: &ObservedLoadBalancer,
    ) -> Result<ObservedLoadBalancer> {
        let call = match id {
            Some(id) => Call::put(A::Object::PATHS.item, &[id]),
            None => Call::post(A::Object::PATHS.collection, &[]),
        };
        let call = answered::<A::Object>(
            call.json(&stated(object(&whole_object::<A::Object>(outcome)?)?)),
        );
        Ok(observed(
            self.api.transport().read::<A::Object>(call).await?,
        ))
    }
}

/// Removes `null` fields: the object makes no statement about them.
fn stated(value: Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key, stated(value)))
            .collect(),
        Value::Array(items) => items.into_iter().map(stated).collect(),
        plain => plain,
    }
}

fn answered<T: Object>(call: Call) -> Call {
    match T::PATHS.envelope {
        Some(field) => call.inside(field),
        None => call,
    }
}

/// Converts an object of the cloud into the engine's form.
fn observed<T: Object>(mut shown: T) -> ObservedLoadBalancer {
    let head = shown.head();
    let targets = std::mem::take(shown.targets());
    match object(&shown) {
        Ok(value) => ObservedLoadBalancer {
            graph: Some(graph(
                &value,
                observed_of(&value, T::FIELDS),
                T::FIELDS,
                Some(targets),
            )),
            ..head
        },
        // The object was read from JSON; an object that cannot be serialized is never compared.
        Err(error) => ObservedLoadBalancer {
            state: State::Failed(error.to_string()),
            ..head
        },
    }
}

fn graph(
    value: &Value,
    settings: Attributes,
    fields: &'static [Field],
    targets: Option<Targets>,
) -> ResourceGraph {
    let mut graph =
        ResourceGraph::default()
            .balancer(settings)
            .pool(TARGETS, Attributes::default(), targets);
    for field in fields {
        let Rule::Listeners { port, protocol } = field.rule else {
            continue;
        };
        for listener in field
            .value_in(value)
            .as_ref()
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            let number = listener[port]
                .as_u64()
                .and_then(|port| u16::try_from(port).ok())
                .unwrap_or_default();
            let transport = transport_of(listener[protocol].as_str().unwrap_or_default());
            // The resource's own name already holds these values.
            let is_said =
                |key: &str, value: &Value| key == port || key == protocol && value == transport;
            let stated = listener.as_object().into_iter().flatten();
            let stated = stated.filter(|(key, value)| !value.is_null() && !is_said(key, value));
            let settings = stated.fold(Attributes::default(), |settings, (key, value)| {
                settings.set(key.clone(), value.clone())
            });
            graph = graph.listener(number, transport, TARGETS, settings);
        }
    }
    graph
}

/// Returns the transport protocol under a listener's protocol: `http` and `tls` run over TCP.
fn transport_of(protocol: &str) -> &'static str {
    match protocol.to_ascii_lowercase().as_str() {
        "udp" | "quic" | "http3" => "UDP",
        "sctp" => "SCTP",
        _ => "TCP",
    }
}

/// Returns the object that is written to bring the load balancer to this state.
fn whole_object<T: Object>(outcome: &ObservedLoadBalancer) -> Result<T> {
    let graph = outcome.graph.clone().unwrap_or_default();
    let mut value = graph
        .balancer_attributes()
        .map_or_else(|| Value::Object(Map::new()), Attributes::nested);
    for field in T::FIELDS {
        let Rule::Listeners { port, protocol } = field.rule else {
            continue;
        };
        let listeners = graph.listeners().map(|(resource, settings)| {
            let mut listener = settings.clone().without(POOL).nested();
            listener[port] = resource.number.into();
            if listener.get(protocol).is_none() {
                listener[protocol] = (*resource.protocol).into();
            }
            listener
        });
        value[field.place] = listeners.collect();
    }
    let mut object: T = serde_json::from_value(value).map_err(|err| {
        Error::other(format!(
            "load balancer {:?} cannot be written as a whole: {err}",
            outcome.name
        ))
    })?;
    object.set_owner(outcome);
    *object.targets() = graph.targets_of(TARGETS);
    Ok(object)
}

/// Targets whose IDs are numbers in the API, for `#[serde(with = "provider_kit::load_balancers::numeric")]`.
pub mod numeric {
    use serde::{Deserializer, Serializer};

    use super::Targets;
    use crate::streamed::collect;

    /// Serializes the IDs as numbers; an ID that is no number is left out.
    ///
    /// # Errors
    /// The serializer's error.
    pub fn serialize<S: Serializer>(targets: &Targets, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(
            targets
                .iter()
                .filter_map(|target| target.parse::<u64>().ok()),
        )
    }

    /// Deserializes the IDs one by one.
    ///
    /// # Errors
    /// An error for a value that is not a list of numbers.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Targets, D::Error> {
        let ids: Vec<u64> = collect::<_, u64, _>(deserializer)?;
        Ok(ids.iter().map(ToString::to_string).collect())
    }
}
