//! Changes of listeners and pools, one request at a time: during each change, Octavia refuses others.

use std::collections::BTreeMap;

use cloud_provider::{Error, EventSubject, Result, Service};
use provider_kit::load_balancers::{
    Applied, Attributes, Change, Difference, Operation, POOL, Port, ResourceGraph, ResourceKey,
    State, Targets,
};
use provider_kit::transport::Call;
use serde::Deserialize;
use serde_json::{Value, json};

use super::octavia::{
    ID, Kind, LISTENER_SETTINGS, LISTENERS, MEMBER_PORT, MEMBER_SETTINGS, MEMBERS, MONITOR_ID,
    MONITOR_SETTINGS, MONITOR_TYPE, MONITORS, Member, Members, POOL_SETTINGS, POOLS, TAGGED, TAGS,
};
use super::project::Project;
use super::tags::{balancer_id, cut};
use crate::keys::PROVIDER_REQUIRES_SERIAL_API_CALLS;

/// Field of a listener that names its pool.
const POOL_ID: &str = "default_pool_id";

/// Applies the first operation on a listener or pool, or the first request of an operation that needs several.
/// *Conflict* if the resource has changed meanwhile. Answers may be long: a pool is returned with the IDs of all its
/// members.
///
/// # Errors
/// Octavia's answer.
pub(super) async fn change_resources(project: &Project, change: Change<'_>) -> Result<Applied> {
    let actual = change
        .actual
        .ok_or_else(|| Error::other("a resource without a load balancer"))?;
    let names = ObjectNames::of_change(project, &change).await?;
    let id = balancer_id(&actual.id);
    let graph = actual.graph.clone().unwrap_or_default();
    let step = Subject {
        project,
        change,
        names,
        id,
        graph,
    }
    .step()
    .await?;
    let (done, is_sent, graph) =
        step.ok_or_else(|| Error::conflict(format!("{} has changed", actual.place())))?;
    let mut outcome = Box::new(change.outcome(done).unwrap_or_else(|| actual.clone()));
    outcome.graph = Some(graph);
    outcome.state = if is_sent { State::Busy } else { State::Ready };
    Ok(if done == 0 {
        Applied::PlanAgain(outcome)
    } else {
        Applied::Shown(done, outcome)
    })
}

/// The number of operations that are done, 0 if the first one takes another request; `true` if a request was sent; the load
/// balancer's resource graph then.
type Step = Option<(usize, bool, ResourceGraph)>;

/// The load balancer that changes.
struct Subject<'a> {
    project: &'a Project,
    change: Change<'a>,
    names: ObjectNames<'a>,
    id: &'a str,
    graph: ResourceGraph,
}

/// A created object, as far as it is read.
#[derive(Deserialize)]
struct Created {
    id: String,
}

/// The names of new listeners, pools and monitors.
#[derive(Clone, Copy)]
pub(super) struct ObjectNames<'a> {
    pub(super) service: &'a Service,
    pub(super) legacy_owner_tag: &'a str,
    /// If set, Octavia has tags.
    pub(super) tags: bool,
}

impl<'a> ObjectNames<'a> {
    /// Returns the names for a change.
    ///
    /// # Errors
    /// Octavia's answer.
    pub(super) async fn of_change(project: &Project, change: &Change<'a>) -> Result<Self> {
        let legacy_owner_tag = change.identity.legacy_owner.as_deref().unwrap_or_default();
        Ok(Self {
            service: change.identity.service,
            legacy_owner_tag,
            tags: project.services.octavia().await?.tags,
        })
    }

    /// Returns `listener_0_<legacy owner tag>`, with the position of the port in the Service.
    pub(super) fn of(&self, kind: &str, port: &Port) -> String {
        let place = self.port(port).map_or(0, |(place, _)| place);
        cut(format!("{kind}_{place}_{}", self.legacy_owner_tag))
    }

    /// Returns the position of a port in the Service, and its node port.
    fn port(&self, port: &Port) -> Option<(usize, Option<i32>)> {
        let ports = self.service.spec.as_ref()?.ports.as_deref()?;
        let mut numbered = ports.iter().enumerate();
        let found = numbered.find(|(_, numbered)| {
            numbered.port == i32::from(port.number)
                && numbered.protocol.as_deref().unwrap_or("TCP") == port.protocol
        });
        found.map(|(place, entry)| (place, entry.node_port))
    }

