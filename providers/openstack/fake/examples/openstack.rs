//! Serves the fake on a port of this machine, with a network, a router and three servers, or as many as the argument
//! says, for use with any OpenStack client.
//!
//! `cargo run -p openstack-fake --example openstack -- 127.0.0.1:9999 5000`, then `http://127.0.0.1:9999/identity/v3` is Keystone.

use openstack_fake::{Fake, Options, Port};

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let address = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "127.0.0.1:9999".to_owned());
    let count: usize = std::env::args()
        .nth(2)
        .and_then(|arg| arg.parse().ok())
        .unwrap_or(3);
    let port = Port::open(&address).await?;
    let fake = Fake::new(Options {
        endpoint: port.url(),
        ..Options::default()
    });
    let network = fake.add_network("k8s-net", "10.6.0.0/16");
    let public = fake.add_external_network("public", "172.24.4.0/24");
    let router = fake.add_router("k8s-router", &network.subnet);
    let servers: Vec<String> = (0..count)
        .map(|number| fake.add_server(&format!("worker-{number}"), &network).id)
        .collect();
    println!(
        "network {} subnet {} public {} router {router} servers {:?}",
        network.id,
        network.subnet,
        public.id,
        &servers[..count.min(3)]
    );
    println!(
        "user {} password {} project {}",
        openstack_fake::USER,
        openstack_fake::PASSWORD,
        openstack_fake::PROJECT
    );
    let _served = port.serve(fake.router());
    std::future::pending().await
}
