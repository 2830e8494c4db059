//! References between objects: what a creation needs, what keeps an object from being deleted, and addresses.

use std::collections::BTreeSet;

use fake_cloud::Refused;
use serde_json::{Value, json};

use crate::collections::fingerprint;
use crate::{Gcp, array, invalid, path_of, refuse};

/// Returns the objects to which an object refers.
fn references(object: &Value) -> impl Iterator<Item = &str> {
    let single = ["target", "backendService"]
        .into_iter()
        .filter_map(|key| object[key].as_str());
    let checks = array(&object["healthChecks"]).filter_map(Value::as_str);
    let groups = array(&object["backends"]).filter_map(|backend| backend["group"].as_str());
    single.chain(checks).chain(groups).map(path_of)
}

/// Refuses to delete an object to which another one refers.
pub(crate) fn check_users(cloud: &Gcp, path: &str) -> Result<(), Refused> {
    let user = cloud
        .objects
        .iter()
        .find(|(_, object)| references(object).any(|reference| reference == path));
    let Some((user, _)) = user else { return Ok(()) };
    let text = format!("The resource 'projects/{path}' is already being used by 'projects/{user}'");
    Err(refuse(400, "resourceInUseByAnotherResource", text))
}

fn need(object: &Value, keys: &[&str]) -> Result<(), Refused> {
    match keys
        .iter()
        .find(|key| object[**key].is_null() || object[**key] == json!([]))
    {
        Some(key) => Err(refuse(
            400,
            "required",
            format!("Required field 'resource.{key}' not specified"),
        )),
        None => Ok(()),
    }
}

/// Checks what the cloud requires of an object.
pub(crate) fn check(cloud: &Gcp, path: &str, object: &Value) -> Result<(), Refused> {
    for other in references(object) {
        if !cloud.objects.contains_key(other) {
            return Err(refuse(
                404,
                "notFound",
                format!("The resource 'projects/{other}' was not found"),
            ));
        }
    }
    let parts: Vec<_> = path.rsplit('/').collect();
    match parts[1] {
        "forwardingRules" if object["backendService"].is_string() => {
            need(object, &["IPProtocol"])?;
            let count = array(&object["ports"]).count();
            if count > 5 || (count == 0) != (object["allPorts"] == true) {
                return Err(invalid(
                    "Invalid value for field 'resource.ports': at most 5, or allPorts",
                ));
            }
            let service = cloud.objects.get(path_of(
                object["backendService"].as_str().unwrap_or_default(),
            ));
            let protocol = &object["IPProtocol"];
            let is_both = object["IPProtocol"] == "L3_DEFAULT";
            let wanted = if is_both {
                &json!("UNSPECIFIED")
            } else {
                protocol
            };
            if service.is_some_and(|service| service["protocol"] != *wanted)
                || (is_both && object["allPorts"] != true)
            {
                return Err(invalid(
                    "Protocols of forwarding rule and backend service differ",
                ));
            }
            let is_internal = object["loadBalancingScheme"] == "INTERNAL";
            if service.is_some_and(|service| {
                (service["loadBalancingScheme"] == "INTERNAL") != is_internal
            }) {
                return Err(invalid(
                    "Schemes of forwarding rule and backend service differ",
                ));
            }
            if object["ipVersion"] == "IPV6" {
                need(object, &["subnetwork"])?;
                let subnetwork = cloud
                    .objects
                    .get(path_of(object["subnetwork"].as_str().unwrap_or_default()));
                let access = if is_internal { "INTERNAL" } else { "EXTERNAL" };
                if subnetwork.is_none_or(|subnetwork| subnetwork["ipv6AccessType"] != access) {
                    return Err(invalid(
                        "Subnetwork does not have an IPv6 range of the scheme",
                    ));
                }
            } else if !is_internal && !object["subnetwork"].is_null() {
                return Err(invalid("a subnetwork on an external IPv4 forwarding rule"));
            }
        }
        "forwardingRules" => {
            need(object, &["target", "IPProtocol", "portRange"])?;
            if !object["ports"].is_null()
                || !object["allowGlobalAccess"].is_null()
                || !object["subnetwork"].is_null()
            {
                return Err(invalid(
                    "fields of internal forwarding rules on an external one",
                ));
            }
        }
        "backendServices" => {
            need(object, &["healthChecks", "loadBalancingScheme", "protocol"])?;
            if array(&object["healthChecks"]).count() > 1 {
                return Err(invalid("at most one health check"));
            }
            let before = cloud
                .objects
                .get(path)
                .map(|path| &path["loadBalancingScheme"]);
            if before.is_some_and(|scheme| *scheme != object["loadBalancingScheme"]) {
                return Err(invalid("Load balancing scheme cannot be changed."));
            }
            let is_regional =
                |object: &Value| object.as_str().is_some_and(|url| url.contains("/regions/"));
            if object["loadBalancingScheme"] == "EXTERNAL"
                && !array(&object["healthChecks"]).all(is_regional)
            {
                return Err(invalid("a regional health check is required"));
            }
        }
        "firewalls" => {
            need(object, &["network"])?;
            let mut sources = array(&object["sourceRanges"])
                .filter_map(Value::as_str)
                .map(|text| text.contains(':'));
            if sources
                .next()
                .is_some_and(|first| sources.any(|other| other != first))
            {
                return Err(invalid(
                    "IPv4 and IPv6 ranges cannot be combined in one firewall",
                ));
            }
            if object["allowed"].is_null() == object["denied"].is_null() {
                return Err(invalid("one of allowed and denied is required"));
            }
        }
        "routes" => need(
            object,
            &["destRange", "nextHopInstance", "network", "priority"],
        )?,
        "targetPools" => {
            let instances: Vec<_> = array(&object["instances"])
                .filter_map(Value::as_str)
                .collect();
            check_instances(cloud, &instances)?;
        }
        _ => {}
    }
    Ok(())
}

