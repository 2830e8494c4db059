//! External services: one for each Node, shared by all load balancers.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use cloud_provider::{Error, Result};
use futures::{StreamExt, TryStreamExt, stream};
use parking_lot::Mutex;
use provider_kit::inventory::SharedPriority;
use provider_kit::load_balancers::{OwnerTags, Targets};
use provider_kit::transport::Priority;
use serde_json::{Value, json};

use super::object::{ExternalService, LoadBalancerService};
use super::{BALANCER, EXTERNAL};
use crate::api::{Api, Links};

/// Number of external services that are created or deleted at the same time.
const CONCURRENT: usize = 8;

/// The external services of the environment.
pub(crate) struct Backends {
    api: Api,
    /// Addresses of external services as they were last read, by ID.
    addresses: Mutex<HashMap<String, String>>,
    claims: Mutex<HashMap<String, Claims>>,
}

/// The uses of an external service by syncs that are in progress.
#[derive(Default)]
struct Claims {
    /// Number of load balancers that are about to be linked to it.
    links: usize,
    is_leaving: bool,
}

/// A claim of external services, which ends when it is dropped: no sync deletes what another one is about to link.
pub(crate) struct Claim<'a> {
    backends: &'a Backends,
    ids: Vec<String>,
    leaves: bool,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut claims = self.backends.claims.lock();
        for id in &self.ids {
            let claim = claims.entry(id.clone()).or_default();
            if self.leaves {
                claim.is_leaving = false;
            } else {
                claim.links = claim.links.saturating_sub(1);
            }
            if claim.links == 0 && !claim.is_leaving {
                claims.remove(id);
            }
        }
    }
}

/// Returns the name of a Node's external service: letters, digits and single dashes, at most 63 characters.
pub(crate) fn external_name(node: &str) -> String {
    let clean: String = node
        .chars()
        .map(|character| {
            if character.is_ascii_alphanumeric() {
                character
            } else {
                '-'
            }
        })
        .collect();
    let parts: Vec<&str> = clean.split('-').filter(|part| !part.is_empty()).collect();
    parts.join("-").chars().take(63).collect()
}

/// Returns the name of the external service of a Node whose short name another Node has: `node.1` besides `node-1`.
fn distinct_name(node: &str) -> String {
    // FNV-1a: the same in each run.
    let hash = node.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    let short: String = external_name(node).chars().take(54).collect();
    format!("{}-{hash:08x}", short.trim_end_matches('-'))
}

/// Returns the name of the external service of each address, in which no two addresses share a name. An external service
/// that has the address of another Node stays that Node's.
fn distinct_names<'a>(
    addresses: impl Iterator<Item = &'a str>,
    names: &HashMap<String, String>,
    there: &[ExternalService],
) -> BTreeMap<String, String> {
    let mut nodes: Vec<_> = addresses
        .map(|address| (names.get(address).map_or(address, |name| &**name), address))
        .collect();
    // A Node whose name needs no change comes first.
    nodes.sort_by_key(|(node, _)| (external_name(node) != *node, *node));
    let is_of_another = |name: &str, address: &str| {
        let named = there
            .iter()
            .find(|external_service| external_service.name.eq_ignore_ascii_case(name))
            .and_then(ExternalService::address);
        named.is_some_and(|text| text != address && names.contains_key(text))
    };
    let mut taken = BTreeSet::new();
    let mut found = BTreeMap::new();
    for (node, address) in nodes {
        let short = external_name(node);
        let is_free = !taken.contains(&short) && !is_of_another(&short, address);
        let name = if is_free { short } else { distinct_name(node) };
        taken.insert(name.clone());
        found.insert(address.to_owned(), name);
    }
    found
}

impl Backends {
    pub(crate) fn new(api: Api) -> Self {
        Self {
            api,
            addresses: Mutex::default(),
            claims: Mutex::default(),
        }
    }