    /// Returns the members of a pool. In a sync that changes only targets, the settings of members are unknown if the
    /// pool is empty or its members differ; then the node port comes from the Service.
    fn members(&self, pool: &str, graph: &ResourceGraph) -> Members {
        let mut settings = graph.pool_attributes(pool).cloned().unwrap_or_default();
        if settings.number::<u16>(MEMBER_PORT).is_none() {
            let node_port = self
                .port(&port_of(pool))
                .and_then(|(_, node_port)| node_port);
            settings = Attributes::default().set(MEMBER_PORT, node_port);
        }
        Members {
            targets: graph.targets_of(pool),
            settings,
        }
    }

    pub(super) fn of_pool(&self, kind: &str, pool: &str) -> String {
        self.of(kind, &port_of(pool))
    }
}

/// Returns the port at the beginning of a pool's name.
fn port_of(pool: &str) -> Port {
    let (number, rest) = pool.split_once('/').unwrap_or_default();
    let protocol = rest.split(' ').next().unwrap_or_default().to_owned();
    Port {
        number: number.parse().unwrap_or_default(),
        protocol: protocol.into(),
    }
}

impl Subject<'_> {
    async fn step(&self) -> Result<Step> {
        let operations = self.change.operations;
        match &operations[0] {
            Operation::Create {
                resource: ResourceKey::Pool(name),
                attributes,
            } => {
                let object = pool(self.names, name, attributes, &POOL_SETTINGS)
                    .set("loadbalancer_id", self.id);
                let id = self.create(&POOLS, object.nested()).await?;
                // Its health monitor and its members follow.
                let settings = attributes.clone().only(&POOL_SETTINGS).set(ID, id);
                Ok(Some((
                    0,
                    true,
                    self.graph
                        .clone()
                        .pool(name, settings, Some(Targets::default())),
                )))
            }
            Operation::Update {
                resource: ResourceKey::Pool(name),
                attributes,
                ..
            } => self.change_pool(name, attributes).await,
            Operation::AddTargets { pool, .. } | Operation::RemoveTargets { pool, .. } => {
                let Some(settings) = self.graph.pool_attributes(pool) else {
                    return Ok(None);
                };
                self.change_pool(pool, settings).await
            }
            Operation::Create {
                resource: resource @ ResourceKey::Listener(port),
                attributes,
            } => {
                let object = listener(self.names, port, attributes).set("loadbalancer_id", self.id);
                let id = self
                    .create(
                        &LISTENERS,
                        object.set(POOL_ID, self.pool_id(attributes)).nested(),
                    )
                    .await?;
                let settings = with_tags(attributes, self.names).set(ID, id);
                Ok(Some((
                    1,
                    true,
                    self.graph.clone().resource(resource.clone(), settings),
                )))
            }
            Operation::Update {
                resource: resource @ ResourceKey::Listener(_),
                attributes,
                changes,
            } => {
                let settings = with_tags(attributes, self.names);
                let object = settings.clone().set(POOL_ID, self.pool_id(&settings));
                self.update(
                    &LISTENERS,
                    settings.text(ID).unwrap_or_default(),
                    listener_changes(&object, changes),
                )
                .await?;
                Ok(Some((
                    1,
                    true,
                    self.graph.clone().resource(resource.clone(), settings),
                )))
            }
            Operation::Delete {
                resource: resource @ (ResourceKey::Listener(_) | ResourceKey::Pool(_)),
            } => {
                let kind = if matches!(resource, ResourceKey::Pool(_)) {
                    POOLS
                } else {
                    LISTENERS
                };
                let id = self
                    .graph
                    .resources
                    .get(resource)
                    .and_then(|settings| settings.text(ID));
                if let Some(id) = id {
                    self.remove(&kind, id).await?;
                }
                Ok(Some((1, id.is_some(), self.graph.after(&operations[..1]))))
            }
            _ => Ok(None),
        }
    }

    /// Changes the pool itself, its monitor or its members: the first that differs.
    async fn change_pool(&self, name: &str, wanted: &Attributes) -> Result<Step> {
        let Some(actual) = self.graph.pool_attributes(name) else {
            return Ok(None);
        };
        let id = actual.text(ID).unwrap_or_default();
        let pool_changes = differing(wanted, actual, &POOL_SETTINGS);
        let of_monitor = differing(wanted, actual, &MONITOR_SETTINGS);
        let of_members = differing(wanted, actual, &MEMBER_SETTINGS);
        if !pool_changes.is_empty() {
            self.update_pool(id, told(wanted, &pool_changes)).await?;
            let done = usize::from(of_monitor.is_empty() && of_members.is_empty());
            return Ok(Some((
                done,
                true,
                self.with_settings(name, wanted, &pool_changes),
            )));
        }
        if !of_monitor.is_empty() {
            let done = usize::from(of_members.is_empty());
            return self.change_monitor(name, wanted, &of_monitor, done).await;
        }
        // Only updates have settings; the targets are the result of all operations on this pool.
        let is_this_resource =
            |resource: &ResourceKey| matches!(resource, ResourceKey::Pool(pool) if pool == name);
        let is_about_it = |operation: &&Operation| {
            operation.targets_of() == Some(name) || operation.updates(is_this_resource)
        };
        let operations = self.change.operations;
        let count = operations.iter().take_while(is_about_it).count();
        let moves: Vec<_> = operations[..count]
            .iter()
            .filter(|operation| operation.targets_of().is_some())
            .cloned()
            .collect();
        let graph = self.with_settings(name, wanted, &of_members).after(&moves);
        let is_sent = !(of_members.is_empty() && moves.is_empty());
        if is_sent {
            self.replace_members(id, &self.names.members(name, &graph))
                .await?;
        }
        Ok(Some((count.max(1), is_sent, graph)))
    }

    /// Returns the resource graph once some settings of a pool are as wanted.
    fn with_settings(
        &self,
        pool: &str,
        wanted: &Attributes,
        settings: &[&'static str],
    ) -> ResourceGraph {
        let changed = settings.iter().fold(Attributes::default(), |all, key| {
            all.set(*key, wanted.get(key))
        });
        let actual = self
            .graph
            .pool_attributes(pool)
            .cloned()
            .unwrap_or_default();
        self.graph.clone().resource(
            ResourceKey::Pool(pool.to_owned()),
            actual.overlaid_with(&changed),
        )
    }

    /// Changes the monitor; for another type it is deleted and created again.
    async fn change_monitor(
        &self,
        pool: &str,
        wanted: &Attributes,
        differing: &[&'static str],
        done: usize,
    ) -> Result<Step> {
        let Some(actual) = self.graph.pool_attributes(pool) else {
            return Ok(None);
        };
        let after = self.with_settings(pool, wanted, differing);
        let body = |settings: Attributes| settings.nested()[MONITORS.name].take();
        let Some(id) = actual.text(MONITOR_ID) else {
            let settings = wanted.clone().only(&MONITOR_SETTINGS);
            let settings = settings.set("healthmonitor.name", self.names.of_pool("monitor", pool));
            let object = body(settings.set("healthmonitor.pool_id", actual.text(ID)));
            let id = self.create(&MONITORS, object).await?;
            let settings = after
                .pool_attributes(pool)
                .cloned()
                .unwrap_or_default()
                .set(MONITOR_ID, id);
            return Ok(Some((
                done,
                true,
                after.resource(ResourceKey::Pool(pool.to_owned()), settings),
            )));
        };
        if wanted.get(MONITOR_TYPE) == actual.get(MONITOR_TYPE) {
            self.update(&MONITORS, id, body(wanted.clone().only(differing)))
                .await?;
            return Ok(Some((done, true, after)));
        }
        self.remove(&MONITORS, id).await?;
        let done = if wanted.get(MONITOR_TYPE).is_none() {
            done
        } else {
            0
        };
        let none = [&[MONITOR_ID][..], &MONITOR_SETTINGS].concat();
        Ok(Some((
            done,
            true,
            self.with_settings(pool, &Attributes::default(), &none),
        )))
    }

    fn pool_id(&self, listener: &Attributes) -> Option<&str> {
        self.graph.pool_attributes(listener.text(POOL)?)?.text(ID)
    }

    async fn create(&self, kind: &Kind, object: Value) -> Result<String> {
        let call = Call::post(kind.all, &[])
            .list()
            .json(&kind.body(object))
            .inside(kind.name);
        Ok(self
            .project
            .services
            .balancer
            .read::<Created>(call)
            .await?
            .id)
    }

    async fn update(&self, kind: &Kind, id: &str, changes: Value) -> Result<()> {
        let call = Call::put(kind.one, &[id]).list().json(&kind.body(changes));
        self.project.services.balancer.send(call).await.map(drop)
    }

    async fn remove(&self, kind: &Kind, id: &str) -> Result<()> {
        self.project
            .services
            .balancer
            .remove(Call::delete(kind.one, &[id]).list())
            .await
    }

    /// Changes a pool itself. If the provider does not support the new algorithm, the pool keeps its present one, and
    /// an event is recorded.
    async fn update_pool(&self, id: &str, changes: Value) -> Result<()> {
        let has_method = changes.get("lb_algorithm").is_some();
        let persistence = changes.get("session_persistence").cloned();
        match self.update(&POOLS, id, changes).await {
            Err(err) if err.is_invalid() && has_method => {
                let text = format!("the method of load balancing cannot be changed: {err}");
                let about = EventSubject::Service(self.change.identity.service);
                self.project
                    .deduplicator
                    .warn(true, about, "LoadBalancerLbMethodUnknown", &text);
                match persistence {
                    Some(persistence) => {
                        self.update(&POOLS, id, json!({ "session_persistence": persistence }))
                            .await
                    }
                    None => Ok(()),
                }
            }
            answer => answer,
        }
    }

    async fn replace_members(&self, pool: &str, members: &Members) -> Result<()> {
        if self
            .project
            .config
            .flag(&PROVIDER_REQUIRES_SERIAL_API_CALLS)
        {
            return self.members_one_by_one(pool, members).await;
        }
        let _room = self.project.room_for(members.targets.len()).await;
        let call = Call::put(MEMBERS.all, &[pool])
            .list()
            .json(&BTreeMap::from([(MEMBERS.names, members)]));
        self.project.services.balancer.send(call).await.map(drop)
    }

    /// Changes members one by one, for providers that take no more than one change at a time.
    async fn members_one_by_one(&self, pool: &str, wanted: &Members) -> Result<()> {
        let project = self.project;
        let http = &self.project.services.balancer;
        let callbacks = self.change.callbacks;
        let mut present = project
            .all_of(&MEMBERS, MEMBERS.list(pool), |member: &Member<'_>| {
                member.id.clone()
            })
            .await?;
        for member in wanted.iter() {
            let is_this_other_member = |other_member: &Member<'_>| {
                (&other_member.address, other_member.protocol_port)
                    == (&member.address, member.protocol_port)
            };
            let name = member.serial_name();
            let call = match present
                .iter()
                .position(is_this_other_member)
                .map(|at| present.swap_remove(at))
            {
                Some(entry)
                    if entry.monitor_port == member.monitor_port
                        && entry.target() == member.target() =>
                {
                    continue;
                }
                Some(object) => Call::put(MEMBERS.one, &[pool, &object.id]).json(
                    &MEMBERS.body(json!({"name": name, "monitor_port": member.monitor_port})),
                ),
                None => Call::post(MEMBERS.all, &[pool]).json(&MEMBERS.body(Member {
                    name: Some(name.into()),
                    ..member
                })),
            };
            http.send(call).await?;
            project.settled(self.id, callbacks).await?;
        }
        for obsolete in present {
            http.remove(Call::delete(MEMBERS.one, &[pool, &obsolete.id]))
                .await?;
            project.settled(self.id, callbacks).await?;
        }
        Ok(())
    }
}

