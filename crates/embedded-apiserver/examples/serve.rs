//! Serves an empty cluster and prints how to reach it: `cargo run -p embedded-apiserver --example serve [ADDRESS] [--tls]`

use std::error::Error;

use embedded_apiserver::{ApiServer, Certificate, kubeconfig};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let address = words
        .iter()
        .find(|word| !word.starts_with('-'))
        .map_or("127.0.0.1:0", String::as_str);
    let listener = TcpListener::bind(address).await?;
    let local = listener.local_addr()?;
    let server = ApiServer::new();
    let shutdown = CancellationToken::new();
    if words.iter().any(|word| word == "--tls") {
        let certificate = Certificate::self_signed(&["localhost", "127.0.0.1"])?;
        println!(
            "{}",
            kubeconfig(&format!("https://{local}"), Some(&certificate), None)
        );
        server.serve_tls(listener, &certificate, shutdown).await?;
    } else {
        println!("{}", kubeconfig(&format!("http://{local}"), None, None));
        server.serve_tcp(listener, shutdown).await;
    }
    Ok(())
}
