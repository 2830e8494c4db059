//! The fake on a port of this machine, with instances in it: for any client of Baidu AI Cloud's APIs.
//!
//! `cargo run -p baidu-fake --example baidu -- 127.0.0.1:9995 50`, then `BCE_ENDPOINT=http://127.0.0.1:9995`. Commands on standard input:
//! `delete NAME`, `stop NAME`, `dump FILE` and `load FILE` (all objects), `requests FILE` (those since the last time).

use std::io::BufRead;

use baidu_fake::{ACCOUNT, Baidu, Handle, KEY, Port, SECRET};
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:9995".to_owned());
    let count: usize = std::env::args().nth(2).and_then(|it| it.parse().ok()).unwrap_or(3);
    let port = Port::open(&address).await?;
    let fake = Handle::new(Baidu::default());
    for number in 0..count {
        fake.lock().add_instance(ACCOUNT, &format!("worker-{number}"));
    }
    // A BLB and an EIP of a user.
    fake.lock().add_blb(ACCOUNT, "mine", "for the shop");
    fake.lock().add_eip(ACCOUNT, "mine");
    println!("BCE_ENDPOINT={} BCE_ACCESS_KEY_ID={KEY} BCE_SECRET_ACCESS_KEY={SECRET}", port.url());
    let _served = port.serve(fake.router());
    let commands = fake.clone();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let (command, name) = line.split_once(' ').unwrap_or((&line, ""));
            match command {
                "delete" => commands.lock().instances.retain(|it| it["name"] != name),
                "stop" => {
                    let mut cloud = commands.lock();
                    let found = cloud.instances.iter_mut().filter(|it| it["name"] == name);
                    found.for_each(|it| it["status"] = "Stopped".into());
                }
                "dump" => {
                    let cloud = commands.lock();
                    let all = json!({"instances": cloud.instances, "blbs": cloud.blbs, "eips": cloud.eips, "rules": cloud.rules});
                    let _ = std::fs::write(name, serde_json::to_vec_pretty(&all).unwrap_or_default());
                }
                "load" => {
                    let text = std::fs::read(name).unwrap_or_default();
                    let all: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
                    let list = |key: &str| all[key].as_array().cloned().unwrap_or_default();
                    let mut cloud = commands.lock();
                    (cloud.instances, cloud.rules) = (list("instances"), list("rules"));
                    (cloud.blbs, cloud.eips) = (list("blbs"), list("eips"));
                }
                "requests" => {
                    let lines = commands.fault_injector().requests().into_iter().map(|it| {
                        json!({"route": it.route, "query": it.query, "body": it.body, "status": it.status}).to_string()
                    });
                    let text = lines.collect::<Vec<_>>().join("\n");
                    commands.fault_injector().forget_requests();
                    let _ = std::fs::write(name, text + "\n");
                }
                _ => eprintln!("unknown command {line:?}"),
            }
            println!("done {line}");
        }
    });
    std::future::pending().await
}
