//! Virtual machines as machines of Nodes: standalone, in availability sets, and in scale sets of both kinds.

mod shown;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use cloud_provider::{Error, InstanceMetadata, Node, Result, async_trait};
use futures::future::try_join_all;
use parking_lot::Mutex;
use provider_kit::addresses::{AddressFamily, Addresses};
use provider_kit::inventory::{Machine, MachineSource, SharedPriority};
use provider_kit::json_path::take;
use provider_kit::paging::ListResult;
use provider_kit::transport::{Method, Priority};
use serde_json::Value;

use self::shown::{Nics, Shown, primary_interface};
use crate::NAME;
use crate::arm::{
    Arm, INSTANCE_INTERFACES, INSTANCES, INTERFACES, MACHINES, PUBLIC_ADDRESSES, ResourceType,
    SCALE_SETS, SET_ADDRESSES, SET_INTERFACES, SharedArm, id_of, name_of, place_of, text,
};
use crate::config::{Config, ResourceGroup};

/// A virtual machine, as far as a Node needs it: thousands are kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct VirtualMachine {
    /// ID in lower case.
    id: Box<str>,
    name: Box<str>,
    provider_id: Box<str>,
    size: Box<str>,
    region: Box<str>,
    /// Zone or fault domain; `None` if unknown, because a list does not show fault domains.
    zone: Option<Box<str>>,
    internal: Box<[IpAddr]>,
    external: Box<[IpAddr]>,
    /// `None` if unknown, because a list does not show the power state.
    is_off: Option<bool>,
    /// Name of the scale set or availability set.
    set: Box<str>,
    /// ID of the primary network interface in lower case; for an instance of a uniform scale set, of the instance.
    pub(crate) interface: Box<str>,
}

impl VirtualMachine {
    pub(crate) fn set_name(&self) -> Box<str> {
        self.set.clone()
    }

    /// Returns `true` if the machine may have an address of this family: IPv4 addresses may not be known yet.
    pub(crate) fn has_family(&self, is_ipv6: bool) -> bool {
        !is_ipv6 || self.internal.iter().any(IpAddr::is_ipv6)
    }

    /// Returns `true` if the power state was read.
    pub(crate) fn has_state(&self) -> bool {
        self.is_off.is_some()
    }
}

impl Machine for VirtualMachine {
    fn id(&self) -> &str {
        &self.id
    }
    fn name(&self) -> &str {
        &self.name
    }
    fn is_shut_down(&self) -> bool {
        self.is_off == Some(true)
    }
    /// Returns `false` without an address or a zone: then the machine is read on its own.
    fn is_settled(&self) -> bool {
        !self.internal.is_empty() && self.zone.is_some()
    }
}

/// The place of a machine: a standalone one, or an instance of a uniform scale set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place<'a> {
    pub(crate) group: ResourceGroup,
    pub(crate) scale_set: Option<&'a str>,
    /// Name of the machine, or number of the instance.
    pub(crate) name: &'a str,
}

/// Reads an ID or a provider ID in any spelling: of any case, and with `<scale set>_<number>` for an instance.
pub(crate) fn place(id: &str) -> Option<Place<'_>> {
    let path = id.split_once("://").map_or(id, |(_, path)| path);
    let parts: Vec<&str> = path.strip_prefix('/')?.split('/').collect();
    let named = |index: usize, name: &str| {
        parts
            .get(index)
            .is_some_and(|text| text.eq_ignore_ascii_case(name))
    };
    let is_machine = named(0, "subscriptions")
        && named(2, "resourceGroups")
        && named(4, "providers")
        && named(5, "Microsoft.Compute");
    if !is_machine || parts.iter().any(|part| part.is_empty()) {
        return None;
    }
    let group = ResourceGroup {
        subscription: parts[1].to_owned(),
        name: parts[3].to_ascii_lowercase(),
    };
    match parts.len() {
        8 if named(6, "virtualMachines") => Some(Place {
            group,
            scale_set: None,
            name: parts[7],
        }),
        10 if named(6, "virtualMachineScaleSets") && named(8, "virtualMachines") => {
            let number = parts[9].rsplit('_').next()?;
            number
                .bytes()
                .all(|byte| byte.is_ascii_digit())
                .then_some(Place {
                    group,
                    scale_set: Some(parts[7]),
                    name: number,
                })
        }
        _ => None,
    }
}

