//! The test bed: containerd, a kubelet and the control plane.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tokio::process::Command;

use crate::commands::output;

/// Name of the Node, and of its machine in each cloud.
pub(crate) const NODE: &str = "worker-0";
/// Port of the API server: that of kubeadm on a control-plane node, where the manager looks for it.
pub(crate) const API_PORT: &str = "6443";

/// Scripts and state of the test bed.
#[derive(Clone)]
pub(crate) struct Bed {
    scripts: PathBuf,
    state: PathBuf,
}

impl Bed {
    /// Returns the bed with these scripts.
    pub(crate) fn of(scripts: &Path) -> Self {
        let state = std::env::var_os("TESTBED_DIR")
            .map_or_else(|| PathBuf::from("/tmp/testbed"), PathBuf::from);
        Self {
            scripts: scripts.to_owned(),
            state,
        }
    }

    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .env("NODE_NAME", NODE)
            .env("PORT_API", API_PORT)
            .env("KUBECONFIG", self.kubeconfig());
        command
    }

    fn script(&self, name: &str) -> Command {
        self.command(self.scripts.join(name))
    }

    /// Returns kubectl for the cluster.
    pub(crate) fn kubectl(&self) -> Command {
        self.command("kubectl")
    }

    /// Returns a program for the cluster.
    pub(crate) fn program(&self, program: &Path) -> Command {
        self.command(program)
    }

    /// Returns the kubeconfig of an administrator.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.state.join("kubernetes/out/kubeconfig")
    }

    /// Returns a file of the control plane's keys and certificates.
    pub(crate) fn key(&self, name: &str) -> PathBuf {
        self.state.join("kubernetes/pki").join(name)
    }

    /// Removes what an earlier run left, and starts everything.
    pub(crate) async fn start_again(&self) -> Result<()> {
        output(self.script("down.sh").arg("--purge"))
            .await
            .context("removing an earlier test bed")?;
        output(&mut self.script("up.sh"))
            .await
            .context("starting the test bed")?;
        Ok(())
    }

    /// Stops the kubelet; the control plane and the container runtime stay.
    pub(crate) async fn stop_kubelet(&self) -> Result<()> {
        let stop = ". \"$0\" && finish kubelet";
        output(
            self.command("bash")
                .args(["-c", stop])
                .arg(self.scripts.join("lib.sh")),
        )
        .await?;
        Ok(())
    }

    /// Starts the kubelet, which registers its Node.
    pub(crate) async fn start_kubelet(&self) -> Result<()> {
        output(&mut self.script("up.sh"))
            .await
            .context("starting the kubelet")?;
        Ok(())
    }

    /// Gives the Node an image.
    pub(crate) async fn import(&self, archive: &Path, name: &str) -> Result<()> {
        let Err(error) = output(self.script("image.sh").arg(archive).arg(name)).await else {
            return Ok(());
        };
        // The script's last check also fails if it finds the name before the list of images has ended.
        let images = output(self.ctr().args(["images", "ls", "-q"])).await?;
        if images.lines().any(|image| image == name) {
            Ok(())
        } else {
            Err(error)
        }
    }

    /// Returns the client of containerd, for the images and containers of the kubelet.
    fn ctr(&self) -> Command {
        let mut command = Command::new("ctr");
        command
            .arg("-a")
            .arg(self.state.join("node/containerd.sock"))
            .args(["-n", "k8s.io"]);
        command
    }

    /// Returns the process of a container, whose ID is `containerd://…`.
    pub(crate) async fn process_of(&self, container: &str) -> Result<String> {
        let id = container.trim_start_matches("containerd://");
        let tasks = output(self.ctr().args(["tasks", "ls"])).await?;
        let found = tasks
            .lines()
            .find_map(|line| line.strip_prefix(id)?.split_whitespace().next());
        found
            .map(str::to_owned)
            .with_context(|| format!("{container} is not among the tasks of containerd: {tasks}"))
    }

    /// Returns a client with the rights of an administrator that repeats nothing by itself.
    pub(crate) async fn client(&self) -> Result<Client> {
        let file = Kubeconfig::read_from(self.kubeconfig())?;
        let mut config =
            Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
        config.default_retry = false;
        Ok(Client::try_from(config)?)
    }
}
