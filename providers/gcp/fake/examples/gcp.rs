//! The fake on a port of this machine, with instances in two zones: for any client of the Compute Engine API.
//!
//! `cargo run -p gcp-fake --example gcp -- 127.0.0.1:9997 50 1500` (address, instances, milliseconds of an operation), then `api-endpoint = http://127.0.0.1:9997/compute/v1/`. Commands
//! on standard input: `delete NAME`, `stop NAME` (instances), `dump FILE` (all objects), `load FILE`, `requests FILE` (changes
//! since the last time).

use std::io::BufRead;
use std::time::Duration;

use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use gcp_fake::{Gcp, Handle, Port, ZONE};
use serde_json::{Value, json};

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:9997".to_owned());
    let count: usize = std::env::args().nth(2).and_then(|it| it.parse().ok()).unwrap_or(3);
    let port = Port::open(&address).await?;
    let fake = Handle::new(Gcp::based_at(&format!("{}/compute/v1", port.url())));
    let delay = Duration::from_millis(std::env::args().nth(3).and_then(|it| it.parse().ok()).unwrap_or(1500));
    fake.lock().delay = delay;
    // The cloud answers such a request when the operation has ended.
    let hold = from_fn(move |request: Request, next: Next| async move {
        if request.uri().path().ends_with("/wait") {
            tokio::time::sleep(delay).await;
        }
        next.run(request).await
    });
    for number in 0..count {
        fake.lock().add_instance(&format!("worker-{number}"), [ZONE, "us-central1-b"][number % 2]);
    }
    println!("api-endpoint = {}/compute/v1/", port.url());
    let _served = port.serve(fake.router().layer(hold));
    let commands = fake.clone();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let (command, name) = line.split_once(' ').unwrap_or((&line, ""));
            match command {
                "delete" => commands.lock().remove_instance(name),
                "stop" => commands.lock().change_instance(name, |it| it["status"] = "TERMINATED".into()),
                "dump" => {
                    let text = serde_json::to_vec_pretty(&commands.lock().objects).unwrap_or_default();
                    let _ = std::fs::write(name, text);
                }
                "load" => {
                    let read = std::fs::read(name).ok().and_then(|text| serde_json::from_slice(&text).ok());
                    commands.lock().objects = read.unwrap_or_default();
                }
                "requests" => {
                    let lines = commands.fault_injector().requests().into_iter().map(|it| {
                        json!({"route": it.route, "path": it.path, "body": it.body, "status": it.status}).to_string()
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
    std::future::pending::<Value>().await;
    Ok(())
}
