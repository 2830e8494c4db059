//! Waits for a healthy API server at the start (APP-14, APP-18).

use std::time::Duration;

use kube::Client;
use tokio::time::{Instant, sleep, timeout_at};

use crate::diagnosis::{Situation, explain};
use crate::exit::Failure;

/// Time that the API server may take to become healthy.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval between health checks.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Returns as soon as the API server reports that it is healthy.
///
/// # Errors
/// A fatal failure with the last answer, if the API server is not healthy within ten seconds.
pub(crate) async fn wait_until_healthy(
    client: &Client,
    situation: &Situation,
) -> Result<(), Failure> {
    let deadline = Instant::now() + HEALTH_TIMEOUT;
    let mut last = String::from("no answer");
    loop {
        match timeout_at(deadline, ask(client)).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => last = explain(&error, situation),
            Err(_) => {}
        }
        if Instant::now() + CHECK_INTERVAL > deadline {
            return Err(Failure::fatal(format!(
                "failed to wait for apiserver being healthy: no 200 from its /healthz within {} s: {last}",
                HEALTH_TIMEOUT.as_secs()
            )));
        }
        sleep(CHECK_INTERVAL).await;
    }
}

async fn ask(client: &Client) -> Result<(), kube::Error> {
    let request = http::Request::get("/healthz")
        .body(Vec::new())
        .map_err(kube::Error::HttpError)?;
    client.request_text(request).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{Request, Response, StatusCode};
    use kube::client::Body;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// Returns a client of a server that is healthy from the given request on.
    fn client(well_from: u32, asked: &Arc<AtomicU32>) -> Client {
        let asked = Arc::clone(asked);
        let answer = move |_: Request<Body>| {
            let is_well = asked.fetch_add(1, Ordering::Relaxed) + 1 >= well_from;
            let status = if is_well {
                StatusCode::OK
            } else {
                StatusCode::INTERNAL_SERVER_ERROR
            };
            let mut answer = Response::new(Body::from(b"[-]etcd failed".to_vec()));
            *answer.status_mut() = status;
            async move { Ok::<_, std::convert::Infallible>(answer) }
        };
        Client::new(tower::service_fn(answer), "default")
    }

    #[tokio::test(start_paused = true)]
    async fn api_server_is_probed_every_second_until_it_is_healthy() {
        let asked = Arc::default();
        let start = Instant::now();
        wait_until_healthy(&client(4, &asked), &Situation::default())
            .await
            .unwrap();
        assert_eq!(
            (asked.load(Ordering::Relaxed), start.elapsed().as_secs()),
            (4, 3)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn ten_seconds_of_illness_are_fatal() {
        let asked = Arc::default();
        let start = Instant::now();
        let failure = wait_until_healthy(&client(u32::MAX, &asked), &Situation::default())
            .await
            .unwrap_err();
        assert_eq!(failure.code(), 255);
        assert!(failure.to_string().contains("etcd failed"), "{failure}");
        assert!(
            start.elapsed() <= HEALTH_TIMEOUT + CHECK_INTERVAL,
            "{:?}",
            start.elapsed()
        );
    }
}
