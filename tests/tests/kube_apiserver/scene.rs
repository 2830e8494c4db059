//! Harness of the scenarios: a cloud, kubelets, the binary, and access to the cluster.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use ccm_tests::api_requests::ApiRequest;
use ccm_tests::controller::Controller;
use ccm_tests::door::Door;
use ccm_tests::machines::ServedCloud;
use ccm_tests::recording_proxy::RecordingProxy;
use ccm_tests::wait::until;
use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use provider_simulated::cloud::{Cloud, NewMachine};
use tempfile::TempDir;

use crate::cluster::{check_initialised, connect, events, is_shut_down};
use crate::environment::Environment;
use crate::kubelets::{self, Kubelets};
use crate::users;

/// Time-out of work that needs no more than a few passes.
pub(crate) const SOON: Duration = Duration::from_secs(120);
/// Time-out after an outage: the pauses of the watch grow to half a minute, and the back-off of failed work with the
/// duration of the outage.
pub(crate) const AFTER_AN_OUTAGE: Duration = Duration::from_secs(300);
/// Time-out of a graceful stop.
const STOP: Duration = Duration::from_secs(60);
/// Number of requests to the cloud in a few passes.
const PASSES: u64 = 4;

/// Flags of every scenario: short intervals, no routes, no election and no endpoints, which have tests of their own. A
/// scenario's own flags follow and override them.
const COMMON: [&str; 5] = [
    "--node-monitor-period=250ms",
    "--node-status-update-frequency=1s",
    "--configure-cloud-routes=false",
    "--leader-elect=false",
    "--secure-port=0",
];

/// A stage with everything on it.
pub(crate) struct Scene {
    pub(crate) client: Client,
    pub(crate) kubelets: Kubelets,
    pub(crate) controller: Controller,
    served: ServedCloud,
    proxy: RecordingProxy,
    label: String,
    launch: Launch,
}

/// Command of the binary, for restarts.
struct Launch {
    binary: PathBuf,
    arguments: Vec<String>,
    directory: TempDir,
    starts: u32,
}

impl Launch {
    fn start(&mut self) -> Result<Controller> {
        self.starts += 1;
        let log = self.directory.path().join(format!("log-{}", self.starts));
        Controller::start(&self.binary, self.arguments.iter().map(Into::into), &log)
    }
}

/// Runs a scenario with further flags of the binary, which sends its requests directly to the API server.
pub(crate) async fn play(
    environment: &Environment,
    label: &str,
    flags: &[&str],
    body: impl AsyncFnOnce(&mut Scene) -> Result<()>,
) -> Result<()> {
    play_with(environment, label, flags, false, body).await
}

/// Runs a scenario in which the binary's requests are counted: they go through a proxy.
pub(crate) async fn play_counted(
    environment: &Environment,
    label: &str,
    flags: &[&str],
    body: impl AsyncFnOnce(&mut Scene) -> Result<()>,
) -> Result<()> {
    play_with(environment, label, flags, true, body).await
}

async fn play_with(
    environment: &Environment,
    label: &str,
    flags: &[&str],
    counted: bool,
    body: impl AsyncFnOnce(&mut Scene) -> Result<()>,
) -> Result<()> {
    let mut scene = Scene::set(environment, label, flags, counted).await?;
    let played = body(&mut scene).await;
    let ended = match played {
        Ok(()) => scene.end().await,
        Err(error) => Err(error),
    };
    let ended = ended.map_err(|error| {
        anyhow!(
            "{error:#}\n\nthe binary's last lines:\n{}",
            scene.controller.tail()
        )
    });
    let Scene {
        client,
        kubelets,
        controller,
        ..
    } = scene;
    drop((kubelets, controller));
    let cleaned = clean_up(&client).await.context("cleaning up");
    ended.and(cleaned)
}

/// Removes whatever these tests left in the cluster.
async fn clean_up(client: &Client) -> Result<()> {
    users::clean_up(client).await?;
    kubelets::clean_up(client).await
}

impl Scene {
    async fn set(
        environment: &Environment,
        label: &str,
        flags: &[&str],
        counted: bool,
    ) -> Result<Self> {
        let client = connect(environment).await?;
        clean_up(&client)
            .await
            .context("removing what an earlier run left behind")?;
        let directory = TempDir::with_prefix("ccm-e2e-")?;
        let served = ServedCloud::start(directory.path()).await?;
        let proxy = RecordingProxy::start(client.clone()).await?;
        let mut kubeconfig = environment.kubeconfig()?.clone();
        if counted {
            kubeconfig = directory.path().join("kubeconfig");
            proxy.write_kubeconfig(&kubeconfig)?;
        }
        let arguments = ["--cloud-provider=simulated".to_owned()]
            .into_iter()
            .chain([format!("--cloud-config={}", served.config().display())])
            .chain([format!("--kubeconfig={}", kubeconfig.display())])
            .chain(COMMON.iter().chain(flags).map(|flag| (*flag).to_owned()))
            .collect();
        let mut launch = Launch {
            binary: environment.binary()?.clone(),
            arguments,
            directory,
            starts: 0,
        };
        Ok(Self {
            kubelets: Kubelets::start(&client),
            client,
            controller: launch.start()?,
            served,
            proxy,
            // Events outlive Nodes: no two runs have the same names.
            label: format!("e2e-{}-{label}", std::process::id()),
            launch,
        })
    }

    /// Starts the binary again after it ended.
    pub(crate) fn start_again(&mut self) -> Result<()> {
        self.controller = self.launch.start()?;
        Ok(())
    }

