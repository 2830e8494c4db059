//! The cluster and the cloud, each behind its own TCP port, and what is done to them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use cloud_provider::ConditionStatus;
use embedded_apiserver::{ApiServer, kubeconfig};
use kube::Client;
use manager::flags::{Flags, Parsed};
use manager::{Handles, launch};
use provider_simulated::cloud::{self, Cloud, DEFAULT_PROJECT, DEFAULT_TOKEN, Machine, NewMachine};
use provider_simulated::provider::NAME;
use runtime::client::{ClientOptions, NoRequestMetrics, UserAgent, connect};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::arguments::Arguments;
use super::directory::Directory;
use super::expectation::Observed;
use super::kubelet::Kubelets;
use super::observer::Observer;
use super::report::{KUBELETS, OBSERVER, Requests, Sender};
use super::runner::Stage;
use super::story::{Action, PREFIX};

/// The lifecycle controller's pause between passes: a tenth of the default, so that nobody waits. All other settings are
/// the product's; the five minutes for which a landslide is held, too.
const MONITOR_PERIOD: &str = "--node-monitor-period=500ms";
/// Requests to the cloud that are further apart than this belong to different passes.
const QUIET: Duration = Duration::from_millis(200);
/// Requests of which the API server keeps the bodies; it counts all.
const REQUESTS_KEPT: usize = 1000;
/// The project of the token that sees nothing. It has no machines.
const OTHER_PROJECT: &str = "another-project";

/// Everything that the demo runs.
pub(super) struct World {
    server: ApiServer,
    cloud: Cloud,
    kubelets: Kubelets,
    observer: Observer,
    controllers: Option<Handles>,
    vanished: Vec<Machine>,
    /// The Kubernetes API.
    pub(super) api_url: String,
    /// The cloud.
    pub(super) cloud_url: String,
    /// For kubectl and the controllers.
    pub(super) kubeconfig: PathBuf,
    /// For the controllers.
    pub(super) cloud_config: PathBuf,
    shutdown: CancellationToken,
    _directory: Directory,
}

impl Drop for World {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

impl World {
    /// Starts the servers and the eyes; no Node and no controller yet.
    pub(super) async fn start(arguments: &Arguments) -> Result<Self> {
        let shutdown = CancellationToken::new();
        let directory = Directory::new()?;

        let listener = listen(arguments.port, "--port").await?;
        let api_url = format!("http://{}", listener.local_addr()?);
        let server = ApiServer::with_options(embedded_apiserver::Options {
            request_log: REQUESTS_KEPT,
            // kube-controller-manager would remove that taint again; there is none here.
            taint_new_nodes: false,
            ..embedded_apiserver::Options::default()
        });
        let serving = (server.clone(), shutdown.clone());
        tokio::spawn(async move { serving.0.serve_tcp(listener, serving.1).await });
        let kubeconfig = directory.write("kubeconfig", &kubeconfig(&api_url, None, None))?;

        let listener = listen(arguments.cloud_port, "--cloud-port").await?;
        let cloud_url = format!("http://{}", listener.local_addr()?);
        let cloud = Cloud::new(cloud::Options::default());
        cloud.create_machines(PREFIX, arguments.nodes);
        let serving = (cloud.clone(), shutdown.clone());
        tokio::spawn(async move { serving.0.serve(listener, serving.1).await });
        let config = format!("endpoint: {cloud_url}\ntoken: {DEFAULT_TOKEN}\nproject: {DEFAULT_PROJECT}\n");
        let cloud_config = directory.write("cloud.yaml", &config)?;

        let kubelets = Kubelets::new(client(&kubeconfig, KUBELETS).await?, cloud.clone());
        let eyes = client(&kubeconfig, OBSERVER).await?;
        let observer = Observer::start(eyes, cloud.clone(), QUIET, shutdown.clone()).await;
        Ok(Self {
            server,
            cloud,
            kubelets,
            observer,
            controllers: None,
            vanished: Vec::new(),
            api_url,
            cloud_url,
            kubeconfig,
            cloud_config,
            shutdown,
            _directory: directory,
        })
    }

