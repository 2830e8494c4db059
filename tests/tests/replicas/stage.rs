//! The cluster, the cloud, and three replicas between them.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use ccm_tests::door::{Door, Waits};
use ccm_tests::machines::ServedCloud;
use ccm_tests::service_object::load_balancer;
use ccm_tests::wait::{until, until_every};
use k8s_openapi::api::core::v1::{Node, Service};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt};
use provider_simulated::cloud::{Cloud, NewMachine};
use serde_json::json;
use tempfile::TempDir;

use crate::environment::Environment;
use crate::kubelets::{self, Kubelets, OURS};
use crate::lease::{self, Held, TheLease};
use crate::replica::{Replica, WAITS};
use crate::role;

/// Time-out of work that needs no more than a few passes.
pub(crate) const SOON: Duration = Duration::from_secs(120);
/// Time-out of a graceful stop on a busy machine; the requirement is checked in the gaps.
pub(crate) const STOP: Duration = Duration::from_secs(60);
/// Default lease duration: the time for which no candidate may acquire the Lease after its last renewal.
const LEASE: Duration = Duration::from_secs(15);
/// Interval of the polls of the Lease while a gap is measured.
const LOOK: Duration = Duration::from_millis(20);
const REPLICAS: usize = 3;
/// Route of requests that create a load balancer.
pub(crate) const CREATE: &str = "POST /v1/load-balancers";
/// Number of Services in progress during work: as many as the replicas sync concurrently, with [`AMID`].
pub(crate) const UNDER_WAY: usize = 2;
pub(crate) const AMID: &[&str] = &["--concurrent-service-syncs=2"];

pub(crate) struct Stage {
    pub(crate) client: Client,
    pub(crate) lease: TheLease,
    pub(crate) replicas: Vec<Replica>,
    served: ServedCloud,
    kubelets: Kubelets,
    arguments: Vec<String>,
    binary: PathBuf,
    directory: TempDir,
    label: String,
    starts: usize,
    made: usize,
}

/// Permissions of the replicas.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Identity {
    /// Permissions of an administrator.
    Admin,
    /// Permissions of an administrator, except to watch Leases.
    NoWatchOfLeases,
}

/// Plays a scenario with three replicas, one of which leads.
pub(crate) async fn play(
    environment: &Environment,
    label: &str,
    identity: Identity,
    flags: &[&str],
    body: impl AsyncFnOnce(&mut Stage) -> Result<()>,
) -> Result<()> {
    let mut stage = Stage::set(environment, label, identity, flags).await?;
    let played = match stage.leader().await {
        Ok(_) => body(&mut stage).await,
        Err(error) => Err(error),
    };
    let played = match played {
        Ok(()) => stage.converges().await,
        Err(error) => Err(error),
    };
    let played = played.map_err(|error| anyhow!("{error:#}\n\n{}", stage.last_lines()));
    stage.replicas.clear();
    let cleaned = clean_up(&stage.client).await.context("cleaning up");
    played.and(cleaned)
}

async fn connect(path: &PathBuf) -> Result<Client> {
    let mut config =
        Config::from_custom_kubeconfig(Kubeconfig::read_from(path)?, &KubeConfigOptions::default())
            .await?;
    config.default_retry = false;
    Ok(Client::try_from(config)?)
}

/// Removes whatever these tests left in the cluster.
async fn clean_up(client: &Client) -> Result<()> {
    let services: Api<Service> = Api::default_namespaced(client.clone());
    for service in services
        .list_metadata(&ListParams::default().labels(OURS))
        .await?
    {
        let name = service.name_any();
        let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        // Objects that were deleted meanwhile are skipped.
        _ = services.delete(&name, &DeleteParams::background()).await;
        _ = services
            .patch_metadata(&name, &PatchParams::default(), &free)
            .await;
    }
    TheLease::of(client).delete().await?;
    kubelets::clean_up(client).await
}

impl Stage {
    async fn set(
        environment: &Environment,
        label: &str,
        identity: Identity,
        flags: &[&str],
    ) -> Result<Self> {
        let client = connect(environment.kubeconfig()?).await?;
        clean_up(&client)
            .await
            .context("removing what an earlier run left behind")?;
        let directory = TempDir::with_prefix("ccm-replicas-")?;
        let served = ServedCloud::start(directory.path()).await?;
        let kubeconfig = match identity {
            Identity::Admin => environment.kubeconfig()?.clone(),
            Identity::NoWatchOfLeases => {
                role::without_watch(&client, environment.kubeconfig()?, directory.path()).await?
            }
        };
        let own = [
            "--cloud-provider=simulated".to_owned(),
            format!("--cloud-config={}", served.config().display()),
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--leader-elect-resource-name={}", lease::NAME),
            "--secure-port=0".to_owned(),
            "--node-monitor-period=500ms".to_owned(),
            "--configure-cloud-routes=false".to_owned(),
        ];
        let arguments = own
            .into_iter()
            .chain(flags.iter().map(|flag| (*flag).to_owned()))
            .collect();
        let mut stage = Self {
            kubelets: Kubelets::start(&client),
            lease: TheLease::of(&client),
            client,
            replicas: Vec::new(),
            served,
            arguments,
            binary: environment.binary()?.clone(),
            directory,
            label: format!("e2e-{}-{label}", std::process::id()),
            starts: 0,
            made: 0,
        };
        for _ in 0..REPLICAS {
            stage.add()?;
        }
        Ok(stage)
    }

