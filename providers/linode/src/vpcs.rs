//! VPCs: their subnets by label or ID, and the addresses and ranges of Linodes in them.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{Error, Result};
use ipnet::{IpNet, Ipv4Net};
use provider_kit::cached::Cached;
use provider_kit::catalog::Catalog;
use provider_kit::inventory::SharedPriority;
use provider_kit::transport::Call;
use serde::Deserialize;
use serde_json::json;

use crate::api::Api;
use crate::config::Config;

/// Maximum age of the cached list of VPCs.
const MAX_AGE: Duration = Duration::from_secs(300);

/// A VPC of the account.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Vpc {
    pub(crate) id: u64,
    label: String,
    #[serde(default)]
    subnets: Vec<Subnet>,
}

#[derive(Clone, Debug, Deserialize)]
struct Subnet {
    id: u64,
    label: String,
    ipv4: Option<String>,
}

/// An address or a range of a Linode in a VPC.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct VpcAddress {
    pub(crate) address: Option<String>,
    pub(crate) address_range: Option<String>,
    pub(crate) linode_id: Option<u64>,
    subnet_id: Option<u64>,
    pub(crate) ipv6_range: Option<String>,
    ipv6_is_public: Option<bool>,
    ipv6_addresses: Vec<SlaacAddress>,
}

#[derive(Clone, Debug, Deserialize)]
struct SlaacAddress {
    slaac_address: Option<String>,
}

impl VpcAddress {
    /// Returns the IPv4 address.
    pub(crate) fn ipv4(&self) -> Option<IpAddr> {
        self.address
            .as_deref()?
            .parse()
            .ok()
            .filter(IpAddr::is_ipv4)
    }

    /// Returns the IPv6 addresses, and `true` if they are public.
    pub(crate) fn ipv6(&self) -> impl Iterator<Item = (IpAddr, bool)> {
        let parsed = self
            .ipv6_addresses
            .iter()
            .filter_map(|address| address.slaac_address.as_deref()?.parse::<Ipv6Addr>().ok());
        parsed.map(move |ip| (IpAddr::V6(ip), self.ipv6_is_public.unwrap_or_default()))
    }
}

/// The VPCs of the account.
pub(crate) struct Vpcs {
    api: Api,
    config: Arc<Config>,
    catalog: Catalog<Vpc>,
    addresses: Cached<Vec<VpcAddress>>,
    /// Cached IPv6 addresses, and the IDs of the Linodes with an address in a VPC when they were read.
    ipv6: Cached<(HashSet<Option<u64>>, Vec<VpcAddress>)>,
}

impl Vpcs {
    pub(crate) fn new(api: Api, config: Arc<Config>) -> Self {
        let reader = api.clone();
        let catalog = Catalog::new("VPC", MAX_AGE, move || {
            let api = reader.clone();
            async move { api.all(Call::get("/vpcs", &[]), |vpc: &Vpc| vpc.id).await }
        });
        Self {
            api,
            config,
            catalog,
            addresses: Cached::default(),
            ipv6: Cached::default(),
        }
    }

    /// Returns the VPCs of the configuration.
    pub(crate) async fn configured(&self) -> Result<Vec<Vpc>> {
        let mut found = Vec::new();
        for vpc in &self.config.vpc.vpcs {
            found.push(self.find(vpc, self.config.vpc.by_id).await?);
        }
        Ok(found)
    }

    async fn find(&self, vpc: &str, by_id: bool) -> Result<Vpc> {
        match by_id {
            false => Ok(self
                .catalog
                .named(vpc, |vpc| &vpc.label, Vpc::clone)
                .await?
                .0),
            true => {
                let found = self
                    .catalog
                    .select(|catalog| catalog.id.to_string() == vpc)
                    .await?
                    .into_iter()
                    .next();
                found.ok_or_else(|| Error::invalid(format!("--vpc-ids: there is no VPC {vpc}")))
            }
        }
    }

    fn is_configured(&self, subnet: &Subnet) -> bool {
        let by_id = self.config.vpc.by_id;
        let id = subnet.id.to_string();
        self.config
            .vpc
            .subnets
            .iter()
            .any(|wanted| wanted == if by_id { &id } else { &subnet.label })
    }

