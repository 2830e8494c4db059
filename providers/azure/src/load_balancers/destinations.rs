//! The destinations of security rules: the addresses of Services, and those of Nodes without a floating address.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use cloud_provider::{
    Error, LoadBalancerIngress, Node, Result, Service, default_load_balancer_name,
};
use serde_json::Value;

use super::additional::shows;
use super::address::full_name;
use super::document::{Share, prefix};
use super::spec::Spec;
use super::{AzureLoadBalancers, internal, security};
use crate::annotations::DENY_OTHERS;
use crate::arm::{items, name_of, text};
use crate::documents::DocumentKey;

/// The addresses to which the security rules of a Service lead, beside those of its frontends.
#[derive(Clone, Debug, Default)]
pub(super) struct Destinations {
    /// Addresses of Nodes, without a floating address, and further addresses of the Service.
    further: BTreeSet<IpAddr>,
    /// The families whose own addresses they replace; each says if it is IPv6.
    to_nodes: Vec<bool>,
    /// Addresses of earlier syncs, to which rules may still lead.
    former: BTreeSet<IpAddr>,
}

/// A change of a Service's security rules.
pub(super) struct SecurityChange<'a> {
    pub(super) owner: &'a str,
    pub(super) key: &'a DocumentKey,
    /// The addresses that rules lead to.
    pub(super) present: BTreeSet<IpAddr>,
    /// Addresses that the Service had.
    pub(super) leaving: BTreeSet<IpAddr>,
    pub(super) rules: BTreeSet<String>,
}

impl AzureLoadBalancers {
    /// Notes the addresses to which the security rules of a Service lead, and returns those beside its frontends'.
    pub(super) fn note_destinations(
        &self,
        owner: &str,
        service: &Service,
        spec: &Spec,
        nodes: &[Arc<Node>],
    ) -> BTreeSet<IpAddr> {
        let to_nodes: Vec<bool> = spec
            .families
            .iter()
            .filter(|family| family.to_nodes)
            .map(|family| family.is_ipv6)
            .collect();
        let of_family = |is_ipv6: &bool| {
            nodes
                .iter()
                .filter_map(|node| internal(node, *is_ipv6))
                .collect::<Vec<_>>()
        };
        let additional = self.additional(service, spec);
        let further: BTreeSet<IpAddr> = additional
            .into_iter()
            .chain(to_nodes.iter().flat_map(of_family))
            .collect();
        let mut all = self.further.lock();
        let known = all.entry(owner.to_owned()).or_default();
        known.former.append(&mut known.further);
        known.former.retain(|ip| !further.contains(ip));
        (known.further, known.to_nodes) = (further.clone(), to_nodes);
        further
    }

    /// Notes the destinations of a Service that was not synced since the start.
    pub(super) fn learn_destinations(&self, owner: &str, service: &Service) {
        if self.further.lock().contains_key(owner) {
            return;
        }
        let mut nodes = self.usable(&self.nodes());
        nodes.retain(|node| {
            node.labels
                .get(cloud_provider::names::LABEL_EXCLUDE_BALANCER)
                .is_none()
        });
        self.note_destinations(
            owner,
            service,
            &Spec::of(service, &self.config()).spec,
            &nodes,
        );
    }

    /// Returns the addresses to which the security rules of a Service lead.
    pub(super) fn destinations(
        &self,
        owner: &str,
        ingress: &[LoadBalancerIngress],
    ) -> BTreeSet<IpAddr> {
        let Destinations {
            further, to_nodes, ..
        } = self.further.lock().get(owner).cloned().unwrap_or_default();
        let service_addresses = ingress
            .iter()
            .filter_map(|ingress| ingress.ip.as_deref()?.parse().ok());
        service_addresses
            .filter(|ip: &IpAddr| !to_nodes.contains(&ip.is_ipv6()))
            .chain(further)
            .collect()
    }

    /// Returns the addresses to which rules of earlier syncs may still lead.
    pub(super) fn former_destinations(&self, owner: &str) -> BTreeSet<IpAddr> {
        self.further
            .lock()
            .get(owner)
            .map(|destinations| destinations.former.clone())
            .unwrap_or_default()
    }

