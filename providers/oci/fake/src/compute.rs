//! Instances, their VNICs and addresses.

use fake_cloud::{Refused, Reply};
use serde_json::{Value, json};

use crate::{
    Answer, ApiRequest, COMPARTMENT, DOMAIN, NODE_SUBNET, Oracle, not_found, ok, page, refuse,
};

impl Oracle {
    /// Adds a running instance with its primary VNIC, and returns its OCID.
    pub fn add_instance(&mut self, name: &str) -> String {
        self.add_instance_of(name, false)
    }

    /// Adds a running instance of another tenancy.
    pub fn add_instance_of_others(&mut self, name: &str) {
        self.add_instance_of(name, true);
    }

    fn add_instance_of(&mut self, name: &str, is_of_others: bool) -> String {
        let is_confused = std::mem::replace(&mut self.is_confused, is_of_others);
        let number = self.number();
        let [high, low] = u16::try_from(number % 65_000)
            .unwrap_or_default()
            .to_be_bytes();
        let private = format!("10.0.{high}.{low}");
        let [instance, vnic, attachment, address] =
            ["instance", "vnic", "vnicattachment", "privateip"]
                .map(|kind| self.numbered(kind, number));
        let id = self.insert(&json!({
            "id": instance, "displayName": name, "compartmentId": COMPARTMENT,
            "availabilityDomain": DOMAIN, "faultDomain": "FAULT-DOMAIN-2", "lifecycleState": "RUNNING", "region": "phx",
            "shape": "VM.Standard.E4.Flex", "timeCreated": self.time(), "metadata": {},
        }));
        self.insert(&json!({
            "id": vnic, "compartmentId": COMPARTMENT, "availabilityDomain": DOMAIN,
            "isPrimary": true, "privateIp": private, "subnetId": NODE_SUBNET, "hostnameLabel": name, "nsgIds": [],
            "lifecycleState": "AVAILABLE", "timeCreated": self.time(), "ipv6Addresses": [],
        }));
        self.insert(&json!({
            "id": attachment, "compartmentId": COMPARTMENT, "instanceId": id,
            "availabilityDomain": DOMAIN, "lifecycleState": "ATTACHED", "vnicId": vnic,
            "subnetId": NODE_SUBNET, "timeCreated": self.time(),
        }));
        self.insert(&json!({
            "id": address, "compartmentId": COMPARTMENT, "ipAddress": private,
            "isPrimary": true, "subnetId": NODE_SUBNET, "vnicId": vnic,
            "hostnameLabel": name, "timeCreated": self.time(), "freeformTags": {},
        }));
        self.is_confused = is_confused;
        id
    }

    /// Adds a secondary VNIC with this address and these tags to an instance.
    pub fn add_vnic(&mut self, instance: &str, ip: &str, tags: &Value) {
        let owner = self
            .all("instance")
            .find(|object| object["displayName"] == instance)
            .cloned()
            .unwrap_or_default();
        let vnic = self.ocid("vnic");
        let attachment = self.ocid("vnicattachment");
        let time = self.time();
        self.insert(&json!({
            "id": vnic, "compartmentId": COMPARTMENT, "availabilityDomain": DOMAIN, "isPrimary": false, "privateIp": ip,
            "subnetId": NODE_SUBNET, "nsgIds": [], "lifecycleState": "AVAILABLE", "timeCreated": time, "definedTags": tags,
        }));
        self.insert(&json!({
            "id": attachment, "compartmentId": COMPARTMENT, "instanceId": owner["id"], "availabilityDomain": DOMAIN,
            "lifecycleState": "ATTACHED", "vnicId": vnic, "subnetId": NODE_SUBNET, "timeCreated": time,
        }));
    }

    /// Adds a reserved public IP in this state.
    pub fn add_public_ip(&mut self, ip: &str, state: &str) {
        let id = self.ocid("publicip");
        self.insert(&json!({
            "id": id, "compartmentId": COMPARTMENT, "ipAddress": ip, "lifecycleState": state, "lifetime": "RESERVED",
            "scope": "REGION", "timeCreated": self.time(),
        }));
    }

    /// Changes instances of this name.
    pub fn change_instance(&mut self, name: &str, change: impl Fn(&mut Value)) {
        let of = |object: &&mut Value| object["shape"].is_string() && object["displayName"] == name;
        self.objects.values_mut().filter(of).for_each(change);
    }

    /// Removes instances of this name, with their VNICs and addresses.
    pub fn remove_instance(&mut self, name: &str) {
        let gone: Vec<_> = self
            .all("instance")
            .filter(|object| object["displayName"] == name)
            .map(|object| object["id"].clone())
            .collect();
        let numbers: Vec<_> = gone
            .iter()
            .filter_map(|id| Some(id.as_str()?.rsplit('.').next()?.to_owned()))
            .collect();
        let is_its_id = |id: &str| {
            numbers
                .iter()
                .any(|number| id.ends_with(&format!(".{number}")))
        };
        self.objects.retain(|id, _| !is_its_id(id));
    }
}

