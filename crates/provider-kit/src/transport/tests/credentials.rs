use std::collections::BTreeSet;
use std::path::PathBuf;

use super::*;

/// A cloud that accepts some tokens, and records the tokens that it received.
#[derive(Clone, Default)]
struct Cloud {
    valid: Arc<Mutex<BTreeSet<&'static str>>>,
    shown: Arc<Mutex<Vec<String>>>,
}

impl Cloud {
    fn with(valid: &[&'static str]) -> Self {
        let cloud = Self::default();
        cloud.accept(valid);
        cloud
    }

    fn accept(&self, valid: &[&'static str]) {
        *self.valid.lock() = valid.iter().copied().collect();
    }

    /// Returns the tokens that the cloud received since the last call.
    fn shown(&self) -> Vec<String> {
        std::mem::take(&mut self.shown.lock())
    }

    fn router(&self) -> Router {
        let cloud = self.clone();
        Router::new().fallback(any(move |request: axum::extract::Request| async move {
            let token = request.headers()["authorization"]
                .to_str()
                .unwrap()
                .trim_start_matches("Bearer ")
                .to_owned();
            cloud
                .shown
                .lock()
                .push(format!("{token} {}", request.uri().path()));
            if cloud.valid.lock().contains(&*token) {
                StatusCode::OK
            } else {
                StatusCode::UNAUTHORIZED
            }
        }))
    }
}

struct File(PathBuf);

impl File {
    fn new(name: &str, token: &str) -> Self {
        let file =
            Self(std::env::temp_dir().join(format!("provider-kit-{name}-{}", std::process::id())));
        file.write(token);
        file
    }
    fn write(&self, token: &str) {
        std::fs::write(&self.0, token).unwrap();
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A recorder of whether each new token came into use.
#[derive(Default)]
struct Told(Mutex<Vec<bool>>);

impl CloudMetrics for Told {
    fn credential_changed(&self, is_in_use: bool) {
        self.0.lock().push(is_in_use);
    }
}

/// Rule P-39: metrics report the outcome of each new token.
#[tokio::test(start_paused = true)]
async fn metrics_report_the_outcome_of_each_new_token() {
    let cloud = Cloud::with(&["a", "ccc"]);
    let file = File::new("told", "a");
    let told = Arc::new(Told::default());
    let builder = client(cloud.router()).credential(Credential::file(&file.0).unwrap());
    let client = builder
        .validate(Call::get("/check", &[]))
        .metrics(Arc::clone(&told) as Arc<dyn CloudMetrics>);
    let client = client.build().unwrap();
    for token in ["bb", "ccc", "d"] {
        client.send(POST()).await.unwrap();
        file.write(token);
    }
    client.send(POST()).await.unwrap();
    assert_eq!(*told.0.lock(), [false, true, false]);
    cloud.accept(&["d"]);
    client.send(POST()).await.unwrap();
    assert_eq!(
        *told.0.lock(),
        [false, true, false, true],
        "refused before, and now there is no other"
    );
}

fn validating(cloud: &Cloud, file: &File) -> (Transport, Credential) {
    let credential = Credential::file(&file.0).unwrap();
    let client = client(cloud.router())
        .credential(credential.clone())
        .validate(Call::get("/check", &[]));
    (client.build().unwrap(), credential)
}

#[tokio::test(start_paused = true)]
async fn a_new_token_is_tried_before_it_is_used() {
    let cloud = Cloud::with(&["a", "bb"]);
    let file = File::new("tried", "a");
    let (client, credential) = validating(&cloud, &file);
    client.send(POST()).await.unwrap();
    assert_eq!(cloud.shown(), ["a /things"]);
    file.write("bb");
    client.send(POST()).await.unwrap();
    client.send(POST()).await.unwrap();
    assert_eq!(cloud.shown(), ["bb /check", "bb /things", "bb /things"]);
    assert_eq!(credential.generation(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_new_token_that_is_refused_is_tried_again_after_a_minute_or_a_change() {
    let cloud = Cloud::with(&["a", "ccc"]);
    let file = File::new("refused", "a");
    let (client, credential) = validating(&cloud, &file);
    file.write("bb");
    for _ in 0..3 {
        client.send(POST()).await.unwrap();
    }
    assert_eq!(
        cloud.shown(),
        ["bb /check", "a /things", "a /things", "a /things"]
    );
    tokio::time::sleep(Duration::from_secs(61)).await;
    client.send(POST()).await.unwrap();
    assert_eq!(cloud.shown(), ["bb /check", "a /things"]);
    file.write("ccc");
    client.send(POST()).await.unwrap();
    assert_eq!(cloud.shown(), ["ccc /check", "ccc /things"]);
    assert_eq!(credential.generation(), 3);
}

#[tokio::test(start_paused = true)]
async fn rejected_new_token_is_used_when_the_old_one_expires() {
    let cloud = Cloud::with(&["a"]);
    let file = File::new("ended", "a");
    let (client, _) = validating(&cloud, &file);
    file.write("bb");
    client.send(POST()).await.unwrap();
    cloud.shown();
    cloud.accept(&["bb"]);
    client.send(POST()).await.unwrap();
    assert_eq!(cloud.shown(), ["a /things", "bb /things"]);
}

#[tokio::test(start_paused = true)]
async fn only_one_caller_tries_a_new_token() {
    let cloud = Cloud::with(&["a", "bb"]);
    let file = File::new("one", "a");
    let (client, _) = validating(&cloud, &file);
    client.send(POST()).await.unwrap();
    cloud.shown();
    file.write("bb");
    let (one, two) = tokio::join!(client.send(POST()), client.send(GET()));
    assert!(one.is_ok() && two.is_ok());
    let shown = cloud.shown();
    assert_eq!(
        shown.iter().filter(|shown| *shown == "bb /check").count(),
        1,
        "{shown:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn dropped_trial_of_a_token_is_repeated_by_the_next_caller() {
    let cloud = Cloud::with(&["a", "bb"]);
    let file = File::new("dropped", "a");
    let credential = Credential::file(&file.0).unwrap();
    let slow = Router::new().route("/check", any(|| tokio::time::sleep(Duration::from_secs(5))));
    let router = slow.fallback_service(cloud.router());
    let client = client(router)
        .credential(credential.clone())
        .validate(Call::get("/check", &[]))
        .build()
        .unwrap();
    file.write("bb");
    assert!(
        tokio::time::timeout(Duration::from_secs(1), client.send(POST()))
            .await
            .is_err()
    );
    client.send(POST()).await.unwrap();
    assert_eq!(cloud.shown(), ["bb /things"]);
}

#[tokio::test]
async fn user_and_password_are_sent_and_reach_no_error() {
    let echo = |_: usize, headers: &HeaderMap| {
        (
            StatusCode::FORBIDDEN,
            headers["authorization"].to_str().unwrap().to_owned(),
        )
    };
    let (router, _) = scripted(echo);
    let client = client(router)
        .credential(Credential::basic("#ws+user", "pass:word"))
        .build()
        .unwrap();
    let err = client.send(GET()).await.unwrap_err();
    assert_eq!(
        err.to_string(),
        "GET /things/7 answered 403: Basic [redacted]"
    );
}
