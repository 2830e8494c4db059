//! Decision about the addresses of a Service.

use std::net::IpAddr;

use cloud_provider::{Error, Result, Service};
use provider_kit::annotations::{Annotations, Parsed};
use serde_json::Map;

use crate::address_book::{AddressBook, Entry, word};
use crate::config::{ANNOTATIONS, Config, FORWARD_METHOD, ForwardMethod, POOL, PREFIX};
use crate::pools::{Family, Pools};

/// The addresses that a Service requests, and its forward method.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Desired {
    /// UID of the Service.
    pub(crate) uid: String,
    /// Namespace of the Service.
    pub(crate) namespace: String,
    /// Name of the Service.
    pub(crate) name: String,
    /// Forward method; `None` lets kube-keepalived-vip decide.
    pub(crate) method: Option<ForwardMethod>,
    /// Address of `spec.loadBalancerIP`.
    pub(crate) fixed: Option<IpAddr>,
    /// Families of `spec.ipFamilies`; empty if the API server did not set them.
    pub(crate) families: Vec<Family>,
    /// If set, an address of each family is required, and otherwise of those that the pool has.
    pub(crate) requires_all: bool,
    /// Name of the pool; empty for the default one.
    pub(crate) pool: String,
}

/// Reads what a Service requests.
pub(crate) fn desired(service: &Service, config: &Config) -> Parsed<Desired> {
    let (metadata, spec) = (&service.metadata, service.spec.clone().unwrap_or_default());
    let mut annotations = Annotations::of(service);
    let method = annotations.get(&FORWARD_METHOD).or(config.method);
    let pool = annotations.get(&POOL).unwrap_or_default();
    let is_known = config.pools == Pools::default() || config.pools.names().contains(&&*pool);
    if !pool.is_empty() && !is_known {
        let known = config.pools.names().join(", ");
        annotations
            .mistake(format!("annotation {}: {pool:?} is no pool of KEEPALIVED_SERVICE_CIDR ({known})", POOL.key()));
    }
    annotations.unknown(PREFIX, ANNOTATIONS);
    let text = spec.load_balancer_ip.unwrap_or_default();
    let fixed = if text.is_empty() { None } else { text.parse().ok() };
    if fixed.is_none() && !text.is_empty() {
        annotations.mistake(format!("spec.loadBalancerIP: {text:?} is not an IP address"));
    }
    let family = |name: &String| if name == "IPv6" { Family::V6 } else { Family::V4 };
    annotations.parsed(Desired {
        uid: metadata.uid.clone().unwrap_or_default(),
        namespace: metadata.namespace.clone().unwrap_or_default(),
        name: metadata.name.clone().unwrap_or_default(),
        method,
        fixed,
        families: spec.ip_families.iter().flatten().map(family).collect(),
        requires_all: spec.ip_family_policy.as_deref() == Some("RequireDualStack"),
        pool,
    })
}

impl Desired {
    /// Gives the Service its addresses, one for each of its families. Addresses that it has stay, unless
    /// `spec.loadBalancerIP` names another one. Repeated, the assignment changes nothing.
    ///
    /// # Errors
    /// *Invalid*, if the requested address is in use or the pool lacks a family; *quota*, if the pool has no free address.
    pub(crate) fn assign(&self, book: &mut AddressBook, pools: &Pools) -> Result<()> {
        let wanted = self.addresses(book, pools)?;
        let mut wanted = wanted.into_iter();
        let mut entries = Vec::with_capacity(book.entries.len() + 1);
        for entry in &book.entries {
            if entry.uid != self.uid {
                entries.push(entry.clone());
            } else if let Some(ip) = wanted.next() {
                entries.push(Entry { others: entry.others.clone(), ..self.entry(ip) });
            }
        }
        entries.extend(wanted.map(|ip| self.entry(ip)));
        book.entries = entries;
        Ok(())
    }

    fn entry(&self, ip: IpAddr) -> Entry {
        let Self { uid, namespace, name, method, .. } = self.clone();
        Entry { uid, ip, namespace, name, method: word(method), others: Map::new() }
    }

    /// Returns the addresses that the Service gets.
    fn addresses(&self, book: &AddressBook, pools: &Pools) -> Result<Vec<IpAddr>> {
        let existing: Vec<_> = book.of(&self.uid).map(|entry| entry.ip).collect();
        let families = self.families(&existing, pools)?;
        let mut addresses = Vec::new();
        for family in families {
            let fixed = self.fixed.filter(|ip| Family::of(*ip) == family);
            let kept = existing.iter().copied().find(|ip| Family::of(*ip) == family);
            addresses.push(match (fixed, kept) {
                (Some(ip), _) => self.free(book, ip)?,
                (None, Some(ip)) => ip,
                (None, None) => {
                    let is_used = |ip| book.user_beside(ip, &self.uid).is_some();
                    pools.first_free(&self.pool, family, is_used).ok_or_else(|| self.exhausted(family))?
                }
            });
        }
        Ok(addresses)
    }

    /// Returns the families of the addresses: those of the Service for which there are ranges. A fixed address needs none.
    fn families(&self, existing: &[IpAddr], pools: &Pools) -> Result<Vec<Family>> {
        let mut requested = self.families.clone();
        if requested.is_empty() {
            let known = self.fixed.or(existing.first().copied()).map(Family::of);
            requested.extend(known.or_else(|| pools.first_family(&self.pool)));
        }
        if let Some(ip) = self.fixed.filter(|ip| !requested.contains(&Family::of(*ip))) {
            let family = Family::of(ip);
            return Err(Error::invalid(format!(
                "spec.loadBalancerIP: {ip} is {family}, which spec.ipFamilies does not name"
            )));
        }
        let has = |family: &Family| {
            self.fixed.is_some_and(|ip| Family::of(ip) == *family)
                || existing.iter().any(|ip| Family::of(*ip) == *family)
                || pools.has(&self.pool, *family)
        };
        let (there, missing): (Vec<_>, Vec<_>) = requested.into_iter().partition(has);
        match missing.first() {
            Some(family) if self.requires_all || there.is_empty() => Err(Error::invalid(format!(
                "{} has no {family} range, which the Service requests; add one to KEEPALIVED_SERVICE_CIDR",
                self.pool_name()
            ))),
            _ => Ok(there),
        }
    }

    fn free(&self, book: &AddressBook, ip: IpAddr) -> Result<IpAddr> {
        match book.user_beside(ip, &self.uid) {
            None => Ok(ip),
            Some(user) => Err(Error::invalid(format!(
                "spec.loadBalancerIP: {ip} is used by {user}; an address serves one Service only. Choose another address, or \
                 delete its user first"
            ))),
        }
    }

    fn exhausted(&self, family: Family) -> Error {
        Error::quota(format!(
            "{} has no free {family} address: add a range to KEEPALIVED_SERVICE_CIDR, or delete Services of type LoadBalancer",
            self.pool_name()
        ))
    }

    fn pool_name(&self) -> String {
        if self.pool.is_empty() { "the default pool".to_owned() } else { format!("pool {:?}", self.pool) }
    }
}

#[cfg(test)]
mod tests;
