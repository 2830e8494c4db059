//! The fake on a port of this machine, with instances in it: for any client of AWS.
//!
//! `cargo run -p aws-fake --example aws -- 127.0.0.1:5577 3`, then the variables that it prints. Commands on standard
//! input: `terminate NAME`, `rules NUMBER` (the most rules of a security group), `page NUMBER` (the longest page),
//! `limits NUMBER` (requests a second), `dump FILE` (all objects), `requests FILE` (those since the last time).

use aws_fake::{ACCOUNT, Handle, KEY_ID, Kind, Port, SECRET, World};
use fake_cloud::console::{self, argument};
use serde_json::{Value, json};

const KINDS: [&str; 9] = [
    "instance",
    "interface",
    "subnet",
    "table",
    "group",
    "classic",
    "network",
    "target-group",
    "listener",
];

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let address = argument(1, "127.0.0.1:5577".to_owned());
    let count: usize = argument(2, 3);
    let port = Port::open(&address).await?;
    let fake = Handle::new(World::default());
    for number in 0..count {
        fake.lock()
            .add_instance(ACCOUNT, &format!("worker-{number}"));
    }
    println!(
        "AWS_ENDPOINT_URL={} AWS_ACCESS_KEY_ID={KEY_ID} AWS_SECRET_ACCESS_KEY={SECRET}",
        port.url()
    );
    console::serve(
        port,
        aws_fake::router(&fake),
        fake,
        |cloud, command, name| {
            match command {
                "terminate" => {
                    let instances = cloud
                        .each(Kind::Instance)
                        .iter_mut()
                        .filter(|object| object["privateDnsName"] == name);
                    instances.for_each(|instance| {
                        instance["instanceState"] = json!({"code": 48, "name": "terminated"});
                    });
                }
                "rules" => cloud.rules = name.parse().unwrap_or(cloud.rules),
                "page" => cloud.page = name.parse().unwrap_or(cloud.page),
                "limits" => {
                    cloud.limits = name.parse().map_or(cloud.limits, |number| [(number, 1); 2]);
                }
                "dump" => {
                    return Some(
                        KINDS
                            .iter()
                            .map(|kind| ((*kind).to_owned(), json!(cloud.all(kind))))
                            .collect(),
                    );
                }
                _ => return None,
            }
            Some(Value::Null)
        },
    )
    .await
}
