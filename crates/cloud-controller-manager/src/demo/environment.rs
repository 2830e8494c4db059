//! The cluster and the cloud of the demo, each behind a TCP port of its own, and the actions on them.

mod injected_fault;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use cloud_provider::ConditionStatus;
use embedded_apiserver::{ApiServer, kubeconfig};
use kube::Client;
use provider_simulated::cloud::{self, Cloud, DEFAULT_PROJECT, DEFAULT_TOKEN, Machine, NewMachine};
use runtime::client::{ClientOptions, NoRequestMetrics, UserAgent, connect};
use runtime::election::Leadership;
use tokio::net::TcpListener;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::arguments::Arguments;
use super::controllers::Controllers;
use super::directory::Directory;
use super::kubelet::Kubelets;
use super::lease;
use super::observed::{Observed, ObservedEvent};
use super::observer::Observer;
use super::requests::{KUBELETS, OBSERVER, Requests, Sender, USER};
use super::runner::Harness;
use super::scenario::{Action, PREFIX};
use super::user::User;
use injected_fault::InjectedFault;

/// Interval of polls where no watch exists.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Number of polls without requests after which the controllers count as idle: half a second, longer than any wait of
/// events or passes. The number counts polls and not time, because on a busy machine nobody gets the processor.
const SETTLED: u32 = 25;
/// Pause between requests to the cloud that separates two passes of a controller.
const QUIET: Duration = Duration::from_millis(200);
/// Number of requests whose bodies the API server keeps; it counts all requests.
const REQUESTS_KEPT: usize = 1000;
/// Project without machines, for a token that sees nothing.
const OTHER_PROJECT: &str = "another-project";

/// The servers, controllers and observers of the demo.
pub(super) struct DemoEnvironment {
    server: ApiServer,
    cloud: Cloud,
    kubelets: Kubelets,
    observer: Observer,
    user: User,
    controllers: Option<Controllers>,
    injected_fault: Option<InjectedFault>,
    vanished: Vec<Machine>,
    started: Instant,
    /// URL of the Kubernetes API.
    pub(super) api_url: String,
    /// URL of the simulated cloud.
    pub(super) cloud_url: String,
    /// Path of the kubeconfig for kubectl and the controllers.
    pub(super) kubeconfig: PathBuf,
    /// Path of the cloud configuration for the controllers.
    pub(super) cloud_config: PathBuf,
    shutdown: CancellationToken,
    _directory: Directory,
}

impl Drop for DemoEnvironment {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

impl DemoEnvironment {
    /// Starts the servers and the observer, without Nodes and controllers.
    pub(super) async fn start(arguments: &Arguments) -> Result<Self> {
        let started = Instant::now();
        let shutdown = CancellationToken::new();
        let mut directory = Directory::new()?;

        let listener = listen(arguments.port, "--port").await?;
        let api_url = format!("http://{}", listener.local_addr()?);
        let server = ApiServer::with_options(embedded_apiserver::Options {
            request_log: REQUESTS_KEPT,
            // kube-controller-manager would remove that taint again, but the demo has none.
            taint_new_nodes: false,
            ..embedded_apiserver::Options::default()
        });
        let serving = (server.clone(), shutdown.clone());
        tokio::spawn(async move { serving.0.serve_tcp(listener, serving.1).await });
        let text = kubeconfig(&api_url, None, None);
        let kubeconfig = match &arguments.kubeconfig {
            Some(path) => directory.write_elsewhere(path, &text)?,
            None => directory.write("kubeconfig", &text)?,
        };

        let listener = listen(arguments.cloud_port, "--cloud-port").await?;
        let cloud_url = format!("http://{}", listener.local_addr()?);
        let cloud = Cloud::new(cloud::Options::default());
        cloud.create_machines(PREFIX, arguments.nodes);
        let serving = (cloud.clone(), shutdown.clone());
        tokio::spawn(async move { serving.0.serve(listener, serving.1).await });
        let config =
            format!("endpoint: {cloud_url}\ntoken: {DEFAULT_TOKEN}\nproject: {DEFAULT_PROJECT}\n");
        let cloud_config = directory.write("cloud.yaml", &config)?;

        let kubelets = Kubelets::new(client(&kubeconfig, KUBELETS).await?, cloud.clone());
        let observer_client = client(&kubeconfig, OBSERVER).await?;
        let observer =
            Observer::start(observer_client, cloud.clone(), QUIET, shutdown.clone()).await;
        Ok(Self {
            server,
            cloud,
            kubelets,
            observer,
            user: User::new(client(&kubeconfig, USER).await?),
            controllers: None,
            injected_fault: None,
            vanished: Vec::new(),
            started,
            api_url,
            cloud_url,
            kubeconfig,
            cloud_config,
            shutdown,
            _directory: directory,
        })
    }

