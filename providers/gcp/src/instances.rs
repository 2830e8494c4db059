//! The instances that Nodes are on.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use cloud_provider::{
    AddressType, Error, InstanceMetadata, InstanceState, Instances, Node, NodeAddress, Result, Want, async_trait,
};
use provider_kit::inventory::{Found, Inventory, Machine, MachineSource, Urgency, priority};
use provider_kit::paging::{Page, Reading, Rules, read_pages};
use provider_kit::provider_id::ProviderIds;
use provider_kit::transport::{Call, Priority};
use serde::Deserialize;

use crate::NAME;
use crate::api::{Api, Place, name as last_part, region, short};
use crate::config::StackType;

/// Provider IDs of Nodes: `gce://project/zone/name`.
pub(crate) const IDS: ProviderIds = ProviderIds {
    scheme: NAME,
    form: "<project>/<zone>/<instance>",
    valid: |id| id.split('/').count() == 3 && id.split('/').all(|it| !it.is_empty()),
};

/// Pages without an instance that may follow each other.
const EMPTY_PAGES: usize = 50;
const LIST: &str = "/projects/{project}/aggregated/instances";
const ONE: &str = "/projects/{project}/zones/{zone}/instances/{instance}";

/// An instance, as far as a Node needs it: thousands are kept.
#[derive(Debug)]
pub(crate) struct Instance {
    /// Project, zone and name.
    path: Box<str>,
    /// The beginning of the ID in `path`: without a project, unless there are several.
    id_at: usize,
    kind: Box<str>,
    is_off: bool,
    is_settled: bool,
    addresses: Box<[NodeAddress]>,
    pub(crate) tags: Box<[Box<str>]>,
    /// Ranges of Pods: alias ranges, with the names of their secondary ranges, and a part of the IPv6 address.
    pub(crate) pod_ranges: Box<[(Box<str>, Box<str>)]>,
    pub(crate) ipv6: Option<IpAddr>,
}

/// The answer of the API.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InstanceAnswer {
    self_link: String,
    #[serde(default)]
    status: String,
    #[serde(default)]
    machine_type: String,
    #[serde(default)]
    tags: Tags,
    #[serde(default)]
    network_interfaces: Vec<Interface>,
}

#[derive(Default, Deserialize)]
struct Tags {
    #[serde(default)]
    items: Vec<Box<str>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Interface {
    #[serde(rename = "networkIP")]
    network_ip: Option<IpAddr>,
    ipv6_address: Option<String>,
    ipv6_access_type: String,
    access_configs: Vec<AccessConfig>,
    ipv6_access_configs: Vec<Ipv6AccessConfig>,
    alias_ip_ranges: Vec<AliasRange>,
}

#[derive(Deserialize)]
struct AccessConfig {
    #[serde(rename = "natIP")]
    nat_ip: Option<String>,
}

#[derive(Deserialize)]
struct Ipv6AccessConfig {
    #[serde(rename = "externalIpv6")]
    address: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AliasRange {
    #[serde(default)]
    ip_cidr_range: Box<str>,
    #[serde(default)]
    subnetwork_range_name: Box<str>,
}

/// The instances of one zone in an aggregated list.
#[derive(Default, Deserialize)]
struct Zone {
    #[serde(default)]
    instances: Vec<InstanceAnswer>,
    warning: Option<Warning>,
}

#[derive(Deserialize)]
struct Warning {
    #[serde(default)]
    code: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AggregatedList {
    /// Required: an answer of something else is no empty list.
    #[serde(rename = "kind")]
    _kind: String,
    #[serde(default)]
    items: BTreeMap<String, Zone>,
    next_page_token: Option<String>,
    #[serde(default)]
    unreachables: Vec<String>,
}

impl Interface {
    fn external_ipv6(&self) -> Option<IpAddr> {
        let is_external = self.ipv6_access_type == "EXTERNAL";
        let last = self.ipv6_access_configs.last().filter(|_| is_external)?.address.as_deref()?;
        last.split('/').next()?.parse().ok()
    }

    fn internal_ipv6(&self) -> Option<IpAddr> {
        self.ipv6_address.as_deref()?.split('/').next()?.parse().ok()
    }

