//! From operations to requests, one at a time: each change makes Octavia refuse others until it is done.

use cloud_provider::Service;
use http::Method;
use provider_kit::load_balancers::{Attributes, Operation, POOL, Part, Port, Targets, Tree};
use provider_kit::transport::Call;
use serde_json::{Map, Value, json};

use super::octavia::{
    ID, Kind, LISTENER_SETTINGS, LISTENERS, MEMBER_PORT, MEMBER_SUBNET, MEMBERS, MONITOR_ID, MONITOR_PORT,
    MONITOR_SETTINGS, MONITORS, POOL_SETTINGS, POOLS, TAGGED, TAGS, X_FORWARDED_FOR,
};
use super::tags::cut;

const MEMBER_SETTINGS: &[&str] = &[MEMBER_PORT, MONITOR_PORT, MEMBER_SUBNET];
const MONITOR_TYPE: &str = "monitor.type";
/// A request, as data.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Request {
    pub(super) method: Method,
    pub(super) path: &'static str,
    /// What stands in for the path's parameter.
    pub(super) id: String,
    pub(super) body: Value,
}

impl Request {
    fn new(method: Method, path: &'static str, id: &str, body: Value) -> Self {
        Self { method, path, id: id.to_owned(), body }
    }

    pub(super) fn call(&self) -> Call {
        let parameters: &[&str] = if self.path.contains('{') { &[&self.id] } else { &[] };
        match self.method {
            Method::POST => Call::post(self.path, parameters).json(&self.body),
            Method::PUT => Call::put(self.path, parameters).json(&self.body),
            _ => Call::delete(self.path, parameters),
        }
    }
}

/// What comes next, and what it leads to.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Step {
    /// `None`: nothing is to be sent for it.
    pub(super) request: Option<Request>,
    /// So many operations are done then; none if the first one takes another request.
    pub(super) done: usize,
    /// The load balancer then.
    pub(super) tree: Tree,
    /// What is made, the key of its id in its settings, and of which kind it is.
    pub(super) makes: Option<(Part, &'static str, Kind)>,
}

/// Whose load balancer it is that changes.
pub(super) struct Subject<'a> {
    pub(super) id: &'a str,
    pub(super) tree: &'a Tree,
    pub(super) names: Names<'a>,
}

/// How new parts are called.
#[derive(Clone, Copy)]
pub(super) struct Names<'a> {
    pub(super) service: &'a Service,
    pub(super) sign: &'a str,
    /// Whether there are tags.
    pub(super) tags: bool,
}

impl Names<'_> {
    /// `listener_0_<sign>`: by the place of the port in the Service.
    pub(super) fn of(&self, kind: &str, port: &Port) -> String {
        let place = self.port(port).map_or(0, |(place, _)| place);
        cut(format!("{kind}_{place}_{}", self.sign))
    }

    /// Where a port is among the Service's, and its node port.
    fn port(&self, port: &Port) -> Option<(usize, Option<i32>)> {
        let ports = self.service.spec.as_ref()?.ports.as_deref()?;
        let mut numbered = ports.iter().enumerate();
        let found = numbered.find(|(_, it)| {
            it.port == i32::from(port.number) && it.protocol.as_deref().unwrap_or("TCP") == port.protocol
        });
        found.map(|(place, it)| (place, it.node_port))
    }

    /// What members of a pool have in common. Where only targets are moved nothing else is known of an empty pool, and of one
    /// with all sorts of members, but the Service's port.
    fn of_members(&self, pool: &str, settings: &Attributes) -> Attributes {
        if settings.number::<u16>(MEMBER_PORT).is_some() {
            return settings.clone();
        }
        let node_port = self.port(&port_of(pool)).and_then(|(_, node_port)| node_port);
        Attributes::default().set(MEMBER_PORT, node_port)
    }

    fn of_pool(&self, kind: &str, pool: &str) -> String {
        self.of(kind, &port_of(pool))
    }
}

/// The port that a pool is for, by its name.
fn port_of(pool: &str) -> Port {
    let (number, rest) = pool.split_once('/').unwrap_or_default();
    let protocol = rest.split(' ').next().unwrap_or_default().to_owned();
    Port { number: number.parse().unwrap_or_default(), protocol: protocol.into() }
}

