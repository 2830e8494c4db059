//! A cluster and a cloud on loopback, and the binary between them with an environment of its own.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use ccm_conformance::node_object::registration;
use ccm_conformance::{CloudProfile, ProgramSettings};
use ccm_tests::binary;
use ccm_tests::controller::Controller;
use ccm_tests::profiles::AwsCloud;
use ccm_tests::wait::until;
use embedded_apiserver::{ApiServer, kubeconfig};
use fake_cloud::{Port, Served};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::mandatory;

/// Limit of each wait. The machine that runs the tests may be busy.
const LIMIT: Duration = Duration::from_secs(120);
const NODE: &str = "worker-1";

/// The Kubernetes API, and the settings of the binary.
struct World {
    api: ApiServer,
    directory: TempDir,
    binary: PathBuf,
    settings: ProgramSettings,
    flags: Vec<String>,
    _cloud: Option<Served>,
    _until: DropGuard,
}

/// Starts the binary on a cloud whose fakes are on this address, after `doctor` and `plan`, and waits for its first work: a
/// Node that is initialised, or a Service with an address where the cloud has no machines.
pub(crate) async fn start(cloud: &str, address: &str) -> Result<()> {
    let (row, profile) = mandatory::of(cloud);
    let port = Port::open(address).await?;
    let url = port.url();
    let usual = profile
        .as_ref()
        .map(|profile| profile.program(&url))
        .unwrap_or_default();
    let settings = (row.settings)(&url, &usual);
    let has_routes = profile
        .as_ref()
        .is_some_and(|profile| profile.capabilities().routes);
    let machine = profile.as_ref().map(|profile| profile.add_machine(NODE));
    let served = profile.as_ref().map(|profile| port.serve(profile.router()));
    let world = World::new(cloud, settings, has_routes, served).await?;
    match machine {
        Some(provider_id) => world.initialises_node(row.found, &provider_id).await,
        None => world.assigns_address(row.found).await,
    }
}

/// Starts the binary on AWS where no metadata service listens, and waits until the log and `doctor` say so. The binary
/// must not end, because the service may come.
pub(crate) async fn waits_for_metadata_service(parts: &[&str]) -> Result<()> {
    // Nothing listens on the discard port.
    let (row, _) = mandatory::of("aws");
    let settings = (row.settings)("http://127.0.0.1:9", &ProgramSettings::default());
    let world = World::new("aws", settings, true, None).await?;
    let doctor = world.run("doctor").await?;
    let mut process = world.start()?;
    let log = process.path().to_owned();
    world
        .until(&mut process, "the log names the cause", || {
            let log = std::fs::read_to_string(&log)?;
            let says = |part: &&&str| log.contains(**part) && doctor.contains(**part);
            let missing: Vec<_> = parts.iter().filter(|part| !says(part)).collect();
            ensure!(
                log.contains("the cloud provider cannot start yet") && missing.is_empty(),
                "missing: {missing:?}\n{doctor}"
            );
            Ok(())
        })
        .await
}

/// Starts the binary on an instance without the tag of a cluster: without and with `--allow-untagged-cloud`.
pub(crate) async fn untagged_instance() -> Result<()> {
    let cloud = AwsCloud::classic();
    let (row, _) = mandatory::of("aws");
    let port = Port::open("127.0.0.1:0").await?;
    let settings = (row.settings)(&port.url(), &ProgramSettings::default());
    let id = cloud.add_machine(NODE);
    for instance in cloud.fake.lock().each(aws_fake::Kind::Instance) {
        instance["tagSet"] = json!([]);
    }
    let mut world = World::new("aws", settings, true, Some(port.serve(cloud.router()))).await?;
    let refusal = "no ClusterID found";
    for subcommand in ["doctor", "plan", "orphans"] {
        let text = world.run(subcommand).await?;
        ensure!(
            text.contains(refusal) && text.contains("--allow-untagged-cloud"),
            "{subcommand}:\n{text}"
        );
    }
    let mut process = world.start()?;
    let status = process.ended(LIMIT).await?;
    ensure!(
        status.code() == Some(255) && process.log().contains(refusal),
        "{status}: {}",
        process.tail()
    );
    world.flags.push("--allow-untagged-cloud".to_owned());
    world
        .initialises_node(
            &["cannot tell this cluster's resources from another's"],
            &id,
        )
        .await
}

