//! The command line.

use anyhow::{Context, Result, bail, ensure};

pub(crate) const USAGE: &str = "usage: cargo bench -p ccm-tests --bench scale -- [--nodes 5000] [--images 25] \
[--concurrency 16] [--steady SECONDS] [--plain] [FLAGS OF THE CONTROLLER…]
  --plain              Nodes with two labels and one condition, as the peers' benchmark makes them
  CCM_TEST_KUBECONFIG  a test cluster without kube-controller-manager, instead of the embedded API server
  CCM_TEST_BINARY      a controller, instead of the release build of this tree";

/// What is measured.
pub(crate) struct Arguments {
    /// Nodes.
    pub(crate) nodes: usize,
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
            Self { nodes: 5000, images: 25, concurrency: 16, steady: 30, plain: false, flags: Vec::new() };
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
                "--images" => arguments.images = usize::try_from(number()?)?,
                "--concurrency" => arguments.concurrency = usize::try_from(number()?)?,
                "--steady" => arguments.steady = number()?,
                flag if flag.starts_with("--") => arguments.flags.push(word),
                other => bail!("unknown argument {other:?}"),
            }
        }
        ensure!(arguments.nodes >= 50, "--nodes must be at least 50: a tenth of them goes, and five are switched off");
        Ok(arguments)
    }

    /// So many Nodes are a tenth.
    pub(crate) fn tenth(&self) -> usize {
        self.nodes / 10
    }
}