fn differing(
    wanted: &Attributes,
    actual: &Attributes,
    settings: &[&'static str],
) -> Vec<&'static str> {
    settings
        .iter()
        .copied()
        .filter(|key| wanted.get(key) != actual.get(key))
        .collect()
}

/// Returns these settings as a JSON object. For a setting that is absent, the outermost field of its place is `null`.
fn told(settings: &Attributes, places: &[&str]) -> Value {
    let mut object = settings.clone().only(places).nested();
    for place in places.iter().filter(|place| settings.get(place).is_none()) {
        object[place.split('.').next().unwrap_or_default()] = Value::Null;
    }
    object
}

/// Returns the body that changes a listener.
fn listener_changes(object: &Attributes, changes: &[Difference]) -> Value {
    let places = changes.iter().map(|change| match &*change.key {
        POOL => POOL_ID,
        TAGGED => TAGS,
        other => other,
    });
    let mut body = told(object, &places.collect::<Vec<_>>());
    if let Some(headers @ Value::Null) = body.get_mut("insert_headers") {
        *headers = json!({});
    }
    body
}

/// Adds the Service's legacy owner tag to the tags of a listener that is tagged.
fn with_tags(attributes: &Attributes, names: ObjectNames<'_>) -> Attributes {
    if attributes.get(TAGGED).is_none() {
        return attributes.clone();
    }
    let mut tags = attributes
        .get(TAGS)
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    if !tags.iter().any(|tag| tag == names.legacy_owner_tag) {
        tags.push(names.legacy_owner_tag.into());
    }
    attributes.clone().set(TAGS, tags)
}

/// Returns a new listener without its pool.
pub(super) fn listener(names: ObjectNames<'_>, port: &Port, attributes: &Attributes) -> Attributes {
    let settings = with_tags(attributes, names).only(&LISTENER_SETTINGS);
    settings
        .set("name", names.of("listener", port))
        .set("protocol_port", port.number)
}

/// Returns a new pool with these of its settings.
pub(super) fn pool(
    names: ObjectNames<'_>,
    name: &str,
    attributes: &Attributes,
    settings: &[&str],
) -> Attributes {
    let settings = attributes.clone().only(settings);
    settings
        .set("name", names.of_pool("pool", name))
        .set("protocol", name.rsplit(' ').next())
}
