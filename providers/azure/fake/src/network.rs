//! Public addresses, load balancers, security groups and route tables: what Azure adds to a request, and what it refuses.

use std::collections::BTreeSet;

use fake_cloud::Refused;
use serde_json::{Value, json};

use crate::{ApiRequest, Azure, id, items, refuse, text};

pub(crate) const BALANCERS: &str = "Microsoft.Network/loadBalancers";
const ADDRESSES: &str = "Microsoft.Network/publicIPAddresses";
const LISTS: [&str; 6] = [
    "frontendIPConfigurations",
    "backendAddressPools",
    "probes",
    "loadBalancingRules",
    "inboundNatRules",
    "outboundRules",
];

fn is_of(id: &str, kind: &str) -> bool {
    id.to_ascii_lowercase()
        .contains(&format!("/providers/{kind}/").to_ascii_lowercase())
}

/// Returns `true` if an address is in a range of IPv4 addresses.
fn is_in(range: &str, ip: &str) -> bool {
    let parsed = |text: &str| text.parse::<std::net::Ipv4Addr>().ok().map(u32::from);
    let Some((first, length)) = range.split_once('/') else {
        return false;
    };
    let (Some(first), Some(ip), Ok(length)) = (parsed(first), parsed(ip), length.parse::<u32>())
    else {
        return false;
    };
    length == 0 || (first ^ ip) >> (32 - length) == 0
}

/// Gives the elements of a list IDs, and refuses two of one name.
fn name_elements(resource: &mut Value, owner: &str, list: &str) -> Result<(), Refused> {
    let mut names = BTreeSet::new();
    let elements = resource
        .pointer_mut(&format!("/properties/{list}"))
        .and_then(Value::as_array_mut);
    for element in elements.into_iter().flatten() {
        let name = text(element, "/name").to_owned();
        let is_valid = (1..=80).contains(&name.len())
            && name
                .ends_with(|character: char| character.is_ascii_alphanumeric() || character == '_');
        if !is_valid || !names.insert(name.to_ascii_lowercase()) {
            return Err(refuse(
                "InvalidResourceName",
                format!("Resource name {name} is invalid or not unique in {list}."),
            ));
        }
        element["id"] = format!("{owner}/{list}/{name}").into();
        element["properties"]["provisioningState"] = "Succeeded".into();
    }
    Ok(())
}

impl Azure {
    /// Returns a resource as the API shows it.
    pub(crate) fn shown(&self, resource: &Value, request: &ApiRequest) -> Value {
        let id = text(resource, "/id");
        if is_of(id, BALANCERS) {
            return self.shown_balancer(resource.clone());
        }
        if is_of(id, ADDRESSES) {
            let mut shown = resource.clone();
            if let Some(frontend) = self.frontend_of(id) {
                shown["properties"]["ipConfiguration"] = json!({ "id": frontend });
            }
            return shown;
        }
        Self::shown_machine(
            resource.clone(),
            request.query("$expand") == Some("instanceView"),
        )
    }

    fn shown_balancer(&self, mut balancer: Value) -> Value {
        for pool in balancer["properties"]["backendAddressPools"]
            .as_array_mut()
            .into_iter()
            .flatten()
        {
            let members = self.members_of(text(pool, "/id"));
            if !members.is_empty() {
                let members: Vec<_> = members.into_iter().map(|id| json!({ "id": id })).collect();
                pool["properties"]["backendIPConfigurations"] = members.into();
            }
        }
        balancer
    }

    /// Returns the frontend that uses an address.
    fn frontend_of(&self, address: &str) -> Option<String> {
        let uses = |object: &&Value| {
            text(object, "/properties/publicIPAddress/id").eq_ignore_ascii_case(address)
        };
        let frontends = self
            .all(BALANCERS)
            .flat_map(|object| items(object, "frontendIPConfigurations"));
        { frontends }
            .find(uses)
            .map(|object| text(object, "/id").to_owned())
    }

