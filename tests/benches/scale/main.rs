//! Benchmark of a large cluster: seconds, processor time, memory and requests, phase by phase, as JSON lines.
//!
//! ```text
//! cargo bench -p ccm-tests --bench scale -- --nodes 5000
//! cargo bench -p ccm-tests --bench scale -- --nodes 1000 --services 1000
//! ```
//!
//! The controller is a process of its own: the build with the profile dist, which this program makes first, or the
//! value of `CCM_TEST_BINARY` or `--binary`: any cloud controller manager for the cloud. The fake of the cloud is
//! served over HTTP on loopback: the simulated one, 50 machines a page, or with `--cloud hcloud` that of any profile.
//! The API server is the embedded one, served over HTTP from this process, or with `CCM_TEST_KUBECONFIG` a real one (a
//! *test* cluster without kube-controller-manager, since these Nodes' Leases are not renewed; it must have no Nodes of
//! its own).
//!
//! Phases, each over what the one before left:
//!
//! 1. `burst`: all machines run and all Nodes are registered, each with the start-up taint; then the controller starts.
//!    Seconds from the start of the process until the last Node has everything.
//! 2. `addresses`: a tenth of the machines changes its addresses. Its time is mostly waiting: passes come every 30 s, and
//!    a list of machines may serve for a minute.
//! 3. `not ready`: a tenth of the machines (and five more) stops, and their Nodes report that; until all are tainted.
//! 4. `gone`: that tenth is terminated; until their Nodes are deleted.
//! 5. `steady`: nothing happens. The five that are off are asked for all the time.
//!
//! With `--services` these come after the burst instead:
//!
//! 1. `create`: so many Services, until each has its address.
//! 2. `quiet`: nothing happens.
//! 3. `node joins`: one more Node, until it is a target of every load balancer.
//! 4. `node flaps`: it is not ready for a while, then ready again; then it is excluded from load balancers, and at once
//!    no more.
//! 5. `settle`, with `--settle SECONDS` only: until the controller has written nothing for so long. Without this phase, a
//!    slow program leaves work to the one that takes over. The run fails if it does not settle within `--limit`.
//! 6. `restart`: the controller ends and starts again over what is healthy; with `--then`, another one takes over. With
//!    `--settle`, requests count until it has settled, too.
//! 7. `delete`: all Services are deleted, until they are gone.
//!
//! A take-over in both directions is two calls:
//!
//! ```text
//! cargo bench -p ccm-tests --bench scale -- --cloud hcloud --nodes 100 --services 20 --settle 30 --binary THE-GO-PROGRAM --then OURS
//! cargo bench -p ccm-tests --bench scale -- --cloud hcloud --nodes 100 --services 20 --settle 30 --binary OURS --then THE-GO-PROGRAM
//! ```
//!
//! With `--same-nodes`, which leaves out `node joins` and `node flaps`, programs that write one load balancer at a time
//! get there sooner.
//!
//! Figures that depend on the length of pages have requirements on the simulated cloud only. The last line has the
//! figures with their requirements; the exit code is 1 if one is missed.

mod arguments;
mod clouds;
mod cluster;
mod counters;
mod measurement;
mod phases;
mod release;
mod requirements;
mod service_phases;
mod service_requirements;
mod services;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use ccm_tests::controller::Controller;
use ccm_tests::served_profile::ServedProfile;
use tempfile::TempDir;

use crate::arguments::{Arguments, USAGE};
use crate::cluster::Cluster;
use crate::phases::{Run, create_machines};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if !words.iter().any(|word| word == "--bench") {
        // `cargo test --all-targets` runs benchmarks, too; this one is no test.
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let arguments = match Arguments::parse(words) {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("scale: {error:#}\n{USAGE}");
            return ExitCode::FAILURE;
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    match runtime
        .context("no threads")
        .and_then(|runtime| runtime.block_on(run(&arguments)))
    {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("scale: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs all phases; whether the requirements are met.
async fn run(arguments: &Arguments) -> Result<bool> {
    ccm_tests::install_crypto();
    let mut cloud = clouds::by_name(&arguments.cloud)?;
    let binary = arguments
        .binary
        .clone()
        .map_or_else(|| release::binary(&[]), Ok)?;
    let then = arguments.then.clone().unwrap_or_else(|| binary.clone());
    let directory = TempDir::with_prefix("ccm-scale-")?;
    cloud.prepare(arguments.nodes + 1);
    let served = ServedProfile::start(cloud, directory.path()).await?;
    let cluster = Cluster::from_environment(directory.path()).await?;
    cluster.delete_services().await?;
    cluster.delete_nodes().await?;
    eprintln!(
        "scale: registering {} Nodes in {}",
        arguments.nodes,
        cluster.name()
    );
    let names = cluster::node_names(arguments.nodes);
    create_machines(&*served.cloud, &names);
    cluster.register(&names, arguments).await?;

    let log = directory.path().join("log");
    let start = |binary: &Path| {
        let flags = [
            format!("--kubeconfig={}", cluster.kubeconfig().display()),
            format!("--concurrent-node-syncs={}", arguments.concurrency),
            "--node-status-update-frequency=30s".to_owned(),
            "--configure-cloud-routes=false".to_owned(),
            // Only the controllers are measured; a program that is killed must not wait for its own Lease.
            "--leader-elect=false".to_owned(),
            "--allow-untagged-cloud".to_owned(),
            "--secure-port=0".to_owned(),
        ];
        let flags = served
            .flags()
            .into_iter()
            .chain(flags)
            .chain(arguments.flags.clone())
            .map(Into::into);
        Controller::start_with(binary, flags, served.environment(), &log)
    };
    let run = Run {
        arguments,
        cluster: &cluster,
        cloud: &served,
        names: &names,
    };
    let result = match arguments.services {
        0 => run.play(|| start(&binary)).await,
        _ => run.play_services(|| start(&binary), || start(&then)).await,
    };
    eprintln!("scale: removing the Nodes");
    cluster.delete_services().await?;
    cluster.delete_nodes().await?;
    let phases = result.inspect_err(|_| {
        let log = std::fs::read_to_string(&log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        eprintln!(
            "the controller's last lines:\n{}",
            lines[lines.len().saturating_sub(20)..].join("\n")
        );
    })?;
    let verdict = requirements::judge(arguments, cluster.is_real(), &phases);
    println!("{}", serde_json::to_string(&verdict)?);
    Ok(verdict.ok)
}
