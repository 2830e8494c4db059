//! The command line.

use anyhow::{Context, Result, bail, ensure};

use crate::services;

/// kube-apiserver gives out 30000 to 32767.
const MOST_NODE_PORTS: usize = 2768;

pub(crate) const USAGE: &str = "usage: cargo bench -p ccm-tests --bench scale -- [--nodes 5000] [--services 0] \
[--images 25] [--concurrency 16] [--steady SECONDS] [--plain] [FLAGS OF THE CONTROLLER…]
  --services N         after the burst of Nodes the phases of N Services, instead of the others of Nodes
  --plain              Nodes with two labels and one condition, as the peers' benchmark makes them
  CCM_TEST_KUBECONFIG  a test cluster without kube-controller-manager, instead of the embedded API server
  CCM_TEST_BINARY      a controller, instead of the release build of this tree";

/// What is measured.
pub(crate) struct Arguments {
    /// Nodes.
    pub(crate) nodes: usize,
    /// Services of type `LoadBalancer`; with any, the phases are theirs.
    pub(crate) services: usize,
    /// Images that each Node lists.
    pub(crate) images: usize,
    /// `--concurrent-node-syncs`.
    pub(crate) concurrency: usize,
    /// Length of the steady phase, in seconds.
    pub(crate) steady: u64,
    /// Nodes with less in them than a kubelet writes.
    pub(crate) plain: bool,
    /// Further flags of the controller.
    pub(crate) flags: Vec<String>,
}

impl Arguments {
    pub(crate) fn parse(words: Vec<String>) -> Result<Self> {
        let mut arguments =
            Self { nodes: 5000, services: 0, images: 25, concurrency: 16, steady: 30, plain: false, flags: Vec::new() };
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let (name, value) = match word.split_once('=') {
                Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                None => (word.clone(), None),
            };
            let mut number = || -> Result<u64> {
                let value = value.clone().or_else(|| words.next()).with_context(|| format!("{name} needs a number"))?;
                value.parse().with_context(|| format!("{name} {value} is no number"))
            };
            match &*name {
                "--bench" => {}
                "--plain" => arguments.plain = true,
                "--nodes" => arguments.nodes = usize::try_from(number()?)?,
                "--services" => arguments.services = usize::try_from(number()?)?,
                "--images" => arguments.images = usize::try_from(number()?)?,
                "--concurrency" => arguments.concurrency = usize::try_from(number()?)?,
                "--steady" => arguments.steady = number()?,
                flag if flag.starts_with("--") => arguments.flags.push(word),
                other => bail!("unknown argument {other:?}"),
            }
        }
        ensure!(arguments.nodes >= 50, "--nodes must be at least 50: a tenth of them goes, and five are switched off");
        ensure!(
            arguments.services * services::PORTS.len() <= MOST_NODE_PORTS,
            "--services must be {} at most: each takes {} of the {MOST_NODE_PORTS} node ports",
            MOST_NODE_PORTS / services::PORTS.len(),
            services::PORTS.len()
        );
        Ok(arguments)
    }

    /// So many Nodes are a tenth.
    pub(crate) fn tenth(&self) -> usize {
        self.nodes / 10
    }
}
