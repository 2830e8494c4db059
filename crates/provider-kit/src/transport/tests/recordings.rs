use std::io::Write;

use super::recording::Replay;
use super::*;

fn file(name: &str) -> std::path::PathBuf {
    let file = std::env::temp_dir().join(format!("provider-kit-{name}-{}.jsonl", std::process::id()));
    let _ = std::fs::remove_file(&file);
    file
}

fn create(name: &str) -> Call {
    POST().json(&serde_json::json!({ "name": name, "password": "s3cret" }))
}

fn replaying(replay: &Replay) -> Transport {
    Transport::builder("http://elsewhere/").leaf(replay.clone()).build().unwrap()
}

#[tokio::test]
async fn what_was_recorded_is_answered_again_without_the_cloud_and_without_its_secrets() {
    let file = file("recorded");
    let answer = |n: usize, _: &HeaderMap| ([("x-count", n.to_string())], format!(r#"{{"n":{n},"token":"s3cret"}}"#));
    let (router, _) = scripted(answer);
    let cloud = client(router).credential(Credential::token("s3cret")).record(&file).build().unwrap();
    let list = || GET().query("page", 2);
    cloud.send(list()).await.unwrap();
    cloud.send(create("a")).await.unwrap();
    cloud.send(list()).await.unwrap();
    assert!(!std::fs::read_to_string(&file).unwrap().contains("s3cret"));

    let replay = Replay::in_order(&file).unwrap();
    let again = replaying(&replay);
    for (call, n) in [(list(), "1"), (create("a"), "2"), (list(), "3")] {
        assert_eq!(again.send(call).await.unwrap().headers["x-count"], n);
    }
    assert!(replay.unused().is_empty());
    std::fs::remove_file(file).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_not_in_the_recording_fails_and_says_what_was_expected() {
    let file = file("expected");
    let (router, _) = scripted(|_, _| "{}");
    let cloud = client(router).record(&file).build().unwrap();
    cloud.send(create("a")).await.unwrap();
    cloud.send(create("b")).await.unwrap();

    let replay = Replay::in_order(&file).unwrap();
    let err = replaying(&replay).send(create("b")).await.unwrap_err();
    assert_eq!(
        err.to_string(),
        r#"POST /things was not answered: not in the recording: POST /things {"name":"b","password":"[redacted]"}; expected: POST /things {"name":"a","password":"[redacted]"}"#
    );
    let replay = Replay::in_any_order(&file).unwrap();
    replaying(&replay).send(create("b")).await.unwrap();
    assert_eq!(replay.unused(), [r#"POST /things {"name":"a","password":"[redacted]"}"#]);
    replaying(&replay).send(create("a")).await.unwrap();
    let err = replaying(&replay).send(create("a")).await.unwrap_err();
    assert!(err.to_string().ends_with("expected: nothing more"), "{err}");
    std::fs::File::options().append(true).open(&file).unwrap().write_all(b"{}\n").unwrap();
    let err = Replay::in_order(&file).unwrap_err().to_string();
    assert!(err.contains("line 3: no exchange"), "{err}");
    std::fs::remove_file(file).unwrap();
}

#[tokio::test]
async fn a_dump_shows_every_request_and_answer_and_no_secret() {
    let log = Log::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    let echo = |_: usize, headers: &HeaderMap| {
        let sent = headers["authorization"].to_str().unwrap().to_owned();
        ([("set-cookie", "s3cret")], format!(r#"{{"you_sent":"{sent}","root_password":"s3cret2"}}"#))
    };
    let (router, _) = scripted(echo);
    let client = client(router).credential(Credential::token("s3cret")).dump(true).user_agent("x/1").build().unwrap();
    client.send(create("a").query("token", "s3cret")).await.unwrap();
    let log = log.0.lock().unwrap().join("\n---\n");
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
        self.0.lock().unwrap().push(message.0);
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}
