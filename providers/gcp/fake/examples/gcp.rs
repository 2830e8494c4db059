//! The fake on a port of this machine, with instances in two zones: for any client of the Compute Engine API.
//!
//! `cargo run -p gcp-fake --example gcp -- 127.0.0.1:9997 50 1500` (address, instances, milliseconds of an operation), then
//! `api-endpoint = http://127.0.0.1:9997/compute/v1/`. Commands on standard input: `delete NAME`, `stop NAME` (instances),
//! `dump FILE` (all objects), `load FILE`, `requests FILE` (those since the last time).

use std::time::Duration;

use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use fake_cloud::console::{self, argument};
use gcp_fake::{Gcp, Handle, Port, ZONE};
use serde_json::{Value, json};

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let address = argument(1, "127.0.0.1:9997".to_owned());
    let count: usize = argument(2, 3);
    let port = Port::open(&address).await?;
    let fake = Handle::new(Gcp::based_at(&format!("{}/compute/v1", port.url())));
    let delay = Duration::from_millis(argument(3, 1500));
    fake.lock().delay = delay;
    // The cloud answers such a request when the operation has ended.
    let hold = from_fn(move |request: Request, next: Next| async move {
        if request.uri().path().ends_with("/wait") {
            tokio::time::sleep(delay).await;
        }
        next.run(request).await
    });
    for number in 0..count {
        fake.lock().add_instance(
            &format!("worker-{number}"),
            [ZONE, "us-central1-b"][number % 2],
        );
    }
    println!("api-endpoint = {}/compute/v1/", port.url());
    console::serve(
        port,
        fake.router().layer(hold),
        fake,
        |cloud, command, name| {
            match command {
                "delete" => cloud.remove_instance(name),
                "stop" => {
                    cloud
                        .change_instance(name, |instance| instance["status"] = "TERMINATED".into());
                }
                "load" => {
                    cloud.objects = serde_json::from_value(console::read(name)).unwrap_or_default();
                }
                "dump" => return Some(json!(cloud.objects)),
                _ => return None,
            }
            Some(Value::Null)
        },
    )
    .await
}
