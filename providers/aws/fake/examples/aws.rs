//! The fake on a port of this machine, with instances in it: for any client of AWS.
//!
//! `cargo run -p aws-fake --example aws -- 127.0.0.1:5577 3`, then the variables that it prints. Commands on standard
//! input: `terminate NAME`, `rules NUMBER` (the most rules of a security group), `page NUMBER` (the longest page),
//! `limits NUMBER` (requests a second), `dump FILE` (all objects), `requests FILE` (those since the last time).

use std::io::BufRead;

use aws_fake::{ACCOUNT, Handle, KEY_ID, Kind, Port, SECRET, World};
use serde_json::{Value, json};

const KINDS: [&str; 9] =
    ["instance", "interface", "subnet", "table", "group", "classic", "network", "target-group", "listener"];

fn command(fake: &Handle<World>, command: &str, name: &str) {
    let mut cloud = fake.lock();
    let lines = match command {
        "terminate" => {
            let instances = cloud.each(Kind::Instance).iter_mut().filter(|it| it["privateDnsName"] == name);
            return instances.for_each(|it| it["instanceState"] = json!({"code": 48, "name": "terminated"}));
        }
        "rules" => return cloud.rules = name.parse().unwrap_or(cloud.rules),
        "page" => return cloud.page = name.parse().unwrap_or(cloud.page),
        "limits" => return cloud.limits = name.parse().map_or(cloud.limits, |it| [(it, 1); 2]),
        "dump" => {
            let all: Value = KINDS.iter().map(|kind| ((*kind).to_owned(), json!(cloud.all(kind)))).collect();
            format!("{all:#}")
        }
        "requests" => {
            let requests = fake.fault_injector().requests().into_iter();
            let line = |it: fake_cloud::Recorded| json!([it.route, it.body, it.status]).to_string() + "\n";
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
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:5577".to_owned());
    let count: usize = std::env::args().nth(2).and_then(|it| it.parse().ok()).unwrap_or(3);
    let port = Port::open(&address).await?;
    let fake = Handle::new(World::default());
    for number in 0..count {
        fake.lock().add_instance(ACCOUNT, &format!("worker-{number}"));
    }
    println!("AWS_ENDPOINT_URL={} AWS_ACCESS_KEY_ID={KEY_ID} AWS_SECRET_ACCESS_KEY={SECRET}", port.url());
    let _served = port.serve(aws_fake::router(&fake));
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
