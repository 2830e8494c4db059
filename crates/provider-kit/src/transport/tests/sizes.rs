//! Answers that are longer than the limit: the bytes that are read are counted.

use axum::body::Body;
use futures::StreamExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

const PART: usize = 64 << 10;

/// Returns a body without an end, and the number of bytes that were read.
fn endless() -> (Body, Sent) {
    let taken = Sent::default();
    let counter = Arc::clone(&taken);
    let part = Bytes::from(vec![b' '; PART]);
    let parts = futures::stream::repeat(part).map(move |part| {
        counter.fetch_add(part.len(), Ordering::SeqCst);
        Ok::<_, std::io::Error>(part)
    });
    (Body::from_stream(parts), taken)
}

#[tokio::test(start_paused = true)]
async fn endless_body_is_read_up_to_its_limit_and_not_retried() {
    let list = || Call::get("/things", &[]).list();
    let table = [
        (
            GET(),
            200,
            1 << 20,
            "GET /things/7 answered 200 with a body of more than 1 MiB, the limit of an answer that is no list",
        ),
        (
            list(),
            200,
            16 << 20,
            "GET /things answered 200 with a body of more than 16 MiB, the limit of a list",
        ),
        (
            list(),
            500,
            64 << 10,
            "GET /things answered 500: a body of more than 64 KiB, the limit of a refusal",
        ),
        (
            GET(),
            404,
            64 << 10,
            "GET /things/7 answered 404: a body of more than 64 KiB, the limit of a refusal",
        ),
        (
            POST().repeatable(),
            503,
            64 << 10,
            "POST /things answered 503: a body of more than 64 KiB",
        ),
    ];
    for (call, status, limit, text) in table {
        let taken = Arc::new(Mutex::new(Vec::new()));
        let bodies = Arc::clone(&taken);
        let (router, sent) = scripted(move |_, _| {
            let (body, taken) = endless();
            bodies.lock().push(taken);
            Response::builder().status(status).body(body).unwrap()
        });
        let err = client(router)
            .build()
            .unwrap()
            .send(call)
            .await
            .unwrap_err();
        assert!(err.to_string().starts_with(text), "{err}");
        assert!(!err.is_not_found() && err.to_string().len() < 1024, "{err}");
        assert_eq!(
            sent.load(Ordering::SeqCst),
            1,
            "{text}: the request was sent again at once"
        );
        let taken = taken.lock()[0].load(Ordering::SeqCst);
        assert!(
            (limit..=limit + 2 * PART).contains(&taken),
            "{text}: {taken} bytes were read"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn refusal_with_a_long_body_is_classified_by_its_status() {
    let answer = |status: StatusCode| {
        let (router, sent) = scripted(move |_, _| {
            let head = Response::builder()
                .status(status)
                .header("retry-after", "30");
            head.body(endless().0).unwrap()
        });
        (client(router).build().unwrap(), sent)
    };
    let (cloud, sent) = answer(SLOW_DOWN);
    for _ in 0..2 {
        let err = cloud.send(GET()).await.unwrap_err();
        assert!(
            err.is_rate_limited()
                && err
                    .retry_after()
                    .is_some_and(|duration| duration.as_secs() == 30),
            "{err:?}"
        );
    }
    assert_eq!(sent.load(Ordering::SeqCst), 1, "the pause holds");
    let (cloud, _) = answer(StatusCode::UNAUTHORIZED);
    assert!(cloud.send(GET()).await.unwrap_err().is_unauthorized());
}

#[tokio::test]
async fn a_gibibyte_that_is_announced_over_a_socket_is_neither_read_nor_reserved() {
    const ANNOUNCED: usize = 1 << 30;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let (mut connection, _) = listener.accept().await.unwrap();
        let _ = connection.read(&mut [0; 4096]).await.unwrap();
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {ANNOUNCED}\r\n\r\n");
        connection.write_all(head.as_bytes()).await.unwrap();
        let part = vec![b' '; PART];
        let mut written = 0;
        while written < ANNOUNCED && connection.write_all(&part).await.is_ok() {
            written += part.len();
        }
        written
    });
    let err = Transport::builder(base)
        .build()
        .unwrap()
        .send(GET())
        .await
        .unwrap_err();
    assert!(err.to_string().contains("more than 1 MiB"), "{err}");
    // The buffers of sockets and of the HTTP library hold bytes that are not read.
    let written = server.await.unwrap();
    assert!(written < 32 << 20, "{written} bytes were taken");
}

#[tokio::test]
async fn error_shows_a_kibibyte_of_an_answer_and_no_half_secret() {
    let echo = |_: usize, headers: &HeaderMap| {
        let token = headers["authorization"].to_str().unwrap();
        let message = format!("{}{token}{}", "é".repeat(505), "x".repeat(30_000));
        (
            StatusCode::BAD_REQUEST,
            format!(r#"{{"error":{{"code":"x","message":"{message}"}}}}"#),
        )
    };
    let (router, _) = scripted(echo);
    let cloud = client(router)
        .credential(Credential::token("s3cret".repeat(30)))
        .build()
        .unwrap();
    let err = cloud.send(GET()).await.unwrap_err().to_string();
    assert!(
        err.len() < 1100 && err.ends_with('…') && !err.contains("s3cret"),
        "{} bytes: {err}",
        err.len()
    );
    assert!(err.contains("é") && err.contains("Bearer [re"), "{err}");
    let (router, _) = scripted(|_, _| format!("\"{}\"", "x".repeat(900_000)));
    let err = client(router)
        .build()
        .unwrap()
        .read::<u32>(GET())
        .await
        .unwrap_err()
        .to_string();
    assert!(
        err.contains("unexpected body") && err.len() < 1200,
        "{} bytes",
        err.len()
    );
}
