//! The fake on a port of this machine, with Linodes in it: for any client of Linode's API.
//!
//! `cargo run -p linode-fake --example linode -- 127.0.0.1:9996 50 requests.jsonl`, then `LINODE_URL=http://127.0.0.1:9996`. Commands on
//! standard input: `delete LABEL`, `stop LABEL`, `dump FILE` (all objects), `requests FILE` (those since the last time).

use std::io::BufRead;

use linode_fake::{ACCOUNT, Handle, Linodes, Port, TOKEN};
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:9996".to_owned());
    let count: usize = std::env::args().nth(2).and_then(|it| it.parse().ok()).unwrap_or(3);
    let port = Port::open(&address).await?;
    let fake = Handle::new(Linodes::default());
    for number in 0..count {
        fake.lock().add_linode(ACCOUNT, &format!("worker-{number}"));
    }
    println!("LINODE_URL={} LINODE_API_TOKEN={TOKEN} LINODE_REGION=us-east", port.url());
    let _served = port.serve(fake.router());
    let commands = fake.clone();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let (command, name) = line.split_once(' ').unwrap_or((&line, ""));
            match command {
                "delete" => commands.lock().linodes.retain(|it| it["label"] != name),
                "stop" => {
                    let mut cloud = commands.lock();
                    let found = cloud.linodes.iter_mut().filter(|it| it["label"] == name);
                    found.for_each(|it| it["status"] = "offline".into());
                }
                "dump" => {
                    let cloud = commands.lock();
                    let all = json!({"nodebalancers": cloud.nodebalancers, "configs": cloud.configs, "firewalls": cloud.firewalls, "linodes": cloud.linodes});
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
