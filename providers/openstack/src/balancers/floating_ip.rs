//! The floating IP on a load balancer: created, adopted, kept and released.

use cloud_provider::{Cluster, Error, LoadBalancerRequest, Result, Service};
use provider_kit::load_balancers::{
    Attributes, Identity, ObservedLoadBalancer, Operation, ResourceKey,
};
use provider_kit::transport::Call;
use serde::Deserialize;
use serde_json::{Value, json};

use super::octavia;
use super::project::Project;
use super::published::{addresses, has_or_requests_load_balancer};
use super::spec::{FloatingSubnet, ServiceSpec};
use super::tags::{LEGACY, Share, balancer_id, cut, full_name, legacy_tag};
use crate::annotations as key;
use crate::services::{Services, based_on};

/// Beginning of the description of every floating IP that this program or the Go cloud-controller-manager created.
const OURS: &str = "Floating IP for Kubernetes external service";

/// A floating IP, as Neutron returns it.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct FloatingIp {
    pub(super) id: String,
    #[serde(rename = "floating_ip_address")]
    pub(super) address: String,
    #[serde(rename = "floating_network_id")]
    network: String,
    /// The port that it leads to.
    #[serde(rename = "port_id")]
    pub(super) port: Option<String>,
    description: Option<String>,
    revision_number: Option<u64>,
}

impl FloatingIp {
    /// Returns `true` if this program or the Go cloud-controller-manager created the floating IP.
    fn is_ours(&self) -> bool {
        self.description
            .as_ref()
            .is_some_and(|text| text.contains(OURS))
    }

    /// Returns `true` if the floating IP was created for the Service, or for the Service that the load balancer was created
    /// for, which others shared. Another floating IP, such as one that was kept for another Service and that
    /// `spec.loadBalancerIP` names, is never deleted.
    ///
    /// # Errors
    /// Octavia's answer.
    async fn is_of(
        &self,
        project: &Project,
        identity: &Identity<'_>,
        balancer: &str,
    ) -> Result<bool> {
        let Some(text) = self.description.as_ref().filter(|_| self.is_ours()) else {
            return Ok(false);
        };
        if text.contains(&description(identity.cluster, identity.service)) {
            return Ok(true);
        }
        let created_for = text
            .split_once(OURS)
            .and_then(|(_, rest)| rest.trim().split_once(" from cluster "));
        let tag = created_for.and_then(|(service, cluster)| {
            service
                .split_once('/')
                .map(|(namespace, name)| format!("{LEGACY}{cluster}_{namespace}_{name}"))
        });
        let Some(tag) = tag.map(cut) else {
            return Ok(false);
        };
        let balancer = project.balancer(balancer_id(balancer)).await?;
        Ok(balancer.is_some_and(|balancer| octavia::text(&balancer, "name") == tag))
    }

    /// Returns the floating IP as a part of its load balancer.
    pub(super) fn resource(&self) -> (ResourceKey, Attributes) {
        let settings = Attributes::default()
            .set("id", &self.id)
            .set("address", &self.address);
        (
            resource(),
            settings
                .set("network", &self.network)
                .set("ours", self.is_ours()),
        )
    }
}

/// Returns the resource for a floating IP. The desired state has no settings for it, so an existing floating IP is
/// never replaced.
pub(super) fn resource() -> ResourceKey {
    ResourceKey::created_after("floating ip", "floating ip")
}

fn description(cluster: &Cluster, service: &Service) -> String {
    let (namespace, name) = full_name(service);
    cut(format!(
        "{OURS} {namespace}/{name} from cluster {}",
        cluster.name
    ))
}

/// Reads the floating IPs of the project: all of them, or those with this value in a field.
///
/// # Errors
/// Neutron's answer.
pub(super) async fn list(
    services: &Services,
    field: Option<(&str, &str)>,
) -> Result<Vec<FloatingIp>> {
    let call = field
        .iter()
        .fold(Call::get("/floatingips", &[]), |call, (key, value)| {
            call.query(key, value)
        });
    services
        .all(
            &services.network,
            call,
            "floatingips",
            |floating_ip: &FloatingIp| floating_ip.id.clone(),
        )
        .await
}

async fn first(services: &Services, key: &str, value: &str) -> Result<Option<FloatingIp>> {
    Ok(list(services, Some((key, value))).await?.into_iter().next())
}