impl Place<'_> {
    /// Returns the provider ID as the Go cloud controller manager writes it.
    pub(crate) fn provider_id(&self) -> String {
        let path = self.scale_set.map_or_else(
            || format!("virtualMachines/{}", self.name),
            |set| {
                format!(
                    "virtualMachineScaleSets/{set}/virtualMachines/{}",
                    self.name
                )
            },
        );
        let ResourceGroup { subscription, name } = &self.group;
        format!(
            "{NAME}:///subscriptions/{subscription}/resourceGroups/{name}/providers/Microsoft.Compute/{path}"
        )
    }

    /// Returns the ID in lower case, by which machines are compared.
    pub(crate) fn id(&self) -> String {
        let id = self.provider_id().to_ascii_lowercase();
        id.split_once("://")
            .map(|(_, path)| path.to_owned())
            .unwrap_or_default()
    }
}

/// The virtual machines of the subscription.
#[derive(Clone)]
pub(crate) struct Machines {
    pub(crate) arm: SharedArm,
    pub(crate) config: Arc<Config>,
    /// Resource groups that labels of Nodes name, besides the configured one.
    pub(crate) groups: Arc<Mutex<BTreeSet<String>>>,
}

/// Returns a reading of several lists together.
fn reading(
    items: Vec<VirtualMachine>,
    pages: usize,
    reason: Option<Error>,
) -> ListResult<VirtualMachine> {
    match (ListResult::of(items), reason) {
        (reading, Some(reason)) => ListResult::Partial {
            items: reading.into_items(),
            pages,
            reason,
        },
        (ListResult::Complete { listing, .. }, None) => ListResult::Complete { listing, pages },
        (reading, None) => reading,
    }
}

impl Machines {
    fn all_groups(&self) -> Vec<ResourceGroup> {
        let own_group = self.config.nodes.name.clone();
        let others = self.groups.lock().clone();
        let names: BTreeSet<String> = others.into_iter().chain([own_group]).collect();
        let subscription = &self.config.nodes.subscription;
        names
            .into_iter()
            .map(|name| ResourceGroup {
                subscription: subscription.clone(),
                name,
            })
            .collect()
    }

