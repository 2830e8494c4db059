//! The fake on a port of this machine, with Linodes in it: for any client of Linode's API.
//!
//! `cargo run -p linode-fake --example linode -- 127.0.0.1:9996 50 requests.jsonl`, then `LINODE_URL=http://127.0.0.1:9996`. Commands on
//! standard input: `delete LABEL`, `stop LABEL`, `dump FILE` (all objects), `requests FILE` (those since the last time).

use fake_cloud::console::{self, argument};
use linode_fake::{ACCOUNT, Handle, Linodes, Port, TOKEN};
use serde_json::{Value, json};

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let address = argument(1, "127.0.0.1:9996".to_owned());
    let count: usize = argument(2, 3);
    let port = Port::open(&address).await?;
    let fake = Handle::new(Linodes::default());
    for number in 0..count {
        fake.lock().add_linode(ACCOUNT, &format!("worker-{number}"));
    }
    println!(
        "LINODE_URL={} LINODE_API_TOKEN={TOKEN} LINODE_REGION=us-east",
        port.url()
    );
    console::serve(port, fake.router(), fake, |cloud, command, name| {
        match command {
            "delete" => cloud.linodes.retain(|linode| linode["label"] != name),
            "stop" => cloud.linodes.iter_mut().filter(|linode| linode["label"] == name).for_each(|linode| linode["status"] = "offline".into()),
            "dump" => {
                return Some(json!({"nodebalancers": cloud.nodebalancers, "configs": cloud.configs, "firewalls": cloud.firewalls, "linodes": cloud.linodes}));
            }
            _ => return None,
        }
        Some(Value::Null)
    })
    .await
}
