//! The fake on a port of this machine, with instances in it: for any client of Oracle's APIs.
//!
//! `cargo run -p oci-fake --example oci -- 127.0.0.1:9995 50 open` starts it; `open` accepts any signature. Commands on standard
//! input: `delete NAME`, `stop NAME`, `dump FILE` and `load FILE` (all objects), `requests FILE` (those since the last time).

use fake_cloud::console::{self, argument};
use oci_fake::{Handle, Oracle, Port};
use serde_json::{Value, json};

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let address = argument(1, "127.0.0.1:9995".to_owned());
    let count: usize = argument(2, 3);
    let port = Port::open(&address).await?;
    let fake = Handle::new(Oracle::default());
    {
        let mut cloud = fake.lock();
        if argument(3, String::new()) == "open" {
            cloud.keys = None;
        }
        for number in 0..count {
            println!("oci://{}", cloud.add_instance(&format!("worker-{number}")));
        }
    }
    println!("endpoint: {}", port.url());
    console::serve(port, fake.router(), fake, |cloud, command, name| {
        match command {
            "delete" => cloud.remove_instance(name),
            "stop" => cloud.change_instance(name, |instance| {
                instance["lifecycleState"] = "STOPPED".into();
            }),
            "load" => {
                let objects = serde_json::from_value(console::read(name)).ok();
                objects
                    .into_iter()
                    .for_each(|object| cloud.objects = object);
            }
            "dump" => return Some(json!(cloud.objects)),
            _ => return None,
        }
        Some(Value::Null)
    })
    .await
}
