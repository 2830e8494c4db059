//! The floating IP on a load balancer (§3.7): made, taken, kept and given back.

use cloud_provider::{Cluster, Error, LoadBalancerRequest, Result, Service};
use provider_kit::load_balancers::{Actual, Attributes, Identity, Operation, Part};
use provider_kit::transport::Call;
use serde::Deserialize;
use serde_json::{Value, json};

use super::asked::{Asked, FloatingSubnet};
use super::project::Project;
use super::shown::{addresses, is_made};
use super::tags::{View, cut, full_name, sign};
use crate::annotations as key;
use crate::services::{Services, based_on};

/// What the description of every floating IP that is ours begins with.
const OURS: &str = "Floating IP for Kubernetes external service";

/// A floating IP, as Neutron shows it.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct FloatingIp {
    pub(super) id: String,
    #[serde(rename = "floating_ip_address")]
    pub(super) address: String,
    #[serde(rename = "floating_network_id")]
    pub(super) network: String,
    /// What it leads to.
    #[serde(rename = "port_id")]
    pub(super) port: Option<String>,
    description: Option<String>,
    revision_number: Option<u64>,
}

impl FloatingIp {
    /// Whether it was made by us, or by the program before us.
    fn is_ours(&self) -> bool {
        self.description.as_ref().is_some_and(|text| text.contains(OURS))
    }

    /// As a part of its load balancer.
    pub(super) fn part(&self) -> (Part, Attributes) {
        (part(), self.attributes())
    }

    fn attributes(&self) -> Attributes {
        let settings = Attributes::default().set("id", &self.id).set("address", &self.address);
        settings.set("network", &self.network).set("ours", self.is_ours())
    }
}

/// The part that a floating IP is. Nothing is wanted of one but that it is there: one that is there is never moved.
pub(super) fn part() -> Part {
    Part::front("floating ip", "floating ip")
}

/// What ours are known by.
pub(super) fn description(cluster: &Cluster, service: &Service) -> String {
    let (namespace, name) = full_name(service);
    cut(format!("{OURS} {namespace}/{name} from cluster {}", cluster.name))
}

/// All of the project.
///
/// # Errors
/// What Neutron answered.
pub(super) async fn all(services: &Services) -> Result<Vec<FloatingIp>> {
    list(services, Call::get("/floatingips", &[])).await
}

/// The one on a port.
///
/// # Errors
/// What Neutron answered.
pub(super) async fn of_port(services: &Services, port: &str) -> Result<Option<FloatingIp>> {
    Ok(list(services, Call::get("/floatingips", &[]).query("port_id", port)).await?.into_iter().next())
}

/// What is to be removed after a load balancer that is gone: see [`unused`].
///
/// # Errors
/// What Neutron answered.
pub(super) async fn left_over(services: &Services, cluster: &Cluster, service: &Service) -> Result<Vec<FloatingIp>> {
    if is_kept(service) { Ok(Vec::new()) } else { unused(services, cluster, service).await }
}

/// Ours of this Service that lead nowhere, because their load balancer is gone. Another cluster may have the same name, and
/// may keep one: only an address that the Service shows is its own.
async fn unused(services: &Services, cluster: &Cluster, service: &Service) -> Result<Vec<FloatingIp>> {
    let shown = addresses(service);
    if shown.is_empty() {
        return Ok(Vec::new());
    }
    let call = Call::get("/floatingips", &[]).query("description", description(cluster, service));
    let mut found = list(services, call).await?;
    found.retain(|it| it.port.is_none() && it.is_ours() && shown.contains(&&*it.address));
    Ok(found)
}

/// Whether it stays when its Service goes.
fn is_kept(service: &Service) -> bool {
    key::asked_by(service).get(&key::KEEP_FLOATINGIP).unwrap_or_default()
}

async fn list(services: &Services, call: Call) -> Result<Vec<FloatingIp>> {
    services.all(&services.network, call, "floatingips", |it: &FloatingIp| it.id.clone()).await
}

/// Reads the floating IP with this address.
async fn at(services: &Services, address: &str) -> Result<Option<FloatingIp>> {
    let call = Call::get("/floatingips", &[]).query("floating_ip_address", address);
    Ok(list(services, call).await?.into_iter().next())
}

fn taken(address: &str, port: &str) -> Error {
    Error::invalid(format!("floating IP {address} (spec.loadBalancerIP) is not available: it leads to port {port}"))
}

/// Checks, before a load balancer is created, that the floating IP that the Service names leads to no other one.
///
/// # Errors
/// *Invalid* if it does; else the answer of Neutron or Octavia.
pub(super) async fn check_named(project: &Project, request: &LoadBalancerRequest<'_>, asked: &Asked) -> Result<()> {
    let LoadBalancerRequest { cluster, service, .. } = *request;
    let Some(address) = asked.address.as_ref().filter(|_| !is_made(service)) else { return Ok(()) };
    let Some(FloatingIp { port: Some(port), .. }) = at(&project.services, address).await? else { return Ok(()) };
    // A creation that was interrupted may have led it to the Service's own load balancer.
    let own = sign(cluster, service);
    let found = project.found_by("vip_port_id", port.clone()).await?;
    let is_own = found.iter().flat_map(View::all).any(|view| view.sign.as_ref() == Some(&own));
    if is_own { Ok(()) } else { Err(taken(address, &port)) }
}

