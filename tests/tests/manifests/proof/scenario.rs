//! A cluster's life in a minute, in which the program has a reason for each of its requests.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use ccm_tests::api_requests::ApiRequest;
use ccm_tests::controller::Controller;
use ccm_tests::machines::ServedCloud;
use ccm_tests::service_object::load_balancer;
use ccm_tests::wait::until;
use cloud_provider::names::{FINALIZER_LOAD_BALANCER, LABEL_ZONE, TAINT_UNINITIALIZED};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, PersistentVolume, Service};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Config, ResourceExt};
use provider_simulated::cloud::{DEFAULT_PROJECT, NewMachine, Volume};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::proxy::Proxy;
use crate::accounts;
use crate::atom::ACCOUNT;
use crate::cluster::{connect, has_taint, is_shut_down};
use crate::environment::Environment;
use crate::kubelets::{Kubelets, OURS};

/// Time-out of a step.
const SOON: Duration = Duration::from_secs(120);
const STOP: Duration = Duration::from_secs(60);
/// The account that scrapes.
pub(crate) const SCRAPER: &str = "kube-system/e2e-scraper";
const LEASE: &str = "cloud-controller-manager";

/// Settings of the program under test.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cast {
    /// The volume controller, too.
    pub(crate) volumes: bool,
    /// The API server streams lists.
    pub(crate) streams: bool,
    /// Each controller has an account of its own.
    pub(crate) accounts: bool,
    /// If set, the Lease is deleted and must be created again after it has expired; otherwise it is released.
    pub(crate) vanishes: bool,
}

impl Default for Cast {
    fn default() -> Self {
        Self {
            volumes: true,
            streams: true,
            accounts: false,
            vanishes: false,
        }
    }
}

/// Participants of the scenario.
pub(crate) struct Scenario {
    cast: Cast,
    client: Client,
    kubelets: Kubelets,
    controller: Controller,
    served: ServedCloud,
    proxy: Proxy,
    port: u16,
    label: String,
    _directory: TempDir,
}

impl Scenario {
    /// Creates the harness: a Lease whose holder no longer exists, and the program with its account.
    pub(crate) async fn set(environment: &Environment, cast: Cast, label: &str) -> Result<Self> {
        let client = connect(environment).await?;
        clean_up(&client)
            .await
            .context("removing what an earlier run left behind")?;
        let directory = TempDir::with_prefix("ccm-rbac-")?;
        let served = ServedCloud::start(directory.path()).await?;
        let proxy =
            Proxy::start(Client::try_from(accounts::anonymous(environment).await?)?).await?;
        if !cast.streams {
            proxy.stop_streaming();
        }
        let kubeconfig = directory.path().join("kubeconfig");
        proxy.write_kubeconfig(&kubeconfig, &accounts::token(&client, ACCOUNT).await?)?;
        hold_the_lease(&client).await?;
        let port = free_port()?;
        let arguments = arguments(cast, &served, &kubeconfig, port);
        let log = directory.path().join("log");
        let controller = Controller::start(
            environment.binary()?,
            arguments.into_iter().map(Into::into),
            &log,
        )?;
        let label = format!("e2e-{}-{label}", std::process::id());
        let kubelets = Kubelets::start(&client);
        Ok(Self {
            cast,
            client,
            kubelets,
            controller,
            served,
            proxy,
            port,
            label,
            _directory: directory,
        })
    }

    /// Returns the program's requests that were refused so far.
    pub(crate) fn refused(&self) -> Vec<ApiRequest> {
        self.proxy
            .requests()
            .all()
            .into_iter()
            .filter(|request| request.status == 403)
            .collect()
    }

    /// Returns the program's last lines.
    pub(crate) fn tail(&self) -> String {
        self.controller.tail()
    }

    /// Runs all steps of the scenario.
    pub(crate) async fn play(&self) -> Result<()> {
        self.election().await.context("the election")?;
        self.nodes().await.context("Nodes")?;
        self.services().await.context("Services")?;
        if self.cast.volumes {
            self.volumes().await.context("volumes")?;
        }
        self.lifecycle().await.context("the life cycle")?;
        self.scrape().await.context("a scrape")
    }

