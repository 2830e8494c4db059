//! Tasks of the project that are programs: the artefacts of a release, and their checks.
//!
//! `docs/releasing.md` explains the commands.

mod certificates;
mod check;
#[cfg(test)]
mod container_files;
mod dist;
mod figures;
mod program;
mod project;
mod tarball;
#[cfg(test)]
mod version;
#[cfg(test)]
mod workflows;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};

use crate::dist::Architecture;
use crate::project::Project;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Tasks of the project that are programs")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Make the artefacts of a release
    Dist(DistArguments),
    /// Check the artefacts that `dist` has made
    CheckDist {
        /// Folder of the artefacts, `dist` of the checkout by default
        directory: Option<PathBuf>,
    },
    /// Pack a file system, as deploy/image/layout makes it, into an image archive for this machine
    Image {
        /// Folder with the file system
        root: PathBuf,
        /// Archive to write, in the format oci-archive
        archive: PathBuf,
    },
    /// Write the licences that the image has, for the Dockerfile
    Licences {
        /// Folder to write to
        directory: PathBuf,
        /// Features of the program, separated by commas
        #[arg(long, default_value = "clouds")]
        features: String,
    },
    /// Write the certificates of the image, deploy/image/certificates.pem
    Certificates,
    /// Print lines and tokens of each crate, and the sizes of the clouds against their vendors' Go programs
    Figures,
}

/// Arguments of `cargo xtask dist`.
#[derive(Args)]
pub(crate) struct DistArguments {
    /// Architectures of binaries and image
    #[arg(long, value_delimiter = ',', default_value = "amd64,arm64")]
    pub(crate) arch: Vec<Architecture>,
    /// Folder for the artefacts, `dist` of the checkout by default. Artefacts of an earlier run are replaced
    #[arg(long)]
    pub(crate) out: Option<PathBuf>,
    /// Profile of the build
    #[arg(long, default_value = "dist")]
    pub(crate) profile: String,
    /// Features of the program, separated by commas
    #[arg(long, default_value = "clouds")]
    pub(crate) features: String,
    /// Repository that the image is pushed to, without tag: manifests and chart name it. The default is a placeholder;
    /// the environment variable CCM_IMAGE_REPOSITORY replaces it, too
    #[arg(long)]
    pub(crate) registry: Option<String>,
}

fn main() -> ExitCode {
    match run(Arguments::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<()> {
    let project = Project::read()?;
    match task {
        Task::Dist(arguments) => dist::make(&project, &arguments),
        Task::CheckDist { directory } => check::all(
            &project,
            &directory.unwrap_or_else(|| project.root.join("dist")),
        ),
        Task::Image { root, archive } => dist::image_archive(&project, &root, &archive),
        Task::Licences {
            directory,
            features,
        } => dist::write_licences(&project, &features, &directory),
        Task::Certificates => write(
            &project.root.join(certificates::FILE),
            certificates::bundle(),
        ),
        Task::Figures => figures::print(&project),
    }
}

/// Writes a file, and its folder if that does not exist.
pub(crate) fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
    }
    std::fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))
}

/// Reads a file as text.
pub(crate) fn read_text(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Reads a file as bytes.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}