    /// An external IPv6 address is shown as internal, as the Go program does, and as external.
    fn addresses(&self) -> impl Iterator<Item = (AddressType, IpAddr)> {
        let nat = self.access_configs.iter().filter_map(|it| it.nat_ip.as_deref()?.parse().ok());
        let ipv6 = self.internal_ipv6().or(self.external_ipv6());
        let internal = self.network_ip.into_iter().map(|ip| (AddressType::InternalIP, ip));
        let external = nat.map(|ip| (AddressType::ExternalIP, ip));
        let ipv6 = ipv6.into_iter().map(|ip| (AddressType::InternalIP, ip));
        let external_ipv6 = self.external_ipv6().into_iter().map(|ip| (AddressType::ExternalIP, ip));
        internal.chain(external).chain(ipv6).chain(external_ipv6)
    }
}

impl Instance {
    fn new(answer: InstanceAnswer, config: &crate::config::Config) -> Self {
        let parts: Vec<_> = short(&answer.self_link).split('/').collect();
        let [project, zone, name] = [0, 2, 4].map(|at| parts.get(at).copied().unwrap_or_default());
        let mut addresses: Vec<_> = answer.network_interfaces.iter().flat_map(Interface::addresses).collect();
        addresses.sort_by_key(|(_, ip)| ip.is_ipv6() == (config.stack == StackType::Ipv4First));
        let mut all: Vec<_> =
            addresses.iter().map(|(kind, ip)| NodeAddress::new(kind.clone(), &ip.to_string())).collect();
        if !all.is_empty() {
            let dns = format!("{name}.{zone}.c.{project}.internal");
            all.extend([AddressType::InternalDNS, AddressType::Hostname].map(|kind| NodeAddress::new(kind, &dns)));
        }
        let first = answer.network_interfaces.first();
        let ranges = first.into_iter().flat_map(|it| &it.alias_ip_ranges);
        Self {
            id_at: if config.is_multi_project { 0 } else { project.len() + 1 },
            path: format!("{project}/{zone}/{name}").into(),
            kind: last_part(&answer.machine_type).into(),
            is_off: matches!(
                &*answer.status,
                "TERMINATED" | "STOPPED" | "SUSPENDED" | "PENDING_STOP" | "DEPROVISIONING"
            ),
            is_settled: answer.status == "RUNNING",
            addresses: all.into(),
            tags: answer.tags.items.into(),
            pod_ranges: ranges.map(|it| (it.subnetwork_range_name.clone(), it.ip_cidr_range.clone())).collect(),
            ipv6: first.and_then(|it| it.internal_ipv6().or(it.external_ipv6())),
        }
    }

    pub(crate) fn zone(&self) -> &str {
        self.path.split('/').nth(1).unwrap_or_default()
    }
}

impl Machine for Instance {
    fn id(&self) -> &str {
        &self.path[self.id_at..]
    }
    fn name(&self) -> &str {
        last_part(&self.path)
    }
    fn is_shut_down(&self) -> bool {
        self.is_off
    }
    fn is_settled(&self) -> bool {
        self.is_settled || self.is_off
    }
}

impl Api {
    /// Returns `true` if Nodes may be in a zone.
    fn is_managed(&self, place: &Place, zone: &str) -> bool {
        if self.config.is_regional { region(zone) == place.region } else { zone == place.zone }
    }

