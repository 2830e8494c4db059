//! EC2 instances and Fargate Pods behind Nodes.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use aws_protocol::Query;
use cloud_provider::{
    AddressType, Error, InstanceMetadata, Node, NodeAddress, Result, async_trait,
};
use provider_kit::coalescer::Coalescer;
use provider_kit::inventory::{Machine, MachineSource, SharedPriority};
use provider_kit::paging::ListResult;
use provider_kit::transport::Priority;
use tokio::time::Instant;

use crate::api::{Api, PAGE, Tag, wire};
use crate::config::{Family, region_of};
use crate::fargate;

/// IDs of one request; EC2 takes 1,000, and a filter 200 values.
pub(crate) const MOST_IDS: usize = 200;
/// Time for which single reads wait for others, to share a request.
const WINDOW: Duration = Duration::from_millis(20);
/// States of instances that exist.
const EXISTING: [&str; 5] = ["pending", "running", "shutting-down", "stopping", "stopped"];

wire! { "camelCase";
    Reservation { reservation_id: String, instances_set: Vec<Instance> }
    /// An instance, as EC2 describes it: without a state if EC2 told none. Thousands are kept, without tags.
    Instance {
        instance_id: Box<str>, instance_state: State, instance_type: Box<str>, placement: Placement, private_dns_name: Box<str>,
        dns_name: Box<str>, ip_address: Box<str>, source_dest_check: Option<bool>, group_set: Vec<Group>, tag_set: Vec<Tag>,
        network_interface_set: Vec<Interface>,
    }
    State { name: Box<str> }
    Placement { availability_zone: Box<str> }
    Group { group_id: Box<str> }
    Interface {
        status: Box<str>, attachment: Option<Attachment>, private_ip_addresses_set: Vec<PrivateAddress>,
        ipv6_addresses_set: Vec<Ipv6Address>,
    }
    Attachment { device_index: u32, network_card_index: u32 }
    PrivateAddress { private_ip_address: Box<str> }
    Ipv6Address { ipv6_address: Box<str> }
}

impl Instance {
    /// Returns `true` unless EC2 says that the instance is terminated.
    pub(crate) fn exists(&self) -> bool {
        EXISTING.contains(&&*self.instance_state.name)
    }

    /// Returns an address that cannot be read, if there is one.
    pub(crate) fn odd_address(&self) -> Option<&str> {
        let interfaces = self.network_interface_set.iter();
        let inner = interfaces.flat_map(|interface| {
            interface
                .addresses(Family::Ipv4)
                .into_iter()
                .chain(interface.addresses(Family::Ipv6))
        });
        let outer = Some(&*self.ip_address).filter(|text| !text.is_empty());
        inner
            .chain(outer)
            .find(|text| text.parse::<IpAddr>().is_err())
    }

    /// Drops what nobody asks for later, and sorts the interfaces; those without attachment are last.
    pub(crate) fn kept(mut self) -> Self {
        self.tag_set = Vec::new();
        self.network_interface_set
            .retain(|interface| &*interface.status == "in-use");
        let order =
            |attachment: &Attachment| (attachment.device_index, attachment.network_card_index);
        self.network_interface_set
            .sort_by_key(|interface| interface.attachment.as_ref().map_or((u32::MAX, 0), order));
        self
    }
}

impl Interface {
    /// Returns all IPv4 addresses, or the first IPv6 address.
    fn addresses(&self, family: Family) -> Vec<&str> {
        match family {
            Family::Ipv4 => self
                .private_ip_addresses_set
                .iter()
                .map(|private_address| &*private_address.private_ip_address)
                .collect(),
            Family::Ipv6 => self
                .ipv6_addresses_set
                .iter()
                .take(1)
                .map(|ipv6_address| &*ipv6_address.ipv6_address)
                .collect(),
        }
    }
}

/// Returns the addresses of an instance or of a Fargate Pod, by family, in the order of the Go program.
pub(crate) fn addresses(families: &[Family], instance: &Instance) -> Vec<NodeAddress> {
    let mut all = Vec::new();
    let mut add = |kind: AddressType, text: &str| {
        if !text.is_empty() {
            all.push(NodeAddress::new(kind, text));
        }
    };
    for family in families {
        let inner = instance
            .network_interface_set
            .iter()
            .flat_map(|interface| interface.addresses(*family));
        inner.for_each(|ip| add(AddressType::InternalIP, ip));
        if instance.instance_id.starts_with(fargate::PREFIX) {
            add(AddressType::InternalDNS, &instance.private_dns_name);
        } else if *family == Family::Ipv4 {
            add(AddressType::ExternalIP, &instance.ip_address);
            add(AddressType::InternalDNS, &instance.private_dns_name);
            add(AddressType::Hostname, &instance.private_dns_name);
            add(AddressType::ExternalDNS, &instance.dns_name);
        }
    }
    all
}

