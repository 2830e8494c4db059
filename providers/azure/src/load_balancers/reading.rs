//! Shares of Services as the cloud shows them.

use std::collections::BTreeSet;

use cloud_provider::{LoadBalancerIngress, Result, Service};
use futures::future::try_join_all;
use provider_kit::load_balancers::{Attributes, ObservedLoadBalancer, OwnerTags, ResourceGraph};
use serde_json::Value;

use super::document::{CLUSTER_TAG, FRONTEND, Share, prefix};
use super::spec::{self, Family};
use super::{
    AzureLoadBalancers, BALANCER, EXTERNAL, INTERNAL, address, base_name, link, security, share_id,
};
use crate::arm::{LOAD_BALANCERS, PUBLIC_ADDRESSES, id_of, items, text};
use crate::tags;

/// The documents that Services have shares in, as they were read.
pub(super) struct Observed {
    /// Load balancers, each with its kind.
    load_balancers: Vec<(&'static str, Value)>,
    security_group: Value,
}

impl AzureLoadBalancers {
    pub(super) async fn read_documents(&self) -> Result<Observed> {
        let store = self.documents.store();
        let keys = self.keys();
        let (balancers, security_group) = futures::try_join!(
            try_join_all(keys.iter().map(|(_, key)| store.get(key))),
            self.security_group()
        )?;
        let kinds = keys.iter().map(|(kind, _)| *kind);
        let load_balancers = kinds
            .zip(balancers)
            .filter(|(_, kind)| !kind.is_null())
            .collect();
        Ok(Observed {
            load_balancers,
            security_group,
        })
    }

    async fn security_group(&self) -> Result<Value> {
        match self.config().file.security_group_name.is_empty() {
            true => Ok(Value::Null),
            false => self.documents.store().get(&self.security_key()).await,
        }
    }

    /// Returns one Service's share.
    fn actual(
        &self,
        owner: &str,
        kind: &'static str,
        observed: &Observed,
        (addresses, links): (&[Value], &[Value]),
        service: Option<&Service>,
    ) -> Result<Option<ObservedLoadBalancer>> {
        service
            .into_iter()
            .for_each(|service| self.learn_destinations(owner, service));
        let none = Value::Null;
        let mut of_kind = observed
            .load_balancers
            .iter()
            .filter(|(its, _)| *its == kind)
            .map(|(_, load_balancer)| load_balancer);
        let first = of_kind.clone().next().unwrap_or(&none);
        let balancer = of_kind
            .find(|object| !Share::of(object, owner).frontends.is_empty())
            .unwrap_or(first);
        let share = Share::of(balancer, owner);
        let is_own = |object: &&Value| {
            kind == EXTERNAL
                && address::is_managed(object, self.cluster())
                && address::is_of(object, owner)
        };
        let mut graph = share.graph(balancer, self.cluster(), ResourceGraph::default())?;
        if let Some(mut attributes) = graph.balancer_attributes().cloned() {
            if !self.balancers.is_empty() {
                attributes = attributes.set(BALANCER, base_name(text(balancer, "/name")));
            }
            let config = self.config();
            graph = graph.balancer(tags::observed(attributes, &config, balancer, &config.tags));
        }
        let own_addresses: Vec<&Value> = addresses.iter().filter(is_own).collect();
        for address in &own_addresses {
            graph = graph.resource(
                address::resource(text(address, "/name")),
                self.observed_address(address, service),
            );
        }
        if graph.resources.is_empty() {
            return Ok(None);
        }
        let ingress = ingress_of(&share, addresses);
        if let Some(settings) =
            self.observed_security(&observed.security_group, owner, &ingress, service)
        {
            graph = graph.resource(security::resource(), settings);
        }
        if let Some(link) = self.link_of(&share, links, service.map(address::full_name).as_deref())
        {
            graph = graph.resource(
                link::resource(text(link, "/name")),
                Attributes::observed(&link::observed(link))?,
            );
        }
        let cluster = balancer["tags"][CLUSTER_TAG].as_str().map(str::to_owned);
        let owner_tags = match (
            own_addresses
                .first()
                .map(|object| address::owner_tags(object)),
            cluster,
        ) {
            (Some(tags), _) => tags,
            (None, Some(cluster)) => OwnerTags {
                cluster: Some(cluster),
                service: Some(uid(owner, service)),
            },
            (None, None) => OwnerTags::default(),
        };
        let owner_tags = if owner_tags.service.is_none() {
            OwnerTags::default()
        } else {
            owner_tags
        };
        Ok(Some(ObservedLoadBalancer {
            id: share_id(kind, owner),
            name: owner.to_owned(),
            cloud_name_and_id: Some((owner.to_owned(), self.key_in(kind, &graph).name)),
            owner_tags,
            legacy_owner: Some(owner.to_owned()),
            kind,
            ingress,
            graph: Some(graph),
            ..ObservedLoadBalancer::default()
        }))
    }

