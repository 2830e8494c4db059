//! Load balancers: create, read, rename, delete.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use fake_cloud::Reply;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

use crate::balancer_services::{Service, ServiceChange};
use crate::balancer_targets::{Target, TargetWish};
use crate::catalogue::{BalancerType, LOCATIONS, location};
use crate::lists::{page, selects};
use crate::model::{CREATED, Kind, Model, Owned, asked_for, of_project, one, one_mut};
use crate::refusal::{Answer, Refusal};
use crate::routes::{ApiRequest, ok, parse};

/// A load balancer of the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Balancer {
    /// ID of the load balancer.
    pub id: u64,
    /// Name of the load balancer, unique in its project.
    pub name: String,
    /// Labels of the load balancer.
    pub labels: BTreeMap<String, String>,
    /// Type of the load balancer, such as `lb11`.
    pub load_balancer_type: String,
    /// Location of the load balancer, such as `fsn1`.
    pub location: String,
    /// Algorithm: `round_robin` or `least_connections`.
    pub algorithm: String,
    /// If set, the public interface is enabled.
    pub public_interface: bool,
    /// Public IPv4 address of the load balancer.
    pub ipv4: PublicIp,
    /// Public IPv6 address of the load balancer.
    pub ipv6: PublicIp,
    /// The networks that it is attached to.
    pub private_net: Vec<PrivateNet>,
    /// Services (listeners) of the load balancer.
    pub services: Vec<Service>,
    /// Targets of the load balancer.
    pub targets: Vec<Target>,
    /// If set, deletions are refused.
    pub is_protected: bool,
}

/// A public address of a load balancer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PublicIp {
    /// The IP address itself.
    pub ip: IpAddr,
    /// Reverse DNS of the address.
    pub dns_ptr: Option<String>,
}

/// An attachment to a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PrivateNet {
    /// Id of the network.
    pub network: u64,
    /// Address of the load balancer in the network.
    pub ip: Ipv4Addr,
}

