//! The worker firewall: it admits traffic to the ports of Services.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use cloud_provider::{Caches, Error, EventSubject, Result, Service};
use provider_kit::annotations::Annotations;
use provider_kit::events::EventDeduplicator;
use provider_kit::load_balancers::each_port;
use provider_kit::source_ranges::configured_source_ranges;
use provider_kit::transport::Call;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep, timeout};

use crate::annotations::{FIREWALL_MANAGED, NETWORK, Network, TYPE};
use crate::api::Api;
use crate::config::{FirewallConfig, LoadBalancerType};
use crate::load_balancers::requested::id_of;
use crate::load_balancers::spec::check_port;
use crate::metrics::FirewallMetrics;

/// Interval at which Services are read, and at which the firewall is compared although no Service has changed.
const POLL: Duration = Duration::from_secs(2);
const PERIOD: Duration = Duration::from_secs(5 * 60);
/// Time-out of a comparison, and the first pause after a failed one.
const LONGEST: Duration = Duration::from_secs(30);
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const ANYWHERE: [&str; 2] = ["0.0.0.0/0", "::/0"];

/// A firewall, as the API reads and writes it. Its droplets are those of its tags.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Firewall {
    #[serde(default, skip_serializing)]
    id: String,
    name: String,
    #[serde(default, deserialize_with = "or_none")]
    droplet_ids: BTreeSet<u64>,
    #[serde(default, deserialize_with = "or_none")]
    tags: BTreeSet<String>,
    #[serde(default, deserialize_with = "or_none")]
    inbound_rules: BTreeSet<Rule>,
    #[serde(default, deserialize_with = "or_none")]
    outbound_rules: BTreeSet<Rule>,
}

/// A rule: an inbound one has sources, an outbound one destinations.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
struct Rule {
    protocol: String,
    #[serde(default, deserialize_with = "ports")]
    ports: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    sources: Option<Peers>,
    #[serde(skip_serializing_if = "Option::is_none")]
    destinations: Option<Peers>,
}

/// Peers of a rule: the addresses that it admits.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
struct Peers {
    #[serde(
        default,
        deserialize_with = "or_none",
        skip_serializing_if = "BTreeSet::is_empty"
    )]
    addresses: BTreeSet<String>,
    #[serde(
        default,
        deserialize_with = "or_none",
        skip_serializing_if = "BTreeSet::is_empty"
    )]
    load_balancer_uids: BTreeSet<String>,
}

fn or_none<'de, D: serde::Deserializer<'de>, T: Default + Deserialize<'de>>(
    from: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// Reads ports: the API accepts all ports as `all`, and shows them as `0` or omits them.
fn ports<'de, D: serde::Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let ports: String = or_none(from)?;
    Ok(if ports.is_empty() || ports == "0" {
        "all".to_owned()
    } else {
        ports
    })
}

impl Peers {
    fn anywhere() -> Self {
        Self {
            addresses: ANYWHERE.map(str::to_owned).into(),
            ..Self::default()
        }
    }
}

