//! Machines of the simulated cloud.

use std::collections::BTreeMap;

use cloud_provider::{AddressType, NodeAddress};
use serde::{Deserialize, Serialize};

use super::DEFAULT_PROJECT;
use super::model::Model;

/// Zones of machines that name none, in turn.
const ZONES: [&str; 3] = ["sim-1a", "sim-1b", "sim-1c"];

/// A machine, as the API shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// ID of the machine, such as `m-000123`; IDs are never reused.
    pub id: String,
    /// Name of the machine, not necessarily unique.
    pub name: String,
    /// The project it belongs to.
    pub project: String,
    /// Zone of the machine, such as `sim-1a`.
    pub zone: String,
    /// Region of the machine, such as `sim-1`.
    pub region: String,
    /// Type of the machine, such as `small`.
    #[serde(rename = "type")]
    pub machine_type: String,
    /// Running or stopped; a terminated machine is not there.
    pub state: MachineState,
    /// Addresses in the form of Kubernetes.
    pub addresses: Vec<NodeAddress>,
    /// Free text by key.
    pub labels: BTreeMap<String, String>,
}

/// Power state of a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MachineState {
    /// The machine is running.
    #[default]
    Running,
    /// The machine is shut down, and exists.
    Stopped,
}

/// A machine to create. Empty fields are filled with defaults.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NewMachine {
    /// Name; the ID if empty.
    pub name: String,
    /// Project; [`DEFAULT_PROJECT`] if empty.
    pub project: String,
    /// Empty: one of three, in turn.
    pub zone: String,
    /// Empty: the zone without its last letter.
    pub region: String,
    /// Type; `small` if empty.
    #[serde(rename = "type")]
    pub machine_type: String,
    /// Power state; running by default.
    pub state: MachineState,
    /// Empty: one internal and one external IPv4 address.
    pub addresses: Vec<NodeAddress>,
    /// Labels; none by default.
    pub labels: BTreeMap<String, String>,
}

/// A change of a machine; `None` leaves a field unchanged.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MachineChange {
    /// New name of the machine.
    pub name: Option<String>,
    /// New type of the machine.
    #[serde(rename = "type")]
    pub machine_type: Option<String>,
    /// New state: running or stopped.
    pub state: Option<MachineState>,
    /// Addresses that replace all existing ones.
    pub addresses: Option<Vec<NodeAddress>>,
    /// Labels that replace all existing ones.
    pub labels: Option<BTreeMap<String, String>>,
}

impl Machine {
    pub(super) fn change(&mut self, change: MachineChange) -> Self {
        let MachineChange {
            name,
            machine_type,
            state,
            addresses,
            labels,
        } = change;
        self.name = name.unwrap_or_else(|| self.name.clone());
        self.machine_type = machine_type.unwrap_or_else(|| self.machine_type.clone());
        self.state = state.unwrap_or(self.state);
        self.addresses = addresses.unwrap_or_else(|| self.addresses.clone());
        self.labels = labels.unwrap_or_else(|| self.labels.clone());
        self.clone()
    }

    /// Returns the internal IP addresses.
    pub(super) fn internal_ips(&self) -> Vec<String> {
        let internal = self
            .addresses
            .iter()
            .filter(|a| a.kind == AddressType::InternalIP);
        internal.map(|a| a.address.to_string()).collect()
    }
}

impl Model {
    pub(super) fn add_machine(&mut self, new: NewMachine) -> Machine {
        let number = self.next_number();
        let or = |text: String, default: &str| {
            if text.is_empty() {
                default.to_owned()
            } else {
                text
            }
        };
        let id = format!("m-{number:06}");
        let zone = or(new.zone, ZONES[number as usize % ZONES.len()]);
        let machine = Machine {
            name: or(new.name, &id),
            project: or(new.project, DEFAULT_PROJECT),
            region: or(
                new.region,
                zone.trim_end_matches(|c: char| c.is_ascii_lowercase()),
            ),
            zone,
            machine_type: or(new.machine_type, "small"),
            state: new.state,
            addresses: if new.addresses.is_empty() {
                generated_addresses(number)
            } else {
                new.addresses
            },
            labels: new.labels,
            id: id.clone(),
        };
        let stored = self.stored(machine.clone());
        self.machines.insert(id, stored);
        machine
    }

    fn machine_id(&self, id_or_name: &str) -> Option<String> {
        if self.machines.contains_key(id_or_name) {
            return Some(id_or_name.to_owned());
        }
        // The newest of its name.
        self.machines
            .values()
            .rev()
            .map(|m| &m.object)
            .find(|m| m.name == id_or_name)
            .map(|m| m.id.clone())
    }

    pub(super) fn machine_mut(&mut self, id_or_name: &str) -> Option<&mut Machine> {
        let id = self.machine_id(id_or_name)?;
        self.machines
            .get_mut(&id)
            .map(|machine| &mut machine.object)
    }

    pub(super) fn take_machines(&mut self, ids_or_names: &[String]) -> Vec<Machine> {
        let ids: Vec<String> = ids_or_names
            .iter()
            .filter_map(|key| self.machine_id(key))
            .collect();
        ids.iter()
            .filter_map(|id| self.machines.remove(id))
            .map(|stored| stored.object)
            .collect()
    }

    pub(super) fn restore_machines(&mut self, machines: Vec<Machine>) {
        for machine in machines {
            let stored = self.stored(machine);
            self.machines.insert(stored.object.id.clone(), stored);
        }
    }

    pub(super) fn remove_machine(&mut self, id_or_name: &str) -> bool {
        self.machine_id(id_or_name)
            .and_then(|id| self.machines.remove(&id))
            .is_some()
    }
}

/// Returns generated addresses: an internal one in 10.0.0.0/8, and an external one in 198.18.0.0/15, which is reserved
/// for benchmarks.
fn generated_addresses(number: u32) -> Vec<NodeAddress> {
    let [_, a, b, c] = number.to_be_bytes();
    vec![
        NodeAddress::new(AddressType::InternalIP, &format!("10.{a}.{b}.{c}")),
        NodeAddress::new(
            AddressType::ExternalIP,
            &format!("198.{}.{b}.{c}", 18 + a % 2),
        ),
    ]
}
