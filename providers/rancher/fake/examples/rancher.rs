//! The fake on a port of this machine, with hosts in it: for any client of the API of Rancher 1.6.
//!
//! `cargo run -p rancher-fake --example rancher -- 127.0.0.1:9997 3`, then `CATTLE_URL=http://127.0.0.1:9997/v2-beta`.
//! Commands on standard input: `delete HOSTNAME`, `dump FILE` (all objects), `load FILE`, `requests FILE` (those since the last time).

use std::io::BufRead;

use rancher_fake::{ACCESS_KEY, ENVIRONMENT, Handle, Port, Rancher, SECRET_KEY};
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:9997".to_owned());
    let count: usize = std::env::args().nth(2).and_then(|it| it.parse().ok()).unwrap_or(3);
    let port = Port::open(&address).await?;
    let fake = Handle::new(Rancher::default());
    for number in 0..count {
        fake.lock().add_host(ENVIRONMENT, &format!("worker-{number}"));
    }
    println!("CATTLE_URL={}/v2-beta CATTLE_ACCESS_KEY={ACCESS_KEY} CATTLE_SECRET_KEY={SECRET_KEY}", port.url());
    let _served = port.serve(fake.router());
    let commands = fake.clone();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let (command, name) = line.split_once(' ').unwrap_or((&line, ""));
            match command {
                "delete" => commands.lock().hosts.retain(|it| it["hostname"] != name),
                "load" => {
                    let text = std::fs::read_to_string(name).unwrap_or_default();
                    let all: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
                    let list = |key: &str| all[key].as_array().cloned().unwrap_or_default();
                    let mut cloud = commands.lock();
                    (cloud.hosts, cloud.stacks, cloud.services) = (list("hosts"), list("stacks"), list("balancers"));
                    // IDs of new objects are greater than all that were loaded.
                    for _ in 0..10_000 {
                        cloud.number();
                    }
                }
                "dump" => {
                    let cloud = commands.lock();
                    let live: Vec<_> = cloud.services.iter().filter(|it| it["removed"].is_null()).collect();
                    let all = json!({"hosts": cloud.hosts, "stacks": cloud.stacks, "balancers": live});
                    let _ = std::fs::write(name, serde_json::to_vec_pretty(&all).unwrap_or_default());
                }
                "requests" => {
                    let lines = commands.fault_injector().requests().into_iter().map(|it| {
                        json!({"route": it.route, "path": it.path, "query": it.query, "body": it.body, "status": it.status}).to_string()
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