    /// Returns the events from this number on.
    pub(super) fn events_since(&self, count: usize) -> Vec<Arc<ObservedEvent>> {
        self.observer
            .observed_events()
            .into_iter()
            .skip(count)
            .collect()
    }

    async fn start_controllers(&mut self) -> Result<()> {
        let started =
            Controllers::start(&self.kubeconfig, &self.cloud_config, self.shutdown.clone()).await;
        self.controllers = Some(started?);
        Ok(())
    }

    /// Starts the controllers unless they run.
    ///
    /// # Errors
    /// The program's error message.
    pub(super) async fn ensure_controllers(&mut self) -> Result<()> {
        if self.controllers.is_some() {
            Ok(())
        } else {
            self.start_controllers().await
        }
    }

    /// Stops the controllers, and leaves injected faults as they are.
    ///
    /// # Errors
    /// If the controllers do not end.
    pub(super) async fn stop_controllers(&mut self) -> Result<()> {
        match self.controllers.take() {
            Some(controllers) => controllers.kill().await,
            None => Ok(()),
        }
    }

    /// Competes for the Lease of cloud controller managers.
    ///
    /// # Errors
    /// If the kubeconfig cannot be used.
    pub(super) async fn compete(&self) -> Result<Leadership> {
        lease::compete(&self.kubeconfig, &self.shutdown).await
    }

    /// Kills the controllers without a trace, and removes all injected faults.
    async fn kill_controllers(&mut self) -> Result<()> {
        self.stop_controllers().await?;
        self.injected_fault = None;
        self.server.faults().clear();
        self.cloud.clear_faults();
        Ok(())
    }

    /// Returns when the controllers have sent no request, except reads of machines, for [`SETTLED`] polls.
    async fn wait_until_settled(&self) {
        let mut last = None;
        let mut polls = 0;
        while polls < SETTLED {
            tokio::time::sleep(POLL_INTERVAL).await;
            let asked = self.requests().asked();
            polls = if last.replace(asked) == Some(asked) {
                polls + 1
            } else {
                0
            };
        }
    }

    /// Returns when the controllers have seen, too, that these Nodes are not ready.
    async fn wait_until_known_silent(&self, names: &[String]) {
        let Some(controllers) = &self.controllers else {
            return;
        };
        let is_ready = |name: &String| {
            controllers
                .nodes()
                .get(name)
                .is_some_and(|node| node.ready == ConditionStatus::True)
        };
        while names.iter().any(is_ready) {
            self.observer.changed().await;
        }
    }

    /// Performs an action that concerns only the cloud. Returns `false` if the action failed.
    async fn act_on_cloud(&mut self, action: &Action) -> bool {
        match action {
            Action::AddMachine(name) => {
                self.cloud.add_machine(NewMachine {
                    name: name.clone(),
                    ..NewMachine::default()
                });
                true
            }
            Action::Stop(name) => self.cloud.stop(name),
            Action::Start(name) => self.cloud.start(name),
            Action::Terminate(name) => self.cloud.terminate(name),
            Action::RevokeToken => self.cloud.revoke_token(DEFAULT_TOKEN),
            Action::MoveToken => {
                self.cloud.add_token(DEFAULT_TOKEN, OTHER_PROJECT);
                true
            }
            Action::RestoreToken => {
                self.cloud.add_token(DEFAULT_TOKEN, DEFAULT_PROJECT);
                true
            }
            Action::Vanish(names) => {
                // A pass in progress would find only the other machines missing, confirmed and witnessed but not yet a
                // landslide, and would delete their Nodes.
                self.observer.between_passes().await;
                self.vanished = self.cloud.remove_temporarily(&self.ids(names));
                self.vanished.len() == names.len()
            }
            Action::Reappear => {
                self.cloud.restore(std::mem::take(&mut self.vanished));
                true
            }
            _ => false,
        }
    }

