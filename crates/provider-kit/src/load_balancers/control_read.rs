//! Control reads: an empty answer about a load balancer is accepted only if the cloud still shows a machine of the
//! cluster to the same credential.
//!
//! A credential of another project or account finds no load balancer, and no error. Without a control read, the
//! finalizer would be removed while the load balancer stays, or a second load balancer would be created in the wrong
//! project.

use std::sync::Arc;

use cloud_provider::names::FINALIZER_LOAD_BALANCER;
use cloud_provider::{Caches, ConditionStatus, Error, Node, Result, Service};

use super::cache::LoadBalancerCache;
use super::machines::Machines;
use super::ownership::Identity;
use crate::coalescer::Coalescer;
use crate::status::shown;

/// The maximum number of machines that are read, one after the other, until one is found.
const MOST_READS: usize = 3;

/// Returns `true` if the Service may have a load balancer: its status shows one, or it has the finalizer. The finalizer
/// is set before the first write to the cloud, while the status may never have been written (INV-2).
fn may_have_one(service: &Service) -> bool {
    let finalizers = service.metadata.finalizers.as_deref().unwrap_or_default();
    finalizers
        .iter()
        .any(|finalizer| finalizer == FINALIZER_LOAD_BALANCER)
        || !shown(service).is_empty()
}

/// The result of a control read.
#[derive(Clone)]
enum ControlRead {
    /// The cloud shows a machine.
    Seen,
    /// The cluster has no machine to read.
    NoMachines,
    /// The cloud shows none of these machines.
    NoneSeen(Arc<str>),
}

/// Control reads that several callers share: one machine verifies all answers that came before it was read.
pub(super) struct ControlReads(Coalescer<(), Caller, ControlRead>);

/// The input of one caller.
type Caller = (LoadBalancerCache, Option<Arc<dyn Caches>>);

impl Default for ControlReads {
    fn default() -> Self {
        Self(Coalescer::new(|(), callers: Vec<Caller>| async move {
            let (cache, caches) = &callers[0];
            ask(
                cache.cloud().machines(),
                caches.as_deref().map(Caches::nodes).unwrap_or_default(),
            )
            .await
        }))
    }
}

impl ControlReads {
    /// Reads a machine of the cluster to verify that this Service has no load balancer. Returns `false` if no control
    /// read is needed or possible: for a Service that never had a load balancer, and for a cluster without machines.
    ///
    /// # Errors
    /// *Unauthorized* if none of the machines is found either.
    pub(super) async fn verify(
        &self,
        cache: &LoadBalancerCache,
        identity: &Identity<'_>,
        caches: Option<&Arc<dyn Caches>>,
    ) -> Result<bool> {
        if !may_have_one(identity.service) {
            return Ok(false);
        }
        // An earlier control read proves nothing: the credential may have become another project's since.
        match self.0.join((), (cache.clone(), caches.cloned())).await {
            Ok(ControlRead::Seen) => Ok(true),
            Ok(ControlRead::NoMachines) => Ok(false),
            Ok(ControlRead::NoneSeen(machines)) => Err(Error::unauthorized(format!(
                "load balancer {:?} of this Service is not found, but neither are the machines of {machines}, so the load balancer is not taken for deleted. Check that the credential is for this cluster's project or account",
                identity.name,
            ))),
            Err(error) => Err(error.context(format!(
                "cannot verify that load balancer {:?} no longer exists",
                identity.name
            ))),
        }
    }
}

/// Checks that the credential is for the account, project or environment of these Nodes: reads up to three of their
/// machines, until one is found. Call it before a request that another account would carry out: what it created there
/// would never be found again. Without a Node whose machine is one of this cloud, nothing is checked.
///
/// # Errors
/// *Unauthorized* if none of the machines exists; the text ends with `remedy`. The cloud's answer if a machine cannot be
/// read.
pub async fn check_account(
    machines: &dyn Machines,
    nodes: Vec<Arc<Node>>,
    remedy: &str,
) -> Result<()> {
    match ask(machines, nodes).await? {
        ControlRead::Seen | ControlRead::NoMachines => Ok(()),
        ControlRead::NoneSeen(names) => Err(Error::unauthorized(format!(
            "the credential shows none of the machines of {names}; {remedy}"
        ))),
    }
}

