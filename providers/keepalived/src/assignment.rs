//! Decision about the address of a Service.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use cloud_provider::{Error, Result, Service};
use provider_kit::annotations::{Annotations, Parsed};
use provider_kit::reserved_addresses::special;
use serde_json::Map;

use crate::address_book::{AddressBook, Entry, word};
use crate::config::{ANNOTATIONS, Config, FORWARD_METHOD, ForwardMethod, POOL, PREFIX};
use crate::pools::Pools;
use crate::services::{Services, shown_addresses};

/// The address that a Service requests, and its forward method.
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
    /// Addresses of the status.
    pub(crate) shown: Vec<IpAddr>,
    /// Name of the pool; empty for the default one.
    pub(crate) pool: String,
}

/// Reads what a Service requests.
pub(crate) fn desired(service: &Service, config: &Config) -> Parsed<Desired> {
    let metadata = &service.metadata;
    let spec = service.spec.clone().unwrap_or_default();
    let mut annotations = Annotations::of(service);
    let method = annotations.get(&FORWARD_METHOD).or(config.method);
    let pool = annotations.get(&POOL).unwrap_or_default();
    let is_known = config.pools == Pools::default() || config.pools.names().contains(&&*pool);
    if !pool.is_empty() && !is_known {
        let known = config.pools.names().join(", ");
        annotations.mistake(format!(
            "annotation {}: {pool:?} is no pool of KEEPALIVED_SERVICE_CIDR ({known})",
            POOL.key()
        ));
    }
    annotations.unknown(PREFIX, ANNOTATIONS);
    let text = spec.load_balancer_ip.unwrap_or_default();
    let fixed: Option<IpAddr> = if text.is_empty() {
        None
    } else {
        text.parse().ok()
    };
    if fixed.is_none() && !text.is_empty() {
        annotations.mistake(format!(
            "spec.loadBalancerIP: {text:?} is not an IP address"
        ));
    }
    if let Some(ip) = fixed.filter(IpAddr::is_ipv6) {
        annotations.mistake(format!(
            "spec.loadBalancerIP: {ip} is IPv6, which kube-keepalived-vip does not support"
        ));
    }
    if let Some((ip, kind)) = fixed.and_then(|ip| Some((ip, special(ip)?))) {
        annotations.mistake(format!(
            "spec.loadBalancerIP: {ip} is {kind}, which no Service can have; choose an address of KEEPALIVED_SERVICE_CIDR"
        ));
    } else if let Some(ip) =
        fixed.filter(|ip| ip.is_ipv4() && config.only_ranges && !config.pools.contains(*ip))
    {
        annotations.mistake(format!(
            "spec.loadBalancerIP: {ip} is not in a range of KEEPALIVED_SERVICE_CIDR, which KEEPALIVED_ONLY_SERVICE_CIDR \
             requires; choose an address of the ranges, or remove the field"
        ));
    }
    let families = spec.ip_families.unwrap_or_default();
    if families == ["IPv6"] {
        annotations
            .mistake("spec.ipFamilies: IPv6 is not supported by kube-keepalived-vip; add IPv4");
    }
    if families.len() > 1 && spec.ip_family_policy.as_deref() == Some("RequireDualStack") {
        annotations.mistake(
            "spec.ipFamilyPolicy: RequireDualStack needs an IPv6 address, which kube-keepalived-vip does not support; use \
             PreferDualStack, which gets an IPv4 address only",
        );
    }
    annotations.parsed(Desired {
        uid: metadata.uid.clone().unwrap_or_default(),
        namespace: metadata.namespace.clone().unwrap_or_default(),
        name: metadata.name.clone().unwrap_or_default(),
        method,
        fixed,
        shown: shown_addresses(service),
        pool,
    })
}

impl Desired {
    /// Gives the Service its address. An address that it has stays, unless `spec.loadBalancerIP` names another one. If the
    /// ConfigMap has none, because it was lost or restored, the address of the Service's status stays. Repeated, the assignment
    /// changes nothing.
    ///
    /// # Errors
    /// *Invalid*, if the requested address is in use; *quota*, if the pool has no free address.
    pub(crate) fn assign(
        &self,
        book: &mut AddressBook,
        pools: &Pools,
        services: impl FnOnce() -> Arc<Services>,
    ) -> Result<()> {
        let kept = book
            .of(&self.uid)
            .map(|entry| entry.ip)
            .find(|ip| self.fixed.map_or(ip.is_ipv4(), |address| address == *ip));
        let ip = match kept {
            Some(ip) => ip,
            None => self.address(book, pools, &services())?,
        };
        book.take(ip, &self.uid);
        let kept = book.entries.iter().position(|entry| entry.uid == self.uid);
        let others = kept.map_or_else(Map::new, |at| book.entries[at].others.clone());
        let uid = self.uid.clone();
        let namespace = self.namespace.clone();
        let name = self.name.clone();
        let entry = Entry {
            uid,
            ip,
            namespace,
            name,
            method: word(self.method),
            others,
        };
        let at = kept.unwrap_or(book.entries.len());
        book.release(&self.uid);
        book.entries.insert(at, entry);
        Ok(())
    }