    /// Stops the program gracefully.
    pub(crate) async fn end(&mut self) -> Result<()> {
        let status = self.controller.stop(STOP).await?;
        ensure!(status.success(), "it ended with {status} after SIGTERM");
        Ok(())
    }

    /// Checks that the program stands by while the Lease is held, acquires a released Lease, and creates a new one
    /// after a deletion.
    async fn election(&self) -> Result<()> {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), "kube-system");
        self.asked("GET", "leases").await?;
        if self.refused().is_empty() {
            // Whether it may watch the Lease shows before the Lease is free.
            tokio::time::timeout(Duration::from_secs(5), self.asked("WATCH", "leases"))
                .await
                .ok();
        }
        if self.cast.vanishes {
            leases.delete(LEASE, &DeleteParams::default()).await?;
        } else {
            let free = Patch::Merge(json!({"spec": {"holderIdentity": ""}}));
            leases.patch(LEASE, &PatchParams::default(), &free).await?;
        }
        until("it leads", SOON, async || {
            let lease = leases.get(LEASE).await?;
            let holder = lease
                .spec
                .and_then(|spec| spec.holder_identity)
                .unwrap_or_default();
            ensure!(
                !holder.is_empty() && holder != "nobody",
                "the holder is {holder:?}"
            );
            Ok(())
        })
        .await?;
        self.asked("PUT", "leases").await
    }

    /// Nodes are initialised, and have routes.
    async fn nodes(&self) -> Result<()> {
        let names = self.names(4);
        for name in &names {
            self.served.cloud.add_machine(NewMachine {
                name: name.clone(),
                ..NewMachine::default()
            });
        }
        self.kubelets.register(&names, true).await?;
        let nodes: Api<Node> = Api::all(self.client.clone());
        for (number, name) in names.iter().enumerate() {
            // kube-controller-manager, if it runs, may be faster; both outcomes are valid.
            let range = format!("10.244.{}.0/24", 200 + number);
            let patch = Patch::Merge(json!({"spec": {"podCIDR": range, "podCIDRs": [range]}}));
            _ = nodes.patch(name, &PatchParams::default(), &patch).await;
        }
        for name in &names {
            until(
                &format!("{name} is initialised and routed"),
                SOON,
                async || {
                    let node = nodes.get(name).await?;
                    ensure!(!has_taint(&node, TAINT_UNINITIALIZED), "it has the taint");
                    let conditions = node
                        .status
                        .and_then(|status| status.conditions)
                        .unwrap_or_default();
                    let said = conditions
                        .iter()
                        .find(|condition| condition.type_ == "NetworkUnavailable")
                        .map(|condition| &*condition.status);
                    ensure!(said == Some("False"), "NetworkUnavailable is {said:?}");
                    Ok(())
                },
            )
            .await?;
        }
        Ok(())
    }

    /// Gives a Service a load balancer, removes it, and creates it again: a repeated event is a patch of the first one.
    /// Then the Service is removed together with its finalizer.
    async fn services(&self) -> Result<()> {
        let services: Api<Service> = Api::default_namespaced(self.client.clone());
        let name = &self.names(1)[0];
        let mut object = load_balancer(name, &[80]);
        object["metadata"]["labels"][OURS] = json!("true");
        services
            .create(&PostParams::default(), &serde_json::from_value(object)?)
            .await?;
        for kind in ["LoadBalancer", "ClusterIP", "LoadBalancer"] {
            let patch = Patch::Merge(json!({"spec": {"type": kind}}));
            services
                .patch(name, &PatchParams::default(), &patch)
                .await?;
            self.balanced(&services, name, kind == "LoadBalancer")
                .await?;
        }
        self.asked("PATCH", "events").await?;
        for _ in 0..20 {
            // Between the two requests it may not put its finalizer back: then it would be a deletion like any other.
            self.controller.freeze()?;
            let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
            services
                .patch_metadata(name, &PatchParams::default(), &free)
                .await?;
            services.delete(name, &DeleteParams::background()).await?;
            self.controller.resume()?;
            until("the Service is gone", SOON, async || {
                ensure!(services.get_opt(name).await?.is_none(), "it is still there");
                Ok(())
            })
            .await?;
            until("its load balancer is gone", SOON, async || {
                ensure!(
                    self.served.cloud.load_balancers().is_empty(),
                    "it is still there"
                );
                Ok(())
            })
            .await?;
            if self.has_asked("GET", "services") {
                return Ok(());
            }
            let mut object = load_balancer(name, &[80]);
            object["metadata"]["labels"][OURS] = json!("true");
            services
                .create(&PostParams::default(), &serde_json::from_value(object)?)
                .await?;
            self.balanced(&services, name, true).await?;
        }
        anyhow::bail!("it never asked for the Service that vanished")
    }

    async fn balanced(&self, services: &Api<Service>, name: &str, is_balanced: bool) -> Result<()> {
        until(
            &format!("{name} is balanced: {is_balanced}"),
            SOON,
            async || {
                let service = services.get(name).await?;
                let held = service
                    .finalizers()
                    .iter()
                    .any(|finalizer| finalizer == FINALIZER_LOAD_BALANCER);
                let ingress = service
                    .status
                    .and_then(|status| status.load_balancer?.ingress)
                    .unwrap_or_default();
                ensure!(
                    held == is_balanced && ingress.is_empty() != is_balanced,
                    "finalizer: {held}, addresses: {ingress:?}"
                );
                Ok(())
            },
        )
        .await
    }

    /// Adds the topology to a volume at the second attempt: another client was faster, and the controller reads the
    /// volume again.
    async fn volumes(&self) -> Result<()> {
        let name = &self.names(1)[0];
        self.served.cloud.add_volume(Volume {
            id: "v-1".to_owned(),
            zones: vec!["sim-1a".to_owned()],
            region: "sim-1".to_owned(),
            project: DEFAULT_PROJECT.to_owned(),
        });
        self.proxy.conflict_once("PATCH", "persistentvolumes");
        let volumes: Api<PersistentVolume> = Api::all(self.client.clone());
        let object = json!({
            "apiVersion": "v1", "kind": "PersistentVolume",
            "metadata": {"name": name, "labels": {OURS: "true"}},
            "spec": {
                "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "e2e",
                "persistentVolumeReclaimPolicy": "Retain", "csi": {"driver": "simulated.csi", "volumeHandle": "v-1"},
            },
        });
        volumes
            .create(&PostParams::default(), &serde_json::from_value(object)?)
            .await?;
        until("the volume has its zone", SOON, async || {
            let volume = volumes.get(name).await?;
            ensure!(
                volume.labels().contains_key(LABEL_ZONE),
                "it has the labels {:?}",
                volume.labels()
            );
            Ok(())
        })
        .await
    }

    /// Checks the lifecycle of a machine that is shut down and of one that was deleted.
    async fn lifecycle(&self) -> Result<()> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let names = self.names(4);
        self.served.cloud.stop(&names[0]);
        self.kubelets.report(&names[0], false).await?;
        until("the shutdown taint", SOON, async || {
            ensure!(is_shut_down(&nodes.get(&names[0]).await?), "there is none");
            Ok(())
        })
        .await?;
        self.served.cloud.terminate(&names[1]);
        self.kubelets.report(&names[1], false).await?;
        until("the Node is deleted", SOON, async || {
            ensure!(
                nodes.get_opt(&names[1]).await?.is_none(),
                "it is still there"
            );
            Ok(())
        })
        .await
    }

    /// Scrapes the metrics with a permitted token, and checks that a token without the permission is refused.
    async fn scrape(&self) -> Result<()> {
        let mut config = Config::new(format!("https://127.0.0.1:{}", self.port).parse()?);
        config.accept_invalid_certs = true;
        config.default_retry = false;
        let stranger = Client::try_from(config.clone())?;
        config.auth_info.token = Some(accounts::token(&self.client, SCRAPER).await?.into());
        let scraper = Client::try_from(config)?;
        let metrics = || http::Request::get("/metrics").body(Vec::new());
        until("the metrics", SOON, async || {
            let text = scraper.request_text(metrics()?).await?;
            ensure!(
                text.contains("running_managed_controllers"),
                "no series of ours in {} bytes",
                text.len()
            );
            Ok(())
        })
        .await?;
        // The requests of the manifests' probes (DEP-50, DEP-51).
        for probe in ["/healthz", "/readyz"] {
            stranger
                .request_text(http::Request::get(probe).body(Vec::new())?)
                .await
                .context(probe)?;
        }
        match stranger.request_text(metrics()?).await {
            Err(kube::Error::Api(status)) if status.code == 403 => Ok(()),
            other => anyhow::bail!("somebody without a name got {other:?} instead of 403"),
        }
    }

    fn names(&self, count: usize) -> Vec<String> {
        (1..=count)
            .map(|number| format!("{}-{number}", self.label))
            .collect()
    }

    fn has_asked(&self, verb: &str, resource: &str) -> bool {
        self.proxy
            .requests()
            .all()
            .iter()
            .any(|request| request.verb == verb && request.resource == resource)
    }

    async fn asked(&self, verb: &str, resource: &str) -> Result<()> {
        until(&format!("{verb} {resource}"), SOON, async || {
            ensure!(self.has_asked(verb, resource), "it did not ask");
            Ok(())
        })
        .await
    }
}

