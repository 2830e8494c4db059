//! Harness of the scenarios: a project, a Kubernetes API, and the binary between them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use ccm_conformance::fault_injector::{FaultInjector, Passed, Side};
use ccm_conformance::user::User;
use ccm_tests::controller::Controller;
use ccm_tests::wait::{until, until_every};
use embedded_apiserver::ApiServer;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cloud::{Api, Cloud, text};
use crate::environment::Environment;
use crate::project::Project;
use crate::relay::{Served, Tokens};
use crate::snapshot::Snapshot;

/// Time-out of operations that take the cloud seconds. A long time-out only delays the report of a failure: where two
/// cores serve the control plane, four scenarios and a compiler, Octavia needed more than a minute for a load balancer.
pub(crate) const SOON: Duration = Duration::from_secs(300);
/// Pause between two reads of the cloud, each of which is some ten lists: more frequent ones would keep Neutron busy.
pub(crate) const LOOK: Duration = Duration::from_millis(1500);
/// Time-out of a graceful stop.
const STOP: Duration = Duration::from_secs(90);
/// Time without requests after which the program counts as idle. If the time is too short, fewer requests are seen, and
/// no test fails.
const SILENCE: Duration = Duration::from_secs(3);
/// Pods are in these.
pub(crate) const CLUSTER_CIDR: &str = "10.244.0.0/16";

pub(crate) const ID: &str = "loadbalancer.openstack.org/load-balancer-id";

/// Settings of a scenario.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    /// Short name of the scenario.
    pub(crate) label: &'static str,
    /// Lines of `[LoadBalancer]`, after those that are always there and before they count; and sections after it.
    pub(crate) balancers: &'static str,
    /// If set, Pod CIDRs are routed.
    pub(crate) routes: bool,
    /// Further flags of the program.
    pub(crate) flags: &'static [&'static str],
    /// The program is started by the scenario, not before it.
    pub(crate) starts_later: bool,
}

/// A stage with everything on it.
pub(crate) struct Scene {
    pub(crate) settings: Settings,
    pub(crate) project: Project,
    /// Client of the project, independent of the program.
    pub(crate) cloud: Cloud,
    pub(crate) api: ApiServer,
    pub(crate) user: User,
    /// Fault injector that all requests of the program pass.
    pub(crate) injector: FaultInjector,
    pub(crate) tokens: Tokens,
    pub(crate) before: Snapshot,
    program: Option<Controller>,
    binary: PathBuf,
    directory: TempDir,
    starts: usize,
    kubernetes: Served,
    relay: Served,
    last: Instant,
    log: String,
}

/// Plays a scenario in a project that is in the end as it was.
pub(crate) async fn play(
    environment: &Environment,
    settings: Settings,
    body: impl AsyncFnOnce(&mut Scene) -> Result<()>,
) -> Result<()> {
    let _peace = environment.peace.read().await;
    play_in_peace(environment, settings, body).await
}

/// Runs a scenario like `play`, while no other uses the cloud.
pub(crate) async fn play_in_peace(
    environment: &Environment,
    settings: Settings,
    body: impl AsyncFnOnce(&mut Scene) -> Result<()>,
) -> Result<()> {
    let start = Instant::now();
    let project = environment
        .pool
        .take(environment)
        .await
        .context("a project")?;
    let mut scene = Scene::set(environment, project, settings).await?;
    scene.last = start;
    scene.did("a project of its own");
    let played = async {
        if !scene.settings.starts_later {
            scene.start()?;
        }
        body(&mut scene).await?;
        scene.end().await?;
        scene.is_as_before().await
    }
    .await;
    print!("{}", scene.log);
    match played {
        Ok(()) => {
            environment.pool.give_back(scene.project.clone());
            Ok(())
        }
        // The reason stands last, too: of a long log, CI shows the end.
        Err(error) => Err(anyhow!(
            "{error:#}\n{}\n{}: {error:#}",
            scene.explain(),
            scene.settings.label
        )),
    }
}