impl World {
    async fn new(
        cloud: &str,
        settings: ProgramSettings,
        has_routes: bool,
        served: Option<Served>,
    ) -> Result<Self> {
        let api = ApiServer::new();
        let stop = CancellationToken::new();
        let directory = TempDir::with_prefix("ccm-bare-")?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let path = directory.path().join("kubeconfig");
        std::fs::write(
            &path,
            kubeconfig(&format!("http://{}", listener.local_addr()?), None, None),
        )?;
        let server = api.clone();
        let token = stop.clone();
        tokio::spawn(async move { server.serve_tcp(listener, token).await });
        let mut flags = vec![
            format!("--cloud-provider={cloud}"),
            format!("--kubeconfig={}", path.display()),
        ];
        flags.push("--secure-port=0".to_owned());
        if has_routes {
            // This flag or `--cluster-cidr` is mandatory on a cloud with routes (FLAG-21).
            flags.push("--configure-cloud-routes=false".to_owned());
        }
        if let Some(text) = &settings.cloud_config {
            let path = directory.path().join("cloud-config");
            std::fs::write(&path, text)?;
            flags.push(format!("--cloud-config={}", path.display()));
        }
        let binary = binary::path()?;
        let until = stop.drop_guard();
        Ok(Self {
            api,
            directory,
            binary,
            settings,
            flags,
            _cloud: served,
            _until: until,
        })
    }

    fn seed(&self, object: Value) -> Result<()> {
        self.api
            .seed(object)
            .map(drop)
            .map_err(|error| anyhow::anyhow!("{error}"))
    }

    async fn initialises_node(&self, found: &[&str], provider_id: &str) -> Result<()> {
        self.seed(registration(NODE, 0, false))?;
        self.is_foreseen(found, provider_id).await?;
        let mut process = self.start()?;
        self.until(&mut process, "the Node is initialised", || {
            let node = self.api.get("nodes", None, NODE).unwrap_or_default();
            let id = &node["spec"]["providerID"];
            let taints = node["spec"]["taints"].to_string();
            ensure!(
                id == provider_id && !taints.contains("uninitialized"),
                "provider ID {id}, taints {taints}"
            );
            Ok(())
        })
        .await
    }

    async fn assigns_address(&self, found: &[&str]) -> Result<()> {
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default"},
            "spec": {"type": "LoadBalancer", "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}]},
        });
        self.seed(service)?;
        self.is_foreseen(found, "default/web").await?;
        let mut process = self.start()?;
        self.until(&mut process, "the Service has an address", || {
            let service = self
                .api
                .get("services", Some("default"), "web")
                .unwrap_or_default();
            let address = &service["status"]["loadBalancer"]["ingress"][0]["ip"];
            ensure!(
                address
                    .as_str()
                    .is_some_and(|ip| ip.starts_with("192.0.2.")),
                "its address is {address}"
            );
            Ok(())
        })
        .await
    }

    /// Checks that `doctor` finds the facts and a provider that can start, and that `plan` shows this part of the change.
    async fn is_foreseen(&self, found: &[&str], planned: &str) -> Result<()> {
        let (doctor, plan) = tokio::try_join!(self.run("doctor"), self.run("plan"))?;
        for part in ["can start"].iter().chain(found) {
            ensure!(
                doctor.contains(part),
                "doctor does not say {part:?}:\n{doctor}"
            );
        }
        ensure!(
            plan.contains(planned),
            "plan does not show {planned:?}:\n{plan}"
        );
        Ok(())
    }

    /// Runs a subcommand, and returns what it writes.
    async fn run(&self, subcommand: &str) -> Result<String> {
        let log = self.directory.path().join(subcommand);
        let arguments = std::iter::once(subcommand.to_owned()).chain(self.flags.iter().cloned());
        let arguments = arguments
            .filter(|flag| !flag.starts_with("--secure-port"))
            .map(OsString::from);
        let mut process =
            Controller::start_alone(&self.binary, arguments, &self.settings.environment, &log)?;
        process
            .ended(LIMIT)
            .await
            .with_context(|| format!("{subcommand}:\n{}", process.tail()))?;
        Ok(process.log())
    }

    fn start(&self) -> Result<Controller> {
        let log = self.directory.path().join("log");
        let flags = self.flags.iter().map(OsString::from);
        Controller::start_alone(&self.binary, flags, &self.settings.environment, &log)
    }

    /// Waits for the work of the binary, which must not end.
    async fn until(
        &self,
        process: &mut Controller,
        what: &str,
        check: impl Fn() -> Result<()>,
    ) -> Result<()> {
        let mut has_ended = None;
        let outcome = until(what, LIMIT, async || {
            if let Err(error) = process.check() {
                has_ended = Some(error);
                return Ok(());
            }
            check()
        })
        .await;
        match has_ended {
            Some(error) => Err(error).with_context(|| process.tail()),
            None => outcome.with_context(|| process.tail()),
        }
    }
}
