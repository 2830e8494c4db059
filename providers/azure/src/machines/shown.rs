//! Machines and network interfaces as the API shows them.

use std::collections::HashMap;
use std::net::IpAddr;

use serde::Deserialize;
use serde_json::Value;

use super::{VirtualMachine, place};
use crate::arm::{items, name_of, text};

/// A machine as the API shows it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Shown {
    pub(super) id: String,
    #[serde(default)]
    pub(super) name: String,
    pub(super) location: Option<String>,
    #[serde(default)]
    pub(super) zones: Vec<String>,
    pub(super) sku: Option<Value>,
    #[serde(default)]
    pub(super) properties: Value,
}

impl Shown {
    pub(super) fn is_going(&self) -> bool {
        text(&self.properties, "/provisioningState").eq_ignore_ascii_case("Deleting")
    }

    /// Returns the machine with its network interfaces.
    pub(super) fn machine(
        &self,
        region: &str,
        view: Option<&Value>,
        nics: &Nics,
    ) -> Option<VirtualMachine> {
        let place = place(&self.id)?;
        let is_in_a_set = place.scale_set.is_some()
            || !text(&self.properties, "/virtualMachineScaleSet/id").is_empty();
        let name = match text(&self.properties, "/osProfile/computerName") {
            name if is_in_a_set && !name.is_empty() => name,
            _ => &self.name,
        };
        let size = match self.sku.as_ref().map(|sku| text(sku, "/name")) {
            Some(size) if place.scale_set.is_some() && !size.is_empty() => size,
            _ => text(&self.properties, "/hardwareProfile/vmSize"),
        };
        let region = self
            .location
            .as_deref()
            .unwrap_or(region)
            .to_ascii_lowercase()
            .replace(' ', "");
        let instance_view = &self.properties["instanceView"];
        let view = if instance_view.is_object() {
            Some(instance_view)
        } else {
            view
        };
        let zone = match self.zones.first() {
            Some(zone) => Some(format!("{region}-{zone}").to_ascii_lowercase()),
            // Machines in no zone are in a fault domain; without one, in the first.
            None => view.map(|view| {
                view["platformFaultDomain"]
                    .as_u64()
                    .unwrap_or_default()
                    .to_string()
            }),
        };
        let interface = primary_interface(&self.properties).map(str::to_ascii_lowercase);
        let id = place.id();
        let key = interface
            .as_deref()
            .filter(|_| place.scale_set.is_none())
            .unwrap_or(&id);
        let (internal, external) = nics.addresses(key);
        let set = ["/virtualMachineScaleSet/id", "/availabilitySet/id"]
            .map(|availability_set_id| name_of(text(&self.properties, availability_set_id)));
        Some(VirtualMachine {
            set: place
                .scale_set
                .unwrap_or(if set[0].is_empty() { set[1] } else { set[0] })
                .into(),
            name: name.to_ascii_lowercase().into(),
            provider_id: place.provider_id().into(),
            size: size.into(),
            region: region.into(),
            zone: zone.map(Into::into),
            internal,
            external,
            is_off: view.map(|view| is_off(&self.properties, view)),
            interface: key.into(),
            id: id.into(),
        })
    }
}

/// Returns `true` if a machine is shut down. A machine that is being created or changed is not.
fn is_off(properties: &Value, view: &Value) -> bool {
    let codes = view["statuses"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|status| text(status, "/code"));
    let is_settled = match text(properties, "/provisioningState") {
        // The list of states shows it among the others.
        "" => codes
            .clone()
            .any(|code| code.eq_ignore_ascii_case("ProvisioningState/succeeded")),
        state => state.eq_ignore_ascii_case("Succeeded"),
    };
    let power = { codes }
        .find_map(|code| code.strip_prefix("PowerState/"))
        .unwrap_or_default()
        .to_ascii_lowercase();
    is_settled && ["stopped", "deallocated", "deallocating"].contains(&&*power)
}

pub(super) fn primary_interface(properties: &Value) -> Option<&str> {
    let all = properties["networkProfile"]["networkInterfaces"].as_array()?;
    let primary = all
        .iter()
        .find(|object| object["properties"]["primary"] == true)
        .or(all.first())?;
    primary["id"].as_str()
}

/// The addresses of network interfaces, by the ID of the interface or of the instance, in lower case.
#[derive(Default)]
pub(super) struct Nics(
    HashMap<String, Vec<(IpAddr, Option<String>)>>,
    HashMap<String, IpAddr>,
);

impl Nics {
    pub(super) fn add(&mut self, nic: &Value) {
        let id = text(nic, "/id").to_ascii_lowercase();
        let key = match id.split_once("/networkinterfaces/") {
            // Only the primary interface of an instance counts.
            Some((instance, _)) if instance.contains("/virtualmachinescalesets/") => {
                if nic["properties"]["primary"] == false {
                    return;
                }
                place(instance).map_or_else(|| instance.to_owned(), |place| place.id())
            }
            _ => id,
        };
        let mut configurations: Vec<&Value> = items(nic, "ipConfigurations").collect();
        configurations.sort_by_key(|configuration| configuration["properties"]["primary"] != true);
        let address = |object: &&Value| {
            let public = object
                .pointer("/properties/publicIPAddress/id")
                .and_then(Value::as_str);
            Some((
                text(object, "/properties/privateIPAddress").parse().ok()?,
                public.map(str::to_ascii_lowercase),
            ))
        };
        self.0
            .insert(key, configurations.iter().filter_map(address).collect());
    }

    pub(super) fn add_public(&mut self, address: &Value) {
        if let Ok(ip) = text(address, "/properties/ipAddress").parse() {
            self.1.insert(text(address, "/id").to_ascii_lowercase(), ip);
        }
    }

    /// Returns the IDs of the public addresses.
    pub(super) fn public_ids(&self) -> impl Iterator<Item = &str> {
        self.0
            .values()
            .flatten()
            .filter_map(|(_, public)| public.as_deref())
    }

    fn addresses(&self, key: &str) -> (Box<[IpAddr]>, Box<[IpAddr]>) {
        let all = self.0.get(key).map(Vec::as_slice).unwrap_or_default();
        let public = all
            .iter()
            .filter_map(|(_, public)| self.1.get(public.as_ref()?).copied());
        (all.iter().map(|(ip, _)| *ip).collect(), public.collect())
    }
}
