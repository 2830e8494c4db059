//! Sessions: tokens that expire, and services whose URL comes with the token.

use async_trait::async_trait;
use http::HeaderName;

use super::*;

/// A session that issues tokens `t1`, `t2`, …, for a service that moves with each.
#[derive(Default)]
struct Tokens {
    made: AtomicUsize,
    broken: Mutex<Option<Error>>,
    /// If set, there is nothing to renew.
    given: bool,
}

impl Tokens {
    fn access_of(&self, number: usize) -> Arc<Access> {
        let name = HeaderName::from_static("x-auth-token");
        Arc::new(
            Access::new(
                &format!("http://cloud/at/{number}/"),
                name,
                &format!("t{number}").into(),
            )
            .unwrap(),
        )
    }
}

#[async_trait]
impl Session for Tokens {
    async fn access(&self) -> Result<Arc<Access>> {
        let broken = self.broken.lock().clone();
        broken.map_or(Ok(()), Err)?;
        Ok(self.access_of(self.made.load(Ordering::SeqCst).max(1)))
    }

    async fn renewed(&self, refused: &Arc<Access>) -> Result<Option<Arc<Access>>> {
        assert!(refused.base().starts_with("http://cloud/at/"));
        if self.given {
            return Ok(None);
        }
        let number = self.made.fetch_add(1, Ordering::SeqCst).max(1) + 1;
        self.made.store(number, Ordering::SeqCst);
        Ok(Some(self.access_of(number)))
    }
}

/// Returns a service that accepts these tokens, and the requests that it received.
fn service(accepted: &'static [&'static str]) -> (Router, Arc<Mutex<Vec<String>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sent = Arc::clone(&seen);
    let answer = move |uri: http::Uri, headers: HeaderMap| async move {
        let token = headers["x-auth-token"].to_str().unwrap().to_owned();
        sent.lock().push(format!("{} {token}", uri.path()));
        let status = if accepted.contains(&&*token) {
            StatusCode::OK
        } else {
            StatusCode::UNAUTHORIZED
        };
        (
            status,
            format!(r#"{{"error":{{"code":"x","message":"who is {token}?"}}}}"#),
        )
    };
    (Router::new().fallback(any(answer)), seen)
}

fn client_of(tokens: Tokens, router: Router) -> (Transport, Arc<Tokens>) {
    let tokens = Arc::new(tokens);
    (
        Transport::of_session(Arc::clone(&tokens) as Arc<dyn Session>)
            .service(router)
            .build()
            .unwrap(),
        tokens,
    )
}

#[tokio::test]
async fn a_token_that_is_refused_is_renewed_once_and_its_service_may_be_elsewhere() {
    let (router, seen) = service(&["t2"]);
    let (client, _) = client_of(Tokens::default(), router);
    client.send(POST()).await.unwrap();
    client.send(GET()).await.unwrap();
    assert_eq!(
        *seen.lock(),
        ["/at/1/things t1", "/at/2/things t2", "/at/2/things/7 t2"]
    );
}

#[tokio::test]
async fn a_new_token_that_is_refused_too_is_the_answer_without_the_token() {
    let (router, seen) = service(&[]);
    let (client, _) = client_of(Tokens::default(), router);
    let error = client.send(GET()).await.unwrap_err();
    assert!(error.is_unauthorized());
    assert_eq!(
        error.to_string(),
        "GET /things/7 answered 401: who is [redacted]?"
    );
    assert_eq!(seen.lock().len(), 2);
}

#[tokio::test]
async fn refusal_stands_without_a_renewable_token() {
    let (router, seen) = service(&[]);
    let (client, _) = client_of(
        Tokens {
            given: true,
            ..Tokens::default()
        },
        router,
    );
    assert!(client.send(GET()).await.unwrap_err().is_unauthorized());
    assert_eq!(seen.lock().len(), 1);
}

#[tokio::test]
async fn without_a_token_nothing_is_sent() {
    let (router, seen) = service(&["t1"]);
    let (client, tokens) = client_of(Tokens::default(), router);
    *tokens.broken.lock() = Some(Error::unauthorized("no token: wrong password"));
    let error = client.send(GET()).await.unwrap_err();
    assert_eq!(
        (error.is_unauthorized(), &*error.to_string()),
        (true, "no token: wrong password")
    );
    *tokens.broken.lock() = Some(Error::not_found("no role of the machine"));
    let error = client
        .find::<serde_json::Value>(GET())
        .await
        .expect_err("the object was not looked for");
    assert!(
        error.to_string().ends_with("no role of the machine"),
        "{error}"
    );
    client.remove(GET()).await.expect_err("nothing was sent");
    *tokens.broken.lock() = None;
    client.send(GET()).await.unwrap();
    assert_eq!((seen.lock().len(), client.base()), (1, String::new()));
}

#[tokio::test]
async fn call_sends_its_headers_and_hides_its_secrets() {
    let answer = |headers: HeaderMap, body: String| async move {
        let condition = headers["if-match"].to_str().unwrap();
        let agent = headers["user-agent"].to_str().unwrap();
        (
            StatusCode::PRECONDITION_FAILED,
            format!("{condition} {agent} {body}"),
        )
    };
    let client = client(Router::new().fallback(any(answer)))
        .user_agent("cluster/1")
        .user_agent("x")
        .build()
        .unwrap();
    // The cloud repeats the value as JSON escapes it.
    let call = Call::put("/things", &[])
        .header("if-match", "revision_number=7")
        .json(&"pass\"word");
    let error = client
        .send(call.clone().hide("pass\"word".to_owned().into()))
        .await
        .unwrap_err();
    let agent = concat!("cluster/1 x ccm-rs/", env!("CARGO_PKG_VERSION"));
    let said = format!("PUT /things answered 412: revision_number=7 {agent} \"[redacted]\"");
    assert_eq!((error.is_conflict(), error.to_string()), (true, said));
    assert!(
        client
            .send(call.header("x-y", "a\nb"))
            .await
            .unwrap_err()
            .to_string()
            .contains("cannot be sent")
    );
}

#[tokio::test]
async fn status_300_is_an_answer() {
    let (router, _) = scripted(|_, _| (StatusCode::MULTIPLE_CHOICES, "[1,2]"));
    let answer: Vec<u32> = client(router).build().unwrap().read(GET()).await.unwrap();
    assert_eq!(answer, [1, 2]);
}

#[test]
fn invalid_tls_files_are_reported_before_any_request() {
    let directory = std::env::temp_dir().join(format!("provider-kit-tls-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let file = directory.join("ca.pem");
    std::fs::write(&file, "s3cret but no PEM").unwrap();
    let said = |tls: Tls| network(&tls, "http://cloud").err().unwrap();
    let missing = Tls {
        roots: Some(directory.join("none.pem")),
        ..Tls::default()
    };
    assert!(said(missing).to_string().starts_with("cannot read "));
    let broken = said(Tls {
        roots: Some(file.clone()),
        ..Tls::default()
    });
    assert!(
        broken.is_invalid()
            && broken
                .to_string()
                .ends_with("ca.pem holds no certificate in the form of PEM")
    );
    let broken = said(Tls {
        identity: Some((file.clone(), file)),
        ..Tls::default()
    });
    assert!(
        broken.is_invalid() && !broken.to_string().contains("s3cret"),
        "{broken}"
    );
    std::fs::remove_dir_all(directory).unwrap();
}
