//! Virtual machines and scale sets.

use serde_json::{Value, json};

use crate::{
    Answer, ApiRequest, Azure, LOCATION, id, items, not_found, page, path_id, subnet, text,
};

const MACHINES: &str = "Microsoft.Compute/virtualMachines";
const AVAILABILITY_SETS: &str = "Microsoft.Compute/availabilitySets";
const SETS: &str = "Microsoft.Compute/virtualMachineScaleSets";
const INTERFACES: &str = "Microsoft.Network/networkInterfaces";

/// Returns the zone of a machine: the same in each run.
fn zone(name: &str) -> String {
    (name.bytes().map(u32::from).sum::<u32>() % 3 + 1).to_string()
}

/// Returns the states of a machine that is running, or shut down.
fn view(is_off: bool) -> Value {
    let power = if is_off {
        "PowerState/deallocated"
    } else {
        "PowerState/running"
    };
    json!({"platformFaultDomain": 1, "statuses": [{"code": "ProvisioningState/succeeded"}, {"code": power}]})
}

/// Controls of tests over machines.
impl Azure {
    fn next_address(&mut self) -> String {
        let number = self.number();
        format!("10.1.{}.{}", number / 250, number % 250 + 4)
    }

    /// Adds a standalone machine, and returns its ID.
    pub fn add_machine(&mut self, name: &str) -> String {
        let ip = self.next_address();
        let interface = id(INTERFACES, &format!("{name}-nic"));
        let machine = id(MACHINES, name);
        self.insert(&interface, json!({"location": LOCATION, "properties": {
            "primary": true, "virtualMachine": {"id": machine},
            "ipConfigurations": [{"id": format!("{interface}/ipConfigurations/one"), "name": "one", "properties": {
                "primary": true, "privateIPAddress": ip, "privateIPAddressVersion": "IPv4", "subnet": {"id": subnet()},
            }}],
        }}));
        self.insert(
            &machine,
            json!({"location": LOCATION, "zones": [zone(name)], "properties": {
                "hardwareProfile": {"vmSize": "Standard_D4s_v3"}, "osProfile": {"computerName": name},
                "networkProfile": {"networkInterfaces": [{"id": interface, "properties": {"primary": true}}]},
                "instanceView": view(false),
            }}),
        );
        machine
    }

    /// Adds a standalone machine of an availability set, which is created if needed, and returns the ID of the machine.
    /// Azure shows the name of the set in upper case there, and such a machine has no zone.
    pub fn add_machine_of_set(&mut self, set: &str, name: &str) -> String {
        let set_id = id(AVAILABILITY_SETS, set);
        if self.get(&set_id).is_none() {
            self.insert(
                &set_id,
                json!({"location": LOCATION, "sku": {"name": "Aligned"}}),
            );
        }
        let machine = self.add_machine(name);
        self.edit(&machine, |object| {
            object["properties"]["availabilitySet"] =
                json!({"id": id(AVAILABILITY_SETS, &set.to_ascii_uppercase())});
            object
                .as_object_mut()
                .into_iter()
                .for_each(|object| drop(object.remove("zones")));
        });
        machine
    }

    /// Adds an instance of a uniform scale set, which is created if needed, and returns the ID of the instance. Azure
    /// names instances with a prefix and six characters.
    pub fn add_instance(&mut self, set: &str, name: &str) -> String {
        let set_id = id(SETS, set);
        let configuration = |pools: Value| {
            json!([{"name": "nic", "properties": {"primary": true, "ipConfigurations": [
                {"name": "one", "properties": {"primary": true, "subnet": {"id": subnet()}, "loadBalancerBackendAddressPools": pools}},
            ]}}])
        };
        if self.get(&set_id).is_none() {
            let prefix = name
                .len()
                .checked_sub(6)
                .and_then(|end| name.get(..end))
                .unwrap_or(set);
            self.insert(
                &set_id,
                json!({"location": LOCATION, "sku": {"name": "Standard_D4s_v3"}, "properties": {
                    "orchestrationMode": "Uniform", "virtualMachineProfile": {"osProfile": {"computerNamePrefix": prefix}, "networkProfile": {
                        "networkInterfaceConfigurations": configuration(json!([])),
                    }},
                }}),
            );
        }
        let ip = self.next_address();
        let number = self.number();
        let pools = self.get(&set_id).and_then(|object| {
            object.pointer("/properties/virtualMachineProfile/networkProfile/networkInterfaceConfigurations/0/properties/ipConfigurations/0\
                        /properties/loadBalancerBackendAddressPools").cloned()
        });
        let instance = format!("{set_id}/virtualMachines/{number}");
        self.insert(&instance, json!({
            "location": LOCATION, "instanceId": number.to_string(), "zones": [zone(name)],
            "sku": {"name": "Standard_D4s_v3"}, "properties": {
                "osProfile": {"computerName": name}, "instanceView": view(false), "privateAddress": ip,
                "networkProfileConfiguration": {"networkInterfaceConfigurations": configuration(pools.unwrap_or_else(|| json!([])))},
                "networkProfile": {"networkInterfaces": [{"id": format!("{instance}/networkInterfaces/nic")}]},
            },
        }));
        instance
    }