    pub(crate) fn check_put(
        &mut self,
        id: &str,
        wanted: &mut Value,
        before: Option<&Value>,
    ) -> Result<(), Refused> {
        if wanted["properties"].is_null() {
            wanted["properties"] = json!({});
        }
        match id {
            id if is_of(id, BALANCERS) => self.check_balancer(id, wanted),
            id if is_of(id, ADDRESSES) => self.check_address(wanted, before),
            id if is_of(id, "Microsoft.Network/networkSecurityGroups") => {
                check_security_group(id, wanted)
            }
            id if is_of(id, "Microsoft.Network/routeTables") => check_route_table(id, wanted),
            id if is_of(id, "Microsoft.Network/privateLinkServices") => {
                let is_allowed = self.get(&crate::subnet());
                match is_allowed.is_some_and(|object| {
                    object["properties"]["privateLinkServiceNetworkPolicies"] == "Disabled"
                }) {
                    true => Ok(()),
                    false => Err(refuse(
                        "PrivateLinkServiceNetworkPoliciesMustBeDisabled",
                        "The subnet has network policies.",
                    )),
                }
            }
            _ => {
                // What a request does not have stays: compute resources are changed, not replaced.
                before.into_iter().for_each(|before| fill(wanted, before));
                self.check_pools(wanted)
            }
        }
    }

    /// Refuses a reference to a pool that does not exist.
    fn check_pools(&self, wanted: &Value) -> Result<(), Refused> {
        let mut balancers: [BTreeSet<String>; 2] = Default::default();
        let mut stack = vec![wanted];
        while let Some(value) = stack.pop() {
            for pool in value["loadBalancerBackendAddressPools"]
                .as_array()
                .into_iter()
                .flatten()
            {
                let pool = text(pool, "/id");
                let known = self
                    .all(BALANCERS)
                    .flat_map(|object| items(object, "backendAddressPools"));
                let balancer = pool
                    .to_ascii_lowercase()
                    .split("/backendaddresspools/")
                    .next()
                    .unwrap_or_default()
                    .to_owned();
                let is_private = |object: &Value| {
                    items(object, "frontendIPConfigurations")
                        .any(|object| object["properties"]["subnet"].is_object())
                };
                balancers[usize::from(self.get(&balancer).is_some_and(is_private))]
                    .insert(balancer);
                if balancers.iter().any(|of_kind| of_kind.len() > 1) {
                    return Err(refuse(
                        "NetworkInterfaceAndLoadBalancerConflict",
                        "A network interface can be in pools of one public and one internal load balancer.",
                    ));
                }
                if !{ known }.any(|object| text(object, "/id").eq_ignore_ascii_case(pool)) {
                    return Err(refuse(
                        "InvalidResourceReference",
                        format!("Resource {pool} referenced by the resource was not found."),
                    ));
                }
            }
            stack.extend(
                value
                    .as_object()
                    .into_iter()
                    .flat_map(|object| object.values())
                    .chain(value.as_array().into_iter().flatten()),
            );
        }
        Ok(())
    }

    fn check_address(&mut self, wanted: &mut Value, before: Option<&Value>) -> Result<(), Refused> {
        if wanted["sku"]["name"] == "Standard"
            && wanted["properties"]["publicIPAllocationMethod"] != "Static"
        {
            return Err(refuse(
                "StandardSkuPublicIPAddressesMustBeStatic",
                "Standard sku publicIp must have AllocationMethod set to Static.",
            ));
        }
        if let Some(before) = before
            && before["zones"] != wanted["zones"]
        {
            return Err(refuse(
                "ResourceAvailabilityZonesCannotBeModified",
                "Zones cannot be changed.",
            ));
        }
        check_tags(wanted)?;
        let ip = match before {
            Some(before) => before["properties"]["ipAddress"].clone(),
            None => {
                let number = self.number();
                match wanted["properties"]["publicIPAddressVersion"] == "IPv6" {
                    true => format!("2603:1020::{number:x}").into(),
                    false => format!("20.50.{}.{}", number / 250, number % 250 + 1).into(),
                }
            }
        };
        wanted["properties"]["ipAddress"] = ip;
        wanted["properties"]["ipConfiguration"] = Value::Null;
        wanted["properties"]
            .as_object_mut()
            .into_iter()
            .for_each(|property| drop(property.remove("ipConfiguration")));
        Ok(())
    }

