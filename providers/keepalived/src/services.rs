//! The Services of the cluster, which prove who has an address when the ConfigMap was lost or restored.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use cloud_provider::{Error, Node, Result, Service};
use provider_kit::cluster::ClusterView;
use provider_kit::json_path::take;
use provider_kit::reserved_addresses::cluster_ips;
use serde_json::Value;

use crate::address_book::AddressBook;

/// Services of a page.
const PAGE: usize = 500;

/// The Services of the cluster, as an assignment of addresses sees them.
#[derive(Clone)]
pub(crate) enum KnownServices {
    /// Services of the cache, which are read at the assignment.
    Cached(ClusterView),
    /// Services of a list that was read to its end.
    Listed(Arc<Services>),
}

/// The UIDs of the Services of the cluster, and the addresses that they show.
#[derive(Debug, Default)]
pub(crate) struct Services {
    /// UIDs of all Services.
    pub(crate) uids: BTreeSet<String>,
    /// Addresses in the status of Services of type `LoadBalancer`.
    shown: Vec<ShownAddress>,
    /// Addresses that the cluster uses itself, each with its user: those of Nodes, and cluster IPs.
    cluster: BTreeMap<IpAddr, String>,
}

#[derive(Debug)]
struct ShownAddress {
    uid: String,
    service: String,
    ip: IpAddr,
}

impl KnownServices {
    /// Returns what the Services show at this moment.
    pub(crate) fn services(&self) -> Arc<Services> {
        match self {
            Self::Cached(cluster) => {
                let mut services = Services::default();
                cluster
                    .services()
                    .iter()
                    .flatten()
                    .for_each(|service| services.add(service));
                cluster
                    .nodes()
                    .iter()
                    .flatten()
                    .for_each(|node| services.add_node(node));
                Arc::new(services)
            }
            Self::Listed(services) => Arc::clone(services),
        }
    }
}

impl Services {
    /// Reads all Services from the API server.
    pub(crate) async fn list(cluster: &ClusterView) -> Result<Self> {
        let mut services = Self::default();
        let mut next = String::new();
        loop {
            let path = format!("/api/v1/services?limit={PAGE}&continue={next}");
            let (status, mut page) = cluster.get(&path).await?;
            let Value::Array(items) = take(&mut page, &["items"]) else {
                return Err(Error::other(format!(
                    "the list of Services was answered {status}"
                )));
            };
            if !status.is_success() {
                return Err(Error::other(format!(
                    "the list of Services was answered {status}"
                )));
            }
            for item in items {
                let service: Service = serde_json::from_value(item).map_err(|error| {
                    Error::other(format!("a Service of the list cannot be read: {error}"))
                })?;
                if service.metadata.uid.is_none() {
                    return Err(Error::other("a Service of the list has no UID"));
                }
                services.add(&service);
            }
            match page["metadata"]["continue"].as_str() {
                Some(token) if !token.is_empty() => {
                    next = form_urlencoded::byte_serialize(token.as_bytes()).collect();
                }
                _ => return Ok(services),
            }
        }
    }

    /// Adds a Service. The address of a Service that is being deleted is about to be free.
    pub(crate) fn add(&mut self, service: &Service) {
        let metadata = &service.metadata;
        let uid = metadata.uid.clone().unwrap_or_default();
        let [namespace, name] =
            [&metadata.namespace, &metadata.name].map(|entry| entry.as_deref().unwrap_or_default());
        self.cluster
            .extend(cluster_ips(service).map(|ip| (ip, format!("Service {namespace}/{name}"))));
        if metadata.deletion_timestamp.is_none() {
            let named = |ip| ShownAddress {
                uid: uid.clone(),
                service: format!("Service {namespace}/{name}"),
                ip,
            };
            self.shown
                .extend(shown_addresses(service).into_iter().map(named));
        }
        self.uids.insert(uid);
    }

    /// Adds the addresses of a Node.
    pub(crate) fn add_node(&mut self, node: &Node) {
        let addresses = node
            .addresses
            .iter()
            .filter_map(|address| address.address.parse().ok());
        self.cluster
            .extend(addresses.map(|ip| (ip, format!("Node {}", node.name))));
    }

    /// Returns the Node that has the address, or the Service that has it as a cluster IP.
    pub(crate) fn user_in_cluster(&self, ip: IpAddr) -> Option<&str> {
        self.cluster.get(&ip).map(String::as_str)
    }

    /// Returns the addresses of Nodes, and the cluster IPs.
    pub(crate) fn of_cluster(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.cluster.keys().copied()
    }

    /// Returns the Service other than the one with this UID that shows the address, if the ConfigMap has no entry of it: the entry
    /// counts, because the status follows it.
    pub(crate) fn user_beside(&self, book: &AddressBook, ip: IpAddr, uid: &str) -> Option<&str> {
        let mut users = self
            .shown
            .iter()
            .filter(|shown| shown.ip == ip && shown.uid != uid);
        users
            .find(|shown| !book.has(&shown.uid))
            .map(|shown| &*shown.service)
    }

    /// Returns the addresses that Services other than the one with this UID show, and of which the ConfigMap has no entry.
    pub(crate) fn shown_beside<'a>(
        &'a self,
        book: &'a AddressBook,
        uid: &'a str,
    ) -> impl Iterator<Item = IpAddr> + 'a {
        let known: BTreeSet<_> = book.entries.iter().map(|entry| &*entry.uid).collect();
        self.shown
            .iter()
            .filter(move |shown_address| {
                shown_address.uid != uid && !known.contains(&*shown_address.uid)
            })
            .map(|shown_address| shown_address.ip)
    }

    /// Returns `true` if no Service has the UID `owner`. Services without the one with the UID `uid`, which exists, prove nothing.
    pub(crate) fn lack(&self, owner: &str, uid: &str) -> bool {
        self.uids.contains(uid) && !self.uids.contains(owner)
    }
}

/// Returns the addresses in the status of a Service of type `LoadBalancer`.
pub(crate) fn shown_addresses(service: &Service) -> Vec<IpAddr> {
    let is_balanced = service
        .spec
        .as_ref()
        .is_some_and(|spec| spec.type_.as_deref() == Some("LoadBalancer"));
    let status = service
        .status
        .iter()
        .filter(|_| is_balanced)
        .filter_map(|status| status.load_balancer.as_ref());
    let ingress = status.flat_map(|status| status.ingress.iter().flatten());
    ingress
        .filter_map(|ingress| ingress.ip.as_deref()?.parse().ok())
        .collect()
}
