//! The fake on a port of this machine, with hosts in it: for any client of the API of Rancher 1.6.
//!
//! `cargo run -p rancher-fake --example rancher -- 127.0.0.1:9997 3`, then `CATTLE_URL=http://127.0.0.1:9997/v2-beta`.
//! Commands on standard input: `delete HOSTNAME`, `dump FILE` (all objects), `load FILE`, `requests FILE` (those since the last time).

use fake_cloud::console::{self, argument};
use rancher_fake::{ACCESS_KEY, ENVIRONMENT, Handle, Port, Rancher, SECRET_KEY};
use serde_json::{Value, json};

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let address = argument(1, "127.0.0.1:9997".to_owned());
    let count: usize = argument(2, 3);
    let port = Port::open(&address).await?;
    let fake = Handle::new(Rancher::default());
    for number in 0..count {
        fake.lock()
            .add_host(ENVIRONMENT, &format!("worker-{number}"));
    }
    println!(
        "CATTLE_URL={}/v2-beta CATTLE_ACCESS_KEY={ACCESS_KEY} CATTLE_SECRET_KEY={SECRET_KEY}",
        port.url()
    );
    console::serve(port, fake.router(), fake, |cloud, command, name| {
        match command {
            "delete" => cloud.hosts.retain(|host| host["hostname"] != name),
            "load" => {
                let all = console::read(name);
                let list = |key: &str| all[key].as_array().cloned().unwrap_or_default();
                (cloud.hosts, cloud.stacks, cloud.services) =
                    (list("hosts"), list("stacks"), list("balancers"));
                // IDs of new objects are greater than all that were loaded.
                for _ in 0..10_000 {
                    cloud.number();
                }
            }
            "dump" => {
                let live: Vec<_> = cloud
                    .services
                    .iter()
                    .filter(|service| service["removed"].is_null())
                    .collect();
                return Some(
                    json!({"hosts": cloud.hosts, "stacks": cloud.stacks, "balancers": live}),
                );
            }
            _ => return None,
        }
        Some(Value::Null)
    })
    .await
}
