//! Translates operations to requests, one at a time: each change makes Octavia refuse others until it is done.

use std::collections::BTreeMap;

use cloud_provider::Service;
use provider_kit::load_balancers::{Attributes, Difference, Operation, POOL, Part, Port, Targets, Tree};
use provider_kit::transport::Call;
use serde_json::{Value, json};

use super::octavia::{
    ID, Kind, LISTENER_SETTINGS, LISTENERS, MEMBER_PORT, MEMBER_SETTINGS, MEMBERS, MONITOR_ID, MONITOR_SETTINGS,
    MONITOR_TYPE, MONITORS, Members, POOL_SETTINGS, POOLS, TAGGED, TAGS,
};
use super::tags::cut;

/// Field of a listener that names its pool.
const POOL_ID: &str = "default_pool_id";

/// A request, as data: the kind, the ID and the body.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Request {
    Make(Kind, Value),
    Change(Kind, String, Value),
    Remove(Kind, String),
    /// Replaces all members of this pool.
    Members(String, Members),
}

impl Request {
    /// Returns the call. Its answer may be long: a pool is returned with the IDs of all its members.
    pub(super) fn call(&self) -> Call {
        let call = match self {
            Self::Make(kind, object) => Call::post(kind.all, &[]).json(&kind.body(object)),
            Self::Change(kind, id, changes) => Call::put(kind.one, &[id]).json(&kind.body(changes)),
            Self::Remove(kind, id) => Call::delete(kind.one, &[id]),
            Self::Members(pool, members) => {
                Call::put(MEMBERS.all, &[pool]).json(&BTreeMap::from([(MEMBERS.names, members)]))
            }
        };
        call.list()
    }
}

/// The next request, and the state that it leads to.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Step {
    /// `None`: no request is needed.
    pub(super) request: Option<Request>,
    /// Number of operations that are done then; 0 if the first one takes another request.
    pub(super) done: usize,
    /// The load balancer's tree then.
    pub(super) tree: Tree,
    /// The part that is created, and the setting that holds its ID.
    pub(super) makes: Option<(Part, &'static str)>,
}

impl Step {
    fn new(request: Option<Request>, done: usize, tree: Tree) -> Self {
        Self { request, done, tree, makes: None }
    }
}

/// The load balancer that changes.
pub(super) struct Subject<'a> {
    pub(super) id: &'a str,
    pub(super) tree: &'a Tree,
    pub(super) names: Names<'a>,
}

/// The names of new listeners, pools and monitors.
#[derive(Clone, Copy)]
pub(super) struct Names<'a> {
    pub(super) service: &'a Service,
    pub(super) sign: &'a str,
    /// If set, Octavia has tags.
    pub(super) tags: bool,
}

impl Names<'_> {
    /// Returns `listener_0_<legacy owner tag>`, with the position of the port in the Service.
    pub(super) fn of(&self, kind: &str, port: &Port) -> String {
        let place = self.port(port).map_or(0, |(place, _)| place);
        cut(format!("{kind}_{place}_{}", self.sign))
    }

    /// Returns the position of a port in the Service, and its node port.
    fn port(&self, port: &Port) -> Option<(usize, Option<i32>)> {
        let ports = self.service.spec.as_ref()?.ports.as_deref()?;
        let mut numbered = ports.iter().enumerate();
        let found = numbered.find(|(_, it)| {
            it.port == i32::from(port.number) && it.protocol.as_deref().unwrap_or("TCP") == port.protocol
        });
        found.map(|(place, it)| (place, it.node_port))
    }

    /// Returns the members of a pool. If only targets are changed, nothing is known of an empty pool, or of one with different
    /// members, but the Service's port.
    fn members(&self, pool: &str, tree: &Tree) -> Members {
        let mut settings = tree.pool_attributes(pool).cloned().unwrap_or_default();
        if settings.number::<u16>(MEMBER_PORT).is_none() {
            let node_port = self.port(&port_of(pool)).and_then(|(_, node_port)| node_port);
            settings = Attributes::default().set(MEMBER_PORT, node_port);
        }
        Members { targets: tree.targets_of(pool), settings }
    }

    pub(super) fn of_pool(&self, kind: &str, pool: &str) -> String {
        self.of(kind, &port_of(pool))
    }
}

/// Returns the port of a pool, which its name begins with.
fn port_of(pool: &str) -> Port {
    let (number, rest) = pool.split_once('/').unwrap_or_default();
    let protocol = rest.split(' ').next().unwrap_or_default().to_owned();
    Port { number: number.parse().unwrap_or_default(), protocol: protocol.into() }
}