impl Subject<'_> {
    /// The next step of operations on listeners and pools.
    pub(super) fn next(&self, operations: &[Operation]) -> Option<Step> {
        match operations.first()? {
            Operation::Create { part: Part::Pool(name), attributes } => Some(self.make_pool(name, attributes)),
            Operation::Update { part: Part::Pool(name), attributes, .. } => {
                self.change_pool(name, attributes, operations)
            }
            Operation::AddTargets { pool, .. } | Operation::RemoveTargets { pool, .. } => {
                self.change_pool(pool, self.tree.pool_attributes(pool)?, operations)
            }
            Operation::Create { part: Part::Listener(port), attributes } => Some(self.make_listener(port, attributes)),
            Operation::Update { part: part @ Part::Listener(_), attributes, .. } => {
                Some(self.change_listener(part, attributes, operations))
            }
            Operation::Delete { part: part @ (Part::Listener(_) | Part::Pool(_)) } => {
                let path = match part {
                    Part::Listener(_) => LISTENERS.one,
                    _ => POOLS.one,
                };
                let id = self.tree.parts.get(part).and_then(|it| it.text(ID));
                let request = id.map(|id| Request::new(Method::DELETE, path, id, Value::Null));
                Some(self.step(request, 1, self.tree.after(&operations[..1])))
            }
            _ => None,
        }
    }

    fn step(&self, request: Option<Request>, done: usize, tree: Tree) -> Step {
        Step { request, done, tree, makes: None }
    }

    fn make_pool(&self, name: &str, attributes: &Attributes) -> Step {
        let mut pool = pool_body(self.names, name, attributes);
        pool.insert("loadbalancer_id".to_owned(), self.id.into());
        let request = Request::new(Method::POST, POOLS.all, "", POOLS.body(pool));
        // Its health monitor and its members are next.
        let tree = self.tree.clone().pool(name, attributes.clone().only(&POOL_SETTINGS), Some(Targets::default()));
        Step { makes: Some((Part::Pool(name.to_owned()), ID, POOLS)), ..self.step(Some(request), 0, tree) }
    }

    /// The pool itself, its monitor, its members: what differs first.
    fn change_pool(&self, name: &str, wanted: &Attributes, operations: &[Operation]) -> Option<Step> {
        let actual = self.tree.pool_attributes(name)?;
        let id = actual.text(ID).unwrap_or_default();
        let differs = |keys: &[&str]| keys.iter().any(|key| some(wanted, key) != some(actual, key));
        let (is_different, is_checked_otherwise) = (differs(&POOL_SETTINGS), differs(&MONITOR_SETTINGS));
        // Only an update speaks of settings; what targets there will be, all operations on this pool together.
        let of_members = operations.iter().take_while(|it| touches_members(it, name)).count();
        let after = |keys: &[&str]| {
            let changed =
                keys.iter().fold(Attributes::default(), |all, key| all.set((*key).to_owned(), some(wanted, key)));
            let mut tree = self.tree.clone();
            tree.parts.insert(Part::Pool(name.to_owned()), actual.overlaid_with(&changed));
            tree
        };
        let settings_differ = differs(MEMBER_SETTINGS);
        let members_differ = settings_differ || of_members > usize::from(is_update(&operations[0]));
        if is_different {
            let settings = differing(wanted, actual, &POOL_SETTINGS).map(|key| pool_setting(wanted, key)).collect();
            let settings: Map<String, Value> = settings;
            let request = Request::new(Method::PUT, POOLS.one, id, POOLS.body(settings));
            let done = usize::from(!is_checked_otherwise && !settings_differ);
            return Some(self.step(Some(request), done, after(&POOL_SETTINGS)));
        }
        if is_checked_otherwise {
            return Some(self.change_monitor(
                name,
                wanted,
                actual,
                usize::from(!settings_differ),
                &after(&MONITOR_SETTINGS),
            ));
        }
        let mut tree = after(MEMBER_SETTINGS);
        tree = tree.after(&operations[..of_members].iter().filter(|it| !is_update(it)).cloned().collect::<Vec<_>>());
        let request = members_differ.then(|| {
            let settings = self.names.of_members(name, tree.pool_attributes(name).unwrap_or(actual));
            let members = members(&tree.targets_of(name), &settings);
            Request::new(Method::PUT, MEMBERS.all, id, json!({ "members": members }))
        });
        Some(self.step(request, of_members.max(1), tree))
    }

    /// Another type is another monitor.
    fn change_monitor(&self, name: &str, wanted: &Attributes, actual: &Attributes, done: usize, after: &Tree) -> Step {
        let part = Part::Pool(name.to_owned());
        let (wants, has) = (some(wanted, MONITOR_TYPE), some(actual, MONITOR_TYPE));
        let Some(id) = actual.text(MONITOR_ID).filter(|_| !has.is_null()) else {
            let mut monitor = monitor_body(wanted, |_| true);
            monitor.insert("name".to_owned(), self.names.of_pool("monitor", name).into());
            monitor.insert("pool_id".to_owned(), some(actual, ID));
            let body = MONITORS.body(monitor);
            let request = Request::new(Method::POST, MONITORS.all, "", body);
            let makes = Some((part, MONITOR_ID, MONITORS));
            return Step { makes, ..self.step(Some(request), done, after.clone()) };
        };
        if wants == has {
            let changes = monitor_body(wanted, |key| some(wanted, key) != some(actual, key));
            let request = Request::new(Method::PUT, MONITORS.one, id, MONITORS.body(changes));
            return self.step(Some(request), done, after.clone());
        }
        let none =
            MONITOR_SETTINGS.iter().fold(Attributes::default().set(MONITOR_ID, ()), |all, key| all.set(*key, ()));
        let mut tree = self.tree.clone();
        tree.parts.insert(part, actual.overlaid_with(&none));
        let request = Request::new(Method::DELETE, MONITORS.one, id, Value::Null);
        self.step(Some(request), if wants.is_null() { done } else { 0 }, tree)
    }

    fn make_listener(&self, port: &Port, attributes: &Attributes) -> Step {
        let mut listener = listener_body(self.names, port, attributes);
        listener.insert("loadbalancer_id".to_owned(), self.id.into());
        listener.insert("default_pool_id".to_owned(), self.pool_id(attributes));
        let request = Request::new(Method::POST, LISTENERS.all, "", LISTENERS.body(listener));
        let part = Part::Listener(port.clone());
        let mut tree = self.tree.clone();
        tree.parts.insert(part.clone(), with_tags(attributes, self.names));
        Step { makes: Some((part, ID, LISTENERS)), ..self.step(Some(request), 1, tree) }
    }

    fn change_listener(&self, part: &Part, attributes: &Attributes, operations: &[Operation]) -> Step {
        let Operation::Update { changes, .. } = &operations[0] else { return self.step(None, 1, self.tree.clone()) };
        let mut body = Map::new();
        for key in changes.iter().map(|it| &*it.key) {
            match key {
                POOL => drop(body.insert("default_pool_id".to_owned(), self.pool_id(attributes))),
                TAGGED => drop(body.insert(TAGS.to_owned(), some(&with_tags(attributes, self.names), TAGS))),
                key => body.extend(listener_setting(attributes, key)),
            }
        }
        let (id, is_told) = (attributes.text(ID).unwrap_or_default(), !body.is_empty());
        let request = Request::new(Method::PUT, LISTENERS.one, id, LISTENERS.body(body));
        let mut tree = self.tree.clone();
        tree.parts.insert(part.clone(), with_tags(attributes, self.names));
        self.step(is_told.then_some(request), 1, tree)
    }

    fn pool_id(&self, listener: &Attributes) -> Value {
        let pool = listener.text(POOL).and_then(|pool| self.tree.pool_attributes(pool));
        pool.map(|pool| some(pool, ID)).unwrap_or_default()
    }
}