    /// Starts a further replica, as a kubelet restarts a container.
    pub(crate) fn add(&mut self) -> Result<()> {
        self.starts += 1;
        let log = self.directory.path().join(format!("log-{}", self.starts));
        self.replicas
            .push(Replica::start(&self.binary, &self.arguments, &log)?);
        Ok(())
    }

    /// Waits until a replica leads, and returns its index and identity.
    pub(crate) async fn leader(&self) -> Result<(usize, String)> {
        until("one of the replicas leads", SOON, async || {
            self.leads_now().await
        })
        .await
    }

    async fn leads_now(&self) -> Result<(usize, String)> {
        let holder = self.held().await?.by;
        let index = self.replicas.iter().position(|replica| replica.is(&holder));
        Ok((
            index.with_context(|| format!("{holder} is none of the replicas"))?,
            holder,
        ))
    }

    /// Returns the holder of the Lease.
    pub(crate) async fn held(&self) -> Result<Held> {
        self.lease.held().await?.context("nobody holds the lease")
    }

    /// Takes the leader out of the replicas, does something to it, and measures how long it takes until another leads.
    pub(crate) async fn gap_after(
        &mut self,
        event: impl AsyncFnOnce(&mut Replica) -> Result<()>,
    ) -> Result<(Duration, Replica)> {
        let (gap, _, old) = self.followed(event).await?;
        Ok((gap, old))
    }

    /// Measures the gap if the leader cannot release the Lease: no candidate acquires it before it has expired.
    pub(crate) async fn gap_of_expiry(
        &mut self,
        event: impl AsyncFnOnce(&mut Replica) -> Result<()>,
    ) -> Result<(Duration, Replica)> {
        let (gap, unrenewed, old) = self.followed(event).await?;
        ensure!(
            unrenewed >= LEASE,
            "another took the lease {unrenewed:?} after its last renewal, it lasts {LEASE:?}"
        );
        Ok((gap, old))
    }

    /// Returns the time from the event until another replica leads, the time from the last renewal until it acquired
    /// the Lease, and the old leader.
    async fn followed(
        &mut self,
        event: impl AsyncFnOnce(&mut Replica) -> Result<()>,
    ) -> Result<(Duration, Duration, Replica)> {
        let (index, before) = self.leader().await?;
        let mut old = self.replicas.remove(index);
        // All the others are up and wait.
        for replica in &self.replicas {
            until("the others stand for election", SOON, async || {
                ensure!(replica.controller.log().contains(WAITS), "not yet");
                Ok(())
            })
            .await?;
        }
        let mut renewed = self.held().await?.renewed;
        let start = Instant::now();
        event(&mut old).await?;
        let next = until_every(LOOK, "another replica leads", SOON, async || {
            let held = self.held().await?;
            if held.by == before {
                renewed = held.renewed;
            }
            ensure!(held.by != before, "the old leader holds it still");
            Ok(held)
        })
        .await?;
        Ok((
            start.elapsed(),
            next.since.duration_since(renewed).unsigned_abs(),
            old,
        ))
    }

    pub(crate) fn cloud(&self) -> &Cloud {
        &self.served.cloud
    }

    /// Returns the barrier in front of the cloud.
    pub(crate) fn door(&self) -> &Door {
        &self.served.door
    }

    /// Returns the number of requests to the cloud that asked for a change.
    pub(crate) fn changes(&self) -> u64 {
        self.served.changes().values().sum()
    }

    /// Nodes whose machines run.
    pub(crate) async fn nodes(&mut self, count: usize) -> Result<Vec<String>> {
        let names = self.names("node", count);
        for name in &names {
            self.cloud().add_machine(NewMachine {
                name: name.clone(),
                ..NewMachine::default()
            });
        }
        self.kubelets.register(&names, true).await?;
        Ok(names)
    }

