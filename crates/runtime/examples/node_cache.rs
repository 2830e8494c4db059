//! Fills a cache with the Nodes of a cluster and says what that cost.
//!
//! `cargo run --release -p runtime --example node_cache -- KUBECONFIG|URL [pages]`

use std::sync::Arc;
use std::time::Instant;

use cloud_provider::Node;
use runtime::cache::{Cache, WatchConfig, watch};
use runtime::client::{ClientOptions, NoRequestMetrics, connect};
use runtime::node::NodeObject;
use tokio_util::sync::CancellationToken;

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let server = arguments.next().ok_or("which cluster? KUBECONFIG or URL")?;
    let streaming = arguments.next().as_deref() != Some("pages");
    let (kubeconfig, master) = if server.contains("://") {
        (None, Some(server))
    } else {
        (Some(server.into()), None)
    };
    let options = ClientOptions {
        kubeconfig,
        master,
        ..ClientOptions::default()
    };
    let client = connect(&options, "node-cache", Arc::new(NoRequestMetrics)).await?;
    report("connected", 0);

    let cache = Cache::<Node>::new();
    let start = Instant::now();
    let config = WatchConfig {
        streaming,
        ..WatchConfig::default()
    };
    let objects = kube::Api::<NodeObject>::all(client);
    tokio::spawn(watch(
        objects,
        config,
        cache.clone(),
        CancellationToken::new(),
    ));
    cache.wait_synced().await;
    report(&format!("synced after {:?}", start.elapsed()), cache.len());

    let start = Instant::now();
    let rounds = 100;
    let nodes: usize = (0..rounds).map(|_| cache.list().len()).sum();
    println!(
        "list() of {} Nodes takes {:?}",
        nodes / rounds,
        start.elapsed() / u32::try_from(rounds)?
    );
    Ok(())
}

/// Prints the resident memory now and at its peak, if the system reports it.
fn report(what: &str, nodes: usize) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib = |key: &str| {
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix(key))
            .unwrap_or_default();
        line.trim_matches([':', '\t', ' ', 'k', 'B'])
            .parse::<f64>()
            .unwrap_or_default()
            / 1024.0
    };
    println!(
        "{what}: {nodes} Nodes, {:.1} MiB resident, {:.1} MiB at the peak",
        kib("VmRSS"),
        kib("VmHWM")
    );
}