    fn ids(&self, names: &[String]) -> Vec<String> {
        let machines = self.cloud.machines();
        let ids: BTreeMap<&str, &str> = machines
            .iter()
            .map(|machine| (&*machine.name, &*machine.id))
            .collect();
        names
            .iter()
            .filter_map(|name| ids.get(name.as_str()))
            .map(|id| (*id).to_owned())
            .collect()
    }
}

impl Harness for DemoEnvironment {
    async fn act(&mut self, action: &Action) -> Result<(), String> {
        self.observer.discard_cached_cloud();
        match action {
            Action::StartKubelets => {
                tokio::spawn(self.kubelets.clone().run(self.shutdown.clone()));
            }
            Action::StartControllers => {
                self.start_controllers()
                    .await
                    .map_err(|error| format!("the controllers did not start: {error:#}"))?;
            }
            Action::KillControllers => {
                self.kill_controllers()
                    .await
                    .map_err(|error| format!("the controllers did not end: {error:#}"))?;
            }
            Action::Silence(names) => {
                self.kubelets.silence(names);
                self.wait_until_known_silent(names).await;
            }
            Action::Wake => self.kubelets.wake(),
            Action::CreateServices(ports) => {
                for (name, port) in ports {
                    self.user.create(name, *port).await?;
                }
            }
            Action::ChangePort(name, port) => self.user.change_port(name, *port).await?,
            Action::ChangeType(name, kind) => self.user.change_type(name, kind).await?,
            Action::DeleteService(name) => self.user.delete(name).await?,
            Action::Arm(moment) => {
                self.injected_fault = Some(InjectedFault::arm(
                    moment,
                    &self.cloud,
                    self.server.faults(),
                ));
            }
            Action::AwaitStuck => {
                while self.injected_fault.as_ref().is_some_and(|injected_fault| {
                    !injected_fault.is_applied(&self.cloud, self.server.faults())
                }) {
                    tokio::time::sleep(POLL_INTERVAL).await;
                }
            }
            Action::Settle => self.wait_until_settled().await,
            cloud => {
                let done = self.act_on_cloud(cloud).await;
                return if done {
                    Ok(())
                } else {
                    Err("the cloud has no such thing".to_owned())
                };
            }
        }
        self.observer.discard_cached_cloud();
        Ok(())
    }

    fn observe(&mut self) -> Observed {
        let requests = self.requests();
        Observed {
            at: self.started.elapsed(),
            nodes: self.observer.nodes(),
            services: self.observer.services(),
            events: self.observer.observed_events(),
            passes: self.observer.passes(),
            cloud: self.observer.cloud(),
            changes: requests.changes(),
            writes: requests.writes(),
        }
    }

    async fn changed(&mut self) {
        self.observer.changed().await;
    }

    fn requests(&self) -> Requests {
        let mut kubernetes: BTreeMap<_, u64> = BTreeMap::new();
        for ((agent, verb, resource), count) in self.server.requests().counts_by_agent() {
            *kubernetes
                .entry((Sender::of(&agent), resource, verb))
                .or_default() += count;
        }
        Requests {
            cloud: self.cloud.requests(),
            kubernetes,
        }
    }

    fn last_error(&self) -> Option<String> {
        self.kubelets.last_error()
    }
}

async fn listen(port: Option<u16>, flag: &str) -> Result<TcpListener> {
    let port = port.unwrap_or(0);
    let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await;
    bound.with_context(|| {
        format!("cannot listen on 127.0.0.1:{port}; choose another port with {flag}")
    })
}

async fn client(kubeconfig: &Path, binary: &str) -> Result<Client> {
    let options = ClientOptions {
        kubeconfig: Some(kubeconfig.to_owned()),
        user_agent: UserAgent {
            binary: binary.to_owned(),
            ..UserAgent::default()
        },
        ..ClientOptions::default()
    };
    Ok(connect(&options, "", Arc::new(NoRequestMetrics)).await?)
}