impl Scene {
    /// Creates an empty cluster in this project.
    pub(crate) async fn set(
        environment: &Environment,
        project: Project,
        settings: Settings,
    ) -> Result<Self> {
        let cloud = project.cloud().await?;
        let server = embedded_apiserver::Options {
            taint_new_nodes: false,
            ..Default::default()
        };
        let api = ApiServer::with_options(server);
        let injector = FaultInjector::new(1);
        let tokens = Tokens::default();
        let scene = Self {
            user: User::of(&api),
            before: Snapshot::of(&cloud).await?,
            kubernetes: Served::kubernetes(&api, &injector).await?,
            relay: Served::cloud(&cloud, &injector, &tokens).await?,
            program: None,
            binary: environment.binary()?.clone(),
            directory: TempDir::with_prefix("ccm-openstack-")?,
            starts: 0,
            last: Instant::now(),
            log: format!("  {}:\n", settings.label),
            settings,
            project,
            cloud,
            api,
            injector,
            tokens,
        };
        std::fs::write(
            scene.file("kubeconfig"),
            embedded_apiserver::kubeconfig(&scene.kubernetes.address, None, None),
        )?;
        scene.configure(scene.project.password())?;
        Ok(scene)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes `cloud.conf` for the project's own user with this password.
    pub(crate) fn configure(&self, password: &str) -> Result<()> {
        self.configure_for(&self.project.name, password, &self.project.name)
    }

    /// Writes `cloud.conf` for another user or project.
    pub(crate) fn configure_for(&self, user: &str, password: &str, project: &str) -> Result<()> {
        self.configure_as(&format!(
            "username={user}\npassword={password}\ntenant-name={project}\ndomain-name=Default"
        ))
    }

    /// Writes `cloud.conf`, in which these lines of `[Global]` are the credential.
    pub(crate) fn configure_as(&self, who: &str) -> Result<()> {
        let Project {
            network,
            subnet,
            public_network,
            router,
            name,
            ..
        } = &self.project;
        let mut conf = format!(
            "[Global]\nauth-url={}/identity/v3\n{who}\nregion=RegionOne\n\n\
             [Networking]\ninternal-network-name={name}-net\n\n\
             [LoadBalancer]\nfloating-network-id={public_network}\nsubnet-id={subnet}\nnetwork-id={network}\n{}\n",
            self.relay.address, self.settings.balancers
        );
        if self.settings.routes {
            write!(conf, "\n[Route]\nrouter-id={router}\n")?;
        }
        // Replaced atomically, as the kubelet does.
        std::fs::write(self.file("new"), conf)?;
        Ok(std::fs::rename(self.file("new"), self.file("cloud.conf"))?)
    }

    /// Starts the program under test.
    pub(crate) fn start(&mut self) -> Result<()> {
        self.starts += 1;
        self.injector.revive();
        let routes = self.settings.routes;
        let own = [
            "--cloud-provider=openstack".to_owned(),
            format!("--cloud-config={}", self.file("cloud.conf").display()),
            format!("--kubeconfig={}", self.file("kubeconfig").display()),
            format!("--cluster-name={}", self.settings.label),
            "--leader-elect=false".to_owned(),
            "--secure-port=0".to_owned(),
            "--node-monitor-period=1s".to_owned(),
            format!("--configure-cloud-routes={routes}"),
            format!("--allocate-node-cidrs={routes}"),
        ];
        let ranges = [
            format!("--cluster-cidr={CLUSTER_CIDR}"),
            "--route-reconciliation-period=5s".to_owned(),
        ];
        let further = self.settings.flags.iter().map(|flag| (*flag).to_owned());
        let arguments = own
            .into_iter()
            .chain(ranges.into_iter().filter(|_| routes))
            .chain(further);
        let log = self.file(&format!("log-{}", self.starts));
        self.program = Some(Controller::start(
            &self.binary,
            arguments.map(Into::into),
            &log,
        )?);
        Ok(())
    }

    /// Kills the program at once.
    pub(crate) async fn kill(&mut self) -> Result<()> {
        match self.program.take() {
            Some(mut program) => program.kill().await,
            None => Ok(()),
        }
    }

    /// Checks that the program still runs, and stops it gracefully.
    pub(crate) async fn end(&mut self) -> Result<()> {
        let Some(program) = &mut self.program else {
            return Ok(());
        };
        let status = program.stop(STOP).await?;
        self.program = None;
        ensure!(
            status.success(),
            "the binary ended with {status} after SIGTERM"
        );
        Ok(())
    }

    /// Restarts the program gracefully, and checks that it reads all load balancers and changes nothing.
    pub(crate) async fn restarts_without_a_change(&mut self) -> Result<()> {
        self.end().await?;
        let asked = self.asked().len();
        let changes = self.changes().len();
        self.start()?;
        until(
            "the new life looks at the members of the load balancers",
            SOON,
            async || {
                ensure!(
                    self.asked()
                        .split_off(asked)
                        .iter()
                        .any(|request| request.target.contains("/members")),
                    "it did not yet"
                );
                Ok(())
            },
        )
        .await?;
        self.is_silent().await;
        let changes = self.changes().split_off(changes);
        ensure!(
            changes.is_empty(),
            "after a restart it changed {changes:#?}"
        );
        Ok(())
    }

    /// Waits until no further request about load balancers or networks follows.
    pub(crate) async fn is_silent(&self) {
        let asked = || {
            self.asked()
                .iter()
                .filter(|request| !request.target.starts_with("/compute"))
                .count()
        };
        let mut count = asked();
        loop {
            tokio::time::sleep(SILENCE).await;
            let now = asked();
            if now == count {
                return;
            }
            count = now;
        }
    }

    /// Returns the running program.
    pub(crate) fn program(&mut self) -> Result<&mut Controller> {
        self.program.as_mut().context("it does not run")
    }

    /// Checks that no earlier object was deleted and no new one remains.
    pub(crate) async fn is_as_before(&self) -> Result<()> {
        until_every(LOOK, "the project is as it was", SOON, async || {
            let differences = self.before.differences(&Snapshot::of(&self.cloud).await?);
            ensure!(differences.is_empty(), "{}", differences.join("\n"));
            Ok(())
        })
        .await
    }

    /// Notes what was done since the last note, and how long it took.
    pub(crate) fn did(&mut self, what: &str) {
        let took = self.last.elapsed();
        self.last = Instant::now();
        _ = writeln!(self.log, "    {:>5.1} s  {what}", took.as_secs_f64());
    }

    /// Returns details of a failure.
    pub(crate) fn explain(&self) -> String {
        let journal = self.injector.journal();
        let last = journal[journal.len().saturating_sub(40)..].join("\n");
        let events: Vec<String> = self.api.list("events").iter().map(event).collect();
        let tail = self
            .program
            .as_ref()
            .map(Controller::tail)
            .unwrap_or_default();
        let log = &self.log;
        format!(
            "{log}events:\n{}\nlast requests:\n{last}\nthe binary's last lines:\n{tail}",
            events.join("\n")
        )
    }

    /// Returns the messages of all events with this reason.
    pub(crate) fn events(&self, reason: &str) -> Vec<String> {
        self.api
            .list("events")
            .iter()
            .filter(|event| event["reason"] == reason)
            .map(event)
            .collect()
    }

    pub(crate) async fn snapshot(&self) -> Result<Snapshot> {
        Snapshot::of(&self.cloud).await
    }

    /// Returns the requests of the program to the cloud so far, without those to Keystone.
    pub(crate) fn asked(&self) -> Vec<Passed> {
        let mut passed = self.injector.passed();
        passed.retain(|request| {
            request.side == Side::Cloud && !request.target.starts_with("/identity")
        });
        passed
    }

    /// Returns the requests that asked for a change.
    pub(crate) fn changes(&self) -> Vec<Passed> {
        let mut asked = self.asked();
        asked.retain(Passed::is_mutation);
        asked
    }

    // Nodes.

    /// Registers Nodes, each with a Pod CIDR of its number, and waits until they are initialised.
    pub(crate) async fn join(&mut self, names: &[&str]) -> Result<()> {
        for name in names {
            self.user.register_node(name, &[pod_cidr(name)]).await;
        }
        for name in names {
            self.becomes(name, "initialised", |node| {
                node["spec"]["providerID"].is_string()
            })
            .await?;
        }
        Ok(())
    }

    pub(crate) fn node(&self, name: &str) -> Option<Value> {
        self.api.get("nodes", None, name)
    }

    /// Waits until a Node is as `check` wants it.
    pub(crate) async fn becomes(
        &self,
        name: &str,
        what: &str,
        check: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        until(&format!("{name}: {what}"), SOON, async || {
            let node = self.node(name).context("there is no such Node")?;
            ensure!(check(&node), "not yet: {}", node["spec"]);
            Ok(node)
        })
        .await
    }

    // Services.

    /// Creates a Service of type `LoadBalancer`, with what is particular to it merged into it.
    pub(crate) async fn create_service(
        &self,
        name: &str,
        ports: &[(u16, u16)],
        further: Value,
    ) -> Value {
        let ports: Vec<Value> = ports.iter().map(port).collect();
        let mut service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"type": "LoadBalancer", "selector": {"app": name}, "ports": ports},
        });
        merge(&mut service, further);
        self.user
            .create("/api/v1/namespaces/default/services", &service)
            .await
    }

    pub(crate) async fn change_service(&self, name: &str, patch: Value) -> Result<()> {
        ensure!(
            self.user.patch_service(name, &patch).await,
            "there is no Service {name}"
        );
        Ok(())
    }

    /// Replaces a Service's ports.
    pub(crate) async fn set_ports(&self, name: &str, ports: &[(u16, u16)]) -> Result<()> {
        let mut list = vec![json!({"$patch": "replace"})];
        list.extend(ports.iter().map(port));
        self.change_service(name, json!({"spec": {"ports": list}}))
            .await
    }

    pub(crate) fn service(&self, name: &str) -> Result<Value> {
        self.api
            .get("services", Some("default"), name)
            .with_context(|| format!("there is no Service {name}"))
    }

    /// Waits until it is published; where.
    pub(crate) async fn published(&self, name: &str) -> Result<String> {
        until(&format!("{name} is published"), SOON, async || {
            let service = self.service(name)?;
            let ingress = &service["status"]["loadBalancer"]["ingress"][0];
            let shown = ingress["ip"].as_str().or(ingress["hostname"].as_str());
            shown.map(str::to_owned).context("it has no address")
        })
        .await
    }

    /// Returns the ID of the Service's load balancer, from its annotation.
    pub(crate) fn balancer_id(&self, name: &str) -> Result<String> {
        let service = self.service(name)?;
        let id = service["metadata"]["annotations"][ID]
            .as_str()
            .map(str::to_owned);
        id.with_context(|| format!("{name} has no annotation {ID}"))
    }

    /// Returns the load balancer's listeners by port.
    pub(crate) async fn listeners(&self, name: &str) -> Result<BTreeMap<u64, Listener>> {
        listeners(&self.cloud, &self.balancer_id(name)?).await
    }

    /// Waits until the listeners of its load balancer are as `check` wants them.
    pub(crate) async fn balanced(
        &self,
        name: &str,
        what: &str,
        check: impl Fn(&BTreeMap<u64, Listener>) -> bool,
    ) -> Result<()> {
        until_every(LOOK, &format!("{name}: {what}"), SOON, async || {
            let balancer = self.balancer_id(name)?;
            let balancer = self
                .cloud
                .get(Api::Balancer, &format!("/loadbalancers/{balancer}"))
                .await?;
            let status = &balancer["loadbalancer"]["provisioning_status"];
            let listeners = self.listeners(name).await?;
            ensure!(check(&listeners), "not yet: {listeners:#?}");
            ensure!(status == "ACTIVE", "the load balancer is {status}");
            Ok(())
        })
        .await
    }

    /// Waits until everything in the project is as `check` wants it.
    pub(crate) async fn holds(&self, what: &str, check: impl Fn(&Snapshot) -> bool) -> Result<()> {
        until_every(LOOK, what, SOON, async || {
            let now = self.snapshot().await?;
            ensure!(check(&now), "not yet: {:#?}", self.before.differences(&now));
            Ok(())
        })
        .await
    }

    /// Deletes a Service and waits until it no longer exists.
    pub(crate) async fn delete_service(&self, name: &str) -> Result<()> {
        self.delete_services(&[name]).await
    }

    /// Deletes several Services at once.
    pub(crate) async fn delete_services(&self, names: &[&str]) -> Result<()> {
        for name in names {
            ensure!(
                self.user.delete_service(name).await,
                "there is no Service {name}"
            );
        }
        for name in names {
            self.service_is_gone(name).await?;
        }
        Ok(())
    }

    pub(crate) async fn service_is_gone(&self, name: &str) -> Result<()> {
        until(&format!("Service {name} is gone"), SOON, async || {
            ensure!(
                self.api.get("services", Some("default"), name).is_none(),
                "it is there"
            );
            Ok(())
        })
        .await
    }

    /// Checks that the program requests no change for this time.
    pub(crate) async fn is_calm(&self, time: Duration) -> Result<()> {
        let before = self.changes().len();
        tokio::time::sleep(time).await;
        let changes = self.changes().split_off(before);
        ensure!(
            changes.is_empty(),
            "in a steady state it asked for {changes:#?}"
        );
        Ok(())
    }
}

