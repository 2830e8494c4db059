//! Load balancers, created and changed by background operations.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::listing::Listed;
use super::model::Model;

/// Desired settings of a load balancer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadBalancerSpec {
    /// Unique in its project.
    pub name: String,
    /// Free text by key.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Listeners of the load balancer.
    #[serde(default)]
    pub listeners: BTreeSet<Listener>,
    /// Ids of the machines that traffic goes to.
    #[serde(default)]
    pub targets: BTreeSet<String>,
    /// `basic` or `premium`; empty: `basic`.
    #[serde(default)]
    pub tier: String,
    /// Networks that may reach it; empty: all.
    #[serde(default)]
    pub source_ranges: BTreeSet<String>,
    /// Health check of the targets; `None`: a connection to the listener's target port.
    #[serde(default)]
    pub health_check: Option<HealthCheck>,
    /// If set, a client stays with its target.
    #[serde(default)]
    pub sticky: bool,
    /// The address that it must have; cannot be changed afterwards. Empty: any.
    #[serde(default)]
    pub address: String,
}

/// An HTTP check of the targets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HealthCheck {
    /// The port on the machines.
    pub port: u16,
    /// Path of the check, such as `/healthz`.
    pub path: String,
}

/// A change by an operator; `None` leaves a field unchanged.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LoadBalancerChange {
    /// If set, deletions are refused.
    pub protected: Option<bool>,
    /// Labels that replace all existing ones.
    pub labels: Option<BTreeMap<String, String>>,
    /// Listeners that replace all existing ones.
    pub listeners: Option<BTreeSet<Listener>>,
    /// Targets that replace all existing ones.
    pub targets: Option<BTreeSet<String>>,
    /// Tier that replaces the existing one.
    pub tier: Option<String>,
}

/// A listener: one port of a load balancer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listener {
    /// The port that clients see.
    pub port: u16,
    /// Protocol of the port: `TCP` or `UDP`.
    pub protocol: String,
    /// The port on the machines.
    pub target_port: u16,
}

/// A load balancer, as the API shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadBalancer {
    /// ID of the load balancer, such as `lb-000007`.
    pub id: String,
    /// Status of the load balancer: pending while an operation runs.
    pub status: LoadBalancerStatus,
    /// Address of the load balancer, once it was active for the first time.
    pub ip: Option<String>,
    /// If set, deletions are refused.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub protected: bool,
    /// The operation that the request started, in the answer to one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// Settings of the load balancer.
    #[serde(flatten)]
    pub spec: LoadBalancerSpec,
}

/// Status of a load balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LoadBalancerStatus {
    /// The load balancer is being created or changed; changes are refused with 409.
    Pending,
    /// The load balancer works.
    Active,
}

pub(super) struct StoredLoadBalancer {
    pub(super) id: String,
    pub(super) project: String,
    pub(super) spec: LoadBalancerSpec,
    pub(super) is_protected: bool,
    pub(super) ip: String,
    ready_for_the_first_time: Instant,
    ready: Instant,
}

impl StoredLoadBalancer {
    pub(super) fn is_pending(&self) -> bool {
        self.ready > Instant::now()
    }

    pub(super) fn show(&self) -> LoadBalancer {
        let status = if self.is_pending() {
            LoadBalancerStatus::Pending
        } else {
            LoadBalancerStatus::Active
        };
        let has_address = self.ready_for_the_first_time <= Instant::now();
        LoadBalancer {
            id: self.id.clone(),
            status,
            ip: has_address.then(|| self.ip.clone()),
            protected: self.is_protected,
            operation: None,
            spec: self.spec.clone(),
        }
    }
}

impl Listed for StoredLoadBalancer {
    fn project(&self) -> &str {
        &self.project
    }
    fn id(&self) -> &str {
        &self.id
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
        self.load_balancers
            .values()
            .map(|stored| stored.object.show())
            .collect()
    }

    pub(super) fn add_load_balancer(
        &mut self,
        project: &str,
        mut spec: LoadBalancerSpec,
    ) -> LoadBalancer {
        if spec.tier.is_empty() {
            spec.tier = "basic".to_owned();
        }
        let number = self.next_number();
        let id = format!("lb-{number:06}");
        let (operation, ready) = self.start_operation(project, &id);
        let [_, _, a, b] = number.to_be_bytes();
        let object = StoredLoadBalancer {
            id: id.clone(),
            project: project.to_owned(),
            ip: if spec.address.is_empty() {
                format!("198.19.{a}.{b}")
            } else {
                spec.address.clone()
            },
            spec,
            is_protected: false,
            ready_for_the_first_time: ready,
            ready,
        };
        let shown = LoadBalancer {
            operation: Some(operation),
            ..object.show()
        };
        let stored = self.stored(object);
        self.load_balancers.insert(id, stored);
        shown
    }

    /// Changes a load balancer, which the caller has checked to be active; returns `None` if it does not exist.
    pub(super) fn change_load_balancer(
        &mut self,
        project: &str,
        id: &str,
        spec: LoadBalancerSpec,
    ) -> Option<LoadBalancer> {
        let (operation, ready) = self.start_operation(project, id);
        let object = &mut self.load_balancers.get_mut(id)?.object;
        (object.spec, object.ready) = (spec, ready);
        Some(LoadBalancer {
            operation: Some(operation),
            ..object.show()
        })
    }

    fn load_balancer_mut(&mut self, id_or_name: &str) -> Option<&mut StoredLoadBalancer> {
        let mut all = self
            .load_balancers
            .values_mut()
            .map(|stored| &mut stored.object);
        all.find(|load_balancer| {
            load_balancer.id == id_or_name || load_balancer.spec.name == id_or_name
        })
    }

    /// Changes a load balancer as an operator does: at once, also during an operation.
    pub(super) fn edit_load_balancer(
        &mut self,
        id_or_name: &str,
        change: LoadBalancerChange,
    ) -> Option<LoadBalancer> {
        let object = self.load_balancer_mut(id_or_name)?;
        let LoadBalancerChange {
            protected,
            labels,
            listeners,
            targets,
            tier,
        } = change;
        object.is_protected = protected.unwrap_or(object.is_protected);
        let spec = &mut object.spec;
        spec.labels = labels.unwrap_or_else(|| std::mem::take(&mut spec.labels));
        spec.listeners = listeners.unwrap_or_else(|| std::mem::take(&mut spec.listeners));
        spec.targets = targets.unwrap_or_else(|| std::mem::take(&mut spec.targets));
        spec.tier = tier.unwrap_or_else(|| std::mem::take(&mut spec.tier));
        Some(object.show())
    }

    /// Removes a load balancer as an operator does, also a protected one.
    pub(super) fn remove_load_balancer(&mut self, id_or_name: &str) -> bool {
        let id = self
            .load_balancer_mut(id_or_name)
            .map(|load_balancer| load_balancer.id.clone());
        id.is_some_and(|id| self.load_balancers.remove(&id).is_some())
    }
}