/// Refuses instances that do not exist.
pub(crate) fn check_instances(cloud: &Gcp, urls: &[&str]) -> Result<(), Refused> {
    let missing = urls
        .iter()
        .find(|url| !cloud.objects.contains_key(path_of(url)));
    let text = |url: &&str| {
        refuse(
            404,
            "notFound",
            format!("The resource 'projects/{}' was not found", path_of(url)),
        )
    };
    missing.map_or(Ok(()), |url| Err(text(url)))
}

/// Adds what the cloud sets by itself.
pub(crate) fn complete(cloud: &mut Gcp, path: &str, object: &mut Value) -> Result<(), Refused> {
    let default = |object: &mut Value, key: &str, value: Value| {
        if object[key].is_null() {
            object[key] = value;
        }
    };
    let project = path.split('/').next().unwrap_or_default();
    let internal = object["loadBalancingScheme"] == "INTERNAL";
    match path.rsplit('/').nth(1).unwrap_or_default() {
        "forwardingRules" => {
            default(object, "networkTier", "PREMIUM".into());
            default(object, "loadBalancingScheme", "EXTERNAL".into());
            object["labelFingerprint"] = fingerprint(cloud);
            if internal {
                let link = cloud.link(&format!(
                    "{project}/regions/{}/subnetworks/default",
                    crate::REGION
                ));
                default(object, "subnetwork", link.into());
                default(object, "allowGlobalAccess", false.into());
            }
            let wanted = object["IPAddress"].as_str().map(str::to_owned);
            let tier = object["networkTier"].clone();
            if let Some(ip) = wanted {
                check_address(cloud, path, &ip, internal, &tier)?;
            }
        }
        "targetPools" => {
            default(object, "sessionAffinity", "NONE".into());
            default(object, "instances", json!([]));
        }
        "backendServices" => {
            default(object, "sessionAffinity", "NONE".into());
            object["fingerprint"] = fingerprint(cloud);
        }
        "addresses" => {
            default(object, "addressType", "EXTERNAL".into());
            let internal = object["addressType"] == "INTERNAL";
            if object["address"].is_null() {
                object["address"] = cloud.new_address(internal).into();
            } else {
                let ip = object["address"].clone();
                if cloud.all("addresses").any(|object| object["address"] == ip) {
                    return Err(invalid("IP address is already reserved"));
                }
                let mut rules = cloud.all("forwardingRules");
                if !internal && !rules.any(|rule| bare(&rule["IPAddress"]) == bare(&ip)) {
                    return Err(invalid(
                        "Specified IP address is not allocated to the project",
                    ));
                }
            }
            if !internal {
                default(object, "networkTier", "PREMIUM".into());
            }
            object["status"] = "RESERVED".into();
        }
        "firewalls" => {
            default(object, "priority", 1000.into());
            object["direction"] = "INGRESS".into();
        }
        "instanceGroups" => {
            object["size"] = 0.into();
            object["members"] = json!([]);
        }
        "healthChecks" => default(object, "type", "HTTP".into()),
        _ => {}
    }
    Ok(())
}

/// Returns an address without the length of its prefix.
fn bare(ip: &Value) -> &str {
    ip.as_str()
        .and_then(|ip| ip.split('/').next())
        .unwrap_or_default()
}