    /// Returns the ID of a subnet. Without a name for the VPC or the subnet, the first one of the configuration is
    /// used.
    ///
    /// # Errors
    /// *Invalid*, if none has the label; the message lists the existing ones.
    pub(crate) async fn subnet(&self, vpc: Option<&str>, subnet: Option<&str>) -> Result<u64> {
        let vpc = match (vpc, self.config.vpc.vpcs.first()) {
            (Some(label), _) => self.find(label, false).await?,
            (None, Some(first)) => self.find(first, self.config.vpc.by_id).await?,
            (None, None) => {
                return Err(Error::invalid(
                    "no VPC is configured: set --vpc-names or --vpc-ids",
                ));
            }
        };
        let found = match subnet {
            Some(label) => vpc.subnets.iter().find(|subnet| subnet.label == label),
            None => vpc.subnets.iter().find(|subnet| self.is_configured(subnet)),
        };
        found.map(|subnet| subnet.id).ok_or_else(|| {
            let known = vpc
                .subnets
                .iter()
                .map(|subnet| subnet.label.as_str())
                .collect::<Vec<_>>()
                .join(", ");
            let wanted = subnet.map_or_else(|| self.config.vpc.subnets.join(", "), str::to_owned);
            Error::invalid(format!(
                "VPC {:?} has no subnet {wanted:?}; subnets are {known}",
                vpc.label
            ))
        })
    }

    /// Returns the addresses and ranges of all Linodes in the subnets of the configuration.
    pub(crate) async fn addresses(&self, age: Duration) -> Result<Arc<Vec<VpcAddress>>> {
        Ok(self
            .addresses
            .get(age, async || self.read_both().await)
            .await?
            .0)
    }

    /// Forgets the addresses, because this program has changed a range.
    pub(crate) async fn forget(&self) {
        self.addresses.forget().await;
    }

    /// Reads addresses of both families. IPv6 addresses hardly ever change, so they are read less often, but at once if
    /// there is a new Linode.
    async fn read_both(&self) -> Result<Vec<VpcAddress>> {
        let mut found = self.read_addresses("/vpcs/{id}/ips").await?;
        let joined: HashSet<_> = found.iter().map(|address| address.linode_id).collect();
        for age in [MAX_AGE, Duration::ZERO] {
            let read = async || {
                Ok((
                    joined.clone(),
                    self.read_addresses("/vpcs/{id}/ipv6s").await?,
                ))
            };
            let ipv6 = self.ipv6.get(age, read).await?.0;
            if age.is_zero() || joined.is_subset(&ipv6.0) {
                found.extend(ipv6.1.iter().cloned());
                break;
            }
        }
        Ok(found)
    }

    /// Returns the last address of a range if it is the last one of the first subnet of the configuration: VPCs reserve it.
    pub(crate) async fn last_address(&self, range: Ipv4Net) -> Result<Option<Ipv4Net>> {
        let vpcs = self.configured().await?;
        let subnet = vpcs
            .first()
            .and_then(|vpc| vpc.subnets.iter().find(|subnet| self.is_configured(subnet)));
        let subnet = subnet.and_then(|subnet| subnet.ipv4.as_deref()?.parse::<Ipv4Net>().ok());
        let last = subnet
            .map(|network| network.broadcast())
            .filter(|last| *last == range.broadcast());
        Ok(last.map(Ipv4Net::from))
    }

    async fn read_addresses(&self, path: &'static str) -> Result<Vec<VpcAddress>> {
        let mut found = Vec::new();
        for vpc in self.configured().await? {
            let subnets: Vec<u64> = vpc
                .subnets
                .iter()
                .filter(|subnet| self.is_configured(subnet))
                .map(|subnet| subnet.id)
                .collect();
            let ids = subnets
                .iter()
                .map(u64::to_string)
                .collect::<Vec<_>>()
                .join(",");
            {
                let call = Call::get(path, &[&vpc.id.to_string()]);
                let filter = json!({"subnet_id": ids});
                let key = |other_address: &VpcAddress| {
                    let VpcAddress {
                        linode_id,
                        address,
                        address_range,
                        ipv6_range,
                        ..
                    } = other_address;
                    (
                        *linode_id,
                        address.clone(),
                        address_range.clone(),
                        ipv6_range.clone(),
                    )
                };
                let list = self
                    .api
                    .list(
                        call,
                        Some(filter),
                        &SharedPriority::default(),
                        |address: VpcAddress| address,
                        key,
                    )
                    .await;
                // A VPC that was deleted and created again has another ID.
                if list.as_ref().is_err_and(Error::is_not_found) {
                    self.catalog.forget().await;
                }
                let list = list?;
                // An API that ignores the filter answers with all subnets.
                let is_ours =
                    |address: &VpcAddress| address.subnet_id.is_none_or(|id| subnets.contains(&id));
                found.extend(list.complete()?.into_items().into_iter().filter(is_ours));
            }
        }
        Ok(found)
    }
}

/// Returns the first address of `ip/length`.
pub(crate) fn without_length(text: &str) -> Option<IpAddr> {
    text.parse::<IpNet>()
        .map(|range| range.addr())
        .or_else(|_| text.parse())
        .ok()
}