/// Admitted clients by protocol and port.
type Rules = BTreeMap<(&'static str, u16), Peers>;

fn admit(rules: &mut Rules, protocol: &'static str, port: u16, peers: Peers) {
    let rule = rules.entry((protocol, port)).or_default();
    rule.addresses.extend(peers.addresses);
    rule.load_balancer_uids.extend(peers.load_balancer_uids);
}

/// Adds the rules that a Service needs. `is_passing`: its load balancer passes packets on, whatever its annotations want.
///
/// # Errors
/// *Invalid*, with the mistake in the Service; then no rules are added for it.
fn admit_service(
    rules: &mut Rules,
    service: &Service,
    default: LoadBalancerType,
    is_passing: bool,
) -> Result<()> {
    let kind = service
        .spec
        .as_ref()
        .and_then(|spec| spec.type_.as_deref())
        .unwrap_or_default();
    let mut annotations = Annotations::of(service);
    let is_managed = annotations.get(&FIREWALL_MANAGED) != Some(false);
    let of = annotations.get(&TYPE).unwrap_or(default);
    let network = annotations.get(&NETWORK).unwrap_or_default();
    if !is_managed || service.metadata.deletion_timestamp.is_some() {
        return Ok(());
    }
    let ports = each_port(service, &["TCP", "UDP"]).filter_map(Result::ok);
    let ports = ports.map(|port| (if port.protocol == "UDP" { "udp" } else { "tcp" }, port));
    match kind {
        "NodePort" => {
            for (protocol, port) in ports.filter(|(_, port)| port.node_port != 0) {
                admit(rules, protocol, port.node_port, Peers::anywhere());
            }
        }
        "LoadBalancer" => {
            annotations.finish()?;
            let wants = of == LoadBalancerType::RegionalNetwork && network == Network::External;
            if !wants && !is_passing {
                return Ok(());
            }
            let stated: BTreeSet<String> = configured_source_ranges(service)?
                .iter()
                .map(ToString::to_string)
                .collect();
            let clients = if stated.is_empty() {
                Peers::anywhere()
            } else {
                Peers {
                    addresses: stated,
                    ..Peers::default()
                }
            };
            for (protocol, port) in ports {
                admit(rules, protocol, port.number, clients.clone());
            }
            let checker = id_of(service).map(|id| Peers {
                load_balancer_uids: [id].into(),
                ..Peers::default()
            });
            admit(
                rules,
                "tcp",
                check_port(service),
                checker.unwrap_or_else(Peers::anywhere),
            );
        }
        _ => {}
    }
    Ok(())
}

/// A background task that keeps the rules of the firewall up to date with the Services.
pub(crate) struct WorkerFirewall {
    pub(crate) api: Api,
    pub(crate) config: FirewallConfig,
    pub(crate) default: LoadBalancerType,
    pub(crate) metrics: FirewallMetrics,
    pub(crate) deduplicator: EventDeduplicator,
}

impl WorkerFirewall {
    /// Reconciles the firewall when a Service has changed, and every five minutes. Never returns.
    pub(crate) async fn run(self, caches: Arc<dyn Caches>) {
        let mut known = None::<(Firewall, Instant)>;
        let mut id = None;
        let mut pause = FIRST_PAUSE;
        loop {
            let desired = self.desired(&caches.services());
            if known
                .as_ref()
                .is_some_and(|(firewall, at)| *firewall == desired && at.elapsed() < PERIOD)
            {
                sleep(POLL).await;
                continue;
            }
            let began = Instant::now();
            let outcome = timeout(LONGEST, self.reconcile(&desired, &mut id)).await;
            let (result, error_type) = match &outcome {
                Ok(Ok(true)) => ("reconciled", ""),
                Ok(Ok(false)) => ("skipped", ""),
                Ok(Err(_)) => ("failed", "generic"),
                Err(_) => ("failed", "timeout"),
            };
            self.metrics.reconciled(result, error_type, began.elapsed());
            self.metrics.synced(
                if result == "failed" {
                    "failed"
                } else {
                    "updated"
                },
                began.elapsed(),
            );
            match outcome.unwrap_or_else(|_| Err(Error::other("it took longer than 30s"))) {
                Ok(_) => (known, pause) = (Some((desired, Instant::now())), FIRST_PAUSE),
                Err(error) => {
                    tracing::warn!(%error, firewall = self.config.name, "the firewall is not as the Services need it");
                    sleep(pause).await;
                    pause = PERIOD.min(pause * 2);
                }
            }
        }
    }

    /// Returns the firewall that the Services need. An invalid Service is left out, and receives an event.
    pub(crate) fn desired(&self, services: &[Arc<Service>]) -> Firewall {
        let mut rules = Rules::new();
        for service in services {
            let is_passing = self.api.passing.has(service);
            if let Err(error) = admit_service(&mut rules, service, self.default, is_passing) {
                let text = format!("the worker firewall admits no traffic to it: {error}");
                self.deduplicator.warn(
                    true,
                    EventSubject::Service(service),
                    "FirewallConfigError",
                    &text,
                );
            }
        }
        let rule = |protocol: &str, ports, sources, destinations| Rule {
            protocol: protocol.to_owned(),
            ports,
            sources,
            destinations,
        };
        let inbound = rules
            .into_iter()
            .map(|((protocol, port), peers)| rule(protocol, port.to_string(), Some(peers), None));
        let outbound = ["tcp", "udp", "icmp"]
            .map(|text| rule(text, "all".to_owned(), None, Some(Peers::anywhere())));
        Firewall {
            name: self.config.name.clone(),
            tags: self.config.tags.iter().cloned().collect(),
            inbound_rules: inbound.collect(),
            outbound_rules: outbound.into(),
            ..Firewall::default()
        }
    }

    /// Creates or updates the firewall. Returns `true` if a change was needed.
    pub(crate) async fn reconcile(
        &self,
        desired: &Firewall,
        id: &mut Option<String>,
    ) -> Result<bool> {
        let current = self.current(id).await?;
        *id = current.as_ref().map(|firewall| firewall.id.clone());
        if current.as_ref().is_some_and(|firewall| {
            Firewall {
                id: String::new(),
                droplet_ids: BTreeSet::new(),
                ..firewall.clone()
            } == *desired
        }) {
            return Ok(false);
        }
        if let Some(current) = current {
            // Droplets that an operator added stay.
            let wanted = Firewall {
                droplet_ids: current.droplet_ids,
                ..desired.clone()
            };
            let call = Call::put("/v2/firewalls/{id}", &[&current.id])
                .json(&wanted)
                .inside("firewall");
            match self
                .metrics
                .request("update", "200", self.api.http.read::<Firewall>(call))
                .await
            {
                Err(error) if error.is_not_found() => {}
                answer => return answer.map(|_| true),
            }
        }
        let call = Call::post("/v2/firewalls", &[])
            .json(desired)
            .inside("firewall");
        let made = self
            .metrics
            .request("create", "202", self.api.http.read::<Firewall>(call))
            .await?;
        *id = Some(made.id);
        Ok(true)
    }

    async fn current(&self, id: &Option<String>) -> Result<Option<Firewall>> {
        if let Some(id) = id {
            let call = Call::get("/v2/firewalls/{id}", &[id]).inside("firewall");
            let found = self
                .metrics
                .request("get_by_id", "200", self.api.http.find::<Firewall>(call))
                .await?;
            if found.is_some() {
                return Ok(found);
            }
        }
        let all = self
            .api
            .all("/v2/firewalls", |firewall: &Firewall| firewall.id.clone());
        let all = self.metrics.request("get_by_list", "200", all).await?;
        Ok(all
            .into_iter()
            .find(|firewall| firewall.name == self.config.name))
    }
}
