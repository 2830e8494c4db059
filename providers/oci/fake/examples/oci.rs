//! The fake on a port of this machine, with instances in it: for any client of Oracle's APIs.
//!
//! `cargo run -p oci-fake --example oci -- 127.0.0.1:9995 50 open` starts it; `open` accepts any signature. Commands on standard
//! input: `delete NAME`, `stop NAME`, `dump FILE` and `load FILE` (all objects), `requests FILE` (those since the last time).

use std::io::BufRead;

use oci_fake::{Handle, Oracle, Port};
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let arguments: Vec<_> = std::env::args().collect();
    let address = arguments.get(1).map_or("127.0.0.1:9995", String::as_str);
    let count: usize = arguments.get(2).and_then(|it| it.parse().ok()).unwrap_or(3);
    let port = Port::open(address).await?;
    let fake = Handle::new(Oracle::default());
    {
        let mut cloud = fake.lock();
        if arguments.get(3).is_some_and(|it| it == "open") {
            cloud.keys = None;
        }
        for number in 0..count {
            println!("oci://{}", cloud.add_instance(&format!("worker-{number}")));
        }
    }
    println!("endpoint: {}", port.url());
    let _served = port.serve(fake.router());
    let commands = fake.clone();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let (command, name) = line.split_once(' ').unwrap_or((&line, ""));
            match command {
                "delete" => commands.lock().remove_instance(name),
                "stop" => commands.lock().change_instance(name, |it| it["lifecycleState"] = "STOPPED".into()),
                "dump" => {
                    let all = json!(commands.lock().objects);
                    let _ = std::fs::write(name, serde_json::to_vec_pretty(&all).unwrap_or_default());
                }
                "load" => {
                    let objects = std::fs::read(name).ok().and_then(|it| serde_json::from_slice(&it).ok());
                    objects.into_iter().for_each(|it| commands.lock().objects = it);
                }
                "requests" => {
                    let lines = commands.fault_injector().requests().into_iter().map(|it| {
                        json!({"route": it.route, "path": it.path, "query": it.query, "body": it.body, "status": it.status})
                            .to_string()
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
