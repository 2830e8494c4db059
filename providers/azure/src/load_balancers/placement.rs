//! Several standard load balancers: which of them serves a Service, and in the pools of which a Node is.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use cloud_provider::{Error, Node, Result, Service, StringMap, default_load_balancer_name};
use provider_kit::health_check::requests_only_local_traffic;
use provider_kit::inventory::Found;
use provider_kit::load_balancers::Targets;
use provider_kit::node_selector::NodeSelector;
use provider_kit::transport::Priority;
use serde::Deserialize;
use serde_json::Value;

use super::document::{FRONTEND, Share, members, prefix};
use super::edit::set_members;
use super::spec::{Family, Spec};
use super::{AzureLoadBalancers, base_name, internal};
use crate::arm::{items, name_of, text};
use crate::documents::DocumentKey;
use crate::machines::VirtualMachine;
use crate::nodes::compared;

/// A standard load balancer of `multipleStandardLoadBalancerConfigurations`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[allow(missing_docs, reason = "docs/providers/azure.md explains each key")]
pub struct StandardBalancer {
    pub name: String,
    #[serde(rename = "primaryVMSet")]
    pub primary_set: String,
    pub allow_service_placement: Option<bool>,
    pub service_label_selector: Option<LabelSelector>,
    pub service_namespace_selector: Option<LabelSelector>,
    pub node_selector: Option<LabelSelector>,
}

/// A label selector in the form of Kubernetes objects.
#[derive(Clone, Debug)]
pub struct LabelSelector(NodeSelector);

impl<'de> Deserialize<'de> for LabelSelector {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let equal = value["matchLabels"].as_object().into_iter().flatten();
        let mut parts: Vec<String> = equal
            .map(|(key, equal)| format!("{key}={}", equal.as_str().unwrap_or_default()))
            .collect();
        for expression in value["matchExpressions"].as_array().into_iter().flatten() {
            let key = text(expression, "/key");
            let operator = text(expression, "/operator");
            let values = expression["values"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str);
            let values = values.collect::<Vec<_>>().join(",");
            parts.push(match operator {
                "In" => format!("{key} in ({values})"),
                "NotIn" => format!("{key} notin ({values})"),
                "Exists" => key.to_owned(),
                "DoesNotExist" => format!("!{key}"),
                _ => {
                    return Err(serde::de::Error::custom(
                        "In, NotIn, Exists or DoesNotExist",
                    ));
                }
            });
        }
        NodeSelector::parse(&parts.join(","))
            .map(Self)
            .map_err(serde::de::Error::custom)
    }
}

/// Returns `true` if there is no selector, or one that selects everything.
fn is_empty(selector: Option<&LabelSelector>) -> bool {
    selector.is_none_or(|selector| selector.0.selects_all())
}

/// Decisions that the cloud does not show yet.
#[derive(Default)]
pub(super) struct Placed {
    /// The load balancers of Services, by the names of their frontends.
    services: BTreeMap<String, String>,
    /// The Nodes of the last sync that may be in pools.
    nodes: Vec<Arc<Node>>,
}

/// Returns the names of the pool that a Service may have alone: that of the Go program, which Services of different
/// namespaces may share, and one that is the Service's alone, because its parts have no underscore.
pub(super) fn own_pools(service: &Service) -> [String; 2] {
    let part = |entry: &Option<String>| entry.clone().unwrap_or_default().to_lowercase();
    let namespace = part(&service.metadata.namespace);
    let name = part(&service.metadata.name);
    [format!("{namespace}-{name}"), format!("{namespace}_{name}")]
}

