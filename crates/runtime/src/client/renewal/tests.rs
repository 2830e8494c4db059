//! Tests over real TLS: a server that requires certificates, and files that are replaced.

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

/// Advances the time by one period, which wakes the watcher of the files.
async fn a_period_passes() {
    passes(PERIOD).await;
}

async fn passes(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

/// Records for each change of the kubeconfig whether it was applied.
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
        // The old configuration is used until the server has accepted the new one.
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
    let bare = Renewing::new(Source { with_credential: false, ..stage.source() }, Arc::default(), Arc::default())
        .await
        .unwrap();
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

/// Returns the header that a client sends whose kubeconfig has this user.
async fn authorization(user: &str, file: &str) -> String {
    let stage = Stage::new(user).await;
    stage.write_file("token", file);
    stage.write_file("answer", file);
    let renewing = stage.renewing().await;
    list(&renewing.client().0).await.unwrap();
    String::from_utf8(stage.server.asked()[0].by.clone()).unwrap()
}

#[tokio::test]
async fn a_newline_behind_a_credential_is_no_part_of_it() {
    let plugin = answer(&json!({"token": "s3cr3t\n"}));
    let table = [
        (r#"{token: "s3cr3t\n"}"#, "", "Bearer s3cr3t"),
        (r#"{token: "\r\n s3cr3t \r\n"}"#, "", "Bearer s3cr3t"),
        ("{tokenFile: token}", "s3cr3t\r\n", "Bearer s3cr3t"),
        (PLUGIN, plugin.as_str(), "Bearer s3cr3t"),
        (r#"{auth-provider: {name: oidc, config: {id-token: "s3cr3t\n"}}}"#, "", "Bearer s3cr3t"),
        (r#"{username: "admin\n", password: "s3cr3t\n"}"#, "", "Basic YWRtaW46czNjcjN0"),
    ];
    for (user, file, expected) in table {
        assert_eq!(authorization(user, file).await, expected, "{user}");
    }
}

#[tokio::test]
async fn a_credential_that_no_header_can_hold_is_an_error_at_the_start_and_at_a_reload() {
    let bad = "s3\ncr3t";
    let plugin = answer(&json!({"token": bad}));
    let table = [
        (r#"{token: "s3\ncr3t"}"#, "", "more than one line"),
        ("{tokenFile: token}", bad, "more than one line"),
        (PLUGIN, plugin.as_str(), "the plugin's answer cannot be used: the token has more than one line"),
        (
            r#"{auth-provider: {name: oidc, config: {id-token: "s3\ncr3t"}}}"#,
            "",
            "id-token: the token has more than one line",
        ),
        (r#"{auth-provider: {name: gcp, config: {cmd-path: echo, cmd-args: s3cr3t}}}"#, "", "making a client panicked"),
        (r#"{username: "a", password: "s3\ncr3t"}"#, "", "the password has a control character"),
    ];
    for (user, file, expected) in table {
        let stage = Stage::new(user).await;
        let bad_kubeconfig = std::fs::read_to_string(stage.file("kubeconfig")).unwrap();
        stage.write_file("token", file);
        stage.write_file("answer", file);
        let refused =
            Renewing::new(stage.source(), Arc::default(), Arc::default()).await.map(drop).unwrap_err().to_string();
        assert!(refused.contains(expected) && !refused.contains("cr3t"), "{user}: {refused}");

        let good = Stage::new("{token: good}").await;
        let renewing = good.renewing().await;
        good.write_file("kubeconfig", &bad_kubeconfig);
        for news in ["Unusable(", "StillUnusable"] {
            good.write_file("token", file);
            let told = renewing.look(renewing.cause(&mut Hashes::default())).await;
            let told = format!("{told:?}");
            assert!(told.contains(news) && !told.contains("cr3t"), "{user}: {told}");
        }
        list(&renewing.client().0).await.unwrap();
        assert_eq!(good.server.asked().last().unwrap().by, b"Bearer good", "{user}");
    }
}

#[tokio::test]
async fn a_port_that_does_not_exist_is_refused_and_the_error_shows_no_password() {
    let stage = Stage::new("{token: one}").await;
    let kubeconfig = std::fs::read_to_string(stage.file("kubeconfig")).unwrap();
    let server = kubeconfig.split('\'').nth(1).unwrap().to_owned();
    let refusal = async |url: &str, more: &str| {
        let changed = kubeconfig.replace(&format!("'{server}'"), &format!("'{url}'{more}"));
        stage.write_file("kubeconfig", &changed);
        Renewing::new(stage.source(), Arc::default(), Arc::default()).await.map(drop).unwrap_err().to_string()
    };
    let error = refusal("https://admin:s3cr3t@10.0.0.1:99999", "").await;
    assert!(error.contains("https://10.0.0.1:99999") && error.contains("from 1 to 65535"), "{error}");
    assert!(!error.contains("s3cr3t") && !error.contains("admin"), "{error}");
    for proxy in ["http://admin:s3cr3t@proxy:99999", "socks5://admin:s3cr3t@proxy:1080", "ftp://admin:s3cr3t@proxy"] {
        let error = refusal(&server, &format!(", proxy-url: '{proxy}'")).await;
        assert!(error.contains("proxy") && !error.contains("s3cr3t") && !error.contains("admin"), "{error}");
    }
}

#[tokio::test]
async fn a_server_s_address_without_a_scheme_has_that_of_its_certificates() {
    let stage = Stage::new("{token: one}").await;
    let kubeconfig = std::fs::read_to_string(stage.file("kubeconfig")).unwrap();
    stage.write_file("kubeconfig", &kubeconfig.replace("https://", ""));
    list(&stage.renewing().await.client().0).await.unwrap();
    stage.write_file("kubeconfig", &kubeconfig.replace("https://", "https://admin:s3cr3t@"));
    list(&stage.renewing().await.client().0).await.unwrap();
    assert!(stage.server.asked().iter().all(|asked| asked.by == b"Bearer one"));
}

/// Returns two clusters, and a kubeconfig that changes from the first to the second.
#[tokio::test]
async fn a_kubeconfig_that_leads_to_another_cluster_is_never_used() {
    let stage = Stage::new(r#"{client-certificate: client.crt, client-key: client.key}"#).await;
    stage.write("client", &stage.users.client("ccm"));
    let other = Stage::new(r#"{client-certificate: client.crt, client-key: client.key}"#).await;
    other.write("client", &other.users.client("ccm"));
    let uid = |stage: &Stage| {
        let namespace = stage.server.api.get("namespaces", None, "kube-system").unwrap();
        namespace["metadata"]["uid"].as_str().unwrap().to_owned()
    };
    let options = ClientOptions { kubeconfig: Some(stage.file("kubeconfig")), ..ClientOptions::default() };
    let told = Arc::new(Told::default());
    let client = crate::client::connect(&options, "test", told.clone()).await.unwrap();
    list(&client).await.unwrap();
    let identity = crate::cluster::ClusterIdentity::of(Some(uid(&stage)));
    options.require_cluster(&identity);
    let fence = identity.fence(cloud_provider::Fence::open());
    assert!(fence.is_open());

    for name in ["ca.crt", "client.crt", "client.key", "kubeconfig"] {
        std::fs::copy(other.file(name), stage.file(name)).unwrap();
    }
    other.server.forget();
    a_period_passes().await;
    until("it is tried", || told.last().is_some()).await;
    assert_eq!(told.last(), Some(false));
    let refused = identity.refused().await;
    assert_eq!((refused.expected, refused.found), (uid(&stage), uid(&other)));
    assert!(refused.origin.ends_with("kubeconfig"), "{}", refused.origin);
    assert!(!fence.is_open(), "nothing is changed any more");
    list(&client).await.unwrap();
    let paths: Vec<_> = other.server.asked().into_iter().map(|asked| asked.path).collect();
    assert_eq!(paths, ["/version", "/api/v1/namespaces/kube-system"], "nothing else is read from the other cluster");
}

#[tokio::test]
async fn a_kubeconfig_that_leads_to_the_same_cluster_is_used_though_the_namespace_may_not_be_read() {
    let stage = Stage::new(r#"{client-certificate: client.crt, client-key: client.key}"#).await;
    stage.write("client", &stage.users.client("ccm"));
    let renewing = stage.renewing().await;
    let identity = crate::cluster::ClusterIdentity::of(Some("unknown to the server".to_owned()));
    let forbidden = embedded_apiserver::Action::Status {
        code: 403,
        reason: "Forbidden".into(),
        message: "no".into(),
        retry_after_seconds: None,
    };
    stage.server.api.faults().add(embedded_apiserver::Matcher::any().resource("namespaces"), forbidden);
    renewing.required.require(&stage.file("kubeconfig"), None, &identity);
    stage.write("client", &stage.users.client("ccm"));
    assert_eq!(renew(&renewing).await, Ok(true));
    assert_eq!(identity.other(), None);
}
