//! Tests over real TLS: a server that requires certificates, and files that are replaced.

mod harness;

use cloud_provider::Node;
use k8s_openapi::api::core::v1::Node as ApiNode;
use kube::Api;
use serde_json::json;

use self::harness::{Authority, Harness, until};
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
struct ReloadLog(Mutex<Vec<bool>>);

impl RequestMetrics for ReloadLog {
    fn kubeconfig_changed(&self, is_in_use: bool) {
        self.0.lock().push(is_in_use);
    }
}

impl ReloadLog {
    fn last(&self) -> Option<bool> {
        self.0.lock().last().copied()
    }
}

/// Looks at the files, and takes over what is new.
async fn reload(reloading_client: &ReloadingClient) -> Result<bool, String> {
    match reloading_client.cause(&mut Hashes::default()) {
        Some(cause) => reloading_client.reload(cause).await,
        None => Ok(false),
    }
}

async fn list(client: &Client) -> Result<(), String> {
    let nodes = Api::<ApiNode>::all(client.clone());
    nodes
        .list(&Default::default())
        .await
        .map(drop)
        .map_err(|error| api_error(&error).to_string())
}

#[tokio::test]
async fn a_certificate_that_is_replaced_is_used_by_the_next_request_and_watches_come_back_with_it()
{
    let harness = Harness::new(r#"{client-certificate: client.crt, client-key: client.key}"#).await;
    let old = harness.users.client("ccm");
    harness.write("client", &old);
    let options = ClientOptions {
        kubeconfig: Some(harness.file("kubeconfig")),
        ..ClientOptions::default()
    };
    let client = crate::client::connect(&options, "test", Arc::new(NoRequestMetrics))
        .await
        .unwrap();
    let cache = Cache::<Node>::new();
    let shutdown = CancellationToken::new();
    let objects: Api<NodeObject> = Api::all(client.clone());
    tokio::spawn(watch(
        objects,
        WatchConfig::default(),
        cache.clone(),
        shutdown.clone(),
    ));
    cache.wait_synced().await;
    assert!(
        harness
            .server
            .requests()
            .iter()
            .all(|requests| requests.by == old.der())
    );

    let new = harness.users.client("ccm");
    harness.write("client", &new);
    harness.server.forget();
    a_period_passes().await;
    let is_watched_anew = || {
        harness
            .server
            .requests()
            .iter()
            .any(|requests| requests.by == new.der() && requests.is_watch)
    };
    until("the watch is back", is_watched_anew).await;
    harness
        .server
        .api
        .seed(json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": "later"}}))
        .unwrap();
    until("the watch tells of what happens", || {
        cache.get("later").is_some()
    })
    .await;
    list(&client).await.unwrap();
    assert!(
        harness
            .server
            .requests()
            .iter()
            .all(|requests| requests.by == new.der()),
        "{:?}",
        harness.server.requests()
    );
    shutdown.cancel();
}

#[tokio::test]
async fn shared_kubeconfig_is_verified_once_and_used_by_all_clients() {
    let harness = Harness::new(r#"{client-certificate: client.crt, client-key: client.key}"#).await;
    harness.write("client", &harness.users.client("ccm"));
    let options = ClientOptions {
        kubeconfig: Some(harness.file("kubeconfig")),
        ..ClientOptions::default()
    };
    let mut clients = Vec::new();
    for name in ["one", "two", "three", "four"] {
        clients.push(
            crate::client::connect(&options, name, Arc::new(NoRequestMetrics))
                .await
                .unwrap(),
        );
    }
    let new = harness.users.client("ccm");
    harness.write("client", &new);
    a_period_passes().await;
    let tried = || {
        harness
            .server
            .requests()
            .iter()
            .filter(|requests| requests.path == "/version")
            .count()
    };
    until("it is tried", || tried() > 0).await;
    for client in &clients {
        // The old configuration is used until the server has accepted the new one.
        loop {
            list(client).await.unwrap();
            if harness
                .server
                .requests()
                .last()
                .is_some_and(|requests| requests.by == new.der())
            {
                break;
            }
        }
    }
    assert_eq!(tried(), 1);
}

#[test]
fn no_file_is_read_twice_in_one_check() {
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
    let harness = Harness::new("{tokenFile: token}").await;
    harness.write_file("token", "first");
    let options = ClientOptions {
        kubeconfig: Some(harness.file("kubeconfig")),
        ..ClientOptions::default()
    };
    let log = Arc::new(ReloadLog::default());
    let client = crate::client::connect(
        &options,
        "test",
        Arc::clone(&log) as Arc<dyn RequestMetrics>,
    )
    .await
    .unwrap();
    list(&client).await.unwrap();
    harness.write_file("token", "");
    harness.server.refuse(b"Bearer first");
    list(&client).await.unwrap_err();
    tokio::task::yield_now().await;
    passes(PAUSE).await;
    until("trouble is told", || log.last() == Some(false)).await;
    harness.write_file("token", "second");
    list(&client).await.unwrap_err();
    tokio::task::yield_now().await;
    passes(PAUSE).await;
    until("its end is told", || log.last() == Some(true)).await;
    list(&client).await.unwrap();
}

#[tokio::test]
async fn files_that_stay_the_same_cost_no_request() {
    let harness = Harness::new(r#"{client-certificate: client.crt, client-key: client.key}"#).await;
    harness.write("client", &harness.users.client("ccm"));
    let reloading_client = harness.reloading_client().await;
    assert_eq!(reload(&reloading_client).await, Ok(false));
    assert!(harness.server.requests().is_empty());
}

#[tokio::test]
async fn unusable_or_refused_kubeconfig_never_replaces_the_current_one() {
    let harness = Harness::new(r#"{client-certificate: client.crt, client-key: client.key}"#).await;
    let old = harness.users.client("ccm");
    let new = harness.users.client("ccm");
    harness.write("client", &old);
    let reloading_client = harness.reloading_client().await;
    let client = reloading_client.client().0;
    let still_the_old_one = async |what: &str| {
        let problem = reload(&reloading_client).await.expect_err(what);
        assert!(
            !problem.contains("PRIVATE KEY") && !problem.contains('\n'),
            "{problem}"
        );
        harness.server.forget();
        list(&client).await.expect(what);
        assert!(
            harness
                .server
                .requests()
                .iter()
                .all(|requests| requests.by == old.der()),
            "{what}"
        );
        problem
    };
    harness.write_file("client.crt", &new.certificate);
    still_the_old_one("the key is another one's").await;
    harness.write_file("client.key", "half a fi");
    still_the_old_one("there is no key").await;
    std::fs::remove_file(harness.file("client.key")).unwrap();
    still_the_old_one("there is no file").await;
    harness.write("client", &Authority::new("somebody else's").client("ccm"));
    still_the_old_one("the server does not know who issued it").await;
    harness.server.refuse(&new.der());
    harness.write("client", &new);
    let problem = still_the_old_one("the server does not accept it").await;
    assert_eq!(problem, "the API server does not accept the credential");

    harness.server.refuse(b"");
    assert_eq!(
        reload(&reloading_client).await,
        Ok(true),
        "it is accepted at last"
    );
    harness.server.forget();
    list(&client).await.unwrap();
    assert_eq!(harness.server.requests()[0].by, new.der());
}

#[tokio::test]
async fn trouble_is_said_once_and_so_is_its_end() {
    let harness = Harness::new("{tokenFile: token}").await;
    harness.write_file("token", "first");
    let reloading_client = harness.reloading_client().await;
    for (text, expected_text) in [
        ("first", ""),
        ("", "is empty"),
        ("", "StillUnusable"),
        ("first", ""),
        ("", "is empty"),
        ("second", "Reloaded"),
    ] {
        harness.write_file("token", text);
        let result = reloading_client
            .reload_if_changed(reloading_client.cause(&mut Hashes::default()))
            .await;
        let result = result
            .map(|result| format!("{result:?}"))
            .unwrap_or_default();
        assert!(
            result.contains(expected_text) && result.is_empty() == expected_text.is_empty(),
            "{text:?}: {result}"
        );
    }
}

#[tokio::test]
async fn a_token_file_and_a_server_s_new_authority_are_taken_over() {
    let harness = Harness::new("{tokenFile: token}").await;
    harness.write_file("token", "first\n");
    let reloading_client = harness.reloading_client().await;
    let client = reloading_client.client().0;
    let asked_by = async || {
        harness.server.forget();
        list(&client).await.unwrap();
        String::from_utf8(harness.server.requests()[0].by.clone()).unwrap()
    };
    assert_eq!(asked_by().await, "Bearer first");
    harness.write_file("token", "");
    assert!(
        reload(&reloading_client)
            .await
            .unwrap_err()
            .ends_with("token is empty; check the path, and that this user may read it")
    );
    assert_eq!(asked_by().await, "Bearer first");
    harness.write_file("token", " second\n");
    assert_eq!(reload(&reloading_client).await, Ok(true));
    assert_eq!(asked_by().await, "Bearer second");

    let successor = Authority::new("successor");
    harness.server.serve_as(&successor);
    harness.write_file("ca.crt", &successor.pem);
    assert_eq!(reload(&reloading_client).await, Ok(true));
    assert_eq!(asked_by().await, "Bearer second");
}

#[tokio::test]
async fn another_server_or_user_in_the_kubeconfig_is_used_and_not_where_only_the_server_counts() {
    let harness = Harness::new("{token: one}").await;
    let other = Harness::new("{token: two}").await;
    let reloading_client = harness.reloading_client().await;
    let bare = ReloadingClient::new(
        KubeconfigSource {
            with_credential: false,
            ..harness.source()
        },
        Arc::default(),
        Arc::default(),
    )
    .await
    .unwrap();
    for file in ["ca.crt", "kubeconfig"] {
        std::fs::copy(other.file(file), harness.file(file)).unwrap();
    }
    for (reloading_client, expected) in [(reloading_client, "Bearer two"), (bare, "")] {
        other.server.forget();
        assert_eq!(reload(&reloading_client).await, Ok(true));
        list(&reloading_client.client().0).await.unwrap();
        assert!(
            other
                .server
                .requests()
                .iter()
                .all(|requests| requests.by == expected.as_bytes()),
            "{expected}"
        );
        assert!(harness.server.requests().is_empty());
    }
}

/// A user whose plugin shows the file `answer`.
const PLUGIN: &str = r#"{exec: {apiVersion: client.authentication.k8s.io/v1, command: cat, args: [DIRECTORY/answer], interactiveMode: Never}}"#;

fn answer(status: &serde_json::Value) -> String {
    json!({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}).to_string()
}

#[tokio::test]
async fn a_plugin_is_asked_again_before_its_certificate_ends() {
    let harness = Harness::new(PLUGIN).await;
    let give = |issued: &harness::Issued, end: SignedDuration| {
        let end = (Timestamp::now() + end).to_string();
        harness.write_file(
            "answer",
            &answer(&json!({"clientCertificateData": issued.certificate, "clientKeyData": issued.key, "expirationTimestamp": end})),
        );
    };
    let old = harness.users.client("ccm");
    let new = harness.users.client("ccm");
    give(&old, SignedDuration::from_secs(30));
    let reloading_client = harness.reloading_client().await;
    assert_eq!(
        reload(&reloading_client).await,
        Ok(false),
        "the plugin has no other one yet"
    );
    give(&new, SignedDuration::from_hours(1));
    assert_eq!(reload(&reloading_client).await, Ok(true));
    harness.server.forget();
    list(&reloading_client.client().0).await.unwrap();
    assert_eq!(harness.server.requests()[0].by, new.der());
    give(&old, SignedDuration::from_hours(2));
    assert_eq!(reload(&reloading_client).await, Ok(false), "there is time");
}

#[tokio::test]
async fn a_plugin_is_asked_again_when_what_it_gave_is_refused() {
    let harness = Harness::new(PLUGIN).await;
    harness.write_file("answer", &answer(&json!({"token": "one"})));
    let reloading_client = harness.reloading_client().await;
    let client = reloading_client.client().0;
    list(&client).await.unwrap();
    harness.write_file("answer", &answer(&json!({"token": "two"})));
    assert_eq!(
        reload(&reloading_client).await,
        Ok(false),
        "the first one is good"
    );
    harness.server.refuse(b"Bearer one");
    list(&client).await.unwrap_err();
    assert_eq!(reload(&reloading_client).await, Ok(true));
    list(&client).await.unwrap();
}

/// Returns the header that a client sends whose kubeconfig has this user.
async fn authorization(user: &str, file: &str) -> String {
    let harness = Harness::new(user).await;
    harness.write_file("token", file);
    harness.write_file("answer", file);
    let reloading_client = harness.reloading_client().await;
    list(&reloading_client.client().0).await.unwrap();
    String::from_utf8(harness.server.requests()[0].by.clone()).unwrap()
}

#[tokio::test]
async fn a_newline_behind_a_credential_is_no_part_of_it() {
    let plugin = answer(&json!({"token": "s3cr3t\n"}));
    let table = [
        (r#"{token: "s3cr3t\n"}"#, "", "Bearer s3cr3t"),
        (r#"{token: "\r\n s3cr3t \r\n"}"#, "", "Bearer s3cr3t"),
        ("{tokenFile: token}", "s3cr3t\r\n", "Bearer s3cr3t"),
        (PLUGIN, plugin.as_str(), "Bearer s3cr3t"),
        (
            r#"{auth-provider: {name: oidc, config: {id-token: "s3cr3t\n"}}}"#,
            "",
            "Bearer s3cr3t",
        ),
        (
            r#"{username: "admin\n", password: "s3cr3t\n"}"#,
            "",
            "Basic YWRtaW46czNjcjN0",
        ),
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
        (
            PLUGIN,
            plugin.as_str(),
            "the plugin's answer cannot be used: the token has more than one line",
        ),
        (
            r#"{auth-provider: {name: oidc, config: {id-token: "s3\ncr3t"}}}"#,
            "",
            "id-token: the token has more than one line",
        ),
        (
            r#"{auth-provider: {name: gcp, config: {cmd-path: echo, cmd-args: s3cr3t}}}"#,
            "",
            "making a client panicked",
        ),
        (
            r#"{username: "a", password: "s3\ncr3t"}"#,
            "",
            "the password has a control character",
        ),
    ];
    for (user, file, expected) in table {
        let harness = Harness::new(user).await;
        let bad_kubeconfig = std::fs::read_to_string(harness.file("kubeconfig")).unwrap();
        harness.write_file("token", file);
        harness.write_file("answer", file);
        let refused = ReloadingClient::new(harness.source(), Arc::default(), Arc::default())
            .await
            .map(drop)
            .unwrap_err()
            .to_string();
        assert!(
            refused.contains(expected) && !refused.contains("cr3t"),
            "{user}: {refused}"
        );

        let good = Harness::new("{token: good}").await;
        let reloading_client = good.reloading_client().await;
        good.write_file("kubeconfig", &bad_kubeconfig);
        for result in ["Unusable(", "StillUnusable"] {
            good.write_file("token", file);
            let log = reloading_client
                .reload_if_changed(reloading_client.cause(&mut Hashes::default()))
                .await;
            let log = format!("{log:?}");
            assert!(
                log.contains(result) && !log.contains("cr3t"),
                "{user}: {log}"
            );
        }
        list(&reloading_client.client().0).await.unwrap();
        assert_eq!(
            good.server.requests().last().unwrap().by,
            b"Bearer good",
            "{user}"
        );
    }
}

#[tokio::test]
async fn a_port_that_does_not_exist_is_refused_and_the_error_shows_no_password() {
    let harness = Harness::new("{token: one}").await;
    let kubeconfig = std::fs::read_to_string(harness.file("kubeconfig")).unwrap();
    let server = kubeconfig.split('\'').nth(1).unwrap().to_owned();
    let refusal = async |url: &str, more: &str| {
        let changed = kubeconfig.replace(&format!("'{server}'"), &format!("'{url}'{more}"));
        harness.write_file("kubeconfig", &changed);
        ReloadingClient::new(harness.source(), Arc::default(), Arc::default())
            .await
            .map(drop)
            .unwrap_err()
            .to_string()
    };
    let error = refusal("https://admin:s3cr3t@10.0.0.1:99999", "").await;
    assert!(
        error.contains("https://10.0.0.1:99999") && error.contains("from 1 to 65535"),
        "{error}"
    );
    assert!(
        !error.contains("s3cr3t") && !error.contains("admin"),
        "{error}"
    );
    for proxy in [
        "http://admin:s3cr3t@proxy:99999",
        "socks5://admin:s3cr3t@proxy:1080",
        "ftp://admin:s3cr3t@proxy",
    ] {
        let error = refusal(&server, &format!(", proxy-url: '{proxy}'")).await;
        assert!(
            error.contains("proxy") && !error.contains("s3cr3t") && !error.contains("admin"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_server_s_address_without_a_scheme_has_that_of_its_certificates() {
    let harness = Harness::new("{token: one}").await;
    let kubeconfig = std::fs::read_to_string(harness.file("kubeconfig")).unwrap();
    harness.write_file("kubeconfig", &kubeconfig.replace("https://", ""));
    list(&harness.reloading_client().await.client().0)
        .await
        .unwrap();
    harness.write_file(
        "kubeconfig",
        &kubeconfig.replace("https://", "https://admin:s3cr3t@"),
    );
    list(&harness.reloading_client().await.client().0)
        .await
        .unwrap();
    assert!(
        harness
            .server
            .requests()
            .iter()
            .all(|requests| requests.by == b"Bearer one")
    );
}

/// Returns two clusters, and a kubeconfig that changes from the first to the second.
#[tokio::test]
async fn a_kubeconfig_that_leads_to_another_cluster_is_never_used() {
    let harness = Harness::new(r#"{client-certificate: client.crt, client-key: client.key}"#).await;
    harness.write("client", &harness.users.client("ccm"));
    let other = Harness::new(r#"{client-certificate: client.crt, client-key: client.key}"#).await;
    other.write("client", &other.users.client("ccm"));
    let uid = |harness: &Harness| {
        let namespace = harness
            .server
            .api
            .get("namespaces", None, "kube-system")
            .unwrap();
        namespace["metadata"]["uid"].as_str().unwrap().to_owned()
    };
    let options = ClientOptions {
        kubeconfig: Some(harness.file("kubeconfig")),
        ..ClientOptions::default()
    };
    let log = Arc::new(ReloadLog::default());
    let client = crate::client::connect(&options, "test", log.clone())
        .await
        .unwrap();
    list(&client).await.unwrap();
    let identity = crate::cluster::ClusterIdentity::of(Some(uid(&harness)));
    options.require_cluster(&identity);
    let fence = identity.fence(cloud_provider::Fence::open());
    assert!(fence.is_open());

    for name in ["ca.crt", "client.crt", "client.key", "kubeconfig"] {
        std::fs::copy(other.file(name), harness.file(name)).unwrap();
    }
    other.server.forget();
    a_period_passes().await;
    until("it is tried", || log.last().is_some()).await;
    assert_eq!(log.last(), Some(false));
    let refused = identity.refused().await;
    assert_eq!(
        (refused.expected, refused.found),
        (uid(&harness), uid(&other))
    );
    assert!(refused.origin.ends_with("kubeconfig"), "{}", refused.origin);
    assert!(!fence.is_open(), "nothing is changed any more");
    list(&client).await.unwrap();
    let paths: Vec<_> = other
        .server
        .requests()
        .into_iter()
        .map(|requests| requests.path)
        .collect();
    assert_eq!(
        paths,
        ["/version", "/api/v1/namespaces/kube-system"],
        "nothing else is read from the other cluster"
    );
}

#[tokio::test]
async fn a_kubeconfig_that_leads_to_the_same_cluster_is_used_though_the_namespace_may_not_be_read()
{
    let harness = Harness::new(r#"{client-certificate: client.crt, client-key: client.key}"#).await;
    harness.write("client", &harness.users.client("ccm"));
    let reloading_client = harness.reloading_client().await;
    let identity = crate::cluster::ClusterIdentity::of(Some("unknown to the server".to_owned()));
    let forbidden = embedded_apiserver::Action::Status {
        code: 403,
        reason: "Forbidden".into(),
        message: "no".into(),
        retry_after_seconds: None,
    };
    harness.server.api.faults().add(
        embedded_apiserver::Matcher::any().resource("namespaces"),
        forbidden,
    );
    reloading_client
        .required
        .require(&harness.file("kubeconfig"), None, &identity);
    harness.write("client", &harness.users.client("ccm"));
    assert_eq!(reload(&reloading_client).await, Ok(true));
    assert_eq!(identity.other(), None);
}