/// Returns the load balancers that may serve a Service: those that it names, or all; without those whose selectors do
/// not select it, and those without a selector if there are others.
fn eligible<'a>(
    all: &'a [StandardBalancer],
    stated: &[String],
    labels: &StringMap,
    namespace: &StringMap,
    current: Option<&str>,
) -> Result<Vec<&'a StandardBalancer>, String> {
    let is_current = |load_balancer: &StandardBalancer| {
        current.is_some_and(|current| current.eq_ignore_ascii_case(&load_balancer.name))
    };
    let names = || {
        all.iter()
            .map(|load_balancer| load_balancer.name.as_str())
            .collect::<Vec<_>>()
            .join(", ")
    };
    let is_stated = |load_balancer: &StandardBalancer| {
        stated.is_empty()
            || stated
                .iter()
                .any(|name| name.eq_ignore_ascii_case(&load_balancer.name))
    };
    if let Some(unknown) = stated.iter().find(|name| {
        !all.iter()
            .any(|load_balancer| load_balancer.name.eq_ignore_ascii_case(name))
    }) {
        return Err(format!(
            "load balancer {unknown:?} is not configured; configured are {}",
            names()
        ));
    }
    let selects = |selector: &Option<LabelSelector>, labels| {
        selector
            .as_ref()
            .is_none_or(|selector| selector.0.matches(labels))
    };
    let fits = |load_balancer: &&StandardBalancer| {
        is_stated(load_balancer)
            && (load_balancer.allow_service_placement != Some(false) || is_current(load_balancer))
            && selects(&load_balancer.service_label_selector, labels)
            && selects(&load_balancer.service_namespace_selector, namespace)
    };
    let found: Vec<_> = all.iter().filter(fits).collect();
    if found.is_empty() {
        return Err(format!(
            "none of the load balancers {} may serve the Service; check allowServicePlacement and the selectors of \
             multipleStandardLoadBalancerConfigurations",
            if stated.is_empty() {
                names()
            } else {
                stated.join(", ")
            }
        ));
    }
    let is_open = |load_balancer: &&StandardBalancer| {
        load_balancer.service_label_selector.is_none()
            && load_balancer.service_namespace_selector.is_none()
    };
    let (open, chosen): (Vec<_>, Vec<_>) = found.into_iter().partition(is_open);
    Ok(if chosen.is_empty() { open } else { chosen })
}

/// Returns the load balancer of each Node, by the name of the Node: that of its set of machines; else one whose selector
/// selects the Node; else one without a selector. A Node stays where it is, or gets the load balancer with the fewest.
fn assign(
    all: &[StandardBalancer],
    current_names: &BTreeSet<String>,
    nodes: &[(Arc<Node>, Box<str>)],
    current: &HashMap<String, String>,
) -> HashMap<String, String> {
    let is_there = |load_balancer: &&StandardBalancer| {
        current_names.contains(&load_balancer.name.to_lowercase())
    };
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut assigned = HashMap::new();
    let (mut later, mut nodes): (Vec<_>, Vec<_>) = (Vec::new(), nodes.iter().collect());
    nodes.sort_by_key(|(node, _)| node.name.clone());
    for (node, set) in nodes {
        let of_set = all.iter().filter(is_there).find(|load_balancer| {
            !set.is_empty() && load_balancer.primary_set.eq_ignore_ascii_case(set)
        });
        let selects = |load_balancer: &&StandardBalancer| {
            !is_empty(load_balancer.node_selector.as_ref())
                && load_balancer
                    .node_selector
                    .as_ref()
                    .is_some_and(|selector| selector.0.matches(&node.labels))
        };
        let mut fit: Vec<_> = all.iter().filter(is_there).filter(selects).collect();
        if fit.is_empty() {
            fit = all
                .iter()
                .filter(is_there)
                .filter(|load_balancer| is_empty(load_balancer.node_selector.as_ref()))
                .collect();
        }
        let stays = |load_balancer: &&&StandardBalancer| {
            current
                .get(&*node.name)
                .is_some_and(|at| at.eq_ignore_ascii_case(&load_balancer.name))
        };
        match of_set.or_else(|| fit.iter().find(stays).copied()) {
            Some(entry) => {
                *counts.entry(&entry.name).or_default() += 1;
                assigned.insert(node.name.to_string(), entry.name.to_lowercase());
            }
            None => later.push((node, fit)),
        }
    }
    for (node, fit) in later {
        let count = |load_balancer: &&&StandardBalancer| {
            counts
                .get(&*load_balancer.name)
                .copied()
                .unwrap_or_default()
        };
        let Some(object) = fit.iter().min_by_key(count) else {
            continue;
        };
        *counts.entry(&object.name).or_default() += 1;
        assigned.insert(node.name.to_string(), object.name.to_lowercase());
    }
    assigned
}

impl AzureLoadBalancers {
    /// Returns the name of the pool that a Service has alone. An existing one keeps its name, unless another Service uses
    /// it as well.
    fn own_pool(&self, service: &Service) -> String {
        let ([shared, own], owner) = (own_pools(service), default_load_balancer_name(service));
        let existing = self.existing();
        let rules = existing
            .iter()
            .flat_map(|(.., document)| items(document, "loadBalancingRules"));
        let led = rules.filter(|rule| {
            let pool = name_of(text(rule, "/properties/backendAddressPool/id")).to_lowercase();
            pool.strip_suffix("-ipv6").unwrap_or(&pool) == shared
        });
        let owners: BTreeSet<_> = led
            .map(|rule| prefix(text(rule, "/name")) == Some(&*owner))
            .collect();
        let is_other = |entry: &std::sync::Arc<Service>| entry.metadata.uid != service.metadata.uid;
        let is_ambiguous = || {
            self.services()
                .iter()
                .any(|service| is_other(service) && own_pools(service)[0] == shared)
        };
        match (owners.contains(&true), owners.contains(&false)) {
            (_, true) => own,
            (true, false) => shared,
            (false, false) if is_ambiguous() => own,
            (false, false) => shared,
        }
    }