    fn check_balancer(&mut self, id: &str, wanted: &mut Value) -> Result<(), Refused> {
        check_tags(wanted)?;
        for list in LISTS {
            name_elements(wanted, id, list)?;
        }
        if wanted["sku"]["name"] != "Standard"
            && items(wanted, "loadBalancingRules").any(is_standard)
        {
            return Err(refuse(
                "LoadBalancingRuleNotSupportedBySku",
                "The rule needs the standard SKU.",
            ));
        }
        let ids = |list: &str| {
            items(wanted, list)
                .map(|object| text(object, "/id").to_ascii_lowercase())
                .collect::<BTreeSet<_>>()
        };
        let known: BTreeSet<String> = LISTS.iter().flat_map(|list| ids(list)).collect();
        let is_portless = |object: &Value| {
            !object["properties"]["port"]
                .as_u64()
                .is_some_and(|port| (1..=65535).contains(&port))
        };
        if let Some(probe) = items(wanted, "probes").find(|probe| is_portless(probe)) {
            return Err(refuse(
                "LoadBalancerInvalidProbePort",
                format!(
                    "The port of probe {} must be from 1 to 65535.",
                    probe["name"]
                ),
            ));
        }
        let mut used = BTreeSet::new();
        for rule in items(wanted, "loadBalancingRules") {
            for key in ["frontendIPConfiguration", "backendAddressPool", "probe"] {
                let reference = rule["properties"][key]["id"]
                    .as_str()
                    .map(str::to_ascii_lowercase);
                let is_known = reference
                    .as_ref()
                    .is_none_or(|reference| known.contains(reference));
                if !is_known || (key == "frontendIPConfiguration" && reference.is_none()) {
                    return Err(refuse(
                        "InvalidResourceReference",
                        format!("{key} of rule {} was not found.", rule["name"]),
                    ));
                }
            }
            let properties = &rule["properties"];
            let key = format!(
                "{} {} {}",
                properties["frontendIPConfiguration"]["id"],
                properties["protocol"],
                properties["frontendPort"]
            );
            let is_all = properties["protocol"] == "All";
            if is_all != (properties["frontendPort"] == 0)
                || is_all != (properties["backendPort"] == 0)
            {
                return Err(refuse(
                    "LoadBalancingRuleMustHaveZeroPortsForProtocolAll",
                    "Ports must be 0 with protocol All, and only then.",
                ));
            }
            if !used.insert(key.to_ascii_lowercase()) {
                return Err(refuse(
                    "RulesUseSameFrontendPortProtocolAndIp",
                    format!("Rule {} uses the port of another rule.", rule["name"]),
                ));
            }
        }
        self.check_frontends(id, wanted)?;
        self.check_links(id, Some(wanted))?;
        for pool in wanted["properties"]["backendAddressPools"]
            .as_array_mut()
            .into_iter()
            .flatten()
        {
            let members = self.members_of(text(pool, "/id"));
            if !members.is_empty() && items(pool, "loadBalancerBackendAddresses").next().is_some() {
                return Err(refuse(
                    "MixedBackendPool",
                    "A pool has either network interfaces or addresses.",
                ));
            }
            let ips: Vec<_> = items(pool, "loadBalancerBackendAddresses")
                .map(|object| text(object, "/properties/ipAddress"))
                .collect();
            if ips.iter().collect::<BTreeSet<_>>().len() != ips.len() {
                return Err(refuse(
                    "DuplicateBackendAddress",
                    "An address is in the pool twice.",
                ));
            }
            pool["properties"]
                .as_object_mut()
                .into_iter()
                .for_each(|property| drop(property.remove("backendIPConfigurations")));
        }
        Ok(())
    }

