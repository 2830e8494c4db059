//! Services and their load balancers, as the scenarios read them.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use ccm_tests::wait::until;
use cloud_provider::names::{CONDITION_LOAD_BALANCER_READY, FINALIZER_LOAD_BALANCER};
use k8s_openapi::api::core::v1::{Event, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;
use provider_simulated::cloud::{Listener, LoadBalancer};

use crate::cluster::{events, times};
use crate::scene::{SOON, Scene};

/// Returns the condition that explains a pending or failed Service.
pub(crate) fn condition(service: &Service) -> Option<&Condition> {
    let conditions = service.status.as_ref()?.conditions.as_ref()?;
    conditions
        .iter()
        .find(|condition| condition.type_ == CONDITION_LOAD_BALANCER_READY)
}

/// Returns the IPs in a Service's status.
pub(crate) fn addresses(service: &Service) -> Vec<&str> {
    let status = service
        .status
        .as_ref()
        .and_then(|status| status.load_balancer.as_ref());
    let ingress = status
        .and_then(|status| status.ingress.as_deref())
        .unwrap_or_default();
    ingress
        .iter()
        .filter_map(|ingress| ingress.ip.as_deref())
        .collect()
}

/// Returns `true` if the Service has this project's finalizer.
pub(crate) fn is_held(service: &Service) -> bool {
    service
        .finalizers()
        .iter()
        .any(|finalizer| finalizer == FINALIZER_LOAD_BALANCER)
}

/// Returns the listeners of a load balancer for this Service: its ports and node ports.
fn listeners(service: &Service) -> BTreeSet<Listener> {
    let ports = service
        .spec
        .as_ref()
        .and_then(|spec| spec.ports.as_deref())
        .unwrap_or_default();
    let number = |port: i32| u16::try_from(port).unwrap_or_default();
    let listener = |port: &k8s_openapi::api::core::v1::ServicePort| Listener {
        port: number(port.port),
        protocol: port.protocol.clone().unwrap_or_default(),
        target_port: number(port.node_port.unwrap_or_default()),
    };
    ports.iter().map(listener).collect()
}

/// Checks that a Service and its load balancer match.
fn check(service: &Service, balancer: &LoadBalancer, targets: &BTreeSet<String>) -> Result<()> {
    let spec = &balancer.spec;
    ensure!(
        is_held(service),
        "no finalizer of ours: {:?}",
        service.finalizers()
    );
    let wanted = listeners(service);
    ensure!(
        spec.listeners == wanted,
        "it listens on {:?} instead of {wanted:?}",
        spec.listeners
    );
    ensure!(
        spec.targets == *targets,
        "its targets are {:?} instead of {targets:?}",
        spec.targets
    );
    let said = addresses(service);
    ensure!(
        said == balancer.ip.as_deref().as_slice(),
        "the status says {said:?}, the cloud {:?}",
        balancer.ip
    );
    let told = condition(service).filter(|condition| condition.status != "True");
    ensure!(
        told.is_none(),
        "a Service that is well is said not to be: {told:?}"
    );
    Ok(())
}

impl Scene {
    /// Returns the load balancers with the owner tags of this Service.
    pub(crate) fn balancers_of(&self, service: &Service) -> Vec<LoadBalancer> {
        let uid = service.uid().unwrap_or_default();
        let mut all = self.cloud().load_balancers();
        all.retain(|balancer| balancer.spec.labels.values().any(|label| *label == uid));
        all
    }

    /// Waits until each Service has exactly one load balancer, which leads to the machines of these Nodes.
    pub(crate) async fn balanced(
        &self,
        services: &[String],
        nodes: &[String],
        limit: Duration,
    ) -> Result<()> {
        for name in services {
            until(&format!("{name} is balanced"), limit, async || {
                let service = self.services().get(name).await?;
                let machine = |node: &String| {
                    self.cloud()
                        .machine(node)
                        .map(|machine| machine.id)
                        .context("no machine")
                };
                let targets = nodes.iter().map(machine).collect::<Result<_>>()?;
                let balancers = self.balancers_of(&service);
                ensure!(
                    balancers.len() == 1,
                    "it has {} load balancers",
                    balancers.len()
                );
                check(&service, &balancers[0], &targets).with_context(|| {
                    format!(
                        "{name} with {:?}",
                        service.status.clone().unwrap_or_default()
                    )
                })
            })
            .await?;
        }
        Ok(())
    }

    /// Returns the only load balancer of a Service.
    pub(crate) async fn balancer(&self, service: &str) -> Result<LoadBalancer> {
        let mut balancers = self.balancers_of(&self.services().get(service).await?);
        ensure!(
            balancers.len() == 1,
            "{service} has {} load balancers",
            balancers.len()
        );
        balancers.pop().context("none")
    }

    /// Waits until these Services are deleted, and checks that the cloud has no object of theirs.
    pub(crate) async fn services_are_gone(
        &self,
        services: &[String],
        limit: Duration,
    ) -> Result<()> {
        for name in services {
            until(&format!("{name} is gone"), limit, async || {
                let service = self.services().get_opt(name).await?;
                ensure!(
                    service.is_none(),
                    "it is still there: {:?}",
                    service.map(|service| service.status)
                );
                Ok(())
            })
            .await?;
        }
        Ok(())
    }

    /// Checks the number of load balancers in the cloud.
    pub(crate) fn cloud_has(&self, count: usize) -> Result<()> {
        let all = self.cloud().load_balancers();
        ensure!(
            all.len() == count,
            "the cloud has {} load balancers instead of {count}: {all:?}",
            all.len()
        );
        Ok(())
    }

    /// Waits until a Service is as `check` wants it.
    pub(crate) async fn service_becomes(
        &self,
        name: &str,
        what: &str,
        check: impl Fn(&Service) -> bool,
    ) -> Result<Service> {
        until(&format!("{name}: {what}"), SOON, async || {
            let service = self.services().get(name).await?;
            ensure!(
                check(&service),
                "not yet: {:?} {:?}",
                service.metadata.finalizers,
                service.status
            );
            Ok(service)
        })
        .await
    }

    /// Waits for events with this reason about a Service, and returns them.
    pub(crate) async fn service_is_told(&self, name: &str, reason: &str) -> Result<Vec<Event>> {
        until(&format!("event {reason} about {name}"), SOON, async || {
            let said = events(&self.client, "Service", name, reason).await?;
            ensure!(!said.is_empty(), "there is none");
            Ok(said)
        })
        .await
    }

    /// Waits until each of these reasons was given once for the Service.
    pub(crate) async fn told_once(&self, name: &str, reasons: &[&str]) -> Result<()> {
        for reason in reasons {
            let said = times(&self.service_is_told(name, reason).await?);
            ensure!(said == 1, "{reason} was said of {name} {said} times");
        }
        Ok(())
    }
}
