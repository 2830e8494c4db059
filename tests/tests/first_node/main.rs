//! The first Node of a cluster: a packaged manifest on a real kubelet whose Node has no address yet.
//!
//! * `CCM_TEST_FIRST_NODE`: kubeconfig of a cluster with one Node, whose kubelet has registered it with
//!   `--cloud-provider=external` and without `--node-ip`. The account, the roles and the Pods of the manifest are created in
//!   that cluster and removed again.
//! * `CCM_TEST_IMAGE`: name of the image of this program that the Node has. `CCM_TEST_PAUSE_IMAGE`: name of an image that
//!   the Node has and whose program waits.
//!
//! The arguments are those of `cargo test`.

#[allow(dead_code)] // shared with the scenarios of `manifests`
#[path = "../manifests/cluster_objects.rs"]
mod cluster_objects;
#[allow(dead_code)]
#[path = "../manifests/documents.rs"]
mod documents;
mod installation;
mod node;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use ccm_tests::real;
use hetzner_fake::{Fake, Port};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use libtest_mimic::Arguments;

use crate::installation::Installation;
use crate::node::FirstNode;

const KUBECONFIG: &str = "CCM_TEST_FIRST_NODE";

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    ccm_tests::install_crypto();
    let kubeconfig = match real::path(KUBECONFIG) {
        Ok(kubeconfig) => kubeconfig,
        Err(error) => {
            eprintln!("first_node: {error:#}");
            return ExitCode::FAILURE;
        }
    };
    let lacks = kubeconfig.is_none().then_some("CCM_TEST_FIRST_NODE is not set: there is no real kubelet");
    let scenario = real::trial("packaged_manifest_initialises_the_first_node_of_a_cluster", lacks, move || {
        real::play(packaged_manifest(kubeconfig.unwrap_or_default()))
    });
    libtest_mimic::run(&arguments, vec![scenario]).exit_code()
}

async fn packaged_manifest(kubeconfig: PathBuf) -> Result<()> {
    let image = std::env::var("CCM_TEST_IMAGE").context("CCM_TEST_IMAGE")?;
    let pause = std::env::var("CCM_TEST_PAUSE_IMAGE").context("CCM_TEST_PAUSE_IMAGE")?;
    let client = connect(&kubeconfig).await?;
    let node = FirstNode::find(&client).await?;
    let cloud = Fake::default();
    let machine = cloud.add_server(&node.name);
    let port = Port::open("127.0.0.1:0").await?;
    let endpoint = format!("{}/v1", port.url());
    let _served = port.serve(cloud.router());

    let installation = Installation::of_hcloud(&image, &pause, &endpoint)?;
    installation.create(&client).await?;
    let outcome = async {
        let initialised = node.wait_until_initialised(&client).await?;
        let provider_id = initialised.spec.as_ref().and_then(|spec| spec.provider_id.clone()).unwrap_or_default();
        ensure!(provider_id == format!("hcloud://{}", machine.id), "the Node has the provider ID {provider_id:?}");
        installation.wait_until_ready(&client).await
    };
    let outcome = outcome.await;
    if outcome.is_err() {
        eprintln!("{}", installation.report(&client).await);
    }
    installation.remove(&client).await?;
    outcome
}

async fn connect(kubeconfig: &std::path::Path) -> Result<Client> {
    let file = Kubeconfig::read_from(kubeconfig).with_context(|| format!("reading {}", kubeconfig.display()))?;
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}