    /// Returns the IDs of the machines of this name.
    #[must_use]
    pub fn ids(&self, name: &str) -> Vec<String> {
        let named = self
            .machines()
            .filter(|machine| text(machine, "/properties/osProfile/computerName") == name);
        named.map(|object| text(object, "/id").to_owned()).collect()
    }

    /// Returns all machines and instances.
    pub fn machines(&self) -> impl Iterator<Item = &Value> {
        self.objects
            .values()
            .filter(|object| !object["properties"]["osProfile"].is_null())
    }

    /// Shuts a machine down, or starts it.
    pub fn set_power(&mut self, name: &str, is_off: bool) {
        for id in self.ids(name) {
            self.edit(&id, |object| {
                object["properties"]["instanceView"] = view(is_off);
            });
        }
    }

    /// Removes a machine for good, with its network interface.
    pub fn terminate(&mut self, name: &str) {
        for id in self.ids(name) {
            self.objects.remove(&id.to_ascii_lowercase());
            self.objects
                .remove(&crate::id(INTERFACES, &format!("{name}-nic")).to_ascii_lowercase());
        }
    }

    /// Gives a machine another address.
    pub fn set_address(&mut self, name: &str, ip: &str) {
        self.edit(&id(INTERFACES, &format!("{name}-nic")), |name_nic| {
            name_nic["properties"]["ipConfigurations"][0]["properties"]["privateIPAddress"] =
                ip.into();
        });
        for id in self.ids(name) {
            self.edit(&id, |object| {
                if !object["properties"]["privateAddress"].is_null() {
                    object["properties"]["privateAddress"] = ip.into();
                }
            });
        }
    }

    /// Gives a standalone machine an address of the second family.
    pub fn add_ipv6(&mut self, name: &str, ip: &str) {
        let interface = id(INTERFACES, &format!("{name}-nic"));
        self.edit(&interface, |object| {
            let second = json!({"id": format!("{interface}/ipConfigurations/two"), "name": "two", "properties": {
                "privateIPAddress": ip, "privateIPAddressVersion": "IPv6", "subnet": {"id": subnet()},
            }});
            object["properties"]["ipConfigurations"].as_array_mut().into_iter().for_each(|all| all.push(second.clone()));
        });
    }

    /// Returns the address of a machine.
    #[must_use]
    pub fn address_of(&self, machine: &Value) -> String {
        match text(machine, "/properties/privateAddress") {
            "" => {
                let interface = self.get(text(
                    machine,
                    "/properties/networkProfile/networkInterfaces/0/id",
                ));
                interface
                    .map(|interface| {
                        text(
                            interface,
                            "/properties/ipConfigurations/0/properties/privateIPAddress",
                        )
                        .to_owned()
                    })
                    .unwrap_or_default()
            }
            ip => ip.to_owned(),
        }
    }

    /// Returns the IP configurations in a pool: of network interfaces, and of instances.
    #[must_use]
    pub fn members_of(&self, pool: &str) -> Vec<String> {
        let is_in = |configuration: &Value| {
            let pools = items(configuration, "loadBalancerBackendAddressPools");
            { pools }.any(|object| text(object, "/id").eq_ignore_ascii_case(pool))
        };
        let mut found = Vec::new();
        for interface in self.all(INTERFACES) {
            let its = items(interface, "ipConfigurations")
                .filter(|ip_configuration| is_in(ip_configuration));
            found.extend(its.map(|object| text(object, "/id").to_owned()));
        }
        for instance in self.machines() {
            let all = instance
                .pointer("/properties/networkProfileConfiguration/networkInterfaceConfigurations");
            let its = all
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .flat_map(|object| items(object, "ipConfigurations"))
                .filter(|object| is_in(object));
            found.extend(its.map(|object| {
                format!(
                    "{}/networkInterfaces/nic/ipConfigurations/{}",
                    text(instance, "/id"),
                    text(object, "/name")
                )
            }));
        }
        found
    }