impl Subject<'_> {
    /// Returns the next step of operations on listeners and pools.
    pub(super) fn next(&self, operations: &[Operation]) -> Option<Step> {
        match operations.first()? {
            Operation::Create { part: Part::Pool(name), attributes } => Some(self.make_pool(name, attributes)),
            Operation::Update { part: Part::Pool(name), attributes, .. } => {
                self.change_pool(name, attributes, operations)
            }
            Operation::AddTargets { pool, .. } | Operation::RemoveTargets { pool, .. } => {
                self.change_pool(pool, self.tree.pool_attributes(pool)?, operations)
            }
            Operation::Create { part: part @ Part::Listener(port), attributes } => {
                Some(self.make_listener(part, port, attributes))
            }
            Operation::Update { part: part @ Part::Listener(_), attributes, changes } => {
                Some(self.change_listener(part, attributes, changes))
            }
            Operation::Delete { part: part @ (Part::Listener(_) | Part::Pool(_)) } => {
                let kind = if matches!(part, Part::Pool(_)) { POOLS } else { LISTENERS };
                let id = self.tree.parts.get(part).and_then(|it| it.text(ID));
                let request = id.map(|id| Request::Remove(kind, id.to_owned()));
                Some(Step::new(request, 1, self.tree.after(&operations[..1])))
            }
            _ => None,
        }
    }

    fn make_pool(&self, name: &str, attributes: &Attributes) -> Step {
        let object = pool(self.names, name, attributes, &POOL_SETTINGS).set("loadbalancer_id", self.id);
        // Its health monitor and its members are next.
        let tree = self.tree.clone().pool(name, attributes.clone().only(&POOL_SETTINGS), Some(Targets::default()));
        let makes = Some((Part::Pool(name.to_owned()), ID));
        Step { makes, ..Step::new(Some(Request::Make(POOLS, object.nested())), 0, tree) }
    }

    /// Changes the pool itself, its monitor or its members: the first that differs.
    fn change_pool(&self, name: &str, wanted: &Attributes, operations: &[Operation]) -> Option<Step> {
        let actual = self.tree.pool_attributes(name)?;
        let id = actual.text(ID).unwrap_or_default().to_owned();
        let own = differing(wanted, actual, &POOL_SETTINGS);
        let of_monitor = differing(wanted, actual, &MONITOR_SETTINGS);
        let of_members = differing(wanted, actual, &MEMBER_SETTINGS);
        let after = |settings: &[&'static str]| self.with_settings(name, wanted, settings);
        if !own.is_empty() {
            let done = usize::from(of_monitor.is_empty() && of_members.is_empty());
            return Some(Step::new(Some(Request::Change(POOLS, id, told(wanted, &own))), done, after(&own)));
        }
        if !of_monitor.is_empty() {
            let done = usize::from(of_members.is_empty());
            return self.change_monitor(name, wanted, &of_monitor, done);
        }
        // Only an update names settings; the targets follow from all operations on this pool.
        let is_it = |part: &Part| matches!(part, Part::Pool(pool) if pool == name);
        let is_about_it = |it: &&Operation| it.targets_of() == Some(name) || it.updates(is_it);
        let count = operations.iter().take_while(is_about_it).count();
        let moves: Vec<_> = operations[..count].iter().filter(|it| it.targets_of().is_some()).cloned().collect();
        let tree = after(&of_members).after(&moves);
        let request = !(of_members.is_empty() && moves.is_empty());
        let request = request.then(|| Request::Members(id, self.names.members(name, &tree)));
        Some(Step::new(request, count.max(1), tree))
    }

    /// Returns the tree once some settings of a pool are as wanted.
    fn with_settings(&self, pool: &str, wanted: &Attributes, settings: &[&'static str]) -> Tree {
        let changed = settings.iter().fold(Attributes::default(), |all, key| all.set(*key, wanted.get(key)));
        let mut tree = self.tree.clone();
        if let Some(actual) = self.tree.pool_attributes(pool) {
            tree = tree.part(Part::Pool(pool.to_owned()), actual.overlaid_with(&changed));
        }
        tree
    }

    /// Changes the monitor; for another type it is deleted and created again.
    fn change_monitor(&self, pool: &str, wanted: &Attributes, differing: &[&'static str], done: usize) -> Option<Step> {
        let actual = self.tree.pool_attributes(pool)?;
        let after = self.with_settings(pool, wanted, differing);
        let body = |settings: Attributes| settings.nested()[MONITORS.name].take();
        let Some(id) = actual.text(MONITOR_ID).map(str::to_owned) else {
            let settings = wanted.clone().only(&MONITOR_SETTINGS);
            let settings = settings.set("healthmonitor.name", self.names.of_pool("monitor", pool));
            let request = Request::Make(MONITORS, body(settings.set("healthmonitor.pool_id", actual.text(ID))));
            let makes = Some((Part::Pool(pool.to_owned()), MONITOR_ID));
            return Some(Step { makes, ..Step::new(Some(request), done, after) });
        };
        if wanted.get(MONITOR_TYPE) == actual.get(MONITOR_TYPE) {
            let request = Request::Change(MONITORS, id, body(wanted.clone().only(differing)));
            return Some(Step::new(Some(request), done, after));
        }
        let done = if wanted.get(MONITOR_TYPE).is_none() { done } else { 0 };
        let none = [&[MONITOR_ID][..], &MONITOR_SETTINGS].concat();
        let after = self.with_settings(pool, &Attributes::default(), &none);
        Some(Step::new(Some(Request::Remove(MONITORS, id)), done, after))
    }

    fn make_listener(&self, part: &Part, port: &Port, attributes: &Attributes) -> Step {
        let object = listener(self.names, port, attributes).set("loadbalancer_id", self.id);
        let object = object.set(POOL_ID, self.pool_id(attributes)).nested();
        let tree = self.tree.clone().part(part.clone(), with_tags(attributes, self.names));
        Step { makes: Some((part.clone(), ID)), ..Step::new(Some(Request::Make(LISTENERS, object)), 1, tree) }
    }

    fn change_listener(&self, part: &Part, attributes: &Attributes, changes: &[Difference]) -> Step {
        let attributes = with_tags(attributes, self.names);
        let places: Vec<&str> = changes.iter().map(|it| place_of(&it.key)).collect();
        let mut changes = told(&attributes.clone().set(POOL_ID, self.pool_id(&attributes)), &places);
        if let Some(headers @ Value::Null) = changes.get_mut("insert_headers") {
            *headers = json!({});
        }
        let id = attributes.text(ID).unwrap_or_default().to_owned();
        let request = Request::Change(LISTENERS, id, changes);
        Step::new(Some(request), 1, self.tree.clone().part(part.clone(), attributes))
    }

    fn pool_id(&self, listener: &Attributes) -> Option<&str> {
        self.tree.pool_attributes(listener.text(POOL)?)?.text(ID)
    }
}

fn differing(wanted: &Attributes, actual: &Attributes, settings: &[&'static str]) -> Vec<&'static str> {
    settings.iter().copied().filter(|key| wanted.get(key) != actual.get(key)).collect()
}

/// Returns these settings as a JSON object. For a setting that is absent, the outermost field of its place is `null`.
fn told(settings: &Attributes, places: &[&str]) -> Value {
    let mut object = settings.clone().only(places).nested();
    for place in places.iter().filter(|place| settings.get(place).is_none()) {
        object[place.split('.').next().unwrap_or_default()] = Value::Null;
    }
    object
}

/// Returns the field of a listener that holds a setting.
fn place_of(setting: &str) -> &str {
    match setting {
        POOL => POOL_ID,
        TAGGED => TAGS,
        other => other,
    }
}

/// Adds the Service's legacy owner tag to the tags of a listener that is tagged.
fn with_tags(attributes: &Attributes, names: Names<'_>) -> Attributes {
    if attributes.get(TAGGED).is_none() {
        return attributes.clone();
    }
    let mut tags = attributes.get(TAGS).and_then(Value::as_array).cloned().unwrap_or_default();
    if !tags.iter().any(|tag| tag == names.sign) {
        tags.push(names.sign.into());
    }
    attributes.clone().set(TAGS, tags)
}

/// Returns a new listener without its pool.
pub(super) fn listener(names: Names<'_>, port: &Port, attributes: &Attributes) -> Attributes {
    let settings = with_tags(attributes, names).only(&LISTENER_SETTINGS);
    settings.set("name", names.of("listener", port)).set("protocol_port", port.number)
}

/// Returns a new pool with these of its settings.
pub(super) fn pool(names: Names<'_>, name: &str, attributes: &Attributes, settings: &[&str]) -> Attributes {
    let settings = attributes.clone().only(settings);
    settings.set("name", names.of_pool("pool", name)).set("protocol", name.rsplit(' ').next())
}
