//! The instances that Nodes run on.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{
    AddressType, Error, InstanceMetadata, InstanceState, Instances, LookupRequest, Node,
    NodeAddress, Result, async_trait,
};
use parking_lot::Mutex;
use provider_kit::coalescer::Coalescer;
use provider_kit::inventory::{Found, Inventory, Machine, MachineSource, SharedPriority, priority};
use provider_kit::paging::{ListProperties, ListResult, Page, read_pages};
use provider_kit::provider_id::ProviderIds;
use provider_kit::transport::{Call, Priority};
use serde::Deserialize;
use tokio::time::Instant;

use crate::NAME;
use crate::api::{Api, instance_of, name as last_part, names_filter, region, wire};
use crate::config::{Config, StackType};

/// Provider IDs of Nodes: `gce://project/zone/name`.
pub(crate) const IDS: ProviderIds = ProviderIds {
    scheme: NAME,
    form: "<project>/<zone>/<instance>",
    valid: |id| id.split('/').count() == 3 && id.split('/').all(|part| !part.is_empty()),
};

/// Pages with instances of other zones alone that may follow each other.
const EMPTY_PAGES: usize = 50;
/// Instances in one filtered list: their names are in its URL.
const MOST_NAMES: usize = 50;
/// Time for which single reads wait for others, to share a request.
const WINDOW: Duration = Duration::from_millis(20);
const LIST: &str = "/projects/{project}/aggregated/instances";

/// An instance, as far as a Node needs it: thousands are kept.
#[derive(Clone, Debug)]
pub(crate) struct Instance {
    /// Project, zone and name.
    path: Box<str>,
    /// Start of the ID in `path`: after the project, unless there are several.
    id_at: usize,
    kind: Box<str>,
    status: Box<str>,
    addresses: Box<[NodeAddress]>,
    pub(crate) tags: Box<[Box<str>]>,
    /// Alias ranges with the names of their secondary ranges.
    pub(crate) pod_ranges: Box<[AliasRange]>,
    pub(crate) ipv6: Option<IpAddr>,
}

