use super::*;

fn create(name: &str) -> Call {
    POST().json(&serde_json::json!({ "name": name, "password": "s3cret" }))
}

#[tokio::test]
async fn a_dump_shows_every_request_and_answer_and_no_secret() {
    let log = Log::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    let echo = |_: usize, headers: &HeaderMap| {
        let sent = headers["authorization"].to_str().unwrap().to_owned();
        (
            [("set-cookie", "s3cret")],
            format!(r#"{{"you_sent":"{sent}","root_password":"s3cret2"}}"#),
        )
    };
    let (router, _) = scripted(echo);
    let client = client(router)
        .credential(Credential::token("s3cret"))
        .log_bodies(true)
        .user_agent("x/1")
        .build()
        .unwrap();
    client
        .send(create("a").query("token", "s3cret"))
        .await
        .unwrap();
    let log = log.0.lock().join("\n---\n");
    assert_eq!(
        log,
        "POST http://cloud/things?token=[redacted]\n\
         user-agent: x/1 ccm-rs/0.1.0\n\
         accept: application/json\n\
         content-type: application/json\n\
         authorization: [redacted]\n\
         {\"name\":\"a\",\"password\":\"[redacted]\"}\n\
         ---\n\
         POST /things answered 200\n\
         content-type: text/plain; charset=utf-8\n\
         set-cookie: [redacted]\n\
         content-length: 54\n\
         {\"root_password\":\"[redacted]\",\"you_sent\":\"Bearer [redacted]\"}"
    );
}

/// The messages that were logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl tracing::Subscriber for Log {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("provider_kit")
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        struct Message(String);
        impl tracing::field::Visit for Message {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn fmt::Debug) {
                if field.name() == "message" {
                    self.0 = format!("{value:?}");
                }
            }
        }
        let mut message = Message(String::new());
        event.record(&mut message);
        self.0.lock().push(message.0);
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}
