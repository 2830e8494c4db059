//! Arguments of the race.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

/// Programs to race, and the amount of work.
#[derive(Debug, Default)]
pub(crate) struct Arguments {
    pub(crate) script: PathBuf,
    /// The cloud, as `--cloud-provider` and the script name it.
    pub(crate) cloud: String,
    pub(crate) binary: Option<PathBuf>,
    pub(crate) peer: Option<PathBuf>,
    pub(crate) then: Option<PathBuf>,
    pub(crate) nodes: usize,
    pub(crate) services: usize,
    pub(crate) down: usize,
    pub(crate) steady: String,
    pub(crate) latency: Option<String>,
    /// Flags of the programs.
    pub(crate) flags: Vec<String>,
}

impl Arguments {
    pub(crate) fn of_process() -> Result<Self> {
        let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
        let cloud = "hcloud".to_owned();
        let steady = "60s".to_owned();
        let mut arguments = Self {
            cloud,
            nodes: 1000,
            services: 200,
            down: 100,
            steady,
            ..Self::default()
        };
        while let Some(word) = words.next() {
            if word == "--" {
                arguments.flags = words.collect();
                break;
            }
            let value = words
                .next()
                .with_context(|| format!("{word} needs a value"))?;
            let number = || {
                value
                    .parse()
                    .with_context(|| format!("{word}: {value:?} is no number"))
            };
            match word.as_str() {
                "--script" => arguments.script = path(&value)?,
                "--cloud" => arguments.cloud = value,
                "--binary" => arguments.binary = Some(path(&value)?),
                "--peer" => arguments.peer = Some(path(&value)?),
                "--then" => arguments.then = Some(path(&value)?),
                "--nodes" => arguments.nodes = number()?,
                "--services" => arguments.services = number()?,
                "--down" => arguments.down = number()?,
                "--steady" => arguments.steady = value,
                "--latency" => arguments.latency = Some(value),
                _ => bail!("unknown argument {word}; see the head of benches/race/main.rs"),
            }
        }
        if arguments.script.as_os_str().is_empty() {
            bail!("--script PATH/peer.sh is missing: what starts the server and the fake cloud");
        }
        Ok(arguments)
    }
}

/// Returns an absolute path, because the script and the programs run in other directories. Cargo runs benches in the
/// package's directory, people call it from the workspace's.
fn path(text: &str) -> Result<PathBuf> {
    let path = PathBuf::from(text);
    let from_workspace = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).join(&path);
    let path = if path.exists() { path } else { from_workspace };
    std::fs::canonicalize(&path).with_context(|| format!("{text} does not exist"))
}