    /// Takes the address from the Service, and what a ConfigMap without its annotation still has in `data`.
    pub(crate) fn release(&self, book: &mut AddressBook) {
        book.release(&self.uid);
        for ip in self
            .shown
            .iter()
            .filter(|ip| self.is_lost_entry(book, **ip))
            .copied()
            .collect::<Vec<_>>()
        {
            book.take(ip, &self.uid);
        }
    }

    /// Returns the address that a Service gets which has none, or another one than it requests.
    fn address(&self, book: &AddressBook, pools: &Pools, services: &Services) -> Result<IpAddr> {
        if let Some(ip) = self.fixed {
            return match self.user(book, services, ip) {
                None => Ok(ip),
                Some(user) => Err(Error::invalid(format!(
                    "spec.loadBalancerIP: {ip} is used by {user}; an address serves one Service only. Choose another address, \
                     or delete its user first"
                ))),
            };
        }
        let is_its_ip = |ip: &&IpAddr| {
            pools.contains(**ip) && self.user_in_book(book, services, **ip).is_none()
        };
        if let Some(ip) = self.shown.iter().find(is_its_ip) {
            return Ok(*ip);
        }
        if !pools.has(&self.pool) {
            return Err(Error::invalid(format!(
                "{} has no range, which the Service requests; add one to KEEPALIVED_SERVICE_CIDR, or choose a pool with \
                 annotation {}",
                self.pool_name(),
                POOL.key()
            )));
        }
        let mut used: BTreeSet<_> = book.addresses_beside(&self.uid).collect();
        used.extend(services.shown_beside(book, &self.uid));
        used.extend(services.of_cluster());
        pools.first_free(&self.pool, |ip| used.contains(&ip)).ok_or_else(|| {
            Error::quota(format!(
                "{} has no free address: add a range to KEEPALIVED_SERVICE_CIDR, or delete Services of type LoadBalancer",
                self.pool_name()
            ))
        })
    }

    /// Returns the user of an address other than this Service, for texts: `Service shop/web`.
    fn user(&self, book: &AddressBook, services: &Services, ip: IpAddr) -> Option<String> {
        let shown = || services.user_beside(book, ip, &self.uid).map(str::to_owned);
        let of_cluster = || services.user_in_cluster(ip).map(str::to_owned);
        { self.user_in_book(book, services, ip) }
            .or_else(|| shown().filter(|_| !self.shown.contains(&ip)))
            .or_else(of_cluster)
    }

    /// Returns the user of an address in the ConfigMap other than this Service. An old entry, whose Service does not exist, is no
    /// user of the address that this Service shows.
    fn user_in_book(&self, book: &AddressBook, services: &Services, ip: IpAddr) -> Option<String> {
        if let Some(entry) = book.entry_beside(ip, &self.uid) {
            let is_old = self.shown.contains(&ip) && services.lack(&entry.uid, &self.uid);
            return (!is_old).then(|| entry.service());
        }
        let manual = book.manual(ip).filter(|_| !self.is_lost_entry(book, ip))?;
        Some(format!("an entry made by hand, {manual:?}"))
    }

    /// Returns `true` if `data` has an entry of this Service, at an address that the Service shows or requests, and the annotation
    /// has none: the annotation was lost.
    fn is_lost_entry(&self, book: &AddressBook, ip: IpAddr) -> bool {
        let Some(value) = book.manual(ip) else {
            return false;
        };
        let service = value.split_once(':').map_or(value, |(service, _)| service);
        let is_named = service.split_once('/') == Some((&self.namespace, &self.name));
        is_named && (self.shown.contains(&ip) || self.fixed == Some(ip))
    }

    fn pool_name(&self) -> String {
        if self.pool.is_empty() {
            "the default pool".to_owned()
        } else {
            format!("pool {:?}", self.pool)
        }
    }
}

#[cfg(test)]
mod tests;
