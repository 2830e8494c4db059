//! Load balancers: made and changed in the background.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::listing::Listed;
use super::model::Model;

/// What a load balancer shall be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadBalancerSpec {
    /// Unique in its project.
    pub name: String,
    /// Free text by key.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// What it listens on.
    #[serde(default)]
    pub listeners: BTreeSet<Listener>,
    /// Ids of the machines that traffic goes to.
    #[serde(default)]
    pub targets: BTreeSet<String>,
}

/// One port of a load balancer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listener {
    /// The port that clients see.
    pub port: u16,
    /// `TCP` or `UDP`.
    pub protocol: String,
    /// The port on the machines.
    pub target_port: u16,
}

/// A load balancer, as the API shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadBalancer {
    /// Such as `lb-000007`.
    pub id: String,
    /// Whether an operation runs on it.
    pub status: LoadBalancerStatus,
    /// Its address, once it was active for the first time.
    pub ip: Option<String>,
    /// The operation that the request started, in the answer to one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// What it shall be.
    #[serde(flatten)]
    pub spec: LoadBalancerSpec,
}

/// Whether an operation runs on a load balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LoadBalancerStatus {
    /// It is being made or changed; changes are refused with 409.
    Pending,
    /// It works.
    Active,
}

pub(super) struct StoredLoadBalancer {
    pub(super) id: String,
    pub(super) project: String,
    pub(super) spec: LoadBalancerSpec,
    ip: String,
    ready_for_the_first_time: Instant,
    ready: Instant,
}

impl StoredLoadBalancer {
    pub(super) fn is_pending(&self) -> bool {
        self.ready > Instant::now()
    }

    pub(super) fn show(&self) -> LoadBalancer {
        let status = if self.is_pending() { LoadBalancerStatus::Pending } else { LoadBalancerStatus::Active };
        let has_address = self.ready_for_the_first_time <= Instant::now();
        LoadBalancer {
            id: self.id.clone(),
            status,
            ip: has_address.then(|| self.ip.clone()),
            operation: None,
            spec: self.spec.clone(),
        }
    }
}

impl Listed for StoredLoadBalancer {
    fn project(&self) -> &str {
        &self.project
    }
    fn name(&self) -> &str {
        &self.spec.name
    }
    fn label(&self, key: &str) -> Option<&str> {
        self.spec.labels.get(key).map(String::as_str)
    }
}

impl Model {
    pub(super) fn load_balancers(&self) -> Vec<LoadBalancer> {
        self.load_balancers.values().map(|stored| stored.object.show()).collect()
    }

    pub(super) fn add_load_balancer(&mut self, project: &str, spec: LoadBalancerSpec) -> LoadBalancer {
        let number = self.next_number();
        let id = format!("lb-{number:06}");
        let (operation, ready) = self.start_operation(project, &id);
        let [_, _, a, b] = number.to_be_bytes();
        let object = StoredLoadBalancer {
            id: id.clone(),
            project: project.to_owned(),
            spec,
            ip: format!("198.19.{a}.{b}"),
            ready_for_the_first_time: ready,
            ready,
        };
        let shown = LoadBalancer { operation: Some(operation), ..object.show() };
        let stored = self.stored(object);
        self.load_balancers.insert(id, stored);
        shown
    }

    /// The caller has checked that it is active; `None` if there is none.
    pub(super) fn change_load_balancer(
        &mut self,
        project: &str,
        id: &str,
        spec: LoadBalancerSpec,
    ) -> Option<LoadBalancer> {
        let (operation, ready) = self.start_operation(project, id);
        let object = &mut self.load_balancers.get_mut(id)?.object;
        (object.spec, object.ready) = (spec, ready);
        Some(LoadBalancer { operation: Some(operation), ..object.show() })
    }
}