    /// Services that want a load balancer.
    pub(crate) async fn services(&mut self, count: usize) -> Result<Vec<String>> {
        let names = self.names("lb", count);
        let api: Api<Service> = Api::default_namespaced(self.client.clone());
        for name in &names {
            let mut object = load_balancer(name, &[80]);
            object["metadata"]["labels"][OURS] = json!("true");
            let service = serde_json::from_value(object)?;
            api.create(&PostParams::default(), &service)
                .await
                .with_context(|| format!("creating {name}"))?;
        }
        Ok(names)
    }

    /// Creates Services, [`UNDER_WAY`] of which stay in progress: the load balancers were requested, and the responses
    /// wait until the barrier is opened. For replicas with [`AMID`].
    pub(crate) async fn amid_work(&mut self, services: usize, what: Waits) -> Result<()> {
        self.door().hold(what, CREATE, 0);
        self.services(services).await?;
        until("the work is in its middle", SOON, async || {
            let waiting = self.door().waiting();
            ensure!(
                waiting == UNDER_WAY,
                "{waiting} load balancers were asked for"
            );
            Ok(())
        })
        .await
    }

    fn names(&mut self, kind: &str, count: usize) -> Vec<String> {
        let first = self.made + 1;
        self.made += count;
        (first..=self.made)
            .map(|number| format!("{}-{kind}-{number}", self.label))
            .collect()
    }

    /// Checks that new work is done.
    pub(crate) async fn work_goes_on(&mut self) -> Result<()> {
        self.nodes(1).await?;
        self.services(1).await?;
        self.converges().await
    }

    /// Waits until cloud and cluster agree: each Node has the identity of its machine, each Service has its one load
    /// balancer, whose address it shows and whose targets are all Nodes, and the cloud has no other objects. Then no
    /// replica has work.
    pub(crate) async fn converges(&self) -> Result<()> {
        until("cloud and cluster agree", SOON, async || self.agree().await).await
    }

    async fn agree(&self) -> Result<()> {
        let ours = ListParams::default().labels(OURS);
        let nodes: Api<Node> = Api::all(self.client.clone());
        let mut machines = BTreeSet::new();
        for node in nodes.list(&ours).await? {
            let id = node
                .spec
                .as_ref()
                .and_then(|spec| spec.provider_id.clone())
                .unwrap_or_default();
            let machine = self
                .cloud()
                .machine(&node.name_any())
                .context("a Node without a machine")?;
            ensure!(
                id == format!("simulated://{}", machine.id),
                "{} has the id {id:?}",
                node.name_any()
            );
            // The last of what is written of a new Node.
            let addresses = node
                .status
                .and_then(|status| status.addresses)
                .unwrap_or_default();
            let has_all = machine
                .addresses
                .iter()
                .all(|address| addresses.iter().any(|has| has.address == *address.address));
            ensure!(
                has_all,
                "{:?} has the addresses {addresses:?}",
                node.metadata.name
            );
            machines.insert(machine.id);
        }
        let services: Api<Service> = Api::default_namespaced(self.client.clone());
        let services = services.list(&ours).await?.items;
        let balancers = self.cloud().load_balancers();
        let names: BTreeSet<_> = balancers
            .iter()
            .map(|balancer| balancer.spec.name.clone())
            .collect();
        ensure!(
            balancers.len() == services.len() && names.len() == services.len(),
            "{} load balancers for {} Services",
            balancers.len(),
            services.len()
        );
        for balancer in balancers {
            let spec = balancer.spec;
            ensure!(
                spec.targets == machines,
                "{} leads to {:?}, not {machines:?}",
                spec.name,
                spec.targets
            );
        }
        for service in services {
            let status = service
                .status
                .as_ref()
                .and_then(|status| status.load_balancer.as_ref());
            let shown = status
                .and_then(|status| status.ingress.as_ref())
                .is_some_and(|ingress| !ingress.is_empty());
            ensure!(shown, "{} shows no address", service.name_any());
        }
        Ok(())
    }

    fn last_lines(&self) -> String {
        let tail = |(number, replica): (usize, &Replica)| {
            format!("replica {number}:\n{}\n", replica.controller.tail())
        };
        self.replicas.iter().enumerate().map(tail).collect()
    }

    /// Returns the versions of all objects of these tests: equal versions before and after mean that none was written.
    pub(crate) async fn versions(&self) -> Result<Vec<(String, Option<String>)>> {
        let ours = ListParams::default().labels(OURS);
        let (nodes, services): (Api<Node>, Api<Service>) = (
            Api::all(self.client.clone()),
            Api::default_namespaced(self.client.clone()),
        );
        let nodes = nodes
            .list_metadata(&ours)
            .await?
            .items
            .into_iter()
            .map(|entry| (entry.name_any(), entry.resource_version()));
        let services = services.list_metadata(&ours).await?.items;
        Ok(nodes
            .chain(
                services
                    .into_iter()
                    .map(|service| (service.name_any(), service.resource_version())),
            )
            .collect())
    }
}