/// Reads the floating IP on a port.
///
/// # Errors
/// Neutron's answer.
pub(super) async fn of_port(services: &Services, port: &str) -> Result<Option<FloatingIp>> {
    first(services, "port_id", port).await
}

/// Returns the ID of the floating IP that is deleted with a load balancer, whose VIP is at this port.
///
/// # Errors
/// Neutron's answer.
pub(super) async fn to_delete(
    project: &Project,
    identity: &Identity<'_>,
    balancer: &str,
    port: &str,
) -> Result<Option<String>> {
    if port.is_empty() || is_kept(identity.service) {
        return Ok(None);
    }
    match of_port(&project.services, port).await? {
        Some(found) if found.is_of(project, identity, balancer).await? => Ok(Some(found.id)),
        _ => Ok(None),
    }
}

/// Reads the floating IPs that a deleted load balancer of the Service left behind: see [`unused`].
///
/// # Errors
/// Neutron's answer.
pub(super) async fn left_over(
    services: &Services,
    cluster: &Cluster,
    service: &Service,
) -> Result<Vec<FloatingIp>> {
    if is_kept(service) {
        Ok(Vec::new())
    } else {
        unused(services, cluster, service).await
    }
}

/// Reads floating IPs of this Service that lead nowhere, because their load balancer was deleted. Another cluster may have the
/// same name, and may keep one: only an address that the Service shows is its own.
async fn unused(
    services: &Services,
    cluster: &Cluster,
    service: &Service,
) -> Result<Vec<FloatingIp>> {
    let shown = addresses(service);
    if shown.is_empty() {
        return Ok(Vec::new());
    }
    let mut found = list(
        services,
        Some(("description", &description(cluster, service))),
    )
    .await?;
    found.retain(|floating_ip| {
        floating_ip.port.is_none()
            && floating_ip.is_ours()
            && shown.contains(&&*floating_ip.address)
    });
    Ok(found)
}

/// Returns `true` if the floating IP outlives its Service.
fn is_kept(service: &Service) -> bool {
    key::annotations_of(service)
        .get(&key::KEEP_FLOATINGIP)
        .unwrap_or_default()
}

fn in_use_error(address: &str, port: &str) -> Error {
    Error::invalid(format!(
        "floating IP {address} (spec.loadBalancerIP) is not available: it leads to port {port}"
    ))
}

/// Checks before the creation of a load balancer that the address in `spec.loadBalancerIP` is not associated with the
/// port of another object.
///
/// # Errors
/// *Invalid* if the floating IP is in use; otherwise, the answer of Neutron or Octavia.
pub(super) async fn check_named(
    project: &Project,
    request: &LoadBalancerRequest<'_>,
    spec: &ServiceSpec,
) -> Result<()> {
    let LoadBalancerRequest {
        cluster, service, ..
    } = *request;
    let Some(address) = spec
        .address
        .as_ref()
        .filter(|_| !has_or_requests_load_balancer(service))
    else {
        return Ok(());
    };
    let found = first(&project.services, "floating_ip_address", address).await?;
    let Some(FloatingIp {
        port: Some(port), ..
    }) = found
    else {
        return Ok(());
    };
    // An interrupted sync may have associated the floating IP with the Service's own load balancer.
    let owner_tag = legacy_tag(cluster, service);
    let found = project.found_by("vip_port_id", port.clone()).await?;
    let is_own = found
        .iter()
        .flat_map(Share::all)
        .any(|view| view.legacy_owner_tag.as_ref() == Some(&owner_tag));
    if is_own {
        Ok(())
    } else {
        Err(in_use_error(address, &port))
    }
}

async fn create(services: &Services, fields: &Value) -> Result<FloatingIp> {
    let call = Call::post("/floatingips", &[])
        .json(&json!({ "floatingip": fields }))
        .inside("floatingip");
    services.network.read(call).await
}

/// Associates a floating IP with a port, or with none, unless it was changed since it was read (*conflict*).
async fn lead(
    services: &Services,
    floating_ip: &FloatingIp,
    port: Option<&str>,
) -> Result<FloatingIp> {
    let call = Call::put("/floatingips/{id}", &[&floating_ip.id])
        .json(&json!({"floatingip": {"port_id": port}}));
    services
        .network
        .read(based_on(floating_ip.revision_number, call).inside("floatingip"))
        .await
}

