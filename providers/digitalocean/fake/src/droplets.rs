//! Droplets API of the fake cloud.

use std::net::{Ipv4Addr, Ipv6Addr};

use serde_json::{Value, json};

use crate::catalog::region;
use crate::model::{Answer, ApiRequest, CREATED, Model, Owned, invalid, named, of, ok, page};
use crate::{REGION, VPC};

/// A droplet of the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Droplet {
    /// ID of the droplet.
    pub id: u64,
    /// Name of the droplet, not necessarily unique.
    pub name: String,
    /// `new`, `active`, `off` or `archive`.
    pub status: String,
    /// Size of the droplet, such as `s-2vcpu-4gb`.
    pub size_slug: String,
    /// Region of the droplet, such as `fra1`.
    pub region: String,
    /// Tags of the droplet.
    pub tags: Vec<String>,
    /// VPC of the droplet.
    pub vpc_uuid: String,
    /// Public IPv4 address of the droplet, if any.
    pub public_v4: Option<Ipv4Addr>,
    /// Private IPv4 addresses of the droplet.
    pub private_v4: Vec<Ipv4Addr>,
    /// Public IPv6 address of the droplet, if any.
    pub public_v6: Option<Ipv6Addr>,
}

impl Droplet {
    fn json(&self) -> Value {
        let v4 = |ip: &Ipv4Addr, kind: &str, gateway: &str| json!({"ip_address": ip, "netmask": "255.255.240.0", "gateway": gateway, "type": kind});
        let private = self.private_v4.iter().map(|ip| v4(ip, "private", ""));
        let public = self
            .public_v4
            .iter()
            .map(|ip| v4(ip, "public", "198.18.0.1"));
        let v6 = self
            .public_v6
            .map(|ip| json!({"ip_address": ip, "netmask": 64, "gateway": "2001:db8::1", "type": "public"}));
        let size = json!({"slug": self.size_slug, "memory": 4096, "vcpus": 2, "disk": 80, "transfer": 4.0, "price_monthly": 24.0,
            "price_hourly": 0.036, "regions": [REGION], "available": true, "description": "Basic"});
        json!({
            "id": self.id, "name": self.name, "status": self.status, "size_slug": self.size_slug, "tags": self.tags,
            "region": region(&self.region), "vpc_uuid": self.vpc_uuid, "created_at": CREATED, "memory": 4096, "vcpus": 2,
            "disk": 80, "locked": false, "features": ["private_networking"], "backup_ids": [], "snapshot_ids": [],
            "volume_ids": [], "next_backup_window": null, "size": size,
            "image": {"id": 63_663_980, "name": "24.04 (LTS) x64", "distribution": "Ubuntu", "public": true, "regions": [REGION]},
            "networks": {"v4": private.chain(public).collect::<Vec<_>>(), "v6": Vec::from_iter(v6)},
        })
    }
}

impl Model {
    /// Adds an active droplet with addresses of both families.
    pub(crate) fn add_droplet(&mut self, account: &str, name: &str) -> Droplet {
        let number = self.next_number();
        let [high, low] = u16::try_from(number).unwrap_or(u16::MAX).to_be_bytes();
        let droplet = Droplet {
            id: 3_000_000 + number,
            name: name.to_owned(),
            status: "active".to_owned(),
            size_slug: "s-2vcpu-4gb".to_owned(),
            region: REGION.to_owned(),
            tags: vec!["k8s".to_owned()],
            vpc_uuid: VPC.to_owned(),
            public_v4: Some(Ipv4Addr::new(198, 18, high, low)),
            private_v4: vec![Ipv4Addr::new(10, 110, high, low)],
            public_v6: Some(Ipv6Addr::new(
                0x2001,
                0xdb8,
                1,
                0,
                0,
                0,
                0,
                u16::from_be_bytes([high, low]),
            )),
        };
        let owned = Owned {
            account: account.to_owned(),
            object: droplet.clone(),
        };
        self.droplets.insert(droplet.id.to_string(), owned);
        droplet
    }

    /// Removes a droplet, also from the targets of load balancers.
    pub(crate) fn remove_droplet(&mut self, id: u64) -> Option<Droplet> {
        let droplet = self.droplets.remove(&id.to_string())?;
        for owned in self.load_balancers.values_mut() {
            if let Some(targets) = owned.object["droplet_ids"].as_array_mut() {
                targets.retain(|target| target.as_u64() != Some(id));
            }
        }
        Some(droplet.object)
    }
}

pub(crate) fn list(model: &mut Model, request: &ApiRequest) -> Answer {
    let name = request.query("name");
    let tag = request.query("tag_name");
    if name.is_some() && tag.is_some() {
        return Err(invalid("name and tag_name cannot be combined"));
    }
    let is_selected = |droplet: &&Droplet| {
        name.is_none_or(|name| droplet.name.eq_ignore_ascii_case(name))
            && tag.is_none_or(|tag| droplet.tags.iter().any(|other_tag| other_tag == tag))
    };
    page(
        request,
        "droplets",
        of(&model.droplets, request).filter(is_selected),
        Droplet::json,
    )
}

pub(crate) fn get(model: &mut Model, request: &ApiRequest) -> Answer {
    ok(json!({"droplet": named(&model.droplets, request)?.json()}))
}