    /// Reads the machines of one group: one list each of machines, interfaces and scale sets, and two for each uniform
    /// scale set.
    async fn of_group(
        &self,
        group: &ResourceGroup,
        shared_priority: &SharedPriority,
    ) -> Result<ListResult<VirtualMachine>> {
        let list = async |of: &'static ResourceType, is_used: bool| match is_used {
            true => {
                self.arm
                    .list(of, of.list(group, &[]), shared_priority)
                    .await
            }
            false => Ok(ListResult::of(Vec::new())),
        };
        let (machines, sets) = futures::try_join!(
            list(&MACHINES, self.config.has_machines()),
            list(&SCALE_SETS, self.config.has_scale_sets())
        )?;
        let mut nics = Nics::default();
        let mut reason = None;
        let mut pages = 0;
        let mut keep = |reading: ListResult<Value>, what: &str| {
            pages += reading.pages();
            if let ListResult::Partial { reason: error, .. } = &reading {
                reason = Some(error.clone().context(format!("partial list of {what}")));
            }
            reading.into_items()
        };
        let machines = keep(machines, "machines");
        let sets = keep(sets, "scale sets");
        let mut views = HashMap::new();
        if !machines.is_empty() {
            let list = list(&INTERFACES, true).await?;
            keep(list, "network interfaces")
                .iter()
                .for_each(|nic| nics.add(nic));
            views = self.views(group, shared_priority).await;
        }
        let is_uniform =
            |object: &&Value| text(object, "/properties/orchestrationMode") != "Flexible";
        let uniform = sets
            .iter()
            .filter(is_uniform)
            .map(|set| self.of_scale_set(group, text(set, "/name"), shared_priority));
        let mut all: Vec<Value> = machines;
        for (instances, interfaces) in try_join_all(uniform).await? {
            keep(interfaces, "network interfaces")
                .iter()
                .for_each(|nic| nics.add(nic));
            all.extend(keep(instances, "instances"));
        }
        if nics.public_ids().next().is_some() {
            list(&PUBLIC_ADDRESSES, true)
                .await?
                .into_items()
                .iter()
                .for_each(|object| nics.add_public(object));
            for set in sets.iter().filter(is_uniform) {
                self.add_addresses(group, text(set, "/name"), shared_priority, &mut nics)
                    .await?;
            }
        }
        let region = self.config.region();
        let machine = |value: &Value| {
            let shown: Shown = crate::arm::read(value)?;
            let view = views.get(&shown.id.to_ascii_lowercase());
            Ok(if shown.is_going() {
                None
            } else {
                shown.machine(&region, view, &nics)
            })
        };
        let found: Vec<Option<VirtualMachine>> = all.iter().map(machine).collect::<Result<_>>()?;
        Ok(reading(
            found.into_iter().flatten().collect(),
            pages,
            reason,
        ))
    }

    /// Reads power states and fault domains of all machines with one list. Without the permission for the whole
    /// subscription, they are read machine by machine where they are needed.
    async fn views(
        &self,
        group: &ResourceGroup,
        shared_priority: &SharedPriority,
    ) -> HashMap<String, Value> {
        let list = self
            .arm
            .list(&MACHINES, Arm::statuses_call(group), shared_priority)
            .await;
        let list = list
            .inspect_err(|error| tracing::debug!(%error, "states of machines are read one by one"));
        let list = list.map(ListResult::into_items).unwrap_or_default();
        let views = list.into_iter().map(|mut object| {
            (
                id_of(&object),
                take(&mut object, &["properties", "instanceView"]),
            )
        });
        views.filter(|(_, view)| view.is_object()).collect()
    }

    async fn of_scale_set(
        &self,
        group: &ResourceGroup,
        set: &str,
        shared_priority: &SharedPriority,
    ) -> Result<(ListResult<Value>, ListResult<Value>)> {
        let instances = INSTANCES
            .list(group, &[set])
            .query("$expand", "instanceView");
        let instances = self
            .arm
            .list(&INSTANCES, instances, shared_priority)
            .await?;
        // Without all instances, their addresses decide nothing.
        let interfaces = match &instances {
            ListResult::Complete { .. } => {
                self.arm
                    .list(
                        &SET_INTERFACES,
                        SET_INTERFACES.list(group, &[set]),
                        shared_priority,
                    )
                    .await?
            }
            ListResult::Partial { .. } => ListResult::of(Vec::new()),
        };
        Ok((instances, interfaces))
    }

    /// Adds the public addresses of all instances of a scale set.
    async fn add_addresses(
        &self,
        group: &ResourceGroup,
        set: &str,
        shared_priority: &SharedPriority,
        nics: &mut Nics,
    ) -> Result<()> {
        let list = self
            .arm
            .list(
                &SET_ADDRESSES,
                SET_ADDRESSES.list(group, &[set]),
                shared_priority,
            )
            .await?;
        list.into_items()
            .iter()
            .for_each(|object| nics.add_public(object));
        Ok(())
    }

    async fn shown(&self, place: &Place<'_>, priority: Priority) -> Result<Option<Shown>> {
        let (of, names) = match place.scale_set {
            None => (&MACHINES, vec![place.name]),
            Some(set) => (&INSTANCES, vec![set, place.name]),
        };
        let call = of
            .item(Method::GET, &place.group, &names)
            .query("$expand", "instanceView");
        let found: Option<Shown> = self
            .arm
            .reads(of)
            .find(call.with_priority(priority))
            .await?;
        Ok(found.filter(|entry| !entry.is_going()))
    }

    async fn read(
        &self,
        id: &str,
        priority: Priority,
        with_interfaces: bool,
    ) -> Result<Option<VirtualMachine>> {
        let place = place(id)
            .ok_or_else(|| Error::invalid(format!("{id:?} is no ID of a virtual machine")))?;
        let Some(shown) = self.shown(&place, priority).await? else {
            return Ok(None);
        };
        let nics = if with_interfaces {
            self.nics(&place, &shown).await?
        } else {
            Nics::default()
        };
        Ok(shown.machine(&self.config.region(), None, &nics))
    }

    /// Reads the interfaces of one machine, with their public addresses.
    async fn nics(&self, place: &Place<'_>, shown: &Shown) -> Result<Nics> {
        let mut nics = Nics::default();
        let shared_priority = SharedPriority::default();
        match place.scale_set {
            Some(set) => {
                let call = INSTANCE_INTERFACES.list(&place.group, &[set, place.name]);
                let list = self
                    .arm
                    .list(&INSTANCE_INTERFACES, call, &shared_priority)
                    .await?
                    .complete()?;
                list.into_items().iter().for_each(|object| nics.add(object));
                if nics.public_ids().next().is_some() {
                    self.add_addresses(&place.group, set, &shared_priority, &mut nics)
                        .await?;
                }
            }
            None => {
                let Some((group, name)) = primary_interface(&shown.properties).and_then(place_of)
                else {
                    return Ok(nics);
                };
                let nic: Option<Value> = self.arm.get(&INTERFACES, &group, &[name]).await?;
                nic.iter().for_each(|nic| nics.add(nic));
                let public: Vec<String> = nics.public_ids().map(str::to_owned).collect();
                for (group, name) in public.iter().filter_map(|id| place_of(id)) {
                    let address: Option<Value> =
                        self.arm.get(&PUBLIC_ADDRESSES, &group, &[name]).await?;
                    address.iter().for_each(|address| nics.add_public(address));
                }
            }
        }
        Ok(nics)
    }
}

