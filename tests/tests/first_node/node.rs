//! The Node of the cluster, before and after this program has initialised it.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use cloud_provider::names::TAINT_UNINITIALIZED;
use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use tokio::time::{Instant, sleep};

/// Time in which the Node must be initialised. The kubelet itself starts a Pod of a local image within seconds.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The only Node of the cluster.
pub(crate) struct FirstNode {
    /// Name of the Node.
    pub(crate) name: String,
}

impl FirstNode {
    /// Finds the Node, and checks that it is as a kubelet registers it: with the start-up taint and without an address of
    /// the kinds that a cloud provides. Otherwise the scenario would prove nothing.
    pub(crate) async fn find(client: &Client) -> Result<Self> {
        let nodes = Api::<Node>::all(client.clone()).list(&ListParams::default()).await?.items;
        ensure!(nodes.len() == 1, "the cluster has {} Nodes, and the scenario is about its first", nodes.len());
        let node = nodes.into_iter().next().context("no Node")?;
        ensure!(
            has_startup_taint(&node),
            "the Node has no start-up taint: the kubelet lacks --cloud-provider=external"
        );
        ensure!(ips(&node).is_empty(), "the Node has the addresses {:?}: the kubelet has --node-ip", ips(&node));
        Ok(Self { name: node.name_any() })
    }

    /// Waits until the Node has an address, and no start-up taint.
    pub(crate) async fn wait_until_initialised(&self, client: &Client) -> Result<Node> {
        let (api, start) = (Api::<Node>::all(client.clone()), Instant::now());
        loop {
            let node = api.get(&self.name).await?;
            if !has_startup_taint(&node) && !ips(&node).is_empty() {
                println!(
                    "Node {} initialised after {:.1} s: {:?}",
                    self.name,
                    start.elapsed().as_secs_f32(),
                    ips(&node)
                );
                return Ok(node);
            }
            ensure!(start.elapsed() < TIMEOUT, "Node {} is not initialised after {TIMEOUT:?}", self.name);
            sleep(Duration::from_millis(200)).await;
        }
    }
}

fn has_startup_taint(node: &Node) -> bool {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    taints.into_iter().flatten().any(|taint| taint.key == TAINT_UNINITIALIZED)
}

/// Returns the addresses of the kinds that a cloud provides.
fn ips(node: &Node) -> Vec<&str> {
    let addresses = node.status.as_ref().and_then(|status| status.addresses.as_ref()).into_iter().flatten();
    addresses.filter(|address| address.type_.ends_with("IP")).map(|address| address.address.as_str()).collect()
}