    /// Returns the rules of a Service as the security group has them, and the settings of their part of a graph.
    pub(super) fn observed_security(
        &self,
        group: &Value,
        owner: &str,
        ingress: &[LoadBalancerIngress],
        service: Option<&Service>,
    ) -> Option<provider_kit::load_balancers::Attributes> {
        let Destinations {
            further, to_nodes, ..
        } = self.further.lock().get(owner).cloned().unwrap_or_default();
        let service_addresses = ingress
            .iter()
            .filter_map(|ingress| ingress.ip.as_deref()?.parse().ok());
        let service_addresses: BTreeSet<IpAddr> = service_addresses
            .filter(|ip: &IpAddr| !to_nodes.contains(&ip.is_ipv6()))
            .collect();
        let mut foreign = if to_nodes.is_empty() {
            BTreeSet::new()
        } else {
            self.node_rules_of_others(owner)
        };
        if let Some(rules) =
            service.and_then(|service| Spec::of(service, &self.config()).spec.security)
        {
            foreign.retain(|name| {
                !rules
                    .iter()
                    .any(|rule| security::name(rule).as_ref() == Some(name))
            });
        }
        let (rules, covered) = security::observed(group, (&service_addresses, &further), &foreign);
        (!rules.is_empty()).then(|| {
            security::settings(
                &rules,
                if further.is_empty() {
                    None
                } else {
                    Some(&covered)
                },
            )
        })
    }

    /// Returns the addresses of all Nodes.
    fn node_addresses(&self) -> BTreeSet<IpAddr> {
        let nodes = self.nodes();
        nodes
            .iter()
            .flat_map(|node| {
                [false, true]
                    .into_iter()
                    .filter_map(|is_ipv6| internal(node, is_ipv6))
            })
            .collect()
    }

    /// Returns `true` if security rules lead to Nodes.
    pub(super) fn has_node_rules(&self) -> bool {
        let group = self.documents.store().last(&self.security_key());
        self.caches.get().is_some() && security::leads_to(&group, &self.node_addresses())
    }

    /// Returns the names of the rules by which other Services admit traffic to Nodes, in lower case.
    fn node_rules_of_others(&self, owner: &str) -> BTreeSet<String> {
        let config = self.config();
        let services = self.services();
        let others = services
            .iter()
            .filter(|service| default_load_balancer_name(service) != owner);
        let of_service = |service: &Arc<Service>| {
            let is_balanced = service
                .spec
                .as_ref()
                .is_some_and(|spec| spec.type_.as_deref() == Some("LoadBalancer"));
            let spec = if is_balanced {
                Spec::of(service, &config).spec
            } else {
                Spec::default()
            };
            let families: Vec<_> = spec
                .families
                .iter()
                .filter(|family| family.to_nodes)
                .map(super::spec::Family::name)
                .collect();
            let is_its_rule =
                |rule: &String| families.iter().any(|family| rule.starts_with(family));
            spec.security
                .into_iter()
                .flatten()
                .filter(is_its_rule)
                .filter_map(|other_security| security::name(&other_security))
                .collect::<Vec<_>>()
        };
        others.flat_map(of_service).collect()
    }

    /// Checks that a Service which denies other traffic does not share its internal address with one that has no ranges: no
    /// rule admits the traffic of that Service, which the virtual network admits, so that the denial would cut it off.
    pub(super) fn check_denial(&self, service: &Service, spec: &Spec) -> Result<()> {
        let denies = spec
            .security
            .iter()
            .flatten()
            .any(|rule| rule.contains(" Deny "));
        if !denies || !spec.is_internal {
            return Ok(());
        }
        let config = self.config();
        let services = self.services();
        let is_open = |service: &Service| {
            Spec::of(service, &config)
                .spec
                .security
                .is_none_or(|rules| rules.is_empty())
        };
        let is_cut_off = |entry: &&Arc<Service>, ip: IpAddr| {
            entry.metadata.uid != service.metadata.uid && shows(entry, ip) && is_open(entry)
        };
        let mut addresses = spec.families.iter().filter_map(|family| family.address);
        let cut_off = addresses
            .find_map(|ip| Some((ip, services.iter().find(|service| is_cut_off(service, ip))?)));
        cut_off.map_or(Ok(()), |(ip, other)| {
            Err(Error::invalid(format!(
                "annotation {}: Service {} has address {ip}, too, and no ranges, so that the denial would cut it off; remove \
                 the annotation, or choose another address",
                DENY_OTHERS.key(),
                full_name(other)
            )))
        })
    }

