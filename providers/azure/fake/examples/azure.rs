//! The fake on a port of this machine, with machines in it: for any client of Azure Resource Manager.
//!
//! `cargo run -p azure-fake --example azure -- 127.0.0.1:5578 set|availability 4 [https]`: machines in a scale set or in
//! an availability set, and the scheme of links. Prints the Nodes. Commands on standard input: `terminate NAME`,
//! `dump FILE` (all objects), `requests FILE` (those since the last time).

use std::io::BufRead;
use std::time::Duration;

use azure_fake::{Azure, Handle, Port};
use serde_json::{Value, json};

fn command(fake: &Handle<Azure>, command: &str, name: &str) {
    let mut cloud = fake.lock();
    let lines = match command {
        "terminate" => return cloud.terminate(name),
        "dump" => {
            let all: Vec<String> = cloud.objects.values().map(Value::to_string).collect();
            format!("[\n{}\n]\n", all.join(",\n"))
        }
        "requests" => {
            let requests = fake.fault_injector().requests().into_iter();
            let line = |request: fake_cloud::Recorded| {
                json!([request.route, request.body, request.status]).to_string() + "\n"
            };
            let lines = requests.map(line).collect();
            fake.fault_injector().forget_requests();
            lines
        }
        _ => return eprintln!("unknown command {command:?}"),
    };
    let _ = std::fs::write(name, lines);
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let word = |at: usize, otherwise: &str| {
        words
            .get(at)
            .cloned()
            .unwrap_or_else(|| otherwise.to_owned())
    };
    let address = word(0, "127.0.0.1:5578");
    let kind = word(1, "set");
    let port = Port::open(&address).await?;
    let fake = Handle::new(Azure::default());
    for number in 0..word(2, "4").parse().unwrap_or(4) {
        let mut cloud = fake.lock();
        let name = format!("worker00000{number}");
        let machine = match &*kind {
            "set" => cloud.add_instance("worker", &name),
            "availability" => cloud.add_machine_of_set("workers", &name),
            _ => cloud.add_machine(&name),
        };
        let ip = cloud
            .get(&machine)
            .map(|machine| cloud.address_of(machine))
            .unwrap_or_default();
        println!(
            "{}",
            json!({"name": name, "providerID": format!("azure://{machine}"), "ip": ip})
        );
    }
    fake.lock().scheme = if word(3, "http") == "https" {
        "https"
    } else {
        "http"
    };
    fake.lock().delay = Duration::from_millis(50);
    println!("{}", port.url());
    let _served = port.serve(fake.router());
    let commands = fake.clone();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let (word, name) = line.split_once(' ').unwrap_or((&line, ""));
            command(&commands, word, name);
            println!("done {line}");
        }
    });
    std::future::pending().await
}
