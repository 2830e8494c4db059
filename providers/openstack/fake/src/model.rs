//! State of the cloud: the objects of all projects.

use std::collections::{BTreeMap, BTreeSet};

use fake_cloud::{Clock, Operations};
use serde_json::{Map, Value};

use crate::keystone::Identity;
use crate::refusal::Refusal;
use crate::{Options, PROJECT_ID};

/// An object as the API shows it, without fields that are computed from other objects.
pub(crate) type Object = Map<String, Value>;

/// The kinds of objects. A pool's members are with the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Server,
    Flavor,
    Network,
    Subnet,
    Port,
    FloatingIp,
    SecurityGroup,
    Rule,
    Router,
    Balancer,
    Listener,
    Pool,
    Monitor,
    Secret,
    Container,
}

impl Kind {
    /// Returns the key of one object, the key of a list.
    pub(crate) fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Server => ("server", "servers"),
            Self::Flavor => ("flavor", "flavors"),
            Self::Network => ("network", "networks"),
            Self::Subnet => ("subnet", "subnets"),
            Self::Port => ("port", "ports"),
            Self::FloatingIp => ("floatingip", "floatingips"),
            Self::SecurityGroup => ("security_group", "security_groups"),
            Self::Rule => ("security_group_rule", "security_group_rules"),
            Self::Router => ("router", "routers"),
            Self::Balancer => ("loadbalancer", "loadbalancers"),
            Self::Listener => ("listener", "listeners"),
            Self::Pool => ("pool", "pools"),
            Self::Monitor => ("healthmonitor", "healthmonitors"),
            Self::Secret => ("secret", "secrets"),
            Self::Container => ("container", "containers"),
        }
    }

    /// Returns the service's error for an object that does not exist.
    pub(crate) fn not_found(self, id: &str) -> Refusal {
        let (kind, message) = match self {
            Self::Server => ("itemNotFound", format!("Instance {id} could not be found.")),
            Self::Flavor => ("itemNotFound", format!("Flavor {id} could not be found.")),
            Self::Network => (
                "NetworkNotFound",
                format!("Network {id} could not be found."),
            ),
            Self::Subnet => ("SubnetNotFound", format!("Subnet {id} could not be found.")),
            Self::Port => ("PortNotFound", format!("Port {id} could not be found.")),
            Self::FloatingIp => (
                "FloatingIPNotFound",
                format!("Floating IP {id} could not be found"),
            ),
            Self::SecurityGroup => (
                "SecurityGroupNotFound",
                format!("Security group {id} does not exist"),
            ),
            Self::Rule => (
                "SecurityGroupRuleNotFound",
                format!("Security group rule {id} does not exist"),
            ),
            Self::Router => ("RouterNotFound", format!("Router {id} could not be found")),
            Self::Balancer => ("", format!("Load Balancer {id} not found.")),
            Self::Listener => ("", format!("Listener {id} not found.")),
            Self::Pool => ("", format!("Pool {id} not found.")),
            Self::Monitor => ("", format!("Health Monitor {id} not found.")),
            Self::Secret | Self::Container => (
                "",
                "Not Found. Sorry but your secret or container is in another castle.".to_owned(),
            ),
        };
        Refusal::new(404, kind, message)
    }
}

/// Returns a text of an object; empty if it has none.
pub(crate) fn text<'a>(object: &'a Object, key: &str) -> &'a str {
    object.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Returns a list of an object; empty if it has none.
pub(crate) fn list<'a>(object: &'a Object, key: &str) -> &'a [Value] {
    object
        .get(key)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// Sets a field of an object.
pub(crate) fn set(object: &mut Object, key: &str, value: impl Into<Value>) {
    object.insert(key.to_owned(), value.into());
}

/// The whole state of the cloud.
pub(crate) struct Model {
    pub(crate) options: Options,
    pub(crate) clock: Clock,
    pub(crate) identity: Identity,
    pub(crate) objects: BTreeMap<Kind, BTreeMap<String, Object>>,
    /// Members by pool, in the order of their creation.
    pub(crate) members: BTreeMap<String, Vec<Object>>,
    /// Operations of Octavia's worker, by load balancer.
    pub(crate) work: Operations,
    /// IDs of objects that are hidden from the project.
    pub(crate) hidden: BTreeSet<String>,
    /// The most objects of a kind in a project.
    pub(crate) quotas: BTreeMap<Kind, usize>,
    /// The most extra routes of a router.
    pub(crate) route_quota: usize,
    made: u64,
    /// The last address that was given away, by subnet.
    pub(crate) cursors: BTreeMap<String, u32>,
    /// Addresses that requests chose, which are not assigned again.
    pub(crate) chosen: BTreeSet<String>,
}