    /// Lists the instances of all zones that Nodes may be in. A zone that does not answer is an error of its Nodes alone.
    async fn instances(&self, name: Option<&str>, urgency: &Urgency) -> Result<Reading<Instance>> {
        let (place, unreachable) = (self.place().await?, Mutex::new(Vec::new()));
        let mut call = Call::get(LIST, &[&place.project]).list().query("maxResults", 500);
        let filter = match (name, &*self.config.node_prefix) {
            (Some(name), _) => Some(format!("name = \"{name}\"")),
            (None, "") => None,
            (None, prefix) => Some(format!("name eq {prefix}.*")),
        };
        call = filter.iter().fold(call, |call, filter| call.query("filter", filter));
        let rules = Rules { what: "instances", totals: false };
        let page = async |mut token: String| {
            // Pages without an instance of these zones are common in projects with several regions, and end no list.
            for _ in 0..EMPTY_PAGES {
                let call = if token.is_empty() { call.clone() } else { call.clone().query("pageToken", &token) };
                let read = urgency.carry(|priority| self.http.read(call.clone().priority(priority)));
                let AggregatedList { items: scopes, next_page_token, unreachables, .. } = read.await?;
                let (mut items, mut missing) = (Vec::new(), unreachables);
                for (scope, zone) in scopes {
                    missing.extend(zone.warning.filter(|it| it.code != "NO_RESULTS_ON_PAGE").map(|_| scope.clone()));
                    let is_ours = self.is_managed(&place, last_part(&scope));
                    items.extend(
                        zone.instances.into_iter().filter(|_| is_ours).map(|it| Instance::new(it, &self.config)),
                    );
                }
                missing.retain(|scope| self.is_managed(&place, last_part(scope)));
                unreachable.lock().unwrap_or_else(PoisonError::into_inner).extend(missing);
                let next = next_page_token.filter(|token| !token.is_empty());
                match next {
                    Some(next) if items.is_empty() => token = next,
                    next => return Ok(Page { items, next, total: None }),
                }
            }
            Err(Error::other(format!("the list of instances has {EMPTY_PAGES} pages without an instance")))
        };
        let reading = read_pages(rules, String::new(), |it: &Instance| it.path.clone(), page).await?;
        let unreachable = unreachable.into_inner().unwrap_or_default();
        if unreachable.is_empty() {
            return Ok(reading);
        }
        let flaw =
            Error::other(format!("the list of instances lacks {}, which did not answer", unreachable.join(", ")));
        let pages = reading.pages();
        Ok(Reading::Flawed { items: reading.into_items(), pages, flaw })
    }
}

#[async_trait]
impl MachineSource for Api {
    type Machine = Instance;

    async fn list(&self, urgency: &Urgency) -> Result<Reading<Instance>> {
        self.instances(None, urgency).await
    }

    async fn by_id(&self, id: &str, priority: Priority) -> Result<Option<Instance>> {
        let place = self.place().await?;
        let (project, rest) = match self.config.is_multi_project {
            true => id.split_once('/').unwrap_or_default(),
            false => (&*place.project, id),
        };
        let (zone, name) = rest.split_once('/').unwrap_or_default();
        let found = self.http.find(Call::get(ONE, &[project, zone, name]).priority(priority)).await?;
        Ok(found.map(|answer| Instance::new(answer, &self.config)))
    }

    async fn by_name(&self, name: &str, priority: Priority) -> Result<Vec<Instance>> {
        Ok(self.instances(Some(name), &Urgency::of(priority)).await?.complete()?.into_items())
    }

    fn machine_id<'a>(&self, provider_id: &'a str) -> Result<&'a str> {
        let path = IDS.read(provider_id)?;
        Ok(if self.config.is_multi_project { path } else { path.split_once('/').map_or(path, |(_, id)| id) })
    }

    fn metadata(&self, instance: &Instance, node: &Node) -> InstanceMetadata {
        let zone = instance.zone();
        InstanceMetadata {
            provider_id: node.provider_id().map_or_else(|| IDS.write(&instance.path), str::to_owned),
            instance_type: instance.kind.to_string(),
            zone: zone.to_owned(),
            region: region(zone).to_owned(),
            node_addresses: instance.addresses.to_vec(),
            ..InstanceMetadata::default()
        }
    }

    fn place(&self) -> String {
        format!("project {}", self.config.project.as_deref().unwrap_or("of the metadata server"))
    }
}

/// Answers look-ups of Nodes.
pub(crate) struct Vms(pub(crate) Inventory<Api>);

impl Vms {
    fn state(&self, found: Found<Instance>, node: &Node, want: Want) -> Result<InstanceState> {
        if let Found::There(instance) = &found
            && instance.addresses.is_empty()
        {
            return Err(Error::other(format!("instance {} has no network interface", instance.path)));
        }
        Ok(self.0.state_of(found, node, want))
    }
}

#[async_trait]
impl Instances for Vms {
    /// A Node without a provider ID is on the instance whose name is its own up to the first dot.
    async fn lookup(&self, nodes: &[Arc<Node>], want: Want) -> Vec<Result<InstanceState>> {
        let plain = |node: &Arc<Node>| match node.name.split_once('.') {
            Some((name, _)) if node.provider_id().is_none() => Arc::new(Node { name: name.into(), ..(**node).clone() }),
            _ => Arc::clone(node),
        };
        let known: Vec<_> = nodes.iter().map(plain).collect();
        let found = self.0.find_all(&known, want.fresh, priority(want)).await;
        nodes.iter().zip(found).map(|(node, found)| self.state(found?, node, want)).collect()
    }
}