fn of<'a>(
    cloud: &'a Oracle,
    kind: &str,
    request: &'a ApiRequest,
    keys: &'static [&'static str],
) -> impl Iterator<Item = Value> + 'a {
    let fits = move |object: &&Value| {
        keys.iter()
            .all(|key| request.query(key).is_none_or(|value| object[*key] == value))
    };
    cloud
        .visible(kind)
        .filter(fits)
        .cloned()
        .collect::<Vec<_>>()
        .into_iter()
}

pub(crate) fn domains(_: &mut Oracle, request: &ApiRequest) -> Answer {
    page(
        request,
        [json!({"name": DOMAIN, "id": "ocid1.availabilitydomain.oc1..a", "compartmentId": COMPARTMENT})].into_iter(),
        false,
    )
}

pub(crate) fn instances(cloud: &mut Oracle, request: &ApiRequest) -> Answer {
    page(
        request,
        of(
            cloud,
            "instance",
            request,
            &["displayName", "availabilityDomain"],
        ),
        false,
    )
}

pub(crate) fn one(cloud: &mut Oracle, request: &ApiRequest) -> Answer {
    ok(cloud.find(request)?)
}

pub(crate) fn update(cloud: &mut Oracle, request: &ApiRequest) -> Answer {
    let found = cloud.find(request)?;
    for key in ["definedTags", "freeformTags", "displayName"] {
        request
            .body
            .get(key)
            .into_iter()
            .for_each(|value| found[key] = value.clone());
    }
    ok(found)
}

pub(crate) fn attachments(cloud: &mut Oracle, request: &ApiRequest) -> Answer {
    page(
        request,
        of(cloud, "vnicattachment", request, &["instanceId", "vnicId"]),
        false,
    )
}

pub(crate) fn vnic(cloud: &mut Oracle, request: &ApiRequest) -> Answer {
    ok(cloud.find(request)?)
}

fn required(request: &ApiRequest, keys: &[&str]) -> Result<(), Refused> {
    if keys.iter().any(|key| request.query(key).is_some()) {
        Ok(())
    } else {
        Err(refuse(400, "MissingParameter", "a filter is required"))
    }
}

pub(crate) fn private_ips(cloud: &mut Oracle, request: &ApiRequest) -> Answer {
    required(request, &["subnetId", "vnicId", "ipAddress"])?;
    page(
        request,
        of(
            cloud,
            "privateip",
            request,
            &["subnetId", "vnicId", "ipAddress"],
        ),
        false,
    )
}

pub(crate) fn ipv6(cloud: &mut Oracle, request: &ApiRequest) -> Answer {
    required(request, &["subnetId", "vnicId"])?;
    page(
        request,
        of(cloud, "ipv6", request, &["subnetId", "vnicId"]),
        false,
    )
}

pub(crate) fn public_ips(cloud: &mut Oracle, request: &ApiRequest) -> Answer {
    required(request, &["scope"])?;
    page(
        request,
        of(cloud, "publicip", request, &["scope", "availabilityDomain"]),
        false,
    )
}

pub(crate) fn public_ip(cloud: &mut Oracle, request: &ApiRequest) -> Answer {
    let found = cloud
        .visible("publicip")
        .find(|object| object["ipAddress"] == request.body["ipAddress"]);
    found.map_or_else(|| Err(not_found()), ok)
}

/// Creates a block of addresses of a VNIC.
pub(crate) fn create_address(cloud: &mut Oracle, request: &ApiRequest) -> Answer {
    let is_ipv6 = request.path.ends_with("/ipv6");
    let vnic = request.body["vnicId"]
        .as_str()
        .and_then(|id| cloud.objects.get(id))
        .cloned()
        .ok_or_else(not_found)?;
    let token = request
        .header("opc-retry-token")
        .unwrap_or_default()
        .to_owned();
    if let Some(known) = cloud
        .tokens
        .get(&token)
        .and_then(|id| cloud.objects.get(id))
    {
        return ok(known);
    }
    let number = cloud.number();
    let ip = if is_ipv6 {
        format!("2603:c020:0:{number:x}::")
    } else {
        format!("10.1.{}.0", number % 256)
    };
    let mut address = json!({
        "id": format!("ocid1.{}.oc1.phx.{number:06}", if is_ipv6 { "ipv6" } else { "privateip" }), "ipAddress": ip,
        "compartmentId": COMPARTMENT, "displayName": "pods", "isPrimary": false, "subnetId": vnic["subnetId"],
        "vnicId": vnic["id"], "cidrPrefixLength": request.body["cidrPrefixLength"], "lifecycleState": "AVAILABLE",
        "freeformTags": request.body["freeformTags"], "timeCreated": cloud.time(),
    });
    if !is_ipv6 {
        address
            .as_object_mut()
            .map(|address| address.remove("lifecycleState"));
    } else {
        address
            .as_object_mut()
            .map(|address| address.remove("isPrimary"));
    }
    let id = cloud.insert(&address);
    cloud.tokens.insert(token, id);
    ok(&address).map(|reply| Reply {
        status: 200,
        ..reply
    })
}