fn arguments(cast: Cast, served: &ServedCloud, kubeconfig: &Path, port: u16) -> Vec<String> {
    let file = kubeconfig.display();
    let controllers = if cast.volumes {
        "*,persistent-volume-label-controller"
    } else {
        "*"
    };
    vec![
        "--cloud-provider=simulated".to_owned(),
        format!("--cloud-config={}", served.config().display()),
        format!("--kubeconfig={file}"),
        format!("--authentication-kubeconfig={file}"),
        format!("--authorization-kubeconfig={file}"),
        format!("--controllers={controllers}"),
        "--cluster-cidr=10.244.0.0/16".to_owned(),
        "--leader-elect=true".to_owned(),
        // A candidate that sees a deleted Lease waits for the whole lease duration.
        format!(
            "--leader-elect-lease-duration={}s",
            if cast.vanishes { 8 } else { 60 }
        ),
        format!(
            "--leader-elect-renew-deadline={}s",
            if cast.vanishes { 7 } else { 50 }
        ),
        "--leader-elect-retry-period=1s".to_owned(),
        format!("--use-service-account-credentials={}", cast.accounts),
        format!("--secure-port={port}"),
        "--bind-address=127.0.0.1".to_owned(),
        "--node-monitor-period=500ms".to_owned(),
        "--route-reconciliation-period=1s".to_owned(),
    ]
}

