//! Command line of the benchmark.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::services;

/// kube-apiserver gives out 30000 to 32767.
const MOST_NODE_PORTS: usize = 2768;

pub(crate) const USAGE: &str = "usage: cargo bench -p ccm-tests --bench scale -- [--nodes 5000] [--services 0] \
[--images 25] [--concurrency 16] [--steady SECONDS] [--limit 480] [--plain] [--cloud simulated] [--binary PATH] [--then PATH] \
[--settle SECONDS] [--same-nodes] [FLAGS OF THE CONTROLLER…]
  --limit SECONDS      time for each wait; a Go program may need more to create many load balancers
  --services N         after the burst of Nodes the phases of N Services, instead of the others of Nodes
  --plain              Nodes with two labels and one condition, as the peers' benchmark makes them
  --cloud NAME         the fake of this provider
  --binary PATH        any program for it, also the Go cloud-controller-manager of the cloud
  --then PATH          takes over from it in phase `restart`
  --settle SECONDS     before `restart`, a phase that ends when the first program has sent no write for so long; `restart`
                       ends in the same way
  --same-nodes         without the phases `node joins` and `node flaps`
  CCM_TEST_KUBECONFIG  a test cluster without kube-controller-manager, instead of the embedded API server
  CCM_TEST_BINARY      a controller, instead of the dist build of this tree";

/// Size of the measured cluster, and its programs.
#[derive(Default)]
pub(crate) struct Arguments {
    /// Number of Nodes in the cluster.
    pub(crate) nodes: usize,
    /// Services of type `LoadBalancer`; with any, the phases are theirs.
    pub(crate) services: usize,
    /// Images that each Node lists.
    pub(crate) images: usize,
    /// Value of the flag `--concurrent-node-syncs`.
    pub(crate) concurrency: usize,
    /// Length of the steady phase, in seconds.
    pub(crate) steady: u64,
    /// Time for each wait, in seconds.
    pub(crate) limit: u64,
    /// Time without a write after which a program has settled, in seconds; 0: it is not waited for.
    pub(crate) settle: u64,
    /// Leaves out the phases in which a Node joins and flaps.
    pub(crate) same_nodes: bool,
    /// The profile of the cloud.
    pub(crate) cloud: String,
    /// The program; by default the dist build of this tree.
    pub(crate) binary: Option<PathBuf>,
    /// The program that takes over in phase `restart`; by default the same.
    pub(crate) then: Option<PathBuf>,
    /// Nodes with less in them than a kubelet writes.
    pub(crate) plain: bool,
    /// Further flags of the controller.
    pub(crate) flags: Vec<String>,
}

impl Arguments {
    pub(crate) fn parse(words: Vec<String>) -> Result<Self> {
        let mut arguments = Self {
            nodes: 5000,
            images: 25,
            concurrency: 16,
            steady: 30,
            limit: 480,
            cloud: "simulated".to_owned(),
            ..Self::default()
        };
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let (name, value) = match word.split_once('=') {
                Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                None => (word.clone(), None),
            };
            let mut text = || {
                value
                    .clone()
                    .or_else(|| words.next())
                    .with_context(|| format!("{name} needs a value"))
            };
            if let Some(slot) = match &*name {
                "--binary" => Some(&mut arguments.binary),
                "--then" => Some(&mut arguments.then),
                _ => None,
            } {
                *slot = Some(path(&text()?)?);
                continue;
            }
            let mut number = || -> Result<u64> {
                let value = text()?;
                value
                    .parse()
                    .with_context(|| format!("{name} {value} is no number"))
            };
            match &*name {
                "--bench" => {}
                "--plain" => arguments.plain = true,
                "--same-nodes" => arguments.same_nodes = true,
                "--cloud" => arguments.cloud = text()?,
                "--nodes" => arguments.nodes = usize::try_from(number()?)?,
                "--services" => arguments.services = usize::try_from(number()?)?,
                "--images" => arguments.images = usize::try_from(number()?)?,
                "--concurrency" => arguments.concurrency = usize::try_from(number()?)?,
                "--steady" => arguments.steady = number()?,
                "--limit" => arguments.limit = number()?,
                "--settle" => arguments.settle = number()?,
                flag if flag.starts_with("--") => arguments.flags.push(word),
                other => bail!("unknown argument {other:?}"),
            }
        }
        ensure!(
            arguments.nodes >= 50,
            "--nodes must be at least 50: a tenth of them goes, and five are switched off"
        );
        ensure!(
            arguments.settle < arguments.limit,
            "--settle {} must be less than --limit {}, the time for each wait",
            arguments.settle,
            arguments.limit
        );
        ensure!(
            arguments.services * services::PORTS.len() <= MOST_NODE_PORTS,
            "--services must be {} at most: each takes {} of the {MOST_NODE_PORTS} node ports",
            MOST_NODE_PORTS / services::PORTS.len(),
            services::PORTS.len()
        );
        Ok(arguments)
    }

    /// Returns the time for each wait.
    pub(crate) fn limit(&self) -> Duration {
        Duration::from_secs(self.limit)
    }

    /// Returns a tenth of the Nodes.
    pub(crate) fn tenth(&self) -> usize {
        self.nodes / 10
    }
}

/// Returns an absolute path. Cargo runs benches in the package's directory, people call it from the workspace's.
fn path(text: &str) -> Result<PathBuf> {
    let path = PathBuf::from(text);
    let from_workspace = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).join(&path);
    let path = if path.exists() { path } else { from_workspace };
    std::fs::canonicalize(&path).with_context(|| format!("{text} does not exist"))
}