    /// Writes the security rules of a Service, together with those of other Services.
    pub(super) async fn write_security(
        &self,
        change: SecurityChange<'_>,
        spec: &Spec,
    ) -> Result<()> {
        if self.config().file.security_group_name.is_empty() {
            return Ok(());
        }
        let SecurityChange {
            owner,
            key,
            present,
            mut leaving,
            rules,
        } = change;
        let nodes = self.node_addresses();
        let mut kept = BTreeSet::new();
        if self.has_node_rules() || spec.families.iter().any(|family| family.to_nodes) {
            kept = self.node_rules_of_others(owner);
            leaving.extend(nodes.difference(&present));
        }
        let (retained, retains_denial) = self.retained(key, owner, &leaving);
        let former = self.former_destinations(owner);
        let gone = former.difference(&nodes).copied().collect();
        let edit = security::Edit {
            addresses: present,
            leaving,
            rules,
            retained,
            retains_denial,
            nodes,
            kept,
            gone,
        };
        let config = self.config();
        let apply = move |group: &mut Value| {
            edit.apply(group)?;
            if !group.is_null() {
                crate::tags::write(&config, group, &config.tags);
            }
            Ok(())
        };
        self.documents.edit(&self.security_key(), apply).await?;
        if let Some(known) = self.further.lock().get_mut(owner) {
            known.former.retain(|ip| !former.contains(ip));
        }
        Ok(())
    }

    /// Returns protocols and ports of other Services that have an address of this one, and `true` if one of them denies
    /// other traffic.
    fn retained(
        &self,
        key: &DocumentKey,
        owner: &str,
        addresses: &BTreeSet<IpAddr>,
    ) -> (BTreeSet<String>, bool) {
        let document = self.documents.store().last(key);
        let own_frontends: Vec<_> = Share::of(&document, owner)
            .frontends
            .values()
            .map(|frontend| text(frontend, "/name"))
            .collect();
        let others = items(&document, "loadBalancingRules").filter(|load_balancing_rule| {
            let its = name_of(text(
                load_balancing_rule,
                "/properties/frontendIPConfiguration/id",
            ));
            prefix(text(load_balancing_rule, "/name")) != Some(owner)
                && own_frontends
                    .iter()
                    .any(|own_frontend| its.eq_ignore_ascii_case(own_frontend))
        });
        let mut owners: BTreeSet<String> = others
            .clone()
            .filter_map(|object| prefix(text(object, "/name")).map(str::to_owned))
            .collect();
        let of_rule = |object: &Value| {
            format!(
                "{} {}",
                text(object, "/properties/protocol"),
                object["properties"]["frontendPort"]
            )
        };
        let mut retained: BTreeSet<String> = others.map(of_rule).collect();
        let config = self.config();
        let services = self.services();
        let shows_one = |service: &Service| addresses.iter().any(|ip| shows(service, *ip));
        let others = services
            .iter()
            .filter(|service| default_load_balancer_name(service) != owner);
        for service in others.clone().filter(|entry| shows_one(entry)) {
            owners.insert(default_load_balancer_name(service));
            let ports = service
                .spec
                .as_ref()
                .and_then(|spec| spec.ports.as_ref())
                .into_iter()
                .flatten();
            retained.extend(ports.map(|port| match port.protocol.as_deref() {
                Some("UDP") => format!("Udp {}", port.port),
                Some("SCTP") => format!("* {}", port.port),
                _ => format!("Tcp {}", port.port),
            }));
        }
        let denies = |entry: &Arc<Service>| {
            let rules = Spec::of(entry, &config).spec.security;
            rules
                .into_iter()
                .flatten()
                .any(|rule| rule.contains(" Deny "))
        };
        let mut sharing =
            others.filter(|entry| owners.contains(&default_load_balancer_name(entry)));
        (retained, sharing.any(denies))
    }
}
