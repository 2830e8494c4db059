//! Routes of the cloud's network.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::listing::Listed;
use super::model::Model;

/// A route to create.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewRoute {
    /// The range, such as `10.244.3.0/24`. Unique in its project.
    pub destination: String,
    /// The id of the machine that it leads to.
    pub machine: String,
    /// The machine's addresses that it leads to; empty: the machine's internal ones at this moment.
    #[serde(default)]
    pub next_hop: Vec<String>,
    /// Free text by key.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

/// A route, as the API shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CloudRoute {
    /// ID of the route, such as `r-000009`.
    pub id: String,
    /// Name of the machine; empty if it no longer exists.
    pub machine_name: String,
    /// If set, the machine no longer exists, and traffic to the route is dropped.
    pub blackhole: bool,
    /// If set, deletions are refused.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub protected: bool,
    /// Settings of the route.
    #[serde(flatten)]
    pub route: NewRoute,
}

pub(super) struct StoredRoute {
    pub(super) id: String,
    pub(super) project: String,
    pub(super) route: NewRoute,
    pub(super) is_protected: bool,
}

/// Lists identify a route by its range, which is unique in its project.
impl Listed for StoredRoute {
    fn project(&self) -> &str {
        &self.project
    }
    fn id(&self) -> &str {
        &self.id
    }
    fn name(&self) -> &str {
        &self.route.destination
    }
    fn label(&self, key: &str) -> Option<&str> {
        self.route.labels.get(key).map(String::as_str)
    }
}

impl Model {
    pub(super) fn show_route(&self, stored: &StoredRoute) -> CloudRoute {
        let machine = self
            .machines
            .get(&stored.route.machine)
            .map(|machine| &machine.object);
        CloudRoute {
            id: stored.id.clone(),
            machine_name: machine
                .map(|machine| machine.name.clone())
                .unwrap_or_default(),
            blackhole: machine.is_none(),
            protected: stored.is_protected,
            route: stored.route.clone(),
        }
    }

    pub(super) fn routes(&self) -> Vec<CloudRoute> {
        self.routes
            .values()
            .map(|stored| self.show_route(&stored.object))
            .collect()
    }

    pub(super) fn add_route(&mut self, project: &str, mut route: NewRoute) -> CloudRoute {
        if route.next_hop.is_empty()
            && let Some(machine) = self.machines.get(&route.machine)
        {
            route.next_hop = machine.object.internal_ips();
        }
        let id = format!("r-{:06}", self.next_number());
        let object = StoredRoute {
            id: id.clone(),
            project: project.to_owned(),
            route,
            is_protected: false,
        };
        let shown = self.show_route(&object);
        let stored = self.stored(object);
        self.routes.insert(id, stored);
        shown
    }

    /// Protects a route as an operator does; returns `false` if no route has this ID or range.
    pub(super) fn protect_route(&mut self, id_or_destination: &str, protected: bool) -> bool {
        let mut routes = self.routes.values_mut().map(|stored| &mut stored.object);
        let found = routes.find(|route| {
            route.id == id_or_destination || route.route.destination == id_or_destination
        });
        found.map(|route| route.is_protected = protected).is_some()
    }
}
