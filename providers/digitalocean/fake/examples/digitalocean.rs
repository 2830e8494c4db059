//! The fake on a port of this machine, with droplets in it: for any client of DigitalOcean's API.
//!
//! `cargo run -p digitalocean-fake --example digitalocean -- 127.0.0.1:9997 50`, then `DO_OVERRIDE_URL=http://127.0.0.1:9997`.

use digitalocean_fake::{Fake, Port, REGION, TOKEN};

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let address = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "127.0.0.1:9997".to_owned());
    let count: usize = std::env::args()
        .nth(2)
        .and_then(|arg| arg.parse().ok())
        .unwrap_or(3);
    let port = Port::open(&address).await?;
    let fake = Fake::default();
    for number in 0..count {
        let droplet = fake.add_droplet(&format!("worker-{number}"));
        println!("droplet {} id {}", droplet.name, droplet.id);
    }
    println!(
        "DO_OVERRIDE_URL={} DO_ACCESS_TOKEN={TOKEN} REGION={REGION}",
        port.url()
    );
    let _served = port.serve(fake.router());
    std::future::pending().await
}
