//! Actions of load balancers.

use std::net::{IpAddr, Ipv4Addr};

use ipnet::Ipv4Net;
use serde::Deserialize;

use crate::balancer_services::{Service, ServiceChange};
use crate::balancer_targets::{Target, TargetWish};
use crate::balancers::{Algorithm, Balancer, PrivateNet, name_or_id};
use crate::model::{Model, asked_for, changed};
use crate::refusal::{Answer, Refusal};
use crate::routes::{ApiRequest, parse};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewType {
    #[serde(deserialize_with = "name_or_id")]
    load_balancer_type: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Pointer {
    ip: IpAddr,
    dns_ptr: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Attachment {
    network: u64,
    ip: Option<Ipv4Addr>,
    ip_range: Option<Ipv4Net>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Port {
    listen_port: u16,
}

pub(crate) fn act(model: &mut Model, request: &ApiRequest) -> Answer {
    let command = request.route.rsplit('/').next().unwrap_or_default();
    let before = asked_for(&model.balancers, request, "load balancer")?;
    let after = model.after(request, before.clone(), command)?;
    let action = model.act(request, command, ("load_balancer", after.id))?;
    changed(&mut model.balancers, &action, |load_balancer| {
        *load_balancer = after;
    });
    action.answer()
}

impl Model {
    /// Returns a load balancer after an action.
    fn after(
        &self,
        request: &ApiRequest,
        mut balancer: Balancer,
        command: &str,
    ) -> Result<Balancer, Refusal> {
        let project = &request.project;
        match command {
            "change_algorithm" => balancer.algorithm = parse::<Algorithm>(request)?.name()?,
            "change_type" => self.change_type(
                &mut balancer,
                &parse::<NewType>(request)?.load_balancer_type,
            )?,
            "change_dns_ptr" => change_pointer(&mut balancer, parse(request)?)?,
            "attach_to_network" => {
                self.attach_balancer(project, &mut balancer, &parse(request)?)?;
            }
            "detach_from_network" => detach(&mut balancer, parse::<Attachment>(request)?.network)?,
            "enable_public_interface" => balancer.public_interface = true,
            "disable_public_interface" => disable(&mut balancer)?,
            "add_service" => {
                let service = Service::new(parse(request)?)?;
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
            "update_service" => self.update_service(project, &mut balancer, parse(request)?)?,
            "delete_service" => {
                let Port { listen_port } = parse(request)?;
                let before = balancer.services.len();
                balancer
                    .services
                    .retain(|service| service.listen_port != listen_port);
                if balancer.services.len() == before {
                    return Err(Refusal::not_found("service"));
                }
            }
            "add_target" => {
                let target = parse::<TargetWish>(request)?.target()?;
                self.admit_target(project, &balancer, &target)?;
                balancer.targets.push(target);
            }
            "remove_target" => {
                let target = parse::<TargetWish>(request)?.target()?;
                let before = balancer.targets.len();
                balancer
                    .targets
                    .retain(|other_target| !other_target.is_same(&target));
                if balancer.targets.len() == before {
                    return Err(Refusal::not_found("target"));
                }
            }
            _ => return Err(Refusal::not_found("action")),
        }
        Ok(balancer)
    }

    fn change_type(&self, balancer: &mut Balancer, name: &str) -> Result<(), Refusal> {
        let name = self.type_named(name)?;
        let kind = self
            .types
            .iter()
            .find(|balancer_type| balancer_type.name == name);
        let is_too_small = |max_targets, max_services| {
            balancer.targets.len() > max_targets || balancer.services.len() > max_services
        };
        if kind.is_some_and(|balancer_type| {
            is_too_small(balancer_type.max_targets, balancer_type.max_services)
        }) {
            return Err(Refusal::new(
                "invalid_load_balancer_type",
                "the type is too small for what there is",
            ));
        }
        balancer.load_balancer_type = name;
        Ok(())
    }

    fn attach_balancer(
        &self,
        project: &str,
        balancer: &mut Balancer,
        wish: &Attachment,
    ) -> Result<(), Refusal> {
        if balancer
            .private_net
            .iter()
            .any(|network| network.network == wish.network)
        {
            return Err(Refusal::new(
                "load_balancer_already_attached",
                "already attached to this network",
            ));
        }
        let ip = self.address_in(project, wish.network, wish.ip, wish.ip_range)?;
        balancer.private_net.push(PrivateNet {
            network: wish.network,
            ip,
        });
        Ok(())
    }

    fn update_service(
        &self,
        project: &str,
        balancer: &mut Balancer,
        change: ServiceChange,
    ) -> Result<(), Refusal> {
        let port = change
            .listen_port
            .ok_or_else(|| Refusal::field("listen_port", "is required"))?;
        let at = balancer
            .services
            .iter()
            .position(|service| service.listen_port == port);
        let at = at.ok_or_else(|| Refusal::not_found("service"))?;
        let mut service = balancer.services[at].clone();
        service.change(change)?;
        self.admit_service(project, balancer, &service)?;
        balancer.services[at] = service;
        Ok(())
    }
}

fn change_pointer(
    balancer: &mut Balancer,
    Pointer { ip, dns_ptr }: Pointer,
) -> Result<(), Refusal> {
    let addresses = [&mut balancer.ipv4, &mut balancer.ipv6];
    let address = addresses
        .into_iter()
        .find(|public_ip| public_ip.ip == ip)
        .ok_or_else(|| Refusal::not_found("ip"))?;
    address.dns_ptr = dns_ptr;
    Ok(())
}

fn detach(balancer: &mut Balancer, network: u64) -> Result<(), Refusal> {
    let before = balancer.private_net.len();
    balancer
        .private_net
        .retain(|private_net| private_net.network != network);
    if balancer.private_net.len() == before {
        return Err(Refusal::new(
            "load_balancer_not_attached_to_network",
            "not attached to this network",
        ));
    }
    // Targets that were reached through the network are removed.
    balancer.targets.retain(|target| !target.is_private());
    Ok(())
}

fn disable(balancer: &mut Balancer) -> Result<(), Refusal> {
    if balancer
        .targets
        .iter()
        .any(|target| !target.is_private() && !matches!(target, Target::Ip(_)))
    {
        let message = "there are targets that are reached by their public addresses";
        return Err(Refusal::new("targets_without_use_private_ip", message));
    }
    balancer.public_interface = false;
    Ok(())
}