wire! {
    struct InstanceAnswer {
        self_link: String, status: Box<str>, machine_type: String, tags: Tags, network_interfaces: Vec<Interface>,
    }
    struct Tags { items: Box<[Box<str>]> }
    struct Interface {
        #[serde(rename = "networkIP")] network_ip: String,
        ipv6_address: String, ipv6_access_type: String, access_configs: Vec<Access>, ipv6_access_configs: Vec<Access>,
        alias_ip_ranges: Box<[AliasRange]>,
    }
    struct Access {
        #[serde(rename = "natIP")] nat_ip: String,
        #[serde(rename = "externalIpv6")] external_ipv6: String,
    }
    /// A range of addresses that the network sends to an instance.
    #[derive(Clone, Debug)]
    pub(crate) struct AliasRange { pub(crate) ip_cidr_range: Box<str>, pub(crate) subnetwork_range_name: Box<str> }
    struct Zone { instances: Vec<InstanceAnswer>, warning: Option<Warning> }
    /// A note about a part of an answer.
    pub(crate) struct Warning { pub(crate) code: String }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AggregatedList {
    /// Required: an answer of another form is not an empty list.
    #[serde(rename = "kind")]
    _kind: String,
    #[serde(default)]
    items: BTreeMap<String, Zone>,
    next_page_token: Option<String>,
    #[serde(default)]
    unreachables: Vec<String>,
}

/// Returns an address; the API writes some with the length of a prefix.
fn ip(text: &str) -> Option<IpAddr> {
    text.split('/').next()?.parse().ok()
}

impl Interface {
    fn external_ipv6(&self) -> Option<IpAddr> {
        let last = self
            .ipv6_access_configs
            .last()
            .filter(|_| self.ipv6_access_type == "EXTERNAL")?;
        ip(&last.external_ipv6)
    }

    fn ipv6(&self) -> Option<IpAddr> {
        ip(&self.ipv6_address).or(self.external_ipv6())
    }

    /// Returns the addresses. An external IPv6 address is internal, as for the Go program, and external.
    fn addresses(&self) -> impl Iterator<Item = (AddressType, IpAddr)> {
        let nat = self.access_configs.iter().filter_map(|access_config| {
            Some((AddressType::ExternalIP, ip(&access_config.nat_ip)?))
        });
        let internal = ip(&self.network_ip).map(|ip| (AddressType::InternalIP, ip));
        let ipv6 = self.ipv6().map(|ip| (AddressType::InternalIP, ip));
        let external_ipv6 = self.external_ipv6().map(|ip| (AddressType::ExternalIP, ip));
        internal
            .into_iter()
            .chain(nat)
            .chain(ipv6)
            .chain(external_ipv6)
    }
}

impl Instance {
    fn new(answer: InstanceAnswer, config: &Config) -> Self {
        let [project, zone, name] = instance_of(&answer.self_link);
        let mut addresses: Vec<_> = answer
            .network_interfaces
            .iter()
            .flat_map(Interface::addresses)
            .collect();
        addresses.sort_by_key(|(_, ip)| ip.is_ipv6() == (config.stack != StackType::Ipv6First));
        // The Hostname stays what the kubelet says: another one would change each Node at a take-over from the Go program.
        let addresses = addresses
            .iter()
            .map(|(kind, ip)| NodeAddress::new(kind.clone(), &ip.to_string()))
            .collect();
        let first = answer
            .network_interfaces
            .into_iter()
            .next()
            .unwrap_or_default();
        Self {
            id_at: if config.is_multi_project {
                0
            } else {
                project.len() + 1
            },
            path: format!("{project}/{zone}/{name}").into(),
            kind: last_part(&answer.machine_type).into(),
            status: answer.status,
            addresses,
            tags: answer.tags.items,
            ipv6: first.ipv6(),
            pod_ranges: first.alias_ip_ranges,
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
        matches!(
            &*self.status,
            "TERMINATED" | "STOPPED" | "SUSPENDED" | "PENDING_STOP" | "DEPROVISIONING"
        )
    }
    fn is_settled(&self) -> bool {
        &*self.status == "RUNNING" || self.is_shut_down()
    }
}

/// Returns the error of the Nodes in zones that did not answer.
fn unreachable_zones(zones: &[String]) -> Error {
    Error::other(format!(
        "the list of instances lacks {}, which did not answer",
        zones.join(", ")
    ))
}

impl Api {
    /// Returns `true` if Nodes may be in a zone.
    fn is_managed(&self, own_zone: &str, zone: &str) -> bool {
        if self.config.is_regional {
            region(zone) == region(own_zone)
        } else {
            zone == own_zone
        }
    }

    /// Lists instances of a project in these zones, and names the zones that did not answer.
    async fn instances(
        &self,
        project: &str,
        filter: Option<String>,
        has: impl Fn(&str) -> bool,
        shared_priority: &SharedPriority,
    ) -> Result<(ListResult<Instance>, Vec<String>)> {
        let call = Call::get(LIST, &[project]).list().query("maxResults", 500);
        let call = filter
            .iter()
            .fold(call, |call, filter| call.query("filter", filter));
        let rules = ListProperties {
            what: "instances",
            totals: false,
        };
        let unreachable = Mutex::new(Vec::new());
        let page = async |mut token: String| {
            // Pages without an instance of these zones are common in projects with several regions, and end no list.
            for _ in 0..EMPTY_PAGES {
                let call = if token.is_empty() {
                    call.clone()
                } else {
                    call.clone().query("pageToken", &token)
                };
                let read = shared_priority
                    .send_read(|priority| self.http.read(call.clone().with_priority(priority)));
                let AggregatedList {
                    items: scopes,
                    next_page_token,
                    unreachables,
                    ..
                } = read.await?;
                let is_bare = scopes.values().all(|zone| zone.instances.is_empty());
                let mut items = Vec::new();
                let mut missing = unreachables;
                for (scope, zone) in scopes
                    .into_iter()
                    .filter(|(scope, _)| has(last_part(scope)))
                {
                    missing.extend(
                        zone.warning
                            .filter(|warning| warning.code != "NO_RESULTS_ON_PAGE")
                            .map(|_| scope),
                    );
                    items.extend(
                        zone.instances
                            .into_iter()
                            .map(|instance| Instance::new(instance, &self.config)),
                    );
                }
                missing.retain(|scope| has(last_part(scope)));
                unreachable.lock().extend(missing);
                match next_page_token.filter(|token| !token.is_empty()) {
                    Some(next) if items.is_empty() && !is_bare => token = next,
                    next => {
                        return Ok(Page {
                            items,
                            next,
                            total: None,
                        });
                    }
                }
            }
            Err(Error::other(format!(
                "the list of instances has {EMPTY_PAGES} pages without an instance of the cluster's zones"
            )))
        };
        let reading = read_pages(
            rules,
            String::new(),
            |instance: &Instance| instance.path.clone(),
            page,
        )
        .await?;
        Ok((reading, unreachable.into_inner()))
    }

    /// Reads instances by their IDs. The absence of one is proved by a list of its zone, whichever zones Nodes may be in.
    async fn by_ids(
        &self,
        project: &str,
        ids: &[String],
        priority: Priority,
    ) -> Vec<Result<Option<Instance>>> {
        let filter = names_filter(ids.iter().map(|id| last_part(id)));
        let found = self
            .instances(
                project,
                Some(filter),
                |_| true,
                &SharedPriority::of(priority),
            )
            .await;
        let found =
            found.and_then(|(reading, missing)| Ok((reading.complete()?.into_items(), missing)));
        let answer = |id: &String| {
            let (all, missing) = found.as_ref().map_err(Error::clone)?;
            let own_instance = all.iter().find(|instance| instance.id() == *id).cloned();
            let zone = id.rsplit('/').nth(1).unwrap_or_default();
            match own_instance.is_none() && missing.iter().any(|scope| last_part(scope) == zone) {
                true => Err(unreachable_zones(missing)),
                false => Ok(own_instance),
            }
        };
        ids.iter().map(answer).collect()
    }
}

/// Reads instances for the inventory: single reads at the same time share a request.
#[derive(Clone)]
pub(crate) struct Source {
    pub(crate) api: Api,
    batches: Arc<Coalescer<(String, Priority), String, Option<Instance>>>,
}

impl Source {
    pub(crate) fn new(api: Api) -> Self {
        let of_batches = api.clone();
        let batches = Coalescer::answering_each(
            move |(project, priority): (String, Priority), ids: Vec<String>| {
                let api = of_batches.clone();
                async move {
                    let mut answers = Vec::with_capacity(ids.len());
                    for ids in ids.chunks(MOST_NAMES) {
                        answers.extend(api.by_ids(&project, ids, priority).await);
                    }
                    answers
                }
            },
        );
        Self {
            api,
            batches: Arc::new(batches),
        }
    }
}

#[async_trait]
impl MachineSource for Source {
    type Machine = Instance;

    /// Lists the instances of all zones that Nodes may be in. A zone that does not answer is an error of its Nodes alone.
    async fn list(&self, shared_priority: &SharedPriority) -> Result<ListResult<Instance>> {
        let place = self.api.place().await?;
        let prefix = &self.api.config.node_prefix;
        let filter = (!prefix.is_empty()).then(|| format!("name eq {prefix}.*"));
        let is_ours = |zone: &str| self.api.is_managed(&place.zone, zone);
        let (reading, missing) = self
            .api
            .instances(&place.project, filter, is_ours, shared_priority)
            .await?;
        let pages = reading.pages();
        Ok(match missing.is_empty() {
            true => reading,
            false => ListResult::Partial {
                items: reading.into_items(),
                pages,
                reason: unreachable_zones(&missing),
            },
        })
    }

    async fn by_id(&self, id: &str, priority: Priority) -> Result<Option<Instance>> {
        let project = self.api.parts(&*self.api.place().await?, id)[0].to_owned();
        self.batches
            .join_at((project, priority), id.to_owned(), |_| {
                Instant::now() + WINDOW
            })
            .await
    }

    fn concurrent_reads(&self) -> usize {
        2 * MOST_NAMES
    }

    async fn by_name(&self, name: &str, priority: Priority) -> Result<Vec<Instance>> {
        let place = self.api.place().await?;
        let filter = names_filter([name]);
        let is_ours = |zone: &str| self.api.is_managed(&place.zone, zone);
        let shared_priority = SharedPriority::of(priority);
        let (reading, missing) = self
            .api
            .instances(&place.project, Some(filter), is_ours, &shared_priority)
            .await?;
        if missing.is_empty() {
            Ok(reading.complete()?.into_items())
        } else {
            Err(unreachable_zones(&missing))
        }
    }

    fn machine_id<'a>(&self, provider_id: &'a str) -> Result<&'a str> {
        let path = IDS.read(provider_id)?;
        if self.api.config.is_multi_project {
            return Ok(path);
        }
        let (project, id) = path.split_once('/').unwrap_or(("", path));
        // An instance of the same name in the Nodes' own project is another one.
        match self
            .api
            .known_project()
            .filter(|own_project| *own_project != project)
        {
            Some(own_project) => Err(Error::invalid(format!(
                "provider ID {provider_id:?} is of project {project}, and project-id is {own_project}; set --enable-multi-project if Nodes are in both"
            ))),
            None => Ok(id),
        }
    }

    fn metadata(&self, instance: &Instance, node: &Node) -> InstanceMetadata {
        let zone = instance.zone();
        InstanceMetadata {
            provider_id: node
                .provider_id()
                .map_or_else(|| IDS.write(&instance.path), str::to_owned),
            instance_type: instance.kind.to_string(),
            zone: zone.to_owned(),
            region: region(zone).to_owned(),
            node_addresses: instance.addresses.to_vec(),
            ..InstanceMetadata::default()
        }
    }

    fn place(&self) -> String {
        format!(
            "project {}",
            self.api
                .config
                .project
                .as_deref()
                .unwrap_or("of the metadata server")
        )
    }
}

/// Answers look-ups of Nodes.
pub(crate) struct Vms(pub(crate) Inventory<Source>);

#[async_trait]
impl Instances for Vms {
    /// Looks Nodes up. One without a provider ID is on the instance whose name is its own up to the first dot.
    async fn lookup(
        &self,
        nodes: &[Arc<Node>],
        request: LookupRequest,
    ) -> Vec<Result<InstanceState>> {
        let plain = |node: &Arc<Node>| match node.name.split_once('.') {
            Some((name, _)) if node.provider_id().is_none() => Arc::new(Node {
                name: name.into(),
                ..(**node).clone()
            }),
            _ => Arc::clone(node),
        };
        let known: Vec<_> = nodes.iter().map(plain).collect();
        let found = self
            .0
            .find_all(&known, request.fresh, priority(request))
            .await;
        let state = |node: &Arc<Node>, found: Result<Found<Instance>>| match found? {
            Found::Present(machine_ref) if machine_ref.addresses.is_empty() => Err(Error::other(
                format!("instance {} has no network interface", machine_ref.path),
            )),
            found => Ok(self.0.state_of(found, node, request)),
        };
        nodes
            .iter()
            .zip(found)
            .map(|(node, found)| state(node, found))
            .collect()
    }
}