async fn make(services: &Services, fields: &Value) -> Result<FloatingIp> {
    let call = Call::post("/floatingips", &[]).json(&json!({ "floatingip": fields })).inside("floatingip");
    services.network.read(call).await
}

/// Leads it to a port, or nowhere, unless somebody else has changed it since it was read (*conflict*).
async fn lead(services: &Services, it: &FloatingIp, port: Option<&str>) -> Result<FloatingIp> {
    let call = Call::put("/floatingips/{id}", &[&it.id]).json(&json!({"floatingip": {"port_id": port}}));
    services.network.read(based_on(it.revision_number, call).inside("floatingip")).await
}

/// Does one operation whose part is the floating IP; what is there afterwards. `goes`: the load balancer is removed, and what
/// is not removed with it is left as it is.
///
/// # Errors
/// What Neutron answered; *invalid* if the address that the Service names is taken, or if it is not its load balancer.
pub(super) async fn apply(
    project: &Project,
    operation: &Operation,
    identity: &Identity<'_>,
    actual: &Actual,
    port: &str,
    goes: bool,
    spec: &Result<Asked>,
) -> Result<Option<Attributes>> {
    match operation {
        Operation::Create { .. } => {
            let asked = spec.as_ref().map_err(Clone::clone)?;
            Ok(Some(give(project, identity, actual, port, asked).await?.attributes()))
        }
        Operation::Delete { .. } => {
            let Some(found) = of_front(&project.services, identity, port).await? else { return Ok(None) };
            if found.is_ours() && !is_kept(identity.service) {
                project.services.network.remove(Call::delete("/floatingips/{id}", &[&found.id])).await?;
            } else if found.port.is_some() && !goes {
                lead(&project.services, &found, None).await?;
            }
            Ok(None)
        }
        _ => Ok(None),
    }
}

/// The one on the load balancer, or what is left if that is gone.
async fn of_front(services: &Services, identity: &Identity<'_>, port: &str) -> Result<Option<FloatingIp>> {
    match port {
        "" => Ok(left_over(services, identity.cluster, identity.service).await?.into_iter().next()),
        port => of_port(services, port).await,
    }
}

/// The one that is there already; else the one that the Service names; else one of its own that leads nowhere; else a new one.
async fn give(
    project: &Project,
    identity: &Identity<'_>,
    actual: &Actual,
    port: &str,
    asked: &Asked,
) -> Result<FloatingIp> {
    let (services, service) = (&project.services, identity.service);
    if let Some(found) = of_port(services, port).await? {
        return Ok(found);
    }
    // Its owner may not want it to be reached from everywhere; if there is nobody else any more, it is this one's.
    if actual.id.contains('/') && !actual.foreign.is_empty() {
        return Err(Error::invalid(format!(
            "{} is another Service's and has no floating IP; only that one can give it one: set annotation {} to \"true\" \
             here, or remove it there",
            actual.place(),
            key::INTERNAL.key()
        )));
    }
    if let Some(address) = &asked.address {
        match at(services, address).await? {
            Some(FloatingIp { port: Some(other), .. }) => return Err(taken(address, &other)),
            Some(free) => return lead(services, &free, Some(port)).await,
            None => {}
        }
    } else if let Some(free) = unused(services, identity.cluster, service).await?.first() {
        return lead(services, free, Some(port)).await;
    }
    let none = || Error::invalid("there is no external network to get a floating IP from; set floating-network-id");
    let network = match asked.floating.network.clone() {
        Some(network) => network,
        None => project.places.external_network().await?.ok_or_else(none)?,
    };
    let mut fields = json!({
        "floating_network_id": network, "port_id": port, "description": description(identity.cluster, service),
    });
    match (&asked.address, &asked.floating.subnet) {
        (None, FloatingSubnet::Like { name, tags }) => {
            return any_of(project, &network, name.as_deref(), tags.as_deref(), fields).await;
        }
        (address, subnet) => {
            if let Some(address) = address {
                fields["floating_ip_address"] = json!(address);
            }
            if let FloatingSubnet::Id(id) = subnet {
                fields["subnet_id"] = json!(id);
            }
        }
    }
    make(services, &fields).await
}

/// A new one from the first subnet that has an address left.
async fn any_of(
    project: &Project,
    network: &str,
    name: Option<&str>,
    tags: Option<&str>,
    mut fields: Value,
) -> Result<FloatingIp> {
    let mut last = Error::other("no subnet was tried");
    for subnet in project.places.floating_subnets(network, name, tags).await? {
        fields["subnet_id"] = json!(subnet.id);
        match make(&project.services, &fields).await {
            Err(err) if err.is_quota() || err.is_invalid() || err.is_conflict() || err.is_not_found() => {
                tracing::info!(subnet = subnet.name, %err, "no floating IP from this subnet");
                last = err;
            }
            made => return made,
        }
    }
    Err(last)
}