async fn ask(machines: &dyn Machines, mut nodes: Vec<Arc<Node>>) -> Result<ControlRead> {
    nodes.retain(|node| node.provider_id().is_some() && !node.terminating);
    nodes.sort_by_key(|node| (node.ready != ConditionStatus::True, node.name.clone()));
    let mut asked = Vec::new();
    let mut silent = Ok(());
    for node in &nodes {
        if asked.len() >= MOST_READS {
            break;
        }
        match machines.has(node).await {
            Ok(Some(true)) => return Ok(ControlRead::Seen),
            Ok(Some(false)) => asked.push(&*node.name),
            // The Node is no machine of this cloud (P-15).
            Ok(None) => {}
            Err(error) => {
                asked.push(&*node.name);
                // A refused read, such as a 400, is no mistake in the Service that the read is for.
                let is_invalid = error.is_invalid();
                silent = Err(if is_invalid {
                    error.context(format!("machine of Node {}", node.name))
                } else {
                    error
                });
            }
        }
    }
    silent?;
    let is_silent = asked.is_empty();
    Ok(if is_silent {
        ControlRead::NoMachines
    } else {
        ControlRead::NoneSeen(asked.join(", ").into())
    })
}

#[cfg(test)]
mod tests {
    use cloud_provider::async_trait;
    use parking_lot::Mutex;
    use serde_json::json;

    use super::super::Targets;
    use super::*;

    /// Machines by provider ID: `Some(false)` for one that the credential does not show. Records the reads.
    struct Known(fn(&str) -> Result<Option<bool>>, Mutex<Vec<String>>);

    #[async_trait]
    impl Machines for Known {
        async fn has(&self, node: &Node) -> Result<Option<bool>> {
            self.1.lock().push(node.provider_id.to_string());
            self.0(&node.provider_id)
        }

        async fn ids(&self) -> Result<Targets> {
            Ok(Targets::default())
        }
    }

    #[tokio::test]
    async fn account_is_that_of_the_nodes_if_one_of_three_machines_is_found() {
        let all = ["aaa://9", "acme://1", "acme://2", "acme://3", "acme://4"];
        let others: fn(&str) -> Result<Option<bool>> =
            |id| Ok(id.starts_with("acme").then_some(false));
        let down: fn(&str) -> Result<Option<bool>> = |_| Err(Error::unanswered("down"));
        let table: [(&[&str], _, _, _); 5] = [
            (
                &all,
                (|id| Ok(Some(id == "acme://2"))) as fn(&str) -> Result<Option<bool>>,
                3,
                None,
            ),
            (
                &all,
                others,
                4,
                Some(
                    "the credential shows none of the machines of acme://1, acme://2, acme://3; use another",
                ),
            ),
            (&all[..1], others, 1, None),
            (&all[1..2], down, 1, Some("down")),
            (&[], down, 0, None),
        ];
        for (ids, has, reads, text) in table {
            let node = |id: &&str| {
                Arc::new(Node {
                    name: (*id).into(),
                    provider_id: (*id).into(),
                    ..Node::default()
                })
            };
            let machines = Known(has, Mutex::default());
            let outcome =
                check_account(&machines, ids.iter().map(node).collect(), "use another").await;
            assert_eq!(machines.1.lock().len(), reads, "{ids:?}");
            assert_eq!(
                outcome.as_ref().err().map(ToString::to_string).as_deref(),
                text,
                "{ids:?}"
            );
            assert!(
                outcome.is_ok()
                    || outcome.is_err_and(|error| error.is_unauthorized() || error.is_unanswered())
            );
        }
    }

    #[tokio::test]
    async fn machine_that_the_cloud_refuses_to_show_counts_as_one_of_this_cloud() {
        let machines = Known(|_| Err(Error::invalid("answered 400")), Mutex::default());
        let node = Node {
            name: "n-1".into(),
            provider_id: "acme://1".into(),
            ..Node::default()
        };
        let error = check_account(&machines, vec![Arc::new(node)], "use another")
            .await
            .unwrap_err();
        assert!(
            !error.is_invalid() && error.to_string() == "machine of Node n-1: answered 400",
            "{error}"
        );
    }

    #[test]
    fn a_service_may_have_a_load_balancer_as_soon_as_it_has_the_finalizer() {
        let service = |value| serde_json::from_value::<Service>(value).unwrap();
        assert!(!may_have_one(&service(
            json!({"metadata": {"finalizers": ["example.com/other"]}})
        )));
        assert!(may_have_one(&service(
            json!({"metadata": {"finalizers": [FINALIZER_LOAD_BALANCER]}})
        )));
        assert!(may_have_one(&service(
            json!({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}})
        )));
    }
}