/// Applies one operation on the floating IP, and returns its attributes afterwards. If `goes` is set, the load balancer
/// is being deleted: a floating IP that is not deleted with it is left unchanged.
///
/// # Errors
/// Neutron's answer; *invalid* if the address that the Service names is taken, or if the load balancer is not the Service's.
pub(super) async fn apply(
    project: &Project,
    operation: &Operation,
    identity: &Identity<'_>,
    actual: &ObservedLoadBalancer,
    port: &str,
    goes: bool,
    spec: &Result<ServiceSpec>,
) -> Result<Option<Attributes>> {
    let services = &project.services;
    match operation {
        Operation::Create { .. } => {
            let spec = spec.as_ref().map_err(Clone::clone)?;
            Ok(Some(
                obtain(project, identity, actual, port, spec)
                    .await?
                    .resource()
                    .1,
            ))
        }
        Operation::Delete { .. } => {
            // The one on the load balancer, or what is left if that no longer exists.
            let found = match port {
                "" => left_over(services, identity.cluster, identity.service)
                    .await?
                    .into_iter()
                    .next(),
                port => of_port(services, port).await?,
            };
            let Some(found) = found else { return Ok(None) };
            if !is_kept(identity.service) && found.is_of(project, identity, &actual.id).await? {
                services
                    .network
                    .remove(Call::delete("/floatingips/{id}", &[&found.id]))
                    .await?;
            } else if found.port.is_some() && !goes {
                lead(services, &found, None).await?;
            }
            Ok(None)
        }
        _ => Ok(None),
    }
}

/// Returns a floating IP for the load balancer, the first of these: the one on its port; the one in
/// `spec.loadBalancerIP`; an unused one that was created for this Service; a new one.
async fn obtain(
    project: &Project,
    identity: &Identity<'_>,
    actual: &ObservedLoadBalancer,
    port: &str,
    spec: &ServiceSpec,
) -> Result<FloatingIp> {
    let services = &project.services;
    let service = identity.service;
    if let Some(found) = of_port(services, port).await? {
        return Ok(found);
    }
    // The owner of a shared load balancer may have made it internal on purpose, so only the owner adds a floating IP.
    // Without other users, this Service is the owner.
    if actual.id.contains('/') && !actual.foreign.is_empty() {
        return Err(Error::invalid(format!(
            "{} has no floating IP, and only the Service that owns it can add one: set annotation {} to \"true\" \
             here, or remove it there",
            actual.place(),
            key::INTERNAL.key()
        )));
    }
    let free = match &spec.address {
        Some(address) => first(services, "floating_ip_address", address).await?,
        None => unused(services, identity.cluster, service)
            .await?
            .into_iter()
            .next(),
    };
    match free {
        Some(FloatingIp {
            port: Some(other),
            address,
            ..
        }) => return Err(in_use_error(&address, &other)),
        Some(free) => return lead(services, &free, Some(port)).await,
        None => {}
    }
    let none = || {
        Error::invalid(
            "there is no external network to get a floating IP from; set floating-network-id",
        )
    };
    let network = match spec.floating.network.clone() {
        Some(network) => network,
        None => project
            .networks
            .external_network()
            .await?
            .ok_or_else(none)?,
    };
    let mut fields = json!({
        "floating_network_id": network, "port_id": port, "description": description(identity.cluster, service),
    });
    if let Some(address) = &spec.address {
        fields["floating_ip_address"] = json!(address);
    }
    match &spec.floating.subnet {
        FloatingSubnet::Id(id) => fields["subnet_id"] = json!(id),
        FloatingSubnet::Like { name, tags } if spec.address.is_none() => {
            return any_of(project, &network, name.as_deref(), tags.as_deref(), fields).await;
        }
        FloatingSubnet::Like { .. } | FloatingSubnet::Any => {}
    }
    create(services, &fields).await
}

/// Creates a floating IP in the first of the subnets with a free address.
async fn any_of(
    project: &Project,
    network: &str,
    name: Option<&str>,
    tags: Option<&str>,
    mut fields: Value,
) -> Result<FloatingIp> {
    let mut last = Error::other("no subnet was tried");
    for subnet in project
        .networks
        .floating_subnets(network, name, tags)
        .await?
    {
        fields["subnet_id"] = json!(subnet.id);
        match create(&project.services, &fields).await {
            Err(err)
                if err.is_quota()
                    || err.is_invalid()
                    || err.is_conflict()
                    || err.is_not_found() =>
            {
                tracing::info!(subnet = subnet.name, %err, "no floating IP from this subnet");
                last = err;
            }
            created => return created,
        }
    }
    Err(last)
}
