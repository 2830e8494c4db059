//! The fake on a port of this machine, with instances in it: for any client of Baidu AI Cloud's APIs.
//!
//! `cargo run -p baidu-fake --example baidu -- 127.0.0.1:9995 50`, then `BCE_ENDPOINT=http://127.0.0.1:9995`. Commands on standard input:
//! `delete NAME`, `stop NAME`, `dump FILE` and `load FILE` (all objects), `requests FILE` (those since the last time).

use baidu_fake::{ACCOUNT, Baidu, Handle, KEY, Port, SECRET};
use fake_cloud::console::{self, argument};
use serde_json::{Value, json};

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let address = argument(1, "127.0.0.1:9995".to_owned());
    let count: usize = argument(2, 3);
    let port = Port::open(&address).await?;
    let fake = Handle::new(Baidu::default());
    for number in 0..count {
        fake.lock()
            .add_instance(ACCOUNT, &format!("worker-{number}"));
    }
    // A BLB and an EIP of a user.
    fake.lock().add_blb(ACCOUNT, "mine", "for the shop");
    fake.lock().add_eip(ACCOUNT, "mine");
    println!(
        "BCE_ENDPOINT={} BCE_ACCESS_KEY_ID={KEY} BCE_SECRET_ACCESS_KEY={SECRET}",
        port.url()
    );
    console::serve(port, fake.router(), fake, |cloud, command, name| {
        match command {
            "delete" => cloud.instances.retain(|instance| instance["name"] != name),
            "stop" => cloud
                .instances
                .iter_mut()
                .filter(|instance| instance["name"] == name)
                .for_each(|instance| instance["status"] = "Stopped".into()),
            "load" => {
                let all = console::read(name);
                let list = |key: &str| all[key].as_array().cloned().unwrap_or_default();
                (cloud.instances, cloud.rules) = (list("instances"), list("rules"));
                (cloud.blbs, cloud.eips) = (list("blbs"), list("eips"));
            }
            "dump" => {
                return Some(
                    json!({"instances": cloud.instances, "blbs": cloud.blbs, "eips": cloud.eips, "rules": cloud.rules}),
                );
            }
            _ => return None,
        }
        Some(Value::Null)
    })
    .await
}