    fn configured(&self) -> &[StandardBalancer] {
        &self.balancers
    }

    /// Returns the load balancers that exist, each with its name without suffix.
    fn existing(&self) -> Vec<(&'static str, DocumentKey, Value)> {
        let all = self.keys().into_iter().map(|(kind, key)| {
            let document = self.documents.store().last(&key);
            (kind, key, document)
        });
        all.filter(|(.., document)| !document.is_null()).collect()
    }

    /// Decides about the load balancer of a Service; `None` if there is only one of a kind.
    pub(super) async fn place(
        &self,
        service: &Service,
        spec: &Spec,
        kind: &str,
    ) -> Result<Option<String>> {
        if self.configured().is_empty() {
            return Ok(None);
        }
        let owner = default_load_balancer_name(service);
        if !self.documents.store().knows(&self.keys()[0].1) {
            self.reads.join((), self.clone()).await?;
        }
        let existing = self.existing();
        let of_kind = || existing.iter().filter(|(its, ..)| *its == kind);
        let mut pinned = None;
        for family in &spec.families {
            let wanted = match (spec.is_internal, family.address) {
                (true, Some(ip)) => (FRONTEND[2].1, ip.to_string()),
                (true, None) => continue,
                (false, _) => match self.stated_address(spec, family).await? {
                    Some(address) => (FRONTEND[0].1, text(&address, "/id").to_owned()),
                    None => continue,
                },
            };
            let has = |object: &Value| {
                items(object, "frontendIPConfigurations")
                    .any(|object| text(object, wanted.0).eq_ignore_ascii_case(&wanted.1))
            };
            pinned = pinned.or_else(|| {
                of_kind()
                    .find(|(.., object)| has(object))
                    .map(|(_, key, _)| base_name(&key.name).to_owned())
            });
        }
        let seen = of_kind().find(|(.., object)| !Share::of(object, &owner).frontends.is_empty());
        let current = seen.map(|(_, key, _)| base_name(&key.name).to_owned());
        let current = current.or_else(|| self.placed.lock().services.get(&owner).cloned());
        let labels: StringMap = service.metadata.labels.iter().flatten().collect();
        let namespace = self.namespace_labels(service).await?;
        let fit = eligible(
            self.configured(),
            &spec.balancers,
            &labels,
            &namespace,
            current.as_deref(),
        );
        let fit = fit.map_err(Error::invalid)?;
        let may = |name: &str| {
            fit.iter()
                .find(|load_balancer| load_balancer.name.eq_ignore_ascii_case(name))
                .map(|load_balancer| load_balancer.name.clone())
        };
        let chosen = match (&pinned, current.as_deref().and_then(may)) {
            (Some(name), _) => may(name).ok_or_else(|| {
                Error::invalid(format!(
                    "load balancer {name} has the address of the Service, but may not serve it"
                ))
            })?,
            (None, Some(current)) => current,
            (None, None) => {
                let placed = self.placed.lock();
                let rules = |load_balancer: &&&StandardBalancer| {
                    let existing_group = of_kind().find(|(_, key, _)| {
                        base_name(&key.name).eq_ignore_ascii_case(&load_balancer.name)
                    });
                    let rules = existing_group.map_or(0, |(.., object)| {
                        items(object, "loadBalancingRules").count()
                    });
                    rules
                        + placed
                            .services
                            .values()
                            .filter(|name| **name == load_balancer.name)
                            .count()
                };
                fit.iter()
                    .min_by_key(rules)
                    .map(|load_balancer| load_balancer.name.clone())
                    .unwrap_or_default()
            }
        };
        if let Some((_, key, document)) =
            seen.filter(|(_, key, _)| !base_name(&key.name).eq_ignore_ascii_case(&chosen))
            && Share::of(document, &owner).is_shared(document, &owner)
        {
            return Err(Error::invalid(format!(
                "the Service cannot move from load balancer {} to {chosen}, because its frontend has rules of others",
                key.name
            )));
        }
        let mut placed = self.placed.lock();
        match seen {
            Some(_) => drop(placed.services.remove(&owner)),
            None => drop(placed.services.insert(owner, chosen.clone())),
        }
        Ok(Some(chosen))
    }

