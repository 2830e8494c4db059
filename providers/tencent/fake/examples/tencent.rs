//! The fake on a port of this machine, with instances in it: for any client of API 3.0, or of API 2.0.
//!
//! `cargo run -p tencent-fake --example tencent -- 127.0.0.1:23600 50`. Commands on standard input: `delete NAME`, `stop
//! NAME`, `dump FILE` (all objects), `requests FILE` (those since the last time).

use std::io::BufRead;

use serde_json::json;
use tencent_fake::{ACCOUNT, Handle, Port, World, router};

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:23600".to_owned());
    let count: usize = std::env::args().nth(2).and_then(|it| it.parse().ok()).unwrap_or(3);
    let port = Port::open(&address).await?;
    let fake = Handle::new(World::default());
    for number in 0..count {
        fake.lock().add_instance(ACCOUNT, &format!("worker-{number}"));
    }
    println!("endpoint_domain={}", port.url());
    let _served = port.serve(router(&fake));
    let commands = fake.clone();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let (command, name) = line.split_once(' ').unwrap_or((&line, ""));
            match command {
                "delete" => commands.lock().each("instance").retain(|it| it["InstanceName"] != name),
                "stop" => {
                    let mut cloud = commands.lock();
                    let found = cloud.each("instance").iter_mut().filter(|it| it["InstanceName"] == name);
                    found.for_each(|it| it["InstanceState"] = "STOPPED".into());
                }
                "dump" => {
                    let cloud = commands.lock();
                    let kinds = ["instance", "balancer", "listener", "group", "table", "route"];
                    let all: serde_json::Map<_, _> =
                        kinds.iter().map(|kind| ((*kind).to_owned(), json!(cloud.all(kind)))).collect();
                    let _ = std::fs::write(name, serde_json::to_vec_pretty(&all).unwrap_or_default());
                }
                "requests" => {
                    let lines = commands.fault_injector().requests().into_iter();
                    let lines =
                        lines.map(|it| json!({"route": it.route, "query": it.query, "body": it.body}).to_string());
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
