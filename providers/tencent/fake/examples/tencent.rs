//! The fake on a port of this machine, with instances in it: for any client of API 3.0, or of API 2.0.
//!
//! `cargo run -p tencent-fake --example tencent -- 127.0.0.1:23600 50`. Commands on standard input: `delete NAME`, `stop
//! NAME`, `dump FILE` (all objects), `requests FILE` (those since the last time).

use fake_cloud::console::{self, argument};
use serde_json::{Value, json};
use tencent_fake::{ACCOUNT, Handle, Port, World, router};

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let address = argument(1, "127.0.0.1:23600".to_owned());
    let count: usize = argument(2, 3);
    let port = Port::open(&address).await?;
    let fake = Handle::new(World::default());
    for number in 0..count {
        fake.lock()
            .add_instance(ACCOUNT, &format!("worker-{number}"));
    }
    println!("endpoint_domain={}", port.url());
    console::serve(port, router(&fake), fake, |cloud, command, name| {
        match command {
            "delete" => cloud
                .each("instance")
                .retain(|instance| instance["InstanceName"] != name),
            "stop" => {
                let found = cloud
                    .each("instance")
                    .iter_mut()
                    .filter(|instance| instance["InstanceName"] == name);
                found.for_each(|object| object["InstanceState"] = "STOPPED".into());
            }
            "dump" => {
                let kinds = [
                    "instance", "balancer", "listener", "group", "table", "route",
                ];
                return Some(
                    kinds
                        .iter()
                        .map(|kind| ((*kind).to_owned(), json!(cloud.all(kind))))
                        .collect(),
                );
            }
            _ => return None,
        }
        Some(Value::Null)
    })
    .await
}