    /// As the program does with these flags.
    async fn start_controllers(&mut self) -> Result<()> {
        let flag = |name: &str, value: &Path| {
            let mut flag = OsString::from(name);
            flag.push(value);
            flag
        };
        let arguments = [
            OsString::from("cloud-controller-manager"),
            OsString::from(format!("--cloud-provider={NAME}")),
            flag("--cloud-config=", &self.cloud_config),
            flag("--kubeconfig=", &self.kubeconfig),
            OsString::from(MONITOR_PERIOD),
            // Nobody gives the Nodes Pod ranges here.
            OsString::from("--configure-cloud-routes=false"),
        ];
        let flags = match Flags::parse(arguments) {
            Parsed::Flags(flags) => *flags,
            Parsed::Say(text) | Parsed::Wrong(text) => bail!("the controllers' flags: {text}"),
        };
        self.controllers = Some(launch(&flags, &crate::providers(), self.shutdown.clone()).await?);
        Ok(())
    }

    /// Returns when the controllers, too, have heard that these Nodes are not ready.
    async fn wait_until_known_silent(&self, names: &[String]) {
        let Some(controllers) = &self.controllers else { return };
        let is_ready =
            |name: &String| controllers.nodes().get(name).is_some_and(|node| node.ready == ConditionStatus::True);
        while names.iter().any(is_ready) {
            self.observer.changed().await;
        }
    }

    fn ids(&self, names: &[String]) -> Vec<String> {
        let machines = self.cloud.machines();
        let ids: BTreeMap<&str, &str> = machines.iter().map(|machine| (&*machine.name, &*machine.id)).collect();
        names.iter().filter_map(|name| ids.get(name.as_str())).map(|id| (*id).to_owned()).collect()
    }
}

impl Stage for World {
    async fn act(&mut self, action: &Action) -> Result<(), String> {
        let done = match action {
            Action::StartKubelets => {
                tokio::spawn(self.kubelets.clone().run(self.shutdown.clone()));
                true
            }
            Action::StartControllers => {
                self.start_controllers().await.map_err(|error| format!("the controllers did not start: {error:#}"))?;
                true
            }
            Action::AddMachine(name) => {
                self.cloud.add_machine(NewMachine { name: name.clone(), ..NewMachine::default() });
                true
            }
            Action::Stop(name) => self.cloud.stop(name),
            Action::Start(name) => self.cloud.start(name),
            Action::Terminate(name) => self.cloud.terminate(name),
            Action::Silence(names) => {
                self.kubelets.silence(names);
                self.wait_until_known_silent(names).await;
                true
            }
            Action::Wake => {
                self.kubelets.wake();
                true
            }
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
                // A pass that is half-way would find only the rest of them gone, confirmed and witnessed: no landslide
                // yet, so that it would delete these.
                self.observer.between_passes().await;
                self.vanished = self.cloud.take_away(&self.ids(names));
                self.vanished.len() == names.len()
            }
            Action::Reappear => {
                self.cloud.restore(std::mem::take(&mut self.vanished));
                true
            }
        };
        if done { Ok(()) } else { Err(format!("the cloud has nothing for {action:?}")) }
    }

    fn observe(&mut self) -> Observed {
        self.observer.observe()
    }

    async fn changed(&mut self) {
        self.observer.changed().await;
    }

    fn requests(&self) -> Requests {
        let mut kubernetes: BTreeMap<_, u64> = BTreeMap::new();
        for ((agent, verb, resource), count) in self.server.requests().counts_by_agent() {
            *kubernetes.entry((Sender::of(&agent), resource, verb)).or_default() += count;
        }
        Requests { cloud: self.cloud.requests(), kubernetes }
    }

    fn trouble(&self) -> Option<String> {
        self.kubelets.trouble()
    }
}

async fn listen(port: Option<u16>, flag: &str) -> Result<TcpListener> {
    let port = port.unwrap_or(0);
    let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await;
    bound.with_context(|| format!("cannot listen on 127.0.0.1:{port}; choose another port with {flag}"))
}

async fn client(kubeconfig: &Path, binary: &str) -> Result<Client> {
    let options = ClientOptions {
        kubeconfig: Some(kubeconfig.to_owned()),
        user_agent: UserAgent { binary: binary.to_owned(), ..UserAgent::default() },
        ..ClientOptions::default()
    };
    Ok(connect(&options, "", Arc::new(NoRequestMetrics)).await?)
}