fn is_update(operation: &Operation) -> bool {
    matches!(operation, Operation::Update { .. })
}

fn touches_members(operation: &Operation, name: &str) -> bool {
    match operation {
        Operation::Update { part: Part::Pool(pool), .. }
        | Operation::AddTargets { pool, .. }
        | Operation::RemoveTargets { pool, .. } => pool == name,
        _ => false,
    }
}

/// A setting; `null` if it is not there.
fn some(settings: &Attributes, key: &str) -> Value {
    settings.get(key).cloned().unwrap_or_default()
}

fn differing<'a>(wanted: &Attributes, actual: &Attributes, keys: &[&'a str]) -> impl Iterator<Item = &'a str> {
    keys.iter().copied().filter(|key| some(wanted, key) != some(actual, key))
}

/// A listener that is tagged has its Service's sign among its tags.
fn with_tags(attributes: &Attributes, names: Names<'_>) -> Attributes {
    if attributes.get(TAGGED).is_none() {
        return attributes.clone();
    }
    let mut tags = some(attributes, TAGS).as_array().cloned().unwrap_or_default();
    if !tags.iter().any(|tag| tag == names.sign) {
        tags.push(names.sign.into());
    }
    attributes.clone().set(TAGS, tags)
}

fn pool_setting(settings: &Attributes, key: &str) -> (String, Value) {
    match key {
        "persistence" => {
            let kind = settings.text(key).map_or(Value::Null, |kind| json!({ "type": kind }));
            ("session_persistence".to_owned(), kind)
        }
        key => (key.to_owned(), some(settings, key)),
    }
}