    fn check_frontends(&mut self, id: &str, wanted: &mut Value) -> Result<(), Refused> {
        let before = self.get(id).cloned().unwrap_or_default();
        let is_public = |object: &Value| object["properties"]["publicIPAddress"]["id"].is_string();
        let kinds: BTreeSet<bool> = items(wanted, "frontendIPConfigurations")
            .map(is_public)
            .collect();
        if kinds.len() > 1 {
            return Err(refuse(
                "LoadBalancerFrontendsMustBeOfOneKind",
                "A load balancer has either public or private frontends.",
            ));
        }
        let mut addresses = BTreeSet::new();
        for index in 0..items(wanted, "frontendIPConfigurations").count() {
            let frontend = wanted["properties"]["frontendIPConfigurations"][index].clone();
            let old = items(&before, "frontendIPConfigurations")
                .find(|object| object["name"] == frontend["name"]);
            if old.is_some_and(|old| old["zones"] != frontend["zones"]) {
                return Err(refuse(
                    "ResourceAvailabilityZonesCannotBeModified",
                    "Zones cannot be changed.",
                ));
            }
            match frontend["properties"]["publicIPAddress"]["id"].as_str() {
                Some(_) if frontend["zones"].is_array() => {
                    return Err(refuse(
                        "LoadBalancerFrontendIPConfigCannotHaveZoneWhenReferencingPublicIPAddress",
                        "A frontend with a public address has no zones of its own.",
                    ));
                }
                Some(address) => {
                    let holder = self.frontend_of(address).filter(|frontend_of| {
                        !frontend_of
                            .to_ascii_lowercase()
                            .starts_with(&id.to_ascii_lowercase())
                    });
                    if self.get(address).is_none() {
                        return Err(refuse(
                            "InvalidResourceReference",
                            format!("Resource {address} was not found."),
                        ));
                    }
                    if self
                        .get(address)
                        .is_some_and(|address| address["sku"]["name"] != wanted["sku"]["name"])
                    {
                        return Err(refuse(
                            "PublicIPAndLBSkuDoNotMatch",
                            "The SKUs of address and load balancer differ.",
                        ));
                    }
                    if holder.is_some() || !addresses.insert(address.to_ascii_lowercase()) {
                        return Err(refuse(
                            "PublicIPReferencedByMultipleIPConfigs",
                            format!("Address {address} is in use."),
                        ));
                    }
                }
                None if text(&frontend, "/properties/subnet/id").is_empty() => {
                    return Err(refuse(
                        "FrontendIPConfigurationMustHaveAddress",
                        "A frontend needs a public address or a subnet.",
                    ));
                }
                None => {
                    let subnet = text(&frontend, "/properties/subnet/id");
                    let stays = old.filter(|old| {
                        text(old, "/properties/subnet/id").eq_ignore_ascii_case(subnet)
                    });
                    let known = stays
                        .map(|object| object["properties"]["privateIPAddress"].clone())
                        .filter(Value::is_string);
                    let range = self
                        .get(subnet)
                        .map(|subnet| text(subnet, "/properties/addressPrefix").to_owned());
                    let stated = frontend["properties"]["privateIPAddress"]
                        .as_str()
                        .filter(|ip| !ip.contains(':'));
                    if let Some((ip, range)) = stated.zip(range.filter(|range| !range.is_empty()))
                        && !is_in(&range, ip)
                    {
                        return Err(refuse(
                            "PrivateIPAddressNotInSubnet",
                            format!(
                                "Private static IP address {ip} does not belong to the range of subnet prefix {range}."
                            ),
                        ));
                    }
                    let slot = &frontend["properties"]["privateIPAddress"];
                    if !slot.is_string() {
                        let number = self.number();
                        let ip = known.unwrap_or_else(|| {
                            match frontend["properties"]["privateIPAddressVersion"] == "IPv6" {
                                true => format!("fd00:2::{number:x}").into(),
                                false
                                    if self
                                        .get(text(&frontend, "/properties/subnet/id"))
                                        .is_some() =>
                                {
                                    format!("10.1.{}.{}", number / 250 + 100, number % 250 + 4)
                                        .into()
                                }
                                false => {
                                    format!("10.2.{}.{}", number / 250, number % 250 + 4).into()
                                }
                            }
                        });
                        wanted["properties"]["frontendIPConfigurations"][index]["properties"]["privateIPAddress"] =
                            ip;
                    }
                }
            }
        }
        Ok(())
    }