/// A listener and what is behind it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Listener {
    pub(crate) listener: Value,
    pub(crate) pool: Value,
    pub(crate) members: Vec<Value>,
    pub(crate) monitor: Value,
}

impl Listener {
    /// Returns the names and ports of the members, in order.
    pub(crate) fn members(&self) -> Vec<(String, u64)> {
        let member = |object: &Value| {
            (
                text(object, "name").to_owned(),
                object["protocol_port"].as_u64().unwrap_or_default(),
            )
        };
        let mut members: Vec<_> = self.members.iter().map(member).collect();
        members.sort();
        members
    }
}

/// Returns the listeners of a load balancer by port.
pub(crate) async fn listeners(cloud: &Cloud, balancer: &str) -> Result<BTreeMap<u64, Listener>> {
    let pools = cloud
        .list(Api::Balancer, &format!("/pools?loadbalancer_id={balancer}"))
        .await?;
    let monitors = cloud.list(Api::Balancer, "/healthmonitors").await?;
    let mut found = BTreeMap::new();
    for listener in cloud
        .list(
            Api::Balancer,
            &format!("/listeners?loadbalancer_id={balancer}"),
        )
        .await?
    {
        let pool = pools
            .iter()
            .find(|pool| pool["id"] == listener["default_pool_id"])
            .cloned()
            .unwrap_or_default();
        let monitor = monitors
            .iter()
            .find(|monitor| !pool.is_null() && monitor["id"] == pool["healthmonitor_id"])
            .cloned();
        let members = match pool["id"].as_str() {
            Some(id) => {
                cloud
                    .list(Api::Balancer, &format!("/pools/{id}/members"))
                    .await?
            }
            None => Vec::new(),
        };
        let port = listener["protocol_port"].as_u64().unwrap_or_default();
        found.insert(
            port,
            Listener {
                listener,
                pool,
                members,
                monitor: monitor.unwrap_or_default(),
            },
        );
    }
    Ok(found)
}

/// Returns the Pod CIDR of a Node, by the number in its name.
pub(crate) fn pod_cidr(node: &str) -> String {
    format!(
        "10.244.{}.0/24",
        node.rsplit('-').next().unwrap_or_default()
    )
}

fn port((port, node_port): &(u16, u16)) -> Value {
    json!({"name": format!("p{port}"), "port": port, "nodePort": node_port, "protocol": "TCP", "targetPort": 8080})
}

fn event(event: &Value) -> String {
    let object = &event["involvedObject"];
    format!(
        "{} {} {}: {}",
        object["kind"], object["name"], event["reason"], event["message"]
    )
    .replace('"', "")
}

/// Puts what `further` has into `value`.
fn merge(value: &mut Value, further: Value) {
    match (value, further) {
        (Value::Object(map), Value::Object(further)) => {
            for (key, further) in further {
                merge(map.entry(key).or_insert(Value::Null), further);
            }
        }
        (value, further) => *value = further,
    }
}