fn listener_setting(settings: &Attributes, key: &str) -> Option<(String, Value)> {
    if key == X_FORWARDED_FOR {
        let is_on = some(settings, key) == Value::Bool(true);
        let headers = if is_on { json!({"X-Forwarded-For": "true"}) } else { json!({}) };
        return Some(("insert_headers".to_owned(), headers));
    }
    LISTENER_SETTINGS.contains(&key).then(|| (key.to_owned(), some(settings, key)))
}

/// A new listener, but for its pool.
pub(super) fn listener_body(names: Names<'_>, port: &Port, attributes: &Attributes) -> Map<String, Value> {
    let mut body = Map::new();
    body.insert("name".to_owned(), names.of("listener", port).into());
    body.insert("protocol".to_owned(), some(attributes, "protocol"));
    body.insert("protocol_port".to_owned(), port.number.into());
    if names.tags {
        body.insert(TAGS.to_owned(), json!([names.sign]));
    }
    let is_stated = |key: &&str| !some(attributes, key).is_null() && some(attributes, key) != Value::Bool(false);
    let stated = LISTENER_SETTINGS.iter().chain([&X_FORWARDED_FOR]).copied().filter(is_stated);
    body.extend(stated.filter_map(|key| listener_setting(attributes, key)));
    body
}

/// A new pool, without monitor and members.
pub(super) fn pool_body(names: Names<'_>, pool: &str, attributes: &Attributes) -> Map<String, Value> {
    let mut body = Map::new();
    body.insert("name".to_owned(), names.of_pool("pool", pool).into());
    body.insert("protocol".to_owned(), pool.rsplit(' ').next().unwrap_or_default().into());
    let stated = POOL_SETTINGS.iter().filter(|key| !some(attributes, key).is_null());
    body.extend(stated.map(|key| pool_setting(attributes, key)));
    body
}

/// A new pool with all that belongs to it.
pub(super) fn whole_pool(names: Names<'_>, pool: &str, tree: &Tree) -> Map<String, Value> {
    let Some(attributes) = tree.pool_attributes(pool) else { return Map::new() };
    let mut body = pool_body(names, pool, attributes);
    body.insert("members".to_owned(), members(&tree.targets_of(pool), attributes));
    if !some(attributes, MONITOR_TYPE).is_null() {
        let mut monitor = monitor_body(attributes, |_| true);
        monitor.insert("name".to_owned(), names.of_pool("monitor", pool).into());
        body.insert("healthmonitor".to_owned(), monitor.into());
    }
    body
}

fn monitor_body(settings: &Attributes, is_told: impl Fn(&str) -> bool) -> Map<String, Value> {
    let told = MONITOR_SETTINGS.iter().filter(|key| is_told(key) && !some(settings, key).is_null());
    told.map(|key| (key["monitor.".len()..].to_owned(), some(settings, key))).collect()
}

/// All members of a pool.
pub(super) fn members(targets: &Targets, settings: &Attributes) -> Value {
    targets.iter().map(|target| member(target, settings)).collect()
}

/// One member.
pub(super) fn member(target: &str, settings: &Attributes) -> Value {
    let (name, address) = target.rsplit_once(' ').unwrap_or(("", target));
    let mut body = Map::new();
    let all = [
        ("name", name.into()),
        ("address", address.into()),
        ("protocol_port", some(settings, MEMBER_PORT)),
        ("monitor_port", some(settings, MONITOR_PORT)),
        ("subnet_id", some(settings, MEMBER_SUBNET)),
    ];
    body.extend(all.into_iter().filter(|(_, value)| !value.is_null()).map(|(key, value)| (key.to_owned(), value)));
    body.into()
}