/// Refuses an address that is neither reserved nor free.
fn check_address(
    cloud: &Gcp,
    path: &str,
    ip: &str,
    internal: bool,
    tier: &Value,
) -> Result<(), Refused> {
    let ip = ip.split('/').next().unwrap_or(ip);
    let reserved = cloud
        .all("addresses")
        .find(|object| object["address"] == ip);
    if let Some(address) = reserved.filter(|object| !internal && object["networkTier"] != *tier) {
        return Err(invalid(format!(
            "network tier of the address is {}",
            address["networkTier"]
        )));
    }
    if reserved.is_none() && !internal {
        return Err(invalid(
            "Invalid value for field 'resource.IPAddress': the address is not reserved",
        ));
    }
    let in_use = cloud.objects.iter().any(|(other, object)| {
        other != path && other.contains("/forwardingRules/") && bare(&object["IPAddress"]) == ip
    });
    if in_use {
        Err(refuse(
            400,
            "resourceInUseByAnotherResource",
            "IP address is in use",
        ))
    } else {
        Ok(())
    }
}

/// Returns the priority of a firewall.
fn priority(firewall: &Value) -> u64 {
    firewall["priority"].as_u64().unwrap_or(1000)
}

impl Gcp {
    /// Notes the firewalls that deny traffic which another firewall shall allow. A change or creation under way counts as
    /// late if it allows, and as done if it denies.
    pub(crate) fn note_cuts(&mut self) {
        let running = || {
            self.operations
                .values()
                .filter(|operation| operation.shown["status"] != "DONE")
        };
        let is_partial = |path: &String| {
            running().any(|entry| [&entry.creates, &entry.deletes].contains(&&Some(path.clone())))
        };
        let before = |path: &String| {
            let changes = running()
                .filter_map(|entry| entry.changes.as_ref())
                .filter(|(changed, _)| changed == path);
            changes.map(|(_, before)| priority(before)).max()
        };
        let firewalls = || {
            self.objects
                .iter()
                .filter(|(path, _)| path.contains("/firewalls/"))
        };
        let mut cuts = Vec::new();
        for (denying, denial) in firewalls().filter(|(_, firewall)| firewall["denied"].is_array()) {
            let allows = |object: &Value| {
                object["allowed"].is_array()
                    && object["destinationRanges"] == denial["destinationRanges"]
            };
            let mut allowing = firewalls()
                .filter(|(path, firewall)| allows(firewall) && !is_partial(path))
                .peekable();
            let is_late = |(path, object): (&String, &Value)| {
                before(path).unwrap_or(0).max(priority(object)) >= priority(denial)
            };
            if allowing.peek().is_some() && allowing.all(is_late) {
                cuts.push(denying.clone());
            }
        }
        self.cuts.extend(cuts);
    }

    fn new_address(&self, internal: bool) -> String {
        let used: BTreeSet<_> = self
            .all("forwardingRules")
            .map(|object| &object["IPAddress"])
            .chain(self.all("addresses").map(|object| &object["address"]))
            .collect_texts();
        let prefix = if internal { "10.128.9" } else { "203.0.113" };
        (1..255)
            .map(|last| format!("{prefix}.{last}"))
            .find(|ip| !used.contains(ip))
            .unwrap_or_else(|| {
                (0..255 * 255)
                    .map(|number| {
                        format!(
                            "198.{}.{}.{}",
                            18 + i32::from(internal),
                            number / 255,
                            number % 255
                        )
                    })
                    .find(|ip| !used.contains(ip))
                    .unwrap_or_default()
            })
    }

    /// Gives a forwarding rule its address, at the end of its creation.
    pub(crate) fn assign_address(&mut self, path: &str) {
        let internal = self
            .objects
            .get(path)
            .is_some_and(|path| path["loadBalancingScheme"] == "INTERNAL");
        let is_ipv6 = self
            .objects
            .get(path)
            .is_some_and(|path| path["ipVersion"] == "IPV6");
        let ip = match is_ipv6 {
            true => format!(
                "{}:8000:{:x}::/96",
                if internal {
                    "fd20:1:2:3"
                } else {
                    "2600:1900:4000:1"
                },
                self.number() % 0xffff
            ),
            false => self.new_address(internal),
        };
        if let Some(rule) = self
            .objects
            .get_mut(path)
            .filter(|object| object["IPAddress"].is_null())
        {
            rule["IPAddress"] = ip.into();
        }
    }
}

trait Texts {
    fn collect_texts(self) -> BTreeSet<String>;
}

impl<'a, I: Iterator<Item = &'a Value>> Texts for I {
    fn collect_texts(self) -> BTreeSet<String> {
        self.filter_map(|entry| entry.as_str().map(str::to_owned))
            .collect()
    }
}