    async fn namespace_labels(&self, service: &Service) -> Result<StringMap> {
        if self
            .configured()
            .iter()
            .all(|load_balancer| load_balancer.service_namespace_selector.is_none())
        {
            return Ok(StringMap::default());
        }
        let name = service.metadata.namespace.as_deref().unwrap_or_default();
        let (status, namespace) = self
            .cluster_view
            .get(&format!("/api/v1/namespaces/{name}"))
            .await?;
        if !status.is_success() {
            return Err(Error::other(format!(
                "namespace {name} cannot be read for its labels: {status}"
            )));
        }
        let labels = namespace["metadata"]["labels"]
            .as_object()
            .into_iter()
            .flatten();
        Ok(labels
            .filter_map(|(key, value)| Some((key, value.as_str()?)))
            .collect())
    }

    /// Returns the Nodes in the pool of a Service, and the name of the pool if the Service has one alone: with local
    /// traffic, that of the Nodes with endpoints.
    pub(super) async fn members_of(
        &self,
        service: &Service,
        base: Option<&str>,
        nodes: Vec<Arc<Node>>,
    ) -> Result<(Vec<Arc<Node>>, Option<String>)> {
        let Some(base) = base else {
            return Ok((nodes, None));
        };
        self.placed.lock().nodes.clone_from(&nodes);
        if requests_only_local_traffic(service) {
            let with_endpoints = self.endpoint_nodes.of(service).await?;
            let has_endpoint = |node: &Arc<Node>| {
                with_endpoints
                    .as_ref()
                    .is_none_or(|names| names.contains(&*node.name))
            };
            return Ok((
                nodes.into_iter().filter(has_endpoint).collect(),
                Some(self.own_pool(service)),
            ));
        }
        let assigned = self
            .assigned(&nodes, Some((base, &default_load_balancer_name(service))))
            .await;
        let is_its_node = |node: &Arc<Node>| {
            assigned
                .get(&*node.name)
                .is_some_and(|name| name.eq_ignore_ascii_case(base))
        };
        Ok((nodes.into_iter().filter(is_its_node).collect(), None))
    }

    /// Assigns Nodes to the load balancers that exist: with the one that gets a Service, and without one that loses its
    /// last Service by that.
    async fn assigned(
        &self,
        nodes: &[Arc<Node>],
        moves: Option<(&str, &str)>,
    ) -> HashMap<String, String> {
        let existing = self.existing();
        let stays = |document: &Value, name: &str| match moves {
            Some((to, owner)) if !to.eq_ignore_ascii_case(name) => {
                let mut frontends = items(document, "frontendIPConfigurations");
                frontends.any(|frontend| prefix(text(frontend, "/name")) != Some(owner))
            }
            _ => true,
        };
        let names = existing
            .iter()
            .map(|(_, key, document)| (base_name(&key.name), document));
        let names = names
            .filter(|(name, document)| stays(document, name))
            .map(|(name, _)| name);
        let names = names.chain(moves.map(|(to, _)| to));
        let names_in_lower_case: BTreeSet<String> = names.map(str::to_lowercase).collect();
        let mut current = HashMap::new();
        for (_, key, document) in &existing {
            for is_ipv6 in [false, true] {
                let family = Family {
                    is_ipv6,
                    ..Family::default()
                };
                let current_members = members(document, &family.pool(self.cluster()));
                let here = nodes.iter().filter(|node| {
                    internal(node, is_ipv6)
                        .is_some_and(|ip| current_members.contains(&ip.to_string()))
                });
                current.extend(
                    here.map(|node| (node.name.to_string(), base_name(&key.name).to_owned())),
                );
            }
        }
        let known: Vec<_> = nodes.iter().map(compared).collect();
        let machines = self
            .machines
            .find_all(&known, false, Priority::Ordinary)
            .await;
        let set = |found: Result<Found<VirtualMachine>>| match found {
            Ok(Found::Present(machine)) => machine.set_name(),
            _ => Box::default(),
        };
        let nodes: Vec<_> = nodes
            .iter()
            .cloned()
            .zip(machines.into_iter().map(set))
            .collect();
        assign(self.configured(), &names_in_lower_case, &nodes, &current)
    }