impl Machine for Instance {
    fn id(&self) -> &str {
        &self.instance_id
    }

    fn name(&self) -> &str {
        &self.private_dns_name
    }

    fn is_shut_down(&self) -> bool {
        &*self.instance_state.name == "stopped"
    }

    fn is_settled(&self) -> bool {
        &*self.instance_state.name != "pending"
    }
}

/// Returns the ID in a provider ID: `i-…` or `fargate-…`.
///
/// # Errors
/// *Invalid*, naming the forms.
pub(crate) fn machine_id(provider_id: &str) -> Result<&str> {
    let path = match provider_id.split_once("://") {
        Some(("aws", path)) => path.split_once('/').map(|(_, path)| path),
        Some(_) => None,
        None => Some(provider_id),
    };
    let id = path.map(|path| path.rsplit('/').next().unwrap_or_default());
    let is_id = |id: &&str| id.starts_with("i-") || id.starts_with(fargate::PREFIX);
    id.filter(is_id).ok_or_else(|| {
        Error::invalid(format!(
            "provider ID {provider_id:?} is not of the form aws:///<zone>/<instance ID> or aws:///<zone>/fargate-<address>"
        ))
    })
}

/// Checks that a provider ID does not name another region, or an account: an instance there cannot be read, so it is unknown if
/// it exists.
///
/// # Errors
/// *Invalid*, naming the place.
fn check_place(provider_id: &str, region: Option<&str>) -> Result<()> {
    let Some(("aws", path)) = provider_id.split_once("://") else {
        return Ok(());
    };
    let (account, path) = path.split_once('/').unwrap_or((path, ""));
    if !account.is_empty() {
        return Err(Error::invalid(format!(
            "provider ID {provider_id:?} names account {account:?}, which is not read; the form is aws:///<zone>/<instance ID>"
        )));
    }
    let zone = path
        .split_once('/')
        .map(|(zone, _)| zone)
        .and_then(region_of);
    match (zone, region) {
        (Some(other_region), Some(ours)) if other_region != ours => Err(Error::invalid(format!(
            "provider ID {provider_id:?} names region {other_region}, but the configuration is for region {ours}: it is unknown if the \
             instance exists"
        ))),
        _ => Ok(()),
    }
}

/// Returns the instance ID in the name of a Node that is named by its resource, such as `i-0abc.us-west-2.compute.internal`.
pub(crate) fn id_in_name(name: &str) -> Option<&str> {
    name.starts_with("i-")
        .then(|| name.split('.').next().unwrap_or(name))
}

type Batches = Coalescer<(bool, Priority), String, Option<Instance>>;

/// Reads instances and the interfaces of Fargate.
#[derive(Clone)]
pub(crate) struct Source {
    pub(crate) api: Api,
    /// Single reads, by whether they are of Fargate: concurrent ones share a request.
    batches: Arc<Batches>,
}

impl Source {
    pub(crate) fn new(api: Api) -> Self {
        let of_batches = api.clone();
        let batches = Coalescer::answering_each(move |(is_fargate, priority), ids: Vec<String>| {
            let api = of_batches.clone();
            async move {
                let mut answers = Vec::with_capacity(ids.len());
                for ids in ids.chunks(MOST_IDS) {
                    answers.extend(match is_fargate {
                        true => fargate::by_ids(&api, ids, priority).await,
                        false => by_ids(&api, ids, priority).await,
                    });
                }
                answers
            }
        });
        Self {
            api,
            batches: Arc::new(batches),
        }
    }
}

async fn describe(
    api: &Api,
    query: Query,
    shared_priority: &SharedPriority,
    keep: impl Fn(&[Tag]) -> bool,
) -> Result<ListResult<Instance>> {
    // A page may end within a reservation: the parts differ in their first instance.
    let instances = |reservation: Reservation| -> (String, Vec<Instance>) {
        let kept = reservation
            .instances_set
            .into_iter()
            .filter(|instance| keep(&instance.tag_set))
            .map(Instance::kept);
        (reservation.reservation_id, kept.collect())
    };
    let key = |(id, all): &(String, Vec<Instance>)| {
        (
            id.clone(),
            all.first().map(|instance| instance.instance_id.clone()),
        )
    };
    let reservations = api
        .aws
        .ec2
        .list(query, "reservationSet", shared_priority, instances, key)
        .await?;
    Ok(reservations.flat_map(|(_, all)| all))
}