    /// Checks that the program still runs, and stops it gracefully.
    pub(crate) async fn end(&mut self) -> Result<()> {
        let status = self.controller.stop(STOP).await?;
        ensure!(
            status.success(),
            "the binary ended with {status} after SIGTERM"
        );
        Ok(())
    }

    pub(crate) fn cloud(&self) -> &Cloud {
        &self.served.cloud
    }

    /// Returns the barrier in front of the cloud.
    pub(crate) fn door(&self) -> &Door {
        &self.served.door
    }

    /// Returns the requests to the cloud so far that asked for a change.
    pub(crate) fn cloud_changes(&self) -> BTreeMap<String, u64> {
        self.served.changes()
    }

    pub(crate) fn proxy(&self) -> &RecordingProxy {
        &self.proxy
    }

    /// Writes to the API server since the counting began, refused ones included.
    pub(crate) fn writes(&self) -> Vec<ApiRequest> {
        let mut all = self.proxy.requests().all();
        all.retain(ApiRequest::is_write);
        all
    }

    /// Shuts down a Node's machine, and lets its Node report so. Each pass reads the machine from now on, so that
    /// passes can be counted.
    pub(crate) async fn shut_down(&self, name: &str) -> Result<()> {
        self.cloud().stop(name);
        self.kubelets.report(name, false).await?;
        self.becomes(name, "tainted as shut down", is_shut_down)
            .await?;
        Ok(())
    }

    /// Waits until nothing is written for some passes: what was begun before is through. Needs a machine that is off.
    pub(crate) async fn goes_quiet(&self) -> Result<()> {
        until("nothing is written any more", SOON, async || {
            let before = self.writes().len();
            self.cloud_is_asked(PASSES).await?;
            let new = self.writes().split_off(before);
            ensure!(new.is_empty(), "it wrote: {new:?}");
            Ok(())
        })
        .await
    }

    pub(crate) fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    /// Names for this scenario's Nodes.
    pub(crate) fn names(&self, count: usize) -> Vec<String> {
        (1..=count)
            .map(|number| format!("{}-{number}", self.label))
            .collect()
    }

    /// Machines of these names, running.
    pub(crate) fn create_machines(&self, names: &[String]) {
        for name in names {
            self.cloud().add_machine(NewMachine {
                name: name.clone(),
                ..NewMachine::default()
            });
        }
    }

    /// Machines and their Nodes, ready, and waits until they are initialised.
    pub(crate) async fn members(&self, count: usize) -> Result<Vec<String>> {
        let names = self.names(count);
        self.create_machines(&names);
        self.kubelets.register(&names, true).await?;
        self.initialised(&names, SOON).await?;
        Ok(names)
    }

    /// Returns this scenario's Nodes by name.
    pub(crate) async fn list(&self) -> Result<BTreeMap<String, Node>> {
        let nodes = self.nodes().list(&ListParams::default()).await?;
        let ours = nodes
            .into_iter()
            .map(|node| (node.name_any(), node))
            .filter(|(name, _)| name.starts_with(&self.label));
        Ok(ours.collect())
    }

    /// Waits until each Node has the identity of the machine of its name.
    pub(crate) async fn initialised(&self, names: &[String], limit: Duration) -> Result<()> {
        until("all Nodes are initialised", limit, async || {
            let nodes = self.list().await?;
            for name in names {
                let node = nodes
                    .get(name)
                    .with_context(|| format!("there is no Node {name}"))?;
                let machine = self
                    .cloud()
                    .machine(name)
                    .with_context(|| format!("there is no machine {name}"))?;
                check_initialised(node, &machine)?;
            }
            Ok(())
        })
        .await
    }

    /// Waits until a Node is as `check` wants it.
    pub(crate) async fn becomes(
        &self,
        name: &str,
        what: &str,
        check: impl Fn(&Node) -> bool,
    ) -> Result<Node> {
        until(&format!("{name}: {what}"), SOON, async || {
            let node = self.nodes().get(name).await?;
            ensure!(check(&node), "not yet: {:?}", node.spec);
            Ok(node)
        })
        .await
    }

    /// Waits until a Node is deleted.
    pub(crate) async fn disappears(&self, name: &str) -> Result<()> {
        until(&format!("{name} is deleted"), SOON, async || {
            ensure!(
                self.nodes().get_opt(name).await?.is_none(),
                "it is still there"
            );
            Ok(())
        })
        .await
    }

    /// Waits for an event with this reason about a Node.
    pub(crate) async fn is_told(&self, name: &str, reason: &str) -> Result<()> {
        until(&format!("event {reason} about {name}"), SOON, async || {
            ensure!(
                !events(&self.client, "Node", name, reason).await?.is_empty(),
                "there is none"
            );
            Ok(())
        })
        .await
    }

    /// Waits until the binary has sent this many more requests to the cloud, by which passes are counted.
    pub(crate) async fn cloud_is_asked(&self, times: u64) -> Result<()> {
        let before = self.served.total();
        until(
            &format!("{times} more requests to the cloud"),
            SOON,
            async || {
                let asked = self.served.total() - before;
                ensure!(asked >= times, "there were {asked}");
                Ok(())
            },
        )
        .await
    }

    /// Checks that these Nodes still exist with the same UIDs.
    pub(crate) async fn still_there(&self, before: &BTreeMap<String, Node>) -> Result<()> {
        let now = self.list().await?;
        for (name, node) in before {
            let same = now.get(name).is_some_and(|now| now.uid() == node.uid());
            ensure!(same, "{name} is no longer the Node that it was");
        }
        Ok(())
    }
}