    /// Refuses to remove a frontend while a private link service leads to it.
    fn check_links(&self, balancer: &str, wanted: Option<&Value>) -> Result<(), Refused> {
        let kept: Vec<&str> = wanted
            .into_iter()
            .flat_map(|object| items(object, "frontendIPConfigurations"))
            .map(|object| text(object, "/id"))
            .collect();
        for link in self.all("Microsoft.Network/privateLinkServices") {
            let frontend = text(
                link,
                "/properties/loadBalancerFrontendIpConfigurations/0/id",
            );
            let is_its_match = frontend
                .to_ascii_lowercase()
                .starts_with(&format!("{}/", balancer.to_ascii_lowercase()));
            if is_its_match && !kept.iter().any(|text| text.eq_ignore_ascii_case(frontend)) {
                return Err(refuse(
                    "InUseFrontendCannotBeDeleted",
                    format!("{frontend} is in use by {}.", text(link, "/id")),
                ));
            }
        }
        Ok(())
    }

    pub(crate) fn check_delete(&self, id: &str) -> Result<(), Refused> {
        if is_of(id, ADDRESSES)
            && let Some(frontend) = self.frontend_of(id)
        {
            return Err(refuse(
                "PublicIPAddressCannotBeDeleted",
                format!(
                    "Public IP address {id} can not be deleted since it is still allocated to resource {frontend}."
                ),
            ));
        }
        if is_of(id, BALANCERS) {
            self.check_links(id, None)?;
        }
        if is_of(id, BALANCERS) && self.is_in_a_scale_set(&id.to_ascii_lowercase()) {
            return Err(refuse(
                "LoadBalancerInUseByVirtualMachineScaleSet",
                format!(
                    "Cannot delete load balancer {id} since its child resources are in use by a virtual machine scale set."
                ),
            ));
        }
        Ok(())
    }

    /// Adds a load balancer of somebody else, with a frontend, a rule and a setting that nobody knows.
    pub fn add_frontend(&mut self, balancer: &str, name: &str) {
        let target = id(BALANCERS, balancer);
        let address = id(ADDRESSES, &format!("{name}-address"));
        let ip = format!("20.60.0.{}", self.number() % 250);
        self.insert(
            &address,
            json!({"location": "westeurope", "sku": {"name": "Standard"}, "properties": {
                "publicIPAllocationMethod": "Static", "ipAddress": ip,
            }}),
        );
        let mut document = self.get(&target).cloned().unwrap_or_else(|| {
            json!({"location": "westeurope", "sku": {"name": "Standard"}, "tags": {"team": "others"}, "properties": {}})
        });
        let mut add = |list: &str, element: Value| {
            let all = &mut document["properties"][list];
            if !all.is_array() {
                *all = json!([]);
            }
            all.as_array_mut()
                .into_iter()
                .for_each(|all| all.push(element.clone()));
        };
        let of = |list: &str| format!("{target}/{list}/{name}");
        add(
            "frontendIPConfigurations",
            json!({"id": of("frontendIPConfigurations"), "name": name, "properties": {"publicIPAddress": {"id": address}}}),
        );
        add(
            "backendAddressPools",
            json!({"id": of("backendAddressPools"), "name": name, "properties": {"drainPeriodInSeconds": 7}}),
        );
        add(
            "loadBalancingRules",
            json!({"id": of("loadBalancingRules"), "name": name, "properties": {
                "frontendIPConfiguration": {"id": of("frontendIPConfigurations")}, "backendAddressPool": {"id": of("backendAddressPools")},
                "protocol": "Tcp", "frontendPort": 22, "backendPort": 22, "enableTcpReset": false,
            }}),
        );
        self.insert(&target, document);
    }
}

