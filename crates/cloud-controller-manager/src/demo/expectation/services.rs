//! Judgement of the expectations about Services and their load balancers.

use std::collections::BTreeSet;

use cloud_provider::names::FINALIZER_LOAD_BALANCER;
use cloud_provider::{LoadBalancerIngress, Service, default_load_balancer_name};

use super::super::observed::{Balancer, Observed, listed};
use super::routes::machine_id;
use super::{EXAMPLES, ExpectationVerdict};

/// Returns the expectation of [`balanced`] as text.
pub(super) fn expected(ports: &[(String, u16)]) -> String {
    let mut names: Vec<String> = ports
        .iter()
        .take(EXAMPLES)
        .map(|(name, port)| format!("{name} ({port})"))
        .collect();
    if ports.len() > EXAMPLES {
        names.push(format!("{} more", ports.len() - EXAMPLES));
    }
    let whose = if names.is_empty() {
        "no load balancer".to_owned()
    } else {
        format!("one each for {}", names.join(", "))
    };
    format!(
        "{whose}, with address, finalizer and every Node as target, and nothing else in the cloud"
    )
}

/// Judges whether these Services, and no others, have a load balancer in the expected state.
pub(super) fn balanced(now: &Observed, ports: &[(String, u16)]) -> ExpectationVerdict {
    let targets: BTreeSet<&str> = now
        .nodes
        .iter()
        .filter_map(|node| machine_id(node))
        .collect();
    let mut done = 0;
    let mut other = None;
    for (name, port) in ports {
        match problem(now, name, *port, &targets) {
            None => done += 1,
            Some(problem) => _ = other.get_or_insert(problem),
        }
    }
    let others = now
        .services
        .iter()
        .filter(|service| !ports.iter().any(|(name, _)| name == name_of(service)));
    if let Some(left) = others.filter_map(|service| leftover(service)).next() {
        other.get_or_insert(left);
    }
    let names: BTreeSet<String> = ports
        .iter()
        .filter_map(|(name, _)| now.service(name))
        .map(|service| default_load_balancer_name(service))
        .collect();
    if let Some(stray) = now
        .cloud
        .balancers
        .iter()
        .find(|balancer| !names.contains(&balancer.name))
    {
        other.get_or_insert(format!(
            "the cloud has {} {} too many",
            stray.id, stray.name
        ));
    }
    let Some(other) = other else {
        return ExpectationVerdict::Happened(Vec::new());
    };
    let has = now.cloud.balancers.len();
    let seen = format!(
        "{done} of {} Services are so, {has} load balancers in the cloud; {other}",
        ports.len()
    );
    ExpectationVerdict::Waiting {
        done,
        of: ports.len(),
        seen,
    }
}

/// Returns the problem of a Service's load balancer, if there is one.
fn problem(now: &Observed, name: &str, port: u16, targets: &BTreeSet<&str>) -> Option<String> {
    let Some(service) = now.service(name) else {
        return Some(format!("no Service {name}"));
    };
    let balancers = now.balancers(service);
    let balancer = match balancers.as_slice() {
        [one] => *one,
        [] => return Some(format!("{name} has no load balancer")),
        several => return Some(format!("{name} has {} load balancers", several.len())),
    };
    let wanted: BTreeSet<(u16, String, u16)> =
        [(port, "TCP".to_owned(), node_port(service))].into();
    if balancer.pending || balancer.listeners != wanted {
        return Some(format!(
            "{name} has {}, wanted {}",
            describe(balancer),
            listed(&wanted)
        ));
    }
    if !balancer
        .targets
        .iter()
        .map(String::as_str)
        .eq(targets.iter().copied())
    {
        return Some(format!(
            "{name} has {} targets of {} Nodes",
            balancer.targets.len(),
            targets.len()
        ));
    }
    if !has_finalizer(service) {
        return Some(format!("{name} has no finalizer"));
    }
    let addresses: Vec<&str> = addresses(service).collect();
    let same = !addresses.is_empty()
        && balancer
            .ip
            .as_deref()
            .into_iter()
            .eq(addresses.iter().copied());
    let cloud = balancer.ip.as_deref().unwrap_or("no address");
    (!same).then(|| format!("{name} says {addresses:?}, the cloud {cloud:?}"))
}

/// Returns the finalizer or address that a Service without a load balancer still has.
fn leftover(service: &Service) -> Option<String> {
    let name = name_of(service);
    if has_finalizer(service) {
        return Some(format!("{name} still has the finalizer"));
    }
    let address = addresses(service).next()?;
    Some(format!("{name} still says {address}"))
}

/// Judges whether a Service no longer exists.
pub(super) fn gone(now: &Observed, name: &str) -> ExpectationVerdict {
    match now.service(name) {
        None => ExpectationVerdict::Happened(vec![format!("no Service {name}")]),
        Some(service) => ExpectationVerdict::Waiting {
            done: 0,
            of: 1,
            seen: state(now, service),
        },
    }
}

/// Judges whether the work on a Service was interrupted: see `Expectation::Interrupted`.
pub(super) fn interrupted(
    now: &Observed,
    name: &str,
    deleting: bool,
    in_cloud: bool,
) -> ExpectationVerdict {
    let Some(service) = now.service(name) else {
        return ExpectationVerdict::Broken(format!("no Service {name}"));
    };
    let so = has_finalizer(service)
        && service.metadata.deletion_timestamp.is_some() == deleting
        && now.balancers(service).len() == usize::from(in_cloud)
        && (deleting || addresses(service).next().is_none());
    if so {
        return ExpectationVerdict::Happened(vec![state(now, service)]);
    }
    ExpectationVerdict::Waiting {
        done: 0,
        of: 1,
        seen: state(now, service),
    }
}

fn state(now: &Observed, service: &Service) -> String {
    let deleting = if service.metadata.deletion_timestamp.is_some() {
        "being deleted, "
    } else {
        ""
    };
    let finalizer = if has_finalizer(service) {
        "with"
    } else {
        "without"
    };
    let balancers: Vec<String> = now.balancers(service).into_iter().map(describe).collect();
    let balancers = if balancers.is_empty() {
        "nothing".to_owned()
    } else {
        balancers.join(" and ")
    };
    format!(
        "Service {}: {deleting}{finalizer} finalizer; in the cloud: {balancers}",
        name_of(service)
    )
}

fn describe(balancer: &Balancer) -> String {
    format!("{} at {}", balancer.id, balancer.state())
}

fn name_of(service: &Service) -> &str {
    service.metadata.name.as_deref().unwrap_or_default()
}

fn has_finalizer(service: &Service) -> bool {
    service
        .metadata
        .finalizers
        .iter()
        .flatten()
        .any(|finalizer| finalizer == FINALIZER_LOAD_BALANCER)
}

fn addresses(service: &Service) -> impl Iterator<Item = &str> {
    let status = service
        .status
        .as_ref()
        .and_then(|status| status.load_balancer.as_ref());
    let ingress: &[LoadBalancerIngress] = status
        .and_then(|status| status.ingress.as_deref())
        .unwrap_or_default();
    ingress.iter().filter_map(|ingress| ingress.ip.as_deref())
}

/// Returns the node port of a Service. The demo's Services have one port.
fn node_port(service: &Service) -> u16 {
    let port = service
        .spec
        .as_ref()
        .and_then(|spec| spec.ports.as_ref())
        .and_then(|ports| ports.first());
    port.and_then(|port| port.node_port)
        .and_then(|port| u16::try_from(port).ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests;
