//! Benchmark of the process itself: time until ready, idle cost, size, and time of a metrics scrape.
//!
//! ```text
//! cargo bench -p ccm-tests --bench process
//! ```
//!
//! The binary is that of the image, without the demo, which this program builds first, or the value of `CCM_TEST_BINARY`. It runs with its default controllers, election and endpoints. The API server
//! (the embedded one) and the fake of Hetzner Cloud are in this process. Each line is a figure with its requirement; the
//! exit code is 1 if one is missed.

#[path = "../scale/release.rs"]
mod release;
mod world;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::world::World;

/// Nodes of the large cluster.
const NODES: usize = 5000;
/// Starts, and scrapes: the median counts.
const TIMES: usize = 15;
/// Size of the dist binary in MB: without clouds, and what each cloud may add to it.
const BINARY_WITHOUT_CLOUDS: f64 = 14.5;
const BINARY_PER_CLOUD: f64 = 0.70;
/// Resident memory while idle without any cloud, and for each cloud, in MiB: most of it is the program itself.
const IDLE_WITHOUT_CLOUDS: f64 = 12.4;
const IDLE_PER_CLOUD: f64 = 0.4;
/// The clouds that are built in.
const CLOUDS: u8 = 14;
/// Features of the image: all clouds, without the demo.
const IMAGE: [&str; 3] = ["--no-default-features", "--features", "clouds"];
/// Processes whose idle memory is taken: the median counts.
const IDLE: usize = 3;
/// Time after a start in which the process has settled.
const SETTLED: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    if !std::env::args().any(|word| word == "--bench") {
        // `cargo test --all-targets` runs benchmarks, too; this one is no test.
        return ExitCode::SUCCESS;
    }
    ccm_tests::install_crypto();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    match runtime
        .context("a runtime")
        .and_then(|runtime| runtime.block_on(measure()))
    {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("process: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn measure() -> Result<bool> {
    let binary = release::binary(&IMAGE)?;
    let size = std::fs::metadata(&binary)?.len() as f64 / 1e6;
    let mut starts = Vec::new();
    for _ in 0..TIMES {
        let world = World::new(0).await?;
        let _process = world.start(&binary)?;
        starts.push(world.ready().await?.as_secs_f64());
    }
    let mut idle = Vec::new();
    for _ in 0..IDLE {
        let world = World::new(0).await?;
        let process = world.start(&binary)?;
        // The process receives no request meanwhile: it is idle.
        tokio::time::sleep(SETTLED).await;
        idle.push(process.usage()?.resident_kib as f64 / 1024.0);
        world.ready().await?;
    }
    let world = World::new(NODES).await?;
    let process = world.start(&binary)?;
    world.counts_nodes().await?;
    let mut scrapes = Vec::new();
    let mut bytes = 0;
    for _ in 0..TIMES {
        let (took, size) = world.scrape().await?;
        scrapes.push(took.as_secs_f64() * 1e3);
        bytes = size;
    }
    let resident = process.usage()?.resident_kib as f64 / 1024.0;
    println!("{:<58} {:>9}  at most", "figure", "measured");
    let lines = [
        line(
            "start to ready on an empty cluster, s (median)",
            median(&mut starts),
            0.3,
        ),
        line(
            "resident memory while idle, all controllers, MiB (median)",
            median(&mut idle),
            IDLE_WITHOUT_CLOUDS + f64::from(CLOUDS) * IDLE_PER_CLOUD,
        ),
        line(
            "dist binary, MB",
            size,
            BINARY_WITHOUT_CLOUDS + f64::from(CLOUDS) * BINARY_PER_CLOUD,
        ),
        line(
            "scrape of /metrics at 5,000 Nodes, ms (median)",
            median(&mut scrapes),
            15.0,
        ),
    ];
    println!("(that scrape: {bytes} bytes; resident memory with 5,000 Nodes: {resident:.1} MiB)");
    Ok(lines.into_iter().all(|ok| ok))
}

fn line(what: &str, measured: f64, most: f64) -> bool {
    let missed = if measured > most { "   MISSED" } else { "" };
    println!("{what:<58} {measured:>9.2}  {most}{missed}");
    measured <= most
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
