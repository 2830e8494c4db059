//! Changes in the cloud during a step, as a few lines of text.

use std::collections::BTreeMap;

use cloud_provider::{Service, default_load_balancer_name};
use provider_simulated::cloud::CloudRoute;

use super::observed::{Balancer, Observed};

/// Maximum number of lines about load balancers, and of lines about routes.
const LINES: usize = 3;

/// The cluster's load balancers and routes in the cloud, by name, with their state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Inventory {
    balancers: BTreeMap<String, String>,
    routes: BTreeMap<String, String>,
}

impl Inventory {
    /// Returns the current load balancers and routes.
    pub(super) fn of(observed: &Observed) -> Self {
        let name = |service: &Service| service.metadata.name.clone().unwrap_or_default();
        let services = observed
            .services
            .iter()
            .map(|service| (default_load_balancer_name(service), name(service)));
        let services: BTreeMap<String, String> = services.collect();
        let balancer = |load_balancer: &Balancer| {
            let whose = services
                .get(&load_balancer.name)
                .map_or("nobody", String::as_str);
            (
                load_balancer.id.clone(),
                format!("of {whose}: {}", load_balancer.state()),
            )
        };
        let route = |route: &CloudRoute| {
            (
                format!("route {}", route.route.destination),
                leads_to(route),
            )
        };
        Self {
            balancers: observed.cloud.balancers.iter().map(balancer).collect(),
            routes: observed.cloud.routes.iter().map(route).collect(),
        }
    }

    /// Returns the objects that were created, changed or deleted since `before`.
    pub(super) fn changes_since(&self, before: &Self) -> Vec<String> {
        [
            changes(&before.balancers, &self.balancers),
            changes(&before.routes, &self.routes),
        ]
        .concat()
    }
}

fn changes(before: &BTreeMap<String, String>, now: &BTreeMap<String, String>) -> Vec<String> {
    let gone = before.iter().filter(|(what, _)| !now.contains_key(*what));
    let gone = gone.map(|(what, how)| format!("gone: {what} {how}"));
    let changed = now
        .iter()
        .filter(|(what, how)| before.get(*what) != Some(how));
    let mut lines: Vec<String> = changed
        .map(|(what, how)| format!("{what} {how}"))
        .chain(gone)
        .collect();
    if lines.len() > LINES {
        let more = format!("… and {} more", lines.len() - LINES);
        lines.truncate(LINES);
        lines.push(more);
    }
    lines
}

/// Returns the target of a route.
pub(super) fn leads_to(route: &CloudRoute) -> String {
    let machine = if route.blackhole {
        "a machine that is gone"
    } else {
        &route.machine_name
    };
    format!("to {machine} ({})", route.route.next_hop.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inventory(balancers: &[(&str, &str)]) -> Inventory {
        let balancers = balancers
            .iter()
            .map(|(id, how)| ((*id).to_owned(), (*how).to_owned()))
            .collect();
        Inventory {
            balancers,
            ..Inventory::default()
        }
    }

    #[test]
    fn unchanged_load_balancers_are_no_change() {
        let before = inventory(&[
            ("lb-1", "with 5 targets"),
            ("lb-2", "with 5 targets"),
            ("lb-3", "with 5 targets"),
        ]);
        let after = inventory(&[("lb-1", "with 5 targets"), ("lb-2", "with 4 targets")]);
        assert_eq!(
            after.changes_since(&before),
            ["lb-2 with 4 targets", "gone: lb-3 with 5 targets"]
        );
        assert!(before.changes_since(&before).is_empty());
    }

    #[test]
    fn report_shows_three_of_many_changes() {
        let all: Vec<(String, String)> = (0..9)
            .map(|n| (format!("lb-{n}"), "new".to_owned()))
            .collect();
        let after = Inventory {
            balancers: all.into_iter().collect(),
            ..Inventory::default()
        };
        assert_eq!(
            after.changes_since(&Inventory::default()),
            ["lb-0 new", "lb-1 new", "lb-2 new", "… and 6 more"]
        );
    }
}