/// Returns a free port, outside of the range from which the system assigns ports, so that it stays free until the
/// program binds it.
fn free_port() -> Result<u16> {
    let is_free = |port: &u16| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let mut ports = std::iter::repeat_with(|| fastrand::u16(20_000..30_000)).take(100);
    ports.find(is_free).context("no port is free")
}

/// Creates a Lease whose holder ended recently.
async fn hold_the_lease(client: &Client) -> Result<()> {
    let now = Timestamp::now()
        .strftime("%Y-%m-%dT%H:%M:%S.%6fZ")
        .to_string();
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": LEASE},
        "spec": {"holderIdentity": "nobody", "leaseDurationSeconds": 4, "acquireTime": now, "renewTime": now, "leaseTransitions": 0},
    });
    let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-system");
    leases
        .patch(
            LEASE,
            &PatchParams::apply("e2e").force(),
            &Patch::Apply(lease),
        )
        .await?;
    Ok(())
}

/// Removes whatever these tests left in the cluster, but for the account and its roles.
pub(crate) async fn clean_up(client: &Client) -> Result<()> {
    crate::kubelets::clean_up(client).await?;
    let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-system");
    _ = leases.delete(LEASE, &DeleteParams::default()).await;
    let_go(&Api::<Service>::default_namespaced(client.clone())).await?;
    let_go(&Api::<PersistentVolume>::all(client.clone())).await
}

async fn let_go<K>(api: &Api<K>) -> Result<()>
where
    K: kube::Resource + Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    let ours = kube::api::ListParams::default().labels(OURS);
    for object in api.list_metadata(&ours).await? {
        let free: Patch<Value> = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        _ = api
            .patch_metadata(&object.name_any(), &PatchParams::default(), &free)
            .await;
        _ = api
            .delete(&object.name_any(), &DeleteParams::background())
            .await;
    }
    Ok(())
}