impl Model {
    pub(crate) fn new(options: Options) -> Self {
        Self {
            options,
            clock: Clock::default(),
            identity: Identity::default(),
            objects: BTreeMap::new(),
            members: BTreeMap::new(),
            work: Operations::default(),
            hidden: BTreeSet::new(),
            quotas: BTreeMap::new(),
            route_quota: usize::MAX,
            made: 0,
            cursors: BTreeMap::new(),
            chosen: BTreeSet::new(),
        }
    }

    /// Returns a new id: a UUID, growing.
    pub(crate) fn new_id(&mut self) -> String {
        self.made += 1;
        format!(
            "{:08x}-0c10-4d00-8000-{:012x}",
            self.made,
            self.made * 0x9e37 % 0xffff_ffff
        )
    }

    /// Returns all objects of a kind.
    pub(crate) fn all(&self, kind: Kind) -> impl DoubleEndedIterator<Item = &Object> {
        self.objects
            .get(&kind)
            .into_iter()
            .flat_map(BTreeMap::values)
    }

    /// Returns all objects of a kind for changes.
    pub(crate) fn all_mut(&mut self, kind: Kind) -> impl Iterator<Item = &mut Object> {
        self.objects
            .get_mut(&kind)
            .into_iter()
            .flat_map(BTreeMap::values_mut)
    }

    /// Returns an object of any project.
    pub(crate) fn get(&self, kind: Kind, id: &str) -> Option<&Object> {
        self.objects.get(&kind)?.get(id)
    }

    pub(crate) fn get_mut(&mut self, kind: Kind, id: &str) -> Option<&mut Object> {
        self.objects.get_mut(&kind)?.get_mut(id)
    }

    /// Returns an object that the project may see.
    pub(crate) fn one(&self, kind: Kind, project: &str, id: &str) -> Result<&Object, Refusal> {
        self.get(kind, id)
            .filter(|id| self.is_visible(kind, id, project))
            .ok_or_else(|| kind.not_found(id))
    }

    /// Returns an object that the project owns.
    pub(crate) fn owned(
        &mut self,
        kind: Kind,
        project: &str,
        id: &str,
    ) -> Result<&mut Object, Refusal> {
        let found = self.objects.get_mut(&kind).and_then(|all| all.get_mut(id));
        found
            .filter(|object| text(object, "project_id") == project)
            .ok_or_else(|| kind.not_found(id))
    }

    /// Returns `true` if a project sees an object: its own objects, and shared ones.
    pub(crate) fn is_visible(&self, kind: Kind, object: &Object, project: &str) -> bool {
        let is_true = |key: &str| object.get(key) == Some(&Value::Bool(true));
        let is_everybodys = kind == Kind::Flavor || is_true("router:external") || is_true("shared");
        !self.hidden.contains(text(object, "id"))
            && (text(object, "project_id") == project || is_everybodys)
    }

    /// Adds an object with its ID; the caller has checked the quota.
    pub(crate) fn insert(&mut self, kind: Kind, object: Object) {
        self.objects
            .entry(kind)
            .or_default()
            .insert(text(&object, "id").to_owned(), object);
    }

    pub(crate) fn remove(&mut self, kind: Kind, id: &str) -> Option<Object> {
        self.objects.get_mut(&kind)?.remove(id)
    }

    /// Checks that the project's quota permits another object.
    pub(crate) fn has_room(&self, kind: Kind, project: &str) -> Result<(), Refusal> {
        let Some(most) = self.quotas.get(&kind) else {
            return Ok(());
        };
        if self
            .all(kind)
            .filter(|object| text(object, "project_id") == project)
            .count()
            < *most
        {
            return Ok(());
        }
        let words = match kind {
            Kind::Balancer => "Load Balancer",
            Kind::Listener => "Listener",
            Kind::Pool => "Pool",
            Kind::Monitor => "Health Monitor",
            _ => {
                let message = format!("Quota exceeded for resources: ['{}'].", kind.words().0);
                return Err(Refusal::new(409, "OverQuota", message));
            }
        };
        Err(Refusal::new(
            403,
            "",
            format!("Quota has been met for resources: {words}"),
        ))
    }

    /// Updates the revision and the time of a changed object.
    pub(crate) fn touched(clock: &Clock, object: &mut Object) {
        let revision = object
            .get("revision_number")
            .and_then(Value::as_u64)
            .unwrap_or_default();
        set(object, "revision_number", revision + 1);
        set(object, "updated_at", clock.utc());
    }

    /// Returns the project in which controls create objects.
    pub(crate) fn home() -> &'static str {
        PROJECT_ID
    }
}