    /// Returns `true` if a scale set or one of its instances refers to a load balancer.
    pub(crate) fn is_in_a_scale_set(&self, balancer: &str) -> bool {
        let pools = format!("{balancer}/backendaddresspools");
        let sets = self
            .objects
            .iter()
            .filter(|(id, _)| id.contains("/virtualmachinescalesets/"));
        { sets }.any(|(_, object)| object.to_string().to_ascii_lowercase().contains(&pools))
    }

    /// Removes the references of interfaces, instances and models to the pools of a load balancer.
    pub(crate) fn forget_pools(&mut self, balancer: &str) {
        fn walk(value: &mut Value, pools: &str) {
            let is_left =
                |object: &Value| !text(object, "/id").to_ascii_lowercase().starts_with(pools);
            let slot = value
                .get_mut("loadBalancerBackendAddressPools")
                .and_then(Value::as_array_mut);
            slot.into_iter().for_each(|all| all.retain(is_left));
            match value {
                Value::Object(all) => all.values_mut().for_each(|object| walk(object, pools)),
                Value::Array(all) => all.iter_mut().for_each(|object| walk(object, pools)),
                _ => {}
            }
        }
        let pools = format!("{balancer}/backendaddresspools/");
        self.objects
            .values_mut()
            .for_each(|object| walk(object, &pools));
    }

    fn interface_of(&self, instance: &Value) -> Value {
        let interface = format!("{}/networkInterfaces/nic", text(instance, "/id"));
        json!({"id": interface, "name": "nic", "properties": {
            "primary": true, "virtualMachine": {"id": instance["id"]},
            "ipConfigurations": [{"id": format!("{interface}/ipConfigurations/one"), "name": "one", "properties": {
                "primary": true, "privateIPAddress": instance["properties"]["privateAddress"], "privateIPAddressVersion": "IPv4",
            }}],
        }})
    }

    /// Returns a machine as the API shows it.
    pub(crate) fn shown_machine(mut machine: Value, expands: bool) -> Value {
        if let Some(properties) = machine["properties"].as_object_mut() {
            properties.remove("privateAddress");
            if !expands {
                properties.remove("instanceView");
            }
        }
        machine
    }
}

pub(crate) fn interfaces_of_set(cloud: &mut Azure, request: &ApiRequest) -> Answer {
    let prefix = format!("{}/virtualMachines/", id(SETS, request.id())).to_ascii_lowercase();
    let instances = cloud
        .objects
        .iter()
        .filter(|(id, _)| id.starts_with(&prefix));
    let all = instances
        .map(|(_, instances)| cloud.interface_of(instances))
        .collect();
    page(cloud, request, all)
}

pub(crate) fn interfaces_of_instance(cloud: &mut Azure, request: &ApiRequest) -> Answer {
    let path = path_id(request);
    let instance = path.trim_end_matches("/networkInterfaces");
    let found = cloud.get(instance).ok_or_else(|| not_found(instance))?;
    let all = vec![cloud.interface_of(found)];
    page(cloud, request, all)
}

pub(crate) fn interface_of_instance(cloud: &mut Azure, request: &ApiRequest) -> Answer {
    let instance = id(
        SETS,
        &format!("{}/virtualMachines/{}", request.id(), request.nth_id(1)),
    );
    let found = cloud.get(&instance).ok_or_else(|| not_found(&instance))?;
    Ok(fake_cloud::Reply::new(200, cloud.interface_of(found)))
}

/// Answers the states of all machines of the subscription that are in no uniform scale set.
pub(crate) fn statuses(cloud: &mut Azure, request: &ApiRequest) -> Answer {
    let status = |object: &Value| {
        json!({
            "id": object["id"], "name": object["name"], "location": object["location"],
            "properties": {"instanceView": object["properties"]["instanceView"], "provisioningState": "Succeeded"},
        })
    };
    let all = cloud.all(MACHINES).map(status).collect();
    page(cloud, request, all)
}
