//! Serves the fake on a port of this machine, with a network and three servers, or as many as the argument says, for
//! use with any client of Hetzner Cloud.
//!
//! `cargo run -p hetzner-fake --example hetzner -- 127.0.0.1:9998 50`, then `HCLOUD_ENDPOINT=http://127.0.0.1:9998/v1`.

use hetzner_fake::{Fake, Port, ROBOT_PASSWORD, ROBOT_USER, TOKEN};

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let address = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "127.0.0.1:9998".to_owned());
    let count: usize = std::env::args()
        .nth(2)
        .and_then(|arg| arg.parse().ok())
        .unwrap_or(3);
    let port = Port::open(&address).await?;
    let fake = Fake::default();
    let network = fake.add_network("kubernetes", "10.0.0.0/8");
    fake.run_attached_to(network);
    for number in 0..count {
        let name = format!("worker-{number}");
        let server = fake.add_server(&name);
        println!(
            "server {name} id {} address in the network {}",
            server.id,
            fake.attach(&name, network)
        );
    }
    println!(
        "HCLOUD_ENDPOINT={}/v1 HCLOUD_TOKEN={TOKEN} HCLOUD_NETWORK=kubernetes",
        port.url()
    );
    println!(
        "Robot: {} {ROBOT_USER} {ROBOT_PASSWORD}; metadata: {}/hetzner/v1/metadata",
        port.url(),
        port.url()
    );
    let _served = port.serve(fake.router());
    std::future::pending().await
}