#[async_trait]
impl MachineSource for Machines {
    type Machine = VirtualMachine;

    async fn list(&self, shared_priority: &SharedPriority) -> Result<ListResult<VirtualMachine>> {
        let groups = self.all_groups();
        let readings = try_join_all(
            groups
                .iter()
                .map(|group| self.of_group(group, shared_priority)),
        )
        .await?;
        let pages = readings.iter().map(ListResult::pages).sum();
        let reason = readings.iter().find_map(|reading| {
            if let ListResult::Partial { reason, .. } = reading {
                Some(reason.clone())
            } else {
                None
            }
        });
        Ok(reading(
            readings
                .into_iter()
                .flat_map(ListResult::into_items)
                .collect(),
            pages,
            reason,
        ))
    }

    async fn by_id(&self, id: &str, priority: Priority) -> Result<Option<VirtualMachine>> {
        self.read(id, priority, true).await
    }

    async fn state_by_id(&self, id: &str, priority: Priority) -> Result<Option<VirtualMachine>> {
        self.read(id, priority, false).await
    }

    /// Reads a machine by its own name, or else by its computer name from the lists: the name of an instance of a scale
    /// set is in no path.
    async fn by_name(&self, name: &str, priority: Priority) -> Result<Vec<VirtualMachine>> {
        let place = Place {
            group: self.config.nodes.clone(),
            scale_set: None,
            name,
        };
        if let Some(machine) = self
            .by_id(&place.id(), priority)
            .await?
            .filter(|machine| machine.name.eq_ignore_ascii_case(name))
        {
            return Ok(vec![machine]);
        }
        let all = self
            .list(&SharedPriority::of(priority))
            .await?
            .complete()?
            .into_items();
        Ok(all
            .into_iter()
            .filter(|machine| machine.name.eq_ignore_ascii_case(name))
            .collect())
    }

    fn machine_id<'a>(&self, provider_id: &'a str) -> Result<&'a str> {
        let found = provider_id
            .strip_prefix("azure://")
            .and_then(|id| Some((id, place(id)?)));
        let own_subscription = &self.config.nodes.subscription;
        if let Some((_, other)) = found.as_ref().filter(|(_, entry)| {
            !entry
                .group
                .subscription
                .eq_ignore_ascii_case(own_subscription)
        }) {
            return Err(Error::invalid(format!(
                "provider ID {provider_id:?} is of subscription {}, and subscriptionId is {own_subscription}: the machine is not looked up there",
                other.group.subscription
            )));
        }
        found.map(|(id, _)| id).ok_or_else(|| {
            Error::invalid(format!(
                "provider ID {provider_id:?} is not azure:///subscriptions/<subscription>/resourceGroups/<group>/providers/\
                 Microsoft.Compute/virtualMachines/<name> or …/virtualMachineScaleSets/<name>/virtualMachines/<number>"
            ))
        })
    }

    fn metadata(&self, machine: &VirtualMachine, node: &Node) -> InstanceMetadata {
        let addresses = Addresses::of(&node.name).internal(machine.internal.iter().copied());
        InstanceMetadata {
            provider_id: machine.provider_id.to_string(),
            instance_type: machine.size.to_string(),
            zone: machine.zone.as_deref().unwrap_or_default().to_owned(),
            region: machine.region.to_string(),
            node_addresses: addresses
                .external(machine.external.iter().copied(), AddressFamily::Dualstack)
                .build(),
            additional_labels: BTreeMap::new(),
        }
    }

    fn place(&self) -> String {
        format!(
            "resource group {} of subscription {}",
            self.config.nodes.name, self.config.nodes.subscription
        )
    }
}

/// Returns the name of a scale set in the ID of one of its instances.
pub(crate) fn scale_set_of(id: &str) -> Option<(ResourceGroup, &str, &str)> {
    let place = place(id)?;
    Some((place.group.clone(), place.scale_set?, name_of(id)))
}