    /// Reads the external services, of one stack or of all.
    async fn list(&self, stack: Option<&str>) -> Result<Vec<ExternalService>> {
        let filters: Vec<_> = [("removed_null", "1")]
            .into_iter()
            .chain(stack.map(|id| ("stackId", id)))
            .collect();
        let key = |external_service: &ExternalService| external_service.resource.id().to_owned();
        let mut all = self.api.all(EXTERNAL, &filters, key).await?;
        all.retain(|external_service| external_service.state != "removing");
        let address = |external_service: &ExternalService| {
            Some((
                external_service.resource.id().to_owned(),
                external_service.address()?.to_owned(),
            ))
        };
        let read = all.iter().filter_map(address);
        let mut addresses = self.addresses.lock();
        if stack.is_none() {
            addresses.clear();
        }
        addresses.extend(read);
        drop(addresses);
        Ok(all)
    }

    /// Reads the addresses of all external services.
    pub(crate) async fn refresh(&self) -> Result<()> {
        self.list(None).await.map(drop)
    }

    /// Reads the external services again if one of these is not known.
    pub(crate) async fn know<'a>(&self, mut ids: impl Iterator<Item = &'a String>) -> Result<()> {
        let is_new = ids.any(|id| !self.addresses.lock().contains_key(id));
        if is_new { self.refresh().await } else { Ok(()) }
    }

    pub(crate) fn address(&self, id: &str) -> Option<String> {
        self.addresses.lock().get(id).cloned()
    }

    /// Returns the ID of the external service of each address. Missing ones are created, with owner tags of the
    /// cluster, and their claim keeps them.
    pub(crate) async fn ensure(
        &self,
        targets: &Targets,
        names: &HashMap<String, String>,
        stack: &str,
        cluster: &str,
    ) -> Result<(BTreeMap<String, String>, Claim<'_>)> {
        let mut claim = Claim {
            backends: self,
            ids: Vec::new(),
            leaves: false,
        };
        if targets.is_empty() {
            return Ok((BTreeMap::new(), claim));
        }
        let existing_services = self.list(Some(stack)).await?;
        // A target that is no address is a service that no longer exists.
        let addresses = targets
            .iter()
            .filter(|target| target.parse::<IpAddr>().is_ok());
        let distinct = distinct_names(addresses, names, &existing_services);
        let one =
            |(address, name)| self.one(name, address, &existing_services, names, stack, cluster);
        let all: Vec<_> = distinct.into_iter().map(one).collect();
        let ids: BTreeMap<String, String> = stream::iter(all)
            .buffer_unordered(CONCURRENT)
            .try_collect()
            .await?;
        for id in ids.values() {
            let mut claims = self.claims.lock();
            let use_of_service = claims.entry(id.clone()).or_default();
            if use_of_service.is_leaving {
                return Err(Error::conflict(format!(
                    "external service {id} is being deleted"
                )));
            }
            use_of_service.links += 1;
            claim.ids.push(id.clone());
        }
        self.addresses.lock().extend(
            ids.iter()
                .map(|(address, id)| (id.clone(), address.clone())),
        );
        Ok((ids, claim))
    }

    /// Returns an address and the ID of its external service. An external service of the Node's name gets the address,
    /// unless it belongs to another cluster, or to another Node.
    async fn one(
        &self,
        name: String,
        address: String,
        there: &[ExternalService],
        names: &HashMap<String, String>,
        stack: &str,
        cluster: &str,
    ) -> Result<(String, String)> {
        let is_named =
            |external_service: &&ExternalService| external_service.name.eq_ignore_ascii_case(&name);
        let known = there
            .iter()
            .find(|external_service| external_service.address() == Some(&address))
            .or_else(|| there.iter().find(is_named));
        let found = match known {
            Some(found) => found.clone(),
            None => self.create(&name, &address, stack, cluster).await?,
        };
        if found.address() != Some(&address) {
            if found
                .cluster()
                .is_some_and(|other_cluster| other_cluster != cluster)
            {
                return Err(Error::invalid(format!(
                    "external service {name} ({}) belongs to cluster {}; rename the Node, or use another environment",
                    found.resource.id(),
                    found.cluster().unwrap_or_default()
                )));
            }
            if found
                .address()
                .is_some_and(|address| names.contains_key(address))
            {
                return Err(Error::conflict(format!(
                    "external service {name} ({}) was created for another Node meanwhile",
                    found.resource.id()
                )));
            }
            self.api
                .update(&found.resource, &json!({"externalIpAddresses": [address]}))
                .await?;
        }
        if found.state == "inactive" {
            self.api
                .act(&found.resource, "activate", &Value::Null)
                .await?;
        }
        Ok((address, found.resource.id().to_owned()))
    }

    /// Creates an external service. If another sync has created it meanwhile, that one is used.
    async fn create(
        &self,
        name: &str,
        address: &str,
        stack: &str,
        cluster: &str,
    ) -> Result<ExternalService> {
        let body = json!({
            "name": name, "stackId": stack, "externalIpAddresses": [address], "startOnCreate": true,
            "metadata": {OwnerTags::CLUSTER: cluster},
        });
        match self.api.create(EXTERNAL, &body).await {
            Err(error) if error.is_conflict() => {
                let mut existing_services = self.list(Some(stack)).await?;
                existing_services
                    .retain(|external_service| external_service.name.eq_ignore_ascii_case(name));
                existing_services.pop().ok_or(error)
            }
            created => created,
        }
    }

    /// Deletes external services that no load balancer uses: those with owner tags of the cluster, and those without
    /// owner tags among `consumed`. `besides` is the load balancer that is being deleted, or about to use only `kept`;
    /// then only external services of its stack are deleted. Returns `false` if the environment shows none of `consumed`:
    /// they are gone, or it is another environment.
    pub(crate) async fn release(
        &self,
        cluster: &str,
        consumed: &BTreeSet<String>,
        besides: Option<&LoadBalancerService>,
        kept: &BTreeSet<String>,
    ) -> Result<bool> {
        let services = self
            .list(besides.and_then(|service| service.stack_id.as_deref()))
            .await?;
        let besides = besides.map_or("", |service| service.resource.id());
        let key = |service: &LoadBalancerService| service.resource.id().to_owned();
        let balancers = self
            .api
            .all(BALANCER, &[("removed_null", "1")], key)
            .await?;
        let others = balancers
            .iter()
            .filter(|service| service.resource.id() != besides);
        let used: BTreeSet<_> = others
            .flat_map(LoadBalancerService::services)
            .chain(kept)
            .collect();
        let is_left = |external_service: &&ExternalService| {
            let is_ours = external_service.cluster().map_or_else(
                || consumed.contains(external_service.resource.id()),
                |owner| owner == cluster,
            );
            is_ours && !used.contains(&external_service.resource.id().to_owned())
        };
        let left: Vec<_> = services
            .iter()
            .filter(is_left)
            .map(|external_service| self.delete_unused(external_service, besides))
            .collect();
        // One that Rancher refuses keeps no other one from being deleted.
        let outcomes: Vec<Result<()>> = stream::iter(left)
            .buffer_unordered(CONCURRENT)
            .collect()
            .await;
        outcomes.into_iter().collect::<Result<()>>()?;
        Ok(consumed.is_empty()
            || services
                .iter()
                .any(|external_service| consumed.contains(external_service.resource.id())))
    }

    async fn delete_unused(&self, service: &ExternalService, besides: &str) -> Result<()> {
        let id = service.resource.id();
        let claim = {
            let mut claims = self.claims.lock();
            let use_of_service = claims.entry(id.to_owned()).or_default();
            if use_of_service.links > 0 || use_of_service.is_leaving {
                return Ok(());
            }
            use_of_service.is_leaving = true;
            Claim {
                backends: self,
                ids: vec![id.to_owned()],
                leaves: true,
            }
        };
        let urgent = SharedPriority::of(Priority::Urgent);
        let key = |resource: &Links| resource.id().to_owned();
        let consumers = self
            .api
            .linked(&service.resource, "consumedbyservices", &urgent, key)
            .await?;
        if consumers.iter().all(|resource| resource.id() == besides) {
            if !self.api.delete(&service.resource).await? {
                return Err(Error::conflict(format!(
                    "external service {id} was not found when it was deleted"
                )));
            }
            self.addresses.lock().remove(id);
        }
        drop(claim);
        Ok(())
    }
}