/// Returns `true` if a rule needs the standard SKU.
fn is_standard(rule: &Value) -> bool {
    let properties = &rule["properties"];
    properties["enableTcpReset"] == true
        || properties["disableOutboundSnat"] == true
        || properties["protocol"] == "All"
}

/// Deletes a connection of a private endpoint to a private link service.
pub(crate) fn delete_connection(cloud: &mut Azure, request: &ApiRequest) -> crate::Answer {
    let link = id("Microsoft.Network/privateLinkServices", request.id());
    let name = request.nth_id(1).to_owned();
    cloud.edit(&link, |cloud| {
        let all = cloud["properties"]["privateEndpointConnections"].as_array_mut();
        all.into_iter()
            .for_each(|all| all.retain(|object| object["name"] != *name));
    });
    Ok(fake_cloud::Reply::empty(204))
}

/// Adds what an object does not have.
fn fill(wanted: &mut Value, before: &Value) {
    let (Some(wanted), Some(before)) = (wanted.as_object_mut(), before.as_object()) else {
        return;
    };
    for (key, value) in before {
        match wanted.get_mut(key) {
            Some(there) => fill(there, value),
            None => drop(wanted.insert(key.clone(), value.clone())),
        }
    }
}

fn check_tags(wanted: &Value) -> Result<(), Refused> {
    let is_wrong = |key: &String| key.contains(['<', '>', '%', '&', '\\', '?', '/']);
    match wanted["tags"].as_object() {
        Some(tags) if tags.len() > 50 || tags.keys().any(is_wrong) => Err(refuse(
            "InvalidTagNameCharacters",
            "The tag names have reserved characters.",
        )),
        _ => Ok(()),
    }
}

fn check_security_group(id: &str, wanted: &mut Value) -> Result<(), Refused> {
    name_elements(wanted, id, "securityRules")?;
    let mut priorities = BTreeSet::new();
    for rule in items(wanted, "securityRules") {
        let properties = &rule["properties"];
        let priority = properties["priority"].as_u64().unwrap_or_default();
        if !(100..=4096).contains(&priority)
            || !priorities.insert((properties["direction"].to_string(), priority))
        {
            return Err(refuse(
                "SecurityRuleConflict",
                format!(
                    "Priority {priority} of rule {} is invalid or used.",
                    rule["name"]
                ),
            ));
        }
        for (one, many) in [
            ("sourceAddressPrefix", "sourceAddressPrefixes"),
            ("destinationAddressPrefix", "destinationAddressPrefixes"),
            ("destinationPortRange", "destinationPortRanges"),
        ] {
            let count = properties[many].as_array().map_or(0, Vec::len);
            // Groups of network interfaces may take the place of destinations.
            let groups = properties["destinationApplicationSecurityGroups"]
                .as_array()
                .map_or(0, Vec::len);
            let is_by_group = one == "destinationAddressPrefix" && groups > 0;
            if properties[one].is_string() == (count > 0) && !is_by_group {
                return Err(refuse(
                    "SecurityRuleParameterContainsUnsupportedValue",
                    format!("Rule {} needs one of {one} and {many}.", rule["name"]),
                ));
            }
        }
    }
    Ok(())
}

fn check_route_table(id: &str, wanted: &mut Value) -> Result<(), Refused> {
    name_elements(wanted, id, "routes")?;
    let mut prefixes = BTreeSet::new();
    for route in items(wanted, "routes") {
        if !prefixes.insert(text(route, "/properties/addressPrefix").to_owned()) {
            return Err(refuse(
                "RouteConflict",
                format!("Route {} has the prefix of another route.", route["name"]),
            ));
        }
    }
    Ok(())
}