/// Reads a name, or an ID: the latter may be a number, as Hetzner's own client sends it.
pub(crate) fn name_or_id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::String(text) => Ok(text),
        Value::Number(id) => Ok(id.to_string()),
        _ => Err(serde::de::Error::custom("neither a name nor an ID")),
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wish {
    name: String,
    #[serde(deserialize_with = "name_or_id")]
    load_balancer_type: String,
    location: Option<String>,
    network_zone: Option<String>,
    algorithm: Option<Algorithm>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    network: Option<u64>,
    public_interface: Option<bool>,
    #[serde(default)]
    services: Vec<ServiceChange>,
    #[serde(default)]
    targets: Vec<TargetWish>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Algorithm {
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Change {
    name: Option<String>,
    labels: Option<BTreeMap<String, String>>,
}

impl Algorithm {
    pub(crate) fn name(self) -> Result<String, Refusal> {
        if ["round_robin", "least_connections"].contains(&self.kind.as_str()) {
            return Ok(self.kind);
        }
        Err(Refusal::field(
            "type",
            "must be round_robin or least_connections",
        ))
    }
}

impl Balancer {
    pub(crate) fn json(&self, types: &[BalancerType]) -> Value {
        let kind = types
            .iter()
            .find(|balancer_type| balancer_type.name == self.load_balancer_type)
            .map(BalancerType::json);
        json!({
            "id": self.id, "name": self.name, "labels": self.labels, "created": CREATED,
            "load_balancer_type": kind, "location": location(&self.location), "algorithm": {"type": self.algorithm},
            "public_net": {"enabled": self.public_interface, "ipv4": self.ipv4, "ipv6": self.ipv6},
            "private_net": self.private_net, "services": self.services,
            "targets": self.targets.iter().map(Target::json).collect::<Vec<_>>(),
            "protection": {"delete": self.is_protected},
            "included_traffic": 0, "outgoing_traffic": 0, "ingoing_traffic": 0,
        })
    }
}

/// Labels as the API accepts them.
fn check_labels(labels: &BTreeMap<String, String>) -> Result<(), Refusal> {
    let is_fine = |text: &str| {
        text.len() <= 63
            && text
                .chars()
                .all(|character| character.is_ascii_alphanumeric() || "._-".contains(character))
    };
    let name = |key: &str| key.rsplit('/').next().unwrap_or_default().to_owned();
    match labels
        .iter()
        .find(|(key, value)| !is_fine(&name(key)) || !is_fine(value))
    {
        None => Ok(()),
        Some((key, _)) => Err(Refusal::field(
            "labels",
            &format!("{key} or its value is not valid"),
        )),
    }
}

impl Model {
    /// Adds a load balancer of the smallest type in `fsn1`, as another program creates it.
    pub(crate) fn add_balancer(&mut self, project: &str, name: &str) -> Balancer {
        let (id, number) = self.next_id(Kind::Balancer);
        let [high, low] = u16::try_from(number).unwrap_or(u16::MAX).to_be_bytes();
        let ipv4 = Ipv4Addr::new(198, 19, high, low);
        let ipv6 = Ipv6Addr::new(
            0x2001,
            0xdb8,
            0xffff,
            0,
            0,
            0,
            u16::from_be_bytes([high, low]),
            1,
        );
        let pointer = format!(
            "static.{}.{}.{}.{}.clients.example",
            ipv4.octets()[3],
            ipv4.octets()[2],
            19,
            198
        );
        let balancer = Balancer {
            id,
            name: name.to_owned(),
            labels: BTreeMap::new(),
            load_balancer_type: "lb11".to_owned(),
            location: "fsn1".to_owned(),
            algorithm: "round_robin".to_owned(),
            public_interface: true,
            ipv4: PublicIp {
                ip: ipv4.into(),
                dns_ptr: Some(pointer),
            },
            ipv6: PublicIp {
                ip: ipv6.into(),
                dns_ptr: None,
            },
            private_net: Vec::new(),
            services: Vec::new(),
            targets: Vec::new(),
            is_protected: false,
        };
        self.balancers.insert(
            id,
            Owned {
                project: project.to_owned(),
                object: balancer.clone(),
            },
        );
        balancer
    }

    pub(crate) fn type_named(&self, name_or_id: &str) -> Result<String, Refusal> {
        let found = self.types.iter().find(|balancer_type| {
            balancer_type.name == name_or_id || balancer_type.id.to_string() == name_or_id
        });
        let found =
            found.ok_or_else(|| Refusal::field("load_balancer_type", "there is no such type"))?;
        Ok(found.name.clone())
    }

    fn name_is_free(&self, project: &str, id: Option<u64>, name: &str) -> Result<(), Refusal> {
        if of_project(&self.balancers, project)
            .any(|load_balancer| load_balancer.name == name && Some(load_balancer.id) != id)
        {
            return Err(Refusal::new(
                "uniqueness_error",
                format!("name {name:?} is already used"),
            ));
        }
        Ok(())
    }

    /// Checks that a load balancer may have this service.
    pub(crate) fn admit_service(
        &self,
        project: &str,
        balancer: &Balancer,
        service: &Service,
    ) -> Result<(), Refusal> {
        let kind = self
            .types
            .iter()
            .find(|balancer_type| balancer_type.name == balancer.load_balancer_type);
        let others = || {
            balancer
                .services
                .iter()
                .filter(|other_service| other_service.listen_port != service.listen_port)
        };
        if kind.is_some_and(|kind| others().count() >= kind.max_services) {
            return Err(Refusal::new(
                "resource_limit_exceeded",
                "the type's limit of services is reached",
            ));
        }
        let certificates = service.http.iter().flat_map(|http| &http.certificates);
        for id in certificates.clone() {
            one(&self.certificates, project, *id)
                .ok_or_else(|| Refusal::not_found("certificate"))?;
        }
        let all = others()
            .filter_map(|service| service.http.as_ref())
            .flat_map(|http| &http.certificates)
            .chain(certificates);
        let all: std::collections::BTreeSet<_> = all.collect();
        if kind.is_some_and(|kind| all.len() > kind.max_assigned_certificates) {
            return Err(Refusal::new(
                "resource_limit_exceeded",
                "the type's limit of certificates is reached",
            ));
        }
        Ok(())
    }

    fn create(&mut self, project: &str, wish: Wish) -> Result<Balancer, Refusal> {
        check_labels(&wish.labels)?;
        self.name_is_free(project, None, &wish.name)?;
        let load_balancer_type = self.type_named(&wish.load_balancer_type)?;
        let found = match (&wish.location, &wish.network_zone) {
            (Some(name), None) => LOCATIONS.iter().find(|location| location.name == name),
            (None, Some(zone)) => LOCATIONS
                .iter()
                .find(|location| location.network_zone == zone),
            (None, None) => {
                return Err(Refusal::field(
                    "location",
                    "location or network_zone is required",
                ));
            }
            (Some(_), Some(_)) => {
                return Err(Refusal::field(
                    "location",
                    "location and network_zone exclude each other",
                ));
            }
        };
        let found = found.ok_or_else(|| Refusal::field("location", "there is no such location"))?;
        let mut balancer = self.add_balancer(project, &wish.name);
        let id = balancer.id;
        balancer.location = found.name.to_owned();
        balancer.load_balancer_type = load_balancer_type;
        balancer.labels = wish.labels;
        balancer.public_interface = wish.public_interface.unwrap_or(true);
        let fill = || {
            if let Some(algorithm) = wish.algorithm {
                balancer.algorithm = algorithm.name()?;
            }
            if let Some(network) = wish.network {
                let ip = self.address_in(project, network, None, None)?;
                balancer.private_net.push(PrivateNet { network, ip });
            }
            for service in wish.services {
                let service = Service::new(service)?;
                if balancer
                    .services
                    .iter()
                    .any(|other_service| other_service.listen_port == service.listen_port)
                {
                    return Err(Refusal::new(
                        "source_port_already_used",
                        "source port already used",
                    ));
                }
                self.admit_service(project, &balancer, &service)?;
                balancer.services.push(service);
            }
            for target in wish.targets {
                let target = target.target()?;
                self.admit_target(project, &balancer, &target)?;
                balancer.targets.push(target);
            }
            Ok(balancer)
        };
        let outcome = fill();
        match &outcome {
            Ok(balancer) => {
                let object = Owned {
                    project: project.to_owned(),
                    object: balancer.clone(),
                };
                self.balancers.insert(id, object);
            }
            Err(_) => {
                self.balancers.remove(&id);
            }
        }
        outcome
    }
}

pub(crate) fn list(model: &mut Model, request: &ApiRequest) -> Answer {
    let balancers = of_project(&model.balancers, &request.project)
        .filter(|load_balancer| selects(request, &load_balancer.name, &load_balancer.labels));
    page(request, "load_balancers", balancers, |load_balancer| {
        load_balancer.json(&model.types)
    })
}

pub(crate) fn get(model: &mut Model, request: &ApiRequest) -> Answer {
    let balancer = asked_for(&model.balancers, request, "load balancer")?;
    ok(json!({"load_balancer": balancer.json(&model.types)}))
}

pub(crate) fn create(model: &mut Model, request: &ApiRequest) -> Answer {
    let balancer = model.create(&request.project, parse(request)?)?;
    let action = model.act(
        request,
        "create_load_balancer",
        ("load_balancer", balancer.id),
    )?;
    let answer = json!({"load_balancer": balancer.json(&model.types), "action": action.json()});
    Ok(Reply::new(201, answer))
}

pub(crate) fn change(model: &mut Model, request: &ApiRequest) -> Answer {
    let change: Change = parse(request)?;
    let id = asked_for(&model.balancers, request, "load balancer")?.id;
    if let Some(name) = &change.name {
        model.name_is_free(&request.project, Some(id), name)?;
    }
    check_labels(change.labels.as_ref().unwrap_or(&BTreeMap::new()))?;
    if let Some(balancer) = one_mut(&mut model.balancers, id) {
        balancer.name = change.name.unwrap_or_else(|| balancer.name.clone());
        balancer.labels = change.labels.unwrap_or_else(|| balancer.labels.clone());
    }
    get(model, request)
}

pub(crate) fn delete(model: &mut Model, request: &ApiRequest) -> Answer {
    let balancer = asked_for(&model.balancers, request, "load balancer")?;
    if balancer.is_protected {
        return Err(Refusal::new(
            "protected",
            "the load balancer is protected against deletion",
        ));
    }
    let id = balancer.id;
    model.balancers.remove(&id);
    Ok(Reply::empty(204))
}