/// Reads these instances with one request. EC2 refuses a request with an unknown ID and names it: the others are read again.
async fn by_ids(api: &Api, ids: &[String], priority: Priority) -> Vec<Result<Option<Instance>>> {
    let mut refused: Vec<(&str, Error)> = Vec::new();
    let mut open: Vec<&str> = ids.iter().map(String::as_str).collect();
    let mut found = Ok(Vec::new());
    while !open.is_empty() {
        let query = Query::new("DescribeInstances")
            .set("InstanceId", &open)
            .with_priority(priority);
        let answer = describe(api, query, &SharedPriority::of(priority), |_| true)
            .await
            .and_then(ListResult::complete);
        let error = match answer {
            Ok(listing) => {
                found = Ok(listing.into_items());
                break;
            }
            Err(error) => error,
        };
        let text = error.to_string();
        let (named, others): (Vec<&str>, Vec<&str>) =
            open.iter().copied().partition(|id| text.contains(id));
        if !error.code().starts_with("InvalidInstanceID") || (named.is_empty() && open.len() > 1) {
            found = Err(error);
            break;
        }
        let named = if named.is_empty() { open } else { named };
        refused.extend(named.into_iter().map(|id| (id, error.clone())));
        open = others;
    }
    let answer = |id: &String| match (refused.iter().find(|(refused, _)| refused == id), &found) {
        (Some((_, error)), _) if error.is_not_found() => Ok(None),
        (Some((_, error)), _) | (None, Err(error)) => Err(error.clone()),
        (None, Ok(all)) => Ok(all
            .iter()
            .find(|instance| *instance.instance_id == **id)
            .cloned()),
    };
    ids.iter().map(answer).collect()
}

#[async_trait]
impl MachineSource for Source {
    type Machine = Instance;

    /// Lists the instances of the cluster. An instance without the cluster's tag is read by its ID.
    async fn list(&self, shared_priority: &SharedPriority) -> Result<ListResult<Instance>> {
        let identity = self.api.identity().await?;
        let query = Query::new("DescribeInstances")
            .filter("instance-state-name", EXISTING)
            .page(PAGE);
        let query = identity
            .tag_keys()
            .into_iter()
            .fold(query, |query, keys| query.filter("tag-key", keys));
        describe(&self.api, query, shared_priority, |tags| identity.has(tags)).await
    }

    async fn by_id(&self, id: &str, priority: Priority) -> Result<Option<Instance>> {
        let key = (id.starts_with(fargate::PREFIX), priority);
        self.batches
            .join_at(key, id.to_owned(), |_| Instant::now() + WINDOW)
            .await
    }

    fn concurrent_reads(&self) -> usize {
        MOST_IDS
    }

    /// Finds the instance with this private DNS name. EC2 keeps a terminated one for an hour, which is no answer.
    async fn by_name(&self, name: &str, priority: Priority) -> Result<Vec<Instance>> {
        if id_in_name(name).is_some() {
            return Ok(Vec::new());
        }
        let identity = self.api.identity().await?;
        let query = Query::new("DescribeInstances").filter("private-dns-name", [name]);
        let query = query.filter("instance-state-name", EXISTING).page(PAGE);
        let found = describe(&self.api, query, &SharedPriority::of(priority), |tags| {
            identity.has(tags)
        })
        .await?;
        Ok(found.complete()?.into_items())
    }

    fn machine_id<'a>(&self, provider_id: &'a str) -> Result<&'a str> {
        check_place(provider_id, self.api.config.region.as_deref())?;
        machine_id(provider_id)
    }

    fn guesses(&self, node: &Node) -> Vec<String> {
        id_in_name(&node.name)
            .map(str::to_owned)
            .into_iter()
            .collect()
    }

    fn confirms_guess(&self, machine: &Instance, node: &Node) -> bool {
        id_in_name(&node.name) == Some(&*machine.instance_id)
    }

    fn metadata(&self, instance: &Instance, _node: &Node) -> InstanceMetadata {
        let zone = &instance.placement.availability_zone;
        InstanceMetadata {
            provider_id: format!("aws:///{zone}/{}", instance.instance_id),
            instance_type: instance.instance_type.to_string(),
            zone: zone.to_string(),
            region: region_of(zone).unwrap_or_default(),
            node_addresses: addresses(&self.api.config.families, instance),
            ..InstanceMetadata::default()
        }
    }

    fn place(&self) -> String {
        let cluster = self
            .api
            .known_identity()
            .and_then(|identity| identity.cluster.clone());
        cluster.map_or_else(|| "EC2".to_owned(), |id| format!("EC2, cluster {id:?}"))
    }
}
