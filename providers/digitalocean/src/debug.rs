//! `DEBUG_ADDR`: `/healthz` reports whether the API can be reached.

use std::time::Duration;

use provider_kit::transport::{Call, Priority};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::api::Api;

const LONGEST: Duration = Duration::from_secs(15);
/// Maximum length of a request in bytes.
const MOST: usize = 8 << 10;

/// Serves requests until the future is dropped. If the address is in use, a warning is logged, and nothing is served.
pub(crate) async fn serve(address: String, api: Api) {
    let address = if address.starts_with(':') {
        format!("0.0.0.0{address}")
    } else {
        address
    };
    let listener = match TcpListener::bind(&address).await {
        Ok(listener) => listener,
        Err(error) => return tracing::warn!(%error, address, "DEBUG_ADDR is not served"),
    };
    // Sequential, because each request calls the API.
    while let Ok((stream, _)) = listener.accept().await {
        let answered = timeout(LONGEST * 2, answer(stream, &api)).await;
        if let Ok(Err(error)) = answered {
            tracing::debug!(%error, "a request to DEBUG_ADDR was not answered");
        }
    }
}

async fn answer(mut stream: TcpStream, api: &Api) -> std::io::Result<()> {
    let mut request = Vec::new();
    let mut part = [0; 1024];
    while !request.windows(4).any(|window| window == b"\r\n\r\n") && request.len() < MOST {
        match stream.read(&mut part).await? {
            0 => return Ok(()),
            read => request.extend_from_slice(&part[..read]),
        }
    }
    let (status, text) = match request.starts_with(b"GET /healthz ") {
        false => ("404 Not Found", "there is only /healthz".to_owned()),
        true => {
            match timeout(
                LONGEST,
                api.http
                    .send(Call::get("/v2/account", &[]).with_priority(Priority::Urgent)),
            )
            .await
            {
                Ok(Ok(_)) => ("200 OK", "ok".to_owned()),
                Ok(Err(error)) => ("500 Internal Server Error", error.to_string()),
                Err(_) => (
                    "500 Internal Server Error",
                    "the API did not answer within 15s".to_owned(),
                ),
            }
        }
    };
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain\r\ncontent-length: {}\r\nconnection: close",
        text.len()
    );
    stream
        .write_all(format!("{head}\r\n\r\n{text}").as_bytes())
        .await
}