    /// Moves Nodes between the pools of load balancers other than the one that was changed.
    pub(super) async fn balance(&self, changed: &DocumentKey) -> Result<()> {
        let nodes = self.placed.lock().nodes.clone();
        if self.configured().is_empty() || nodes.is_empty() {
            return Ok(());
        }
        let assigned = self.assigned(&nodes, None).await;
        for (_, key, document) in self
            .existing()
            .into_iter()
            .filter(|(_, key, _)| key != changed)
        {
            let base = base_name(&key.name).to_lowercase();
            let own_nodes: Vec<_> = nodes
                .iter()
                .filter(|node| assigned.get(&*node.name) == Some(&base))
                .collect();
            for is_ipv6 in [false, true] {
                let pool = Family {
                    is_ipv6,
                    ..Family::default()
                }
                .pool(self.cluster());
                let has_pool =
                    items(&document, "backendAddressPools").any(|backend_address_pool| {
                        text(backend_address_pool, "/name").eq_ignore_ascii_case(&pool)
                    });
                let named = own_nodes.iter().filter_map(|node| {
                    Some((node.name.to_string(), internal(node, is_ipv6)?.to_string()))
                });
                let wanted: Vec<(String, String)> = named.collect();
                let ips: Targets = wanted.iter().map(|(_, ip)| ip).collect();
                let current_members = members(&document, &pool);
                if has_pool && current_members != ips {
                    let leave = current_members.without(&ips);
                    let vnet = self.config().vnet_id();
                    let edit = move |document: &mut Value| {
                        set_members(document, &pool, (&wanted, &leave), vnet.as_deref());
                        Ok(())
                    };
                    self.documents.edit(&key, edit).await?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn configured() -> Vec<StandardBalancer> {
        serde_json::from_value(json!([
            {"name": "kubernetes", "primaryVMSet": "one"},
            {"name": "Second", "primaryVMSet": "two", "nodeSelector": {"matchLabels": {"tier": "edge"}}},
            {"name": "third", "primaryVMSet": "three", "allowServicePlacement": false},
            {"name": "fourth", "primaryVMSet": "four", "serviceLabelSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}},
        ]))
        .unwrap()
    }

    #[test]
    fn service_is_served_by_what_it_names_and_what_selects_it() {
        let all = configured();
        let names = |stated: &[&str], labels: &[(&str, &str)], current| {
            let (stated, labels): (Vec<String>, StringMap) = (
                stated.iter().map(|text| (*text).to_owned()).collect(),
                labels.iter().copied().collect(),
            );
            let found = eligible(&all, &stated, &labels, &StringMap::default(), current);
            found.map(|entry| {
                entry
                    .iter()
                    .map(|load_balancer| load_balancer.name.clone())
                    .collect::<Vec<_>>()
                    .join(" ")
            })
        };
        assert_eq!(names(&[], &[], None).unwrap(), "kubernetes Second");
        assert_eq!(
            names(&[], &[], Some("third")).unwrap(),
            "kubernetes Second third"
        );
        assert_eq!(names(&[], &[("app", "web")], None).unwrap(), "fourth");
        assert_eq!(
            names(&["second"], &[("app", "web")], None).unwrap(),
            "Second"
        );
        assert!(
            names(&["fifth"], &[], None)
                .unwrap_err()
                .contains("configured are kubernetes, Second")
        );
        assert!(
            names(&["third"], &[], None)
                .unwrap_err()
                .contains("allowServicePlacement")
        );
    }

    #[test]
    fn node_is_where_its_set_or_its_labels_or_the_fewest_nodes_are() {
        let node = |name: &str, set: &str, labels: &[(&str, &str)]| {
            let labels = labels.iter().copied().collect();
            (
                Arc::new(Node {
                    name: name.into(),
                    labels,
                    ..Node::default()
                }),
                set.into(),
            )
        };
        let nodes = [
            node("a", "two", &[]),
            node("b", "other", &[("tier", "edge")]),
            node("c", "other", &[]),
            node("d", "other", &[]),
            node("e", "four", &[]),
        ];
        let pools_named = |names: &[&str]| {
            names
                .iter()
                .map(|name| (*name).to_owned())
                .collect::<BTreeSet<_>>()
        };
        let current = HashMap::from([("d".to_owned(), "third".to_owned())]);
        let found = assign(
            &configured(),
            &pools_named(&["kubernetes", "second", "third"]),
            &nodes,
            &current,
        );
        let at = |name: &str| found.get(name).map_or("", String::as_str);
        assert_eq!(
            ["a", "b", "c", "d", "e"].map(at),
            ["second", "second", "kubernetes", "third", "kubernetes"]
        );
    }
}
