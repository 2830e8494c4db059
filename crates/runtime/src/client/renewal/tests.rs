//! Over real TLS: a server that asks for certificates, and files that are replaced.

mod stage;

use cloud_provider::Node;
use k8s_openapi::api::core::v1::Node as ApiNode;
use kube::Api;
use serde_json::json;

use self::stage::{Authority, Stage, until};
use super::*;
use crate::cache::{Cache, WatchConfig, watch};
use crate::client::kubeconfigs::{PAUSE, PERIOD};
use crate::client::{ClientOptions, NoRequestMetrics, RequestMetrics};
use crate::node::NodeObject;

/// Wakes who looks at the files.
async fn a_period_passes() {
    passes(PERIOD).await;
}

async fn passes(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

/// Whether each change of the kubeconfig came into use.
#[derive(Default)]
struct Told(Mutex<Vec<bool>>);

impl RequestMetrics for Told {
    fn kubeconfig_changed(&self, is_in_use: bool) {
        self.0.lock().unwrap().push(is_in_use);
    }
}

impl Told {
    fn last(&self) -> Option<bool> {
        self.0.lock().unwrap().last().copied()
    }
}

/// Looks at the files, and takes over what is new.
async fn renew(renewing: &Renewing) -> Result<bool, String> {
    match renewing.cause(&mut Hashes::default()) {
        Some(cause) => renewing.renew(cause).await,
        None => Ok(false),
    }
}

async fn list(client: &Client) -> Result<(), String> {
    let nodes = Api::<ApiNode>::all(client.clone());
    nodes.list(&Default::default()).await.map(drop).map_err(|error| api_error(&error).to_string())
}

#[tokio::test]
async fn a_certificate_that_is_replaced_is_used_by_the_next_request_and_watches_come_back_with_it() {
    let stage = Stage::new(r#"{client-certificate: client.crt, client-key: client.key}"#).await;
    let old = stage.users.client("ccm");
    stage.write("client", &old);
    let options = ClientOptions { kubeconfig: Some(stage.file("kubeconfig")), ..ClientOptions::default() };
    let client = crate::client::connect(&options, "test", Arc::new(NoRequestMetrics)).await.unwrap();
    let (cache, shutdown) = (Cache::<Node>::new(), CancellationToken::new());
    let objects: Api<NodeObject> = Api::all(client.clone());
    tokio::spawn(watch(objects, WatchConfig::default(), cache.clone(), shutdown.clone()));
    cache.wait_synced().await;
    assert!(stage.server.asked().iter().all(|asked| asked.by == old.der()));

    let new = stage.users.client("ccm");
    stage.write("client", &new);
    stage.server.forget();
    a_period_passes().await;
    let is_watched_anew = || stage.server.asked().iter().any(|asked| asked.by == new.der() && asked.is_watch);
    until("the watch is back", is_watched_anew).await;
    stage.server.api.seed(json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": "later"}})).unwrap();
    until("the watch tells of what happens", || cache.get("later").is_some()).await;
    list(&client).await.unwrap();
    assert!(stage.server.asked().iter().all(|asked| asked.by == new.der()), "{:?}", stage.server.asked());
    shutdown.cancel();
}

#[tokio::test]
async fn what_many_clients_need_is_tried_once_and_used_by_all() {
    let stage = Stage::new(r#"{client-certificate: client.crt, client-key: client.key}"#).await;
    stage.write("client", &stage.users.client("ccm"));
    let options = ClientOptions { kubeconfig: Some(stage.file("kubeconfig")), ..ClientOptions::default() };
    let mut clients = Vec::new();
    for name in ["one", "two", "three", "four"] {
        clients.push(crate::client::connect(&options, name, Arc::new(NoRequestMetrics)).await.unwrap());
    }
    let new = stage.users.client("ccm");
    stage.write("client", &new);
    a_period_passes().await;
    let tried = || stage.server.asked().iter().filter(|asked| asked.path == "/version").count();
    until("it is tried", || tried() > 0).await;
    for client in &clients {
        // Until the answer to the try has come back the old one is in use.
        loop {
            list(client).await.unwrap();
            if stage.server.asked().last().is_some_and(|asked| asked.by == new.der()) {
                break;
            }
        }
    }
    assert_eq!(tried(), 1);
}

#[test]
fn no_file_is_read_twice_in_a_look() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("token");
    std::fs::write(&path, "one").unwrap();
    let mut hashes = Hashes::default();
    let before = hashes.of(&path);
    std::fs::write(&path, "two").unwrap();
    assert_eq!(hashes.of(&path), before);
    assert_ne!(Hashes::default().of(&path), before);
}

#[tokio::test]
async fn a_credential_that_is_refused_is_looked_for_at_once_and_what_is_in_use_is_told() {
    let stage = Stage::new("{tokenFile: token}").await;
    stage.write_file("token", "first");
    let options = ClientOptions { kubeconfig: Some(stage.file("kubeconfig")), ..ClientOptions::default() };
    let told = Arc::new(Told::default());
    let client = crate::client::connect(&options, "test", Arc::clone(&told) as Arc<dyn RequestMetrics>).await.unwrap();
    list(&client).await.unwrap();
    stage.write_file("token", "");
    stage.server.refuse(b"Bearer first");
    list(&client).await.unwrap_err();
    tokio::task::yield_now().await;
    passes(PAUSE).await;
    until("trouble is told", || told.last() == Some(false)).await;
    stage.write_file("token", "second");
    list(&client).await.unwrap_err();
    tokio::task::yield_now().await;
    passes(PAUSE).await;
    until("its end is told", || told.last() == Some(true)).await;
    list(&client).await.unwrap();
}

#[tokio::test]
async fn files_that_stay_the_same_cost_no_request() {
    let stage = Stage::new(r#"{client-certificate: client.crt, client-key: client.key}"#).await;
    stage.write("client", &stage.users.client("ccm"));
    let renewing = stage.renewing().await;
    assert_eq!(renew(&renewing).await, Ok(false));
    assert!(stage.server.asked().is_empty());
}

#[tokio::test]
async fn what_cannot_be_used_or_is_not_accepted_never_replaces_what_is_in_use() {
    let stage = Stage::new(r#"{client-certificate: client.crt, client-key: client.key}"#).await;
    let (old, new) = (stage.users.client("ccm"), stage.users.client("ccm"));
    stage.write("client", &old);
    let renewing = stage.renewing().await;
    let client = renewing.client().0;
    let still_the_old_one = async |what: &str| {
        let problem = renew(&renewing).await.expect_err(what);
        assert!(!problem.contains("PRIVATE KEY") && !problem.contains('\n'), "{problem}");
        stage.server.forget();
        list(&client).await.expect(what);
        assert!(stage.server.asked().iter().all(|asked| asked.by == old.der()), "{what}");
        problem
    };
    stage.write_file("client.crt", &new.certificate);
    still_the_old_one("the key is another one's").await;
    stage.write_file("client.key", "half a fi");
    still_the_old_one("there is no key").await;
    std::fs::remove_file(stage.file("client.key")).unwrap();
    still_the_old_one("there is no file").await;
    stage.write("client", &Authority::new("somebody else's").client("ccm"));
    still_the_old_one("the server does not know who issued it").await;
    stage.server.refuse(&new.der());
    stage.write("client", &new);
    let problem = still_the_old_one("the server does not accept it").await;
    assert_eq!(problem, "the API server does not accept the credential");

    stage.server.refuse(b"");
    assert_eq!(renew(&renewing).await, Ok(true), "it is accepted at last");
    stage.server.forget();
    list(&client).await.unwrap();
    assert_eq!(stage.server.asked()[0].by, new.der());
}

#[tokio::test]
async fn trouble_is_said_once_and_so_is_its_end() {
    let stage = Stage::new("{tokenFile: token}").await;
    stage.write_file("token", "first");
    let renewing = stage.renewing().await;
    for (text, said) in
        [("first", ""), ("", "is empty"), ("", "StillUnusable"), ("first", ""), ("", "is empty"), ("second", "InUse")]
    {
        stage.write_file("token", text);
        let news = renewing.look(renewing.cause(&mut Hashes::default())).await;
        let news = news.map(|news| format!("{news:?}")).unwrap_or_default();
        assert!(news.contains(said) && news.is_empty() == said.is_empty(), "{text:?}: {news}");
    }
}

#[tokio::test]
async fn a_token_file_and_a_server_s_new_authority_are_taken_over() {
    let stage = Stage::new("{tokenFile: token}").await;
    stage.write_file("token", "first\n");
    let renewing = stage.renewing().await;
    let client = renewing.client().0;
    let asked_by = async || {
        stage.server.forget();
        list(&client).await.unwrap();
        String::from_utf8(stage.server.asked()[0].by.clone()).unwrap()
    };
    assert_eq!(asked_by().await, "Bearer first");
    stage.write_file("token", "");
    assert!(
        renew(&renewing).await.unwrap_err().ends_with("token is empty; check the path, and that this user may read it")
    );
    assert_eq!(asked_by().await, "Bearer first");
    stage.write_file("token", " second\n");
    assert_eq!(renew(&renewing).await, Ok(true));
    assert_eq!(asked_by().await, "Bearer second");

    let successor = Authority::new("successor");
    stage.server.serve_as(&successor);
    stage.write_file("ca.crt", &successor.pem);
    assert_eq!(renew(&renewing).await, Ok(true));
    assert_eq!(asked_by().await, "Bearer second");
}

#[tokio::test]
async fn another_server_or_user_in_the_kubeconfig_is_used_and_not_where_only_the_server_counts() {
    let (stage, other) = (Stage::new("{token: one}").await, Stage::new("{token: two}").await);
    let renewing = stage.renewing().await;
    let bare = Renewing::new(Source { with_credential: false, ..stage.source() }, Arc::default()).await.unwrap();
    for file in ["ca.crt", "kubeconfig"] {
        std::fs::copy(other.file(file), stage.file(file)).unwrap();
    }
    for (renewing, expected) in [(renewing, "Bearer two"), (bare, "")] {
        other.server.forget();
        assert_eq!(renew(&renewing).await, Ok(true));
        list(&renewing.client().0).await.unwrap();
        assert!(other.server.asked().iter().all(|asked| asked.by == expected.as_bytes()), "{expected}");
        assert!(stage.server.asked().is_empty());
    }
}

/// A user whose plugin shows the file `answer`.
const PLUGIN: &str = r#"{exec: {apiVersion: client.authentication.k8s.io/v1, command: cat, args: [DIRECTORY/answer], interactiveMode: Never}}"#;

fn answer(status: &serde_json::Value) -> String {
    json!({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}).to_string()
}

#[tokio::test]
async fn a_plugin_is_asked_again_before_its_certificate_ends() {
    let stage = Stage::new(PLUGIN).await;
    let give = |issued: &stage::Issued, end: SignedDuration| {
        let end = (Timestamp::now() + end).to_string();
        stage.write_file(
            "answer",
            &answer(&json!({"clientCertificateData": issued.certificate, "clientKeyData": issued.key, "expirationTimestamp": end})),
        );
    };
    let (old, new) = (stage.users.client("ccm"), stage.users.client("ccm"));
    give(&old, SignedDuration::from_secs(30));
    let renewing = stage.renewing().await;
    assert_eq!(renew(&renewing).await, Ok(false), "the plugin has no other one yet");
    give(&new, SignedDuration::from_hours(1));
    assert_eq!(renew(&renewing).await, Ok(true));
    stage.server.forget();
    list(&renewing.client().0).await.unwrap();
    assert_eq!(stage.server.asked()[0].by, new.der());
    give(&old, SignedDuration::from_hours(2));
    assert_eq!(renew(&renewing).await, Ok(false), "there is time");
}

#[tokio::test]
async fn a_plugin_is_asked_again_when_what_it_gave_is_refused() {
    let stage = Stage::new(PLUGIN).await;
    stage.write_file("answer", &answer(&json!({"token": "one"})));
    let renewing = stage.renewing().await;
    let client = renewing.client().0;
    list(&client).await.unwrap();
    stage.write_file("answer", &answer(&json!({"token": "two"})));
    assert_eq!(renew(&renewing).await, Ok(false), "the first one is good");
    stage.server.refuse(b"Bearer one");
    list(&client).await.unwrap_err();
    assert_eq!(renew(&renewing).await, Ok(true));
    list(&client).await.unwrap();
}