    /// Reads the shares of one Service, of both kinds. The Service, if it is known, may name the resource group of its
    /// address.
    pub(super) async fn find(
        &self,
        owner: &str,
        service: Option<&Service>,
    ) -> Result<Vec<ObservedLoadBalancer>> {
        let observed = self.reads.join((), self.clone()).await?;
        let mut addresses = Vec::new();
        let mut place = self.config().load_balancers.clone();
        let annotations = service.and_then(|service| service.metadata.annotations.as_ref());
        let group = annotations
            .and_then(|other_annotations| other_annotations.get(crate::annotations::GROUP.key()));
        place.name = group.map_or(place.name, |group| group.trim().to_ascii_lowercase());
        let links = self.links(service).await?;
        let families = service
            .and_then(|service| service.spec.as_ref()?.ip_families.as_ref())
            .map_or(1, Vec::len);
        for suffix in ["", spec::IPV6].into_iter().take(families.max(1)) {
            let default = address::default_name(
                self.cluster(),
                owner,
                &Family {
                    suffix,
                    ..Family::default()
                },
            );
            addresses.extend(
                self.arm()
                    .get::<Value>(&PUBLIC_ADDRESSES, &place, &[&default])
                    .await?,
            );
        }
        let shares = observed
            .load_balancers
            .iter()
            .map(|(_, balancer)| Share::of(balancer, owner));
        let ids = shares.flat_map(|share| {
            share
                .addresses()
                .map(str::to_ascii_lowercase)
                .collect::<Vec<_>>()
        });
        self.add_missing(ids.collect(), &mut addresses).await?;
        let actuals = [EXTERNAL, INTERNAL]
            .map(|kind| self.actual(owner, kind, &observed, (&addresses, &links), service));
        actuals.into_iter().filter_map(Result::transpose).collect()
    }

    /// Reads the addresses with these IDs, in lower case, that are not among those that were read.
    async fn add_missing(&self, ids: BTreeSet<String>, addresses: &mut Vec<Value>) -> Result<()> {
        let known: BTreeSet<String> = addresses.iter().map(id_of).collect();
        let missing = ids.difference(&known).map(|id| self.address_by_id(id));
        addresses.extend(try_join_all(missing).await?.into_iter().flatten());
        Ok(())
    }

    /// Reads the shares of all Services.
    pub(super) async fn all(&self) -> Result<Vec<ObservedLoadBalancer>> {
        let group = self.config().load_balancers.clone();
        let (balancers, mut addresses, security_group, links) = futures::try_join!(
            self.arm().all(&LOAD_BALANCERS, &group),
            self.arm().all(&PUBLIC_ADDRESSES, &group),
            self.security_group(),
            self.links(None)
        )?;
        let keys = self.keys();
        let kind = |object: &Value| {
            let known = keys
                .iter()
                .find(|(_, key)| key.name.eq_ignore_ascii_case(text(object, "/name")));
            known.map(|(kind, key)| (*kind, key))
        };
        let mut load_balancers = Vec::new();
        for balancer in balancers {
            if let Some((kind, key)) = kind(&balancer) {
                self.documents.store().note(key, &balancer);
                load_balancers.push((kind, balancer));
            }
        }
        // Addresses may be in other resource groups.
        let frontends = load_balancers
            .iter()
            .flat_map(|(_, load_balancer)| items(load_balancer, "frontendIPConfigurations"));
        let ids = frontends
            .map(|frontends| text(frontends, FRONTEND[0].1).to_ascii_lowercase())
            .filter(|id| !id.is_empty());
        self.add_missing(ids.collect(), &mut addresses).await?;
        let observed = Observed {
            load_balancers,
            security_group,
        };
        let mut owners: BTreeSet<(&'static str, String)> = BTreeSet::new();
        for (kind, balancer) in &observed.load_balancers {
            let lists = ["frontendIPConfigurations", "loadBalancingRules"].into_iter();
            let names = lists
                .flat_map(|list| items(balancer, list))
                .map(|object| text(object, "/name").to_ascii_lowercase());
            owners.extend(names.filter_map(|name| Some((*kind, prefix(&name)?.to_owned()))));
        }
        let managed = addresses
            .iter()
            .filter(|other_address| address::is_managed(other_address, self.cluster()));
        owners.extend(
            managed
                .filter_map(|object| Some((EXTERNAL, address::owner_in(text(object, "/name"))?))),
        );
        let services = self.services_by_owner();
        let actuals = owners.iter().map(|(kind, owner)| {
            let service = services.get(owner).map(|owner| &**owner);
            self.actual(owner, kind, &observed, (&addresses, &links), service)
        });
        actuals.filter_map(Result::transpose).collect()
    }
}

/// Returns the UID of the Service whose elements begin with `owner`. The name lacks the last digit of the UID: for a
/// Service that no longer exists, so does the result.
fn uid(owner: &str, service: Option<&Service>) -> String {
    let digits = &owner[1..];
    let parts =
        [0..8, 8..12, 12..16, 16..20, 20..31].map(|range| digits.get(range).unwrap_or_default());
    service
        .and_then(|service| service.metadata.uid.clone())
        .unwrap_or_else(|| parts.join("-"))
}

/// Returns the addresses of a share.
pub(super) fn ingress_of(share: &Share<'_>, addresses: &[Value]) -> Vec<LoadBalancerIngress> {
    let address = |frontend: &Value| match text(frontend, "/properties/publicIPAddress/id") {
        "" => text(frontend, "/properties/privateIPAddress").to_owned(),
        id => {
            let used = addresses
                .iter()
                .find(|address| text(address, "/id").eq_ignore_ascii_case(id));
            used.map(|object| text(object, "/properties/ipAddress").to_owned())
                .unwrap_or_default()
        }
    };
    let all = share.frontends.values().map(|frontend| address(frontend));
    all.filter(|text| !text.is_empty())
        .map(|ip| ObservedLoadBalancer::ip(&ip))
        .collect()
}
